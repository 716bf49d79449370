/* f32 products with packed weights of bf16 and f16 against the reference in f32, at every CPU level: inputs that bf16
 * holds exactly, so that results differ by the order of the sums only; small integers, whose sums are the same in any
 * order; inputs that are rounded; constant weights, which may be widened once a program, and others. Compiled a second
 * time with an emulation of AMX (ops/cpu/product/amx.h), for level amx. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/call.h"
#include "ops/kernel.h"
#include "ops/packed.h"
#include "tests/ops/cpu/case_parts.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/suite.h"

typedef struct product_row {
  op_id op;
  const char *what;
  int32_t rank;
  int64_t x[4], w[4];
  int64_t group, strides[2], dilations[2], pads[4];
  bool transposed; /* Gemm's B */
  bool rounds;     /* Winograd's transforms may round integers */
} product_row;

static const product_row rows[] = {
    {OP_Conv, "1x1", 4, {2, 18, 5, 6}, {19, 18, 1, 1}, 1, {1, 1}, {1, 1}, {0}},
    {OP_Conv, "3x3, Winograd", 4, {1, 64, 13, 17}, {70, 64, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}, .rounds = true},
    {OP_Conv, "3x3, small", 4, {1, 256, 12, 12}, {256, 256, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}, .rounds = true},
    {OP_Conv, "3x3, stride 2, uneven pads", 4, {2, 20, 11, 30}, {83, 20, 3, 3}, 1, {2, 2}, {1, 1}, {0, 2, 1, 1}},
    {OP_Conv, "dilated", 4, {1, 10, 13, 12}, {33, 10, 3, 2}, 1, {1, 1}, {2, 3}, {2, 3, 2, 0}},
    {OP_Conv, "blocks of tap rows", 4, {1, 600, 4, 15}, {40, 600, 3, 3}, 1, {2, 1}, {1, 1}, {1, 1, 1, 1}},
    {OP_Conv, "blocks of channels", 4, {1, 2420, 3, 3}, {33, 2420, 1, 1}, 1, {2, 2}, {1, 1}, {0}},
    {OP_Conv, "groups", 4, {1, 12, 7, 9}, {140, 6, 3, 2}, 2, {2, 2}, {1, 1}, {1, 0, 1, 1}},
    {OP_Conv, "groups of 16", 4, {2, 48, 9, 14}, {48, 16, 3, 3}, 3, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {OP_Conv, "groups of 16, odd rows of pixels", 4, {1, 32, 6, 13}, {32, 16, 3, 3}, 2, {1, 2}, {1, 1}, {1, 0, 1, 1}},
    {OP_Conv, "groups of 32, dilated", 4, {1, 64, 13, 11}, {96, 32, 3, 3}, 2, {2, 1}, {2, 3}, {2, 3, 1, 3}},
    {OP_Conv, "dilated beyond the row", 4, {1, 64, 13, 12}, {33, 64, 3, 3}, 1, {1, 1}, {5, 4}, {5, 4, 5, 4}},
    {OP_Conv, "no boxes", 4, {0, 4, 7, 7}, {8, 4, 3, 3}, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {OP_Conv, "lines", 4, {1, 64, 1, 260}, {64, 64, 1, 5}, 1, {1, 1}, {1, 1}, {0, 2, 0, 3}, .rounds = true},
    {OP_Conv,
     "lines in groups",
     4,
     {1, 96, 1, 250},
     {96, 48, 1, 31},
     2,
     {1, 1},
     {1, 1},
     {0, 15, 0, 15},
     .rounds = true},
    {OP_ConvTranspose, "2x2", 4, {2, 34, 3, 5}, {34, 70, 2, 2}, 1, {2, 2}, {1, 1}, {0}},
    {OP_ConvTranspose, "2x2, few outputs", 4, {1, 6, 4, 3}, {6, 5, 2, 2}, 1, {2, 2}, {1, 1}, {0}},
    {OP_MatMul, "one row", 2, {1, 130}, {130, 77}, 1},
    {OP_MatMul, "rows", 2, {45, 22}, {22, 150}, 1},
    {OP_Gemm, "B", 2, {9, 1300}, {1300, 20}, 1},
    {OP_Gemm, "B transposed", 2, {31, 16}, {65, 16}, 1, .transposed = true},
};

/* The elements of X and of the weights: as they are drawn, numbers of bf16, or integers of -3 to 3. */
typedef enum number_kind { ANY, EXACT, INTEGERS } number_kind;

static void change(value *v, number_kind kind) {
  for (int64_t i = 0; i < desc_elements(&v->desc) && kind != ANY; i++) {
    float x = (float)case_get(v, i);
    case_set(v, i, kind == EXACT ? (double)bf16_to_f32(bf16_from_f32(x)) : (double)((int)(x * 1000) % 4));
  }
}

static void make(kernel_case *c, const product_row *r, number_kind kind) {
  case_init(c, r->op);
  case_input(c, REED_F32, r->rank, r->x, 1);
  case_input(c, REED_F32, r->rank, r->w, 1);
  int64_t outputs = r->op == OP_Conv || r->transposed ? r->w[0] : r->w[1];
  case_input(c, REED_F32, 1, &outputs, 1);
  for (int i = 0; i < (kind == INTEGERS ? 3 : 2); i++) change(&c->inputs[i], kind);
  if (r->transposed) case_attr_int(c, "transB", 1);
  case_attr_string(c, "activation", "relu");
  if (r->rank != 4) return;
  case_attr_int(c, "group", r->group);
  case_attr_ints(c, "strides", r->strides, 2);
  case_attr_ints(c, "dilations", r->dilations, 2);
  case_attr_ints(c, "pads", r->pads, 4);
}

/* The place of element i of an image [N,C,H,W] whose channels lie last. */
static int64_t place_last(const int64_t *d, int64_t i) {
  int64_t pixel = d[2] * d[3], channel = i / pixel % d[1];
  return (i / pixel / d[1] * pixel + i % pixel) * d[1] + channel;
}

/* Turns input 0 to channels last. */
static void turn(kernel_case *c, const product_row *r) {
  value *x = &c->inputs[0];
  int64_t n = desc_elements(&x->desc);
  float *turned = calloc((size_t)n + 1, sizeof *turned);
  ck_assert_ptr_nonnull(turned);
  for (int64_t i = 0; i < n; i++) turned[place_last(r->x, i)] = (float)case_get(x, i);
  for (int64_t i = 0; i < n; i++) case_set(x, i, (double)turned[i]);
  x->desc = (reed_desc){REED_F32, 4, {r->x[0], r->x[2], r->x[3], r->x[1]}};
  free(turned);
  case_attr_int(c, "channels_last", 1);
}

/* Packs input 1 in that dtype, bf16 in pairs; `c` keeps the memory of its plain weights, which is large enough.
 * The case borrows *out_plain. */
static void pack_halves(kernel_case *c, reed_dtype dtype, reed_desc *out_plain) {
  value *w = &c->inputs[1];
  reed_desc plain = w->desc;
  plain.dtype = dtype;
  *out_plain = plain;
  if (dtype == REED_BF16) case_attr_int(c, PACKED_PAIRS_ATTR, 1);
  const reed_attrs given = {c->attrs, c->n_attrs};
  reed_attr completed[CASE_ATTRS_COMPLETE];
  const reed_attrs attrs = op_attrs_complete(op_builtin(c->op), &given, completed);
  packed_order order;
  ck_assert(packed_order_of(op_builtin(c->op), &attrs, &plain, &order));
  ck_assert_int_eq(order.pairs, dtype == REED_BF16);
  uint16_t *halves = calloc((size_t)desc_elements(&plain) + 1, sizeof *halves),
           *again = calloc((size_t)desc_elements(&plain) + 1, sizeof *again);
  ck_assert(halves && again);
  for (int64_t i = 0; i < desc_elements(&plain); i++) reed_dtype_write(dtype, &halves[i], case_get(w, i));
  case_attr_ints(c, PACKED_ATTR, out_plain->dims, plain.rank);
  reed_desc packed = packed_desc(&order);
  c->n_inputs--; /* the packed weights replace input 1, in memory with guard bands of its own */
  value bias = c->inputs[2];
  int64_t n = packed.dims[0];
  value *made = case_input(c, dtype, 1, &n, 0);
  packed_pack(&order, halves, made->data);
  packed_unpack(&order, made->data, again);
  ck_assert_mem_eq(halves, again, (size_t)desc_elements(&plain) * sizeof *halves);
  value old = c->inputs[1];
  c->inputs[1] = *made;
  c->inputs[2] = bias;
  c->n_inputs = 3;
  free(old.block);
  free(halves);
  free(again);
}

static void check(const product_row *r, reed_dtype dtype, number_kind kind, bool constant) {
  kernel_case plain, c;
  make(&plain, r, kind);
  ck_assert_int_eq(case_run(&plain, "reference"), REED_OK);
  make(&c, r, kind);
  for (int i = 0; i < 3; i++) /* each case draws other random numbers, so the plain case's inputs are copied */
    if (desc_bytes(&c.inputs[i].desc))
      memcpy(c.inputs[i].data, plain.inputs[i].data, (size_t)desc_bytes(&c.inputs[i].desc));
  c.hide_values = !constant;
  if (r->rank == 4) turn(&c, r);
  reed_desc packed_plain;
  pack_halves(&c, dtype, &packed_plain);
  const value *want = &plain.outputs[0];
  /* rounding x and w to bf16 changes a product by 1/128 of the largest at most, and sums of them by the root;
   * Winograd's form of pairs of bf16 rounds, too, what it multiplies */
  double depth = (double)(desc_elements(&plain.inputs[1].desc) / r->w[r->op == OP_Conv || r->transposed ? 0 : 1]),
         most = kind == ANY     ? 0.02 * (1 + sqrt(depth))
                : kind == EXACT ? (r->rounds && dtype == REED_BF16 ? 1e-3 : 1e-4) * (1 + sqrt(depth))
                                : 0;
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++)
    for (int threads = 1; threads <= 2; threads++) {
      c.n_threads = threads;
      ck_assert_msg(case_run(&c, cpu_level_name(level)) == REED_OK, "%s: %s", case_where(&c),
                    reed_diagnosis_message(&c.diagnosis));
      for (int64_t i = 0; i < desc_elements(&want->desc); i++) {
        double got = case_get(&c.outputs[0], r->rank == 4 ? place_last(want->desc.dims, i) : i);
        ck_assert_msg(fabs(got - case_get(want, i)) <= most, "%s, %s: element %lld is %g, not %g", r->what,
                      case_where(&c), (long long)i, got, case_get(want, i));
      }
    }
  case_close(&plain);
  case_close(&c);
}

/* ---- images of bf16 ---- */

typedef struct image_dtypes {
  bool x, residual, y; /* bf16 */
  bool with_residual;
  const char *activation;
} image_dtypes;

static const image_dtypes dtypes[] = {
    {true, false, true, false, "relu"},      {true, true, true, true, "relu"},   {false, true, true, true, "relu"},
    {true, false, false, false, "relu"},     {true, true, false, true, "relu"},  {true, false, true, true, "relu"},
    {false, false, true, false, "relu"},     {false, true, false, true, "relu"}, {true, true, true, true, "hardswish"},
    {true, false, true, false, "hardswish"},
};

/* Gives the case input i, of f32 numbers that bf16 holds, as bf16. */
static void halve(kernel_case *c, int32_t i) {
  const value old = c->inputs[i];
  value *made = case_input(c, REED_BF16, old.desc.rank, old.desc.dims, 0);
  for (int64_t k = 0; k < desc_elements(&old.desc); k++) case_set(made, k, case_get(&old, k));
  c->n_inputs--; /* made replaces the old one */
  c->inputs[i] = *made;
  free(old.block);
}

/* A residual for the case, with channels last if `last`: numbers of bf16, the same for both orders. */
static void add_residual(kernel_case *c, const reed_desc *y, bool last) {
  const int64_t *d = y->dims, dims[] = {d[0], d[2], d[3], d[1]};
  value *v = case_input(c, REED_F32, 4, last ? dims : d, 0);
  for (int64_t i = 0; i < desc_elements(y); i++) case_set(v, last ? place_last(d, i) : i, (double)(i % 61 - 30) / 8);
}

static void set_activation(kernel_case *c, const char *activation) {
  for (int32_t i = 0; i < c->n_attrs; i++)
    if (strcmp(c->attrs[i].name, "activation") == 0) c->attrs[i].s = activation;
}

static void check_images(const product_row *r, const image_dtypes *of) {
  kernel_case first, plain, c;
  make(&first, r, EXACT); /* for the extents of Y */
  ck_assert_int_eq(case_run(&first, "reference"), REED_OK);
  const reed_desc y = first.outputs[0].desc;
  make(&plain, r, EXACT);
  make(&c, r, EXACT);
  for (int i = 0; i < 3; i++)
    if (desc_bytes(&c.inputs[i].desc))
      memcpy(c.inputs[i].data, plain.inputs[i].data, (size_t)desc_bytes(&c.inputs[i].desc));
  turn(&c, r);
  reed_desc packed_plain;
  pack_halves(&c, REED_BF16, &packed_plain);
  if (of->with_residual) add_residual(&plain, &y, false);
  if (of->with_residual) add_residual(&c, &y, true);
  set_activation(&plain, of->activation);
  set_activation(&c, of->activation);
  ck_assert_int_eq(case_run(&plain, "reference"), REED_OK);
  if (of->x) halve(&c, 0);
  if (of->residual && of->with_residual) halve(&c, 3);
  case_attr_int(&c, "output_dtype", of->y ? REED_BF16 : REED_F32);
  const double depth = (double)(desc_elements(&plain.inputs[1].desc) / r->w[0]), sums = 1e-4 * (1 + sqrt(depth));
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++)
    for (int threads = 1; threads <= 2; threads++) {
      c.n_threads = threads;
      ck_assert_msg(case_run(&c, cpu_level_name(level)) == REED_OK, "%s: %s", case_where(&c),
                    reed_diagnosis_message(&c.diagnosis));
      ck_assert_int_eq(c.outputs[0].desc.dtype, of->y ? REED_BF16 : REED_F32);
      for (int64_t i = 0; i < desc_elements(&y); i++) {
        const double got = case_get(&c.outputs[0], place_last(y.dims, i)), want = case_get(&plain.outputs[0], i);
        ck_assert_msg(fabs(got - want) <= sums + (of->y ? fabs(want) / 256 : 0), "%s, %s: element %lld is %g, not %g",
                      r->what, case_where(&c), (long long)i, got, want);
      }
    }
  case_close(&first);
  case_close(&plain);
  case_close(&c);
}

