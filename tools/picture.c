/* Reading and writing PNG and JPEG by libpng and libjpeg. Both libraries report errors by a long jump, which ends in
 * the function that made the decoder, so that neither library exits or prints. Variables that live across the jump are
 * in a struct of the caller's. */
#include "tools/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

enum { MOST_PIXELS = 1 << 28 };

void picture_fini(rgb_picture *picture) {
  free(picture->pixels);
  *picture = (rgb_picture){0};
}

/* ---- PNG ---- */

typedef struct png_job {
  png_structp png;
  png_infop info;
  const unsigned char *at; /* reading: the rest of the file */
  size_t left;
  char *out; /* writing: the file so far */
  size_t n, capacity;
  uint8_t *pixels;
  png_bytep *rows;
  char message[200];
} png_job;

static void png_failed(png_structp png, png_const_charp message) {
  png_job *job = png_get_error_ptr(png);
  snprintf(job->message, sizeof job->message, "%s", message);
  longjmp(png_jmpbuf(png), 1);
}

static void png_warned(png_structp png, png_const_charp message) { (void)png, (void)message; }

static void png_pull(png_structp png, png_bytep to, size_t n) {
  png_job *job = png_get_io_ptr(png);
  if (n > job->left) png_error(png, "the file ends too early");
  memcpy(to, job->at, n);
  job->at += n;
  job->left -= n;
}

static void png_push(png_structp png, png_bytep from, size_t n) {
  png_job *job = png_get_io_ptr(png);
  if (job->n + n > job->capacity) {
    job->capacity = (job->n + n) * 2;
    char *grown = realloc(job->out, job->capacity);
    if (!grown) png_error(png, "out of memory");
    job->out = grown;
  }
  memcpy(job->out + job->n, from, n);
  job->n += n;
}

static void png_flush_nothing(png_structp png) { (void)png; }

/* Decodes the picture; false: job->message holds the reason. */
static bool png_decode(png_job *job, int *out_width, int *out_height) {
  if (setjmp(png_jmpbuf(job->png))) return false;
  png_set_read_fn(job->png, job, png_pull);
  png_read_info(job->png, job->info);
  png_uint_32 width = png_get_image_width(job->png, job->info), height = png_get_image_height(job->png, job->info);
  if ((uint64_t)width * height > MOST_PIXELS) png_error(job->png, "the picture is too large");
  png_set_expand(job->png);
  png_set_strip_16(job->png);
  png_set_gray_to_rgb(job->png);
  png_set_strip_alpha(job->png);
  png_set_interlace_handling(job->png);
  png_read_update_info(job->png, job->info);
  if (png_get_rowbytes(job->png, job->info) != 3 * (size_t)width)
    png_error(job->png, "the pixels can not be turned into RGB");
  job->pixels = need((size_t)width * height, 3);
  job->rows = need(height, sizeof *job->rows);
  for (png_uint_32 y = 0; y < height; y++) job->rows[y] = job->pixels + 3 * (size_t)width * y;
  png_read_image(job->png, job->rows);
  png_read_end(job->png, NULL);
  *out_width = (int)width;
  *out_height = (int)height;
  return true;
}

static int read_png(const char *name, const void *bytes, size_t n, rgb_picture *out_picture, complaint *c) {
  png_job job = {.at = bytes, .left = n};
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, png_failed, png_warned);
  job.info = job.png ? png_create_info_struct(job.png) : NULL;
  int width = 0, height = 0;
  bool ok = job.info && png_decode(&job, &width, &height);
  png_destroy_read_struct(&job.png, &job.info, NULL);
  free(job.rows);
  if (!ok) {
    free(job.pixels);
    return complain(c, BAD_FILE, "'%s' is a damaged PNG: %s", name, job.message);
  }
  *out_picture = (rgb_picture){width, height, job.pixels};
  return DONE;
}

