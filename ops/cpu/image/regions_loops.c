/* Loops of regions (regions_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/regions_loops.h"

#include <string.h>

void CPU_LEVELED(scatter_taps)(const int64_t *offsets, const float *weights, int64_t taps, const float *restrict g,
                               float *restrict x, int64_t n) {
  for (int64_t t = 0; t < taps; t++) {
    float *restrict to = x + offsets[t];
    float weight = weights[t];
    for (int64_t i = 0; i < n; i++) to[i] += weight * g[i];
  }
}

/* row[] = the gradients of the bins of row p, spread to the columns. */
static inline void spread_columns(const roi_plan *plan, const float *g) {
  memset(plan->row, 0, (size_t)plan->n_columns * sizeof *plan->row);
  for (int64_t q = 0; q < plan->bins_x; q++)
    for (int32_t t = plan->x.begin[q]; t < plan->x.begin[q + 1]; t++)
      plan->row[plan->x.index[t]] += plan->x.weight[t] * g[q];
}

void CPU_LEVELED(roi_align_channels_back)(const roi_plan *plan, roi_band band, const float *g, int64_t channels,
                                          float *x) {
  int64_t n = plan->n_columns;
  const float *restrict row = plan->row;
  for (int64_t channel = 0; channel < channels; channel++, x += plan->plane)
    for (int64_t p = 0; p < plan->bins_y; p++, g += plan->bins_x) {
      int32_t t = plan->y.begin[p], end = plan->y.begin[p + 1];
      while (t < end && plan->y.index[t] < band.first) t++;
      while (end > t && plan->y.index[end - 1] >= band.after) end--;
      if (t == end || n == 0) continue;
      spread_columns(plan, g);
      for (; t < end; t++) {
        if (plan->y.index[t] < band.first || plan->y.index[t] >= band.after) continue;
        float *restrict to = x + plan->y.index[t] * plan->row_stride, weight = plan->y.weight[t];
        if (plan->columns)
          for (int64_t j = 0; j < n; j++) to[plan->columns[j]] += weight * row[j];
        else
          for (int64_t j = 0; j < n; j++) to[plan->first_column + j] += weight * row[j];
      }
    }
}

void CPU_LEVELED(roi_ps_sum)(const roi_ps_bin *bin, const float *x, int64_t n, float *y) {
  const roi_taps *rows = bin->y, *columns = bin->x;
  int32_t u_begin = columns->begin[bin->q], u_end = columns->begin[bin->q + 1];
  for (int64_t c = 0; c < n; c++, x += bin->channel, y += bin->output) {
    float sum = 0;
    for (int32_t t = rows->begin[bin->p]; t < rows->begin[bin->p + 1]; t++) {
      const float *from = x + rows->index[t] * bin->row;
      float part = 0;
      for (int32_t u = u_begin; u < u_end; u++) part += columns->weight[u] * from[columns->index[u] * bin->pixel];
      sum += rows->weight[t] * part;
    }
    *y = sum;
  }
}

void CPU_LEVELED(roi_ps_sum_back)(const roi_ps_bin *bin, roi_band band, const float *g, int64_t n, float *x) {
  const roi_taps *rows = bin->y, *columns = bin->x;
  int32_t u_begin = columns->begin[bin->q], u_end = columns->begin[bin->q + 1];
  for (int64_t c = 0; c < n; c++, x += bin->channel, g += bin->output)
    for (int32_t t = rows->begin[bin->p]; t < rows->begin[bin->p + 1]; t++) {
      if (rows->index[t] < band.first || rows->index[t] >= band.after) continue;
      float *to = x + rows->index[t] * bin->row, part = rows->weight[t] * *g;
      for (int32_t u = u_begin; u < u_end; u++) to[columns->index[u] * bin->pixel] += columns->weight[u] * part;
    }
}

/* The largest pixel of each column first..after-1 over a bin's rows, and its row; -1: none. */
static inline void most_of_columns(const roi_ranges *r, const float *x, int64_t p, int32_t first, int32_t after) {
  float *restrict most = r->most;
  int32_t *restrict row = r->row;
  int32_t n = after - first;
  for (int32_t j = 0; j < n; j++) most[j] = -__FLT_MAX__, row[j] = -1;
  for (int32_t i = r->y[2 * p]; i < r->y[2 * p + 1]; i++) {
    const float *restrict from = x + i * r->width + first;
    for (int32_t j = 0; j < n; j++) {
      bool more = from[j] > most[j];
      most[j] = more ? from[j] : most[j];
      row[j] = more ? i : row[j];
    }
  }
}

void CPU_LEVELED(roi_most_channels)(const roi_ranges *r, const float *x, int64_t channels, float *y, int32_t *argmax) {
  int32_t first = r->x[0], after = r->x[2 * r->bins_x - 1];
  for (int64_t channel = 0; channel < channels; channel++, x += r->plane)
    for (int64_t p = 0; p < r->bins_y; p++, y += r->bins_x) {
      bool no_rows = r->y[2 * p] >= r->y[2 * p + 1];
      if (!no_rows) most_of_columns(r, x, p, first, after);
      for (int64_t q = 0; q < r->bins_x; q++) {
        bool empty = no_rows || r->x[2 * q] >= r->x[2 * q + 1];
        float most = empty ? 0 : -__FLT_MAX__;
        int32_t row = INT32_MAX, column = -1;
        for (int32_t j = r->x[2 * q]; j < r->x[2 * q + 1] && !empty; j++) {
          float v = r->most[j - first];
          int32_t i = r->row[j - first];
          bool more = i >= 0 && (v > most || (v == most && i < row));
          most = more ? v : most;
          row = more ? i : row;
          column = more ? j : column;
        }
        y[q] = most;
        if (argmax) *argmax++ = column < 0 ? -1 : (int32_t)(row * r->width + column);
      }
    }
}

void CPU_LEVELED(roi_most_pixel)(const float *restrict x, int32_t pixel, int64_t n, float *restrict most,
                                 int32_t *restrict at) {
  for (int64_t i = 0; i < n; i++) {
    bool more = x[i] > most[i];
    most[i] = more ? x[i] : most[i];
    at[i] = more ? pixel : at[i];
  }
}
