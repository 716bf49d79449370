/* Calls of which the driver fails one, and their sentences. */
#ifndef TESTS_WHOLE_FAILED_H_
#define TESTS_WHOLE_FAILED_H_

#include "tests/whole/model.h"

/* Makes the call at most twice, because the failure happens once, and counts it in n_failed. The sentence is the
 * driver's or tells of memory. */
#define TRY(m, device, call) \
  for (int again = 0; (status = (call)) != REED_OK; again++) { \
    n_failed++; \
    const char *message = reed_diagnosis_message((m)->said); \
    ck_assert_msg(again == 0, "%s: %s", device, message); \
    ck_assert_msg(strstr(message, "told to fail") || (status == REED_ERROR_MEMORY && strstr(message, "memory for")), \
                  "%s: %s", device, message); \
  }

#endif
