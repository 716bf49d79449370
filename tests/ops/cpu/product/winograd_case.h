/* Problems of Winograd convolutions, drawn ones among them, and their results in float64. */
#ifndef TESTS_OPS_CPU_PRODUCT_WINOGRAD_CASE_H_
#define TESTS_OPS_CPU_PRODUCT_WINOGRAD_CASE_H_

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ops/cpu/product/winograd.h"
#include "ops/op.h"
#include "tests/ops/cpu/product/drawn.h"

/* Fills in the distances that follow from the extents. `second`: X has channels second. */
static inline void problem_lay_out(winograd_problem *p, bool second) {
  const int64_t pixels = p->in[0] * p->in[1];
  p->x_channel = second ? p->slices.in * pixels : 1;
  p->x_pixel = second ? 1 : p->channels;
  p->x_row = p->in[1] * p->x_pixel;
  p->slices.x = pixels * p->x_pixel;
  p->x_image = p->slices.in * pixels * p->channels;
  p->y_pixel = p->outputs;
  p->y_row = p->out[1] * p->y_pixel;
  p->slices.y = p->out[0] * p->y_row;
  p->y_image = p->slices.out * p->slices.y;
}

/* Kinds of X. */
enum { IMAGES, VOLUMES, DILATED_IMAGES };

/* The slices of a volume, and the taps along them. */
static inline winograd_slices drawn_slices(void) {
  const int64_t taps = drawn(1, 4), stride = drawn(1, 2), dilation = drawn(1, 2), out = drawn(1, 4),
                before = drawn(-1, 2), seen = stride * (out - 1) + (taps - 1) * dilation + 1,
                in = seen - before - drawn(-1, 2);
  return (winograd_slices){.in = in > 0 ? in : seen,
                           .out = out,
                           .taps = taps,
                           .stride = stride,
                           .dilation = dilation,
                           .pad = in > 0 ? before : 0};
}

/* An axis of so many pixels of Y: its dilation, pads and the pixels of X. */
static inline void problem_draw_axis(winograd_problem *p, int axis, int64_t out, int kind) {
  const bool dilated = kind == DILATED_IMAGES && p->stride[axis] == 1;
  const int64_t stride = p->stride[axis], dilation = dilated ? drawn(1, smaller(out, 5)) : 1,
                reach = (winograd_axis_taps(p, axis) - 1) * dilation, before = drawn(-1, reach),
                after = drawn(-1, reach), seen = stride * (out - 1) + reach + 1 + drawn(0, stride - 1),
                in = seen - before - after;
  p->dilation[axis] = dilation;
  p->out[axis] = out;
  p->pad[axis] = in > 0 ? before : 0;
  p->in[axis] = in > 0 ? in : seen;
}

/* Elements of the weights [outputs, channels, slices, tap rows, tap columns]. */
static inline int64_t problem_weights(const winograd_problem *p) {
  return p->outputs * p->channels * p->slices.taps * winograd_taps(p);
}

/* Element i of Y without addends, of such weights; out_squares: the sum of the products' squares. */
static inline double problem_exact(const winograd_problem *p, const float *x, const float *weights, int64_t i,
                                   double *out_squares) {
  const winograd_slices *s = &p->slices;
  const int64_t output = i % p->outputs, column = i / p->y_pixel % p->out[1], row = i / p->y_row % p->out[0],
                slice = i / s->y % s->out, image = i / p->y_image, columns = winograd_axis_taps(p, 1),
                of_slice = winograd_taps(p), taps = of_slice * s->taps;
  double sum = 0, squares = 0;
  for (int64_t k = 0; k < taps; k++) {
    const int64_t z = s->stride * slice - s->pad + k / of_slice * s->dilation,
                  y = p->stride[0] * row - p->pad[0] + k % of_slice / columns * p->dilation[0],
                  at = p->stride[1] * column - p->pad[1] + k % columns * p->dilation[1];
    if (z < 0 || z >= s->in || y < 0 || y >= p->in[0] || at < 0 || at >= p->in[1]) continue;
    for (int64_t c = 0; c < p->channels; c++) {
      const int64_t from = image * p->x_image + z * s->x + y * p->x_row + at * p->x_pixel + c * p->x_channel;
      const double product = (double)x[from] * (double)weights[(output * p->channels + c) * taps + k];
      sum += product;
      squares += product * product;
    }
  }
  *out_squares = squares;
  return sum;
}

/* Such weights as a Conv with channels last has them; free() releases them. */
static inline float *problem_pack(const winograd_problem *p, const float *weights) {
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1}};
  reed_attr completed[32];
  const reed_attrs given = {items, 1}, attrs = op_attrs_complete(op_builtin(OP_Conv), &given, completed);
  const reed_desc plain = {
      REED_F32, 5, {p->outputs, p->channels, p->slices.taps, winograd_axis_taps(p, 0), winograd_axis_taps(p, 1)}};
  packed_order order;
  ck_assert(packed_order_of(op_builtin(OP_Conv), &attrs, &plain, &order));
  float *packed = malloc((size_t)packed_desc(&order).dims[0] * sizeof *packed);
  ck_assert_ptr_nonnull(packed);
  packed_pack(&order, weights, packed);
  return packed;
}

#endif
