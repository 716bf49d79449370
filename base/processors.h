/* The CPUs that this process may use, and a thread that keeps off one of them. */
#ifndef BASE_PROCESSORS_H_
#define BASE_PROCESSORS_H_

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* The number of CPUs this process may use: the CPUs of its affinity, within its control group's quota; at least 1. */
int32_t processors_count(void);
/* The CPUs of its affinity alone, at least 1: quickly found, where more helpers than CPUs do no harm. */
int32_t processors_in_affinity(void);
/* The one CPU that a thread keeps off; all 0 for a thread that has left none. */
typedef struct processors_off {
  cpu_set_t whole, rest; /* the thread's affinity before it left a CPU, and since */
  bool left, refused;
} processors_off;
/* Moves the calling thread from `cpu` to another CPU of its affinity. The thread may go back to the CPU that it left
 * last. A change of the affinity by somebody else is respected, unless the new affinity equals the one set here. Does
 * nothing if there is no other CPU. */
void processors_leave(int32_t cpu, processors_off *off);
/* The CPUs that the process's control groups allow, of files below `root` instead of / (for tests); 0: no limit. */
int32_t processors_of_groups(const char *root);

#endif
