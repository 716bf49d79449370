/* Convolutions with channels second: constant weights of transposed ones, which a program packs once, the rows that
 * transposed ones write apart, and copies of X. Other results are in test_linear.c. */
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/common/cpu.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/ops/cpu/product/direct.h"
#include "tests/suite.h"

/* Maps of all extents share one value of constant weights, as do both orders of axes; other strides have their own. */
START_TEST(conv_transpose_packs_constant_weights_once) {
  if (cpu_level_now() == CPU_REFERENCE) return;
  static const int64_t w[] = {6, 9, 4, 4}, strides[] = {2, 2, 2, 3}, sides[] = {8, 5, 8, 8};
  const reed_desc shape = {REED_F32, 4, {6, 9, 4, 4}};
  float *weights = calloc((size_t)desc_elements(&shape), sizeof *weights);
  kernel_cache *cache;
  ck_assert(weights);
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  reed_kernel kernels[4] = {{0}};
  for (int i = 0; i < 4; i++) {
    const bool last = i == 2;
    const int64_t side = sides[i], stride[] = {strides[i], strides[i]}, out = (side - 1) * strides[i] + 4;
    const reed_attr items[] = {{.name = "strides", .type = REED_ATTR_INTS, .ints = stride, .n = 2},
                               {.name = "channels_last", .type = REED_ATTR_INT, .i = last}};
    const reed_desc x = {REED_F32, 4, {1, last ? side : w[0], side, last ? w[0] : side}},
                    y = {REED_F32, 4, {1, last ? out : w[1], out, last ? w[1] : out}};
    kernels[i] = direct_prepare(OP_ConvTranspose, items, 2, &x, &shape, weights, &y, 1, cache);
    int64_t values, bytes;
    kernel_cache_count(cache, &values, &bytes);
    ck_assert_int_eq(values, i < 3 ? 1 : 2);
    ck_assert_int_eq(bytes, values * desc_bytes(&shape));
  }
  for (int i = 0; i < 4; i++) kernels[i].free(kernels[i].state);
  kernel_cache_close(&cache);
  free(weights);
}
END_TEST

/* 256 phases that are one product: the sums of some of its 32,768 rows lie in a thread's memory at a time. */
START_TEST(joined_phases_need_little_memory) {
  if (cpu_level_now() == CPU_REFERENCE) return;
  const reed_desc shape = {REED_F32, 4, {64, 128, 16, 16}}, x = {REED_F32, 4, {1, 64, 32, 32}},
                  y = {REED_F32, 4, {1, 128, 512, 512}};
  const reed_attr items[] = {{.name = "strides", .type = REED_ATTR_INTS, .ints = (int64_t[]){16, 16}, .n = 2}};
  float *weights = calloc((size_t)desc_elements(&shape), sizeof *weights);
  kernel_cache *cache;
  ck_assert(weights);
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  reed_kernel kernel = direct_prepare(OP_ConvTranspose, items, 1, &x, &shape, weights, &y, 32, cache);
  ck_assert_int_lt(kernel.workspace_bytes, 12 << 20);
  kernel.free(kernel.state);
  kernel_cache_close(&cache);
  free(weights);
}
END_TEST

/* Rows of up to some vectors, which are written every second or third element, with many and with few outputs. */
START_TEST(conv_transpose_writes_rows_of_any_width) {
  static const struct {
    int64_t w[4], group, stride, pad;
  } rows[] = {{{8, 30, 2, 2}, 1, 2, 0}, {{48, 30, 2, 2}, 1, 2, 0}, {{70, 9, 3, 3}, 1, 3, 0}, {{5, 130, 4, 4}, 1, 4, 0},
              {{5, 17, 4, 4}, 1, 2, 1}, {{6, 2, 3, 3}, 1, 3, 1},   {{7, 1, 4, 4}, 7, 2, 1}};
  const int64_t stride = rows[_i].stride, pad = rows[_i].pad;
  for (int64_t width = 1; width < 70; width += width < 40 ? 3 : 13) {
    kernel_case c;
    case_init(&c, OP_ConvTranspose);
    case_input(&c, REED_F32, DIMS(2, rows[_i].w[0], 3, width), 1);
    case_input(&c, REED_F32, 4, rows[_i].w, 1);
    if (_i % 2) case_input(&c, REED_F32, DIMS(rows[_i].w[1] * rows[_i].group), 1);
    case_attr_int(&c, "group", rows[_i].group);
    case_attr_ints(&c, "strides", (int64_t[]){stride, stride}, 2);
    case_attr_ints(&c, "pads", (int64_t[]){pad, pad, pad, pad}, 4);
    case_parity(&c, case_tolerance(REED_F32) * 16, case_tolerance(REED_F32) * 16);
  }
}
END_TEST

