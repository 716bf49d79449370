/* Gradients of deformable convolutions, each by a launch of its own, with sums in double and in one order, so that the
 * bits are the same in every run. The gradient of the input is gathered: a warp owns one pixel of 32 channels, looks
 * for the samples that read the pixel, 32 at a time, and adds these in the order of their taps and output pixels. Boxes
 * around 32 samples each, made by a launch before, let the warp pass over samples that lie elsewhere. The gradient of a
 * sample, before its mask, is a sum over the group's outputs; it is computed where it is needed and never stored. */
#include "device/cuda/kernels/blocks.cuh"
#include "device/cuda/kernels/deform_samples.cuh"
#include "device/cuda/kernels/pixel_boxes.cuh"

static __device__ inline int64_t taps_of(const deform_args &a) { return a.kernel[0] * a.kernel[1]; }

/* The gradient of the product of a channel's sample and its mask: over the outputs that read the channel. */
static __device__ inline double gradient_of(const deform_back_args &a, const tap_place &at, int64_t channel) {
  const deform_args &d = a.of;
  const int64_t group = channel / d.group_channels, c = channel % d.group_channels;
  double sum = 0;
  for (int64_t output = group * d.group_outputs; output < (group + 1) * d.group_outputs; output++)
    sum += number_at<double>(d.dtype, a.grad,
                             at.image * d.output.image + output * d.output.channel + at.pixel * d.output.pixel) *
           number_at<double>(d.dtype, d.w, (output * d.group_channels + c) * taps_of(d) + at.tap);
  return sum;
}

/* ---- the input ---- */

template <class T> static __device__ inline void add_sample(const deform_args &a, const tap_place &at, pixel_box *box) {
  const auto s = sample_of<T>(a, at);
  UNROLL for (int i = 0; i < 4; i++) if (s.pixel[i] >= 0) {
    const int64_t row = s.pixel[i] / a.in[1], column = s.pixel[i] % a.in[1];
    widen(box, 0, row, row + 1);
    widen(box, 1, column, column + 1);
  }
}

/* A warp a box. */
KERNEL(deform_back_boxes) {
  const deform_args &d = a.of;
  const int64_t number = thread_number() / 32, rest = number / a.tiles;
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (number >= d.n) return;
  const tap_place at = {rest / taps_of(d) / a.offset_groups, rest / taps_of(d) % a.offset_groups, rest % taps_of(d),
                        number % a.tiles * DEFORM_TILE + lane};
  pixel_box box = no_pixels();
  if (at.pixel < d.out[0] * d.out[1]) {
    if (d.dtype == REED_F64) add_sample<double>(d, at, &box);
    else add_sample<float>(d, at, &box);
  }
  widen_by_warp(&box);
  if (lane == 0) a.boxes[number] = box;
}

/* The weight with which a sample reads the pixel, times the mask; false: it does not. */
template <class T>
static __device__ inline bool weigh(const deform_args &a, const tap_place &at, int64_t pixel, double *out_weight) {
  const auto s = sample_of<T>(a, at);
  bool reads = false;
  UNROLL for (int i = 0; i < 4; i++) if (s.pixel[i] == pixel) {
    *out_weight = static_cast<double>(s.weight[i]) * mask_of(a, at);
    reads = true;
  }
  return reads;
}

/* The gradient that the pixel gets, in the channel of this lane, from the samples of one box. */
static __device__ inline double gradient_of_tile(const deform_back_args &a, tap_place at, int64_t tile, int64_t pixel,
                                                 int64_t channel, bool has_channel) {
  const deform_args &d = a.of;
  double weight = 0, sum = 0;
  bool reads = false;
  at.pixel = tile * DEFORM_TILE + threadIdx.x % 32;
  if (at.pixel < d.out[0] * d.out[1])
    reads = d.dtype == REED_F64 ? weigh<double>(d, at, pixel, &weight) : weigh<float>(d, at, pixel, &weight);
  for (unsigned readers = __ballot_sync(~0u, reads); readers; readers &= readers - 1) {
    const int lane = __ffs(static_cast<int>(readers)) - 1;
    const double of_lane = __shfl_sync(~0u, weight, lane);
    at.pixel = tile * DEFORM_TILE + lane;
    if (has_channel) sum += of_lane * gradient_of(a, at, channel);
  }
  return sum;
}

KERNEL_OF_MANY_REGISTERS(deform_back_input) {
  const deform_args &d = a.of;
  const int64_t number = thread_number() / 32, pixels = d.in[0] * d.in[1], parts = (d.offset_channels + 31) / 32,
                pixel = number % pixels, part = number / pixels % parts,
                group = number / pixels / parts % a.offset_groups, image = number / pixels / parts / a.offset_groups,
                row = pixel / d.in[1], column = pixel % d.in[1];
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (number >= d.n) return;
  const bool has_channel = part * 32 + lane < d.offset_channels;
  const int64_t channel = group * d.offset_channels + part * 32 + lane;
  double sum = 0;
  for (int64_t tap = 0; tap < taps_of(d); tap++) {
    const pixel_box *const boxes = a.boxes + ((image * a.offset_groups + group) * taps_of(d) + tap) * a.tiles;
    for (int64_t first = 0; first < a.tiles; first += 32) {
      const bool near = first + lane < a.tiles && has_pixel(boxes[first + lane], row, column);
      for (unsigned hits = __ballot_sync(~0u, near); hits; hits &= hits - 1)
        sum += gradient_of_tile(a, {image, group, tap, 0}, first + __ffs(static_cast<int>(hits)) - 1, pixel, channel,
                                has_channel);
    }
  }
  if (has_channel)
    value_store(d.dtype, d.y, image * d.input.image + channel * d.input.channel + pixel * d.input.pixel,
                convert_real(sum, d.dtype));
}

