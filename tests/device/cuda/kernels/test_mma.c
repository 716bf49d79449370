/* Products and convolutions on tensor cores under the emulation, with warpgroups and without, against sums in double of
 * the operands as they are. The tolerance of an element, for S, the sum of the products' sizes: for tf32 5/3 2^-10 S
 * and a little for the product of both errors, because an operand is rounded by at most 2/3 2^-10 or cut off by at most
 * 2^-10; for f16 and bf16 half a unit of the result. f32 sums add 2^-24 S for each product. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

/* A convolution has all numbers; a product of `images` matrices m x c x n has in = m, tap = 1, group = 1. */
typedef struct row {
  op_id op;
  int64_t images, c, in, n, tap, group, pad;
  bool bias, last;
  const char *activation;
} row;

static const row rows[] = {
    {OP_MatMul, 1, 1, 1, 1, 1, 1, 0, false, false, NULL},
    {OP_MatMul, 1, 16, 16, 8, 1, 1, 0, false, false, NULL},
    {OP_MatMul, 3, 37, 19, 29, 1, 1, 0, true, false, "relu"},
    {OP_MatMul, 1, 65, 131, 70, 1, 1, 0, false, false, "relu"},
    {OP_MatMul, 2, 7, 64, 129, 1, 1, 0, true, false, NULL},
    {OP_MatMul, 2, 0, 3, 5, 1, 1, 0, true, false, NULL},
    {OP_Gemm, 1, 33, 9, 65, 1, 1, 0, true, false, "relu"},
    {OP_Conv, 1, 1, 1, 1, 1, 1, 0, false, false, NULL},
    {OP_Conv, 2, 5, 9, 7, 3, 1, 1, true, false, "relu"},
    {OP_Conv, 2, 20, 9, 70, 3, 1, 2, true, true, NULL},
    {OP_Conv, 1, 22, 8, 26, 2, 2, 0, true, true, "relu"},
    {OP_MatMul, 2, 40, 70, 136, 1, 1, 0, false, false, NULL},
    {OP_Conv, 1, 16, 9, 24, 3, 2, 1, true, true, "relu"},
    {OP_Conv, 1, 40, 9, 72, 1, 1, 0, true, true, NULL},
    /* enough for tall tiles: of f32 the first, of halves the second */
    {OP_MatMul, 48, 130, 130, 72, 1, 1, 0, true, false, "relu"},
    {OP_Conv, 48, 32, 17, 72, 2, 1, 0, true, true, "relu"},
};
enum { ROWS = sizeof rows / sizeof *rows, FIRST_TALL = ROWS - 2 };

