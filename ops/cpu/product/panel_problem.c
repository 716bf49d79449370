/* The geometry of a panel_problem (panel_problem.h). */
#include "ops/cpu/product/panel_problem.h"

#include "ops/cpu/product/whole.h"

#define PRODUCTS_PER_BYTE 8 /* products that take as long as a byte in cpu_team_for's count */

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
  double weights = 1.0 * p->groups * p->outputs * p->channels * p->taps[0] * p->taps[1] * p->taps[2],
         products = weights * (double)(p->images * p->out[0] * p->out[1] * p->out[2]) / PRODUCTS_PER_BYTE,
         work = products > weights * sizeof(float) ? products : weights * sizeof(float);
  return work < 1e15 ? (int64_t)work : INT64_MAX;
}

void panel_taps_inside(const panel_problem *p, int axis, int64_t from, int64_t *out_begin, int64_t *out_end) {
  int64_t step = p->dilation[axis], begin = from < 0 ? divided(-from, step) : 0,
          end = from < p->in[axis] ? divided(p->in[axis] - from, step) : 0;
  *out_begin = smaller(begin, p->taps[axis] - 1);
  *out_end = larger(smaller(end, p->taps[axis]), *out_begin + 1);
}
