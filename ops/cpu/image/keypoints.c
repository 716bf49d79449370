/* Keypoints: the peak of each map resized to its region, without keeping the resized map. Its rows are mixed one by
 * one, by the loops of Resize, so that the values are Resize's own. A row is skipped if an upper bound on its
 * interpolated values is below the best peak so far; the search starts at the row through the map's largest element, so
 * that most rows are skipped.
 *
 * Contiguous maps (channels last) are the lanes of one tile, whose rows are bounded and mixed together; with channels
 * second every map is a tile of one lane. The peak does not depend on which rows are looked at, or in what order, so
 * both layouts give the same bits.
 *
 * The reference: reference/keypoints.c. */
#include <math.h>

#include "ops/cpu/calls/keypoints.h"
#include "ops/cpu/calls/resize.h"
#include "ops/cpu/common/rows_loops.h"

#define ALIGNMENT 64
#define TAPS 4
#define BLOCK 1024 /* columns of a resized map looked at together */
/* Allowance for the rounding of two sums of four products, relative to the largest element: added to every bound. */
#define SLACK 2e-5f

/* ---- one tile ---- */

/* A thread's scratch: the taps of some columns of row k's resized maps, shared by all its maps; the taps of a resized
 * row; and the known bounds of the tile's lanes and rows. */
typedef struct block {
  int64_t k, begin, n;
  float overshoot; /* the most of a column's weights that are below zero: how far beyond the largest element a mean can
                      be */
  int32_t index[BLOCK * TAPS];
  float weight[BLOCK * TAPS], line[BLOCK];
  int64_t y, row_offset[TAPS];
  float row_weight[TAPS];
  bool is_mixed;
  float *mixed;          /* row y before its columns are mixed: columns * lanes */
  float *low, *high;     /* of the map's rows: rows * lanes; NaN if an element of the row is not finite */
  float *slack, *bound;  /* lanes; bound: the elements of row y are not larger; NaN: no bound is known */
  keypoints_peak *peaks; /* lanes */
  int32_t *near;         /* lanes: the resized row through the map's largest element */
} block;

typedef struct keypoints_job {
  const keypoints *p;
  const reed_kernel_buffers *buffers;
  char *scratch; /* per range of tiles */
  int64_t scratch_bytes;
} keypoints_job;

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1); }

static int64_t scratch_bytes(const keypoints *p) {
  int64_t per_lane = 2 * (int64_t)sizeof(float) + (int64_t)sizeof(keypoints_peak) + (int64_t)sizeof(int32_t);
  return aligned((int64_t)sizeof(block)) + aligned((p->columns + 2 * p->rows) * p->lanes * 4 + per_lane * p->lanes);
}

static block *open_block(const keypoints *p, char *scratch) {
  block *b = (block *)scratch;
  b->k = -1;
  b->peaks = (keypoints_peak *)(scratch + aligned((int64_t)sizeof *b));
  b->mixed = (float *)(b->peaks + p->lanes);
  b->low = b->mixed + p->columns * p->lanes;
  b->high = b->low + p->rows * p->lanes;
  b->slack = b->high + p->rows * p->lanes;
  b->bound = b->slack + p->lanes;
  b->near = (int32_t *)(b->bound + p->lanes);
  return b;
}

static void fill_block(const keypoints *p, block *b, int64_t k, int64_t columns, int64_t begin) {
  int64_t end = begin + BLOCK < columns ? begin + BLOCK : columns;
  if (b->k == k && b->begin == begin) return;
  b->k = k;
  b->begin = begin;
  b->n = end - begin;
  b->overshoot = 0;
  resize_taps(p->mapping, &p->cubic_a, p->columns, columns, begin, end, b->index, b->weight);
  for (int64_t i = 0; i < b->n; i++) {
    float below = 0;
    for (int t = 0; t < TAPS; t++) {
      below -= b->weight[i * TAPS + t] < 0 ? b->weight[i * TAPS + t] : 0;
      b->index[i * TAPS + t] *= (int32_t)p->lanes;
    }
    if (below > b->overshoot) b->overshoot = below;
  }
}

/* Computes the ranges of the map's rows, and the best first row of every lane. */
static void measure(const keypoints *p, const float *map, int64_t rows, block *b) {
  for (int64_t lane = 0; lane < p->lanes; lane++) b->slack[lane] = 0, b->peaks[lane] = (keypoints_peak){.y = -1};
  for (int64_t row = 0; row < p->rows; row++) {
    float *low = b->low + row * p->lanes, *high = b->high + row * p->lanes;
    CPU_PICK(p->level, lane_ranges)(map + row * p->columns * p->lanes, p->columns, p->lanes, low, high);
    for (int64_t lane = 0; lane < p->lanes; lane++) {
      float size = fmaxf(fabsf(low[lane]), fabsf(high[lane])) * SLACK;
      b->slack[lane] = size > b->slack[lane] ? size : b->slack[lane] + (size - size);
      if (keypoints_beats(high[lane], row, &b->peaks[lane])) b->peaks[lane] = (keypoints_peak){high[lane], 0, row};
    }
  }
  for (int64_t lane = 0; lane < p->lanes; lane++) {
    int64_t near = (int64_t)(((double)b->peaks[lane].y + 0.5) / (double)p->rows * (double)rows);
    b->near[lane] = (int32_t)(near < rows ? near : rows - 1);
    b->peaks[lane].y = -1;
  }
}

