/* Kernels at the bound of a count give the results of the exact call, and their cost follows the true count:
 * NonMaxSuppression touches the bytes of as many boxes, TopK sorts as many keys as the true count needs, PasteMasks
 * writes as many pictures as masks, ScatterElements makes the updates of as many lines, CumSum cuts lines into chunks
 * as if it knew their number, and the convolutions of a mask head for 100 regions do the work of those that are found.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

enum { BOUND = 5000, PADDED = 8192, CLASSES = 2, LIMIT = 40, UNTOUCHED = 0xa5 };

/* Prepares the call and runs its launches. The caller frees the workspace. */
static void run(emulated_call *c, op_id op, const reed_desc *inputs, int32_t n_inputs, const reed_desc *output,
                const reed_room *input_rooms, const reed_room *output_rooms, const void *const *host) {
  c->op = op;
  c->in = inputs;
  c->n_in = n_inputs;
  c->out = output;
  c->in_rooms = input_rooms;
  c->out_rooms = output_rooms;
  c->host = host;
  reed_kernel kernel = emulated_prepare(c);
  const size_t bytes = ((size_t)kernel.workspace_bytes + 64) / 64 * 64;
  c->workspace = aligned_alloc(64, bytes);
  ck_assert_ptr_nonnull(c->workspace);
  memset(c->workspace, UNTOUCHED, bytes);
  emulated_run(c, &kernel);
  kernel.free(kernel.state);
}

/* NonMaxSuppression of n boxes; counted: prepared at the bound. */
static void run_nms(emulated_call *r, int64_t n, bool counted) {
  const int64_t boxes = counted ? BOUND : n, limit = LIMIT;
  const reed_desc inputs[] = {{REED_F32, 3, {1, boxes, 4}},
                              {REED_F32, 3, {1, CLASSES, boxes}},
                              {REED_I64, 1, {1}},
                              {REED_F32, 1, {1}},
                              {REED_F32, 1, {1}}};
  const reed_desc output = {REED_I64, 2, {CLASSES * LIMIT, 3}};
  const reed_room none = {.axis = -1};
  const reed_room rooms[] = {
      {.axis = 1, .capacity = BOUND, .counted = 1}, {.axis = 2, .capacity = BOUND, .counted = 1}, none, none, none};
  const void *const host[] = {NULL, NULL, &limit, NULL, NULL};
  r->count = n;
  run(r, OP_NonMaxSuppression, inputs, 5, &output, counted ? rooms : NULL, counted ? &none : NULL, host);
}

START_TEST(nms_at_a_bound_costs_what_the_true_count_does) {
  static const int64_t counts[] = {0, 1, 3, 2048, 2049, BOUND}; /* up to 2,048 keys are one run */
  static float boxes[BOUND * 4], scores[CLASSES * BOUND];
  const int64_t n = counts[_i], limit = LIMIT;
  const float overlap = 0.5F, least = 0.8F;
  int64_t selected[2][CLASSES * LIMIT * 3];
  emulated_call at_bound = {.inputs = {boxes, scores, &limit, &overlap, &least}}, exact = at_bound;
  at_bound.output = selected[0];
  exact.output = selected[1];
  uint32_t random = 1;
  for (int64_t i = 0; i < n * 4; i++) {
    random = random * 1664525 + 1013904223;
    boxes[i] = (float)(random >> 8) / (float)(1 << 20);
  }
  for (int64_t i = 0; i < n * CLASSES; i++) {
    random = random * 1664525 + 1013904223;
    scores[i] = (float)(random >> 16 & 255) / 256; /* with ties */
  }
  run_nms(&at_bound, n, true);
  int64_t sorted = 2;
  while (sorted < n) sorted *= 2;
  for (int64_t row = 0; row < CLASSES; row++)
    for (int64_t i = sorted * 8; i < (int64_t)PADDED * 8; i++)
      ck_assert_msg(((const uint8_t *)at_bound.workspace)[row * PADDED * 8 + i] == UNTOUCHED,
                    "%lld boxes: key %lld was sorted, too", (long long)n, (long long)i / 8);
  free(at_bound.workspace);
  if (!n) {
    ck_assert_int_eq(at_bound.extent, 0);
    return;
  }
  run_nms(&exact, n, false);
  free(exact.workspace);
  ck_assert_int_eq(at_bound.touched, exact.touched);
  ck_assert_int_eq(at_bound.extent, exact.extent);
  ck_assert_mem_eq(selected[0], selected[1], (size_t)exact.extent * 3 * sizeof(int64_t));
}
END_TEST

/* TopK of at most `k` of n elements. Rows up to 2,048 elements are sorted whole; a block searches rows up to 8,192;
 * longer ones, and those of which more than 2,048 elements are wanted, are spread over blocks. */
