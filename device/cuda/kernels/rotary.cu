/* RotaryEmbedding: one thread a pair of elements, or an element that is not turned, so that y may lie over x. */
#include "device/cuda/kernels/elements.cuh"

template <class T> static __device__ inline void turn(const rotary_args &a, int64_t x, int64_t row, int64_t item) {
  if (item >= a.pairs) {
    const int64_t at = x + a.pairs + item;
    element<T>::store(a.dtype, a.y, at, element<T>::load(a.dtype, a.x, at));
    return;
  }
  const int64_t first = x + item * a.step, second = first + a.apart, angle = row + item * a.cache_step,
                other = angle + a.cache_apart;
  const T left = element<T>::load(a.dtype, a.x, first), right = element<T>::load(a.dtype, a.x, second);
  const T cos_first = element<T>::load(a.dtype, a.cos, angle), sin_first = element<T>::load(a.dtype, a.sin, angle),
          cos_second = element<T>::load(a.dtype, a.cos, other), sin_second = element<T>::load(a.dtype, a.sin, other);
  element<T>::store(a.dtype, a.y, first, left * cos_first - right * sin_first);
  element<T>::store(a.dtype, a.y, second, right * cos_second + left * sin_second);
}

KERNEL(rotary) {
  const int64_t i = thread_number();
  if (i >= true_number(a.counted, a.n)) return;
  const counted_extent of_length = a.counted_length ? a.counted : counted_extent{};
  const int64_t length = true_number(of_length, a.length), item = i % a.items, place = i / a.items % length,
                head = i / a.items / length % a.heads, batch = i / a.items / length / a.heads;
  int64_t row = batch * true_number(of_length, a.cache_batch) + place * a.cache_row;
  if (a.places >= 0) {
    const int64_t k = batch * length + place, id = a.ids[k];
    if (id < -a.places || id >= a.places) {
      note_fault(a.fault, a.launch, REED_FAULT_INDEX, 3, k, id, a.places);
      return;
    }
    row = (id < 0 ? id + a.places : id) * a.cache_row;
  }
  const int64_t x = batch * true_number(of_length, a.x_batch) +
                    head * (a.head_of_rows ? true_number(of_length, a.x_head) : a.x_head) + place * a.x_row;
  if (a.dtype == REED_F64) turn<double>(a, x, row, item);
  else turn<float>(a, x, row, item);
}
