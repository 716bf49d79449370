/* ConvTranspose over one axis as a convolution (ops/cpu/product/conv_phases.c): results against the reference at every
 * CPU level, in both orders of axes; which calls with channels last are computed so, with the same bits for any number
 * of threads and for constant weights, which a program packs once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/suite.h"

#define TOLERANCE 2e-5

enum { FORM_BYTES = 64 };

typedef struct phases_row {
  const char *what;
  int64_t images, channels, outputs, in, kernel, stride, pads[2], more; /* more: the output padding */
  const char *form; /* its beginning on AVX-512; NULL: another kernel */
} phases_row;

static const phases_row rows[] = {
    {"windows over half of the next", 1, 64, 64, 400, 8, 4, {2, 2}, 0, "winograd"},
    {"the last block cut", 2, 64, 64, 250, 8, 4, {2, 1}, 0, "winograd"},
    {"an odd stride, output padding", 1, 64, 96, 401, 6, 3, {2, 2}, 1, "winograd"},
    {"taps of four pixels", 1, 64, 64, 290, 12, 4, {4, 4}, 0, "winograd"},
    {"cropped more than a stride", 1, 64, 64, 307, 8, 2, {5, 4}, 0, "winograd"},
    {"two parts", 1, 24, 16, 31, 10, 5, {3, 2}, 0, "direct"},
    {"two parts, the last block cut", 1, 24, 16, 31, 10, 5, {3, 1}, 0, "direct"},
    {"one pixel", 3, 32, 32, 1, 6, 4, {0, 1}, 0, NULL},
    {"one block", 3, 32, 64, 2, 4, 4, {3, 2}, 0, "direct"},
    {"no pads", 2, 32, 24, 33, 10, 5, {0, 0}, 0, "direct"},
    {"uneven taps", 1, 32, 32, 23, 7, 3, {1, 2}, 0, "direct"},
    {"taps of two numbers from one pixel on", 2, 32, 32, 23, 7, 3, {0, 1}, 0, "direct"},
    {"three parts", 1, 32, 24, 29, 13, 5, {1, 3}, 0, "direct"},
    {"stride 1", 1, 32, 32, 37, 3, 1, {1, 1}, 0, "direct"},
    {"widened", 1, 32, 32, 17, 4, 2, {-3, -2}, 0, "direct"},
    {"fewer taps than the stride", 1, 32, 32, 17, 2, 4, {0, 1}, 0, NULL},
    {"more phases than a call may look at", 1, 32, 16, 1, 4, INT32_MAX, {0, 0}, 0, NULL},
    {"one output", 1, 64, 1, 40, 4, 2, {1, 1}, 0, NULL},
};

static int64_t extent(const phases_row *r) {
  return (r->in - 1) * r->stride + r->kernel - r->pads[0] - r->pads[1] + r->more;
}

START_TEST(phases_equal_the_reference) {
  const phases_row *r = &rows[_i];
  for (int form = 0; form < 4; form++) {
    kernel_case c;
    case_init(&c, OP_ConvTranspose);
    c.hide_values = form % 2; /* weights that are no constants */
    case_input(&c, REED_F32, DIMS(r->images, r->channels, r->in), 1);
    case_input(&c, REED_F32, DIMS(r->channels, r->outputs, r->kernel), 1);
    if (form > 1) case_input(&c, REED_F32, DIMS(r->outputs), 1);
    case_attr_ints(&c, "strides", &r->stride, 1);
    case_attr_ints(&c, "pads", r->pads, 2);
    case_attr_ints(&c, "output_padding", &r->more, 1);
    case_attr_activation(&c, form == 1 ? "leaky_relu" : form == 2 ? "relu" : NULL);
    case_parity_orders(&c, 1u << 0, TOLERANCE, TOLERANCE * 8);
  }
}
END_TEST

static float *weights_of(const phases_row *r) { return seeded_numbers(r->channels * r->outputs * r->kernel, 3); }

