/* The structs inside the fake driver. A world is what one opening of the driver sees: two cards with their memory,
 * contexts, streams and a thread that runs the streams' work. Worlds share nothing but the calling threads' stacks of
 * contexts.
 *
 * The fake driver is stricter than a real one: everything that a real driver leaves to chance goes wrong here. Work
 * runs late, in a seeded order that honours streams and events only; memory of a card is closed to the host; new memory
 * is poisoned and released memory unmapped; a copy from or into pinned memory whose bytes changed before it ran is an
 * error, and the target of a copy is poisoned until then; work of a destroyed stream runs as late as other work. An
 * error of enqueued work is sticky, as on a card: later calls return it, with the sentence that names the cause. */
#ifndef DEVICE_CUDA_FAKE_STATE_H_
#define DEVICE_CUDA_FAKE_STATE_H_

#include <stdatomic.h>
#include <uv.h>

#include "base/vec.h"
#include "device/cuda/driver/driver.h"
#include "device/cuda/simt/simt.h"

enum { FAKE_POISON = 0xff, FAKE_CARDS = 2, FAKE_WORLDS = 64, FAKE_PAGE = 4096, FAKE_GRANULARITY = 64 * 1024 };

/* The fake driver's module_load takes this table in place of a fat binary. */
typedef struct fake_image {
  const simt_kernel *kernels;
  int32_t n;
} fake_image;

/* A card that the driver plays (cards.def). */
typedef struct fake_card {
  const char *name, *full_name;
  int64_t memory; /* bytes; 0: those of the machine */
  int multiprocessors, shared_bytes, major, minor;
} fake_card;

typedef struct fake_options {
  int64_t fail_call;    /* the n-th call of the driver fails; 0: none */
  int64_t fail_context; /* the n-th entering or leaving of a context fails */
  int64_t fail_memory;  /* the n-th call that takes memory fails: out of memory */
  int64_t fail_work;    /* the n-th launch or copy fails when it runs */
  int64_t fail_cudnn;   /* the n-th call of the stand-in for cuDNN fails */
  int64_t fail_cublas;  /* the n-th call of the stand-in for cuBLASLt fails */
  int64_t seed;    /* 0: streams run in the order of the calls; else the seed chooses among the work that may run */
  int64_t late;    /* 1: nothing runs until a host thread waits for it */
  int64_t order;   /* of a launch's threads (simt.h) */
  int64_t clock;   /* n: events tell a time in which a library's launch takes n, others 1,000 microseconds; 0: the
                      host's clock */
  int64_t memory;  /* bytes of a card; 0: those of `card` */
  int64_t version; /* of the driver: 12080; 0: 13000 */
  const fake_card *card;
} fake_options;

/* Kinds of handles, which are counted. */
#define FAKE_HANDLES(X) \
  X(CONTEXT, "contexts") \
  X(MODULE, "modules") \
  X(STREAM, "streams") \
  X(EVENT, "events") \
  X(GRAPH, "graphs") \
  X(EXEC, "instantiated graphs") \
  X(POOL, "pools") \
  X(PAGES, "allocations of pages") \
  X(ADDRESSES, "ranges of addresses") \
  X(MAPPING, "mappings") \
  X(BLOCK, "blocks of a pool") \
  X(PINNED, "blocks of pinned memory") \
  X(CUDNN, "handles and descriptors of cuDNN") \
  X(CUBLAS, "handles and descriptors of cuBLASLt")
typedef enum fake_kind {
#define X(kind, text) FAKE_##kind,
  FAKE_HANDLES(X)
#undef X
      FAKE_KINDS
} fake_kind;

typedef struct fake_world fake_world;

typedef struct fake_pages {
  size_t bytes;
  int n_mapped;
  bool released;
} fake_pages;

/* Card memory, pinned memory, or a range of reserved addresses. */
typedef struct fake_range {
  fake_kind kind; /* ADDRESSES, MAPPING, BLOCK, PINNED */
  char *data;
  size_t bytes, mapped_bytes;
  bool open; /* a mapping with access; a block whose allocation has run; always for pinned memory */
  int card;
  fake_pages *pages; /* of a mapping */
} fake_range;

