/* Convolutions by cuDNN (device option `cudnn`) on the emulated GPU, over a stand-in for the library that reads the
 * module's descriptors and carries plans out by Reed's own kernels: so the bits are those of a session without it.
 * Plans of the real library: tests/device/cuda/cudnn. */
#include <dlfcn.h>
#include <unistd.h>

#include "device/cuda/driver/driver.h"
#include "tests/whole/counts.h"
#include "tests/whole/model.h"

enum { N_OUT = 2 };

/* Convolutions of every kind that the library takes: with relu, stride, a residual, groups, dilation, more than one
 * panel of outputs; and two that it does not take: of an image with channels first, and one with a sigmoid. */
static onnx_build *convolutions(int seed) {
  static float weights[70 * 16 * 9];
  onnx_build *b = build_open(17);
  for (int i = 0; i < (int)(sizeof weights / sizeof *weights); i++)
    weights[i] = (float)((i * 7 + i / 11 + seed) % 23) / 64 - 0.17f;
  build_input(b, "x", "f32[n,3,h,w]");
  build_f32(b, "w0", "16,3,1,1", weights);
  build_f32(b, "w1", "70,16,3,2", weights + 5);
  build_f32(b, "w2", "70,16,1,1", weights + 9);
  build_f32(b, "w3", "36,35,3,1", weights + 2);
  build_f32(b, "w4", "5,36,1,1", weights + 3);
  build_f32(b, "b1", "70", weights + 100);
  build_f32(b, "b2", "70", weights + 300);
  build_node(b, "Conv", "x,w0", "c0");
  build_node(b, "Relu", "c0", "r0");
  build_node_t *n = build_node(b, "Conv", "r0,w1,b1", "c1");
  build_ints(b, n, "pads", "1,0,1,1");
  build_ints(b, n, "strides", "2,2");
  build_node(b, "Relu", "c1", "r1");
  build_ints(b, build_node(b, "Conv", "r0,w2,b2", "c2"), "strides", "2,2");
  build_node(b, "Add", "c2,r1", "s2");
  build_node(b, "Relu", "s2", "r2");
  n = build_node(b, "Conv", "r2,w3", "c3");
  build_ints(b, n, "pads", "2,0,2,0");
  build_ints(b, n, "dilations", "2,1");
  build_int(b, n, "group", 2);
  build_node(b, "Conv", "c3,w4", "c4");
  build_node(b, "Sigmoid", "c4", "p");
  build_output(b, "c3", "f32[n,36,a,b]");
  build_output(b, "p", "f32[n,5,a,b]");
  return b;
}

typedef struct counts {
  int64_t runs, known; /* runs of plans; plans made from a known engine */
} counts;

static counts counted(void) {
  counts c;
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  ck_assert_ptr_nonnull(module);
  void (*count)(int64_t *, int64_t *) = (void (*)(int64_t *, int64_t *))dlsym(module, "reed_fake_cudnn_counts");
  ck_assert_ptr_nonnull(count);
  count(&c.runs, &c.known);
  dlclose(module);
  return c;
}
static int64_t runs(void) { return counted().runs; }

static const int64_t sizes[][3] = {{1, 5, 4}, {2, 3, 4}, {1, 7, 3}, {1, 5, 4}};
enum { SIZES = sizeof sizes / sizeof *sizes, RUNS = 3 };

