/* Checks of calls against an accelerator's list of capabilities (ops/capability.h). */
#ifndef VM_TARGET_H_
#define VM_TARGET_H_

#include "ops/capability.h"
#include "vm/program.h"

/* REED_OK when the accelerator has a kernel for every call that the module makes on that device; else
 * ERROR_UNSUPPORTED, which names the operators, dtypes or attributes, and nodes without a kernel. A call whose dtypes
 * the module does not record is judged without them. */
reed_status target_check(const reed_program *program, int32_t module_device, const capability *list,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
