/* The table of rules, expanded from verify.def, and the diagnosis of a broken rule (rules.h). */
#include "loader/rules.h"

#include <stdarg.h>
#include <stdio.h>

const verify_rule_info verify_rules[VERIFY_RULE_COUNT] = {
#define RULE(id, rule_number, rule_text) [RULE_##id] = {rule_number, rule_text},
#include "loader/verify.def"
};

reed_status verify_reject(reed_diagnosis *diagnosis, reed_status status, verify_rule rule, const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return diag_fail(diagnosis, status, "V%02d: %s", verify_rules[rule].number, message);
}
