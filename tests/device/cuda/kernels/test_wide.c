/* Launches over more elements than 32 bits count: the first and the last block of each, in memory that is reserved and
 * of which only these blocks' pages are ever touched. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/diag.h"
#include "device/cuda/kernels/kernel.h"
#include "device/cuda/kernels/operators.h"
#include "device/cuda/simt/simt.h"
#include "ops/kernel.h"
#include "tests/suite.h"

extern const simt_kernel simt_kernels[];

#define MANY (((int64_t)1 << 32) + 777) /* elements */

static char *reserve(int64_t bytes) {
  char *data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ck_assert_ptr_ne(data, MAP_FAILED);
  return data;
}

/* Runs the only launch of a prepared kernel on its first and last block. */
static void run_ends(const reed_kernel *kernel, char *const *inputs, char *output) {
  const cuda_prepared *plan = kernel->state;
  const cuda_launch *l = plan->launches;
  char args[CUDA_MAX_ARGS_BYTES] __attribute__((aligned(16))), said[512] = "";
  simt_operand operands[8];
  int32_t n = 0;
  ck_assert_uint_eq(plan->n_launches, 1);
  memcpy(args, plan->args + l->args_at, cuda_kernel_infos[l->kernel].args_bytes);
  for (uint32_t i = 0; i < l->n_pointers; i++) {
    const cuda_pointer *p = &plan->pointers[l->first_pointer + i];
    if (p->source != CUDA_FROM_INPUT && p->source != CUDA_FROM_OUTPUT) continue;
    char *data = (p->source == CUDA_FROM_INPUT ? inputs[p->index] : output) + p->offset;
    memcpy(args + p->field, &data, sizeof data);
    operands[n++] = (simt_operand){data, p->bytes, p->written};
  }
  const uint64_t blocks[] = {0, l->grid[0] - 1};
  const simt_launch launch = {.kernel = &simt_kernels[l->kernel],
                              .grid = {l->grid[0], l->grid[1], l->grid[2]},
                              .block = {cuda_kernel_infos[l->kernel].threads, 1, 1},
                              .args = args,
                              .operands = operands,
                              .n_operands = n,
                              .blocks = blocks,
                              .n_blocks = 2};
  ck_assert_msg(simt_run(&launch, said, sizeof said), "%s", said);
}

/* Prepares `op` over tensors of i8 with these extents. */
static void prepare(op_id op, const reed_desc *inputs, int32_t n_inputs, const reed_desc *output,
                    const reed_attrs *given, reed_kernel *out_kernel) {
  reed_diagnosis diagnosis = {0};
  reed_kernel_env env = {.n_threads = 1};
  reed_attr completed[16];
  const reed_attrs attrs = op_attrs_complete(op_builtin(op), given, completed);
  const void *host[4] = {NULL};
  const bool constant[4] = {false};
  const reed_kernel_call call = {.op = op_builtin(op),
                                 .attrs = &attrs,
                                 .node = "wide",
                                 .n_inputs = n_inputs,
                                 .n_outputs = 1,
                                 .inputs = inputs,
                                 .outputs = output,
                                 .host_values = host,
                                 .constant = constant,
                                 .env = &env,
                                 .diagnosis = &diagnosis};
  ck_assert_msg(cuda_kernel_of(call.op, CUDA_MATH_PLAIN)(&call, out_kernel) == REED_OK, "%s",
                reed_diagnosis_message(&diagnosis));
}

START_TEST(element_wise_kernels_count_in_64_bits) {
  const reed_desc desc[] = {{REED_I8, 1, {MANY}}, {REED_I8, 1, {MANY}}};
  const reed_attrs none = {NULL, 0};
  char *in[2] = {reserve(MANY), reserve(MANY)}, *out = reserve(MANY);
  reed_kernel kernel = {0};
  prepare(OP_Add, desc, 2, desc, &none, &kernel);
  for (int64_t i = 0; i < 8; i++) {
    in[0][i] = (char)i, in[1][i] = 3;
    in[0][MANY - 8 + i] = (char)(2 * i), in[1][MANY - 8 + i] = 7;
  }
  run_ends(&kernel, in, out);
  for (int64_t i = 0; i < 8; i++) {
    ck_assert_int_eq(out[i], i + 3);
    ck_assert_int_eq(out[MANY - 8 + i], 2 * i + 7);
  }
  kernel.free(kernel.state);
}
END_TEST

/* [rows, 3] to [3, rows]: the last elements come from the end of the last column. */
START_TEST(movement_counts_in_64_bits) {
  const int64_t rows = MANY / 3, n = 3 * rows;
  const reed_desc from = {REED_I8, 2, {rows, 3}}, to = {REED_I8, 2, {3, rows}};
  const reed_attrs none = {NULL, 0};
  char *in[1] = {reserve(n)}, *out = reserve(n);
  reed_kernel kernel = {0};
  prepare(OP_Transpose, &from, 1, &to, &none, &kernel);
  for (int64_t k = 0; k < 8; k++) {
    in[0][3 * k] = (char)(k + 1);
    in[0][n - 1 - 3 * k] = (char)(100 - k);
  }
  run_ends(&kernel, in, out);
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(out[k], k + 1);
    ck_assert_int_eq(out[n - 1 - k], 100 - k);
  }
  kernel.free(kernel.state);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("wide");
  TCase *t = tcase_create("wide");
  tcase_add_test(t, element_wise_kernels_count_in_64_bits);
  tcase_add_test(t, movement_counts_in_64_bits);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
