/* Extents and pictures of a benchmark's steps (steps.h). */
#include "bench/steps.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void steps_draw(steps_extents *extents, int64_t step) {
  static unsigned seed = 11;
  for (int i = 0; i < extents->n; i++) {
    const char *text = strchr(extents->words[i], '=');
    char *end;
    int64_t low = strtoll(text ? text + 1 : "", &end, 10);
    extents->drawn[i] = low;
    if (*end == '+') extents->drawn[i] += step;
    if (*end == ':') extents->drawn[i] += (int64_t)((unsigned)rand_r(&seed) % (unsigned)(atoll(end + 1) - low + 1));
  }
}

int64_t steps_extent(void *context, const char *symbol) {
  const steps_extents *extents = context;
  if (!symbol) symbol = "?";
  size_t n = strlen(symbol);
  for (int i = 0; i < extents->n; i++)
    if (strncmp(extents->words[i], symbol, n) == 0 && extents->words[i][n] == '=') return extents->drawn[i];
  fprintf(stderr, "no extents for '%s'\n", symbol);
  exit(2);
}

/* Rectangles and discs. */
static void draw_picture(reed_tensor *t) {
  static unsigned seed = 5;
  float *data = reed_tensor_data(t);
  int64_t height = reed_tensor_dims(t)[1], width = reed_tensor_dims(t)[2], n = 1 + rand_r(&seed) % 21;
  for (int64_t k = 0; k < 3 * height * width; k++) data[k] = 0.1f;
  for (int64_t k = 0; k < n; k++) {
    int64_t radius = 8 + rand_r(&seed) % 20, y = rand_r(&seed) % height, x = rand_r(&seed) % width;
    bool disc = rand_r(&seed) % 2;
    float colour[3] = {0.1f, 0.1f, 0.1f};
    colour[rand_r(&seed) % 3] = 0.9f;
    colour[rand_r(&seed) % 3] = 0.9f;
    for (int64_t v = -radius; v <= radius; v++)
      for (int64_t u = -radius; u <= radius; u++) {
        if (y + v < 0 || y + v >= height || x + u < 0 || x + u >= width) continue;
        if (disc && u * u + v * v > radius * radius) continue;
        for (int c = 0; c < 3; c++) data[(c * height + y + v) * width + x + u] = colour[c];
      }
  }
}

static double random_unit(unsigned *seed) { return (double)rand_r(seed) / RAND_MAX; }

/* As `picture` of models.py: up to 40 rectangles and discs on a shaded ground, then a contrast of 0 to 1. */
static void draw_scene(reed_tensor *picture) {
  static unsigned seed = 5;
  float *data = reed_tensor_data(picture);
  const int64_t *dims = reed_tensor_dims(picture);
  int64_t height = dims[1], width = dims[2], n = rand_r(&seed) % 41;
  double share = random_unit(&seed), least = height < width ? height : width;
  for (int64_t c = 0; c < 3; c++)
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++)
        data[(c * height + y) * width + x] =
            (float)(0.4 + 0.3 * sin((double)x / 37 + (double)c) * cos((double)y / 29 - (double)c));
  for (int64_t k = 0; k < n; k++) {
    double v = random_unit(&seed) * (double)height, u = random_unit(&seed) * (double)width,
           size = 6 + random_unit(&seed) * (least / 4 > 2 ? least / 4 - 2 : 2), colour[3];
    bool disc = rand_r(&seed) % 2;
    for (int c = 0; c < 3; c++) colour[c] = random_unit(&seed);
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++) {
        double a = (double)y - v, b = (double)x - u;
        if (disc ? a * a + b * b >= size * size : fabs(a) >= size || fabs(b) >= size) continue;
        for (int c = 0; c < 3; c++) data[(c * height + y) * width + x] = (float)(colour[c] + 0.1 * sin((double)x / 3));
      }
  }
  for (int64_t i = 0; i < 3 * height * width; i++) data[i] *= (float)share;
}

void input_draw(reed_tensor *t, int kind) {
  if (!kind || reed_tensor_dtype(t) != REED_F32 || reed_tensor_rank(t) != 3 || reed_tensor_dims(t)[0] != 3) return;
  (kind == 1 ? draw_picture : draw_scene)(t);
}
