/* Plain references of element-wise kernels, data movement and reductions, the oracle of the tests (REED_CPU=reference):
 * one element at a time, no joined dims, no blocks, no threads, arithmetic in wider types. Same interface and meaning
 * as cpu_prepare_<x>. Generators and selections have none: their kernels are as plain already. */
#ifndef OPS_CPU_REFERENCE_ELEMENTS_H_
#define OPS_CPU_REFERENCE_ELEMENTS_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/formulas.h"

/* All of formulas.def, Clip, Where. */
reed_status reference_prepare_elementwise(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status reference_prepare_cast(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
/* The call has been checked: its program is good (ops/fused.h). */
reed_status reference_prepare_fused(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
/* Every operator whose output elements are input elements (or a constant): movement.c, gather.c, pad.c. */
reed_status reference_prepare_move(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status reference_prepare_scatter(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status reference_prepare_reduce(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;
/* CumSum, ArgMax, ArgMin. */
reed_status reference_prepare_scan(const reed_kernel_call *call, reed_kernel *out_kernel) REED_MUST_CHECK;

/* ---- inside reference/ ---- */

/* The call itself, kept. */
typedef struct reference_state {
  op_id id;
  reed_attrs attrs; /* the module's */
  int32_t n_inputs, n_outputs;
  reed_desc *outputs;  /* behind the struct, after inputs */
  const void **values; /* per input: a copy of its host value, NULL where run reads the buffers */
  reed_desc inputs[];
} reference_state;

/* One element of Cast: from[0] to to[i]. */
void reference_convert(reed_dtype from_dtype, const void *from, reed_dtype to_dtype, void *to, int64_t i);
/* One element of a formula of n operands, elements 0 of cells[]; written as element 0 of `out`. False: there is none
 * for these dtypes. */
bool reference_formula(int formula, const elementwise_parameters *p, int32_t n, const reed_dtype *dtypes,
                       const void *const *cells, reed_dtype out_dtype, void *out, int *fault);

reed_status reference_open(const reed_kernel_call *call, reed_kernel_run_fn run,
                           reed_kernel *out_kernel) REED_MUST_CHECK;

/* The elements of input i while running. */
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
