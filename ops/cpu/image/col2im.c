/* Col2Im (ONNX 18): every window's column of elements added to the image at the window's place. Rows of all images are
 * shared out to the threads. A row collects the windows over it, so no two threads write one element, and an element's
 * summands come in the order of a block's elements, whatever the number of threads.
 *
 * f16 and bf16 are computed in f32 (ops/cpu/table.c). Integers wrap around; bool is true where one summand is.
 *
 * The reference: reference/col2im.c. */
#include "ops/cpu/calls/col2im.h"
#include "ops/cpu/common/rows_loops.h"

/* ---- a run of windows ---- */

/* y[i * stride] += x[i] */
typedef void (*add_fn)(const void *x, void *y, int64_t stride, int64_t n);

#define ADD(name, T, sum) \
  static void name(const void *from, void *to, int64_t stride, int64_t n) { \
    const T *x = from; \
    T *y = to; \
    if (stride == 1) \
      for (int64_t i = 0; i < n; i++) y[i] = (T)(sum(y[i], x[i])); \
    else \
      for (int64_t i = 0; i < n; i++) y[i * stride] = (T)(sum(y[i * stride], x[i])); \
  }
#define PLUS(a, b) (a) + (b)
#define OR(a, b) (a) || (b)
ADD(add_f32, float, PLUS)
ADD(add_f64, double, PLUS)
ADD(add_u8, uint8_t, PLUS)
ADD(add_u16, uint16_t, PLUS)
ADD(add_u32, uint32_t, PLUS)
ADD(add_u64, uint64_t, PLUS)
ADD(add_bool, uint8_t, OR)

static add_fn add_of(reed_dtype dtype) {
  if (dtype == REED_F32) return add_f32;
  if (dtype == REED_F64) return add_f64;
  if (dtype == REED_BOOL) return add_bool;
  switch (reed_dtype_bytes(dtype)) {
    case 1: return add_u8;
    case 2: return add_u16;
    case 4: return add_u32;
    default: return add_u64;
  }
}

/* ---- rows of an image ---- */

#define ROWS_BYTES ((int64_t)16384) /* of rows that collect windows together: in the first-level cache */

typedef struct fold_state {
  col2im c;
  int64_t bytes; /* of an element */
  add_fn add;
} fold_state;

typedef struct fold_job {
  const fold_state *s;
  const char *x;
  char *y;
} fold_job;

/* Rows of an image that differ in their place along the axis before the last one (axis 0 of one axis: 0):
 * first..after-1 of them. */
typedef struct fold_rows {
  int64_t first, after;
  char *y; /* row `first` */
} fold_rows;

/* One element of the leading axes' block: its number, its place in window 0 of the axis before the last one, the number
 * of that axis's first window, and the windows first..after-1 of that axis that have it in the rows. */
typedef struct fold_element {
  int64_t block, origin, window, first, after;
} fold_element;

/* Adds element k of the last axis's block of all windows over the rows. The windows over a row lie side by side, and
 * those over the next row, where windows move by one row, come after them. */
static void add_element(const fold_state *s, const char *plane, const fold_element *e, int64_t k,
                        const fold_rows *rows) {
  const col2im *c = &s->c;
  const window *w = &c->w;
  const int32_t last = w->n - 1;
  const int64_t stride = w->stride[last], extent = w->in[last], origin = k * w->dilation[last] - w->pad_begin[last];
  if (origin >= extent) return;
  int64_t begin = origin < 0 ? (stride - 1 - origin) / stride : 0, end = (extent - 1 - origin) / stride + 1;
  if (end > w->out[last]) end = w->out[last];
  if (begin >= end) return;
  const int64_t down = last > 0 ? w->stride[last - 1] : 1;
  const char *from =
      plane + ((e->block * w->kernel[last] + k) * c->windows + e->window + e->first * w->out[last] + begin) * s->bytes;
  for (int64_t o = e->first; o < e->after; o++, from += w->out[last] * s->bytes) {
    char *to = rows->y + ((e->origin + o * down - rows->first) * extent + origin + begin * stride) * s->bytes;
    if (c->dtype == REED_F32 && stride == 1)
      CPU_PICK(c->level, add_rows)((const float *)from, (float *)to, end - begin);
    else s->add(from, to, stride, end - begin);
  }
}

/* Element `tap` along the axis before the last one (of one axis: 0), of the leading block `block`. */
static fold_element element_at(const window *w, int64_t block, int64_t window_at, int64_t tap, const fold_rows *rows) {
  const int32_t inner = w->n - 2;
  if (inner < 0) return (fold_element){.block = block, .window = window_at * w->out[0], .after = 1};
  const int64_t down = w->stride[inner], origin = tap * w->dilation[inner] - w->pad_begin[inner],
                before = rows->first - origin, behind = rows->after - origin;
  fold_element e = {.block = block * w->kernel[inner] + tap,
                    .origin = origin,
                    .window = window_at * w->out[inner] * w->out[w->n - 1]};
  if (down == 1) e.first = before > 0 ? before : 0, e.after = behind > 0 ? behind : 0;
  else e.first = before > 0 ? (before + down - 1) / down : 0, e.after = behind > 0 ? (behind + down - 1) / down : 0;
  if (e.after > w->out[inner]) e.after = w->out[inner];
  return e;
}

