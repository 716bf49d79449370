/* Resize (ONNX opset 19), N-dimensional. Nearest copies elements of any size, rows that repeat one row together; linear
 * and cubic f32 go axis by axis (interpolation is a product of axes), rows at a time, long ones by pieces. For f64 and
 * integers of up to 32 bits the lines of the input under a row of the output are summed to one line in double, which is
 * then interpolated along the row. Other dtypes interpolate in the reference. Upsample is the same operator under its
 * older name. The reference: reference/resize.c. */
#include "ops/cpu/calls/resize.h"
#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/resize_loops.h"

#define PIECE_WORK 16384 /* taps of a piece of a long row */

typedef struct resize_job {
  const resize *r;
  const void *x;
  void *y;
  size_t bytes;                              /* of an element */
  const resize_axis *axis;                   /* of this pass; mode nearest: the last axis, NULL if its extent stays */
  const resize_axis *leading[REED_MAX_RANK]; /* mode nearest: of each axis, NULL if its extent stays */
  int64_t inner;
  int64_t piece, n_pieces; /* of a row along the last axis */
  void *workspace;
} resize_job;

/* Divides a row of `width` elements of `taps` taps each. */
static void set_pieces(resize_job *job, int64_t width, int64_t taps) {
  job->piece = taps < PIECE_WORK ? PIECE_WORK / taps : 1;
  job->n_pieces = (width + job->piece - 1) / job->piece;
}

static int64_t piece_size(const resize_job *job, int64_t first, int64_t width) {
  return width - first < job->piece ? width - first : job->piece;
}

static const resize_axis *axis_of(const resize *r, int32_t axis) {
  for (int32_t i = 0; i < r->n_axes; i++)
    if (r->axes[i].axis == axis) return &r->axes[i];
  return NULL;
}

/* ---- nearest ---- */

#define GATHER_ROW(T) \
  for (int64_t i = 0; i < n; i++) ((T *)to)[i] = ((const T *)from)[index[i]]

static void gather_row(size_t bytes, const void *from, const int32_t *index, void *to, int64_t n) {
  switch (bytes) {
    case 1: GATHER_ROW(uint8_t); break;
    case 2: GATHER_ROW(uint16_t); break;
    case 4: GATHER_ROW(uint32_t); break;
    case 8: GATHER_ROW(uint64_t); break;
  }
}

/* How often each element of the axis is repeated, in order; 0: not all as often. */
static int64_t repeats_of(const resize_axis *a) {
  if (a->in == 0 || a->out % a->in != 0) return 0;
  const int64_t factor = a->out / a->in;
  for (int64_t i = 0; i < a->out; i++)
    if (a->index[i] != i / factor) return 0;
  return factor;
}

/* A piece of n elements, from element `first` on, of `rows` neighbouring rows of the output that repeat one row. */
static void nearest_rows(const resize_job *job, const char *source, int64_t first, int64_t n, char *target,
                         int64_t rows) {
  const int64_t bytes = (int64_t)job->bytes, step = job->r->y.dims[job->r->y.rank - 1] * bytes;
  if (job->r->repeats) {
    CPU_PICK(job->r->level, resize_repeat)
    (job->bytes, source + first / job->r->repeats * bytes, job->r->repeats, target, step, rows, n / job->r->repeats);
    return;
  }
  if (job->axis) gather_row(job->bytes, source, job->axis->index + first, target, n);
  else memcpy(target, source + first * bytes, (size_t)(n * bytes));
  for (int64_t i = 1; i < rows; i++) memcpy(target + i * step, target, (size_t)(n * bytes));
}

/* The input's row at coordinate 0 of the last leading axis and the others of row `row`, in elements from the start. */
static int64_t nearest_base(const resize_job *job, int64_t row) {
  const resize *r = job->r;
  const int32_t last = r->y.rank - 1;
  int64_t base = 0, stride = r->x.dims[last];
  for (int32_t axis = last - 1; axis >= 0; axis--) {
    const resize_axis *table = job->leading[axis];
    const int64_t at = row % r->y.dims[axis];
    row /= r->y.dims[axis];
    if (axis < last - 1) base += (table ? table->index[at] : at) * stride;
    stride *= r->x.dims[axis];
  }
  return base;
}

