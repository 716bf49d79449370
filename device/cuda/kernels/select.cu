/* NonZero and Compress: the places of the elements that are not zero, in order. A first launch counts them in chunks of
 * SELECT_CHUNK elements, a second one makes offsets of the counts, a third one writes the places; Compress then takes
 * what lies at the places. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/indices.cuh"

/* The bits count, without the sign of floats: -0 is zero, NaN is not. */
static __device__ inline bool is_set(int dtype, const void *x, int64_t i) {
  switch (dtype) {
    case REED_F32: return static_cast<const uint32_t *>(x)[i] & 0x7fffffffu;
    case REED_F64: return static_cast<const uint64_t *>(x)[i] & 0x7fffffffffffffffu;
    case REED_F16:
    case REED_BF16: return static_cast<const uint16_t *>(x)[i] & 0x7fffu;
    case REED_I16:
    case REED_U16: return static_cast<const uint16_t *>(x)[i];
    case REED_I32:
    case REED_U32: return static_cast<const uint32_t *>(x)[i];
    case REED_I64:
    case REED_U64: return static_cast<const uint64_t *>(x)[i];
    default: return static_cast<const uint8_t *>(x)[i];
  }
}

KERNEL(select_count) {
  SHARED_VALUE(int, count);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * SELECT_CHUNK, n = true_number(a.counted, a.n);
  int mine = 0;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  for (int64_t i = first + threadIdx.x; i < first + SELECT_CHUNK && i < n; i += blockDim.x)
    mine += is_set(a.dtype, a.x, i);
  if (mine) atomicAdd(&count, mine);
  __syncthreads();
  if (threadIdx.x == 0) a.offsets[blockIdx.x] = count;
}

/* One block. */
KERNEL(select_offsets) {
  uint64_t before = 0, all;
  for (int64_t begin = 0; begin < a.chunks; begin += blockDim.x) {
    const int64_t i = begin + threadIdx.x;
    const uint64_t offset = before + block_sum(i < a.chunks ? static_cast<uint64_t>(a.offsets[i]) : uint64_t(0), &all);
    if (i < a.chunks) a.offsets[i] = static_cast<int64_t>(offset);
    before += all;
  }
  if (threadIdx.x) return;
  *a.total = static_cast<int64_t>(before);
  if (a.extent) *a.extent = static_cast<int64_t>(before);
}

KERNEL(select_write) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * SELECT_CHUNK, total = *a.total,
                n = true_number(a.counted, a.n);
  int64_t k = a.offsets[blockIdx.x];
  for (int64_t begin = first; begin < first + SELECT_CHUNK && begin < n; begin += blockDim.x) {
    const int64_t i = begin + threadIdx.x;
    const bool set = i < n && is_set(a.dtype, a.x, i);
    int all;
    const int64_t place = k + block_rank(set, &all);
    k += all;
    if (!set) continue;
    int64_t left = i;
    for (int32_t d = a.rank - 1; d >= 0; d--) {
      const int64_t extent = a.counted.count && d == a.counted_axis ? true_count(a.counted) : a.extents[d];
      a.places[d * total + place] = left % extent;
      left /= extent;
    }
  }
}

KERNEL(take) {
  const int64_t i = thread_number(), total = *a.total;
  if (i >= a.outer * total * a.block) return;
  const int64_t b = i % a.block, k = i / a.block % total, o = i / a.block / total,
                extent = a.counted.count ? true_count(a.counted) : a.extent;
  copy_element(a.size, a.y, i, a.x, (o * extent + a.places[k]) * a.block + b);
}
