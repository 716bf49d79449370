/* The geometry of a convolution with channels second (conv_planes.c): windows as columns of a product, and the memory
 * that they read, which is X itself or a copy of X with its pads. Three axes; absent ones have extent 1.
 *
 * A transposed convolution is a number of phases: output positions o with the same remainder of (o + pad) / stride read
 * neighbouring positions of X through the same taps, so that each phase is a plain convolution of stride 1. */
#ifndef OPS_CPU_PRODUCT_PLANES_H_
#define OPS_CPU_PRODUCT_PLANES_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/product/plane_loops.h"

#define PLANE_AXES 3

/* One axis of a phase: window i reads X at first + i * step + j * distance through tap number tap + j * tap_step, for j
 * < n_taps, and makes output y_first + i * y_step. */
typedef struct plane_axis {
  int64_t n, step, y_first, y_step;
  int64_t n_taps, tap, tap_step, first, distance;
} plane_axis;

typedef struct planes {
  bool transposed;
  int64_t groups, channels, outputs; /* of a group */
  int64_t in[PLANE_AXES], out[PLANE_AXES], kernel[PLANE_AXES], stride[PLANE_AXES], dilation[PLANE_AXES];
  int64_t pad[PLANE_AXES], n_phases[PLANE_AXES];
  /* The memory: positions low .. low + span of X. A copy keeps positions of one remainder by `lanes` together, as
   * neighbouring windows read them; a lane has `each` positions. */
  bool in_place;
  int64_t low[PLANE_AXES], span[PLANE_AXES], lanes[PLANE_AXES], each[PLANE_AXES];
  int64_t window[PLANE_AXES]; /* distance of neighbouring windows */
  int64_t channel;            /* of neighbouring channels */
} planes;

/* Fills in the geometry. False if there are more than three axes, or if the memory would be out of proportion to X. */
bool planes_init(const window *w, bool transposed, int64_t groups, int64_t channels, int64_t outputs, planes *out);
/* Phase number `phase` of an axis. */
plane_axis planes_axis(const planes *p, int axis, int64_t phase);
/* The place of a tap of the first window, in the memory: the taps' positions along the axes. */
int64_t planes_at(const planes *p, const int64_t *position);
/* Copies pieces begin..end of the planes_pieces of a channel, which are a row of X each or a part of a long one, with
 * zeros around them. `to`: of the channel. */
int64_t planes_pieces(const planes *p);
void planes_copy(const planes *p, cpu_level level, const float *x, int64_t begin, int64_t end, float *to);

#endif
