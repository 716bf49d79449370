/* RNN, GRU and LSTM for f32. The gates' products with X are one product for many steps (a chunk); then every
 * step adds the products with the state and computes the new state.
 *
 * R is packed in panels: a panel holds, for a block of units, the columns of all its gates, step k of the depth after
 * step k - 1, so that the thread of a block has all it needs for its units' new state. h alternates between two
 * buffers: a step reads the buffer that the step before wrote. Threads take sequences or directions, which need nothing
 * of each other, and run them in turns of some steps, or of some blocks of a long step (cpu_relay); if there are too
 * few of these, threads take blocks of units and meet after each step.
 *
 * The reference: reference/recurrent.c. */
#include <math.h>

#include "ops/cpu/calls/recurrent.h"
#include "ops/cpu/common/kept.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/formulas/formulas.h"
#include "ops/cpu/product/matrix.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/sequence/recurrent_loops.h"

#define CHUNK_ROWS 256 /* rows of the input's product at a time: its result stays in the second cache */
#define DEPTH_GRAIN 8  /* recurrent_multiply's depth is a multiple of it */
#define PACK_STEPS 16  /* of the depth at a time: one line of the weights */
#define TURN_PRODUCTS (6 * CPU_WORK_PER_CHUNK) /* of one sequence: some 40 us; several take half as long each */
#define SHORT_TURN .6                          /* of a turn, if it has several steps */
#define CELL_PRODUCTS 32                       /* that take as long as a gate's part of a cell */
#define READ_BYTES (512 << 10)                 /* some 40 us from memory */

typedef void (*cell_fn)(const recurrent_cell *cell);

/* Gates that are computed together from the same state. */
typedef struct part {
  int64_t first_gate, n_gates, offset; /* into a direction's panels, in floats */
  bool from_apart, to_apart;           /* reads `apart` instead of h; writes it instead of the gates */
} part;

/* Parts and cells between two points at which a GRU's blocks must wait for each other. */
typedef struct phase {
  int32_t n_parts, n_cells;
  part parts[2];
  cell_fn cells[2];
} phase;

typedef struct fast_recurrent {
  recurrent r;
  recurrent_function functions[2][3];
  int64_t units, n_blocks, depth; /* units a block, blocks, hidden rounded up to DEPTH_GRAIN */
  int64_t panels;                 /* floats of a direction's panels */
  int32_t n_phases;
  phase phases[2];
  bool by_blocks; /* how threads share a step */
  cpu_team team;
  int64_t n_groups;        /* of sequences, if the threads share sequences */
  int64_t turn_steps;      /* that a group computes before another thread may go on with it; */
  int64_t pieces;          /* of the blocks, if a step is longer than a turn; else 1 */
  int64_t chunk;           /* steps */
  matrix_plan products[2]; /* of a chunk, of the steps left over */
  kernel_cache *cache;
  float *packed; /* the cache's; NULL: packed at every run */
  int64_t gates, state[2], c, apart, bias, own_packed,
      product;       /* places in the workspace, in floats; per direction a piece each */
  int64_t workspace; /* floats */
} fast_recurrent;

static void fast_free(void *state) {
  fast_recurrent *f = state;
  if (f->packed) kernel_cache_release(f->cache, f->packed);
  mem_free(f);
}

/* ---- packing ---- */

/* Copies the weights of n units, whose rows are `hidden` apart, to columns of a panel, whose rows are `row` apart: a
 * line of each unit's weights at a time, so that the lines written stay in the cache. */
static void pack_gate(const float *weights, int64_t hidden, int64_t n, float *panel, int64_t row) {
  int64_t k0 = 0;
  for (; k0 + PACK_STEPS <= hidden; k0 += PACK_STEPS)
    for (int64_t unit = 0; unit < n; unit++) {
      const float *from = weights + unit * hidden + k0;
      float *to = panel + k0 * row + unit;
      _Pragma("GCC unroll 16") for (int64_t k = 0; k < PACK_STEPS; k++) to[k * row] = from[k];
    }
  for (int64_t unit = 0; unit < n; unit++)
    for (int64_t k = k0; k < hidden; k++) panel[k * row + unit] = weights[unit * hidden + k];
}