static const struct {
  cuda_math math;
  reed_dtype dtype;
  cuda_kernel_id product, conv, tall_product, tall_conv;
  double of_sums, of_result;
} kinds[] = {
    {CUDA_MATH_TF32, REED_F32, CUDA_product_tf32, CUDA_conv_tf32, CUDA_product_tall_tf32, CUDA_conv_tall_tf32,
     0x1.acp-10, 0},
    {CUDA_MATH_TF32, REED_F16, CUDA_product_f16, CUDA_conv_f16, CUDA_product_tall_f16, CUDA_conv_tall_f16, 0, 0x1p-11},
    {CUDA_MATH_HALVES, REED_F16, CUDA_product_f16, CUDA_conv_f16, CUDA_product_tall_f16, CUDA_conv_tall_f16, 0,
     0x1p-11},
    {CUDA_MATH_HALVES, REED_BF16, CUDA_product_bf16, CUDA_conv_bf16, CUDA_product_tall_bf16, CUDA_conv_tall_bf16, 0,
     0x1p-8},
    {CUDA_MATH_HALVES, REED_F32, CUDA_product_f32, CUDA_conv_f32, CUDA_product_f32, CUDA_conv_f32, 0, 0},
    {CUDA_MATH_PLAIN, REED_F16, CUDA_product_f32, CUDA_conv_f32, CUDA_product_f32, CUDA_conv_f32, 0, 0x1p-11},
    {CUDA_MATH_PLAIN, REED_BF16, CUDA_product_f32, CUDA_conv_f32, CUDA_product_f32, CUDA_conv_f32, 0, 0x1p-8}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint32_t noise;

static double element_of(reed_dtype dtype, const void *data, int64_t i) {
  if (dtype == REED_F32) return (double)((const float *)data)[i];
  const uint16_t bits = ((const uint16_t *)data)[i];
  return (double)(dtype == REED_F16 ? f16_to_f32(bits) : bf16_to_f32(bits));
}

/* A tensor of random numbers between -1 and 1, in as many bytes as it has; apart: one element behind a multiple of 16
 * bytes. */
static void *random_tensor(const reed_desc *desc, bool apart, int64_t *out_bytes, void **out_memory) {
  int64_t n = 1;
  for (int32_t d = 0; d < desc->rank; d++) n *= desc->dims[d];
  *out_bytes = n * (desc->dtype == REED_F32 ? 4 : 2);
  const size_t size = desc->dtype == REED_F32 ? 4 : 2;
  *out_memory = aligned_alloc(64, ((size_t)*out_bytes + 2 * 64) / 64 * 64);
  char *data = (char *)*out_memory + (apart ? size : 0);
  for (int64_t i = 0; i < n; i++) {
    const float f = (float)((noise = noise * 1664525u + 1013904223u) >> 8) / 0x1p23f - 1;
    if (desc->dtype == REED_F32) ((float *)(void *)data)[i] = f;
    else ((uint16_t *)(void *)data)[i] = desc->dtype == REED_F16 ? f16_from_f32(f) : bf16_from_f32(f);
  }
  return data;
}

typedef struct made {
  reed_desc in[3], out;
  void *data[4], *memory[4]; /* inputs, then the output */
  int64_t bytes[4];
} made;

/* Element `at` of the output: its sum, and the sum of the sizes. */
static double expected(const row *r, const made *m, int64_t at, double *out_sizes) {
  const reed_dtype dtype = m->out.dtype;
  const int64_t out = r->op == OP_Conv ? m->out.dims[2] : r->in, width = r->op == OP_Conv ? out : 1;
  int64_t x, y, channel, image;
  if (r->op == OP_Conv && !r->last) x = at % width, y = at / width % out, channel = at / width / out % r->n;
  else channel = at % r->n, x = at / r->n % width, y = at / r->n / width % out;
  image = at / (r->n * width * out);
  double sum = r->bias ? element_of(dtype, m->data[2], channel) : 0;
  *out_sizes = fabs(sum);
  const int64_t first = r->op == OP_Conv ? channel / (r->n / r->group) * r->c : 0;
  for (int64_t c = 0; c < r->c; c++)
    for (int64_t tap = 0; tap < r->tap * r->tap; tap++) {
      int64_t a = (image * out + y) * r->c + c, b = (image * r->c + c) * r->n + channel;
      if (r->op == OP_Conv) {
        const int64_t iy = y - r->pad + tap / r->tap, ix = x - r->pad + tap % r->tap, channels = r->c * r->group;
        if (iy < 0 || ix < 0 || iy >= r->in || ix >= r->in) continue;
        a = r->last ? ((image * r->in + iy) * r->in + ix) * channels + first + c
                    : ((image * channels + first + c) * r->in + iy) * r->in + ix;
        b = (channel * r->c + c) * r->tap * r->tap + tap;
      }
      const double product = element_of(dtype, m->data[0], a) * element_of(dtype, m->data[1], b);
      sum += product;
      *out_sizes += fabs(product);
    }
  return r->activation && sum < 0 ? 0 : sum;
}

static void describe(const row *r, reed_dtype dtype, made *m) {
  const int64_t side = r->in + 2 * r->pad - r->tap + 1;
  if (r->op == OP_Conv) {
    m->in[0] = (reed_desc){dtype, 4, {r->images, r->c * r->group, r->in, r->in}};
    m->in[1] = (reed_desc){dtype, 4, {r->n, r->c, r->tap, r->tap}};
    m->out = (reed_desc){dtype, 4, {r->images, r->n, side, side}};
    if (r->last) {
      m->in[0] = (reed_desc){dtype, 4, {r->images, r->in, r->in, r->c * r->group}};
      m->out = (reed_desc){dtype, 4, {r->images, side, side, r->n}};
    }
  } else if (r->op == OP_Gemm) {
    m->in[0] = (reed_desc){dtype, 2, {r->in, r->c}};
    m->in[1] = (reed_desc){dtype, 2, {r->c, r->n}};
    m->out = (reed_desc){dtype, 2, {r->in, r->n}};
  } else {
    m->in[0] = (reed_desc){dtype, 3, {r->images, r->in, r->c}};
    m->in[1] = (reed_desc){dtype, 3, {r->images, r->c, r->n}};
    m->out = (reed_desc){dtype, 3, {r->images, r->in, r->n}};
  }
  m->in[2] = (reed_desc){dtype, 1, {r->n}};
}

/* True if the element has the bits with which the result was filled, which no sum has. */
static bool is_unwritten(reed_dtype dtype, const void *data, int64_t i) {
  return dtype == REED_F32 ? ((const uint32_t *)data)[i] == UINT32_MAX : ((const uint16_t *)data)[i] == UINT16_MAX;
}

static void check(const row *r, int kind, bool apart, uint64_t order, bool warpgroups) {
  const reed_dtype dtype = kinds[kind].dtype;
  made m = {0};
  describe(r, dtype, &m);
  for (int i = 0; i < 4; i++) m.data[i] = random_tensor(i < 3 ? &m.in[i] : &m.out, apart, &m.bytes[i], &m.memory[i]);
  memset(m.data[3], 0xff, (size_t)m.bytes[3]);
  const int64_t pads[4] = {r->pad, r->pad, r->pad, r->pad};
  reed_attr items[4];
  reed_attrs given = {items, 0}; /* sorted by name */
  if (r->activation) items[given.n++] = (reed_attr){.name = "activation", .type = REED_ATTR_STRING, .s = r->activation};
  if (r->last) items[given.n++] = (reed_attr){.name = "channels_last", .type = REED_ATTR_INT, .i = 1};
  if (r->op == OP_Conv) {
    items[given.n++] = (reed_attr){.name = "group", .type = REED_ATTR_INT, .i = r->group};
    items[given.n++] = (reed_attr){.name = "pads", .type = REED_ATTR_INTS, .ints = pads, .n = 4};
  }
  emulated_call c = {.op = r->op,
                     .attrs = &given,
                     .in = m.in,
                     .n_in = r->bias ? 3 : 2,
                     .out = &m.out,
                     .math = kinds[kind].math,
                     .inputs = {m.data[0], m.data[1], m.data[2]},
                     .output = m.data[3],
                     .order = order,
                     .warpgroups = warpgroups};
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_uint_eq(plan->n_launches, 1);
  const bool tall = r - rows >= FIRST_TALL;
  ck_assert_int_eq(plan->launches->kernel, r->op == OP_Conv ? tall ? kinds[kind].tall_conv : kinds[kind].conv
                                           : tall           ? kinds[kind].tall_product
                                                            : kinds[kind].product);
  uint64_t blocks[64]; /* of tall tiles, which need many, every eleventh runs, also one that the matrix's end cuts */
  if (tall) {
    for (uint64_t i = 0; i < plan->launches->grid[0] && c.n_blocks < 64; i += 11) blocks[c.n_blocks++] = i;
    c.blocks = blocks;
  }
  emulated_run(&c, &kernel);
  const int64_t n = m.bytes[3] / (dtype == REED_F32 ? 4 : 2);
  int64_t left = 0;
  for (int64_t i = 0; i < n; i++) {
    if (tall && is_unwritten(dtype, m.data[3], i)) {
      left++;
      continue;
    }
    double sizes, right = expected(r, &m, i, &sizes), y = element_of(dtype, m.data[3], i);
    const double sums = (double)(r->c * r->tap * r->tap + 2) * 0x1p-24,
                 most = (kinds[kind].of_sums + sums) * sizes + kinds[kind].of_result * fabs(right) + 0x1p-24;
    ck_assert_msg(fabs(y - right) <= most, "row %d, kind %d, element %d: %.9g, not %.9g (+- %.2g)", (int)(r - rows),
                  kind, (int)i, y, right, most);
  }
  if (tall)
    ck_assert_msg(left < n - n / 16, "row %d, kind %d: %lld of %lld elements are unwritten", (int)(r - rows), kind,
                  (long long)left, (long long)n);
  kernel.free(kernel.state);
  for (int i = 0; i < 4; i++) free(m.memory[i]);
}

/* Each kind takes its own kernel: f32 is strict unless tf32 is asked for, halves need a card's tensor cores. */
START_TEST(tensor_cores_give_the_product) {
  noise = 1 + (uint32_t)_i;
  for (size_t i = 0; i < ROWS; i++) {
    if (i >= FIRST_TALL &&
        (kinds[_i].product == kinds[_i].tall_product || (i == FIRST_TALL) != (kinds[_i].dtype == REED_F32)))
      continue;
    for (int warpgroups = 0; warpgroups < 2; warpgroups++)
      for (uint64_t order = 0; order < (rows[i].n <= 8 ? 3 : i < FIRST_TALL ? 2 : 1); order++)
        check(&rows[i], _i, order == 1, rows[i].n > 8 ? 0 : order == 2 ? 77 : order, warpgroups);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mma");
  TCase *t = tcase_create("mma");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, tensor_cores_give_the_product, 0, KINDS);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
