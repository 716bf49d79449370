/* Attention against its reference: lengths that end in odd places, heads that share keys, masks that broadcast, earlier
 * keys, halves; rows without a key to look at. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct attention_case {
  const char *what;
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;
  int64_t past;      /* -1: none given */
  int32_t mask_rank; /* -1: no mask */
  int64_t mask[4];   /* extents; 0 stands for no key, in the last */
  reed_dtype mask_dtype;
  bool causal, flat, lengths;
  double scale, softcap; /* 0: not given */
  int64_t left, right;   /* windows, with 1 added; 0: not given */
  bool to_last_key;
  double hidden;  /* 0: not given */
  int64_t padded; /* the number of first keys that a mask of floats hides by LOWEST */
} attention_case;

#define LOWEST -3.4028234663852886e38

static const attention_case cases[] = {
    {"one of everything", 1, 1, 1, 1, 1, 1, 1, -1, -1},
    {"short", 2, 3, 3, 4, 6, 8, 8, -1, -1},
    {"odd sizes", 2, 3, 3, 5, 7, 9, 11, -1, -1},
    {"wide heads", 1, 2, 2, 3, 5, 70, 8, -1, -1},
    {"several blocks", 1, 2, 2, 130, 300, 64, 64, -1, -1},
    {"one query", 2, 2, 2, 1, 517, 64, 64, -1, -1},
    {"more than a block of rows for each multiprocessor", 12, 11, 11, 17, 20, 8, 8, -1, -1}, /* for a large card */
    {"the same, wide heads", 12, 11, 11, 17, 20, 72, 40, -1, -1},
    {"one query of two keys", 2, 3, 3, 1, 2, 16, 24, -1, -1},
    {"one query of a block's keys", 1, 3, 3, 1, 128, 20, 36, -1, -1},
    {"one query of one key more", 1, 3, 3, 1, 129, 20, 16, -1, -1},
    {"few queries of one key", 2, 6, 3, 8, 1, 24, 40, -1, -1},
    {"few queries of one key, of which some see it", 2, 4, 2, 5, 1, 24, 9, -1, -1, .left = 3},
    {"one key beside numbers", 2, 4, 2, 3, 1, 24, 9, -1, 4, {2, 1, 3, 1}, REED_F32},
    {"one key, hidden of some", 2, 4, 2, 5, 1, 24, 9, -1, 4, {2, 4, 5, 1}, REED_BOOL},
    {"one key, hidden by a number", 2, 4, 2, 5, 1, 24, 9, -1, 4, {1, 4, 5, 1}, REED_BOOL, .hidden = LOWEST},
    {"one key, capped", 1, 8, 8, 1, 1, 24, 40, -1, -1, .softcap = 2},
    {"one key that is padding", 2, 4, 4, 1, 1, 24, 9, -1, 2, {1, 1}, REED_F32, .padded = 1},
    {"one key of whole vectors, hidden of some", 2, 4, 2, 5, 1, 32, 32, -1, 4, {2, 4, 5, 1}, REED_BOOL},
    {"one key of whole vectors beside numbers, capped", 2, 4, 4, 1, 1, 32, 32, -1, 2, {1, 1}, REED_F16, .softcap = 2},
    {"one key of whole vectors, of which some see it", 2, 4, 2, 5, 1, 32, 32, -1, -1, .left = 3},
    {"few queries of one earlier key", 1, 4, 1, 3, 0, 12, 3, 1, -1},
    {"few queries of one length", 3, 4, 2, 4, 1, 8, 8, -1, -1, .lengths = true},
    {"values whose columns reach over several rows", 2, 3, 3, 2, 20, 17, 3, -1, -1},
    {"one query of one column", 2, 3, 3, 1, 20, 1, 1, -1, -1},
    {"many queries of few columns", 1, 2, 2, 70, 131, 24, 5, -1, -1},
    {"one query of the window in earlier keys", 2, 3, 3, 1, 6, 16, 16, 140, -1, .left = 20, .to_last_key = true,
     .right = 1},
    {"one query of few lengths", 3, 2, 2, 1, 25, 16, 16, -1, -1, .causal = true, .lengths = true},
    {"a decoder's second step", 2, 3, 3, 1, 1, 16, 16, 1, -1, .causal = true},
    {"a window of the new key", 2, 3, 3, 1, 1, 16, 16, 30, -1, .causal = true, .left = 1},
    {"shared heads", 1, 6, 2, 9, 33, 16, 24, -1, -1},
    {"flat", 2, 4, 4, 70, 131, 16, 16, -1, -1, .flat = true},
    {"flat, shared heads, odd", 2, 4, 2, 3, 5, 7, 9, -1, -1, .flat = true},
    {"a mask of keys", 2, 3, 3, 67, 140, 8, 8, -1, 4, {2, 1, 1, 140}, REED_F32},
    {"a mask of queries and keys", 2, 3, 3, 67, 140, 8, 8, -1, 2, {67, 140}, REED_F32},
    {"a mask for all", 2, 3, 3, 5, 6, 8, 8, -1, 4, {2, 3, 5, 6}, REED_F32},
    {"a mask of heads", 2, 3, 3, 5, 6, 8, 8, -1, 3, {3, 1, 1}, REED_F32},
    {"a truth mask", 2, 3, 3, 67, 140, 8, 8, -1, 3, {1, 67, 140}, REED_BOOL},
    {"a mask of fewer keys", 2, 3, 3, 5, 140, 8, 8, -1, 2, {5, 131}, REED_F32},
    {"a mask of numbers", 1, 2, 2, 5, 6, 8, 8, -1, 2, {5, 6}, REED_I32},
    {"causal", 1, 2, 2, 150, 150, 8, 8, -1, -1, .causal = true},
    {"causal with a mask", 1, 2, 2, 9, 20, 8, 8, -1, 2, {9, 20}, REED_BOOL, .causal = true},
    {"earlier keys", 2, 4, 2, 5, 6, 8, 12, 7, -1},
    {"earlier keys, causal", 2, 2, 2, 70, 70, 8, 8, 131, -1, .causal = true},
    {"earlier keys, flat", 2, 2, 2, 3, 3, 8, 8, 4, -1, .causal = true, .flat = true},
    {"no earlier keys", 2, 2, 2, 3, 3, 8, 8, 0, -1},
    {"lengths", 3, 2, 2, 5, 20, 8, 8, -1, -1, .lengths = true},
    {"lengths, causal", 3, 2, 2, 5, 20, 8, 8, -1, -1, .causal = true, .lengths = true},
    {"scaled and capped", 1, 2, 2, 9, 20, 8, 8, -1, -1, .scale = 0.3, .softcap = 2},
    {"capped with a mask", 1, 2, 2, 9, 20, 8, 8, -1, 2, {9, 20}, REED_BOOL, .softcap = 0.5},
    {"a step of a decoder", 1, 8, 8, 1, 1, 64, 64, 1300, -1, .causal = true},
    {"a step with shared heads", 2, 12, 4, 1, 1, 32, 48, 700, 4, {2, 1, 1, 701}, REED_BOOL, .causal = true},
    {"one key head for all", 1, 7, 1, 3, 1111, 20, 36, -1, -1, .to_last_key = true, .causal = true},
    {"eight queries", 1, 4, 2, 8, 530, 16, 16, -1, 4, {1, 4, 8, 530}, REED_F32},
    {"nine queries", 1, 4, 2, 9, 530, 16, 16, -1, 4, {1, 4, 9, 530}, REED_F32},
    {"few flat queries", 2, 6, 3, 2, 600, 24, 8, -1, -1, .flat = true, .to_last_key = true, .causal = true},
    {"a window to the left", 1, 2, 2, 70, 200, 8, 8, -1, -1, .left = 18, .causal = true, .to_last_key = true},
    {"a window to both sides", 1, 2, 2, 150, 150, 8, 8, -1, -1, .left = 6, .right = 3},
    {"a window of a step", 2, 2, 1, 2, 2, 8, 8, 1200, -1, .left = 131, .causal = true},
    {"a window that begins behind the keys", 1, 2, 2, 40, 9, 8, 8, -1, -1, .left = 4},
    {"a window with lengths", 3, 2, 2, 2, 20, 8, 8, -1, -1, .left = 3, .causal = true, .lengths = true},
    {"few queries, capped and hidden", 1, 2, 2, 3, 20, 8, 8, -1, 2, {3, 20}, REED_BOOL, .softcap = 0.5, .hidden = -1.5},
    {"hidden by a number", 1, 2, 2, 30, 150, 8, 8, -1, 2, {30, 150}, REED_BOOL, .hidden = 0.25},
    {"padding, causal",
     2,
     3,
     3,
     20,
     20,
     8,
     8,
     -1,
     4,
     {2, 1, 1, 20},
     REED_F32,
     .causal = true,
     .hidden = LOWEST,
     .padded = 4},
    {"padding, causal, few",
     2,
     4,
     2,
     4,
     9,
     8,
     8,
     -1,
     4,
     {2, 1, 1, 9},
     REED_F32,
     .causal = true,
     .to_last_key = true,
     .hidden = LOWEST,
     .padded = 7},
    {"padding of parts",
     1,
     4,
     2,
     3,
     700,
     8,
     8,
     -1,
     4,
     {1, 4, 3, 700},
     REED_F32,
     .causal = true,
     .to_last_key = true,
     .hidden = LOWEST,
     .padded = 699},
    {"padding, a window, earlier keys",
     1,
     2,
     2,
     30,
     30,
     8,
     12,
     11,
     2,
     {30, 41},
     REED_F32,
     .left = 5,
     .causal = true,
     .hidden = LOWEST,
     .padded = 25},
    {"a truth mask, causal, hidden",
     2,
     2,
     2,
     20,
     20,
     8,
     8,
     -1,
     3,
     {2, 20, 20},
     REED_BOOL,
     .causal = true,
     .hidden = LOWEST},
    {"no key in the window, hidden", 1, 2, 2, 40, 9, 8, 8, -1, -1, .left = 4, .hidden = LOWEST},
    {"no keys", 1, 2, 2, 3, 0, 4, 4, -1, -1},
    {"no queries", 1, 2, 2, 0, 3, 4, 4, -1, -1},
    {"no batch", 0, 2, 2, 3, 3, 4, 4, -1, -1},
    {"no values", 1, 2, 2, 3, 3, 4, 0, -1, -1},
    {"heads without size", 1, 2, 2, 3, 3, 0, 4, -1, -1, .scale = 1},
};
#define N_CASES (int)(sizeof cases / sizeof *cases)

