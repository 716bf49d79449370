/* Drawing detections (draw.h). Everything is blended in 8-bit RGB, and clipped to the picture pixel by pixel. */
#include "tools/draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/font.h"
#include "tools/plain.h"
#include "tools/print.h"

/* ---- finding the parts ---- */

static bool is_float(const reed_tensor *t) {
  reed_dtype d = reed_tensor_dtype(t);
  return d == REED_F32 || d == REED_F16 || d == REED_BF16 || d == REED_F64;
}

static bool is_integer(const reed_tensor *t) { return !is_float(t) && reed_tensor_dtype(t) != REED_BOOL; }

static bool box_like(const reed_tensor *t) {
  return is_float(t) && reed_tensor_rank(t) == 2 && reed_tensor_dims(t)[1] == 4;
}
static bool label_like(const reed_tensor *t) { return is_integer(t) && reed_tensor_rank(t) == 1; }
static bool score_like(const reed_tensor *t) { return is_float(t) && reed_tensor_rank(t) == 1; }
static bool mask_like(const reed_tensor *t) {
  int32_t rank = reed_tensor_rank(t);
  return is_float(t) && (rank == 3 || (rank == 4 && reed_tensor_dims(t)[1] == 1));
}

static const struct part {
  const char *words[2], *what;
  size_t offset;
  bool (*like)(const reed_tensor *);
} parts[] = {
    {{"box", "box"}, "boxes must be floats [n,4]", offsetof(detections, boxes), box_like},
    {{"label", "class"}, "labels must be integers [n]", offsetof(detections, labels), label_like},
    {{"score", "conf"}, "scores must be floats [n]", offsetof(detections, scores), score_like},
    {{"mask", "mask"}, "masks must be floats [n,1,height,width]", offsetof(detections, masks), mask_like},
};
enum { N_PARTS = sizeof parts / sizeof *parts };

int detections_find(const char *const *names, reed_tensor *const *tensors, size_t n, const rgb_picture *picture,
                    detections *out_found, complaint *c) {
  detections found = {0};
  char text[200];
  for (int p = 0; p < N_PARTS; p++) {
    const reed_tensor **slot = (const reed_tensor **)((char *)&found + parts[p].offset);
    for (size_t i = 0; i < n && !*slot; i++)
      if (strcasestr(names[i], parts[p].words[0]) || strcasestr(names[i], parts[p].words[1])) {
        *slot = tensors[i];
        if (!parts[p].like(tensors[i]))
          return complain(c, MISUSE, "cannot draw: output '%s' is %s, but %s", plain(names[i]),
                          tensor_type_text(tensors[i], text, sizeof text), parts[p].what);
      }
    for (size_t i = 0; i < n && !*slot; i++)
      if (parts[p].like(tensors[i])) *slot = tensors[i];
    if (p == 0 && !*slot) return complain(c, MISUSE, "cannot draw: no output looks like boxes (floats [n,4])");
    if (*slot && reed_tensor_dims(*slot)[0] != reed_tensor_dims(found.boxes)[0])
      return complain(c, MISUSE, "cannot draw: %" PRId64 " boxes, but another output is %s",
                      reed_tensor_dims(found.boxes)[0], tensor_type_text(*slot, text, sizeof text));
  }
  if (found.masks) {
    int32_t rank = reed_tensor_rank(found.masks);
    const int64_t *area = reed_tensor_dims(found.masks) + rank - 2;
    if (area[0] != picture->height || area[1] != picture->width)
      return complain(c, MISUSE,
                      "cannot draw: masks of %" PRId64 "x%" PRId64 " pixels do not cover the picture's %dx%d", area[1],
                      area[0], picture->width, picture->height);
  }
  *out_found = found;
  return DONE;
}

/* ---- painting ---- */

typedef struct colour {
  uint8_t r, g, b;
} colour;

/* Twelve hues that can be told apart on most pictures; more detections begin again. */
static const colour palette[] = {{255, 77, 77},   {64, 196, 255}, {120, 220, 80}, {255, 196, 40},
                                 {190, 110, 255}, {255, 130, 40}, {40, 220, 190}, {255, 110, 200},
                                 {90, 130, 255},  {205, 220, 57}, {170, 120, 90}, {150, 190, 210}};

static colour colour_of(int64_t i) { return palette[(size_t)i % (sizeof palette / sizeof *palette)]; }

