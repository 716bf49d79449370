/* The rules of ops/bound.def: which operators may run on a tensor whose extent along one axis only the device knows
 * yet. */
#ifndef OPS_BOUND_H_
#define OPS_BOUND_H_

#include "ops/op.h"

/* An operand as the rules need it. Dims are numbers or symbols; equal() tells which are provably the same extent. */
typedef struct bound_operand {
  int32_t rank; /* -1: absent or unknown */
  const reed_dim *dims;
  uint32_t counter;   /* number of the kernel call that reports the extent of `axis`; 0: all extents are known */
  uint32_t factor;    /* the extent is the count times this */
  int32_t axis;       /* of the output: the axis that the operator's row bounds; -1: its row says EXACT */
  const void *values; /* elements that the host knows; NULL: it knows none */
  int64_t n_values;
  reed_dtype dtype; /* of the values */
} bound_operand;

/* The rule's answer for a call with counted inputs. */
typedef struct bound_outcome {
  int32_t axis;    /* the axis of the outputs that has a count; -1: they have none (exact), or the operator needs its
                      inputs' counts on the host */
  int32_t input;   /* the input whose count the outputs have; -1: the kernel reports a count of its own, which follows
                      from the inputs' counts */
  uint32_t factor; /* the outputs' extent is the count times this */
  bool exact;      /* the kernel reads its inputs' counts, and the outputs have none */
} bound_outcome;

/* The dims of `output`, output 0 of the call, are those at the bound. */
typedef struct bound_dims {
  bool (*equal)(void *context, reed_dim a, reed_dim b); /* NULL: all dims are numbers */
  bool (*known)(void *context, reed_dim a);             /* a number */
  void *context;
} bound_dims;

/* dims NULL: all dims are numbers. */
bound_outcome bound_apply(const reed_op *op, const reed_attrs *attrs, const bound_operand *inputs, int32_t n_inputs,
                          const bound_operand *output, const bound_dims *dims);
/* True if the rule speaks of a call with so many outputs that are not absent. */
bool bound_has_outputs(const reed_op *op, int32_t n_outputs);
/* True if operand i has a counted room. rooms NULL: no operand has a room. */
static inline bool bound_is_counted_room(const reed_room *rooms, int32_t i) {
  return rooms && rooms[i].axis >= 0 && rooms[i].counted;
}
static inline int64_t bound_factor(const reed_room *room) { return room->factor ? room->factor : 1; }
/* True if the kernel of a prepared call reports the count of output i, because no input has this count. */
bool bound_is_reported(const reed_kernel_call *call, int32_t i);
/* The extent that output 0 has along `axis`, which the kernel of a call with an outcome of input -1 reports, for inputs
 * of these true extents. The dims of call->outputs are those at the bound. Not for operators whose row bounds their
 * output: these report the count themselves. */
int64_t bound_reported(const reed_kernel_call *call, int32_t axis);
/* The part of a Slice along `axis`: from *out_start (>= 0) to before *out_end (negative: counted from the end) by
 * *out_step. False: the axis is not cut. */
bool bound_cut(const reed_kernel_call *call, int32_t axis, int64_t *out_start, int64_t *out_end, int64_t *out_step);
/* True if the operator's kernel may report a count that follows from those of its inputs, not from their elements. */
bool bound_follows(const reed_op *op);
/* A call whose kernel reports a count, for inputs whose counters tell equal counts across the calls to compare. */
typedef struct bound_report {
  const reed_op *op;
  const bound_operand *inputs;
  int32_t n_inputs, axis; /* axis: of the outputs, which has the count */
} bound_report;
/* True if two calls with an outcome of input -1 provably report the same count: the operator is the same, and what the
 * count follows from is, too. */
bool bound_same_report(const bound_report *a, const bound_report *b, const bound_dims *dims);
/* True if the operator's rule takes inputs of several counts. */
bool bound_allows_counts(const reed_op *op);
/* Why the operator needs a count on the host where its rule does not pass the count on; never NULL. */
const char *bound_reason(const reed_op *op);
/* Why an accelerator whose list of capabilities does not name the operator among its `counts` needs the count. */
const char *bound_kernel_reason(const reed_op *op);
/* False if the outputs never have the count of this input. */
bool bound_may_give(const reed_op *op, int32_t input);
/* False if this input must never have an extent at its bound, whatever the extents are. */
bool bound_may_pass(const reed_op *op, int32_t input);

#endif
