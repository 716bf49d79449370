/* Data movement as a function from an output element to an input and its element. */
#include "ops/cpu/reference/elements.h"
#include "ops/cpu/common/common.h"

typedef struct source {
  int32_t input;
  int64_t at[REED_MAX_RANK]; /* coordinates in that input */
  bool constant;             /* Pad's value instead */
} source;

static int32_t axis_of(const reference_state *s, const char *name, int32_t rank) {
  int64_t axis = op_attr_int(&s->attrs, name);
  return (int32_t)(axis < 0 ? axis + rank : axis);
}

static int64_t int_input(const reference_state *s, const reed_kernel_buffers *buffers, int32_t input, int64_t i) {
  return (int64_t)reference_read_int(s->inputs[input].dtype, reference_input(s, buffers, input), i);
}

/* Index element i as a coordinate of an axis; -1 after recording the fault. */
static int64_t index_input(const reference_state *s, const reed_kernel_buffers *buffers, int64_t i, int64_t extent) {
  int64_t value = int_input(s, buffers, 1, i);
  if (value < -extent || value >= extent) {
    (void)!cpu_index_fault(buffers, 1, i, value, extent);
    return -1;
  }
  return value < 0 ? value + extent : value;
}

static int64_t pad_coordinate(const char *mode, int64_t at, int64_t extent) {
  if (strcmp(mode, "edge") == 0) return at < 0 ? 0 : at >= extent ? extent - 1 : at;
  if (strcmp(mode, "wrap") == 0) return ((at % extent) + extent) % extent;
  if (strcmp(mode, "constant") == 0 || extent == 1)
    return at >= 0 && at < extent ? at : strcmp(mode, "constant") ? 0 : -1;
  while (at < 0 || at >= extent) at = at < 0 ? -at : 2 * (extent - 1) - at;
  return at;
}

static void find_pad(const reference_state *s, const reed_kernel_buffers *buffers, source *out) {
  const reed_desc *in = &s->inputs[0];
  bool has_axes = s->n_inputs > 3 && s->inputs[3].dtype != REED_NONE;
  int64_t n = desc_elements(&s->inputs[1]) / 2;
  for (int64_t k = 0; k < n; k++) {
    int64_t d = has_axes ? int_input(s, buffers, 3, k) : k;
    if (d < 0) d += in->rank;
    int64_t before = int_input(s, buffers, 1, k), after = int_input(s, buffers, 1, n + k);
    int64_t first = before < 0 ? -before : 0,
            end = in->dims[d] + (after < 0 ? after : 0); /* the input after the crop */
    out->at[d] = pad_coordinate(op_attr_string(&s->attrs, "mode"), out->at[d] - (before > 0 ? before : 0), end - first);
    if (out->at[d] < 0) out->constant = true;
    else out->at[d] += first;
  }
}

static void find_slice(const reference_state *s, const reed_kernel_buffers *buffers, source *out) {
  const reed_desc *in = &s->inputs[0];
  for (int64_t k = 0; k < desc_elements(&s->inputs[1]); k++) {
    int64_t d = s->n_inputs > 3 && s->inputs[3].dtype != REED_NONE ? int_input(s, buffers, 3, k) : k;
    int64_t step = s->n_inputs > 4 && s->inputs[4].dtype != REED_NONE ? int_input(s, buffers, 4, k) : 1;
    int64_t start = int_input(s, buffers, 1, k);
    if (d < 0) d += in->rank;
    int64_t extent = in->dims[d];
    if (start < 0) start += start < -extent ? 0 : extent;
    if (start < 0) start = 0;
    if (step < 0 && start > extent - 1) start = extent - 1;
    out->at[d] = out->at[d] ? start + out->at[d] * step : start;
  }
}

