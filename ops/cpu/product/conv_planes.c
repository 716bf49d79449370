/* Conv and ConvTranspose with channels second (conv_planes.h): a product of a group's weights, whose rows are outputs,
 * with the elements under its windows, whose columns are windows (blocks.h). A group of few outputs is computed without
 * panels, because filling these would take as long as the product. Windows that reach over X's edge or step over
 * elements read a copy of X (planes.h); batches of parts are copied and computed in turn, so that the copy stays
 * small. A part is a group of an image. The weights of a transposed convolution are packed for its phases: once a
 * program if they are constants, else in each run. Phases that read the same X, because the windows of neighbouring
 * elements do not overlap, are one product, whose rows are the outputs of all phases. */
#include "ops/cpu/product/conv_planes.h"

#include "ops/cpu/common/kept.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/product/blocks.h"
#include "ops/cpu/product/planes.h"
#include "ops/cpu/product/whole.h"
#include "ops/packed.h"

#define FEW_OUTPUTS 8     /* groups of fewer outputs have no panels, */
#define FEWER_OUTPUTS 24  /* nor have those of so many, if a chunk's X stays in the second-level cache, */
#define FEWER_CHANNELS 64 /* because it has at most so many channels, and rows are not shorter than this; */
#define FEWER_WINDOWS 16
#define COPY_BYTES ((int64_t)3 << 18)   /* of a batch's copies, unless one part needs more */
#define CHUNK_FLOATS 1024               /* of an output that few-outputs items compute at a time, about */
#define FEW_PRODUCTS ((int64_t)3 << 19) /* of a step of such an item, about */
#define PIECE_GRAIN 128                 /* of the windows of a step: whole passes of the loops */
#define FEW_PER_BYTE 4                  /* of few outputs, in cpu_team_for's count */
#define ITEMS_FEW 4                     /* of a thread: with fewer, one item more is a large share */
#define RESULT_PRODUCTS 4               /* that take as long as the end of a result of few outputs */
#define APART_PRODUCTS 16               /* the same if results are written apart from each other */
#define SEGMENTS_MOST 64                /* of a panel: each has a column or more */

/* Groups of more outputs than FEWER_OUTPUTS read X more often: up to this many have no panels, with at most so many
 * channels and lanes of channels (planes.h). */
#define SOME_OUTPUTS(level) ((level) >= CPU_AVX512 ? 64 : 32)
#define SOME_CHANNELS 40
#define SOME_LANES 64

typedef struct conv_planes {
  planes p;
  activation activation;
  bool with_bias, with_residual, few;
  int64_t joined;                                             /* phases that are one product */
  int64_t images, weights_group;                              /* elements of a group's weights */
  int64_t batch;                                              /* parts */
  int64_t few_floats;                                         /* few outputs: a thread's scratch */
  int64_t copies, taps, packed, packed_taps, biases, scratch; /* places in the workspace, in floats */
  cpu_team team;
  kernel_cache *cache;
  float *kept; /* the cache's packed weights; NULL: packed in each run */
} conv_planes;

/* A run, at one phase of one batch. */
typedef struct planes_run {
  const conv_planes *c;
  const float *x, *weights, *bias, *residual;
  float *y, *workspace;
  int64_t part; /* the batch's first */
  plane_axis axes[PLANE_AXES];
  int64_t extents[PLANE_AXES], windows[PLANE_AXES]; /* of the windows; axes without gaps between windows are one */
  int64_t columns;
  plane_depth depth;
  int64_t row_weights;                                        /* distance of neighbouring outputs' weights */
  int64_t rows_per_item, row_items, part_items, item_columns; /* few outputs */
  int64_t item_pieces, piece_floats, step_outputs;            /* likewise */
} planes_run;

/* ---- operands ---- */

static int64_t part_of_x(const conv_planes *c) { return c->p.channels * c->p.in[0] * c->p.in[1] * c->p.in[2]; }
static int64_t plane_of_y(const conv_planes *c) { return c->p.out[0] * c->p.out[1] * c->p.out[2]; }

