/* Norms over dense rows under the emulation (kernel norm_dense), beside sums in double: rows of a warp and of a block,
 * a mean far above the deviation, squares beyond the range of f32 and below it, rows that are not finite, and operands
 * off a multiple of 16 bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

typedef struct row {
  int64_t n;
  double mean, spread;
  bool rms, apart; /* apart: operands one element behind a multiple of 16 bytes */
  bool odd;        /* row 1 has a NaN, row 2 an infinite element */
  bool wide;       /* does not fit halves */
} row;

static const row rows[] = {
    {8, 0, 1},
    {768, 0.5, 2, .odd = true},
    {768, 3, 1, .rms = true},
    {768, 1, 1, .apart = true},
    {768, 2, 0, .odd = true}, /* equal elements: 0, and the shift */
    {1032, -30, 2},
    {2056, 5, 3, .rms = true, .apart = true},
    {4096, 1, 2, .odd = true},
    {768, 1e6, 1, .wide = true},
    {3080, -4e5, 0.5, .wide = true},
    {768, 0, 1e25, .wide = true, .odd = true},
    {2056, 1e30, 1e28, .rms = true, .wide = true},
    {768, 0, 1e-22, .wide = true},
};
enum { ROWS = sizeof rows / sizeof *rows, KINDS = 3, N_ROWS = 3, OPERANDS = 3 };
static const struct {
  reed_dtype dtype;
  double most; /* times 1 + |y| */
} kinds[KINDS] = {{REED_F32, 1e-6}, {REED_F16, 0x1p-11}, {REED_BF16, 0x1p-8}};

static void set(reed_dtype dtype, void *data, int64_t i, double x) {
  if (dtype == REED_F32) ((float *)data)[i] = (float)x;
  else ((uint16_t *)data)[i] = dtype == REED_F16 ? f16_from_f32((float)x) : bf16_from_f32((float)x);
}
static double get(reed_dtype dtype, const void *data, int64_t i) {
  if (dtype == REED_F32) return (double)((const float *)data)[i];
  const uint16_t bits = ((const uint16_t *)data)[i];
  return (double)(dtype == REED_F16 ? f16_to_f32(bits) : bf16_to_f32(bits));
}

/* n + 1 elements; *out_data: the first of n. */
static void *open_memory(const row *r, reed_dtype dtype, int64_t n, void **out_data) {
  const size_t size = reed_dtype_bytes(dtype);
  char *const memory = aligned_alloc(64, ((size_t)(n + 1) * size + 63) / 64 * 64);
  ck_assert_ptr_nonnull(memory);
  *out_data = memory + (r->apart ? size : 0);
  return memory;
}

static void check(const row *r, int kind, double epsilon, void *const *in, const void *y) {
  const reed_dtype dtype = kinds[kind].dtype;
  for (int64_t k = 0; k < N_ROWS; k++) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < r->n; i++) mean += get(dtype, in[0], k * r->n + i) / (double)r->n;
    if (r->rms) mean = 0;
    for (int64_t i = 0; i < r->n; i++) squares += pow(get(dtype, in[0], k * r->n + i) - mean, 2);
    for (int64_t i = 0; i < r->n; i++) {
      const double away = get(dtype, in[0], k * r->n + i) - mean, made = get(dtype, y, k * r->n + i),
                   want = away / sqrt(squares / (double)r->n + epsilon) * get(dtype, in[1], i) +
                          (r->rms ? 0 : get(dtype, in[2], i));
      ck_assert_msg(isnan(want) ? isnan(made) : fabs(want - made) <= kinds[kind].most * (1 + fabs(want)),
                    "row %d, kind %d, element %d: %.9g, not %.9g", (int)(r - rows), kind, (int)(k * r->n + i), made,
                    want);
    }
  }
}

START_TEST(dense_rows_keep_their_accuracy_in_any_range) {
  const row *const r = &rows[_i / KINDS];
  const int kind = _i % KINDS;
  const reed_dtype dtype = kinds[kind].dtype;
  if (r->wide && dtype != REED_F32) return;
  const reed_desc of_x = {dtype, 2, {N_ROWS, r->n}}, of_parameter = {dtype, 1, {r->n}},
                  in[OPERANDS] = {of_x, of_parameter, of_parameter};
  const double epsilon = r->spread > 0 && dtype == REED_F32 ? 0 : 0x1p-16;
  const reed_attr attr = {.name = "epsilon", .type = REED_ATTR_FLOAT, .f = epsilon};
  void *data[OPERANDS + 1], *memory[OPERANDS + 1];
  uint32_t noise = 1 + (uint32_t)_i;
  for (int k = 0; k <= OPERANDS; k++) {
    const int64_t n = k % OPERANDS == 0 ? N_ROWS * r->n : r->n;
    memory[k] = open_memory(r, dtype, n, &data[k]);
    for (int64_t i = 0; i < n; i++) {
      const double x = (double)((noise = noise * 1664525u + 1013904223u) >> 8) / 0x1p23 - 1;
      set(dtype, data[k], i, k ? x : r->mean + r->spread * x);
    }
  }
  if (r->odd) {
    set(dtype, data[0], r->n + 5, (double)NAN);
    set(dtype, data[0], 2 * r->n + 7, -INFINITY);
  }
  emulated_call c = {.op = r->rms ? OP_RMSNormalization : OP_LayerNormalization,
                     .attrs = &(reed_attrs){&attr, 1},
                     .in = in,
                     .n_in = r->rms ? 2 : 3,
                     .out = &of_x,
                     .output = data[OPERANDS]};
  memcpy(c.inputs, data, OPERANDS * sizeof *data);
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_int_eq(plan->n_launches, 1);
  ck_assert_int_eq(plan->launches->kernel, CUDA_norm_dense);
  for (c.order = 0; c.order < 2; c.order++) {
    emulated_run(&c, &kernel);
    check(r, kind, attr.f, data, data[OPERANDS]);
  }
  kernel.free(kernel.state);
  for (int k = 0; k <= OPERANDS; k++) free(memory[k]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("dense norms");
  TCase *t = tcase_create("dense norms");
  tcase_set_timeout(t, 100);
  tcase_add_loop_test(t, dense_rows_keep_their_accuracy_in_any_range, 0, ROWS * KINDS);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
