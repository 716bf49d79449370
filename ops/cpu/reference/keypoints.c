/* Keypoints pixel by pixel: every element of every resized map, the first largest one. The kernel:
 * ops/cpu/image/keypoints.c. */
#include "ops/cpu/calls/keypoints.h"
#include "ops/cpu/calls/resize.h"
#include "ops/cpu/common/common.h"

/* `map` begins with the map's first element; the next one is p->lanes further. */
static float pixel(const keypoints *p, const float *map, const int32_t *row, const float *row_weight, int64_t columns,
                   int64_t x) {
  int32_t column[4];
  float weight[4];
  double sum = 0;
  resize_taps(p->mapping, &p->cubic_a, p->columns, columns, x, x + 1, column, weight);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++)
      sum += (double)map[(row[i] * p->columns + column[k]) * p->lanes] * row_weight[i] * weight[k];
  return (float)sum;
}

static reed_status run_keypoints(const void *state, const reed_kernel_buffers *buffers) {
  const keypoints *p = state;
  for (int64_t i = 0; i < p->n * p->channels; i++) {
    const float *maps = (const float *)buffers->inputs[KEYPOINTS_MAPS] + i / p->lanes * p->lanes * p->rows * p->columns;
    int64_t rows, columns;
    reed_status status = keypoints_size(p, buffers, i / p->channels, &rows, &columns);
    if (status != REED_OK) return status;
    keypoints_peak best = {.y = -1};
    for (int64_t y = 0; y < rows; y++) {
      int32_t row[4];
      float weight[4];
      resize_taps(p->mapping, &p->cubic_a, p->rows, rows, y, y + 1, row, weight);
      for (int64_t x = 0; x < columns; x++) {
        float value = pixel(p, maps + i % p->lanes, row, weight, columns, x);
        if (keypoints_beats(value, y, &best)) best = (keypoints_peak){value, x, y};
      }
    }
    keypoints_write(p, buffers, i / p->channels, i % p->channels, &best);
  }
  return REED_OK;
}

reed_status reference_prepare_keypoints(const reed_kernel_call *call, reed_kernel *out_kernel) {
  keypoints p;
  reed_status status = keypoints_read(call, &p);
  if (status != REED_OK) return status;
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_keypoints, state);
  return REED_OK;
}
