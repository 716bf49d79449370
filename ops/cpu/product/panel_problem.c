/* The geometry of a panel_problem (panel_problem.h). */
#include "ops/cpu/product/panel_problem.h"

#include "ops/cpu/product/whole.h"

#define STORE_PRODUCTS 10 /* products that take as long as the sum's begin and end: 3 ns for 16 outputs, measured */
#define CURVE_BYTES 8     /* of an activation that is a curve, in cpu_team_for's count: 0.5 to 1 ns an element */

void panel_join_rows(panel_problem *p) {
  for (int i = 0; i < PANEL_AXES; i++)
    if (p->taps[i] != 1 || p->stride[i] != 1 || p->pad[i] != 0 || p->in[i] != p->out[i]) return;
  if (p->x_row != p->in[2] * p->x_pixel || p->y_row != p->out[2] * p->y_pixel) return;
  p->in[2] *= p->in[1];
  p->in[1] = p->out[1] = 1;
  p->out[2] = p->in[2];
  if (p->x_slab != p->in[2] * p->x_pixel || p->y_slab != p->out[2] * p->y_pixel) return;
  p->in[2] *= p->in[0];
  p->in[0] = p->out[0] = 1;
  p->out[2] = p->in[2];
  if (p->x_image != p->in[2] * p->x_pixel || p->y_image != p->out[2] * p->y_pixel) return;
  p->in[2] *= p->images;
  p->out[2] = p->in[2];
  p->images = 1;
}

int64_t panel_last_whole_column(const panel_problem *p) {
  int64_t left = p->in[2] - 1 - (p->taps[2] - 1) * p->dilation[2] + p->pad[2];
  return left < 0 ? -1 : left / p->stride[2];
}

int64_t panel_work(const panel_problem *p) {
  double depth = (double)p->channels * (double)(p->taps[0] * p->taps[1] * p->taps[2]),
         columns = (double)(p->groups * round_up(p->outputs, PACKED_STEP)),
         pixels = (double)(p->images * p->out[0] * p->out[1] * p->out[2]), weights = columns * depth,
         products = pixels * columns * (depth + STORE_PRODUCTS),
         curves = activation_ends_tiles(&p->activation) ? 0 : pixels * (double)(p->groups * p->outputs),
         time = products / PRODUCTS_PER_BYTE + curves * CURVE_BYTES, read = weights_work(weights),
         work = time > read ? time : read;
  return work < 1e15 ? (int64_t)work : INT64_MAX;
}

void panel_taps_inside(const panel_problem *p, int axis, int64_t from, int64_t *out_begin, int64_t *out_end) {
  int64_t step = p->dilation[axis], begin = from < 0 ? divided(-from, step) : 0,
          end = from < p->in[axis] ? divided(p->in[axis] - from, step) : 0;
  *out_begin = smaller(begin, p->taps[axis] - 1);
  *out_end = larger(smaller(end, p->taps[axis]), *out_begin + 1);
}
