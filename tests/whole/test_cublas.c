/* Products by cuBLASLt (device option `cublas`) on the emulated GPU, over a stand-in for the library that reads the
 * module's descriptors and carries products out by Reed's own kernels: so the bits are those of a session without it.
 */
#include <dlfcn.h>

#include "tests/whole/counts.h"
#include "tests/whole/model.h"

enum { N_OUT = 4, WIDTH = 70, TAKEN = 6 };

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

static int64_t runs(void) {
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  ck_assert_ptr_nonnull(module);
  int64_t (*count)(void) = (int64_t(*)(void))dlsym(module, "reed_fake_cublas_runs");
  ck_assert_ptr_nonnull(count);
  const int64_t n = count();
  dlclose(module);
  return n;
}

static const int64_t sizes[][2] = {{1, 5}, {2, 3}, {3, 1}, {1, 5}};
enum { SIZES = sizeof sizes / sizeof *sizes, RUNS = 3 };

static reed_tensor *sequences(const int64_t size[2]) {
  reed_tensor *t = floats(3, (int64_t[]){size[0], size[1], 24}, 0);
  float *x = reed_tensor_data(t);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
  return t;
}

/* The outputs of a session on a device without the library, for each size. */
typedef struct expected {
  reed_tensor *out[SIZES][N_OUT];
} expected;

static expected expected_of(const char *device, int seed) {
  expected e;
  model m = model_open(made_of_products(seed), device, false);
  for (int i = 0; i < SIZES; i++) {
    reed_tensor *x = sequences(sizes[i]);
    run_model(&m, &x, e.out[i]);
    reed_tensor_close(&x);
  }
  model_close(&m);
  return e;
}

static void expected_close(expected *e) {
  for (int i = 0; i < SIZES; i++)
    for (int k = 0; k < N_OUT; k++) reed_tensor_close(&e->out[i][k]);
}

static void check_run(model *m, const expected *e, int i, const char *what) {
  reed_tensor *x = sequences(sizes[i]), *out[N_OUT];
  run_model(m, &x, out);
  for (int k = 0; k < N_OUT; k++) {
    assert_same(out[k], e->out[i][k], what);
    reed_tensor_close(&out[k]);
  }
  reed_tensor_close(&x);
}

static const struct {
  const char *plain, *device;
} devices[] = {{"cuda-emulated", "cuda-emulated?cublas=2"},
               {"cuda-emulated", "cuda-emulated?cublas=2&cudnn=2&late=1&seed=3&poison=1&order=7"},
               {"cuda-emulated?tf32=1", "cuda-emulated?cublas=2&tf32=1&check=1"}};

/* Three runs of a size: the first and second enqueue the plans, the third replays a graph. */
START_TEST(plans_of_the_library_give_the_bits) {
  expected e = expected_of(devices[_i].plain, 1);
  model m = model_open(made_of_products(1), devices[_i].device, false);
  const int64_t before = runs();
  for (int i = 0; i < SIZES; i++)
    for (int run = 0; run < RUNS; run++) check_run(&m, &e, i, devices[_i].device);
  const int64_t n = runs() - before;
  ck_assert_int_gt(statistic_of(m.session, "replayed"), 0);
  /* 3 sizes; the recording of a graph enqueues the products a second time */
  ck_assert_msg(n >= TAKEN * 3 && n <= 2 * TAKEN * 4, "%lld products by the library", (long long)n);
  model_close(&m);
  expected_close(&e);
}
END_TEST

