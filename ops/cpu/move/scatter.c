/* ScatterElements and ScatterND (ONNX 18): a copy of data, then the updates, those of one element in order, so that
 * with reduction `none` the last one stays. Threads share out the lines along the axis, long ones by steps of some
 * rows, the elements of long updates, or else stripes of the output, each with the list of its updates in order, which
 * is applied in steps, because all updates may meet in one stripe. The output may share data's memory. The reference:
 * reference/movement.c. Reading by indices: gather.c. */
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/formulas/formulas.h"
#include "ops/cpu/move/movement.h"
#include "ops/cpu/move/scatter_loops.h"

typedef struct scatter_state {
  strided_copy copy;      /* data to output */
  cpu_team team, checks;  /* for the updates, and for the checks of their places */
  elementwise_fn combine; /* NULL: replace */
  scatter_fn elements;    /* for updates of one element each; NULL: there is no such loop */
  convert_fn load, store; /* the half dtypes combine in f32; NULL: none */
  reed_dtype index_dtype;
  int32_t rank, axis;                                     /* ScatterElements */
  bool by_slices;                                         /* ScatterND */
  int32_t n_components;                                   /* ScatterND: length of an index tuple */
  int64_t n;                                              /* updates: elements, or slices */
  int64_t block, size;                                    /* elements in an update, bytes of an element */
  int64_t extents[REED_MAX_RANK], strides[REED_MAX_RANK]; /* of data, in elements */
  int64_t walk[REED_MAX_RANK];                            /* ScatterElements: extents of indices */
  int64_t lines, inner;          /* ScatterElements: lines along the axis; of them neighbours in the indices */
  bool dense;                    /* neighbours are neighbours in the output, too */
  int64_t item_lines, step_rows; /* lines that one thread updates, and rows of them in a step */
  bool striped, alone;           /* alone: one thread applies all updates, in steps */
  int64_t n_groups, n_stripes;   /* groups of GROUP updates; stripes of the output */
  int32_t stripe_bits;           /* a stripe has so many bits of a place */
  int64_t step_updates;          /* applied in one step */
} scatter_state;

#define GROUP ((int64_t)4096)
#define MOST_STRIPES 256
#define LINE 64           /* bytes */
#define LONG_UPDATE 16384 /* bytes, from which on the elements of updates are shared out */
/* Work of an update besides its bytes: its place is found; an element of it is replaced or combined, by a call. */
#define PLACE_WORK 80
#define COMBINE_WORK 128
#define ELEMENT_WORK 32 /* of an update of one element by a loop of its own, where the output is in the caches */
/* Extent of the axis and bytes of the output, from which on places may each be in a line of memory of its own. */
#define FAR_EXTENT 64
#define FAR_BYTES ((int64_t)1 << 20)
#define LIST_WORK 60                          /* of an update in the list of its stripe */
#define PHASES_WORK (2 * CPU_WORK_PER_THREAD) /* threads wait for each other three times */

/* An update in the list of a stripe. place: in the output, in elements. */
typedef struct scatter_update {
  uint32_t number, place;
} scatter_update;

typedef struct scatter_job {
  const scatter_state *s;
  const void *indices;
  const char *updates;
  char *out;
  /* the workspace, if striped */
  scatter_update *order; /* stripe by stripe */
  uint32_t *places;      /* of each update in the output, in elements */
  uint32_t *begins;      /* [group][stripe]: how many updates, later the place in `order` */
} scatter_job;

#define BLOCK 256
#define NARROW 16 /* elements, for fewer of which vectors are not worth their start */

/* to[0..n) = combine(to, update) */
static void apply(const scatter_state *s, char *to, const char *update, int64_t n) {
  static const elementwise_parameters none = {0, 0};
  static const uint8_t steps[2] = {1, 1};
  if (!s->combine) {
    copy_block(to, update, n * s->size);
  } else if (!s->load) {
    s->combine(to, (const void *const[]){to, update}, steps, n, &none);
  } else {
    float a[BLOCK], b[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
      int64_t m = n - i < BLOCK ? n - i : BLOCK;
      s->load(a, to + i * s->size, m);
      s->load(b, update + i * s->size, m);
      s->combine(a, (const void *const[]){a, b}, steps, m, &none);
      s->store(to + i * s->size, a, m);
    }
  }
}