static void place(const void *context, int64_t local, block_place *out) {
  const planes_run *run = context;
  const conv_planes *c = run->c;
  int64_t part = run->part + local, group = part % c->p.groups, y = part * c->p.outputs * plane_of_y(c);
  *out = (block_place){
      .a = run->weights + group * c->p.outputs * run->row_weights,
      .b = c->p.in_place ? run->x + part * part_of_x(c)
                         : run->workspace + c->copies + local * c->p.channels * c->p.channel,
      .row_bias = !run->bias      ? NULL
                  : c->joined > 1 ? run->workspace + c->biases
                                  : run->bias + group * c->p.outputs,
      .residual = run->residual ? run->residual + y : NULL,
      .y = run->y + y,
  };
}

static void fill(const void *context, const float *b, const block_range *r, float *panel) {
  const planes_run *run = context;
  plane_segment segments[SEGMENTS_MOST];
  if (r->depth == 0) return;
  int64_t n = 0, width = run->extents[2], column = r->column % width, row = r->column / width;
  for (int64_t to = 0; to < r->n; to += segments[n++].n, column = 0, row++) {
    int64_t left = r->n - to, from = row / run->extents[1] * run->windows[0] + row % run->extents[1] * run->windows[1];
    segments[n] = (plane_segment){from + column, to, width - column < left ? width - column : left};
  }
  CPU_PICK(run->c->activation.level, gather_panel)
  (b, &run->depth, r->k, r->depth, segments, n, r->width, panel);
  for (int64_t k = 0; r->n < r->width && k < r->depth; k++)
    memset(panel + k * r->width + r->n, 0, (size_t)(r->width - r->n) * sizeof *panel);
}

/* Elements of a phase's row that belong to windows column .. column + n, all over Y. */
static void scatter(const planes_run *run, int64_t column, int64_t n, const float *from, float *y) {
  const planes *p = &run->c->p;
  const plane_axis *a = run->axes;
  const int64_t row = column / a[2].n;
  int64_t i[PLANE_AXES] = {row / a[1].n, row % a[1].n, column - row * a[2].n};
  while (n > 0) {
    int64_t left = a[2].n - i[2] < n ? a[2].n - i[2] : n;
    float *to = y + ((a[0].y_first + i[0] * a[0].y_step) * p->out[1] + a[1].y_first + i[1] * a[1].y_step) * p->out[2] +
                a[2].y_first + i[2] * a[2].y_step;
    CPU_PICK(run->c->activation.level, spread)(from, left, a[2].y_step, to);
    from += left;
    n -= left;
    i[2] = 0;
    if (++i[1] < a[1].n) continue;
    i[1] = 0;
    i[0]++;
  }
}

/* The run is at the first phase; an element of another one is as far from it as the phases' first elements are. */
static void give(const void *context, const block_place *at, const block_row *row) {
  const planes_run *run = context;
  const planes *p = &run->c->p;
  const int64_t output = row->row % p->outputs, phase = row->row / p->outputs, columns = p->n_phases[2],
                rows = p->n_phases[1];
  const int64_t first = (phase / columns / rows * p->out[1] + phase / columns % rows) * p->out[2] + phase % columns;
  scatter(run, row->column, row->n, row->elements, at->y + output * plane_of_y(run->c) + first);
}

/* ---- few outputs ---- */

/* Finishes an output's sums, which have its bias, of `rows` pieces of rows, `apart` floats from each other, and writes
 * them to windows column .. column + n of the first row and of those after it. */
static void finish(const planes_run *run, const block_place *at, int64_t output, int64_t rows, int64_t apart,
                   int64_t column, int64_t n, float *sums) {
  const conv_planes *c = run->c;
  int64_t y = output * plane_of_y(c), all = (rows - 1) * apart + n;
  for (int64_t k = 0; at->residual && k < rows; k++) {
    const float *residual = at->residual + y + column + k * run->extents[2];
    for (int64_t i = 0; i < n; i++) sums[k * apart + i] += residual[i];
  }
  activation_row(&c->activation, sums, all);
  for (int64_t k = 0; k < rows; k++) {
    int64_t to = column + k * run->extents[2];
    if (c->p.transposed) scatter(run, to, n, sums + k * apart, at->y + y);
    else memcpy(at->y + y + to, sums + k * apart, (size_t)n * sizeof *sums);
  }
}

