/* The block that a host thread is running, as the files of the emulation share it. */
#ifndef DEVICE_CUDA_SIMT_STATE_HPP_
#define DEVICE_CUDA_SIMT_STATE_HPP_

#include <cstring>

#include "device/cuda/simt/device.hpp"
#include "device/cuda/simt/fiber.hpp"
#include "device/cuda/simt/simt.h"

enum { SIMT_THREADS = 1024, SIMT_LANES = 32, SIMT_ARRAYS = 32, SIMT_ERROR_BYTES = 512 };

enum thread_state : uint8_t { THREAD_NEW, THREAD_READY, THREAD_AT_BARRIER, THREAD_AT_WARP, THREAD_LEFT };

struct simt_thread {
  simt_fiber *fiber; /* from its begin until it has left */
  thread_state state;
  dim3 index;
  /* Where the thread waits, and for what. */
  const char *file;
  int line;
  int kind; /* simt_barrier_kind or simt_warp_kind */
  unsigned mask;
  int argument, width;
  uint64_t value, result;
  const uint32_t *words; /* of simt_exchange: this lane's, and the room for those of all lanes */
  uint32_t *all;
};

/* An array in shared memory. */
struct shared_array {
  const void *key;
  size_t at, bytes;
};

/* Who used a word or a byte of shared memory since the last barrier of the block; numbers of threads are from 1, 0 is
 * none. */
struct shared_use {
  uint32_t interval; /* of barriers; the rest is empty if it is not the current one */
  uint16_t writer, reader;
  bool readers_in_warp, readers_in_block; /* more than one reader, of one warp or of several */
  bool in_bytes;                          /* of a word: its bytes have the records */
  uint16_t write_sync, read_sync;         /* the warp's count of __syncwarp at that use */
};

struct simt_block {
  simt_block *next; /* in the list of blocks that no host thread uses */
  const simt_launch *launch;
  const simt_operand *last; /* of the launch's, where the last access of an operand was; never NULL */
  dim3 index;
  uint32_t n_threads, n_left;
  simt_thread threads[SIMT_THREADS];
  uint32_t thread_order[SIMT_THREADS]; /* lanes of a warp stay together */
  uint32_t current;
  uint32_t warp_next, warp_end; /* the part of thread_order that belongs to the warp that runs */
  simt_fiber scheduler, fibers[SIMT_THREADS];
  uint32_t idle[SIMT_THREADS], n_idle, n_fibers; /* fibers without a thread; fibers that have begun */
  uint64_t random;
  bool failed;
  char error[SIMT_ERROR_BYTES];
  /* Addresses by which the thread sanitizer knows the order that a barrier or a wait of a warp makes; two in turn,
   * because a thread may reach the next one before another has left this one. */
  char barrier_places[2], warp_places[SIMT_THREADS / SIMT_LANES][2];
  uint32_t warp_waits[SIMT_THREADS / SIMT_LANES];
  /* memory */
  char *shared;                    /* SIMT_SHARED_MOST bytes */
  shared_use *uses, *words;        /* of each byte, of each aligned word */
  size_t shared_end, shared_taken; /* shared_taken: bytes of arrays that are not dynamic */
  uint32_t interval;
  uint16_t warp_syncs[SIMT_THREADS / SIMT_LANES];
  shared_array arrays[SIMT_ARRAYS];
  int32_t n_arrays;
};

/* The block that this host thread runs; NULL: none. */
SIMT_TLS simt_block *simt_now;

/* Ends the launch with a fault of the thread that runs. */
[[noreturn]] void simt_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes a fault that the scheduler finds. */
void simt_note(simt_block *block, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Stops the thread that runs until the scheduler lets it go on. `place`: one of the block's. */
void simt_wait(simt_block *block, char *place);

/* True for two texts of __FILE__ that are equal; mostly they are one. */
inline bool same_file(const char *a, const char *b) { return a == b || std::strcmp(a, b) == 0; }

/* memory.cc: the block's shared memory at its begin, and after a barrier. */
bool shared_open(simt_block *block);
void shared_begin(simt_block *block);

/* warp.cc: lets the lanes of thread_order[first..end) go on whose masks are complete. False: a fault, noted. */
bool warp_resolve(simt_block *block, uint32_t first, uint32_t end);

#endif
