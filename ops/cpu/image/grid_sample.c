/* GridSample (ONNX opset 22) for f32 and up to three spatial axes. With channels last a sample is a weighted sum of
 * pixels, all channels side by side. With channels second the places and weights of a block of samples are computed
 * once for a group of channels, and the block's samples are gathered side by side. The reference:
 * reference/grid_sample.c. The innermost loop: grid_sample_loops.c. */
#include "ops/cpu/calls/grid_sample.h"

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/image/grid_sample_loops.h"
#include "ops/cpu/views/view.h"

#define AXES_MOST 3
#define TAPS_MOST 64         /* four along each of three axes */
#define GROUP_WORK (1 << 16) /* taps of a group of channels of a block of samples */

typedef struct sample_state {
  grid_sample s;
  int64_t n_taps;
  bool last;
  int64_t blocks, group, groups; /* channels second: blocks of an image's samples; channels of a group; groups */
} sample_state;

typedef struct sample_job {
  const sample_state *state;
  const float *x, *grid;
  float *y;
  char *workspace;
} sample_job;

/* ---- channels last ---- */

/* Samples begin..end-1 of all images. */
static void sample_pixels(void *context, int64_t begin, int64_t end) {
  const sample_job *job = context;
  const grid_sample *s = &job->state->s;
  for (int64_t i = begin; i < end && !cpu_cancelled_at(&s->team, i); i++) {
    int64_t places[TAPS_MOST], n = 0;
    double shares[TAPS_MOST];
    float weights[TAPS_MOST];
    grid_sample_taps(s, job->grid + i * s->axes, places, shares);
    for (int64_t t = 0; t < job->state->n_taps; t++) {
      if (places[t] < 0) continue;
      places[n] = places[t] * s->channels;
      weights[n++] = (float)shares[t];
    }
    CPU_PICK(s->level, weighted_taps)
    (job->x + i / s->samples * s->pixels * s->channels, places, weights, n, false, job->y + i * s->channels,
     s->channels);
  }
}

/* ---- channels second ---- */

/* The places and weights of `n` samples from `first` on, tap by tap; the rest of the block reads nothing. */
static void fill_block(const sample_job *job, int64_t first, int64_t n, int32_t *places, float *weights) {
  const grid_sample *s = &job->state->s;
  for (int64_t i = 0; i < SAMPLES_AT_ONCE; i++) {
    int64_t at[TAPS_MOST];
    double shares[TAPS_MOST];
    if (i < n) grid_sample_taps(s, job->grid + (first + i) * s->axes, at, shares);
    for (int64_t t = 0; t < job->state->n_taps; t++) {
      places[t * SAMPLES_AT_ONCE + i] = i < n ? (int32_t)at[t] : -1;
      weights[t * SAMPLES_AT_ONCE + i] = i < n ? (float)shares[t] : 0;
    }
  }
}

/* Items begin..end-1: an item is a group of channels of a block of an image's samples. */
static void sample_blocks(void *context, int64_t begin, int64_t end, int32_t worker) {
  const sample_job *job = context;
  const sample_state *state = job->state;
  const grid_sample *s = &state->s;
  int64_t n_taps = state->n_taps, filled = -1;
  int32_t *places = (int32_t *)job->workspace + worker * 2 * n_taps * SAMPLES_AT_ONCE;
  float *weights = (float *)(places + n_taps * SAMPLES_AT_ONCE);
  for (int64_t i = begin; i < end && !cpu_cancelled(&s->team); i++) {
    int64_t block = i / state->groups, image = block / state->blocks, channel = i % state->groups * state->group,
            first = block % state->blocks * SAMPLES_AT_ONCE;
    int64_t n = s->samples - first < SAMPLES_AT_ONCE ? s->samples - first : SAMPLES_AT_ONCE,
            channels = s->channels - channel < state->group ? s->channels - channel : state->group;
    if (block != filled) fill_block(job, image * s->samples + first, n, places, weights);
    filled = block;
    int64_t plane = image * s->channels + channel;
    CPU_PICK(s->level, gather_samples)
    (job->x + plane * s->pixels, s->pixels, places, weights, n_taps, channels, job->y + plane * s->samples + first,
     s->samples, n);
  }
}

static reed_status run_grid_sample(const void *given, const reed_kernel_buffers *buffers) {
  const sample_state *state = given;
  const grid_sample *s = &state->s;
  sample_job job = {state, buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], buffers->workspace};
  int64_t samples = s->images * s->samples;
  cpu_team team = cpu_team_for(s->team, samples * state->n_taps * (s->channels + 16) * 4);
  if (state->last) return cpu_parallel(team, samples, 1, sample_pixels, &job);
  return cpu_parallel_scratch(team, s->images * state->blocks * state->groups, 1, sample_blocks, &job);
}

reed_status cpu_prepare_grid_sample(const cpu_view *view, reed_kernel *out_kernel) {
  sample_state state = {.last = view->last};
  grid_sample *s = &state.s;
  reed_status status = grid_sample_read(view->call, s);
  if (status != REED_OK) return status;
  if (s->dtype != REED_F32 || s->grid_dtype != REED_F32 || s->axes > AXES_MOST || s->pixels == 0 ||
      s->pixels > INT32_MAX)
    return REED_OK;
  state.n_taps = grid_sample_n_taps(s);
  state.blocks = (s->samples + SAMPLES_AT_ONCE - 1) / SAMPLES_AT_ONCE;
  state.group = GROUP_WORK / (SAMPLES_AT_ONCE * state.n_taps);
  state.groups = (s->channels + state.group - 1) / state.group;
  void *copy = mem_copy(&state, sizeof state);
  if (!copy) return cpu_no_memory(view->call);
  cpu_kernel_set(out_kernel, run_grid_sample, copy);
  if (!state.last) out_kernel->workspace_bytes = state.n_taps * SAMPLES_AT_ONCE * 8 * s->team.threads;
  return REED_OK;
}