START_TEST(images_of_bf16_give_the_results_of_f32_rounded) {
  const product_row *r = &rows[(size_t)_i / ROWS(dtypes)];
  if (r->op == OP_Conv) check_images(r, &dtypes[(size_t)_i % ROWS(dtypes)]);
}
END_TEST

static void expect_rounded(const kernel_case *c, const kernel_case *plain, reed_dtype dtype) {
  double relative = dtype == REED_BF16 ? 0x1p-8 : dtype == REED_F16 ? 0x1p-11 : 0, absolute = 1e-5;
  case_tolerances_on(c, c->device, &relative, &absolute);
  ck_assert_int_eq(c->outputs[0].desc.dtype, dtype);
  for (int64_t i = 0; i < desc_elements(&c->outputs[0].desc); i++) {
    const double want = case_get(&plain->outputs[0], i);
    if (!(fabs(case_get(&c->outputs[0], i) - want) <= fabs(want) * relative + absolute))
      ck_abort_msg("%s: element %lld is %g, not %g", case_where(c), (long long)i, case_get(&c->outputs[0], i), want);
  }
}

/* Only the precision pass sets output_dtype, and only to bf16, for the host; a damaged module may have any, for any
 * device. So few elements that the emulation runs the case, too. */
START_TEST(a_result_of_another_dtype_is_rounded_or_refused) {
  static const reed_dtype dtypes[] = {REED_BF16, REED_F16, REED_F64, REED_I8, REED_F32};
  const reed_dtype dtype = dtypes[_i];
  kernel_case plain, c;
  kernel_case *both[] = {&plain, &c};
  for (int k = 0; k < 2; k++) {
    case_init(both[k], OP_Conv);
    case_input(both[k], REED_F32, DIMS(2, 3, 4, 3), 2);
    case_input(both[k], REED_F32, DIMS(4, 3, 3, 2), 1);
  }
  for (int i = 0; i < 2; i++) memcpy(c.inputs[i].data, plain.inputs[i].data, (size_t)desc_bytes(&c.inputs[i].desc));
  case_attr_int(&c, "output_dtype", dtype);
  if (dtype == REED_F64 || dtype == REED_I8) {
    case_fails(&c, REED_ERROR_UNSUPPORTED, "no kernel for f32 to ");
    case_close(&plain);
    return;
  }
  ck_assert_int_eq(case_run(&plain, "reference"), REED_OK);
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best() && !case_devices_only(); level++) {
    ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
    expect_rounded(&c, &plain, dtype);
  }
  for (const char *const *device = case_devices(); *device; device++) {
    bool has;
    const reed_status status = case_run_on(&c, *device, &has);
    if (!has) continue;
    if (status == REED_OK) expect_rounded(&c, &plain, dtype);
    else if (status != REED_ERROR_UNSUPPORTED || !strstr(reed_diagnosis_message(&c.diagnosis), "no kernel for f32 to "))
      ck_abort_msg("%s: %s", case_where(&c), reed_diagnosis_message(&c.diagnosis));
  }
  case_close(&plain);
  case_close(&c);
}
END_TEST