/* Pieces begin..end-1 of the output's rows: row by row, all pieces of a row before the next one, or where rows are
 * whole, neighbours that repeat one row together. */
static void nearest_pieces(void *context, int64_t begin, int64_t end) {
  const resize_job *job = context;
  const resize *r = job->r;
  const int32_t last = r->y.rank - 1;
  const int64_t width = r->y.dims[last], lines = last > 0 ? r->y.dims[last - 1] : 1, from_step = r->x.dims[last];
  const resize_axis *table = last > 0 ? job->leading[last - 1] : NULL;
  int64_t row = begin / job->n_pieces, first = begin % job->n_pieces * job->piece, at = row % lines,
          base = nearest_base(job, row);
  for (int64_t i = begin, rows; i < end; i += rows) {
    const int64_t n = piece_size(job, first, width), from = base + (table ? table->index[at] : at) * from_step;
    rows = 1;
    if (table && job->n_pieces == 1)
      while (i + rows < end && at + rows < lines && table->index[at + rows] == table->index[at]) rows++;
    nearest_rows(job, (const char *)job->x + (size_t)from * job->bytes, first, n,
                 (char *)job->y + (size_t)(row * width + first) * job->bytes, rows);
    first += n;
    if (first < width) continue;
    first = 0;
    row += rows;
    at += rows;
    if (at < lines) continue;
    at = 0;
    if (i + rows < end) base = nearest_base(job, row);
  }
}

/* ---- interpolation ---- */

/* Computes rows begin..end-1 of one pass: `inner` floats each, or pieces of rows if the pass's axis is the last. */
static void interpolate_rows(void *context, int64_t begin, int64_t end) {
  const resize_job *job = context;
  const resize_axis *a = job->axis;
  const float *x = job->x;
  float *y = job->y;
  if (job->inner == 1) {
    int64_t row = begin / job->n_pieces, first = begin % job->n_pieces * job->piece;
    for (int64_t i = begin; i < end; i++) {
      int64_t n = piece_size(job, first, a->out);
      CPU_PICK(job->r->level, gather_taps)
      (x + row * a->in, a->index + first * a->taps, a->weight + first * a->taps, a->taps, y + row * a->out + first, n);
      first += n;
      if (first < a->out) continue;
      first = 0;
      row++;
    }
    return;
  }
  for (int64_t row = begin, n; row < end; row += n) { /* as many rows as lie in one block of x */
    int64_t o = row % a->out;
    n = a->out - o < end - row ? a->out - o : end - row;
    CPU_PICK(job->r->level, mix_rows)
    (x + row / a->out * a->in * job->inner, a->index + o * a->taps, a->weight + o * a->taps, a->taps, job->inner,
     y + row * job->inner, n);
  }
}

/* Writes the extrapolation value to elements whose coordinate lies outside the input on some axis, converted to
 * the output's dtype. */
static void extrapolate(const resize *r, void *y) {
  int64_t n = desc_elements(&r->y);
  size_t bytes = reed_dtype_bytes(r->y.dtype);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i;
    bool outside = false;
    for (int32_t axis = r->y.rank - 1; axis >= 0; axis--) {
      const resize_axis *table = axis_of(r, axis);
      outside = outside || (table && table->outside && table->outside[rest % r->y.dims[axis]]);
      rest /= r->y.dims[axis];
    }
    if (outside) reed_dtype_write(r->y.dtype, (char *)y + (size_t)i * bytes, (double)r->extrapolation);
  }
}

static bool has_outside(const resize *r) {
  for (int32_t i = 0; i < r->n_axes; i++)
    if (r->axes[i].outside) return true;
  return false;
}

static reed_status run_nearest(const void *state, const reed_kernel_buffers *buffers) {
  const resize *r = state;
  int32_t last = r->y.rank - 1;
  resize_job job = {.r = r,
                    .x = buffers->inputs[0],
                    .y = buffers->outputs[0],
                    .bytes = reed_dtype_bytes(r->y.dtype),
                    .axis = axis_of(r, last)};
  for (int32_t axis = 0; axis < last; axis++) job.leading[axis] = axis_of(r, axis);
  const bool gathers = job.axis && !r->repeats; /* an element at a time, at an index */
  set_pieces(&job, r->y.dims[last], 1);
  if (r->repeats && job.n_pieces > 1) { /* whole repetitions */
    job.piece = (job.piece + r->repeats - 1) / r->repeats * r->repeats;
    job.n_pieces = (r->y.dims[last] + job.piece - 1) / job.piece;
  }
  reed_status status = cpu_parallel(cpu_team_for(r->team, desc_bytes(&r->y) * (gathers ? 5 : 4) / 4),
                                    cpu_product(r->y.dims, 0, last) * job.n_pieces, 1, nearest_pieces, &job);
  if (status != REED_OK) return status;
  if (has_outside(r)) extrapolate(r, buffers->outputs[0]);
  return REED_OK;
}

