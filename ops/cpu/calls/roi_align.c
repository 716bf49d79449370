/* Reading a call that pools regions, and the samples of a bin that can lie on the map. */
#include "ops/cpu/calls/roi_align.h"

#include <math.h>

#define SAMPLES_MAX 256 /* per bin and axis; models have 2 or 4. A file must not be able to ask for 2^62 */

/* Reads one map's part of the call and widens c->widest to hold the map. */
static reed_status read_map(const reed_kernel_call *call, roi_call *c, int32_t k, double scale) {
  const reed_desc *x = &call->inputs[c->at.maps + k], *y = &call->outputs[0];
  if (x->rank != 4 || y->rank != 4 || x->dims[1] != y->dims[1]) {
    char a[96], b[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "feature map %s and output %s do not go together",
                            desc_text(x, a, sizeof a), desc_text(y, b, sizeof b));
  }
  int64_t sampling = op_attr_int(call->attrs, "sampling_ratio");
  if (sampling > SAMPLES_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "sampling_ratio %lld, at most %d is supported",
                            (long long)sampling, SAMPLES_MAX);
  if (x->dims[2] > INT32_MAX || x->dims[3] > INT32_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "the feature map is too large");
  c->maps[k] = (roi_align){
      .max = strcmp(op_attr_string(call->attrs, "mode"), "max") == 0,
      .half_pixel = strcmp(op_attr_string(call->attrs, "coordinate_transformation_mode"), "half_pixel") == 0,
      .sampling = sampling,
      .scale = scale,
      .images = x->dims[0],
      .channels = x->dims[1],
      .height = x->dims[2],
      .width = x->dims[3],
      .bins_y = y->dims[2],
      .bins_x = y->dims[3],
  };
  if (!k) c->widest = c->maps[0];
  if (c->widest.height < x->dims[2]) c->widest.height = x->dims[2];
  if (c->widest.width < x->dims[3]) c->widest.width = x->dims[3];
  return REED_OK;
}

reed_status roi_call_read(const reed_kernel_call *call, roi_call *c) {
  static const roi_operands one_map = {.regions = 1, .images = 2, .levels = -1, .maps = 0, .argmax = -1},
                            leveled = {.regions = 0, .images = 1, .levels = 2, .maps = 3, .argmax = -1};
  bool is_leveled = call->op == op_builtin(OP_MultiLevelRoiAlign);
  *c = (roi_call){
      .at = is_leveled ? leveled : one_map,
      .columns = 4,
      .team = cpu_env_team(call),
      .level = cpu_level_now(),
  };
  c->n_maps = is_leveled ? call->n_inputs - c->at.maps : 1;
  const reed_attr *scales = is_leveled ? reed_attrs_find(call->attrs, "spatial_scales") : NULL;
  if (c->n_maps < 1 || c->n_maps > ROI_MAPS_MOST || (is_leveled && (!scales || scales->n != c->n_maps)))
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%d feature maps with %lld scales", (int)c->n_maps,
                            (long long)(scales ? scales->n : 1));
  const reed_desc *regions = &call->inputs[c->at.regions], *images = &call->inputs[c->at.images];
  if (regions->rank != 2 || regions->dims[1] != 4 || desc_elements(images) < regions->dims[0] ||
      (is_leveled && desc_elements(&call->inputs[c->at.levels]) < regions->dims[0])) {
    char a[96], b[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "rois %s and batch_indices %s%s do not go together",
                            desc_text(regions, a, sizeof a), desc_text(images, b, sizeof b),
                            is_leveled ? ", or levels," : "");
  }
  c->dtype = c->regions_dtype = regions->dtype;
  c->regions = regions->dims[0];
  reed_status status = REED_OK;
  for (int32_t k = 0; k < c->n_maps && status == REED_OK; k++)
    status = read_map(call, c, k, scales ? scales->floats[k] : op_attr_float(call->attrs, "spatial_scale"));
  return status;
}

/* ---- torchvision's operators and MaxRoiPool ---- */

/* THE table of the operators on regions: the forward ones and, by their side, the backward ones. */
static const struct {
  op_id op;
  roi_kind kind;
  bool backward;
  const char *height, *width; /* attributes; width NULL: `height` has both numbers */
} poolings[] = {
    {OP_MaxRoiPool, ROI_POOL, false, "pooled_shape", NULL},
    {OP_roi_align, ROI_ALIGN, false, "pooled_height", "pooled_width"},
    {OP_roi_align_backward, ROI_ALIGN, true, "pooled_height", "pooled_width"},
    {OP_roi_pool, ROI_POOL, false, "pooled_height", "pooled_width"},
    {OP_roi_pool_backward, ROI_POOL, true, "pooled_height", "pooled_width"},
    {OP_ps_roi_align, ROI_PS_ALIGN, false, "pooled_height", "pooled_width"},
    {OP_ps_roi_align_backward, ROI_PS_ALIGN, true, "pooled_height", "pooled_width"},
    {OP_ps_roi_pool, ROI_PS_POOL, false, "pooled_height", "pooled_width"},
    {OP_ps_roi_pool_backward, ROI_PS_POOL, true, "pooled_height", "pooled_width"},
};

