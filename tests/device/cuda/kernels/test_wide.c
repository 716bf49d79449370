/* Launches over more elements than 32 bits, or their signed numbers, count: the first and the last block of each. The
 * memory is only reserved; the blocks' pages alone are touched. */
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

/* Runs the first and the last block of each launch of the call. */
static void run_ends(emulated_call *c) {
  reed_kernel kernel = emulated_prepare(c);
  const cuda_prepared *plan = kernel.state;
  if (kernel.workspace_bytes) c->workspace = reserve(kernel.workspace_bytes);
  c->n_blocks = 2;
  for (uint32_t i = 0; i < plan->n_launches; i++) {
    const uint64_t last = plan->launches[i].grid[0] - 1, ends[] = {0, last};
    c->blocks = ends;
    c->n_blocks = last ? 2 : 1;
    emulated_launch(c, plan, &plan->launches[i]);
  }
  kernel.free(kernel.state);
}

START_TEST(element_wise_kernels_count_in_64_bits) {
  const reed_desc desc[] = {{REED_I8, 1, {MANY}}, {REED_I8, 1, {MANY}}};
  char *in[2] = {reserve(MANY), reserve(MANY)}, *out = reserve(MANY);
  for (int64_t i = 0; i < 8; i++) {
    in[0][i] = (char)i, in[1][i] = 3;
    in[0][MANY - 8 + i] = (char)(2 * i), in[1][MANY - 8 + i] = 7;
  }
  run_ends(&(emulated_call){.op = OP_Add, .in = desc, .n_in = 2, .out = desc, .inputs = {in[0], in[1]}, .output = out});
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
  char *in = reserve(n), *out = reserve(n);
  for (int64_t k = 0; k < 8; k++) {
    in[3 * k] = (char)(k + 1);
    in[n - 1 - 3 * k] = (char)(100 - k);
  }
  run_ends(&(emulated_call){.op = OP_Transpose, .in = &from, .n_in = 1, .out = &to, .inputs = {in}, .output = out});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(out[k], k + 1);
    ck_assert_int_eq(out[n - 1 - k], 100 - k);
  }
}
END_TEST

/* The last rows of the matrix are below the diagonal but for their last elements. */
START_TEST(generated_elements_are_counted_in_64_bits) {
  const int64_t rows = 1 << 16, columns = rows + 1, n = rows * columns;
  const reed_desc desc = {REED_I8, 2, {rows, columns}};
  char *in = reserve(n), *out = reserve(n);
  for (int64_t k = 0; k < 8; k++) in[k] = (char)(k + 1), in[n - 1 - k] = (char)(100 - k);
  run_ends(&(emulated_call){.op = OP_Trilu, .in = &desc, .n_in = 1, .out = &desc, .inputs = {in}, .output = out});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(out[k], k + 1);
    ck_assert_int_eq(out[n - 1 - k], k < 2 ? 100 - k : 0);
  }
}
END_TEST

enum { ONE = 0x3c00 }; /* of f16; ONE + k: the k-th number after 1 */

/* Blocks of one pixel: the image is the column's elements. */
START_TEST(columns_are_counted_in_64_bits) {
  const int64_t edge = 40000, n = 3 * edge * edge, shape[] = {edge, edge}, block[] = {1, 1};
  const reed_desc in[] = {{REED_F16, 3, {1, 3, edge * edge}}, {REED_I64, 1, {2}}, {REED_I64, 1, {2}}},
                  out = {REED_F16, 4, {1, 3, edge, edge}};
  uint16_t *x = (uint16_t *)reserve(2 * n), *y = (uint16_t *)reserve(2 * n);
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){.op = OP_Col2Im,
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .host = (const void *const[]){NULL, shape, block},
                            .inputs = {x, shape, block},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* Turns by nothing (cosine 1, sine 0) at the first and the last places of a sequence. */
START_TEST(turned_pairs_are_counted_in_64_bits) {
  const int64_t heads = 1024, places = (1 << 20) + 77, n = heads * places * 4, ends = 256;
  const reed_desc in[] = {
      {REED_F16, 4, {1, heads, places, 4}}, {REED_F16, 3, {1, places, 2}}, {REED_F16, 3, {1, places, 2}}};
  uint16_t *x = (uint16_t *)reserve(2 * n), *y = (uint16_t *)reserve(2 * n), *cosine = (uint16_t *)reserve(4 * places),
           *sine = (uint16_t *)reserve(4 * places);
  for (int64_t k = 0; k < ends; k++) cosine[k] = cosine[2 * places - 1 - k] = ONE;
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){
      .op = OP_RotaryEmbedding, .in = in, .n_in = 3, .out = in, .inputs = {x, cosine, sine}, .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* The one sample of a region lies on the last pixel of every channel. */
START_TEST(gradients_of_regions_are_counted_in_64_bits) {
  const int64_t edge = 40000, n = 3 * edge * edge, shape[] = {3, edge, edge};
  const float corner[] = {(float)edge - 1, (float)edge - 1, (float)edge, (float)edge};
  const uint16_t grad[] = {ONE, ONE + 1, ONE + 2};
  const reed_desc in[] = {{REED_F16, 4, {1, 3, 1, 1}}, {REED_F32, 2, {1, 4}}, {REED_I64, 1, {3}}},
                  out = {REED_F16, 3, {3, edge, edge}};
  const reed_attr sampling = {.name = "sampling_ratio", .type = REED_ATTR_INT, .i = 1};
  uint16_t *y = (uint16_t *)reserve(2 * n);
  y[0] = y[n - 2] = ONE;
  run_ends(&(emulated_call){.op = OP_roi_align_backward,
                            .attrs = &(reed_attrs){&sampling, 1},
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .host = (const void *const[]){NULL, NULL, shape},
                            .inputs = {grad, corner, shape},
                            .output = (char *)y});
  ck_assert_int_eq(y[0], 0);
  ck_assert_int_eq(y[n - 2], 0);
  ck_assert_int_eq(y[n - 1], ONE + 2);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("wide");
  TCase *t = tcase_create("wide");
  tcase_add_test(t, element_wise_kernels_count_in_64_bits);
  tcase_add_test(t, movement_counts_in_64_bits);
  tcase_add_test(t, generated_elements_are_counted_in_64_bits);
  tcase_add_test(t, columns_are_counted_in_64_bits);
  tcase_add_test(t, turned_pairs_are_counted_in_64_bits);
  tcase_add_test(t, gradients_of_regions_are_counted_in_64_bits);
  tcase_set_timeout(t, 60);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
