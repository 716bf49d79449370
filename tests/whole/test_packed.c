/* Modules with packed weights on the GPU: a module compiled for the host and one compiled for the GPU give the same
 * bits on the emulated GPU, and the host's results within a tolerance. The kernels read the file's order, so that the
 * weights cross to the device once for all sessions of a program. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/properties.h"
#include "tests/devices.h"
#include "tests/suite.h"
#include "tests/whole/runner.h"

static const char EMULATED[] = "cuda-emulated";

typedef struct product {
  const char *op, *x, *w;        /* X's type; the weights' extents */
  const char *ints[3][2], *flag; /* attributes that are lists; the name of an attribute that is 1 */
  int group, before, after;      /* channels of a 1x1 convolution before and after, by which the layout pass turns it */
  int half;                      /* X and weights are f16 */
} product;

static const product products[] = {
    {"MatMul", "f32[n,5]", "5,3"},
    {"MatMul", "f32[n,2,19]", "19,70"},
    {"MatMul", "f32[33]", "33,17"},
    {"MatMul", "f16[n,9]", "9,18", .half = 1},
    {"Gemm", "f32[n,6]", "6,130"},
    {"Gemm", "f32[n,6]", "65,6", .flag = "transB"},
    {"Conv", "f32[n,3,7,6]", "5,4,3,3", .before = 4, .after = 5},
    {"Conv",
     "f32[n,3,7,6]",
     "70,4,2,3",
     {{"strides", "2,1"}, {"dilations", "1,2"}, {"pads", "1,1,0,1"}},
     .before = 4,
     .after = 70},
    {"Conv", "f16[n,3,5,5]", "5,4,3,3", .before = 4, .after = 5, .half = 1},
    {"Conv", "f32[n,4,7,6]", "4,4,3,3", .after = 4}, /* X has its channels first */
    {"Conv", "f32[n,3,9]", "17,4,3", .before = 4, .after = 17},
    {"Conv", "f32[n,2,3,4,3]", "6,4,2,2,1", .before = 4, .after = 6},
    {"Conv", "f32[n,3,5,6]", "6,1,3,3", {{"pads", "1,1,1,1"}}, .group = 6, .before = 6, .after = 6},
    {"Conv", "f32[n,3,5,6]", "70,1,3,3", .group = 70, .before = 70, .after = 70},
    {"Conv", "f32[n,3,5,6]", "8,2,2,2", .group = 4, .before = 8, .after = 8},
    {"Conv", "f32[n,3,4,4]", "24,8,2,2", .group = 3, .before = 24, .after = 24},
    {"Conv", "f32[n,3,4,4]", "34,3,2,2", .group = 2, .before = 6, .after = 34},
    {"Conv", "f32[n,3,3,4]", "140,2,1,2", .group = 2, .before = 4, .after = 140},
    {"ConvTranspose", "f32[n,3,3,4]", "4,3,2,2", {{"strides", "2,2"}}, .before = 4, .after = 3},
    {"ConvTranspose", "f32[n,3,2,3]", "4,70,2,3", {{"strides", "2,3"}}, .before = 4, .after = 70},
    {"ConvTranspose", "f32[n,3,5]", "6,9,2", {{"strides", "2"}}, .before = 6, .after = 9},
};
enum { N_PRODUCTS = sizeof products / sizeof *products, WEIGHTS_MOST = 70 * 140, EXTENTS = 2 };

static const int64_t extents[EXTENTS] = {1, 3};

static double number(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (double)(*seed >> 8) / (1 << 24) * 2 - 1;
}

/* Constant weights of these extents, in -1..1. */
static void weights(onnx_build *b, const char *name, const char *dims, reed_dtype dtype) {
  static float elements[2 * WEIGHTS_MOST];
  uint32_t seed = 7u + (uint32_t)strlen(dims) + (unsigned char)*name;
  size_t n = 1;
  for (const char *at = dims; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) n *= strtoul(at, NULL, 10);
  ck_assert_uint_le(n, WEIGHTS_MOST * 2);
  for (size_t i = 0; i < n; i++) reed_dtype_write(dtype, (char *)elements + i * reed_dtype_bytes(dtype), number(&seed));
  build_tensor(b, name, dtype, dims, elements, true);
}

/* A 1x1 convolution of `rank` axes. */
static void convolve(onnx_build *b, const product *p, const char *from, const char *name, int outputs, int inputs,
                     const char *to) {
  char dims[64], operands[64];
  int n = snprintf(dims, sizeof dims, "%d,%d", outputs, inputs);
  for (const char *at = strchr(strchr(p->w, ',') + 1, ','); at; at = strchr(at + 1, ','))
    n += snprintf(dims + n, sizeof dims - (size_t)n, ",1");
  snprintf(operands, sizeof operands, "%s,%s", from, name);
  weights(b, name, dims, p->half ? REED_F16 : REED_F32);
  build_node(b, "Conv", operands, to);
}

static onnx_build *build(const product *p) {
  onnx_build *b = build_open(22);
  build_input(b, "x", p->x);
  weights(b, "w", p->w, p->half ? REED_F16 : REED_F32);
  if (p->before) convolve(b, p, "x", "u", p->before, atoi(strchr(p->x, ',') + 1), "t");
  build_node_t *n = build_node(b, p->op, p->before ? "t,w" : "x,w", p->after ? "s" : "y");
  for (int i = 0; i < 3 && p->ints[i][0]; i++) build_ints(b, n, p->ints[i][0], p->ints[i][1]);
  if (p->flag) build_int(b, n, p->flag, 1);
  if (p->group) build_int(b, n, "group", p->group);
  if (p->after) convolve(b, p, "s", "v", p->after, p->after, "y");
  build_output(b, "y", p->half ? "f16" : "f32");
  return b;
}