/* Updates of one element each, at places[k]. */
static void apply_elements(const scatter_job *job, const int64_t *places, const char *updates, int64_t n) {
  const scatter_state *s = job->s;
  if (s->elements) {
    s->elements(job->out, places, updates, n);
    return;
  }
  for (int64_t k = 0; k < n; k++) apply(s, job->out + places[k] * s->size, updates + k * s->size, 1);
}

/* ---- places ---- */

/* The coordinates of position `index` of the indices, in dims begin..end-1, added to the place `base`. */
static int64_t seek(const scatter_state *s, int32_t begin, int32_t end, int64_t index, int64_t base,
                    int64_t *coordinates) {
  for (int32_t d = end - 1; d >= begin; d--) {
    coordinates[d] = index % s->walk[d];
    index /= s->walk[d];
    base += coordinates[d] * s->strides[d];
  }
  return base;
}

/* The place after `base` in dims begin..end-1. */
static inline int64_t step(const scatter_state *s, int32_t begin, int32_t end, int64_t base, int64_t *coordinates) {
  for (int32_t d = end - 1; d >= begin; d--) {
    base += s->strides[d];
    if (++coordinates[d] < s->walk[d]) break;
    base -= s->strides[d] * s->walk[d];
    coordinates[d] = 0;
  }
  return base;
}

/* places[k] = base + k * neighbour + step * (index i + k of the indices) */
static void add_indices(const scatter_job *job, int64_t i, int64_t base, int64_t neighbour, int64_t step, int64_t n,
                        int64_t *places) {
  const int64_t extent = job->s->extents[job->s->axis];
#define PLACES_OF(T) \
  for (int64_t k = 0; k < n; k++) { \
    const int64_t index = ((const T *)job->indices)[i + k]; \
    places[k] = base + k * neighbour + step * (index + (index < 0 ? extent : 0)); \
  }
  if (job->s->index_dtype == REED_I32) PLACES_OF(int32_t)
  else PLACES_OF(int64_t)
#undef PLACES_OF
}

/* The same for rows of few neighbours, the first element of which is neighbour `column` of its row. */
static void add_narrow_indices(const scatter_job *job, int64_t i, int64_t column, int64_t base, int64_t step, int64_t n,
                               int64_t *places) {
  const int64_t extent = job->s->extents[job->s->axis], inner = job->s->inner;
#define PLACES_OF(T) \
  for (int64_t k = 0; k < n; k++) { \
    const int64_t index = ((const T *)job->indices)[i + k]; \
    places[k] = base + column + step * (index + (index < 0 ? extent : 0)); \
    if (++column == inner) column = 0; \
  }
  if (job->s->index_dtype == REED_I32) PLACES_OF(int32_t)
  else PLACES_OF(int64_t)
#undef PLACES_OF
}

/* The places of elements i..i+n-1 of the indices, which lie from line `column` on in rows of the outer coordinate whose
 * place is `base`: in one row, or where the rows of a stretch are whole in several. */
static void element_places(const scatter_job *job, int64_t i, int64_t column, int64_t base, int64_t n,
                           int64_t *places) {
  const scatter_state *s = job->s;
  const int64_t step_of_axis = s->strides[s->axis];
  if (s->dense && (n < NARROW || (s->inner < NARROW && s->inner > 1))) {
    add_narrow_indices(job, i, column, base, step_of_axis, n, places);
    return;
  }
  if (s->inner == 1) {
    add_indices(job, i, base, 0, step_of_axis, n, places);
    return;
  }
  for (int64_t done = 0, some; done < n; done += some, column = 0) {
    some = s->inner - column < n - done ? s->inner - column : n - done;
    if (s->dense) {
      add_indices(job, i + done, base + column, 1, step_of_axis, some, places + done);
      continue;
    }
    int64_t coordinates[REED_MAX_RANK], at = seek(s, s->axis + 1, s->rank, column, base, coordinates);
    for (int64_t k = 0; k < some; k++, at = step(s, s->axis + 1, s->rank, at, coordinates))
      add_indices(job, i + done + k, at, 0, step_of_axis, 1, places + done + k);
  }
}

