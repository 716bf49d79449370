/* Neighbouring channels of one pixel, which a thread loads, computes and stores at once. */
#ifndef DEVICE_CUDA_KERNELS_CHANNELS_CUH_
#define DEVICE_CUDA_KERNELS_CHANNELS_CUH_

#include "device/cuda/kernels/parts.cuh"
#include "device/cuda/kernels/values.cuh"

/* PART channels of a float dtype of 16 / PART bytes; PART 1: one element of any dtype. Values are held as in
 * values.cuh.
 */
template <int PART> struct channels {
  part held;

  /* ALIGNED: the address is known to be a multiple of 16 bytes. */
  template <bool ALIGNED = false> __device__ inline void load(int dtype, const void *data, int64_t at) {
    if (PART == 1) {
      set_part_element(&held, 8, 0, value_load(dtype, data, at));
    } else if (ALIGNED) {
      const uint4 loaded = *reinterpret_cast<const uint4 *>(static_cast<const char *>(data) + at * (16 / PART));
      *reinterpret_cast<uint4 *>(held.words) = loaded;
    } else {
      load_part(&held, 16 / PART, PART, data, at, 1);
    }
  }
  __device__ inline uint64_t value(int dtype, int c) const {
    return PART == 1 ? part_element(held, 8, 0) : value_held(dtype, part_element(held, 16 / PART, c));
  }
  /* Value 0 is set first. */
  __device__ inline void set(int dtype, int c, uint64_t value) {
    if (PART == 1) set_part_element(&held, 8, 0, value);
    else set_part_element(&held, 16 / PART, c, value_bits(dtype, value));
  }
  __device__ inline void store(int dtype, void *data, int64_t at) const {
    if (PART == 1) value_store(dtype, data, at, part_element(held, 8, 0));
    else store_part(held, 16 / PART, PART, data, at);
  }
};

#endif
