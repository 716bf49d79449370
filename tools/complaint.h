/* Complaints: why a command stops, in words. */
#ifndef TOOLS_COMPLAINT_H_
#define TOOLS_COMPLAINT_H_

#include "reed/reed.h"
#include "tools/exit_status.h"

/* The reason why a command stops. Built once, at the fault; main prints it. */
typedef struct complaint {
  int exit_status;
  char text[4096];
} complaint;

/* Fills *c and returns exit_status. */
int complain(complaint *c, int exit_status, const char *format, ...) REED_PRINTF(3, 4);
/* Complains with a library call's diagnosis: "<what>: <message>" and the place. `exit_status` is that of the kind of
 * call (BAD_FILE or FAILED_RUN); failures of memory and devices are always FAILED_RUN. Returns the status chosen. */
int complain_diagnosis(complaint *c, int exit_status, const char *what, reed_status status,
                       const reed_diagnosis *diagnosis);
/* Appends to the text. */
void complain_more(complaint *c, const char *format, ...) REED_PRINTF(2, 3);

#endif
