/* See target.c. */
#ifndef VM_TARGET_H_
#define VM_TARGET_H_

#include "ops/capability.h"
#include "vm/program.h"

/* REED_OK when the accelerator has a kernel for every call that the module makes on that device; else ERROR_UNSUPPORTED
 * with all that is lacking: operators, dtypes or attributes, nodes. A call whose dtypes the module does not record is
 * judged without them. */
reed_status target_check(const reed_program *program, int32_t module_device, const capability *list,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The same for one call with the dtypes it has in this run; said in the call's diagnosis. */
reed_status target_check_call(const capability *list, const reed_kernel_call *call) REED_MUST_CHECK;

#endif
