/* Shapes of image and region operators: Resize (and Upsample, its older name), GridSample, RoiAlign,
 * MultiLevelRoiAlign, PasteMasks and Keypoints. Common helpers: call.h. */
#include <math.h>

#include "shapefuncs/call.h"

#define MAX_EXACT_F32 0x1p24 /* whole numbers up to here are floats */

/* In the order of op.def. */
typedef enum keep_policy { KEEP_STRETCH, KEEP_NOT_LARGER, KEEP_NOT_SMALLER } keep_policy;

typedef struct resize {
  int32_t axes[REED_MAX_RANK];
  int64_t n_axes;
  bool crops; /* tf_crop_and_resize */
} resize;

/* Reads the axes to which the lists refer: all axes without the attribute. */
static reed_status read_axes(reed_shape_call *call, resize *r) {
  int64_t n;
  bool known;
  const int64_t *given = reed_attrs_ints(call->attrs, "axes", &n);
  for (int32_t i = 0; i < REED_MAX_RANK; i++) r->axes[i] = i;
  r->n_axes = given ? n : call->inputs[0].rank;
  return given ? shapecall_axes(call, given, -1, n, call->inputs[0].rank, r->axes, &known) : REED_OK;
}

/* floor(extent * scale). The product is rounded to f32 like the scale, so that 10 * 0.7f gives 7, not floor(6.9999999).
 */
static int64_t scaled(int64_t extent, double scale) {
  double product = (double)extent * scale;
  return (int64_t)floor(product < MAX_EXACT_F32 && (double)extent <= MAX_EXACT_F32 ? (double)(float)product : product);
}

/* The extent of the list's axis k by its scale. Symbolic extents have a normal form for whole scales and for one
 * divided by a power of two. */
static reed_dim scaled_extent(reed_shape_call *call, const resize *r, int64_t k, reed_dim extent) {
  double scale, begin = 0, end = 1;
  if (!reed_shape_value_f64(call, 2, k, &scale)) return reed_dim_fresh(call);
  if (!(scale > 0) || scale > 0x1p40) {
    (void)reed_shape_fail(call, REED_ERROR_VALUE, 2, "scale %g", scale);
    return 0;
  }
  if (r->crops) {
    if (!reed_shape_value_f64(call, 1, k, &begin) || !reed_shape_value_f64(call, 1, r->n_axes + k, &end))
      return reed_dim_fresh(call);
    scale *= end - begin;
    if (!(scale >= 0) || scale > 0x1p40) {
      (void)reed_shape_fail(call, REED_ERROR_VALUE, 1, "region %g to %g", begin, end);
      return 0;
    }
  }
  if (!reed_dim_known(call, extent)) {
    double inverse = 1 / scale;
    int exponent;
    if (scale == floor(scale)) return reed_dim_mul(call, extent, (int64_t)scale);
    if (frexp(inverse, &exponent) == 0.5 && inverse >= 1 && inverse <= 0x1p40)
      return reed_dim_floordiv(call, extent, (int64_t)inverse);
    return reed_dim_fresh(call);
  }
  if ((double)extent * scale < 0x1p62) return scaled(extent, scale);
  (void)reed_shape_fail(call, REED_ERROR_SHAPE, 2, "extents overflow: %lld * %g", (long long)extent, scale);
  return 0;
}

/* sizes under keep_aspect_ratio_policy: one scale for all axes, the smallest (not_larger) or largest (not_smaller) of
 * size / extent; extents round(scale * extent), halves up (ONNX Resize-19). */
static reed_status keep_ratio(reed_shape_call *call, const resize *r, keep_policy policy, reed_dim *dims) {
  double best = 0;
  bool known = true;
  for (int64_t k = 0; k < r->n_axes; k++) {
    reed_dim extent = call->inputs[0].dims[r->axes[k]], size = dims[r->axes[k]];
    if (shapecall_is(call, extent, 0))
      return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "axis %d has no elements and no ratio to keep", r->axes[k]);
    known = known && reed_dim_known(call, extent) && reed_dim_known(call, size);
    double scale = known ? (double)size / (double)extent : 0;
    if (k == 0 || (policy == KEEP_NOT_LARGER ? scale < best : scale > best)) best = scale;
  }
  for (int64_t k = 0; k < r->n_axes; k++) {
    reed_dim *dim = &dims[r->axes[k]];
    double product = known ? best * (double)call->inputs[0].dims[r->axes[k]] : 0;
    if (product >= 0x1p62) return reed_shape_fail(call, REED_ERROR_SHAPE, 3, "extents overflow: %g", product);
    *dim = known ? (int64_t)floor(product + 0.5) : reed_dim_fresh(call);
  }
  return call->status;
}

