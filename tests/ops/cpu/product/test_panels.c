/* Products over packed panels, shared out: the same bits for any number of threads, whichever way the work is cut
 * (blocks of depth one after the other or side by side, groups of panels, pieces of tiles whose copies stay in a
 * thread's scratch), and no item of work that is much longer than a chunk should be. Weights of f16 give the bits of
 * the same weights in f32, and X that is rounded to bf16 those of the same X in bf16.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/cpu/product/panel_plan.h"
#include "ops/cpu/product/panel_problem.h"
#include "tests/suite.h"

#define ROWS(table) (int)(sizeof(table) / sizeof *(table))

typedef struct row {
  const char *what;
  int64_t images, groups, channels, outputs, in[2], taps, stride, pad;
  bool first, pairs, half_x, half_y, curve, f16;
  bool by_depth, pieces, copies; /* cut so with several threads, at level avx2 and above */
  bool parts;                    /* the depth is cut with any number of threads */
  bool residual;
  bool plain; /* shallow tiles run as others do */
  bool far_y; /* they fetch Y, as they do if it is large */
} row;

static const row rows[] = {
    {"a deep product", 1, 1, 2100, 300, {1, 500}, 1, 1, 0, .by_depth = true, .pieces = true},
    {"a product of one block", 1, 1, 500, 1000, {1, 700}, 1, 1, 0, .curve = true, .pieces = true},
    {"windows of one block", 2, 1, 64, 600, {40, 60}, 3, 1, 1, .pieces = true, .copies = true},
    {"windows of several blocks",
     1,
     1,
     256,
     203,
     {23, 20},
     3,
     1,
     1,
     .curve = true,
     .by_depth = true,
     .pieces = true,
     .copies = true},
    {"groups", 1, 2, 130, 100, {30, 33}, 3, 1, 1, .by_depth = true, .copies = true},
    {"a picture", 2, 1, 3, 40, {200, 240}, 3, 2, 1, .first = true, .copies = true},
    {"pairs", 1, 1, 256, 300, {30, 50}, 3, 1, 1, .pairs = true, .by_depth = true, .pieces = true, .copies = true},
    {"pairs of one block", 1, 1, 128, 300, {50, 50}, 1, 1, 0, .pairs = true, .copies = true},
    {"pairs and halves",
     1,
     1,
     256,
     300,
     {30, 50},
     3,
     1,
     1,
     .pairs = true,
     .half_x = true,
     .half_y = true,
     .pieces = true,
     .copies = true},
    {"few results of a long depth", 1, 1, 20003, 33, {1, 17}, 1, 1, 0, .curve = true, .pieces = true, .parts = true},
    {"one row of a long depth", 1, 1, 9000, 331, {1, 1}, 1, 1, 0, .parts = true},
    {"pairs of a long depth", 1, 1, 30000, 20, {1, 9}, 1, 1, 0, .pairs = true, .copies = true, .parts = true},
    {"f16, few results of a long depth", 1, 1, 20003, 40, {1, 7}, 1, 1, 0, .f16 = true, .parts = true},
    {"f16, a deep product", 1, 1, 2100, 300, {1, 500}, 1, 1, 0, .f16 = true, .by_depth = true, .pieces = true},
    {"f16, strips of many tiles", 1, 1, 30, 300, {1, 500}, 1, 1, 0, .f16 = true},
    {"f16, two tiles", 1, 1, 700, 331, {1, 11}, 1, 1, 0, .f16 = true},
    {"f16, one row", 1, 1, 700, 331, {1, 1}, 1, 1, 0, .f16 = true},
    {"f16, windows", 1, 2, 130, 100, {30, 33}, 3, 1, 1, .f16 = true, .by_depth = true, .copies = true},
    {"f16, windows without edges", 1, 1, 64, 300, {40, 60}, 3, 2, 0, .f16 = true},
};

static float number(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

/* n numbers that f16 holds, in f16 or in f32. */
static void *numbers_of_f16(int64_t n, bool f16, uint64_t seed) {
  float *x = malloc((size_t)n * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < n; i++) {
    const uint16_t half = f16_from_f32(number(&seed));
    if (f16) ((uint16_t *)x)[i] = half;
    else x[i] = f16_to_f32(half);
  }
  return x;
}

/* n numbers, of bf16 if `half`. */
static void *numbers(int64_t n, bool half, uint64_t seed) {
  float *x = malloc((size_t)n * sizeof *x);
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < n; i++)
    if (half) ((uint16_t *)x)[i] = bf16_from_f32(number(&seed));
    else x[i] = number(&seed);
  return x;
}

