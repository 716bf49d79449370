/* The record that a kernel on the device fills when its data are at fault; one a queue. C, C++ and CUDA read this file.
 * The sentence from the record: ops/fault.h. */
#ifndef DEVICE_CUDA_KERNELS_FAULT_H_
#define DEVICE_CUDA_KERNELS_FAULT_H_

#include <stdint.h>

/* The layout of reed_fault (reed/operator.h), which device code does not include. */
typedef struct cuda_fault_record {
  int32_t code, operand;
  int64_t element, value, limit;
} cuda_fault_record;

/* In pinned host memory that the device can write. A kernel at fault takes the record with atomicCAS(&taken, 0, 1) and
 * then fills the other fields; the first taker's record stays until the queue has been synchronized. */
typedef struct cuda_fault {
  int32_t taken;
  uint32_t launch; /* the launch's number, from the kernel's args */
  cuda_fault_record record;
} cuda_fault;

#endif
