/* The pixels that a tap of a deformable convolution reads, for one type T: included with T and DEFORM_NAME(name)
 * defined. C and CUDA read this file, so that the host's kernels and the GPU's sample alike. Source: Zhu et al. 2019,
 * "Deformable ConvNets v2"; borders as torchvision's kernels have them. */

/* The four pixels around a place, row by row, and their weights in the sample; dy and dx: the derivatives of the
 * weights by the place. A pixel outside of the image, which counts as 0, has the number -1. A place that is NaN has
 * weights NaN. */
typedef struct DEFORM_NAME(deform_sample) {
  int64_t pixel[4];
  T weight[4], dy[4], dx[4];
} DEFORM_NAME(deform_sample);

#ifdef __CUDACC__
static __device__ inline
#else
static inline
#endif
    DEFORM_NAME(deform_sample) DEFORM_NAME(deform_sample_at)(T y, T x, int64_t height, int64_t width) {
  DEFORM_NAME(deform_sample) s = {{-1, -1, -1, -1}, {0}, {0}, {0}};
  if (y != y || x != x) {
    for (int i = 0; i < 4; i++) s.weight[i] = s.dy[i] = s.dx[i] = y + x;
    return s;
  }
  if (y < -1 || x < -1 || y >= (T)height || x >= (T)width) return s;
  T floor_y = y < 0 ? -1 : (T)(int64_t)y, floor_x = x < 0 ? -1 : (T)(int64_t)x, down = y - floor_y, right = x - floor_x;
  for (int i = 0; i < 4; i++) {
    int64_t row = (int64_t)floor_y + (i >> 1), column = (int64_t)floor_x + (i & 1);
    if (row < 0 || row >= height || column < 0 || column >= width) continue;
    T of_row = i >> 1 ? down : 1 - down, of_column = i & 1 ? right : 1 - right;
    s.pixel[i] = row * width + column;
    s.weight[i] = of_row * of_column;
    s.dy[i] = i >> 1 ? of_column : -of_column;
    s.dx[i] = i & 1 ? of_row : -of_row;
  }
  return s;
}
