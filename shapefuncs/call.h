/* Helpers of shape functions: checks and sums, beside the public reed_dim_*, reed_shape_* and reed_attrs_*
 * (reed/operator.h).
 *
 * Each function works on numbers and symbols alike. If an answer needs an unknown number, the function reports that,
 * and the shape function gives the weakest correct answer: a fresh extent, or rank -1. Functions that return
 * reed_status have built the diagnosis when they fail. */
#ifndef SHAPEFUNCS_CALL_H_
#define SHAPEFUNCS_CALL_H_

#include <string.h>

#include "ops/op.h"
#include "shapefuncs/functions.h"
#include "shapefuncs/dims.h"
#include "shapefuncs/symbols.h"

/* True if the optional input is given. */
static inline bool shapecall_has(const reed_shape_call *call, int32_t input) {
  return input < call->n_inputs && call->inputs[input].dtype != REED_NONE;
}
/* True if d is provably the number n. */
static inline bool shapecall_is(const reed_shape_call *call, reed_dim d, int64_t n) {
  return reed_dim_known(call, d) && d == n;
}
/* Provable bounds of d; a number is its own bounds. INT64_MIN / INT64_MAX: none. */
void shapecall_range(const reed_shape_call *call, reed_dim d, int64_t *out_low, int64_t *out_high);
/* True if d is provably >= n. */
bool shapecall_at_least(const reed_shape_call *call, reed_dim d, int64_t n);

/* The axis of an image tensor's channels and its first spatial axis: [N,C,...], or [N,...,C] with the attribute
 * channels_last. Rank 2 at least. */
typedef struct shapecall_image {
  int32_t channel, spatial;
} shapecall_image;
static inline shapecall_image shapecall_image_of(const reed_shape_call *call, int32_t rank) {
  return op_attr_int(call->attrs, "channels_last") ? (shapecall_image){rank - 1, 1} : (shapecall_image){1, 2};
}

/* The same of an image of two spatial axes, [N,C,H,W] or, without a batch, [C,H,W]: rank 4 or 3. */
static inline shapecall_image shapecall_plane_of(const reed_shape_call *call, int32_t rank) {
  int32_t first = rank - 3;
  bool last = op_attr_int(call->attrs, "channels_last");
  return (shapecall_image){first + (last ? 2 : 0), first + (last ? 0 : 1)};
}

/* Product of n extents. */
reed_dim shapecall_product(reed_shape_call *call, const reed_dim *dims, int32_t n);

/* The number of elements of a `value` input; -1 for an unknown number (compile time only). An input of rank 2 or more
 * is ERROR_SHAPE. */
reed_status shapecall_value_count(reed_shape_call *call, int32_t input, int64_t *out_count);
/* The one element of a scalar (or one-element) `value` input. */
reed_status shapecall_scalar(reed_shape_call *call, int32_t input, reed_dim *out_value);

/* ERROR_SHAPE unless the input has this rank / at least this rank. */
reed_status shapecall_rank(reed_shape_call *call, int32_t input, int32_t rank);
reed_status shapecall_min_rank(reed_shape_call *call, int32_t input, int32_t rank);
/* ERROR_SHAPE for an output of a rank above REED_MAX_RANK. */
reed_status shapecall_check_rank(reed_shape_call *call, int64_t rank);

/* An axis, which may count from the end, as 0..rank-1. ERROR_SHAPE if it is out of range. */
reed_status shapecall_axis(reed_shape_call *call, int64_t axis, int32_t rank, int32_t *out_axis);
/* n axes as a set of bits, each axis once. Axis k is attribute `ints`' or, if that is NULL, element k of `value` input;
 * *out_known is false (and the set meaningless) if an element is a symbol. */
reed_status shapecall_axes(reed_shape_call *call, const int64_t *ints, int32_t input, int64_t n, int32_t rank,
                           int32_t *out_axes, bool *out_known);

/* The common extent of two dims that must be equal: a number if one of them is a number. ERROR_SHAPE (naming `input`
 * and `what`) if they provably differ. Symbols of one declared name count as equal from then on. */
reed_status shapecall_same(reed_shape_call *call, reed_dim a, reed_dim b, int32_t input, const char *what,
                           reed_dim *out_dim);
/* Broadcasts rank and dims with those of `input`, in place. */
reed_status shapecall_broadcast_with(reed_shape_call *call, int32_t input, int32_t other_rank, const reed_dim *other,
                                     int32_t *rank, reed_dim *dims);
/* ERROR_SHAPE unless `input` broadcasts to these dims without changing them. */
reed_status shapecall_broadcasts_to(reed_shape_call *call, int32_t input, int32_t rank, const reed_dim *dims);

/* Sets the extents of output i, if the call has this output: to given ones, to those of an input, or to unknown. dims
 * may be NULL for rank <= 0. */
void shapecall_set(reed_shape_call *call, int32_t i, int32_t rank, const reed_dim *dims);
void shapecall_like(reed_shape_call *call, int32_t i, int32_t input);
void shapecall_unknown(reed_shape_call *call, int32_t i);
/* Sets output i to rank fresh extents (compile time only). */
void shapecall_fresh(reed_shape_call *call, int32_t i, int32_t rank);

/* Attribute `name` as n ints. If it is absent, all are the number that the row has for each axis (0 without one).
 * ERROR_SHAPE if there are not n. */
reed_status shapecall_ints(reed_shape_call *call, const char *name, int32_t n, int64_t *out_ints);

#endif
