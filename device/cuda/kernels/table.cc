/* The kernels of kernels.def as the emulation runs them, in the table's order. */
#include "device/cuda/kernels/args.h"
#include "device/cuda/simt/simt.h"

#define CUDA_KERNEL(name, args, threads) extern "C" void reed_##name(const void *);
#include "device/cuda/kernels/kernels.def"

extern "C" __attribute__((visibility("hidden"))) const simt_kernel simt_kernels[] = {
#define CUDA_KERNEL(name, args, threads) {"reed_" #name, sizeof(args), alignof(args), threads, reed_##name},
#include "device/cuda/kernels/kernels.def"
};