/* The place of the slice that update i of ScatterND changes. */
static inline int64_t slice_place(const scatter_job *job, int64_t i) {
  const scatter_state *s = job->s;
  int64_t at = 0;
  for (int32_t d = 0; d < s->n_components; d++)
    at += cpu_index_wrapped(s->index_dtype, job->indices, i * s->n_components + d, s->extents[d]) * s->strides[d];
  return at;
}

/* ---- in order ---- */

/* Elements i..i+n-1 of the indices; column and base as for element_places. */
static void apply_stretch(const scatter_job *job, int64_t i, int64_t column, int64_t base, int64_t n) {
  const scatter_state *s = job->s;
  int64_t places[BLOCK];
  for (int64_t done = 0, some; done < n && !cpu_cancelled_at(&s->team, done); done += some) {
    some = n - done < BLOCK ? n - done : BLOCK;
    element_places(job, i + done, (column + done) % s->inner, base, some, places);
    apply_elements(job, places, job->updates + (i + done) * s->size, some);
  }
}

/* n neighbours of each of `rows` rows, fewer than a row has; the first is element i of the indices. */
static void apply_narrow(const scatter_job *job, int64_t i, int64_t column, int64_t base, int64_t n, int64_t rows) {
  const scatter_state *s = job->s;
  int64_t places[BLOCK], filled = 0;
  _Alignas(int64_t) char updates[BLOCK * sizeof(int64_t)];
  for (int64_t row = 0; row < rows && !cpu_cancelled_at(&s->team, row); row++, i += s->inner) {
    element_places(job, i, column, base, n, places + filled);
    for (int64_t k = 0; k < n; k++)
      copy_block(updates + (filled + k) * s->size, job->updates + (i + k) * s->size, s->size);
    filled += n;
    if (filled + n <= BLOCK && row + 1 < rows) continue;
    apply_elements(job, places, updates, filled);
    filled = 0;
  }
}

/* All elements of outer coordinates begin..end-1, which have few each. */
static void apply_outers(const scatter_job *job, int64_t begin, int64_t end) {
  const scatter_state *s = job->s;
  const int64_t each = s->walk[s->axis] * s->inner;
  int64_t places[BLOCK], coordinates[REED_MAX_RANK], base = seek(s, 0, s->axis, begin, 0, coordinates);
  for (int64_t outer = begin, some; outer < end && !cpu_cancelled(&s->team); outer += some) {
    some = end - outer < BLOCK / each ? end - outer : BLOCK / each;
    for (int64_t k = 0; k < some; k++, base = step(s, 0, s->axis, base, coordinates))
      element_places(job, (outer + k) * each, 0, base, each, places + k * each);
    apply_elements(job, places, job->updates + outer * each * s->size, some * each);
  }
}

/* Rows first..after-1 of lines begin..end-1 of ScatterElements: for each outer coordinate a stretch of neighbours, row
 * after row. */
static void apply_rows(const scatter_job *job, int64_t begin, int64_t end, int64_t first_row, int64_t after) {
  const scatter_state *s = job->s;
  const int64_t rows = s->walk[s->axis];
  int64_t coordinates[REED_MAX_RANK];
  for (int64_t n; begin < end; begin += n) {
    const int64_t outer = begin / s->inner, column = begin % s->inner, whole = end / s->inner;
    if (column == 0 && first_row == 0 && after == rows && rows * s->inner <= BLOCK / 2 && whole > outer) {
      apply_outers(job, outer, whole);
      n = (whole - outer) * s->inner;
      continue;
    }
    const int64_t base = seek(s, 0, s->axis, outer, 0, coordinates), row = outer * rows + first_row;
    n = s->inner - column < end - begin ? s->inner - column : end - begin;
    if (n == s->inner) {
      apply_stretch(job, row * n, 0, base, (after - first_row) * n);
      continue;
    }
    if (n < NARROW) {
      apply_narrow(job, row * s->inner + column, column, base, n, after - first_row);
      continue;
    }
    for (int64_t k = 0; k < after - first_row && !cpu_cancelled_at(&s->team, k); k++)
      apply_stretch(job, (row + k) * s->inner + column, column, base, n);
  }
}

