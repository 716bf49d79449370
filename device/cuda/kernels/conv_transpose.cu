/* Transposed convolutions of one to six axes, for channels second and last. The output's places fall into phases: those
 * with the same remainders by the strides, which the same taps reach. A phase is a product without zeros (implicit
 * GEMM): its places times the taps and channels that reach it. For groups of few channels: one thread an element. */
#include "device/cuda/kernels/window.cuh"

/* A phase. Per axis, the last one first: the first place and the number of places; the first tap and the number of
 * taps; the place of the input that the first tap of the first place reads. Tap j of place i reads `back` j places
 * before that of tap 0, and i behind that of place 0. */
struct phase {
  int64_t place[CUDA_AXES], places[CUDA_AXES], tap[CUDA_AXES], taps[CUDA_AXES], origin[CUDA_AXES], back[CUDA_AXES];
  int64_t pixels, depth; /* of one image; taps */
};

/* The first tap of an axis that reaches places of this remainder, and how many do. */
static __device__ inline void find_taps(const conv_transpose_args &a, int32_t d, int64_t remainder, int64_t *out_first,
                                        int64_t *out_n) {
  const int64_t end = a.tap_step[d] < a.kernel[d] ? a.tap_step[d] : a.kernel[d];
  int64_t first = 0;
  while (first < end && first * a.dilation[d] % a.stride[d] != remainder) first++;
  *out_first = first;
  *out_n = first < end ? (a.kernel[d] - first + a.tap_step[d] - 1) / a.tap_step[d] : 0;
}

static __device__ inline void find_phase(const conv_transpose_args &a, int64_t number, phase *out) {
  out->pixels = out->depth = 1;
  for (int32_t i = 0; i < a.axes; i++) {
    const int32_t d = a.axes - 1 - i;
    const int64_t place = number % a.phases[d], shifted = (place + a.pad[d]) % a.stride[d];
    number /= a.phases[d];
    out->place[i] = place;
    out->places[i] = (a.out[d] - place + a.stride[d] - 1) / a.stride[d];
    find_taps(a, d, shifted < 0 ? shifted + a.stride[d] : shifted, &out->tap[i], &out->taps[i]);
    /* both are multiples of the stride */
    out->origin[i] = (place + a.pad[d] - out->tap[i] * a.dilation[d]) / a.stride[d];
    out->back[i] = a.tap_step[d] * a.dilation[d] / a.stride[d];
    out->pixels *= out->places[i];
    out->depth *= out->taps[i];
  }
}

/* The first place of a pixel's window is that of the phase's first tap; other taps read places before it. */
static __device__ inline void find_pixel(const conv_transpose_args &a, const phase &p, int64_t pixel,
                                         window_pixel *out) {
  out->x = out->y = 0;
  for (int32_t i = 0; i < a.axes; i++) {
    const int32_t d = a.axes - 1 - i;
    const int64_t at = split_last(&pixel, p.places[i]);
    out->y += (p.place[i] + at * a.stride[d]) * a.y_axis[d];
    out->origin[i] = p.origin[i] + at;
    out->x += out->origin[i] * a.x_axis[d];
  }
  out->x += pixel * a.x_image;
  out->y += pixel * a.y_image;
}

/* A tap of the phase: its step of channel 0, and its number among all taps. */
struct transposed_tap {
  window_step step;
  int64_t number;
};
static __device__ inline transposed_tap find_tap(const conv_transpose_args &a, const phase &p, int64_t tap) {
  transposed_tap made = {};
  int64_t scale = 1;
  UNROLL for (int32_t i = 0; i < CUDA_AXES; i++) {
    if (i >= a.axes) break;
    const int32_t d = a.axes - 1 - i;
    const int64_t rest = tap / p.taps[i], j = tap - rest * p.taps[i];
    tap = rest;
    made.number += (p.tap[i] + j * a.tap_step[d]) * scale;
    scale *= a.kernel[d];
    made.step.place[i] = -j * p.back[i];
    made.step.offset += made.step.place[i] * a.x_axis[d];
  }
  return made;
}

/* The place of the weight from channel c of a group to output j of it, if the weights are plain. */
static __device__ inline int64_t weight_place(const conv_transpose_args &a, int64_t group, int64_t c, int64_t j,
                                              int64_t tap) {
  return ((group * a.c + c) * a.m + j) * a.taps + tap;
}

