/* RotaryEmbedding in double, a pair at a time. The kernel: ops/cpu/sequence/rotary.c. */
#include "ops/cpu/calls/rotary.h"

typedef struct reference_rotary {
  rotary r;
  reed_dtype dtype;
} reference_rotary;

static double element(const reference_rotary *s, const void *data, int64_t i) {
  return reed_dtype_read(s->dtype, (const char *)data + (size_t)i * reed_dtype_bytes(s->dtype));
}

static void turn(const reference_rotary *s, const reed_kernel_buffers *buffers, int64_t x, int64_t row) {
  const rotary *r = &s->r;
  const void *const *in = buffers->inputs;
  for (int64_t i = 0; i < r->pairs; i++) {
    int64_t first = x + i * r->step, second = first + r->apart, angle = row + i * r->cache_step,
            other = angle + r->cache_apart;
    double a = element(s, in[0], first), b = element(s, in[0], second);
    char *y = buffers->outputs[0];
    size_t bytes = reed_dtype_bytes(s->dtype);
    reed_dtype_write(s->dtype, y + (size_t)first * bytes, a * element(s, in[1], angle) - b * element(s, in[2], angle));
    reed_dtype_write(s->dtype, y + (size_t)second * bytes, b * element(s, in[1], other) + a * element(s, in[2], other));
  }
  for (int64_t i = x + 2 * r->pairs; i < x + r->size; i++)
    reed_dtype_write(s->dtype, (char *)buffers->outputs[0] + (size_t)i * reed_dtype_bytes(s->dtype),
                     element(s, in[0], i));
}

static reed_status run(const void *state, const reed_kernel_buffers *buffers) {
  const reference_rotary *s = state;
  const rotary *r = &s->r;
  const int64_t *ids = buffers->inputs[3];
  if (r->places >= 0) {
    reed_status status = cpu_indices_check(buffers, r->team, 3, REED_I64, ids, r->batch * r->length, r->places);
    if (status != REED_OK) return status;
  }
  for (int64_t b = 0; b < r->batch; b++)
    for (int64_t h = 0; h < r->heads; h++)
      for (int64_t i = 0; i < r->length; i++)
        turn(s, buffers, b * r->x_batch + h * r->x_head + i * r->x_row, rotary_row(r, ids, b, i));
  return REED_OK;
}

reed_status reference_prepare_rotary(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reference_rotary s = {.dtype = call->inputs[0].dtype};
  reed_status status = rotary_read(call, &s.r);
  if (status != REED_OK) return status;
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run, state);
  return REED_OK;
}
