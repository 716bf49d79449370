/* The loops of RNN, GRU and LSTM: the product with a panel of recurrent weights, and the cells. */
#ifndef OPS_CPU_SEQUENCE_RECURRENT_LOOPS_H_
#define OPS_CPU_SEQUENCE_RECURRENT_LOOPS_H_

#include <stdbool.h>
#include "ops/cpu/calls/recurrent.h"

/* The most sequences in one call of recurrent_multiply, for which the level has registers. */
#define RECURRENT_ROWS 6
static inline int recurrent_rows(cpu_level level, int64_t gates) {
  return level < CPU_AVX512 && gates == 4 ? 3 : RECURRENT_ROWS;
}
/* The number of units that recurrent_multiply computes at a time: a vector of the level. */
static inline int64_t recurrent_units(cpu_level level) { return level >= CPU_AVX512 ? 16 : 8; }

/* x -> scale * formula(slope * x) + shift; formula NULL: x itself. */
typedef struct recurrent_function {
  elementwise_fn formula;
  elementwise_parameters parameters;
  float slope, scale, shift;
} recurrent_function;

/* Some units of one sequence at one step. */
typedef struct recurrent_cell {
  int64_t n;
  float *gates[RECURRENT_GATES_MAX]; /* W x + R h; overwritten */
  const float
      *bias[RECURRENT_GATES_MAX]; /* a GRU's [3]: the bias of R h of the hidden gate, if that is computed apart */
  const float *peepholes[RECURRENT_PEEPHOLES]; /* NULL: none */
  const recurrent_function *functions;         /* f, g, h */
  float clip;
  bool input_forget, linear_before_reset;
  const float *before; /* h of the step before */
  float *apart;        /* of a GRU: R h of the hidden gate, or (not linear_before_reset) reset * h, which it gives */
  float *c, *h;
} recurrent_cell;

/* y[r][g * gate_step + i] (+)= sum over k < depth of x[r][k] * panel[(k * gates + g) * units + i] for i < n <= units.
 * sequences: of all threads' calls together, which decide the order of a sum */
CPU_LOOP(void, recurrent_multiply,
         (int gates, const float *panel, int64_t depth, int64_t sequences, int rows, const float *const *x,
          float *const *y, int64_t gate_step, int64_t n, bool add));
/* one step of some units: RNN; GRU's update and reset, then its rest; LSTM */
CPU_LOOP(void, recurrent_rnn, (const recurrent_cell *cell));
CPU_LOOP(void, recurrent_gru_gates, (const recurrent_cell *cell));
CPU_LOOP(void, recurrent_gru, (const recurrent_cell *cell));
CPU_LOOP(void, recurrent_lstm, (const recurrent_cell *cell));

#endif