static void apply_lines(void *context, int64_t begin, int64_t end) {
  const scatter_job *job = context;
  apply_rows(job, begin, end, 0, job->s->walk[job->s->axis]);
}

/* A step of some lines: the next rows of them. */
static bool apply_some_rows(void *context, int64_t item, int64_t step, int32_t place) {
  (void)place;
  const scatter_job *job = context;
  const scatter_state *s = job->s;
  const int64_t begin = item * s->item_lines,
                lines = s->lines - begin < s->item_lines ? s->lines - begin : s->item_lines, row = step * s->step_rows,
                left = s->walk[s->axis] - row;
  apply_rows(job, begin, begin + lines, row, row + (left < s->step_rows ? left : s->step_rows));
  return left > s->step_rows;
}

static reed_status run_lines(scatter_job *job) {
  const scatter_state *s = job->s;
  if (s->team.threads == 1 && !s->alone)
    return cpu_parallel(s->team, s->lines, s->inner < NARROW ? s->inner : NARROW, apply_lines, job);
  const int64_t items = (s->lines + s->item_lines - 1) / s->item_lines;
  return cpu_relay(s->team, items, items * ((s->walk[s->axis] + s->step_rows - 1) / s->step_rows), apply_some_rows,
                   job);
}

/* Updates begin..end-1 of ScatterND, of one element each. */
static void apply_tuples(const scatter_job *job, int64_t begin, int64_t end) {
  int64_t places[BLOCK];
  for (int64_t i = begin, some; i < end; i += some) {
    some = end - i < BLOCK ? end - i : BLOCK;
    for (int64_t k = 0; k < some; k++) places[k] = slice_place(job, i + k);
    apply_elements(job, places, job->updates + i * job->s->size, some);
  }
}

/* All updates of ScatterND, of their elements only begin..end-1. */
static void apply_columns(void *context, int64_t begin, int64_t end) {
  const scatter_job *job = context;
  const scatter_state *s = job->s;
  for (int64_t i = 0; i < s->n; i++) {
    if (cpu_cancelled_at(&s->team, i)) return;
    apply(s, job->out + (slice_place(job, i) + begin) * s->size, job->updates + (i * s->block + begin) * s->size,
          end - begin);
  }
}

/* A step of all updates of ScatterND. */
static bool apply_some(void *context, int64_t item, int64_t step, int32_t place) {
  (void)item, (void)place;
  const scatter_job *job = context;
  const scatter_state *s = job->s;
  const int64_t begin = step * s->step_updates, left = s->n - begin,
                end = begin + (left < s->step_updates ? left : s->step_updates);
  if (s->block == 1) apply_tuples(job, begin, end);
  for (int64_t i = begin; i < end && s->block > 1; i++)
    apply(s, job->out + slice_place(job, i) * s->size, job->updates + i * s->block * s->size, s->block);
  return left > s->step_updates;
}

/* ---- by stripes of the output ---- */

/* The places of updates begin..end-1 of ScatterElements. */
static void find_elements(const scatter_job *job, int64_t begin, int64_t end) {
  const scatter_state *s = job->s;
  const int64_t stretch = s->walk[s->axis] * s->inner; /* elements of an outer coordinate */
  int64_t coordinates[REED_MAX_RANK], places[BLOCK];
  for (int64_t i = begin, some; i < end; i += some) {
    const int64_t left = stretch - i % stretch, base = seek(s, 0, s->axis, i / stretch, 0, coordinates);
    some = end - i < left ? end - i : left;
    if (some > BLOCK) some = BLOCK;
    element_places(job, i, i % s->inner, base, some, places);
    for (int64_t k = 0; k < some; k++) job->places[i + k] = (uint32_t)places[k];
  }
}