static void blend(rgb_picture *picture, int64_t x, int64_t y, colour ink, double alpha) {
  if (x < 0 || y < 0 || x >= picture->width || y >= picture->height) return;
  uint8_t *p = picture->pixels + 3 * ((int64_t)picture->width * y + x);
  p[0] = (uint8_t)(p[0] + alpha * (ink.r - p[0]) + 0.5);
  p[1] = (uint8_t)(p[1] + alpha * (ink.g - p[1]) + 0.5);
  p[2] = (uint8_t)(p[2] + alpha * (ink.b - p[2]) + 0.5);
}

static void fill(rgb_picture *picture, int64_t x0, int64_t y0, int64_t x1, int64_t y1, colour ink, double alpha) {
  if (x0 < 0) x0 = 0;
  if (y0 < 0) y0 = 0;
  if (x1 > picture->width) x1 = picture->width;
  if (y1 > picture->height) y1 = picture->height;
  for (int64_t y = y0; y < y1; y++)
    for (int64_t x = x0; x < x1; x++) blend(picture, x, y, ink, alpha);
}

/* Bilinear value of a plane at (x, y) in its own pixels, edges repeated. */
static double sample(double (*at)(const void *plane, int64_t i), const void *plane, int width, int height, double x,
                     double y) {
  x = fmin(fmax(x, 0), width - 1), y = fmin(fmax(y, 0), height - 1);
  int x0 = (int)x, y0 = (int)y, x1 = x0 + (x0 + 1 < width), y1 = y0 + (y0 + 1 < height);
  double fx = x - x0, fy = y - y0;
  int64_t w = width;
  double top = at(plane, w * y0 + x0) * (1 - fx) + at(plane, w * y0 + x1) * fx;
  double bottom = at(plane, w * y1 + x0) * (1 - fx) + at(plane, w * y1 + x1) * fx;
  return top * (1 - fy) + bottom * fy;
}

static double byte_at(const void *plane, int64_t i) { return ((const uint8_t *)plane)[3 * i]; }

static void enlarge(rgb_picture *picture, int scale) {
  rgb_picture big = {picture->width * scale, picture->height * scale, NULL};
  big.pixels = need((size_t)big.width * (size_t)big.height, 3);
  for (int64_t y = 0; y < big.height; y++)
    for (int64_t x = 0; x < big.width; x++)
      for (int channel = 0; channel < 3; channel++)
        big.pixels[3 * (y * big.width + x) + channel] =
            (uint8_t)(sample(byte_at, picture->pixels + channel, picture->width, picture->height,
                             (x + 0.5) / scale - 0.5, (y + 0.5) / scale - 0.5) +
                      0.5);
  picture_fini(picture);
  *picture = big;
}

typedef struct plane {
  reed_dtype dtype;
  const char *data;
} plane;

static double probability_at(const void *p, int64_t i) {
  const plane *m = p;
  double v = reed_dtype_read(m->dtype, m->data + (size_t)i * reed_dtype_bytes(m->dtype));
  return v > 0 ? v : 0;
}

/* Tints the mask's inside (probability above a half), with a soft edge, and draws its outline; only in the box and a
 * margin, which contain the whole mask. */
static void draw_mask(rgb_picture *picture, const double box[4], const reed_tensor *masks, int64_t i, int scale,
                      colour ink) {
  int width = picture->width / scale, height = picture->height / scale;
  reed_dtype dtype = reed_tensor_dtype(masks);
  plane m = {dtype, (const char *)reed_tensor_data(masks) +
                        (size_t)i * (size_t)width * (size_t)height * reed_dtype_bytes(dtype)};
  int64_t margin = 4 * scale, x0 = (int64_t)box[0] - margin, y0 = (int64_t)box[1] - margin,
          x1 = (int64_t)box[2] + margin, y1 = (int64_t)box[3] + margin;
  for (int64_t y = y0 > 0 ? y0 : 0; y < picture->height && y < y1; y++)
    for (int64_t x = x0 > 0 ? x0 : 0; x < picture->width && x < x1; x++) {
      double px = (x + 0.5) / scale - 0.5, py = (y + 0.5) / scale - 0.5,
             p = sample(probability_at, &m, width, height, px, py);
      if (p < 0.35) continue;
      double inside = fmin(1, (p - 0.35) / 0.3), edge = 1 - fmin(1, fabs(p - 0.5) / 0.15);
      blend(picture, x, y, ink, fmin(1, 0.42 * inside + 0.4 * edge));
    }
}

