/* Helpers of all host kernels (common.h): sharing work out to threads, broadcast strides, checking indices, faults. */
#include "ops/cpu/common/common.h"

#include <stdatomic.h>

#include "base/team.h"

/* A call of cpu_parallel or cpu_parallel_scratch. */
typedef struct sharing {
  const cpu_team *team;
  int64_t n, grain, n_grains, n_chunks;
  cpu_range_fn fn;
  cpu_scratch_fn with_scratch; /* instead of fn */
  void *context;
} sharing;

static void run_chunk(void *context, int64_t chunk, int32_t worker) {
  const sharing *s = context;
  if (cpu_cancelled(s->team)) return;
  int64_t each = s->n_grains / s->n_chunks, more = s->n_grains % s->n_chunks; /* the first `more` have one grain more */
  int64_t first = chunk * each + (chunk < more ? chunk : more), last = first + each + (chunk < more);
  int64_t begin = first * s->grain, end = last * s->grain < s->n ? last * s->grain : s->n;
  if (s->fn) s->fn(s->context, begin, end);
  else s->with_scratch(s->context, begin, end, worker);
}

static reed_status share_out(sharing *s, const cpu_team *team) {
  s->team = team;
  s->n_grains = (s->n + s->grain - 1) / s->grain;
  s->n_chunks = team->chunks < s->n_grains ? team->chunks : s->n_grains;
  (team->brief ? team_run_lazy : team_run)(team->threads, s->n_chunks, run_chunk, s);
  return cpu_cancelled(team) ? REED_ERROR_CANCELLED : REED_OK;
}

reed_status cpu_parallel(cpu_team team, int64_t n, int64_t grain, cpu_range_fn fn, void *context) {
  return share_out(&(sharing){.n = n, .grain = grain, .fn = fn, .context = context}, &team);
}

reed_status cpu_parallel_scratch(cpu_team team, int64_t n, int64_t grain, cpu_scratch_fn fn, void *context) {
  return share_out(&(sharing){.n = n, .grain = grain, .with_scratch = fn, .context = context}, &team);
}

reed_status cpu_no_memory(const reed_kernel_call *call) {
  return reed_kernel_fail(call, REED_ERROR_MEMORY, "out of memory while preparing the kernel");
}

/* Product that may wrap: if one extent is 0, others may be huge, but then nothing is read at such strides. */
static int64_t wrapping_product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

void cpu_dense_strides(int32_t rank, const int64_t *dims, int64_t *out_strides) {
  int64_t stride = 1;
  for (int32_t i = rank - 1; i >= 0; i--) {
    out_strides[i] = stride;
    stride = wrapping_product(stride, dims[i]);
  }
}

static void strides_with(const reed_desc *desc, const reed_room *rooms, int32_t i, int64_t *out_strides) {
  bool has = rooms && rooms[i].axis >= 0 && !rooms[i].counted;
  reed_desc memory = *desc;
  if (has) memory.dims[rooms[i].axis] = rooms[i].capacity;
  cpu_dense_strides(memory.rank, memory.dims, out_strides);
}

void cpu_input_strides(const reed_kernel_call *call, int32_t i, int64_t *out_strides) {
  strides_with(&call->inputs[i], call->input_rooms, i, out_strides);
}

void cpu_output_strides(const reed_kernel_call *call, int32_t i, int64_t *out_strides) {
  strides_with(&call->outputs[i], call->output_rooms, i, out_strides);
}

bool cpu_rooms_only(const reed_kernel_call *call, uint32_t inputs) {
  bool only = true;
  for (int32_t i = 0; call->input_rooms && i < call->n_inputs; i++)
    only = only && (call->input_rooms[i].axis < 0 || (i < 32 && (inputs >> i & 1)));
  for (int32_t i = 0; call->output_rooms && i < call->n_outputs; i++) only = only && call->output_rooms[i].axis < 0;
  return only;
}

bool cpu_broadcast_strides(const reed_desc *from, const reed_desc *to, int64_t *out_strides) {
  int32_t lead = to->rank - from->rank;
  if (lead < 0) return false;
  int64_t stride = 1;
  for (int32_t i = to->rank - 1; i >= 0; i--) {
    int64_t extent = i >= lead ? from->dims[i - lead] : 1;
    if (extent != 1 && extent != to->dims[i]) return false;
    out_strides[i] = extent == 1 ? 0 : stride;
    stride = wrapping_product(stride, extent);
  }
  return true;
}

void cpu_place_digits(uint32_t *counts, int64_t parts) {
  uint32_t next[CPU_DIGITS] = {0}, at = 0;
  for (int64_t p = 0; p < parts; p++)
    for (int digit = 0; digit < CPU_DIGITS; digit++) next[digit] += counts[p * CPU_DIGITS + digit];
  for (int digit = 0; digit < CPU_DIGITS; digit++) {
    const uint32_t of_digit = next[digit];
    next[digit] = at;
    at += of_digit;
  }
  for (int64_t p = 0; p < parts; p++)
    for (int digit = 0; digit < CPU_DIGITS; digit++) {
      const uint32_t own = counts[p * CPU_DIGITS + digit];
      counts[p * CPU_DIGITS + digit] = next[digit];
      next[digit] += own;
    }
}

