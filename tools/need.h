/* Memory of the command, which ends when there is none. */
#ifndef TOOLS_NEED_H_
#define TOOLS_NEED_H_

#include <stddef.h>

#include "reed/reed.h"

_Noreturn void no_memory(void);
/* Zeroed memory for n items; without memory the command reports this and ends with FAILED_RUN. */
void *need(size_t n, size_t bytes);
char *need_text(const char *text);
reed_diagnosis *need_diagnosis(void);

#endif
