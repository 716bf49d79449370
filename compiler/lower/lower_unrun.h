/* Extents of the scan outputs of a Loop that runs no round. */
#ifndef COMPILER_LOWER_LOWER_UNRUN_H_
#define COMPILER_LOWER_LOWER_UNRUN_H_

#include "compiler/lower/emit.h"

/* Called after a Loop's rounds. Emits a jump to `ran` that is taken unless `sequence`, the register of one scan
 * output's sequence, is empty. The path without the jump makes the empty scan outputs whose extents the shape functions
 * of a first round tell, and made[k] is set for every such output k. `round`, `go`: scalars of the body's first two
 * parameters, where the body reads them. False: nothing is emitted. */
bool lower_unrun_begin(lower *l, const flow_item *loop, uint32_t round, uint32_t go, uint32_t sequence, uint32_t ran,
                       bool *made);

#endif
