/* The run in progress: frames and their registers, limits, the profiler's notes, the diagnosis. Devices and epochs are
 * not here: devices.h, epoch/. */
#ifndef VM_RUN_H_
#define VM_RUN_H_

#include "base/cancel.h"
#include "base/vec.h"
#include "bytecode/insn.h"
#include "vm/object.h"
#include "vm/program.h"
#include "vm/report/profile.h"

typedef struct frame {
  const module_function *function;
  uint32_t function_index;
  uint32_t return_pc; /* of the caller's call instruction */
  size_t r_base, s_base;
} frame;

/* A register that `sync` completes. */
typedef struct pending_fetch {
  size_t r_index; /* in the run's r bank */
  storage *target;
  bool extent;
} pending_fetch;

/* The device's tensor with the elements of a host tensor that crosses the border of the run (ref.resident). */
typedef struct run_twin {
  const void *host;
  int32_t device;
  void *data;
  storage *storage; /* one reference; NULL: memory of the caller */
} run_twin;

struct site_kernel;
struct site_kernels;

typedef struct vm_run {
  const reed_program *program;
  object_heap objects;
  VEC_OF(ref) r; /* register banks of all frames */
  VEC_OF(int64_t) s;
  VEC_OF(frame) frames;
  VEC_OF(pending_fetch) fetches;
  VEC_OF(run_twin) twins;
  int64_t max_call_depth, max_instructions; /* max_instructions 0: any number */
  int64_t n_instructions;
  bool rooms;         /* some input of the run has room (append.h) */
  int64_t n_launched; /* kernels of all runs so far */
  int64_t cancel_at;  /* the kernel with this number cancels its run (for tests); 0: none */
  const int *cancel;  /* base/cancel.h; the session's flag */
  profile profile;
  reed_fault fault; /* of the host kernel or launch that failed; at_kernel turns it into the diagnosis */
  const struct site_kernels *kernels; /* of the session: the calls of failed launches */
  reed_diagnosis *diagnosis;          /* never NULL during a run */
  reed_diagnosis own_diagnosis;
} vm_run;

/* Frees the run's memory when its session closes. No frames are left. */
void run_fini(vm_run *run);
/* A new frame for a function; registers empty. */
reed_status frame_push(vm_run *run, uint32_t function, uint32_t return_pc) REED_MUST_CHECK;
void frame_pop(vm_run *run);
/* Notes that the host tensor *r has its elements on a device, too. */
reed_status run_add_twin(vm_run *run, ref *r, int32_t device, void *data, storage *owner) REED_MUST_CHECK;
/* The twin on that device; NULL: none. */
const run_twin *run_find_twin(const vm_run *run, const ref *r, int32_t device);
void run_drop_twins(vm_run *run);
/* ERROR_CANCELLED if the run was asked to end; called at every kernel. */
static inline reed_status run_check_cancel(vm_run *run) { return diag_check_cancel(run->diagnosis, run->cancel); }
/* Checks the cancel flag and the budget of instructions; called at backward jumps, calls and epochs, which is often
 * enough to stop any program. */
reed_status run_check_limits(vm_run *run) REED_MUST_CHECK;
/* Adds the place of a failure to the diagnosis: function and pc of an instruction of the top frame, and the ONNX node
 * if a debug record covers the instruction. */
void run_place_failure(vm_run *run, uint32_t pc);
/* Adds operator and node of a site to the diagnosis of a failure, and a general message if a custom operator's function
 * gave none. Returns `status`. */
reed_status at_site(vm_run *run, uint32_t site, reed_status status) REED_MUST_CHECK;
/* The same for a failed kernel, whose fault record (run->fault) becomes the diagnosis, with the extents of the inputs
 * for which it was prepared; NULL: not known. */
reed_status at_kernel(vm_run *run, uint32_t site, const struct site_kernel *kernel, reed_status status) REED_MUST_CHECK;
/* The same for a launch that failed on a device, by its number (site_launch_number). */
reed_status at_launch(vm_run *run, uint32_t number, reed_status status) REED_MUST_CHECK;
/* The failure "WHAT is needed, the register holds ...". */
reed_status not_a_tensor(vm_run *run, const ref *r, const char *what) REED_MUST_CHECK;

static inline const char *string_of(const vm_run *run, uint32_t string) {
  return run->program->module->strings[string];
}
static inline frame *frame_top(const vm_run *run) { return &run->frames.items[run->frames.n - 1]; }
/* The words of the running function. */
static inline const uint32_t *run_code(const vm_run *run) {
  return run->program->module->code + frame_top(run)->function->code_offset;
}
static inline ref *reg_r(const vm_run *run, uint32_t i) { return &run->r.items[frame_top(run)->r_base + i]; }
static inline int64_t *reg_s(const vm_run *run, uint32_t i) { return &run->s.items[frame_top(run)->s_base + i]; }

#endif
