/* Reading a Keypoints call, comparing peaks and writing them, for the kernel and the reference. */
#include "ops/cpu/calls/keypoints.h"

#include <math.h>

#include "ops/cpu/calls/resize.h"

#define MOST_PIXELS ((int64_t)1 << 28) /* of a resized map: a picture of 16384 by 16384 */

reed_status keypoints_read(const reed_kernel_call *call, keypoints *out_keypoints) {
  const reed_desc *maps = &call->inputs[KEYPOINTS_MAPS];
  char a[96], b[96];
  for (int32_t i = KEYPOINTS_LEFT; i <= KEYPOINTS_ROWS; i++)
    if (maps->rank != 4 || desc_elements(&call->inputs[i]) != maps->dims[0])
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "maps %s and %s %s do not go together",
                              desc_text(maps, a, sizeof a), reed_op_input_at(call->op, i)->name,
                              desc_text(&call->inputs[i], b, sizeof b));
  bool last = op_attr_int(call->attrs, "channels_last") != 0;
  int64_t channels = maps->dims[last ? 3 : 1], rows = maps->dims[last ? 1 : 2], columns = maps->dims[last ? 2 : 3];
  int64_t lanes = last && channels ? channels : 1;
  if (rows < 1 || columns < 1 || rows > INT32_MAX || columns > INT32_MAX / lanes)
    return reed_kernel_fail(call, REED_ERROR_SHAPE, "maps of %lld by %lld cannot be resized", (long long)rows,
                            (long long)columns);
  *out_keypoints = (keypoints){.team = cpu_env_team(call),
                               .mapping = resize_read_mapping(call),
                               .level = cpu_level_now(),
                               .cubic_a = op_attr_float(call->attrs, "cubic_coeff_a"),
                               .n = maps->dims[0],
                               .channels = channels,
                               .lanes = lanes,
                               .rows = rows,
                               .columns = columns};
  return REED_OK;
}

reed_status keypoints_size(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t *out_rows,
                           int64_t *out_columns) {
  float rows = keypoints_number(buffers, KEYPOINTS_ROWS, k), columns = keypoints_number(buffers, KEYPOINTS_COLUMNS, k);
  if (!(rows >= 1 && columns >= 1 && (double)rows * columns <= (double)MOST_PIXELS))
    return reed_kernel_fault(buffers, REED_FAULT_MAP_SIZE, KEYPOINTS_ROWS, k, cpu_bits_of(rows), cpu_bits_of(columns));
  *out_rows = (int64_t)rows;
  *out_columns = (int64_t)columns;
  return REED_OK;
}

bool keypoints_beats(float value, int64_t y, const keypoints_peak *best) {
  if (best->y < 0) return true;
  bool same = value == best->value || (isnan(value) && isnan(best->value));
  return same ? y < best->y : isnan(value) || value > best->value;
}

void keypoints_write(const keypoints *p, const reed_kernel_buffers *buffers, int64_t k, int64_t c,
                     const keypoints_peak *peak) {
  float *points = (float *)buffers->outputs[0] + k * 3 * p->channels + c;
  float across = keypoints_number(buffers, KEYPOINTS_WIDTH, k) / keypoints_number(buffers, KEYPOINTS_COLUMNS, k);
  float down = keypoints_number(buffers, KEYPOINTS_HEIGHT, k) / keypoints_number(buffers, KEYPOINTS_ROWS, k);
  points[0] = ((float)peak->x + 0.5f) * across + keypoints_number(buffers, KEYPOINTS_LEFT, k);
  points[p->channels] = ((float)peak->y + 0.5f) * down + keypoints_number(buffers, KEYPOINTS_TOP, k);
  points[2 * p->channels] = 1;
  ((float *)buffers->outputs[1])[k * p->channels + c] = peak->value;
}