static value *add(kernel_case *c, const attention_case *a, reed_dtype dtype, int64_t heads, int64_t length,
                  int64_t size, bool flat) {
  if (flat) return case_input(c, dtype, DIMS(a->batch, length, heads * size), 1.5);
  return case_input(c, dtype, DIMS(a->batch, heads, length, size), 1.5);
}

static void open_case(kernel_case *c, const attention_case *a, reed_dtype dtype) {
  case_init(c, OP_Attention);
  add(c, a, dtype, a->heads, a->queries, a->size, a->flat);
  add(c, a, dtype, a->kv_heads, a->keys, a->size, a->flat);
  add(c, a, dtype, a->kv_heads, a->keys, a->value_size, a->flat);
  if (a->mask_rank < 0) case_absent(c);
  else {
    value *mask = case_input(c, a->mask_dtype, a->mask_rank, a->mask, a->mask_dtype == REED_BOOL ? 1 : 3);
    int64_t n = a->mask[a->mask_rank - 1];
    for (int64_t i = 0; a->padded && i < desc_elements(&mask->desc); i++)
      case_set(mask, i, i % n < a->padded ? LOWEST : 0);
  }
  for (int k = 0; k < 2; k++) {
    if (a->past < 0) case_absent(c);
    else add(c, a, dtype, a->kv_heads, a->past, k ? a->value_size : a->size, false);
  }
  if (a->lengths) {
    value *v = case_input(c, REED_I64, DIMS(a->batch), 0);
    for (int64_t i = 0; i < a->batch; i++) case_set(v, i, (double)(i * 9)); /* none, some, most */
  }
  if (a->flat) case_attr_int(c, "q_num_heads", a->heads), case_attr_int(c, "kv_num_heads", a->kv_heads);
  if (a->causal) case_attr_int(c, "is_causal", 1);
  if (a->scale != 0) case_attr_float(c, "scale", a->scale);
  if (a->softcap != 0) case_attr_float(c, "softcap", a->softcap);
  if (a->left) case_attr_int(c, "left_window_size", a->left - 1);
  if (a->right) case_attr_int(c, "right_window_size", a->right - 1);
  if (a->to_last_key) case_attr_int(c, "to_last_key", 1);
  if (a->hidden != 0) case_attr_float(c, "hidden_score", a->hidden);
  c->n_outputs = 1;
}

