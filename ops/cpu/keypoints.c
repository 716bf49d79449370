/* Keypoints: the peak of each map resized to its region. The resized map is never there as a whole: its rows are mixed one by one (as Resize
 * does it, so that the values are Resize's own) and looked through. A row that cannot reach what was already met is left out, by a bound on
 * what interpolation can add, and the first row looked at is one through the map's own largest element: most are left out. */
#include "ops/cpu/keypoints.h"

#include "ops/cpu/layer_loops.h"
#include "ops/cpu/reference/layers.h"
#include "ops/cpu/resize.h"

#define ALIGNMENT 64
#define TAPS 4
#define BLOCK 1024 /* columns of a resized map looked at together */
#define MOST_PIXELS ((int64_t)1 << 28) /* of a resized map: a picture of 16384 by 16384 */
/* Rounding of a sum of four products, relative to the largest: what a bound is short of. */
#define SLACK 1e-5f

reed_status keypoints_read(const reed_kernel_call *call, keypoints *out_keypoints) {
  const reed_desc *maps = &call->inputs[KEYPOINTS_MAPS];
  char a[96], b[96];
  for (int32_t i = KEYPOINTS_LEFT; i <= KEYPOINTS_ROWS; i++)
    if (maps->rank != 4 || desc_elements(&call->inputs[i]) != maps->dims[0])
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "maps %s and %s %s do not go together", desc_text(maps, a, sizeof a),
                              reed_op_input_at(call->op, i)->name, desc_text(&call->inputs[i], b, sizeof b));
  if (maps->dims[2] < 1 || maps->dims[3] < 1 || maps->dims[2] > INT32_MAX || maps->dims[3] > INT32_MAX)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "maps of %lld by %lld cannot be resized", (long long)maps->dims[2],
                            (long long)maps->dims[3]);
  *out_keypoints = (keypoints){.site = cpu_site_of(call), .n_threads = cpu_env_threads(call), .level = cpu_level_now(),
                               .cubic_a = reed_attrs_float(call->attrs, "cubic_coeff_a", -0.75), .n = maps->dims[0],
                               .channels = maps->dims[1], .rows = maps->dims[2], .columns = maps->dims[3]};
  return resize_read_mapping(call, &out_keypoints->mapping);
}

static float number_of(const reed_kernel_buffers *buffers, int32_t input, int64_t k) { return ((const float *)buffers->inputs[input])[k]; }

reed_status keypoints_size(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t *out_rows, int64_t *out_columns) {
  float rows = number_of(buffers, KEYPOINTS_ROWS, k), columns = number_of(buffers, KEYPOINTS_COLUMNS, k);
  if (!(rows >= 1 && columns >= 1 && (double)rows * columns <= (double)MOST_PIXELS))
    return cpu_fault(&p->site, buffers->diagnosis, REED_ERROR_VALUE, KEYPOINTS_ROWS, "maps cannot be resized to %g by %g", (double)rows,
                     (double)columns);
  *out_rows = (int64_t)rows;
  *out_columns = (int64_t)columns;
  return REED_OK;
}

void keypoints_write(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t c, int64_t x, int64_t y, float value) {
  float *points = (float *)buffers->outputs[0] + k * 3 * p->channels + c;
  float across = number_of(buffers, KEYPOINTS_WIDTH, k) / number_of(buffers, KEYPOINTS_COLUMNS, k);
  float down = number_of(buffers, KEYPOINTS_HEIGHT, k) / number_of(buffers, KEYPOINTS_ROWS, k);
  points[0] = ((float)x + 0.5f) * across + number_of(buffers, KEYPOINTS_LEFT, k);
  points[p->channels] = ((float)y + 0.5f) * down + number_of(buffers, KEYPOINTS_TOP, k);
  points[2 * p->channels] = 1;
  ((float *)buffers->outputs[1])[k * p->channels + c] = value;
}

/* ---- one map ---- */

typedef struct peak {
  float value;
  int64_t x, y; /* y -1: nothing has been looked at */
} peak;

/* A thread's scratch: the taps of some columns of row k's resized maps, which serve all its maps; a mixed row of a map; a resized one. */
typedef struct block {
  int64_t k, begin, n;
  float overshoot; /* the most of a column's weights that are below zero: how far beyond the largest element a mean can be */
  int32_t index[BLOCK * TAPS];
  float weight[BLOCK * TAPS], line[BLOCK];
  float mixed[]; /* p->columns */
} block;

typedef struct keypoints_job {
  const keypoints *p;
  const reed_kernel_buffers *buffers;
  char *scratch; /* per range of maps */
  int64_t per_range, scratch_bytes;
} keypoints_job;

static int64_t scratch_bytes(const keypoints *p) {
  return ((int64_t)sizeof(block) + p->columns * 4 + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
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
    for (int t = 0; t < TAPS; t++) below -= b->weight[i * TAPS + t] < 0 ? b->weight[i * TAPS + t] : 0;
    if (below > b->overshoot) b->overshoot = below;
  }
}

