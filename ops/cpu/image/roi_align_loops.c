/* RoiAlign's inner loops (ops/cpu/image/roi_align_loops.h), compiled once per CPU level. */
#include "ops/cpu/image/roi_align_loops.h"

#include "ops/cpu/calls/roi_align.h"

/* row[j] (+)= the weighted sum of four, two or one rows at columns j. */
#define GATHER(c) (columns ? columns[c] : (c))
#define SUM_ROWS(n, expression) \
  do { \
    if (first) \
      for (int64_t j = 0; j < n; j++) row[j] = (expression); \
    else \
      for (int64_t j = 0; j < n; j++) row[j] += (expression); \
  } while (0)

static inline void sum_rows(const roi_plan *plan, const float *x, int64_t bin, const int32_t *restrict columns) {
  float *restrict row = plan->row;
  int64_t n = plan->n_columns;
  const int32_t *index = plan->y.index;
  const float *weight = plan->y.weight;
  int32_t t = plan->y.begin[bin], end = plan->y.begin[bin + 1];
  bool first = true;
  for (; t + 4 <= end; t += 4, first = false) {
    const float *a = x + index[t] * plan->row_stride, *b = x + index[t + 1] * plan->row_stride,
                *c = x + index[t + 2] * plan->row_stride, *d = x + index[t + 3] * plan->row_stride;
    float wa = weight[t], wb = weight[t + 1], wc = weight[t + 2], wd = weight[t + 3];
    SUM_ROWS(n, wa * a[GATHER(j)] + wb * b[GATHER(j)] + wc * c[GATHER(j)] + wd * d[GATHER(j)]);
  }
  for (; t + 2 <= end; t += 2, first = false) {
    const float *a = x + index[t] * plan->row_stride, *b = x + index[t + 1] * plan->row_stride;
    float wa = weight[t], wb = weight[t + 1];
    SUM_ROWS(n, wa * a[GATHER(j)] + wb * b[GATHER(j)]);
  }
  for (; t < end; t++, first = false) {
    const float *a = x + index[t] * plan->row_stride;
    float wa = weight[t];
    SUM_ROWS(n, wa * a[GATHER(j)]);
  }
}

void CPU_LEVELED(roi_align_channels)(const roi_plan *plan, const float *x, int64_t channels, float *y) {
  for (int64_t channel = 0; channel < channels; channel++, x += plan->plane)
    for (int64_t p = 0; p < plan->bins_y; p++, y += plan->bins_x) {
      if (plan->y.begin[p] == plan->y.begin[p + 1]) {
        memset(y, 0, (size_t)plan->bins_x * sizeof *y);
        continue;
      }
      if (plan->columns) sum_rows(plan, x, p, plan->columns);
      else sum_rows(plan, x + plan->first_column, p, NULL);
      for (int64_t q = 0; q < plan->bins_x; q++) {
        float sum = 0;
        for (int32_t t = plan->x.begin[q]; t < plan->x.begin[q + 1]; t++)
          sum += plan->x.weight[t] * plan->row[plan->x.index[t]];
        y[q] = sum;
      }
    }
}