/* Finds the places of the updates of groups begin..end-1, and counts them by stripe. */
static void find_places(void *context, int64_t begin_group, int64_t end_group) {
  const scatter_job *job = context;
  const scatter_state *s = job->s;
  for (int64_t group = begin_group; group < end_group; group++) {
    int64_t begin = group * GROUP, end = begin + GROUP < s->n ? begin + GROUP : s->n;
    uint32_t *count = job->begins + group * s->n_stripes;
    if (!s->by_slices) find_elements(job, begin, end);
    for (int64_t i = begin; i < end && s->by_slices; i++) job->places[i] = (uint32_t)slice_place(job, i);
    memset(count, 0, (size_t)s->n_stripes * sizeof *count);
    for (int64_t i = begin; i < end; i++) count[job->places[i] >> s->stripe_bits]++;
  }
}

/* Turns the counts into places: stripe after stripe, and in a stripe group after group. */
static void place_groups(const scatter_job *job) {
  const int64_t n_stripes = job->s->n_stripes, n = job->s->n_groups * n_stripes;
  uint32_t next[MOST_STRIPES] = {0}, at = 0;
  for (int64_t first = 0; first < n; first += n_stripes)
    for (int64_t stripe = 0; stripe < n_stripes; stripe++) next[stripe] += job->begins[first + stripe];
  for (int64_t stripe = 0; stripe < n_stripes; stripe++) {
    const uint32_t updates = next[stripe];
    next[stripe] = at;
    at += updates;
  }
  for (int64_t first = 0; first < n; first += n_stripes)
    for (int64_t stripe = 0; stripe < n_stripes; stripe++) {
      const uint32_t updates = job->begins[first + stripe];
      job->begins[first + stripe] = next[stripe];
      next[stripe] += updates;
    }
}

static void list_groups(void *context, int64_t begin_group, int64_t end_group) {
  const scatter_job *job = context;
  const scatter_state *s = job->s;
  for (int64_t group = begin_group; group < end_group; group++) {
    int64_t end = (group + 1) * GROUP < s->n ? (group + 1) * GROUP : s->n;
    uint32_t *next = job->begins + group * s->n_stripes;
    for (int64_t i = group * GROUP; i < end; i++)
      job->order[next[job->places[i] >> s->stripe_bits]++] = (scatter_update){(uint32_t)i, job->places[i]};
  }
}

/* Updates begin..end-1 of the lists, of one element each. */
static void apply_listed(const scatter_job *job, int64_t begin, int64_t end) {
  const int64_t size = job->s->size;
  int64_t places[BLOCK];
  _Alignas(int64_t) char updates[BLOCK * sizeof(int64_t)];
  for (int64_t k = begin, some; k < end; k += some) {
    some = end - k < BLOCK ? end - k : BLOCK;
    for (int64_t i = 0; i < some; i++) {
      places[i] = job->order[k + i].place;
      copy_block(updates + i * size, job->updates + job->order[k + i].number * size, size);
    }
    apply_elements(job, places, updates, some);
  }
}

/* A step of a stripe: the next updates of its list. After list_groups the last group's places are the stripes' ends. */
static bool apply_updates(void *context, int64_t stripe, int64_t step, int32_t place) {
  (void)place;
  const scatter_job *job = context;
  const scatter_state *s = job->s;
  const uint32_t *ends = job->begins + (s->n_groups - 1) * s->n_stripes;
  const int64_t begin = (stripe ? ends[stripe - 1] : 0) + step * s->step_updates, left = ends[stripe] - begin;
  const int64_t end = begin + (left < s->step_updates ? left : s->step_updates);
  if (s->block == 1) apply_listed(job, begin, end);
  for (int64_t k = begin; k < end && s->block > 1; k++) {
    scatter_update u = job->order[k];
    apply(s, job->out + u.place * s->size, job->updates + u.number * s->block * s->size, s->block);
  }
  return left > s->step_updates;
}

