/* Attention under the emulation: large tiles of strict f32 beside sums in double; tensor cores beside the kernel
 * without them, whose operands are the same and whose sums are f32. Weights are rounded to the operands' format, tf32's
 * operands, too: the tolerances are for values below 1.5 and scores below 8. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

typedef struct row {
  int64_t batch, heads, kv_heads, queries, keys, size, value_size, past;
  reed_dtype mask; /* [queries, past + keys]; REED_NONE: none, REED_F16: the operands' dtype */
  bool wide;       /* tiles of 64 rows */
  bool causal, apart,
      odd; /* apart: operands one element behind a multiple of 16 bytes; odd: some values are not finite */
  double softcap;
  bool row_mask; /* the mask is [1, past + keys] */
} row;

static const row rows[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, REED_NONE},
    {1, 2, 2, 20, 33, 9, 11, 0, REED_NONE},
    {12, 11, 11, 17, 20, 8, 8, 0, REED_NONE, true, .causal = true},
    {17, 16, 8, 20, 70, 24, 20, 5, REED_NONE, true, .causal = true, .softcap = 2},
    {12, 11, 11, 17, 20, 8, 8, 3, REED_F16, true, .apart = true},
    {9, 8, 8, 18, 70, 16, 136, 0, REED_F32, true},
    {12, 11, 11, 17, 140, 24, 8, 0, REED_NONE, true},
    {12, 11, 11, 19, 12, 8, 24, 2, REED_NONE, true, .causal = true, .odd = true},
    {1, 8, 2, 1, 3, 64, 64, 700, REED_NONE, .causal = true},
    {2, 12, 4, 1, 1, 32, 48, 600, REED_BOOL},
    {1, 4, 2, 8, 530, 16, 136, 0, REED_F32, .apart = true},
    {1, 2, 2, 30, 40, 128, 128, 0, REED_BOOL, .odd = true},
    {1, 3, 3, 9, 20, 12, 20, 4, REED_NONE, .causal = true, .apart = true, .odd = true},
    /* masks of one row, as padded batches have them */
    {12, 11, 11, 18, 130, 64, 64, 0, REED_F16, .row_mask = true, .wide = true},
    {1, 2, 2, 20, 200, 64, 64, 0, REED_NONE, .causal = true, .odd = true},
    {1, 3, 3, 20, 134, 64, 64, 3, REED_F16, .row_mask = true, .causal = true},
    {1, 2, 1, 9, 80, 40, 24, 0, REED_F16, .row_mask = true, .apart = true, .odd = true},
    /* heads of more than 64 elements; the last ones leave memory for one tile of keys */
    {12, 11, 11, 17, 70, 72, 16, 0, REED_NONE, .wide = true, .causal = true},
    {1, 2, 2, 20, 200, 72, 88, 5, REED_NONE, .softcap = 2},
    {12, 11, 11, 2, 70, 200, 8, 0, REED_NONE, .causal = true},
    {12, 11, 11, 17, 40, 200, 8, 0, REED_NONE, .wide = true},
    {1, 2, 2, 20, 90, 200, 72, 3, REED_NONE, .odd = true},
};
enum { ROWS = sizeof rows / sizeof *rows, OPERANDS = 6 };

