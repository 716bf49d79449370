/* GridSample (ONNX opset 22) for f32 and up to three spatial axes. With channels last a sample is a weighted sum of
 * pixels, all channels side by side. With channels second the places and weights of a block of samples are computed
 * once for a group of channels. The reference: reference/grid_sample.c. */
#include "ops/cpu/calls/grid_sample.h"

#include "ops/cpu/common/rows_loops.h"
#include "ops/cpu/views/view.h"

#define SAMPLES_AT_ONCE 64
#define PLANES 4 /* of a sample, so that a tap's place and weight are read once for them */
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

/* taps_of for linear samples of two axes, with the numbers of grid_sample_taps. */
static int32_t linear_taps_of(const sample_job *job, int64_t sample, int64_t *places, float *weights) {
  const grid_sample *s = &job->state->s;
  const grid_settings settings = {SAMPLE_LINEAR, s->settings.outside, s->settings.align_corners, true};
  int64_t columns[2], rows[2];
  double column_shares[2], row_shares[2];
  int32_t n = 0;
  grid_taps(&settings, (double)job->grid[2 * sample], s->extents[1], columns, column_shares);
  grid_taps(&settings, (double)job->grid[2 * sample + 1], s->extents[0], rows, row_shares);
  for (int row = 0; row < 2; row++)
    for (int column = 0; column < 2; column++) {
      places[n] = rows[row] * s->extents[1] + columns[column];
      weights[n] = (float)(column_shares[column] * row_shares[row]);
      n += (rows[row] | columns[column]) >= 0;
    }
  return n;
}

/* The taps of sample number `sample` of all images that have a pixel: their places in a plane, and their weights.
 * Returns how many these are. */
static int32_t taps_of(const sample_job *job, int64_t sample, int64_t *places, float *weights) {
  const grid_sample *s = &job->state->s;
  if (s->settings.mode == SAMPLE_LINEAR && s->axes == 2) return linear_taps_of(job, sample, places, weights);
  double coordinates[AXES_MOST], shares[TAPS_MOST];
  int32_t n = 0;
  for (int32_t d = 0; d < s->axes; d++) coordinates[d] = (double)job->grid[sample * s->axes + d];
  grid_sample_taps(s, coordinates, places, shares);
  for (int64_t t = 0; t < job->state->n_taps; t++) {
    if (places[t] < 0) continue;
    places[n] = places[t];
    weights[n++] = (float)shares[t];
  }
  return n;
}

/* ---- channels last ---- */

/* Samples begin..end-1 of all images. */
static void sample_pixels(void *context, int64_t begin, int64_t end) {
  const sample_job *job = context;
  const grid_sample *s = &job->state->s;
  for (int64_t i = begin; i < end && !cpu_cancelled_at(&s->team, i); i++) {
    int64_t places[TAPS_MOST];
    float weights[TAPS_MOST];
    const int32_t n = taps_of(job, i, places, weights);
    for (int32_t t = 0; t < n; t++) places[t] *= s->channels;
    CPU_PICK(s->level, weighted_taps)
    (job->x + i / s->samples * s->pixels * s->channels, places, weights, n, false, job->y + i * s->channels,
     s->channels);
  }
}

/* ---- channels second ---- */

/* The taps of some samples of an image: sample i has taps[i] of them, from number i * most on, each with its place in a
 * plane and its weight. */
typedef struct sample_block {
  int64_t most;
  int64_t *places;
  float *weights;
  int32_t *taps;
} sample_block;

static int64_t bytes_of_block(int64_t n_taps) {
  return SAMPLES_AT_ONCE * (n_taps * (int64_t)(sizeof(int64_t) + sizeof(float)) + (int64_t)sizeof(int32_t));
}

static sample_block block_at(char *memory, int64_t n_taps) {
  sample_block block = {.most = n_taps, .places = (int64_t *)memory};
  block.weights = (float *)(block.places + SAMPLES_AT_ONCE * n_taps);
  block.taps = (int32_t *)(block.weights + SAMPLES_AT_ONCE * n_taps);
  return block;
}

