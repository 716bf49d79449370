/* Pools: a thread walks one window, of PART neighbouring channels. With channels last, f32 and halves are pooled 16
 * bytes at a time (pool_4, pool_8). Means and norms are summed in double, as on the host; a maximum moves the element
 * itself. */
#include "device/cuda/kernels/channels.cuh"

enum { TAPS_AT_ONCE = 4 }; /* taps that are loaded before the first of them is used */

/* Steps to walk a distance. */
template <class Int> static __device__ inline Int steps_in(Int distance, Int step) {
  return step == 1 ? distance : (distance + step - 1) / step;
}

/* The taps of one axis of a window that lie in low..high - 1, and how many there are before the first of them. */
template <class Int>
static __device__ inline Int taps_in(Int origin, Int step, Int kernel, Int low, Int high, Int *out_before) {
  const Int before = origin < low ? steps_in(low - origin, step) : 0,
            end = origin < high ? steps_in(high - origin, step) : 0;
  *out_before = before;
  return (end < kernel ? end : kernel) - before;
}

/* The taps of one window inside the input, row by row: a row lies along the last axis. */
template <int AXES, class Int> struct pool_walk {
  Int n[AXES], at[AXES], offset, number; /* n: taps; offset of the row's first tap in x, its number in the plane */
  bool some;

  __device__ inline pool_walk(const pool_args &a, const Int *origin, Int from) {
    offset = from;
    number = 0;
    some = true;
    UNROLL for (int d = 0; d < AXES; d++) {
      const Int step = static_cast<Int>(a.dilation[d]);
      Int before;
      n[d] = taps_in(origin[d], step, static_cast<Int>(a.kernel[d]), Int(0), static_cast<Int>(a.in[d]), &before);
      at[d] = 0;
      some = some && n[d] > 0;
      offset += (origin[d] + before * step) * static_cast<Int>(a.x_axis[d]);
      number += (origin[d] + before * step) * static_cast<Int>(a.number_axis[d]);
    }
  }

  /* To the next row; false: there is none. */
  __device__ inline bool next_row(const pool_args &a) {
    UNROLL for (int d = AXES - 2; d >= 0; d--) {
      const bool more = ++at[d] < n[d];
      const Int step = (more ? 1 : 1 - n[d]) * static_cast<Int>(a.dilation[d]);
      offset += step * static_cast<Int>(a.x_axis[d]);
      number += step * static_cast<Int>(a.number_axis[d]);
      if (more) return true;
      at[d] = 0;
    }
    return false;
  }
};

/* Calls use(channels, number) for each tap in order. */
template <int PART, int AXES, class Int, class F>
static __device__ inline void each_tap(const pool_args &a, int dtype, pool_walk<AXES, Int> walk, F use) {
  const Int n = walk.n[AXES - 1], step = static_cast<Int>(a.dilation[AXES - 1] * a.x_axis[AXES - 1]),
            number_step = static_cast<Int>(a.dilation[AXES - 1] * a.number_axis[AXES - 1]);
  if (!walk.some) return;
  do {
    for (Int first = 0; first < n; first += TAPS_AT_ONCE) {
      channels<PART> taps[TAPS_AT_ONCE];
      UNROLL for (int k = 0; k < TAPS_AT_ONCE; k++) if (first + k < n) taps[k].load(dtype, a.x,
                                                                                    walk.offset + (first + k) * step);
      UNROLL for (int k = 0; k < TAPS_AT_ONCE; k++) if (first + k < n)
          use(taps[k], walk.number + (first + k) * number_step);
    }
  } while (walk.next_row(a));
}

/* One axis's factor in the number of elements that a mean is divided by (ops/cpu/calls/pool.h). */
template <class Int> static __device__ inline Int count_taps(const pool_args &a, int d, Int origin) {
  const Int low = static_cast<Int>(a.include_pad ? -a.pad[d] : 0),
            high = static_cast<Int>(a.in[d] + (a.include_pad ? a.pad_end[d] : 0)),
            kernel = static_cast<Int>(a.kernel[d]);
  Int before;
  const Int n = taps_in(origin, static_cast<Int>(a.dilation[d]), kernel, low, high, &before);
  return n > 0 ? n : kernel > 0;
}

