/* Stands in for the emulation of threads (device/cuda/simt/, kernels/table.cc) in a build without a C++ compiler: the
 * kernels' names and args, with which launches are planned and checked. With values=1 in the device's name the host's
 * kernels compute the results, so `vm plan` needs no emulated thread; without it the device is refused (open.c). */
#include <stdio.h>

#include "device/cuda/fake/state.h"
#include "device/cuda/kernels/args.h"
#include "device/cuda/kernels/kernel.h"

extern const simt_kernel simt_kernels[CUDA_KERNELS];
const simt_kernel simt_kernels[CUDA_KERNELS] = {
#define CUDA_KERNEL(name, args, threads) {"reed_" #name, sizeof(args), _Alignof(args), threads, NULL},
#include "device/cuda/kernels/kernels.def"
};

bool simt_run(const simt_launch *launch, char *out_error, size_t capacity) {
  snprintf(out_error, capacity, "%s: this build emulates no threads", launch->kernel->name);
  return false;
}
