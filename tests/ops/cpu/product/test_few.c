/* Convolutions of few outputs (ops/cpu/product/conv_few.c) against the reference: every extent, kernel, dilation and
 * pad that joins taps, of all rows or of one, at every CPU level; the same bits for any number of threads; which
 * convolutions are joined. */
#include <math.h>
#include <stdlib.h>

#include "ops/packed.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/suite.h"

#define TOLERANCE 2e-4

typedef struct few_conv {
  const char *what;
  int64_t images, channels, outputs, in[2], taps[2], dilations[2], pads[4];
  bool joined; /* false: another kernel is faster */
  int axes;    /* number of spatial axes, 0 stands for 2; with 1 axis in[0] and taps[0] are not used */
} few_conv;

static const few_conv rows[] = {
    {"picture", 1, 64, 3, {37, 53}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
    {"one output", 1, 40, 1, {30, 41}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
    {"boxes of two images", 2, 96, 4, {25, 34}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
    {"six outputs", 1, 48, 6, {21, 19}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
    {"seven outputs, no pads", 1, 33, 7, {17, 30}, {3, 3}, {1, 1}, {0}, true},
    {"9x9", 1, 20, 3, {29, 70}, {9, 9}, {1, 1}, {4, 4, 4, 4}, true},
    {"7x7, two outputs, several pieces", 1, 128, 2, {40, 150}, {7, 7}, {1, 1}, {3, 3, 3, 3}, true},
    {"1x7", 1, 64, 2, {12, 31}, {1, 7}, {1, 1}, {0, 3, 0, 3}, true},
    {"7x1", 1, 64, 2, {31, 12}, {7, 1}, {1, 1}, {3, 0, 3, 0}, true},
    {"dilated", 1, 64, 3, {23, 33}, {3, 3}, {2, 3}, {2, 3, 2, 3}, true},
    {"dilated 5x5 rows", 1, 30, 4, {23, 45}, {5, 5}, {3, 2}, {6, 4, 6, 4}, true},
    {"uneven pads", 1, 64, 3, {14, 15}, {3, 5}, {1, 1}, {0, 3, 4, 1}, true},
    {"cropped", 1, 64, 3, {19, 24}, {3, 3}, {1, 1}, {-1, -2, -3, 2}, true},
    {"windows wholly in the padding", 1, 64, 2, {12, 13}, {3, 3}, {1, 1}, {5, 6, 4, 7}, true},
    {"1-D", 2, 128, 2, {1, 300}, {1, 5}, {1, 1}, {0, 2, 0, 2}, true, 1},
    {"1-D, dilated", 1, 80, 1, {1, 211}, {1, 3}, {1, 9}, {0, 9, 0, 0}, true, 1},
    {"many channels", 1, 700, 2, {20, 20}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
    {"no images", 0, 64, 3, {20, 20}, {3, 3}, {1, 1}, {1, 1, 1, 1}, false},
    {"one tap", 1, 64, 3, {20, 20}, {1, 1}, {1, 1}, {0}, false},
    {"few channels", 1, 2, 3, {20, 20}, {3, 3}, {1, 1}, {1, 1, 1, 1}, true},
    {"few channels and taps", 1, 2, 7, {20, 20}, {1, 3}, {1, 1}, {0, 1, 0, 1}, false},
    {"eight outputs", 1, 64, 8, {20, 20}, {3, 3}, {1, 1}, {1, 1, 1, 1}, false},
};

static int64_t out_extent(const few_conv *row, int axis) {
  return row->in[axis] + row->pads[axis] + row->pads[2 + axis] - (row->taps[axis] - 1) * row->dilations[axis];
}

/* ---- against the reference ---- */

static void open_case(kernel_case *c, const few_conv *row, reed_dtype dtype, bool bias, bool residual,
                      const char *activation) {
  int skip = row->axes == 1; /* the first spatial axis */
  const int64_t x[] = {row->images, row->channels, row->in[skip], row->in[1]},
                w[] = {row->outputs, row->channels, row->taps[skip], row->taps[1]},
                y[] = {row->images, row->outputs, out_extent(row, skip), out_extent(row, 1)};
  static int64_t one_axis[2]; /* the case keeps the address */
  one_axis[0] = row->pads[1];
  one_axis[1] = row->pads[3];
  case_init(c, OP_Conv);
  case_input(c, dtype, 4 - skip, x, 1);
  case_input(c, dtype, 4 - skip, w, 1);
  if (bias) case_input(c, dtype, DIMS(row->outputs), 1);
  else if (residual) case_absent(c);
  if (residual) case_input(c, dtype, 4 - skip, y, 1);
  case_attr_ints(c, "dilations", row->dilations + skip, 2 - skip);
  case_attr_ints(c, "pads", skip ? one_axis : row->pads, skip ? 2 : 4);
  case_attr_activation(c, activation);
}

#define IMAGES (1u << 0 | 1u << 3) /* inputs whose channels move last */

START_TEST(few_outputs_equal_the_reference) {
  for (int form = 0; form < 4; form++) {
    kernel_case c;
    open_case(&c, &rows[_i], form == 3 ? REED_F16 : REED_F32, form != 0, form == 2,
              form == 1   ? "relu"
              : form == 2 ? "hardswish"
                          : NULL);
    double tolerance = form == 3 ? 2 * case_tolerance(REED_F16) : TOLERANCE;
    case_parity_orders(&c, IMAGES, tolerance, tolerance);
  }
}
END_TEST

/* ---- which are joined, with the same bits for any number of threads ---- */

/* Runs the row with channels last and packed weights; returns Y. */
static float *run(const few_conv *row, int32_t threads, int64_t *out_n) {
  int skip = row->axes == 1;
  const int64_t one_axis[] = {row->pads[1], row->pads[3]};
  const reed_desc plain = {REED_F32, 4 - skip, {row->outputs, row->channels, row->taps[skip], row->taps[1]}},
                  x = {REED_F32,
                       4 - skip,
                       {row->images, row->in[skip], skip ? row->channels : row->in[1], row->channels}},
                  y = {REED_F32,
                       4 - skip,
                       {row->images, out_extent(row, skip), skip ? row->outputs : out_extent(row, 1), row->outputs}};
  const reed_attr items[] = {
      {.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
      {.name = "dilations", .type = REED_ATTR_INTS, .ints = row->dilations + skip, .n = 2 - skip},
      {.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = plain.dims, .n = plain.rank},
      {.name = "pads", .type = REED_ATTR_INTS, .ints = skip ? one_axis : row->pads, .n = skip ? 2 : 4}};
  const reed_op *op = op_builtin(OP_Conv);
  reed_attr completed[32];
  const reed_attrs given = {items, 4}, attrs = op_attrs_complete(op, &given, completed);
  packed_order order;
  ck_assert(packed_order_of(op, &attrs, &plain, &order));
  const reed_desc packed = packed_desc(&order);
  float *weights = seeded_numbers(desc_elements(&plain), 3), *in = seeded_numbers(desc_elements(&x), 5),
        *in_order = seeded_numbers(packed.dims[0], 0), *out = seeded_numbers(desc_elements(&y), 7);
  packed_pack(&order, weights, in_order);
  reed_kernel kernel = direct_prepare(OP_Conv, items, 4, &x, &packed, in_order, &y, threads, NULL);
  bool joined = kernel.variant && strcmp(kernel.variant, "taps joined") == 0;
  if (cpu_level_now() != CPU_REFERENCE && joined != row->joined)
    ck_abort_msg("%s: variant %s", row->what, kernel.variant ? kernel.variant : "none");
  direct_run(&kernel, in, in_order, out);
  free(weights);
  free(in);
  free(in_order);
  *out_n = desc_elements(&y);
  return out;
}

START_TEST(threads_change_no_bits) {
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    cpu_level_use(cpu_level_name(level));
    int64_t n;
    float *alone = run(&rows[_i], 1, &n);
    for (int32_t threads = 2; threads <= 5; threads += 3) {
      float *shared = run(&rows[_i], threads, &n);
      ck_assert_msg(memcmp(alone, shared, (size_t)n * sizeof *alone) == 0, "%s, %d threads", rows[_i].what, threads);
      free(shared);
    }
    free(alone);
  }
  cpu_level_use(NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("few");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, few_outputs_equal_the_reference, 0, ROWS(rows));
  tcase_add_host_loop_test(t, threads_change_no_bits, 0, ROWS(rows));
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