/* Packs a block of a part's units. */
static void pack_block(const fast_recurrent *f, const part *p, const float *weights, int64_t block, float *panels) {
  const int64_t hidden = f->r.hidden, row = p->n_gates * f->units;
  float *panel = panels + block * f->depth * row;
  const int64_t unit = block * f->units, n = hidden - unit < f->units ? hidden - unit : f->units;
  if (n < f->units || f->depth > hidden) memset(panel, 0, (size_t)(f->depth * row) * sizeof *panel);
  for (int64_t gate = 0; gate < p->n_gates; gate++)
    pack_gate(weights + ((p->first_gate + gate) * hidden + unit) * hidden, hidden, n, panel + gate * f->units, row);
}

typedef struct packing {
  const fast_recurrent *f;
  const float *weights;
  float *packed;
} packing;

/* Items are directions times blocks. */
static void pack_blocks(void *context, int64_t begin, int64_t end) {
  const packing *c = context;
  const fast_recurrent *f = c->f;
  for (int64_t item = begin; item < end; item++) {
    int64_t d = item / f->n_blocks, block = item % f->n_blocks;
    for (int32_t i = 0; i < f->n_phases; i++)
      for (int32_t k = 0; k < f->phases[i].n_parts; k++) {
        const part *p = &f->phases[i].parts[k];
        pack_block(f, p, c->weights + d * f->r.n_gates * f->r.hidden * f->r.hidden, block,
                   c->packed + d * f->panels + p->offset);
      }
  }
}

typedef struct pack_key {
  char what[16];
  const void *constant;
  int64_t n_directions, n_gates, hidden, units;
} pack_key;

static reed_status pack_kept(const void *context, float *packed) {
  const packing *c = context;
  pack_blocks(&(packing){c->f, c->weights, packed}, 0, c->f->r.n_directions * c->f->n_blocks);
  return REED_OK;
}

static reed_status packed_get(const reed_kernel_call *call, fast_recurrent *f) {
  const recurrent *r = &f->r;
  f->cache = call->env ? call->env->cache : NULL;
  if (!f->cache || !call->constant[RECURRENT_R]) return REED_OK;
  pack_key key = {"recurrent", call->host_values[RECURRENT_R], r->n_directions, r->n_gates, r->hidden, f->units};
  return cpu_keep(call, RECURRENT_R, &key, sizeof key, r->n_directions * f->panels, pack_kept,
                  &(packing){f, key.constant, NULL}, &f->packed);
}

/* ---- running ---- */

typedef struct job {
  const fast_recurrent *f;
  const reed_kernel_buffers *buffers;
  float *workspace;
  const float *packed;
  int64_t first, n;                   /* the chunk's steps in the order that a direction walks them */
  int64_t gates_step, gates_sequence; /* floats from a step or a sequence of the chunk's gates to the next */
} job;

/* A thread's or call's share of a step: a direction's sequences and blocks. */
typedef struct share {
  int64_t direction, first_sequence, end_sequence, first_block, end_block;
} share;

static float *state_at(const job *j, int64_t which, int64_t direction, int64_t sequence) {
  return j->workspace + j->f->state[which & 1] + (direction * j->f->r.sequences + sequence) * j->f->depth;
}

static float *apart_at(const job *j, int64_t direction, int64_t sequence) {
  return j->workspace + j->f->apart + (direction * j->f->r.sequences + sequence) * j->f->depth;
}

/* The gates of a sequence at the chunk's step `index`, counted in time. */
static float *gates_at(const job *j, int64_t direction, int64_t index, int64_t sequence) {
  const recurrent *r = &j->f->r;
  int64_t piece = j->f->chunk * r->sequences * r->n_gates * r->hidden;
  return j->workspace + j->f->gates + direction * piece + index * j->gates_step + sequence * j->gates_sequence;
}

