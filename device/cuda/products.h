/* Products by cuBLASLt. Called within the context and under the libraries' lock, which is taken before the device's. */
#ifndef DEVICE_CUDA_PRODUCTS_H_
#define DEVICE_CUDA_PRODUCTS_H_

#include "device/cuda/weights.h"

typedef struct products products;

/* NULL: no memory. `always`: as in library_memory. */
products *products_open(bool always);
void products_close(products *of);
/* True for launches that the library may take. */
bool products_take(cuda_kernel_id kernel);
/* Enqueues the launch by the library, if the library takes it and is chosen for it; *out_done says so. */
reed_status products_launch(products *of, weights_copies *weights, cuda_queue *queue, const cuda_ready *own,
                            bool *out_done, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