/* widened: weights of f16 are f32. */
static panel_problem problem_of(const row *r, bool widened) {
  const int64_t x_pixel = r->groups * r->channels, y_pixel = r->groups * r->outputs;
  panel_problem p = {.images = r->images,
                     .groups = r->groups,
                     .channels = r->channels,
                     .outputs = r->outputs,
                     .in = {1, r->in[0], r->in[1]},
                     .taps = {1, r->in[0] > 1 ? r->taps : 1, r->taps},
                     .stride = {1, r->stride, r->stride},
                     .dilation = {1, 1, 1},
                     .pad = {0, r->pad, r->pad},
                     .channels_first = r->first,
                     .weights_f16 = r->f16 && !widened,
                     .activation = {.kind = r->curve ? ACTIVATION_SIGMOID : ACTIVATION_RELU, .level = cpu_level_now()}};
  p.out[0] = 1;
  for (int i = 1; i < PANEL_AXES; i++) p.out[i] = (p.in[i] + 2 * p.pad[i] - p.taps[i]) / p.stride[i] + 1;
  p.x_pixel = r->first ? 1 : x_pixel;
  p.x_channel = r->first ? p.in[1] * p.in[2] : 1;
  p.x_row = p.in[2] * p.x_pixel;
  p.x_slab = p.in[1] * p.x_row;
  p.x_image = r->first ? x_pixel * p.x_channel : p.x_slab;
  p.y_pixel = y_pixel;
  p.y_row = p.out[2] * y_pixel;
  p.y_slab = p.y_image = p.out[1] * p.y_row;
  p.weights_group = packed_panels(r->outputs) * PACKED_WIDTH * r->channels * p.taps[1] * p.taps[2];
  if (r->pairs) {
    p.weights_group /= 2;
    panel_problem_pair(&p, (packed_halves){.x = r->half_x, .residual = r->half_y && r->residual, .y = r->half_y});
  }
  return p;
}

/* An item's work is at most twice a chunk's, of a part of the depth five times, but for the smallest items: a tile, or
 * several if sums must be complete. A chunk has two and a half times as much work where units compute whole vectors. */
static void expect_cut(const row *r, const panel_plan *plan) {
  const bool whole = cpu_level_now() >= CPU_AVX512 && cpu_units_now() == CPU_UNITS_WHOLE;
  const int64_t chunk = CPU_WORK_PER_CHUNK * (whole ? 5 : 2) / 2;
  int64_t items = plan->p.groups * plan->n_parts * plan->n_chunks * plan->n_groups * plan->n_pieces *
                  (plan->by_depth ? plan->n_blocks : 1);
  ck_assert_msg(panel_work(&plan->p) <= (r->parts ? 5 : 2) * items * chunk || r->half_y, "%s: %lld items", r->what,
                (long long)items);
  if (whole) return; /* the row's form is that of more chunks */
  ck_assert_msg(plan->by_depth == r->by_depth && (plan->n_pieces > 1) == r->pieces && plan->some_copied == r->copies &&
                    (plan->n_parts > 1) == r->parts,
                "%s: by depth %d, %lld pieces, %lld groups, copies %d, %lld parts", r->what, plan->by_depth,
                (long long)plan->n_pieces, (long long)plan->n_groups, plan->some_copied, (long long)plan->n_parts);
}

/* Y of the row, computed by so many threads. */
static float *run(const row *r, bool widened, int32_t threads, int64_t *out_bytes) {
  const panel_problem p = problem_of(r, widened);
  reed_kernel_env env = {.n_threads = threads};
  const reed_kernel_call call = {.env = &env};
  panel_plan *plan;
  ck_assert_int_eq(panel_plan_open(&call, &p, &plan), REED_OK);
  if (threads == 2 && cpu_level_now() >= CPU_AVX2) expect_cut(r, plan);
  int64_t n_x = r->images * r->in[0] * r->in[1] * r->groups * r->channels, n_y = p.images * p.y_image,
          n_weights = r->groups * p.weights_group * (r->pairs ? 2 : 1);
  float *x = numbers(n_x + 64, r->half_x, 3),
        *weights = r->f16 ? numbers_of_f16(n_weights, p.weights_f16, 5) : numbers(n_weights, r->pairs, 5),
        *bias = numbers(r->groups * r->outputs, false, 7), *y = numbers(n_y, r->half_y, (uint64_t)threads),
        *residual = r->residual ? numbers(n_y, r->half_y, 11) : NULL;
  void *workspace = malloc((size_t)panel_plan_workspace_bytes(plan));
  ck_assert_ptr_nonnull(workspace);
  if (r->plain) plan->shallow = false;
  if (r->far_y) plan->far_y = true;
  ck_assert_int_eq(panel_plan_run(plan, x, weights, bias, residual, y, workspace), REED_OK);
  panel_plan_close(plan);
  free(residual);
  free(workspace);
  free(bias);
  free(weights);
  free(x);
  *out_bytes = n_y * (r->half_y ? 2 : 4);
  return y;
}

