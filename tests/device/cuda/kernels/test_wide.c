/* Launches over more elements than 32 bits count, whose kernels other files do not test so: element-wise, movement,
 * windows, products, caches, groups. Indices and choices: test_wide_places.c. Rows: test_wide_rows.c. */
#include "tests/device/cuda/kernels/wide.h"

START_TEST(element_wise_kernels_count_in_64_bits) {
  const reed_desc desc[] = {{REED_I8, 1, {MANY}}, {REED_I8, 1, {MANY}}};
  char *in[2] = {reserve(MANY), reserve(MANY)}, *out = reserve(MANY);
  for (int64_t i = 0; i < 8; i++) {
    in[0][i] = (char)i, in[1][i] = 3;
    in[0][MANY - 8 + i] = (char)(2 * i), in[1][MANY - 8 + i] = 7;
  }
  run_ends(&(emulated_call){.op = OP_Add, .in = desc, .n_in = 2, .out = desc, .inputs = {in[0], in[1]}, .output = out});
  for (int64_t i = 0; i < 8; i++) {
    ck_assert_int_eq(out[i], i + 3);
    ck_assert_int_eq(out[MANY - 8 + i], 2 * i + 7);
  }
}
END_TEST

/* [rows, 3] to [3, rows]: the last elements come from the end of the last column. */
START_TEST(movement_counts_in_64_bits) {
  const int64_t rows = MANY / 3, n = 3 * rows;
  const reed_desc from = {REED_I8, 2, {rows, 3}}, to = {REED_I8, 2, {3, rows}};
  char *in = reserve(n), *out = reserve(n);
  for (int64_t k = 0; k < 8; k++) {
    in[3 * k] = (char)(k + 1);
    in[n - 1 - 3 * k] = (char)(100 - k);
  }
  run_ends(&(emulated_call){.op = OP_Transpose, .in = &from, .n_in = 1, .out = &to, .inputs = {in}, .output = out});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(out[k], k + 1);
    ck_assert_int_eq(out[n - 1 - k], 100 - k);
  }
}
END_TEST

/* The last rows of the matrix are below the diagonal but for their last elements. */
START_TEST(generated_elements_are_counted_in_64_bits) {
  const int64_t rows = 1 << 16, columns = rows + 1, n = rows * columns;
  const reed_desc desc = {REED_I8, 2, {rows, columns}};
  char *in = reserve(n), *out = reserve(n);
  for (int64_t k = 0; k < 8; k++) in[k] = (char)(k + 1), in[n - 1 - k] = (char)(100 - k);
  run_ends(&(emulated_call){.op = OP_Trilu, .in = &desc, .n_in = 1, .out = &desc, .inputs = {in}, .output = out});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(out[k], k + 1);
    ck_assert_int_eq(out[n - 1 - k], k < 2 ? 100 - k : 0);
  }
}
END_TEST