/* Items are parts times pieces of rows, or rows together. Rows whose windows lie close are computed as one: the sums
 * between them are of no use. A step is some outputs of a piece of the item's windows; the sums stay in the
 * place's scratch. */
static bool run_few(void *context, int64_t index, int64_t step, int32_t place_number) {
  const planes_run *run = context;
  const conv_planes *c = run->c;
  int64_t width = run->extents[2], height = run->extents[1];
  float *scratch = run->workspace + c->scratch + place_number * c->few_floats;
  block_place at;
  place(run, index / run->part_items, &at);
  int64_t item = index % run->part_items, column = item % run->row_items * run->item_columns,
          slab_items = (height + run->rows_per_item - 1) / run->rows_per_item;
  int64_t slab = item / run->row_items / slab_items, row = item / run->row_items % slab_items * run->rows_per_item,
          rows = height - row < run->rows_per_item ? height - row : run->rows_per_item,
          n = width - column < run->item_columns ? width - column : run->item_columns;
  const float *x = at.b + slab * run->windows[0] + row * run->windows[1] + column;
  int64_t apart = rows > 1 ? run->windows[1] : n, first = step / run->item_pieces * run->step_outputs,
          end = smaller(first + run->step_outputs, c->p.outputs), sums = (rows - 1) * apart + n,
          pieces = larger(smaller(sums / run->piece_floats, run->item_pieces), 1), piece = step % run->item_pieces,
          from = piece * run->piece_floats, to = piece + 1 < pieces ? from + run->piece_floats : sums;
  for (int64_t o = first; o < end; o += PLANE_ROWS) {
    const int64_t n_rows = smaller(end - o, PLANE_ROWS);
    float *own =
        scratch + (run->item_pieces > 1 ? o * CHUNK_FLOATS : 0); /* one call's sums stay in the nearest cache */
    if (piece < pieces) CPU_PICK(c->activation.level, plane_rows)
    ((int)n_rows, x + from, &run->depth, at.a + o * run->row_weights, run->row_weights,
     at.row_bias ? at.row_bias + o : NULL, to - from, own + from, CHUNK_FLOATS);
    for (int64_t i = 0; i < n_rows && piece + 1 == run->item_pieces; i++)
      finish(run, &at, o + i, rows, apart, (slab * height + row) * width + column, n, own + i * CHUNK_FLOATS);
  }
  if (piece + 1 < run->item_pieces) return true;
  return end < c->p.outputs;
}

static void run_few_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const planes_run *run = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&run->c->team); i++)
    for (int64_t step = 0; run_few(context, i, step, worker); step++) continue;
}

/* True for rows of `width` windows that are computed as one, with the sums between them. */
static bool rows_are_close(int64_t apart, int64_t width) { return apart >= width && apart - width <= width / 4 + 4; }

/* The windows of a step whose outputs have weights of `row_weights` products each. */
static int64_t few_piece(int64_t row_weights) {
  return round_up(larger(FEW_PRODUCTS / (PLANE_ROWS * larger(row_weights, 1)), 1), PIECE_GRAIN);
}

/* The scratch of a thread, in floats: the sums of all outputs if an item is computed in pieces, else of one call's.
 * row_weights: the most of a phase. */
static int64_t few_scratch(const planes *p, int64_t row_weights) {
  const bool in_pieces = CHUNK_FLOATS / few_piece(row_weights) > 1;
  return (in_pieces ? p->outputs : smaller(p->outputs, PLANE_ROWS)) * CHUNK_FLOATS;
}

/* How the windows of a phase are shared out over so many threads. */
static void share_few(planes_run *run, int64_t parts, int64_t threads) {
  int64_t width = run->extents[2], height = run->extents[1];
  const int64_t rows = parts * run->extents[0] * height;
  run->row_items = divided(width, CHUNK_FLOATS);
  if (run->row_items > 1 && rows * run->row_items < ITEMS_FEW * threads) /* as many items for each thread */
    run->row_items = divided(round_up(rows * run->row_items, threads), rows);
  run->item_columns = divided(width, run->row_items);
  run->row_items = divided(width, run->item_columns);
  bool close = run->row_items == 1 && rows_are_close(run->windows[1], width);
  run->rows_per_item = close && run->windows[1] < CHUNK_FLOATS ? CHUNK_FLOATS / run->windows[1] : 1;
  run->rows_per_item = divided(height, larger(divided(height, run->rows_per_item), 1)); /* about equal */
  const int64_t sums = run->rows_per_item > 1 ? CHUNK_FLOATS : run->item_columns,
                products = PLANE_ROWS * larger(run->row_weights, 1);
  run->piece_floats = few_piece(run->row_weights);
  run->item_pieces = larger(sums / run->piece_floats, 1);
  run->step_outputs = PLANE_ROWS * larger(FEW_PRODUCTS / (products * larger(sums, 1)), 1);
  run->part_items = run->extents[0] * ((height + run->rows_per_item - 1) / run->rows_per_item) * run->row_items;
}

