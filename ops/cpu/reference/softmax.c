/* Softmax and LogSoftmax in double. */
#include "ops/cpu/softmax.h"

#include <math.h>

#include "ops/cpu/reference/layers.h"

typedef struct job {
  const softmax *s;
  const void *x;
  void *y;
} job;

#define SOFTMAX_COLUMN(T, name)                                                                    \
  static void name(const softmax *s, const T *x, T *y) {                                           \
    double most = -INFINITY, sum = 0;                                                              \
    for (int64_t k = 0; k < s->axis; k++) most = (double)x[k * s->inner] > most ? (double)x[k * s->inner] : most; \
    for (int64_t k = 0; k < s->axis; k++) sum += exp((double)x[k * s->inner] - most);              \
    for (int64_t k = 0; k < s->axis; k++) {                                                        \
      double shifted = (double)x[k * s->inner] - most;                                             \
      y[k * s->inner] = (T)(s->log ? shifted - log(sum) : exp(shifted) / sum);                     \
    }                                                                                              \
  }
SOFTMAX_COLUMN(float, column_f32)
SOFTMAX_COLUMN(double, column_f64)

static void columns(void *context, int64_t begin, int64_t end) {
  const job *j = context;
  const softmax *s = j->s;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i / s->inner * s->axis * s->inner + i % s->inner;
    if (s->dtype == REED_F32) column_f32(s, (const float *)j->x + at, (float *)j->y + at);
    else column_f64(s, (const double *)j->x + at, (double *)j->y + at);
  }
}

static reed_status run_softmax(const void *state, const reed_kernel_buffers *buffers) {
  const softmax *s = state;
  job j = {s, buffers->inputs[0], buffers->outputs[0]};
  cpu_parallel(cpu_threads_for(s->n_threads, s->outer * s->axis * s->inner * 64), s->outer * s->inner, 1, columns, &j);
  return REED_OK;
}

reed_status reference_prepare_softmax(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_dtype dtype = call->inputs[0].dtype;
  if (dtype != REED_F32 && dtype != REED_F64)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(dtype));
  if (desc_elements(&call->inputs[0]) == 0) return cpu_kernel_set_empty(out_kernel), REED_OK;
  softmax s;
  reed_status status = softmax_read(call, &s);
  if (status != REED_OK) return status;
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_softmax, state);
  return REED_OK;
}