/* The reference itself computes f64 and qk_matmul_output: small cases show that these calls reach it. */
START_TEST(attention_equals_its_reference) {
  const attention_case *a = &cases[_i];
  bool small = a->queries * (a->keys + (a->past > 0 ? a->past : 0)) <= 600;
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    for (int32_t outputs = 1; outputs <= 4; outputs += outputs == 1 ? 2 : 1) {
      if (!small && (dtypes[i] == REED_F64 || outputs == 4)) continue;
      kernel_case c;
      open_case(&c, a, dtypes[i]);
      c.no_rooms = true;
      c.n_outputs = outputs;
      if (outputs == 4) case_attr_int(&c, "qk_matmul_output_mode", _i % 4);
      double tolerance = dtypes[i] == REED_F32 ? 1e-5 : case_tolerance(dtypes[i]);
      case_parity(&c, tolerance, tolerance);
    }
}
END_TEST

/* Queries, keys, values, masks and earlier keys with room behind each row. */
START_TEST(operands_with_room_are_read) {
  for (int32_t k = 0; k < 2; k++) {
    kernel_case c;
    open_case(&c, &cases[_i], k ? REED_F16 : REED_F32);
    c.n_outputs = k ? 1 : 3;
    double tolerance = k ? case_tolerance(REED_F16) : 1e-5;
    case_rooms(&c, tolerance, tolerance);
  }
}
END_TEST

