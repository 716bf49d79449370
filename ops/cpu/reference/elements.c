/* Helpers of the references of element-wise operators, movement and reductions (elements.h). */
#include "ops/cpu/reference/elements.h"

#include <string.h>

/* Bytes of input i, in whole words, if its elements are a host value (which a device's run cannot read); else 0. */
static size_t value_bytes(const reed_kernel_call *call, int32_t i) {
  bool value = call->host_values[i] && op_reads_value(call->op, call->attrs, i);
  return value ? ((size_t)desc_bytes(&call->inputs[i]) + 7) / 8 * 8 : 0;
}

reed_status reference_open(const reed_kernel_call *call, reed_kernel_run_fn run, reed_kernel *out_kernel) {
  size_t bytes = sizeof(reference_state) + (size_t)(call->n_inputs + call->n_outputs) * sizeof(reed_desc) +
                 (size_t)call->n_inputs * sizeof(void *);
  size_t first_value = bytes;
  for (int32_t i = 0; i < call->n_inputs; i++) bytes += value_bytes(call, i);
  reference_state *s = mem_calloc(1, bytes);
  if (!s) return cpu_no_memory(call);
  char *values = (char *)s + first_value;
  s->id = op_id_of(call->op);
  s->attrs = *call->attrs;
  s->n_inputs = call->n_inputs;
  s->n_outputs = call->n_outputs;
  s->outputs = s->inputs + call->n_inputs;
  s->values = (const void **)(s->outputs + call->n_outputs);
  for (int32_t i = 0; i < call->n_inputs; i++) {
    size_t n = value_bytes(call, i);
    s->inputs[i] = call->inputs[i];
    if (!n) continue;
    s->values[i] = memcpy(values, call->host_values[i], (size_t)desc_bytes(&call->inputs[i]));
    values += n;
  }
  for (int32_t i = 0; i < call->n_outputs; i++) s->outputs[i] = call->outputs[i];
  cpu_kernel_set(out_kernel, run, s);
  return REED_OK;
}

void reference_coordinates(const reed_desc *desc, int64_t i, int64_t *out_coordinates) {
  for (int32_t d = desc->rank - 1; d >= 0; d--) {
    out_coordinates[d] = i % desc->dims[d];
    i /= desc->dims[d];
  }
}

int64_t reference_linear(const reed_desc *desc, const int64_t *coordinates, int32_t n_coordinates) {
  int64_t i = 0;
  for (int32_t d = 0; d < desc->rank; d++) {
    int32_t from = d + n_coordinates - desc->rank;
    i = i * desc->dims[d] + (desc->dims[d] == 1 || from < 0 ? 0 : coordinates[from]);
  }
  return i;
}

static char *element(reed_dtype dtype, const void *data, int64_t i) {
  return (char *)data + i * (int64_t)reed_dtype_bytes(dtype);
}

__int128 reference_read_int(reed_dtype dtype, const void *data, int64_t i) {
  if (dtype == REED_I64) return ((const int64_t *)data)[i];
  if (dtype == REED_U64) return ((const uint64_t *)data)[i];
  return (__int128)reed_dtype_read(dtype, element(dtype, data, i));
}

void reference_write_int(reed_dtype dtype, void *data, int64_t i, __int128 value) {
  uint64_t bits = dtype == REED_BOOL ? value != 0 : (uint64_t)value;
  memcpy(element(dtype, data, i), &bits, reed_dtype_bytes(dtype)); /* little-endian: the low bytes */
}

long double reference_read_float(reed_dtype dtype, const void *data, int64_t i) {
  if (reference_is_float(dtype)) return reed_dtype_read(dtype, element(dtype, data, i));
  return (long double)reference_read_int(dtype, data, i);
}

void reference_write_float(reed_dtype dtype, void *data, int64_t i, long double value) {
  reed_dtype_write(dtype, element(dtype, data, i), (double)value);
}

bool reference_is_float(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

bool reference_is_signed(reed_dtype dtype) {
  return dtype == REED_I8 || dtype == REED_I16 || dtype == REED_I32 || dtype == REED_I64;
}
