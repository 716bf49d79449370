/* Fault records (reed/operator.h) turned into sentences: the one place that does so, for every device. */
#ifndef OPS_FAULT_H_
#define OPS_FAULT_H_

#include "ops/op.h"

/* The status of a recorded fault: its code's, or a library's own. */
reed_status fault_status(const reed_fault *fault);
/* Says "<Op> node '<node>': <sentence>", with the operand's name as the place, and returns fault_status. A code that
 * nobody knows is said by its number. */
reed_status fault_say(const reed_fault *fault, const reed_op *op, const char *node,
                      reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
