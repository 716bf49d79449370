/* Kernels at the bound of a count give the results of the exact call, and their cost follows the true count:
 * NonMaxSuppression sorts as many keys as this needs, PasteMasks writes as many pictures. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "device/cuda/kernels/kernel.h"
#include "device/cuda/kernels/operators.h"
#include "device/cuda/simt/simt.h"
#include "ops/kernel.h"
#include "tests/suite.h"

extern const simt_kernel simt_kernels[];

enum { BOUND = 5000, PADDED = 8192, CLASSES = 2, LIMIT = 40, UNTOUCHED = 0xa5 };

/* One run: what the kernel has and gives. */
typedef struct kernel_run {
  const void *inputs[5];
  void *output;
  int64_t extent, count;
  uint8_t *workspace;
} kernel_run;

static char *address(kernel_run *r, const cuda_pointer *p) {
  switch ((cuda_source)p->source) {
    case CUDA_FROM_INPUT: return (char *)(uintptr_t)r->inputs[p->index];
    case CUDA_FROM_OUTPUT: return r->output;
    case CUDA_FROM_WORKSPACE: return (char *)r->workspace;
    case CUDA_FROM_EXTENT: return (char *)&r->count;
    case CUDA_FROM_EXTENTS: return (char *)&r->extent;
    case CUDA_FROM_FAULT:
    case CUDA_FROM_NUMBER: break;
  }
  ck_abort_msg("a pointer that these kernels have no use for");
  return NULL;
}

static void launch(kernel_run *r, const cuda_prepared *plan, const cuda_launch *l) {
  char args[CUDA_MAX_ARGS_BYTES] __attribute__((aligned(16))), said[512] = "";
  simt_operand operands[16];
  int32_t n = 0;
  memcpy(args, plan->args + l->args_at, cuda_kernel_infos[l->kernel].args_bytes);
  for (uint32_t i = 0; i < l->n_pointers; i++) {
    const cuda_pointer *p = &plan->pointers[l->first_pointer + i];
    char *data = p->bytes ? address(r, p) + p->offset : NULL;
    memcpy(args + p->field, &data, sizeof data);
    if (data) operands[n++] = (simt_operand){data, p->bytes, p->written};
  }
  const simt_launch made = {.kernel = &simt_kernels[l->kernel],
                            .grid = {l->grid[0], l->grid[1], l->grid[2]},
                            .block = {cuda_kernel_infos[l->kernel].threads, 1, 1},
                            .shared_bytes = l->shared_bytes,
                            .shared_limit = SIMT_SHARED_MOST,
                            .args = args,
                            .operands = operands,
                            .n_operands = n};
  ck_assert_msg(simt_run(&made, said, sizeof said), "%s", said);
}

/* Prepares a call and runs its launches. The caller frees the workspace. */
static void run(kernel_run *r, op_id op, const reed_desc *inputs, int32_t n_inputs, const reed_desc *output,
                const reed_room *input_rooms, const reed_room *output_rooms, const void *const *host) {
  const bool constant[5] = {false};
  reed_diagnosis diagnosis = {0};
  reed_attr completed[16];
  const reed_attrs given = {NULL, 0}, attrs = op_attrs_complete(op_builtin(op), &given, completed);
  const reed_kernel_call call = {.op = op_builtin(op),
                                 .attrs = &attrs,
                                 .node = "node",
                                 .n_inputs = n_inputs,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .outputs = output,
                                 .input_rooms = input_rooms,
                                 .output_rooms = output_rooms,
                                 .host_values = host,
                                 .constant = constant,
                                 .env = &(reed_kernel_env){.n_threads = 1},
                                 .diagnosis = &diagnosis};
  reed_kernel kernel = {0};
  ck_assert_msg(cuda_kernel_of(call.op, CUDA_MATH_PLAIN)(&call, &kernel) == REED_OK, "%s",
                reed_diagnosis_message(&diagnosis));
  const size_t bytes = ((size_t)kernel.workspace_bytes + 64) / 64 * 64;
  r->workspace = aligned_alloc(64, bytes);
  ck_assert_ptr_nonnull(r->workspace);
  memset(r->workspace, UNTOUCHED, bytes);
  const cuda_prepared *plan = kernel.state;
  for (uint32_t i = 0; i < plan->n_launches; i++) launch(r, plan, &plan->launches[i]);
  kernel.free(kernel.state);
}

/* NonMaxSuppression of n boxes; counted: prepared at the bound. */
static void run_nms(kernel_run *r, int64_t n, bool counted) {
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

START_TEST(the_sort_at_a_bound_costs_what_the_true_count_does) {
  static const int64_t counts[] = {0, 1, 3, 4096, 4097, BOUND}; /* up to 4,096 keys are sorted in shared memory */
  static float boxes[BOUND * 4], scores[CLASSES * BOUND];
  const int64_t n = counts[_i], limit = LIMIT;
  const float overlap = 0.5F, least = 0.1F;
  int64_t selected[2][CLASSES * LIMIT * 3];
  kernel_run at_bound = {.inputs = {boxes, scores, &limit, &overlap, &least}}, exact = at_bound;
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
      ck_assert_msg(at_bound.workspace[row * PADDED * 8 + i] == UNTOUCHED, "%lld boxes: key %lld was sorted, too",
                    (long long)n, (long long)i / 8);
  free(at_bound.workspace);
  if (!n) {
    ck_assert_int_eq(at_bound.extent, 0);
    return;
  }
  run_nms(&exact, n, false);
  free(exact.workspace);
  ck_assert_int_eq(at_bound.extent, exact.extent);
  ck_assert_mem_eq(selected[0], selected[1], (size_t)exact.extent * 3 * sizeof(int64_t));
}
END_TEST

enum { MOST_MASKS = 6, SIDE = 5, HEIGHT = 21, WIDTH = 17 };

static void run_paste(kernel_run *r, int64_t n, bool counted) {
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
  kernel_run at_bound = {.inputs = {masks, boxes}, .output = pictures[0]}, exact = at_bound;
  exact.output = pictures[1];
  for (int i = 0; i < MOST_MASKS * SIDE * SIDE; i++) masks[i] = (float)(i * 7 % 23) / 23;
  memset(pictures, UNTOUCHED, sizeof pictures);
  run_paste(&at_bound, _i, true);
  if (_i) run_paste(&exact, _i, false);
  ck_assert_mem_eq(pictures[0], pictures[1], sizeof pictures[0]); /* the rest of both is untouched */
}
END_TEST

int main(void) {
  Suite *suite = suite_create("bounded");
  TCase *t = tcase_create("bounded");
  tcase_add_loop_test(t, the_sort_at_a_bound_costs_what_the_true_count_does, 0, 6);
  tcase_add_loop_test(t, masks_at_a_bound_are_pasted_into_as_many_pictures, 0, MOST_MASKS + 1);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
