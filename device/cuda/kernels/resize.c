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

/* True if two neighbouring axes of f32 or halves, or of any dtype if elements are only copied, are resized within small
 * tensors. The args are then those of the axes (outer, rows, columns, channels). */
static bool as_planes(const reed_desc *x, int64_t n_taps, resize_args *made) {
  const int32_t axis = made->parts[0].axis;
  const bool copies = made->mode == MODE_NEAREST,
             mixes = x->dtype == REED_F32 || x->dtype == REED_F16 || x->dtype == REED_BF16;
  if (made->n_parts != 2 || made->parts[1].axis != axis + 1 || made->mapping == MAP_CROP ||
      (axis == 0 && made->counted.capacity) || !(copies || mixes) || made->n > INT32_MAX || n_taps > INT32_MAX ||
      desc_elements(x) > INT32_MAX)
    return false;
  const int64_t inner = made->strides[axis + 1],
                extents[] = {cpu_product(x->dims, 0, axis), made->extents[axis], made->extents[axis + 1], inner},
                strides[] = {x->dims[axis] * made->strides[axis], made->strides[axis], inner, 1};
  made->rank = 4;
  for (int32_t d = 0; d < made->rank; d++) made->extents[d] = extents[d], made->strides[d] = strides[d];
  for (int32_t p = 0; p < 2; p++) made->parts[p].axis = 1 + p;
  return true;
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
    const bool planes = as_planes(x, n_taps, &made);
    const int64_t part = planes ? cuda_channels_at_once(x->dtype, made.extents[3]) : 1;
    if (planes)
      made.n = made.extents[0] * ((made.extents[1] + RESIZE_ROWS - 1) / RESIZE_ROWS) * made.extents[2] *
               (made.extents[3] / part);
    cuda_plan_each(&plan,
                   part == 8   ? CUDA_resize_8
                   : part == 4 ? CUDA_resize_4
                   : planes    ? CUDA_resize_1
                               : CUDA_resize,
                   made.n, &made);
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
  const int64_t part = p.width % 4 ? 1 : 4, bands = (p.height + PASTE_ROWS - 1) / PASTE_ROWS;
  const paste_args made = {.n = p.masks * bands * (p.width / part),
                           .bands = bands,
                           .rows = p.rows,
                           .columns = p.columns,
                           .height = p.height,
                           .width = p.width,
                           .mapping = p.mapping,
                           .counted = cuda_counted(call)};
  if (made.n) {
    cuda_plan_each(&plan, part == 4 ? CUDA_paste_masks_4 : CUDA_paste_masks, made.n, &made);
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