/* The time of step number `at` of the direction's walk; *out_index: its place in the chunk. */
static int64_t time_of(const job *j, int64_t direction, int64_t at, int64_t *out_index) {
  const bool backward = j->f->r.backward[direction];
  *out_index = backward ? j->first + j->n - 1 - at : at - j->first;
  return backward ? j->f->r.steps - 1 - at : at;
}

static void multiply(const job *j, const part *p, const share *s, int64_t at) {
  const fast_recurrent *f = j->f;
  const recurrent *r = &f->r;
  int64_t index, time = time_of(j, s->direction, at, &index), n_left = 0;
  for (int64_t k = s->first_sequence; k < s->end_sequence; k++) n_left += time < recurrent_length(r, j->buffers, k);
  const int64_t most = recurrent_rows(r->level, p->n_gates), n_takes = (n_left + most - 1) / most;
  const float *x[RECURRENT_ROWS];
  float *y[RECURRENT_ROWS];
  for (int64_t block = s->first_block; block < s->end_block && n_left; block++) {
    const float *panel = j->packed + s->direction * f->panels + p->offset + block * f->depth * p->n_gates * f->units;
    int64_t unit = block * f->units, n = r->hidden - unit < f->units ? r->hidden - unit : f->units,
            k = s->first_sequence;
    for (int64_t take = 0; take < n_takes; take++) { /* about as many sequences each time */
      int64_t rows = n_left * (take + 1) / n_takes - n_left * take / n_takes;
      for (int64_t i = 0; i < rows; k++) {
        if (time >= recurrent_length(r, j->buffers, k)) continue;
        x[i] = p->from_apart ? apart_at(j, s->direction, k) : state_at(j, at, s->direction, k);
        y[i++] = unit + (p->to_apart ? apart_at(j, s->direction, k)
                                     : gates_at(j, s->direction, index, k) + p->first_gate * r->hidden);
      }
      CPU_PICK(r->level, recurrent_multiply)
      ((int)p->n_gates, panel, f->depth, r->sequences, (int)rows, x, y, r->hidden, n, !p->to_apart);
    }
  }
}

/* Runs the phase's cells on one sequence's units; returns their new h. */
static const float *make_state(const job *j, const phase *ph, const share *s, int64_t at, int64_t index,
                               int64_t sequence) {
  const fast_recurrent *f = j->f;
  const recurrent *r = &f->r;
  int64_t unit = s->first_block * f->units,
          end = s->end_block * f->units < r->hidden ? s->end_block * f->units : r->hidden, d = s->direction;
  float *gates = gates_at(j, d, index, sequence) + unit;
  const float *bias = j->workspace + f->bias + d * (r->n_gates + 1) * r->hidden + unit;
  const float *peepholes = recurrent_in(r, j->buffers, RECURRENT_P);
  recurrent_cell cell = {
      .n = end - unit,
      .functions = f->functions[d],
      .clip = (float)r->clip,
      .input_forget = r->input_forget,
      .linear_before_reset = r->linear_before_reset,
      .before = state_at(j, at, d, sequence) + unit,
      .apart = apart_at(j, d, sequence) + unit,
      .c = j->workspace + f->c + (d * r->sequences + sequence) * f->depth + unit,
      .h = state_at(j, at + 1, d, sequence) + unit,
  };
  for (int64_t g = 0; g < RECURRENT_GATES_MAX && g <= r->n_gates; g++) {
    cell.gates[g] = gates + g * r->hidden;
    cell.bias[g] = bias + g * r->hidden;
  }
  for (int64_t g = 0; peepholes && g < RECURRENT_PEEPHOLES; g++)
    cell.peepholes[g] = peepholes + (d * RECURRENT_PEEPHOLES + g) * r->hidden + unit;
  for (int32_t k = 0; k < ph->n_cells; k++) ph->cells[k](&cell);
  return cell.h;
}

