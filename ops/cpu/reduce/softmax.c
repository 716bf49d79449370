/* Softmax and LogSoftmax of f32 (ONNX opset 13; `flattened` is the older form: one softmax over all axes from `axis`
 * on). The reference computes other dtypes, Hardmax and LpNormalization. The reference: reference/softmax.c. */
#include "ops/cpu/calls/softmax.h"
#include "ops/cpu/common/rows_loops.h"

#define COLUMNS \
  512 /* columns done at a time where the axis is not the last: their scratch stays in the first cache \
       */

typedef struct softmax_job {
  const softmax *s;
  const float *x;
  float *y;
} softmax_job;

static void rows(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  int64_t axis = job->s->axis;
  for (int64_t i = begin; i < end; i++)
    CPU_PICK(job->s->level, softmax_row)(job->s->kind == SOFTMAX_LOG, job->x + i * axis, job->y + i * axis, axis);
}

static void columns(void *context, int64_t begin, int64_t end) {
  const softmax_job *job = context;
  int64_t inner = job->s->inner, axis = job->s->axis, blocks = (inner + COLUMNS - 1) / COLUMNS;
  float scratch[2 * COLUMNS];
  for (int64_t i = begin; i < end; i++) {
    int64_t first = i % blocks * COLUMNS, n = inner - first < COLUMNS ? inner - first : COLUMNS,
            at = i / blocks * axis * inner + first;
    CPU_PICK(job->s->level, softmax_columns)
    (job->s->kind == SOFTMAX_LOG, job->x + at, job->y + at, axis, inner, n, scratch);
  }
}

static reed_status run_softmax(const void *state, const reed_kernel_buffers *buffers) {
  const softmax *s = state;
  softmax_job job = {s, buffers->inputs[0], buffers->outputs[0]};
  cpu_team team = cpu_team_for(s->team, s->outer * s->axis * s->inner * 24);
  if (s->inner == 1) return cpu_parallel(team, s->outer, 1, rows, &job);
  return cpu_parallel(team, s->outer * ((s->inner + COLUMNS - 1) / COLUMNS), 1, columns, &job);
}

reed_status cpu_prepare_softmax(const reed_kernel_call *call, reed_kernel *out_kernel) {
  softmax s;
  softmax_read(call, &s);
  if (s.dtype != REED_F32 || s.kind == SOFTMAX_HARD || s.kind == SOFTMAX_LP) return REED_OK;
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_softmax, state);
  return REED_OK;
}