static bool png_encode(png_job *job, const rgb_picture *picture) {
  if (setjmp(png_jmpbuf(job->png))) return false;
  png_set_write_fn(job->png, job, png_push, png_flush_nothing);
  png_set_IHDR(job->png, job->info, (png_uint_32)picture->width, (png_uint_32)picture->height, 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(job->png, job->info);
  for (int y = 0; y < picture->height; y++)
    png_write_row(job->png, picture->pixels + 3 * (size_t)picture->width * (size_t)y);
  png_write_end(job->png, job->info);
  return true;
}

int picture_write_png(const rgb_picture *picture, char **out_bytes, size_t *out_n, complaint *c) {
  png_job job = {0};
  job.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, png_failed, png_warned);
  job.info = job.png ? png_create_info_struct(job.png) : NULL;
  bool ok = job.info && png_encode(&job, picture);
  png_destroy_write_struct(&job.png, &job.info);
  if (!ok) {
    free(job.out);
    return complain(c, MISUSE, "cannot make a PNG of %dx%d pixels: %s", picture->width, picture->height, job.message);
  }
  *out_bytes = job.out;
  *out_n = job.n;
  return DONE;
}

/* ---- JPEG ---- */

typedef struct jpeg_job {
  struct jpeg_error_mgr errors; /* first: libjpeg hands this back */
  struct jpeg_decompress_struct jpeg;
  jmp_buf leave;
  uint8_t *pixels;
  char message[JMSG_LENGTH_MAX];
} jpeg_job;

static void jpeg_failed(j_common_ptr jpeg) {
  jpeg_job *job = (jpeg_job *)jpeg->err;
  jpeg->err->format_message(jpeg, job->message);
  longjmp(job->leave, 1);
}

/* Warnings have level -1: damage that libjpeg skips. */
static void jpeg_warned(j_common_ptr jpeg, int level) {
  if (level < 0) jpeg->err->num_warnings++;
}

static void jpeg_silent(j_common_ptr jpeg) { (void)jpeg; }

static bool jpeg_decode(jpeg_job *job, const void *bytes, size_t n) {
  if (setjmp(job->leave)) return false;
  jpeg_mem_src(&job->jpeg, bytes, n);
  jpeg_read_header(&job->jpeg, TRUE);
  if ((uint64_t)job->jpeg.image_width * job->jpeg.image_height > MOST_PIXELS) {
    snprintf(job->message, sizeof job->message, "the picture is too large");
    return false;
  }
  job->jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&job->jpeg);
  size_t row = 3 * (size_t)job->jpeg.output_width;
  job->pixels = need(job->jpeg.output_height, row);
  while (job->jpeg.output_scanline < job->jpeg.output_height) {
    JSAMPROW at = job->pixels + row * job->jpeg.output_scanline;
    jpeg_read_scanlines(&job->jpeg, &at, 1);
  }
  jpeg_finish_decompress(&job->jpeg);
  /* libjpeg fills missing parts with grey and gives a warning */
  if (job->errors.num_warnings) snprintf(job->message, sizeof job->message, "data is missing or corrupt");
  return job->errors.num_warnings == 0;
}

static int read_jpeg(const char *name, const void *bytes, size_t n, rgb_picture *out_picture, complaint *c) {
  jpeg_job *job = need(1, sizeof *job);
  job->jpeg.err = jpeg_std_error(&job->errors);
  job->errors.error_exit = jpeg_failed;
  job->errors.output_message = jpeg_silent;
  job->errors.emit_message = jpeg_warned;
  jpeg_create_decompress(&job->jpeg);
  bool ok = jpeg_decode(job, bytes, n);
  *out_picture = (rgb_picture){(int)job->jpeg.output_width, (int)job->jpeg.output_height, job->pixels};
  jpeg_destroy_decompress(&job->jpeg);
  if (!ok) {
    picture_fini(out_picture);
    complain(c, BAD_FILE, "'%s' is a damaged JPEG: %s", name, job->message);
  }
  free(job);
  return ok ? DONE : c->exit_status;
}

int picture_read(const char *name, const void *bytes, size_t n, rgb_picture *out_picture, complaint *c) {
  if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) return read_png(name, bytes, n, out_picture, c);
  if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) return read_jpeg(name, bytes, n, out_picture, c);
  return complain(c, BAD_FILE, "'%s' is neither PNG nor JPEG", name);
}