/* An image of this size. */
static reed_tensor *image(const int64_t size[3]) {
  reed_tensor *t = floats(4, (int64_t[]){size[0], 3, size[1], size[2]}, 0);
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
  model m = model_open(convolutions(seed), device, false);
  for (int i = 0; i < SIZES; i++) {
    reed_tensor *x = image(sizes[i]);
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
  reed_tensor *x = image(sizes[i]), *out[N_OUT];
  run_model(m, &x, out);
  for (int k = 0; k < N_OUT; k++) {
    assert_same(out[k], e->out[i][k], what);
    reed_tensor_close(&out[k]);
  }
  reed_tensor_close(&x);
}

static const struct {
  const char *plain, *device;
} devices[] = {{"cuda-emulated", "cuda-emulated?cudnn=2"},
               {"cuda-emulated", "cuda-emulated?cudnn=2&late=1&seed=3&poison=1&order=7"},
               {"cuda-emulated?tf32=1", "cuda-emulated?cudnn=2&tf32=1&check=1"}};

/* Three runs of a size: the first and second enqueue the plans, the third replays a graph. */
START_TEST(plans_of_the_library_give_the_bits) {
  expected e = expected_of(devices[_i].plain, 1);
  model m = model_open(convolutions(1), devices[_i].device, false);
  const int64_t before = runs();
  for (int i = 0; i < SIZES; i++)
    for (int run = 0; run < RUNS; run++) check_run(&m, &e, i, devices[_i].device);
  const int64_t n = runs() - before;
  ck_assert_int_gt(statistic_of(m.session, "replayed"), 0);
  /* 3 convolutions, 3 sizes; the recording of a graph enqueues them a second time */
  ck_assert_msg(n >= 3 * 3 && n <= 2 * 3 * 4, "%lld convolutions by the library", (long long)n);
  model_close(&m);
  expected_close(&e);
}
END_TEST

/* A measurement runs both kernels twice, once for the convolutions of one kind and order of size. */
START_TEST(a_measurement_is_remembered) {
  static const int64_t alike[3] = {1, 5, 3}; /* its number of pixels has as many binary digits as that of sizes[0] */
  expected e = expected_of("cuda-emulated", 1);
  reed_tensor *x = image(alike), *out[N_OUT];
  model m = model_open(convolutions(1), "cuda-emulated?cudnn=1", false);
  int64_t before = runs();
  check_run(&m, &e, 0, "measured");
  ck_assert_int_eq(runs() - before, 3 * 2);
  before = runs();
  const int64_t known = counted().known;
  run_model(&m, &x, out);
  ck_assert_int_le(runs() - before, 3);
  /* two plans by the other size's engines, without a measurement; the third convolution has extents that are planned
   * already */
  ck_assert_int_eq(counted().known - known, 2);
  for (int k = 0; k < N_OUT; k++) reed_tensor_close(&out[k]);
  for (int i = 1; i < SIZES; i++)
    for (int run = 0; run < RUNS; run++) check_run(&m, &e, i, "measured");
  reed_tensor_close(&x);
  model_close(&m);
  expected_close(&e);
}
END_TEST

/* Free bytes of the card when the driver has run all releases. */
static size_t free_bytes(void) {
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  void (*table)(cuda_driver *) = (void (*)(cuda_driver *))dlsym(module, "reed_fake_driver");
  cuda_driver cu;
  cu_device card;
  cu_context context;
  size_t available = 0, before = 1, total;
  table(&cu);
  ck_assert_int_eq(cu.device_get(&card, cu.first_ordinal), CU_SUCCESS);
  ck_assert_int_eq(cu.context_retain(&context, card), CU_SUCCESS);
  ck_assert_int_eq(cu.context_push(context), CU_SUCCESS);
  while (available != before) {
    before = available;
    ck_assert_int_eq(cu.stream_synchronize((cu_stream)1), CU_SUCCESS);
    usleep(20000);
    ck_assert_int_eq(cu.memory_info(&available, &total), CU_SUCCESS);
  }
  ck_assert_int_eq(cu.context_pop(&context), CU_SUCCESS);
  ck_assert_int_eq(cu.context_release(card), CU_SUCCESS);
  dlclose(module);
  return available;
}

/* Copies of weights go with their program; the next program's weights may lie at the same address. */
START_TEST(weights_belong_to_their_program) {
  reed_tensor *one = floats(1, (int64_t[]){1}, 0), *open = on_device(one, "cuda-emulated?cudnn=2");
  const size_t available = free_bytes();
  for (int seed = 1; seed <= 2; seed++) {
    expected e = expected_of("cuda-emulated", seed);
    model m = model_open(convolutions(seed), "cuda-emulated?cudnn=2", false);
    for (int run = 0; run < RUNS; run++) check_run(&m, &e, 1, "another program");
    reed_session *second = session_of(&m, "cuda-emulated?cudnn=2");
    reed_tensor *x = image(sizes[2]), *out[N_OUT];
    run_session(&m, second, &x, out);
    for (int k = 0; k < N_OUT; k++) {
      assert_same(out[k], e.out[2][k], "another session");
      reed_tensor_close(&out[k]);
    }
    reed_tensor_close(&x);
    reed_session_close(&second);
    model_close(&m);
    expected_close(&e);
    ck_assert_uint_eq(free_bytes(), available);
  }
  reed_tensor_close(&open);
  reed_tensor_close(&one);
}
END_TEST

/* A convolution that the library does not take, then one that it takes. */
static onnx_build *two_convolutions(void) {
  onnx_build *b = build_open(17);
  float weights[20 * 16];
  for (int i = 0; i < 20 * 16; i++) weights[i] = (float)(i % 23) / 64 - 0.17f;
  build_input(b, "x", "f32[n,3,h,w]");
  build_f32(b, "w0", "16,3,1,1", weights);
  build_f32(b, "w1", "20,16,1,1", weights);
  build_f32(b, "b1", "20", weights);
  build_node(b, "Conv", "x,w0", "c0");
  build_node(b, "Relu", "c0", "r0");
  build_node(b, "Conv", "r0,w1,b1", "y");
  build_output(b, "y", "f32[n,20,h,w]");
  return b;
}

static const struct {
  const char *option;
  int last, step;
  bool tells; /* true: a run may fail, and the next run is right; false: no run fails */
} failures[] = {{"fail_cudnn", 300, 7, false}, {"fail_call", 420, 11, true}, {"fail_memory", 24, 1, true}};

/* Any call of the library may fail: the own kernel takes its place. Any call of the driver may fail, too: then the run
 * says so. Nothing is lost (the fake driver counts handles and descriptors when the card closes). Some calls are
 * failed; with REED_ALL_EMULATED in the environment each call. */
START_TEST(calls_are_failed_once) {
  const int step = getenv("REED_ALL_EMULATED") ? 1 : failures[_i].step;
  int64_t without = 0;
  reed_tensor *x = floats(4, (int64_t[]){1, 3, 2, 2}, 0), *right = NULL, *y;
  model m = model_open(two_convolutions(), "cuda-emulated", false);
  run_model(&m, &x, &right);
  for (int n = 1; n < failures[_i].last; n += step) {
    char device[64];
    snprintf(device, sizeof device, "cuda-emulated?cudnn=2&%s=%d", failures[_i].option, n);
    reed_session_close(&m.session);
    const reed_session_options options = {.device = device, .n_threads = 1};
    const reed_status opened = reed_session_open(m.program, &options, &m.session, m.said);
    ck_assert_msg(opened == REED_OK || failures[_i].tells, "%s: %s", device, reed_diagnosis_message(m.said));
    if (opened != REED_OK) continue;
    const int64_t first = runs();
    for (int run = 0, failed = 0; run < 3; run++) {
      if (reed_session_run(m.session, &x, 1, &y, 1, m.said) != REED_OK) {
        ck_assert_msg(failures[_i].tells && !failed++, "%s: %s", device, reed_diagnosis_message(m.said));
        continue;
      }
      assert_same(y, right, device);
      reed_tensor_close(&y);
    }
    without += runs() == first;
  }
  if (!failures[_i].tells) ck_assert_int_gt(without, 5);
  reed_tensor_close(&right);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* Convolutions at a batch whose count stays on the device take no plan of the library, because a plan has the extents
 * of its launch; with fetched counts they do. */
START_TEST(a_counted_batch_is_left_to_the_own_kernel) {
  static float weights[16 * 16 * 9];
  enum { OWN, FETCHED, AT_BOUND, ALL };
  static const char *const on[ALL] = {"cuda-emulated", "cuda-emulated?cudnn=2", "cuda-emulated?cudnn=2"};
  onnx_build *b = counted_rows_open("images", "f32[16,4,6,6]", "pictures");
  for (int i = 0; i < (int)(sizeof weights / sizeof *weights); i++) weights[i] = (float)(i * 7 % 23) / 64 - 0.17f;
  build_f32(b, "w0", "16,4,3,3", weights);
  build_f32(b, "w1", "16,16,1,1", weights);
  build_node(b, "Conv", "pictures,w0", "c0");
  build_node(b, "Relu", "c0", "r0");
  build_node(b, "Conv", "r0,w1", "y");
  build_output(b, "y", "f32");
  runner runners[ALL];
  for (int k = 0; k < ALL; k++)
    runners[k] = runner_open(b, &(reed_compile_options){.counts_on_device = k == AT_BOUND, .target = "cuda-emulated"},
                             on[k], on[k]);
  reed_tensor *inputs[2] = {tensor_of(2, (int64_t[]){3, 3}), tensor_of(4, (int64_t[]){16, 4, 6, 6})};
  for (int i = 0; i < 16 * 4 * 36; i++) ((float *)reed_tensor_data(inputs[1]))[i] = (float)(i * 29 % 41) / 16 - 1;
  for (int share = 1; share <= 3; share++) {
    reed_tensor *y[ALL];
    for (int i = 0; i < 9; i++) ((float *)reed_tensor_data(inputs[0]))[i] = i % 3 < share ? 1.0f : -1.0f;
    for (int k = 0; k < ALL; k++) {
      const int64_t before = runs();
      runner_run(&runners[k], inputs, 2, &y[k], 1, on[k]);
      if (k == FETCHED) ck_assert_int_gt(runs() - before, 0);
      else ck_assert_int_eq(runs() - before, 0);
      if (k) assert_same(y[k], y[0], "a counted batch");
    }
    for (int k = 0; k < ALL; k++) reed_tensor_close(&y[k]);
  }
  for (int i = 0; i < 2; i++) reed_tensor_close(&inputs[i]);
  for (int k = 0; k < ALL; k++) runner_close(&runners[k]);
  build_close(&b);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("cudnn");
  tcase_add_loop_test(cases, plans_of_the_library_give_the_bits, 0, sizeof devices / sizeof *devices);
  tcase_add_test(cases, a_measurement_is_remembered);
  tcase_add_test(cases, a_counted_batch_is_left_to_the_own_kernel);
  tcase_add_test(cases, weights_belong_to_their_program);
  tcase_add_loop_test(cases, calls_are_failed_once, 0, sizeof failures / sizeof *failures);
  return run_suite(cases, "cudnn");
}
