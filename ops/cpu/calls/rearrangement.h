/* Calls of Transpose, Expand, Tile, Slice, DepthToSpace and SpaceToDepth as one rearrangement of input 0: element
 * (i0, i1, ...) of output 0, which is dense over `extents`, is element offset + i0 * from[0] + i1 * from[1] + ... of
 * the input. */
#ifndef OPS_CPU_CALLS_REARRANGEMENT_H_
#define OPS_CPU_CALLS_REARRANGEMENT_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/common/strided.h"

typedef struct rearrangement {
  int32_t rank;
  int64_t extents[STRIDED_MAX_RANK];
  int64_t from[STRIDED_MAX_RANK], offset; /* elements */
  bool roomy;                             /* made from cpu_input_strides, so input 0 may have room */
} rearrangement;

typedef reed_status (*rearrangement_fn)(const reed_kernel_call *call, rearrangement *out);
reed_status rearrangement_of_transpose(const reed_kernel_call *call, rearrangement *out) REED_MUST_CHECK;
reed_status rearrangement_of_expand(const reed_kernel_call *call, rearrangement *out) REED_MUST_CHECK;
reed_status rearrangement_of_tile(const reed_kernel_call *call, rearrangement *out) REED_MUST_CHECK;
reed_status rearrangement_of_slice(const reed_kernel_call *call, rearrangement *out) REED_MUST_CHECK;
reed_status rearrangement_of_depth_to_space(const reed_kernel_call *call, rearrangement *out) REED_MUST_CHECK;
reed_status rearrangement_of_space_to_depth(const reed_kernel_call *call, rearrangement *out) REED_MUST_CHECK;

#endif
