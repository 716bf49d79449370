/* Unique (ONNX opset 11): the slices along an axis that differ, or without an axis the elements. Slices are ordered by
 * one stable radix sort for each of their elements, from the last to the first, so that equal ones stand side by side
 * in the order of their places. Few slices are compared from their first elements on, until all differ. As in numpy, -0
 * equals 0, and NaNs equal each other and come last.
 *
 * Several threads share every pass out by parts of the slices, in their present order: each part counts what it will
 * write, the counts of the parts before it are summed, and each part writes from there on. The results are exact. */
#include "base/half.h"
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/relay.h"

enum { UNIQUE_Y, UNIQUE_INDICES, UNIQUE_INVERSE, UNIQUE_COUNTS, UNIQUE_OUTPUTS };
enum { KEY_DIGITS = 8 };

typedef struct unique {
  cpu_team team;
  cpu_slices x;
  int64_t element_bytes;
  reed_dtype dtype;
  int32_t n_outputs;
  bool sorted;
} unique;

/* A slice by its place along the axis, with the key of one of its elements. */
typedef struct keyed {
  uint64_t key;
  int64_t place;
} keyed;

/* Workspace, n items each where nothing else is said. */
typedef struct unique_work {
  keyed *order, *spare; /* of the slices; spare: for the sort */
  int64_t *group;       /* of the slice at a place */
  int64_t *first;       /* place of a group's first slice */
  int64_t *rank;        /* of a group's first slice in `order`; n + 1 */
  int64_t *before;      /* by part: how many groups begin in it, then in the parts before */
  uint64_t *differing;  /* by part: the bits in which some keys differ from the first slice's */
  uint32_t *counts;     /* [part][value of a digit]: keys with it, then the place of the first one */
  uint8_t *begins;      /* the slice at this rank differs from the one before */
} unique_work;

/* A pass of a call. */
typedef struct unique_job {
  const unique *u;
  const void *x;
  unique_work w;
  int64_t n_parts, column, groups;
  int32_t digit;                  /* that is sorted by */
  int64_t *number, *number_first; /* by group in ascending order: its number by first slices; of that number: `first` */
  void *const *out;
} unique_job;

/* ---- keys: their ascending order is that of the elements ---- */

static uint64_t key_signed(int64_t x) { return (uint64_t)x ^ (UINT64_C(1) << 63); }

