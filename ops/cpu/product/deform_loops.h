/* Loops of deformable convolutions over the channels of a pixel, which lie side by side. */
#ifndef OPS_CPU_PRODUCT_DEFORM_LOOPS_H_
#define OPS_CPU_PRODUCT_DEFORM_LOOPS_H_

#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* A sample: the sum of four pixels times their weights. */
typedef struct deform_tap {
  int64_t at[4]; /* from the image's first element to the pixels' first channels; -1: a pixel of zeros */
  float weight[4];
} deform_tap;

/* Samples of `n` channels: tap i's are at to + i * to_tap. */
CPU_LOOP(void, deform_sample_taps,
         (const deform_tap *taps, int64_t n_taps, const float *x, int64_t n, float *to, int64_t to_tap));
/* out_dots[i]: the product of the gradient with the tap's pixel i. */
CPU_LOOP(void, deform_dots, (const deform_tap *tap, const float *x, const float *grad, int64_t n, float *out_dots));
/* Adds the gradient times its weight to each of the tap's pixels. */
CPU_LOOP(void, deform_spread, (const deform_tap *tap, const float *grad, int64_t n, float *x));

#endif
