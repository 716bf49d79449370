/* Modules as text for the verifier's tests, and the expected texts of rejection. */
#ifndef TESTS_LOADER_VERIFY_TEXT_H_
#define TESTS_LOADER_VERIFY_TEXT_H_

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "reed/reed.h"

/* Assembles and verifies; the diagnosis stays with the caller. */
static inline reed_status check_text(const char *text, reed_diagnosis *d) {
  void *bytes = NULL;
  size_t n = 0;
  reed_status status = reed_module_assemble(text, NULL, &bytes, &n, d);
  mem_free(bytes);
  return status;
}

static inline void accept(const char *text) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = check_text(text, d);
  ck_assert_msg(status == REED_OK, "rejected: %s\n%s", reed_diagnosis_message(d), text);
  reed_diagnosis_close(&d);
}

/* The message begins with the rule ("V31") and contains the other texts (up to a NULL). */
static inline void reject(const char *text, const char *rule, const char *has, const char *has_too) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = check_text(text, d);
  const char *message = reed_diagnosis_message(d);
  ck_assert_msg(status != REED_OK, "accepted, %s wanted:\n%s", rule, text);
  ck_assert_msg(strncmp(message, rule, strlen(rule)) == 0 && (!has || strstr(message, has)) &&
                    (!has_too || strstr(message, has_too)),
                "wanted %s ... %s ... %s, got: %s\n%s", rule, has ? has : "", has_too ? has_too : "", message, text);
  reed_diagnosis_close(&d);
}

#endif
