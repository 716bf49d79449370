/* Signals that ask the command to end: SIGINT, SIGTERM, SIGHUP. The first one cancels the run or compilation that is in
 * flight and makes loops over runs stop; the command cleans up as after any failure and ends with 130. The second one
 * ends the process at once. Neither leaves a temporary file. */
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
/* Makes a temporary file as mkstemp does, which a second signal removes; -1 and errno. */
int interrupt_make_file(char *path_template);
/* Renames it to `path` (NULL: removes it). False and errno: it could not be renamed, and is removed. */
bool interrupt_settle_file(char *temporary, const char *path);

#endif
