/* Gives the registers of an epoch their memory for one run (place.c). Planning the memory: plan.c. */
#ifndef VM_EPOCH_PLACE_H_
#define VM_EPOCH_PLACE_H_

#include "vm/state.h"

/* Gives every planned register of the epoch being executed its memory; restore (a hit): writes the entry's registers
 * first. */
reed_status epoch_place(reed_session *s, bool restore) REED_MUST_CHECK;

/* The steps of epoch_place, for replay.c. Sees to the arenas, and to room for n_roots storages. */
reed_status place_begin(reed_session *s, size_t n_roots) REED_MUST_CHECK;
/* Appends the storage of the entry's root i to s->epoch.root_storages: with one reference, or NULL for a root that lies
 * elsewhere. */
reed_status place_root(reed_session *s, uint32_t i) REED_MUST_CHECK;
/* Drops the references of root_storages, because registers hold their own. Also after a failure. */
void place_end(reed_session *s);
/* Writes the entry's scalars to their registers. */
void place_scalars(reed_session *s);

#endif