/* ---- a phase ---- */

/* The windows of a phase and the places of its taps. */
static void set_phase(planes_run *run, const int64_t *phases, int64_t *taps) {
  const planes *p = &run->c->p;
  plane_axis *a = run->axes;
  for (int i = 0; i < PLANE_AXES; i++) a[i] = planes_axis(p, i, phases[i]);
  run->columns = a[0].n * a[1].n * a[2].n;
  run->depth = (plane_depth){taps, a[0].n_taps * a[1].n_taps * a[2].n_taps, p->channels, p->channel};
  run->row_weights = run->depth.n_taps * p->channels;
  for (int64_t z = 0; z < a[0].n_taps; z++)
    for (int64_t y = 0; y < a[1].n_taps; y++)
      for (int64_t x = 0; x < a[2].n_taps; x++)
        *taps++ = planes_at(p, (const int64_t[]){a[0].first + z * a[0].distance, a[1].first + y * a[1].distance,
                                                 a[2].first + x * a[2].distance});
  memcpy(run->windows, p->window, sizeof run->windows);
  for (int i = 0; i < PLANE_AXES; i++) run->extents[i] = a[i].n;
  for (int i = 2; i > 0 && run->windows[i - 1] == run->extents[2] && (i == 2 || run->extents[1] == 1); i--) {
    /* no gaps: the axes are one */
    run->extents[2] *= run->extents[i - 1];
    run->extents[i - 1] = 1;
  }
}

static block_plan blocks_of(const planes_run *run, int64_t parts) {
  const conv_planes *c = run->c;
  block_plan blocks = {.parts = parts,
                       .rows = c->joined * c->p.outputs,
                       .depth = run->row_weights,
                       .columns = run->columns,
                       .a_row = run->row_weights,
                       .y_row = plane_of_y(c),
                       .fills_once = c->joined > 1,
                       .scale = 1,
                       .activation = c->activation};
  block_plan_init(&blocks, c->team);
  return blocks;
}

static reed_status run_phase(planes_run *run, int64_t parts) {
  const conv_planes *c = run->c;
  if (c->few) {
    double work = (double)parts * (double)c->p.outputs * (double)run->columns *
                  (double)(run->row_weights + (c->p.transposed ? APART_PRODUCTS : RESULT_PRODUCTS));
    cpu_team team = cpu_team_for(c->team, work < 1e15 ? (int64_t)work / FEW_PER_BYTE : INT64_MAX);
    share_few(run, parts, team.threads);
    const int64_t n = parts * run->part_items, steps = divided(c->p.outputs, run->step_outputs) * run->item_pieces;
    return team.chunks > n && steps > 1 ? cpu_relay(team, n, n * steps, run_few, run)
                                        : cpu_parallel_scratch(team, n, 1, run_few_items, run);
  }
  block_plan blocks = blocks_of(run, parts);
  block_operands operands = {.context = run, .place = place, .fill = fill, .give = c->p.transposed ? give : NULL};
  return block_plan_run(&blocks, &operands, run->workspace + c->scratch);
}

/* ---- running ---- */

/* Copies pieces begin..end of the rows of the channels of the batch's parts. */
static void copy_pieces(void *context, int64_t begin, int64_t end) {
  const planes_run *run = context;
  const planes *p = &run->c->p;
  const float *x = run->x + run->part * part_of_x(run->c);
  const int64_t pieces = planes_pieces(p);
  for (int64_t i = begin, next; i < end; i = next) {
    const int64_t channel = i / pieces, first = channel * pieces;
    next = smaller(first + pieces, end);
    planes_copy(p, run->c->activation.level, x + channel * p->in[0] * p->in[1] * p->in[2], i - first, next - first,
                run->workspace + run->c->copies + channel * p->channel);
  }
}

