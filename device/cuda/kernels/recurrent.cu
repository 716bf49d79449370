/* RNN, GRU and LSTM (ONNX opset 22): a block walks the steps of one sequence in one direction, its state in shared
 * memory, or in the workspace if it is too large. Kernel `product` has multiplied all steps of X with W before. */
#include "device/cuda/kernels/elements.cuh"

enum { LANES = 8, GRU_UPDATE = 0, GRU_RESET = 1, GRU_HIDDEN = 2 };
enum { LSTM_INPUT = 0, LSTM_OUTPUT = 1, LSTM_FORGET = 2, LSTM_CELL_GATE = 3, PEEPHOLES = 3 };

/* The data of a block: the vectors of the state, `hidden` elements each, and as many gates of every kind. */
template <class T> struct cell {
  int64_t direction, sequence;
  T *h, *c, *reset, *gates; /* gates: sums of W x and R h and the biases, then the gates themselves */
  T *products;              /* R h of a GRU's hidden gate, with its bias, if linear_before_reset */
};

template <class T> static __device__ inline T read_or_zero(const recurrent_args &a, const void *data, int64_t i) {
  return data ? element<T>::load(a.dtype, data, i) : T(0);
}

template <class T> static __device__ inline T activate(const recurrent_function &f, T x) {
  const T y = element<T>::activate(f.step, static_cast<T>(f.slope) * x);
  return static_cast<T>(f.scale) * y + static_cast<T>(f.shift);
}

template <class T> static __device__ inline T limited(const recurrent_args &a, T x) {
  const T clip = static_cast<T>(a.clip);
  return x > clip ? clip : x < -clip ? -clip : x;
}

/* Rows first .. end of R times `vector`; `take` gets each row's sum, in one thread. LANES threads share a row. */
template <class T, class F>
static __device__ inline void multiply(const recurrent_args &a, const cell<T> &s, const T *vector, int64_t first,
                                       int64_t end, F take) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % LANES, at_a_time = 256 / LANES;
  for (int64_t i0 = first; i0 < end; i0 += at_a_time) {
    const int64_t i = i0 + thread / LANES, row = (s.direction * a.gates * a.hidden + i) * a.hidden;
    T sum = 0;
    for (int64_t k = lane; k < a.hidden && i < end; k += LANES)
      sum += element<T>::load(a.dtype, a.r, row + k) * vector[k];
    for (int d = LANES / 2; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0 && i < end) take(i, sum);
  }
}

template <class T> static __device__ inline void step_rnn(const recurrent_args &a, const cell<T> &s, int64_t i) {
  s.h[i] = activate(a.functions[s.direction][0], limited(a, s.gates[i]));
}

template <class T> static __device__ inline void step_gru(const recurrent_args &a, const cell<T> &s, int64_t i) {
  const T update = s.gates[GRU_UPDATE * a.hidden + i];
  s.h[i] = (1 - update) * activate(a.functions[s.direction][1], limited(a, s.gates[GRU_HIDDEN * a.hidden + i])) +
           update * s.h[i];
}

template <class T> static __device__ inline void step_lstm(const recurrent_args &a, const cell<T> &s, int64_t i) {
  const recurrent_function *const f = a.functions[s.direction];
  const int64_t p = s.direction * PEEPHOLES * a.hidden + i;
  const T *const gate = s.gates + i;
  const T input = activate(f[0], limited(a, gate[LSTM_INPUT * a.hidden] +
                                                read_or_zero<T>(a, a.peephole, p + LSTM_INPUT * a.hidden) * s.c[i]));
  T forget = activate(f[0], limited(a, gate[LSTM_FORGET * a.hidden] +
                                           read_or_zero<T>(a, a.peephole, p + LSTM_FORGET * a.hidden) * s.c[i]));
  if (a.input_forget) forget = 1 - input;
  const T c = forget * s.c[i] + input * activate(f[1], limited(a, gate[LSTM_CELL_GATE * a.hidden]));
  const T output = activate(
      f[0], limited(a, gate[LSTM_OUTPUT * a.hidden] + read_or_zero<T>(a, a.peephole, p + LSTM_OUTPUT * a.hidden) * c));
  s.c[i] = c;
  s.h[i] = output * activate(f[2], c);
}

