/* RandomNormal and RandomUniform: the published words of Philox, distributions, and numbers that depend on the stream
 * alone, not on extents, threads or the calls of others. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ops/random.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

#define BEST cpu_level_name(cpu_level_best())

static void made(kernel_case *c, op_id op, reed_dtype dtype, int64_t n) {
  case_init(c, op);
  case_ints(c, 1, n);
  case_attr_int(c, "dtype", dtype);
}

/* philox4x32-10 of counter 0 and key 0 is 6627e8d5 e169c58d bc57ac4c 9b00dbd8 (of Random123's known answers). */
START_TEST(the_first_numbers_are_philox) {
  static const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  static const char *const levels[] = {"base", "avx2", "avx512"};
  for (int k = 0; k < 3; k++) {
    kernel_case c;
    made(&c, OP_RandomUniform, REED_F32, 256);
    ck_assert_int_eq(case_run(&c, levels[k]), REED_OK);
    for (int w = 0; w < 4; w++)
      ck_assert_msg(case_get(&c.outputs[0], 64 * w) == (words[w] >> 8) * 0x1p-24, "%s", case_where(&c));
    case_close(&c);
    made(&c, OP_RandomUniform, REED_F64, 128);
    ck_assert_int_eq(case_run(&c, levels[k]), REED_OK);
    for (int w = 0; w < 2; w++) {
      const uint64_t bits = ((uint64_t)words[2 * w + 1] << 32 | words[2 * w]) >> 11;
      ck_assert_msg(case_get(&c.outputs[0], 64 * w) == (double)bits * 0x1p-53, "%s", case_where(&c));
    }
    case_close(&c);
  }
}
END_TEST

typedef struct moments {
  double mean, variance, fourth, least, most;
} moments;

static moments moments_of(const value *v) {
  const int64_t n = desc_elements(&v->desc);
  moments m = {.least = INFINITY, .most = -INFINITY};
  for (int64_t i = 0; i < n; i++) {
    const double x = case_get(v, i);
    m.mean += x / (double)n;
    m.least = fmin(m.least, x);
    m.most = fmax(m.most, x);
  }
  for (int64_t i = 0; i < n; i++) {
    const double d = case_get(v, i) - m.mean;
    m.variance += d * d / (double)n;
    m.fourth += d * d * d * d / (double)n;
  }
  return m;
}

static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16};

/* Of 200,000 numbers the mean is within 5 standard errors, and so are the other moments. */
START_TEST(numbers_have_their_distributions) {
  enum { N = 200000 };
  kernel_case c;
  made(&c, OP_RandomNormal, dtypes[_i], N);
  case_attr_float(&c, "mean", 1);
  case_attr_float(&c, "scale", 2);
  ck_assert_int_eq(case_run(&c, BEST), REED_OK);
  moments m = moments_of(&c.outputs[0]);
  ck_assert_msg(fabs(m.mean - 1) < 5 * 2 / sqrt(N) && fabs(m.variance / 4 - 1) < 5 * sqrt(2. / N) &&
                    fabs(m.fourth / 16 - 3) < 5 * sqrt(96. / N) && m.least < -6 && m.most > 8 && m.most < 15,
                "%s: mean %g, variance %g, fourth moment %g", case_where(&c), m.mean, m.variance, m.fourth);
  case_close(&c);
  made(&c, OP_RandomUniform, dtypes[_i], N);
  case_attr_float(&c, "low", -3);
  case_attr_float(&c, "high", 1);
  ck_assert_int_eq(case_run(&c, BEST), REED_OK);
  m = moments_of(&c.outputs[0]);
  ck_assert_msg(fabs(m.mean + 1) < 5 * 4 / sqrt(12. * N) && fabs(m.variance * 12 / 16 - 1) < .02 && m.least >= -3 &&
                    m.least < -2.98 && m.most < 1 && m.most > .98,
                "%s: mean %g, variance %g", case_where(&c), m.mean, m.variance);
  case_close(&c);
}
END_TEST

/* A rounded number is below `high` too, and a range may be wider than the largest float. */
START_TEST(uniform_numbers_are_in_their_range) {
  static const double ranges[][2] = {{0, 1}, {1000, 1000.5}, {-1, 0}, {-1000.5, -1000}, {-2e38, 3e38}, {2, 2}};
  for (int k = 0; k < ROWS(ranges); k++) {
    if (dtypes[_i] == REED_F16 && ranges[k][1] > 65504) continue;
    kernel_case c;
    made(&c, OP_RandomUniform, dtypes[_i], 200000);
    case_attr_float(&c, "low", ranges[k][0]);
    case_attr_float(&c, "high", ranges[k][1]);
    ck_assert_int_eq(case_run(&c, BEST), REED_OK);
    const moments m = moments_of(&c.outputs[0]);
    /* (1000.5 and the numbers near it are no bf16) */
    ck_assert_msg(isfinite(m.mean) && (m.most < ranges[k][1] || ranges[k][0] == ranges[k][1]) &&
                      (m.least >= ranges[k][0] || reed_dtype_bytes(dtypes[_i]) == 2),
                  "%s: %g to %g", case_where(&c), m.least, m.most);
    case_close(&c);
  }
}
END_TEST

