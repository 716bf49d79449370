/* Memory for enqueued work: records, their pointer arrays and bytes on their way to the device. It is taken piece by
 * piece and given back all at once when the queue is empty. Segments are kept, so that the same work enqueued again
 * takes nothing from the heap. */
#ifndef DEVICE_SIM_TAPE_H_
#define DEVICE_SIM_TAPE_H_

#include <stddef.h>

typedef struct sim_segment sim_segment;

typedef struct sim_tape {
  sim_segment *first, *current; /* segments before `current` are full */
  size_t used;                  /* of `current` */
  size_t taken;                 /* since the last rewind */
} sim_tape;

/* 64-byte aligned; stays where it is until the rewind. NULL: no memory, and nothing was taken. */
void *sim_tape_take(sim_tape *tape, size_t bytes);
void sim_tape_rewind(sim_tape *tape);
/* Gives all segments back; an all-zero tape is empty. */
void sim_tape_fini(sim_tape *tape);

#endif
