/* Samples of deformable convolutions, by the host's lines, and what stands at their places: in float, or in double for
 * operands of f64. */
#ifndef DEVICE_CUDA_KERNELS_DEFORM_SAMPLES_CUH_
#define DEVICE_CUDA_KERNELS_DEFORM_SAMPLES_CUH_

#include "device/cuda/kernels/values.cuh"
#include "ops/cpu/calls/deform_formulas.h"

static __device__ inline deform_sample sample_at(float y, float x, int64_t height, int64_t width) {
  return deform_sample_at(y, x, height, width);
}
static __device__ inline deform_sample_f64 sample_at(double y, double x, int64_t height, int64_t width) {
  return deform_sample_at_f64(y, x, height, width);
}

template <class T> static __device__ inline T number_at(int dtype, const void *data, int64_t i) {
  return static_cast<T>(value_real(dtype, value_load(dtype, data, i)));
}

/* One tap of one output pixel: the image, the group of offsets. */
struct tap_place {
  int64_t image, group, tap, pixel;
};

/* The element of the offset along axis 0 (rows) or 1. */
static __device__ inline int64_t offset_at(const deform_args &a, const tap_place &at, int axis) {
  const int64_t taps = a.kernel[0] * a.kernel[1];
  return at.image * a.offsets.image + ((at.group * taps + at.tap) * 2 + axis) * a.offsets.channel +
         at.pixel * a.offsets.pixel;
}
static __device__ inline int64_t mask_at(const deform_args &a, const tap_place &at) {
  return at.image * a.masks.image + (at.group * a.kernel[0] * a.kernel[1] + at.tap) * a.masks.channel +
         at.pixel * a.masks.pixel;
}
static __device__ inline double mask_of(const deform_args &a, const tap_place &at) {
  return a.mask ? number_at<double>(a.dtype, a.mask, mask_at(a, at)) : 1;
}

template <class T> static __device__ inline auto sample_of(const deform_args &a, const tap_place &at) {
  const int64_t y = at.pixel / a.out[1] * a.stride[0] - a.pad[0] + at.tap / a.kernel[1] * a.dilation[0],
                x = at.pixel % a.out[1] * a.stride[1] - a.pad[1] + at.tap % a.kernel[1] * a.dilation[1];
  return sample_at(static_cast<T>(y) + number_at<T>(a.dtype, a.offset, offset_at(a, at, 0)),
                   static_cast<T>(x) + number_at<T>(a.dtype, a.offset, offset_at(a, at, 1)), a.in[0], a.in[1]);
}

/* Pixel i of a sample on the map that begins at element `map`; 0 outside of the image. */
template <class S> static __device__ inline double pixel_of(const deform_args &a, const S &s, int64_t map, int i) {
  return s.pixel[i] < 0 ? 0 : number_at<double>(a.dtype, a.x, map + s.pixel[i] * a.input.pixel);
}
template <class S> static __device__ inline double value_of_sample(const deform_args &a, const S &s, int64_t map) {
  double value = 0;
  UNROLL for (int i = 0; i < 4; i++) value += static_cast<double>(s.weight[i]) * pixel_of(a, s, map, i);
  return value;
}

#endif