/* Position of the first index outside -extent..extent-1, -1 for none. An index i is inside if neither i + extent nor
 * extent - 1 - i is negative; whole blocks are tested by the signs alone, so that valid indices are checked at memory
 * speed. */
#define FIRST_BAD(T, name) \
  static int64_t name(const T *indices, int64_t n, uint64_t extent) { \
    for (int64_t begin = 0; begin < n; begin += 1024) { \
      int64_t end = begin + 1024 < n ? begin + 1024 : n; \
      uint64_t signs = 0; \
      for (int64_t k = begin; k < end; k++) { \
        uint64_t index = (uint64_t)(int64_t)indices[k]; \
        signs |= (index + extent) | (extent - 1 - index); \
      } \
      for (int64_t k = begin; k < end && signs >> 63; k++) \
        if ((int64_t)indices[k] < -(int64_t)extent || (int64_t)indices[k] >= (int64_t)extent) return k; \
    } \
    return -1; \
  }
FIRST_BAD(int32_t, first_bad_i32)
FIRST_BAD(int64_t, first_bad_i64)

reed_status cpu_index_fault(const reed_kernel_buffers *buffers, int input, int64_t element, int64_t value,
                            int64_t extent) {
  return reed_kernel_fault(buffers, extent ? REED_FAULT_INDEX : REED_FAULT_INDEX_OF_NOTHING, input, element, value,
                           extent);
}

/* A check of n tuples; first_bad is the least position of a bad index among those found. */
typedef struct checking {
  reed_dtype dtype;
  const void *indices;
  int32_t n_components;
  const int64_t *extents;
  _Atomic int64_t first_bad;
} checking;

static void note_bad(checking *c, int64_t position) {
  int64_t least = atomic_load(&c->first_bad);
  while (position < least && !atomic_compare_exchange_weak(&c->first_bad, &least, position)) continue;
}

static void check_indices(void *context, int64_t begin, int64_t end) {
  checking *c = context;
  int64_t n = end - begin, extent = c->extents[0],
          bad = c->dtype == REED_I32 ? first_bad_i32((const int32_t *)c->indices + begin, n, (uint64_t)extent)
                                     : first_bad_i64((const int64_t *)c->indices + begin, n, (uint64_t)extent);
  if (bad >= 0) note_bad(c, begin + bad);
}

static void check_tuples(void *context, int64_t begin, int64_t end) {
  checking *c = context;
  for (int64_t tuple = begin, k = begin * c->n_components; tuple < end; tuple++)
    for (int32_t d = 0; d < c->n_components; d++, k++) {
      int64_t i = cpu_index_at(c->dtype, c->indices, k);
      if (i >= -c->extents[d] && i < c->extents[d]) continue;
      note_bad(c, k);
      return;
    }
}

static reed_status check(checking *c, const reed_kernel_buffers *buffers, cpu_team team, int input, int64_t n,
                         int64_t work, cpu_range_fn fn) {
  atomic_init(&c->first_bad, INT64_MAX);
  reed_status status = REED_OK;
  if (work < CPU_WORK_PER_CHUNK) fn(c, 0, n);
  else status = cpu_parallel(cpu_team_for(team, work), n, 1024, fn, c);
  int64_t bad = atomic_load(&c->first_bad);
  if (status != REED_OK || bad == INT64_MAX) return status;
  return cpu_index_fault(buffers, input, bad, cpu_index_at(c->dtype, c->indices, bad),
                         c->extents[bad % c->n_components]);
}

reed_status cpu_indices_check(const reed_kernel_buffers *buffers, cpu_team team, int input, reed_dtype dtype,
                              const void *indices, int64_t n, int64_t extent) {
  checking c = {.dtype = dtype, .indices = indices, .n_components = 1, .extents = &extent};
  return check(&c, buffers, team, input, n, n * (int64_t)reed_dtype_bytes(dtype), check_indices);
}

reed_status cpu_tuples_check(const reed_kernel_buffers *buffers, cpu_team team, int input, reed_dtype dtype,
                             const void *indices, int64_t n, int32_t n_components, const int64_t *extents) {
  checking c = {.dtype = dtype, .indices = indices, .n_components = n_components, .extents = extents};
  if (n_components == 0) return REED_OK;
  return check(&c, buffers, team, input, n, n * n_components * 16, check_tuples);
}

reed_status cpu_division_fault(const reed_kernel_buffers *buffers, int64_t element_bytes, int64_t n) {
  static const char zero[8];
  const char *divisor = buffers->inputs[1];
  int64_t element = buffers->outputs[0] == divisor ? n : 0; /* computed in place: the divisor is gone */
  while (element < n && memcmp(divisor + element * element_bytes, zero, (size_t)element_bytes) != 0) element++;
  return reed_kernel_fault(buffers, REED_FAULT_DIVISION, 1, element < n ? element : -1, 0, 0);
}
