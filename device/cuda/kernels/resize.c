/* Launches of Resize, PasteMasks and Keypoints. */
#include "ops/cpu/calls/resize.h"

#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/calls/keypoints.h"
#include "ops/cpu/calls/paste.h"

/* Adds the places of the tables of index, weight and outside in the workspace. */
static void add_tables(cuda_plan *plan, const resize_args *made, int64_t n_taps, bool writes) {
  const int64_t taps = cuda_round_up(n_taps * 4);
  CUDA_PART(plan, resize_args, index, CUDA_FROM_WORKSPACE, 0, 0, n_taps * 4, writes);
  CUDA_PART(plan, resize_args, weight, CUDA_FROM_WORKSPACE, 0, taps, n_taps * 4, writes);
  if (made->mapping == MAP_CROP)
    CUDA_PART(plan, resize_args, outside, CUDA_FROM_WORKSPACE, 0, 2 * taps, made->positions, writes);
}

reed_status cuda_prepare_resize(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  cuda_plan plan = {.call = call};
  resize_settings s;
  resize_scaling scalings[REED_MAX_RANK];
  resize_read(call, &s, scalings);
  resize_args made = {.cubic_a = s.cubic_a,
                      .extrapolation = (double)(float)op_attr_float(call->attrs, "extrapolation_value"),
                      .n = desc_elements(y),
                      .rank = y->rank,
                      .counted = cuda_counted(call),
                      .dtype = x->dtype,
                      .size = (int32_t)reed_dtype_bytes(x->dtype),
                      .mapping = s.mapping,
                      .mode = s.mode,
                      .nearest = s.nearest,
                      .antialias = s.antialias,
                      .exclude_outside = s.exclude_outside};
  int64_t n_taps = 0;
  memcpy(made.extents, y->dims, sizeof made.extents);
  cpu_dense_strides(x->rank, x->dims, made.strides);
  for (int32_t d = 0; d < x->rank; d++) {
    const resize_scaling *a = &scalings[d];
    if (resize_stays(a)) continue;
    resize_part *part = &made.parts[made.n_parts++];
    *part = (resize_part){.scale = a->scale,
                          .crop_begin = a->crop_begin,
                          .crop_end = a->crop_end,
                          .in = a->in,
                          .out = a->out,
                          .first = n_taps,
                          .first_place = made.positions,
                          .axis = d};
    const reed_status status = resize_taps_of(call, &s, a, &part->taps);
    if (status) return status;
    n_taps += part->taps * part->out;
    made.positions += part->out;
  }
  if (made.n && made.positions) {
    cuda_plan_each(&plan, CUDA_resize_tables, made.positions, &made);
    add_tables(&plan, &made, n_taps, true);
  }
  if (made.n) {
    cuda_plan_each(&plan, CUDA_resize, made.n, &made);
    cuda_plan_count(&plan, offsetof(resize_args, counted));
    CUDA_INPUT(&plan, resize_args, x, 0);
    CUDA_OUTPUT(&plan, resize_args, y, 0);
    add_tables(&plan, &made, n_taps, false);
  }
  return cuda_plan_close(&plan, made.n ? 2 * cuda_round_up(n_taps * 4) + made.positions : 0, out_kernel);
}

reed_status cuda_prepare_paste_masks(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  paste p;
  const reed_status status = paste_read(call, &p);
  if (status) return status;
  const paste_args made = {.n = p.masks * p.height * p.width,
                           .rows = p.rows,
                           .columns = p.columns,
                           .height = p.height,
                           .width = p.width,
                           .mapping = p.mapping,
                           .counted = cuda_counted(call)};
  if (made.n) {
    cuda_plan_each(&plan, CUDA_paste_masks, made.n, &made);
    cuda_plan_count(&plan, offsetof(paste_args, counted));
    CUDA_INPUT(&plan, paste_args, masks, 0);
    CUDA_INPUT(&plan, paste_args, boxes, 1);
    CUDA_OUTPUT(&plan, paste_args, y, 0);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_keypoints(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  keypoints p;
  const reed_status status = keypoints_read(call, &p);
  if (status) return status;
  const keypoints_args made = {.cubic_a = p.cubic_a,
                               .channels = p.channels,
                               .rows = p.rows,
                               .columns = p.columns,
                               .lanes = p.lanes,
                               .counted = cuda_counted(call),
                               .mapping = p.mapping};
  if (p.n > 0 && p.channels > 0) {
    cuda_plan_launch(&plan, CUDA_keypoints, p.n * p.channels, 0, &made);
    cuda_plan_count(&plan, offsetof(keypoints_args, counted));
    CUDA_INPUT(&plan, keypoints_args, maps, KEYPOINTS_MAPS);
    CUDA_INPUT(&plan, keypoints_args, left, KEYPOINTS_LEFT);
    CUDA_INPUT(&plan, keypoints_args, top, KEYPOINTS_TOP);
    CUDA_INPUT(&plan, keypoints_args, width, KEYPOINTS_WIDTH);
    CUDA_INPUT(&plan, keypoints_args, height, KEYPOINTS_HEIGHT);
    CUDA_INPUT(&plan, keypoints_args, columns_of, KEYPOINTS_COLUMNS);
    CUDA_INPUT(&plan, keypoints_args, rows_of, KEYPOINTS_ROWS);
    CUDA_OUTPUT(&plan, keypoints_args, points, 0);
    CUDA_OUTPUT(&plan, keypoints_args, peaks, 1);
    CUDA_FAULT(&plan, keypoints_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}
