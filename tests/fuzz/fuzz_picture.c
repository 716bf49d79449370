/* PNG and JPEG files. A picture that was read becomes a tensor, a picture again, and a PNG file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "tests/fuzz/fuzz.h"
#include "tools/picture.h"

const fuzz_target fuzz_this = {"picture", FUZZ_BYTES};

/* A JPEG file of these rows. */
static void seed_jpeg(fuzz_corpus *corpus, const uint8_t *pixels, int width, int height, int components,
                      bool progressive) {
  struct jpeg_compress_struct jpeg;
  struct jpeg_error_mgr errors;
  unsigned char *file = NULL;
  unsigned long n = 0;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &file, &n);
  jpeg.image_width = (JDIMENSION)width;
  jpeg.image_height = (JDIMENSION)height;
  jpeg.input_components = components;
  jpeg.in_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  if (progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < height; y++) {
    JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + y * width * components);
    (void)jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  fuzz_seed(corpus, file, n, n);
  free(file);
}

/* libpng stops at a chunk whose checksum is wrong: all checksums are made right, so that the bytes after them are read.
 */
static void repair_png(uint8_t *bytes, size_t n) {
  for (size_t at = 8; n >= 12 && at <= n - 12;) {
    uint32_t length = (uint32_t)bytes[at] << 24 | (uint32_t)bytes[at + 1] << 16 | (uint32_t)bytes[at + 2] << 8 |
                      bytes[at + 3],
             crc = ~0u;
    if (length > n - at - 12) return;
    for (size_t i = at + 4; i < at + 8 + length; i++) { /* CRC-32 (PNG specification, annex D) */
      crc ^= bytes[i];
      for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    for (int k = 0; k < 4; k++) bytes[at + 8 + length + (size_t)k] = (uint8_t)(~crc >> (24 - 8 * k));
    at += 12 + length;
  }
}

void fuzz_seeds(fuzz_corpus *corpus) {
  uint8_t pixels[3 * 7 * 5];
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 29);
  rgb_picture picture = {.width = 7, .height = 5, .pixels = pixels};
  char *file;
  size_t n;
  complaint c;
  if (picture_write_png(&picture, &file, &n, &c) == DONE) {
    fuzz_seed(corpus, file, n, n);
    free(file);
  }
  fuzz_seed_folder(corpus, fuzz_source("examples/shapes"), "empty_224x256.png", 4096);
  for (int kind = 0; kind < 4; kind++) seed_jpeg(corpus, pixels, 7, 5, kind & 1 ? 1 : 3, kind & 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  rgb_picture picture;
  complaint c;
  uint8_t *repaired = malloc(n ? n : 1);
  memcpy(repaired, bytes, n);
  if (n > 8 && bytes[0] == 0x89) repair_png(repaired, n);
  int status = picture_read("fuzz.png", repaired, n, &picture, &c);
  free(repaired);
  fuzz_seen((reed_status)status, status == DONE ? "read" : c.text);
  if (status == DONE) {
    fuzz_accepted();
    reed_tensor *tensor;
    rgb_picture again;
    if ((int64_t)picture.width * picture.height < 1 << 16 &&
        picture_to_tensor(&picture, &(picture_form){.layout = "nhwc"}, NULL, &tensor, &c) == DONE) {
      char *file;
      size_t n_file;
      if (picture_from_tensor(tensor, &again, &c) == DONE) {
        if (picture_write_png(&again, &file, &n_file, &c) == DONE) free(file);
        picture_fini(&again);
      }
      reed_tensor_close(&tensor);
    }
    picture_fini(&picture);
  }
  fuzz_heap_end();
  return 0;
}
