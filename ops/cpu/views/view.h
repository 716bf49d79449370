/* A call as ONNX writes it, for kernels that take weights and images as they lie in memory: the geometry is read from
 * the call that is seen, the order in memory from the view. */
#ifndef OPS_CPU_VIEWS_VIEW_H_
#define OPS_CPU_VIEWS_VIEW_H_

#include "ops/cpu/views/channels.h"
#include "ops/cpu/views/unpack.h"

/* Must stay where it is while it is used. */
typedef struct cpu_view {
  const reed_kernel_call *call; /* weights with plain extents, images with channels second */
  bool last;                    /* images have their channels last in memory */
  const packed_order *order;    /* of the weights in memory; NULL: as ONNX has them */
  unpack_view unpack;
  channels_view channels;
} cpu_view;

/* images: inputs that are images where attribute channels_last is set, a bit each; every output is. An X whose
 * channels come first all the same (channels_first_input) is not meant to be turned. */
reed_status cpu_view_init(const reed_kernel_call *call, uint32_t images, cpu_view *out_view) REED_MUST_CHECK;

#endif