/* One step: all threads of the block. */
template <class T> static __device__ inline void step(const recurrent_args &a, const cell<T> &s, int64_t time) {
  const int64_t n = a.gates * a.hidden, rows = a.steps * a.sequences,
                products = (s.direction * rows + time * a.row_step + s.sequence * a.row_sequence) * n,
                bias = 2 * s.direction * n;
  const T *const from_x = static_cast<const T *>(a.products) + products;
  const bool apart = a.cell == CELL_GRU, linear = apart && a.linear_before_reset;
  const int64_t now = apart && !linear ? GRU_HIDDEN * a.hidden : n; /* rows that R h is known of */
  multiply<T>(a, s, s.h, 0, now, [&](int64_t i, T sum) {
    const T own = from_x[i] + read_or_zero<T>(a, a.bias, bias + i),
            other = sum + read_or_zero<T>(a, a.bias, bias + n + i);
    const bool hidden = linear && i >= GRU_HIDDEN * a.hidden;
    if (hidden) s.products[i - GRU_HIDDEN * a.hidden] = other;
    s.gates[i] = hidden ? own : own + other;
  });
  __syncthreads();
  if (apart) {
    const recurrent_function &f = a.functions[s.direction][0];
    for (int64_t i = threadIdx.x; i < a.hidden; i += 256) {
      const int64_t at = GRU_HIDDEN * a.hidden + i;
      const T reset = activate(f, limited(a, s.gates[GRU_RESET * a.hidden + i]));
      s.gates[i] = activate(f, limited(a, s.gates[i]));
      s.reset[i] = reset * s.h[i];
      if (linear) s.gates[at] += reset * s.products[i];
    }
    __syncthreads();
    if (!linear) {
      multiply<T>(a, s, s.reset, GRU_HIDDEN * a.hidden, n, [&](int64_t i, T sum) {
        s.gates[i] = from_x[i] + read_or_zero<T>(a, a.bias, bias + i) + read_or_zero<T>(a, a.bias, bias + n + i) + sum;
      });
      __syncthreads();
    }
  }
  for (int64_t i = threadIdx.x; i < a.hidden; i += 256) {
    if (a.cell == CELL_LSTM) step_lstm<T>(a, s, i);
    else if (apart) step_gru<T>(a, s, i);
    else step_rnn<T>(a, s, i);
  }
  __syncthreads();
}

template <class T> static __device__ inline void run_recurrent(const recurrent_args &a) {
  SHARED_DYNAMIC(T, shared);
  const int64_t block = blockIdx.x, vectors = 4 + a.gates;
  cell<T> s;
  s.direction = block / a.sequences;
  s.sequence = block % a.sequences;
  T *const state = a.in_shared ? shared : static_cast<T *>(a.state) + block * vectors * a.hidden;
  s.h = state;
  s.c = state + a.hidden;
  s.reset = state + 2 * a.hidden;
  s.products = state + 3 * a.hidden;
  s.gates = state + 4 * a.hidden;
  const int64_t length = a.lengths ? a.lengths[s.sequence] : a.steps,
                at = s.direction * a.state_direction + s.sequence * a.state_sequence;
  if (length < 0 || length > a.steps) {
    note_fault(a.fault, a.launch, REED_FAULT_LENGTH, 4, s.sequence, length, a.steps);
    return;
  }
  for (int64_t i = threadIdx.x; i < a.hidden; i += 256) {
    s.h[i] = read_or_zero<T>(a, a.initial_h, at + i);
    s.c[i] = read_or_zero<T>(a, a.initial_c, at + i);
  }
  __syncthreads();
  for (int64_t k = 0; k < a.steps; k++) {
    const int64_t time = a.backward[s.direction] ? a.steps - 1 - k : k;
    const bool takes_part = time < length;
    if (takes_part) step<T>(a, s, time);
    const int64_t y = time * a.y_step + s.direction * a.y_direction + s.sequence * a.y_sequence;
    for (int64_t i = threadIdx.x; i < a.hidden && a.y; i += 256)
      element<T>::store(a.dtype, a.y, y + i, takes_part ? s.h[i] : T(0));
  }
  for (int64_t i = threadIdx.x; i < a.hidden; i += 256) {
    if (a.y_h) element<T>::store(a.dtype, a.y_h, at + i, s.h[i]);
    if (a.y_c) element<T>::store(a.dtype, a.y_c, at + i, s.c[i]);
  }
}

KERNEL_OF_MANY_REGISTERS(recurrent_f32) { run_recurrent<float>(a); }
KERNEL_OF_MANY_REGISTERS(recurrent_f64) { run_recurrent<double>(a); }