struct CUctx_st {
  fake_world *world;
  int card, n_retained;
};
struct CUfunc_st {
  const simt_kernel *kernel;
  uint32_t shared_limit;
};
struct CUmod_st {
  struct CUfunc_st functions[512];
  const fake_image *image;
};
struct CUevent_st {
  uint64_t n_recorded, n_done, n_pending; /* records enqueued, the latest one that has run, work that names the event */
  struct fake_work *records;              /* those that have not run; a later one may run first, on another stream */
  int64_t done_ns;
  int card; /* whose context it is of */
  bool timing, destroyed;
};
struct CUmemPoolHandle_st {
  int card;
};
typedef enum fake_work_kind {
  FAKE_COPY_IN,
  FAKE_COPY_OUT,
  FAKE_COPY_WITHIN,
  FAKE_FILL,
  FAKE_LAUNCH,
  FAKE_ALLOCATE,
  FAKE_FREE,
  FAKE_RECORD,
  FAKE_WAIT,
  FAKE_REPLAY
} fake_work_kind;

typedef struct fake_work {
  struct fake_work *next;
  struct fake_work *next_record; /* of the same event (CUevent_st.records) */
  uint64_t order;
  fake_work_kind kind;
  char *target;
  const char *source;
  size_t bytes;
  uint64_t checksum; /* of the pinned source or target when the copy was enqueued */
  bool guards;       /* the checksum must be the same when the copy runs */
  char *staged;      /* bytes of a source that is not pinned */
  fake_range *range; /* pinned memory that the copy uses, or the block of an allocation */
  cu_event event;
  uint64_t number;
  cu_graph graph;
  struct CUfunc_st *function;
  uint32_t grid[3], block[3], shared_bytes;
  uint32_t shared_limit; /* of static and dynamic shared memory together */
  char *args;            /* one block with the operands behind */
  simt_operand *operands;
  int32_t n_operands;
  const int *cancel; /* base/cancel.h */
  bool of_library;   /* a launch in a library's name */
} fake_work;

struct CUgraph_st {
  fake_work *first, **last;
  int64_t n_references;
};
struct CUgraphExec_st {
  cu_graph graph;
};

/* Streams of cuStreamCreate, and the two that a caller names by a number (CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). */
typedef enum fake_stream_kind { FAKE_MADE, FAKE_LEGACY, FAKE_PER_THREAD } fake_stream_kind;

struct CUstream_st {
  cu_stream next;
  fake_world *world;
  fake_stream_kind kind;
  int card;
  uv_thread_t owner; /* of FAKE_PER_THREAD */
  bool non_blocking;
  fake_work *head, *tail;
  int64_t n_pending;
  cu_graph capture; /* the graph that is being captured; NULL: none */
  uv_thread_t thread;
  int mode;
  bool invalidated;
  bool destroyed;   /* it goes when its work has run */
  int64_t clock_ns; /* of option `clock` */
};

struct fake_world {
  int number;
  fake_options options;
  struct CUctx_st contexts[FAKE_CARDS];
  uv_thread_t thread;
  bool has_thread;
  uv_mutex_t lock; /* guards the fields below */
  uv_cond_t ready, idle;
  int64_t n_calls, n_context_calls, n_memory_calls, n_cudnn_calls, n_cublas_calls, n_work, n_failed;
  int64_t n_live[FAKE_KINDS];
  size_t used_bytes[FAKE_CARDS];
  VEC_OF(fake_range *) ranges;
  cu_stream streams;
  uint64_t n_order, random;
  int64_t n_waiting;
  bool closing;
  cu_result sticky;
  char sentence[512]; /* of the sticky error */
  char said[512];     /* the sentence of the latest error of a call */
};

extern fake_world *fake_worlds[FAKE_WORLDS];
extern fake_world *fake_opening; /* the latest opened; device_open opens one device at a time */

/* Every function of the driver begins here: finds the world of the thread's current context and counts the call. Takes
 * the world's lock unless it fails. */
cu_result fake_enter(fake_world **out_world, const char *function) REED_MUST_CHECK;
/* The same for a function that gives something back: it is never left out, but returns the failure told by the options.
 */
