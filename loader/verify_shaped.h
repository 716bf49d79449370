/* The check that each `invoke` of an epoch has the operands of a `shape` (rule V56). */
#ifndef LOADER_VERIFY_SHAPED_H_
#define LOADER_VERIFY_SHAPED_H_

#include "loader/verifier.h"

/* Rule V56 for the epochs of one function that has passed verify_code and verify_flow; fills the module's
 * epochs_shaped. */
reed_status verify_shaped(verifier *v) REED_MUST_CHECK;

#endif
