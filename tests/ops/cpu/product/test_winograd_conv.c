/* Conv as Winograd convolutions: when the program keeps transformed weights, which small maps share; strides and
 * dilations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/product/winograd.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/ops/cpu/product/winograd_case.h"
#include "tests/suite.h"

/* A Conv of as many channels as outputs whose Y has side x side pixels; slices > 0: in so many slices, with three taps
 * along them; line_taps > 0: a line of `side` pixels; column_stride > 0: of the columns alone. Other zeros: 1. */
typedef struct layer {
  int64_t channels, side, stride, dilation, slices, line_taps, column_stride;
  bool shared; /* convolutions of other extents read the weights, too */
} layer;

static winograd_problem problem_of(const layer *l) {
  const int64_t stride = l->stride ? l->stride : 1, dilation = l->dilation ? l->dilation : 1;
  winograd_problem p = {.images = 1,
                        .channels = l->channels,
                        .outputs = l->channels,
                        .in = {stride * l->side, stride * l->side},
                        .out = {l->side, l->side},
                        .pad = {dilation, dilation},
                        .stride = {(int32_t)stride, (int32_t)stride},
                        .dilation = {dilation, dilation},
                        .slices = winograd_one_slice};
  if (l->column_stride) {
    p.stride[1] = (int32_t)l->column_stride;
    p.in[1] = l->column_stride * l->side;
  }
  if (l->line_taps) {
    p.line_taps = l->line_taps;
    p.in[0] = p.out[0] = p.stride[0] = 1;
    p.dilation[0] = 1;
    p.pad[0] = 0;
    p.pad[1] = l->line_taps / 2 * dilation;
  }
  if (l->slices)
    p.slices = (winograd_slices){.in = l->slices, .out = l->slices, .taps = 3, .stride = 1, .dilation = 1, .pad = 1};
  problem_lay_out(&p, false);
  return p;
}

/* Its kernel, with constant weights, those of bf16 in pairs. */
static reed_kernel prepare(const layer *l, kernel_cache *cache, const void *packed, reed_dtype dtype) {
  const winograd_problem p = problem_of(l);
  const winograd_slices *v = &p.slices;
  const int skipped = l->line_taps ? 2 : l->slices ? 0 : 1, n_axes = 3 - skipped; /* axes: slices, rows, columns */
  const int64_t pad[] = {v->pad, p.pad[0], p.pad[1]}, strides[] = {v->stride, p.stride[0], p.stride[1]},
                dilations[] = {v->dilation, p.dilation[0], p.dilation[1]},
                taps[] = {v->taps, 3, winograd_axis_taps(&p, 1)}, in[] = {v->in, p.in[0], p.in[1]},
                out[] = {v->out, p.out[0], p.out[1]};
  int64_t plain[5] = {p.outputs, p.channels}, pads[6];
  reed_desc x = {REED_F32, n_axes + 2, {1}}, y = x, w = {dtype, 1, {problem_weights(&p)}};
  for (int i = 0; i < n_axes; i++) {
    plain[2 + i] = taps[skipped + i];
    pads[i] = pads[n_axes + i] = pad[skipped + i];
    x.dims[1 + i] = in[skipped + i];
    y.dims[1 + i] = out[skipped + i];
  }
  x.dims[n_axes + 1] = p.channels;
  y.dims[n_axes + 1] = p.outputs;
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = plain, .n = n_axes + 2},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = pads, .n = 2 * n_axes},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = strides + skipped, .n = n_axes},
                             {.name = "dilations", .type = REED_ATTR_INTS, .ints = dilations + skipped, .n = n_axes},
                             {.name = SHARED_WEIGHTS_ATTR, .type = REED_ATTR_INT, .i = l->shared},
                             {.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1}};
  return direct_prepare(OP_Conv, items, dtype == REED_BF16 ? 7 : 6, &x, &w, packed, &y, 1, cache);
}

/* The products of the plain level take so long beside a transform of weights that none is kept. */
static bool keeps_weights(void) { return cpu_level_now() != CPU_REFERENCE && cpu_level_now() >= CPU_AVX2; }

/* An empty cache of a program; prepared kernels have the forms for half units. */
static kernel_cache *cache_for_half_units(void) {
  kernel_cache *cache;
  cpu_units_use("half");
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  return cache;
}

