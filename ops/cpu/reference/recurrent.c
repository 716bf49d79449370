/* RNN, GRU and LSTM in double, for f32 and f64: one sequence of one direction after the other, as ONNX (opset 22)
 * writes the equations. The kernel: ops/cpu/sequence/recurrent.c. */
#include "ops/cpu/calls/recurrent.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/formulas.h"

typedef struct run {
  const recurrent *r;
  const reed_kernel_buffers *buffers;
  int64_t direction, sequence;
  double *h, *c, *next, *gates, *products, *reset; /* hidden each; gates and products: of every gate */
} run;

static double activate(const recurrent_activation *a, double x) {
  double y = a->slope * x;
  if (a->formula != OP_COUNT) y = elementwise_at(a->formula, y, a->parameters.alpha, a->parameters.beta);
  return a->shift != 0 ? a->scale * y + a->shift : a->scale * y;
}

/* Element k of an input; `otherwise` if the input is absent. */
static double read(const run *u, recurrent_input input, int64_t k, double otherwise) {
  const char *data = recurrent_in(u->r, u->buffers, input);
  return data ? reed_dtype_read(u->r->dtype, data + k * (int64_t)reed_dtype_bytes(u->r->dtype)) : otherwise;
}

static void write(const run *u, recurrent_output output, int64_t k, double value) {
  char *data = recurrent_out(u->r, u->buffers, output);
  if (data) reed_dtype_write(u->r->dtype, data + k * (int64_t)reed_dtype_bytes(u->r->dtype), value);
}

static double limited(const run *u, double x) {
  return x > u->r->clip ? u->r->clip : x < -u->r->clip ? -u->r->clip : x;
}

/* gates: W x + Wb + Rb and products: R h, of every gate; Rb of a GRU's hidden gate goes with R h. */
static void multiply(const run *u, int64_t time) {
  const recurrent *r = u->r;
  const int64_t n = r->n_gates * r->hidden, x = time * r->x_step + u->sequence * r->x_sequence;
  for (int64_t i = 0; i < n; i++) {
    const bool apart = r->linear_before_reset && i / r->hidden == GRU_HIDDEN;
    const double recurrent_bias = read(u, RECURRENT_B, (2 * u->direction + 1) * n + i, 0);
    double gate = read(u, RECURRENT_B, 2 * u->direction * n + i, 0) + (apart ? 0 : recurrent_bias),
           product = apart ? recurrent_bias : 0;
    for (int64_t k = 0; k < r->features; k++)
      gate += read(u, RECURRENT_X, x + k, 0) * read(u, RECURRENT_W, (u->direction * n + i) * r->features + k, 0);
    for (int64_t k = 0; k < r->hidden; k++)
      product += u->h[k] * read(u, RECURRENT_R, (u->direction * n + i) * r->hidden + k, 0);
    u->gates[i] = gate;
    u->products[i] = product;
  }
}

static void step_rnn(const run *u) {
  for (int64_t i = 0; i < u->r->hidden; i++)
    u->next[i] = activate(&u->r->activations[u->direction][0], limited(u, u->gates[i] + u->products[i]));
}

static void step_gru(const run *u) {
  const recurrent *r = u->r;
  const recurrent_activation *functions = r->activations[u->direction];
  const int64_t hidden = r->hidden, n = r->n_gates * hidden;
  for (int64_t i = 0; i < 2 * hidden; i++)
    u->gates[i] = activate(&functions[0], limited(u, u->gates[i] + u->products[i]));
  for (int64_t i = 0; i < hidden; i++) u->reset[i] = u->gates[GRU_RESET * hidden + i] * u->h[i];
  for (int64_t i = 0; i < hidden; i++) {
    const int64_t at = GRU_HIDDEN * hidden + i;
    double product = r->linear_before_reset ? u->gates[GRU_RESET * hidden + i] * u->products[at] : 0;
    for (int64_t k = 0; k < hidden && !r->linear_before_reset; k++)
      product += u->reset[k] * read(u, RECURRENT_R, (u->direction * n + at) * hidden + k, 0);
    const double update = u->gates[GRU_UPDATE * hidden + i];
    u->next[i] = (1 - update) * activate(&functions[1], limited(u, u->gates[at] + product)) + update * u->h[i];
  }
}

