/* Random numbers in models: each run, node and round of a Loop draws its own, a session's seed repeats them on every
 * device, and ONNX's six operators have their distributions. */
#include <math.h>

#include "tests/whole/model.h"

static reed_session *seeded(model *m, const char *device, uint64_t seed, int n_threads) {
  reed_session *session = NULL;
  reed_status status = reed_session_open(
      m->program, &(reed_session_options){.device = device, .n_threads = n_threads, .seed = seed}, &session, m->said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m->said));
  return session;
}

/* x and, of one random node each, y and z. */
static model two_nodes(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,c]");
  build_node(b, "RandomNormalLike", "x", "a");
  build_node(b, "RandomNormalLike", "x", "b");
  build_node(b, "Add", "x,a", "y");
  build_node(b, "Add", "x,b", "z");
  build_output(b, "y", "f32[n,c]");
  build_output(b, "z", "f32[n,c]");
  return model_open(b, "host", REED_COUNTS_HOST);
}

static double share_equal(reed_tensor *a, reed_tensor *b) {
  const float *x = reed_tensor_data(a), *y = reed_tensor_data(b);
  int64_t n = reed_tensor_elements(a), same = 0;
  for (int64_t i = 0; i < n; i++) same += x[i] == y[i];
  return (double)same / (double)n;
}

enum { RUNS = 6 };

/* Runs of two sizes in turn, so that plans come back. */
static void series_of(model *m, reed_session *session, reed_tensor **out) {
  for (int r = 0; r < RUNS; r++) {
    reed_tensor *x = floats(2, (int64_t[]){r % 2 ? 7 : 40, 100}, 0);
    run_session(m, session, &x, &out[2 * r]);
    reed_tensor_close(&x);
  }
  reed_session_close(&session);
}

static void close_all(reed_tensor **t) {
  for (int i = 0; i < 2 * RUNS; i++) reed_tensor_close(&t[i]);
}

START_TEST(runs_and_nodes_differ_and_seeds_repeat) {
  model m = two_nodes();
  reed_tensor *first[2 * RUNS], *again[2 * RUNS];
  series_of(&m, seeded(&m, "host", 11, 1), first);
  for (int i = 0; i < 2 * RUNS; i++)
    for (int k = 0; k < i; k++)
      if (reed_tensor_elements(first[i]) == reed_tensor_elements(first[k]))
        ck_assert_msg(share_equal(first[i], first[k]) < .01, "output %d has the numbers of output %d", i, k);
  static const struct {
    const char *device;
    uint64_t seed;
    int n_threads;
    bool same;
  } others[] = {{"host", 11, 3, true}, {"sim", 11, 2, true}, {"host", 12, 1, false}, {"host", 0, 1, false}};
  for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
    series_of(&m, seeded(&m, others[k].device, others[k].seed, others[k].n_threads), again);
    for (int i = 0; i < 2 * RUNS; i++) {
      const double same = share_equal(first[i], again[i]);
      ck_assert_msg(others[k].same ? same == 1 : same < .01, "%s, seed %d, output %d: %g equal", others[k].device,
                    (int)others[k].seed, i, same);
    }
    close_all(again);
  }
  ck_assert(reed_program_is_impure(m.program));
  close_all(first);
  model_close(&m);
}
END_TEST

START_TEST(rounds_of_a_loop_differ) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(b, "n", "i64[]");
  build_input(b, "x", "f32[c]");
  build_tensor(b, "yes", REED_BOOL, "", (bool[]){true}, true);
  build_input(body, "i", "i64[]");
  build_input(body, "go_in", "bool[]");
  build_node(body, "Identity", "go_in", "go_on");
  build_node(body, "RandomUniformLike", "x", "u");
  build_output(body, "go_on", "bool[]");
  build_output(body, "u", "f32[c]");
  build_graph_attr(b, build_node(b, "Loop", "n,yes", "y"), "body", body);
  build_output(b, "y", "f32[n,c]");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  reed_tensor *n, *x = floats(1, (int64_t[]){500}, 0), *y;
  ck_assert_int_eq(reed_tensor_open(REED_I64, 0, NULL, &n), REED_OK);
  *(int64_t *)reed_tensor_data(n) = 5;
  run_model(&m, (reed_tensor *[]){n, x}, &y);
  const float *u = reed_tensor_data(y);
  ck_assert_int_eq(reed_tensor_elements(y), 2500);
  for (int i = 1; i < 5; i++) {
    int same = 0;
    for (int k = 0; k < 500; k++) same += u[k] == u[500 * i + k];
    ck_assert_int_lt(same, 5);
  }
  reed_tensor_close(&n);
  reed_tensor_close(&x);
  reed_tensor_close(&y);
  model_close(&m);
}
END_TEST

