/* Preparing and running Conv of small groups with channels second as one with channels last (conv_turned.h): an item
 * of work turns a band of rows of a block of channels into its scratch memory, computes there, and turns the result
 * back. Blocks end with channels of zeros, so that they are whole vectors. */
#include "ops/cpu/product/conv_turned.h"

#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/product/depthwise_loops.h"
#include "ops/cpu/product/turned_loops.h"
#include "ops/cpu/product/whole.h"
#include "ops/packed.h"

#define BLOCK_STEP 16     /* channels: whole vectors of every CPU level, and whole groups */
#define BLOCK_MOST 32     /* channels of a block, at most */
#define BLOCK_MOST_OF 64  /* the same in groups of several: a pixel at an edge takes its vectors side by side */
#define BAND_FLOATS 16384 /* of the rows of X in an item's scratch, about */
#define BAND_LEAST 4      /* rows of Y of a band, where blocks may be narrower instead */
#define TAPS_PER_BYTE 4   /* products of a window that take as long as a byte in cpu_team_for's count */
#define TURNED_BYTES 2    /* in that count, of an element that is turned */
#define MOST_WORK 1e15

typedef struct turned_convolution {
  window w;
  activation activation;
  void (*row)(const depthwise_row *r);
  void (*turn)(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row);
  void (*turn_apart)(const float *from, int64_t from_row, int64_t rows, int64_t width, int64_t columns,
                     const turned_places *places, float *to);
  int64_t images, channels, group;               /* group: inputs of one, and outputs */
  int64_t block, blocks;                         /* channels of a block */
  int64_t band, bands;                           /* rows of Y of a band */
  int64_t x_floats, y_floats, w_floats, scratch; /* of a thread's scratch: in this order, then biases */
  bool with_bias, with_residual;
  cpu_team team;
} turned_convolution;

typedef struct turned_run {
  const turned_convolution *t;
  const float *x, *weights, *bias, *residual;
  float *y, *workspace;
} turned_run;

/* Rows of X that rows first .. end of Y read. */
static void rows_read(const window *w, int64_t first, int64_t end, int64_t *out_begin, int64_t *out_end) {
  const int64_t from = first * w->stride[0] - w->pad_begin[0],
                to = (end - 1) * w->stride[0] - w->pad_begin[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
  *out_begin = cpu_clamp(from, 0, w->in[0]);
  *out_end = cpu_clamp(to, *out_begin, w->in[0]);
}

/* Channels `first` .. first + n of one image, and rows `row` .. end of Y. */
static void run_item(const turned_run *run, int64_t image, int64_t first, int64_t n, int64_t row, int64_t end,
                     float *scratch) {
  const turned_convolution *t = run->t;
  const window *w = &t->w;
  const int64_t x_plane = w->in[0] * w->in[1], y_plane = w->out[0] * w->out[1], width = round_up(n, BLOCK_STEP),
                taps = w->kernel[0] * w->kernel[1];
  float *x = scratch, *y = x + t->x_floats, *weights = y + t->y_floats, *bias = weights + t->w_floats;
  int64_t begin, last;
  rows_read(w, row, end, &begin, &last);
  const int64_t plane = image * t->channels + first, y_at = plane * y_plane + row * w->out[1],
                y_pixels = (end - row) * w->out[1];
  if (n < width) memset(scratch, 0, (size_t)t->scratch * sizeof *scratch);
  t->turn(run->x + plane * x_plane + begin * w->in[1], x_plane, n, (last - begin) * w->in[1], x, width);
  t->turn_apart(run->weights + first * t->group * taps, t->group * taps, n, width, t->group * taps,
                &(turned_places){taps, t->group * width, width}, weights);
  if (run->bias) memcpy(bias, run->bias + first, (size_t)n * sizeof *bias);
  if (run->residual) t->turn(run->residual + y_at, y_plane, n, y_pixels, y, width);
  window band = *w; /* on the rows in the scratch */
  band.in[0] = last - begin;
  band.pad_begin[0] += begin;
  for (int64_t i = row; i < end; i++) {
    float *at = y + (i - row) * w->out[1] * width;
    const depthwise_row r = {.w = &band,
                             .activation = &t->activation,
                             .channels = width,
                             .group = t->group,
                             .row = i,
                             .end = w->out[1],
                             .x = x,
                             .weights = weights,
                             .bias = run->bias ? bias : NULL,
                             .residual = run->residual ? at : NULL,
                             .y = at};
    t->row(&r);
  }
  t->turn(y, width, y_pixels, n, run->y + y_at, y_plane);
}

/* Items are bands of blocks of images. */
static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const turned_run *run = context;
  const turned_convolution *t = run->t;
  for (int64_t i = begin; i < end && !cpu_cancelled(&t->team); i++) {
    const int64_t row = i % t->bands * t->band, block = i / t->bands % t->blocks, first = block * t->block;
    run_item(run, i / t->bands / t->blocks, first, smaller(t->block, t->channels - first), row,
             smaller(row + t->band, t->w.out[0]), run->workspace + worker * t->scratch);
  }
}

