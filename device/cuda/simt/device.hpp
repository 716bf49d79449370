/* CUDA C++ as kernels see it when g++ compiles them for the emulation: built-in variables, vector types, barriers,
 * shuffles, votes, atomics, shared memory. Only the part of CUDA that the dialect allows (kernels/dialect.h). The
 * functions simt_... are in this folder's .cc files. */
#ifndef DEVICE_CUDA_SIMT_DEVICE_HPP_
#define DEVICE_CUDA_SIMT_DEVICE_HPP_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline, unused))
#define __launch_bounds__(...)
#define __constant__ const

/* ---- types; vectors have CUDA's alignment ----
 * g++ checks the address of a struct that is copied as a whole. clang does not, so that its vectors are copied by
 * functions, whose references it checks. */

struct dim3 {
  unsigned x, y, z;
};
#ifdef __clang__
#define SIMT_COPIED(name, copy, ...) \
  name() = default; \
  __VA_ARGS__ {} \
  name(const name &v) { copy; } \
  name &operator=(const name &v) { \
    copy; \
    return *this; \
  }
#else
#define SIMT_COPIED(...)
#endif
#define SIMT_VECTOR2(name, T) \
  struct alignas(2 * sizeof(T)) name { \
    T x, y; \
    SIMT_COPIED(name, (x = v.x, y = v.y), name(T x_, T y_) : x(x_), y(y_)) \
  }; \
  static inline name make_##name(T x, T y) { return {x, y}; }
#define SIMT_VECTOR4(name, T, alignment) \
  struct alignas(alignment) name { \
    T x, y, z, w; \
    SIMT_COPIED(name, (x = v.x, y = v.y, z = v.z, w = v.w), name(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_)) \
  }; \
  static inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }
SIMT_VECTOR2(float2, float)
SIMT_VECTOR2(double2, double)
SIMT_VECTOR2(int2, int)
SIMT_VECTOR2(uint2, unsigned)
SIMT_VECTOR4(float4, float, 16)
SIMT_VECTOR4(int4, int, 16)
SIMT_VECTOR4(uint4, unsigned, 16)
SIMT_VECTOR4(ushort4, unsigned short, 8)
SIMT_VECTOR4(uchar4, unsigned char, 4)
#undef SIMT_VECTOR2
#undef SIMT_VECTOR4
#undef SIMT_COPIED

/* ---- built-in variables: of the thread that runs ----
 * __thread, because a compiler may call a function that initialises a thread_local variable of a class, and nothing
 * defines such a function for these. */

#define SIMT_TLS extern __thread __attribute__((tls_model("initial-exec"), visibility("hidden")))
SIMT_TLS dim3 simt_thread_idx, simt_block_idx, simt_block_dim, simt_grid_dim;
#define threadIdx simt_thread_idx
#define blockIdx simt_block_idx
#define blockDim simt_block_dim
#define gridDim simt_grid_dim
constexpr int warpSize = 32;

/* ---- shared memory ----
 * An array of the block. `key` tells arrays apart: the address of a static object of the array's own. */