/* Two sessions and two small maps share one value; a large map has none. */
START_TEST(small_maps_share_stored_weights) {
  if (!keeps_weights()) return;
  kernel_cache *cache = cache_for_half_units();
  float *packed = numbers(256 * 256 * 9);
  reed_kernel kernels[4];
  static const int64_t sides[4] = {100, 12, 12, 10};
  for (int i = 0; i < 4; i++) {
    int64_t values, bytes;
    kernels[i] = prepare(&(layer){256, sides[i]}, cache, packed, REED_F32);
    kernel_cache_count(cache, &values, &bytes);
    ck_assert_int_eq(values, i > 0);
    ck_assert(i ? bytes >= 36 * 256 * 256 * 4 && bytes < WINOGRAD_STORED_MOST : bytes == 0);
    ck_assert_str_eq(kernels[i].variant, i ? "winograd 4x4, stored" : "winograd 6x6");
  }
  for (int i = 0; i < 4; i++) kernels[i].free(kernels[i].state);
  kernel_cache_close(&cache), free(packed);
}
END_TEST

/* Weights that convolutions of several extents read are not kept, not even beside one that keeps them. */
START_TEST(weights_of_several_extents_are_not_stored) {
  if (!keeps_weights()) return;
  kernel_cache *cache = cache_for_half_units();
  float *packed = numbers(256 * 256 * 9);
  reed_kernel kernels[5];
  for (int i = 0; i < 5; i++) {
    int64_t values, bytes;
    kernels[i] = prepare(&(layer){256, i == 1 ? 100 : 12, .shared = i != 2}, cache, packed, REED_F32);
    kernel_cache_count(cache, &values, &bytes);
    ck_assert_int_eq(values, i >= 2);
    ck_assert_int_eq(strstr(kernels[i].variant, "stored") != NULL, i == 2);
  }
  for (int i = 0; i < 5; i++) kernels[i].free(kernels[i].state);
  kernel_cache_close(&cache), free(packed);
}
END_TEST

/* Pairs of convolutions with different windows over one constant: with as many taps, or of another stride. */
static const layer same_constant[][2] = {
    {{256, 12}, {256, 32, .line_taps = 9}},
    {{128, 8, .slices = 3}, {128, 32, .line_taps = 27}},
    {{128, 12}, {128, 20, .column_stride = 2}},
};

/* Runs the layer, whose weights are stored in the cache, and returns Y, of *out_n elements. */
static float *run_stored(const layer *l, kernel_cache *cache, const float *packed, int64_t *out_n) {
  const winograd_problem p = problem_of(l);
  float *x = seeded_numbers(p.x_image, 41), *y = numbers(p.y_image);
  reed_kernel kernel = prepare(l, cache, packed, REED_F32);
  ck_assert_msg(kernel.variant && strstr(kernel.variant, "stored"), "%s", kernel.variant ? kernel.variant : "");
  direct_run(&kernel, x, packed, y);
  free(x);
  *out_n = p.y_image;
  return y;
}

START_TEST(other_windows_over_one_constant_store_their_own) {
  if (cpu_level_now() < CPU_AVX512) return; /* others choose the stored form for other extents */
  const winograd_problem p = problem_of(&same_constant[_i][0]);
  float *packed = numbers(problem_weights(&p));
  kernel_cache *shared = cache_for_half_units();
  for (int i = 0; i < 2; i++) {
    kernel_cache *own = cache_for_half_units();
    int64_t n;
    float *want = run_stored(&same_constant[_i][i], own, packed, &n),
          *y = run_stored(&same_constant[_i][i], shared, packed, &n);
    ck_assert_mem_eq(y, want, (size_t)n * sizeof *y);
    kernel_cache_close(&own), free(want), free(y);
  }
  kernel_cache_close(&shared), free(packed);
}
END_TEST