static reed_status run_stripes(scatter_job *job, char *workspace) {
  const scatter_state *s = job->s;
  job->order = (scatter_update *)workspace;
  job->places = (uint32_t *)(job->order + s->n);
  job->begins = job->places + s->n;
  reed_status status = cpu_parallel(s->team, s->n_groups, 1, find_places, job);
  if (status != REED_OK) return status;
  place_groups(job);
  status = cpu_parallel(s->team, s->n_groups, 1, list_groups, job);
  if (status != REED_OK) return status;
  return cpu_relay(s->team, s->n_stripes, s->n_stripes + s->n / s->step_updates, apply_updates, job);
}

/* ---- the call ---- */

static reed_status run_scatter(const void *state, const reed_kernel_buffers *buffers) {
  const scatter_state *s = state;
  scatter_job job = {.s = s, .indices = buffers->inputs[1], .updates = buffers->inputs[2], .out = buffers->outputs[0]};
  reed_status status =
      s->by_slices
          ? cpu_tuples_check(buffers, s->checks, 1, s->index_dtype, job.indices, s->n, s->n_components, s->extents)
          : cpu_indices_check(buffers, s->checks, 1, s->index_dtype, job.indices, s->n, s->extents[s->axis]);
  if (status == REED_OK) status = strided_run(&s->copy, buffers->inputs[0], job.out);
  if (status != REED_OK || s->n == 0 || s->block == 0) return status;
  if (s->striped) return run_stripes(&job, buffers->workspace);
  if (s->by_slices && s->alone) return cpu_relay(s->team, 1, s->n / s->step_updates + 1, apply_some, &job);
  if (s->by_slices) return cpu_parallel(s->team, s->block, 64, apply_columns, &job);
  return run_lines(&job);
}

/* The formula of a reduction; bools add and multiply as or and and, which on 0 and 1 are max and min. */
static void find_combine(const reed_kernel_call *call, scatter_state *s) {
  static const int formulas[] = {-1, OP_Add, OP_Mul, OP_Max, OP_Min}, /* in the order of op.def */
      truths[] = {-1, OP_Max, OP_Min, OP_Max, OP_Min};
  int32_t reduction = op_attr_word(call->op, call->attrs, "reduction");
  if (!reduction) {
    s->elements = scatter_replacing(s->size);
    return;
  }
  reed_dtype dtype = call->inputs[0].dtype;
  bool truth = dtype == REED_BOOL, half = dtype == REED_F16 || dtype == REED_BF16;
  int formula = truth ? truths[reduction] : formulas[reduction];
  cpu_level level = cpu_level_now();
  s->combine = elementwise_formula(level, half ? REED_F32 : truth ? REED_U8 : dtype, formula);
  s->elements = scatter_combining(dtype, formula);
  s->load = half ? convert_between(level, dtype, REED_F32) : NULL;
  s->store = half ? convert_between(level, REED_F32, dtype) : NULL;
}

/* Opens a state with the parts that both operators share; NULL: no memory. */
static scatter_state *open_scatter(const reed_kernel_call *call) {
  const reed_desc *data = &call->inputs[0];
  scatter_state *s = mem_calloc(1, sizeof *s);
  if (!s) return NULL;
  s->index_dtype = call->inputs[1].dtype;
  s->size = (int64_t)reed_dtype_bytes(data->dtype);
  s->rank = data->rank;
  memcpy(s->extents, data->dims, sizeof s->extents);
  cpu_dense_strides(data->rank, data->dims, s->strides);
  strided_plan_bytes(&s->copy, desc_bytes(data), cpu_env_team(call));
  return s;
}

/* Plans the stripes: about as many as the team has chunks; where updates read elements, too, none is shorter than a
 * line of the cache. Returns the workspace's bytes; 0: the output is too small, or the lists take longer than they
 * save. work: of an update. */
static int64_t plan_stripes(scatter_state *s, int64_t n_out, int64_t work) {
  int64_t wanted = s->team.chunks < MOST_STRIPES ? s->team.chunks : MOST_STRIPES;
  while (n_out >> s->stripe_bits >= wanted || (s->combine && s->size << s->stripe_bits < LINE)) s->stripe_bits++;
  s->n_stripes = ((n_out - 1) >> s->stripe_bits) + 1;
  const int64_t alone = s->n * work, together = (alone + s->n * LIST_WORK) / s->team.threads + PHASES_WORK;
  s->striped = s->n_stripes >= s->team.threads && together < alone - alone / 8;
  if (!s->striped) return 0;
  s->n_groups = (s->n + GROUP - 1) / GROUP;
  return s->n * (int64_t)(sizeof(scatter_update) + sizeof(uint32_t)) +
         s->n_groups * s->n_stripes * (int64_t)sizeof(uint32_t);
}