/* True if the element is larger than the largest so far, or the first NaN. */
static __device__ inline bool is_larger(int dtype, uint64_t value, uint64_t most) {
  if (dtype == REED_U64) return value > most;
  if (!dtype_is_float(dtype)) return value_whole(dtype, value) > value_whole(dtype, most);
  if (dtype == REED_F64) {
    const double v = value_as<double>(value), m = value_as<double>(most);
    return v > m || (v != v && m == m);
  }
  const float v = value_as<float>(value), m = value_as<float>(most);
  return v > m || (v != v && m == m);
}

/* The dtype's least value, which a window without taps gives. */
static __device__ inline uint64_t least_value(int dtype) {
  switch (dtype) {
    case REED_I8: return value_of(static_cast<int8_t>(INT8_MIN));
    case REED_I16: return value_of(static_cast<int16_t>(INT16_MIN));
    case REED_I32: return value_of(INT32_MIN);
    case REED_I64: return value_of(INT64_MIN);
    case REED_F64: return value_of(-static_cast<double>(INFINITY));
    case REED_F32:
    case REED_F16:
    case REED_BF16: return value_of(-INFINITY);
    default: return 0;
  }
}

/* Int: holds every offset. Only single elements have a norm, or an index that is wanted. */
template <int PART, int AXES, class Int> static __device__ inline void run_pool(const pool_args &a) {
  const int64_t thread = thread_number();
  if (thread * PART >= true_number(a.counted, a.n)) return;
  Int rest = static_cast<Int>(thread), origin[AXES], to = 0, channel = 0;
  const int dtype = PART == 4 ? REED_F32 : a.dtype, held = PART > 1 ? REED_F32 : dtype; /* halves are held as f32 */
  const int64_t power = PART == 1 ? a.power : 0;
  const bool last = PART > 1 || a.y_channel == 1;
  if (last) channel = split_last(&rest, static_cast<Int>(a.channels / PART)) * PART;
  UNROLL for (int d = AXES - 1; d >= 0; d--) {
    const Int at = split_last(&rest, static_cast<Int>(a.out[d]));
    origin[d] = at * static_cast<Int>(a.stride[d]) - static_cast<Int>(a.pad[d]);
    to += at * static_cast<Int>(a.y_axis[d]);
  }
  if (!last) channel = split_last(&rest, static_cast<Int>(a.channels));
  to += rest * static_cast<Int>(a.y_image) + channel * static_cast<Int>(a.y_channel);
  const pool_walk<AXES, Int> walk(a, origin,
                                  rest * static_cast<Int>(a.x_image) + channel * static_cast<Int>(a.x_channel));
  channels<PART> result;
  if (!a.mean && !power) {
    Int where = -1;
    uint64_t most[PART];
    UNROLL for (int c = 0; c < PART; c++) most[c] = least_value(held);
    each_tap<PART>(a, dtype, walk, [&](const channels<PART> &tap, Int number) {
      UNROLL for (int c = 0; c < PART; c++) {
        const uint64_t value = tap.value(dtype, c);
        if (!is_larger(held, value, most[c]) && (PART > 1 || where >= 0)) continue;
        most[c] = value;
        where = number;
      }
    });
    UNROLL for (int c = 0; c < PART; c++) result.set(dtype, c, most[c]);
    if (PART == 1 && a.indices) a.indices[to] = where < 0 ? 0 : (rest * a.channels + channel) * a.in_plane + where;
  } else {
    double sums[PART] = {}, count = 1;
    each_tap<PART>(a, dtype, walk, [&](const channels<PART> &tap, Int) {
      UNROLL for (int c = 0; c < PART; c++) {
        const double v = value_real(held, tap.value(dtype, c));
        sums[c] += power == 2 ? v * v : power ? pow(fabs(v), static_cast<double>(power)) : v;
      }
    });
    UNROLL for (int d = 0; d < AXES; d++) count *= static_cast<double>(count_taps(a, d, origin[d]));
    UNROLL for (int c = 0; c < PART; c++) {
      const double norm = power == 2 ? sqrt(sums[c])
                          : power    ? pow(sums[c], 1 / static_cast<double>(power))
                                     : sums[c] / count;
      result.set(dtype, c, convert_real(norm, dtype));
    }
  }
  result.store(dtype, a.y, to);
}

KERNEL_OF_MANY_REGISTERS(pool) { run_pool<1, CUDA_AXES, int64_t>(a); }
KERNEL_OF_MANY_REGISTERS(pool_planes) { run_pool<1, POOL_PLANE_AXES, int64_t>(a); }
KERNEL(pool_4) { run_pool<4, POOL_PLANE_AXES, int32_t>(a); }
KERNEL(pool_8) { run_pool<8, POOL_PLANE_AXES, int32_t>(a); }
