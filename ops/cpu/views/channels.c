/* Channels second in front of channels last (channels.h): changing the call, and transposing images in the workspace.
 */
#include "ops/cpu/views/channels.h"

#include "ops/cpu/common/strided.h"
#include "ops/inner.h"

/* [N,spatial...,C] -> [N,C,spatial...] */
static void see_channels_second(reed_desc *d) {
  if (d->dtype == REED_NONE || d->rank < 3) return;
  int64_t channels = d->dims[d->rank - 1];
  memmove(&d->dims[2], &d->dims[1], (size_t)(d->rank - 2) * sizeof *d->dims);
  d->dims[1] = channels;
}

void channels_see_second(call_copy *copy, uint32_t images) {
  for (int32_t i = 0; i < copy->call.n_inputs; i++) {
    if (!(images >> i & 1)) continue;
    see_channels_second(&copy->inputs[i]);
    call_copy_hide_values(copy, i);
  }
  for (int32_t i = 0; i < copy->call.n_outputs; i++) see_channels_second(&copy->outputs[i]);
}

reed_status channels_view_init(const reed_kernel_call *call, uint32_t images, channels_view *v) {
  v->call = call;
  v->images = images;
  const reed_attr *last = reed_attrs_find(call->attrs, "channels_last"); /* not every normalisation has it */
  v->last = last && last->i;
  if (!v->last) return REED_OK;
  reed_status status = call_copy_init(call, &v->copy);
  if (status != REED_OK) return status;
  channels_see_second(&v->copy, images);
  call_copy_attr(&v->copy, "channels_last")->i = 0;
  v->call = &v->copy.call;
  return REED_OK;
}

/* Strides in elements of an image of these extents [N,C,spatial...], 3 or more, whose channels lie last in memory. */
static void last_strides(int32_t rank, const int64_t *dims, int64_t *out_strides) {
  cpu_dense_strides(rank, dims, out_strides);
  /* strides may wrap, as in cpu_dense_strides, if nothing is read */
  for (int32_t i = 2; i < rank; i++) out_strides[i] = (int64_t)((uint64_t)out_strides[i] * (uint64_t)dims[1]);
  out_strides[1] = 1;
}

/* ---- between transposes ---- */

typedef struct image {
  bool turned;
  int64_t offset; /* into the workspace: the image with channels second */
  strided_copy copy;
} image;

typedef struct turned {
  inner_kernel inner;
  int32_t n_inputs, n_outputs;
  image images[]; /* of the inputs, then of the outputs */
} turned;

static reed_status run_turned(const void *state, const reed_kernel_buffers *buffers) {
  const turned *t = state;
  const image *results = t->images + t->n_inputs;
  const void *inputs[CALL_COPY_INPUTS];
  void *outputs[CALL_COPY_OUTPUTS];
  char *workspace = buffers->workspace;
  for (int32_t i = 0; i < t->n_inputs; i++) {
    const image *im = &t->images[i];
    inputs[i] = im->turned ? workspace + im->offset : buffers->inputs[i];
    reed_status status = im->turned ? strided_run(&im->copy, buffers->inputs[i], workspace + im->offset) : REED_OK;
    if (status != REED_OK) return status;
  }
  for (int32_t i = 0; i < t->n_outputs; i++)
    outputs[i] = results[i].turned && buffers->outputs[i] ? workspace + results[i].offset : buffers->outputs[i];
  reed_status status = inner_run(&t->inner, buffers, inputs, outputs);
  for (int32_t i = 0; i < t->n_outputs && status == REED_OK; i++)
    if (results[i].turned && buffers->outputs[i])
      status = strided_run(&results[i].copy, outputs[i], buffers->outputs[i]);
  return status;
}

/* Plans the copy between an image's memory and its place in the workspace. */
static void plan_image(const reed_desc *seen, bool is_input, cpu_team team, image *im, int64_t *end) {
  if (seen->dtype == REED_NONE || seen->rank < 3) return;
  int64_t dense[REED_MAX_RANK], lying[REED_MAX_RANK], bytes = (int64_t)reed_dtype_bytes(seen->dtype);
  cpu_dense_strides(seen->rank, seen->dims, dense);
  last_strides(seen->rank, seen->dims, lying);
  *im = (image){.turned = true, .offset = *end};
  *end = call_copy_next(*end, desc_elements(seen) * bytes);
  int64_t extents[REED_MAX_RANK], from[REED_MAX_RANK], to[REED_MAX_RANK];
  for (int32_t i = 0; i < seen->rank; i++) { /* axes in the order in which they are written */
    int32_t axis = is_input || i == 0 ? i : i == seen->rank - 1 ? 1 : i + 1;
    extents[i] = seen->dims[axis];
    from[i] = is_input ? lying[axis] : dense[axis];
    to[i] = is_input ? dense[axis] : lying[axis];
  }
  strided_plan(&im->copy, seen->rank, extents, from, 0, to, 0, bytes, team);
}

reed_status channels_prepare_second(const channels_view *v, reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  if (!v->last) return prepare(v->call, out_kernel);
  const size_t bytes = sizeof(turned) + (size_t)(v->call->n_inputs + v->call->n_outputs) * sizeof(image);
  turned *t = mem_calloc(1, bytes);
  if (!t) return cpu_no_memory(v->call);
  t->n_inputs = v->call->n_inputs;
  t->n_outputs = v->call->n_outputs;
  cpu_team team = cpu_env_team(v->call);
  for (int32_t i = 0; i < t->n_inputs; i++)
    if (v->images >> i & 1) plan_image(&v->copy.inputs[i], true, team, &t->images[i], &t->inner.workspace_at);
  for (int32_t i = 0; i < t->n_outputs; i++)
    plan_image(&v->copy.outputs[i], false, team, &t->images[t->n_inputs + i], &t->inner.workspace_at);
  return inner_wrap(prepare(v->call, &t->inner.kernel), run_turned, t, bytes, out_kernel);
}
