/* The kernels and proofs of a CUDA module without images, made up: those of made_up.ptx and made_up.tsv, for
 * check_proofs.py. In place of device/cuda/driver/images.c. */
#include "device/cuda/driver/driver.h"

#include "made_up_proofs.h"

const void *const cuda_images[] = {0};
