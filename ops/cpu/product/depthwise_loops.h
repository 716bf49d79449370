/* Convolution of images [N,H,W,C] in small groups (ops/packed.h). Depthwise: every channel has a window of its own,
 * Y[pixel][c] = sum over taps of X[pixel at tap][c] * W[c][tap]. Channels are contiguous, so vectors run over the
 * outputs of several groups; weights are kept as [taps][input of a group][C]. Extents appear only as counts and
 * distances, so any shape runs without preparation. At a border a window has fewer taps: X is read in place, without
 * zeros around it. */
#ifndef OPS_CPU_PRODUCT_DEPTHWISE_LOOPS_H_
#define OPS_CPU_PRODUCT_DEPTHWISE_LOOPS_H_

#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/common/window.h"

/* Columns begin..end of a row of Y. */
typedef struct depthwise_row {
  const window *w;
  const activation *activation;
  int64_t channels, group, row; /* group: inputs of one, 1, 2, 4 or 8; row: within its image */
  int64_t begin, end;
  bool far;              /* X and Y are far larger than the second-level cache */
  const float *x;        /* the image */
  const float *weights;  /* [taps][group][channels] */
  const float *bias;     /* or NULL */
  const float *residual; /* like y, may be y; or NULL */
  float *y;              /* of the whole row, as is residual */
} depthwise_row;

CPU_LOOP(void, depthwise_row, (const depthwise_row *r));

#endif
