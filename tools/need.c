/* Memory, or the end of the command (need.h). */
#include "tools/need.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/exit_status.h"

_Noreturn void no_memory(void) {
  fputs("vm: out of memory\n", stderr);
  exit(FAILED_RUN);
}

void *need(size_t n, size_t bytes) {
  void *block = calloc(n ? n : 1, bytes ? bytes : 1);
  if (!block) no_memory();
  return block;
}

char *need_text(const char *text) {
  size_t n = strlen(text) + 1;
  return memcpy(need(n, 1), text, n);
}

reed_diagnosis *need_diagnosis(void) {
  reed_diagnosis *diagnosis;
  if (reed_diagnosis_open(&diagnosis)) no_memory();
  return diagnosis;
}
