/* Reed's main header: running compiled models. A program is a loaded module (immutable, shared by threads); a session
 * runs a program (one thread at a time, many sessions per program). The compiler is in reed/compiler.h.
 *
 * Threads: any number of threads may use a reed_program. One thread at a time may use a reed_session; only
 * reed_session_cancel may be called from other threads. A second run, or a call for figures, during a run returns
 * ERROR_ARGUMENT and harms nothing. Each object stays valid until it is closed, in whatever order objects are closed.
 * Texts and JSON that the library returns are released with reed_text_free. Reed installs no signal handlers. */
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

/* The version, defined only here: meson.build reads these three lines. */
#define REED_VERSION_MAJOR 0
#define REED_VERSION_MINOR 1
#define REED_VERSION_PATCH 0
#define REED_TEXT_OF_(x) #x
#define REED_TEXT_OF(x) REED_TEXT_OF_(x)
/* The version of the headers that a program was compiled with: "0.1.0". */
#define REED_VERSION_TEXT \
  REED_TEXT_OF(REED_VERSION_MAJOR) "." REED_TEXT_OF(REED_VERSION_MINOR) "." REED_TEXT_OF(REED_VERSION_PATCH)
/* The version of the loaded library, in the same form. Static storage. */
REED_API const char *reed_version(void);
REED_API void reed_text_free(char *text);

/* ---- program ---- */

typedef struct reed_program reed_program;

typedef struct reed_program_options {
  const reed_registry *registry; /* custom operators; borrowed for the program's life; NULL: none */
  bool ignore_checksum;          /* load a module whose checksum is wrong (the verifier still decides) */
  bool borrow_bytes; /* reed_program_open_bytes makes no copy: the bytes begin at a multiple of 64 and stay until the
                        program and its sessions are closed */
  /* A value other than 0 ends an opening (also reed_module_verify, reed_module_disassemble) soon, with ERROR_CANCELLED.
   * The call polls it, and does not read it after it has returned; another thread or a signal handler may write it.
   * NULL: the opening cannot be cancelled */
  const int *cancel;
} reed_program_options;

/* Maps, verifies and prepares a module file. options NULL: the defaults. ERROR_IO: the file cannot be read;
 * ERROR_FORMAT, ERROR_VERSION: the module breaks a rule of docs/verify.md; ERROR_UNSUPPORTED: an operator is not known;
 * ERROR_CANCELLED: options->cancel was raised. */
REED_API REED_MUST_CHECK reed_status reed_program_open(const char *path, const reed_program_options *options,
                                                       reed_program **out_program, reed_diagnosis *diagnosis);
/* The same from bytes in memory. The bytes are copied, unless options->borrow_bytes is set. */
REED_API REED_MUST_CHECK reed_status reed_program_open_bytes(const void *bytes, size_t n_bytes,
                                                             const reed_program_options *options,
                                                             reed_program **out_program, reed_diagnosis *diagnosis);
/* Drops the caller's reference; open sessions keep the program alive. */
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
/* The range that was declared for an axis of input i when the module was compiled (reed_compile_options.dims). False:
 * the axis has no declared range, or there is no such input or axis. */
REED_API bool reed_program_input_range(const reed_program *program, size_t i, int32_t axis, reed_dim_range *out_range);
/* True if runs with equal inputs may differ, because the module calls an operator that is impure (reed_op.impure), such
 * as one of random numbers. */
REED_API bool reed_program_is_impure(const reed_program *program);

/* ---- session ---- */

typedef struct reed_session reed_session;

/* Graphs of accelerators: the launches of an epoch whose key has come again are recorded once and then replayed.
 * Results do not depend on it. AUTO: yes, unless spans are collected, which are then those of single kernels. */
typedef enum reed_graphs { REED_GRAPHS_AUTO, REED_GRAPHS_ON, REED_GRAPHS_OFF } reed_graphs;

