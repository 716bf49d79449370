/* Tensors that cross the API: a counted, dense row-major block of host memory whose shape never changes. */
#ifndef REED_TENSOR_H_
#define REED_TENSOR_H_

#include "reed/dlpack.h"
#include "reed/operator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct reed_tensor reed_tensor;

/* A zero-filled tensor in memory of its own. ERROR_SHAPE for a bad rank, extent or size. */
REED_API REED_MUST_CHECK reed_status reed_tensor_open(reed_dtype dtype, int32_t rank, const int64_t *dims,
                                                      reed_tensor **out_tensor);
/* A tensor over the caller's memory; the last close calls `release` (may be NULL) with `context`. */
REED_API REED_MUST_CHECK reed_status reed_tensor_open_borrowed(reed_dtype dtype, int32_t rank, const int64_t *dims,
                                                               void *data, void (*release)(void *context),
                                                               void *context, reed_tensor **out_tensor);
REED_API reed_tensor *reed_tensor_retain(reed_tensor *tensor);
/* Drops one reference and sets the pointer to NULL. A NULL tensor is allowed. */
REED_API void reed_tensor_close(reed_tensor **tensor);

REED_API reed_dtype reed_tensor_dtype(const reed_tensor *tensor);
REED_API int32_t reed_tensor_rank(const reed_tensor *tensor);
REED_API const int64_t *reed_tensor_dims(const reed_tensor *tensor);
REED_API int64_t reed_tensor_elements(const reed_tensor *tensor);
REED_API int64_t reed_tensor_bytes(const reed_tensor *tensor);
REED_API void *reed_tensor_data(const reed_tensor *tensor);

/* A DLPack view of the same memory. The view holds a reference to the tensor; its deleter drops this reference. */
REED_API REED_MUST_CHECK reed_status reed_tensor_to_dlpack(reed_tensor *tensor, DLManagedTensor **out_managed);
/* Takes `managed` (its deleter runs when the last reference goes). Host memory, dense row-major and lanes 1 only: else
 * ERROR_UNSUPPORTED and `managed` stays the caller's. */
REED_API REED_MUST_CHECK reed_status reed_tensor_from_dlpack(DLManagedTensor *managed, reed_tensor **out_tensor);

#ifdef __cplusplus
}
#endif
#endif