/* A sample of PLANES planes. Vectors would gather a tap's pixels, which takes longer than loading them one by one. */
static inline void sample_planes(const float *x, int64_t pixels, const int64_t *places, const float *weights,
                                 int32_t taps, float *y, int64_t samples) {
  const float *x1 = x + pixels, *x2 = x1 + pixels, *x3 = x2 + pixels;
  float a = 0, b = 0, c = 0, d = 0;
  for (int32_t t = 0; t < taps; t++) {
    const float weight = weights[t];
    const int64_t at = places[t];
    a += weight * x[at];
    b += weight * x1[at];
    c += weight * x2[at];
    d += weight * x3[at];
  }
  y[0] = a;
  y[samples] = b;
  y[2 * samples] = c;
  y[3 * samples] = d;
}

/* The block's first n samples, of `channels` planes from x on. */
static void sample_channels(const grid_sample *s, const sample_block *block, const float *x, int64_t channels, float *y,
                            int64_t n) {
  int64_t c = 0;
  for (; c + PLANES <= channels; c += PLANES, x += PLANES * s->pixels, y += PLANES * s->samples)
    for (int64_t i = 0; i < n; i++) {
      const int32_t taps = block->taps[i];
      const int64_t *places = block->places + i * block->most;
      const float *weights = block->weights + i * block->most;
      if (taps == 4) sample_planes(x, s->pixels, places, weights, 4, y + i, s->samples);
      else sample_planes(x, s->pixels, places, weights, taps, y + i, s->samples);
    }
  for (; c < channels; c++, x += s->pixels, y += s->samples)
    for (int64_t i = 0; i < n; i++) {
      float sum = 0;
      for (int64_t t = i * block->most, end = t + block->taps[i]; t < end; t++)
        sum += block->weights[t] * x[block->places[t]];
      y[i] = sum;
    }
}

/* Items begin..end-1: an item is a group of channels of a block of an image's samples. */
static void sample_blocks(void *context, int64_t begin, int64_t end, int32_t worker) {
  const sample_job *job = context;
  const sample_state *state = job->state;
  const grid_sample *s = &state->s;
  int64_t filled = -1;
  sample_block taps = block_at(job->workspace + worker * bytes_of_block(state->n_taps), state->n_taps);
  for (int64_t i = begin; i < end && !cpu_cancelled(&s->team); i++) {
    int64_t block = i / state->groups, image = block / state->blocks, channel = i % state->groups * state->group,
            first = block % state->blocks * SAMPLES_AT_ONCE;
    int64_t n = s->samples - first < SAMPLES_AT_ONCE ? s->samples - first : SAMPLES_AT_ONCE,
            channels = s->channels - channel < state->group ? s->channels - channel : state->group;
    for (int64_t k = 0; k < n && block != filled; k++)
      taps.taps[k] =
          taps_of(job, image * s->samples + first + k, taps.places + k * taps.most, taps.weights + k * taps.most);
    filled = block;
    int64_t plane = image * s->channels + channel;
    sample_channels(s, &taps, job->x + plane * s->pixels, channels, job->y + plane * s->samples + first, n);
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
  if (s->dtype != REED_F32 || s->grid_dtype != REED_F32 || s->axes > AXES_MOST || s->pixels == 0) return REED_OK;
  state.n_taps = grid_sample_n_taps(s);
  state.blocks = (s->samples + SAMPLES_AT_ONCE - 1) / SAMPLES_AT_ONCE;
  state.group = GROUP_WORK / (SAMPLES_AT_ONCE * state.n_taps);
  state.groups = (s->channels + state.group - 1) / state.group;
  void *copy = mem_copy(&state, sizeof state);
  if (!copy) return cpu_no_memory(view->call);
  cpu_kernel_set(out_kernel, run_grid_sample, copy);
  if (!state.last) out_kernel->workspace_bytes = bytes_of_block(state.n_taps) * s->team.threads;
  return REED_OK;
}
