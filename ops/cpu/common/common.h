/* Helpers of the host's kernels: the number of threads for some work, broadcast strides, index tensors, faults in data.
 * Loops over elements are in files of their own.
 *
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

/* Work is counted in bytes touched or their equivalent (a cheap operation on a float counts 4, an exp about 16): some
 * 10 a nanosecond. For less work than this per thread the calling thread works alone: waking a helper costs 2-5 us. */
#define CPU_WORK_PER_THREAD ((int64_t)131072)

/* Work of a chunk, about 13 us: so long may a thread have to wait at the end of a kernel for another one's last chunk,
 * which a model of many small kernels does at each of them. Taking a chunk costs some 0.1 us. */
#define CPU_WORK_PER_CHUNK ((int64_t)128 << 10)

/* Work of a chunk where one thread has them all, which divides it only to poll for cancellation: 1 to 5 ms. */
#define CPU_WORK_PER_POLL ((int64_t)8 << 20)

/* Work that is worth waking a sleeping helper, about 0.1 ms. */
#define CPU_WORK_WORTH_WAKING (8 * CPU_WORK_PER_CHUNK)

/* How a kernel's work is shared out: the most threads that work on it, the number of chunks that they take it in, and
 * the flag that ends the work between two chunks. The bounds of chunks follow from the work and the session's number of
 * threads, never from who takes them. A kernel keeps its team from `prepare` on. */
typedef struct cpu_team {
  int32_t threads, chunks;
  const int *cancel; /* base/cancel.h */
  bool brief;        /* so little work that no sleeping helper is woken for it alone: team_run_lazy */
} cpu_team;

/* Of a long copy: bytes of a piece, which is the least that a chunk has, and the number of pieces. */
#define CPU_PIECE_BYTES ((int64_t)1 << 15)
static inline int64_t cpu_pieces(int64_t bytes) { return (bytes + CPU_PIECE_BYTES - 1) / CPU_PIECE_BYTES; }

/* Elements of X and Y in f32 together, from which they lie in memory rather than in the caches of a core. */
#define CPU_FAR_ELEMENTS ((int64_t)1 << 20)

/* A team of all threads that the session allows. */
static inline cpu_team cpu_env_team(const reed_kernel_call *call) {
  const struct reed_kernel_env *env = call->env;
  return (cpu_team){env && env->n_threads > 1 ? env->n_threads : 1, 1, env ? env->cancel : NULL, false};
}

/* The team for this much work: as many of the team's threads as are worth waking (1 or more), and its chunks. */
static inline cpu_team cpu_team_for(cpu_team team, int64_t work) {
  int64_t worth = work / CPU_WORK_PER_THREAD;
  if (worth < team.threads) team.threads = worth > 1 ? (int32_t)worth : 1;
  int64_t chunks = work / (team.threads > 1 ? CPU_WORK_PER_CHUNK : CPU_WORK_PER_POLL);
  chunks = (chunks > 1 ? chunks + team.threads - 1 : team.threads) / team.threads * team.threads; /* as many for each */
  team.chunks = chunks < INT32_MAX ? (int32_t)chunks : INT32_MAX;
  team.brief = work < CPU_WORK_WORTH_WAKING;
  return team;
}

/* Polls for cancellation, in loops inside a chunk. The loop leaves early; cpu_parallel then returns ERROR_CANCELLED. */
static inline bool cpu_cancelled(const cpu_team *team) { return cancel_asked(team->cancel); }

/* Polls for cancellation at every 65536th element of a loop. */
static inline bool cpu_cancelled_at(const cpu_team *team, int64_t i) { return (i & 65535) == 0 && cpu_cancelled(team); }

/* Calls fn(context, begin, end) on disjoint ranges that cover 0..n, up to team.chunks of them, on the calling thread
 * and up to team.threads - 1 of the process's helpers (base/team.h). The bounds of ranges are multiples of `grain`,
 * except n. ERROR_CANCELLED if the run has been cancelled: some ranges may be missing. fn must not fail by unwinding.
 */
typedef void (*cpu_range_fn)(void *context, int64_t begin, int64_t end);
reed_status cpu_parallel(cpu_team team, int64_t n, int64_t grain, cpu_range_fn fn, void *context) REED_MUST_CHECK;

/* As cpu_parallel, for ranges that need scratch memory: worker is 0..team.threads-1, and no two ranges that run at a
 * time have the same. */
typedef void (*cpu_scratch_fn)(void *context, int64_t begin, int64_t end, int32_t worker);
reed_status cpu_parallel_scratch(cpu_team team, int64_t n, int64_t grain, cpu_scratch_fn fn,
                                 void *context) REED_MUST_CHECK;

/* ---- kernels ---- */

