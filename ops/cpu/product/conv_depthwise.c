/* Preparing and running Conv of small groups, depthwise included, with channels last: rows of Y are shared out to
 * threads. The loops are in depthwise_loops.c. */
#include "ops/cpu/product/conv_depthwise.h"

#include "ops/cpu/product/depthwise_loops.h"
#include "ops/cpu/product/whole.h"
#include "ops/packed.h"

#define TAPS_PER_BYTE 4 /* products of a window that take as long as a byte in cpu_team_for's count */
#define READ_PER_BYTE 2 /* elements of X whose reading does */
#define NARROW 8        /* the same for fewer channels than any vector has: so much longer */
#define MOST_PRODUCTS 1e15
#define FAR_X_BYTES (8 << 20)   /* of X whose pixels are fetched before they are read, at least */
#define KEPT_X_BYTES (24 << 20) /* of X of which caches keep the part that was written last, at least */
#define PIECE_LEAST 24          /* columns of a piece of a row, about: tiles of all CPU levels */

typedef struct depthwise {
  window w;
  activation activation;
  void (*row)(const depthwise_row *r);
  int64_t images, channels, group; /* group: inputs of a group, and outputs */
  int64_t row_pieces, piece;       /* of a row; columns of one */
  bool with_bias, with_residual;
  bool far;        /* X and Y are far larger than the second-level cache */
  bool last_first; /* X is larger than all caches, which have the rows that were written last: they are read first */
  cpu_team team;
  bool packed;        /* false: each run packs the few weights into its workspace */
  packed_order order; /* of weights that are not packed */
} depthwise;

typedef struct depthwise_run {
  const depthwise *d;
  const float *x, *weights, *bias, *residual;
  float *y;
} depthwise_run;

/* The piece of all rows that is computed as item i of n. A thread alone writes the last rows of X last. Of several, the
 * caller writes the first rows and helpers the last ones (base/team.c), so that they end in the middle, and begin in
 * the same way with items. The rows that were written last are still in a cache and are read first. */
static int64_t piece_at(const depthwise *d, int64_t i, int64_t n) {
  if (!d->last_first) return i;
  const int64_t half = d->team.threads > 1 ? n / 2 : 0;
  return i < half ? half - 1 - i : half + n - 1 - i;
}

/* Pieces begin..end of all rows of all images. */
static void run_rows(void *context, int64_t begin, int64_t end) {
  const depthwise_run *run = context;
  const depthwise *d = run->d;
  int64_t rows = d->w.out[0], y_row = d->w.out[1] * d->channels, x_image = d->w.in[0] * d->w.in[1] * d->channels;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = piece_at(d, i, d->images * rows * d->row_pieces);
    int64_t row = at / d->row_pieces, column = at % d->row_pieces * d->piece;
    depthwise_row r = {
        .w = &d->w,
        .activation = &d->activation,
        .channels = d->channels,
        .group = d->group,
        .row = row % rows,
        .begin = column,
        .end = smaller(column + d->piece, d->w.out[1]),
        .far = d->far,
        .x = run->x + row / rows * x_image,
        .weights = run->weights,
        .bias = run->bias,
        .residual = run->residual ? run->residual + row * y_row : NULL,
        .y = run->y + row * y_row,
    };
    d->row(&r);
  }
}

static reed_status run_depthwise(const void *state, const reed_kernel_buffers *buffers) {
  const depthwise *d = state;
  depthwise_run run = {d,
                       buffers->inputs[0],
                       buffers->inputs[1],
                       d->with_bias ? buffers->inputs[2] : NULL,
                       d->with_residual ? buffers->inputs[3] : NULL,
                       buffers->outputs[0]};
  if (!d->packed) {
    packed_pack(&d->order, buffers->inputs[1], buffers->workspace);
    run.weights = buffers->workspace;
  }
  return cpu_parallel(d->team, d->images * d->w.out[0] * d->row_pieces, 1, run_rows, &run);
}

/* The level whose vectors the channels fill; of more lanes than channels only one would be used. */
static cpu_level filled_level(cpu_level level, int64_t channels) {
  if (level >= CPU_AVX512 && channels < 16) level = CPU_AVX2;
  return level == CPU_AVX2 && channels < 8 ? CPU_BASE : level;
}

reed_status conv_depthwise_prepare(const reed_kernel_call *call, bool packed, const window *w, const activation *act,
                                   reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  if (x->dtype != REED_F32 || w->n > 2) return REED_OK;
  if (!packed && !packed_has_small_groups(weights, op_attr_int(call->attrs, "group"))) return REED_OK;
  depthwise *d = mem_calloc(1, sizeof *d);
  if (!d) return cpu_no_memory(call);
  *d = (depthwise){.w = *w,
                   .activation = *act,
                   .row = CPU_PICK(filled_level(act->level, x->dims[1]), depthwise_row),
                   .images = x->dims[0],
                   .channels = x->dims[1],
                   .group = weights->dims[1],
                   .far = desc_bytes(x) >= FAR_X_BYTES,
                   .last_first = desc_bytes(x) >= KEPT_X_BYTES,
                   .with_bias = cpu_present(call, 2),
                   .with_residual = cpu_present(call, 3),
                   .packed = packed,
                   .order = packed_small_groups(weights)};
  if (w->n == 1) window_as_row(&d->w);
  double products = (double)desc_elements(y) * (double)d->group * (double)d->w.kernel[0] * (double)d->w.kernel[1] *
                    (d->channels < 4 ? NARROW : 1);
  const double work = products / TAPS_PER_BYTE + (double)desc_elements(x) / READ_PER_BYTE;
  d->team = cpu_team_for(cpu_env_team(call), work < MOST_PRODUCTS ? (int64_t)work : INT64_MAX);
  /* too few rows for the threads' chunks: pieces of rows */
  int64_t rows = d->images * d->w.out[0],
          pieces = d->team.threads > 1 && rows < d->team.chunks ? divided(d->team.chunks, larger(rows, 1)) : 1;
  pieces = larger(smaller(pieces, d->w.out[1] / PIECE_LEAST), 1);
  d->piece = larger(divided(d->w.out[1], pieces), 1);
  d->row_pieces = divided(d->w.out[1], d->piece);
  *out_kernel = (reed_kernel){run_depthwise, d, mem_free, packed ? 0 : desc_bytes(weights), (int64_t)sizeof *d};
  return REED_OK;
}