START_TEST(weights_of_half_precision_give_the_products_of_f32) {
  check(&rows[_i], REED_BF16, EXACT, true);
  check(&rows[_i], REED_BF16, EXACT, false);
  check(&rows[_i], REED_F16, EXACT, true);
  check(&rows[_i], REED_F16, EXACT, false);
  check(&rows[_i], REED_BF16, ANY, true);
}
END_TEST

START_TEST(products_of_integers_are_the_same_to_the_bit) {
  if (rows[_i].rounds) return;
  check(&rows[_i], REED_BF16, INTEGERS, false); /* weights that are no constants stay in pairs */
  check(&rows[_i], REED_BF16, INTEGERS, true);
  check(&rows[_i], REED_F16, INTEGERS, true);
}
END_TEST

/* The rounding of X outweighs the gain of pairs where few outputs use each value, but there is none of an X of bf16.
 * Units that multiply pairs more slowly than f32 have no gain at all. */
START_TEST(layers_without_a_gain_of_pairs_run_in_f32) {
  static const struct {
    int64_t channels, outputs, taps, stride;
    const char *variant;
  } layers[] = {{16, 16, 1, 1, "direct"}, {256, 12, 1, 1, "direct"}, {16, 32, 1, 1, "bf16"}, {16, 32, 3, 2, "bf16"},
                {256, 256, 1, 1, "bf16"}, {480, 80, 1, 1, "bf16"},   {64, 128, 3, 2, "bf16"}};
  if (cpu_level_use("avx512-bf16") != CPU_AVX512_BF16) return;
  kernel_cache *cache;
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  const int64_t side = 32, half = (side - 1) / layers[_i].stride + 1, pad = layers[_i].taps / 2,
                plain[] = {layers[_i].outputs, layers[_i].channels, layers[_i].taps, layers[_i].taps},
                pads[] = {pad, pad, pad, pad}, strides[] = {layers[_i].stride, layers[_i].stride};
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = plain, .n = 4},
                             {.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = pads, .n = 4},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = strides, .n = 2}};
  const int64_t columns = (layers[_i].outputs + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP;
  reed_desc x = {REED_F32, 4, {1, side, side, layers[_i].channels}},
            y = {REED_F32, 4, {1, half, half, layers[_i].outputs}};
  const reed_desc w = {REED_BF16, 1, {columns * layers[_i].channels * layers[_i].taps * layers[_i].taps}};
  uint16_t *packed = calloc((size_t)w.dims[0], sizeof *packed);
  ck_assert(packed);
  for (int kind = 0; kind < 4; kind++) {
    const bool slow = kind % 2, images = kind / 2;
    cpu_units_use(slow ? "intel" : "half");
    x.dtype = y.dtype = images ? REED_BF16 : REED_F32;
    reed_kernel kernel = direct_prepare(OP_Conv, items, ROWS(items), &x, &w, packed, &y, 1, cache);
    ck_assert_str_eq(kernel.variant, slow ? "direct" : images ? "bf16, X bf16, Y bf16" : layers[_i].variant);
    kernel.free(kernel.state);
  }
  cpu_units_use("half");
  kernel_cache_close(&cache);
  free(packed);
}
END_TEST

int main(void) {
  cpu_units_use("half"); /* with other units more rows take fixed point, which is not exact */
#ifdef AMX_EMULATED
  if (case_devices_only()) return 0;         /* test_precision runs the same cases on devices */
  if (cpu_level_best() < CPU_AMX) return 77; /* skipped: the rest of the level needs AVX512-BF16 */
#endif
  Suite *suite = suite_create("precision");
  TCase *t = tcase_create("precision");
  tcase_set_timeout(t, 240);
  suite_add_tcase(suite, t);
  tcase_add_host_loop_test(t, products_of_integers_are_the_same_to_the_bit, 0, ROWS(rows));
  tcase_add_host_loop_test(t, images_of_bf16_give_the_results_of_f32_rounded, 0, (int)(ROWS(rows) * ROWS(dtypes)));
  tcase_add_loop_test(t, a_result_of_another_dtype_is_rounded_or_refused, 0, 5);
  tcase_add_host_loop_test(t, layers_without_a_gain_of_pairs_run_in_f32, 0, 7);
  tcase_add_host_loop_test(t, weights_of_half_precision_give_the_products_of_f32, 0, ROWS(rows));
  return suite_run(suite);
}