/* Halves are widened for their stored transform alone: the program keeps one value for them. */
START_TEST(weights_of_half_precision_are_stored_transformed) {
  if (!keeps_weights()) return;
  static const reed_dtype dtypes[] = {REED_F16, REED_BF16};
  uint16_t *packed = calloc(256 * 256 * 9, sizeof *packed);
  kernel_cache *cache = cache_for_half_units();
  ck_assert(packed);
  int64_t values, bytes;
  reed_kernel kernel = prepare(&(layer){256, 12}, cache, packed, dtypes[_i]);
  kernel_cache_count(cache, &values, &bytes);
  ck_assert_str_eq(kernel.variant, "winograd 4x4, stored");
  ck_assert_int_eq(values, 1);
  kernel.free(kernel.state);
  kernel_cache_close(&cache), free(packed);
}
END_TEST

/* A transform that costs little beside the products is not kept: it takes four times the memory of the weights. Without
 * it Winograd is faster than the direct convolution on maps of 8x8 already. */
START_TEST(weights_of_few_channels_are_not_stored) {
  if (cpu_level_now() == CPU_REFERENCE) return;
  kernel_cache *cache = cache_for_half_units();
  float *packed = numbers(64 * 64 * 9);
  for (int64_t side = 8; side <= 32; side += 4) {
    int64_t values, bytes;
    reed_kernel kernel = prepare(&(layer){64, side}, cache, packed, REED_F32);
    kernel_cache_count(cache, &values, &bytes);
    ck_assert_int_eq(values, 0);
    ck_assert_int_eq(strncmp(kernel.variant, "winograd ", 9), 0);
    kernel.free(kernel.state);
  }
  kernel_cache_close(&cache), free(packed);
}
END_TEST

/* Layers of stride 2, dilated ones and volumes take Winograd's form on a large map, whose results are those of the
 * definition, and none where a tile has few pixels of Y. */
static const struct {
  layer l;
  const char *form; /* NULL: a direct convolution; else the form's text begins so */
} layers[] = {
    {{96, 83, .stride = 2}, "winograd 5"},     {{96, 8, .stride = 2}, NULL},
    {{64, 40, .dilation = 2}, "winograd "},    {{48, 37, .dilation = 5}, "winograd "},
    {{32, 40, .dilation = 40}, NULL},          {{32, 9, .dilation = 1000}, NULL},
    {{64, 28, .slices = 3}, "winograd "},      {{32, 30, .dilation = 3, .slices = 4}, "winograd "},
    {{48, 9, .stride = 2, .slices = 5}, NULL}, /* too few pixels for its phases */
};

START_TEST(layers_take_fewer_products) {
  const layer *l = &layers[_i].l;
  const char *form = layers[_i].form;
  if (!keeps_weights()) return;
  cpu_units_use("half");
  winograd_problem p = problem_of(l);
  float *x = seeded_numbers(p.x_image, 31), *weights = numbers(problem_weights(&p)), *y = numbers(p.y_image),
        *packed = problem_pack(&p, weights);
  reed_kernel kernel = prepare(l, NULL, packed, REED_F32);
  if (form) ck_assert_int_eq(strncmp(kernel.variant, form, strlen(form)), 0);
  else ck_assert_int_ne(strncmp(kernel.variant, "winograd", 8), 0);
  if (form && l->dilation) {
    char text[32];
    snprintf(text, sizeof text, ", dilation %dx%d", (int)l->dilation, (int)l->dilation);
    ck_assert_ptr_nonnull(strstr(kernel.variant, text));
  }
  direct_run(&kernel, x, packed, y);
  for (int64_t k = 0; k < 1500; k++) {
    const int64_t i = drawn(0, p.y_image - 1);
    double squares;
    ck_assert_double_eq_tol((double)y[i], problem_exact(&p, x, weights, i, &squares),
                            4e-5 * sqrt(9 * (double)p.channels));
  }
  free(x), free(weights), free(y), free(packed);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("winograd conv");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, small_maps_share_stored_weights);
  tcase_add_test(t, weights_of_several_extents_are_not_stored);
  tcase_add_loop_test(t, other_windows_over_one_constant_store_their_own, 0,
                      sizeof same_constant / sizeof *same_constant);
  tcase_add_loop_test(t, weights_of_half_precision_are_stored_transformed, 0, 2);
  tcase_add_test(t, weights_of_few_channels_are_not_stored);
  tcase_add_loop_test(t, layers_take_fewer_products, 0, sizeof layers / sizeof *layers);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
