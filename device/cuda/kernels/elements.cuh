/* Elements as the numbers in which a kernel computes, and the activation that ends a kernel. */
#ifndef DEVICE_CUDA_KERNELS_ELEMENTS_CUH_
#define DEVICE_CUDA_KERNELS_ELEMENTS_CUH_

#include "device/cuda/kernels/formulas.cuh"

/* Not inlined, because every element of a thread's part ends in it. */
static __device__ __noinline__ float activated_f32(const map_step &step, float value) {
  int fault = 0;
  return value_as<float>(formula_f32(step, value_of(value), value_of(static_cast<float>(step.alpha)),
                                     value_of(static_cast<float>(step.beta)), &fault));
}
static __device__ __noinline__ double activated_f64(const map_step &step, double value) {
  int fault = 0;
  return value_as<double>(formula_f64(step, value_of(value), value_of(step.alpha), value_of(step.beta), &fault));
}

/* An element as T: float for f32 and halves, double, or 64 bits that wrap for integers. */
template <class T> struct element;
template <> struct element<float> {
  static __device__ inline float load(int dtype, const void *data, int64_t i) {
    return value_as<float>(value_load(dtype, data, i));
  }
  static __device__ inline void store(int dtype, void *data, int64_t i, float value) {
    value_store(dtype, data, i, value_of(value));
  }
  static __device__ inline float activate(const map_step &step, float value) {
    if (step.formula == OP_Relu) return value < 0 ? 0 : value; /* the most frequent one, without a call */
    return step.formula == OP_Identity ? value : activated_f32(step, value);
  }
};
/* The activation of some neighbours, which is chosen once. Gelu has no call either, because it ends the widest products
 * of a transformer. */
template <int N> static __device__ inline void activate_all(const map_step &step, float (&values)[N]) {
  if (step.formula == OP_Identity) return;
  if (step.formula == OP_Relu) {
    UNROLL for (int i = 0; i < N; i++) values[i] = values[i] < 0 ? 0 : values[i];
  } else if (step.formula == OP_Gelu) {
    UNROLL for (int i = 0; i < N; i++) values[i] = 0.5f * values[i] * (1 + erff(values[i] * 0.70710678118654752440f));
  } else {
    UNROLL for (int i = 0; i < N; i++) values[i] = activated_f32(step, values[i]);
  }
}
template <> struct element<double> {
  static __device__ inline double load(int dtype, const void *data, int64_t i) {
    const uint64_t value = value_load(dtype, data, i);
    if (dtype == REED_U64) return static_cast<double>(value);
    return dtype_is_float(dtype) ? value_real(dtype == REED_F64 ? REED_F64 : REED_F32, value)
                                 : static_cast<double>(value_whole(dtype, value));
  }
  static __device__ inline void store(int dtype, void *data, int64_t i, double value) {
    value_store(dtype, data, i, dtype == REED_F64 ? value_of(value) : static_cast<uint64_t>(whole_of(value)));
  }
  static __device__ inline double activate(const map_step &step, double value) {
    return step.formula == OP_Identity ? value : activated_f64(step, value);
  }
};
template <> struct element<uint64_t> {
  static __device__ inline uint64_t load(int dtype, const void *data, int64_t i) {
    return static_cast<uint64_t>(value_whole(dtype, value_load(dtype, data, i)));
  }
  static __device__ inline void store(int dtype, void *data, int64_t i, uint64_t value) {
    value_store(dtype, data, i, value);
  }
};

#endif
