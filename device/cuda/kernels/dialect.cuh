/* The dialect of CUDA C++ in which the kernels of this folder are written, so that nvcc compiles them for a GPU and g++
 * for the emulation (device/cuda/simt/). Its rules:
 *   - a kernel is KERNEL(name) { ... a.n ... }: one plain struct, `a`, that it must not write;
 *     KERNEL_OF_MANY_REGISTERS where ptxas would spill registers so that more blocks fit a multiprocessor,
 *     KERNEL_OF_BLOCKS(n, name) where n blocks are to fit one
 *   - shared memory by SHARED_ARRAY, SHARED_VALUE, SHARED_DYNAMIC
 *   - no tables in memory of the program, no printf, no device heap, no recursion, no waiting of a block for another
 *   - inline PTX in ptx.cuh only
 *   - 64-bit indices wherever a tensor may have more than 2^31 elements */
#ifndef DEVICE_CUDA_KERNELS_DIALECT_CUH_
#define DEVICE_CUDA_KERNELS_DIALECT_CUH_

#include "device/cuda/kernels/args.h"
#include "reed/operator.h"

#define CUDA_KERNEL(name, args, threads) \
  typedef args kernel_args_##name; \
  enum { kernel_threads_##name = threads };
#include "device/cuda/kernels/kernels.def"

#ifdef __CUDACC__
#define KERNEL_OF(name, ...) \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) reed_##name(const __grid_constant__ kernel_args_##name a)
#define KERNEL(name) KERNEL_OF(name, kernel_threads_##name)
#define KERNEL_OF_MANY_REGISTERS(name) KERNEL_OF(name, kernel_threads_##name, 1)
#define KERNEL_OF_BLOCKS(n, name) KERNEL_OF(name, kernel_threads_##name, n)
#define UNROLL _Pragma("unroll")
#define UNROLL_BY_TEXT(text) _Pragma(#text)
#define UNROLL_BY(n) UNROLL_BY_TEXT(unroll n)
#define ROLLED _Pragma("unroll 1")
#define SHARED_ARRAY(T, name, ...) __shared__ T name __VA_ARGS__
#define SHARED_VALUE(T, name) __shared__ T name
#define SHARED_DYNAMIC(T, name) \
  extern __shared__ __align__(16) double dynamic_shared_memory[]; \
  T *const name = reinterpret_cast<T *>(dynamic_shared_memory)
#else
#include "device/cuda/simt/device.hpp"
#define UNROLL
#define UNROLL_BY(n)
#define ROLLED
#define KERNEL(name) \
  static void body_##name(const kernel_args_##name &a); \
  extern "C" void reed_##name(const void *args); \
  extern "C" void reed_##name(const void *args) { body_##name(*static_cast<const kernel_args_##name *>(args)); } \
  static void body_##name(const kernel_args_##name &a)
#define KERNEL_OF_MANY_REGISTERS(name) KERNEL(name)
#define KERNEL_OF_BLOCKS(n, name) KERNEL(name)
#endif

/* The thread's number among all threads of a grid in x. */
static __device__ inline int64_t thread_number() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

/* True if the address and the distances from one vector to the next, in bytes, are multiples of 16: a thread may then
 * load and store 16 bytes at once. */
static __device__ inline bool in_vectors(const void *data, int64_t distances) {
  return ((static_cast<uint64_t>(reinterpret_cast<uintptr_t>(data)) | static_cast<uint64_t>(distances)) & 15) == 0;
}

/* The count, within its bound. Only where something is counted. */
static __device__ inline int64_t true_count(const counted_extent &counted) {
  const int64_t count = *counted.count * counted.factor;
  return count < 0 ? 0 : count < counted.capacity ? count : counted.capacity;
}

/* A number of elements of which the counted extent is a factor: for the true extent. No elements where the bound is 0.
 */
static __device__ inline int64_t true_number(const counted_extent &counted, int64_t n) {
  return counted.count && n ? n / counted.capacity * true_count(counted) : n;
}

/* Notes a fault in the data (ops/fault.def), unless another thread has noted one. */
static __device__ inline void note_fault(cuda_fault *fault, uint32_t launch, int32_t code, int32_t operand,
                                         int64_t element, int64_t value, int64_t limit) {
  if (atomicCAS(&fault->taken, 0, 1) != 0) return;
  fault->launch = launch;
  fault->record.code = code;
  fault->record.operand = operand;
  fault->record.element = element;
  fault->record.value = value;
  fault->record.limit = limit;
}

/* The coordinates of element i of a dense tensor. Divisions of 32 bits where these are enough, because those of 64 bits
 * take a GPU several times as long. */
static __device__ inline void split_index(int64_t i, int32_t rank, const int64_t *extents, int64_t *at) {
  if (i < 0x7fffffff) {
    uint32_t rest = static_cast<uint32_t>(i);
    for (int32_t d = rank - 1; d > 0; d--) {
      /* an extent beyond 32 bits is larger than the rest */
      const uint32_t extent = extents[d] > 0x7fffffff ? 0x7fffffffu : static_cast<uint32_t>(extents[d]);
      at[d] = rest % extent;
      rest /= extent;
    }
    if (rank) at[0] = rest;
    return;
  }
  for (int32_t d = rank - 1; d > 0; d--) {
    at[d] = i % extents[d];
    i /= extents[d];
  }
  if (rank) at[0] = i;
}

/* The last coordinate of dense index *i, which becomes the index of the other axes. A division of 32 bits where these
 * are enough. */
template <class Int> static __device__ inline Int split_last(Int *i, Int extent) {
  const Int whole = *i;
  if (sizeof(Int) == 4 || (static_cast<uint64_t>(whole | extent) >> 32) == 0)
    *i = static_cast<Int>(static_cast<uint32_t>(whole) / static_cast<uint32_t>(extent));
  else *i = whole / extent;
  return whole - *i * extent;
}

#endif
