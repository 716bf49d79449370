/* Inside vm/: API tensors made of the interpreter's storage. */
#ifndef VM_TENSOR_H_
#define VM_TENSOR_H_

#include "base/tensor.h"
#include "reed/tensor.h"

/* A tensor of `desc` at `data`, which lives in `owner`: takes the caller's reference to it, on success only. `desc` must be valid
 * (desc_bytes >= 0) and the memory the host's. ERROR_MEMORY. */
reed_status tensor_open_storage(const reed_desc *desc, void *data, storage *owner, reed_tensor **out_tensor) REED_MUST_CHECK;
/* The descriptor in one piece; lives as long as the tensor. */
const reed_desc *tensor_desc(const reed_tensor *tensor);

#endif
