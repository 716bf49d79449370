/* Transposed convolutions of one to six axes, for channels second and last. The output's places fall into phases: those
 * with the same remainders by the strides, which the same taps reach. A phase is a product without zeros (implicit
 * GEMM): its places times the taps and channels that reach it. For groups of few channels: one thread an element. */
#include "device/cuda/kernels/product.cuh"

/* A phase: per axis the first place and the number of places, the first tap and the number of taps. Tap first + j *
 * step of place o reads the input at (o + pad - tap * dilation) / stride. */
struct phase {
  int64_t place[CUDA_AXES], places[CUDA_AXES], tap[CUDA_AXES], taps[CUDA_AXES];
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
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int64_t place = number % a.phases[d], shifted = (place + a.pad[d]) % a.stride[d];
    number /= a.phases[d];
    out->place[d] = place;
    out->places[d] = (a.out[d] - place + a.stride[d] - 1) / a.stride[d];
    find_taps(a, d, shifted < 0 ? shifted + a.stride[d] : shifted, &out->tap[d], &out->taps[d]);
    out->pixels *= out->places[d];
    out->depth *= out->taps[d];
  }
}

/* A place of the output: its offsets in x and y of channel 0, and its coordinates. */
struct transposed_pixel {
  int64_t x, y, at[CUDA_AXES];
};

static __device__ inline void find_pixel(const conv_transpose_args &a, const phase &p, int64_t pixel,
                                         transposed_pixel *out) {
  out->y = 0;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int64_t o = p.place[d] + pixel % p.places[d] * a.stride[d];
    pixel /= p.places[d];
    out->at[d] = o;
    out->y += o * a.y_axis[d];
  }
  out->x = pixel * a.x_image;
  out->y += pixel * a.y_image;
}

/* The input's offset from the pixel's x for tap number `tap` of the phase, and the tap's number among all; false: it is
 * outside. */
static __device__ inline bool find_source(const conv_transpose_args &a, const phase &p, const transposed_pixel &pixel,
                                          int64_t tap, int64_t *out_offset, int64_t *out_tap) {
  int64_t offset = 0, number = 0, scale = 1;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int64_t t = p.tap[d] + tap % p.taps[d] * a.tap_step[d], from = pixel.at[d] + a.pad[d] - t * a.dilation[d];
    tap /= p.taps[d];
    number += t * scale;
    scale *= a.kernel[d];
    if (from < 0 || from / a.stride[d] >= a.in[d]) return false;
    offset += from / a.stride[d] * a.x_axis[d];
  }
  *out_offset = offset;
  *out_tap = number;
  return true;
}

/* The number among all taps of tap number `tap` of the phase. */
static __device__ inline int64_t tap_number(const conv_transpose_args &a, const phase &p, int64_t tap) {
  int64_t number = 0, scale = 1;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    number += (p.tap[d] + tap % p.taps[d] * a.tap_step[d]) * scale;
    tap /= p.taps[d];
    scale *= a.kernel[d];
  }
  return number;
}

/* The place of the weight from channel c of a group to output first + j, whose panel begins at output `first`. */
static __device__ inline int64_t weight_place(const conv_transpose_args &a, const panel &weights, int64_t group,
                                              int64_t c, int64_t first, int64_t j, int64_t tap) {
  return a.panels.width ? panel_place(a.panels, weights, c, tap, j)
                        : ((group * a.c + c) * a.m + first + j) * a.taps + tap;
}

template <class T>
static __device__ inline void finish(const conv_transpose_args &a, int64_t channel, int64_t at, T sum) {
  if (a.bias) sum += element<T>::load(a.dtype, a.bias, channel);
  element<T>::store(a.dtype, a.y, at, element<T>::activate(a.activation, sum));
}

template <class T> static __device__ inline void run_conv_transpose(const conv_transpose_args &a) {
  const int64_t tiles = a.tiles_m * a.tiles_n, tile = blockIdx.x % tiles, group = blockIdx.x / tiles % a.groups,
                row = tile / a.tiles_n * TILE, column = tile % a.tiles_n * TILE;
  phase p;
  find_phase(a, blockIdx.x / tiles / a.groups, &p);
  const int64_t pixels = true_number(a.counted, a.images) * p.pixels;
  if (row >= pixels) return; /* all threads */
  const panel weights = find_panel(a.panels, group, column);
  product_tile<T>(
      row, column, pixels, p.depth * a.c, a.m, {a.x, a.dtype, false, false},
      [&](int64_t i, int64_t k) {
        transposed_pixel pixel;
        int64_t offset, tap;
        find_pixel(a, p, i, &pixel);
        return find_source(a, p, pixel, k / a.c, &offset, &tap)
                   ? pixel.x + (group * a.c + k % a.c) * a.x_channel + offset
                   : -1;
      },
      {a.w, a.dtype, a.panels.width != 0, false},
      [&](int64_t j, int64_t k) {
        return weight_place(a, weights, group, k % a.c, column, j - column, tap_number(a, p, k / a.c));
      },
      [&](int64_t i, int64_t j, T sum) {
        transposed_pixel pixel;
        find_pixel(a, p, i, &pixel);
        finish(a, group * a.m + j, pixel.y + (group * a.m + j) * a.y_channel, sum);
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
  transposed_pixel pixel;
  find_pixel(a, p, a.y_channel == 1 ? i / channels : i % n, &pixel);
  const panel weights = find_panel(a.panels, group, 0);
  T sum = 0;
  for (int64_t k = 0; k < p.depth; k++) {
    int64_t offset, tap;
    if (!find_source(a, p, pixel, k, &offset, &tap)) continue;
    for (int64_t c = 0; c < a.c; c++)
      sum += element<T>::load(a.dtype, a.x, pixel.x + (group * a.c + c) * a.x_channel + offset) *
             element<T>::load(a.dtype, a.w, weight_place(a, weights, group, c, 0, channel % a.m, tap));
  }
  finish(a, channel, pixel.y + channel * a.y_channel, sum);
}

KERNEL_OF_MANY_REGISTERS(conv_transpose_f32) { run_conv_transpose<float>(a); }
KERNEL_OF_MANY_REGISTERS(conv_transpose_f64) { run_conv_transpose<double>(a); }
KERNEL_OF_MANY_REGISTERS(conv_transpose_few_f32) { run_conv_transpose_few<float>(a); }
KERNEL_OF_MANY_REGISTERS(conv_transpose_few_f64) { run_conv_transpose_few<double>(a); }
