/* Depthwise convolution of planes: one channel of an image, whose rows lie one after the other. Vectors run along a row
 * of Y. X is read in place: elements beyond its edges are masked, rows beyond them are left out. */
#ifndef OPS_CPU_PRODUCT_DEPTHWISE_PLANE_LOOPS_H_
#define OPS_CPU_PRODUCT_DEPTHWISE_PLANE_LOOPS_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"

/* Rows row .. row + rows of a channel of Y. */
typedef struct depthwise_plane {
  const window *w; /* two axes, with a stride along the row of 1 or 2, and of 2 only without dilation along it */
  const activation *activation;
  int64_t row, rows;
  const float *x;        /* the channel of the image */
  const float *weights;  /* [tap rows][tap columns] */
  const float *residual; /* at the channel, like y, may be y; or NULL */
  float *y;              /* the channel */
  float bias;
} depthwise_plane;

CPU_LOOP(void, depthwise_plane_rows, (const depthwise_plane *p));

#endif
