/* RNN, GRU and LSTM calls (ONNX opset 22) read as extents, for the f32 kernel and the reference.
 *
 * Every direction walks the steps in its own order: forward 0, 1, ..., backward last, ..., 1, 0. A sequence takes part
 * in the steps below its length; a backward direction therefore starts with the initial state at the sequence's last
 * step. At other steps the state stays and Y is zero. */
#ifndef OPS_CPU_CALLS_RECURRENT_H_
#define OPS_CPU_CALLS_RECURRENT_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/formulas.h"

#define RECURRENT_GATES_MAX 4
#define RECURRENT_PEEPHOLES 3

typedef enum recurrent_input {
  RECURRENT_X,
  RECURRENT_W,
  RECURRENT_R,
  RECURRENT_B,
  RECURRENT_LENGTHS,
  RECURRENT_INITIAL_H,
  RECURRENT_INITIAL_C,
  RECURRENT_P
} recurrent_input;
typedef enum recurrent_output { RECURRENT_Y, RECURRENT_Y_H, RECURRENT_Y_C, RECURRENT_OUTPUTS } recurrent_output;

/* The gates, in the order of the weights. */
enum { GRU_UPDATE, GRU_RESET, GRU_HIDDEN };
enum { LSTM_INPUT, LSTM_OUTPUT, LSTM_FORGET, LSTM_CELL };

/* The words of attribute `activations`, each with the operator of op.def whose formula computes it (OP_COUNT: none, x
 * itself). Alpha and beta come from activation_alpha and activation_beta; if these have no number left, from the
 * operator's row. */
#define RECURRENT_ACTIVATION_LIST(X) \
  X(Affine, OP_COUNT) \
  X(Elu, OP_Elu) \
  X(HardSigmoid, OP_HardSigmoid) \
  X(LeakyRelu, OP_LeakyRelu) \
  X(Relu, OP_Relu) \
  X(ScaledTanh, OP_Tanh) \
  X(Sigmoid, OP_Sigmoid) \
  X(Softplus, OP_Softplus) \
  X(Softsign, OP_Softsign) \
  X(Tanh, OP_Tanh) \
  X(ThresholdedRelu, OP_ThresholdedRelu)

typedef enum recurrent_activation_kind {
#define RECURRENT_ACTIVATION_ENUM_(name, formula) RECURRENT_##name,
  RECURRENT_ACTIVATION_LIST(RECURRENT_ACTIVATION_ENUM_)
#undef RECURRENT_ACTIVATION_ENUM_
      RECURRENT_ACTIVATION_COUNT
} recurrent_activation_kind;

/* x -> scale * formula(slope * x) + shift. Affine is scale and shift alone, ScaledTanh is Tanh with scale and slope. */
typedef struct recurrent_activation {
  int formula; /* OP_COUNT: x itself */
  elementwise_parameters parameters;
  double slope, scale, shift;
} recurrent_activation;

typedef struct recurrent {
  op_id id; /* OP_RNN, OP_GRU, OP_LSTM */
  reed_dtype dtype;
  cpu_team team;
  cpu_level level;
  int32_t n_inputs, n_outputs;
  int64_t n_directions, n_gates, steps, sequences, features, hidden;
  int64_t x_step, x_sequence; /* elements from a step or a sequence of X to the next */
  int64_t y_step, y_direction, y_sequence;
  int64_t state_direction, state_sequence; /* of initial_h, initial_c, Y_h, Y_c */
  bool batch_first;                        /* layout 1 */
  bool backward[2];
  bool linear_before_reset, input_forget;
  double clip; /* of the gates' arguments (a cell state on its way through h is not clipped); INFINITY: none */
  recurrent_activation activations[2][3]; /* per direction: f, g, h */
} recurrent;

/* Reads a call whose extents the shape function has checked; ERROR_VALUE or ERROR_UNSUPPORTED with a diagnosis for its
 * attributes. */
reed_status recurrent_read(const reed_kernel_call *call, recurrent *out_recurrent) REED_MUST_CHECK;

/* ERROR_VALUE for a sequence whose length is negative or larger than the number of steps. */
reed_status recurrent_check_lengths(const recurrent *r, const reed_kernel_buffers *buffers) REED_MUST_CHECK;

/* An input or output of a run whose outputs have elements; NULL for an absent one. */
static inline const void *recurrent_in(const recurrent *r, const reed_kernel_buffers *buffers, recurrent_input i) {
  return (int32_t)i < r->n_inputs ? buffers->inputs[i] : NULL;
}
static inline void *recurrent_out(const recurrent *r, const reed_kernel_buffers *buffers, recurrent_output i) {
  return (int32_t)i < r->n_outputs ? buffers->outputs[i] : NULL;
}
/* The number of steps in which sequence k takes part. */
static inline int64_t recurrent_length(const recurrent *r, const reed_kernel_buffers *buffers, int64_t k) {
  const int32_t *lengths = recurrent_in(r, buffers, RECURRENT_LENGTHS);
  return lengths ? lengths[k] : r->steps;
}

#endif