/* Copies of X under strides, of every width, with pads and cropped, for few and for many outputs. */
START_TEST(conv_copies_rows_under_any_stride) {
  static const struct {
    int64_t w[4], group, stride[2], dilation[2], pads[4];
  } rows[] = {{{5, 3, 3, 3}, 1, {2, 2}, {1, 1}, {1, 1, 1, 1}},   {{30, 3, 3, 3}, 1, {2, 2}, {1, 1}, {0, 3, 1, 2}},
              {{3, 2, 4, 4}, 1, {4, 4}, {1, 1}, {0, 0, 0, 0}},   {{40, 3, 4, 4}, 1, {4, 4}, {1, 1}, {1, 3, 2, 5}},
              {{4, 3, 5, 7}, 1, {4, 2}, {1, 1}, {-1, -2, 3, 2}}, {{6, 1, 5, 5}, 3, {3, 4}, {2, 1}, {4, -3, 2, 9}},
              {{7, 2, 3, 5}, 1, {1, 3}, {1, 2}, {2, 5, 0, 1}},   {{2, 3, 8, 8}, 1, {8, 8}, {1, 1}, {0, 5, 0, 6}},
              {{1, 2, 3, 3}, 1, {1, 1}, {1, 1}, {2, 20, 1, 3}},  {{4, 2, 3, 3}, 2, {5, 4}, {1, 3}, {1, 6, 1, 6}}};
  for (int64_t width = 9; width < 160; width += width < 40 ? 1 : 11) {
    kernel_case c;
    case_init(&c, OP_Conv);
    case_input(&c, REED_F32, DIMS(2, rows[_i].w[1] * rows[_i].group, 11, width), 1);
    case_input(&c, REED_F32, 4, rows[_i].w, 1);
    if (width % 2) case_input(&c, REED_F32, DIMS(rows[_i].w[0]), 1);
    case_attr_int(&c, "group", rows[_i].group);
    case_attr_ints(&c, "strides", rows[_i].stride, 2);
    case_attr_ints(&c, "dilations", rows[_i].dilation, 2);
    case_attr_ints(&c, "pads", rows[_i].pads, 4);
    case_parity(&c, case_tolerance(REED_F32) * 16, case_tolerance(REED_F32) * 16);
  }
}
END_TEST

/* Copies of more than one batch of images, with a residual, of odd rows. */
START_TEST(conv_copies_images_in_batches) {
  for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
    kernel_case c;
    case_init(&c, is_transposed ? OP_ConvTranspose : OP_Conv);
    case_input(&c, REED_F32, DIMS(7, 64, 33, 29), 1);
    case_input(&c, REED_F32, 4, is_transposed ? (int64_t[]){64, 3, 4, 4} : (int64_t[]){3, 64, 3, 3}, 1);
    case_input(&c, REED_F32, DIMS(3), 1);
    if (!is_transposed) case_input(&c, REED_F32, DIMS(7, 3, 33, 29), 1);
    case_attr_ints(&c, "strides", is_transposed ? (int64_t[]){2, 2} : (int64_t[]){1, 1}, 2);
    case_attr_ints(&c, "pads", (int64_t[]){1, 1, 1, 1}, 4);
    case_parity(&c, case_tolerance(REED_F32) * 64, case_tolerance(REED_F32) * 64);
  }
}
END_TEST

/* Copies of rows that are copied in pieces, under each stride: pads that are pieces, cropped rows, several rows. */
START_TEST(conv_copies_long_rows_in_pieces) {
  static const struct {
    int64_t height, width, taps, stride, pads[4];
  } rows[] = {{1, 70001, 5, 5, {0, 2, 0, 1}},          {2, 40013, 4, 2, {1, 20001, 1, 0}},
              {1, 90000, 7, 4, {0, -17003, 0, 35000}}, {3, 33333, 3, 3, {0, 1, 0, -16390}},
              {1, 40000, 3, 1, {0, 16385, 0, 1}},      {1, 60000, 9, 170, {0, 4, 0, 700}}};
  for (int64_t channels = 1; channels < 4; channels += 2) {
    kernel_case c;
    case_init(&c, OP_Conv);
    case_input(&c, REED_F32, DIMS(1, channels, rows[_i].height, rows[_i].width), 1);
    case_input(&c, REED_F32, DIMS(2, channels, rows[_i].height, rows[_i].taps), 1);
    case_input(&c, REED_F32, DIMS(2), 1);
    case_attr_ints(&c, "strides", (int64_t[]){1, rows[_i].stride}, 2);
    case_attr_ints(&c, "pads", rows[_i].pads, 4);
    case_parity(&c, case_tolerance(REED_F32) * 16, case_tolerance(REED_F32) * 16);
  }
}
END_TEST

