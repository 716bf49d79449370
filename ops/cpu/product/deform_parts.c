/* Parts of the kernels of deformable convolutions (deform_parts.h). */
#include "ops/cpu/product/deform_parts.h"

#include "ops/cpu/common/convert.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/views/half.h"

#define TRANSPOSED 16 /* rows and columns of a tile */

void deform_plan_last(const deform *d, cpu_team team, bool back, strided_copy *out_copy) {
  int64_t pixels = deform_in_pixels(d), extents[] = {d->images, pixels, d->channels},
          second[] = {pixels * d->channels, 1, pixels}, last[] = {pixels * d->channels, d->channels, 1};
  strided_plan(out_copy, 3, extents, back ? last : second, 0, back ? second : last, 0, sizeof(float), team);
}

const float *deform_weights(const deform *d, const reed_kernel_buffers *buffers, int64_t first, int64_t n,
                            float *room) {
  const bool halves = half_is(d->weight_dtype);
  const void *from = half_element(buffers->inputs[d->at.weight], halves, first);
  if (!halves) return from;
  convert_between(d->level, d->weight_dtype, REED_F32)(room, from, n);
  return room;
}

void deform_fill_taps(const deform *d, const reed_kernel_buffers *buffers, const deform_block *block, deform_tap *taps,
                      deform_slope *slopes) {
  const float *offset = buffers->inputs[d->at.offset], *mask = d->at.mask >= 0 ? buffers->inputs[d->at.mask] : NULL;
  for (int64_t i = 0; i < block->n; i++)
    for (int64_t k = 0; k < d->taps; k++, taps++) {
      int64_t pixel = block->first + i;
      float y = (float)deform_origin(d, 0, pixel, k) +
                offset[deform_offset_at(d, block->image, block->group, k, 0, pixel)],
            x = (float)deform_origin(d, 1, pixel, k) +
                offset[deform_offset_at(d, block->image, block->group, k, 1, pixel)],
            m = mask ? mask[deform_mask_at(d, block->image, block->group, k, pixel)] : 1;
      deform_sample s = deform_sample_at(y, x, d->in[0], d->in[1]);
      for (int j = 0; j < 4; j++) {
        taps->at[j] = s.pixel[j] < 0 ? -1 : s.pixel[j] * d->channels;
        taps->weight[j] = m * s.weight[j];
      }
      if (!slopes) continue;
      slopes->mask = m;
      memcpy(slopes->weight, s.weight, sizeof s.weight);
      memcpy(slopes->dy, s.dy, sizeof s.dy);
      memcpy(slopes->dx, s.dx, sizeof s.dx);
      slopes++;
    }
}

void deform_multiply(cpu_level level, const deform_product *p) {
  int64_t rows = CPU_PICK(level, panel_rows)(p->columns);
  void (*multiply)(const panel_tile *tile) = p->pairs ? panel_pairs_multiply : CPU_PICK(level, panel_multiply);
  for (int64_t k = 0; k < p->depth; k += DEFORM_DEPTH)
    for (int64_t column = 0; column < p->columns; column += DEFORM_PANEL) {
      int64_t columns = smaller(p->columns - column, DEFORM_PANEL), run = 0;
      panel_tile tile = {.c = p->c + column,
                         .a = p->a + k,
                         .runs = &run,
                         .panel = p->b + column / DEFORM_PANEL * p->b_panel + k * p->b_row,
                         .bias = p->bias ? p->bias + column : NULL,
                         .n_runs = 1,
                         .run_length = smaller(p->depth - k, DEFORM_DEPTH),
                         .a_row = p->a_row,
                         .panel_row = p->b_row,
                         .c_row = p->c_row,
                         .width = round_up(columns, DEFORM_LANES),
                         .rows = rows,
                         .count = p->rows / rows,
                         .columns = columns,
                         .scale = 1,
                         .next = (const char *)p->a,
                         .first = k == 0 && !p->add};
      if (tile.count > 0) multiply(&tile);
      tile.a += tile.count * rows * p->a_row;
      tile.c = p->c + column + tile.count * rows * p->c_row;
      tile.rows = p->rows % rows;
      tile.count = 1;
      if (tile.rows > 0) multiply(&tile);
    }
}

void deform_transpose(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row) {
  for (int64_t i = 0; i < rows; i += TRANSPOSED)
    for (int64_t j = 0; j < columns; j += TRANSPOSED) {
      int64_t i_end = smaller(i + TRANSPOSED, rows), j_end = smaller(j + TRANSPOSED, columns);
      for (int64_t b = j; b < j_end; b++)
        for (int64_t a = i; a < i_end; a++) to[b * to_row + a] = from[a * from_row + b];
    }
}
