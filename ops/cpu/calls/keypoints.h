/* A Keypoints call, and the size that the maps of a row are resized to. */
#ifndef OPS_CPU_CALLS_KEYPOINTS_H_
#define OPS_CPU_CALLS_KEYPOINTS_H_

#include "ops/cpu/common/common.h"

enum {
  KEYPOINTS_MAPS,
  KEYPOINTS_LEFT,
  KEYPOINTS_TOP,
  KEYPOINTS_WIDTH,
  KEYPOINTS_HEIGHT,
  KEYPOINTS_COLUMNS,
  KEYPOINTS_ROWS
}; /* inputs */

typedef struct keypoints {
  cpu_team team;
  cpu_level level;
  int mapping; /* resize_read_mapping */
  double cubic_a;
  int64_t n, channels, rows, columns; /* of the maps */
  int64_t lanes;                      /* maps that lie side by side: the channels where they come last, else 1 */
} keypoints;

/* The largest element met of a resized map. */
typedef struct keypoints_peak {
  float value;
  int64_t x, y; /* y -1: nothing has been looked at */
} keypoints_peak;

reed_status keypoints_read(const reed_kernel_call *call, keypoints *out_keypoints) REED_MUST_CHECK;
/* Element k of an input of numbers. */
static inline float keypoints_number(const reed_kernel_buffers *buffers, int32_t input, int64_t k) {
  return ((const float *)buffers->inputs[input])[k];
}
/* Row k's size, as integers. Fails (ERROR_VALUE) where one is no number of pixels, or there are too many to look at. */
reed_status keypoints_size(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t *out_rows,
                           int64_t *out_columns) REED_MUST_CHECK;
/* The largest element of row y, `value`, is the peak and not what has been met: as ArgMax has it, the first of equals,
 * NaN above all. */
bool keypoints_beats(float value, int64_t y, const keypoints_peak *best);
/* Writes the peak of row k's map c. */
void keypoints_write(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t c,
                     const keypoints_peak *peak);

#endif