static reed_status run_interpolation(const void *state, const reed_kernel_buffers *buffers) {
  const resize *r = state;
  int64_t dims[REED_MAX_RANK];
  memcpy(dims, r->x.dims, sizeof dims);
  resize_job job = {.r = r, .x = buffers->inputs[0]};
  for (int32_t i = 0; i < r->n_axes; i++) {
    const resize_axis *a = &r->axes[i];
    bool final = i == r->n_axes - 1;
    job.axis = a;
    job.inner = cpu_product(dims, a->axis + 1, r->x.rank);
    job.y = final ? buffers->outputs[0] : (char *)buffers->workspace + (i % 2 ? r->first_bytes : 0);
    dims[a->axis] = a->out;
    int64_t outer = cpu_product(dims, 0, a->axis), elements = outer * a->out * job.inner;
    if (job.inner == 1) set_pieces(&job, a->out, a->taps);
    reed_status status = cpu_parallel(cpu_team_for(r->team, elements * a->taps * 4),
                                      outer * (job.inner == 1 ? job.n_pieces : a->out), 1, interpolate_rows, &job);
    if (status != REED_OK) return status;
    job.x = job.y;
  }
  if (has_outside(r)) extrapolate(r, buffers->outputs[0]);
  return REED_OK;
}

/* ---- interpolation in double ---- */

#define OUTPUTS_AT_ONCE 512

static bool takes_double(reed_dtype dtype) {
#define IS(DTYPE, T) || dtype == DTYPE
  return false RESIZE_DTYPES(IS);
#undef IS
}

/* Columns low..high-1 of the lines under a row of Y, summed. */
static void add_lines(const resize_job *job, int64_t row, int64_t low, int64_t high, double *line) {
  const resize *r = job->r;
  const int32_t last = r->y.rank - 1;
  int64_t fixed = 0, n_taps = 1, strides[REED_MAX_RANK], position[REED_MAX_RANK] = {0};
  cpu_dense_strides(r->x.rank, r->x.dims, strides);
  for (int32_t axis = last - 1; axis >= 0; axis--) {
    position[axis] = row % r->y.dims[axis];
    row /= r->y.dims[axis];
    const resize_axis *a = axis_of(r, axis);
    if (a) n_taps *= a->taps;
    else fixed += position[axis] * strides[axis];
  }
  for (int64_t tap = 0; tap < n_taps; tap++) {
    int64_t offset = fixed + low, rest = tap;
    double weight = 1;
    for (int32_t i = 0; i < r->n_axes; i++) {
      const resize_axis *a = &r->axes[i];
      if (a->axis == last) continue;
      const int64_t at = position[a->axis] * a->taps + rest % a->taps;
      rest /= a->taps;
      weight *= (double)a->weight[at];
      offset += a->index[at] * strides[a->axis];
    }
    CPU_PICK(r->level, resize_add_line)(r->x.dtype, job->x, offset, weight, tap > 0, line, high - low);
  }
}

/* Outputs first..first+n-1 of a row of Y. */
static void double_piece(const resize_job *job, int64_t row, int64_t first, int64_t n, double *line) {
  const resize *r = job->r;
  const resize_axis *a = job->axis;
  const int64_t width = r->y.dims[r->y.rank - 1], taps = a ? a->taps : 0;
  int64_t low = a ? a->index[first * taps] : first, high = a ? low + 1 : first + n;
  for (int64_t k = first * taps; k < (first + n) * taps; k++) {
    if (a->index[k] < low) low = a->index[k];
    if (a->index[k] >= high) high = a->index[k] + 1;
  }
  add_lines(job, row, low, high, line + low);
  for (int64_t done = 0, m; done < n; done += m) {
    double part[OUTPUTS_AT_ONCE];
    const int64_t from = first + done;
    m = n - done < OUTPUTS_AT_ONCE ? n - done : OUTPUTS_AT_ONCE;
    if (a) CPU_PICK(r->level, resize_along)(line, a->index + from * taps, a->weight + from * taps, taps, part, m);
    CPU_PICK(r->level, resize_put)(r->y.dtype, a ? part : line + from, job->y, row * width + from, m);
  }
}