/* Writes Y at this step, and Y_h and Y_c at the sequence's last step. h NULL: the sequence takes no part in the step.
 */
static void give(const job *j, const share *s, int64_t time, int64_t sequence, const float *h) {
  const fast_recurrent *f = j->f;
  const recurrent *r = &f->r;
  int64_t unit = s->first_block * f->units,
          end = s->end_block * f->units < r->hidden ? s->end_block * f->units : r->hidden, d = s->direction;
  const size_t bytes = (size_t)(end - unit) * sizeof(float);
  float *y = recurrent_out(r, j->buffers, RECURRENT_Y), *y_h = recurrent_out(r, j->buffers, RECURRENT_Y_H),
        *y_c = recurrent_out(r, j->buffers, RECURRENT_Y_C);
  if (y) {
    y += time * r->y_step + d * r->y_direction + sequence * r->y_sequence + unit;
    if (h) memcpy(y, h, bytes);
    else memset(y, 0, bytes);
  }
  if (!h || time != (r->backward[d] ? 0 : recurrent_length(r, j->buffers, sequence) - 1)) return;
  int64_t to = d * r->state_direction + sequence * r->state_sequence + unit;
  if (y_h) memcpy(y_h + to, h, bytes);
  if (y_c) memcpy(y_c + to, j->workspace + f->c + (d * r->sequences + sequence) * f->depth + unit, bytes);
}

static void run_phase(const job *j, int32_t which, const share *s, int64_t at) {
  const phase *ph = &j->f->phases[which];
  int64_t index, time = time_of(j, s->direction, at, &index);
  for (int32_t i = 0; i < ph->n_parts; i++) multiply(j, &ph->parts[i], s, at);
  bool last = which == j->f->n_phases - 1;
  for (int64_t k = s->first_sequence; k < s->end_sequence; k++) {
    bool takes_part = time < recurrent_length(&j->f->r, j->buffers, k);
    const float *h = takes_part ? make_state(j, ph, s, at, index, k) : NULL;
    if (last) give(j, s, time, k, h);
  }
}

static share share_of(const fast_recurrent *f, int64_t item, int64_t piece) {
  const int64_t group = item % f->n_groups;
  return (share){item / f->n_groups, f->r.sequences * group / f->n_groups, f->r.sequences * (group + 1) / f->n_groups,
                 f->n_blocks * piece / f->pieces, f->n_blocks * (piece + 1) / f->pieces};
}

/* A turn of an item, which is a direction's group of sequences: some steps of the chunk, or a piece of a step's phase.
 */
static bool run_turn(void *context, int64_t item, int64_t turn, int32_t place) {
  (void)place; /* sequences have their own memory */
  const job *j = context;
  const fast_recurrent *f = j->f;
  if (f->pieces > 1) {
    const int64_t of_step = f->n_phases * f->pieces;
    const share s = share_of(f, item, turn % f->pieces);
    run_phase(j, (int32_t)(turn % of_step / f->pieces), &s, j->first + turn / of_step);
    return turn + 1 < j->n * of_step;
  }
  const share s = share_of(f, item, 0);
  const int64_t end = smaller((turn + 1) * f->turn_steps, j->n);
  for (int64_t at = turn * f->turn_steps; at < end; at++)
    for (int32_t k = 0; k < f->n_phases; k++) run_phase(j, k, &s, j->first + at);
  return end < j->n;
}

/* Groups need nothing of each other: a thread goes on with a group until the chunk's end. */
static reed_status run_groups(job *j) {
  const fast_recurrent *f = j->f;
  const int64_t n = f->r.n_directions * f->n_groups;
  const int64_t turns = f->pieces > 1 ? j->n * f->n_phases * f->pieces : divided(j->n, f->turn_steps);
  return cpu_relay(f->team, n, n * turns, run_turn, j);
}