template <class Core> static __device__ inline void run_conv_transpose(const conv_transpose_args &a) {
  typedef typename Core::T T;
  SHARED_VALUE(phase, p);
  SHARED_ARRAY(window_pixel, of_row, [Core::ROWS]);
  const int64_t tiles = a.tiles_m * a.tiles_n, tile = blockIdx.x % tiles, group = blockIdx.x / tiles % a.groups,
                row = tile / a.tiles_n * Core::ROWS, column = tile % a.tiles_n * Core::COLUMNS;
  if (threadIdx.x == 0) find_phase(a, blockIdx.x / tiles / a.groups, &p);
  __syncthreads();
  const int64_t pixels = true_number(a.counted, a.images) * p.pixels;
  if (row >= pixels) return; /* all threads */
  for (int i = static_cast<int>(threadIdx.x); i < Core::ROWS; i += static_cast<int>(blockDim.x))
    find_pixel(a, p, row + i, &of_row[i]);
  __syncthreads();
  const panel weights = find_panel(a.panels, group, column);
  const bool packed = a.panels.width != 0;
  const int64_t size = Core::vector_size(a.dtype);
  const window_operand picture = find_operand<Core>(a, group);
  const product_operand of_w = {a.w, a.dtype, packed, size && packed && panel_in_vectors(a.w, a.panels, weights, size)};
  Core::tile(row, column, pixels, p.depth * a.c, a.m, picture.x,
             places_of(
                 [&](int64_t k) {
                   window_step step = find_tap(a, p, k / a.c).step;
                   step.offset += k % a.c * a.x_channel;
                   return step;
                 },
                 [&](int64_t i, const window_step &step) {
                   const window_pixel &pixel = of_row[i - row];
                   return in_picture(a, pixel, step) ? pixel.x + group * a.c * a.x_channel + step.offset : -1;
                 },
                 a.x_channel, a.c),
             of_w,
             places_of(
                 [&](int64_t k) {
                   const int64_t c = k % a.c, tap = find_tap(a, p, k / a.c).number;
                   return packed ? find_row(a.panels, c, tap) : panel_row{0, weight_place(a, group, c, 0, tap)};
                 },
                 [&](int64_t j, const panel_row &at) {
                   return packed ? panel_place(weights, at, j - column) : at.before + j * a.taps;
                 },
                 packed ? weights.width * a.panels.channel_rows : a.m * a.taps, a.c),
             a.y_channel != 1, [&](int64_t j, int n) {
               const int64_t channel = group * a.m + j;
               const window_pixel *const tile_pixels = of_row;
               const channels_end<Core, conv_transpose_args> end(a, channel, n, picture.y_vectors);
               return [=, &a](int64_t i, const T *sums) {
                 end.store(nullptr, tile_pixels[i - row].y + channel * a.y_channel, sums);
               };
             });
}

/* Threads are numbered by phase, then as the output's elements are. */
template <class T> static __device__ inline void run_conv_transpose_few(const conv_transpose_args &a) {
  const int64_t channels = a.groups * a.m;
  phase p;
  find_phase(a, blockIdx.x / a.tiles_m, &p);
  const int64_t i = blockIdx.x % a.tiles_m * blockDim.x + threadIdx.x, n = true_number(a.counted, a.images) * p.pixels;
  if (i >= n * channels) return;
  const int64_t channel = a.y_channel == 1 ? i % channels : i / n, group = channel / a.m;
  window_pixel pixel;
  find_pixel(a, p, a.y_channel == 1 ? i / channels : i % n, &pixel);
  const panel weights = find_panel(a.panels, group, 0);
  T sum = 0;
  for (int64_t k = 0; k < p.depth; k++) {
    const transposed_tap tap = find_tap(a, p, k);
    if (!in_picture(a, pixel, tap.step)) continue;
    for (int64_t c = 0; c < a.c; c++)
      sum += element<T>::load(a.dtype, a.x, pixel.x + (group * a.c + c) * a.x_channel + tap.step.offset) *
             element<T>::load(a.dtype, a.w,
                              a.panels.width ? panel_place(weights, find_row(a.panels, c, tap.number), channel % a.m)
                                             : weight_place(a, group, c, channel % a.m, tap.number));
  }
  channels_end<simt_core<T>, conv_transpose_args>(a, channel, 1, false)
      .store(nullptr, pixel.y + channel * a.y_channel, &sum);
}

KERNEL_OF_MANY_REGISTERS(conv_transpose_f32) { run_conv_transpose<simt_core<float>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_transpose_f64) { run_conv_transpose<simt_core<double>>(a); }
KERNEL_OF_BLOCKS(3, conv_transpose_tf32) { run_conv_transpose<mma_core<tf32_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_transpose_f16) { run_conv_transpose<mma_core<f16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_transpose_bf16) { run_conv_transpose<mma_core<bf16_unit, small_tile>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_transpose_few_f32) { run_conv_transpose_few<float>(a); }
KERNEL_OF_MANY_REGISTERS(conv_transpose_few_f64) { run_conv_transpose_few<double>(a); }
