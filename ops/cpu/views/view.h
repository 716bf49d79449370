/* A call as ONNX defines it, for kernels that read weights and images in their memory order: the geometry comes from
 * the seen call, the order in memory from the view. */
#ifndef OPS_CPU_VIEWS_VIEW_H_
#define OPS_CPU_VIEWS_VIEW_H_

#include "ops/cpu/views/channels.h"
#include "ops/cpu/views/unpack.h"
#include "ops/facts.h"

/* Must stay at its address while it is used. */
typedef struct cpu_view {
  const reed_kernel_call *call; /* weights with plain extents, images with channels second */
  bool last;                    /* images have their channels last in memory */
  const op_conv_facts *facts;   /* of a Conv with packed weights; NULL: not known */
  const packed_order *order;    /* of the packed weights in memory; NULL: the weights are plain */
  unpack_view unpack;
  channels_view channels;
} cpu_view;

/* images: bit i: input i is an image if attribute channels_last is set; every output is an image. An X with
 * channels_first_input is not transposed. */
reed_status cpu_view_init(const reed_kernel_call *call, uint32_t images, cpu_view *out_view) REED_MUST_CHECK;

#endif
