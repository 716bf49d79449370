/* Convolutions by cuDNN. Called within the context and under the libraries' lock, which is taken before the device's.
 */
#ifndef DEVICE_CUDA_CONVOLUTIONS_H_
#define DEVICE_CUDA_CONVOLUTIONS_H_

#include "device/cuda/weights.h"

typedef struct convolutions convolutions;

/* NULL: no memory. `always`: as in library_memory. */
convolutions *convolutions_open(bool always);
void convolutions_close(convolutions *of);
void convolutions_close_queue(convolutions *of, cuda_queue *queue);
/* True for launches that the library may take. */
bool convolutions_take(cuda_kernel_id kernel);
/* Enqueues the launch by the library, if the library takes it and is chosen for it; *out_done says so. */
reed_status convolutions_launch(convolutions *of, weights_copies *weights, cuda_queue *queue, const cuda_ready *own,
                                bool *out_done, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