static const struct topk_row {
  int64_t bound, k;
} topk_rows[] = {{1000, 10}, {5000, 10}, {5000, 3000}, {20000, 10}, {20000, 9000}};
enum { MOST_ROW = 20000 };

static int topk_way(int64_t extent, int64_t k) { return extent <= 2048 ? 0 : extent <= 8192 && k <= 2048 ? 1 : 2; }

static void run_topk(emulated_call *r, const struct topk_row *row, int64_t n, bool counted) {
  const int64_t extent = counted ? row->bound : n;
  const reed_attr items[] = {{.name = "at_most", .type = REED_ATTR_INT, .i = 1}};
  const reed_desc inputs[] = {{REED_F32, 1, {extent}}, {REED_I64, 1, {1}}},
                  output = {REED_F32, 1, {extent < row->k ? extent : row->k}};
  const reed_room rooms[] = {{.axis = 0, .capacity = row->bound, .counted = 1}, {.axis = -1}},
                  of_output = {.axis = 0, .capacity = row->k, .counted = 2};
  r->count = n;
  r->attrs = &(reed_attrs){items, 1};
  run(r, OP_TopK, inputs, 2, &output, counted ? rooms : NULL, counted ? &of_output : NULL,
      (const void *const[]){NULL, &row->k});
  free(r->workspace);
}

START_TEST(topk_at_a_bound_takes_the_first_of_the_true_count) {
  static const int64_t counts[] = {0, 1, 3, 10, 11, 700, 2048, 2049, 4096, 4097, 5000, 8193, 20000};
  static float x[MOST_ROW], y[2][MOST_ROW];
  const struct topk_row *row = &topk_rows[_i];
  for (int i = 0; i < MOST_ROW; i++) x[i] = (float)(i * 37 % 1009);
  for (size_t k = 0; k < sizeof counts / sizeof *counts && counts[k] <= row->bound; k++) {
    const int64_t n = counts[k], most = n < row->k ? n : row->k;
    emulated_call at_bound = {.inputs = {x}, .output = y[0], .extent = -1}, exact = {.inputs = {x}, .output = y[1]};
    memset(y, UNTOUCHED, sizeof y);
    run_topk(&at_bound, row, n, true);
    if (n) run_topk(&exact, row, n, false);
    ck_assert_int_eq(at_bound.extent, most);
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]); /* the rest of both is untouched */
    /* a row that the exact call sorts whole has digits of its keys counted here: they are read by chunk and digit */
    if (topk_way(row->bound, row->k) == topk_way(n, most)) ck_assert_int_eq(at_bound.touched, exact.touched + 8);
    else ck_assert_int_le(at_bound.touched, 10 * exact.touched + 32768);
  }
}
END_TEST

enum { MOST_MASKS = 6, SIDE = 5, HEIGHT = 21, WIDTH = 17 };

static void run_paste(emulated_call *r, int64_t n, bool counted) {
  const int64_t masks = counted ? MOST_MASKS : n, height = HEIGHT, width = WIDTH;
  const reed_desc inputs[] = {
      {REED_F32, 4, {masks, 1, SIDE, SIDE}}, {REED_I64, 2, {masks, 4}}, {REED_I64, 0, {0}}, {REED_I64, 0, {0}}};
  const reed_desc output = {REED_F32, 3, {masks, HEIGHT, WIDTH}};
  const reed_room none = {.axis = -1}, of_masks = {.axis = 0, .capacity = MOST_MASKS, .counted = 1};
  const reed_room rooms[] = {of_masks, of_masks, none, none};
  const void *const host[] = {NULL, NULL, &height, &width};
  r->count = n;
  run(r, OP_PasteMasks, inputs, 4, &output, counted ? rooms : NULL, counted ? &of_masks : NULL, host);
  free(r->workspace);
}

/* _i masks */
START_TEST(masks_at_a_bound_are_pasted_into_as_many_pictures) {
  enum { PICTURE = HEIGHT * WIDTH };
  static float masks[MOST_MASKS * SIDE * SIDE], pictures[2][MOST_MASKS * PICTURE];
  static const int64_t boxes[MOST_MASKS * 4] = {2, 3, 9,  12, -4, -2, 5,  8,  3, 3, 3,  3,
                                                0, 0, 16, 20, 10, 15, 40, 33, 8, 9, 12, 11};
  emulated_call at_bound = {.inputs = {masks, boxes}, .output = pictures[0]}, exact = at_bound;
  exact.output = pictures[1];
  for (int i = 0; i < MOST_MASKS * SIDE * SIDE; i++) masks[i] = (float)(i * 7 % 23) / 23;
  memset(pictures, UNTOUCHED, sizeof pictures);
  run_paste(&at_bound, _i, true);
  if (_i) run_paste(&exact, _i, false);
  ck_assert_mem_eq(pictures[0], pictures[1], sizeof pictures[0]); /* the rest of both is untouched */
}
END_TEST