typedef struct reed_session_options {
  /* The devices that the module's devices 1, 2, ... are bound to: names with commas between them, of which the last
   * serves all remaining devices: "host" (default), "cuda", "cuda:1", "sim", or the path of a device module
   * (reed/device.h). Devices are opened once in a process and shared. "sim?lacks=Conv+TopK.f64" opens a device without
   * these operators; a module that needs one of them is refused (reed_compile_options.target). */
  const char *device;
  int n_threads;            /* 0: one per CPU available */
  int64_t memory_cap_bytes; /* of each device: tensors, outputs until they are closed, objects; 0: none */
  int64_t memo_entries;     /* per epoch; 0: 64 */
  int64_t memo_bytes;       /* of all epochs; 0: 64 MiB */
  int64_t max_call_depth;   /* 0: 10,000 */
  int64_t max_instructions; /* per run; 0: no budget */
  bool profile;             /* collect spans for reed_session_trace_json and reed_session_profile_json */
  int64_t cancel_at_kernel; /* for tests: the n-th kernel since opening (as reed_session_kernel_count counts) cancels
                               its run; 0: none */
  bool keep_outputs;        /* every output stays on the device that computes it, as by reed_session_keep_output */
  reed_graphs graphs;
  uint64_t seed; /* of the session's random numbers (RandomNormal, Bernoulli, Multinomial ...): sessions with one seed
                    draw the same numbers in their runs, whatever devices and threads they have */
} reed_session_options;

/* Opens a session, which keeps a reference to the program. options NULL: the defaults. ERROR_DEVICE: a device cannot be
 * opened; ERROR_ARGUMENT: a device's name has a wrong number or option; ERROR_UNSUPPORTED: a device lacks operators of
 * the module, all of which the diagnosis names. */
REED_API REED_MUST_CHECK reed_status reed_session_open(reed_program *program, const reed_session_options *options,
                                                       reed_session **out_session, reed_diagnosis *diagnosis);
/* Closes the session. A run on another thread is cancelled and waited for; an asynchronous run that has not begun is
 * dropped. Either run ends with ERROR_CANCELLED. Must not be called from a kernel or a shape function of the session's
 * run. */
REED_API void reed_session_close(reed_session **session);

/* Runs the model's main function. inputs: one tensor for each input of the model, in order, with its dtype and extents;
 * borrowed, and never written. outputs: n_outputs new tensors, which the caller closes; on failure they are NULL or
 * untouched. After a failure the session can run again. A run that lacks memory is tried a second time, after the
 * session has given back all that it keeps for speed; kernels of custom operators are called again then.
 *
 * Outputs lie on the host, unless one of the two calls below sets another destination. An input on a device of the
 * session is used in place; if the host reads its elements, it is copied to the host as well (reason "value" or
 * "placement"). An input on another device, and an input that is not dense, is copied (reason "input"). The past of a
 * cache may have room (reed_session_bind_output).
 *
 * ERROR_ARGUMENT: wrong numbers of tensors, or a session in use; ERROR_TYPE, ERROR_SHAPE, ERROR_VALUE: inputs or
 * elements that the model does not accept; ERROR_MEMORY, ERROR_LIMIT: over a cap or limit; ERROR_DEVICE;
 * ERROR_CANCELLED; ERROR_FAILED: a fail instruction. */
REED_API REED_MUST_CHECK reed_status reed_session_run(reed_session *session, reed_tensor *const *inputs,
                                                      size_t n_inputs, reed_tensor **outputs, size_t n_outputs,
                                                      reed_diagnosis *diagnosis);

/* ---- destinations of outputs ----
 * Both calls hold for all later runs of the session, also asynchronous ones. During a run they return ERROR_ARGUMENT.
 */

/* keep true: output i stays on the device that computes it, which may be the host (reed_tensor_device). keep false, the
 * default: the output is copied to the host. */
REED_API REED_MUST_CHECK reed_status reed_session_keep_output(reed_session *session, size_t output, bool keep,
                                                              reed_diagnosis *diagnosis);
