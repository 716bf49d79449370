/* Deformable convolutions (DeformConv, torchvision's deform_conv2d): one thread an element of y, with sums in double.
 */
#include "device/cuda/kernels/deform_samples.cuh"

template <class T> static __device__ inline void convolve(const deform_args &a, int64_t i) {
  const int64_t pixels = a.out[0] * a.out[1], taps = a.kernel[0] * a.kernel[1], pixel = i % pixels,
                output = i / pixels % a.outputs, image = i / pixels / a.outputs;
  double sum = 0;
  for (int64_t c = 0; c < a.group_channels; c++) {
    const int64_t channel = output / a.group_outputs * a.group_channels + c,
                  map = image * a.input.image + channel * a.input.channel;
    for (int64_t tap = 0; tap < taps; tap++) {
      const tap_place at = {image, channel / a.offset_channels, tap, pixel};
      const double value = value_of_sample(a, sample_of<T>(a, at), map) * mask_of(a, at);
      sum += value * number_at<double>(a.dtype, a.w, (output * a.group_channels + c) * taps + tap);
    }
  }
  if (a.bias) sum += number_at<double>(a.dtype, a.bias, output);
  value_store(a.dtype, a.y, image * a.output.image + output * a.output.channel + pixel * a.output.pixel,
              convert_real(sum, a.dtype));
}

KERNEL_OF_MANY_REGISTERS(deform) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  if (a.dtype == REED_F64) convolve<double>(a, i);
  else convolve<float>(a, i);
}
