/* Emission of Loops. */
#ifndef COMPILER_LOWER_LOWER_LOOP_H_
#define COMPILER_LOWER_LOWER_LOOP_H_

#include "compiler/lower/emit.h"

void lower_loop(lower *l, flow_item *item);

#endif
