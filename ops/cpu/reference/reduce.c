/* Reductions, cumulative sums and arg reductions, in long double and 128-bit integers. The kernel:
 * ops/cpu/reduce/reduce.c. */
#include <math.h>

#include "ops/cpu/calls/scan.h"
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/common/common.h"

/* True if axis d is reduced: `axes` names it, or `axes` is empty and that means all axes. */
static bool is_reduced(const reference_state *s, const reed_kernel_buffers *buffers, int32_t d) {
  int64_t n = s->n_inputs > 1 && s->inputs[1].dtype != REED_NONE ? desc_elements(&s->inputs[1]) : 0;
  if (n == 0) return !op_attr_int(&s->attrs, "noop_with_empty_axes");
  for (int64_t k = 0; k < n; k++) {
    int64_t axis = ((const int64_t *)reference_input(s, buffers, 1))[k];
    if (axis == d || axis + s->inputs[0].rank == d) return true;
  }
  return false;
}

static long double float_step(op_id id, long double a, long double x) {
  switch ((int)id) {
    case OP_ReduceL1: return a + fabsl(x);
    case OP_ReduceL2:
    case OP_ReduceSumSquare: return a + x * x;
    case OP_ReduceLogSumExp: return logl(expl(a) + expl(x));
    case OP_ReduceMax: return x > a || x != x ? x : a;
    case OP_ReduceMin: return x < a || x != x ? x : a;
    case OP_ReduceProd: return a * x;
    default: return a + x;
  }
}

static __int128 int_step(op_id id, __int128 a, __int128 x) {
  switch ((int)id) {
    case OP_ReduceL1: return a + (x < 0 ? -x : x);
    case OP_ReduceL2:
    case OP_ReduceSumSquare: return (__int128)((unsigned __int128)a + (unsigned __int128)x * (unsigned __int128)x);
    case OP_ReduceMax: return x > a ? x : a;
    case OP_ReduceMin: return x < a ? x : a;
    case OP_ReduceProd: return (__int128)((unsigned __int128)a * (unsigned __int128)x);
    default: return a + x;
  }
}

/* The result over no elements, with which accumulation starts. */
static __int128 int_start(op_id id, reed_dtype dtype) {
  int bits = 8 * (int)reed_dtype_bytes(dtype);
  bool sign = reference_is_signed(dtype);
  if (id == OP_ReduceMax) return sign ? -((__int128)1 << (bits - 1)) : 0;
  if (id == OP_ReduceMin) return dtype == REED_BOOL ? 1 : ((__int128)1 << (bits - sign)) - 1;
  return id == OP_ReduceProd;
}

static reed_status run_reduce(const void *state, const reed_kernel_buffers *buffers) {
  const reference_state *s = state;
  const reed_desc *in = &s->inputs[0], *out = &s->outputs[0];
  /* the extents of the outputs and those of what one of them is made of, with 1 in place of the others */
  reed_desc kept = *in, each = *in;
  for (int32_t d = 0; d < in->rank; d++) (is_reduced(s, buffers, d) ? &kept : &each)->dims[d] = 1;
  const int64_t n_each = desc_elements(&each);
  const bool floats = reference_is_float(in->dtype);
  for (int64_t o = 0; o < desc_elements(out); o++) {
    long double f = s->id == OP_ReduceMax || s->id == OP_ReduceLogSumExp ? -INFINITY
                    : s->id == OP_ReduceMin                              ? INFINITY
                                                                         : s->id == OP_ReduceProd;
    __int128 k = int_start(s->id, in->dtype);
    int64_t place[REED_MAX_RANK];
    reference_coordinates(&kept, o, place);
    for (int64_t j = 0; j < n_each; j++) {
      int64_t at[REED_MAX_RANK];
      reference_coordinates(&each, j, at);
      for (int32_t d = 0; d < in->rank; d++) at[d] += place[d];
      const int64_t i = reference_linear(in, at, in->rank);
      if (floats) f = float_step(s->id, f, reference_read_float(in->dtype, buffers->inputs[0], i));
      else k = int_step(s->id, k, reference_read_int(in->dtype, buffers->inputs[0], i));
    }
    if (s->id == OP_ReduceMean) f /= n_each, k = n_each ? k / n_each : 0;
    if (s->id == OP_ReduceLogSum) f = logl(f);
    if (s->id == OP_ReduceL2) f = sqrtl(f), k = (__int128)sqrtl((long double)k);
    if (floats) reference_write_float(out->dtype, buffers->outputs[0], o, f);
    else reference_write_int(out->dtype, buffers->outputs[0], o, k);
  }
  return REED_OK;
}

