/* AveragePool, MaxPool (with Indices), LpPool and the global pools: each output element is computed from its own
 * window. The kernel: ops/cpu/image/pool.c. */
#include <math.h>

#include "ops/cpu/calls/pool.h"
#include "ops/cpu/common/common.h"

typedef struct job {
  const pool *p;
  const void *x;
  void *y;
  int64_t *indices; /* NULL: not wanted */
} job;

/* One window: its start on each axis, and its taps inside the input. Taps in the padding are not walked, however many
 * there are. */
typedef struct place {
  int64_t origin[WINDOW_MAX_AXES];
  window_taps taps[WINDOW_MAX_AXES];
  int64_t n_taps;
} place;

static void place_at(const pool *p, int64_t out_offset, place *out) {
  const window *w = &p->w;
  out->n_taps = 1;
  for (int32_t axis = w->n - 1; axis >= 0; axis--) {
    int64_t o = out_offset % w->out[axis];
    out->origin[axis] = o * w->stride[axis] - w->pad_begin[axis];
    out->taps[axis] = window_taps_at(w, axis, o);
    out->n_taps *= out->taps[axis].n;
    out_offset /= w->out[axis];
  }
}

/* Offset in the input plane of the window's tap number `tap` (row-major over those inside). */
static int64_t tap_source(const pool *p, const place *at, int64_t tap) {
  int64_t offset = 0;
  for (int32_t axis = p->w.n - 1; axis >= 0; axis--) {
    offset += (at->taps[axis].start + tap % at->taps[axis].n * p->w.dilation[axis]) * p->in_stride[axis];
    tap /= at->taps[axis].n;
  }
  return offset;
}

/* The largest element of a window, the first of equal ones; NaN wins. An empty window (all padding) gives the dtype's
 * least value. */
#define MAX_AT(T, name, least) \
  static void name(const job *j, int64_t plane, const place *window, int64_t at) { \
    const pool *p = j->p; \
    const T *x = (const T *)j->x + plane * p->in_plane; \
    T most = least; \
    int64_t where = -1; \
    for (int64_t tap = 0; tap < window->n_taps; tap++) { \
      int64_t offset = tap_source(p, window, tap); \
      T v = x[offset]; \
      if (where < 0 || v > most || (v != v && most == most)) most = v, where = offset; \
    } \
    ((T *)j->y)[at] = most; \
    if (j->indices) j->indices[at] = where < 0 ? 0 : pool_index(p, plane, where); \
  }
MAX_AT(float, max_f32_at, -__builtin_inff())
MAX_AT(double, max_f64_at, -__builtin_inf())
MAX_AT(int8_t, max_i8_at, INT8_MIN)
MAX_AT(int16_t, max_i16_at, INT16_MIN)
MAX_AT(int32_t, max_i32_at, INT32_MIN)
MAX_AT(int64_t, max_i64_at, INT64_MIN)
MAX_AT(uint8_t, max_u8_at, 0)
MAX_AT(uint16_t, max_u16_at, 0)
MAX_AT(uint32_t, max_u32_at, 0)
MAX_AT(uint64_t, max_u64_at, 0)

#define MEAN_AT(T, name) \
  static void name(const job *j, int64_t plane, const place *window, int64_t at) { \
    const pool *p = j->p; \
    const T *x = (const T *)j->x + plane * p->in_plane; \
    double sum = 0, count = 1; \
    for (int64_t tap = 0; tap < window->n_taps; tap++) sum += (double)x[tap_source(p, window, tap)]; \
    for (int32_t axis = 0; axis < p->w.n; axis++) count *= (double)pool_count(p, axis, window->origin[axis]); \
    ((T *)j->y)[at] = (T)(sum / count); \
  }
MEAN_AT(float, mean_f32_at)
MEAN_AT(double, mean_f64_at)

static double magnitude_to(double x, int64_t p) { return p == 1 ? fabs(x) : p == 2 ? x * x : pow(fabs(x), (double)p); }
static double root_of(double x, int64_t p) { return p == 1 ? x : p == 2 ? sqrt(x) : pow(x, 1.0 / (double)p); }

/* The p-norm of the window's elements. */
#define LP_AT(T, name) \
  static void name(const job *j, int64_t plane, const place *window, int64_t at) { \
    const pool *p = j->p; \
    const T *x = (const T *)j->x + plane * p->in_plane; \
    double sum = 0; \
    for (int64_t tap = 0; tap < window->n_taps; tap++) \
      sum += magnitude_to((double)x[tap_source(p, window, tap)], p->power); \
    ((T *)j->y)[at] = (T)root_of(sum, p->power); \
  }
LP_AT(float, lp_f32_at)
LP_AT(double, lp_f64_at)

typedef void (*pool_at)(const job *, int64_t, const place *, int64_t);
static const pool_at maxima[REED_DTYPE_COUNT] = {
    [REED_F32] = max_f32_at, [REED_F64] = max_f64_at, [REED_I8] = max_i8_at, [REED_I16] = max_i16_at,
    [REED_I32] = max_i32_at, [REED_I64] = max_i64_at, [REED_U8] = max_u8_at, [REED_U16] = max_u16_at,
    [REED_U32] = max_u32_at, [REED_U64] = max_u64_at,
};
static const pool_at means[REED_DTYPE_COUNT] = {[REED_F32] = mean_f32_at, [REED_F64] = mean_f64_at};

static const pool_at lengths[REED_DTYPE_COUNT] = {[REED_F32] = lp_f32_at, [REED_F64] = lp_f64_at};

static pool_at pool_of(const pool *p) { return (p->power ? lengths : p->mean ? means : maxima)[p->dtype]; }

static void planes(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const pool *p = j->p;
  pool_at fn = pool_of(p);
  for (int64_t at = begin; at < end; at++) {
    place window;
    place_at(p, at % p->out_plane, &window);
    fn(j, at / p->out_plane, &window, at);
  }
}

static reed_status run_pool(const void *state, const reed_kernel_buffers *buffers) {
  const pool *p = state;
  job j = {p, buffers->inputs[0], buffers->outputs[0], p->with_indices ? buffers->outputs[1] : NULL};
  int64_t n = p->planes * p->out_plane;
  int64_t tap_work = p->power > 2 ? 600 : 128; /* a tap's place takes divisions */
  return cpu_parallel(cpu_team_for(p->team, n * (256 + p->taps * tap_work)), n, 1, planes, &j);
}

static reed_status prepare(const reed_kernel_call *call, pool_kind kind, reed_kernel *out_kernel) {
  pool p;
  pool_read(call, kind, &p);
  if (!pool_of(&p)) return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(p.dtype));
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_pool, state);
  return REED_OK;
}

reed_status reference_prepare_average_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, POOL_AVERAGE, out_kernel);
}

reed_status reference_prepare_max_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, POOL_MAX, out_kernel);
}

reed_status reference_prepare_lp_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, POOL_LP, out_kernel);
}

reed_status reference_prepare_global_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, POOL_GLOBAL, out_kernel);
}
