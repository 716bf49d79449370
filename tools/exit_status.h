/* Exit statuses of the `vm` command. */
#ifndef TOOLS_EXIT_STATUS_H_
#define TOOLS_EXIT_STATUS_H_

/* Scripts rely on the numbers. */
enum {
  DONE = 0,         /* and everything as expected */
  DIFFERENT = 1,    /* results differ, or a case failed */
  MISUSE = 2,       /* the command line is wrong */
  BAD_FILE = 3,     /* a file or model that can not be used, or not be written */
  FAILED_RUN = 4,   /* shapes, memory, device */
  INTERRUPTED = 130 /* by a signal */
};

#endif