/* By hand: one query, two keys with scores 0 and ln 3, so weights 1/4 and 3/4. */
START_TEST(weights_are_a_softmax_of_scaled_products) {
  kernel_case c;
  case_init(&c, OP_Attention);
  value *q = case_input(&c, REED_F32, DIMS(1, 1, 1, 2), 0), *k = case_input(&c, REED_F32, DIMS(1, 1, 2, 2), 0),
        *v = case_input(&c, REED_F32, DIMS(1, 1, 2, 3), 0);
  case_set(q, 0, log(3));
  case_set(k, 2, sqrt(2)); /* the scale is 1 / sqrt(2) */
  for (int64_t i = 0; i < 6; i++) case_set(v, i, (double)(i < 3 ? i : 4 * i));
  c.n_outputs = 1;
  case_expect(&c, (double[]){9, 12.25, 15.5}, 3);
}
END_TEST

START_TEST(rows_that_are_masked_whole_give_zero_or_nan) {
  for (int truth = 0; truth < 2; truth++)
    for (int nan = -1; nan < 2; nan++)
      for (int odd = 0; odd < 2; odd++) { /* odd: with a mask of bools a masked key is infinite */
        kernel_case c;
        case_init(&c, OP_Attention);
        for (int k = 0; k < 3; k++) case_input(&c, REED_F32, DIMS(1, 1, 3, 2), 2);
        value *mask = case_input(&c, truth ? REED_BOOL : REED_F32, DIMS(3, 3), 0);
        for (int64_t i = 0; i < 9; i++)
          case_set(mask, i, truth ? i / 3 != 1 && i % 3 != 2 : i / 3 == 1 || i % 3 == 2 ? -INFINITY : 0);
        if (odd && truth) case_set(&c.inputs[1], 4, INFINITY);
        case_attr_int(&c, "nan_rows", nan);
        c.n_outputs = 1;
        for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
          ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
          for (int64_t i = 0; i < 6; i++) {
            double y = case_get(&c.outputs[0], i);
            if (i / 2 == 1) ck_assert(nan > 0 ? isnan(y) : y == 0);
            else ck_assert(isfinite(y) && y != 0);
          }
        }
        case_close(&c);
      }
}
END_TEST