/* A phase of a step. */
typedef struct step_job {
  const job *j;
  int64_t at;
  int32_t phase;
} step_job;

/* Items are directions times blocks. */
static void run_step(void *context, int64_t begin, int64_t end) {
  const step_job *step = context;
  const fast_recurrent *f = step->j->f;
  for (int64_t d = begin / f->n_blocks; d * f->n_blocks < end; d++) {
    int64_t first = begin - d * f->n_blocks, last = end - d * f->n_blocks;
    share s = {d, 0, f->r.sequences, first > 0 ? first : 0, last < f->n_blocks ? last : f->n_blocks};
    run_phase(step->j, step->phase, &s, step->at);
  }
}

/* Every phase of every step reads what all blocks of the one before have written. */
static reed_status run_blocks(const job *j) {
  const fast_recurrent *f = j->f;
  reed_status status = REED_OK;
  for (int64_t at = j->first; at < j->first + j->n; at++)
    for (int32_t k = 0; k < f->n_phases && status == REED_OK; k++)
      status = cpu_parallel(f->team, f->r.n_directions * f->n_blocks, 1, run_step, &(step_job){j, at, k});
  return status;
}

/* Computes the gates' products with X for the chunk's steps, from step `first` of each direction's walk on. */
static reed_status run_products(const job *j) {
  const fast_recurrent *f = j->f;
  const recurrent *r = &f->r;
  const float *x = recurrent_in(r, j->buffers, RECURRENT_X), *w = recurrent_in(r, j->buffers, RECURRENT_W);
  int64_t n_pieces = r->batch_first && j->n < r->steps ? r->sequences : 1;
  for (int64_t d = 0; d < r->n_directions; d++) {
    int64_t first = r->backward[d] ? r->steps - j->first - j->n : j->first;
    const matrix_plan *product = &f->products[j->n != f->chunk];
    for (int64_t i = 0; i < n_pieces; i++) {
      matrix_operands operands = {.a = x + first * r->x_step + i * r->x_sequence,
                                  .b = w + d * r->n_gates * r->hidden * r->features,
                                  .y = gates_at(j, d, 0, i)};
      reed_status status = matrix_plan_run(product, &operands, j->workspace + f->product);
      if (status != REED_OK) return status;
    }
  }
  return REED_OK;
}

/* Copies a direction's state of a sequence; an absent state is zeros. */
static void copy_state(const recurrent *r, const float *from, float *to) {
  if (from) memcpy(to, from, (size_t)r->hidden * sizeof *to);
  else memset(to, 0, (size_t)r->hidden * sizeof *to);
}

static void begin_states(const job *j) {
  const fast_recurrent *f = j->f;
  const recurrent *r = &f->r;
  const float *initial[2] = {recurrent_in(r, j->buffers, RECURRENT_INITIAL_H),
                             recurrent_in(r, j->buffers, RECURRENT_INITIAL_C)};
  float *results[2] = {recurrent_out(r, j->buffers, RECURRENT_Y_H), recurrent_out(r, j->buffers, RECURRENT_Y_C)};
  const size_t padded = (size_t)(r->n_directions * r->sequences * f->depth) * sizeof(float);
  memset(j->workspace + f->state[0], 0, padded); /* elements that round the depth up must be numbers */
  memset(j->workspace + f->state[1], 0, padded);
  memset(j->workspace + f->apart, 0, padded);
  for (int64_t i = 0; i < r->n_directions * r->sequences; i++) {
    int64_t d = i / r->sequences, k = i % r->sequences, at = d * r->state_direction + k * r->state_sequence;
    float *c = j->workspace + f->c + i * f->depth;
    copy_state(r, initial[0] ? initial[0] + at : NULL, state_at(j, 0, d, k));
    copy_state(r, initial[0] ? initial[0] + at : NULL, state_at(j, 1, d, k));
    copy_state(r, initial[1] ? initial[1] + at : NULL, c);
    if (results[0]) copy_state(r, state_at(j, 0, d, k), results[0] + at);
    if (results[1]) copy_state(r, c, results[1] + at);
  }
}