/* ---- tensors ---- */

int picture_to_tensor(const rgb_picture *picture, const picture_form *form, const reed_value_info *wanted,
                      reed_tensor **out_tensor, complaint *c) {
  bool batch = false, last = false;
  if (form->layout) {
    batch = form->layout[0] == 'n';
    last = strchr(form->layout, 'c') > strchr(form->layout, 'h');
  } else if (wanted && (wanted->rank == 3 || wanted->rank == 4)) {
    const int64_t *dims = wanted->dims + (wanted->rank - 3);
    batch = wanted->rank == 4;
    last = dims[2] == 3 && dims[0] != 3;
  }
  bool as_bytes = wanted && wanted->dtype == REED_U8;
  int64_t height = picture->height, width = picture->width, area = height * width;
  int64_t dims[4] = {1, last ? height : 3, last ? width : height, last ? 3 : width};
  reed_tensor *tensor;
  reed_status status = reed_tensor_open(as_bytes ? REED_U8 : REED_F32, batch ? 4 : 3, batch ? dims : dims + 1, &tensor);
  if (status)
    return complain(c, FAILED_RUN, "a picture of %dx%d: %s", picture->width, picture->height, reed_status_text(status));
  float table[3][256];
  for (int channel = 0; channel < 3; channel++)
    for (int v = 0; v < 256; v++) {
      double std = form->std[channel] != 0 ? form->std[channel] : 1;
      table[channel][v] =
          form->mean[channel] == 0 && std == 1 ? (float)v / 255.0f : (float)((v / 255.0 - form->mean[channel]) / std);
    }
  void *data = reed_tensor_data(tensor);
  for (int64_t i = 0; i < area; i++)
    for (int64_t channel = 0; channel < 3; channel++) {
      uint8_t v = picture->pixels[3 * i + channel];
      int64_t to = last ? 3 * i + channel : channel * area + i;
      if (as_bytes) ((uint8_t *)data)[to] = v;
      else ((float *)data)[to] = table[channel][v];
    }
  *out_tensor = tensor;
  return DONE;
}

static uint8_t to_byte(reed_dtype dtype, const char *element) {
  double v = reed_dtype_read(dtype, element) * (dtype == REED_U8 ? 1 : 255);
  return v <= 0 || v != v ? 0 : v >= 255 ? 255 : (uint8_t)(v + 0.5);
}

int picture_from_tensor(const reed_tensor *tensor, rgb_picture *out_picture, complaint *c) {
  const int64_t *dims = reed_tensor_dims(tensor);
  int32_t rank = reed_tensor_rank(tensor);
  reed_dtype dtype = reed_tensor_dtype(tensor);
  while (rank > 2 && dims[0] == 1) dims++, rank--;
  bool first = rank == 3 && dims[0] == 3, last = !first && rank == 3 && dims[2] == 3;
  if ((rank != 2 && !first && !last) ||
      (dtype != REED_U8 && dtype != REED_F32 && dtype != REED_F16 && dtype != REED_BF16 && dtype != REED_F64) ||
      reed_tensor_elements(tensor) == 0)
    return complain(c, MISUSE,
                    "no picture can be made of this tensor: [3,height,width], [height,width,3] or [height,width] of u8 "
                    "or floats is needed");
  int64_t height = dims[first ? 1 : 0], width = dims[first ? 2 : 1], area = height * width;
  if (area > MOST_PIXELS) return complain(c, MISUSE, "the picture would be too large");
  *out_picture = (rgb_picture){(int)width, (int)height, need((size_t)area, 3)};
  const char *data = reed_tensor_data(tensor);
  int64_t size = (int64_t)reed_dtype_bytes(dtype);
  for (int64_t i = 0; i < area; i++)
    for (int64_t channel = 0; channel < 3; channel++)
      out_picture->pixels[3 * i + channel] = to_byte(dtype, data + size * (first  ? channel * area + i
                                                                           : last ? 3 * i + channel
                                                                                  : i));
  return DONE;
}
