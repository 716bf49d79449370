/* Norms of few long rows under the emulation: several blocks a row, results beside sums in double, the same bits in
 * every order of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "base/mem.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

typedef struct row {
  op_id op;
  int64_t channels, n, groups; /* x: [1, channels, n]; LayerNormalization and RMSNormalization: [1, n] */
  int64_t blocks;              /* of the last launch */
} row;

static const row rows[] = {
    {OP_LayerNormalization, 1, 200000, 1, 24},   {OP_LayerNormalization, 1, 40001, 1, 4},
    {OP_RMSNormalization, 1, 32768, 1, 4},       {OP_InstanceNormalization, 3, 30011, 3, 3 * 3},
    {OP_GroupNormalization, 6, 20011, 2, 2 * 7}, {OP_LayerNormalization, 1, 16383, 1, 1},
};
enum { ROWS = sizeof rows / sizeof *rows, ORDERS = 3 };

static bool is_layer(const row *r) { return r->op == OP_LayerNormalization || r->op == OP_RMSNormalization; }

static void *open_floats(int64_t n, double at, double spread) {
  float *const x = mem_alloc((size_t)n * sizeof *x);
  uint32_t noise = 7;
  ck_assert_ptr_nonnull(x);
  for (int64_t i = 0; i < n; i++) {
    noise = noise * 1664525u + 1013904223u;
    x[i] = (float)(at + spread * ((double)(noise >> 8) / 0x1p23 - 1));
  }
  return x;
}

/* Runs the call; the blocks of its last launch. */
static int64_t run(emulated_call *c) {
  reed_kernel kernel = emulated_prepare(c);
  const cuda_prepared *plan = kernel.state;
  c->workspace = aligned_alloc(64, ((size_t)kernel.workspace_bytes + 64) / 64 * 64);
  ck_assert_ptr_nonnull(c->workspace);
  memset(c->workspace, 0xff, (size_t)kernel.workspace_bytes);
  emulated_run(c, &kernel);
  const int64_t blocks = plan->launches[plan->n_launches - 1].grid[0];
  free(c->workspace);
  kernel.free(kernel.state);
  return blocks;
}

static void check(const row *r, const float *x, const float *scale, const float *shift, const float *y) {
  const int64_t n = r->channels / r->groups * r->n;
  for (int64_t g = 0; g < r->groups; g++) {
    const float *const of = x + g * n;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)of[i];
    mean = r->op == OP_RMSNormalization ? 0 : mean / (double)n;
    for (int64_t i = 0; i < n; i++) variance += ((double)of[i] - mean) * ((double)of[i] - mean);
    variance /= (double)n;
    for (int64_t i = 0; i < n; i++) {
      const int64_t p = is_layer(r) ? i : (g * n + i) / r->n;
      const double want =
          ((double)of[i] - mean) / sqrt(variance + 1e-5) * (double)scale[p] + (double)(shift ? shift[p] : 0);
      ck_assert_msg(fabs(want - (double)y[g * n + i]) <= 1e-6 * (1 + fabs(want)), "element %lld: %g, not %g",
                    (long long)(g * n + i), (double)y[g * n + i], want);
    }
  }
}

START_TEST(blocks_share_a_long_row) {
  const row *const r = &rows[_i];
  const int64_t all = r->channels * r->n, parameters = is_layer(r) ? r->n : r->channels;
  const reed_desc of_x = is_layer(r) ? (reed_desc){REED_F32, 2, {1, r->n}}
                                     : (reed_desc){REED_F32, 3, {1, r->channels, r->n}},
                  of_parameter = {REED_F32, 1, {parameters}}, in[] = {of_x, of_parameter, of_parameter};
  const reed_attr groups = {.name = "num_groups", .type = REED_ATTR_INT, .i = r->groups};
  void *const x = open_floats(all, 100, 3), *const scale = open_floats(parameters, 1, 0.5),
              *const shift = open_floats(parameters, 0, 1), *const first = mem_alloc((size_t)all * sizeof(float)),
              *const y = mem_alloc((size_t)all * sizeof(float));
  ck_assert(first && y);
  emulated_call c = {
      .op = r->op, .attrs = &(reed_attrs){&groups, r->op == OP_GroupNormalization}, .in = in, .out = &of_x};
  c.n_in = r->op == OP_RMSNormalization ? 2 : 3;
  memcpy(c.inputs, (const void *[]){x, scale, shift}, 3 * sizeof *c.inputs);
  for (c.order = 0; c.order < ORDERS; c.order++) {
    c.output = c.order ? y : first;
    ck_assert_int_eq(run(&c), r->blocks);
    ck_assert_mem_eq(first, c.output, (size_t)all * sizeof(float));
  }
  check(r, x, scale, c.n_in == 2 ? NULL : shift, first);
  mem_free(x);
  mem_free(scale);
  mem_free(shift);
  mem_free(first);
  mem_free(y);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("long rows");
  TCase *t = tcase_create("long rows");
  tcase_set_timeout(t, 100);
  tcase_add_loop_test(t, blocks_share_a_long_row, 0, ROWS);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