/* Pieces begin..end-1 of the output's rows; each worker has a line in the workspace. */
static void double_pieces(void *context, int64_t begin, int64_t end, int32_t worker) {
  const resize_job *job = context;
  const int64_t width = job->r->y.dims[job->r->y.rank - 1];
  double *line = (double *)((char *)job->workspace + worker * job->r->first_bytes);
  for (int64_t i = begin; i < end; i++) {
    const int64_t first = i % job->n_pieces * job->piece;
    double_piece(job, i / job->n_pieces, first, piece_size(job, first, width), line);
  }
}

static reed_status run_double(const void *state, const reed_kernel_buffers *buffers) {
  const resize *r = state;
  const int32_t last = r->y.rank - 1;
  const int64_t width = r->y.dims[last];
  resize_job job = {.r = r, .x = buffers->inputs[0], .y = buffers->outputs[0], .workspace = buffers->workspace};
  job.axis = axis_of(r, last);
  int64_t lines = 1;
  for (int32_t i = 0; i < r->n_axes; i++)
    if (r->axes[i].axis != last) lines *= r->axes[i].taps;
  const int64_t taps = (job.axis ? job.axis->taps : 0) + (lines * r->x.dims[last] + width - 1) / width + 1;
  set_pieces(&job, width, taps);
  reed_status status = cpu_parallel_scratch(cpu_team_for(r->team, desc_elements(&r->y) * taps * 6),
                                            cpu_product(r->y.dims, 0, last) * job.n_pieces, 1, double_pieces, &job);
  if (status == REED_OK && has_outside(r)) extrapolate(r, buffers->outputs[0]);
  return status;
}

static reed_status run_copy(const void *state, const reed_kernel_buffers *buffers) {
  const resize *r = state;
  memcpy(buffers->outputs[0], buffers->inputs[0], (size_t)desc_bytes(&r->y));
  return REED_OK;
}

/* Places the passes' intermediate results: the first, third, ... in one part of the workspace, the others in a second
 * part. */
static void plan_workspace(resize *r) {
  int64_t dims[REED_MAX_RANK];
  memcpy(dims, r->x.dims, sizeof dims);
  for (int32_t i = 0; i + 1 < r->n_axes; i++) {
    dims[r->axes[i].axis] = r->axes[i].out;
    int64_t bytes = (cpu_product(dims, 0, r->x.rank) * 4 + 63) & ~(int64_t)63,
            *largest = i % 2 ? &r->second_bytes : &r->first_bytes;
    if (bytes > *largest) *largest = bytes;
  }
}

reed_status cpu_prepare_resize(const reed_kernel_call *call, reed_kernel *out_kernel) {
  resize *r;
  reed_status status = resize_open(call, &r);
  if (status != REED_OK) return status;
  const bool interpolates = !r->nearest && r->n_axes > 0;
  if (interpolates && takes_double(r->x.dtype) && desc_elements(&r->y) > 0) {
    r->first_bytes = (r->x.dims[r->x.rank - 1] * (int64_t)sizeof(double) + 63) & ~(int64_t)63; /* of a worker's line */
    *out_kernel = (reed_kernel){run_double, r, resize_free, r->first_bytes * r->team.threads, resize_bytes(r)};
    return REED_OK;
  }
  if (interpolates && r->x.dtype != REED_F32) {
    resize_free(r);
    return REED_OK;
  }
  plan_workspace(r);
  const resize_axis *rows = axis_of(r, r->y.rank - 1);
  if (r->nearest && rows) r->repeats = repeats_of(rows);
  reed_kernel_run_fn run = r->n_axes == 0 ? run_copy : r->nearest ? run_nearest : run_interpolation;
  *out_kernel = (reed_kernel){run, r, resize_free, r->nearest ? 0 : r->first_bytes + r->second_bytes, resize_bytes(r)};
  return REED_OK;
}
