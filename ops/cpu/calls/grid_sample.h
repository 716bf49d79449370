/* A GridSample call, for the kernel and the reference. */
#ifndef OPS_CPU_CALLS_GRID_SAMPLE_H_
#define OPS_CPU_CALLS_GRID_SAMPLE_H_

#include "ops/cpu/calls/grid_sample_formulas.h"
#include "ops/cpu/common/common.h"

#define GRID_AXES_MOST (REED_MAX_RANK - 2)

/* X is `images` times [channels, pixels], or [pixels, channels] with channels last; the result likewise with `samples`.
 * The grid has axes coordinates for each sample of each image, that of the last axis first. */
typedef struct grid_sample {
  cpu_team team;
  cpu_level level;
  grid_settings settings;
  reed_dtype dtype, grid_dtype;
  int32_t axes;
  int64_t images, channels, pixels, samples;
  int64_t extents[GRID_AXES_MOST];
} grid_sample;

/* Reads a call whose X has its channels second. */
reed_status grid_sample_read(const reed_kernel_call *call, grid_sample *out_sample) REED_MUST_CHECK;

/* The places in a plane and the weights of the sample at these coordinates (that of the last axis first), one for each
 * tap of all axes. A place of -1 counts as 0. */
void grid_sample_taps(const grid_sample *s, const double *coordinates, int64_t *places, double *weights);
/* How many these are. */
static inline int64_t grid_sample_n_taps(const grid_sample *s) {
  int64_t n = 1;
  for (int32_t d = 0; d < s->axes; d++) n *= grid_taps_of(s->settings.mode);
  return n;
}

#endif
