/* Segments of memory for enqueued work, taken in order and rewound as a whole (tape.h). */
#include "device/sim/tape.h"

#include "base/mem.h"

enum { ALIGNMENT = 64, SEGMENT_BYTES = 256 * 1024 };

struct sim_segment {
  _Alignas(ALIGNMENT) sim_segment *next;
  size_t bytes; /* after this header */
};

static sim_segment *segment_open(size_t bytes) {
  size_t total;
  if (__builtin_add_overflow(bytes, sizeof(sim_segment), &total)) return NULL;
  sim_segment *segment = mem_alloc_aligned(total, ALIGNMENT);
  if (segment) *segment = (sim_segment){.bytes = bytes};
  return segment;
}

void *sim_tape_take(sim_tape *tape, size_t bytes) {
  if (__builtin_add_overflow(bytes, (size_t)ALIGNMENT - 1, &bytes)) return NULL;
  bytes &= ~(size_t)(ALIGNMENT - 1);
  /* Takes the first segment from `current` on that has room. Skipped segments stay unused until the rewind, so that
   * addresses depend on the requests alone. */
  sim_segment **link = &tape->first, *segment = tape->current;
  size_t used = tape->used;
  if (segment) link = &segment->next;
  while (!segment || segment->bytes - used < bytes) {
    segment = *link;
    used = 0;
    if (!segment) {
      segment = segment_open(bytes > SEGMENT_BYTES ? bytes : SEGMENT_BYTES);
      if (!segment) return NULL;
      *link = segment;
    }
    link = &segment->next;
  }
  tape->current = segment;
  tape->used = used + bytes;
  tape->taken += bytes;
  return (char *)(segment + 1) + used;
}

void sim_tape_rewind(sim_tape *tape) {
  tape->current = tape->first;
  tape->used = tape->taken = 0;
}

void sim_tape_fini(sim_tape *tape) {
  while (tape->first) {
    sim_segment *next = tape->first->next;
    mem_free_aligned(tape->first);
    tape->first = next;
  }
  *tape = (sim_tape){0};
}
