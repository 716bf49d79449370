/* Emission of Loops; the epochs of their bodies are emitted by lower_epoch.h. */
#ifndef COMPILER_LOWER_LOWER_LOOP_H_
#define COMPILER_LOWER_LOWER_LOOP_H_

#include "compiler/lower/emit.h"

/* Emits the Loop of `item`: its rounds, its carried values and its results. */
void lower_loop(lower *l, flow_item *item);

#endif
