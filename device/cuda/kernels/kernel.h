/* How the host code of an operator describes the launches of its device kernels. A `prepare` function (the table
 * ops/cuda.def names it) fills a cuda_plan with launches in order: a kernel of kernels.def, its grid, its args struct,
 * and for each pointer in that struct the operand whose address it takes. cuda_plan_close packs the plan into the state
 * of a reed_kernel. The module (device/cuda/) reads the state at each launch: it copies the args, fills the pointers in
 * and calls the driver. The same list of pointers tells the emulation which bytes a launch may touch.
 *
 * A `prepare` function is arithmetic on extents and never calls the driver, so it runs on a machine without a card. */
#ifndef DEVICE_CUDA_KERNELS_KERNEL_H_
#define DEVICE_CUDA_KERNELS_KERNEL_H_

#include <stddef.h>

#include "base/vec.h"
#include "device/cuda/kernels/args.h"
#include "device/cuda/kernels/fault.h"
#include "ops/overwritten.h"
#include "reed/operator.h"

typedef enum cuda_kernel_id {
#define CUDA_KERNEL(name, args, threads) CUDA_##name,
#include "device/cuda/kernels/kernels.def"
  CUDA_KERNELS
} cuda_kernel_id;

/* The units that compute products; each value allows the units of the values before it, too. */
typedef enum cuda_math {
  CUDA_MATH_PLAIN,  /* no tensor cores; f16 and bf16 are converted to f32 */
  CUDA_MATH_HALVES, /* f16 and bf16 on tensor cores with f32 sums (from sm_80 on); f32 strictly */
  CUDA_MATH_TF32,   /* f32 on tensor cores, too, operands rounded to tf32 */
  CUDA_MATHS
} cuda_math;

/* The call as every preparing function of ops/cuda.def gets it: `call` is its first member. */
typedef struct cuda_call {
  reed_kernel_call call;
  cuda_math math;
} cuda_call;

/* The row of a kernel in kernels.def. */
typedef struct cuda_kernel_info {
  const char *name; /* the name of the symbol, such as "reed_map" */
  uint32_t args_bytes, args_align, threads;
} cuda_kernel_info;
extern const cuda_kernel_info cuda_kernel_infos[CUDA_KERNELS];

/* Limits of every card (CUDA programming guide, "Technical specifications per compute capability"). */
enum { CUDA_MAX_GRID_X = 0x7fffffff, CUDA_MAX_ARGS_BYTES = 4096 };

/* The memory that a pointer in an args struct takes its address from. */
typedef enum cuda_source {
  CUDA_FROM_INPUT,  /* input `index` */
  CUDA_FROM_OUTPUT, /* output `index` */
  CUDA_FROM_WORKSPACE,
  CUDA_FROM_EXTENT,  /* the true extent of input `index`, whose room is counted */
  CUDA_FROM_EXTENTS, /* the extent that the kernel reports for output `index` */
  CUDA_FROM_FAULT,   /* the queue's cuda_fault */
  CUDA_FROM_NUMBER   /* no pointer: the launch's number, 4 bytes */
} cuda_source;

/* One pointer in an args struct: the bytes offset .. offset + bytes of its source. NULL in the struct if the source is
 * absent or has no bytes. */
typedef struct cuda_pointer {
  uint32_t field; /* offset in the args struct */
  int32_t index;
  int64_t offset, bytes;
  uint8_t source; /* cuda_source */
  bool written;
} cuda_pointer;

typedef struct cuda_launch {
  cuda_kernel_id kernel;
  uint32_t grid[3], shared_bytes; /* dynamic shared memory */
  uint32_t args_at;               /* offset of the args struct among the plan's args */
  uint32_t first_pointer, n_pointers;
  uint32_t keeps; /* left out if its first pointers, so many pairs, are the same in each pair: the elements are at their
                     places already; 0: never */
} cuda_launch;

/* The state of a prepared kernel, in one block of memory. */
typedef struct cuda_prepared {
  uint32_t n_launches, n_pointers;
  const cuda_launch *launches;
  const cuda_pointer *pointers;
  const char *args;  /* structs, each 16-byte aligned */
  const int *cancel; /* base/cancel.h; for the emulation: launches that have not ended do nothing once it is raised.
                        NULL for launches that overwrite rows, because these rows are put back as a whole */
  overwritten overwrites; /* n_bytes 0: no row is overwritten */
} cuda_prepared;

/* The `run` of every kernel whose state is a cuda_prepared. The module compares it and never calls it; a call returns
 * ERROR_DEVICE. */
reed_status cuda_run(const void *state, const reed_kernel_buffers *buffers);

/* A plan while `prepare` makes it. Zeroed but for `call`. */
typedef struct cuda_plan {
  const reed_kernel_call *call;
  VEC_OF(cuda_launch) launches;
  VEC_OF(cuda_pointer) pointers;
  VEC_OF(char) args;
  overwritten overwrites; /* as in cuda_prepared */
  bool failed;            /* out of memory */
  const char *wrong;      /* the kernel of a launch that breaks a limit */
} cuda_plan;