START_TEST(threads_change_no_bits) {
  static const int32_t more[] = {2, 3, 5, 7};
  for (int k = 0; k < 2 * CPU_LEVEL_COUNT; k++) {
    const cpu_level level = (cpu_level)(k / 2);
    if (level > cpu_level_best() || (k % 2 && level < CPU_AVX512)) continue;
    cpu_level_use(cpu_level_name(level));
    cpu_units_use(k % 2 ? "whole" : "half");
    if (level < (rows[_i].pairs ? CPU_AVX512_BF16 : rows[_i].f16 ? CPU_AVX2 : CPU_BASE)) continue;
    int64_t bytes;
    float *alone = run(&rows[_i], false, 1, &bytes);
    for (int i = 0; i < ROWS(more); i++) {
      float *shared = run(&rows[_i], false, more[i], &bytes);
      ck_assert_msg(memcmp(alone, shared, (size_t)bytes) == 0, "%s, %d threads, %s", rows[_i].what, more[i],
                    cpu_level_name(level));
      free(shared);
    }
    free(alone);
  }
  cpu_level_use(NULL);
}
END_TEST

/* At AVX-512 a tile of up to 32 outputs is tall, a panel of 33 to 48 has one pass, and two tiles of a wide product's
 * last 16 outputs are one; at AVX2 none is so. Every element is the same sum. _i: pixels of a row. */
START_TEST(narrow_panels_have_the_bits_of_others) {
  static const int64_t outputs[] = {5, 16, 17, 24, 32, 33, 48, 72, 80, 104};
  for (int k = 0; k < 4 * ROWS(outputs) && cpu_level_best() >= CPU_AVX512; k++) {
    const bool windows = k / ROWS(outputs) % 2, first = k / ROWS(outputs) / 2;
    const row r = {.what = "a narrow product",
                   .images = 1,
                   .groups = first ? 1 : 2,
                   .channels = first ? 3 : 21,
                   .outputs = outputs[k % ROWS(outputs)],
                   .in = {windows ? 5 : 1, _i},
                   .taps = windows ? 3 : 1,
                   .stride = 1,
                   .pad = windows,
                   .first = first};
    float *both[2];
    int64_t bytes;
    for (int tall = 0; tall < 2; tall++) {
      cpu_level_use(cpu_level_name(tall ? CPU_AVX512 : CPU_AVX2));
      both[tall] = run(&r, false, 1, &bytes);
    }
    ck_assert_msg(memcmp(both[0], both[1], (size_t)bytes) == 0, "%d outputs, %d taps, channels first %d",
                  (int)r.outputs, (int)r.taps, first);
    free(both[0]);
    free(both[1]);
  }
  cpu_level_use(NULL);
}
END_TEST