/* A thread's scratch has the sums of one call's outputs, unless items are computed in pieces. */
START_TEST(conv_of_few_outputs_takes_little_memory) {
  if (cpu_level_now() == CPU_REFERENCE) return;
  const reed_desc x = {REED_F32, 3, {1, 24, 2002}}, y = {REED_F32, 3, {1, 20, 2000}}, w = {REED_F32, 3, {20, 24, 3}};
  reed_kernel kernel = direct_prepare(OP_Conv, NULL, 0, &x, &w, NULL, &y, 64, NULL);
  ck_assert_int_lt(kernel.workspace_bytes, 2 << 20);
  if (kernel.free) kernel.free(kernel.state);
}
END_TEST

/* The bits of output 0 are the same for any number of threads, at each level. */
static void expect_same_bits(kernel_case *c) {
  static const int threads[] = {1, 2, 3, 16};
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    void *first = NULL;
    for (int i = 0; i < ROWS(threads); i++) {
      c->n_threads = threads[i];
      ck_assert_msg(case_run(c, cpu_level_name(level)) == REED_OK, "%s", case_where(c));
      const size_t bytes = (size_t)desc_bytes(&c->outputs[0].desc);
      if (!first) {
        first = malloc(bytes);
        ck_assert(first);
        memcpy(first, c->outputs[0].data, bytes);
      }
      ck_assert_msg(memcmp(first, c->outputs[0].data, bytes) == 0, "%s: other bits", case_where(c));
    }
    free(first);
  }
  c->n_threads = 1;
}

/* Few outputs of great depth, whose sums are computed in pieces, and of long rows, which threads share. */
START_TEST(conv_shares_sums_of_few_outputs) {
  static const struct {
    int64_t channels, outputs, in, taps, stride;
  } rows[] = {{120, 5, 1700, 9, 1}, {700, 3, 1100, 3, 1}, {3, 23, 3001, 5, 1},
              {9, 37, 4200, 4, 2},  {40, 64, 2100, 3, 1}, {3, 8, 1102, 3, 1}};
  for (int64_t images = 1; images < 4; images++) {
    kernel_case c;
    case_init(&c, OP_Conv);
    case_input(&c, REED_F32, DIMS(images, rows[_i].channels, rows[_i].in), 1);
    case_input(&c, REED_F32, DIMS(rows[_i].outputs, rows[_i].channels, rows[_i].taps), 1);
    case_input(&c, REED_F32, DIMS(rows[_i].outputs), 1);
    case_attr_ints(&c, "strides", &rows[_i].stride, 1);
    case_attr_ints(&c, "pads", (int64_t[]){2, 1}, 2);
    case_attr_activation(&c, images == 2 ? "relu" : NULL);
    expect_same_bits(&c);
    const double tolerance = case_tolerance(REED_F32) * (double)(rows[_i].channels * rows[_i].taps);
    case_parity(&c, tolerance, tolerance);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("planes");
  TCase *t = tcase_create("planes");
  suite_add_tcase(suite, t);
  tcase_set_timeout(t, 240);
  tcase_add_test(t, conv_transpose_packs_constant_weights_once);
  tcase_add_test(t, joined_phases_need_little_memory);
  tcase_add_loop_test(t, conv_transpose_writes_rows_of_any_width, 0, 7);
  tcase_add_loop_test(t, conv_copies_rows_under_any_stride, 0, 10);
  tcase_add_test(t, conv_copies_images_in_batches);
  tcase_add_loop_test(t, conv_copies_long_rows_in_pieces, 0, 6);
  tcase_add_test(t, conv_of_few_outputs_takes_little_memory);
  tcase_add_loop_test(t, conv_shares_sums_of_few_outputs, 0, 6);
  return suite_run(suite);
}
