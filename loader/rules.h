/* The rules of docs/verify.md (verify.def), and the diagnosis of a broken rule. Their checks: verify_*.c and the
 * readers of sections. */
#ifndef LOADER_RULES_H_
#define LOADER_RULES_H_

#include "base/diag.h"

typedef enum verify_rule {
#define RULE(id, number, text) RULE_##id,
#include "loader/verify.def"
  VERIFY_RULE_COUNT
} verify_rule;

typedef struct verify_rule_info {
  int number;
  const char *text;
} verify_rule_info;
extern const verify_rule_info verify_rules[VERIFY_RULE_COUNT];

/* "V04: <message>"; returns `status`. */
reed_status verify_reject(reed_diagnosis *diagnosis, reed_status status, verify_rule rule, const char *format, ...)
    REED_PRINTF(4, 5) REED_MUST_CHECK;

#endif
