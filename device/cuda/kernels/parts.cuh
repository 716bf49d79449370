/* Neighbouring elements of 1, 2, 4 or 8 bytes, at most 16 bytes of them, which a thread loads and stores at once where
 * their address is a multiple of their bytes. */
#ifndef DEVICE_CUDA_KERNELS_PARTS_CUH_
#define DEVICE_CUDA_KERNELS_PARTS_CUH_

#include "device/cuda/kernels/dialect.cuh"

struct alignas(16) part {
  uint32_t words[4];
};

static __device__ inline uint64_t part_element(const part &of, int size, int e) {
  const int at = e * size;
  if (size == 8) return of.words[at / 4] | static_cast<uint64_t>(of.words[at / 4 + 1]) << 32;
  const uint32_t word = of.words[at / 4] >> at % 4 * 8;
  return size == 4 ? word : size == 2 ? word & 0xffffu : word & 0xffu;
}

/* Element 0 of a word is set first: it clears the others. */
static __device__ inline void set_part_element(part *of, int size, int e, uint64_t bits) {
  const int at = e * size;
  if (size >= 4) {
    of->words[at / 4] = static_cast<uint32_t>(bits);
    if (size == 8) of->words[at / 4 + 1] = static_cast<uint32_t>(bits >> 32);
    return;
  }
  const uint32_t own = static_cast<uint32_t>(bits) & (size == 2 ? 0xffffu : 0xffu);
  of->words[at / 4] = (at % 4 ? of->words[at / 4] : 0) | own << at % 4 * 8;
}

/* True if n elements from `first` on are loaded or stored at once. */
static __device__ inline bool is_vector(int size, int n, const void *data, int64_t first) {
  const int bytes = size * n;
  return n > 1 && bytes >= 4 && (bytes & (bytes - 1)) == 0 &&
         ((reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(first * size)) &
          static_cast<uintptr_t>(bytes - 1)) == 0;
}

/* Loads n elements, `step` apart, from `first` on. */
static __device__ inline void load_part(part *to, int size, int n, const void *data, int64_t first, int64_t step) {
  if (step == 1 && is_vector(size, n, data, first)) {
    const char *const from = static_cast<const char *>(data) + first * size;
    if (size * n == 16) {
      const uint4 four = *reinterpret_cast<const uint4 *>(from);
      *reinterpret_cast<uint4 *>(to->words) = four;
    } else if (size * n == 8) {
      const uint2 two = *reinterpret_cast<const uint2 *>(from);
      to->words[0] = two.x;
      to->words[1] = two.y;
    } else {
      to->words[0] = *reinterpret_cast<const uint32_t *>(from);
    }
    return;
  }
  for (int e = 0; e < n; e++, first += step) {
    uint64_t bits;
    switch (size) {
      case 1: bits = static_cast<const uint8_t *>(data)[first]; break;
      case 2: bits = static_cast<const uint16_t *>(data)[first]; break;
      case 4: bits = static_cast<const uint32_t *>(data)[first]; break;
      default: bits = static_cast<const uint64_t *>(data)[first]; break;
    }
    set_part_element(to, size, e, bits);
  }
}

/* Stores n elements from `first` on. */
static __device__ inline void store_part(const part &from, int size, int n, void *data, int64_t first) {
  if (is_vector(size, n, data, first)) {
    char *const to = static_cast<char *>(data) + first * size;
    if (size * n == 16) *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from.words);
    else if (size * n == 8) *reinterpret_cast<uint2 *>(to) = make_uint2(from.words[0], from.words[1]);
    else *reinterpret_cast<uint32_t *>(to) = from.words[0];
    return;
  }
  for (int e = 0; e < n; e++, first++) {
    const uint64_t bits = part_element(from, size, e);
    switch (size) {
      case 1: static_cast<uint8_t *>(data)[first] = static_cast<uint8_t>(bits); break;
      case 2: static_cast<uint16_t *>(data)[first] = static_cast<uint16_t>(bits); break;
      case 4: static_cast<uint32_t *>(data)[first] = static_cast<uint32_t>(bits); break;
      default: static_cast<uint64_t *>(data)[first] = bits; break;
    }
  }
}

#endif
