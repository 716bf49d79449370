/* A prepared kernel for operands whose extents only the device knows: a copy of the call, and an inner kernel that is
 * prepared for the true extents when they are known. The call is copied with all that `prepare` may read, because the
 * caller's call is gone when the true extents come. */
#include "ops/bounded_call.h"

#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "ops/bound.h"

typedef struct bounded_call {
  reed_kernel_call call; /* its arrays belong to this state */
  reed_kernel_prepare_fn prepare;
  reed_kernel kernel;      /* prepared for `extents`; not if `fresh` */
  bool fresh;              /* there is no kernel yet */
  int64_t *extents;        /* true extents, by the number of the count (reed_room.counted) */
  bool *reported;          /* by the same number: no input has the count */
  int64_t workspace_bytes; /* of the bound */
  void *workspace;  /* not NULL: a smaller extent needed more workspace than the bound; NULL: the caller's workspace
                       serves */
  reed_desc *descs; /* inputs, then outputs, with the true extents */
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
  b->fresh = true;
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
  mem_free(b->extents);
  mem_free(b->reported);
  mem_free(b);
}

/* Prepares the kernel for b->extents and sets the descriptors; extents that the call reports are computed. On failure
 * there is no kernel. */
static reed_status prepare_exact(bounded_call *b, reed_diagnosis *diagnosis) {
  drop_kernel(b);
  const int32_t n_in = b->call.n_inputs, n = n_in + b->call.n_outputs;
  for (int32_t pass = 0; pass < 2; pass++) /* the outputs follow from the inputs */
    for (int32_t i = pass ? n_in : 0; i < (pass ? n : n_in); i++) {
      if (!bound_is_counted_room(b->rooms, i)) continue;
      const reed_room *room = &b->rooms[i];
      if (pass && b->reported[room->counted]) b->extents[room->counted] = bound_reported(&b->call, room->axis);
      b->descs[i].dims[room->axis] = b->extents[room->counted];
    }
  b->call.diagnosis = diagnosis;
  reed_status status = REED_OK;
  if (!kernel_is_nothing(&b->call, &b->kernel)) status = b->prepare(&b->call, &b->kernel);
  if (status == REED_OK && b->kernel.workspace_bytes > b->workspace_bytes) {
    b->workspace = mem_alloc_aligned((size_t)b->kernel.workspace_bytes, 64);
    if (!b->workspace) status = diag_no_memory(diagnosis, "workspace of a kernel");
  }
  if (status == REED_OK) b->fresh = false;
  else drop_kernel(b);
  return status;
}

static reed_status run_bounded(const void *state, const reed_kernel_buffers *buffers) {
  bounded_call *b = (bounded_call *)state; /* one thread at a time */
  bool same = !b->fresh;
  b->call.diagnosis = buffers->diagnosis;
  for (int32_t i = 0; i < b->call.n_inputs; i++) {
    if (!bound_is_counted_room(b->rooms, i)) continue;
    const int64_t extent = *buffers->input_extents[i] * bound_factor(&b->rooms[i]), bound = b->rooms[i].capacity;
    if (extent < 0 || extent > bound)
      return reed_kernel_fail(&b->call, REED_ERROR_DEVICE,
                              "an input's kernel reported the extent %lld, its bound is %lld", (long long)extent,
                              (long long)bound);
    same = same && extent == b->extents[b->rooms[i].counted];
    b->extents[b->rooms[i].counted] = extent;
  }
  reed_status status = same ? REED_OK : prepare_exact(b, buffers->diagnosis);
  if (status != REED_OK) return status;
  reed_kernel_buffers exact = *buffers;
  exact.input_extents = NULL;
  if (b->workspace) exact.workspace = b->workspace;
  status = b->kernel.run(b->kernel.state, &exact);
  for (int32_t k = 0; k < b->call.n_outputs && status == REED_OK; k++) {
    const int32_t i = b->call.n_inputs + k;
    if (bound_is_counted_room(b->rooms, i) && b->reported[b->rooms[i].counted])
      buffers->extents[k] = b->extents[b->rooms[i].counted];
  }
  return status;
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
  b->fresh = true;
  b->descs = mem_calloc(n, sizeof *b->descs);
  b->rooms = mem_calloc(n, sizeof *b->rooms);
  b->values = mem_calloc(n_in, sizeof *b->values);
  b->constant = mem_calloc(n_in, sizeof *b->constant);
  b->owned = mem_calloc(n_in, sizeof *b->owned);
  b->extents = mem_calloc(n + 1, sizeof *b->extents);
  b->reported = mem_calloc(n + 1, sizeof *b->reported);
  reed_status status = REED_OK;
  if (!b->descs || !b->rooms || !b->values || !b->constant || !b->owned || !b->extents || !b->reported) {
    status = diag_no_memory(call->diagnosis, "a kernel");
  } else {
    memcpy(b->descs, call->inputs, n_in * sizeof *b->descs);
    memcpy(b->descs + n_in, call->outputs, (n - n_in) * sizeof *b->descs);
    for (size_t i = 0; i < n; i++) {
      const reed_room *given = i < n_in ? call->input_rooms : call->output_rooms;
      b->rooms[i] = given ? given[i < n_in ? i : i - n_in] : (reed_room){.axis = -1};
      if (!bound_is_counted_room(b->rooms, (int32_t)i)) continue;
      const uint16_t count = b->rooms[i].counted;
      if (i >= n_in) b->reported[count] = bound_is_reported(call, (int32_t)(i - n_in));
      b->extents[count] = b->rooms[i].capacity;
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
  bool counted = false, reports = false;
  for (int32_t i = 0; i < call->n_inputs; i++) counted |= bound_is_counted_room(call->input_rooms, i);
  for (int32_t i = 0; i < call->n_outputs; i++) reports |= bound_is_reported(call, i);
  if (!counted || reads_counts)
    return !reports && kernel_is_nothing(call, out_kernel) ? REED_OK : prepare(call, out_kernel);
  bounded_call *b = NULL;
  reed_status status = bounded_open(call, prepare, &b);
  if (status != REED_OK) return status;
  b->workspace_bytes = INT64_MAX;
  if ((status = prepare_exact(b, call->diagnosis)) != REED_OK) {
    bounded_free(b);
    return status;
  }
  b->workspace_bytes = b->kernel.workspace_bytes;
  *out_kernel = (reed_kernel){run_bounded, b, bounded_free, b->workspace_bytes, b->kernel.state_bytes};
  out_kernel->apart = b->kernel.apart;
  return REED_OK;
}