enum { MOST_LINES = 40, COLUMNS = 6 };

/* bound < 0: the extents are exact. */
static void run_scatter(emulated_call *r, int64_t n, const char *reduction, int64_t bound) {
  const bool counted = bound >= 0;
  const int64_t lines = counted ? bound : n;
  const reed_attr items[] = {{.name = "axis", .type = REED_ATTR_INT, .i = 1},
                             {.name = "reduction", .type = REED_ATTR_STRING, .s = reduction}};
  const reed_desc inputs[] = {
      {REED_F32, 2, {lines, COLUMNS}}, {REED_I64, 2, {lines, COLUMNS}}, {REED_F32, 2, {lines, COLUMNS}}};
  const reed_room of_lines = {.axis = 0, .capacity = bound, .counted = 1}, rooms[] = {of_lines, of_lines, of_lines};
  r->count = n;
  r->attrs = &(reed_attrs){items, 2};
  run(r, OP_ScatterElements, inputs, 3, &inputs[0], counted ? rooms : NULL, counted ? &of_lines : NULL, NULL);
  free(r->workspace);
}

/* Indices beyond the true count are no fault. */
START_TEST(updates_at_a_bound_are_those_of_the_true_count) {
  static const char *const reductions[] = {"none", "add"};
  static const int64_t counts[] = {0, 1, 17, MOST_LINES};
  static float data[MOST_LINES * COLUMNS], updates[MOST_LINES * COLUMNS], y[2][MOST_LINES * COLUMNS];
  static int64_t indices[MOST_LINES * COLUMNS];
  for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
    const int64_t n = counts[k];
    emulated_call at_bound = {.inputs = {data, indices, updates}, .output = y[0]}, exact = at_bound;
    exact.output = y[1];
    for (int64_t i = 0; i < MOST_LINES * COLUMNS; i++) {
      data[i] = (float)(i % 5);
      updates[i] = (float)(i * 7 % 23);
      indices[i] = i < n * COLUMNS ? i * 5 % COLUMNS - i % 2 : COLUMNS + 1;
    }
    memset(y, UNTOUCHED, sizeof y);
    run_scatter(&at_bound, n, reductions[_i], MOST_LINES);
    if (n) run_scatter(&exact, n, reductions[_i], -1);
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]); /* the rest of both is untouched */
    ck_assert_int_le(at_bound.touched, exact.touched + 16);
  }
}
END_TEST

/* The launch that begins has a thread even so. */
START_TEST(a_bound_of_0_has_no_updates) {
  static float data[1], y[1] = {5};
  static int64_t indices[1] = {7};
  emulated_call c = {.inputs = {data, indices, data}, .output = y};
  run_scatter(&c, 0, _i ? "add" : "none", 0);
  ck_assert_float_eq(y[0], 5);
}
END_TEST

enum { MOST_SUMMED = 300, LINE = 2100 }; /* more lines, and a longer one, than CumSum cuts whole lines for */

static void run_cumsum(emulated_call *r, int64_t n, bool counted) {
  const reed_desc inputs[] = {{REED_F32, 2, {counted ? MOST_SUMMED : n, LINE}}, {REED_I64, 0}};
  const reed_room of_lines = {.axis = 0, .capacity = MOST_SUMMED, .counted = 1}, rooms[] = {of_lines, {.axis = -1}};
  r->count = n;
  run(r, OP_CumSum, inputs, 2, &inputs[0], counted ? rooms : NULL, counted ? &of_lines : NULL, NULL);
  free(r->workspace);
}

/* The bound has so many lines that each would be summed whole, the true count so few that they are cut. */
START_TEST(sums_at_a_bound_are_cut_as_those_of_the_true_count) {
  static const int64_t counts[] = {1, 3};
  static float x[MOST_SUMMED * LINE], y[2][MOST_SUMMED * LINE];
  const int64_t n = counts[_i], axis = 1;
  emulated_call at_bound = {.inputs = {x, &axis}, .output = y[0]}, exact = at_bound;
  exact.output = y[1];
  for (int64_t i = 0; i < n * LINE; i++) x[i] = (float)(i * 31 % 1009) * 1e-3F - 0.3F;
  memset(y, UNTOUCHED, sizeof y);
  run_cumsum(&at_bound, n, true);
  run_cumsum(&exact, n, false);
  ck_assert_mem_eq(y[0], y[1], sizeof y[0]); /* the rest of both is untouched */
}
END_TEST

/* ---- a mask head ---- */

enum { REGIONS = 100, CELLS = 7, CHANNELS = 8, HEAD_ELEMENTS = REGIONS * 4 * CELLS * CELLS * CHANNELS };

typedef struct head_work {
  int64_t touched, blocks; /* bytes; blocks that touch any */
} head_work;

