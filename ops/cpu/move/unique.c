/* Unique (ONNX opset 11): the slices along an axis that differ, or without an axis the elements. Slices are ordered by
 * one stable radix sort for each of their elements, from the last to the first, so that equal ones stand side by side
 * in the order of their places. As in numpy, -0 equals 0, and NaNs equal each other and come last. */
#include "base/half.h"
#include "ops/cpu/common/common.h"

enum { UNIQUE_Y, UNIQUE_INDICES, UNIQUE_INVERSE, UNIQUE_COUNTS, UNIQUE_OUTPUTS };
enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, KEY_DIGITS = 8 };

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

/* Workspace, n items each. */
typedef struct unique_work {
  keyed *order, *spare; /* of the slices; spare: for the sort */
  int64_t *group;       /* of the slice at a place */
  int64_t *first;       /* place of a group's first slice */
  uint8_t *begins;      /* the slice at this rank differs from the one before */
} unique_work;

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

/* Element `column` of each slice, a column being a place outside the axis. */
static void load_keys(const unique *u, const void *x, int64_t column, keyed *slices) {
  int64_t at = column / u->x.block * u->x.n * u->x.block + column % u->x.block, step = u->x.block;
#define LOAD(T, key_of) \
  for (int64_t i = 0; i < u->x.n; i++) slices[i].key = key_of(((const T *)x)[at + slices[i].place * step]); \
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

/* ---- order ---- */

/* Sorts by key, equal keys as they stand. Digits that all keys share are passed over. Returns the sorted one of the two
 * arrays. */
static keyed *sort_by_key(keyed *from, keyed *to, int64_t n) {
  int64_t count[KEY_DIGITS][DIGITS] = {0};
  for (int64_t i = 0; i < n; i++)
    for (int32_t d = 0; d < KEY_DIGITS; d++) count[d][from[i].key >> (d * DIGIT_BITS) & (DIGITS - 1)]++;
  for (int32_t d = 0; d < KEY_DIGITS; d++) {
    int32_t shift = d * DIGIT_BITS;
    int64_t *begin = count[d], at = 0;
    if (begin[from[0].key >> shift & (DIGITS - 1)] == n) continue;
    for (int32_t digit = 0; digit < DIGITS; digit++) {
      int64_t of_digit = begin[digit];
      begin[digit] = at;
      at += of_digit;
    }
    for (int64_t i = 0; i < n; i++) to[begin[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
    keyed *sorted = to;
    to = from;
    from = sorted;
  }
  return from;
}

/* Sorts the slices and marks those that begin a group. False if the run has been cancelled. */
static bool sort_slices(const unique *u, const void *x, unique_work *w) {
  int64_t columns = u->x.outer * u->x.block;
  for (int64_t i = 0; i < u->x.n; i++) w->order[i] = (keyed){.place = i};
  for (int64_t column = columns - 1; column >= 0; column--) {
    if (cpu_cancelled(&u->team)) return false;
    load_keys(u, x, column, w->order);
    keyed *sorted = sort_by_key(w->order, w->spare, u->x.n);
    if (sorted == w->order) continue;
    w->spare = w->order;
    w->order = sorted;
  }
  memset(w->begins, 0, (size_t)u->x.n);
  w->begins[0] = 1;
  for (int64_t column = 0; column < columns; column++) {
    if (cpu_cancelled(&u->team)) return false;
    load_keys(u, x, column, w->order);
    for (int64_t i = 1; i < u->x.n; i++) w->begins[i] |= w->order[i].key != w->order[i - 1].key;
  }
  return true;
}

/* Numbers the groups in ascending order, or by their first slices. Returns how many there are. */
static int64_t number_groups(const unique *u, unique_work *w) {
  int64_t groups = 0;
  for (int64_t i = 0; i < u->x.n; i++) {
    if (w->begins[i]) w->first[groups++] = w->order[i].place;
    w->group[w->order[i].place] = groups - 1;
  }
  if (u->sorted) return groups;
  int64_t *number = (int64_t *)w->spare, next = 0; /* of a group, by its number in ascending order */
  for (int64_t i = 0; i < u->x.n; i++)
    if (w->first[w->group[i]] == i) number[w->group[i]] = next++;
  next = 0;
  for (int64_t i = 0; i < u->x.n; i++) {
    w->group[i] = number[w->group[i]];
    if (w->group[i] == next) w->first[next++] = i;
  }
  return groups;
}

/* ---- the call ---- */

static void write_slices(const unique *u, const char *x, const int64_t *places, int64_t groups, char *y) {
  size_t bytes = (size_t)(u->x.block * u->element_bytes);
  for (int64_t o = 0; o < u->x.outer && bytes; o++)
    for (int64_t g = 0; g < groups; g++, y += bytes) memcpy(y, x + (o * u->x.n + places[g]) * (int64_t)bytes, bytes);
}

static unique_work work_of(const unique *u, void *workspace) {
  keyed *slices = workspace;
  int64_t *numbers = (int64_t *)(slices + 2 * u->x.n);
  return (unique_work){slices, slices + u->x.n, numbers, numbers + u->x.n, (uint8_t *)(numbers + 2 * u->x.n)};
}

static reed_status run(const void *state, const reed_kernel_buffers *buffers) {
  const unique *u = state;
  int64_t groups = 0;
  if (u->x.n) {
    void *out[UNIQUE_OUTPUTS] = {0};
    for (int32_t k = 0; k < u->n_outputs; k++) out[k] = buffers->outputs[k];
    unique_work w = work_of(u, buffers->workspace);
    if (!sort_slices(u, buffers->inputs[0], &w)) return REED_ERROR_CANCELLED;
    groups = number_groups(u, &w);
    write_slices(u, buffers->inputs[0], w.first, groups, out[UNIQUE_Y]);
    int64_t *counts = out[UNIQUE_COUNTS];
    if (out[UNIQUE_INDICES]) memcpy(out[UNIQUE_INDICES], w.first, (size_t)groups * sizeof *w.first);
    if (out[UNIQUE_INVERSE]) memcpy(out[UNIQUE_INVERSE], w.group, (size_t)u->x.n * sizeof *w.group);
    if (counts) memset(counts, 0, (size_t)groups * sizeof *counts);
    for (int64_t i = 0; i < u->x.n && counts; i++) counts[w.group[i]]++;
  }
  for (int32_t k = 0; k < u->n_outputs; k++)
    if (k != UNIQUE_INVERSE) buffers->extents[k] = groups;
  return REED_OK;
}

reed_status cpu_prepare_unique(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_dtype dtype = call->inputs[0].dtype;
  unique *u = mem_calloc(1, sizeof *u);
  if (!u) return cpu_no_memory(call);
  *u = (unique){
      .team = cpu_env_team(call),
      .x = cpu_slices_of(call),
      .element_bytes = (int64_t)reed_dtype_bytes(dtype),
      .dtype = dtype,
      .n_outputs = call->n_outputs,
      .sorted = op_attr_int(call->attrs, "sorted"),
  };
  cpu_kernel_set(out_kernel, run, u);
  out_kernel->workspace_bytes = u->x.n * (int64_t)(2 * sizeof(keyed) + 2 * sizeof(int64_t) + 1);
  return REED_OK;
}
