/* GridSample element by element, in the widest type. The kernel: ops/cpu/image/grid_sample.c. */
#include "ops/cpu/calls/grid_sample.h"
#include "ops/cpu/reference/elements.h"

typedef struct job {
  const grid_sample *s;
  const reed_kernel_buffers *buffers;
  int64_t n_taps;
} job;

/* Samples begin..end-1 of all images, each of every channel. */
static void sample(void *context, int64_t begin, int64_t end, int32_t worker) {
  const job *j = context;
  const grid_sample *s = j->s;
  const size_t bytes = reed_dtype_bytes(s->grid_dtype);
  int64_t *places = (int64_t *)j->buffers->workspace + worker * 2 * j->n_taps;
  double *weights = (double *)(places + j->n_taps);
  for (int64_t i = begin; i < end; i++) {
    double coordinates[GRID_AXES_MOST];
    const char *grid = (const char *)j->buffers->inputs[1] + (size_t)(i * s->axes) * bytes;
    for (int32_t d = 0; d < s->axes; d++) coordinates[d] = reed_dtype_read(s->grid_dtype, grid + (size_t)d * bytes);
    grid_sample_taps(s, coordinates, places, weights);
    for (int64_t c = 0; c < s->channels; c++) {
      const int64_t plane = i / s->samples * s->channels + c;
      long double sum = 0;
      for (int64_t t = 0; t < j->n_taps; t++)
        if (places[t] >= 0)
          sum += (long double)weights[t] *
                 reference_read_float(s->dtype, j->buffers->inputs[0], plane * s->pixels + places[t]);
      reference_write_float(s->dtype, j->buffers->outputs[0], plane * s->samples + i % s->samples, sum);
    }
  }
}

static reed_status run_grid_sample(const void *state, const reed_kernel_buffers *buffers) {
  const grid_sample *s = state;
  job j = {s, buffers, grid_sample_n_taps(s)};
  cpu_team team = cpu_team_for(s->team, s->images * s->samples * s->channels * j.n_taps * 64);
  return cpu_parallel_scratch(team, s->images * s->samples, 1, sample, &j);
}

reed_status reference_prepare_grid_sample(const reed_kernel_call *call, reed_kernel *out_kernel) {
  grid_sample s;
  reed_status status = grid_sample_read(call, &s);
  if (status != REED_OK) return status;
  void *state = mem_copy(&s, sizeof s);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_grid_sample, state);
  out_kernel->workspace_bytes = grid_sample_n_taps(&s) * (int64_t)(sizeof(int64_t) + sizeof(double)) * s.team.threads;
  return REED_OK;
}