/* An operator of the head, with channels last: a convolution with neighbours, a transposed one that doubles the sides,
 * a convolution of single pixels; and a deformable convolution, whose offsets are counted as its images are. */
static const struct head_step {
  op_id op;
  int64_t kernel, stride, pad;
} head_steps[] = {{OP_Conv, 3, 1, 1}, {OP_ConvTranspose, 2, 2, 0}, {OP_Conv, 1, 1, 0}, {OP_DeformConv, 3, 1, 1}};
enum { HEAD_STEPS = sizeof head_steps / sizeof *head_steps };

static head_work run_head(const struct head_step *step, int64_t n, bool counted, float *y) {
  static float x[HEAD_ELEMENTS], w[CHANNELS * CHANNELS * 9], bias[CHANNELS];
  const bool deforms = step->op == OP_DeformConv;
  const int64_t regions = counted ? REGIONS : n, side = CELLS * step->stride;
  const int64_t pads[] = {step->pad, step->pad, step->pad, step->pad}, strides[] = {step->stride, step->stride};
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = pads, .n = 4},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = strides, .n = 2}};
  const reed_desc in[] = {{REED_F32, 4, {regions, CELLS, CELLS, CHANNELS}},
                          {REED_F32, 4, {CHANNELS, CHANNELS, step->kernel, step->kernel}},
                          {REED_F32, 1, {CHANNELS}}},
                  deform[] = {in[0], in[1], {REED_F32, 4, {regions, CELLS, CELLS, 18}}, in[2]},
                  out = {REED_F32, 4, {regions, side, side, CHANNELS}};
  const reed_room counts = {.axis = 0, .capacity = REGIONS, .counted = 1}, none = {.axis = -1},
                  rooms[] = {counts, none, deforms ? counts : none, none};
  for (int i = 0; i < HEAD_ELEMENTS; i++) x[i] = (float)(i * 29 % 31) / 16 - 1;
  for (int i = 0; i < CHANNELS * CHANNELS * 9; i++) w[i] = (float)(i * 13 % 17) / 16 - 0.5F;
  emulated_call c = {.op = step->op,
                     .attrs = &(reed_attrs){items, 3},
                     .in = deforms ? deform : in,
                     .out = &out,
                     .n_in = deforms ? 4 : 3,
                     .in_rooms = counted ? rooms : NULL,
                     .out_rooms = counted ? rooms : NULL,
                     .inputs = {x, w, deforms ? x : bias, bias},
                     .output = y,
                     .count = n};
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  head_work work = {0};
  ck_assert_int_eq(kernel.workspace_bytes, 0);
  for (uint32_t i = 0; i < plan->n_launches; i++) {
    const uint32_t *grid = plan->launches[i].grid;
    const uint64_t n_blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t block = 0; block < n_blocks; block++) {
      const int64_t before = c.touched;
      c.blocks = &block;
      c.n_blocks = 1;
      emulated_launch(&c, plan, &plan->launches[i]);
      work.blocks += c.touched > before;
    }
  }
  work.touched = c.touched;
  kernel.free(kernel.state);
  return work;
}

START_TEST(a_mask_head_at_a_bound_does_the_work_of_the_true_count) {
  static const int64_t counts[] = {0, 1, 3};
  static float y[2][HEAD_ELEMENTS];
  const struct head_step *step = &head_steps[_i];
  for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
    const int64_t n = counts[k];
    memset(y, UNTOUCHED, sizeof y);
    const head_work at_bound = run_head(step, n, true, y[0]),
                    exact = n ? run_head(step, n, false, y[1]) : (head_work){0};
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]); /* the rest of both is untouched */
    ck_assert_msg(at_bound.touched == exact.touched && at_bound.blocks == exact.blocks,
                  "%lld regions: %lld bytes in %lld blocks, not %lld in %lld", (long long)n,
                  (long long)at_bound.touched, (long long)at_bound.blocks, (long long)exact.touched,
                  (long long)exact.blocks);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("bounded");
  TCase *t = tcase_create("bounded");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, nms_at_a_bound_costs_what_the_true_count_does, 0, 6);
  tcase_add_loop_test(t, topk_at_a_bound_takes_the_first_of_the_true_count, 0, 5);
  tcase_add_loop_test(t, masks_at_a_bound_are_pasted_into_as_many_pictures, 0, MOST_MASKS + 1);
  tcase_add_loop_test(t, a_bound_of_0_has_no_updates, 0, 2);
  tcase_add_loop_test(t, updates_at_a_bound_are_those_of_the_true_count, 0, 2);
  tcase_add_loop_test(t, sums_at_a_bound_are_cut_as_those_of_the_true_count, 0, 2);
  tcase_add_loop_test(t, a_mask_head_at_a_bound_does_the_work_of_the_true_count, 0, HEAD_STEPS);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
