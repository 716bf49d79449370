/* A small model of onnx_build.h, compiled with options and opened on a device, for tests that compare runs. Models
 * whose tensors cross the API: model.h. */
#ifndef TESTS_WHOLE_RUNNER_H_
#define TESTS_WHOLE_RUNNER_H_

#include <check.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"

typedef struct runner {
  reed_program *program;
  reed_session *session;
  char *report; /* the compiler's */
} runner;

/* The builder stays the caller's. `what` is for messages. */
static inline runner runner_open(onnx_build *b, const reed_compile_options *options, const char *device,
                                 const char *what) {
  runner r = {0};
  size_t n_onnx, n;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes = NULL;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_compile_bytes(onnx, n_onnx, options, &bytes, &n, &r.report, d);
  if (status == REED_OK) status = reed_program_open_bytes(bytes, n, NULL, &r.program, d);
  if (status == REED_OK)
    status = reed_session_open(r.program, &(reed_session_options){.device = device}, &r.session, d);
  ck_assert_msg(status == REED_OK, "%s: %s", what, reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  reed_text_free(bytes);
  return r;
}

static inline void runner_close(runner *r) {
  reed_session_close(&r->session);
  reed_program_close(&r->program);
  reed_text_free(r->report);
}

/* A run that must succeed. */
static inline void runner_run(const runner *r, reed_tensor *const *inputs, size_t n_inputs, reed_tensor **outputs,
                              size_t n_outputs, const char *what) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_session_run(r->session, inputs, n_inputs, outputs, n_outputs, d);
  ck_assert_msg(status == REED_OK, "%s: %s", what, reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
}

#endif
