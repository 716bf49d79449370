/* A prepared kernel for operands whose extents only the device knows: a copy of the call, and an inner kernel that is
 * prepared for the true extents when they are known. The call is copied with all that `prepare` may read, because the
 * caller's call is gone when the true extents come. */
#include "ops/bounded_call.h"

#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"

typedef struct bounded_call {
  reed_kernel_call call; /* its arrays belong to this state */
  reed_kernel_prepare_fn prepare;
  reed_kernel kernel;      /* prepared for `extent` */
  int64_t extent;          /* -1: no kernel yet */
  int64_t workspace_bytes; /* of the bound */
  void *workspace;  /* not NULL: a smaller extent needed more workspace than the bound; NULL: the caller's workspace
                       serves */
  reed_desc *descs; /* inputs, then outputs, with the extent `extent` */
  reed_room *rooms; /* inputs, outputs */
  const void **values;
  bool *constant;
  bool *owned; /* per input: values[i] is a copy */
} bounded_call;

static void drop_kernel(bounded_call *b) {
  if (b->kernel.free) b->kernel.free(b->kernel.state);
  b->kernel = (reed_kernel){0};
  mem_free_aligned(b->workspace);
  b->workspace = NULL;
  b->extent = -1;
}

static void bounded_free(void *state) {
  bounded_call *b = state;
  drop_kernel(b);
  for (int32_t i = 0; b->owned && b->values && i < b->call.n_inputs; i++)
    if (b->owned[i]) mem_free((void *)b->values[i]);
  mem_free(b->descs);
  mem_free(b->rooms);
  mem_free(b->values);
  mem_free(b->constant);
  mem_free(b->owned);
  mem_free(b);
}

static bool is_counted(const reed_room *rooms, int32_t i) { return rooms && rooms[i].axis >= 0 && rooms[i].counted; }

/* Prepares the kernel for `extent` rows and sets the descriptors. On failure there is no kernel. */
static reed_status prepare_for(bounded_call *b, int64_t extent, reed_diagnosis *diagnosis) {
  drop_kernel(b);
  int32_t n = b->call.n_inputs + b->call.n_outputs;
  for (int32_t i = 0; i < n; i++)
    if (is_counted(b->rooms, i)) b->descs[i].dims[b->rooms[i].axis] = extent;
  b->call.diagnosis = diagnosis;
  reed_status status = REED_OK;
  if (!kernel_is_nothing(&b->call, &b->kernel)) status = b->prepare(&b->call, &b->kernel);
  if (status == REED_OK && b->kernel.workspace_bytes > b->workspace_bytes) {
    b->workspace = mem_alloc_aligned((size_t)b->kernel.workspace_bytes, 64);
    if (!b->workspace) status = diag_no_memory(diagnosis, "workspace of a kernel");
  }
  if (status == REED_OK) b->extent = extent;
  else drop_kernel(b);
  return status;
}

static reed_status run_bounded(const void *state, const reed_kernel_buffers *buffers) {
  bounded_call *b = (bounded_call *)state; /* one thread at a time */
  int64_t extent = -1, bound = 0;
  b->call.diagnosis = buffers->diagnosis;
  for (int32_t i = 0; i < b->call.n_inputs; i++)
    if (is_counted(b->rooms, i)) extent = *buffers->input_extents[i], bound = b->rooms[i].capacity;
  if (extent < 0 || extent > bound)
    return reed_kernel_fail(&b->call, REED_ERROR_DEVICE,
                            "an input's kernel reported the extent %lld, its bound is %lld", (long long)extent,
                            (long long)bound);
  reed_status status = extent == b->extent ? REED_OK : prepare_for(b, extent, buffers->diagnosis);
  if (status != REED_OK) return status;
  reed_kernel_buffers exact = *buffers;
  exact.input_extents = NULL;
  if (b->workspace) exact.workspace = b->workspace;
  return b->kernel.run(b->kernel.state, &exact);
}

/* Copies the host values that belong to the call's key, because they are gone after the call; constants of the module
 * stay where they are. */
static reed_status keep_values(bounded_call *b, const reed_kernel_call *call) {
  for (int32_t i = 0; i < call->n_inputs; i++) {
    b->constant[i] = call->constant[i];
    b->values[i] = call->host_values[i];
    int64_t bytes = call->host_values[i] && !call->constant[i] ? desc_bytes(&call->inputs[i]) : 0;
    if (bytes <= 0) continue;
    if (!(b->values[i] = mem_copy(call->host_values[i], (size_t)bytes)))
      return diag_no_memory(call->diagnosis, "a kernel");
    b->owned[i] = true;
  }
  return REED_OK;
}

static reed_status bounded_open(const reed_kernel_call *call, reed_kernel_prepare_fn prepare,
                                bounded_call **out_state) {
  size_t n_in = (size_t)call->n_inputs, n = n_in + (size_t)call->n_outputs;
  bounded_call *b = mem_calloc(1, sizeof *b);
  if (!b) return diag_no_memory(call->diagnosis, "a kernel");
  b->call = *call;
  b->prepare = prepare;
  b->extent = -1;
  b->descs = mem_calloc(n, sizeof *b->descs);
  b->rooms = mem_calloc(n, sizeof *b->rooms);
  b->values = mem_calloc(n_in, sizeof *b->values);
  b->constant = mem_calloc(n_in, sizeof *b->constant);
  b->owned = mem_calloc(n_in, sizeof *b->owned);
  reed_status status = REED_OK;
  if (!b->descs || !b->rooms || !b->values || !b->constant || !b->owned) {
    status = diag_no_memory(call->diagnosis, "a kernel");
  } else {
    memcpy(b->descs, call->inputs, n_in * sizeof *b->descs);
    memcpy(b->descs + n_in, call->outputs, (n - n_in) * sizeof *b->descs);
    for (size_t i = 0; i < n; i++) {
      const reed_room *given = i < n_in ? call->input_rooms : call->output_rooms;
      b->rooms[i] = given ? given[i < n_in ? i : i - n_in] : (reed_room){.axis = -1};
    }
    b->call.inputs = b->descs;
    b->call.outputs = b->descs + n_in;
    b->call.host_values = b->values;
    b->call.constant = b->constant;
    b->call.input_rooms = b->call.output_rooms = NULL;
    status = keep_values(b, call);
  }
  if (status != REED_OK) {
    bounded_free(b);
    return status;
  }
  *out_state = b;
  return REED_OK;
}

reed_status bounded_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, bool reads_counts,
                            reed_kernel *out_kernel) {
  int64_t bound = -1;
  for (int32_t i = 0; i < call->n_inputs; i++)
    if (is_counted(call->input_rooms, i)) bound = call->input_rooms[i].capacity;
  if (bound < 0 || reads_counts) return kernel_is_nothing(call, out_kernel) ? REED_OK : prepare(call, out_kernel);
  bounded_call *b = NULL;
  reed_status status = bounded_open(call, prepare, &b);
  if (status != REED_OK) return status;
  b->workspace_bytes = INT64_MAX;
  if ((status = prepare_for(b, bound, call->diagnosis)) != REED_OK) {
    bounded_free(b);
    return status;
  }
  b->workspace_bytes = b->kernel.workspace_bytes;
  *out_kernel = (reed_kernel){run_bounded, b, bounded_free, b->workspace_bytes, b->kernel.state_bytes};
  return REED_OK;
}
