/* Convolutions with channels second that are computed with channels last (ops/cpu/product/conv_relaid.c): results
 * against the reference at every CPU level; which calls are computed so, with the same bits for any number of threads
 * and for constant weights, which a program packs once for small maps. */
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/suite.h"

#define TOLERANCE 5e-4

typedef struct second_conv {
  const char *what;
  int64_t images, channels, outputs, in[3], taps[3], stride, dilation, pads[6], groups;
  int32_t axes;
  bool relaid; /* false: another kernel is faster */
} second_conv;

static const second_conv rows[] = {
    {"3x3", 1, 64, 64, {28, 29}, {3, 3}, 1, 1, {1, 1, 1, 1}, 1, 2, true},
    {"a small map", 1, 160, 96, {7, 7}, {3, 3}, 1, 1, {1, 1, 1, 1}, 1, 2, true},
    {"taps in the padding", 1, 48, 48, {15, 16}, {3, 3}, 1, 7, {7, 7, 7, 7}, 1, 2, true},
    {"3-D, a picture's channels", 1, 3, 32, {4, 20, 21}, {3, 5, 5}, 1, 1, {2, 2, 2, 2, 2, 2}, 1, 3, true},
    {"batches of 3 and 2 images", 5, 40, 40, {88, 89}, {3, 3}, 1, 1, {1, 1, 1, 1}, 1, 2, true},
    {"groups", 2, 48, 128, {12, 13}, {3, 3}, 1, 1, {1, 1, 1, 1}, 2, 2, true},
    {"1-D", 2, 96, 64, {201}, {5}, 1, 1, {2, 2}, 1, 1, true},
    {"1-D, groups of long windows", 1, 96, 96, {230}, {31}, 1, 1, {15, 15}, 2, 1, true},
    {"stride 2, uneven pads", 1, 40, 80, {21, 35}, {3, 5}, 2, 1, {0, 2, 1, 3}, 1, 2, true},
    {"a panel and one output", 1, 33, 65, {24, 25}, {3, 3}, 1, 1, {1, 1, 1, 1}, 1, 2, true},
    {"cropped", 2, 72, 64, {17, 16}, {3, 3}, 1, 2, {-1, 2, 2, -2}, 1, 2, true},
    {"taps far outside", 1, 16, 4, {16, 17}, {3, 3}, 1, 1100, {1100, 1100, 1100, 1100}, 1, 2, true},
    {"little depth", 1, 16, 16, {20, 20}, {1, 1}, 1, 1, {0}, 1, 2, false},
    {"four outputs", 1, 64, 4, {20, 20}, {3, 3}, 1, 1, {1, 1, 1, 1}, 1, 2, false},
    {"no images", 0, 64, 64, {28, 28}, {3, 3}, 1, 1, {1, 1, 1, 1}, 1, 2, false},
};

static void extents(const second_conv *r, int64_t *x, int64_t *w, int64_t *y) {
  x[0] = y[0] = r->images;
  x[1] = r->channels;
  w[0] = y[1] = r->outputs;
  w[1] = r->channels / r->groups;
  for (int32_t i = 0; i < r->axes; i++) {
    x[2 + i] = r->in[i];
    w[2 + i] = r->taps[i];
    y[2 + i] = (r->in[i] + r->pads[i] + r->pads[r->axes + i] - (r->taps[i] - 1) * r->dilation - 1) / r->stride + 1;
  }
}

/* ---- against the reference ---- */

START_TEST(relaid_equals_the_reference) {
  const second_conv *r = &rows[_i];
  const int64_t strides[] = {r->stride, r->stride, r->stride}, dilations[] = {r->dilation, r->dilation, r->dilation};
  int64_t x[5], w[5], y[5];
  extents(r, x, w, y);
  for (int form = 0; form < 4; form++) {
    kernel_case c;
    case_init(&c, OP_Conv);
    c.hide_values = form % 2; /* weights that are no constants */
    case_input(&c, REED_F32, 2 + r->axes, x, 1);
    case_input(&c, REED_F32, 2 + r->axes, w, 1);
    if (form > 1) case_input(&c, REED_F32, DIMS(r->outputs), 1);
    else if (form == 1) case_absent(&c);
    if (form == 1 || form == 3) case_input(&c, REED_F32, 2 + r->axes, y, 1);
    case_attr_ints(&c, "dilations", dilations, r->axes);
    case_attr_ints(&c, "pads", r->pads, 2 * r->axes);
    case_attr_ints(&c, "strides", strides, r->axes);
    case_attr_int(&c, "group", r->groups);
    case_attr_activation(&c, form == 2 ? "relu" : form == 3 ? "sigmoid" : NULL);
    case_parity(&c, TOLERANCE, TOLERANCE);
  }
}
END_TEST