static reed_status run_turned(const void *state, const reed_kernel_buffers *buffers) {
  const turned_convolution *t = state;
  turned_run run = {.t = t,
                    .x = buffers->inputs[0],
                    .weights = buffers->inputs[1],
                    .bias = t->with_bias ? buffers->inputs[2] : NULL,
                    .residual = t->with_residual ? buffers->inputs[3] : NULL,
                    .y = buffers->outputs[0],
                    .workspace = buffers->workspace};
  return cpu_parallel_scratch(t->team, t->images * t->blocks * t->bands, 1, run_items, &run);
}

/* ---- the faster kernel ---- */

/* Cycles of one channel on a Zen 4, fitted to maps of 7 to 112 columns at each level. */
typedef struct turned_costs {
  double lanes;
  double turn;                 /* of an element of X, Y and the weights */
  double product, any_product; /* of a vector of channels by a tap: of windows that slide, of others */
  /* of the loops of planes (depthwise_plane_loops.h), of square windows and of others */
  double vector;                 /* of a vector of a row of Y, beside its taps */
  double tap, any_tap;           /* of its taps, each */
  double edge, any_edge;         /* of a row: in all, for each tap */
  double stride;                 /* factor of stride 2 */
  int64_t columns, columns_of_8; /* groups of several: of maps for which conv_planes.h is slower */
  int64_t strided, strided_of_8; /* the same with a stride */
} turned_costs;

static const turned_costs costs_base = {4, .9, 1, 1.7, 0, 6, 6, 0, 6, 2, 28, 0, 64, 28},
                          costs_avx2 = {8, .85, .55, .93, 3, .82, 1.7, 15, 4, 1.7, 28, 14, 112, 64},
                          costs_avx512 = {16, .7, 1.05, 1.8, 1.5, 1.35, 2.6, 11, 3, 1.3, 56, 32, 112, 64};

static const turned_costs *costs_of(cpu_level level) {
  return level >= CPU_AVX512 ? &costs_avx512 : level == CPU_AVX2 ? &costs_avx2 : &costs_base;
}

/* True for windows for which the loops of planes have a form of its own. */
static bool is_square(const window *w) {
  const int64_t taps = w->kernel[0], stride = w->stride[0], dilation = w->dilation[0];
  if (w->kernel[1] != taps || w->stride[1] != stride || w->dilation[1] != dilation) return false;
  return dilation == 1 ? (stride <= 2 && (taps == 3 || taps == 5)) || (stride == 1 && taps == 7)
                       : dilation == 2 && stride == 1 && taps == 3;
}

/* True for windows that slide in depthwise_loops.h. */
static bool slides(const window *w) {
  const int64_t taps = w->kernel[1];
  return w->dilation[1] == 1 && w->stride[1] <= 2 && (taps == 3 || taps == 5 || taps == 7);
}

/* Groups of several: the kernel for planes in groups gains with long rows and many taps, and loses with a stride. */
static bool groups_are_faster(const turned_convolution *t, const turned_costs *c) {
  const window *w = &t->w;
  const bool steps = w->stride[0] > 1 || w->stride[1] > 1, is_8 = t->group == 8;
  const int64_t columns = steps ? (is_8 ? c->strided_of_8 : c->strided) : is_8 ? c->columns_of_8 : c->columns;
  return w->out[1] * (w->kernel[0] * w->kernel[1] > 9 ? 2 : 1) <= columns;
}

