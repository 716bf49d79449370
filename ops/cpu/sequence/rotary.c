/* RotaryEmbedding (ONNX opset 23) of f32. Work is shared out by batch, head and place. Y may have X's memory, because a
 * pair is read before it is written. The reference: reference/rotary.c. */
#include "ops/cpu/calls/rotary.h"
#include "ops/cpu/sequence/rotary_loops.h"

typedef struct rotary_job {
  const rotary *r;
  const reed_kernel_buffers *buffers;
} rotary_job;

static void turn_rows(void *context, int64_t begin, int64_t end) {
  const rotary_job *job = context;
  const rotary *r = job->r;
  const void *const *in = job->buffers->inputs;
  for (int64_t i = begin; i < end; i++) {
    int64_t place = i % r->length, head = i / r->length % r->heads, batch = i / r->length / r->heads;
    int64_t at = batch * r->x_batch + head * r->x_head + place * r->x_row, row = rotary_row(r, in[3], batch, place);
    const float *x = (const float *)in[0] + at, *cosines = (const float *)in[1] + row,
                *sines = (const float *)in[2] + row;
    float *y = (float *)job->buffers->outputs[0] + at;
    if (r->step == 1) CPU_PICK(r->level, turn_halves)(x, cosines, sines, r->cache_apart, y, r->pairs);
    else CPU_PICK(r->level, turn_neighbours)(x, cosines, sines, r->cache_step, r->cache_apart, y, r->pairs);
    int64_t rest = r->size - 2 * r->pairs;
    if (rest > 0 && x != y) memcpy(y + 2 * r->pairs, x + 2 * r->pairs, (size_t)rest * sizeof *y);
  }
}

static reed_status run_rotary(const void *state, const reed_kernel_buffers *buffers) {
  const rotary *r = state;
  rotary_job job = {r, buffers};
  if (r->places >= 0) {
    reed_status status =
        cpu_indices_check(buffers, r->team, 3, REED_I64, buffers->inputs[3], r->batch * r->length, r->places);
    if (status != REED_OK) return status;
  }
  return cpu_parallel(r->team, r->batch * r->heads * r->length, 1, turn_rows, &job);
}

reed_status cpu_prepare_rotary(const reed_kernel_call *call, reed_kernel *out_kernel) {
  rotary r;
  reed_status status = rotary_read(call, &r);
  if (status != REED_OK || call->inputs[0].dtype != REED_F32) return status;
  r.team = cpu_team_for(r.team, desc_elements(&call->inputs[0]) * 8);
  rotary *state = mem_copy(&r, sizeof r);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_rotary, state);
  return REED_OK;
}
