/* The kernels of the CUDA module, and the runs that have proven them on a card. The build makes both headers: from the
 * compiled kernels (device/cuda/images.sh), and from their PTX and tests/cuda/verified.tsv (device/cuda/proofs.py).
 * Those of the emulated module: device/cuda/fake/image.c. */
#include "device/cuda/driver/driver.h"

#include "device/cuda/cuda_images.h"
#include "device/cuda/cuda_proofs.h"
