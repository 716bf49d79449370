/* NonMaxSuppression's matrix of overlaps: the number of its blocks, and rows whose best boxes alone have a matrix. The
 * operator's cases: tests/ops/cpu/image/test_nms.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

enum { CLASSES = 2, BOXES = 330, LIMIT = 200 };

static const int64_t limit = LIMIT;

static void describe(emulated_call *c, int64_t rows, int64_t boxes, reed_desc inputs[5], reed_desc *output) {
  const reed_desc all[] = {{REED_F32, 3, {1, boxes, 4}},
                           {REED_F32, 3, {1, rows, boxes}},
                           {REED_I64, 1, {1}},
                           {REED_F32, 1, {1}},
                           {REED_F32, 1, {1}}};
  static const void *const host[] = {NULL, NULL, &limit, NULL, NULL};
  memcpy(inputs, all, sizeof all);
  *output = (reed_desc){REED_I64, 2, {rows * (boxes < LIMIT ? boxes : LIMIT), 3}};
  c->op = OP_NonMaxSuppression;
  c->in = inputs;
  c->n_in = 5;
  c->out = output;
  c->host = host;
}

static const cuda_launch *launch_of(const cuda_prepared *plan, cuda_kernel_id kernel) {
  for (uint32_t i = 0; i < plan->n_launches; i++)
    if (plan->launches[i].kernel == kernel) return &plan->launches[i];
  return NULL;
}

START_TEST(overlaps_are_found_by_many_blocks) {
  static const struct {
    int64_t rows, boxes, blocks;
  } rows[] = {{5, 1000, 5 * 16 * 17 / 2}, {1, 64, 2}, {1, 65, 3}, {3, 130, 3 * 8}, {1, 20000, 132 * 16}};
  emulated_call c = {0};
  reed_desc inputs[5], output;
  describe(&c, rows[_i].rows, rows[_i].boxes, inputs, &output);
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_launch *mask = launch_of(kernel.state, CUDA_nms_mask);
  ck_assert_ptr_nonnull(mask);
  ck_assert_int_eq(mask->grid[0], rows[_i].blocks);
  ck_assert_int_le(kernel.workspace_bytes, (int64_t)17 << 20);
  kernel.free(kernel.state);
}
END_TEST

/* Runs the call with a matrix of `tiles` tiles at most. few_blocks: each block makes several tiles of the matrix. */
static void run(emulated_call *c, int64_t rows, int64_t tiles, bool few_blocks) {
  reed_kernel kernel = emulated_prepare(c);
  const cuda_prepared *plan = kernel.state;
  c->workspace = aligned_alloc(64, ((size_t)kernel.workspace_bytes + 63) / 64 * 64);
  ck_assert_ptr_nonnull(c->workspace);
  for (uint32_t i = 0; i < plan->n_launches; i++) {
    cuda_launch launch = plan->launches[i];
    nms_args *args = (nms_args *)(uintptr_t)(plan->args + launch.args_at);
    if (args->tiles > tiles) args->tiles = tiles;
    if (launch.kernel == CUDA_nms_mask) {
      launch.grid[0] = few_blocks ? 3 : (uint32_t)(rows * ((args->tiles + 1) / 2) * (args->tiles + 1));
      if (!args->tiles) continue;
    }
    emulated_launch(c, plan, &launch);
  }
  kernel.free(kernel.state);
  free(c->workspace);
}

START_TEST(boxes_behind_the_matrix_are_compared_one_by_one) {
  static float boxes[BOXES * 4], scores[CLASSES * BOXES];
  const float overlap = 0.45F, least = 0.05F;
  int64_t selected[2][CLASSES * LIMIT * 3];
  emulated_call whole = {.inputs = {boxes, scores, &limit, &overlap, &least}}, part = whole;
  reed_desc inputs[5], output;
  uint32_t random = 7;
  for (int i = 0; i < BOXES; i++)
    for (int k = 0; k < 4; k++) {
      random = random * 1664525 + 1013904223;
      boxes[4 * i + k] = (float)(random >> 24) / 8 + (k < 2 ? 0 : 24);
    }
  for (int i = 0; i < CLASSES * BOXES; i++) {
    random = random * 1664525 + 1013904223;
    scores[i] = (float)(random >> 16 & 127) / 128; /* with ties */
  }
  describe(&whole, CLASSES, BOXES, inputs, &output);
  describe(&part, CLASSES, BOXES, inputs, &output);
  whole.output = selected[0];
  part.output = selected[1];
  part.order = (uint64_t)_i;
  run(&whole, CLASSES, BOXES, _i % 2);
  ck_assert_int_gt(whole.extent, CLASSES * NMS_CHUNK); /* so that kept boxes of several tiles count */
  ck_assert_int_lt(whole.extent, CLASSES * LIMIT);
  run(&part, CLASSES, _i, false);
  ck_assert_int_eq(whole.extent, part.extent);
  ck_assert_mem_eq(selected[0], selected[1], (size_t)whole.extent * 3 * sizeof(int64_t));
}
END_TEST

