/* Col2Im: an element of an image each thread. It adds the elements of the blocks that cover it in the order of a
 * block's elements, as the host does. */
#include "device/cuda/kernels/values.cuh"

/* The column that puts element `block` of a block at this place of the image; -1: none. */
static __device__ inline int64_t column_at(const fold_args &a, int64_t block, int64_t place) {
  int64_t column = 0, stride = 1;
  for (int32_t d = a.axes - 1; d >= 0; d--) {
    const int64_t from = place % a.in[d] + a.pad[d] - block % a.kernel[d] * a.dilation[d];
    if (from < 0 || from % a.stride[d] || from / a.stride[d] >= a.out[d]) return -1;
    column += from / a.stride[d] * stride;
    stride *= a.out[d];
    place /= a.in[d];
    block /= a.kernel[d];
  }
  return column;
}

KERNEL(fold) {
  const int64_t i = thread_number();
  if (i >= a.n) return;
  double real = 0;
  float single = 0;
  uint64_t whole = 0;
  for (int64_t block = 0; block < a.block && a.windows; block++) {
    const int64_t column = column_at(a, block, i % a.image);
    if (column < 0) continue;
    const uint64_t value = value_load(a.dtype, a.x, (i / a.image * a.block + block) * a.windows + column);
    if (a.dtype == REED_F64) real += value_as<double>(value);
    else if (dtype_is_float(a.dtype)) single += value_as<float>(value);
    else if (a.dtype == REED_BOOL) whole |= (value & 0xff) != 0;
    else whole += value;
  }
  value_store(a.dtype, a.y, i,
              a.dtype == REED_F64       ? value_of(real)
              : dtype_is_float(a.dtype) ? value_of(single)
                                        : whole);
}
