/* Freeing and fitting lists of calls. */
#include "vm/epoch/replay_list.h"

void replay_free(struct replay **list) {
  replay *p = *list;
  *list = NULL;
  if (!p) return;
  VEC_FREE(&p->calls);
  VEC_FREE(&p->pointers);
  VEC_FREE(&p->in_arena);
  VEC_FREE(&p->in_blocks);
  VEC_FREE(&p->in_keys);
  VEC_FREE(&p->in_bound);
  VEC_FREE(&p->fixed);
  VEC_FREE(&p->roots);
  VEC_FREE(&p->kept);
  VEC_FREE(&p->dead_writes);
  VEC_FREE(&p->dead_keys);
  mem_free(p);
}

int64_t replay_fit(replay *p) {
  VEC_FIT(&p->calls);
  VEC_FIT(&p->pointers);
  VEC_FIT(&p->in_arena);
  VEC_FIT(&p->in_blocks);
  VEC_FIT(&p->in_keys);
  VEC_FIT(&p->in_bound);
  VEC_FIT(&p->fixed);
  VEC_FIT(&p->roots);
  VEC_FIT(&p->kept);
  VEC_FIT(&p->dead_writes);
  VEC_FIT(&p->dead_keys);
  return (int64_t)(sizeof *p + p->calls.capacity * sizeof(replay_call) + p->pointers.capacity * sizeof(void *) +
                   (p->in_arena.capacity + p->in_blocks.capacity + p->in_keys.capacity + p->in_bound.capacity +
                    p->fixed.capacity) *
                       sizeof(replay_pointer) +
                   p->kept.capacity * sizeof(replay_kept) +
                   (p->roots.capacity + p->dead_writes.capacity + p->dead_keys.capacity) * sizeof(uint32_t));
}