/* Divides the lines of ScatterElements among the threads. False: there are too few. */
static bool divide_lines(scatter_state *s) {
  const int64_t rows = s->walk[s->axis] > 1 ? s->walk[s->axis] : 1, grain = s->inner < NARROW ? 1 : NARROW;
  s->item_lines = (s->step_updates / rows + grain) / grain * grain;
  s->step_rows = s->step_updates / s->item_lines + 1;
  return s->lines > (s->team.threads - 1) * s->item_lines;
}

/* Shares out the updates and closes the state. */
static reed_status close_scatter(const reed_kernel_call *call, scatter_state *s, reed_kernel *out_kernel) {
  int64_t n_out = desc_elements(&call->outputs[0]), bytes = s->block * s->size;
  find_combine(call, s);
  const bool by_loop = s->block == 1 && s->elements;
  const int64_t slow = PLACE_WORK + bytes + (s->combine && !by_loop ? COMBINE_WORK : 0),
                work = by_loop ? ELEMENT_WORK + bytes : slow;
  s->checks = cpu_env_team(call);
  s->team = cpu_team_for(s->checks, s->n * work);
  const bool far = !s->by_slices && s->extents[s->axis] >= FAR_EXTENT && n_out * s->size >= FAR_BYTES;
  s->step_updates = (far ? 1 : 2) * CPU_WORK_PER_CHUNK / slow + 1; /* places may be random */
  cpu_kernel_set(out_kernel, run_scatter, s);
  bool whole = s->by_slices ? bytes >= LONG_UPDATE : divide_lines(s);
  if (s->team.threads > 1 && !whole && n_out > 0 && n_out <= UINT32_MAX && s->n <= UINT32_MAX)
    out_kernel->workspace_bytes = plan_stripes(s, n_out, work);
  s->alone = !whole && !s->striped;
  if (s->alone) s->team.chunks = s->team.threads = 1;
  return REED_OK;
}

reed_status cpu_prepare_scatter_elements(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), data->rank);
  scatter_state *s = open_scatter(call);
  if (!s) return cpu_no_memory(call);
  s->axis = axis;
  s->n = desc_elements(indices);
  s->block = 1;
  s->inner = cpu_product(indices->dims, axis + 1, indices->rank);
  s->lines = cpu_product(indices->dims, 0, axis) * s->inner;
  memcpy(s->walk, indices->dims, sizeof s->walk);
  s->dense = true;
  for (int32_t d = axis + 2; d < data->rank; d++) s->dense = s->dense && indices->dims[d] == data->dims[d];
  return close_scatter(call, s, out_kernel);
}

reed_status cpu_prepare_scatter_nd(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *data = &call->inputs[0], *indices = &call->inputs[1], *updates = &call->inputs[2];
  int64_t k = indices->rank ? indices->dims[indices->rank - 1] : -1;
  bool fits = k >= 0 && k <= data->rank && updates->rank == indices->rank - 1 + data->rank - (int32_t)k;
  for (int32_t d = 0; d < updates->rank && fits; d++)
    fits = updates->dims[d] == (d < indices->rank - 1 ? indices->dims[d] : data->dims[k + d - (indices->rank - 1)]);
  if (!fits) return reed_kernel_fail(call, REED_ERROR_SHAPE, "data, indices and updates do not agree");
  scatter_state *s = open_scatter(call);
  if (!s) return cpu_no_memory(call);
  s->by_slices = true;
  s->n_components = (int32_t)k;
  s->n = cpu_product(indices->dims, 0, indices->rank - 1);
  s->block = cpu_product(data->dims, (int32_t)k, data->rank);
  return close_scatter(call, s, out_kernel);
}
