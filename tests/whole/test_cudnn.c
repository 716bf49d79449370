/* Convolutions by cuDNN (device option `cudnn`) on the emulated GPU, over a stand-in for the library that reads the
 * module's descriptors and carries plans out by Reed's own kernels: so the bits are those of a session without it.
 * Plans of the real library: tests/device/cuda/cudnn. */
#include <unistd.h>

#include "device/cuda/driver/driver.h"
#include "tests/whole/counts.h"
#include "tests/whole/library.h"

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
  ((void (*)(int64_t *, int64_t *))fake_function("reed_fake_cudnn_counts"))(&c.runs, &c.known);
  return c;
}
static int64_t runs(void) { return counted().runs; }

static const int64_t sizes[SIZES][3] = {{1, 5, 4}, {2, 3, 4}, {1, 7, 3}, {1, 5, 4}};

/* An image of this size. */
static reed_tensor *image(const int64_t size[3]) { return small_numbers(4, (int64_t[]){size[0], 3, size[1], size[2]}); }
static reed_tensor *input(int size) { return image(sizes[size]); }

static const library_case of_convolutions = {convolutions, input, runs};

static const struct {
  const char *plain, *device;
} devices[] = {{"cuda-emulated", "cuda-emulated?cudnn=2"},
               {"cuda-emulated", "cuda-emulated?cudnn=2&late=1&seed=3&poison=1&order=7"},
               {"cuda-emulated?tf32=1", "cuda-emulated?cudnn=2&tf32=1&check=1"}};

START_TEST(plans_of_the_library_give_the_bits) {
  const int64_t n = check_plans(&of_convolutions, devices[_i].plain, devices[_i].device);
  /* 3 convolutions, 3 sizes; the recording of a graph enqueues them a second time */
  ck_assert_msg(n >= 3 * 3 && n <= 2 * 3 * 4, "%lld convolutions by the library", (long long)n);
}
END_TEST

/* A measurement runs both kernels twice, once for the convolutions of one kind and order of size. */
START_TEST(a_measurement_is_remembered) {
  static const int64_t alike[3] = {1, 5, 3}; /* its number of pixels has as many binary digits as that of sizes[0] */
  expected e = expected_of(&of_convolutions, "cuda-emulated", 1);
  reed_tensor *x = image(alike), *out[MOST_OUT];
  model m = model_open(convolutions(1), "cuda-emulated?cudnn=1", REED_COUNTS_HOST);
  int64_t before = runs();
  check_run(&of_convolutions, &m, m.session, &e, 0, "measured");
  ck_assert_int_eq(runs() - before, 3 * 2);
  before = runs();
  const int64_t known = counted().known;
  run_model(&m, &x, out);
  ck_assert_int_le(runs() - before, 3);
  /* two plans by the other size's engines, without a measurement; the third convolution has extents that are planned
   * already */
  ck_assert_int_eq(counted().known - known, 2);
  for (size_t k = 0; k < e.n_out; k++) reed_tensor_close(&out[k]);
  check_sizes(&of_convolutions, &m, &e, 1, "measured");
  reed_tensor_close(&x);
  model_close(&m);
  expected_close(&e);
}
END_TEST

/* Free bytes of the card when the driver has run all releases. */
static size_t free_bytes(void) {
  cuda_driver cu;
  cu_device card;
  cu_context context;
  size_t available = 0, before = 1, total;
  ((void (*)(cuda_driver *))fake_function("reed_fake_driver"))(&cu);
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
  return available;
}

START_TEST(the_faster_of_both_is_taken) { check_choice(&of_convolutions, "cuda-emulated?cudnn=1"); }
END_TEST

/* Copies of weights go with their program; the next program's weights may lie at the same address. */
START_TEST(weights_belong_to_their_program) {
  reed_tensor *one = floats(1, (int64_t[]){1}, 0), *open = on_device(one, "cuda-emulated?cudnn=2");
  const size_t available = free_bytes();
  for (int seed = 1; seed <= 2; seed++) {
    expected e = expected_of(&of_convolutions, "cuda-emulated", seed);
    model m = model_open(convolutions(seed), "cuda-emulated?cudnn=2", REED_COUNTS_HOST);
    for (int run = 0; run < RUNS; run++) check_run(&of_convolutions, &m, m.session, &e, 1, "another program");
    reed_session *second = session_of(&m, "cuda-emulated?cudnn=2");
    check_run(&of_convolutions, &m, second, &e, 2, "another session");
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
static onnx_build *two_convolutions(int seed) {
  onnx_build *b = build_open(17);
  float weights[20 * 16];
  for (int i = 0; i < 20 * 16; i++) weights[i] = (float)((i + seed) % 23) / 64 - 0.17f;
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

static reed_tensor *small_image(int size) { return image((int64_t[]){1, 2, 2 + size}); }

static const library_failure failures[] = {
    {"fail_cudnn", 300, 7, false}, {"fail_call", 420, 11, true}, {"fail_memory", 24, 1, true}};

START_TEST(calls_are_failed_once) {
  const library_case of_two = {two_convolutions, small_image, runs};
  check_failures(&of_two, "cuda-emulated?cudnn=2", &failures[_i], 0, 3, 0);
}
END_TEST

/* Convolutions at a batch whose count stays on the device take no plan of the library, because a plan has the extents
 * of its launch; with fetched counts they do. A target with the library gets the count fetched for them, with the
 * reason. */
START_TEST(a_counted_batch_is_left_to_the_own_kernel) {
  static float weights[16 * 16 * 9];
  enum { OWN, FETCHED, AT_BOUND, BY_TARGET, ALL };
  static const char *const on[ALL] = {"cuda-emulated", "cuda-emulated?cudnn=2", "cuda-emulated?cudnn=2",
                                      "cuda-emulated?cudnn=2"};
  static const reed_counts counts[ALL] = {
      [AT_BOUND] = REED_COUNTS_DEVICE, [OWN] = REED_COUNTS_HOST, [FETCHED] = REED_COUNTS_HOST};
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
    runners[k] = runner_open(
        b, &(reed_compile_options){.counts = counts[k], .target = k == BY_TARGET ? on[k] : on[OWN]}, on[k], on[k]);
  ck_assert_msg(strstr(runners[BY_TARGET].report, "the target's cudnn plans it for numbers of the host"), "%s",
                runners[BY_TARGET].report);
  reed_tensor *inputs[2] = {tensor_of(2, (int64_t[]){3, 3}), tensor_of(4, (int64_t[]){16, 4, 6, 6})};
  for (int i = 0; i < 16 * 4 * 36; i++) ((float *)reed_tensor_data(inputs[1]))[i] = (float)(i * 29 % 41) / 16 - 1;
  for (int share = 1; share <= 3; share++) {
    reed_tensor *y[ALL];
    for (int i = 0; i < 9; i++) ((float *)reed_tensor_data(inputs[0]))[i] = i % 3 < share ? 1.0f : -1.0f;
    for (int k = 0; k < ALL; k++) {
      const int64_t before = runs();
      runner_run(&runners[k], inputs, 2, &y[k], 1, on[k]);
      if (k == FETCHED || k == BY_TARGET) ck_assert_int_gt(runs() - before, 0);
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
  tcase_add_test(cases, the_faster_of_both_is_taken);
  tcase_add_test(cases, a_counted_batch_is_left_to_the_own_kernel);
  tcase_add_test(cases, weights_belong_to_their_program);
  tcase_add_loop_test(cases, calls_are_failed_once, 0, sizeof failures / sizeof *failures);
  return run_suite(cases, "cudnn");
}