static void begin_row(const keypoints *p, int64_t rows, int64_t y, block *b) {
  int32_t index[TAPS];
  resize_taps(p->mapping, &p->cubic_a, p->rows, rows, y, y + 1, index, b->row_weight);
  for (int t = 0; t < TAPS; t++) b->row_offset[t] = index[t] * p->lanes;
  b->y = y;
  b->is_mixed = false;
}

/* Mixes the row that has begun, of all lanes, and tightens its bounds: the columns are mixed from neighbours in this
 * row. */
static void mix_row(const keypoints *p, const float *map, block *b) {
  int64_t n = p->columns * p->lanes;
  CPU_PICK(p->level, scale_row)(b->row_weight[0], map + b->row_offset[0] * p->columns, b->mixed, n);
  for (int t = 1; t < TAPS; t++)
    CPU_PICK(p->level, axpy)(b->row_weight[t], map + b->row_offset[t] * p->columns, b->mixed, n);
  CPU_PICK(p->level, lane_reach)(b->mixed, p->columns, p->lanes, b->overshoot, b->slack, b->bound);
  b->is_mixed = true;
}

static bool may_beat(const block *b, int64_t lane) {
  return b->peaks[lane].y < 0 || !(b->bound[lane] < b->peaks[lane].value);
}

/* Compares the block's columns in the row that has begun with the lanes' peaks. */
static void look(const keypoints *p, const float *map, block *b, int64_t lane) {
  if (!b->is_mixed) mix_row(p, map, b);
  if (!may_beat(b, lane)) return;
  CPU_PICK(p->level, gather_taps)(b->mixed + lane, b->index, b->weight, TAPS, b->line, b->n);
  float highest = CPU_PICK(p->level, max_f32)(b->line, b->n);
  if (!keypoints_beats(highest, b->y, &b->peaks[lane])) return;
  int64_t x = 0;
  while (!(b->line[x] == highest || isnan(b->line[x]))) x++;
  b->peaks[lane] = (keypoints_peak){b->line[x], b->begin + x, b->y};
}

static void look_where_it_may_be(const keypoints *p, const float *map, int64_t rows, block *b) {
  for (int64_t lane = 0; lane < p->lanes; lane++) {
    if (lane == 0 || b->y != b->near[lane]) begin_row(p, rows, b->near[lane], b);
    look(p, map, b, lane);
  }
  for (int64_t y = 0; y < rows; y++) {
    begin_row(p, rows, y, b);
    CPU_PICK(p->level, lane_bounds)
    (b->low, b->high, b->row_offset, b->row_weight, TAPS, b->overshoot, b->slack, b->bound, p->lanes);
    for (int64_t lane = 0; lane < p->lanes; lane++)
      if (y != b->near[lane] && may_beat(b, lane)) look(p, map, b, lane);
  }
}

static void find_in_tile(const keypoints_job *job, int64_t tile, block *b) {
  const keypoints *p = job->p;
  const float *map = (const float *)job->buffers->inputs[KEYPOINTS_MAPS] + tile * p->lanes * p->rows * p->columns;
  int64_t first = tile * p->lanes, k = first / p->channels,
          rows = (int64_t)keypoints_number(job->buffers, KEYPOINTS_ROWS, k);
  int64_t columns = (int64_t)keypoints_number(job->buffers, KEYPOINTS_COLUMNS, k);
  measure(p, map, rows, b);
  for (int64_t begin = 0; begin < columns; begin += BLOCK) {
    fill_block(p, b, k, columns, begin);
    look_where_it_may_be(p, map, rows, b);
  }
  for (int64_t lane = 0; lane < p->lanes; lane++)
    keypoints_write(p, job->buffers, k, first % p->channels + lane, &b->peaks[lane]);
}

static void find_peaks(void *context, int64_t begin, int64_t end, int32_t worker) {
  const keypoints_job *job = context;
  block *b = open_block(job->p, job->scratch + worker * job->scratch_bytes);
  for (int64_t i = begin; i < end && !cpu_cancelled(&job->p->team); i++) find_in_tile(job, i, b);
}

static reed_status run_keypoints(const void *state, const reed_kernel_buffers *buffers) {
  const keypoints *p = state;
  int64_t n_tiles = p->n * p->channels / p->lanes, rows = 0, columns = 0;
  double work = 0;
  for (int64_t k = 0; k < p->n; k++) {
    reed_status status = keypoints_size(p, buffers, k, &rows, &columns);
    if (status != REED_OK) return status;
    work += 4.0 * (double)p->channels * (double)(rows * TAPS) * (double)p->columns;
  }
  cpu_team team = cpu_team_for(p->team, work < 0x1p62 ? (int64_t)work : INT64_MAX);
  keypoints_job job = {.p = p, .buffers = buffers, .scratch = buffers->workspace, .scratch_bytes = scratch_bytes(p)};
  return cpu_parallel_scratch(team, n_tiles, 1, find_peaks, &job);
}

reed_status cpu_prepare_keypoints(const reed_kernel_call *call, reed_kernel *out_kernel) {
  keypoints p;
  reed_status status = keypoints_read(call, &p);
  if (status != REED_OK) return status;
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_keypoints, state);
  out_kernel->workspace_bytes = scratch_bytes(&p) * p.team.threads;
  return REED_OK;
}