/* The place of a tap among the packed weights of a transposed convolution, which are [outputs of all
 * groups][channel][taps of the phase] for each phase. */
typedef struct packed_tap {
  int64_t place, output, channel; /* the first; distance of outputs and of channels */
} packed_tap;

static int64_t taps_of(const planes *p) { return p->kernel[0] * p->kernel[1] * p->kernel[2]; }

typedef struct packing {
  const planes *p;
  const float *weights;
  const packed_tap *taps;
  float *packed;
} packing;

/* Outputs begin..end of all groups; the plain weights are W[channel][output][taps]. */
static void pack_outputs(void *context, int64_t begin, int64_t end) {
  const packing *job = context;
  const planes *p = job->p;
  int64_t taps = taps_of(p);
  for (int64_t i = begin; i < end; i++)
    for (int64_t c = 0; c < p->channels; c++) {
      const float *from = job->weights + ((i / p->outputs * p->channels + c) * p->outputs + i % p->outputs) * taps;
      for (int64_t k = 0; k < taps; k++) {
        const packed_tap *tap = &job->taps[k];
        if (tap->place >= 0) job->packed[tap->place + i * tap->output + c * tap->channel] = from[k];
      }
    }
}

/* Phases in their order; false after the last. */
static bool next_phase(const planes *p, int64_t *phases) {
  for (int i = PLANE_AXES - 1; i >= 0; i--) {
    if (++phases[i] < p->n_phases[i]) return true;
    phases[i] = 0;
  }
  return false;
}

/* The places of a transposed convolution's taps: its weights are packed for all phases. */
static void place_taps(const planes *p, packed_tap *taps) {
  int64_t phases[PLANE_AXES] = {0}, place = 0;
  for (int64_t k = 0; k < taps_of(p); k++) taps[k].place = -1;
  do {
    plane_axis a[PLANE_AXES];
    for (int i = 0; i < PLANE_AXES; i++) a[i] = planes_axis(p, i, phases[i]);
    int64_t of_phase = a[0].n_taps * a[1].n_taps * a[2].n_taps, at = place;
    for (int64_t z = 0; z < a[0].n_taps; z++)
      for (int64_t y = 0; y < a[1].n_taps; y++)
        for (int64_t x = 0; x < a[2].n_taps; x++)
          taps[((a[0].tap + z * a[0].tap_step) * p->kernel[1] + a[1].tap + y * a[1].tap_step) * p->kernel[2] +
               a[2].tap + x * a[2].tap_step] = (packed_tap){at++, of_phase * p->channels, of_phase};
    place += p->groups * p->outputs * p->channels * of_phase;
  } while (next_phase(p, phases));
}

/* Packs into the workspace. */
static reed_status pack_weights(const planes_run *run) {
  const conv_planes *c = run->c;
  const planes *p = &c->p;
  packed_tap *taps = (packed_tap *)(void *)(run->workspace + c->packed_taps);
  place_taps(p, taps);
  packing job = {p, run->weights, taps, run->workspace + c->packed};
  int64_t outputs = p->groups * p->outputs;
  return cpu_parallel(cpu_team_for(c->team, outputs * p->channels * taps_of(p) * 8), outputs, 1, pack_outputs, &job);
}

/* ---- weights that are packed once a program ---- */

/* All that packed weights depend on: the phases do not depend on X's extents, but for their number. */
typedef struct packed_key {
  char what[8];
  const void *constant;
  int64_t groups, channels, outputs;
  int64_t kernel[PLANE_AXES], stride[PLANE_AXES], dilation[PLANE_AXES], pad[PLANE_AXES], n_phases[PLANE_AXES];
} packed_key;

typedef struct packed_context {
  const planes *p;
  const float *weights;
} packed_context;

static int64_t weights_of(const planes *p) { return p->groups * p->channels * p->outputs * taps_of(p); }

