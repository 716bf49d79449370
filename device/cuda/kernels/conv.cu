/* Convolutions of one to six axes, for channels second and last: a product over the places of the input (implicit
 * GEMM), or, for groups of few channels, one thread an element of the output. */
#include "device/cuda/kernels/product_mma.cuh"

/* A pixel of the output: the offset of channel 0 in y; the first place of its window, the last axis first, and that
 * place's offset in x, which may lie before x. */
struct conv_pixel {
  int64_t x, y, origin[CUDA_AXES];
};

static __device__ inline void find_pixel(const conv_args &a, int64_t pixel, conv_pixel *out) {
  out->x = out->y = 0;
  for (int32_t i = 0; i < a.axes; i++) {
    const int32_t d = a.axes - 1 - i;
    int64_t o;
    if (pixel <= 0x7fffffff && a.out[d] <= 0x7fffffff) { /* divisions of 64 bits take several times as long */
      const uint32_t place = static_cast<uint32_t>(pixel), extent = static_cast<uint32_t>(a.out[d]);
      o = place % extent;
      pixel = place / extent;
    } else {
      o = pixel % a.out[d];
      pixel /= a.out[d];
    }
    out->y += o * a.y_axis[d];
    out->origin[i] = o * a.stride[d] - a.pad[d];
    out->x += out->origin[i] * a.x_axis[d];
  }
  out->x += pixel * a.x_image;
  out->y += pixel * a.y_image;
}

/* A step of the depth, of which there are less than 2^32 (product.c): its tap and channel, the tap's places in the
 * window, the last axis first, and the element's offset from the window's first place. */
struct conv_step {
  int64_t offset, place[CUDA_AXES];
  uint32_t tap, c;
};

static __device__ inline conv_step find_tap(const conv_args &a, uint32_t tap) {
  conv_step made = {};
  made.tap = tap;
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
static __device__ inline conv_step find_step(const conv_args &a, int64_t k) {
  const uint32_t step = static_cast<uint32_t>(k), channels = static_cast<uint32_t>(a.c), tap = step / channels;
  conv_step made = find_tap(a, tap);
  made.c = step - tap * channels;
  made.offset += made.c * a.x_channel;
  return made;
}

/* True if the step's place lies in the picture. */
static __device__ inline bool in_picture(const conv_args &a, const conv_pixel &pixel, const conv_step &step) {
  UNROLL for (int32_t i = 0; i < CUDA_AXES; i++) {
    if (i >= a.axes) break;
    /* below 0 is a large number without a sign */
    if (static_cast<uint64_t>(pixel.origin[i] + step.place[i]) >= static_cast<uint64_t>(a.in[a.axes - 1 - i]))
      return false;
  }
  return true;
}

/* Adds what follows the sums of n neighbouring channels, and stores them. */
template <class Core>
static __device__ inline void finish_conv(const conv_args &a, int64_t channel, int64_t at, int n, bool vectors,
                                          const typename Core::T *sums) {
  typedef typename Core::T T;
  T y[Core::VECTOR], addend[Core::VECTOR];
  UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) y[i] = sums[i];
  if (a.bias) {
    load_some<Core>(addend, a.dtype, a.bias, channel, n, vectors);
    UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) y[i] += addend[i];
  }
  if (a.residual) {
    load_some<Core>(addend, a.dtype, a.residual, at, n, vectors);
    UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) y[i] += addend[i];
  }
  UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) y[i] = element<T>::activate(a.activation, y[i]);
  if (a.y_channel == 1) {
    store_some<Core>(a.dtype, a.y, at, n, vectors, y);
  } else { /* n is 1 */
    element<T>::store(Core::dtype(a.dtype), a.y, at, y[0]);
  }
}

/* The sum runs over taps, then over channels, so that neighbours in a row of the product are neighbours in memory if
 * channels come last. */