/* Fills in a kernel whose state is heap memory from mem_*; mem_free frees it. */
static inline void cpu_kernel_set(reed_kernel *out_kernel, reed_kernel_run_fn run, void *state) {
  *out_kernel = (reed_kernel){.run = run, .state = state, .free = mem_free};
}
reed_status cpu_no_memory(const reed_kernel_call *call) REED_MUST_CHECK;

/* ---- faults (ops/fault.def) ---- */

/* A real number in the form for a fault record. */
static inline int64_t cpu_bits_of(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
/* Records that `value`, the index at position `element` of an input, is outside -extent..extent-1. */
reed_status cpu_index_fault(const reed_kernel_buffers *buffers, int input, int64_t element, int64_t value,
                            int64_t extent) REED_MUST_CHECK;
/* Records an integer division by 0: finds the first 0 among the n elements of input 1, of element_bytes bytes each. */
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
/* Strides in elements of an input or output, computed with the capacity of its room. A kernel that uses them for every
 * operand that may have room sets reed_kernel.reads_rooms. */
void cpu_input_strides(const reed_kernel_call *call, int32_t i, int64_t *out_strides);
void cpu_output_strides(const reed_kernel_call *call, int32_t i, int64_t *out_strides);
/* True if no input but those whose bit is set in `inputs`, and no output, has room. */
bool cpu_rooms_only(const reed_kernel_call *call, uint32_t inputs);
/* Strides in elements that let a dense tensor `from` be read at the coordinates of `to` (numpy's rule: dims aligned at
 * the end, extent 1 repeats). False: the extents do not broadcast. */
bool cpu_broadcast_strides(const reed_desc *from, const reed_desc *to, int64_t *out_strides);
/* counts[0..n) become `first` plus the sums of the counts before them. Returns what would come next. */
static inline int64_t cpu_sum_before(int64_t *counts, int64_t n, int64_t first) {
  for (int64_t i = 0; i < n; i++) {
    const int64_t count = counts[i];
    counts[i] = first;
    first += count;
  }
  return first;
}

/* A digit of a sort that is shared out by parts. */
#define CPU_DIGIT_BITS 8
#define CPU_DIGITS (1 << CPU_DIGIT_BITS)
/* counts[part][digit], the number of a part's items with the digit, becomes the place of the first of them: items of
 * lower digits come before, and of the same digit those of earlier parts. */
void cpu_place_digits(uint32_t *counts, int64_t parts);

/* v in low..high, so that sums with extents cannot overflow. */
static inline int64_t cpu_clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }
/* An axis attribute or value, which the shape function has checked, as 0..rank-1. */
static inline int32_t cpu_axis(int64_t axis, int32_t rank) { return (int32_t)(axis < 0 ? axis + rank : axis); }
/* Input 0 of a call as [outer, n, block]: the slices along attribute axis, or without one each element. */
typedef struct cpu_slices {
  int64_t outer, n, block;
} cpu_slices;
static inline cpu_slices cpu_slices_of(const reed_kernel_call *call) {
  const reed_desc *x = &call->inputs[0];
  const reed_attr *given = reed_attrs_find(call->attrs, "axis");
  if (!given) return (cpu_slices){1, desc_elements(x), 1};
  int32_t axis = cpu_axis(given->i, x->rank);
  return (cpu_slices){cpu_product(x->dims, 0, axis), x->dims[axis], cpu_product(x->dims, axis + 1, x->rank)};
}
/* Element k of an integer tensor (i32 or i64) on the host. */
static inline int64_t cpu_index_at(reed_dtype dtype, const void *data, int64_t k) {
  return dtype == REED_I32 ? (int64_t)((const int32_t *)data)[k] : ((const int64_t *)data)[k];
}
/* As cpu_index_at, with negative indices counted from the end; only after cpu_indices_check. */
static inline int64_t cpu_index_wrapped(reed_dtype dtype, const void *data, int64_t k, int64_t extent) {
  int64_t i = cpu_index_at(dtype, data, k);
  return i < 0 ? i + extent : i;
}
/* Fails unless all n indices are in -extent..extent-1; records the first that is not. `team`: of the session. */
reed_status cpu_indices_check(const reed_kernel_buffers *buffers, cpu_team team, int input, reed_dtype dtype,
                              const void *indices, int64_t n, int64_t extent) REED_MUST_CHECK;
/* As cpu_indices_check, for n tuples of n_components indices; component d indexes an axis of extents[d]. */
reed_status cpu_tuples_check(const reed_kernel_buffers *buffers, cpu_team team, int input, reed_dtype dtype,
                             const void *indices, int64_t n, int32_t n_components,
                             const int64_t *extents) REED_MUST_CHECK;

#endif