static uint64_t key_real(double x) {
  if (x != x) return UINT64_MAX;
  if (x == 0) x = 0; /* -0 */
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t key_f16(uint16_t x) { return key_real(f16_to_f32(x)); }
static uint64_t key_bf16(uint16_t x) { return key_real(bf16_to_f32(x)); }

/* Element `column` of slices begin..end-1, a column being a place outside the axis. */
static void load_keys(const unique *u, const void *x, int64_t column, keyed *slices, int64_t begin, int64_t end) {
  int64_t at = column / u->x.block * u->x.n * u->x.block + column % u->x.block, step = u->x.block;
#define LOAD(T, key_of) \
  for (int64_t i = begin; i < end; i++) slices[i].key = key_of(((const T *)x)[at + slices[i].place * step]); \
  break
  switch (u->dtype) {
    case REED_F32: LOAD(float, key_real);
    case REED_F64: LOAD(double, key_real);
    case REED_F16: LOAD(uint16_t, key_f16);
    case REED_BF16: LOAD(uint16_t, key_bf16);
    case REED_I8: LOAD(int8_t, key_signed);
    case REED_I16: LOAD(int16_t, key_signed);
    case REED_I32: LOAD(int32_t, key_signed);
    case REED_I64: LOAD(int64_t, key_signed);
    case REED_U8:
    case REED_BOOL: LOAD(uint8_t, (uint64_t));
    case REED_U16: LOAD(uint16_t, (uint64_t));
    case REED_U32: LOAD(uint32_t, (uint64_t));
    case REED_U64: LOAD(uint64_t, (uint64_t));
    case REED_NONE:
    case REED_DTYPE_COUNT: break;
  }
#undef LOAD
}

/* ---- parts ---- */

#define PART 6144

static int64_t part_begin(const unique_job *j, int64_t part) { return j->n_parts > 1 ? part * PART : 0; }
static int64_t part_end(const unique_job *j, int64_t part) {
  return part + 1 < j->n_parts ? (part + 1) * PART : j->u->x.n;
}

static uint32_t *counts_of(const unique_job *j, int64_t part) { return j->w.counts + part * CPU_DIGITS; }

static reed_status by_parts(unique_job *j, cpu_range_fn fn) {
  return cpu_parallel(cpu_team_for(j->u->team, j->u->x.n * 32), j->n_parts, 1, fn, j);
}

/* ---- order ---- */

static void number_slices(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  keyed *order = j->w.order;
  for (int64_t i = part_begin(j, begin), after = part_end(j, end - 1); i < after; i++) order[i] = (keyed){.place = i};
}

static void load_parts(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  load_keys(j->u, j->x, j->column, j->w.order, part_begin(j, begin), part_end(j, end - 1));
}

static void compare_keys(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const keyed *order = j->w.order;
  for (int64_t p = begin; p < end; p++) {
    uint64_t differing = 0, first = order[0].key;
    for (int64_t i = part_begin(j, p), after = part_end(j, p); i < after; i++) differing |= order[i].key ^ first;
    j->w.differing[p] = differing;
  }
}

static void count_digit(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const keyed *order = j->w.order;
  int32_t shift = j->digit * CPU_DIGIT_BITS;
  for (int64_t p = begin; p < end; p++) {
    int64_t count[CPU_DIGITS] = {0};
    for (int64_t i = part_begin(j, p), after = part_end(j, p); i < after; i++)
      count[order[i].key >> shift & (CPU_DIGITS - 1)]++;
    for (int value = 0; value < CPU_DIGITS; value++) counts_of(j, p)[value] = (uint32_t)count[value];
  }
}

static void sort_part(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const keyed *from = j->w.order;
  keyed *to = j->w.spare;
  int32_t shift = j->digit * CPU_DIGIT_BITS;
  for (int64_t p = begin; p < end; p++) {
    keyed *next[CPU_DIGITS];
    for (int value = 0; value < CPU_DIGITS; value++) next[value] = to + counts_of(j, p)[value];
    for (int64_t i = part_begin(j, p), after = part_end(j, p); i < after; i++)
      *next[from[i].key >> shift & (CPU_DIGITS - 1)]++ = from[i];
  }
}

/* Sorts by key, equal keys as they stand. Digits that all keys share are passed over. */
static reed_status sort_by_key(unique_job *j) {
  uint64_t differing = 0;
  reed_status status = by_parts(j, compare_keys);
  for (int64_t p = 0; p < j->n_parts && status == REED_OK; p++) differing |= j->w.differing[p];
  for (j->digit = 0; j->digit < KEY_DIGITS && status == REED_OK; j->digit++) {
    if (!(differing >> (j->digit * CPU_DIGIT_BITS) & (CPU_DIGITS - 1))) continue;
    status = by_parts(j, count_digit);
    if (status != REED_OK) return status;
    cpu_place_digits(j->w.counts, j->n_parts);
    status = by_parts(j, sort_part);
    keyed *sorted = j->w.spare;
    j->w.spare = j->w.order;
    j->w.order = sorted;
  }
  return status;
}

static void mark_begins(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const keyed *order = j->w.order;
  const bool first = j->column == 0;
  uint8_t *begins = j->w.begins;
  int64_t i = part_begin(j, begin);
  const int64_t after = part_end(j, end - 1);
  uint64_t before = i > 0 ? order[i - 1].key : ~order[0].key; /* slice 0 begins a group */
  for (; i < after; i++) {
    const uint64_t key = order[i].key;
    begins[i] = (uint8_t)((first ? 0 : begins[i]) | (key != before));
    before = key;
  }
}

/* ---- few slices ---- */

#define FEW 64 /* slices */
#define KEYS_A_STEP 4096

/* Sorts slices begin..end-1 of the order by their keys, equal keys as they stand, and marks those that differ from the
 * one before. True if two are equal. */
static bool part_group(const unique_job *j, int64_t begin, int64_t end) {
  keyed *order = j->w.order;
  bool equal = false;
  for (int64_t i = begin + 1; i < end; i++) {
    const keyed moved = order[i];
    int64_t at = i;
    for (; at > begin && order[at - 1].key > moved.key; at--) order[at] = order[at - 1];
    order[at] = moved;
  }
  for (int64_t i = begin + 1; i < end; i++) {
    j->w.begins[i] = order[i].key != order[i - 1].key;
    equal |= !j->w.begins[i];
  }
  return equal;
}

/* A step: the next columns part the groups of slices that were equal before them. */
static bool compare_columns(void *context, int64_t item, int64_t step, int32_t place) {
  (void)item, (void)place;
  const unique_job *j = context;
  const int64_t n = j->u->x.n, columns = j->u->x.outer * j->u->x.block, at_once = KEYS_A_STEP / n;
  bool equal = true;
  for (int64_t column = step * at_once; column < columns && column < (step + 1) * at_once && equal; column++) {
    load_keys(j->u, j->x, column, j->w.order, 0, n);
    equal = false;
    for (int64_t begin = 0, end; begin < n; begin = end) {
      for (end = begin + 1; end < n && !j->w.begins[end];) end++;
      if (end - begin > 1) equal |= part_group(j, begin, end);
    }
  }
  return equal && (step + 1) * at_once < columns;
}

/* ---- the groups ---- */

/* Sorts the slices and marks those that begin a group. */
static reed_status sort_slices(unique_job *j) {
  const int64_t n = j->u->x.n, columns = j->u->x.outer * j->u->x.block;
  reed_status status = by_parts(j, number_slices);
  if (n <= FEW && columns > 1 && status == REED_OK) {
    memset(j->w.begins, 0, (size_t)n);
    j->w.begins[0] = 1;
    return cpu_relay(cpu_team_for(j->u->team, n * columns * 8), 1, columns / (KEYS_A_STEP / n) + 1, compare_columns, j);
  }
  for (j->column = columns - 1; j->column >= 0 && status == REED_OK; j->column--) {
    status = by_parts(j, load_parts);
    if (status == REED_OK) status = sort_by_key(j);
  }
  if (columns == 0) memset(j->w.begins, 0, (size_t)j->u->x.n);
  for (j->column = 0; j->column < columns && status == REED_OK; j->column++) {
    if (j->column > 0) status = by_parts(j, load_parts); /* the first has been sorted by last */
    if (status == REED_OK) status = by_parts(j, mark_begins);
  }
  j->w.begins[0] = 1;
  return status;
}

/* ---- groups ---- */

static void count_begins(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  for (int64_t p = begin; p < end; p++) {
    int64_t n = 0;
    for (int64_t i = part_begin(j, p), after = part_end(j, p); i < after; i++) n += j->w.begins[i];
    j->w.before[p] = n;
  }
}

static void number_parts(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const keyed *order = j->w.order;
  const uint8_t *begins = j->w.begins;
  int64_t *first = j->w.first, *rank = j->w.rank, *group = j->w.group;
  const bool grouped = !j->u->sorted || j->out[UNIQUE_INVERSE];
  for (int64_t p = begin; p < end; p++)
    for (int64_t i = part_begin(j, p), after = part_end(j, p), groups = j->w.before[p]; i < after; i++) {
      const int64_t place = order[i].place;
      if (begins[i]) {
        first[groups] = place;
        rank[groups++] = i;
      }
      if (grouped) group[place] = groups - 1;
    }
}

/* As count_begins, of the slices as they stand in X. */
static void count_firsts(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const int64_t *first = j->w.first, *group = j->w.group;
  for (int64_t p = begin; p < end; p++) {
    int64_t n = 0;
    for (int64_t i = part_begin(j, p), after = part_end(j, p); i < after; i++) n += first[group[i]] == i;
    j->w.before[p] = n;
  }
}

static void number_by_firsts(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const int64_t *first = j->w.first, *group = j->w.group;
  int64_t *number = j->number, *number_first = j->number_first;
  for (int64_t p = begin; p < end; p++)
    for (int64_t i = part_begin(j, p), after = part_end(j, p), next = j->w.before[p]; i < after; i++)
      if (first[group[i]] == i) {
        number_first[next] = i;
        number[group[i]] = next++;
      }
}

static void renumber(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const int64_t *number = j->number;
  int64_t *group = j->w.group;
  for (int64_t i = part_begin(j, begin), after = part_end(j, end - 1); i < after; i++) group[i] = number[group[i]];
}

/* Numbers the groups in ascending order, or by their first slices. */
static reed_status number_groups(unique_job *j) {
  reed_status status = by_parts(j, count_begins);
  if (status != REED_OK) return status;
  j->groups = cpu_sum_before(j->w.before, j->n_parts, 0);
  j->w.rank[j->groups] = j->u->x.n;
  status = by_parts(j, number_parts);
  j->number_first = j->w.first;
  if (j->u->sorted || status != REED_OK) return status;
  j->number = (int64_t *)j->w.spare;
  j->number_first = j->number + j->u->x.n;
  status = by_parts(j, count_firsts);
  if (status != REED_OK) return status;
  (void)cpu_sum_before(j->w.before, j->n_parts, 0);
  status = by_parts(j, number_by_firsts);
  return status == REED_OK ? by_parts(j, renumber) : status;
}

/* ---- the call ---- */

/* Writes slices begin..end-1 of Y, which are [outer][group]. */
static void write_slices(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  const size_t bytes = (size_t)(j->u->x.block * j->u->element_bytes);
  const int64_t *places = j->number_first, n = j->u->x.n;
  char *y = (char *)j->out[UNIQUE_Y] + begin * (int64_t)bytes;
  int64_t o = begin / j->groups, g = begin % j->groups;
  for (int64_t i = begin; i < end; i++, y += bytes) {
    const char *from = (const char *)j->x + (o * n + places[g]) * (int64_t)bytes;
    if (bytes == sizeof(uint32_t)) memcpy(y, from, sizeof(uint32_t));
    else if (bytes == sizeof(uint64_t)) memcpy(y, from, sizeof(uint64_t));
    else memcpy(y, from, bytes);
    if (++g < j->groups) continue;
    g = 0;
    o++;
  }
}

/* The other outputs of groups begin..end-1. */
static void write_groups(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  int64_t *indices = j->out[UNIQUE_INDICES], *counts = j->out[UNIQUE_COUNTS];
  if (indices) memcpy(indices + begin, j->number_first + begin, (size_t)(end - begin) * sizeof *indices);
  for (int64_t g = begin; g < end && counts; g++)
    counts[j->number ? j->number[g] : g] = j->w.rank[g + 1] - j->w.rank[g];
}

static void write_inverse(void *context, int64_t begin, int64_t end) {
  const unique_job *j = context;
  memcpy((int64_t *)j->out[UNIQUE_INVERSE] + begin, j->w.group + begin, (size_t)(end - begin) * sizeof(int64_t));
}

static reed_status write_all(unique_job *j) {
  const unique *u = j->u;
  int64_t slices = u->x.block > 0 ? u->x.outer * j->groups : 0;
  cpu_team team = cpu_team_for(u->team, slices * (u->x.block * u->element_bytes + 16)),
           team_of_groups = cpu_team_for(u->team, j->groups * 32), team_of_places = cpu_team_for(u->team, u->x.n * 16);
  reed_status status = slices ? cpu_parallel(team, slices, 1, write_slices, j) : REED_OK;
  if (status == REED_OK && (j->out[UNIQUE_INDICES] || j->out[UNIQUE_COUNTS]))
    status = cpu_parallel(team_of_groups, j->groups, 1, write_groups, j);
  if (status == REED_OK && j->out[UNIQUE_INVERSE]) status = cpu_parallel(team_of_places, u->x.n, 1, write_inverse, j);
  return status;
}

static int64_t parts_of(const unique *u) { return u->team.threads > 1 && u->x.n ? (u->x.n + PART - 1) / PART : 1; }

static unique_work work_of(const unique *u, void *workspace) {
  unique_work w = {.order = workspace};
  int64_t n = u->x.n, parts = parts_of(u);
  w.spare = w.order + n;
  w.group = (int64_t *)(w.spare + n);
  w.first = w.group + n;
  w.rank = w.first + n;
  w.before = w.rank + n + 1;
  w.differing = (uint64_t *)(w.before + parts);
  w.counts = (uint32_t *)(w.differing + parts);
  w.begins = (uint8_t *)(w.counts + parts * CPU_DIGITS);
  return w;
}

static reed_status run(const void *state, const reed_kernel_buffers *buffers) {
  const unique *u = state;
  unique_job j = {.u = u, .x = buffers->inputs[0], .n_parts = parts_of(u)};
  if (u->x.n) {
    void *out[UNIQUE_OUTPUTS] = {0};
    for (int32_t k = 0; k < u->n_outputs; k++) out[k] = buffers->outputs[k];
    j.w = work_of(u, buffers->workspace);
    j.out = out;
    reed_status status = sort_slices(&j);
    if (status == REED_OK) status = number_groups(&j);
    if (status == REED_OK) status = write_all(&j);
    if (status != REED_OK) return status;
  }
  for (int32_t k = 0; k < u->n_outputs; k++)
    if (k != UNIQUE_INVERSE) buffers->extents[k] = j.groups;
  return REED_OK;
}

reed_status cpu_prepare_unique(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_dtype dtype = call->inputs[0].dtype;
  const cpu_slices x = cpu_slices_of(call);
  if (x.n > UINT32_MAX) /* 240 GB of workspace */
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%lld slices are too many", (long long)x.n);
  unique *u = mem_calloc(1, sizeof *u);
  if (!u) return cpu_no_memory(call);
  *u = (unique){
      .team = cpu_env_team(call),
      .x = x,
      .element_bytes = (int64_t)reed_dtype_bytes(dtype),
      .dtype = dtype,
      .n_outputs = call->n_outputs,
      .sorted = op_attr_int(call->attrs, "sorted"),
  };
  cpu_kernel_set(out_kernel, run, u);
  int64_t numbers = 3 * x.n + 1 + parts_of(u) * 2, counts = parts_of(u) * CPU_DIGITS;
  out_kernel->workspace_bytes = x.n * (int64_t)(2 * sizeof(keyed) + sizeof(uint8_t)) +
                                numbers * (int64_t)sizeof(int64_t) + counts * (int64_t)sizeof(uint32_t);
  return REED_OK;
}
