/* Fault records (reed/operator.h) turned into sentences, here and nowhere else, for every device. */
#ifndef OPS_FAULT_H_
#define OPS_FAULT_H_

#include "ops/op.h"

/* The status of a recorded fault: that of its code, or that which a library returned. */
reed_status fault_status(const reed_fault *fault);
/* Diagnoses "<Op> node '<node>': <sentence>", with the operand's name as the place, and returns fault_status. The
 * sentence for an unknown code has its number. */
reed_status fault_say(const reed_fault *fault, const reed_op *op, const char *node,
                      reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
