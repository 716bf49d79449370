/* Problems of Winograd convolutions with 3x3 windows, and their results in float64. */
#ifndef TESTS_OPS_CPU_PRODUCT_WINOGRAD_CASE_H_
#define TESTS_OPS_CPU_PRODUCT_WINOGRAD_CASE_H_

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ops/cpu/product/winograd.h"
#include "ops/op.h"

/* Fills in the distances that follow from the extents. `second`: X has channels second. */
static inline void problem_lay_out(winograd_problem *p, bool second) {
  p->x_channel = second ? p->in[0] * p->in[1] : 1;
  p->x_pixel = second ? 1 : p->channels;
  p->x_row = p->in[1] * p->x_pixel;
  p->x_image = p->in[0] * p->in[1] * p->channels;
  p->y_pixel = p->outputs;
  p->y_row = p->out[1] * p->y_pixel;
  p->y_image = p->out[0] * p->y_row;
}

/* Element i of Y without addends, of weights [outputs, channels, 3, 3]; out_squares: the sum of the products' squares.
 */
static inline double problem_exact(const winograd_problem *p, const float *x, const float *weights, int64_t i,
                                   double *out_squares) {
  const int64_t output = i % p->outputs, column = i / p->outputs % p->out[1], row = i / p->y_row % p->out[0],
                image = i / p->y_image;
  double sum = 0, squares = 0;
  for (int64_t k = 0; k < 9; k++) {
    const int64_t y = p->stride[0] * row - p->pad[0] + k / 3 * p->dilation[0],
                  at = p->stride[1] * column - p->pad[1] + k % 3 * p->dilation[1];
    if (y < 0 || y >= p->in[0] || at < 0 || at >= p->in[1]) continue;
    for (int64_t c = 0; c < p->channels; c++) {
      const double product = (double)x[image * p->x_image + y * p->x_row + at * p->x_pixel + c * p->x_channel] *
                             (double)weights[(output * p->channels + c) * 9 + k];
      sum += product;
      squares += product * product;
    }
  }
  *out_squares = squares;
  return sum;
}

/* The weights [outputs, channels, 3, 3] as a Conv with channels last has them; free() releases them. */
static inline float *problem_pack(const winograd_problem *p, const float *weights) {
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1}};
  reed_attr completed[32];
  const reed_attrs given = {items, 1}, attrs = op_attrs_complete(op_builtin(OP_Conv), &given, completed);
  const reed_desc plain = {REED_F32, 4, {p->outputs, p->channels, 3, 3}};
  packed_order order;
  ck_assert(packed_order_of(op_builtin(OP_Conv), &attrs, &plain, &order));
  float *packed = malloc((size_t)packed_desc(&order).dims[0] * sizeof *packed);
  ck_assert_ptr_nonnull(packed);
  packed_pack(&order, weights, packed);
  return packed;
}

#endif