/* The first numbers of a longer tensor are those of a shorter one, with any number of threads, on any CPU. */
START_TEST(numbers_follow_from_their_place_alone) {
  static const int64_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 255, 257, 1000, 100001};
  static const char *const levels[] = {"avx512", "base", "avx2", "base"};
  for (int op = 0; op < 2; op++)
    for (int d = 0; d < 4; d++) {
      kernel_case all;
      made(&all, op ? OP_RandomNormal : OP_RandomUniform, dtypes[d], 300000);
      ck_assert_int_eq(case_run(&all, BEST), REED_OK);
      for (int k = 0; k < ROWS(sizes); k++) {
        kernel_case c;
        made(&c, op ? OP_RandomNormal : OP_RandomUniform, dtypes[d], sizes[k]);
        c.n_threads = 1 + k % 3;
        ck_assert_int_eq(case_run(&c, levels[k % 4]), REED_OK);
        for (int64_t i = 0; i < sizes[k]; i++)
          ck_assert_msg(case_get(&c.outputs[0], i) == case_get(&all.outputs[0], i), "%s: number %lld", case_where(&c),
                        (long long)i);
        case_close(&c);
      }
      case_close(&all);
    }
}
END_TEST

/* Runs a kernel of 1,000 numbers on the stream and gives them. */
static void draw(random_stream *stream, const double *seed, float *out) {
  const reed_op *op = op_builtin(OP_RandomUniform);
  reed_attr given[] = {{.name = "dtype", .type = REED_ATTR_INT, .i = REED_F32},
                       {.name = "seed", .type = REED_ATTR_FLOAT, .f = seed ? *seed : 0}},
            items[8];
  const reed_attrs some = {given, seed ? 2 : 1}, attrs = op_attrs_complete(op, &some, items);
  const reed_desc shape = {.dtype = REED_I64, .rank = 1, .dims = {1}},
                  made_desc = {.dtype = REED_F32, .rank = 1, .dims = {1000}};
  const int64_t extent = 1000;
  reed_kernel_env env = {.n_threads = 1, .random = stream};
  reed_kernel_call call = {.op = op,
                           .attrs = &attrs,
                           .node = "n",
                           .n_inputs = 1,
                           .n_outputs = 1,
                           .inputs = &shape,
                           .outputs = &made_desc,
                           .host_values = (const void *const[]){&extent},
                           .constant = (const bool[]){true},
                           .env = &env};
  reed_kernel kernel = {0};
  ck_assert_int_eq(kernel_cpu(op)(&call, &kernel), REED_OK);
  ck_assert_int_eq(kernel.run(kernel.state, &(reed_kernel_buffers){.inputs = (const void *const[]){&extent},
                                                                   .outputs = (void *const[]){out}}),
                   REED_OK);
  kernel.free(kernel.state);
}

static int n_equal(const float *a, const float *b) {
  int n = 0;
  for (int i = 0; i < 1000; i++) n += a[i] == b[i];
  return n;
}

START_TEST(each_call_takes_the_next_series) {
  static float first[1000], second[1000], again[1000];
  random_stream stream = {.seed = 5};
  draw(&stream, NULL, first);
  draw(&stream, NULL, second);
  ck_assert_uint_eq(stream.n_series, 2);
  ck_assert_int_lt(n_equal(first, second), 5);
  draw(&(random_stream){.seed = 5}, NULL, again);
  ck_assert_int_eq(n_equal(first, again), 1000);
  draw(&(random_stream){.seed = 5, .n_series = 1}, NULL, again);
  ck_assert_int_eq(n_equal(second, again), 1000);
  draw(&(random_stream){.seed = 6}, NULL, again);
  ck_assert_int_lt(n_equal(first, again), 5);
  /* a node's own seed stands for the session's */
  draw(&(random_stream){.seed = 5}, &(double){5}, second);
  ck_assert_int_lt(n_equal(first, second), 5);
  draw(&(random_stream){.seed = 6}, &(double){5}, again);
  ck_assert_int_eq(n_equal(second, again), 1000);
  draw(&(random_stream){.seed = 6}, &(double){-5}, again);
  ck_assert_int_lt(n_equal(second, again), 5);
}
END_TEST

START_TEST(whole_numbers_are_refused) {
  kernel_case c;
  made(&c, OP_RandomNormal, REED_I64, 3);
  case_fails(&c, REED_ERROR_TYPE, "i64");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("random numbers");
  TCase *cases = tcase_create("random");
  tcase_set_timeout(cases, 60);
  tcase_add_host_test(cases, the_first_numbers_are_philox);
  tcase_add_host_loop_test(cases, numbers_have_their_distributions, 0, 4);
  tcase_add_host_loop_test(cases, uniform_numbers_are_in_their_range, 0, 4);
  tcase_add_host_test(cases, numbers_follow_from_their_place_alone);
  tcase_add_host_test(cases, each_call_takes_the_next_series);
  tcase_add_host_test(cases, whole_numbers_are_refused);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
