/* Softmax, LogSoftmax, Hardmax (the first of the largest is 1, and NaN is larger than any number) and LpNormalization
 * (a line without length stays 0) in double. The kernel: ops/cpu/reduce/softmax.c. */
#include <math.h>

#include "ops/cpu/calls/softmax.h"
#include "ops/cpu/common/common.h"

typedef struct job {
  const softmax *s;
  const void *x;
  void *y;
} job;

static double length_step(double x, int64_t p) { return p == 1 ? fabs(x) : x * x; }

#define SOFTMAX_COLUMN(T, name) \
  static void name(const softmax *s, const T *x, T *y) { \
    double most = -INFINITY, sum = 0; \
    for (int64_t k = 0; k < s->axis; k++) most = (double)x[k * s->inner] > most ? (double)x[k * s->inner] : most; \
    for (int64_t k = 0; k < s->axis; k++) sum += exp((double)x[k * s->inner] - most); \
    for (int64_t k = 0; k < s->axis; k++) { \
      double shifted = (double)x[k * s->inner] - most; \
      y[k * s->inner] = (T)(s->kind == SOFTMAX_LOG ? shifted - log(sum) : exp(shifted) / sum); \
    } \
  }
#define HARDMAX_COLUMN(T, name) \
  static void name(const softmax *s, const T *x, T *y) { \
    int64_t best = 0; \
    for (int64_t k = 1; k < s->axis; k++) \
      best = x[best * s->inner] >= x[k * s->inner] || isnan(x[best * s->inner]) ? best : k; \
    for (int64_t k = 0; k < s->axis; k++) y[k * s->inner] = k == best; \
  }
#define LP_COLUMN(T, name) \
  static void name(const softmax *s, const T *x, T *y) { \
    double length = 0; \
    for (int64_t k = 0; k < s->axis; k++) length += length_step((double)x[k * s->inner], s->p); \
    if (s->p == 2) length = sqrt(length); \
    for (int64_t k = 0; k < s->axis; k++) y[k * s->inner] = length == 0 ? 0 : (T)((double)x[k * s->inner] / length); \
  }
#define COLUMN_OF_KIND(T, tag) \
  SOFTMAX_COLUMN(T, softmax_##tag) \
  HARDMAX_COLUMN(T, hardmax_##tag) \
  LP_COLUMN(T, lp_##tag) \
  static void column_##tag(const softmax *s, const T *x, T *y) { \
    switch (s->kind) { \
      case SOFTMAX: \
      case SOFTMAX_LOG: softmax_##tag(s, x, y); break; \
      case SOFTMAX_HARD: hardmax_##tag(s, x, y); break; \
      case SOFTMAX_LP: lp_##tag(s, x, y); break; \
    } \
  }
COLUMN_OF_KIND(float, f32)
COLUMN_OF_KIND(double, f64)

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
  return cpu_parallel(cpu_team_for(s->team, s->outer * s->axis * s->inner * 64), s->outer * s->inner, 1, columns, &j);
}

reed_status reference_prepare_softmax(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_dtype dtype = call->inputs[0].dtype;
  if (dtype != REED_F32 && dtype != REED_F64)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "no kernel for %s", reed_dtype_name(dtype));
  softmax s;
  softmax_read(call, &s);
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_softmax, state);
  return REED_OK;
}
