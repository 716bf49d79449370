/* The profiler's notes: blocks of events, lists of epochs and copies (profile.h). */
#include "vm/report/profile.h"

void profile_begin_run(profile *p) {
  p->epochs.n = p->copies.n = 0;
  p->caches = (profile_caches){0};
  p->wall_ns = p->n_kernels = p->n_syncs = p->n_notes_dropped = 0;
}

profile_event *profile_note(profile *p, profile_kind kind, uint32_t index, int8_t device) {
  if (!p->spans) return NULL;
  if (p->n_events >= PROFILE_MAX_EVENTS) {
    p->n_dropped++;
    return NULL;
  }
  if (!p->last || p->last->n == PROFILE_BLOCK_EVENTS) {
    profile_block *block = p->spare;
    if (block) p->spare = block->next;
    else block = mem_alloc(sizeof *block);
    if (!block) {
      p->n_dropped++;
      return NULL;
    }
    block->n = 0;
    block->next = NULL;
    if (p->last) p->last->next = block;
    else p->first = block;
    p->last = block;
  }
  profile_event *event = &p->last->events[p->last->n++];
  *event = (profile_event){.index = index, .kind = (uint8_t)kind, .device = device, .source_device = device};
  p->n_events++;
  return event;
}

void profile_note_copy(profile *p, const profile_copy *copy) {
  if (p->copies.n >= PROFILE_MAX_NOTES || !VEC_PUSH(&p->copies, *copy)) p->n_notes_dropped++;
}

profile_epoch *profile_note_epoch(profile *p, uint32_t epoch) {
  if (p->epochs.n >= PROFILE_MAX_NOTES || !VEC_PUSH(&p->epochs, (profile_epoch){.epoch = epoch})) {
    p->n_notes_dropped++;
    return NULL;
  }
  return &p->epochs.items[p->epochs.n - 1];
}

void profile_forget_spans(profile *p) {
  if (p->last) {
    p->last->next = p->spare;
    p->spare = p->first;
  }
  p->first = p->last = NULL;
  p->n_events = p->n_dropped = 0;
}

void profile_fini(profile *p) {
  profile_forget_spans(p);
  while (p->spare) {
    profile_block *block = p->spare;
    p->spare = block->next;
    mem_free(block);
  }
  VEC_FREE(&p->epochs);
  VEC_FREE(&p->copies);
}