/* Adds the two biases of W x and R h, which B holds one after the other. A GRU's hidden gate keeps them apart if it
 * computes R h apart. */
static void sum_bias(const job *j) {
  const recurrent *r = &j->f->r;
  const float *b = recurrent_in(r, j->buffers, RECURRENT_B);
  const int64_t n = r->n_gates * r->hidden, apart = r->linear_before_reset ? GRU_HIDDEN * r->hidden : n;
  for (int64_t d = 0; d < r->n_directions; d++) {
    float *sum = j->workspace + j->f->bias + d * (n + r->hidden);
    memset(sum, 0, (size_t)(n + r->hidden) * sizeof *sum);
    for (int64_t i = 0; b && i < n; i++) {
      sum[i] = b[2 * d * n + i];
      sum[i < apart ? i : i + r->hidden] += b[(2 * d + 1) * n + i];
    }
  }
}

static reed_status run_fast(const void *state, const reed_kernel_buffers *buffers) {
  const fast_recurrent *f = state;
  const recurrent *r = &f->r;
  reed_status status = recurrent_check_lengths(r, buffers);
  if (status != REED_OK) return status;
  job j = {.f = f, .buffers = buffers, .workspace = buffers->workspace, .packed = f->packed};
  if (!f->packed) {
    packing p = {f, recurrent_in(r, buffers, RECURRENT_R), j.workspace + f->own_packed};
    status = cpu_parallel(cpu_team_for(r->team, r->n_directions * f->panels * 8), r->n_directions * f->n_blocks, 1,
                          pack_blocks, &p);
    if (status != REED_OK) return status;
    j.packed = p.packed;
  }
  sum_bias(&j);
  begin_states(&j);
  const int64_t row = r->n_gates * r->hidden;
  for (j.first = 0; j.first < r->steps; j.first += j.n) {
    j.n = r->steps - j.first < f->chunk ? r->steps - j.first : f->chunk;
    j.gates_step = r->batch_first ? row : r->sequences * row;
    j.gates_sequence = r->batch_first ? j.n * row : row;
    status = run_products(&j);
    if (status != REED_OK) return status;
    status = f->by_blocks ? run_blocks(&j) : run_groups(&j);
    if (status != REED_OK) return status;
  }
  return REED_OK;
}

/* ---- preparing ---- */

static recurrent_function function_of(const recurrent_activation *a, cpu_level level) {
  return (recurrent_function){
      .formula = a->formula == OP_COUNT ? NULL : elementwise_formula(level, REED_F32, a->formula),
      .parameters = a->parameters,
      .slope = (float)a->slope,
      .scale = (float)a->scale,
      .shift = (float)a->shift,
  };
}

/* Plans the phases: LSTM and RNN compute all gates at once. A GRU's hidden gate computes R h apart from W x, or R
 * (reset * h), which needs a phase of its own. */
static void plan_phases(fast_recurrent *f) {
  const recurrent *r = &f->r;
  const part all = {.n_gates = r->n_gates}, gates = {.n_gates = 2};
  const part hidden = {.first_gate = GRU_HIDDEN,
                       .n_gates = 1,
                       .offset = f->n_blocks * f->units * f->depth * 2,
                       .from_apart = !r->linear_before_reset,
                       .to_apart = r->linear_before_reset};
  const cell_fn gru_gates = CPU_PICK(r->level, recurrent_gru_gates), gru = CPU_PICK(r->level, recurrent_gru);
  f->n_phases = 1;
  if (r->id != OP_GRU) {
    f->phases[0] = (phase){
        1, 1, {all}, {r->id == OP_LSTM ? CPU_PICK(r->level, recurrent_lstm) : CPU_PICK(r->level, recurrent_rnn)}};
  } else if (r->linear_before_reset) {
    f->phases[0] = (phase){2, 2, {gates, hidden}, {gru_gates, gru}};
  } else {
    f->phases[0] = (phase){1, 1, {gates}, {gru_gates}};
    f->phases[1] = (phase){1, 1, {hidden}, {gru}};
    f->n_phases = 2;
  }
}

