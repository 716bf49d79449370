/* Constants of a program on a device: one copy for all sessions of the program on that device. A copy is made when a
 * session first needs the constant, and freed when the last of these sessions closes. */
#ifndef VM_CONSTANTS_H_
#define VM_CONSTANTS_H_

#include "device/device.h"
#include "reed/reed.h"

typedef struct program_constants program_constants;

/* Takes a reference to the program's constants on the device. Like every function of this file, callable from any
 * thread. */
reed_status constants_open(reed_program *program, device *dev, program_constants **out_constants,
                           reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Drops the reference and nulls. No enqueued work of the caller may still read the constants. NULL inside is allowed.
 */
void constants_close(program_constants **constants);
/* The constant's elements on the device; complete when this returns. *out_copied: this call has copied it. cap_bytes:
 * most bytes of constants on the device; 0: no cap. */
reed_status constants_get(program_constants *constants, uint32_t number, int64_t cap_bytes, void **out_data,
                          bool *out_copied, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Bytes of the device's memory that they hold. */
int64_t constants_bytes(program_constants *constants);

#endif
