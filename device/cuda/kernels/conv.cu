/* Convolutions of one to six axes, for channels second and last: a product over the places of the input (implicit
 * GEMM), or, for groups of few channels, one thread an element of the output. */
#include "device/cuda/kernels/window.cuh"

static __device__ inline void find_pixel(const conv_args &a, int64_t pixel, window_pixel *out) {
  out->x = out->y = 0;
  for (int32_t i = 0; i < a.axes; i++) {
    const int32_t d = a.axes - 1 - i;
    const int64_t o = split_last(&pixel, a.out[d]);
    out->y += o * a.y_axis[d];
    out->origin[i] = o * a.stride[d] - a.pad[d];
    out->x += out->origin[i] * a.x_axis[d];
  }
  out->x += pixel * a.x_image;
  out->y += pixel * a.y_image;
}

static __device__ inline window_step find_tap(const conv_args &a, uint32_t tap) {
  window_step made = {};
  UNROLL for (int32_t i = 0; i < CUDA_AXES; i++) {
    if (i >= a.axes) break;
    const int32_t d = a.axes - 1 - i;
    const uint32_t extent = static_cast<uint32_t>(a.kernel[d]), rest = tap / extent;
    made.place[i] = (tap - rest * extent) * a.dilation[d];
    made.offset += made.place[i] * a.x_axis[d];
    tap = rest;
  }
  return made;
}

/* The tap and channel of a step of the depth, of which there are less than 2^32 (product.c). */
struct conv_depth {
  uint32_t tap, c;
};
static __device__ inline conv_depth split_depth(const conv_args &a, int64_t k) {
  const uint32_t step = static_cast<uint32_t>(k), channels = static_cast<uint32_t>(a.c), tap = step / channels;
  return {tap, step - tap * channels};
}

/* The sum runs over taps, then over channels, so that neighbours in a row of the product are neighbours in memory if
 * channels come last. */
template <class Core> static __device__ inline void run_conv(const conv_args &a) {
  typedef typename Core::T T;
  SHARED_ARRAY(window_pixel, of_row, [Core::ROWS]);
  const int64_t tile = blockIdx.x, group = tile / (a.tiles_m * a.tiles_n),
                row = tile / a.tiles_n % a.tiles_m * Core::ROWS, column = tile % a.tiles_n * Core::COLUMNS;
  const int64_t pixels = true_number(a.counted, a.pixels);
  if (row >= pixels) return; /* all threads */
  for (int i = static_cast<int>(threadIdx.x); i < Core::ROWS; i += static_cast<int>(blockDim.x))
    find_pixel(a, row + i, &of_row[i]);
  __syncthreads();
  const panel weights = find_panel(a.panels, group, column);
  const bool packed = a.panels.width != 0;
  const int64_t size = Core::vector_size(a.dtype);
  const window_operand picture = find_operand<Core>(a, group);
  const product_operand of_w = {
      a.w, a.dtype, packed,
      size && (packed ? panel_in_vectors(a.w, a.panels, weights, size) : a.taps == 1 && in_vectors(a.w, a.c * size))};
  const bool vectors = picture.y_vectors && in_vectors(a.residual, 0);
  Core::tile(
      row, column, pixels, a.taps * a.c, a.m, picture.x,
      places_of(
          [&](int64_t k) {
            const conv_depth at = split_depth(a, k);
            window_step step = find_tap(a, at.tap);
            step.offset += at.c * a.x_channel;
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
            const conv_depth at = split_depth(a, k);
            return packed ? find_row(a.panels, at.c, at.tap) : panel_row{0, at.c * a.taps + at.tap};
          },
          [&](int64_t j, const panel_row &at) {
            return packed ? panel_place(weights, at, j - column) : (group * a.m + j) * a.c * a.taps + at.before;
          },
          packed ? weights.width * a.panels.channel_rows : a.taps,
          a.taps == 1 || (packed && !a.panels.tap && a.panels.tap_rows == a.c * a.panels.channel_rows) ? 0 : a.c),
      a.y_channel != 1, [&](int64_t j, int n) {
        const int64_t channel = group * a.m + j;
        const window_pixel *const tile_pixels = of_row;
        const channels_end<Core, conv_args> end(a, channel, n, vectors);
        return [=, &a](int64_t i, const T *sums) {
          end.store(a.residual, tile_pixels[i - row].y + channel * a.y_channel, sums);
        };
      });
}

template <class T> static __device__ inline void run_conv_few(const conv_args &a) {
  const int64_t i = thread_number(), channels = a.groups * a.m, pixels = true_number(a.counted, a.pixels);
  if (i >= pixels * channels) return;
  /* the innermost of the output's axes is the threads' innermost */
  const int64_t channel = a.y_channel == 1 ? i % channels : i / pixels, group = channel / a.m;
  const panel weights = find_panel(a.panels, group, 0);
  window_pixel pixel;
  find_pixel(a, a.y_channel == 1 ? i / channels : i % pixels, &pixel);
  T sum = 0;
  for (uint32_t tap = 0; tap < a.taps; tap++) {
    const window_step step = find_tap(a, tap);
    if (!in_picture(a, pixel, step)) continue;
    for (int64_t c = 0; c < a.c; c++)
      sum += element<T>::load(a.dtype, a.x, pixel.x + (group * a.c + c) * a.x_channel + step.offset) *
             element<T>::load(a.dtype, a.w,
                              a.panels.width ? panel_place(weights, find_row(a.panels, c, tap), channel % a.m)
                                             : (channel * a.c + c) * a.taps + tap);
  }
  channels_end<simt_core<T>, conv_args>(a, channel, 1, false).store(a.residual, pixel.y + channel * a.y_channel, &sum);
}

KERNEL_OF_MANY_REGISTERS(conv_f32) { run_conv<simt_core<float>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_f64) { run_conv<simt_core<double>>(a); }
KERNEL_OF_BLOCKS(3, conv_tf32) { run_conv<mma_core<tf32_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_f16) { run_conv<mma_core<f16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_bf16) { run_conv<mma_core<bf16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(2, conv_tall_tf32) { run_conv<mma_core<tf32_unit, tall_tile>>(a); }
KERNEL_OF_BLOCKS(2, conv_tall_f16) { run_conv<mma_core<f16_unit, tall_tile>>(a); }
KERNEL_OF_BLOCKS(2, conv_tall_bf16) { run_conv<mma_core<bf16_unit, tall_tile>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_few_f32) { run_conv_few<float>(a); }
KERNEL_OF_MANY_REGISTERS(conv_few_f64) { run_conv_few<double>(a); }