/* ---- calls of the operator ---- */

/* Prepares the row's call; weights: of a constant, or NULL. */
static reed_kernel prepare(const second_conv *r, int32_t threads, const float *weights, kernel_cache *cache) {
  const int64_t strides[] = {r->stride, r->stride, r->stride}, dilations[] = {r->dilation, r->dilation, r->dilation};
  reed_desc x = {REED_F32, 2 + r->axes, {0}}, w = x, y = x;
  extents(r, x.dims, w.dims, y.dims);
  const reed_attr items[] = {{.name = "activation", .type = REED_ATTR_STRING, .s = "relu", .n = 4},
                             {.name = "dilations", .type = REED_ATTR_INTS, .ints = dilations, .n = r->axes},
                             {.name = "group", .type = REED_ATTR_INT, .i = r->groups},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = r->pads, .n = 2 * r->axes},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = strides, .n = r->axes}};
  return direct_prepare(OP_Conv, items, ROWS(items), &x, &w, weights, &y, threads, cache);
}

/* Runs the row and returns Y. Kernels for channels last have a variant, others for channels second have none. */
static float *run(const void *row, int32_t threads, kernel_cache *cache, int64_t *out_n) {
  const second_conv *r = row;
  reed_desc x = {REED_F32, 2 + r->axes, {0}}, w = x, y = x;
  extents(r, x.dims, w.dims, y.dims);
  float *in = seeded_numbers(desc_elements(&x), 5), *weights = seeded_numbers(desc_elements(&w), 3),
        *out = seeded_numbers(desc_elements(&y), 7);
  reed_kernel kernel = prepare(r, threads, cache ? weights : NULL, cache);
  if (cpu_level_now() != CPU_REFERENCE && (kernel.variant != NULL) != r->relaid)
    ck_abort_msg("%s at %s: variant %s", r->what, cpu_level_name(cpu_level_now()),
                 kernel.variant ? kernel.variant : "none");
  direct_run(&kernel, in, weights, out);
  free(weights);
  free(in);
  *out_n = desc_elements(&y);
  return out;
}

START_TEST(threads_and_constants_change_no_bits) { direct_expect_equal_bits(run, &rows[_i], rows[_i].what); }
END_TEST

/* Small maps of all extents share one value; a large map packs the constant in each run. */
START_TEST(constants_of_small_maps_are_packed_once) {
  if (cpu_level_now() == CPU_REFERENCE) return;
  second_conv maps[] = {rows[1], rows[1], rows[1]};
  maps[1].in[0] = 10, maps[1].in[1] = 9;
  maps[2].in[0] = 40, maps[2].in[1] = 50;
  float *weights = seeded_numbers(96 * 160 * 9, 3);
  kernel_cache *cache;
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  reed_kernel kernels[3];
  int64_t values, bytes;
  kernels[2] = prepare(&maps[2], 1, weights, cache);
  kernel_cache_count(cache, &values, &bytes);
  ck_assert_int_eq(values, 0);
  for (int i = 0; i < 2; i++) {
    kernels[i] = prepare(&maps[i], 1, weights, cache);
    kernel_cache_count(cache, &values, &bytes);
    ck_assert_int_eq(values, 1);
    ck_assert_int_eq(bytes, 96 * 160 * 9 * (int64_t)sizeof(float));
  }
  ck_assert_int_lt(kernels[0].workspace_bytes, kernels[2].workspace_bytes);
  for (int i = 0; i < 3; i++) kernels[i].free(kernels[i].state);
  kernel_cache_close(&cache);
  free(weights);
}
END_TEST

int main(void) {
  cpu_units_use("half"); /* the rows say which maps are relaid with units of half the width */
  Suite *suite = suite_create("relaid");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, relaid_equals_the_reference, 0, ROWS(rows));
  tcase_add_host_loop_test(t, threads_and_constants_change_no_bits, 0, ROWS(rows));
  tcase_add_host_test(t, constants_of_small_maps_are_packed_once);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
