/* A Keypoints call, and the size that the maps of a row are resized to. */
#ifndef OPS_CPU_KEYPOINTS_H_
#define OPS_CPU_KEYPOINTS_H_

#include "ops/cpu/common.h"

enum { KEYPOINTS_MAPS, KEYPOINTS_LEFT, KEYPOINTS_TOP, KEYPOINTS_WIDTH, KEYPOINTS_HEIGHT, KEYPOINTS_COLUMNS, KEYPOINTS_ROWS }; /* inputs */

typedef struct keypoints {
  cpu_site site;
  int n_threads;
  cpu_level level;
  int mapping; /* resize_read_mapping */
  double cubic_a;
  int64_t n, channels, rows, columns; /* of the maps */
} keypoints;

reed_status keypoints_read(const reed_kernel_call *call, keypoints *out_keypoints) REED_MUST_CHECK;
/* Row k's size, as integers. Fails (ERROR_VALUE) where one is no number of pixels, or there are too many to look at. */
reed_status keypoints_size(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t *out_rows,
                           int64_t *out_columns) REED_MUST_CHECK;
/* Writes a peak: row k's map c is `value` at pixel x, y. */
void keypoints_write(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t c, int64_t x, int64_t y, float value);

#endif
