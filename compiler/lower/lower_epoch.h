/* Emission of epochs and their boundaries; Loops are in lower_loop.h. */
#ifndef COMPILER_LOWER_LOWER_EPOCH_H_
#define COMPILER_LOWER_LOWER_EPOCH_H_

#include "compiler/lower/emit.h"

/* Emits all epochs and boundaries of a root, and the kills at each. Versions that live to FLOW_END are not killed. */
void lower_root(lower *l, const flow_block *root);

#endif