static const struct {
  reed_dtype dtype;
  cuda_kernel_id kernels[2][2]; /* few or many rows, wide or narrow heads */
  double most;
} kinds[] = {
    {REED_F32,
     {{CUDA_attention_few_tf32, CUDA_attention_few_narrow_tf32}, {CUDA_attention_tf32, CUDA_attention_narrow_tf32}},
     0x1p-8},
    {REED_F16,
     {{CUDA_attention_few_f16, CUDA_attention_few_narrow_f16}, {CUDA_attention_f16, CUDA_attention_narrow_f16}},
     0x1p-9},
    {REED_BF16,
     {{CUDA_attention_few_bf16, CUDA_attention_few_narrow_bf16}, {CUDA_attention_bf16, CUDA_attention_narrow_bf16}},
     0x1p-6}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint32_t noise;
static double random_number(void) { return (double)((noise = noise * 1664525u + 1013904223u) >> 8) / 0x1p23 - 1; }

static void set(reed_dtype dtype, void *data, int64_t i, double x) {
  if (dtype == REED_F32) ((float *)data)[i] = (float)x;
  else if (dtype == REED_BOOL) ((uint8_t *)data)[i] = x > -0.5;
  else ((uint16_t *)data)[i] = dtype == REED_F16 ? f16_from_f32((float)x) : bf16_from_f32((float)x);
}
static double get(reed_dtype dtype, const void *data, int64_t i) {
  if (dtype == REED_F32) return (double)((const float *)data)[i];
  const uint16_t bits = ((const uint16_t *)data)[i];
  return (double)(dtype == REED_F16 ? f16_to_f32(bits) : bf16_to_f32(bits));
}

static int64_t elements(const reed_desc *desc) {
  int64_t n = desc->dtype != REED_NONE;
  for (int32_t d = 0; d < desc->rank; d++) n *= desc->dims[d];
  return n;
}

typedef struct call {
  reed_desc in[OPERANDS], out;
  char *memory[OPERANDS];
  void *data[OPERANDS];
} call;

static void open_call(call *c, const row *r, reed_dtype dtype) {
  const reed_dtype mask = r->mask == REED_F16 ? dtype : r->mask;
  *c = (call){.in = {{dtype, 4, {r->batch, r->heads, r->queries, r->size}},
                     {dtype, 4, {r->batch, r->kv_heads, r->keys, r->size}},
                     {dtype, 4, {r->batch, r->kv_heads, r->keys, r->value_size}},
                     {.dtype = REED_NONE}}};
  c->out = (reed_desc){dtype, 4, {r->batch, r->heads, r->queries, r->value_size}};
  const int64_t mask_rows = r->row_mask ? 1 : r->queries;
  if (mask != REED_NONE) c->in[3] = (reed_desc){mask, 2, {mask_rows, r->past + r->keys}};
  if (r->past) {
    c->in[4] = (reed_desc){dtype, 4, {r->batch, r->kv_heads, r->past, r->size}};
    c->in[5] = (reed_desc){dtype, 4, {r->batch, r->kv_heads, r->past, r->value_size}};
  }
  for (int i = 0; i < OPERANDS; i++) {
    const int64_t n = elements(&c->in[i]);
    if (!n) continue;
    const size_t size = reed_dtype_bytes(c->in[i].dtype);
    c->memory[i] = aligned_alloc(64, ((size_t)(n + 1) * size + 63) / 64 * 64);
    c->data[i] = c->memory[i] + (r->apart ? size : 0);
    for (int64_t k = 0; k < n; k++) set(c->in[i].dtype, c->data[i], k, random_number() * (i == 3 ? 2 : 1));
    /* the first keys' mask hides them from some queries; the values there need not be finite */
    if (i == 3 && r->odd)
      for (int64_t k = 0; k < mask_rows; k++)
        set(c->in[i].dtype, c->data[i], k * (r->past + r->keys) + 5,
            k % 2               ? 0
            : mask == REED_BOOL ? -1
                                : (double)-INFINITY);
    if (i == 2 && r->odd)
      for (int64_t b = 0; b < r->batch * r->kv_heads; b++) {
        set(dtype, c->data[i], (b * r->keys + 5) * r->value_size + 3, INFINITY);
        set(dtype, c->data[i], (b * r->keys + 7) * r->value_size + 2, (double)NAN);
      }
  }
}

/* True if element i of y is computed: calls of many blocks run those of the first and of the last batch. */
static bool is_run(const row *r, int64_t i) {
  const int64_t batch = i / (r->heads * r->queries * r->value_size);
  return !r->wide || batch == 0 || batch == r->batch - 1;
}

static void run_launches(emulated_call *c, const row *r, const cuda_prepared *plan) {
  const uint64_t n = plan->launches->grid[0] / (uint64_t)r->batch;
  uint64_t *blocks = malloc(2 * n * sizeof *blocks);
  for (uint64_t i = 0; i < n; i++) {
    blocks[i] = i;
    blocks[n + i] = n * (uint64_t)(r->batch - 1) + i;
  }
  if (r->wide) {
    c->blocks = blocks;
    c->n_blocks = 2 * n;
  }
  emulated_launch(c, plan, plan->launches);
  c->blocks = NULL;
  for (uint32_t i = 1; i < plan->n_launches; i++) emulated_launch(c, plan, &plan->launches[i]);
  free(blocks);
}

/* wanted: the first kernel; CUDA_KERNELS: any. */
static void run_call(const call *made, const row *r, cuda_math math, cuda_kernel_id wanted, void *y, int64_t bytes,
                     uint64_t order) {
  reed_attr items[4];
  reed_attrs given = {items, 0};
  if (r->causal) items[given.n++] = (reed_attr){.name = "is_causal", .type = REED_ATTR_INT, .i = 1};
  if (r->softcap > 0) items[given.n++] = (reed_attr){.name = "softcap", .type = REED_ATTR_FLOAT, .f = r->softcap};
  emulated_call c = {
      .op = OP_Attention, .attrs = &given, .in = made->in, .out = &made->out, .math = math, .order = order};
  c.n_in = r->past ? 6 : 4;
  for (int i = 0; i < OPERANDS; i++) c.inputs[i] = made->data[i];
  c.output = y;
  memset(y, 0xff, (size_t)bytes);
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_msg(plan->launches->kernel == wanted || wanted == CUDA_KERNELS, "row %d launches %s", (int)(r - rows),
                cuda_kernel_infos[plan->launches->kernel].name);
  c.workspace = aligned_alloc(64, ((size_t)kernel.workspace_bytes + 127) / 64 * 64);
  run_launches(&c, r, plan);
  free(c.workspace);
  kernel.free(kernel.state);
}

/* Element k of row j of keys or values, whose earlier ones are input `past` and the new ones input `now`. */
static double cached(const call *c, const row *r, int past, int64_t head, int64_t j, int64_t k) {
  const int now = past - 3;
  const int64_t size = c->in[now].dims[3];
  if (j < r->past) return get(REED_F32, c->data[past], (head * r->past + j) * size + k);
  return get(REED_F32, c->data[now], (head * r->keys + j - r->past) * size + k);
}

/* A row of y in double: query i of head h of all batches' heads. */
static void weighted_values(const call *c, const row *r, int64_t h, int64_t i, double *y) {
  enum { MOST_KEYS = 800 };
  const int64_t kv = h / r->heads * r->kv_heads + h % r->heads / (r->heads / r->kv_heads), keys = r->past + r->keys;
  double scores[MOST_KEYS], most = -INFINITY, sum = 0;
  ck_assert_int_le(keys, MOST_KEYS);
  for (int64_t j = 0; j < keys; j++) {
    double x = 0;
    for (int64_t d = 0; d < r->size; d++)
      x += get(REED_F32, c->data[0], (h * r->queries + i) * r->size + d) * cached(c, r, 4, kv, j, d);
    x /= sqrt((double)r->size);
    if (r->softcap > 0) x = r->softcap * tanh(x / r->softcap);
    const int64_t at = (r->row_mask ? 0 : i * keys) + j;
    if (c->in[3].dtype == REED_F32) x += get(REED_F32, c->data[3], at);
    if (c->in[3].dtype == REED_BOOL && !((const uint8_t *)c->data[3])[at]) x = -INFINITY;
    if (r->causal && j > i + r->past) x = -INFINITY;
    scores[j] = x;
    if (x > most) most = x;
  }
  memset(y, 0, (size_t)r->value_size * sizeof *y);
  for (int64_t j = 0; j < keys; j++) {
    const double weight = most > -INFINITY ? exp(scores[j] - most) : 0;
    sum += weight;
    for (int64_t d = 0; weight > 0 && d < r->value_size; d++) y[d] += weight * cached(c, r, 5, kv, j, d);
  }
  for (int64_t d = 0; sum > 0 && d < r->value_size; d++) y[d] /= sum;
}

START_TEST(strict_f32_gives_the_weighted_values) {
  const row *r = &rows[_i];
  noise = 1000 + (uint32_t)_i;
  call c;
  open_call(&c, r, REED_F32);
  const int64_t n = elements(&c.out);
  float *y = malloc((size_t)n * sizeof *y);
  double right[200];
  ck_assert_int_le(r->value_size, (int64_t)(sizeof right / sizeof *right));
  const bool tiled = r->heads / r->kv_heads * r->queries > 16 && r->size <= 128;
  for (uint64_t order = 0; order < 2; order++) {
    run_call(&c, r, CUDA_MATH_HALVES, tiled ? CUDA_attention_tiled_f32 : CUDA_attention_f32, y, n * (int64_t)sizeof *y,
             order);
    for (int64_t i = 0; i < n; i++) {
      if (!is_run(r, i)) continue;
      if (i % r->value_size == 0)
        weighted_values(&c, r, i / r->value_size / r->queries, i / r->value_size % r->queries, right);
      const double a = (double)y[i], b = right[i % r->value_size];
      ck_assert_msg(isfinite(b) ? fabs(a - b) <= 2e-6
                    : isnan(b)  ? isnan(a)
                                : a == b,
                    "row %d, element %d: %.9g, not %.9g", (int)(r - rows), (int)i, a, b);
    }
  }
  free(y);
  for (int i = 0; i < OPERANDS; i++) free(c.memory[i]);
}
END_TEST

START_TEST(tensor_cores_give_the_weighted_values) {
  const row *r = &rows[_i / KINDS];
  const int kind = _i % KINDS;
  const reed_dtype dtype = kinds[kind].dtype;
  noise = 1 + (uint32_t)_i;
  call c;
  open_call(&c, r, dtype);
  const int64_t n = elements(&c.out), bytes = n * (int64_t)reed_dtype_bytes(dtype);
  void *right = malloc((size_t)bytes + 1), *y = malloc((size_t)bytes + 1);
  run_call(&c, r, CUDA_MATH_PLAIN, dtype == REED_F32 ? CUDA_KERNELS : CUDA_attention_f32, right, bytes, 0);
  for (uint64_t order = 0; order < (r->batch * r->heads < 9 ? 3 : 1); order++) {
    run_call(&c, r, CUDA_MATH_TF32, kinds[kind].kernels[r->wide][r->size <= 64 && r->value_size <= 64], y, bytes,
             order == 2 ? 77 : order);
    for (int64_t i = 0; i < n; i++) {
      if (!is_run(r, i)) continue;
      const double a = get(dtype, y, i), b = get(dtype, right, i);
      ck_assert_msg(isfinite(b) ? fabs(a - b) <= kinds[kind].most
                    : isnan(b)  ? isnan(a)
                                : a == b,
                    "row %d, kind %d, element %d: %.9g, not %.9g", (int)(r - rows), kind, (int)i, a, b);
    }
  }
  free(right);
  free(y);
  for (int i = 0; i < OPERANDS; i++) free(c.memory[i]);
}
END_TEST

/* A planted fault: rows of V in shared memory that do not begin at multiples of 16 bytes. */
START_TEST(a_misaligned_vector_stops_the_launch) {
  const row *r = &rows[ROWS - 1]; /* rows of heads of at most 64 elements have a fixed pitch */
  call made;
  open_call(&made, r, REED_F16);
  uint16_t y[2 * 20 * 72];
  emulated_call c = {
      .op = OP_Attention, .in = made.in, .n_in = 6, .out = &made.out, .math = CUDA_MATH_HALVES, .output = y};
  for (int i = 0; i < OPERANDS; i++) c.inputs[i] = made.data[i];
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  attention_args *args = (attention_args *)(uintptr_t)(plan->args + plan->launches->args_at);
  args->v_pitch += 1;
  const char *said = emulated_fault(&c, plan, plan->launches);
  ck_assert_msg(strstr(said, "its type demands an alignment of 16 bytes"), "%s", said);
  kernel.free(kernel.state);
  for (int i = 0; i < OPERANDS; i++) free(made.memory[i]);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("attention_mma");
  TCase *t = tcase_create("attention_mma");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, strict_f32_gives_the_weighted_values, 0, ROWS);
  tcase_add_loop_test(t, tensor_cores_give_the_weighted_values, 0, ROWS * KINDS);
  tcase_add_test(t, a_misaligned_vector_stops_the_launch);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
