/* A small model of onnx_build.h, compiled and opened on a device: for tests of tensors that cross the API. */
#ifndef TESTS_WHOLE_MODEL_H_
#define TESTS_WHOLE_MODEL_H_

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"

typedef struct model {
  reed_program *program;
  reed_session *session;
  reed_diagnosis *said;
} model;

static inline reed_session *session_of(model *m, const char *device) {
  reed_session *session = NULL;
  reed_status status =
      reed_session_open(m->program, &(reed_session_options){.device = device, .n_threads = 1}, &session, m->said);
  ck_assert_msg(status == REED_OK, "%s: %s", device, reed_diagnosis_message(m->said));
  return session;
}

/* Closes the builder. */
static inline model model_open(onnx_build *b, const char *device, reed_counts counts) {
  model m = {0};
  size_t n_onnx, n;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes;
  ck_assert_int_eq(reed_diagnosis_open(&m.said), REED_OK);
  reed_status status =
      reed_compile_bytes(onnx, n_onnx, &(reed_compile_options){.counts = counts}, &bytes, &n, NULL, m.said);
  if (status == REED_OK) status = reed_program_open_bytes(bytes, n, NULL, &m.program, m.said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m.said));
  reed_text_free(bytes);
  build_close(&b);
  m.session = session_of(&m, device);
  return m;
}

static inline void model_close(model *m) {
  reed_session_close(&m->session);
  reed_program_close(&m->program);
  reed_diagnosis_close(&m->said);
}

static inline void run_session(model *m, reed_session *session, reed_tensor *const *inputs, reed_tensor **outputs) {
  reed_status status = reed_session_run(session, inputs, reed_program_input_count(m->program), outputs,
                                        reed_program_output_count(m->program), m->said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m->said));
}

static inline void run_model(model *m, reed_tensor *const *inputs, reed_tensor **outputs) {
  run_session(m, m->session, inputs, outputs);
}

/* y = 2x + 1; type of x and y: "f32[n,3]". */
static inline onnx_build *affine(const char *type) {
  onnx_build *b = build_open(17);
  build_input(b, "x", type);
  build_f32(b, "two", "", (float[]){2});
  build_f32(b, "one", "", (float[]){1});
  build_node(b, "Mul", "x,two", "m");
  build_node(b, "Add", "m,one", "y");
  build_output(b, "y", type);
  return b;
}

static inline void keep(model *m, reed_session *session, size_t output, bool on) {
  ck_assert_int_eq(reed_session_keep_output(session, output, on, m->said), REED_OK);
}

/* The last run's figures without line ends; released with reed_text_free. Not inlined, because gcc 12 would then warn
 * that the text is used after its release. */
__attribute__((noinline, unused)) static char *stats_of(reed_session *session) {
  char *json = NULL;
  ck_assert_int_eq(reed_session_stats_json(session, &json, NULL), REED_OK);
  for (char *at = json; (at = strchr(at, '\n'));) memmove(at, at + 1, strlen(at));
  return json;
}

/* Copies of the last run as "direction reason bytes input;" of each, in a buffer of the function. */
static inline const char *copies_of(reed_session *session) {
  static char text[4096];
  char *json = stats_of(session), *at;
  text[0] = 0;
  at = strstr(json, "\"copies\":[");
  ck_assert_ptr_nonnull(at);
  for (char *end = strstr(at, "],\"memory\""); (at = strstr(at, "\"direction\":\"")) && at < end; at++) {
    char direction[32], reason[32], input[64];
    long long bytes;
    ck_assert_int_eq(
        sscanf(at, "\"direction\":\"%31[^\"]\",\"bytes\":%lld,\"reason\":\"%31[^\"]\"", direction, &bytes, reason), 3);
    input[0] = 0;
    (void)!sscanf(strstr(at, "\"input\":"), "\"input\":\"%63[^\"]\"", input);
    if (strcmp(reason, "constant") == 0) continue; /* of the first run only */
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s %lld %s;", direction, reason, bytes, input);
  }
  reed_text_free(json);
  return text;
}

static inline int64_t statistic_of(reed_session *session, const char *key) {
  char *json = stats_of(session), quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(json, quoted);
  ck_assert_msg(at, "no %s in %s", key, json);
  int64_t value = strtoll(at + strlen(quoted), NULL, 10);
  reed_text_free(json);
  return value;
}

static inline reed_tensor *floats(int32_t rank, const int64_t *dims, float first) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(REED_F32, rank, dims, &t), REED_OK);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) ((float *)reed_tensor_data(t))[i] = first + (float)i;
  return t;
}

static inline reed_tensor *on_device(reed_tensor *host, const char *device) {
  reed_tensor *t = NULL;
  reed_diagnosis *said;
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  reed_status status = reed_tensor_to_device(host, device, &t, said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(said));
  reed_diagnosis_close(&said);
  return t;
}

/* The tensor, wherever it lies, has the bits of the one on the host. */
static inline void assert_same(reed_tensor *got, reed_tensor *expected, const char *what) {
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(got, &host, NULL), REED_OK);
  ck_assert_int_eq(reed_tensor_bytes(host), reed_tensor_bytes(expected));
  ck_assert_msg(memcmp(reed_tensor_data(host), reed_tensor_data(expected), (size_t)reed_tensor_bytes(host)) == 0,
                "%s differs", what);
  reed_tensor_close(&host);
}

/* The tensor's elements are a * (first + i) + b. */
static inline void assert_floats(reed_tensor *t, double a, double first, double b) {
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(t, &host, NULL), REED_OK);
  const float *x = reed_tensor_data(host);
  for (int64_t i = 0; i < reed_tensor_elements(host); i++) ck_assert_double_eq(x[i], a * (first + (double)i) + b);
  reed_tensor_close(&host);
}

static inline int run_suite(TCase *cases, const char *name) {
  Suite *suite = suite_create(name);
  tcase_set_timeout(cases, 60);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}

#endif
