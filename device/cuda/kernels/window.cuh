/* The parts that convolutions and transposed ones share: windows over a picture of one to six axes, whose places are a
 * product's operand (implicit GEMM), and the end of a result. Axes are numbered from the last one. */
#ifndef DEVICE_CUDA_KERNELS_WINDOW_CUH_
#define DEVICE_CUDA_KERNELS_WINDOW_CUH_

#include "device/cuda/kernels/product_mma.cuh"

/* A pixel of the output: the offset of channel 0 in y; the first place of its window in the picture, and that place's
 * offset in x, which may lie before x. */
struct window_pixel {
  int64_t x, y, origin[CUDA_AXES];
};

/* A step of the depth: its place in the window, and the element's offset from the window's first place. */
struct window_step {
  int64_t offset, place[CUDA_AXES];
};

/* True if the step's place lies in the picture. */
template <class Args>
static __device__ inline bool in_picture(const Args &a, const window_pixel &pixel, const window_step &step) {
  UNROLL for (int32_t i = 0; i < CUDA_AXES; i++) {
    if (i >= a.axes) break;
    /* below 0 is a large number without a sign */
    if (static_cast<uint64_t>(pixel.origin[i] + step.place[i]) >= static_cast<uint64_t>(a.in[a.axes - 1 - i]))
      return false;
  }
  return true;
}

/* The picture as an operand whose neighbours are the channels of a group; y_vectors: results of neighbouring channels
 * may be stored in vectors. */
struct window_operand {
  product_operand x;
  bool y_vectors;
};
template <class Core, class Args> static __device__ inline window_operand find_operand(const Args &a, int64_t group) {
  const int64_t size = Core::vector_size(a.dtype), channels = 16 / (size ? size : 16);
  int64_t distances = a.c | group * a.c | a.x_image, of_y = a.y_image | (a.groups > 1 ? a.m : 0);
  for (int32_t d = 0; d < a.axes; d++) {
    distances |= a.x_axis[d];
    of_y |= a.y_axis[d];
  }
  return {{a.x, a.dtype, false, size && a.x_channel == 1 && a.c % channels == 0 && in_vectors(a.x, distances * size)},
          size && a.y_channel == 1 && in_vectors(a.y, of_y * size) && in_vectors(a.bias, 0)};
}

/* The end of n neighbouring channels from `channel` on, whose bias (NULL: none) is read once. */
template <class Core, class Args> struct channels_end {
  typedef typename Core::T T;
  const Args &a;
  const int n;
  const bool vectors;
  T bias[Core::VECTOR];

  __device__ inline channels_end(const Args &args, int64_t channel, int channels, bool in_vectors)
      : a(args), n(channels), vectors(in_vectors) {
    UNROLL for (int i = 0; i < Core::VECTOR; i++) bias[i] = 0;
    if (a.bias) load_some<Core>(bias, a.dtype, a.bias, channel, n, vectors);
  }
  /* Adds bias and residual (NULL: none) to the sums of a pixel, and stores them. */
  __device__ inline void store(const void *residual, int64_t at, const T *sums) const {
    T y[Core::VECTOR], addend[Core::VECTOR];
    if (Core::VECTOR > 1 && vectors && n == Core::VECTOR) {
      UNROLL for (int i = 0; i < Core::VECTOR; i++) y[i] = sums[i] + bias[i];
      if (residual) {
        Core::load(addend, residual, at);
        UNROLL for (int i = 0; i < Core::VECTOR; i++) y[i] += addend[i];
      }
      Core::activate(a.activation, y);
      Core::store(a.y, at, y);
      return;
    }
    UNROLL for (int i = 0; i < Core::VECTOR; i++) if (i < n) { /* of registers, so not rolled */
      T value = a.bias ? sums[i] + bias[i] : sums[i];
      if (residual) value += element<T>::load(Core::dtype(a.dtype), residual, at + i);
      element<T>::store(Core::dtype(a.dtype), a.y, at + i, element<T>::activate(a.activation, value));
    }
  }
};

#endif