static reed_status pack_kept(const void *context, float *packed) {
  const packed_context *c = context;
  packed_tap *taps = mem_alloc((size_t)taps_of(c->p) * sizeof *taps);
  if (!taps) return REED_ERROR_MEMORY;
  place_taps(c->p, taps);
  pack_outputs(&(packing){c->p, c->weights, taps, packed}, 0, c->p->groups * c->p->outputs);
  mem_free(taps);
  return REED_OK;
}

/* The program's packed weights, unless they are no constant. */
static reed_status packed_get(const reed_kernel_call *call, conv_planes *c) {
  const planes *p = &c->p;
  const float *constant = call->constant[1] ? call->host_values[1] : NULL;
  kernel_cache *cache = call->env ? call->env->cache : NULL;
  if (!p->transposed || !cache || !constant || weights_of(p) == 0) return REED_OK;
  packed_key key = {.what = "planes", constant, p->groups, p->channels, p->outputs};
  memcpy(key.kernel, p->kernel, sizeof key.kernel);
  memcpy(key.stride, p->stride, sizeof key.stride);
  memcpy(key.dilation, p->dilation, sizeof key.dilation);
  memcpy(key.pad, p->pad, sizeof key.pad);
  memcpy(key.n_phases, p->n_phases, sizeof key.n_phases);
  c->cache = cache;
  return cpu_keep(call, 1, &key, sizeof key, weights_of(p), pack_kept, &(packed_context){p, constant}, &c->kept);
}

static void free_planes(void *state) {
  conv_planes *c = state;
  if (c->kept) kernel_cache_release(c->cache, c->kept);
  mem_free(c);
}

/* ---- batches ---- */

static reed_status run_batch(const planes_run *given, int64_t parts) {
  planes_run run = *given;
  const conv_planes *c = run.c;
  const planes *p = &c->p;
  reed_status status = REED_OK;
  if (!p->in_place) {
    cpu_team team = cpu_team_for(c->team, parts * p->channels * p->channel * 8);
    status = cpu_parallel(team, parts * p->channels * planes_pieces(p), 1, copy_pieces, &run);
  }
  int64_t phases[PLANE_AXES] = {0};
  if (p->transposed) run.weights = c->kept ? c->kept : run.workspace + c->packed;
  do {
    set_phase(&run, phases, (int64_t *)(void *)(run.workspace + c->taps));
    if (status == REED_OK) status = run_phase(&run, parts);
    run.weights += p->groups * p->outputs * run.row_weights; /* of the next phase */
  } while (status == REED_OK && c->joined == 1 && next_phase(p, phases));
  return status;
}

static reed_status run_planes(const void *state, const reed_kernel_buffers *buffers) {
  const conv_planes *c = state;
  planes_run run = {.c = c,
                    .x = buffers->inputs[0],
                    .weights = buffers->inputs[1],
                    .bias = c->with_bias ? buffers->inputs[2] : NULL,
                    .residual = c->with_residual ? buffers->inputs[3] : NULL,
                    .y = buffers->outputs[0],
                    .workspace = buffers->workspace};
  int64_t parts = c->images * c->p.groups;
  for (int64_t i = 0; run.bias && c->joined > 1 && i < c->joined; i++)
    memcpy(run.workspace + c->biases + i * c->p.outputs, run.bias, (size_t)c->p.outputs * sizeof *run.bias);
  reed_status status = c->p.transposed && !c->kept ? pack_weights(&run) : REED_OK;
  for (; run.part < parts && status == REED_OK; run.part += c->batch)
    status = run_batch(&run, parts - run.part < c->batch ? parts - run.part : c->batch);
  return status;
}

/* ---- preparing ---- */

/* The most that a phase needs beside X's copies. */
static void plan_phases(conv_planes *c, int64_t *out_taps, int64_t *out_scratch) {
  const planes *p = &c->p;
  int64_t most[PLANE_AXES] = {0}; /* taps of a phase along the axis */
  for (int i = 0; i < PLANE_AXES; i++)
    for (int64_t phase = 0; phase < p->n_phases[i]; phase++) {
      plane_axis a = planes_axis(p, i, phase);
      if (a.n_taps > most[i]) most[i] = a.n_taps;
    }
  *out_taps = most[0] * most[1] * most[2];
  c->few_floats = few_scratch(p, p->channels * *out_taps);
  const int64_t rows = c->joined > 1 ? smaller(c->joined * p->outputs, BLOCK_ROWS_ONCE) : p->outputs;
  *out_scratch = c->team.threads * (c->few ? c->few_floats : block_worker_floats_most(rows, p->channels * *out_taps));
}