static void step_lstm(const run *u) {
  const recurrent *r = u->r;
  const recurrent_activation *functions = r->activations[u->direction];
  const int64_t hidden = r->hidden, p = u->direction * RECURRENT_PEEPHOLES * hidden;
  for (int64_t i = 0; i < hidden; i++) {
    double sum[RECURRENT_GATES_MAX], peephole[RECURRENT_PEEPHOLES];
    for (int64_t g = 0; g < RECURRENT_GATES_MAX; g++) sum[g] = u->gates[g * hidden + i] + u->products[g * hidden + i];
    for (int64_t g = 0; g < RECURRENT_PEEPHOLES; g++) peephole[g] = read(u, RECURRENT_P, p + g * hidden + i, 0);
    double input = activate(&functions[0], limited(u, sum[LSTM_INPUT] + peephole[LSTM_INPUT] * u->c[i]));
    double forget = activate(&functions[0], limited(u, sum[LSTM_FORGET] + peephole[LSTM_FORGET] * u->c[i]));
    if (r->input_forget) forget = 1 - input;
    u->c[i] = forget * u->c[i] + input * activate(&functions[1], limited(u, sum[LSTM_CELL]));
    double output = activate(&functions[0], limited(u, sum[LSTM_OUTPUT] + peephole[LSTM_OUTPUT] * u->c[i]));
    u->next[i] = output * activate(&functions[2], u->c[i]);
  }
}

static void run_sequence(run *u) {
  const recurrent *r = u->r;
  const int64_t length = recurrent_length(r, u->buffers, u->sequence),
                state = u->direction * r->state_direction + u->sequence * r->state_sequence;
  for (int64_t i = 0; i < r->hidden; i++) {
    u->h[i] = read(u, RECURRENT_INITIAL_H, state + i, 0);
    u->c[i] = read(u, RECURRENT_INITIAL_C, state + i, 0);
  }
  for (int64_t k = 0; k < r->steps; k++) {
    const int64_t time = r->backward[u->direction] ? r->steps - 1 - k : k;
    const bool takes_part = time < length;
    if (takes_part) {
      multiply(u, time);
      if (r->id == OP_LSTM) step_lstm(u);
      else if (r->id == OP_GRU) step_gru(u);
      else step_rnn(u);
      memcpy(u->h, u->next, (size_t)r->hidden * sizeof *u->h);
    }
    const int64_t y = time * r->y_step + u->direction * r->y_direction + u->sequence * r->y_sequence;
    for (int64_t i = 0; i < r->hidden; i++) write(u, RECURRENT_Y, y + i, takes_part ? u->h[i] : 0);
  }
  for (int64_t i = 0; i < r->hidden; i++) {
    write(u, RECURRENT_Y_H, state + i, u->h[i]);
    write(u, RECURRENT_Y_C, state + i, u->c[i]);
  }
}

static reed_status run_recurrent(const void *state, const reed_kernel_buffers *buffers) {
  const recurrent *r = state;
  reed_status status = recurrent_check_lengths(r, buffers);
  if (status != REED_OK) return status;
  double *place = buffers->workspace;
  run u = {.r = r, .buffers = buffers};
  double **const vectors[] = {&u.h, &u.c, &u.next, &u.reset, &u.gates, &u.products};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    *vectors[i] = place;
    place += r->hidden * (i < 4 ? 1 : r->n_gates);
  }
  for (u.direction = 0; u.direction < r->n_directions; u.direction++)
    for (u.sequence = 0; u.sequence < r->sequences; u.sequence++) run_sequence(&u);
  return REED_OK;
}

reed_status reference_prepare_recurrent(const reed_kernel_call *call, reed_kernel *out_kernel) {
  recurrent r;
  reed_status status = recurrent_read(call, &r);
  if (status != REED_OK) return status;
  if (r.dtype != REED_F32 && r.dtype != REED_F64)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(r.dtype));
  int64_t doubles, bytes;
  if (__builtin_mul_overflow(r.hidden, 4 + 2 * r.n_gates, &doubles) ||
      __builtin_mul_overflow(doubles, (int64_t)sizeof(double), &bytes))
    return reed_kernel_fail(call, REED_ERROR_MEMORY, "%lld hidden units are more than any memory", (long long)r.hidden);
  void *state = mem_copy(&r, sizeof r);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_recurrent, state);
  out_kernel->workspace_bytes = bytes;
  return REED_OK;
}
