/* A Keypoints call, and the size to which a row's maps are resized, for the kernel and the reference. */
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
  int64_t lanes; /* contiguous elements of different maps: the channels if they come last, else 1 */
} keypoints;

/* The largest element of a resized map that has been met so far. */
typedef struct keypoints_peak {
  float value;
  int64_t x, y; /* y -1: no element has been met */
} keypoints_peak;

reed_status keypoints_read(const reed_kernel_call *call, keypoints *out_keypoints) REED_MUST_CHECK;
/* Element k of a float input. */
static inline float keypoints_number(const reed_kernel_buffers *buffers, int32_t input, int64_t k) {
  return ((const float *)buffers->inputs[input])[k];
}
/* The size of row k's resized maps, as integers. Fails (ERROR_VALUE) if a size is not a number of pixels, or if a
 * resized map would have too many pixels. */
reed_status keypoints_size(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t *out_rows,
                           int64_t *out_columns) REED_MUST_CHECK;
/* True if `value`, the largest element of row y, replaces the peak `best`. As in ArgMax the first of equal elements is
 * the peak, and NaN is above all numbers. */
bool keypoints_beats(float value, int64_t y, const keypoints_peak *best);
/* Writes the peak of row k's map c. */
void keypoints_write(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t c,
                     const keypoints_peak *peak);

#endif