/* Tiles of a short depth, with whole vectors of outputs and without, and their edges. _i: pixels of a row. */
START_TEST(shallow_tiles_have_the_bits_of_others) {
  static const int64_t outputs[] = {4, 8, 16, 24, 32, 40, 48, 64, 80, 112, 128, 144};
  static const row forms[] = {
      {"a product", 1, 1, 16, 0, {1, 0}, 1, 1, 0},
      {"a product with a residual", 1, 1, 31, 0, {1, 0}, 1, 1, 0, .residual = true, .curve = true},
      {"windows of a picture", 1, 1, 3, 0, {5, 0}, 3, 2, 1, .first = true, .residual = true},
      {"windows", 2, 1, 3, 0, {4, 0}, 3, 1, 1},
      {"groups", 1, 2, 8, 0, {3, 0}, 1, 2, 0},
      {"f16", 1, 1, 24, 0, {1, 0}, 1, 1, 0, .f16 = true},
      {"pairs", 1, 1, 16, 0, {1, 0}, 1, 1, 0, .pairs = true},
      {"pairs of windows", 1, 1, 6, 0, {5, 0}, 3, 1, 1, .pairs = true, .residual = true},
      {"pairs and halves",
       1,
       1,
       48,
       0,
       {2, 0},
       1,
       1,
       0,
       .pairs = true,
       .half_x = true,
       .half_y = true,
       .residual = true},
  };
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    cpu_level_use(cpu_level_name(level));
    for (int k = 0; k < ROWS(outputs) * ROWS(forms); k++) {
      row r = forms[k / ROWS(outputs)];
      if (level < (r.pairs ? CPU_AVX512_BF16 : r.f16 ? CPU_AVX2 : CPU_BASE)) continue;
      r.outputs = outputs[k % ROWS(outputs)];
      r.in[1] = _i;
      for (int32_t threads = 1; threads < 4; threads += 2) {
        int64_t bytes;
        r.plain = false;
        r.far_y = threads > 1;
        float *shallow = run(&r, false, threads, &bytes);
        r.plain = true;
        float *others = run(&r, false, threads, &bytes);
        ck_assert_msg(memcmp(shallow, others, (size_t)bytes) == 0, "%s, %d outputs, %d threads, %s", r.what,
                      (int)r.outputs, threads, cpu_level_name(level));
        free(shallow);
        free(others);
      }
    }
  }
  cpu_level_use(NULL);
}
END_TEST

START_TEST(weights_of_f16_give_the_bits_of_f32) {
  for (cpu_level level = CPU_AVX2; rows[_i].f16 && level <= cpu_level_best(); level++) {
    cpu_level_use(cpu_level_name(level));
    int64_t bytes;
    float *halves = run(&rows[_i], false, 1, &bytes), *floats = run(&rows[_i], true, 1, &bytes);
    ck_assert_msg(memcmp(halves, floats, (size_t)bytes) == 0, "%s, %s", rows[_i].what, cpu_level_name(level));
    free(halves);
    free(floats);
  }
  cpu_level_use(NULL);
}
END_TEST

/* X that is rounded, several tiles to a copy, has the bits of the same X in bf16, which is read in place or copied tile
 * by tile. _i: pixels of a row. */
START_TEST(rounded_x_has_the_bits_of_bf16) {
  static const row forms[] = {
      {"few channels", 1, 1, 16, 40, {7, 0}, 1, 1, 0},
      {"a matrix", 1, 1, 34, 104, {1, 0}, 1, 1, 0},
      {"one tap of stride 2", 2, 1, 22, 16, {9, 0}, 1, 2, 0},
      {"one tap of stride 3", 1, 1, 64, 70, {6, 0}, 1, 3, 0},
      {"windows", 2, 1, 16, 33, {5, 0}, 3, 1, 1},
      {"windows of stride 2", 1, 1, 18, 64, {9, 0}, 3, 2, 1},
      {"groups", 1, 3, 16, 16, {6, 0}, 3, 1, 1},
      {"cropped windows", 1, 1, 20, 30, {9, 0}, 3, 1, -1},
      {"padded far", 1, 1, 16, 24, {4, 0}, 3, 1, 6},
      {"several blocks", 1, 1, 300, 20, {4, 0}, 3, 1, 1},
  };
  for (int k = 0; k < ROWS(forms) && cpu_level_best() >= CPU_AVX512_BF16; k++) {
    row r = forms[k];
    r.pairs = true;
    r.in[1] = _i;
    int64_t bytes;
    for (int32_t threads = 1; threads < 4; threads += 2) {
      r.half_x = false;
      float *rounded = run(&r, false, threads, &bytes);
      r.half_x = true;
      float *halves = run(&r, false, threads, &bytes);
      ck_assert_msg(memcmp(rounded, halves, (size_t)bytes) == 0, "%s, %d threads", r.what, threads);
      free(rounded);
      free(halves);
    }
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("panels");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, threads_change_no_bits, 0, ROWS(rows));
  tcase_add_loop_test(t, narrow_panels_have_the_bits_of_others, 1, 40);
  tcase_add_loop_test(t, shallow_tiles_have_the_bits_of_others, 3, 40);
  tcase_add_loop_test(t, rounded_x_has_the_bits_of_bf16, 5, 260);
  tcase_add_loop_test(t, weights_of_f16_give_the_bits_of_f32, 0, ROWS(rows));
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
