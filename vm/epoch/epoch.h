/* Between epoch.c (memo, placing) and epoch_plan.c (the plan). */
#ifndef VM_EPOCH_EPOCH_H_
#define VM_EPOCH_EPOCH_H_

#include "vm/vm.h"

/* Puts a planned entry under its key, evicting the least recently used ones over the bounds. */
void epoch_remember(reed_session *s, epoch_entry *e);
/* Closes the planner's scratch and nulls. */
void epoch_planner_close(struct epoch_planner **planner);

#endif