START_TEST(infinite_and_nan_scores_go_through) {
  static const struct {
    int64_t queries, keys, element, value_size; /* element: of K, that the score follows */
    double softcap;
  } at[] = {{2, 200, 300, 2}, {2, 1200, 1800, 2} /* in the second part of many keys */,
            {1, 40, 51, 2},   {1, 1, 0, 2},
            {2, 1, 0, 16},    {2, 1, 0, 2, 3},
            {1, 1, 0, 16, 3}};
  for (size_t k = 0; k < 3 * (sizeof at / sizeof *at); k++) {
    int64_t queries = at[k / 3].queries, keys = at[k / 3].keys;
    kernel_case c;
    case_init(&c, OP_Attention);
    value *q = case_input(&c, REED_F32, DIMS(1, 1, queries, 2), 0);
    value *key = case_input(&c, REED_F32, DIMS(1, 1, keys, 2), 1);
    case_input(&c, REED_F32, DIMS(1, 1, keys, at[k / 3].value_size), 1);
    for (int64_t i = 0; i < 2 * queries; i++) case_set(q, i, 1);
    if (at[k / 3].softcap != 0) case_attr_float(&c, "softcap", at[k / 3].softcap);
    case_attr_int(&c, "nan_rows", _i - 1);
    case_set(key, at[k / 3].element, k % 3 == 0 ? NAN : k % 3 == 1 ? INFINITY : -INFINITY);
    c.n_outputs = 1;
    case_parity(&c, 1e-5, 1e-5); /* all results are NaN, except with -INFINITY, and capped with INFINITY */
  }
}
END_TEST

/* A step of a decoder whose caches have room: present_key and present_value have the memory of past_key and past_value,
 * of which only the new rows are written. */
#define ROOM 9
#define PAST 5
START_TEST(a_cache_with_room_grows_in_place) {
  for (int queries = 1; queries < 4; queries += 2) {
    kernel_case c;
    case_init(&c, OP_Attention);
    for (int k = 0; k < 3; k++) case_input(&c, REED_F32, DIMS(2, 3, queries, 4), 1.5);
    case_absent(&c);
    for (int k = 0; k < 2; k++) case_input(&c, REED_F32, DIMS(2, 3, PAST, 4), 1.5);
    case_attr_int(&c, "is_causal", 1);
    c.n_outputs = 3;
    ck_assert_int_eq(case_run(&c, cpu_level_name(cpu_level_best())), REED_OK);
    float caches[2][2 * 3 * ROOM * 4], y[2 * 3 * 3 * 4];
    reed_room in_rooms[6], out_rooms[3];
    reed_desc inputs[6], outputs[3];
    reed_attr completed[CASE_ATTRS_COMPLETE];
    for (int i = 0; i < 6; i++) in_rooms[i] = (reed_room){.axis = -1}, inputs[i] = c.inputs[i].desc;
    for (int i = 0; i < 3; i++) out_rooms[i] = (reed_room){.axis = -1}, outputs[i] = c.outputs[i].desc;
    for (int k = 0; k < 2; k++) {
      in_rooms[4 + k] = out_rooms[1 + k] = (reed_room){.axis = 2, .capacity = ROOM};
      for (int i = 0; i < 2 * 3 * ROOM * 4; i++) caches[k][i] = -7;
      for (int i = 0; i < 2 * 3 * PAST * 4; i++)
        caches[k][i / (PAST * 4) * ROOM * 4 + i % (PAST * 4)] = ((float *)c.inputs[4 + k].data)[i];
    }
    reed_attrs given = {c.attrs, c.n_attrs}, attrs = op_attrs_complete(op_builtin(OP_Attention), &given, completed);
    const void *values[6] = {0}, *data[6];
    const bool constant[6] = {0};
    reed_kernel_env env = {.n_threads = 2};
    reed_kernel_call call = {op_builtin(OP_Attention),
                             &attrs,
                             "n",
                             6,
                             3,
                             inputs,
                             outputs,
                             values,
                             constant,
                             &env,
                             &c.diagnosis,
                             in_rooms,
                             out_rooms};
    reed_kernel kernel = {0};
    ck_assert_int_eq(kernel_cpu(call.op)(&call, &kernel), REED_OK);
    ck_assert(kernel.reads_rooms);
    for (int i = 0; i < 6; i++) data[i] = i < 4 ? c.inputs[i].data : caches[i - 4];
    void *results[3] = {y, caches[0], caches[1]}, *workspace = aligned_alloc(64, (size_t)kernel.workspace_bytes + 64);
    reed_kernel_buffers buffers = {.inputs = data, .outputs = results, .workspace = workspace};
    ck_assert_int_eq(kernel.run(kernel.state, &buffers), REED_OK);
    for (int i = 0; i < 2 * 3 * queries * 4; i++) ck_assert_float_eq(y[i], (float)case_get(&c.outputs[0], i));
    for (int k = 0; k < 2; k++)
      for (int i = 0; i < 2 * 3 * ROOM * 4; i++) {
        int head = i / (ROOM * 4), row = i / 4 % ROOM, total = PAST + queries;
        double wanted = row < total ? case_get(&c.outputs[1 + k], (head * total + row) * 4 + i % 4) : -7;
        ck_assert_float_eq(caches[k][i], (float)wanted);
      }
    free(workspace);
    if (kernel.free) kernel.free(kernel.state);
    case_close(&c);
  }
}
END_TEST

