/* The SIMT emulation: runs a kernel of the CUDA dialect (device/cuda/kernels/) on the host, thread by thread, and stops
 * at the first use that CUDA does not define. This header is for the code that launches; kernels see
 * device/cuda/simt/device.hpp.
 *
 * THREADS. The threads of a block are fibers on the caller's stack of control: a thread runs until it waits at a
 * barrier, a shuffle or a vote, then the next one runs, in the launch's order. Blocks run one after the other.
 *
 * FAULTS. A fault ends the launch with a sentence; nothing else is harmed, and the caller goes on. Faults are:
 *   - an access outside of the operands' bytes, of the launch's args, and of the block's shared memory, by a single
 * byte at either end; a write to an operand that is not writable
 *   - an access that is not aligned as its type demands; overflow, shifts and conversions that C++ leaves undefined
 *   - threads of a block at different `__syncthreads`, or a thread that has left while others wait at one
 *   - a shuffle, vote, `mma.sync` or `__syncwarp` whose mask names a lane that has left, that waits elsewhere, or that
 * is not there, or does not name the caller; a shuffle from a lane that the mask does not name
 *   - two threads at the same byte of shared memory without a barrier between them, one of them writing
 *   - a launch beyond the limits of every card
 * Shared memory is filled with bytes 0xff when a block begins.
 *
 * The checks of accesses need kernels that are compiled with the flags of meson.build's `simt_kernel_args`. In a build
 * with the thread sanitizer the kernels are compiled for that sanitizer instead, which is told about fibers. */
#ifndef DEVICE_CUDA_SIMT_SIMT_H_
#define DEVICE_CUDA_SIMT_SIMT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel compiled for the emulation. */
typedef struct simt_kernel {
  const char *name;
  uint32_t args_bytes, args_align; /* of its one parameter */
  uint32_t threads;                /* the most threads of a block: its launch bounds */
  void (*run)(const void *args);
} simt_kernel;

typedef struct simt_operand {
  const void *data;
  int64_t bytes;
  bool writable;
} simt_operand;

enum { SIMT_FORWARD = 0, SIMT_REVERSE = 1 };
enum { SIMT_SHARED_DEFAULT = 48 * 1024, SIMT_SHARED_MOST = 227 * 1024 };

typedef struct simt_launch {
  const simt_kernel *kernel;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;        /* dynamic shared memory */
  uint32_t shared_limit;        /* of static and dynamic shared memory together; 0: SIMT_SHARED_DEFAULT */
  const void *args;             /* kernel->args_bytes; never written */
  const simt_operand *operands; /* the memory that the launch may touch */
  int32_t n_operands;
  uint64_t order; /* of blocks, warps and lanes: SIMT_FORWARD, SIMT_REVERSE, any other number seeds a random one */
  const uint64_t *blocks; /* NULL: all blocks; else the numbers (x fastest) of the n_blocks blocks to run */
  int64_t n_blocks;
  int64_t *touched;  /* NULL; or, for each operand, a number to which the bytes of its accesses are added */
  bool warpgroups;   /* the card multiplies by warpgroups (wgmma): compute capability 9.0 */
  const int *cancel; /* base/cancel.h: no block begins once it is raised; NULL: nothing ends the launch early */
} simt_launch;

/* Runs the launch to its end, or until it is cancelled. False: a fault, with one sentence in out_error. Any number of
 * threads may call it at the same time; kernels of different calls do not see each other. */
bool simt_run(const simt_launch *launch, char *out_error, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