/* Binds output i to `memory`, a tensor of the host or of a device, which the session retains: later runs write the
 * output there. memory NULL: unbinds the output. The memory has the output's dtype and extents, but it may have more
 * room along room_axis (-1: none). The output's elements then lie at the beginning of each row, with the memory's
 * strides. A run returns a tensor over the same memory with the output's extents, which the caller closes like any
 * output.
 *
 * The output is computed in the memory, or read back into it, if the output lies dense in the memory (no room, or room
 * along the outermost axis whose extent is not 1), the memory is on the right device, and no earlier tensor of the run
 * lies there. Otherwise the output is copied once, and the copy is counted (reed_session_stats_json, reason "output").
 *
 * Caches grow in place. An output that is an input (its past) with new rows behind it along room_axis, as the keys and
 * values of a decoder, is written in the memory where its past lies: bind the output to the memory, give an empty past
 * to the first run, and the output of each run to the next one. A run then writes its new rows, and copies no old ones,
 * if the memory's mark equals the past's extent. The mark is the number of rows that outputs have written. It belongs
 * to the memory, whichever sessions write there, and moves when a run has succeeded; so a past stays valid when a run
 * fails or is cancelled. If the mark says that the rows behind the past are taken (a second continuation of one past),
 * the output is a new tensor, and the memory is left alone. If the past lies elsewhere, or is empty, the output is
 * written into the memory from the first row on, unless tensors of earlier runs that lie there are still open: then the
 * output is a new tensor. Which caches grew in place and which were copied is in reed_session_stats_json. A past is
 * accepted with the strides of its room.
 *
 * A run whose output does not fit fails with ERROR_SHAPE, which names the output and both shapes, and does not write
 * the memory of that output. After a run that failed for another reason or was cancelled, bound memory holds undefined
 * elements. A run with an input that overlaps the memory, and is not the output's past, fails with ERROR_ARGUMENT.
 * Overlap is judged by the first and the last byte.
 *
 * Errors of this call: ERROR_ARGUMENT: the memory is read-only, its elements share addresses, or it overlaps the memory
 * of another output; ERROR_TYPE: another dtype. */
REED_API REED_MUST_CHECK reed_status reed_session_bind_output(reed_session *session, size_t output, reed_tensor *memory,
                                                              int32_t room_axis, reed_diagnosis *diagnosis);

/* ---- the caller's stream ---- */

/* Orders the session's runs with the caller's work on a stream of the accelerator, such as torch's current stream.
 * Holds for all later runs.
 *   - A run waits, on the device, for the work that the stream has at the call of reed_session_run or
 *     reed_session_run_async. So inputs and bound outputs may still be in use on the stream: their producer need not be
 *     waited for.
 *   - While the stream is being captured into a graph, a run fails with ERROR_UNSUPPORTED and enqueues nothing.
 *   - Outputs are complete when the run returns, so they are ready on the stream (and on every other one).
 *   - An output that stays on the device may be closed (as a tensor, or by DLPack's deleter) while work of the stream
 *     still uses it: its memory is used again, or released, only after the work that the stream has at that moment.
 * stream: as DLPack numbers streams: 1 is CUDA's legacy default stream, 2 the default stream of the thread that makes
 * the call or closes the output, other positive numbers are handles (cudaStream_t as a number). 0 or -1, the default:
 * no stream; the caller then has waited for all work on inputs, outputs and bound memory before a run or a close. The
 * stream must be one of the session's device (otherwise runs fail with ERROR_DEVICE) and exist while it is set, and
 * until outputs of its runs are closed. Memory of reed_tensor_open_on is to be closed after the stream's work on it.
 *
 * Errors: ERROR_UNSUPPORTED: no device of the session, or more than one, has streams of callers; ERROR_ARGUMENT: a
 * number below -1, or a run is in flight. */
REED_API REED_MUST_CHECK reed_status reed_session_set_stream(reed_session *session, int64_t stream,
                                                             reed_diagnosis *diagnosis);

/* ---- shapes without a run ---- */

/* Dtype and extents of an input or output. */
typedef struct reed_shape {
  reed_dtype dtype;              /* REED_NONE: unknown */
  int32_t rank;                  /* -1: unknown */
  int64_t dims[REED_MAX_RANK];   /* -1: known only once a kernel has run */
  int64_t bounds[REED_MAX_RANK]; /* greatest possible extent: of a known one the extent itself; -1: no bound is known */
} reed_shape;

/* The outputs' dtypes and extents for such inputs. Shape functions run, and in shape sections the host's small kernels
 * on extents and values that are known; no other kernel runs, nothing is copied to a device, and no memory of a device
 * is taken. Epochs that the session remembers are not worked out again.
 *
 * shapes: one per model input; an extent of -1 is unknown, and at most its bound if the bound is positive. values: per
 * input a tensor instead, which also has elements, or NULL; the list may be NULL, and shapes may be NULL if every input
 * has a tensor. Elements matter only where shapes depend on them (the sizes of a Resize, a trip count).
 *
 * An extent that depends on a kernel's result or on elements that are not given is -1, with a bound if one is known;
 * the outputs of an If or Loop whose course is unknown are as the model declares them. Inputs that a run would refuse
 * are refused in the same words. */