/* Random numbers of constant extents are no constants of the module. */
START_TEST(constant_extents_are_drawn_anew) {
  onnx_build *b = build_open(17);
  build_node_t *node = build_node(b, "RandomNormal", "", "y");
  build_ints(b, node, "shape", "3,70");
  build_int(b, node, "dtype", ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE);
  build_float(b, node, "mean", 2);
  build_output(b, "y", "f64[3,70]");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  reed_tensor *y, *z;
  run_model(&m, NULL, &y);
  run_model(&m, NULL, &z);
  ck_assert_int_eq(reed_tensor_dtype(y), REED_F64);
  ck_assert_int_eq(reed_tensor_dims(y)[1], 70);
  double mean = 0;
  for (int i = 0; i < 210; i++) {
    ck_assert(((double *)reed_tensor_data(y))[i] != ((double *)reed_tensor_data(z))[i]);
    mean += ((double *)reed_tensor_data(y))[i] / 210;
  }
  ck_assert(fabs(mean - 2) < .35);
  reed_tensor_close(&y);
  reed_tensor_close(&z);
  model_close(&m);
}
END_TEST

START_TEST(bernoulli_has_its_probabilities) {
  enum { N = 40000 };
  onnx_build *b = build_open(17);
  build_input(b, "p", "f32[4,n]");
  build_int(b, build_node(b, "Bernoulli", "p", "y"), "dtype", ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
  build_output(b, "y", "i64[4,n]");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  static const float p[] = {0, .25f, .9f, 1};
  reed_tensor *x = floats(2, (int64_t[]){4, N}, 0), *y;
  for (int i = 0; i < 4 * N; i++) ((float *)reed_tensor_data(x))[i] = p[i / N];
  run_model(&m, &x, &y);
  for (int k = 0; k < 4; k++) {
    int64_t ones = 0;
    for (int i = 0; i < N; i++) ones += ((int64_t *)reed_tensor_data(y))[k * N + i];
    ck_assert_msg(fabs((double)ones / N - p[k]) <= 5 * sqrt(p[k] * (1 - p[k]) / N), "p %g: %lld of %d", p[k],
                  (long long)ones, N);
  }
  reed_tensor_close(&x);
  reed_tensor_close(&y);
  model_close(&m);
}
END_TEST

START_TEST(multinomial_has_its_probabilities) {
  enum { N = 20000, CLASSES = 5 };
  static const double p[2][CLASSES] = {{.1, 0, .2, .3, .4}, {.96, .01, .01, .01, .01}};
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,c]");
  build_int(b, build_node(b, "Multinomial", "x", "y"), "sample_size", N);
  build_output(b, "y", "i32[n,s]");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  reed_tensor *x = floats(2, (int64_t[]){2, CLASSES}, 0), *y;
  /* (logarithms up to a number of the row) */
  for (int i = 0; i < 2 * CLASSES; i++)
    ((float *)reed_tensor_data(x))[i] = (float)(log(p[i / CLASSES][i % CLASSES]) + (i < CLASSES ? 70 : -5));
  run_model(&m, &x, &y);
  ck_assert_int_eq(reed_tensor_dims(y)[1], N);
  for (int r = 0; r < 2; r++) {
    int counts[CLASSES] = {0};
    for (int i = 0; i < N; i++) {
      const int32_t class = ((int32_t *)reed_tensor_data(y))[r * N + i];
      ck_assert(class >= 0 && class < CLASSES);
      counts[class]++;
    }
    for (int k = 0; k < CLASSES; k++)
      ck_assert_msg(fabs(counts[k] / (double)N - p[r][k]) <= 5 * sqrt(p[r][k] * (1 - p[r][k]) / N),
                    "class %d: %d of %d", k, counts[k], N);
  }
  reed_tensor_close(&x);
  reed_tensor_close(&y);
  model_close(&m);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("random");
  tcase_add_test(cases, runs_and_nodes_differ_and_seeds_repeat);
  tcase_add_test(cases, rounds_of_a_loop_differ);
  tcase_add_test(cases, constant_extents_are_drawn_anew);
  tcase_add_test(cases, bernoulli_has_its_probabilities);
  tcase_add_test(cases, multinomial_has_its_probabilities);
  return run_suite(cases, "random numbers");
}
