/* The kernels of the emulated module, in place of a fat binary: the table of those that are compiled for the
 * emulation. */
#include "device/cuda/fake/state.h"
#include "device/cuda/kernels/kernel.h"

extern const simt_kernel simt_kernels[CUDA_KERNELS];
static const fake_image kernels = {simt_kernels, CUDA_KERNELS};
const void *const fake_images[] = {&kernels, NULL};
const cuda_proof cuda_proofs[] = {{0}};
