/* The driver API of CUDA as a table of functions, opened at run time, so that neither the module nor libreed links
 * CUDA. Types, numbers and structs below are facts of the driver's binary interface; their source is cuda.h of CUDA
 * 12.4 to 13.0. Only declarations that the module needs are here. The functions: driver.def. */
#ifndef DEVICE_CUDA_DRIVER_DRIVER_H_
#define DEVICE_CUDA_DRIVER_DRIVER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/json.h"

/* CUDA's major version of the build, in sentences. */
#define CUDA_TEXT_(x) #x
#define CUDA_TEXT(x) CUDA_TEXT_(x)
#define CUDA_MAJOR CUDA_TEXT(CUDA_BUILT_FOR)

typedef int cu_result, cu_device;
typedef unsigned long long cu_pointer, cu_memory; /* CUdeviceptr, CUmemGenericAllocationHandle */
typedef struct CUctx_st *cu_context;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_graph_exec;
typedef struct CUmemPoolHandle_st *cu_pool;

/* CUresult */
enum {
  CU_SUCCESS = 0,
  CU_INVALID_VALUE = 1,
  CU_OUT_OF_MEMORY = 2,
  CU_NOT_INITIALIZED = 3,
  CU_NO_DEVICE = 100,
  CU_INVALID_DEVICE = 101,
  CU_INVALID_IMAGE = 200,
  CU_INVALID_CONTEXT = 201,
  CU_NO_BINARY_FOR_GPU = 209,
  CU_INVALID_HANDLE = 400,
  CU_NOT_FOUND = 500,
  CU_NOT_READY = 600,
  CU_ILLEGAL_ADDRESS = 700,
  CU_LAUNCH_FAILED = 719,
  CU_CAPTURE_UNSUPPORTED = 900,
  CU_CAPTURE_INVALIDATED = 901,
  CU_CAPTURE_UNMATCHED = 903,
  CU_CAPTURE_ISOLATION = 905,
  CU_CAPTURE_IMPLICIT = 906,
  CU_CAPTURE_WRONG_THREAD = 908,
  CU_UNKNOWN = 999
};
/* CUdevice_attribute */
enum {
  CU_MULTIPROCESSORS = 16,
  CU_CAPABILITY_MAJOR = 75,
  CU_CAPABILITY_MINOR = 76,
  CU_SHARED_BYTES = 8,
  CU_SHARED_BYTES_OPT_IN = 97,
  CU_VIRTUAL_MEMORY = 102,
  CU_MEMORY_POOLS = 115
};
enum { CU_DYNAMIC_SHARED_BYTES = 8 };                        /* CUfunction_attribute */
enum { CU_NON_BLOCKING = 1, CU_EVENT_NO_TIMING = 2 };        /* CUstream_flags, CUevent_flags */
enum { CU_CAPTURE_GLOBAL = 0, CU_CAPTURE_THREAD = 1 };       /* CUstreamCaptureMode */
enum { CU_CAPTURE_NONE = 0, CU_CAPTURE_ACTIVE = 1 };         /* CUstreamCaptureStatus */
enum { CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2 };           /* CU_MEMHOSTALLOC_ */
enum { CU_POOL_RELEASE_THRESHOLD = 4 };                      /* CUmemPool_attribute; a uint64_t */
enum { CU_PINNED = 1, CU_ON_DEVICE = 1, CU_READ_WRITE = 3 }; /* allocation type, location type, access */
enum { CU_GRANULARITY_RECOMMENDED = 1 };                     /* CUmemAllocationGranularity_flags */
/* CUpointer_attribute; CU_MEMORYTYPE_DEVICE */
enum { CU_MEMORY_TYPE = 2, CU_POINTER_ORDINAL = 9, CU_RANGE_BEGIN = 11, CU_RANGE_BYTES = 12, CU_TYPE_DEVICE = 2 };

typedef struct cu_location {
  int type, id;
} cu_location;
typedef struct cu_allocation_properties { /* CUmemAllocationProp_v1 */
  int type, handle_types;
  cu_location location;
  void *windows;
  unsigned char compression, rdma;
  unsigned short usage;
  unsigned char reserved[4];
} cu_allocation_properties;
typedef struct cu_access { /* CUmemAccessDesc_v1 */
  cu_location location;
  int flags;
} cu_access;
typedef struct cu_pool_properties { /* CUmemPoolProps_v1 */
  int type, handle_types;
  cu_location location;
  void *windows;
  size_t max_bytes;
  unsigned short usage;
  unsigned char reserved[54];
} cu_pool_properties;

/* Bytes that the next launch of the calling thread may touch. */
typedef struct cu_operand {
  const void *data;
  int64_t bytes;
  bool written;
} cu_operand;

struct cuda_prepared; /* device/cuda/kernels/kernel.h */

typedef struct cuda_driver {
#define DRIVER(name, symbol, parameters) cu_result(*name) parameters;
#include "device/cuda/driver/driver.def"
  /* Not of the driver: tells the emulation the operands of the calling thread's next launch, and the flag that ends the
   * launch early (base/cancel.h; NULL: nothing does). NULL: not wanted. */
  void (*operands)(const cu_operand *operands, size_t n, const int *cancel);
  /* Not of the driver: tells the emulation the plan of launches of a kernel's run. NULL: not wanted. */
  void (*count)(const struct cuda_prepared *plan);
  int first_ordinal; /* number of the first device; 0 but for the fake driver, which has devices for each opening */
  const void *const *images; /* the kernels, for module_load; NULL at the end */
} cuda_driver;

/* Finds every function of the real driver, and starts nothing. */
reed_status cuda_driver_find(cuda_driver *out_driver, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Opens the driver: finds every function and initialises the driver. Called once a device, any number of times.
 * options: the text after '?' in the device's name, of which a fake driver reads its own. ERROR_DEVICE with one
 * sentence: no driver, a driver without a function, no card. */
reed_status cuda_driver_open(const char *options, cuda_driver *out_driver, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Writes the members `missing` (the driver) and `libraries` into the open object; the fake driver lacks nothing. */
void cuda_driver_describe(json_writer *json);
/* Ends the use of an opened driver. */
void cuda_driver_close(cuda_driver *driver);

/* A kernel of the embedded images: the hash of its PTX, and the run that has proven this PTX on a card. */
typedef struct cuda_proof {
  const char *kernel; /* its symbol */
  const char *ptx;
  const char *card, *driver, *date; /* NULL: run under the emulation only */
} cuda_proof;
/* A row without a kernel ends the table. Empty with the fake driver. */
extern const cuda_proof cuda_proofs[] __attribute__((visibility("hidden")));
/* The embedded fat binaries of the kernels, one a source file, with NULL at the end; not with the fake driver. */
extern const void *const cuda_images[] __attribute__((visibility("hidden")));

#endif