/* Adds a launch of so many blocks, with a copy of `args`: the kernel's args struct, whose pointers are NULL. No blocks
 * are an error: a call without work makes no launch. Failures are reported by cuda_plan_close. */
void cuda_plan_launch(cuda_plan *plan, cuda_kernel_id kernel, int64_t blocks, int64_t shared_bytes, const void *args);
/* The same with one thread for each of n elements, and no dynamic shared memory. */
void cuda_plan_each(cuda_plan *plan, cuda_kernel_id kernel, int64_t n, const void *args);
/* Sets `keeps` of the latest launch. */
void cuda_plan_keeps(cuda_plan *plan, uint32_t pairs);
/* Notes a pointer of the latest launch. `bytes` < 0: all bytes of the input or output by its descriptor and its room.
 */
void cuda_plan_pointer(cuda_plan *plan, size_t field, cuda_source source, int32_t index, int64_t offset, int64_t bytes,
                       bool written);
/* The bound of the call's count, for an args struct; capacity 0: no input has a counted room. The launch that takes it
 * needs cuda_plan_count. */
counted_extent cuda_counted(const reed_kernel_call *call);
/* The first input with a counted room; -1: none. */
int32_t cuda_counted_input(const reed_kernel_call *call);
bool cuda_is_counted(const reed_kernel_call *call, int32_t input);
/* The bound of a counted input. */
counted_extent cuda_counted_by(const reed_kernel_call *call, int32_t input);
/* Gives the latest launch the address of a counted input's count. field: the offset of a counted_extent. */
void cuda_plan_extent(cuda_plan *plan, size_t field, int32_t input);
/* Gives the latest launch the address of the call's count, if it has one. field: the offset of a counted_extent. */
void cuda_plan_count(cuda_plan *plan, size_t field);
/* Packs the plan into *out_kernel and frees it. A plan without launches is allowed: the kernel does nothing. A plan
 * is refused (ERROR_UNSUPPORTED) if one of its launches has a pointer to a counted operand and no cuda_plan_count. */
reed_status cuda_plan_close(cuda_plan *plan, int64_t workspace_bytes, reed_kernel *out_kernel) REED_MUST_CHECK;

/* Blocks of a launch with one thread for each of n elements. */
static inline int64_t blocks_for(cuda_kernel_id kernel, int64_t n) {
  const int64_t threads = cuda_kernel_infos[kernel].threads;
  return (n + threads - 1) / threads;
}

/* Blocks for each of some rows of n elements, or outputs of n elements: more than one where few rows have many elements
 * each. A launch joins the results of a row's blocks, in their order, so that the bits are the same in every run. */
int32_t cuda_splits(int64_t rows, int64_t n);

/* Bytes of a part of the workspace, rounded up so that the next part is aligned for every element and vector. */
static inline int64_t cuda_round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Channels that a thread computes at once where channels are last: as many as 16 bytes hold if their number is a
 * multiple of them and they are f32 or halves; else 1. */
static inline int64_t cuda_channels_at_once(reed_dtype dtype, int64_t channels) {
  const int64_t part = dtype == REED_F32 ? 4 : dtype == REED_F16 || dtype == REED_BF16 ? 8 : 1;
  return channels % part ? 1 : part;
}

/* Dynamic shared memory of a block that sorts n keys of so many bytes (sort.cuh). */
static inline int64_t cuda_sort_bytes(int64_t n, int64_t key_bytes) {
  return ((n < CUDA_SORT_EACH ? CUDA_SORT_EACH : n) + CUDA_SORT_EACH * CUDA_SORT_GAP) * key_bytes;
}

/* Frees a plan that is not closed. */
void cuda_plan_drop(cuda_plan *plan);

/* Pointer `field` of struct `type` gets the whole input or output. */
#define CUDA_INPUT(plan, type, field, i) \
  cuda_plan_pointer(plan, offsetof(type, field), CUDA_FROM_INPUT, i, 0, -1, false)
#define CUDA_OUTPUT(plan, type, field, i) \
  cuda_plan_pointer(plan, offsetof(type, field), CUDA_FROM_OUTPUT, i, 0, -1, true)
#define CUDA_PART(plan, type, field, source, i, at, n_bytes, is_written) \
  cuda_plan_pointer(plan, offsetof(type, field), source, i, at, n_bytes, is_written)
/* `field`: a cuda_fault *; `number`: a uint32_t. */
#define CUDA_FAULT(plan, type, field, number) \
  (cuda_plan_pointer(plan, offsetof(type, field), CUDA_FROM_FAULT, 0, 0, sizeof(cuda_fault), true), \
   cuda_plan_pointer(plan, offsetof(type, number), CUDA_FROM_NUMBER, 0, 0, 4, false))

#endif