/* Replaces the output coordinates in out->at by those of the source. False: an index was out of range. */
static bool find_source(const reference_state *s, const reed_kernel_buffers *buffers, int32_t output, int64_t i,
                        source *out) {
  const reed_desc *in = &s->inputs[0], *to = &s->outputs[output];
  int64_t c[REED_MAX_RANK], n_perm, b;
  bool moves_blocks = s->id == OP_DepthToSpace || s->id == OP_SpaceToDepth; /* the axes of the image follow */
  int32_t channel = moves_blocks && op_attr_int(&s->attrs, "channels_last") ? 3 : 1, y = channel == 1 ? 2 : 1,
          x = y + 1;
  memcpy(c, out->at, sizeof c);
  switch ((int)s->id) {
    case OP_Concat: {
      int32_t axis = axis_of(s, "axis", to->rank);
      while (out->at[axis] >= s->inputs[out->input].dims[axis]) out->at[axis] -= s->inputs[out->input++].dims[axis];
      return true;
    }
    case OP_Split: {
      int32_t axis = axis_of(s, "axis", in->rank);
      for (int32_t k = 0; k < output; k++) out->at[axis] += s->outputs[k].dims[axis];
      return true;
    }
    case OP_Transpose: {
      const int64_t *perm = reed_attrs_ints(&s->attrs, "perm", &n_perm);
      for (int32_t d = 0; d < in->rank; d++) out->at[perm ? perm[d] : in->rank - 1 - d] = c[d];
      return true;
    }
    case OP_Expand:
    case OP_Tile:
      for (int32_t d = 0; d < in->rank; d++) out->at[d] = c[d + to->rank - in->rank] % in->dims[d];
      return true;
    case OP_Slice: find_slice(s, buffers, out); return true;
    case OP_Pad: find_pad(s, buffers, out); return true;
    case OP_DepthToSpace: {
      b = op_attr_int(&s->attrs, "blocksize");
      bool crd = strcmp(op_attr_string(&s->attrs, "mode"), "CRD") == 0;
      int64_t block = c[y] % b * b + c[x] % b;
      out->at[channel] = crd ? c[channel] * b * b + block : block * to->dims[channel] + c[channel];
      out->at[y] = c[y] / b;
      out->at[x] = c[x] / b;
      return true;
    }
    case OP_SpaceToDepth:
      b = op_attr_int(&s->attrs, "blocksize");
      out->at[channel] = c[channel] % in->dims[channel];
      out->at[y] = c[y] * b + c[channel] / in->dims[channel] / b;
      out->at[x] = c[x] * b + c[channel] / in->dims[channel] % b;
      return true;
    case OP_Gather: {
      int32_t axis = axis_of(s, "axis", in->rank), k = s->inputs[1].rank;
      for (int32_t d = axis + 1; d < in->rank; d++) out->at[d] = c[d - 1 + k];
      int64_t at = 0;
      for (int32_t d = 0; d < k; d++) at = at * s->inputs[1].dims[d] + c[axis + d];
      return (out->at[axis] = index_input(s, buffers, at, in->dims[axis])) >= 0;
    }
    case OP_GatherElements: {
      int32_t axis = axis_of(s, "axis", in->rank);
      return (out->at[axis] = index_input(s, buffers, i, in->dims[axis])) >= 0;
    }
    case OP_GatherND: {
      const reed_desc *indices = &s->inputs[1];
      int64_t batch = op_attr_int(&s->attrs, "batch_dims"), n = indices->dims[indices->rank - 1], tuple = 0;
      for (int32_t d = 0; d < indices->rank - 1; d++) tuple = tuple * indices->dims[d] + c[d];
      for (int64_t d = 0; d < in->rank - batch - n; d++) out->at[batch + n + d] = c[indices->rank - 1 + d];
      for (int64_t k = 0; k < n; k++)
        if ((out->at[batch + k] = index_input(s, buffers, tuple * n + k, in->dims[batch + k])) < 0) return false;
      return true;
    }
    default: reference_coordinates(in, i, out->at); return true; /* Reshape and its like */
  }
}