reed_status reference_prepare_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return reference_open(call, run_reduce, out_kernel);
}

/* ---- CumSum, ArgMax, ArgMin ---- */

static void cumsum_line(const reference_state *s, const reed_kernel_buffers *buffers, int64_t first, int64_t n,
                        int64_t stride) {
  reed_dtype dtype = s->inputs[0].dtype;
  bool reverse = op_attr_int(&s->attrs, "reverse"), exclusive = op_attr_int(&s->attrs, "exclusive");
  long double f = 0;
  __int128 sum = 0;
  for (int64_t step = 0; step < n; step++) {
    const int64_t k = reverse ? n - 1 - step : step, at = first + k * stride;
    if (reference_is_float(dtype)) {
      const long double x = reference_read_float(dtype, buffers->inputs[0], at);
      reference_write_float(dtype, buffers->outputs[0], at, exclusive ? f : f + x);
      f += x;
    } else {
      const __int128 x = reference_read_int(dtype, buffers->inputs[0], at);
      reference_write_int(dtype, buffers->outputs[0], at, exclusive ? sum : sum + x);
      sum += x;
    }
  }
}

/* long double holds every 64-bit integer, so all dtypes compare in it. */
static int64_t arg_line(const reference_state *s, const void *data, int64_t first, int64_t n, int64_t stride) {
  bool least = s->id == OP_ArgMin, last = op_attr_int(&s->attrs, "select_last_index");
  reed_dtype dtype = s->inputs[0].dtype;
  int64_t best = 0;
  for (int64_t k = 1; k < n; k++) {
    long double v = reference_read_float(dtype, data, first + k * stride);
    long double b = reference_read_float(dtype, data, first + best * stride);
    bool same = v == b || (v != v && b != b), better = b == b && (v != v || (least ? v < b : v > b));
    if (better || (same && last)) best = k;
  }
  return best;
}

static reed_status run_scan(const void *state, const reed_kernel_buffers *buffers) {
  const reference_state *s = state;
  const reed_desc *in = &s->inputs[0];
  int64_t axis = s->id == OP_CumSum ? (int64_t)reference_read_int(s->inputs[1].dtype, buffers->inputs[1], 0)
                                    : op_attr_int(&s->attrs, "axis");
  if (axis < -in->rank || axis >= in->rank) return reed_kernel_fault(buffers, REED_FAULT_AXIS, 1, 0, axis, in->rank);
  int32_t d = (int32_t)(axis < 0 ? axis + in->rank : axis);
  int64_t outer = cpu_product(in->dims, 0, d), n = in->dims[d], inner = cpu_product(in->dims, d + 1, in->rank);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      if (s->id == OP_CumSum) cumsum_line(s, buffers, o * n * inner + i, n, inner);
      else
        ((int64_t *)buffers->outputs[0])[o * inner + i] = arg_line(s, buffers->inputs[0], o * n * inner + i, n, inner);
    }
  return REED_OK;
}

reed_status reference_prepare_scan(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = op_id_of(call->op) == OP_CumSum ? cumsum_check(call) : REED_OK;
  return status == REED_OK ? reference_open(call, run_scan, out_kernel) : status;
}
