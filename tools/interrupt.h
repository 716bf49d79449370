/* Signals that ask the command to end: SIGINT, SIGTERM, SIGHUP. A signal ends the process at once with 130, unless the
 * command polls: then the first signal cancels the current run or compilation and stops loops over runs; the command
 * cleans up as after any failure and ends with 130. The second signal ends the process at once. Temporary files are
 * removed in every case, and no file is put in its place after a signal. A signal after the last file was put in its
 * place is ignored: the command's work is done, and it ends with its own status. Other signals end the process as they
 * do by default (SIGQUIT, SIGXCPU, abort), after the temporary files are removed; only SIGKILL and faults leave them.
 */
#ifndef TOOLS_INTERRUPT_H_
#define TOOLS_INTERRUPT_H_

#include <stdbool.h>

#include "reed/reed.h"

/* Installs the signal handlers. Called once, before any thread is started. */
void interrupt_begin(void);
/* True if a signal has come; for loops over runs. */
bool interrupted(void);
/* A stretch of work that polls interrupted() or interrupt_flag(), or whose session interrupt_session has told: runs,
 * compilations, loops over them. Stretches may lie in one another. */
void interrupt_polled_begin(void);
void interrupt_polled_end(void);
/* Points to 0 until a signal comes: for reed_compile_options.cancel. */
const int *interrupt_flag(void);
/* Sets the session whose run a signal cancels; NULL: none. */
void interrupt_session(reed_session *session);
/* Makes a temporary file as mkstemp does; a second signal removes it. Returns -1 and errno on failure. */
int interrupt_make_file(char *path_template);
/* Renames the temporary file to `path` (NULL: removes it). False and errno: the file could not be renamed, or a signal
 * has come (EINTR), and is removed. */
bool interrupt_settle_file(char *temporary, const char *path);

#endif
