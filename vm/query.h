/* Questions about shapes that are answered without a run. */
#ifndef VM_QUERY_H_
#define VM_QUERY_H_

#include "vm/state.h"

/* Notes the bytes that each output can have at most, for inputs whose extents are known by their declared ranges only
 * (output_destination.most_bytes). Without memory, or where the walk fails, nothing is noted. The session is new. */
void query_bound_outputs(reed_session *s);

#endif
