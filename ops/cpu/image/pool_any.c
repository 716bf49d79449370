/* MaxPool with Indices, MaxPool of f64 and integers, and AveragePool of f64 (pool_any.h). Blocks of outputs of a row
 * take tap after tap of their windows, in the order of the input, so that the first of equal elements is named, and
 * means are added as the reference (reference/pool.c) adds them. Also MaxPool of f32 over lines that are mostly
 * padding, whose taps outside of the input are passed over. */
#include "ops/cpu/image/pool_any.h"

#include "ops/cpu/common/whole.h"
#include "ops/cpu/image/pool_any_loops.h"

#define BLOCK 512 /* outputs at most: their elements and places stay in the first-level cache */
#define TAP_WORK 10

typedef struct any_job {
  const pool *p;
  const void *x;
  void *y;
  int64_t *indices;      /* NULL: not wanted */
  int64_t block, blocks; /* outputs of a block; blocks of a row */
} any_job;

/* Outputs whose tap t along the last axis is inside the input: *begin..*end-1, within first..after-1. */
static void reached(const window *w, int64_t t, int64_t first, int64_t after, int64_t *begin, int64_t *end) {
  const int32_t last = w->n - 1;
  const int64_t stride = w->stride[last], shift = t * w->dilation[last] - w->pad_begin[last];
  *begin = cpu_clamp(shift < 0 ? (-shift + stride - 1) / stride : 0, first, after);
  *end = cpu_clamp(w->in[last] > shift ? (w->in[last] - shift + stride - 1) / stride : 0, *begin, after);
}

/* Joins the taps of one line of the input, which begins at offset `line` of the plane. */
static void join_line(const pool *p, const void *x, int64_t line, int64_t first, int64_t after, void *most,
                      int32_t *where) {
  const window *w = &p->w;
  const int32_t last = w->n - 1;
  const int64_t bytes = (int64_t)reed_dtype_bytes(p->dtype), stride = w->stride[last];
  /* taps that no output of the block reaches are passed over, however many there are */
  const int64_t origin = (after - 1) * stride - w->pad_begin[last], d = w->dilation[last],
                begin_tap = origin < 0 ? (-origin + d - 1) / d : 0,
                reach = w->in[last] - (first * stride - w->pad_begin[last]),
                end_tap = smaller(reach > 0 ? (reach + d - 1) / d : 0, w->kernel[last]);
  for (int64_t t = begin_tap, begin, end; t < end_tap; t++) {
    reached(w, t, first, after, &begin, &end);
    if (begin == end) continue;
    const int64_t at = line + begin * stride - w->pad_begin[last] + t * d, to = begin - first;
    if (p->mean) CPU_PICK(p->level, pool_sum_f64)((const double *)x + at, stride, (double *)most + to, end - begin);
    else CPU_PICK(p->level, pool_most)
    (p->dtype, x, (int32_t)at, (int32_t)stride, (char *)most + to * bytes, where ? where + to : NULL, end - begin);
  }
}

static void fill_least(reed_dtype dtype, void *most, int64_t n) {
#define FILL(DTYPE, T, name, least) \
  if (dtype == DTYPE) \
    for (int64_t i = 0; i < n; i++) ((T *)most)[i] = least;
  POOL_DTYPES(FILL)
#undef FILL
}

/* Outputs first..after-1 of a row, rows being counted over all planes. */
static void pool_block(const any_job *job, int64_t row, int64_t first, int64_t after) {
  const pool *p = job->p;
  const window *w = &p->w;
  const int32_t last = w->n - 1;
  const int64_t bytes = (int64_t)reed_dtype_bytes(p->dtype), rows = p->out_plane / w->out[last], plane = row / rows,
                n = after - first, to = row * w->out[last] + first;
  const char *x = (const char *)job->x + plane * p->in_plane * bytes;
  char *y = (char *)job->y + to * bytes;
  int32_t places[BLOCK], *where = job->indices ? places : NULL;
  window_taps taps[WINDOW_MAX_AXES];
  int64_t lines = 1, at[WINDOW_MAX_AXES] = {0};
  double count = 1;
  for (int64_t axis = last - 1, rest = row % rows; axis >= 0; axis--) {
    const int64_t o = rest % w->out[axis];
    rest /= w->out[axis];
    taps[axis] = window_taps_at(w, (int32_t)axis, o);
    lines *= taps[axis].n;
    count *= (double)pool_count(p, (int32_t)axis, o * w->stride[axis] - w->pad_begin[axis]);
  }
  if (p->mean) memset(y, 0, (size_t)(n * bytes));
  else fill_least(p->dtype, y, n);
  for (int64_t i = 0; i < n && where; i++) where[i] = -1;
  for (int64_t k = 0; k < lines; k++) {
    int64_t line = 0;
    for (int32_t axis = 0; axis < last; axis++)
      line += (taps[axis].start + at[axis] * w->dilation[axis]) * p->in_stride[axis];
    join_line(p, x, line, first, after, y, where);
    for (int32_t axis = last - 1; axis >= 0 && ++at[axis] == taps[axis].n; axis--) at[axis] = 0;
  }
  for (int64_t i = 0; i < n && p->mean; i++)
    ((double *)(void *)y)[i] /= count * (double)pool_count(p, last, (first + i) * w->stride[last] - w->pad_begin[last]);
  for (int64_t i = 0; i < n && where; i++) job->indices[to + i] = where[i] < 0 ? 0 : pool_index(p, plane, where[i]);
}

static void pool_blocks(void *context, int64_t begin, int64_t end) {
  const any_job *job = context;
  const int64_t out = job->p->w.out[job->p->w.n - 1];
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % job->blocks * job->block;
    pool_block(job, i / job->blocks, first, smaller(out, first + job->block));
  }
}

static reed_status run_any(const void *state, const reed_kernel_buffers *buffers) {
  const pool *p = state;
  const int64_t n = p->planes * p->out_plane, out = p->w.out[p->w.n - 1], work = 16 + p->taps * TAP_WORK,
                block = cpu_clamp(CPU_WORK_PER_CHUNK / work, 16, BLOCK);
  any_job job = {
      .p = p, .x = buffers->inputs[0], .y = buffers->outputs[0], .block = block, .blocks = (out + block - 1) / block};
  if (p->with_indices) job.indices = buffers->outputs[1];
  return cpu_parallel(cpu_team_for(p->team, n * work), n / out * job.blocks, 1, pool_blocks, &job);
}

reed_status pool_prepare_any(const reed_kernel_call *call, const pool *p, reed_kernel *out_kernel) {
  bool taken = p->mean && p->dtype == REED_F64;
#define IS(DTYPE, T, name, least) taken = taken || (!p->mean && p->dtype == DTYPE);
  POOL_DTYPES(IS)
#undef IS
  const window *w = &p->w;
  if (!taken || p->in_plane > INT32_MAX || (w->n > 0 && w->stride[w->n - 1] > BLOCK)) return REED_OK;
  void *state = mem_copy(p, sizeof *p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_any, state);
  return REED_OK;
}
