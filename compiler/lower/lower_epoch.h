/* Emission of epochs and their boundaries. */
#ifndef COMPILER_LOWER_LOWER_EPOCH_H_
#define COMPILER_LOWER_LOWER_EPOCH_H_

#include "compiler/lower/emit.h"

/* All epochs and boundaries of a root, what dies at each; what lives to FLOW_END is left. */
void lower_root(lower *l, const flow_block *root);

#endif
