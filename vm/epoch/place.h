/* Gives the registers of an epoch their memory for one run (place.c). Planning the memory: plan.c. */
#ifndef VM_EPOCH_PLACE_H_
#define VM_EPOCH_PLACE_H_

#include "vm/state.h"

/* Gives every planned register of the epoch being executed its memory; restore (a hit): writes the entry's registers
 * and scalars first. */
reed_status epoch_place(reed_session *s, bool restore) REED_MUST_CHECK;

#endif
