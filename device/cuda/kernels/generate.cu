/* Elements that depend on their places: ConstantOfShape, Range, EyeLike, OneHot, Trilu, ReverseSequence; and the mask
 * of Dropout. One thread an element of the output. */
#include "device/cuda/kernels/indices.cuh"
#include "device/cuda/kernels/values.cuh"

static __device__ inline void write_bits(int32_t size, void *y, int64_t to, uint64_t bits) {
  switch (size) {
    case 1: static_cast<uint8_t *>(y)[to] = static_cast<uint8_t>(bits); break;
    case 2: static_cast<uint16_t *>(y)[to] = static_cast<uint16_t>(bits); break;
    case 4: static_cast<uint32_t *>(y)[to] = static_cast<uint32_t>(bits); break;
    default: static_cast<uint64_t *>(y)[to] = bits; break;
  }
}

KERNEL(make) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  uint64_t bits = a.value;
  if (a.kind == MAKE_RANGE && a.is_float) {
    value_store(a.dtype, a.y, i, convert_real(a.start + static_cast<double>(i) * a.delta, a.dtype));
    return;
  }
  if (a.kind == MAKE_RANGE) bits += static_cast<uint64_t>(i) * a.step;
  if (a.kind == MAKE_EYE && i % a.columns - i / a.columns != a.diagonal) bits = 0;
  write_bits(a.size, a.y, i, bits);
}

KERNEL(one_hot) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const int64_t place = i / a.inner % a.depth, from = i / a.inner / a.depth * a.inner + i % a.inner;
  int64_t index = value_as<int64_t>(value_convert(a.dtype, REED_I64, value_load(a.dtype, a.indices, from)));
  if (index < 0 && index >= -a.depth) index += a.depth;
  copy_element(a.size, a.y, i, a.values, index == place);
}

KERNEL(trilu) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const int64_t column = i % a.columns, row = i / a.columns % a.rows, given = a.k ? *a.k : 0;
  /* so that the sum does not overflow */
  const int64_t k = given < -a.rows ? -a.rows : given > a.columns ? a.columns : given;
  if (a.upper ? column >= row + k : column <= row + k) copy_element(a.size, a.y, i, a.x, i);
  else zero_element(a.size, a.y, i);
}

KERNEL(reverse_sequence) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const int64_t b = i % a.block, place = i / a.block;
  const bool time_first = a.time_stride != 1;
  const int64_t time = time_first ? place / a.time_stride : place % a.times,
                batch = time_first ? place % a.time_stride : place / a.times, length = a.lengths[batch];
  if (length < 0 || length > a.times) {
    note_fault(a.fault, a.launch, REED_FAULT_LENGTH, 1, batch, length, a.times);
    return;
  }
  const int64_t from = time < length ? length - 1 - time : time;
  copy_element(a.size, a.y, i, a.x, (place + (from - time) * a.time_stride) * a.block + b);
}

KERNEL(dropout) {
  const int64_t i = thread_number();
  if (i < a.n && a.mask && i < true_number(a.counted, a.n)) a.mask[i] = 1;
  if (i || !a.training || !*a.training) return;
  const double ratio =
      a.ratio ? value_as<double>(value_convert(a.ratio_dtype, REED_F64, value_load(a.ratio_dtype, a.ratio, 0))) : 0.5;
  if (ratio != 0) note_fault(a.fault, a.launch, REED_FAULT_TRAINING, 2, -1, static_cast<int64_t>(value_of(ratio)), 0);
}