/* The turns that a step of so many sequences of a direction takes. */
static double turns_of(const recurrent *r, int64_t sequences) {
  const double weights = (double)r->n_gates * (double)r->hidden * (double)r->hidden,
               cells = (double)r->n_gates * (double)r->hidden * CELL_PRODUCTS;
  const bool far = weights * (double)sizeof(float) > WEIGHTS_NEAR_BYTES;
  if (sequences == 1) return ((far ? 4 : 1) * weights + cells) / (double)TURN_PRODUCTS;
  return (weights + cells) * (double)sequences / (2 * (double)TURN_PRODUCTS);
}

/* Plans the threads' shares. Sequences and directions need nothing of each other: groups are as many as threads want,
 * or more, of RECURRENT_ROWS sequences at least, so that a step of a group is no longer than a turn; one thread, for
 * which nobody waits, takes all sequences at once. The blocks of a step wait for those of the step before. */
static void plan_threads(fast_recurrent *f) {
  const recurrent *r = &f->r;
  const double step =
      (double)r->n_directions * (double)r->sequences * (double)r->n_gates * (double)r->hidden * (double)r->hidden;
  const int64_t step_work = step < 1e15 ? (int64_t)step : (int64_t)1e15,
                wanted = smaller(divided(r->team.threads, r->n_directions), divided(r->sequences, 2)),
                n_items = r->n_directions * wanted, most = divided(r->sequences, RECURRENT_ROWS),
                short_ones = round_up(smaller((int64_t)turns_of(r, r->sequences) + 1, most), larger(wanted, 1));
  f->n_groups = r->team.threads > 1 ? larger(wanted, smaller(short_ones, most)) : wanted;
  const double turns = turns_of(r, divided(r->sequences, larger(f->n_groups, 1)));
  f->turn_steps = turns < SHORT_TURN ? (int64_t)(SHORT_TURN / (turns + 1e-6)) : 1;
  f->pieces = r->team.threads == 1 || turns < 1.5 ? 1 : smaller((int64_t)turns + 1, f->n_blocks);
  cpu_team for_blocks = cpu_team_for(r->team, step_work);
  if (for_blocks.threads > 1) { /* no chunk reads more of R than READ_BYTES, or one block */
    const int64_t block = r->n_gates * f->units * f->depth * (int64_t)sizeof(float),
                  chunks = divided(r->n_directions * f->n_blocks, larger(READ_BYTES / block, 1));
    for_blocks.chunks = (int32_t)larger(for_blocks.chunks, smaller(chunks, INT32_MAX));
  }
  f->team = cpu_team_for(r->team, step_work * (f->chunk < 1024 ? f->chunk : 1024));
  if (f->team.threads > n_items) f->team.threads = (int32_t)(n_items > 1 ? n_items : 1);
  f->by_blocks = for_blocks.threads > f->team.threads;
  if (f->by_blocks) f->team = for_blocks;
}

/* Reserves a * b * c floats of the workspace, on a cache line of their own. False if they are more than any memory. */
static bool reserve(fast_recurrent *f, int64_t a, int64_t b, int64_t c, int64_t *out_place) {
  int64_t n, end;
  if (__builtin_mul_overflow(a, b, &n) || __builtin_mul_overflow(n, c, &n) ||
      __builtin_add_overflow(n, f->workspace + FLOATS_GRAIN - 1, &end) || end > INT64_MAX / (int64_t)sizeof(float))
    return false;
  *out_place = f->workspace;
  f->workspace = end / FLOATS_GRAIN * FLOATS_GRAIN;
  return true;
}