/* The elements of the last two axes' block, of the windows whose numbers the axes before give. */
static void fold_elements(const fold_state *s, const char *plane, int64_t block, int64_t window_at,
                          const fold_rows *rows) {
  const window *w = &s->c.w;
  const int64_t taps = w->n > 1 ? w->kernel[w->n - 2] : 1;
  for (int64_t tap = 0; tap < taps; tap++) {
    const fold_element e = element_at(w, block, window_at, tap, rows);
    for (int64_t k = 0; k < w->kernel[w->n - 1] && e.first < e.after; k++) add_element(s, plane, &e, k, rows);
  }
}

/* The windows over the rows from leading axis `axis` on; block and window: the numbers that the axes before give. One
 * row has its windows as a place along a leading axis has: from the last one to the first, which is the order of their
 * elements. */
static void fold_axis(const fold_state *s, int32_t axis, const int64_t *at, const char *plane, int64_t block,
                      int64_t window_at, const fold_rows *rows) {
  const window *w = &s->c.w;
  const int32_t inner = w->n - 2;
  if (inner < 0 || (axis == inner && rows->after - rows->first > 1)) {
    fold_elements(s, plane, block, window_at, rows);
    return;
  }
  const int64_t place = (axis == inner ? rows->first : at[axis]) + w->pad_begin[axis],
                reach = (w->kernel[axis] - 1) * w->dilation[axis];
  int64_t o = place / w->stride[axis];
  if (o >= w->out[axis]) o = w->out[axis] - 1;
  for (; o >= 0 && place - o * w->stride[axis] <= reach; o--) {
    const int64_t from_origin = place - o * w->stride[axis],
                  number = block * w->kernel[axis] + from_origin / w->dilation[axis];
    if (from_origin % w->dilation[axis] != 0) continue;
    if (axis < inner) {
      fold_axis(s, axis + 1, at, plane, number, window_at * w->out[axis] + o, rows);
      continue;
    }
    const fold_element e = {.block = number,
                            .origin = from_origin - w->pad_begin[axis],
                            .window = window_at * w->out[axis] * w->out[w->n - 1],
                            .first = o,
                            .after = o + 1};
    for (int64_t k = 0; k < w->kernel[w->n - 1]; k++) add_element(s, plane, &e, k, rows);
  }
}

/* True if windows share rows; others have one each, which rows that are taken together would look for in vain. */
static bool windows_overlap(const window *w) {
  return w->n > 1 && (w->kernel[w->n - 2] - 1) * w->dilation[w->n - 2] >= w->stride[w->n - 2];
}

/* Rows begin..end-1 of all images. */
static void fold_range(void *context, int64_t begin, int64_t end) {
  const fold_job *job = context;
  const fold_state *s = job->s;
  const window *w = &s->c.w;
  const int64_t width = w->in[w->n - 1], rows = s->c.image / width, inner = w->n > 1 ? w->in[w->n - 2] : 1,
                row_bytes = width * s->bytes,
                most = windows_overlap(w) && ROWS_BYTES / row_bytes > 1 ? ROWS_BYTES / row_bytes : 1;
  memset(job->y + begin * row_bytes, 0, (size_t)((end - begin) * row_bytes));
  for (int64_t i = begin, n; i < end && s->c.windows && !cpu_cancelled(&s->c.team); i += n) {
    int64_t at[WINDOW_MAX_AXES] = {0};
    const int64_t first = i % inner;
    n = inner - first < end - i ? inner - first : end - i;
    if (n > most) n = most;
    for (int64_t axis = w->n - 3, rest = i % rows / inner; axis >= 0; axis--) {
      at[axis] = rest % w->in[axis];
      rest /= w->in[axis];
    }
    const fold_rows some = {first, first + n, job->y + i * row_bytes};
    fold_axis(s, 0, at, job->x + i / rows * s->c.block * s->c.windows * s->bytes, 0, 0, &some);
  }
}

static reed_status run_col2im(const void *state, const reed_kernel_buffers *buffers) {
  const fold_state *s = state;
  const col2im *c = &s->c;
  if (c->planes == 0 || c->image == 0) return REED_OK;
  fold_job job = {s, buffers->inputs[0], buffers->outputs[0]};
  int64_t rows = c->planes * (c->image / c->w.in[c->w.n - 1]);
  cpu_team team = cpu_team_for(c->team, c->planes * (c->block * c->windows * 2 + c->image) * s->bytes);
  return cpu_parallel(team, rows, 1, fold_range, &job);
}

reed_status cpu_prepare_col2im(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fold_state s;
  reed_status status = col2im_read(call, &s.c);
  if (status != REED_OK) return status;
  s.bytes = (int64_t)reed_dtype_bytes(s.c.dtype);
  s.add = add_of(s.c.dtype);
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_col2im, state);
  return REED_OK;
}