/* Runs the row with channels last and returns Y. `infinite`: a pixel of X that is infinite; -1: none. */
static float *run_with(const phases_row *r, const float *weights, int64_t infinite, int32_t threads,
                       kernel_cache *cache, char *form) {
  const reed_desc x = {REED_F32, 3, {r->images, r->in, r->channels}},
                  w = {REED_F32, 3, {r->channels, r->outputs, r->kernel}},
                  y = {REED_F32, 3, {r->images, extent(r), r->outputs}};
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = "output_padding", .type = REED_ATTR_INTS, .ints = &r->more, .n = 1},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = r->pads, .n = 2},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = &r->stride, .n = 1}};
  float *in = seeded_numbers(desc_elements(&x), 5), *out = seeded_numbers(desc_elements(&y), 7);
  for (int64_t i = 0; infinite >= 0 && i < r->channels; i++) in[infinite * r->channels + i] = INFINITY;
  reed_kernel kernel =
      direct_prepare(OP_ConvTranspose, items, ROWS(items), &x, &w, cache ? weights : NULL, &y, threads, cache);
  snprintf(form, FORM_BYTES, "%s", kernel.variant ? kernel.variant : "");
  direct_run(&kernel, in, weights, out);
  free(in);
  return out;
}

/* A direct_runner that looks at the form as well, and at how often constant weights are packed. */
static float *run(const void *row, int32_t threads, kernel_cache *cache, int64_t *out_n) {
  const phases_row *r = row;
  char form[FORM_BYTES];
  float *weights = weights_of(r), *y = run_with(r, weights, -1, threads, cache, form);
  free(weights);
  const char *wanted = r->form ? r->form : "";
  if (cpu_level_now() == CPU_AVX512)
    ck_assert_msg(strncmp(form, wanted, strlen(wanted)) == 0 && !form[0] == !wanted[0], "%s: %s", r->what, form);
  if (cache && form[0]) {
    int64_t values, kept;
    kernel_cache_count(cache, &values, &kept);
    ck_assert_int_eq(values, 1);
  }
  *out_n = r->images * extent(r) * r->outputs;
  return y;
}

START_TEST(threads_and_constants_change_no_bits) { direct_expect_equal_bits(run, &rows[_i], rows[_i].what); }
END_TEST

/* A pixel of Y whose window has no infinite pixel is finite. (Winograd's form gives it to all pixels of a tile.) */
START_TEST(an_infinite_pixel_stays_in_its_windows) {
  const phases_row *r = &rows[_i];
  const int64_t infinite = r->in / 2;
  char form[FORM_BYTES];
  float *weights = weights_of(r), *y = run_with(r, weights, infinite, 2, NULL, form);
  free(weights);
  for (int64_t pixel = 0; strstr(form, "direct") && pixel < extent(r); pixel++) {
    const int64_t tap = pixel + r->pads[0] - infinite * r->stride;
    for (int64_t i = 0; i < r->outputs; i++)
      ck_assert_msg(isfinite(y[pixel * r->outputs + i]) == (tap < 0 || tap >= r->kernel), "%s, pixel %d: %g", r->what,
                    (int)pixel, (double)y[pixel * r->outputs + i]);
  }
  free(y);
}
END_TEST

/* Convolutions of one program that share constant weights. */
static const phases_row sharing[] = {
    {"Winograd's form", 1, 64, 64, 400, 8, 4, {2, 2}, 0, NULL},
    {"direct, in two parts", 1, 64, 64, 20, 8, 4, {2, 2}, 0, NULL},
    {"other pads", 1, 64, 64, 20, 8, 4, {1, 2}, 0, NULL},
    {"another stride", 1, 64, 64, 20, 8, 2, {2, 2}, 0, NULL},
};

START_TEST(shared_constants_are_packed_for_each_form) {
  kernel_cache *cache;
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  float *weights = weights_of(sharing);
  for (size_t i = 0; i < ROWS(sharing); i++) {
    const phases_row *r = &sharing[i];
    char form[FORM_BYTES];
    float *want = run_with(r, weights, -1, 1, NULL, form), *y = run_with(r, weights, -1, 1, cache, form);
    ck_assert_msg(memcmp(y, want, (size_t)(r->images * extent(r) * r->outputs) * sizeof *y) == 0, "%s: %s", r->what,
                  form);
    free(y);
    free(want);
  }
  free(weights);
  kernel_cache_close(&cache);
}
END_TEST

int main(void) {
  cpu_units_use("half"); /* the rows say which forms are chosen with units of half the width */
  Suite *suite = suite_create("phases");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, phases_equal_the_reference, 0, ROWS(rows));
  tcase_add_host_loop_test(t, threads_and_constants_change_no_bits, 0, ROWS(rows));
  tcase_add_test(t, shared_constants_are_packed_for_each_form);
  tcase_add_host_loop_test(t, an_infinite_pixel_stays_in_its_windows, 0, ROWS(rows));
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
