/* Regions of blocks of channels side by side (roi_lanes_loops.h), compiled once per CPU level. The copies are in
 * roi_copies_loops.c. */
#include "ops/cpu/image/roi_lanes_loops.h"

#include <string.h>

#include "ops/cpu/common/lanes.h"

#define VECTORS (ROI_LANES / LANES) /* of a pixel */
typedef int32_t lane_numbers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t lane_places __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* ---- sums of taps ---- */

#define TAPS_FEW 4

/* y = the sum of a bin's taps, of which there are n along x. */
static void sum_bin(const roi_lane_bins *b, int32_t t, int32_t t_end, int32_t u, int32_t n, const float *map,
                    float *y) {
  const int32_t *restrict columns = b->x->index + u, *restrict rows = b->y->index;
  const float *restrict along = b->x->weight + u, *restrict down = b->y->weight;
  lanes sum[VECTORS] = {{0}};
  for (; t < t_end && n > 0; t++) {
    const float *row = map + rows[t] * b->width * ROI_LANES;
    lanes part[VECTORS];
    for (int v = 0; v < VECTORS; v++) part[v] = along[0] * load(row + columns[0] * (int64_t)ROI_LANES + v * LANES);
    for (int32_t k = 1; k < n; k++)
      for (int v = 0; v < VECTORS; v++) part[v] += along[k] * load(row + columns[k] * (int64_t)ROI_LANES + v * LANES);
    for (int v = 0; v < VECTORS; v++) sum[v] += down[t] * part[v];
  }
  for (int v = 0; v < VECTORS; v++) store(y + v * LANES, sum[v]);
}

/* y = the sum of a bin's taps in `n_rows` rows and `n` columns, both constants where it is inlined: the loops unroll.
 */
INLINE void sum_few(const float *const *rows, const float *down, int n_rows, const int32_t *restrict columns,
                    const float *restrict along, int n, float *restrict y) {
  int64_t at[TAPS_FEW];
  for (int k = 0; k < n; k++) at[k] = columns[k] * (int64_t)ROI_LANES;
  for (int v = 0; v < VECTORS; v++) {
    lanes sum = {0};
    for (int t = 0; t < n_rows; t++) {
      lanes part = along[0] * load(rows[t] + at[0] + v * LANES);
      for (int k = 1; k < n; k++) part += along[k] * load(rows[t] + at[k] + v * LANES);
      sum = t ? sum + down[t] * part : down[t] * part;
    }
    store(y + v * LANES, sum);
  }
}

/* One row of bins, whose taps have n_rows rows. */
INLINE void mean_few(const roi_lane_bins *b, int64_t p, int n_rows, const float *map, float *restrict y) {
  const int32_t *restrict begin = b->x->begin, *restrict columns = b->x->index;
  const float *restrict along = b->x->weight, *rows[TAPS_FEW];
  float down[TAPS_FEW];
  int32_t t = b->y->begin[p];
  for (int i = 0; i < n_rows; i++) {
    rows[i] = map + b->y->index[t + i] * b->width * ROI_LANES;
    down[i] = b->y->weight[t + i];
  }
  for (int64_t q = b->q; q < b->after_q; q++, y += ROI_LANES) {
    int32_t u = begin[q], n = begin[q + 1] - u;
    if (n == 4) sum_few(rows, down, n_rows, columns + u, along + u, 4, y);
    else if (n == 3) sum_few(rows, down, n_rows, columns + u, along + u, 3, y);
    else sum_bin(b, t, t + n_rows, u, n, map, y);
  }
}

/* Two samples along an axis have two to four taps. */
static void mean_sparse(const roi_lane_bins *b, const float *map, float *y) {
  int64_t row = (b->after_q - b->q) * ROI_LANES;
  for (int64_t p = b->p; p < b->after_p; p++, y += row) {
    int32_t t = b->y->begin[p], t_end = b->y->begin[p + 1];
    if (t_end - t == 4) {
      mean_few(b, p, 4, map, y);
    } else if (t_end - t == 3) {
      mean_few(b, p, 3, map, y);
    } else {
      for (int64_t q = b->q; q < b->after_q; q++)
        sum_bin(b, t, t_end, b->x->begin[q], b->x->begin[q + 1] - b->x->begin[q], map, y + (q - b->q) * ROI_LANES);
    }
  }
}

#define SUM_ROWS(expression) \
  do { \
    if (first) \
      for (int64_t j = 0; j < n; j++) sums[j] = (expression); \
    else \
      for (int64_t j = 0; j < n; j++) sums[j] += (expression); \
  } while (0)

