/* Reading a GridSample call, and the pixels that one sample reads. */
#include "ops/cpu/calls/grid_sample.h"

reed_status grid_sample_read(const reed_kernel_call *call, grid_sample *s) {
  const reed_desc *x = &call->inputs[0], *grid = &call->inputs[1];
  *s = (grid_sample){.team = cpu_env_team(call),
                     .level = cpu_level_now(),
                     .settings = {.mode = op_attr_word(call->op, call->attrs, "mode"),
                                  .outside = op_attr_word(call->op, call->attrs, "padding_mode"),
                                  .align_corners = op_attr_int(call->attrs, "align_corners") != 0,
                                  .single = grid->dtype != REED_F64},
                     .dtype = x->dtype,
                     .grid_dtype = grid->dtype,
                     .axes = x->rank - 2};
  if (x->rank < 3 || grid->rank != x->rank || grid->dims[0] != x->dims[0] || grid->dims[grid->rank - 1] != s->axes) {
    char images[96], places[96];
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "images %s and grid %s do not go together",
                            desc_text(x, images, sizeof images), desc_text(grid, places, sizeof places));
  }
  s->images = x->dims[0];
  s->channels = x->dims[1];
  s->pixels = cpu_product(x->dims, 2, x->rank);
  s->samples = cpu_product(grid->dims, 1, grid->rank - 1);
  memcpy(s->extents, x->dims + 2, (size_t)s->axes * sizeof *s->extents);
  return REED_OK;
}

/* The taps with the mode as a constant. */
static inline void taps_of(const grid_sample *s, int mode, const double *coordinates, int64_t *places,
                           double *weights) {
  const grid_settings settings = {mode, s->settings.outside, s->settings.align_corners, s->settings.single};
  const int32_t taps = grid_taps_of(mode);
  int64_t stride = 1, n = 1;
  places[0] = 0;
  weights[0] = 1;
  for (int32_t d = s->axes - 1; d >= 0; d--) { /* the taps so far, times those of axis d */
    int64_t along[GRID_TAPS_MOST];
    double share[GRID_TAPS_MOST];
    grid_taps(&settings, coordinates[s->axes - 1 - d], s->extents[d], along, share);
    for (int32_t k = taps - 1; k >= 0; k--) /* the first of them last, because it is written over what all read */
      for (int64_t i = 0; i < n; i++) {
        places[k * n + i] = places[i] < 0 || along[k] < 0 ? -1 : places[i] + along[k] * stride;
        weights[k * n + i] = weights[i] * share[k];
      }
    n *= taps;
    stride *= s->extents[d];
  }
}

void grid_sample_taps(const grid_sample *s, const double *coordinates, int64_t *places, double *weights) {
  switch (s->settings.mode) {
    case SAMPLE_NEAREST: taps_of(s, SAMPLE_NEAREST, coordinates, places, weights); break;
    case SAMPLE_LINEAR: taps_of(s, SAMPLE_LINEAR, coordinates, places, weights); break;
    default: taps_of(s, SAMPLE_CUBIC, coordinates, places, weights); break;
  }
}
