/* Launches of the normalisations over rows: layer, RMS, instance and group. BatchNormalization: norm.c. */
#include "base/desc.h"
#include "device/cuda/kernels/product.h"
#include "ops/cpu/calls/norm.h"
#include "ops/cpu/views/view.h"

enum { WARP = 32, WARP_ELEMENTS = 1024 }; /* a row of more elements has a block */

/* Appends a dim of a row; neighbours of one walk are joined. */
static void add_dim(norm_args *a, int64_t extent, int64_t x, int64_t scale, int64_t shift) {
  const int32_t last = a->rank - 1;
  if (extent == 1) return;
  const bool joins = a->rank && a->x_strides[last] == x * extent && a->scale_strides[last] == scale * extent &&
                     a->shift_strides[last] == shift * extent;
  const int32_t at = joins ? last : a->rank++;
  a->extents[at] = joins ? a->extents[at] * extent : extent;
  a->x_strides[at] = x;
  a->scale_strides[at] = scale;
  a->shift_strides[at] = shift;
}

static void read_layer(const norm *n, norm_args *made) {
  int64_t strides[REED_MAX_RANK];
  made->rows = n->outer;
  made->n = n->inner;
  made->groups = 1;
  made->x_image = n->inner;
  cpu_dense_strides(n->rank, n->dims, strides);
  for (int32_t d = 0; d < n->rank; d++) add_dim(made, n->dims[d], strides[d], n->scale_strides[d], n->shift_strides[d]);
}

static void read_groups(const norm *n, bool last, norm_args *made) {
  const int64_t step = n->per_group ? 0 : 1; /* of scale and shift, from channel to channel */
  made->groups = n->shared ? n->channels / n->shared : 0;
  made->rows = n->outer * made->groups;
  made->n = n->shared * n->inner;
  made->x_image = n->channels * n->inner;
  made->x_group = last ? n->shared : n->shared * n->inner;
  made->parameter_group = n->per_group ? 1 : n->shared;
  if (last) add_dim(made, n->inner, n->channels, 0, 0);
  add_dim(made, n->shared, last ? 1 : n->inner, step, step);
  if (!last) add_dim(made, n->inner, 1, 0, 0);
}

/* True if kernel norm_dense takes the rows: whole vectors, side by side, of at most as many as a block holds, with one
 * scale and shift an element or a row. */
static bool is_dense(const norm_args *a) {
  const int64_t vector = a->dtype == REED_F32 ? 4 : a->dtype == REED_F16 || a->dtype == REED_BF16 ? 8 : 0;
  if (!vector || a->rank != 1 || a->extents[0] != a->n || a->x_strides[0] != 1 || a->scale_dtype != a->dtype)
    return false;
  const bool shifts = a->shift_dtype != REED_NONE,
             strides = (a->scale_strides[0] | 1) == 1 && (!shifts || (a->shift_strides[0] | 1) == 1);
  return strides && (!shifts || a->shift_dtype == a->dtype) && a->n % vector == 0 &&
         a->n / vector <= (int64_t)CUDA_NORM_VECTORS * cuda_kernel_infos[CUDA_norm_dense].threads;
}

static reed_status prepare_rows(const reed_kernel_call *call, norm_kind kind, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  const bool rows = kind == NORM_LAYER || kind == NORM_RMS;
  cpu_view view;
  norm n;
  reed_status status = cpu_view_init(call, rows ? 0 : 1, &view);
  if (status == REED_OK) status = norm_read(view.call, kind, &n);
  if (status) return status;
  norm_args made = {.epsilon = n.epsilon,
                    .activation = cuda_activation_step(call, n.dtype),
                    .dtype = n.dtype,
                    .scale_dtype = n.parameters[1],
                    .shift_dtype = n.parameters[2],
                    .stash_dtype = n.results[1] != REED_NONE ? n.results[1] : n.results[2],
                    .centred = n.centred,
                    .counted = cuda_counted(call)};
  if (rows) read_layer(&n, &made);
  else read_groups(&n, view.last, &made);
  made.lanes = made.n <= WARP_ELEMENTS ? WARP : (int32_t)cuda_kernel_infos[CUDA_norm_rows].threads;
  /* the bits of a counted row must not follow the bound */
  made.splits = made.lanes == WARP || made.counted.capacity ? 1 : cuda_splits(made.rows, made.n);
  const bool dense = made.splits == 1 && is_dense(&made);
  if (dense) {
    const int64_t vectors = made.n / (16 / (int64_t)reed_dtype_bytes(n.dtype));
    made.lanes =
        vectors <= (int64_t)WARP * CUDA_NORM_VECTORS ? WARP : (int32_t)cuda_kernel_infos[CUDA_norm_dense].threads;
  }
  const int64_t parts = made.splits > 1 ? made.rows * made.splits * (int64_t)sizeof *made.parts : 0;
  if (parts) {
    cuda_plan_launch(&plan, CUDA_norm_parts, made.rows * made.splits, 0, &made);
    CUDA_INPUT(&plan, norm_args, x, 0);
    CUDA_PART(&plan, norm_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, true);
    cuda_plan_count(&plan, offsetof(norm_args, counted));
  }
  if (made.rows && (made.n || n.results[1] != REED_NONE || n.results[2] != REED_NONE)) {
    cuda_plan_each(&plan, dense ? CUDA_norm_dense : CUDA_norm_rows, made.rows * made.splits * made.lanes, &made);
    if (parts) CUDA_PART(&plan, norm_args, parts, CUDA_FROM_WORKSPACE, 0, 0, parts, false);
    CUDA_INPUT(&plan, norm_args, x, 0);
    CUDA_INPUT(&plan, norm_args, scale, 1);
    if (n.parameters[2] != REED_NONE) CUDA_INPUT(&plan, norm_args, shift, 2);
    CUDA_OUTPUT(&plan, norm_args, y, 0);
    cuda_plan_count(&plan, offsetof(norm_args, counted));
    if (n.results[1] != REED_NONE) CUDA_OUTPUT(&plan, norm_args, mean, 1);
    if (n.results[2] != REED_NONE) CUDA_OUTPUT(&plan, norm_args, factor, 2);
  }
  return cuda_plan_close(&plan, parts, out_kernel);
}

reed_status cuda_prepare_layer_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rows(call, NORM_LAYER, out_kernel);
}
reed_status cuda_prepare_rms_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rows(call, NORM_RMS, out_kernel);
}
reed_status cuda_prepare_instance_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rows(call, NORM_INSTANCE, out_kernel);
}
reed_status cuda_prepare_group_norm(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare_rows(call, NORM_GROUP, out_kernel);
}
