/* Helpers of the references of element-wise operators, data movement and reductions: a copy of the call, and elements
 * in wider types. One element at a time: no joined dims, no blocks, no threads. */
#ifndef OPS_CPU_REFERENCE_ELEMENTS_H_
#define OPS_CPU_REFERENCE_ELEMENTS_H_

#include "ops/cpu/common/common.h"

/* The call, copied. */
typedef struct reference_state {
  op_id id;
  reed_attrs attrs; /* the module's */
  int32_t n_inputs, n_outputs;
  reed_desc *outputs;  /* memory after the struct and its inputs */
  const void **values; /* per input: a copy of its host value; NULL: a run reads the buffers */
  reed_desc inputs[];
} reference_state;

reed_status reference_open(const reed_kernel_call *call, reed_kernel_run_fn run,
                           reed_kernel *out_kernel) REED_MUST_CHECK;

/* The elements of input i in a run. */
static inline const void *reference_input(const reference_state *s, const reed_kernel_buffers *buffers, int32_t i) {
  return s->values[i] ? s->values[i] : buffers->inputs[i];
}

/* Coordinates of linear index i and back; the latter clamps coordinates of extent 1 to 0 and aligns at the last dim
 * (broadcasting). */
void reference_coordinates(const reed_desc *desc, int64_t i, int64_t *out_coordinates);
int64_t reference_linear(const reed_desc *desc, const int64_t *coordinates, int32_t n_coordinates);

/* Elements as the widest exact types: integers and bool in 128 bits, floats in long double. Writing an integer
 * truncates its bits. */
__int128 reference_read_int(reed_dtype dtype, const void *data, int64_t i);
void reference_write_int(reed_dtype dtype, void *data, int64_t i, __int128 value);
long double reference_read_float(reed_dtype dtype, const void *data, int64_t i);
void reference_write_float(reed_dtype dtype, void *data, int64_t i, long double value);
bool reference_is_float(reed_dtype dtype);
bool reference_is_signed(reed_dtype dtype);

#endif
