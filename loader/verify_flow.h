/* Checks of the registers' states along every path. Checks of single instructions: verify_code.h. */
#ifndef LOADER_VERIFY_FLOW_H_
#define LOADER_VERIFY_FLOW_H_

#include "loader/verifier.h"

/* Rules V25, V30 to V34, V41, V42, V53 to V55 for one function whose code has passed verify_code. */
reed_status verify_flow(verifier *v) REED_MUST_CHECK;

#endif
