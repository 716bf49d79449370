/* PasteMasks pixel by pixel: a pixel of the box is the bilinear mean of the four of the mask around it, every other one
 * is 0. The kernel: ops/cpu/image/paste.c. */
#include "ops/cpu/calls/paste.h"
#include "ops/cpu/calls/resize.h"
#include "ops/cpu/common/common.h"

static double pixel(const paste *p, const float *mask, const paste_span *across, const paste_span *down, int64_t x,
                    int64_t y) {
  int32_t column[2], row[2];
  float column_share[2], row_share[2];
  double sum = 0;
  resize_taps(p->mapping, NULL, p->columns, across->extent, x - across->origin, x - across->origin + 1, column,
              column_share);
  resize_taps(p->mapping, NULL, p->rows, down->extent, y - down->origin, y - down->origin + 1, row, row_share);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++) sum += (double)mask[row[i] * p->columns + column[k]] * row_share[i] * column_share[k];
  return sum;
}

static reed_status run_paste(const void *state, const reed_kernel_buffers *buffers) {
  const paste *p = state;
  const int64_t *boxes = buffers->inputs[1];
  float *out = buffers->outputs[0];
  for (int64_t k = 0; k < p->masks; k++) {
    const float *mask = (const float *)buffers->inputs[0] + k * p->rows * p->columns;
    paste_span across = paste_visible(boxes[4 * k], boxes[4 * k + 2], p->width),
               down = paste_visible(boxes[4 * k + 1], boxes[4 * k + 3], p->height);
    for (int64_t y = 0; y < p->height; y++)
      for (int64_t x = 0; x < p->width; x++) {
        bool inside = x >= across.begin && x < across.end && y >= down.begin && y < down.end;
        *out++ = inside ? (float)pixel(p, mask, &across, &down, x, y) : 0;
      }
  }
  return REED_OK;
}

reed_status reference_prepare_paste_masks(const reed_kernel_call *call, reed_kernel *out_kernel) {
  paste p;
  reed_status status = paste_read(call, &p);
  if (status != REED_OK) return status;
  void *state = mem_copy(&p, sizeof p);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_paste, state);
  return REED_OK;
}
