/* Deformable convolutions (DeformConv, torchvision's deform_conv2d): one thread an element of y, with sums in double.
 * Samples as on the host (ops/cpu/calls/deform_formula_template.h). */
#include "device/cuda/kernels/values.cuh"

template <class T> static __device__ inline T number_at(int dtype, const void *data, int64_t i) {
  return static_cast<T>(value_real(dtype, value_load(dtype, data, i)));
}

/* The bilinear sample of the map at `map` at the place y, x; pixels outside of the image are 0. */
template <class T> static __device__ inline double sample(const deform_args &a, int64_t map, T y, T x) {
  const int64_t height = a.in[0], width = a.in[1];
  if (y != y || x != x) return static_cast<double>(y + x);
  if (y < -1 || x < -1 || y >= static_cast<T>(height) || x >= static_cast<T>(width)) return 0;
  const T floor_y = y < 0 ? static_cast<T>(-1) : static_cast<T>(static_cast<int64_t>(y)),
          floor_x = x < 0 ? static_cast<T>(-1) : static_cast<T>(static_cast<int64_t>(x)), down = y - floor_y,
          right = x - floor_x;
  double value = 0;
  UNROLL for (int i = 0; i < 4; i++) {
    const int64_t row = static_cast<int64_t>(floor_y) + (i >> 1), column = static_cast<int64_t>(floor_x) + (i & 1);
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    const T weight = (i >> 1 ? down : 1 - down) * (i & 1 ? right : 1 - right);
    value +=
        static_cast<double>(weight) * number_at<double>(a.dtype, a.x, map + (row * width + column) * a.input.pixel);
  }
  return value;
}

template <class T> static __device__ inline void convolve(const deform_args &a, int64_t i) {
  const int64_t pixels = a.out[0] * a.out[1], taps = a.kernel[0] * a.kernel[1], pixel = i % pixels,
                output = i / pixels % a.outputs, image = i / pixels / a.outputs;
  double sum = 0;
  for (int64_t c = 0; c < a.group_channels; c++) {
    const int64_t channel = output / a.group_outputs * a.group_channels + c, group = channel / a.offset_channels,
                  map = image * a.input.image + channel * a.input.channel;
    for (int64_t tap = 0; tap < taps; tap++) {
      const int64_t offset =
          image * a.offsets.image + (group * taps + tap) * 2 * a.offsets.channel + pixel * a.offsets.pixel;
      const int64_t y = pixel / a.out[1] * a.stride[0] - a.pad[0] + tap / a.kernel[1] * a.dilation[0],
                    x = pixel % a.out[1] * a.stride[1] - a.pad[1] + tap % a.kernel[1] * a.dilation[1];
      double value = sample<T>(a, map, static_cast<T>(y) + number_at<T>(a.dtype, a.offset, offset),
                               static_cast<T>(x) + number_at<T>(a.dtype, a.offset, offset + a.offsets.channel));
      if (a.mask)
        value *= number_at<double>(
            a.dtype, a.mask, image * a.masks.image + (group * taps + tap) * a.masks.channel + pixel * a.masks.pixel);
      sum += value * number_at<double>(a.dtype, a.w, (output * a.group_channels + c) * taps + tap);
    }
  }
  if (a.bias) sum += number_at<double>(a.dtype, a.bias, output);
  value_store(a.dtype, a.y, image * a.output.image + output * a.output.channel + pixel * a.output.pixel,
              convert_real(sum, a.dtype));
}

KERNEL(deform) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  if (a.dtype == REED_F64) convolve<double>(a, i);
  else convolve<float>(a, i);
}
