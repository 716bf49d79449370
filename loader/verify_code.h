/* Checks of each instruction by itself, without the states of registers (verify_flow.h). */
#ifndef LOADER_VERIFY_CODE_H_
#define LOADER_VERIFY_CODE_H_

#include "loader/verifier.h"

/* Rules V20 to V24, V35 to V43 and V50 to V52 for one function: fills marks and places. */
reed_status verify_code(verifier *v) REED_MUST_CHECK;

#endif