static bool is_faster(const turned_convolution *t) {
  const window *w = &t->w;
  const turned_costs *c = costs_of(t->activation.level);
  const double taps = (double)(w->kernel[0] * w->kernel[1]), x = (double)(w->in[0] * w->in[1]),
               y = (double)(w->out[0] * w->out[1]), vectors = (double)divided(w->out[1], (int64_t)c->lanes);
  if (taps == 1 && w->stride[0] == 1 && w->stride[1] == 1) return false;
  if (t->group > 1) return groups_are_faster(t, c);
  if (w->stride[1] > 2 || (w->stride[1] == 2 && w->dilation[1] > 1)) return true; /* planes have no loop for them */
  const double turned = c->turn * (x + y + taps) + (slides(w) ? c->product : c->any_product) * y * taps / c->lanes,
               row = is_square(w) ? vectors * (c->vector + taps * c->tap) + c->edge
                                  : vectors * (c->vector + taps * c->any_tap) + taps * c->any_edge;
  return turned < (double)w->out[0] * row * (w->stride[1] > 1 ? c->stride : 1);
}

/* Chooses blocks and bands. */
static void share(turned_convolution *t) {
  const window *w = &t->w;
  const int64_t most = t->group > 1 ? BLOCK_MOST_OF : BLOCK_MOST;
  int64_t block = round_up(divided(t->channels, divided(t->channels, most)), BLOCK_STEP), rows;
  for (;; block = round_up(block / 2, BLOCK_STEP)) {
    rows = BAND_FLOATS / (w->in[1] * block);
    t->band = (rows - (w->kernel[0] - 1) * w->dilation[0] - 1) / w->stride[0] + 1;
    if (t->band >= smaller(BAND_LEAST, w->out[0]) || block == BLOCK_STEP) break;
  }
  t->block = block;
  t->blocks = divided(t->channels, block);
  t->bands = divided(w->out[0], cpu_clamp(t->band, smaller(BAND_LEAST, w->out[0]), w->out[0]));
  if (t->team.threads > 1)
    t->bands = larger(t->bands, smaller(divided(t->team.chunks, t->images * t->blocks), w->out[0] / BAND_LEAST));
  t->band = divided(w->out[0], t->bands);
  t->bands = divided(w->out[0], t->band);
  int64_t in_rows = smaller((t->band - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1, w->in[0]);
  t->x_floats = in_rows * w->in[1] * block;
  t->y_floats = t->band * w->out[1] * block;
  t->w_floats = w->kernel[0] * w->kernel[1] * t->group * block;
  t->scratch = t->x_floats + t->y_floats + t->w_floats + block;
}

reed_status conv_turned_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *weights = &call->inputs[1], *y = &call->outputs[0];
  window w;
  window_init(call, weights->dims + 2, &w);
  window_drop_units(&w);
  if (w.n > 2 || x->dims[1] < BLOCK_STEP || desc_elements(y) == 0 ||
      !packed_has_small_groups(weights, op_attr_int(call->attrs, "group")))
    return REED_OK;
  if (w.n == 1) window_as_row(&w);
  turned_convolution *t = mem_calloc(1, sizeof *t);
  if (!t) return cpu_no_memory(call);
  *t = (turned_convolution){.w = w,
                            .images = x->dims[0],
                            .channels = x->dims[1],
                            .group = weights->dims[1],
                            .with_bias = cpu_present(call, 2),
                            .with_residual = cpu_present(call, 3)};
  activation_read(call, &t->activation);
  t->row = CPU_PICK(t->activation.level, depthwise_row);
  t->turn = CPU_PICK(t->activation.level, turn_rows);
  t->turn_apart = CPU_PICK(t->activation.level, turn_apart);
  const double products = (double)desc_elements(y) * (double)t->group * (double)w.kernel[0] * (double)w.kernel[1],
               work = products / TAPS_PER_BYTE + (double)(desc_elements(x) + desc_elements(y)) * TURNED_BYTES;
  t->team = cpu_team_for(cpu_env_team(call), work < MOST_WORK ? (int64_t)work : INT64_MAX);
  if (!is_faster(t)) {
    mem_free(t);
    return REED_OK;
  }
  share(t);
  *out_kernel =
      (reed_kernel){run_turned, t, mem_free, t->team.threads * t->scratch * (int64_t)sizeof(float), (int64_t)sizeof *t};
  return REED_OK;
}
