/* Reed: runs compiled models. Program (immutable, shared by threads) -> session (one thread at a time, many per
 * program) -> run.
 *
 * Threads: a reed_program may be used by any number of threads; a reed_session by one at a time, except
 * reed_session_cancel: a second run, or a question about figures, while a run is in flight is ERROR_ARGUMENT and harms
 * nothing. Objects that were handed out stay valid until they are closed, whatever is closed before them.
 * Texts and JSON handed out are released with reed_text_free. */
#ifndef REED_REED_H_
#define REED_REED_H_

#include "reed/device.h"
#include "reed/dlpack.h"
#include "reed/dtype.h"
#include "reed/memory.h"
#include "reed/operator.h"
#include "reed/status.h"
#include "reed/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one place that says the version: meson.build reads these three lines. */
#define REED_VERSION_MAJOR 0
#define REED_VERSION_MINOR 1
#define REED_VERSION_PATCH 0
#define REED_TEXT_OF_(x) #x
#define REED_TEXT_OF(x) REED_TEXT_OF_(x)
/* "0.1.0" of the headers that a program was compiled with. */
#define REED_VERSION_TEXT \
  REED_TEXT_OF(REED_VERSION_MAJOR) "." REED_TEXT_OF(REED_VERSION_MINOR) "." REED_TEXT_OF(REED_VERSION_PATCH)
/* The same of the library that is loaded. Static storage. */
REED_API const char *reed_version(void);
REED_API void reed_text_free(char *text);

/* ---- program ---- */

typedef struct reed_program reed_program;

typedef struct reed_program_options {
  const reed_registry *registry; /* custom operators; borrowed for the program's life; NULL: none */
  bool ignore_checksum;          /* load a module whose checksum is wrong (the verifier still decides) */
  bool borrow_bytes; /* reed_program_open_bytes: no copy; the bytes begin at a multiple of 64 and stay until the program
                        and its sessions are closed */
} reed_program_options;

/* Maps, verifies and prepares a module file. options may be NULL. */
REED_API REED_MUST_CHECK reed_status reed_program_open(const char *path, const reed_program_options *options,
                                                       reed_program **out_program, reed_diagnosis *diagnosis);
/* The same from memory, which is copied unless it is borrowed. */
REED_API REED_MUST_CHECK reed_status reed_program_open_bytes(const void *bytes, size_t n_bytes,
                                                             const reed_program_options *options,
                                                             reed_program **out_program, reed_diagnosis *diagnosis);
/* Drops the caller's reference; sessions keep theirs. */
REED_API void reed_program_close(reed_program **program);

/* One input or output of the model. Strings live as long as the program. */
typedef struct reed_value_info {
  const char *name;
  reed_dtype dtype;
  int32_t rank;                       /* -1: any */
  int64_t dims[REED_MAX_RANK];        /* -1: known only at run time */
  const char *symbols[REED_MAX_RANK]; /* name of a symbolic dim, else NULL */
} reed_value_info;
REED_API size_t reed_program_input_count(const reed_program *program);
REED_API size_t reed_program_output_count(const reed_program *program);
REED_API reed_status reed_program_input(const reed_program *program, size_t i, reed_value_info *out_info);
REED_API reed_status reed_program_output(const reed_program *program, size_t i, reed_value_info *out_info);

/* ---- session ---- */

typedef struct reed_session reed_session;

typedef struct reed_session_options {
  /* What module devices 1, 2 .. are bound to, with commas between; the last name serves all that are left: "host"
   * (default), "sim", "sim:1", a module's path (reed/device.h). Devices are opened once in a process and shared.
   * "sim?lacks=Conv+TopK.f64" is told what it lacks; a module that asks for it is refused
   * (reed_compile_options.target). */
  const char *device;
  int n_threads;            /* 0: one per CPU available */
  int64_t memory_cap_bytes; /* of each device's pool; 0: none */
  int64_t memo_entries;     /* per epoch; 0: 64 */
  int64_t memo_bytes;       /* of all epochs; 0: 64 MiB */
  int64_t max_call_depth;   /* 0: 10,000 */
  int64_t max_instructions; /* per run; 0: no budget */
  bool profile;             /* collect spans for reed_session_trace_json and reed_session_profile_json */
  int64_t cancel_at_kernel; /* for tests: the n-th kernel since opening (as reed_session_kernel_count counts) cancels
                               its run; 0: none */
} reed_session_options;

