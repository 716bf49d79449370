/* Functions shared by the parts of the kernel cases: kernel_case.c, device_case.c, case_facts.c, case_log.c,
 * case_tolerance.c. Tests include kernel_case.h. */
#ifndef TESTS_OPS_CPU_CASE_PARTS_H_
#define TESTS_OPS_CPU_CASE_PARTS_H_

#include <string.h>

#include "ops/call.h"
#include "ops/capability.h"
#include "tests/ops/cpu/kernel_case.h"

/* A case's call, shaped. Lives while its kernel does. */
typedef struct case_call {
  reed_attr completed[CASE_ATTRS_COMPLETE];
  reed_attrs attrs;
  op_call_input in[CASE_INPUTS];
  reed_desc out[CASE_OUTPUTS];
  reed_shape_output shapes[CASE_OUTPUTS];
  reed_room rooms[CASE_INPUTS];
  int cancel;
  reed_kernel_env env;
  op_call call;
  op_facts_list facts; /* of `completed`; none at level "reference" */
} case_call;

/* Puts the call together at that CPU level and runs the shape function; `prepare` and the device are the caller's. On
 * success case_call_fini must follow. */
reed_status case_call_init(kernel_case *c, const char *level, case_call *out);
void case_call_fini(case_call *made);
/* Reads the facts of the call's attributes and gives them to the call. Compares the shapes that it has with them, and
 * the shape function's status, with those without, and returns this status. */
reed_status case_facts_init(kernel_case *c, case_call *made, reed_status without);
/* Prepares the kernel, and checks that to prepare it once more takes nothing from the heap but blocks that are larger
 * than a row's, such as tables of the extents, of which it must have told the bytes. */
reed_status case_prepare(kernel_case *c, const case_call *made, bool is_reference, reed_kernel *out_kernel);
/* True if the list of capabilities has the call; counted: and its kernel reads counts on the device. */
bool case_call_listed(const case_call *made, const capability *list, bool counted);
/* The elements of all operands together. */
int64_t case_elements(const kernel_case *c, const case_call *made);
/* Replaces output i by memory for `desc`. */
void case_open_output(kernel_case *c, int32_t i, const reed_desc *desc);
/* After a run: outputs whose kernel reports an extent get that extent. */
void case_take_extents(kernel_case *c, const case_call *made);

/* Widens the tolerances of a case for that device: products of f32 on a device with the option tf32. Others stay. */
void case_tolerances_on(const kernel_case *c, const char *device, double *relative, double *absolute);

/* Gives the case its seed, and sets c->skipped if the case must not run. */
void case_begin(kernel_case *c);
/* Notes the case that is about to run, for the message if the case crashes. */
void case_note(const kernel_case *c);
/* Notes the failure and goes on with the test after this case; if the test runs the case itself, the test ends. */
void case_fail(const kernel_case *c, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Runs and compares a case, unless it is to be skipped, and closes it. */
void case_guard(kernel_case *c, void (*run)(kernel_case *c, const void *argument), const void *argument);

#endif