/* The places of a row's boxes come after those of all rows before, whichever thread has counted first. */
START_TEST(rows_find_their_places) {
  enum { ROWS = 5, FEW = 6 };
  float boxes[FEW * 4], scores[ROWS * FEW];
  const float overlap = 0.5F, least = 0;
  int64_t selected[ROWS * FEW * 3];
  emulated_call c = {.inputs = {boxes, scores, &limit, &overlap, &least}, .output = selected, .order = (uint64_t)_i};
  reed_desc inputs[5], output;
  for (int i = 0; i < FEW; i++)
    for (int k = 0; k < 4; k++) boxes[4 * i + k] = (float)(10 * i + (k < 2 ? 0 : 5)); /* none overlaps another */
  for (int i = 0; i < ROWS * FEW; i++) scores[i] = (float)(i % FEW + 1);
  describe(&c, ROWS, FEW, inputs, &output);
  run(&c, ROWS, BOXES, false);
  ck_assert_int_eq(c.extent, ROWS * FEW);
  for (int i = 0; i < ROWS * FEW; i++) {
    ck_assert_int_eq(selected[3 * i + 1], i / FEW);
    ck_assert_int_eq(selected[3 * i + 2], FEW - 1 - i % FEW);
  }
}
END_TEST

enum { MANY = 20011 };

/* The sort alone: every box once, the higher score first. */
START_TEST(many_boxes_are_sorted_by_many_blocks) {
  static const int64_t counts[] = {5003, MANY};
  static float boxes[MANY * 4], scores[MANY];
  const int64_t n = counts[_i];
  emulated_call c = {.inputs = {boxes, scores, &limit, boxes, boxes}, .order = (uint64_t)_i};
  reed_desc inputs[5], output;
  for (int64_t i = 0; i < n; i++) scores[i] = (float)(i * 2503 % n + 1); /* 2503 and n have no common divisor */
  describe(&c, 1, n, inputs, &output);
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_int_eq(launch_of(plan, CUDA_nms_sort)->grid[0], _i ? 16 : 4);
  c.workspace = aligned_alloc(64, ((size_t)kernel.workspace_bytes + 63) / 64 * 64);
  ck_assert_ptr_nonnull(c.workspace);
  for (uint32_t i = 0; i < plan->n_launches; i++)
    if (plan->launches[i].kernel == CUDA_nms_sort || plan->launches[i].kernel == CUDA_nms_merge)
      emulated_launch(&c, plan, &plan->launches[i]);
  /* one merge of 8,192 keys into the second memory, or two of 32,768 keys back into the first one */
  const uint64_t *const keys = (const uint64_t *)c.workspace + (_i ? 0 : 8192);
  for (int64_t k = 0; k < n; k++) {
    const int64_t box = (int64_t)(keys[k] & 0xffffffffu);
    ck_assert_int_lt(box, n);
    ck_assert_int_eq((int64_t)scores[box], n - k);
  }
  kernel.free(kernel.state);
  free(c.workspace);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nms");
  TCase *t = tcase_create("nms");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, overlaps_are_found_by_many_blocks, 0, 5);
  tcase_add_loop_test(t, boxes_behind_the_matrix_are_compared_one_by_one, 0, 5);
  tcase_add_loop_test(t, rows_find_their_places, 0, 5);
  tcase_add_loop_test(t, many_boxes_are_sorted_by_many_blocks, 0, 2);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
