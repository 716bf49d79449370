/* Complaints (complaint.h). */
#include "tools/complaint.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/plain.h"

int complain(complaint *c, int exit_status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->text, sizeof c->text, format, arguments);
  va_end(arguments);
  return c->exit_status = exit_status;
}

void complain_more(complaint *c, const char *format, ...) {
  size_t n = strlen(c->text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->text + n, sizeof c->text - n, format, arguments);
  va_end(arguments);
}

/* True if the message begins with `what` and a colon, or has it in quotes. */
static bool tells(const char *message, const char *what) {
  const char *at = strstr(message, what);
  size_t n = strlen(what);
  return at && (at == message ? at[n] == ':' : at[-1] == '\'' && at[n] == '\'');
}

int complain_diagnosis(complaint *c, int exit_status, const char *what, reed_status status,
                       const reed_diagnosis *diagnosis) {
  /* has several lines only for a list of unsupported items, whose names the library has made visible */
  const char *message = reed_diagnosis_message(diagnosis);
  message = strncmp(message, "not supported:\n", 15) == 0 ? plain_lines(message) : plain(message);
  if (status == REED_ERROR_MEMORY || status == REED_ERROR_DEVICE) exit_status = FAILED_RUN;
  if (tells(message, what)) complain(c, exit_status, "%s", message);
  else complain(c, exit_status, "%s: %s", what, *message ? message : reed_status_text(status));
  const char *function = reed_diagnosis_function(diagnosis), *node = reed_diagnosis_node(diagnosis),
             *op = reed_diagnosis_operator(diagnosis), *input = reed_diagnosis_input(diagnosis);
  if (!*function && !*node && !*op && !*input) return exit_status;
  const char *comma = "\n  at ";
  if (*op) complain_more(c, "%soperator %s", comma, plain(op)), comma = ", ";
  if (*node) complain_more(c, "%snode '%s'", comma, plain(node)), comma = ", ";
  if (*input) complain_more(c, "%sinput '%s'", comma, plain(input)), comma = ", ";
  if (*function) complain_more(c, "%sfunction '%s'", comma, plain(function)), comma = ", ";
  if (reed_diagnosis_pc(diagnosis) >= 0) complain_more(c, "%spc %lld", comma, (long long)reed_diagnosis_pc(diagnosis));
  return exit_status;
}