REED_API REED_MUST_CHECK reed_status reed_session_shapes(reed_session *session, const reed_shape *shapes,
                                                         reed_tensor *const *values, size_t n_inputs,
                                                         reed_shape *outputs, size_t n_outputs,
                                                         reed_diagnosis *diagnosis);

/* Makes the current run stop soon with ERROR_CANCELLED: the run polls at every kernel, and long kernels poll between
 * their chunks. Between runs the call does nothing. The session can run again afterwards. May be called from any thread
 * and from signal handlers. */
REED_API void reed_session_cancel(reed_session *session);

typedef struct uv_loop_s uv_loop_t;
/* Does reed_session_run on a thread of libuv's pool. `done` is called on the loop's thread with the result, and may run
 * or close the session. The session counts as running from this call until `done` is called. inputs are retained;
 * outputs are passed to `done`, which takes them. */
typedef void (*reed_run_done_fn)(void *context, reed_status status, reed_tensor **outputs, size_t n_outputs,
                                 const reed_diagnosis *diagnosis);
REED_API REED_MUST_CHECK reed_status reed_session_run_async(reed_session *session, uv_loop_t *loop,
                                                            reed_tensor *const *inputs, size_t n_inputs,
                                                            reed_run_done_fn done, void *context,
                                                            reed_diagnosis *diagnosis);

/* ---- figures ----
 * Scripts rely on the JSON keys: keys may be added, and no key is removed or changes its meaning. During a run the
 * calls return ERROR_ARGUMENT. */

/* Epochs, copies, memory and memo figures of the last run. These figures are counted with and without profiling. */
REED_API REED_MUST_CHECK reed_status reed_session_stats_json(reed_session *session, char **out_json,
                                                             reed_diagnosis *diagnosis);
/* Per epoch of the last run: shape functions, kernels, read-backs with their reasons, arena bytes. Same form as `vm
 * plan --json`. */
REED_API REED_MUST_CHECK reed_status reed_session_plan_json(reed_session *session, char **out_json,
                                                            reed_diagnosis *diagnosis);
/* Trace-event JSON (Chrome, Perfetto) of all runs since the session was opened or since the last such call; the session
 * must have been opened with `profile`. */
REED_API REED_MUST_CHECK reed_status reed_session_trace_json(reed_session *session, char **out_json,
                                                             reed_diagnosis *diagnosis);
/* {"operators":[{"operator","calls","total_us","shape_us","prepare_us","bytes"}...],"nodes":[{"node","operator",...}...],"dropped_events"}
 */
REED_API REED_MUST_CHECK reed_status reed_session_profile_json(reed_session *session, char **out_json,
                                                               reed_diagnosis *diagnosis);
/* The number of kernels that the last run launched; 0 for a NULL session and during a run. */
REED_API int64_t reed_session_kernel_count(const reed_session *session);

/* ---- modules as text ---- */

/* A description of the module as JSON: names, devices, inputs and outputs, functions, operators, sizes. */
REED_API REED_MUST_CHECK reed_status reed_program_info_json(const reed_program *program, char **out_json,
                                                            reed_diagnosis *diagnosis);
/* The operator table as JSON: built-in operators, and those of the registry (NULL: none). */
REED_API REED_MUST_CHECK reed_status reed_operators_json(const reed_registry *registry, char **out_json,
                                                         reed_diagnosis *diagnosis);
/* Verifies a module's bytes, which are borrowed for the call. ERROR_FORMAT or ERROR_VERSION: a broken rule, by its
 * number. */
REED_API REED_MUST_CHECK reed_status reed_module_verify(const void *bytes, size_t n_bytes,
                                                        const reed_program_options *options, reed_diagnosis *diagnosis);
/* The text form (.rasm) of a module, and the module of a text; its bytes are released with reed_text_free((char
 * *)bytes). A round trip gives the same bytes. ERROR_FORMAT: the module or the text is wrong; a diagnosis of text names
 * the line. */
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
