/* The sentences of fault records (reed/operator.h), for every device. The table of sentences: fault.def. */
#ifndef OPS_FAULT_H_
#define OPS_FAULT_H_

#include "ops/call.h"

/* Diagnoses "<Op> node '<node>': <sentence> (<inputs with their extents>)", with the operand's name as the place, and
 * returns the status of the fault: the code's status, or the status that a library returned. The sentence for an
 * unknown code has its number. Reads the call's op, node, inputs' descs and diagnosis. */
reed_status fault_say(const reed_fault *fault, const op_call *call) REED_MUST_CHECK;

#endif
