/* Copies of whole tensors between host and devices, dense or strided, that are done when the call returns. For tensors
 * outside of sessions, and for inputs and outputs of a run before its first and after its last instruction. Copies by
 * instructions: copy.c. */
#ifndef VM_TRANSFER_H_
#define VM_TRANSFER_H_

#include "vm/tensor.h"

/* One side of a transfer. */
typedef struct transfer_side {
  void *data;
  const int64_t *strides; /* elements */
  device *on;             /* NULL: the host */
  device_queue *compute;  /* for copies to the device and within it; is waited for */
  device_queue *copies;   /* for copies to the host */
} transfer_side;

/* Copies the elements of a tensor of that desc; source and target do not overlap. Other work of the queues is waited
 * for, such as the poisoning of the target's memory. */
reed_status transfer(const transfer_side *target, const transfer_side *source, const reed_desc *desc,
                     reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* The tensor as a side with queues of its own, which transfer_close closes. On failure nothing is open. */
reed_status transfer_open(const reed_tensor *tensor, transfer_side *out_side,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;
void transfer_close(transfer_side *side);

#endif
