/* Convolutions of one to six axes, for channels second and last: a product over the places of the input (implicit
 * GEMM), or, for groups of few channels, one thread an element of the output. */
#include "device/cuda/kernels/product_mma.cuh"

/* The place of a pixel of the output, and the first place of its window. */
struct conv_pixel {
  int64_t x, y; /* offsets of channel 0 of image 0's part */
  int64_t origin[CUDA_AXES];
};

static __device__ inline void find_pixel(const conv_args &a, int64_t pixel, conv_pixel *out) {
  out->x = out->y = 0;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int64_t o = pixel % a.out[d];
    pixel /= a.out[d];
    out->y += o * a.y_axis[d];
    out->origin[d] = o * a.stride[d] - a.pad[d];
  }
  out->x += pixel * a.x_image;
  out->y += pixel * a.y_image;
}

/* The tap and channel of a step of the depth, of which there are less than 2^32 (product.c). */
struct conv_step {
  uint32_t tap, c;
};
static __device__ inline conv_step find_step(const conv_args &a, int64_t k) {
  const uint32_t step = static_cast<uint32_t>(k), channels = static_cast<uint32_t>(a.c), tap = step / channels;
  return {tap, step - tap * channels};
}

/* The offset of a tap's element from the pixel's x; false: it is in the padding. */
static __device__ inline bool find_tap(const conv_args &a, const conv_pixel &pixel, uint32_t tap, int64_t *out_offset) {
  int64_t offset = 0;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const uint32_t extent = static_cast<uint32_t>(a.kernel[d]), rest = tap / extent;
    const int64_t i = pixel.origin[d] + (tap - rest * extent) * a.dilation[d];
    tap = rest;
    if (i < 0 || i >= a.in[d]) return false;
    offset += i * a.x_axis[d];
  }
  *out_offset = offset;
  return true;
}

template <class T> static __device__ inline void finish_conv(const conv_args &a, int64_t channel, int64_t at, T sum) {
  if (a.bias) sum += element<T>::load(a.dtype, a.bias, channel);
  if (a.residual) sum += element<T>::load(a.dtype, a.residual, at);
  element<T>::store(a.dtype, a.y, at, element<T>::activate(a.activation, sum));
}

/* The place of the weight from channel c of a group to output first + j, whose panel begins at output `first`. */
static __device__ inline int64_t weight_place(const conv_args &a, const panel &weights, int64_t first, int64_t j,
                                              int64_t c, int64_t tap) {
  return a.panels.width ? panel_place(a.panels, weights, c, tap, j) : ((first + j) * a.c + c) * a.taps + tap;
}

/* The sum runs over taps, then over channels, so that neighbours in a row of the product are neighbours in memory if
 * channels come last. */
template <class Core> static __device__ inline void run_conv(const conv_args &a) {
  typedef typename Core::T T;
  SHARED_ARRAY(conv_pixel, of_row, [TILE]);
  const int64_t tile = blockIdx.x, group = tile / (a.tiles_m * a.tiles_n), row = tile / a.tiles_n % a.tiles_m * TILE,
                column = tile % a.tiles_n * TILE;
  const int64_t pixels = true_number(a.counted, a.pixels);
  if (row >= pixels) return; /* all threads */
  for (int i = static_cast<int>(threadIdx.x); i < TILE; i += static_cast<int>(blockDim.x))
    find_pixel(a, row + i, &of_row[i]);
  __syncthreads();
  const panel weights = find_panel(a.panels, group, column);
  const int64_t size = Core::vector_size(a.dtype), channels = 16 / (size ? size : 16);
  int64_t distances = a.c | group * a.c | a.x_image;
  for (int32_t d = 0; d < a.axes; d++) distances |= a.x_axis[d];
  const product_operand of_x = {a.x, a.dtype, false,
                                size && a.x_channel == 1 && a.c % channels == 0 && in_vectors(a.x, distances * size)};
  const product_operand of_w = {a.w, a.dtype, a.panels.width != 0,
                                size && (a.panels.width ? panel_in_vectors(a.w, a.panels, weights, size)
                                                        : a.taps == 1 && in_vectors(a.w, a.c * size))};
  Core::tile(
      row, column, pixels, a.taps * a.c, a.m, of_x,
      [&](int64_t i, int64_t k) {
        const conv_pixel &pixel = of_row[i - row];
        const conv_step step = find_step(a, k);
        int64_t offset;
        return find_tap(a, pixel, step.tap, &offset) ? pixel.x + (group * a.c + step.c) * a.x_channel + offset : -1;
      },
      of_w,
      [&](int64_t j, int64_t k) {
        const conv_step step = find_step(a, k);
        return weight_place(a, weights, group * a.m + column, j - column, step.c, step.tap);
      },
      a.y_channel != 1,
      [&](int64_t i, int64_t j, T sum) {
        finish_conv(a, group * a.m + j, of_row[i - row].y + (group * a.m + j) * a.y_channel, sum);
      });
}

template <class T> static __device__ inline void run_conv_few(const conv_args &a) {
  const int64_t i = thread_number(), channels = a.groups * a.m, pixels = true_number(a.counted, a.pixels);
  if (i >= pixels * channels) return;
  /* the innermost of the output's axes is the threads' innermost */
  const int64_t channel = a.y_channel == 1 ? i % channels : i / pixels, group = channel / a.m;
  const panel weights = find_panel(a.panels, group, 0);
  conv_pixel pixel;
  find_pixel(a, a.y_channel == 1 ? i / channels : i % pixels, &pixel);
  T sum = 0;
  for (uint32_t tap = 0; tap < a.taps; tap++) {
    int64_t offset;
    if (!find_tap(a, pixel, tap, &offset)) continue;
    for (int64_t c = 0; c < a.c; c++)
      sum += element<T>::load(a.dtype, a.x, pixel.x + (group * a.c + c) * a.x_channel + offset) *
             element<T>::load(a.dtype, a.w, weight_place(a, weights, group * a.m, channel % a.m, c, tap));
  }
  finish_conv(a, channel, pixel.y + channel * a.y_channel, sum);
}

KERNEL_OF_MANY_REGISTERS(conv_f32) { run_conv<simt_core<float>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_f64) { run_conv<simt_core<double>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_tf32) { run_conv<mma_core<tf32_unit>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_f16) { run_conv<mma_core<f16_unit>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_bf16) { run_conv<mma_core<bf16_unit>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_few_f32) { run_conv_few<float>(a); }
KERNEL_OF_MANY_REGISTERS(conv_few_f64) { run_conv_few<double>(a); }