extern "C" {
void *simt_shared(const void *key, size_t bytes, size_t alignment);
void *simt_shared_dynamic(size_t alignment, size_t *out_bytes);
}
/* The dialect's forms of `__shared__ T name[n]` and `extern __shared__ T name[]`. */
#define SHARED_ARRAY(T, name, ...) \
  static const char simt_key_##name = 0; \
  T(&name) \
  __VA_ARGS__ = *static_cast<T(*) __VA_ARGS__>(simt_shared(&simt_key_##name, sizeof(T __VA_ARGS__), alignof(T)))
#define SHARED_VALUE(T, name) \
  static const char simt_key_##name = 0; \
  T &name = *static_cast<T *>(simt_shared(&simt_key_##name, sizeof(T), alignof(T)))
#define SHARED_DYNAMIC(T, name) T *name = static_cast<T *>(simt_shared_dynamic(alignof(T), nullptr))

/* ---- barriers, shuffles, votes ---- */

enum simt_barrier_kind { SIMT_SYNC, SIMT_COUNT, SIMT_AND, SIMT_OR };
enum simt_warp_kind {
  SIMT_WARP_SYNC,
  SIMT_SHFL,
  SIMT_SHFL_UP,
  SIMT_SHFL_DOWN,
  SIMT_SHFL_XOR,
  SIMT_BALLOT,
  SIMT_ANY,
  SIMT_ALL,
  SIMT_MATCH,
  SIMT_MMA
};
extern "C" {
int simt_barrier(simt_barrier_kind kind, int predicate, const char *file, int line);
/* Waits for the lanes of the mask. value: this lane's; argument: the source lane or distance. */
uint64_t simt_warp(simt_warp_kind kind, unsigned mask, uint64_t value, int argument, int width, const char *file,
                   int line);
/* A wait for all 32 lanes, as mma.sync is: every lane gives `n` words and gets those of all lanes, lane after lane. */
void simt_exchange(const uint32_t *words, int n, uint32_t *all, const char *file, int line);
/* The launch's `warpgroups`. */
bool simt_has_warpgroups(void);
}
#define SIMT_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(SIMT_SITE) { simt_barrier(SIMT_SYNC, 0, file, line); }
static inline int __syncthreads_count(int predicate, SIMT_SITE) {
  return simt_barrier(SIMT_COUNT, predicate, file, line);
}
static inline int __syncthreads_and(int predicate, SIMT_SITE) { return simt_barrier(SIMT_AND, predicate, file, line); }
static inline int __syncthreads_or(int predicate, SIMT_SITE) { return simt_barrier(SIMT_OR, predicate, file, line); }
static inline void __syncwarp(unsigned mask = ~0u, SIMT_SITE) { simt_warp(SIMT_WARP_SYNC, mask, 0, 0, 32, file, line); }

template <class T>
static inline T simt_shuffle(simt_warp_kind kind, unsigned mask, T value, int argument, int width, const char *file,
                             int line) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = simt_warp(kind, mask, bits, argument, width, file, line);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, SIMT_SITE) {
  return simt_shuffle(SIMT_SHFL, mask, value, lane, width, file, line);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, SIMT_SITE) {
  return simt_shuffle(SIMT_SHFL_UP, mask, value, static_cast<int>(by), width, file, line);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, SIMT_SITE) {
  return simt_shuffle(SIMT_SHFL_DOWN, mask, value, static_cast<int>(by), width, file, line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, SIMT_SITE) {
  return simt_shuffle(SIMT_SHFL_XOR, mask, value, lanes, width, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_SITE) {
  return static_cast<unsigned>(simt_warp(SIMT_BALLOT, mask, predicate != 0, 0, 32, file, line));
}
static inline int __any_sync(unsigned mask, int predicate, SIMT_SITE) {
  return static_cast<int>(simt_warp(SIMT_ANY, mask, predicate != 0, 0, 32, file, line));
}
static inline int __all_sync(unsigned mask, int predicate, SIMT_SITE) {
  return static_cast<int>(simt_warp(SIMT_ALL, mask, predicate != 0, 0, 32, file, line));
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T value, SIMT_SITE) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return static_cast<unsigned>(simt_warp(SIMT_MATCH, mask, bits, 0, 32, file, line));
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

/* ---- atomics ----
 * Under the thread sanitizer they are the compiler's, which that sanitizer sees; otherwise simt_atomic checks the
 * address and leaves them out of the search for races. */
extern "C" void simt_atomic(const volatile void *data, size_t bytes);
template <class T, class F> __attribute__((noinline, no_sanitize_address)) static T simt_update(T *data, F change) {
  simt_atomic(data, sizeof *data);
  T before, after;
  __atomic_load(data, &before, __ATOMIC_RELAXED);
  do after = change(before);
  while (!__atomic_compare_exchange(data, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return before;
}
template <class T> static inline T atomicAdd(T *data, T value) {
  return simt_update(data, [=](T x) { return static_cast<T>(x + value); });
}
static inline int atomicAdd(int *data, int value) {
  return simt_update(data,
                     [=](int x) { return static_cast<int>(static_cast<unsigned>(x) + static_cast<unsigned>(value)); });
}
template <class T> static inline T atomicMax(T *data, T value) {
  return simt_update(data, [=](T x) { return x > value ? x : value; });
}
template <class T> static inline T atomicMin(T *data, T value) {
  return simt_update(data, [=](T x) { return x < value ? x : value; });
}
template <class T> static inline T atomicOr(T *data, T value) {
  return simt_update(data, [=](T x) { return static_cast<T>(x | value); });
}
template <class T> static inline T atomicAnd(T *data, T value) {
  return simt_update(data, [=](T x) { return static_cast<T>(x & value); });
}
template <class T> static inline T atomicExch(T *data, T value) {
  return simt_update(data, [=](T) { return value; });
}
template <class T> static inline T atomicCAS(T *data, T expected, T value) {
  return simt_update(data, [=](T x) { return x == expected ? value : x; });
}

/* ---- bits ---- */

static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
template <class To, class From> static inline To simt_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return simt_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return simt_bits<float>(x); }
static inline float __int_as_float(int x) { return simt_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return simt_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return simt_bits<double>(x); }
template <class T> static inline T __ldg(const T *data) { return *data; }

#endif