/* Blocks of one pixel: the image is the column's elements. */
START_TEST(columns_are_counted_in_64_bits) {
  const int64_t edge = 40000, n = 3 * edge * edge, shape[] = {edge, edge}, block[] = {1, 1};
  const reed_desc in[] = {{REED_F16, 3, {1, 3, edge * edge}}, {REED_I64, 1, {2}}, {REED_I64, 1, {2}}},
                  out = {REED_F16, 4, {1, 3, edge, edge}};
  uint16_t *x = reserve(2 * n), *y = reserve(2 * n);
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){.op = OP_Col2Im,
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .host = (const void *const[]){NULL, shape, block},
                            .inputs = {x, shape, block},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* Turns by nothing (cosine 1, sine 0) at the first and the last places of a sequence. */
START_TEST(turned_pairs_are_counted_in_64_bits) {
  const int64_t heads = 1024, places = (1 << 20) + 77, n = heads * places * 4, ends = 256;
  const reed_desc in[] = {
      {REED_F16, 4, {1, heads, places, 4}}, {REED_F16, 3, {1, places, 2}}, {REED_F16, 3, {1, places, 2}}};
  uint16_t *x = reserve(2 * n), *y = reserve(2 * n), *cosine = reserve(4 * places), *sine = reserve(4 * places);
  for (int64_t k = 0; k < ends; k++) cosine[k] = cosine[2 * places - 1 - k] = ONE;
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){
      .op = OP_RotaryEmbedding, .in = in, .n_in = 3, .out = in, .inputs = {x, cosine, sine}, .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* Windows of one pixel with eight channels, which fewer elements would compute 16 bytes a thread. */
START_TEST(windows_are_counted_in_64_bits) {
  const int64_t edge = 1 << 14, n = 8 * edge * (edge + 1), kernel[] = {1, 1};
  const reed_desc desc = {REED_F16, 4, {1, edge, edge + 1, 8}};
  const reed_attr attrs[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = "kernel_shape", .type = REED_ATTR_INTS, .ints = kernel, .n = 2}};
  uint16_t *x = reserve(2 * n), *y = reserve(2 * n);
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){.op = OP_MaxPool,
                            .attrs = &(reed_attrs){attrs, 2},
                            .in = &desc,
                            .n_in = 1,
                            .out = &desc,
                            .inputs = {x},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* One row of two pixels with very many channels becomes two rows of four. */
START_TEST(resized_channels_are_counted_in_64_bits) {
  const int64_t channels = (1 << 28) + 8, n = 8 * channels;
  const float scales[] = {1, 2, 2, 1};
  const reed_desc in[] = {{REED_F16, 4, {1, 1, 2, channels}}, {.dtype = REED_NONE}, {REED_F32, 1, {4}}},
                  out = {REED_F16, 4, {1, 2, 4, channels}};
  const reed_attr mode = {.name = "mode", .type = REED_ATTR_STRING, .s = "nearest"};
  uint16_t *x = reserve(4 * channels), *y = reserve(2 * n);
  for (int64_t k = 0; k < 8; k++) x[k] = (uint16_t)(ONE + k), x[2 * channels - 1 - k] = (uint16_t)(ONE + 100 + k);
  run_ends(&(emulated_call){.op = OP_Resize,
                            .attrs = &(reed_attrs){&mode, 1},
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .host = (const void *const[]){NULL, NULL, scales},
                            .inputs = {x, NULL, scales},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 100 + k);
  }
}
END_TEST

/* The one sample of a region lies on the last pixel of a map whose channels fewer pixels would load 16 bytes at once.
 */
START_TEST(pixels_of_regions_are_counted_in_64_bits) {
  const int64_t edge = 1 << 14, n = 8 * edge * (edge + 1), image = 0;
  const float corner[] = {(float)edge, (float)edge - 1, (float)edge + 1, (float)edge};
  const reed_desc in[] = {{REED_F32, 4, {1, edge, edge + 1, 8}}, {REED_F32, 2, {1, 4}}, {REED_I64, 1, {1}}},
                  out = {REED_F32, 4, {1, 1, 1, 8}};
  const reed_attr attrs[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                             {.name = "sampling_ratio", .type = REED_ATTR_INT, .i = 1}};
  float *x = reserve(4 * n), y[8];
  for (int64_t k = 0; k < 8; k++) x[n - 8 + k] = (float)(k + 1);
  run_ends(&(emulated_call){.op = OP_RoiAlign,
                            .attrs = &(reed_attrs){attrs, 2},
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .inputs = {x, corner, &image},
                            .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) ck_assert_float_eq(y[k], (float)(k + 1));
}
END_TEST

/* The one sample of a region lies on the last pixel of every channel. */
START_TEST(gradients_of_regions_are_counted_in_64_bits) {
  const int64_t edge = 40000, n = 3 * edge * edge, shape[] = {3, edge, edge};
  const float corner[] = {(float)edge - 1, (float)edge - 1, (float)edge, (float)edge};
  const uint16_t grad[] = {ONE, ONE + 1, ONE + 2};
  const reed_desc in[] = {{REED_F16, 4, {1, 3, 1, 1}}, {REED_F32, 2, {1, 4}}, {REED_I64, 1, {3}}},
                  out = {REED_F16, 3, {3, edge, edge}};
  const reed_attr sampling = {.name = "sampling_ratio", .type = REED_ATTR_INT, .i = 1};
  uint16_t *y = reserve(2 * n);
  y[0] = y[n - 2] = ONE;
  run_ends(&(emulated_call){.op = OP_roi_align_backward,
                            .attrs = &(reed_attrs){&sampling, 1},
                            .in = in,
                            .n_in = 3,
                            .out = &out,
                            .host = (const void *const[]){NULL, NULL, shape},
                            .inputs = {grad, corner, shape},
                            .output = (char *)y});
  ck_assert_int_eq(y[0], 0);
  ck_assert_int_eq(y[n - 2], 0);
  ck_assert_int_eq(y[n - 1], ONE + 2);
}
END_TEST

/* Every element is a product: the outer product of two vectors. */
static void check_outer_product(cuda_math math) {
  const int64_t m = ((int64_t)1 << 16) + 1, n = m - 2;
  const reed_desc in[] = {{REED_F16, 2, {m, 1}}, {REED_F16, 2, {1, n}}}, out = {REED_F16, 2, {m, n}};
  uint16_t *a = reserve(2 * m), *b = reserve(2 * n), *y = reserve(2 * m * n);
  a[0] = ONE, a[m - 1] = ONE + 1;
  for (int64_t k = 0; k < 8; k++) b[k] = (uint16_t)(ONE + k), b[n - 1 - k] = (uint16_t)(ONE + 1024 * k); /* 2^k */
  run_ends(&(emulated_call){
      .op = OP_MatMul, .in = in, .n_in = 2, .out = &out, .math = math, .inputs = {a, b}, .output = (char *)y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[m * n - 1 - k], ONE + 1 + 1024 * k);
  }
}

/* Products of small matrices, one for each index that both operands of an Einsum have. */
static void check_batch(cuda_math math) {
  const int64_t edge = 8, part = edge * edge, batch = ((int64_t)1 << 26) + 1, n = batch * part;
  const reed_desc desc[] = {{REED_F16, 3, {batch, edge, edge}}, {REED_F16, 3, {batch, edge, edge}}};
  uint16_t *a = reserve(2 * n), *b = reserve(2 * n), *y = reserve(2 * n);
  for (int64_t k = 0; k < edge; k++) {
    a[k * edge + k] = ONE; /* 1 and 2 on the diagonals */
    a[n - part + k * edge + k] = ONE + 1024;
    b[k] = (uint16_t)(ONE + k), b[n - 1 - k] = (uint16_t)(ONE + 100 + k);
  }
  run_ends(&(emulated_call){
      .op = OP_MatMul, .in = desc, .n_in = 2, .out = desc, .math = math, .inputs = {a, b}, .output = (char *)y});
  for (int64_t k = 0; k < edge; k++) {
    ck_assert_int_eq(y[k], ONE + k);
    ck_assert_int_eq(y[n - 1 - k], ONE + 1024 + 100 + k);
  }
}

START_TEST(products_are_counted_in_64_bits) {
  const cuda_math maths[] = {CUDA_MATH_PLAIN, CUDA_MATH_HALVES};
  for (size_t k = 0; k < sizeof maths / sizeof *maths; k++) {
    check_outer_product(maths[k]);
    check_batch(maths[k]);
  }
}
END_TEST

/* Heads of 65 keys, the last one new: the cache of all heads is copied, and the last head's row is the mean of its
 * values. */
START_TEST(rows_are_appended_to_caches_in_64_bits) {
  const int64_t heads = ((int64_t)1 << 20) + 1, size = 64, past = 64, row = heads * size, n = row * past,
                total = row * (past + 1);
  const reed_desc now = {REED_F16, 4, {1, heads, 1, size}}, earlier = {REED_F16, 4, {1, heads, past, size}},
                  joined = {REED_F16, 4, {1, heads, past + 1, size}}, none = {.dtype = REED_NONE},
                  in[] = {now, now, now, none, earlier, earlier}, out[] = {now, joined, joined};
  uint16_t *q = reserve(2 * row), *k = reserve(2 * row), *v = reserve(2 * row), *past_k = reserve(2 * n),
           *past_v = reserve(2 * n), *y = reserve(2 * row), *all_k = reserve(2 * total), *all_v = reserve(2 * total);
  for (int64_t i = 0; i < 8; i++) {
    past_k[i] = (uint16_t)(ONE + i), past_k[n - 1 - i] = (uint16_t)(ONE + 100 + i);
    k[row - 1 - i] = (uint16_t)(ONE + 200 + i);
  }
  for (int64_t i = 1; i <= past * size; i++) past_v[n - i] = ONE;
  for (int64_t i = 1; i <= size; i++) v[row - i] = ONE;
  run_ends(&(emulated_call){.op = OP_Attention,
                            .in = in,
                            .n_in = 6,
                            .out = out,
                            .more_out = 2,
                            .inputs = {q, k, v, NULL, past_k, past_v},
                            .output = (char *)y,
                            .more_outputs = {all_k, all_v}});
  for (int64_t i = 0; i < 8; i++) {
    ck_assert_int_eq(all_k[i], ONE + i);
    ck_assert_int_eq(all_k[total - size - 1 - i], ONE + 100 + i);
    ck_assert_int_eq(all_k[total - 1 - i], ONE + 200 + i);
    ck_assert_int_eq(y[row - 1 - i], ONE);
  }
}
END_TEST

/* The first batch's rows go to the end of the cache, the last one's to its begin: at both ends of the cache rows stay.
 */
START_TEST(rows_of_caches_are_overwritten_in_64_bits) {
  const int64_t kept = 8, rows = MANY / 6, room = rows + kept, n = 2 * rows * 3, all = 2 * room * 3,
                places[] = {kept, 0};
  const reed_desc cache = {REED_I8, 3, {2, room, 3}}, in[] = {cache, {REED_I8, 3, {2, rows, 3}}, {REED_I64, 1, {2}}};
  char *past = reserve(all), *update = reserve(n), *y = reserve(all);
  for (int64_t k = 0; k < 8; k++) {
    past[k] = (char)(k + 1), past[all - 1 - k] = (char)(100 - k);
    update[k] = (char)(k + 31), update[n - 1 - k] = (char)(70 - k);
  }
  run_ends(&(emulated_call){
      .op = OP_TensorScatter, .in = in, .n_in = 3, .out = &cache, .inputs = {past, update, places}, .output = y});
  for (int64_t k = 0; k < 8; k++) {
    ck_assert_int_eq(y[k], k + 1);
    ck_assert_int_eq(y[all - 1 - k], 100 - k);
    ck_assert_int_eq(y[kept * 3 + k], k + 31);
    ck_assert_int_eq(y[all - 1 - kept * 3 - k], 70 - k);
  }
}
END_TEST

/* All elements are 0 but the last one: two groups. Only the ends of the lists of places are made; the rest of them are
 * zeros, the place of an element that is 0. */
START_TEST(groups_of_equal_elements_are_counted_in_64_bits) {
  const reed_desc in = {REED_I8, 1, {MANY}};
  for (int64_t sorted = 0; sorted < 2; sorted++) {
    const reed_attr attr = {.name = "sorted", .type = REED_ATTR_INT, .i = sorted};
    char *x = reserve(MANY), *y = reserve(MANY);
    x[MANY - 1] = y[0] = 1;
    emulated_call c = {.op = OP_Unique,
                       .attrs = &(reed_attrs){&attr, 1},
                       .in = &in,
                       .n_in = 1,
                       .out = &in,
                       .inputs = {x},
                       .output = y};
    run_ends(&c);
    ck_assert_int_eq(c.extent, 2);
    ck_assert_int_eq(y[0], 0);
    ck_assert_int_eq(y[1], 1);
  }
}
END_TEST

/* Slices that differ in their first elements. */
START_TEST(slices_are_compared_in_64_bits) {
  const reed_desc in = {REED_I8, 2, {3, MANY}};
  const reed_attr axis = {.name = "axis", .type = REED_ATTR_INT, .i = 0};
  char *x = reserve(3 * MANY), *y = reserve(3 * MANY);
  x[0] = 7, x[MANY] = 5, x[2 * MANY] = 6;
  x[MANY + 1] = 1, x[MANY - 1] = 2;
  run_ends(&(emulated_call){
      .op = OP_Unique, .attrs = &(reed_attrs){&axis, 1}, .in = &in, .n_in = 1, .out = &in, .inputs = {x}, .output = y});
  ck_assert_int_eq(y[0], 5);
  ck_assert_int_eq(y[1], 1);
  ck_assert_int_eq(y[3 * MANY - 1], 2);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("wide");
  TCase *t = tcase_create("wide");
  tcase_add_test(t, element_wise_kernels_count_in_64_bits);
  tcase_add_test(t, movement_counts_in_64_bits);
  tcase_add_test(t, generated_elements_are_counted_in_64_bits);
  tcase_add_test(t, columns_are_counted_in_64_bits);
  tcase_add_test(t, turned_pairs_are_counted_in_64_bits);
  tcase_add_test(t, windows_are_counted_in_64_bits);
  tcase_add_test(t, resized_channels_are_counted_in_64_bits);
  tcase_add_test(t, pixels_of_regions_are_counted_in_64_bits);
  tcase_add_test(t, gradients_of_regions_are_counted_in_64_bits);
  tcase_add_test(t, products_are_counted_in_64_bits);
  tcase_add_test(t, rows_are_appended_to_caches_in_64_bits);
  tcase_add_test(t, rows_of_caches_are_overwritten_in_64_bits);
  tcase_add_test(t, groups_of_equal_elements_are_counted_in_64_bits);
  tcase_add_test(t, slices_are_compared_in_64_bits);
  tcase_set_timeout(t, 60);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
