/* A session: the run in progress, the devices it runs on, the epoch being executed, the memo of epochs. A function that
 * needs one part takes that part. */
#ifndef VM_STATE_H_
#define VM_STATE_H_

#include "vm/binding.h"
#include "vm/claim.h"
#include "vm/devices.h"
#include "vm/epoch/active.h"
#include "vm/epoch/memo.h"
#include "vm/run.h"

struct reed_session {
  reed_program *program; /* one reference */
  session_claim claim;   /* before anything below is read or written */
  vm_run run;
  vm_devices devices;
  bindings bindings;
  site_kernels kernels; /* prepared, by call site */
  epoch_active epoch;
  epoch_memo memo;
  struct epoch_planner *planner; /* scratch of epoch.plan */
};

#endif
