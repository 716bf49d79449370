/* Inline PTX (the PTX ISA manual has each instruction): each function beside its emulation. No other file has any. */
#ifndef DEVICE_CUDA_KERNELS_PTX_CUH_
#define DEVICE_CUDA_KERNELS_PTX_CUH_

#include "device/cuda/kernels/dialect.cuh"

#ifdef __CUDACC__

static __device__ inline float f32_of_f16(uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
static __device__ inline uint16_t f16_of_f32(float f) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
static __device__ inline uint16_t f16_of_f64(double d) {
  uint16_t h;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(d));
  return h;
}

#else

#include "base/half.h"
static inline float f32_of_f16(uint16_t h) { return f16_to_f32(h); }
static inline uint16_t f16_of_f32(float f) { return f16_from_f32(f); }
static inline uint16_t f16_of_f64(double d) { return f16_from_f64(d); }

#endif

/* bfloat16 in integer arithmetic: cards before sm_80 have no instruction for it. */
static __device__ inline float f32_of_bf16(uint16_t h) { return __uint_as_float(static_cast<unsigned>(h) << 16); }
static __device__ inline uint16_t bf16_of_f32(float f) {
  const unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u); /* quiet NaN */
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

#endif