static void draw_box(rgb_picture *picture, const double box[4], int thickness, colour ink) {
  int64_t x0 = (int64_t)floor(box[0]), y0 = (int64_t)floor(box[1]), x1 = (int64_t)ceil(box[2]),
          y1 = (int64_t)ceil(box[3]), t = thickness;
  fill(picture, x0, y0, x1, y0 + t, ink, 1);
  fill(picture, x0, y1 - t, x1, y1, ink, 1);
  fill(picture, x0, y0 + t, x0 + t, y1 - t, ink, 1);
  fill(picture, x1 - t, y0 + t, x1, y1 - t, ink, 1);
}

/* Draws the tag above the box, or inside if there is no room above; moved so that the whole tag is visible. */
static void draw_tag(rgb_picture *picture, const double box[4], const char *text, int size, colour ink) {
  int64_t width = ((int64_t)strlen(text) * FONT_ADVANCE + 3) * size, height = (FONT_HEIGHT + 4) * size;
  int64_t x = (int64_t)floor(box[0]), y = (int64_t)floor(box[1]) - height;
  if (y < 0) y = (int64_t)floor(box[1]);
  if (y + height > picture->height) y = picture->height - height;
  if (x + width > picture->width) x = picture->width - width;
  if (x < 0) x = 0;
  if (y < 0) y = 0;
  fill(picture, x, y, x + width, y + height, ink, 1);
  bool bright = 0.299 * ink.r + 0.587 * ink.g + 0.114 * ink.b > 140;
  colour letters = bright ? (colour){16, 16, 24} : (colour){255, 255, 255};
  for (int64_t k = 0; text[k]; k++)
    for (int gy = 0; gy < FONT_HEIGHT; gy++)
      for (int gx = 0; gx < FONT_WIDTH; gx++)
        if (font_pixel(text[k], gx, gy)) {
          int64_t lx = x + (2 + k * FONT_ADVANCE + gx) * size, ly = y + (2 + gy) * size;
          fill(picture, lx, ly, lx + size, ly + size, letters, 1);
        }
}

static double element(const reed_tensor *t, int64_t i) {
  return reed_dtype_read(reed_tensor_dtype(t),
                         (const char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(reed_tensor_dtype(t)));
}

/* Reads box i; false if its numbers are not finite. Distant corners are moved to just outside the picture, so that they
 * fit an integer. */
static bool read_box(const rgb_picture *picture, const reed_tensor *boxes, int64_t i, int scale, double out_box[4]) {
  for (int k = 0; k < 4; k++) {
    double v = element(boxes, 4 * i + k) * scale;
    if (!isfinite(v)) return false;
    out_box[k] = fmin(fmax(v, -16), (k & 1 ? picture->height : picture->width) + 16);
  }
  return true;
}

void draw_detections(rgb_picture *picture, const detections *found, const char *const *names, size_t n_names, int scale,
                     double min_score) {
  if (scale > 1) enlarge(picture, scale);
  int shorter = picture->width < picture->height ? picture->width : picture->height;
  int size = 1 + shorter / 400, thickness = 1 + shorter / 400;
  int64_t n = reed_tensor_dims(found->boxes)[0];
  /* masks under boxes under tags; best (first) ones last, so that they lie on top */
  for (int layer = 0; layer < 3; layer++)
    for (int64_t i = n - 1; i >= 0; i--) {
      double box[4];
      if (found->scores && !(element(found->scores, i) >= min_score)) continue;
      if (!read_box(picture, found->boxes, i, scale, box)) continue;
      if (layer == 0) {
        if (found->masks) draw_mask(picture, box, found->masks, i, scale, colour_of(i));
        continue;
      }
      if (layer == 1) {
        draw_box(picture, box, thickness, colour_of(i));
        continue;
      }
      char tag[100] = "";
      double label = found->labels ? element(found->labels, i) : -1;
      if (found->labels && label >= 0 && label < (double)n_names)
        snprintf(tag, sizeof tag, "%.60s ", names[(size_t)label]);
      else if (found->labels) snprintf(tag, sizeof tag, "%.0f ", label);
      if (found->scores) snprintf(tag + strlen(tag), sizeof tag - strlen(tag), "%.2f", element(found->scores, i));
      if (*tag) draw_tag(picture, box, tag, size, colour_of(i));
    }
}