START_TEST(operands_that_do_not_fit_are_refused) {
  static const struct {
    int64_t k[4], v[4], mask[2];
    const char *says;
  } bad[] = {
      {{1, 2, 3, 5}, {1, 2, 3, 4}, {3, 3}, "the sizes of a head"},
      {{1, 2, 3, 4}, {1, 2, 5, 4}, {3, 3}, "the lengths"},
      {{2, 2, 3, 4}, {1, 2, 3, 4}, {3, 3}, "the batches"},
      {{1, 3, 3, 4}, {1, 3, 3, 4}, {3, 3}, "cannot be shared"},
      {{1, 2, 3, 4}, {1, 1, 3, 4}, {3, 3}, "the numbers of heads"},
      {{1, 2, 3, 4}, {1, 2, 3, 4}, {2, 3}, "does not broadcast"},
      {{1, 2, 3, 4}, {1, 2, 3, 4}, {3, 4}, "does not broadcast"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kernel_case c;
    case_init(&c, OP_Attention);
    case_input(&c, REED_F32, DIMS(1, 2, 3, 4), 1);
    case_input(&c, REED_F32, 4, bad[i].k, 1);
    case_input(&c, REED_F32, 4, bad[i].v, 1);
    case_input(&c, REED_F32, 2, bad[i].mask, 1);
    c.n_outputs = 1;
    case_fails(&c, REED_ERROR_SHAPE, bad[i].says);
  }
  kernel_case c;
  case_init(&c, OP_Attention);
  for (int k = 0; k < 3; k++) case_input(&c, REED_F32, DIMS(1, 3, 8), 1);
  case_attr_int(&c, "q_num_heads", 3);
  case_attr_int(&c, "kv_num_heads", 2);
  c.n_outputs = 1;
  case_fails(&c, REED_ERROR_SHAPE, "8 columns in 3 heads");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("attention");
  TCase *t = tcase_create("attention");
  tcase_set_timeout(t, 180);
  tcase_add_loop_test(t, attention_equals_its_reference, 0, N_CASES);
  tcase_add_loop_test(t, operands_with_room_are_read, 0, N_CASES);
  tcase_add_test(t, weights_are_a_softmax_of_scaled_products);
  tcase_add_test(t, rows_that_are_masked_whole_give_zero_or_nan);
  tcase_add_loop_test(t, infinite_and_nan_scores_go_through, 0, 3);
  tcase_add_test(t, a_cache_with_room_grows_in_place);
  tcase_add_test(t, operands_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
