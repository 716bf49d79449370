/* Weights that cross to a device in pieces, through one block of pinned memory: a piece waits for the one before it. */
#include "tests/devices.h"
#include "tests/whole/model.h"

enum { ROWS = 36000, COLUMNS = 32, N = ROWS * COLUMNS }; /* 4.6 MB: two pieces (vm/constants.c) */

static const char *const devices[] = {"sim?late=1", "sim:1?seed=4&delay_us=50", "cuda-emulated?late=1",
                                      "cuda-emulated:1?late=1&seed=3"};
enum { N_SIMS = 2, N_DEVICES = sizeof devices / sizeof *devices };

/* The largest of x times each row of the weights. */
static onnx_build *of_large_weights(const float *weights) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[1]");
  build_f32(b, "w", "36000,32", weights);
  build_node(b, "Mul", "w,x", "m");
  build_ints(b, build_node(b, "ReduceMax", "m", "y"), "axes", "1");
  build_output(b, "y", "f32[36000,1]");
  return b;
}

START_TEST(a_piece_waits_for_the_one_before_it) {
  float *const weights = malloc(N * sizeof *weights);
  ck_assert_ptr_nonnull(weights);
  for (int i = 0; i < N; i++) weights[i] = (float)(i % 1000003);
  model m = model_open(of_large_weights(weights), devices[_i], REED_COUNTS_HOST);
  reed_tensor *x = floats(1, (int64_t[]){1}, 2), *y = NULL;
  run_model(&m, &x, &y);
  for (int row = 0; row < ROWS; row++) {
    float most = 0;
    for (int k = 0; k < COLUMNS; k++)
      if (weights[row * COLUMNS + k] > most) most = weights[row * COLUMNS + k];
    ck_assert_float_eq(((const float *)reed_tensor_data(y))[row], 2 * most);
  }
  reed_tensor_close(&y);
  reed_tensor_close(&x);
  model_close(&m);
  free(weights);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("pieces");
  tcase_add_loop_test(cases, a_piece_waits_for_the_one_before_it, 0,
                      device_is_present("cuda-emulated") ? N_DEVICES : N_SIMS);
  return run_suite(cases, "pieces");
}
