/* Loops without a round: the extents of their scan outputs. */
#ifndef COMPILER_LOWER_LOWER_UNRUN_H_
#define COMPILER_LOWER_LOWER_UNRUN_H_

#include "compiler/lower/emit.h"

/* Behind a Loop's rounds: a jump to `ran` unless `sequence`, of one of its scan outputs, is empty, and on the other
 * path those scan outputs, made[] by their number, whose extents the shape functions of a first round tell. `round`,
 * `go`: scalars of the body's first two parameters, where it reads them. False: nothing is emitted. */
bool lower_unrun_begin(lower *l, const flow_item *loop, uint32_t round, uint32_t go, uint32_t sequence, uint32_t ran,
                       bool *made);

#endif
