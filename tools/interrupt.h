/* Signals that ask the command to end: SIGINT, SIGTERM, SIGHUP. The first one cancels the run or compilation that is in
 * flight and makes loops over runs stop; the command cleans up as after any failure and ends with 130. The second one
 * ends the process at once. */
#ifndef TOOLS_INTERRUPT_H_
#define TOOLS_INTERRUPT_H_

#include <stdbool.h>

#include "reed/reed.h"

/* From here on signals are taken. Once, before any thread is started. */
void interrupt_begin(void);
/* Whether one has come: asked between runs. */
bool interrupted(void);
/* 0 until one comes: for reed_compile_options.cancel. */
const int *interrupt_flag(void);
/* The session whose run a signal cancels; NULL: none. */
void interrupt_session(reed_session *session);

#endif
