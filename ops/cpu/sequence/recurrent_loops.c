/* The loops of RNN, GRU and LSTM on f32 (ops/cpu/sequence/recurrent_loops.h): the product of a few sequences' states
 * with a panel of the recurrent weights, and the cells, which compute the new state from the gates. Compiled once per
 * CPU level. */
#include "ops/cpu/sequence/recurrent_loops.h"

#include "ops/cpu/calls/recurrent.h"
#include "ops/cpu/common/functions.h"

/* ---- the product ---- */

/* A vector is a block of units; recurrent_units() gives its size for each level. */
#if defined(__AVX512F__)
#define UNITS 16
#else
#define UNITS 8
#endif
typedef float vec __attribute__((vector_size(UNITS * 4), aligned(4), may_alias));

static inline __attribute__((always_inline)) void store(float *y, vec sum, int64_t n, bool add) {
  if (n == UNITS) {
    if (add) *(vec *)y += sum;
    else *(vec *)y = sum;
    return;
  }
  for (int64_t i = 0; i < n; i++) y[i] = add ? y[i] + sum[i] : sum[i];
}

/* gates * rows sums at a time. If these are few, `parts` parts of the depth are summed side by side, because each
 * addition waits 4 cycles for the one before. The order of a sum is that of the call's sequences, 1, 2 to 3 or MORE,
 * not of the rows, whose number depends on the threads that share the sequences. The depth is a multiple of 8. */
#define MULTIPLY(gates, sequences, rows, parts) \
  static void multiply_##gates##_##sequences##_##rows(const float *panel, int64_t depth, const float *const *x, \
                                                      float *const *y, int64_t gate_step, int64_t n, bool add) { \
    vec sums[parts][rows][gates] = {0}; \
    for (int64_t k = 0; k < depth; k += (parts)) { \
      _Pragma("GCC unroll 8") for (int p = 0; p < (parts); p++) \
          _Pragma("GCC unroll 8") for (int g = 0; g < gates; g++) { \
        const vec weights = *(const vec *)(panel + ((k + p) * gates + g) * UNITS); \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) sums[p][r][g] += x[r][k + p] * weights; \
      } \
    } \
    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) _Pragma("GCC unroll 8") for (int g = 0; g < gates; g++) { \
      _Pragma("GCC unroll 8") for (int p = 1; p < (parts); p++) sums[0][r][g] += sums[p][r][g]; \
      store(y[r] + g * gate_step, sums[0][r][g], n, add); \
    } \
  }

#define FORMS_1(X, gates, parts) X(gates, 1, 1, parts)
#define FORMS_2(X, gates, parts) X(gates, 2, 1, parts) X(gates, 2, 2, parts) X(gates, 2, 3, parts)
#define FORMS_MORE(X, gates, parts) \
  X(gates, MORE, 1, parts) \
  X(gates, MORE, 2, parts) \
  X(gates, MORE, 3, parts) X(gates, MORE, 4, parts) X(gates, MORE, 5, parts) X(gates, MORE, 6, parts)
FORMS_1(MULTIPLY, 1, 8)
FORMS_2(MULTIPLY, 1, 4)
FORMS_MORE(MULTIPLY, 1, 2)
FORMS_1(MULTIPLY, 2, 4)
FORMS_2(MULTIPLY, 2, 2)
FORMS_MORE(MULTIPLY, 2, 1)
FORMS_1(MULTIPLY, 4, 2)
FORMS_2(MULTIPLY, 4, 1)
FORMS_MORE(MULTIPLY, 4, 1)

void CPU_LEVELED(recurrent_multiply)(int gates, const float *panel, int64_t depth, int64_t sequences, int rows,
                                     const float *const *x, float *const *y, int64_t gate_step, int64_t n, bool add) {
#define NAME(gates, sequences, rows, parts) multiply_##gates##_##sequences##_##rows,
#define OF_GATES(gates) \
  { \
    {FORMS_1(NAME, gates, 0)}, {FORMS_2(NAME, gates, 0)}, { FORMS_MORE(NAME, gates, 0) } \
  }
  static void (*const forms[3][3][RECURRENT_ROWS])(const float *, int64_t, const float *const *, float *const *,
                                                   int64_t, int64_t, bool) = {OF_GATES(1), OF_GATES(2), OF_GATES(4)};
  forms[gates / 2][sequences == 1 ? 0 : sequences <= 3 ? 1 : 2][rows - 1](panel, depth, x, y, gate_step, n, add);
}

