/* The activation that convolutions, matrix products and normalisations may end with (ops/activation.def). */
#ifndef OPS_CPU_FORMULAS_ACTIVATION_H_
#define OPS_CPU_FORMULAS_ACTIVATION_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/formulas/activation_loops.h"

/* alpha and beta: the operator's attributes of these names; clip's lower and upper limit. */
typedef struct activation {
  activation_kind kind;
  double alpha, beta;
  cpu_level level; /* of the loops */
} activation;

/* From the call's attributes; ERROR_UNSUPPORTED for a word that is none. */
reed_status activation_read(const reed_kernel_call *call, activation *out_activation) REED_MUST_CHECK;
/* One element, computed in double. */
double activation_at(const activation *a, double x);
/* In place over n floats, on this thread: for what has just been written and is still near. */
void activation_row(const activation *a, float *x, int64_t n);
/* In place over n elements of dtype. */
REED_MUST_CHECK reed_status activation_apply(const activation *a, cpu_team team, reed_dtype dtype, void *data,
                                             int64_t n);

#endif