static reed_status by_sizes(reed_shape_call *call, const resize *r, reed_dim *dims) {
  keep_policy policy = (keep_policy)op_attr_word(call->op, call->attrs, "keep_aspect_ratio_policy");
  reed_status status = REED_OK;
  for (int64_t k = 0; k < r->n_axes && !status; k++) {
    reed_dim size = reed_shape_value(call, 3, k);
    if (reed_dim_known(call, size) && size < 0)
      return reed_shape_fail(call, REED_ERROR_VALUE, 3, "size %lld", (long long)size);
    dims[r->axes[k]] = size;
    status = call->status;
  }
  return status || policy == KEEP_STRETCH ? status : keep_ratio(call, r, policy, dims);
}

/* The length of the list at `input`: 0 if absent, -1 if unknown. A list that is neither empty nor one element per axis
 * is an error. */
static reed_status list_length(reed_shape_call *call, int32_t input, int64_t wanted, int64_t *out_n) {
  *out_n = 0;
  if (!shapecall_has(call, input)) return REED_OK;
  reed_status status = shapecall_value_count(call, input, out_n);
  if (status || *out_n <= 0 || *out_n == wanted) return status;
  return reed_shape_fail(call, REED_ERROR_SHAPE, input, "has %lld elements where %lld are wanted", (long long)*out_n,
                         (long long)wanted);
}

/* Fails for an empty input with a non-empty output, because no element could be interpolated. */
static reed_status check_source(reed_shape_call *call, const reed_dim *dims) {
  const reed_shape_input *x = &call->inputs[0];
  bool empty = false, filled = true;
  for (int32_t i = 0; i < x->rank; i++) {
    empty = empty || shapecall_is(call, x->dims[i], 0);
    filled = filled && shapecall_at_least(call, dims[i], 1);
  }
  return empty && filled ? reed_shape_fail(call, REED_ERROR_SHAPE, 0, "cannot be resized: it has no elements")
                         : REED_OK;
}

reed_status shapefn_resize(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0];
  resize r = {.crops =
                  strcmp(op_attr_string(call->attrs, "coordinate_transformation_mode"), "tf_crop_and_resize") == 0};
  int64_t n_roi = 0, n_scales = 0, n_sizes = 0;
  reed_dim dims[REED_MAX_RANK];
  reed_status status = read_axes(call, &r);
  if (!status && r.crops) status = list_length(call, 1, 2 * r.n_axes, &n_roi);
  if (!status) status = list_length(call, 2, r.n_axes, &n_scales);
  if (!status) status = list_length(call, 3, r.n_axes, &n_sizes);
  if (status) return status;
  if (n_scales > 0 && n_sizes > 0)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 3, "both scales and sizes have elements");
  if (n_scales == 0 && n_sizes == 0 && r.n_axes)
    return reed_shape_fail(call, REED_ERROR_SHAPE, -1, "neither scales nor sizes have elements");
  if (r.crops && n_roi == 0)
    return reed_shape_fail(call, REED_ERROR_SHAPE, 1, "has no elements, which tf_crop_and_resize needs");
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  if (n_sizes > 0 || (n_sizes < 0 && n_scales == 0)) {
    status = by_sizes(call, &r, dims);
  } else {
    /* a list of unknown length may be the empty one of the two */
    for (int64_t k = 0; k < r.n_axes; k++)
      dims[r.axes[k]] = n_sizes < 0 ? reed_dim_fresh(call) : scaled_extent(call, &r, k, dims[r.axes[k]]);
    status = call->status;
  }
  if (!status) status = check_source(call, dims);
  if (!status) shapecall_set(call, 0, x->rank, dims);
  return status;
}

/* X [N,C,...] (or [N,...,C] with channels_last), grid [N,...,r] with as many axes -> [N,C,the grid's own extents] */
reed_status shapefn_grid_sample(reed_shape_call *call) {
  const reed_shape_input *x = &call->inputs[0], *grid = &call->inputs[1];
  reed_status status = shapecall_min_rank(call, 0, 3);
  if (!status) status = shapecall_rank(call, 1, x->rank);
  if (status) return status;
  shapecall_image image = shapecall_image_of(call, x->rank);
  reed_dim dims[REED_MAX_RANK];
  int32_t axes = x->rank - 2;
  status = shapecall_same(call, grid->dims[x->rank - 1], axes, 1, "the last extent and the number of X's spatial axes",
                          NULL);
  if (!status)
    status = shapecall_same(call, x->dims[0], grid->dims[0], 1, "the batches of X and of the grid", &dims[0]);
  if (status) return status;
  dims[image.channel] = x->dims[image.channel];
  for (int32_t d = 0; d < axes; d++) dims[image.spatial + d] = grid->dims[1 + d];
  shapecall_set(call, 0, x->rank, dims);
  return REED_OK;
}