/* ---- the cells ---- */

static void apply(const recurrent_function *function, float *y, int64_t n) {
  const float slope = function->slope, scale = function->scale, shift = function->shift;
  if (slope != 1)
    for (int64_t i = 0; i < n; i++) y[i] *= slope;
  if (function->formula)
    (void)function->formula(y, (const void *const[]){y}, (const uint8_t[]){1}, n, &function->parameters);
  if (scale != 1 || shift != 0)
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale + shift;
}

/* y = function(clip(y + bias + peephole * c)); peephole NULL: 0. */
static void gate(const recurrent_cell *cell, float *y, const float *bias, const float *peephole,
                 const recurrent_function *function) {
  const int64_t n = cell->n;
  const float clip = cell->clip, *c = cell->c;
  if (peephole)
    for (int64_t i = 0; i < n; i++) y[i] += peephole[i] * c[i];
  for (int64_t i = 0; i < n; i++) y[i] = clamp_f32(y[i] + bias[i], -clip, clip);
  apply(function, y, n);
}

void CPU_LEVELED(recurrent_rnn)(const recurrent_cell *cell) {
  gate(cell, cell->gates[0], cell->bias[0], NULL, &cell->functions[0]);
  memcpy(cell->h, cell->gates[0], (size_t)cell->n * sizeof *cell->h);
}

void CPU_LEVELED(recurrent_gru_gates)(const recurrent_cell *cell) {
  const float *reset = cell->gates[GRU_RESET], *before = cell->before;
  float *apart = cell->apart;
  gate(cell, cell->gates[GRU_UPDATE], cell->bias[GRU_UPDATE], NULL, &cell->functions[0]);
  gate(cell, cell->gates[GRU_RESET], cell->bias[GRU_RESET], NULL, &cell->functions[0]);
  if (cell->linear_before_reset) return;
  for (int64_t i = 0; i < cell->n; i++) apart[i] = reset[i] * before[i];
}

void CPU_LEVELED(recurrent_gru)(const recurrent_cell *cell) {
  const float *update = cell->gates[GRU_UPDATE], *reset = cell->gates[GRU_RESET], *before = cell->before,
              *apart = cell->apart;
  const float *apart_bias = cell->bias[3];
  float *hidden = cell->gates[GRU_HIDDEN], *h = cell->h;
  if (cell->linear_before_reset)
    for (int64_t i = 0; i < cell->n; i++) hidden[i] += reset[i] * (apart[i] + apart_bias[i]);
  gate(cell, hidden, cell->bias[GRU_HIDDEN], NULL, &cell->functions[1]);
  for (int64_t i = 0; i < cell->n; i++) h[i] = (1 - update[i]) * hidden[i] + update[i] * before[i];
}

void CPU_LEVELED(recurrent_lstm)(const recurrent_cell *cell) {
  float *input = cell->gates[LSTM_INPUT], *output = cell->gates[LSTM_OUTPUT], *forget = cell->gates[LSTM_FORGET],
        *candidate = cell->gates[LSTM_CELL];
  float *c = cell->c, *h = cell->h;
  gate(cell, input, cell->bias[LSTM_INPUT], cell->peepholes[LSTM_INPUT], &cell->functions[0]);
  if (cell->input_forget)
    for (int64_t i = 0; i < cell->n; i++) forget[i] = 1 - input[i];
  else gate(cell, forget, cell->bias[LSTM_FORGET], cell->peepholes[LSTM_FORGET], &cell->functions[0]);
  gate(cell, candidate, cell->bias[LSTM_CELL], NULL, &cell->functions[1]);
  for (int64_t i = 0; i < cell->n; i++) {
    c[i] = forget[i] * c[i] + input[i] * candidate[i];
    h[i] = c[i];
  }
  gate(cell, output, cell->bias[LSTM_OUTPUT], cell->peepholes[LSTM_OUTPUT], &cell->functions[0]);
  apply(&cell->functions[2], h, cell->n);
  for (int64_t i = 0; i < cell->n; i++) h[i] *= output[i];
}
