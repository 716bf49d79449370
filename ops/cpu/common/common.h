/* What the host's kernels share: when to start threads, broadcast strides, index tensors, faults that only the data
 * shows.

 * Lifetimes: a prepared kernel may keep call->op and call->node (the module outlives it) and constants
 * (call->constant[i]); everything else of a call is gone when prepare returns. */
#ifndef OPS_CPU_COMMON_COMMON_H_
#define OPS_CPU_COMMON_COMMON_H_

#include <stdbool.h>
#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "ops/cpu/common/cpu.h"
#include "ops/kernel.h"

/* ---- threads ---- */

/* Work is counted in bytes touched or their worth (a cheap operation on a float costs 4, an exp about 16). Below this
 * much per thread waking a thread costs more than it brings (2-5 us at some 10 bytes/ns). */
#define CPU_WORK_PER_THREAD ((int64_t)65536)

/* Threads worth using for that work: 1 .. n_threads. */
static inline int cpu_threads_for(int n_threads, int64_t work) {
  int64_t worth = work / CPU_WORK_PER_THREAD;
  return worth <= 1 ? 1 : worth < n_threads ? (int)worth : n_threads;
}

/* Calls fn(context, begin, end) on disjoint ranges that cover 0..n, whose bounds are multiples of `grain` (but n), on
 * up to n_threads threads of the OpenMP team: one range per thread; n_threads 1: one plain call. fn must not fail by
 * unwinding. */
typedef void (*cpu_range_fn)(void *context, int64_t begin, int64_t end);
void cpu_parallel(int n_threads, int64_t n, int64_t grain, cpu_range_fn fn, void *context);

static inline int cpu_env_threads(const reed_kernel_call *call) {
  return call->env && call->env->n_threads > 1 ? call->env->n_threads : 1;
}

/* ---- kernels ---- */

/* Gives a kernel whose state is heap memory from mem_*, freed by mem_free. */
static inline void cpu_kernel_set(reed_kernel *out_kernel, reed_kernel_run_fn run, void *state) {
  *out_kernel = (reed_kernel){.run = run, .state = state, .free = mem_free};
}
reed_status cpu_no_memory(const reed_kernel_call *call) REED_MUST_CHECK;

/* ---- faults (ops/fault.def) ---- */

/* A real number in a fault record. */
static inline int64_t cpu_bits_of(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
/* Index `value`, element `element` of the input, is outside -extent..extent-1. */
reed_status cpu_index_fault(const reed_kernel_buffers *buffers, int input, int64_t element, int64_t value,
                            int64_t extent) REED_MUST_CHECK;
/* Some element of input 1 is 0, an integer of element_bytes bytes: finds the first of its n elements. */
reed_status cpu_division_fault(const reed_kernel_buffers *buffers, int64_t element_bytes, int64_t n) REED_MUST_CHECK;

/* ---- extents ---- */

static inline bool cpu_present(const reed_kernel_call *call, int32_t input) {
  return input < call->n_inputs && call->inputs[input].dtype != REED_NONE;
}
/* Product of dims[begin..end). */
static inline int64_t cpu_product(const int64_t *dims, int32_t begin, int32_t end) {
  int64_t n = 1;
  for (int32_t i = begin; i < end; i++) n *= dims[i];
  return n;
}
/* Dense row-major strides in elements. */
void cpu_dense_strides(int32_t rank, const int64_t *dims, int64_t *out_strides);
/* Strides in elements that let a dense tensor `from` be read at the coordinates of `to` (numpy's rule: dims aligned at
 * the end, extent 1 repeats). False where the extents do not broadcast. */
bool cpu_broadcast_strides(const reed_desc *from, const reed_desc *to, int64_t *out_strides);
/* An axis attribute or value as 0..rank-1; fails where it is outside -rank..rank-1. */
reed_status cpu_axis(const reed_kernel_call *call, int64_t axis, int32_t rank, int32_t *out_axis) REED_MUST_CHECK;
/* Element k of an integer tensor (i32 or i64) on the host. */
static inline int64_t cpu_index_at(reed_dtype dtype, const void *data, int64_t k) {
  return dtype == REED_I32 ? (int64_t)((const int32_t *)data)[k] : ((const int64_t *)data)[k];
}
/* As cpu_index_at, negative counted from the end; call only after cpu_indices_check. */
static inline int64_t cpu_index_wrapped(reed_dtype dtype, const void *data, int64_t k, int64_t extent) {
  int64_t i = cpu_index_at(dtype, data, k);
  return i < 0 ? i + extent : i;
}
/* Fails unless all n indices are in -extent..extent-1; records the first that is not. */
reed_status cpu_indices_check(const reed_kernel_buffers *buffers, int input, reed_dtype dtype, const void *indices,
                              int64_t n, int64_t extent) REED_MUST_CHECK;
/* The same for n tuples of n_components indices, component d into an axis of extents[d]. */
reed_status cpu_tuples_check(const reed_kernel_buffers *buffers, int input, reed_dtype dtype, const void *indices,
                             int64_t n, int32_t n_components, const int64_t *extents) REED_MUST_CHECK;

#endif
