/* Launches of RoiAlign, MultiLevelRoiAlign, MaxRoiPool and torchvision's operators on regions. */
#include "ops/cpu/calls/roi_align.h"

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/cpu/views/view.h"

static reed_status prepare_roi_align(const reed_kernel_call *call, uint32_t images, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  cpu_view view;
  roi_call c;
  reed_status status = cpu_view_init(call, images, &view);
  if (status == REED_OK) status = roi_call_read(view.call, &c);
  if (status) return status;
  const roi_align *one = &c.maps[0];
  roi_args made = {.n = c.regions * one->channels * one->bins_y * one->bins_x,
                   .channels = one->channels,
                   .bins_y = one->bins_y,
                   .bins_x = one->bins_x,
                   .sampling = one->sampling,
                   .dtype = c.dtype,
                   .size = (int32_t)reed_dtype_bytes(c.dtype),
                   .maximum = one->max,
                   .half_pixel = one->half_pixel,
                   .last = view.last,
                   .n_maps = c.n_maps,
                   .image_operand = c.at.images,
                   .counted = cuda_counted(call)};
  int64_t most = made.n; /* elements of the output, and of an image */
  for (int32_t k = 0; k < c.n_maps; k++) {
    const roi_align *map = &c.maps[k];
    made.maps[k] = (roi_map){.scale = map->scale, .images = map->images, .height = map->height, .width = map->width};
    if (map->height * map->width * made.channels > most) most = map->height * map->width * made.channels;
  }
  if (made.n) {
    const bool in_parts = made.last && made.size < 8 && made.channels % ROI_CHANNELS == 0 && most <= INT32_MAX;
    cuda_plan_each(&plan,
                   !in_parts        ? CUDA_roi_align
                   : made.size == 4 ? CUDA_roi_align_4
                                    : CUDA_roi_align_8,
                   in_parts ? made.n / ROI_CHANNELS : made.n, &made);
    cuda_plan_count(&plan, offsetof(roi_args, counted));
    CUDA_INPUT(&plan, roi_args, regions, c.at.regions);
    CUDA_INPUT(&plan, roi_args, image_of, c.at.images);
    if (c.at.levels >= 0) CUDA_INPUT(&plan, roi_args, level_of, c.at.levels);
    for (int32_t k = 0; k < c.n_maps; k++) CUDA_INPUT(&plan, roi_args, maps[k].x, c.at.maps + k);
    CUDA_OUTPUT(&plan, roi_args, y, 0);
    CUDA_FAULT(&plan, roi_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

reed_status cuda_prepare_roi_align(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_roi_align(call, 1u << 0, out_kernel);
}
reed_status cuda_prepare_multi_level_roi_align(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_roi_align(call, ~7u, out_kernel);
}

static roi_pool_args args_of(const reed_kernel_call *call, const roi_call *c) {
  const roi_align *r = &c->maps[0];
  return (roi_pool_args){.n = desc_elements(&call->outputs[0]),
                         .regions_n = c->regions,
                         .images = r->images,
                         .channels = r->channels,
                         .outputs = roi_outputs(r),
                         .height = r->height,
                         .width = r->width,
                         .bins_y = r->bins_y,
                         .bins_x = r->bins_x,
                         .sampling = r->sampling,
                         .scale = r->scale,
                         .dtype = c->dtype,
                         .regions_dtype = c->regions_dtype,
                         .columns = c->columns,
                         .kind = (int32_t)r->kind,
                         .half_pixel = r->half_pixel,
                         .last = c->last,
                         .counted = cuda_counted(call)};
}

reed_status cuda_prepare_roi_pool(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  roi_call c;
  const reed_status status = roi_call_read_pooling(call, &c);
  if (status) return status;
  const roi_pool_args made = args_of(call, &c);
  if (made.n) {
    cuda_plan_each(&plan, CUDA_roi_pool, made.n, &made);
    cuda_plan_count(&plan, offsetof(roi_pool_args, counted));
    CUDA_INPUT(&plan, roi_pool_args, x, 0);
    CUDA_INPUT(&plan, roi_pool_args, regions, 1);
    CUDA_OUTPUT(&plan, roi_pool_args, y, 0);
    if (c.has_argmax) CUDA_OUTPUT(&plan, roi_pool_args, argmax, 1);
    CUDA_FAULT(&plan, roi_pool_args, fault, launch);
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

/* The regions' boxes, then the map's gradient. */
reed_status cuda_prepare_roi_pool_backward(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  roi_call c;
  const reed_status status = roi_call_read_pooling(call, &c);
  if (status) return status;
  const bool by_argmax = c.maps[0].kind == ROI_POOL;
  const int64_t boxes = c.regions * (int64_t)sizeof(roi_box);
  const roi_pool_args made = args_of(call, &c);
  if (c.regions) {
    cuda_plan_each(&plan, CUDA_roi_boxes, 32 * c.regions, &made);
    CUDA_INPUT(&plan, roi_pool_args, regions, c.at.regions);
    if (by_argmax) CUDA_INPUT(&plan, roi_pool_args, argmax, c.at.argmax);
    CUDA_PART(&plan, roi_pool_args, boxes, CUDA_FROM_WORKSPACE, 0, 0, boxes, true);
    CUDA_FAULT(&plan, roi_pool_args, fault, launch);
  }
  if (made.n) {
    cuda_plan_each(&plan, CUDA_roi_pool_backward, made.n, &made);
    CUDA_INPUT(&plan, roi_pool_args, x, 0);
    CUDA_INPUT(&plan, roi_pool_args, regions, c.at.regions);
    if (by_argmax) CUDA_INPUT(&plan, roi_pool_args, argmax, c.at.argmax);
    CUDA_PART(&plan, roi_pool_args, boxes, CUDA_FROM_WORKSPACE, 0, 0, boxes, false);
    CUDA_OUTPUT(&plan, roi_pool_args, y, 0);
  }
  return cuda_plan_close(&plan, boxes, out_kernel);
}