static reed_status run_move(const void *state, const reed_kernel_buffers *buffers) {
  const reference_state *s = state;
  size_t size = reed_dtype_bytes(s->inputs[0].dtype);
  bool has_value = s->n_inputs > 2 && s->inputs[2].dtype != REED_NONE && desc_elements(&s->inputs[2]) > 0;
  for (int32_t o = 0; o < s->n_outputs; o++)
    for (int64_t i = 0; i < desc_elements(&s->outputs[o]); i++) {
      source from = {0};
      reference_coordinates(&s->outputs[o], i, from.at);
      if (!find_source(s, buffers, o, i, &from)) return REED_ERROR_VALUE;
      char *to = (char *)buffers->outputs[o] + (size_t)i * size;
      const reed_desc *in = &s->inputs[from.input];
      if (!from.constant)
        memcpy(to, (const char *)buffers->inputs[from.input] + (size_t)reference_linear(in, from.at, in->rank) * size,
               size);
      else if (has_value) memcpy(to, buffers->inputs[2], size);
      else memset(to, 0, size);
    }
  return REED_OK;
}

reed_status reference_prepare_move(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return reference_open(call, run_move, out_kernel);
}

/* ---- ScatterElements, ScatterND ---- */

static void combine(const char *reduction, reed_dtype dtype, void *to, int64_t at, const void *updates, int64_t i) {
  bool add = strcmp(reduction, "add") == 0, mul = strcmp(reduction, "mul") == 0, max = strcmp(reduction, "max") == 0;
  if (reference_is_float(dtype)) {
    long double a = reference_read_float(dtype, to, at), b = reference_read_float(dtype, updates, i);
    reference_write_float(dtype, to, at,
                          add      ? a + b
                          : mul    ? a * b
                          : a != a ? a
                          : max    ? (a > b ? a : b)
                                   : (a < b ? a : b));
  } else {
    __int128 a = reference_read_int(dtype, to, at), b = reference_read_int(dtype, updates, i);
    reference_write_int(dtype, to, at, add ? a + b : mul ? a * b : max ? (a > b ? a : b) : (a < b ? a : b));
  }
}

static reed_status run_scatter(const void *state, const reed_kernel_buffers *buffers) {
  const reference_state *s = state;
  const reed_desc *data = &s->inputs[0], *indices = &s->inputs[1], *updates = &s->inputs[2];
  const char *reduction = op_attr_string(&s->attrs, "reduction");
  size_t size = reed_dtype_bytes(data->dtype);
  if (desc_bytes(data)) memmove(buffers->outputs[0], buffers->inputs[0], (size_t)desc_bytes(data));
  for (int64_t i = 0; i < desc_elements(updates); i++) {
    int64_t at[REED_MAX_RANK], c[REED_MAX_RANK];
    reference_coordinates(updates, i, c);
    memcpy(at, c, sizeof at);
    if (s->id == OP_ScatterElements) {
      int32_t axis = axis_of(s, "axis", data->rank);
      if ((at[axis] = index_input(s, buffers, i, data->dims[axis])) < 0) return REED_ERROR_VALUE;
    } else {
      int32_t lead = indices->rank - 1;
      int64_t n = indices->dims[lead], tuple = 0;
      for (int32_t d = 0; d < lead; d++) tuple = tuple * indices->dims[d] + c[d];
      for (int64_t k = 0; k < n; k++)
        if ((at[k] = index_input(s, buffers, tuple * n + k, data->dims[k])) < 0) return REED_ERROR_VALUE;
      for (int64_t d = n; d < data->rank; d++) at[d] = c[lead + d - n];
    }
    int64_t to = reference_linear(data, at, data->rank);
    if (strcmp(reduction, "none") == 0)
      memcpy((char *)buffers->outputs[0] + (size_t)to * size, (const char *)buffers->inputs[2] + (size_t)i * size,
             size);
    else combine(reduction, data->dtype, buffers->outputs[0], to, buffers->inputs[2], i);
  }
  return REED_OK;
}

reed_status reference_prepare_scatter(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return reference_open(call, run_scatter, out_kernel);
}