/* A measurement runs both kernels twice, once for the products of one kind and order of size. */
START_TEST(a_measurement_is_remembered) {
  static const int64_t alike[2] = {1, 6}; /* the extents have as many binary digits as those of sizes[0] */
  expected e = expected_of("cuda-emulated", 1);
  reed_tensor *x = sequences(alike), *out[N_OUT];
  model m = model_open(made_of_products(1), "cuda-emulated?cublas=1", false);
  int64_t before = runs();
  check_run(&m, &e, 0, "measured");
  ck_assert_int_eq(runs() - before, TAKEN * 2);
  before = runs();
  run_model(&m, &x, out);
  ck_assert_int_le(runs() - before, TAKEN);
  for (int k = 0; k < N_OUT; k++) reed_tensor_close(&out[k]);
  for (int i = 1; i < SIZES; i++)
    for (int run = 0; run < RUNS; run++) check_run(&m, &e, i, "measured");
  reed_tensor_close(&x);
  model_close(&m);
  expected_close(&e);
}
END_TEST

/* Copies of packed weights go with their program; the next program's weights may lie at the same address. */
START_TEST(weights_belong_to_their_program) {
  reed_tensor *one = floats(1, (int64_t[]){1}, 0), *open = on_device(one, "cuda-emulated?cublas=2");
  for (int seed = 1; seed <= 3; seed++) {
    expected e = expected_of("cuda-emulated", seed);
    model m = model_open(made_of_products(seed), "cuda-emulated?cublas=2", false);
    for (int run = 0; run < RUNS; run++) check_run(&m, &e, 1, "another program");
    model_close(&m);
    expected_close(&e);
  }
  reed_tensor_close(&open);
  reed_tensor_close(&one);
}
END_TEST

static const struct {
  const char *option;
  int last, step;
  bool tells; /* true: a run may fail, and the next run is right; false: no run fails */
} failures[] = {{"fail_cublas", 200, 9, false}, {"fail_call", 420, 41, true}, {"fail_memory", 24, 1, true}};

/* Any call of the library may fail: the own kernel takes its place. Any call of the driver may fail, too: then the run
 * says so. Nothing is lost (the fake driver counts handles and descriptors when the card closes). */
START_TEST(calls_are_failed_once) {
  const int step = getenv("REED_ALL_EMULATED") ? 1 : failures[_i].step;
  int64_t fewer = 0;
  expected e = expected_of("cuda-emulated", 1);
  reed_tensor *x = sequences(sizes[1]);
  model m = model_open(made_of_products(1), "cuda-emulated", false);
  for (int n = 1; n < failures[_i].last; n += step) {
    char device[64];
    snprintf(device, sizeof device, "cuda-emulated?cublas=2&%s=%d", failures[_i].option, n);
    reed_session_close(&m.session);
    const reed_session_options options = {.device = device, .n_threads = 1};
    const reed_status opened = reed_session_open(m.program, &options, &m.session, m.said);
    ck_assert_msg(opened == REED_OK || failures[_i].tells, "%s: %s", device, reed_diagnosis_message(m.said));
    if (opened != REED_OK) continue;
    const int64_t first = runs();
    for (int run = 0, failed = 0; run < 2; run++) {
      reed_tensor *out[N_OUT];
      if (reed_session_run(m.session, &x, 1, out, N_OUT, m.said) != REED_OK) {
        ck_assert_msg(failures[_i].tells && !failed++, "%s: %s", device, reed_diagnosis_message(m.said));
        continue;
      }
      for (int k = 0; k < N_OUT; k++) {
        assert_same(out[k], e.out[1][k], device);
        reed_tensor_close(&out[k]);
      }
    }
    fewer += runs() - first < 2 * TAKEN;
  }
  if (!failures[_i].tells) ck_assert_int_gt(fewer, 5);
  reed_tensor_close(&x);
  model_close(&m);
  expected_close(&e);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("cublas");
  tcase_add_loop_test(cases, plans_of_the_library_give_the_bits, 0, sizeof devices / sizeof *devices);
  tcase_add_test(cases, a_measurement_is_remembered);
  tcase_add_test(cases, weights_belong_to_their_program);
  tcase_add_loop_test(cases, calls_are_failed_once, 0, sizeof failures / sizeof *failures);
  return run_suite(cases, "cublas");
}
