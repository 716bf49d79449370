/* Rows, pictures and sequences of more elements than 32 bits count (wide.h): reductions, norms, convolutions, samples,
 * recurrent cells. */
#include "tests/device/cuda/kernels/wide.h"

/* ---- rows ---- */

/* The largest of every two neighbours. */
START_TEST(rows_are_reduced_in_64_bits) {
  const int64_t rows = ((int64_t)1 << 31) + 1024, axis = 1;
  const reed_desc in[] = {{REED_I8, 2, {rows, 2}}, {REED_I64, 1, {1}}}, out = {REED_I8, 1, {rows}},
                  places = {REED_I64, 1, {rows}};
  const reed_attr attrs[] = {{.name = "axis", .type = REED_ATTR_INT, .i = 1},
                             {.name = "keepdims", .type = REED_ATTR_INT, .i = 0}};
  char *x = reserve(2 * rows), *y = reserve(rows);
  int64_t *argmax = reserve(8 * rows);
  for (int k = 0; k < 8; k++) x[2 * k + k % 2] = (char)(k + 1), x[2 * (rows - 1 - k) + k % 2] = (char)(100 - k);
  run_ends(&(emulated_call){.op = OP_ReduceMax,
                            .attrs = &(reed_attrs){attrs + 1, 1},
                            .in = in,
                            .n_in = 2,
                            .out = &out,
                            .host = (const void *const[]){NULL, &axis},
                            .inputs = {x, &axis},
                            .output = y});
  run_ends(&(emulated_call){.op = OP_ArgMax,
                            .attrs = &(reed_attrs){attrs, 2},
                            .in = in,
                            .n_in = 1,
                            .out = &places,
                            .inputs = {x},
                            .output = (char *)argmax});
  for (int k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], k + 1);
    ck_assert_int_eq(y[rows - 1 - k], 100 - k);
    ck_assert_int_eq(argmax[k], k % 2);
    ck_assert_int_eq(argmax[rows - 1 - k], k % 2);
  }
}
END_TEST

/* Rows of `length` elements 1, -1, 1, ...: their mean is 0 or close to it. */
static void put_signs(uint16_t *x, int64_t n) {
  for (int64_t k = 0; k < 1024; k++) {
    x[k] = (uint16_t)(ONE | (k % 2 ? 0x8000 : 0));
    x[n - 1 - k] = (uint16_t)(ONE | ((n - 1 - k) % 2 ? 0x8000 : 0));
  }
}

/* Rows of 16 elements: dense ones, and those of images whose channels have a row each. */
START_TEST(rows_are_normalised_in_64_bits) {
  enum { LENGTH = 16 };
  const int64_t rows = ((int64_t)1 << 28) + 5, n = LENGTH * rows;
  const reed_desc line = {REED_F16, 1, {LENGTH}}, dense[] = {{REED_F16, 2, {rows, LENGTH}}, line, line},
                  channel = {REED_F16, 1, {rows}}, images[] = {{REED_F16, 3, {1, rows, LENGTH}}, channel, channel};
  uint16_t *x = reserve(2 * n), *y = reserve(2 * n), *scale = reserve(2 * rows), *shift = reserve(2 * rows);
  put_signs(x, n);
  for (int64_t k = 0; k < 1024; k++) scale[k] = scale[rows - 1 - k] = ONE + 1024; /* 2 */
  run_ends(&(emulated_call){.op = _i ? OP_InstanceNormalization : OP_LayerNormalization,
                            .in = _i ? images : dense,
                            .n_in = 3,
                            .out = _i ? images : dense,
                            .inputs = {x, scale, shift},
                            .output = (char *)y});
  for (int64_t k = 0; k < 64; k++) {
    ck_assert_int_eq(y[k], (ONE + 1024) | (k % 2 ? 0x8000 : 0));
    ck_assert_int_eq(y[n - 1 - k], (ONE + 1024) | (k % 2 ? 0 : 0x8000));
  }
}
END_TEST

/* Rows of 16 equal elements, which lie side by side or `inner` apart. */
START_TEST(rows_of_softmax_are_counted_in_64_bits) {
  enum { LENGTH = 16, SIXTEENTH = ONE - 4 * 1024 };
  const int64_t rows = ((int64_t)1 << 28) + 5, n = LENGTH * rows;
  const reed_desc desc = {REED_F16, 2, {_i ? LENGTH : rows, _i ? rows : LENGTH}};
  const reed_attr axis = {.name = "axis", .type = REED_ATTR_INT, .i = 1 - _i};
  uint16_t *x = reserve(2 * n), *y = reserve(2 * n);
  run_ends(&(emulated_call){.op = OP_Softmax,
                            .attrs = &(reed_attrs){&axis, 1},
                            .in = &desc,
                            .n_in = 1,
                            .out = &desc,
                            .inputs = {x},
                            .output = (char *)y});
  ck_assert_int_eq(y[0], SIXTEENTH);
  ck_assert_int_eq(y[n - 1], SIXTEENTH);
}
END_TEST