reed_status roi_call_read_pooling(const reed_kernel_call *call, roi_call *c) {
  size_t row = 0;
  while (op_builtin(poolings[row].op) != call->op) row++;
  bool backward = poolings[row].backward;
  *c = (roi_call){.at = {.regions = 1, .images = -1, .levels = -1, .maps = 0, .argmax = backward ? 2 : -1},
                  .backward = backward,
                  .team = cpu_env_team(call),
                  .level = cpu_level_now(),
                  .n_maps = 1};
  const reed_desc *map = backward ? &call->outputs[0] : &call->inputs[0], *regions = &call->inputs[1];
  const reed_attr *last = reed_attrs_find(call->attrs, "channels_last"),
                  *sampling = reed_attrs_find(call->attrs, "sampling_ratio"),
                  *aligned = reed_attrs_find(call->attrs, "aligned");
  c->dtype = map->dtype;
  c->regions_dtype = regions->dtype;
  c->regions = regions->dims[0];
  c->columns = (int32_t)regions->dims[1];
  c->last = last && last->i;
  c->has_argmax = call->n_outputs > 1 && call->outputs[1].dtype != REED_NONE;
  if ((regions->dtype == REED_F64) != (map->dtype == REED_F64))
    return reed_kernel_fail(call, REED_ERROR_TYPE, "regions are %s, the map is %s", reed_dtype_name(regions->dtype),
                            reed_dtype_name(map->dtype));
  const int64_t *dims = map->dims + (map->rank - 3); /* without the number of images */
  roi_align *r = &c->maps[0];
  *r = (roi_align){.kind = poolings[row].kind,
                   .half_pixel = poolings[row].kind == ROI_PS_ALIGN || (aligned && aligned->i),
                   .sampling = sampling ? sampling->i : 0,
                   .scale = op_attr_float(call->attrs, "spatial_scale"),
                   .images = map->rank == 4 ? map->dims[0] : 1,
                   .channels = dims[c->last ? 2 : 0],
                   .height = dims[c->last ? 0 : 1],
                   .width = dims[c->last ? 1 : 2]};
  const reed_attr *height = reed_attrs_find(call->attrs, poolings[row].height);
  r->bins_y = poolings[row].width ? height->i : height->ints[0];
  r->bins_x = poolings[row].width ? op_attr_int(call->attrs, poolings[row].width) : height->ints[1];
  c->widest = *r;
  if (r->sampling > SAMPLES_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "sampling_ratio %lld, at most %d is supported",
                            (long long)r->sampling, SAMPLES_MAX);
  if (r->height > INT32_MAX || r->width > INT32_MAX || (r->width && r->height > INT32_MAX / r->width))
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "the feature map is too large");
  return REED_OK;
}

/* ---- data ---- */

reed_status roi_call_check(const roi_call *c, const reed_kernel_buffers *buffers) {
  for (int64_t i = 0; i < c->regions; i++) {
    int32_t k = roi_map_of(c, buffers, i);
    if (k < 0) continue;
    const int64_t n = c->maps[k].images;
    if (c->at.images >= 0) {
      const int64_t image = ((const int64_t *)buffers->inputs[c->at.images])[i];
      if (image < 0 || image >= n) return reed_kernel_fault(buffers, REED_FAULT_IMAGE, c->at.images, i, image, n);
      continue;
    }
    const float image = c->columns == 5 ? roi_element(c, buffers, 5 * i) : 0; /* torchvision truncates it, too */
    if (!(image > -1 && image < 0x1p62f) || (int64_t)image >= n)
      return reed_kernel_fault(buffers, REED_FAULT_IMAGE_REAL, c->at.regions, i, cpu_bits_of((double)image), n);
  }
  return REED_OK;
}

void roi_samples(const roi_span *span, int64_t bin, int64_t extent, int64_t *out_begin, int64_t *out_end) {
  roi_samples_f64(&(roi_span_f64){(double)span->start, (double)span->bin, span->grid}, bin, extent, out_begin, out_end);
}

void roi_samples_f64(const roi_span_f64 *span, int64_t bin, int64_t extent, int64_t *out_begin, int64_t *out_end) {
  double origin = span->start + (double)bin * span->bin, step = span->bin / span->grid;
  double begin = 0, end = span->grid;
  if (step != 0 && end > 8) {
    /* two more samples on either side allow for rounding: the caller checks each sample again */
    double a = (-1 - origin) / step, b = ((double)extent - origin) / step;
    double low = floor(a < b ? a : b) - 2, high = ceil(a < b ? b : a) + 2;
    begin = low > 0 ? low : 0;
    end = high < end ? high : end;
  }
  bool some = end > begin && end < 0x1p62;
  *out_begin = some ? (int64_t)begin : 0;
  *out_end = some ? (int64_t)end : 0;
}