/* sums = the weighted sum of a row of bins' rows, at the columns that some tap needs */
static void sum_rows(const roi_lane_bins *b, int64_t p, const float *map) {
  float *restrict sums = b->sums;
  int64_t n = b->columns * ROI_LANES, row = b->width * ROI_LANES;
  const int32_t *index = b->y->index;
  const float *w = b->y->weight, *from = map + b->column * ROI_LANES;
  int32_t t = b->y->begin[p], end = b->y->begin[p + 1];
  bool first = true;
  for (; t + 4 <= end; t += 4, first = false) {
    const float *restrict a = from + index[t] * row, *restrict c = from + index[t + 1] * row,
                          *restrict d = from + index[t + 2] * row, *restrict e = from + index[t + 3] * row;
    float wa = w[t], wc = w[t + 1], wd = w[t + 2], we = w[t + 3];
    SUM_ROWS(wa * a[j] + wc * c[j] + wd * d[j] + we * e[j]);
  }
  for (; t + 2 <= end; t += 2, first = false) {
    const float *restrict a = from + index[t] * row, *restrict c = from + index[t + 1] * row;
    float wa = w[t], wc = w[t + 1];
    SUM_ROWS(wa * a[j] + wc * c[j]);
  }
  for (; t < end; t++, first = false) {
    const float *restrict a = from + index[t] * row;
    float wa = w[t];
    SUM_ROWS(wa * a[j]);
  }
}

static void mean_dense(const roi_lane_bins *b, const float *map, float *y) {
  for (int64_t p = b->p; p < b->after_p; p++) {
    bool none = b->y->begin[p] == b->y->begin[p + 1];
    if (!none) sum_rows(b, p, map);
    for (int64_t q = b->q; q < b->after_q; q++, y += ROI_LANES) {
      lanes sum[VECTORS] = {{0}};
      for (int32_t u = b->x->begin[q]; u < b->x->begin[q + 1] && !none; u++) {
        const float *at = b->sums + (b->x->index[u] - b->column) * ROI_LANES;
        for (int v = 0; v < VECTORS; v++) sum[v] += b->x->weight[u] * load(at + v * LANES);
      }
      for (int v = 0; v < VECTORS; v++) store(y + v * LANES, sum[v]);
    }
  }
}

void CPU_LEVELED(roi_lanes_mean)(const roi_lane_bins *b, const float *map, float *y) {
  if (b->dense) mean_dense(b, map, y);
  else mean_sparse(b, map, y);
}

/* ---- their gradients ---- */

/* Adds a bin's gradient to its taps, of which there are n along x. */
INLINE void spread_bin(const roi_lane_bins *b, int32_t t, int32_t t_end, int32_t u, int32_t n, const float *g,
                       float *map) {
  const int32_t *restrict columns = b->x->index + u, *restrict rows = b->y->index;
  const float *restrict along = b->x->weight + u, *restrict down = b->y->weight;
  lanes from[VECTORS];
  for (int v = 0; v < VECTORS; v++) from[v] = load(g + v * LANES);
  for (; t < t_end; t++) {
    if (rows[t] < b->band.first || rows[t] >= b->band.after) continue;
    float *row = map + rows[t] * b->width * ROI_LANES;
    for (int32_t k = 0; k < n; k++) {
      float weight = down[t] * along[k], *at = row + columns[k] * (int64_t)ROI_LANES;
      for (int v = 0; v < VECTORS; v++) store(at + v * LANES, load(at + v * LANES) + weight * from[v]);
    }
  }
}

static void spread_sparse(const roi_lane_bins *b, const float *g, float *map) {
  for (int64_t p = b->p; p < b->after_p; p++)
    for (int64_t q = b->q; q < b->after_q; q++, g += ROI_LANES) {
      int32_t t = b->y->begin[p], t_end = b->y->begin[p + 1], u = b->x->begin[q], n = b->x->begin[q + 1] - u;
      if (n == 4) spread_bin(b, t, t_end, u, 4, g, map);
      else if (n == 2) spread_bin(b, t, t_end, u, 2, g, map);
      else spread_bin(b, t, t_end, u, n, g, map);
    }
}

static void spread_dense(const roi_lane_bins *b, const float *g, float *map) {
  float *restrict sums = b->sums;
  int64_t n = b->columns * ROI_LANES;
  for (int64_t p = b->p; p < b->after_p; p++) {
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t q = b->q; q < b->after_q; q++, g += ROI_LANES)
      for (int32_t u = b->x->begin[q]; u < b->x->begin[q + 1]; u++) {
        float *at = sums + (b->x->index[u] - b->column) * ROI_LANES;
        for (int v = 0; v < VECTORS; v++)
          store(at + v * LANES, load(at + v * LANES) + b->x->weight[u] * load(g + v * LANES));
      }
    for (int32_t t = b->y->begin[p]; t < b->y->begin[p + 1]; t++) {
      if (b->y->index[t] < b->band.first || b->y->index[t] >= b->band.after) continue;
      float *restrict to = map + (b->y->index[t] * b->width + b->column) * ROI_LANES, weight = b->y->weight[t];
      for (int64_t j = 0; j < n; j++) to[j] += weight * sums[j];
    }
  }
}