template <class Core> static __device__ inline void run_conv(const conv_args &a) {
  typedef typename Core::T T;
  SHARED_ARRAY(conv_pixel, of_row, [Core::ROWS]);
  const int64_t tile = blockIdx.x, group = tile / (a.tiles_m * a.tiles_n),
                row = tile / a.tiles_n % a.tiles_m * Core::ROWS, column = tile % a.tiles_n * Core::COLUMNS;
  const int64_t pixels = true_number(a.counted, a.pixels);
  if (row >= pixels) return; /* all threads */
  for (int i = static_cast<int>(threadIdx.x); i < Core::ROWS; i += static_cast<int>(blockDim.x))
    find_pixel(a, row + i, &of_row[i]);
  __syncthreads();
  const panel weights = find_panel(a.panels, group, column);
  const bool packed = a.panels.width != 0;
  const int64_t size = Core::vector_size(a.dtype), channels = 16 / (size ? size : 16);
  int64_t distances = a.c | group * a.c | a.x_image, of_y = a.y_image | (a.groups > 1 ? a.m : 0);
  for (int32_t d = 0; d < a.axes; d++) {
    distances |= a.x_axis[d];
    of_y |= a.y_axis[d];
  }
  const product_operand of_x = {a.x, a.dtype, false,
                                size && a.x_channel == 1 && a.c % channels == 0 && in_vectors(a.x, distances * size)};
  const product_operand of_w = {
      a.w, a.dtype, packed,
      size && (packed ? panel_in_vectors(a.w, a.panels, weights, size) : a.taps == 1 && in_vectors(a.w, a.c * size))};
  const bool vectors =
      size && a.y_channel == 1 && in_vectors(a.y, of_y * size) && in_vectors(a.residual, 0) && in_vectors(a.bias, 0);
  Core::tile(
      row, column, pixels, a.taps * a.c, a.m, of_x,
      places_of([&](int64_t k) { return find_step(a, k); },
                [&](int64_t i, const conv_step &step) {
                  const conv_pixel &pixel = of_row[i - row];
                  return in_picture(a, pixel, step) ? pixel.x + group * a.c * a.x_channel + step.offset : -1;
                },
                a.x_channel, a.c),
      of_w,
      places_of(
          [&](int64_t k) {
            const uint32_t step = static_cast<uint32_t>(k), n = static_cast<uint32_t>(a.c), tap = step / n;
            return packed ? find_row(a.panels, step - tap * n, tap)
                          : panel_row{0, static_cast<int64_t>(step - tap * n) * a.taps + tap};
          },
          [&](int64_t j, const panel_row &at) {
            return packed ? panel_place(weights, at, j - column) : (group * a.m + j) * a.c * a.taps + at.before;
          },
          packed ? weights.width * a.panels.channel_rows : a.taps,
          a.taps == 1 || (packed && !a.panels.tap && a.panels.tap_rows == a.c * a.panels.channel_rows) ? 0 : a.c),
      a.y_channel != 1, [&](int64_t i, int64_t j, int n, const T *sums) {
        const int64_t channel = group * a.m + j;
        finish_conv<Core>(a, channel, of_row[i - row].y + channel * a.y_channel, n, vectors, sums);
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
    const conv_step step = find_tap(a, tap);
    if (!in_picture(a, pixel, step)) continue;
    for (int64_t c = 0; c < a.c; c++)
      sum += element<T>::load(a.dtype, a.x, pixel.x + (group * a.c + c) * a.x_channel + step.offset) *
             element<T>::load(a.dtype, a.w,
                              a.panels.width ? panel_place(weights, find_row(a.panels, c, tap), channel % a.m)
                                             : (channel * a.c + c) * a.taps + tap);
  }
  finish_conv<simt_core<T>>(a, channel, pixel.y + channel * a.y_channel, 1, false, &sum);
}

KERNEL_OF_MANY_REGISTERS(conv_f32) { run_conv<simt_core<float>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_f64) { run_conv<simt_core<double>>(a); }
KERNEL_OF_BLOCKS(3, conv_tf32) { run_conv<mma_core<tf32_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_f16) { run_conv<mma_core<f16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_bf16) { run_conv<mma_core<bf16_unit, small_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_tall_tf32) { run_conv<mma_core<tf32_unit, tall_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_tall_f16) { run_conv<mma_core<f16_unit, tall_tile>>(a); }
KERNEL_OF_BLOCKS(3, conv_tall_bf16) { run_conv<mma_core<bf16_unit, tall_tile>>(a); }
KERNEL_OF_MANY_REGISTERS(conv_few_f32) { run_conv_few<float>(a); }
KERNEL_OF_MANY_REGISTERS(conv_few_f64) { run_conv_few<double>(a); }