/* ---- pictures ---- */

/* Convolutions of one tap whose weights say that an output is its input: of eight channels, or in eight groups of one;
 * a transposed one; each with the kernels without and with tensor cores, channels second and last. */
static void check_convolution(op_id op, int64_t groups, bool last, cuda_math math, bool warpgroups) {
  enum { CHANNELS = 8 };
  const int64_t height = 1 << 14, width = (1 << 14) + 17, pixels = height * width, n = CHANNELS * pixels;
  const reed_desc second = {REED_F16, 4, {1, CHANNELS, height, width}},
                  channels_last = {REED_F16, 4, {1, height, width, CHANNELS}},
                  in[] = {last ? channels_last : second, {REED_F16, 4, {CHANNELS, CHANNELS / groups, 1, 1}}};
  const reed_attr attrs[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = last},
                             {.name = "group", .type = REED_ATTR_INT, .i = groups}};
  uint16_t *x = reserve(2 * n), *y = reserve(2 * n), w[CHANNELS * CHANNELS] = {0};
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  for (int64_t k = 0; k < CHANNELS; k++) w[groups > 1 ? k : k * CHANNELS + k] = ONE;
  run_ends(&(emulated_call){.op = op,
                            .attrs = &(reed_attrs){attrs, 2},
                            .in = in,
                            .n_in = 2,
                            .out = in,
                            .math = math,
                            .warpgroups = warpgroups,
                            .inputs = {x, w},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
  munmap(x, (size_t)(2 * n));
  munmap(y, (size_t)(2 * n));
}

START_TEST(convolutions_are_counted_in_64_bits) {
  const op_id op = _i / 2 ? OP_ConvTranspose : OP_Conv;
  const bool last = _i % 2;
  check_convolution(op, 1, last, CUDA_MATH_PLAIN, false);
  check_convolution(op, 1, last, CUDA_MATH_HALVES, false);
  check_convolution(op, 1, last, CUDA_MATH_HALVES, true);
  check_convolution(op, 8, last, CUDA_MATH_PLAIN, false);
}
END_TEST

/* Offsets of 0: every output is its input. */
START_TEST(deformed_samples_are_counted_in_64_bits) {
  const int64_t height = 1 << 16, width = (1 << 15) + 17, n = height * width;
  const reed_desc picture = {REED_F16, 4, {1, 1, height, width}},
                  in[] = {picture, {REED_F16, 4, {1, 1, 1, 1}}, {REED_F16, 4, {1, 2, height, width}}};
  const uint16_t w = ONE;
  uint16_t *x = reserve(2 * n), *offset = reserve(4 * n), *y = reserve(2 * n);
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){
      .op = OP_DeformConv, .in = in, .n_in = 3, .out = &picture, .inputs = {x, &w, offset}, .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* Samples of a small picture: most at its middle, the last ones at its last pixel. */
START_TEST(samples_are_counted_in_64_bits) {
  const int64_t height = 1 << 16, width = (1 << 15) + 17, n = height * width;
  const reed_desc in[] = {{REED_F16, 4, {1, 1, 3, 3}}, {REED_F16, 4, {1, height, width, 2}}},
                  out = {REED_F16, 4, {1, 1, height, width}};
  const reed_attr attrs[] = {{.name = "mode", .type = REED_ATTR_STRING, .s = "nearest"},
                             {.name = "align_corners", .type = REED_ATTR_INT, .i = 1}};
  uint16_t x[9], *grid = reserve(4 * n), *y = reserve(2 * n);
  for (int k = 0; k < 9; k++) x[k] = (uint16_t)(ONE + k);
  for (int64_t k = 0; k < 16; k++) grid[2 * n - 1 - k] = ONE;
  run_ends(&(emulated_call){.op = OP_GridSample,
                            .attrs = &(reed_attrs){attrs, 2},
                            .in = in,
                            .n_in = 2,
                            .out = &out,
                            .inputs = {x, grid},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + 4);
    ck_assert_int_eq(y[n - 1 - k], ONE + 8);
  }
}
END_TEST

/* A region of one pixel, the last one of every channel. */
START_TEST(pixels_of_pooled_regions_are_counted_in_64_bits) {
  const int64_t edge = 40000, n = 3 * edge * edge, shape[] = {1, 1};
  const uint16_t f16_edge = 0x78e1, corners[] = {0, f16_edge, f16_edge, f16_edge, f16_edge}; /* 39968 */
  const reed_desc in[] = {{REED_F16, 4, {1, 3, edge, edge}}, {REED_F16, 2, {1, 5}}}, out = {REED_F16, 4, {1, 3, 1, 1}};
  const reed_attr pooled = {.name = "pooled_shape", .type = REED_ATTR_INTS, .ints = shape, .n = 2};
  uint16_t *x = reserve(2 * n), y[3];
  for (int64_t c = 0; c < 3; c++) x[(c * edge + 39968) * edge + 39968] = (uint16_t)(ONE + c);
  run_ends(&(emulated_call){.op = OP_MaxRoiPool,
                            .attrs = &(reed_attrs){&pooled, 1},
                            .in = in,
                            .n_in = 2,
                            .out = &out,
                            .inputs = {x, corners},
                            .output = (char *)y});
  for (int c = 0; c < 3; c++) ck_assert_int_eq(y[c], ONE + c);
}
END_TEST

/* A mask of one pixel that fills the last corner of a large picture. */
START_TEST(pictures_of_masks_are_counted_in_64_bits) {
  const int64_t height = 1 << 16, width = (1 << 15) + 16 + _i, n = height * width, /* in fours, and one by one */
      box[] = {width - 9, height - 9, width - 1, height - 1};
  const float mask = 1;
  const reed_desc in[] = {{REED_F32, 4, {1, 1, 1, 1}}, {REED_I64, 2, {1, 4}}, {REED_I64, 0, {0}}, {REED_I64, 0, {0}}},
                  out = {REED_F32, 3, {1, height, width}};
  float *y = reserve(4 * n);
  memset(y, 0xff, 64);
  memset(y + n - 64, 0xff, 256);
  run_ends(&(emulated_call){.op = OP_PasteMasks,
                            .in = in,
                            .n_in = 4,
                            .out = &out,
                            .host = (const void *const[]){NULL, NULL, &height, &width},
                            .inputs = {&mask, box, &height, &width},
                            .output = (char *)y});
  ck_assert_float_eq(y[0], 0);
  for (int k = 0; k < 8; k++) ck_assert_float_eq(y[n - 1 - k], 1);
  ck_assert_float_eq(y[n - 10], 0);
}
END_TEST

/* ---- sequences ---- */

/* One step of very many sequences: the first one and the last one have the same inputs. */
START_TEST(sequences_of_cells_are_counted_in_64_bits) {
  enum { HIDDEN = 8, GATES = 4 };
  const int64_t sequences = ((int64_t)1 << 28) + 3;
  const reed_desc in[] = {{REED_F32, 3, {1, sequences, 1}},
                          {REED_F32, 3, {1, GATES * HIDDEN, 1}},
                          {REED_F32, 3, {1, GATES * HIDDEN, HIDDEN}}},
                  out = {REED_F32, 4, {1, 1, sequences, HIDDEN}};
  const reed_attr attrs[] = {{.name = "hidden_size", .type = REED_ATTR_INT, .i = HIDDEN}};
  float *x = reserve(4 * sequences), *y = reserve(4 * sequences * HIDDEN), w[GATES * HIDDEN],
        r[GATES * HIDDEN * HIDDEN] = {0};
  for (int k = 0; k < GATES * HIDDEN; k++) w[k] = (float)(k + 1) / 16;
  for (int64_t k = 0; k < 64; k++) x[k] = x[sequences - 1 - k] = 1;
  run_ends(&(emulated_call){.op = OP_LSTM,
                            .attrs = &(reed_attrs){attrs, 1},
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .inputs = {x, w, r},
                            .output = (char *)y});
  for (int k = 0; k < HIDDEN; k++) {
    ck_assert_float_gt(y[k], 0);
    ck_assert_float_eq(y[(sequences - 1) * HIDDEN + k], y[k]);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("wide");
  TCase *t = tcase_create("rows");
  tcase_add_test(t, rows_are_reduced_in_64_bits);
  tcase_add_loop_test(t, rows_are_normalised_in_64_bits, 0, 2);
  tcase_add_loop_test(t, rows_of_softmax_are_counted_in_64_bits, 0, 2);
  tcase_add_loop_test(t, convolutions_are_counted_in_64_bits, 0, 4);
  tcase_add_test(t, deformed_samples_are_counted_in_64_bits);
  tcase_add_test(t, samples_are_counted_in_64_bits);
  tcase_add_test(t, pixels_of_pooled_regions_are_counted_in_64_bits);
  tcase_add_loop_test(t, pictures_of_masks_are_counted_in_64_bits, 0, 2);
  tcase_add_test(t, sequences_of_cells_are_counted_in_64_bits);
  tcase_set_timeout(t, 60);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
