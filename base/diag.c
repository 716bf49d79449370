/* Diagnoses (diag.h) and the texts of statuses. */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *reed_status_name(reed_status status) {
  switch (status) {
#define NAME_CASE(name, value, text) \
  case REED_##name: return "REED_" #name;
    REED_STATUS_LIST(NAME_CASE)
#undef NAME_CASE
  }
  return "REED_ERROR_?";
}

const char *reed_status_text(reed_status status) {
  switch (status) {
#define TEXT_CASE(name, value, text) \
  case REED_##name: return text;
    REED_STATUS_LIST(TEXT_CASE)
#undef TEXT_CASE
  }
  return "an unknown status";
}

reed_status reed_diagnosis_open(reed_diagnosis **out_diagnosis) {
  if (!out_diagnosis) return REED_ERROR_ARGUMENT;
  reed_diagnosis *d = mem_calloc(1, sizeof *d);
  if (!d) return REED_ERROR_MEMORY;
  reed_diagnosis_clear(d);
  *out_diagnosis = d;
  return REED_OK;
}

void reed_diagnosis_close(reed_diagnosis **diagnosis) {
  if (!diagnosis) return;
  mem_free(*diagnosis);
  *diagnosis = NULL;
}

void reed_diagnosis_clear(reed_diagnosis *d) {
  if (!d) return;
  d->status = REED_OK;
  d->pc = -1;
  d->message[0] = d->function[0] = d->operator_name[0] = d->node[0] = d->input[0] = 0;
}

reed_status reed_diagnosis_status(const reed_diagnosis *d) { return d ? d->status : REED_OK; }
const char *reed_diagnosis_message(const reed_diagnosis *d) { return d ? d->message : ""; }
const char *reed_diagnosis_function(const reed_diagnosis *d) { return d ? d->function : ""; }
int64_t reed_diagnosis_pc(const reed_diagnosis *d) { return d ? d->pc : -1; }
const char *reed_diagnosis_operator(const reed_diagnosis *d) { return d ? d->operator_name : ""; }
const char *reed_diagnosis_node(const reed_diagnosis *d) { return d ? d->node : ""; }
const char *reed_diagnosis_input(const reed_diagnosis *d) { return d ? d->input : ""; }

reed_status diag_fail(reed_diagnosis *d, reed_status status, const char *format, ...) {
  if (!d) return status;
  /* The message is formatted before the diagnosis is cleared, because the arguments may point into the diagnosis. */
  char message[sizeof d->message];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  reed_diagnosis_clear(d);
  d->status = status;
  memcpy(d->message, message, sizeof message);
  return status;
}

void diag_add(reed_diagnosis *d, const char *format, ...) {
  if (!d) return;
  const size_t n = strlen(d->message);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(d->message + n, sizeof d->message - n, format, arguments);
  va_end(arguments);
}

reed_status diag_no_memory(reed_diagnosis *d, const char *what) {
  return diag_fail(d, REED_ERROR_MEMORY, "out of memory: %s", what);
}

reed_status diag_cancelled(reed_diagnosis *d) {
  return diag_fail(d, REED_ERROR_CANCELLED, "%s", reed_status_text(REED_ERROR_CANCELLED));
}

static void set_if_empty(char *field, size_t bytes, const char *value) {
  if (value && !field[0]) snprintf(field, bytes, "%s", value);
}

void diag_place_node(reed_diagnosis *d, const char *operator_name, const char *node, const char *input) {
  if (!d) return;
  set_if_empty(d->operator_name, sizeof d->operator_name, operator_name);
  set_if_empty(d->node, sizeof d->node, node);
  set_if_empty(d->input, sizeof d->input, input);
}

void diag_place_code(reed_diagnosis *d, const char *function, int64_t pc) {
  if (!d || d->pc >= 0) return;
  set_if_empty(d->function, sizeof d->function, function);
  d->pc = pc;
}