/* True for groups of few outputs. */
static bool without_panels(const planes *p) {
  const int64_t lanes = p->channels * p->lanes[0] * p->lanes[1] * p->lanes[2];
  if (p->outputs < FEW_OUTPUTS) return true;
  if (p->outputs > FEWER_OUTPUTS) {
    if (p->outputs > SOME_OUTPUTS(cpu_level_now()) || p->channels > SOME_CHANNELS || lanes > SOME_LANES) return false;
  } else if (p->channels > FEWER_CHANNELS) return false;
  int64_t width = p->out[2] / p->n_phases[2];
  if (rows_are_close(p->window[1], width)) width *= p->out[1] / p->n_phases[1];
  return width >= FEWER_WINDOWS;
}

/* The phases whose windows read the same X: all of them if each has one tap, or 1. */
static int64_t phases_joined(const planes *p) {
  int64_t n = 1;
  for (int i = 0; i < PLANE_AXES; i++, n *= p->n_phases[i - 1])
    if (p->kernel[i] != p->stride[i] || p->dilation[i] != 1 || p->pad[i] != 0 || p->out[i] != p->in[i] * p->stride[i])
      return 1;
  return p->transposed && p->groups == 1 && n > 1 ? n : 1;
}

static bool planes_of(const reed_kernel_call *call, bool transposed, planes *p) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  const int64_t groups = op_attr_int(call->attrs, "group");
  window w;
  (transposed ? window_init_transposed : window_init)(call, weights->dims + 2, &w);
  window_drop_units(&w);
  return planes_init(&w, transposed, groups, x->dims[1] / groups, y->dims[1] / groups, p);
}

bool conv_planes_takes(const reed_kernel_call *call, bool *out_has_panels) {
  planes p;
  const bool takes = planes_of(call, false, &p);
  *out_has_panels = takes && !without_panels(&p);
  return takes;
}

reed_status conv_planes_prepare(const reed_kernel_call *call, bool transposed, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1];
  const int64_t groups = op_attr_int(call->attrs, "group");
  planes p;
  if (!planes_of(call, transposed, &p)) return REED_OK;
  const bool few = without_panels(&p);
  conv_planes *c = mem_calloc(1, sizeof *c);
  if (!c) return cpu_no_memory(call);
  *c = (conv_planes){.p = p,
                     .with_bias = cpu_present(call, 2),
                     .with_residual = cpu_present(call, 3),
                     .few = few,
                     .joined = few ? 1 : phases_joined(&p),
                     .images = x->dims[0],
                     .batch = x->dims[0] * groups,
                     .team = cpu_env_team(call)};
  activation_read(call, &c->activation);
  int64_t copy = p.in_place ? 0 : p.channels * p.channel * (int64_t)sizeof(float), end = 0, taps, scratch;
  if (copy > 0 && c->batch > COPY_BYTES / copy) c->batch = COPY_BYTES / copy > 1 ? COPY_BYTES / copy : 1;
  plan_phases(c, &taps, &scratch);
  c->taps = reserve_floats(&end, taps * (int64_t)(sizeof(int64_t) / sizeof(float)));
  reed_status status = packed_get(call, c);
  if (status != REED_OK) {
    mem_free(c);
    return status;
  }
  if (transposed && !c->kept) {
    c->packed = reserve_floats(&end, desc_elements(weights));
    c->packed_taps = reserve_floats(&end, cpu_product(weights->dims, 2, weights->rank) *
                                              (int64_t)(sizeof(packed_tap) / sizeof(float)));
  }
  c->biases = reserve_floats(&end, c->joined > 1 ? c->joined * p.outputs : 0);
  c->copies = reserve_floats(&end, c->batch * copy / (int64_t)sizeof(float));
  c->scratch = reserve_floats(&end, scratch);
  *out_kernel = (reed_kernel){run_planes, c, free_planes, end * (int64_t)sizeof(float), (int64_t)sizeof *c};
  return REED_OK;
}
