/* Elements by their size, and indices into axes, checked as the host checks them. */
#ifndef DEVICE_CUDA_KERNELS_INDICES_CUH_
#define DEVICE_CUDA_KERNELS_INDICES_CUH_

#include "device/cuda/kernels/dialect.cuh"

static __device__ inline void copy_element(int32_t size, void *y, int64_t to, const void *x, int64_t from) {
  switch (size) {
    case 1: static_cast<uint8_t *>(y)[to] = static_cast<const uint8_t *>(x)[from]; break;
    case 2: static_cast<uint16_t *>(y)[to] = static_cast<const uint16_t *>(x)[from]; break;
    case 4: static_cast<uint32_t *>(y)[to] = static_cast<const uint32_t *>(x)[from]; break;
    default: static_cast<uint64_t *>(y)[to] = static_cast<const uint64_t *>(x)[from]; break;
  }
}

/* As copy_element. size 16: a vector of elements of `unit` bytes, moved at once where both addresses allow it. */
static __device__ inline void copy_vector(int32_t size, int32_t unit, void *y, int64_t to, const void *x,
                                          int64_t from) {
  if (size != 16) {
    copy_element(size, y, to, x, from);
  } else if (in_vectors(x, 0) && in_vectors(y, 0)) {
    static_cast<uint4 *>(y)[to] = static_cast<const uint4 *>(x)[from];
  } else {
    const int32_t n = 16 / unit;
    for (int32_t e = 0; e < n; e++) copy_element(unit, y, to * n + e, x, from * n + e);
  }
}

static __device__ inline void zero_element(int32_t size, void *y, int64_t to) {
  switch (size) {
    case 1: static_cast<uint8_t *>(y)[to] = 0; break;
    case 2: static_cast<uint16_t *>(y)[to] = 0; break;
    case 4: static_cast<uint32_t *>(y)[to] = 0; break;
    default: static_cast<uint64_t *>(y)[to] = 0; break;
  }
}

/* The index at `place` of input 1, of 4 or 8 bytes, counted from the axis's begin. False: it is outside, and noted. */
static __device__ inline bool read_index(int32_t size, const void *indices, int64_t place, int64_t extent,
                                         cuda_fault *fault, uint32_t launch, int64_t *out_index) {
  const int64_t index =
      size == 4 ? static_cast<const int32_t *>(indices)[place] : static_cast<const int64_t *>(indices)[place];
  if (index < -extent || index >= extent) {
    note_fault(fault, launch, extent ? REED_FAULT_INDEX : REED_FAULT_INDEX_OF_NOTHING, 1, place, index, extent);
    return false;
  }
  *out_index = index < 0 ? index + extent : index;
  return true;
}

#endif
