/* Marks: a table that remembers hashes for a while, in eight bytes each. A mark takes the place of an older one that
 * falls on it, so a mark that is there is true (but for equal hashes), and a mark that is not there tells nothing. */
#ifndef VM_EPOCH_MARKS_H_
#define VM_EPOCH_MARKS_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

enum { N_MARKS = 1024 };

typedef struct marks {
  uint64_t *places; /* 0: none. NULL: no mark was left yet */
} marks;

static inline uint64_t marks_word(uint64_t hash) { return hash | (uint64_t)1 << 63; }

static inline bool marks_has(const marks *m, uint64_t hash) {
  return m->places && m->places[marks_word(hash) % N_MARKS] == marks_word(hash);
}

/* Without memory for marks there are none. */
static inline void marks_leave(marks *m, uint64_t hash) {
  if (!m->places && !(m->places = mem_calloc(N_MARKS, sizeof *m->places))) return;
  m->places[marks_word(hash) % N_MARKS] = marks_word(hash);
}

/* True if the mark was there, which is taken away. */
static inline bool marks_take(marks *m, uint64_t hash) {
  bool had = marks_has(m, hash);
  if (had) m->places[marks_word(hash) % N_MARKS] = 0;
  return had;
}

static inline void marks_close(marks *m) {
  mem_free(m->places);
  m->places = NULL;
}

#endif