/* rois [R,4] over maps with `channels` -> [R,channels,output_height,output_width];
 * [R,output_height,output_width,channels] with channels_last */
static reed_status align_regions(reed_shape_call *call, int32_t rois_input, reed_dim channels) {
  const reed_shape_input *rois = &call->inputs[rois_input];
  int64_t height = op_attr_int(call->attrs, "output_height"), width = op_attr_int(call->attrs, "output_width");
  reed_status status = shapecall_rank(call, rois_input, 2);
  if (!status) status = shapecall_same(call, rois->dims[1], 4, rois_input, "the last extent and 4", NULL);
  if (status) return status;
  shapecall_image image = shapecall_image_of(call, 4);
  reed_dim dims[4] = {rois->dims[0]};
  dims[image.channel] = channels;
  dims[image.spatial] = height;
  dims[image.spatial + 1] = width;
  shapecall_set(call, 0, 4, dims);
  return REED_OK;
}

/* X [N,C,H,W], rois [R,4] -> [R,C,output_height,output_width] */
reed_status shapefn_roi_align(reed_shape_call *call) {
  reed_status status = shapecall_rank(call, 0, 4);
  return status ? status : align_regions(call, 1, call->inputs[0].dims[shapecall_image_of(call, 4).channel]);
}

/* rois [R,4], maps [N,C,.,.] (or [N,.,.,C]) from input 3 on, each with its scale -> [R,C,output_height,output_width] */
reed_status shapefn_multi_level_roi_align(reed_shape_call *call) {
  const int32_t first = 3;
  const reed_attr *scales = reed_attrs_find(call->attrs, "spatial_scales");
  if (call->n_inputs <= first || scales->n != call->n_inputs - first)
    return reed_shape_fail(call, REED_ERROR_VALUE, -1, "%d feature maps with %lld scales",
                           (int)(call->n_inputs - first), (long long)scales->n);
  int32_t axis = shapecall_image_of(call, 4).channel;
  reed_status status = shapecall_rank(call, first, 4);
  reed_dim channels = status ? 0 : call->inputs[first].dims[axis];
  for (int32_t i = first + 1; i < call->n_inputs && !status; i++) {
    status = shapecall_rank(call, i, 4);
    if (!status)
      status = shapecall_same(call, call->inputs[i].dims[axis], channels, i, "channels of the maps", &channels);
  }
  return status ? status : align_regions(call, 0, channels);
}

/* Reads one extent of a picture. */
static reed_status picture_extent(reed_shape_call *call, int32_t input, reed_dim *out_extent) {
  reed_status status = shapecall_scalar(call, input, out_extent);
  if (status) return status;
  int64_t low, high;
  shapecall_range(call, *out_extent, &low, &high);
  return high < 0 ? reed_shape_fail(call, REED_ERROR_VALUE, input, "%lld pixels", (long long)high) : REED_OK;
}

/* masks [K,1,M,N], boxes [K,4] -> [K,height,width] */
reed_status shapefn_paste_masks(reed_shape_call *call) {
  const reed_shape_input *masks = &call->inputs[0], *boxes = &call->inputs[1];
  reed_dim dims[3];
  reed_status status = shapecall_rank(call, 0, 4);
  if (!status) status = shapecall_rank(call, 1, 2);
  if (!status) status = shapecall_same(call, masks->dims[1], 1, 0, "the channels and 1", NULL);
  if (!status) status = shapecall_same(call, boxes->dims[1], 4, 1, "the last extent and 4", NULL);
  if (!status)
    status = shapecall_same(call, masks->dims[0], boxes->dims[0], 1, "the numbers of masks and of boxes", &dims[0]);
  if (!status) status = picture_extent(call, 2, &dims[1]);
  if (!status) status = picture_extent(call, 3, &dims[2]);
  if (!status) shapecall_set(call, 0, 3, dims);
  return status;
}

/* maps [K,C,M,N], or [K,M,N,C] with channels_last -> points [K,3,C], peaks [K,C] */
reed_status shapefn_keypoints(reed_shape_call *call) {
  const reed_shape_input *maps = &call->inputs[0];
  reed_status status = shapecall_rank(call, 0, 4);
  if (status) return status;
  reed_dim channels = maps->dims[shapecall_image_of(call, 4).channel];
  reed_dim points[3] = {maps->dims[0], 3, channels}, peaks[2] = {maps->dims[0], channels};
  shapecall_set(call, 0, 3, points);
  shapecall_set(call, 1, 2, peaks);
  return REED_OK;
}
