/* The loops of convolution's neighbours (pools, norms, NMS, RoIAlign) that are compiled once per CPU level (…_loops.c):
 * f32 unless their name says otherwise. CPU_PICK(level, name) gives one. None of them starts threads. */
#ifndef OPS_CPU_COMMON_LAYER_LOOPS_H_
#define OPS_CPU_COMMON_LAYER_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>

struct roi_plan;
struct recurrent_cell;

#define CPU_LOOPS_B(X) \
  /* x[i] = activation(x[i]); kind is an activation_kind */ \
  X(void, activate_f32, (int kind, float alpha, float beta, float *x, int64_t n)) \
  /* softmax or its logarithm over `axis` elements at distance `inner`, for n neighbouring columns; scratch: 2 * n \
   * floats */ \
  X(void, softmax_columns, \
    (bool log, const float *x, float *y, int64_t axis, int64_t inner, int64_t n, float *scratch)) \
  /* the same for inner 1 */ \
  X(void, softmax_row, (bool log, const float *x, float *y, int64_t axis)) \
  /* y[i] = (x[i] - centre) * a + b */ \
  X(void, scale_shift, (const float *x, float centre, float a, float b, float *y, int64_t n)) \
  /* y[i] = (x[i] - mean) * inverse * scale[i] + shift[i]; shift NULL: 0 */ \
  X(void, normalize_row, \
    (const float *x, float mean, float inverse, const float *scale, const float *shift, float *y, int64_t n)) \
  /* mean and variance (divided by n) in two passes; n > 0 */ \
  X(void, moments, (const float *x, int64_t n, double *out_mean, double *out_variance)) \
  X(double, sum_f32, (const float *x, int64_t n)) \
  X(float, max_f32, (const float *x, int64_t n)) \
  /* y[i] = max(y[i], x[i]), NaN when either is; y[i] += x[i]; y[i] += a * x[i]; y[i] = a * x[i] */ \
  X(void, max_rows, (const float *x, float *y, int64_t n)) \
  X(void, add_rows, (const float *x, float *y, int64_t n)) \
  X(void, axpy, (float a, const float *x, float *y, int64_t n)) \
  X(void, scale_row, (float a, const float *x, float *y, int64_t n)) \
  /* y[i] = the largest of, or scale times the sum of, x[i * stride + t * dilation] over t < taps */ \
  X(void, pool_along, \
    (bool mean, const float *x, int64_t stride, int64_t dilation, int64_t taps, float scale, float *y, int64_t n)) \
  /* y[i] += (x[i] - centre[i])^2 */ \
  X(void, add_squares, (const float *x, const float *centre, float *y, int64_t n)) \
  /* y[i] = (x[i] - centre[i]) * a[i] + b[i] */ \
  X(void, scale_shift_row, (const float *x, const float *centre, const float *a, const float *b, float *y, int64_t n)) \
  /* y[p * y_step + i] = the largest, or scale times the sum, of x[p * x_step + offsets[t] + i] over t < taps and, \
   * unless first, what y has there, for p < pixels and i < n; taps > 0 (pool_loops.c) */ \
  X(void, pool_taps, \
    (bool mean, const float *x, int64_t x_step, const int64_t *offsets, int64_t taps, bool first, float scale, \
     float *y, int64_t y_step, int64_t pixels, int64_t n)) \
  /* y[i] (+)= the sum of weights[t] * x[offsets[t] + i] over t < taps */ \
  X(void, weighted_taps, \
    (const float *x, const int64_t *offsets, const float *weights, int64_t taps, bool add, float *y, int64_t n)) \
  /* y[i] = sum over k < taps of weight[i * taps + k] * x[index[i * taps + k]] */ \
  X(void, gather_taps, (const float *x, const int32_t *index, const float *weight, int64_t taps, float *y, int64_t n)) \
  /* y[o * inner + i] = the sum over k < taps of weight[o * taps + k] * x[index[o * taps + k] * inner + i], for o < n, \
   * i < inner */ \
  X(void, mix_rows, \
    (const float *x, const int32_t *index, const float *weight, int64_t taps, int64_t inner, float *y, int64_t n)) \
  /* low[c] and high[c]: the smallest and the largest of x[i * lanes + c] over i < n; NaN where one is no finite \
   * number; n > 0 */ \
  X(void, lane_ranges, (const float *x, int64_t n, int64_t lanes, float *low, float *high)) \
  /* bound[c]: the most that a sum over t < taps of weights[t] * (something from low[offsets[t] + c] to \
   * high[offsets[t] + c]) can be, and `overshoot` times its range, and slack[c] */ \
  X(void, lane_bounds, \
    (const float *low, const float *high, const int64_t *offsets, const float *weights, int64_t taps, float overshoot, \
     const float *slack, float *bound, int64_t lanes)) \
  /* bound[c]: the most that any four neighbours (all where there are fewer) of x[i * lanes + c], i < n, and \
   * `overshoot` times their range, come to, and slack[c] */ \
  X(void, lane_reach, (const float *x, int64_t n, int64_t lanes, float overshoot, const float *slack, float *bound)) \
  /* y[r][g * gate_step + i] (+)= sum over k < depth of x[r][k] * panel[(k * gates + g) * units + i] for i < n <= \
   * units (ops/cpu/sequence/recurrent.c) */ \
  X(void, recurrent_multiply, \
    (int gates, const float *panel, int64_t depth, int rows, const float *const *x, float *const *y, \
     int64_t gate_step, int64_t n, bool add)) \
  /* one step of some units: RNN; GRU's update and reset, then its rest; LSTM (ops/cpu/calls/recurrent.h) */ \
  X(void, recurrent_rnn, (const struct recurrent_cell *cell)) \
  X(void, recurrent_gru_gates, (const struct recurrent_cell *cell)) \
  X(void, recurrent_gru, (const struct recurrent_cell *cell)) \
  X(void, recurrent_lstm, (const struct recurrent_cell *cell)) \
  /* bins of `channels` planes, the next plane->plane floats on, of one region (ops/cpu/calls/roi_align.h) */ \
  X(void, roi_align_channels, (const struct roi_plan *plan, const float *x, int64_t channels, float *y)) \
  /* c[m][n] += a[m][k] * b[k][n]; a's rows and columns at any distances, b's and c's rows at theirs; n a multiple of \
   * 16 */ \
  X(void, multiply_add, \
    (float *c, int64_t c_row, const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row, \
     int64_t m, int64_t n, int64_t k)) \
  /* one block of keys in a softmax that goes on over blocks (ops/cpu/sequence/attention.c) */ \
  X(void, attend_keys, (float *scores, int64_t n_keys, int64_t n, float *most, float *sum, float *shrink)) \
  /* clears alive[j] for every box j in first..n-1 whose overlap with box `i` is over the threshold; boxes are \
   * x1,y1,x2,y2,area as five arrays of `stride` floats */ \
  X(void, nms_suppress, \
    (const float *boxes, int64_t stride, int64_t i, int64_t first, int64_t n, float threshold, uint8_t *alive))

#define CPU_LOOPS_B_DECLARE_(type, name, arguments) \
  type name##_base arguments; \
  type name##_avx2 arguments; \
  type name##_avx512 arguments;
CPU_LOOPS_B(CPU_LOOPS_B_DECLARE_)
#undef CPU_LOOPS_B_DECLARE_

#endif
