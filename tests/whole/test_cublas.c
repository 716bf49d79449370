/* Products by cuBLASLt (device option `cublas`) on the emulated GPU, over a stand-in for the library that reads the
 * module's descriptors and carries products out by Reed's own kernels: so the bits are those of a session without it.
 */
#include "tests/whole/library.h"

enum { WIDTH = 70, TAKEN = 6 };

/* Products that the library takes: packed weights with a bias and a relu, of more than one panel; alpha; columns of a
 * transposed operand; batches with and without a common second operand; f16. Two that it does not take: one with a
 * sigmoid, and one with a matrix added. */
static onnx_build *made_of_products(int seed) {
  static float weights[WIDTH * WIDTH];
  onnx_build *b = build_open(17);
  for (int i = 0; i < WIDTH * WIDTH; i++) weights[i] = (float)((i * 7 + i / 11 + seed) % 23) / 64 - 0.17f;
  build_input(b, "x", "f32[n,s,24]");
  build_f32(b, "w0", "24,70", weights);
  build_f32(b, "b0", "70", weights + 100);
  build_f32(b, "w1", "12,70", weights + 9);
  build_f32(b, "w2", "70,20", weights + 3);
  build_f32(b, "w3", "20,16", weights + 5);
  build_i64(b, "rows", "2", (int64_t[]){-1, WIDTH});
  build_node(b, "MatMul", "x,w0", "m0"); /* 1 */
  build_node(b, "Add", "m0,b0", "a0");
  build_node(b, "Relu", "a0", "r0");
  build_ints(b, build_node(b, "Transpose", "r0", "t0"), "perm", "0,2,1");
  build_node(b, "MatMul", "r0,t0", "scores");    /* 2 */
  build_node(b, "MatMul", "scores,r0", "mixed"); /* 3 */
  build_node(b, "Reshape", "mixed,rows", "flat");
  build_node_t *n = build_node(b, "Gemm", "flat,w1", "g1"); /* 4 */
  build_int(b, n, "transB", 1);
  build_float(b, n, "alpha", 0.5f);
  build_node(b, "MatMul", "r0,w2", "m2");
  build_node(b, "Sigmoid", "m2", "s2");
  build_node(b, "Identity", "flat", "t1");
  build_node(b, "Relu", "flat", "m1");
  n = build_node(b, "Gemm", "t1,m1", "g2"); /* 5: the first operand's columns */
  build_int(b, n, "transA", 1);
  build_int(b, build_node(b, "Cast", "s2", "h"), "to", 10);
  build_int(b, build_node(b, "Cast", "w3", "v"), "to", 10);
  build_node(b, "MatMul", "h,v", "half"); /* 6 */
  build_int(b, build_node(b, "Cast", "half", "y"), "to", 1);
  build_output(b, "scores", "f32");
  build_output(b, "g1", "f32");
  build_output(b, "g2", "f32");
  build_output(b, "y", "f32");
  return b;
}

static int64_t runs(void) { return ((int64_t(*)(void))fake_function("reed_fake_cublas_runs"))(); }

static const int64_t sizes[SIZES][2] = {{1, 5}, {2, 3}, {3, 1}, {1, 5}};

static reed_tensor *sequences(const int64_t size[2]) { return small_numbers(3, (int64_t[]){size[0], size[1], 24}); }
static reed_tensor *input(int size) { return sequences(sizes[size]); }

static const library_case of_products = {made_of_products, input, runs};

static const struct {
  const char *plain, *device;
} devices[] = {{"cuda-emulated", "cuda-emulated?cublas=2"},
               {"cuda-emulated", "cuda-emulated?cublas=2&cudnn=2&late=1&seed=3&poison=1&order=7"},
               {"cuda-emulated?tf32=1", "cuda-emulated?cublas=2&tf32=1&check=1"}};

START_TEST(plans_of_the_library_give_the_bits) {
  const int64_t n = check_plans(&of_products, devices[_i].plain, devices[_i].device);
  /* 3 sizes; the recording of a graph enqueues the products a second time */
  ck_assert_msg(n >= TAKEN * 3 && n <= 2 * TAKEN * 4, "%lld products by the library", (long long)n);
}
END_TEST

/* A measurement runs both kernels twice, once for the products of one kind and order of size. */
START_TEST(a_measurement_is_remembered) {
  static const int64_t alike[2] = {1, 6}; /* the extents have as many binary digits as those of sizes[0] */
  expected e = expected_of(&of_products, "cuda-emulated", 1);
  reed_tensor *x = sequences(alike), *out[MOST_OUT];
  model m = model_open(made_of_products(1), "cuda-emulated?cublas=1", REED_COUNTS_HOST);
  int64_t before = runs();
  check_run(&of_products, &m, m.session, &e, 0, "measured");
  ck_assert_int_eq(runs() - before, TAKEN * 2);
  before = runs();
  run_model(&m, &x, out);
  ck_assert_int_le(runs() - before, TAKEN);
  for (size_t k = 0; k < e.n_out; k++) reed_tensor_close(&out[k]);
  check_sizes(&of_products, &m, &e, 1, "measured");
  reed_tensor_close(&x);
  model_close(&m);
  expected_close(&e);
}
END_TEST

START_TEST(the_faster_of_both_is_taken) { check_choice(&of_products, "cuda-emulated?cublas=1"); }
END_TEST

/* Copies of packed weights go with their program; the next program's weights may lie at the same address. */
START_TEST(weights_belong_to_their_program) {
  reed_tensor *one = floats(1, (int64_t[]){1}, 0), *open = on_device(one, "cuda-emulated?cublas=2");
  for (int seed = 1; seed <= 3; seed++) {
    expected e = expected_of(&of_products, "cuda-emulated", seed);
    model m = model_open(made_of_products(seed), "cuda-emulated?cublas=2", REED_COUNTS_HOST);
    for (int run = 0; run < RUNS; run++) check_run(&of_products, &m, m.session, &e, 1, "another program");
    model_close(&m);
    expected_close(&e);
  }
  reed_tensor_close(&open);
  reed_tensor_close(&one);
}
END_TEST

static const library_failure failures[] = {
    {"fail_cublas", 200, 9, false}, {"fail_call", 420, 41, true}, {"fail_memory", 24, 1, true}};

START_TEST(calls_are_failed_once) {
  check_failures(&of_products, "cuda-emulated?cublas=2", &failures[_i], 1, 2, 2 * TAKEN - 1);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("cublas");
  tcase_add_loop_test(cases, plans_of_the_library_give_the_bits, 0, sizeof devices / sizeof *devices);
  tcase_add_test(cases, a_measurement_is_remembered);
  tcase_add_test(cases, the_faster_of_both_is_taken);
  tcase_add_test(cases, weights_belong_to_their_program);
  tcase_add_loop_test(cases, calls_are_failed_once, 0, sizeof failures / sizeof *failures);
  return run_suite(cases, "cublas");
}
