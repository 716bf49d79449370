/* A kernel case's call with counts that only the device knows: an axis of one or more inputs keeps its extent as the
 * true one, and gets a larger bound. */
#ifndef TESTS_DEVICE_CUDA_KERNELS_COUNTED_CASE_H_
#define TESTS_DEVICE_CUDA_KERNELS_COUNTED_CASE_H_

#include "tests/ops/cpu/case_parts.h"

typedef struct counted_case {
  op_call call; /* at the bound */
  op_call_input in[CASE_INPUTS];
  reed_desc descs[CASE_INPUTS], out[CASE_OUTPUTS]; /* at the bound */
  reed_room in_rooms[CASE_INPUTS], out_rooms[CASE_OUTPUTS];
  int64_t counts[CASE_INPUTS]; /* of the counted inputs */
  int32_t reporter;            /* the output whose extent the kernel reports because no input has it; -1: none */
  int64_t reported;            /* this extent */
} counted_case;

/* Tries the axes of the inputs that may be counted together, as the rule of ops/bound.def for the operator says, and
 * compares what the rule says of each with the shape function at the bound and at the true extents. *out: one of the
 * ways that the rule allows, by `choice`. False: the rule allows none. */
bool counted_case_make(kernel_case *c, const case_call *made, uint64_t choice, counted_case *out);

#endif
