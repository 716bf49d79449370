/* Tensors that cross the API: a counted block of memory of the host or of a device, whose shape never changes. A tensor
 * that Reed makes is dense and row-major; a tensor from DLPack, or an output in bound memory with room
 * (reed_session_bind_output), may have strides.
 *
 * A tensor on a device keeps the device open. Its memory is complete when the call that gave the tensor returns, and
 * may be used by any session of that device, whichever session or program made it and whether that is still open. */
#ifndef REED_TENSOR_H_
#define REED_TENSOR_H_

#include "reed/dlpack.h"
#include "reed/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The upper bound of a range without one. */
#define REED_UNBOUNDED INT64_MAX

/* A declared range of the extents of all dims of one name. */
typedef struct reed_dim_range {
  const char *name;  /* as the model's inputs name the dim */
  int64_t low, high; /* both included, 0 <= low <= high; high REED_UNBOUNDED: no upper bound */
} reed_dim_range;

typedef struct reed_tensor reed_tensor;
struct DLManagedTensorVersioned; /* an official dlpack.h of before 1.0 has none */

/* A zero-filled tensor in memory of its own. ERROR_SHAPE for a bad rank or extent, or more than 2^48 bytes. */
REED_API REED_MUST_CHECK reed_status reed_tensor_open(reed_dtype dtype, int32_t rank, const int64_t *dims,
                                                      reed_tensor **out_tensor);
/* A tensor over the caller's memory of the host; the last close calls `release` (may be NULL) with `context`. */
REED_API REED_MUST_CHECK reed_status reed_tensor_open_borrowed(reed_dtype dtype, int32_t rank, const int64_t *dims,
                                                               void *data, void (*release)(void *context),
                                                               void *context, reed_tensor **out_tensor);
/* A tensor in memory of its own on a device ("cuda", "sim:1"; "host" does the same as reed_tensor_open). Its elements
 * are undefined on a device: the memory is for an output (reed_session_bind_output). ERROR_DEVICE: no such device;
 * ERROR_ARGUMENT: its name has a wrong number or option. */
REED_API REED_MUST_CHECK reed_status reed_tensor_open_on(const char *device, reed_dtype dtype, int32_t rank,
                                                         const int64_t *dims, reed_tensor **out_tensor,
                                                         reed_diagnosis *diagnosis);
REED_API reed_tensor *reed_tensor_retain(reed_tensor *tensor);
/* Drops one reference and sets the pointer to NULL. A NULL tensor is allowed. */
REED_API void reed_tensor_close(reed_tensor **tensor);

REED_API reed_dtype reed_tensor_dtype(const reed_tensor *tensor);
REED_API int32_t reed_tensor_rank(const reed_tensor *tensor);
REED_API const int64_t *reed_tensor_dims(const reed_tensor *tensor);
REED_API int64_t reed_tensor_elements(const reed_tensor *tensor);
/* Bytes of the elements, without gaps between them. */
REED_API int64_t reed_tensor_bytes(const reed_tensor *tensor);
/* Steps from one index of each axis to the next, in elements; as many as the rank. */
REED_API const int64_t *reed_tensor_strides(const reed_tensor *tensor);
/* True if the elements lie dense in row-major order. Strides of axes of extent 0 or 1 do not count. */
REED_API bool reed_tensor_is_dense(const reed_tensor *tensor);
/* True for a tensor with DLPack's flag that its elements must not be written. Reed never writes inputs, and refuses
 * such a tensor as the memory of an output. */
REED_API bool reed_tensor_is_read_only(const reed_tensor *tensor);
/* "host", or the name of the device on which the elements lie. Valid as long as the tensor. */
REED_API const char *reed_tensor_device(const reed_tensor *tensor);
/* The first element, for the host; NULL if the tensor lies on a device (reed_tensor_to_host makes a copy). Elements of
 * a tensor that is not dense are found by reed_tensor_strides. */
REED_API void *reed_tensor_data(const reed_tensor *tensor);
/* The first element's address in memory of the tensor's device, for functions of that device. */
REED_API void *reed_tensor_address(const reed_tensor *tensor);

/* A dense tensor of the host with the same elements: a copy, or a second reference if the tensor is one already.
 * The call waits for the copy. */
REED_API REED_MUST_CHECK reed_status reed_tensor_to_host(reed_tensor *tensor, reed_tensor **out_tensor,
                                                         reed_diagnosis *diagnosis);
/* The same on the device of that name, or on the host for "host". ERROR_DEVICE: no such device. */
REED_API REED_MUST_CHECK reed_status reed_tensor_to_device(reed_tensor *tensor, const char *device,
                                                           reed_tensor **out_tensor, reed_diagnosis *diagnosis);

/* ---- DLPack ----
 * DLDevice: the host is kDLCPU, a device has the type of its kind (cuda: kDLCUDA; sim: kDLExtDev) and its number. A
 * managed tensor of a device is taken if its address is memory of an open device of that type and number, or of one
 * that opens. Strides and byte_offset are kept as they are; a session copies an input that is not dense, once a run,
 * and counts the copy. */

/* A DLPack view of the same memory. The view holds a reference to the tensor; its deleter drops this reference.
 * ERROR_UNSUPPORTED for a read-only tensor, because this form cannot say so. */
REED_API REED_MUST_CHECK reed_status reed_tensor_to_dlpack(reed_tensor *tensor, DLManagedTensor **out_managed);
/* Takes `managed` (its deleter runs when the last reference goes). ERROR_UNSUPPORTED for a dtype, rank (above 8),
 * lanes or device that Reed has not, ERROR_SHAPE or ERROR_ARGUMENT for a tensor that cannot be; then `managed` stays
 * the caller's. */
REED_API REED_MUST_CHECK reed_status reed_tensor_from_dlpack(DLManagedTensor *managed, reed_tensor **out_tensor);
/* The same in the form of DLPack 1.x. `copy`: the view is of a dense copy on the same device that nobody else uses, and
 * DLPACK_FLAG_BITMASK_IS_COPIED is set. A read-only tensor's view has DLPACK_FLAG_BITMASK_READ_ONLY. */
REED_API REED_MUST_CHECK reed_status reed_tensor_to_dlpack_versioned(reed_tensor *tensor, bool copy,
                                                                     struct DLManagedTensorVersioned **out_managed,
                                                                     reed_diagnosis *diagnosis);
/* ERROR_UNSUPPORTED also for another major version than 1: then nothing of `managed` but its version is read. */
REED_API REED_MUST_CHECK reed_status reed_tensor_from_dlpack_versioned(struct DLManagedTensorVersioned *managed,
                                                                       reed_tensor **out_tensor,
                                                                       reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif
#endif
