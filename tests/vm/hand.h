/* Modules written by hand, as text, and run through the public API: programs and sessions of them, their inputs and
 * figures. Also the epoch that most tests use. */
#ifndef TESTS_VM_HAND_H_
#define TESTS_VM_HAND_H_

#include <check.h>
#include <cjson/cJSON.h>

#include "reed/reed.h"
#include "tests/suite.h"

static reed_diagnosis *diagnosis;

static inline reed_program *assembled(const char *text) {
  void *bytes;
  size_t n;
  reed_status status = reed_module_assemble(text, NULL, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_program *program;
  status = reed_program_open_bytes(bytes, n, NULL, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_text_free(bytes);
  return program;
}

static inline reed_session *opened(const char *text, const reed_session_options *options) {
  reed_program *program = assembled(text);
  reed_session *session;
  ck_assert_int_eq(reed_session_open(program, options, &session, diagnosis), REED_OK);
  reed_program_close(&program); /* the session keeps the program */
  return session;
}

/* y = relu(x + x): one intermediate in the arena, in place; the output from the pool. */
static const char small_epoch[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                                  ".type t0 = f32[n, 4] \"x\"\n"
                                  ".type t1 = f32[n, 4] \"y\"\n"
                                  ".inputs t0\n"
                                  ".outputs t1\n"
                                  ".site k0 = Add (2 -> 1) \"add\"\n"
                                  ".site k1 = Relu (1 -> 1) \"relu\"\n"
                                  ".function main (t0) -> (t1) registers 5 0\n"
                                  "  assert.shape r0, t0\n"
                                  "  epoch.enter 0, plan, [r0:shape], []\n"
                                  "  shape.like r1, r0, device\n"
                                  "  shape k0, device, [r2], [r1:shape, r1:shape]\n"
                                  "  shape k1, device, [r3], [r2:shape]\n"
                                  "plan:\n"
                                  "  epoch.plan 0\n"
                                  "  copy r1, r0, input, k0, 0\n"
                                  "  invoke k0, device, [r2], [r1, r1]\n"
                                  "  kill r1\n"
                                  "  invoke k1, device, [r3], [r2]\n"
                                  "  kill r2\n"
                                  "  epoch.end 0\n"
                                  "  readback r4, r3, output, k1, 0\n"
                                  "  sync\n"
                                  "  kill r3\n"
                                  "  return [r4], []\n";

static inline reed_status run_floats(reed_session *session, int64_t rows, float first, reed_tensor **out_output) {
  reed_tensor *input;
  int64_t dims[2] = {rows, 4};
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, dims, &input), REED_OK);
  for (int64_t i = 0; i < rows * 4; i++) ((float *)reed_tensor_data(input))[i] = first + (float)i;
  reed_status status = reed_session_run(session, &input, 1, out_output, 1, diagnosis);
  reed_tensor_close(&input);
  return status;
}

static inline void check_floats(reed_session *session, int64_t rows, float first) {
  reed_tensor *output;
  reed_status status = run_floats(session, rows, first, &output);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  ck_assert_int_eq(reed_tensor_dims(output)[0], rows);
  for (int64_t i = 0; i < rows * 4; i++) {
    float sum = 2 * (first + (float)i);
    ck_assert_float_eq(((float *)reed_tensor_data(output))[i], sum > 0 ? sum : 0);
  }
  reed_tensor_close(&output);
}

/* stats[group][key], or stats[group][member][key]. */
static inline double figure(reed_session *session, const char *group, const char *member, const char *key) {
  char *json;
  ck_assert_int_eq(reed_session_stats_json(session, &json, NULL), REED_OK);
  cJSON *root = cJSON_Parse(json), *of = cJSON_GetObjectItem(root, group);
  double value = cJSON_GetNumberValue(cJSON_GetObjectItem(member ? cJSON_GetObjectItem(of, member) : of, key));
  cJSON_Delete(root);
  reed_text_free(json);
  return value;
}

static inline double memo_figure(reed_session *session, const char *key) { return figure(session, "memo", NULL, key); }

static inline void open_diagnosis(void) { ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK); }
static inline void close_diagnosis(void) { reed_diagnosis_close(&diagnosis); }

#endif
