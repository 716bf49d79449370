/* Launches over more elements than 32 bits count: the first and the last block of each. The memory is only reserved;
 * the blocks' pages alone are touched. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

#define MANY (((int64_t)1 << 32) + 777) /* elements */

static char *reserve(int64_t bytes) {
  char *data = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ck_assert_ptr_ne(data, MAP_FAILED);
  return data;
}

/* Runs the first and the last block of the only launch of an operator over tensors of i8. */
static void run_ends(op_id op, const reed_desc *in, int32_t n_in, const reed_desc *out, char *const *inputs,
                     char *output) {
  emulated_call c = {.op = op, .in = in, .n_in = n_in, .out = out, .output = output, .n_blocks = 2};
  for (int32_t i = 0; i < n_in; i++) c.inputs[i] = inputs[i];
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_uint_eq(plan->n_launches, 1);
  const uint64_t ends[] = {0, plan->launches->grid[0] - 1};
  c.blocks = ends;
  emulated_run(&c, &kernel);
  kernel.free(kernel.state);
}

START_TEST(element_wise_kernels_count_in_64_bits) {
  const reed_desc desc[] = {{REED_I8, 1, {MANY}}, {REED_I8, 1, {MANY}}};
  char *in[2] = {reserve(MANY), reserve(MANY)}, *out = reserve(MANY);
  for (int64_t i = 0; i < 8; i++) {
    in[0][i] = (char)i, in[1][i] = 3;
    in[0][MANY - 8 + i] = (char)(2 * i), in[1][MANY - 8 + i] = 7;
  }
  run_ends(OP_Add, desc, 2, desc, in, out);
  for (int64_t i = 0; i < 8; i++) {
    ck_assert_int_eq(out[i], i + 3);
    ck_assert_int_eq(out[MANY - 8 + i], 2 * i + 7);
  }
}
END_TEST

/* [rows, 3] to [3, rows]: the last elements come from the end of the last column. */
START_TEST(movement_counts_in_64_bits) {
  const int64_t rows = MANY / 3, n = 3 * rows;
  const reed_desc from = {REED_I8, 2, {rows, 3}}, to = {REED_I8, 2, {3, rows}};
  char *in[1] = {reserve(n)}, *out = reserve(n);
  for (int64_t k = 0; k < 8; k++) {
    in[0][3 * k] = (char)(k + 1);
    in[0][n - 1 - 3 * k] = (char)(100 - k);
  }
  run_ends(OP_Transpose, &from, 1, &to, in, out);
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(out[k], k + 1);
    ck_assert_int_eq(out[n - 1 - k], 100 - k);
  }
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