static reed_tensor *input_of(const runner *r, int64_t extent) {
  reed_value_info info;
  reed_tensor *t;
  uint32_t seed = 99;
  ck_assert_int_eq(reed_program_input(r->program, 0, &info), REED_OK);
  for (int32_t k = 0; k < info.rank; k++)
    if (info.dims[k] < 0) info.dims[k] = extent;
  ck_assert_int_eq(reed_tensor_open(info.dtype, info.rank, info.dims, &t), REED_OK);
  for (int64_t k = 0; k < reed_tensor_elements(t); k++)
    reed_dtype_write(info.dtype, (char *)reed_tensor_data(t) + (size_t)k * reed_dtype_bytes(info.dtype), number(&seed));
  return t;
}

static double at(const reed_tensor *t, int64_t i) {
  reed_dtype dtype = reed_tensor_dtype(t);
  return reed_dtype_read(dtype, (const char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(dtype));
}

static void equal(const reed_tensor *a, const reed_tensor *b, double tolerance, const product *p) {
  ck_assert_int_eq(reed_tensor_elements(a), reed_tensor_elements(b));
  for (int64_t i = 0; i < reed_tensor_elements(a); i++)
    ck_assert_msg(fabs(at(a, i) - at(b, i)) <= tolerance * fmax(1, fabs(at(b, i))),
                  "%s of %s: element %lld is %.9g, not %.9g", p->op, p->w, (long long)i, at(a, i), at(b, i));
}

/* The products whose weights the compiler packed, by its report. */
static int packed(const runner *r) {
  static const char text[] = "\"what\":\"";
  const char *pass = strstr(r->report, "{\"name\":\"pack\""), *found = pass ? strstr(pass, text) : NULL;
  ck_assert_ptr_nonnull(found);
  return atoi(found + strlen(text));
}

START_TEST(modules_of_both_targets_give_the_same_bits) {
  const product *p = &products[_i];
  if (!device_is_present(EMULATED)) return;
  onnx_build *b = build(p);
  runner host = runner_open(b, &(reed_compile_options){0}, NULL, p->w),
         moved = runner_open(b, &(reed_compile_options){0}, EMULATED, p->w),
         own = runner_open(b, &(reed_compile_options){.target = EMULATED}, EMULATED, p->w);
  const char *const none[] = {"pack", NULL};
  runner plain = runner_open(b, &(reed_compile_options){.target = EMULATED, .disabled_passes = none}, EMULATED, p->w);
  const runner *all[] = {&host, &moved, &own, &plain};
  const int each = p->after ? 2 + (p->before > 0) : 1;
  for (int i = 0; i < 4; i++)
    ck_assert_msg(packed(all[i]) == (i < 3 ? each : 0), "%s of %s: %d packed: %s", p->op, p->w, packed(all[i]),
                  all[i]->report);
  for (int k = 0; k < EXTENTS; k++) {
    reed_tensor *x = input_of(&host, extents[k]), *y[4] = {NULL};
    for (int i = 0; i < 4; i++) runner_run(all[i], &x, 1, &y[i], 1, p->w);
    equal(y[1], y[0], p->half ? 4e-3 : 1e-5, p);
    equal(y[2], y[1], 0, p);
    equal(y[3], y[1], 0, p);
    for (int i = 0; i < 4; i++) reed_tensor_close(&y[i]);
    reed_tensor_close(&x);
  }
  runner_close(&plain);
  runner_close(&own);
  runner_close(&moved);
  runner_close(&host);
  build_close(&b);
}
END_TEST

/* The second session of a program copies no weights. */
START_TEST(sessions_share_the_packed_weights) {
  if (!device_is_present(EMULATED)) return;
  onnx_build *b = build(&products[6]);
  runner r = runner_open(b, &(reed_compile_options){0}, EMULATED, "sharing");
  runner other = {.program = r.program};
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  ck_assert_int_eq(reed_session_open(r.program, &(reed_session_options){.device = EMULATED}, &other.session, d),
                   REED_OK);
  reed_tensor *x = input_of(&r, 2), *y;
  for (int i = 0; i < 2; i++) {
    char *stats;
    runner_run(i ? &other : &r, &x, 1, &y, 1, "sharing");
    ck_assert_int_eq(reed_session_stats_json(i ? other.session : r.session, &stats, d), REED_OK);
    ck_assert_msg((strstr(stats, "\"constant\"") != NULL) == (i == 0), "session %d: %s", i, stats);
    reed_text_free(stats);
    reed_tensor_close(&y);
  }
  reed_tensor_close(&x);
  reed_session_close(&other.session);
  reed_diagnosis_close(&d);
  runner_close(&r);
  build_close(&b);
}
END_TEST

START_TEST(every_packable_operator_has_a_case) {
  static const char *const packable[] = {
#define OP(name, shape, kernel, class, alias, properties, ...) ((properties)&PACKABLE) ? #name : NULL,
#include "ops/op.def"
  };
  for (size_t i = 0; i < sizeof packable / sizeof *packable; i++) {
    int k = 0;
    while (packable[i] && k < N_PRODUCTS && strcmp(products[k].op, packable[i]) != 0) k++;
    ck_assert_msg(k < N_PRODUCTS, "%s has no case", packable[i]);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("packed");
  TCase *t = tcase_create("packed");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, modules_of_both_targets_give_the_same_bits, 0, N_PRODUCTS);
  tcase_add_test(t, sessions_share_the_packed_weights);
  tcase_add_test(t, every_packable_operator_has_a_case);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