void CPU_LEVELED(roi_lanes_mean_back)(const roi_lane_bins *b, const float *g, float *map) {
  if (b->dense) spread_dense(b, g, map);
  else spread_sparse(b, g, map);
}

/* ---- largest pixels ---- */

/* The larger of (most, at) and (v, place). Of equal values, the earlier place if `ties`, else (most, at). A place of
 * nothing is -1, the last one. */
INLINE void keep_most(bool ties, lanes v, lane_places place, lanes *most, lane_places *at) {
#if defined(__AVX512F__)
  __mmask16 more = _mm512_cmp_ps_mask(v, *most, _CMP_GT_OQ);
  if (ties)
    more |= _mm512_mask_cmplt_epu32_mask(_mm512_cmp_ps_mask(v, *most, _CMP_EQ_OQ), (__m512i)place, (__m512i)*at);
  *most = _mm512_mask_mov_ps(*most, more, v);
  *at = (lane_places)_mm512_mask_mov_epi32((__m512i)*at, more, (__m512i)place);
#else
  lane_numbers more = v > *most;
  if (ties) more |= (v == *most) & (place < *at);
  *most = (lanes)(((lane_numbers)v & more) | ((lane_numbers)*most & ~more));
  *at = (place & (lane_places)more) | (*at & ~(lane_places)more);
#endif
}

INLINE lane_places places(uint32_t place) { return (lane_places){0} + place; }
INLINE lane_places load_places(const void *p) { return *(const lane_places *)p; }
INLINE void store_places(void *p, lane_places x) { *(lane_places *)p = x; }

/* The largest pixel of each column over rows begin..end-1, and its number. */
static void most_of_columns(const roi_ranges *r, const float *map, int64_t begin, int64_t end, int64_t first,
                            int64_t after, float *most, float *at) {
  for (int64_t j = first; j < after; j++)
    for (int v = 0; v < VECTORS; v++) {
      lanes m = all(-__FLT_MAX__);
      lane_places place = places((uint32_t)-1);
      for (int64_t i = begin; i < end; i++) {
        int64_t pixel = i * r->width + j;
        keep_most(false, load(map + pixel * ROI_LANES + v * LANES), places((uint32_t)pixel), &m, &place);
      }
      store(most + j * ROI_LANES + v * LANES, m);
      store_places(at + j * ROI_LANES + v * LANES, place);
    }
}

void CPU_LEVELED(roi_lanes_most)(const roi_ranges *r, const float *map, float *scratch, float *y, int32_t *argmax) {
  float *most = scratch, *at = scratch + r->width * ROI_LANES;
  int64_t first = r->width, after = 0;
  for (int64_t q = 0; q < r->bins_x; q++) {
    if (r->x[2 * q] < r->x[2 * q + 1] && r->x[2 * q] < first) first = r->x[2 * q];
    if (r->x[2 * q] < r->x[2 * q + 1] && r->x[2 * q + 1] > after) after = r->x[2 * q + 1];
  }
  for (int64_t p = 0; p < r->bins_y; p++) {
    int64_t begin = r->y[2 * p], end = r->y[2 * p + 1];
    if (begin < end) most_of_columns(r, map, begin, end, first, after, most, at);
    for (int64_t q = 0; q < r->bins_x; q++, y += ROI_LANES, argmax += ROI_LANES) {
      bool empty = begin >= end || r->x[2 * q] >= r->x[2 * q + 1];
      for (int v = 0; v < VECTORS; v++) {
        lanes m = all(empty ? 0 : -__FLT_MAX__);
        lane_places place = places((uint32_t)-1);
        for (int64_t j = r->x[2 * q]; j < r->x[2 * q + 1] && !empty; j++)
          keep_most(true, load(most + j * ROI_LANES + v * LANES), load_places(at + j * ROI_LANES + v * LANES), &m,
                    &place);
        store(y + v * LANES, m);
        store_places(argmax + v * LANES, place);
      }
    }
  }
}

void CPU_LEVELED(roi_lanes_most_back)(const float *g, const int32_t *argmax, int64_t n, int64_t begin, int64_t end,
                                      float *map) {
  for (int64_t k = 0; k < n; k++, g += ROI_LANES, argmax += ROI_LANES)
    for (int i = 0; i < ROI_LANES; i++)
      if (argmax[i] >= begin && argmax[i] < end) map[argmax[i] * (int64_t)ROI_LANES + i] += g[i];
}
