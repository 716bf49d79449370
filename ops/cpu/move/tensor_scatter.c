/* TensorScatter (ONNX opset 24): a copy of the cache, then the update's rows at each batch's place. The output may have
 * the cache's memory; then only the update is written. */
#include "ops/cpu/common/common.h"
#include "ops/cpu/common/strided.h"

typedef struct scatter_rows {
  strided_copy copy;       /* cache to output */
  int64_t batches, blocks; /* blocks: of one batch, before the axis */
  int64_t room, rows;      /* along the axis, in the cache and in the update */
  int64_t row_bytes;
  bool circular, given; /* given: write_indices */
} scatter_rows;

/* n rows of the update, from number `first` on, to rows `at` .. of the cache. */
static void write_rows(const scatter_rows *s, char *cache, const char *update, int64_t at, int64_t first, int64_t n) {
  memcpy(cache + at * s->row_bytes, update + first * s->row_bytes, (size_t)(n * s->row_bytes));
}

static reed_status run_scatter(const void *state, const reed_kernel_buffers *buffers) {
  const scatter_rows *s = state;
  const int64_t *places = s->given ? buffers->inputs[2] : NULL;
  for (int64_t b = 0; places && b < s->batches && s->rows; b++) {
    int64_t last = places[b] > INT64_MAX - s->rows ? INT64_MAX : places[b] + s->rows - 1;
    if (places[b] < 0) return reed_kernel_fault(buffers, REED_FAULT_LENGTH, 2, b, places[b], s->room);
    if (!s->circular && last >= s->room) return cpu_index_fault(buffers, 2, b, last, s->room);
  }
  reed_status status = strided_run(&s->copy, buffers->inputs[0], buffers->outputs[0]);
  if (status != REED_OK || s->row_bytes == 0 || s->rows == 0) return status;
  for (int64_t i = 0; i < s->batches * s->blocks; i++) {
    char *cache = (char *)buffers->outputs[0] + i * s->room * s->row_bytes;
    const char *update = (const char *)buffers->inputs[1] + i * s->rows * s->row_bytes;
    int64_t at = places ? places[i / s->blocks] % s->room : 0, n = s->rows < s->room - at ? s->rows : s->room - at;
    write_rows(s, cache, update, at, 0, n);
    write_rows(s, cache, update, 0, n, s->rows - n);
  }
  return REED_OK;
}

reed_status cpu_prepare_tensor_scatter(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_desc *cache = &call->inputs[0], *update = &call->inputs[1];
  int32_t axis = cpu_axis(op_attr_int(call->attrs, "axis"), cache->rank);
  scatter_rows *s = mem_calloc(1, sizeof *s);
  if (!s) return cpu_no_memory(call);
  strided_plan_bytes(&s->copy, desc_bytes(cache), cpu_env_team(call));
  s->batches = cache->dims[0];
  s->blocks = cpu_product(cache->dims, 1, axis);
  s->room = cache->dims[axis];
  s->rows = update->dims[axis];
  s->row_bytes = cpu_product(cache->dims, axis + 1, cache->rank) * (int64_t)reed_dtype_bytes(cache->dtype);
  s->circular = op_attr_word(call->op, call->attrs, "mode") == 1;
  s->given = cpu_present(call, 2);
  cpu_kernel_set(out_kernel, run_scatter, s);
  return REED_OK;
}
