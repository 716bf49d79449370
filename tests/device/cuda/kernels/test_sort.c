/* NonMaxSuppression at the bound of a count: the results of the exact call, and a sort whose cost follows the true
 * count, as the keys that it writes show. */
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
typedef struct nms_run {
  const void *inputs[5];
  int64_t selected[CLASSES * LIMIT * 3], extent, count;
  uint8_t *workspace;
} nms_run;

static char *address(nms_run *r, const cuda_pointer *p) {
  switch ((cuda_source)p->source) {
    case CUDA_FROM_INPUT: return (char *)(uintptr_t)r->inputs[p->index];
    case CUDA_FROM_OUTPUT: return (char *)r->selected;
    case CUDA_FROM_WORKSPACE: return (char *)r->workspace;
    case CUDA_FROM_EXTENT: return (char *)&r->count;
    case CUDA_FROM_EXTENTS: return (char *)&r->extent;
    case CUDA_FROM_FAULT:
    case CUDA_FROM_NUMBER: break;
  }
  ck_abort_msg("a pointer that NonMaxSuppression has no use for");
  return NULL;
}

static void launch(nms_run *r, const cuda_prepared *plan, const cuda_launch *l) {
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

/* Runs the call for n boxes; counted: prepared at the bound. The caller frees the workspace. */
static void run(nms_run *r, int64_t n, bool counted) {
  const int64_t boxes = counted ? BOUND : n;
  const reed_desc inputs[] = {{REED_F32, 3, {1, boxes, 4}},
                              {REED_F32, 3, {1, CLASSES, boxes}},
                              {REED_I64, 1, {1}},
                              {REED_F32, 1, {1}},
                              {REED_F32, 1, {1}}};
  const reed_desc output = {REED_I64, 2, {CLASSES * LIMIT, 3}};
  const reed_room none = {.axis = -1};
  const reed_room rooms[] = {
      {.axis = 1, .capacity = BOUND, .counted = 1}, {.axis = 2, .capacity = BOUND, .counted = 1}, none, none, none};
  const int64_t limit = LIMIT;
  const void *const host[] = {NULL, NULL, &limit, NULL, NULL};
  const bool constant[5] = {false};
  reed_diagnosis diagnosis = {0};
  reed_attr completed[16];
  const reed_attrs given = {NULL, 0}, attrs = op_attrs_complete(op_builtin(OP_NonMaxSuppression), &given, completed);
  const reed_kernel_call call = {.op = op_builtin(OP_NonMaxSuppression),
                                 .attrs = &attrs,
                                 .node = "nms",
                                 .n_inputs = 5,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .outputs = &output,
                                 .input_rooms = counted ? rooms : NULL,
                                 .output_rooms = counted ? &none : NULL,
                                 .host_values = host,
                                 .constant = constant,
                                 .env = &(reed_kernel_env){.n_threads = 1},
                                 .diagnosis = &diagnosis};
  reed_kernel kernel = {0};
  ck_assert_msg(cuda_kernel_of(call.op, CUDA_MATH_PLAIN)(&call, &kernel) == REED_OK, "%s",
                reed_diagnosis_message(&diagnosis));
  const size_t bytes = ((size_t)kernel.workspace_bytes + 63) / 64 * 64;
  r->count = n;
  r->workspace = aligned_alloc(64, bytes);
  ck_assert_ptr_nonnull(r->workspace);
  memset(r->workspace, UNTOUCHED, bytes);
  const cuda_prepared *plan = kernel.state;
  for (uint32_t i = 0; i < plan->n_launches; i++) launch(r, plan, &plan->launches[i]);
  kernel.free(kernel.state);
}

START_TEST(the_sort_at_a_bound_costs_what_the_true_count_does) {
  static const int64_t counts[] = {0, 1, 3, 4096, 4097, BOUND}; /* up to 4,096 keys are sorted in shared memory */
  static float boxes[BOUND * 4], scores[CLASSES * BOUND];
  const int64_t n = counts[_i], limit = LIMIT;
  const float overlap = 0.5F, least = 0.1F;
  nms_run at_bound = {.inputs = {boxes, scores, &limit, &overlap, &least}}, exact = at_bound;
  uint32_t random = 1;
  for (int64_t i = 0; i < n * 4; i++) {
    random = random * 1664525 + 1013904223;
    boxes[i] = (float)(random >> 8) / (float)(1 << 20);
  }
  for (int64_t i = 0; i < n * CLASSES; i++) {
    random = random * 1664525 + 1013904223;
    scores[i] = (float)(random >> 16 & 255) / 256; /* with ties */
  }
  run(&at_bound, n, true);
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
  run(&exact, n, false);
  free(exact.workspace);
  ck_assert_int_eq(at_bound.extent, exact.extent);
  ck_assert_mem_eq(at_bound.selected, exact.selected, (size_t)exact.extent * 3 * sizeof(int64_t));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sort");
  TCase *t = tcase_create("sort");
  tcase_add_loop_test(t, the_sort_at_a_bound_costs_what_the_true_count_does, 0, 6);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