/* ---- weights and bias: a block for some sums over all pixels of all images ---- */

/* One tap of one channel in the weights of DEFORM_OUTPUTS outputs, whose samples are the same. */
template <class T> static __device__ inline void sum_weights(const deform_back_args &a) {
  const deform_args &d = a.of;
  const int64_t taps = taps_of(d), block = blockIdx.x, tap = block % taps, c = block / taps % d.group_channels,
                parts = (d.group_outputs + DEFORM_OUTPUTS - 1) / DEFORM_OUTPUTS,
                part = block / taps / d.group_channels % parts, group = block / taps / d.group_channels / parts,
                first = group * d.group_outputs + part * DEFORM_OUTPUTS, channel = group * d.group_channels + c,
                pixels = d.out[0] * d.out[1], left = d.group_outputs - part * DEFORM_OUTPUTS;
  double sums[DEFORM_OUTPUTS] = {};
  for (int64_t k = threadIdx.x; k < a.images * pixels; k += blockDim.x) {
    const tap_place at = {k / pixels, channel / d.offset_channels, tap, k % pixels};
    const double value =
        value_of_sample(d, sample_of<T>(d, at), at.image * d.input.image + channel * d.input.channel) * mask_of(d, at);
    UNROLL for (int o = 0; o < DEFORM_OUTPUTS; o++) if (o < left) sums[o] +=
        value *
        number_at<double>(d.dtype, a.grad,
                          at.image * d.output.image + (first + o) * d.output.channel + at.pixel * d.output.pixel);
  }
  for (int o = 0; o < DEFORM_OUTPUTS && o < left; o++) {
    double all;
    block_sum(sums[o], &all);
    if (threadIdx.x == 0)
      value_store(d.dtype, d.y, ((first + o) * d.group_channels + c) * taps + tap, convert_real(all, d.dtype));
  }
}

KERNEL(deform_back_weight) {
  if (a.of.dtype == REED_F64) sum_weights<double>(a);
  else sum_weights<float>(a);
}

KERNEL(deform_back_bias) {
  const deform_args &d = a.of;
  const int64_t output = blockIdx.x, pixels = d.out[0] * d.out[1];
  double sum = 0, all;
  for (int64_t k = threadIdx.x; k < a.images * pixels; k += blockDim.x)
    sum += number_at<double>(d.dtype, a.grad,
                             k / pixels * d.output.image + output * d.output.channel + k % pixels * d.output.pixel);
  block_sum(sum, &all);
  if (threadIdx.x == 0) value_store(d.dtype, d.y, output, convert_real(all, d.dtype));
}

/* ---- offsets and mask: a thread for one tap of one output pixel, over the channels of its group ---- */

template <class T> static __device__ inline void sum_channels(const deform_back_args &a, const tap_place &at) {
  const deform_args &d = a.of;
  const auto s = sample_of<T>(d, at);
  double by_y = 0, by_x = 0, by_mask = 0;
  for (int64_t c = 0; c < d.offset_channels; c++) {
    const int64_t channel = at.group * d.offset_channels + c,
                  map = at.image * d.input.image + channel * d.input.channel;
    const double gradient = gradient_of(a, at, channel);
    double value = 0, slope_y = 0, slope_x = 0;
    UNROLL for (int i = 0; i < 4; i++) {
      const double pixel = pixel_of(d, s, map, i);
      value += static_cast<double>(s.weight[i]) * pixel;
      slope_y += static_cast<double>(s.dy[i]) * pixel;
      slope_x += static_cast<double>(s.dx[i]) * pixel;
    }
    by_mask += gradient * value;
    by_y += gradient * slope_y;
    by_x += gradient * slope_x;
  }
  if (d.y) {
    const double mask = mask_of(d, at);
    value_store(d.dtype, d.y, offset_at(d, at, 0), convert_real(mask * by_y, d.dtype));
    value_store(d.dtype, d.y, offset_at(d, at, 1), convert_real(mask * by_x, d.dtype));
  }
  if (a.of_mask) value_store(d.dtype, a.of_mask, mask_at(d, at), convert_real(by_mask, d.dtype));
}

KERNEL(deform_back_offset) {
  const deform_args &d = a.of;
  const int64_t i = thread_number(), pixels = d.out[0] * d.out[1], rest = i / pixels;
  if (i >= d.n) return;
  const tap_place at = {rest / taps_of(d) / a.offset_groups, rest / taps_of(d) % a.offset_groups, rest % taps_of(d),
                        i % pixels};
  if (d.dtype == REED_F64) sum_channels<double>(a, at);
  else sum_channels<float>(a, at);
}
