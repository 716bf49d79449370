/* Helpers of all host kernels (common.h): sharing work out to threads, broadcast strides, checking indices, faults. */
#include "ops/cpu/common/common.h"

#include <omp.h>
#include <stdarg.h>
#include <stdio.h>

/* Runs grains first..last-1 in pieces and polls for cancellation between them. */
static void take_pieces(const cpu_team *team, int64_t first, int64_t last, int64_t n, int64_t grain, cpu_range_fn fn,
                        void *context) {
  int64_t step = (last - first + team->pieces - 1) / team->pieces;
  for (; first < last && !cpu_cancelled(team); first += step) {
    int64_t end = first + step < last ? first + step : last;
    fn(context, first * grain, end * grain < n ? end * grain : n);
  }
}

reed_status cpu_parallel(cpu_team team, int64_t n, int64_t grain, cpu_range_fn fn, void *context) {
  int64_t n_grains = (n + grain - 1) / grain;
  if (team.threads > n_grains) team.threads = (int32_t)n_grains;
  if (team.threads <= 1) {
    take_pieces(&team, 0, n_grains, n, grain, fn, context);
  } else {
#pragma omp parallel num_threads(team.threads)
    {
      int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
      take_pieces(&team, n_grains * me / all, n_grains * (me + 1) / all, n, grain, fn, context);
    }
  }
  return cpu_cancelled(&team) ? REED_ERROR_CANCELLED : REED_OK;
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

/* Position of the first index outside -extent..extent-1, -1 for none. Whole blocks are checked without branches, so
 * that valid indices are checked at memory speed. */
#define FIRST_BAD(T, name) \
  static int64_t name(const T *indices, int64_t n, int64_t extent) { \
    for (int64_t begin = 0; begin < n; begin += 1024) { \
      int64_t end = begin + 1024 < n ? begin + 1024 : n; \
      int bad = 0; \
      for (int64_t k = begin; k < end; k++) bad |= ((int64_t)indices[k] < -extent) | ((int64_t)indices[k] >= extent); \
      if (bad) \
        for (int64_t k = begin; k < end; k++) \
          if ((int64_t)indices[k] < -extent || (int64_t)indices[k] >= extent) return k; \
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

reed_status cpu_indices_check(const reed_kernel_buffers *buffers, int input, reed_dtype dtype, const void *indices,
                              int64_t n, int64_t extent) {
  int64_t bad = dtype == REED_I32 ? first_bad_i32(indices, n, extent) : first_bad_i64(indices, n, extent);
  return bad < 0 ? REED_OK : cpu_index_fault(buffers, input, bad, cpu_index_at(dtype, indices, bad), extent);
}

reed_status cpu_tuples_check(const reed_kernel_buffers *buffers, int input, reed_dtype dtype, const void *indices,
                             int64_t n, int32_t n_components, const int64_t *extents) {
  for (int64_t k = 0; k < n * n_components; k++) {
    int64_t i = cpu_index_at(dtype, indices, k), extent = extents[k % n_components];
    if (i < -extent || i >= extent) return cpu_index_fault(buffers, input, k, i, extent);
  }
  return REED_OK;
}

reed_status cpu_division_fault(const reed_kernel_buffers *buffers, int64_t element_bytes, int64_t n) {
  static const char zero[8];
  const char *divisor = buffers->inputs[1];
  int64_t element = buffers->outputs[0] == divisor ? n : 0; /* computed in place: the divisor is gone */
  while (element < n && memcmp(divisor + element * element_bytes, zero, (size_t)element_bytes) != 0) element++;
  return reed_kernel_fault(buffers, REED_FAULT_DIVISION, 1, element < n ? element : -1, 0, 0);
}
