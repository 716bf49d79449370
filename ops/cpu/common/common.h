/* What the host's kernels share: when to start threads, broadcast strides, index tensors, faults that only the data
 * shows.

 * Lifetimes: a prepared kernel may keep call->op and call->node (the module outlives it) and constants
 * (call->constant[i]); everything else of a call is gone when prepare returns. */
#ifndef OPS_CPU_COMMON_COMMON_H_
#define OPS_CPU_COMMON_COMMON_H_

#include <stdbool.h>
#include <string.h>

#include "base/cancel.h"
#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "ops/cpu/common/cpu.h"
#include "ops/kernel.h"

/* ---- threads ---- */

/* Work is counted in bytes touched or their worth (a cheap operation on a float costs 4, an exp about 16). Below this
 * much per thread waking a thread costs more than it brings (2-5 us at some 10 bytes/ns). */
#define CPU_WORK_PER_THREAD ((int64_t)65536)

/* A thread asks whether the run was cancelled after about this much: 1 to 5 ms. */
#define CPU_WORK_PER_PIECE ((int64_t)8 << 20)

/* Who does a piece of work: how many threads, in how many pieces each of them takes its part, and the flag that ends
 * the work between two pieces. A kernel keeps it from `prepare` on. */
typedef struct cpu_team {
  int32_t threads, pieces;
  const int *cancel; /* base/cancel.h */
} cpu_team;

/* All threads that the session allows. */
static inline cpu_team cpu_env_team(const reed_kernel_call *call) {
  const struct reed_kernel_env *env = call->env;
  return (cpu_team){env && env->n_threads > 1 ? env->n_threads : 1, 1, env ? env->cancel : NULL};
}

/* The threads of the team that are worth using for that work: 1 .. all; and its pieces. */
static inline cpu_team cpu_team_for(cpu_team team, int64_t work) {
  int64_t worth = work / CPU_WORK_PER_THREAD;
  if (worth < team.threads) team.threads = worth > 1 ? (int32_t)worth : 1;
  int64_t pieces = work / CPU_WORK_PER_PIECE / team.threads;
  team.pieces = pieces < 1 ? 1 : pieces < INT16_MAX ? (int32_t)pieces : INT16_MAX;
  return team;
}

/* At most that many threads, each with a part of its own that it does not divide: it asks cpu_cancelled itself. */
static inline cpu_team cpu_team_of_parts(cpu_team team, int64_t most) {
  if (team.threads > most) team.threads = (int32_t)(most > 1 ? most : 1);
  team.pieces = 1;
  return team;
}

/* Asked by loops that cpu_parallel does not see into; what they leave undone, cpu_parallel reports. */
static inline bool cpu_cancelled(const cpu_team *team) { return cancel_asked(team->cancel); }

/* In a loop over single elements: asks at every 65536th. */
static inline bool cpu_cancelled_at(const cpu_team *team, int64_t i) { return (i & 65535) == 0 && cpu_cancelled(team); }

/* Calls fn(context, begin, end) on disjoint ranges that cover 0..n, whose bounds are multiples of `grain` (but n), on
 * up to team.threads threads of the OpenMP team; one thread: on the calling one. A thread's ranges follow each other,
 * one a piece. ERROR_CANCELLED where the run was cancelled by then: some ranges may be missing. fn must not fail by
 * unwinding. */
typedef void (*cpu_range_fn)(void *context, int64_t begin, int64_t end);
reed_status cpu_parallel(cpu_team team, int64_t n, int64_t grain, cpu_range_fn fn, void *context) REED_MUST_CHECK;

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