REED_API REED_MUST_CHECK reed_status reed_session_open(reed_program *program, const reed_session_options *options,
                                                       reed_session **out_session, reed_diagnosis *diagnosis);
/* A run in flight on another thread is cancelled and waited for; an asynchronous one that no thread has begun is
 * dropped. Either ends with ERROR_CANCELLED. Not from within a kernel or a shape function of the session's run. */
REED_API void reed_session_close(reed_session **session);

/* Runs the model's main function. inputs: one per model input, in order, host tensors, borrowed. outputs: n_outputs new
 * tensors, the caller closes them; untouched on failure. After a failure the session can run again. */
REED_API REED_MUST_CHECK reed_status reed_session_run(reed_session *session, reed_tensor *const *inputs,
                                                      size_t n_inputs, reed_tensor **outputs, size_t n_outputs,
                                                      reed_diagnosis *diagnosis);
/* Makes the run in flight stop with ERROR_CANCELLED, soon: it asks at every kernel, and long kernels at the borders of
 * their chunks. Between runs it does nothing. The session can run again. From any thread, and from signal handlers. */
REED_API void reed_session_cancel(reed_session *session);

typedef struct uv_loop_s uv_loop_t;
/* As reed_session_run on a thread of libuv's pool; `done` is called on the loop's thread with the result, and may
 * run or close the session. From this call until then the run is in flight. inputs are retained, outputs are passed to
 * `done`, which takes them. */
typedef void (*reed_run_done_fn)(void *context, reed_status status, reed_tensor **outputs, size_t n_outputs,
                                 const reed_diagnosis *diagnosis);
REED_API REED_MUST_CHECK reed_status reed_session_run_async(reed_session *session, uv_loop_t *loop,
                                                            reed_tensor *const *inputs, size_t n_inputs,
                                                            reed_run_done_fn done, void *context,
                                                            reed_diagnosis *diagnosis);

/* ---- figures (the JSON keys are the contract of README's `--stats`) ---- */

/* Epochs, copies, memory and memo figures of the last run. Counted always, profiling or not. */
REED_API REED_MUST_CHECK reed_status reed_session_stats_json(reed_session *session, char **out_json,
                                                             reed_diagnosis *diagnosis);
/* Per epoch of the last run: shape functions, kernels, read-backs and why, arena bytes. The form of `vm plan --json`.
 */
REED_API REED_MUST_CHECK reed_status reed_session_plan_json(reed_session *session, char **out_json,
                                                            reed_diagnosis *diagnosis);
/* Trace-event JSON (Chrome, Perfetto) of all runs since opening or the last call; the session must have been opened
 * with `profile`. */
REED_API REED_MUST_CHECK reed_status reed_session_trace_json(reed_session *session, char **out_json,
                                                             reed_diagnosis *diagnosis);
/* {"operators":[{"operator","calls","total_us","shape_us","prepare_us","bytes"}...],"nodes":[{"node","operator",...}...],"dropped_events"}
 */
REED_API REED_MUST_CHECK reed_status reed_session_profile_json(reed_session *session, char **out_json,
                                                               reed_diagnosis *diagnosis);
/* Kernels launched by the last run (run-section invokes). */
REED_API int64_t reed_session_kernel_count(const reed_session *session);

/* ---- modules as text ---- */

/* Header, sections, metadata, functions, operators used, as JSON. */
REED_API REED_MUST_CHECK reed_status reed_program_info_json(const reed_program *program, char **out_json,
                                                            reed_diagnosis *diagnosis);
/* The operator table with flags, as JSON: built-in ones and the registry's. */
REED_API REED_MUST_CHECK reed_status reed_operators_json(const reed_registry *registry, char **out_json,
                                                         reed_diagnosis *diagnosis);
/* Verifies without keeping anything. */
REED_API REED_MUST_CHECK reed_status reed_module_verify(const void *bytes, size_t n_bytes,
                                                        const reed_program_options *options, reed_diagnosis *diagnosis);
/* Text form (.rasm) of a module, and back; the bytes are released with reed_text_free((char *)bytes). Round trip is
 * byte for byte. */
REED_API REED_MUST_CHECK reed_status reed_module_disassemble(const void *bytes, size_t n_bytes,
                                                             const reed_program_options *options, char **out_text,
                                                             reed_diagnosis *diagnosis);
REED_API REED_MUST_CHECK reed_status reed_module_assemble(const char *text, const reed_registry *registry,
                                                          void **out_bytes, size_t *out_n_bytes,
                                                          reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif
#endif
