/* The sentences of fault records (reed/operator.h), for every device. The table of sentences: fault.def. */
#ifndef OPS_FAULT_H_
#define OPS_FAULT_H_

#include "ops/op.h"

/* Diagnoses "<Op> node '<node>': <sentence>", with the operand's name as the place, and returns the status of the
 * fault: the code's status, or the status that a library returned. The sentence for an unknown code has its number. */
reed_status fault_say(const reed_fault *fault, const reed_op *op, const char *node,
                      reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
