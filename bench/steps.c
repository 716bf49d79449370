/* Extents and pictures of a benchmark's steps (steps.h). */
#include "bench/steps.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/arguments.h"

typedef struct word {
  int64_t low, high; /* high: of EXTENTS low:high, else low */
  bool grows;
} word;

static const char *read_word(const char *text, word *w) {
  const char *end = strchr(text, '=');
  if (!end || end == text) return "is not SYMBOL=EXTENTS";
  if (!argument_digits(end + 1, &end, &w->low)) return "needs EXTENTS that begin with an integer: 7, 100+ or 32:640";
  w->high = w->low;
  w->grows = *end == '+';
  if (w->grows) end++;
  else if (*end == ':' && !argument_digits(end + 1, &end, &w->high)) return "needs an integer behind the colon";
  if (*end) return "has EXTENTS other than 7 (fixed), 100+ (one more in each step) and 32:640 (drawn)";
  return w->high < w->low               ? "has a range that ends before it begins"
         : w->high - w->low > INT32_MAX ? "has a range of more than 2147483647"
                                        : NULL;
}

const char *steps_fault(const char *text) { return read_word(text, &(word){0}); }

static bool names(const char *text, const char *symbol) {
  size_t n = strlen(symbol);
  return strncmp(text, symbol, n) == 0 && text[n] == '=';
}

/* True if the word names a dim that some input leaves open. */
static bool is_wanted(const char *text, const reed_program *program) {
  for (size_t i = 0; i < reed_program_input_count(program); i++) {
    reed_value_info info;
    if (reed_program_input(program, i, &info) != REED_OK) continue;
    for (int32_t k = 0; k < info.rank; k++)
      if (info.dims[k] < 0 && names(text, info.symbols[k] ? info.symbols[k] : "?")) return true;
  }
  return false;
}

void steps_check(const steps_extents *extents, const reed_program *program) {
  for (int i = 0; i < extents->n; i++) {
    const char *fault = steps_fault(extents->words[i]);
    if (!fault && !is_wanted(extents->words[i], program)) fault = "names no open dim of the model's inputs";
    if (!fault) continue;
    fprintf(stderr, "'%s' %s\n", extents->words[i], fault);
    exit(2);
  }
}

void steps_draw(steps_extents *extents, int64_t step) {
  static unsigned seed = 11;
  for (int i = 0; i < extents->n; i++) {
    word w;
    if (read_word(extents->words[i], &w)) continue;
    extents->drawn[i] = w.low + (w.grows ? step : 0);
    if (w.high > w.low) extents->drawn[i] += (int64_t)((unsigned)rand_r(&seed) % (unsigned)(w.high - w.low + 1));
  }
}

int64_t steps_extent(void *context, const char *symbol) {
  const steps_extents *extents = context;
  if (!symbol) symbol = "?";
  for (int i = 0; i < extents->n; i++)
    if (names(extents->words[i], symbol)) return extents->drawn[i];
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
