/* What shape functions are written with, beside the public reed_dim_*, reed_shape_* and reed_attrs_* (reed/operator.h).
 *
 * Each function here works on numbers and symbols alike. Where an answer needs a number that is not known, it says so
 * and the shape function gives the weakest answer that is right: a fresh extent, or rank -1. Functions that return
 * reed_status have built the diagnosis when they fail. */
#ifndef SHAPEFUNCS_CALL_H_
#define SHAPEFUNCS_CALL_H_

#include <string.h>

#include "ops/op.h"
#include "shapefuncs/functions.h"
#include "shapefuncs/dims.h"
#include "shapefuncs/symbols.h"

/* True where the optional input is given. */
static inline bool shapecall_has(const reed_shape_call *call, int32_t input) {
  return input < call->n_inputs && call->inputs[input].dtype != REED_NONE;
}
/* Provably the number n. */
static inline bool shapecall_is(const reed_shape_call *call, reed_dim d, int64_t n) {
  return reed_dim_known(call, d) && d == n;
}
/* Provable bounds; the number itself twice. INT64_MIN / INT64_MAX: none. */
void shapecall_range(const reed_shape_call *call, reed_dim d, int64_t *out_low, int64_t *out_high);
/* Provably >= n. */
bool shapecall_at_least(const reed_shape_call *call, reed_dim d, int64_t n);

/* Where an image tensor has its channels and the first of its spatial axes (they are neighbours): [N,C,...], or
 * [N,...,C] with the attribute channels_last. Rank 2 at least. */
typedef struct shapecall_image {
  int32_t channel, spatial;
} shapecall_image;
static inline shapecall_image shapecall_image_of(const reed_shape_call *call, int32_t rank) {
  return op_attr_int(call->attrs, "channels_last") ? (shapecall_image){rank - 1, 1} : (shapecall_image){1, 2};
}

/* Product of n extents. */
reed_dim shapecall_product(reed_shape_call *call, const reed_dim *dims, int32_t n);

/* Number of elements of a `value` input, -1 where it is not known (compile time only). The input must be of rank 0 or
 * 1, else ERROR_SHAPE. */
reed_status shapecall_value_count(reed_shape_call *call, int32_t input, int64_t *out_count);
/* The one element of a scalar (or one-element) `value` input. */
reed_status shapecall_scalar(reed_shape_call *call, int32_t input, reed_dim *out_value);

/* ERROR_SHAPE unless the input has that rank / at least that rank. */
reed_status shapecall_rank(reed_shape_call *call, int32_t input, int32_t rank);
reed_status shapecall_min_rank(reed_shape_call *call, int32_t input, int32_t rank);
/* ERROR_SHAPE where an output of that rank cannot be held. */
reed_status shapecall_check_rank(reed_shape_call *call, int64_t rank);

/* 0..rank-1 from an axis that may count from the end. ERROR_SHAPE when out of range. */
reed_status shapecall_axis(reed_shape_call *call, int64_t axis, int32_t rank, int32_t *out_axis);
/* n axes as a set of bits, each once. get(k) is attribute `ints` or, where NULL, element k of `value` input; *out_known
 * is false (and the set meaningless) where an element is a symbol. */
reed_status shapecall_axes(reed_shape_call *call, const int64_t *ints, int32_t input, int64_t n, int32_t rank,
                           int32_t *out_axes, bool *out_known);

/* The extent of two that must be equal: a number if there is one. ERROR_SHAPE (naming `input` and `what`) where they
 * provably differ. Symbols of one declared name are equal from then on. */
reed_status shapecall_same(reed_shape_call *call, reed_dim a, reed_dim b, int32_t input, const char *what,
                           reed_dim *out_dim);
/* rank and dims broadcast with those of `input`, in place. */
reed_status shapecall_broadcast_with(reed_shape_call *call, int32_t input, int32_t other_rank, const reed_dim *other,
                                     int32_t *rank, reed_dim *dims);
/* ERROR_SHAPE unless `input` broadcasts to these dims without changing them. */
reed_status shapecall_broadcasts_to(reed_shape_call *call, int32_t input, int32_t rank, const reed_dim *dims);

/* Sets the extents of output i, where the call has it: given ones, those of an input, unknown. dims may be NULL where
 * rank is <= 0. */
void shapecall_set(reed_shape_call *call, int32_t i, int32_t rank, const reed_dim *dims);
void shapecall_like(reed_shape_call *call, int32_t i, int32_t input);
void shapecall_unknown(reed_shape_call *call, int32_t i);
/* rank fresh extents (compile time only) */
void shapecall_fresh(reed_shape_call *call, int32_t i, int32_t rank);

/* Attribute `name`: n ints; all `otherwise` where it is absent: what depends on the rank has no value in op.def.
 * ERROR_SHAPE when there are not n, or one is below `least`. */
reed_status shapecall_ints(reed_shape_call *call, const char *name, int32_t n, int64_t otherwise, int64_t least,
                           int64_t *out_ints);
/* The string attribute is one of the NULL-terminated words (ERROR_VALUE); index of it. */
reed_status shapecall_word(reed_shape_call *call, const char *name, const char *const *words, int32_t *out_index);

#endif