cu_result fake_enter_undo(fake_world **out_world, const char *function, cu_result *out_told) REED_MUST_CHECK;
void fake_leave(fake_world *world);
/* Sets the sentence of the world's latest error and returns `error`. Under the lock. */
cu_result fake_say(fake_world *world, cu_result error, const char *format, ...) REED_PRINTF(3, 4);
/* The sticky error of work, CU_SUCCESS if there is none; its sentence becomes the thread's latest. Under the lock. */
cu_result fake_say_sticky(fake_world *world);
/* CU_OUT_OF_MEMORY if the options tell this call to fail, or the card has not so many bytes left. Under the lock. */
cu_result fake_take_memory(fake_world *world, int card, size_t bytes, const char *function);
cu_context fake_current(void);
fake_world *fake_world_of(int ordinal);

/* A potentially unsafe call (CUDA driver API, cuStreamBeginCapture_v2): breaks the captures that forbid it, and then
 * fails. Under the lock. */
cu_result fake_unsafe(fake_world *world, const char *function);

/* The stream of a handle. A default stream is made when it is first named. NULL is refused, because the module's own
 * work never names the default stream by it. Under the lock. */
cu_result fake_find_stream(fake_world *world, const char *function, cu_stream *stream);
/* Work on the legacy default stream waits for the blocking streams' work, and theirs for its own. So it breaks their
 * captures, and is refused (error 906) while there is one. Under the lock. */
cu_result fake_legacy_work(fake_world *world, cu_stream stream, const char *function);
/* True if the stream's first work has to wait for the default stream's or, if it is the default stream, for others'
 * (CUDA runtime API, "Stream synchronization behavior"). Under the lock. */
bool fake_is_held(const fake_world *world, const struct CUstream_st *stream);

/* memory.c; under the lock */
fake_range *fake_range_of(fake_world *world, const void *pointer, fake_kind kind);
/* NULL, or the reason why the bytes are no memory of a card (or, if `pinned`, pinned memory) that work may use. */
const char *fake_usable(fake_world *world, const void *pointer, size_t bytes, bool pinned);
/* Opens or closes whole pages around the bytes, unless they are pinned memory. */
void fake_open(fake_world *world, const void *pointer, size_t bytes, bool open);
/* A block of a pool whose allocation has not run yet, and the end of a block. */
fake_range *fake_block_open(fake_world *world, size_t bytes);
void fake_block_free(fake_world *world, fake_range *block);

/* stream.c */
void fake_work_free(fake_world *world, fake_work *work);
uint64_t fake_checksum(const void *data, size_t bytes);
/* Waits until the stream has no work. Under the lock. */
void fake_drain(cu_stream stream);
/* True if enqueued work has yet to use the pinned block. Under the lock. */
bool fake_is_used(const fake_world *world, const fake_range *pinned);
/* The calling thread's launch after fake_operands is a library's. */
void fake_tell_library(void);
void fake_graph_release(fake_world *world, cu_graph graph);

/* perform.c */
/* Makes the error sticky, unless an earlier one is. Under the lock. */
cu_result fake_break(fake_world *world, cu_result error, const char *format, ...) REED_PRINTF(3, 4);
void fake_thread(void *world);

/* The table's functions, one a row of driver.def. */
#define DRIVER(name, symbol, parameters) cu_result fake_##name parameters;
#include "device/cuda/driver/driver.def"
void fake_operands(const cu_operand *operands, size_t n, const int *cancel);

/* ---- library.c ---- */

/* Counts a library's handles and descriptors. */
void fake_library_count(fake_world *world, fake_kind kind, int64_t by);
/* Counts a call of a library. True if it is the call that is to fail. */
bool fake_library_fails(fake_world *world, int64_t *n_calls, int64_t failing);
/* Enqueues one of Reed's own kernels in a library's name. */
cu_result fake_library_launch(cu_module module, cu_stream stream, const char *kernel, int64_t blocks,
                              unsigned shared_bytes, const void *args, const cu_operand *operands, size_t n);

/* ---- floors.c ---- */

/* Adds the plan's launches to the sums of bytes, operations and least times. */
void fake_count(const struct cuda_prepared *plan);

/* The kernels of the emulated module; tests use images of their own. */
extern const void *const fake_images[];

#endif
