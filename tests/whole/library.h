/* Parts of the tests of NVIDIA's libraries on the emulated GPU (test_cublas.c, test_cudnn.c): a model at several sizes
 * gives the bits of a session without the library, also when calls fail. */
#ifndef TESTS_WHOLE_LIBRARY_H_
#define TESTS_WHOLE_LIBRARY_H_

#include <dlfcn.h>

#include "tests/whole/model.h"

enum { SIZES = 4, RUNS = 3, MOST_OUT = 4 };

typedef struct library_case {
  onnx_build *(*build)(int seed);
  reed_tensor *(*input)(int size); /* 0 to SIZES - 1 */
  int64_t (*runs)(void);           /* plans that the stand-in for the library has carried out */
} library_case;

/* A function of the module that is loaded. */
static inline void *fake_function(const char *name) {
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  ck_assert_ptr_nonnull(module);
  void *found = dlsym(module, name);
  ck_assert_ptr_nonnull(found);
  dlclose(module);
  return found;
}

/* Numbers between -1 and 1. */
static inline reed_tensor *small_numbers(int32_t rank, const int64_t *dims) {
  reed_tensor *t = floats(rank, dims, 0);
  float *x = reed_tensor_data(t);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
  return t;
}

/* The outputs of a session on a device without the library, for each size. */
typedef struct expected {
  size_t n_out;
  reed_tensor *out[SIZES][MOST_OUT];
} expected;

static inline expected expected_of(const library_case *of, const char *device, int seed) {
  expected e;
  model m = model_open(of->build(seed), device, false);
  e.n_out = reed_program_output_count(m.program);
  ck_assert_uint_le(e.n_out, MOST_OUT);
  for (int i = 0; i < SIZES; i++) {
    reed_tensor *x = of->input(i);
    run_model(&m, &x, e.out[i]);
    reed_tensor_close(&x);
  }
  model_close(&m);
  return e;
}

static inline void expected_close(expected *e) {
  for (int i = 0; i < SIZES; i++)
    for (size_t k = 0; k < e->n_out; k++) reed_tensor_close(&e->out[i][k]);
}

/* Closes the outputs. */
static inline void check_outputs(reed_tensor **out, const expected *e, int size, const char *what) {
  for (size_t k = 0; k < e->n_out; k++) {
    assert_same(out[k], e->out[size][k], what);
    reed_tensor_close(&out[k]);
  }
}

static inline void check_run(const library_case *of, model *m, reed_session *session, const expected *e, int size,
                             const char *what) {
  reed_tensor *x = of->input(size), *out[MOST_OUT];
  run_session(m, session, &x, out);
  check_outputs(out, e, size, what);
  reed_tensor_close(&x);
}

/* Three runs of each size from `first` on: the first and second enqueue the plans, the third replays a graph. */
static inline void check_sizes(const library_case *of, model *m, const expected *e, int first, const char *what) {
  for (int i = first; i < SIZES; i++)
    for (int run = 0; run < RUNS; run++) check_run(of, m, m->session, e, i, what);
}

/* The number of plans that these runs on the device carried out; the results are those of the plain device. */
static inline int64_t check_plans(const library_case *of, const char *plain, const char *device) {
  expected e = expected_of(of, plain, 1);
  model m = model_open(of->build(1), device, false);
  const int64_t before = of->runs();
  check_sizes(of, &m, &e, 0, device);
  const int64_t n = of->runs() - before;
  ck_assert_int_gt(statistic_of(m.session, "replayed"), 0);
  model_close(&m);
  expected_close(&e);
  return n;
}

/* By the clock of the emulated device (option `clock`) a plan of the library is faster, or slower, than the own kernel:
 * the first run measures, and the second one takes the faster of the two. */
static inline void check_choice(const library_case *of, const char *device) {
  static const struct {
    int clock;
    bool library;
  } clocks[] = {{100, true}, {2000, false}};
  expected e = expected_of(of, "cuda-emulated", 1);
  for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s&late=1&clock=%d", device, clocks[i].clock);
    model m = model_open(of->build(1), name, false);
    check_run(of, &m, m.session, &e, 0, name);
    const int64_t before = of->runs();
    check_run(of, &m, m.session, &e, 0, name);
    const int64_t n = of->runs() - before;
    ck_assert_msg((n > 0) == clocks[i].library, "%s: %lld plans", name, (long long)n);
    model_close(&m);
  }
  expected_close(&e);
}

typedef struct library_failure {
  const char *option; /* of the device: `option`=n fails the n-th call */
  int last, step;
  bool tells; /* true: a run may fail, and the next run is right; false: no run fails */
} library_failure;

/* Any call of the library may fail: the own kernel takes its place. Any call of the driver may fail, too: then the run
 * says so. Nothing is lost (the fake driver counts handles and descriptors when the card closes). Some calls are
 * failed; with REED_ALL_EMULATED in the environment each call. In some of the sessions of `n_runs` runs at the size at
 * most `most_plans` plans are carried out. */
static inline void check_failures(const library_case *of, const char *device, const library_failure *failure, int size,
                                  int n_runs, int64_t most_plans) {
  const int step = getenv("REED_ALL_EMULATED") ? 1 : failure->step;
  int64_t fewer = 0;
  expected e = expected_of(of, "cuda-emulated", 1);
  reed_tensor *x = of->input(size);
  model m = model_open(of->build(1), "cuda-emulated", false);
  for (int n = 1; n < failure->last; n += step) {
    char failing[64];
    snprintf(failing, sizeof failing, "%s&%s=%d", device, failure->option, n);
    reed_session_close(&m.session);
    const reed_session_options options = {.device = failing, .n_threads = 1};
    const reed_status opened = reed_session_open(m.program, &options, &m.session, m.said);
    ck_assert_msg(opened == REED_OK || failure->tells, "%s: %s", failing, reed_diagnosis_message(m.said));
    if (opened != REED_OK) continue;
    const int64_t before = of->runs();
    for (int run = 0, failed = 0; run < n_runs; run++) {
      reed_tensor *out[MOST_OUT];
      if (reed_session_run(m.session, &x, 1, out, e.n_out, m.said) != REED_OK) {
        ck_assert_msg(failure->tells && !failed++, "%s: %s", failing, reed_diagnosis_message(m.said));
        continue;
      }
      check_outputs(out, &e, size, failing);
    }
    fewer += of->runs() - before <= most_plans;
  }
  if (!failure->tells) ck_assert_int_gt(fewer, 5);
  reed_tensor_close(&x);
  model_close(&m);
  expected_close(&e);
}

#endif