/* The resized map's row y before its columns are mixed. */
static void mix_row(const keypoints *p, const float *map, int64_t rows, int64_t y, float *mixed) {
  int32_t index[TAPS];
  float weight[TAPS];
  resize_taps(p->mapping, &p->cubic_a, p->rows, rows, y, y + 1, index, weight);
  CPU_PICK(p->level, scale_row)(weight[0], map + index[0] * p->columns, mixed, p->columns);
  for (int t = 1; t < TAPS; t++) CPU_PICK(p->level, axpy)(weight[t], map + index[t] * p->columns, mixed, p->columns);
}

/* No element of the resized row is larger than this. */
static float bound_of(const float *mixed, int64_t n, float overshoot) {
  float low = mixed[0], high = mixed[0];
  for (int64_t i = 1; i < n; i++) {
    low = mixed[i] < low ? mixed[i] : low;
    high = mixed[i] > high ? mixed[i] : high;
  }
  float size = (high < 0 ? -high : high) + (low < 0 ? -low : low);
  return high + (high - low) * overshoot + size * SLACK;
}

/* Looks through a block of row y: what is larger than the peak, or as large and before it, is the peak. */
static void look(const keypoints *p, block *b, const float *map, int64_t rows, int64_t y, peak *best) {
  mix_row(p, map, rows, y, b->mixed);
  if (best->y >= 0 && bound_of(b->mixed, p->columns, b->overshoot) < best->value) return;
  CPU_PICK(p->level, gather_taps)(b->mixed, b->index, b->weight, TAPS, b->line, b->n);
  float highest = CPU_PICK(p->level, max_f32)(b->line, b->n);
  if (best->y >= 0 && !(highest > best->value || (highest == best->value && y < best->y))) return;
  int64_t x = 0;
  while (x < b->n - 1 && b->line[x] != highest) x++;
  *best = (peak){highest, b->begin + x, y};
}

static void find_peak(const keypoints_job *job, int64_t i, block *b) {
  const keypoints *p = job->p;
  const float *map = (const float *)job->buffers->inputs[KEYPOINTS_MAPS] + i * p->rows * p->columns;
  int64_t k = i / p->channels, rows = (int64_t)number_of(job->buffers, KEYPOINTS_ROWS, k);
  int64_t columns = (int64_t)number_of(job->buffers, KEYPOINTS_COLUMNS, k), largest = 0;
  for (int64_t e = 1; e < p->rows * p->columns; e++)
    if (map[e] > map[largest]) largest = e;
  int64_t near = (int64_t)(((double)(largest / p->columns) + 0.5) / (double)p->rows * (double)rows);
  if (near >= rows) near = rows - 1;
  peak best = {.y = -1};
  for (int64_t begin = 0; begin < columns; begin += BLOCK) {
    fill_block(p, b, k, columns, begin);
    look(p, b, map, rows, near, &best);
    for (int64_t y = 0; y < rows; y++)
      if (y != near) look(p, b, map, rows, y, &best);
  }
  keypoints_write(p, job->buffers, k, i % p->channels, best.x, best.y, best.value);
}

static void find_peaks(void *context, int64_t begin, int64_t end) {
  const keypoints_job *job = context;
  int64_t total = job->p->n * job->p->channels;
  for (int64_t range = begin; range < end; range++) {
    block *b = (block *)(job->scratch + range * job->scratch_bytes);
    b->k = -1;
    for (int64_t i = range * job->per_range; i < total && i < (range + 1) * job->per_range; i++) find_peak(job, i, b);
  }
}

static reed_status run_keypoints(const void *state, const reed_kernel_buffers *buffers) {
  const keypoints *p = state;
  int64_t total = p->n * p->channels, rows = 0, columns = 0;
  double work = 0;
  for (int64_t k = 0; k < p->n; k++) {
    reed_status status = keypoints_size(p, buffers, k, &rows, &columns);
    if (status != REED_OK) return status;
    work += 4.0 * (double)p->channels * (double)(rows * TAPS) * (double)p->columns;
  }
  int threads = cpu_threads_for(p->n_threads, work < 0x1p62 ? (int64_t)work : INT64_MAX);
  if (threads > total) threads = (int)total;
  keypoints_job job = {.p = p, .buffers = buffers, .scratch = buffers->workspace, .scratch_bytes = scratch_bytes(p),
                       .per_range = (total + threads - 1) / threads};
  cpu_parallel(threads, threads, 1, find_peaks, &job);
  return REED_OK;
}

reed_status cpu_prepare_keypoints(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (desc_elements(&call->outputs[0]) == 0) return cpu_kernel_set_empty(out_kernel), REED_OK;
  if (reference_wanted()) return reference_prepare_keypoints(call, out_kernel);
  keypoints p;
  reed_status status = keypoints_read(call, &p);
  if (status != REED_OK) return status;
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_keypoints, state);
  out_kernel->workspace_bytes = scratch_bytes(&p) * p.n_threads;
  return REED_OK;
}