static bool plan_workspace(fast_recurrent *f) {
  const recurrent *r = &f->r;
  const int64_t n_states = r->n_directions * r->sequences, row = r->n_gates * r->hidden;
  return reserve(f, r->n_directions * f->chunk, r->sequences, row, &f->gates) &&
         reserve(f, n_states, f->depth, 1, &f->state[0]) && reserve(f, n_states, f->depth, 1, &f->state[1]) &&
         reserve(f, n_states, f->depth, 1, &f->c) && reserve(f, n_states, f->depth, 1, &f->apart) &&
         reserve(f, r->n_directions, row + r->hidden, 1, &f->bias) &&
         reserve(f, f->packed ? 0 : r->n_directions, f->panels, 1, &f->own_packed);
}

/* Plans the products of a chunk's rows of X, and of the steps left over, with W of a direction, transposed. */
static void plan_products(fast_recurrent *f) {
  const recurrent *r = &f->r;
  const int64_t steps[2] = {f->chunk, f->chunk ? r->steps % f->chunk : 0};
  for (int i = 0; i < 2; i++) {
    int64_t rows = r->batch_first && steps[0] < r->steps ? steps[i] : steps[i] * r->sequences;
    if (!rows) continue;
    f->products[i] = (matrix_plan){.parts = 1,
                                   .rows = rows,
                                   .depth = r->features,
                                   .columns = r->n_gates * r->hidden,
                                   .a_row = r->features,
                                   .b_row = 1,
                                   .b_column = r->features,
                                   .scale = 1,
                                   .activation = {.level = r->level}};
    matrix_plan_init(&f->products[i], r->team);
    int64_t bytes = matrix_plan_workspace_bytes(&f->products[i]);
    if (bytes > f->product) f->product = bytes;
  }
}

static reed_status prepare_fast(const reed_kernel_call *call, fast_recurrent *f) {
  const recurrent *r = &f->r;
  for (int64_t d = 0; d < r->n_directions; d++)
    for (int k = 0; k < 3; k++) f->functions[d][k] = function_of(&r->activations[d][k], r->level);
  f->units = recurrent_units(r->level);
  f->n_blocks = (r->hidden + f->units - 1) / f->units;
  f->depth = (r->hidden + DEPTH_GRAIN - 1) / DEPTH_GRAIN * DEPTH_GRAIN;
  f->chunk = r->sequences < CHUNK_ROWS ? CHUNK_ROWS / r->sequences : 1;
  if (f->chunk > r->steps) f->chunk = r->steps;
  if (__builtin_mul_overflow(f->n_blocks * f->units * r->n_gates, f->depth, &f->panels))
    return reed_kernel_fail(call, REED_ERROR_MEMORY, "%lld hidden units are more than any memory",
                            (long long)r->hidden);
  plan_phases(f);
  plan_threads(f);
  reed_status status = packed_get(call, f);
  if (status != REED_OK) return status;
  plan_products(f);
  const int64_t product_bytes = f->product;
  if (!plan_workspace(f) ||
      !reserve(f, (product_bytes + (int64_t)sizeof(float) - 1) / (int64_t)sizeof(float), 1, 1, &f->product))
    return reed_kernel_fail(call, REED_ERROR_MEMORY, "%lld sequences of %lld hidden units are more than any memory",
                            (long long)r->sequences, (long long)r->hidden);
  return REED_OK;
}

reed_status cpu_prepare_recurrent(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (call->inputs[RECURRENT_X].dtype != REED_F32) return REED_OK;
  fast_recurrent *f = mem_calloc(1, sizeof *f);
  if (!f) return cpu_no_memory(call);
  reed_status status = recurrent_read(call, &f->r);
  if (status == REED_OK) status = prepare_fast(call, f);
  if (status != REED_OK) {
    fast_free(f);
    return status;
  }
  *out_kernel = (reed_kernel){run_fast, f, fast_free, f->workspace * (int64_t)sizeof(float)};
  return REED_OK;
}
