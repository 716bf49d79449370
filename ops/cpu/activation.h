/* The activation that conv, matmul and gemm may end with: relu sigmoid tanh leaky_relu clip hardswish (ops/op.def, Conv). */
#ifndef OPS_CPU_ACTIVATION_H_
#define OPS_CPU_ACTIVATION_H_

#include "ops/cpu/common.h"

#define ACTIVATION_LIST(X) \
  X(RELU, "relu") X(SIGMOID, "sigmoid") X(TANH, "tanh") X(LEAKY_RELU, "leaky_relu") X(CLIP, "clip") X(HARDSWISH, "hardswish")

typedef enum activation_kind {
  ACTIVATION_NONE,
#define ACTIVATION_ENUM_(name, text) ACTIVATION_##name,
  ACTIVATION_LIST(ACTIVATION_ENUM_)
#undef ACTIVATION_ENUM_
} activation_kind;

/* alpha: leaky_relu's slope, clip's lower limit; beta: clip's upper limit. */
typedef struct activation {
  activation_kind kind;
  double alpha, beta;
  cpu_level level; /* of the loops */
} activation;

/* From the call's attributes; ERROR_UNSUPPORTED for a word that is none. */
reed_status activation_read(const reed_kernel_call *call, activation *out_activation) REED_MUST_CHECK;
/* One element, computed in double. */
double activation_at(const activation *a, double x);
/* In place over n elements of dtype, on up to n_threads threads. */
void activation_apply(const activation *a, int n_threads, reed_dtype dtype, void *data, int64_t n);

#endif
