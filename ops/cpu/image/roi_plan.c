/* The plan of a region (roi_plan.h): its taps along both axes, and the columns that they need. */
#include "ops/cpu/image/roi_plan.h"

/* Unused columns between the first and the last used one that are worth loading: a gathered element costs about this
 * many loads of neighbours. */
#define GATHER_COST 4

#define REGIONS_LOOKED_AT 64 /* whose extents stand for those of all */
#define BIN_WORK 32          /* of a bin in cpu_team_for's count, if regions are small */
#define SAMPLE_WORK 8        /* of a pixel or a sample of a region, likewise */
#define SAMPLE_PIXELS 4      /* that a sample reads */

/* A bin's samples span at most the bin's part of the map and two pixels more; a sample has two taps. */
int64_t roi_taps_max(const roi_align *r, int64_t extent, int64_t bins) {
  int64_t spanned = extent + 4 * bins + 8, sampled = 2 * r->sampling * bins;
  return roi_is_bilinear(r->kind) && r->sampling > 0 && sampled < spanned ? sampled : spanned;
}

/* Adds weight to the tap of a pixel. A bin's taps stay in order of appearance, so a tap of the same pixel is among the
 * last few. Coordinates so large that a float cannot tell bins apart may need more taps than there is room for: these
 * taps are dropped. */
static int32_t add_tap(roi_taps *taps, int32_t begin, int32_t end, int64_t room, int64_t pixel, float weight) {
  if (weight == 0) return end;
  for (int32_t t = end - 1; t >= begin && t >= end - 3; t--)
    if (taps->index[t] == pixel) return taps->weight[t] += weight, end;
  if (end >= room) return end;
  taps->index[end] = (int32_t)pixel;
  taps->weight[end] = weight;
  return end + 1;
}

/* The taps of bilinear samples. */
static void fill_samples(const roi_align *r, const roi_span *span, int64_t bins, int64_t extent, roi_taps *taps) {
  int32_t end = 0;
  int64_t room = roi_taps_max(r, extent, bins);
  float share = (float)(1.0 / (span->grid > 1 ? span->grid : 1));
  for (int64_t p = 0; p < bins; p++) {
    int64_t first, last;
    taps->begin[p] = end;
    roi_samples(span, p, extent, &first, &last);
    for (int64_t g = first; g < last; g++) {
      int64_t low, high;
      float upper;
      if (!roi_neighbours(roi_sample(span, p, (double)g), extent, &low, &high, &upper)) continue;
      end = add_tap(taps, taps->begin[p], end, room, low, (1 - upper) * share);
      end = add_tap(taps, taps->begin[p], end, room, high, upper * share);
    }
  }
  taps->begin[bins] = end;
}

/* The taps of whole pixels: each has its part of the mean. */
static void fill_pixels(const roi_align *r, float low, float high, int64_t bins, int64_t extent, roi_taps *taps) {
  int32_t n = 0;
  int64_t room = roi_taps_max(r, extent, bins);
  roi_pixels axis = roi_pixels_of(r, low, high, bins, extent);
  for (int64_t p = 0; p < bins; p++) {
    int64_t begin, end;
    roi_bin_pixels(&axis, p, &begin, &end);
    taps->begin[p] = n;
    float share = end > begin ? (float)(1.0 / (double)(end - begin)) : 0;
    for (int64_t k = begin; k < end && n < room; k++, n++) {
      taps->index[n] = (int32_t)k;
      taps->weight[n] = share;
    }
  }
  taps->begin[bins] = n;
}

static bool fill_taps(const roi_align *r, float low, float high, int64_t bins, int64_t extent, roi_taps *taps) {
  if (!roi_is_bilinear(r->kind)) {
    fill_pixels(r, low, high, bins, extent, taps);
    return true;
  }
  roi_span span = roi_span_of(r, low, high, bins);
  fill_samples(r, &span, bins, extent, taps);
  return !roi_is_mean_of_nothing(r, &span);
}

/* Chooses the columns: all from the first used one to the last, or only the used ones; makes the taps of x index into
 * them. `mark` has one entry for every column of the map, all zero before and after. */
static void pick_columns(roi_plan *plan, int32_t *columns, int32_t *mark) {
  int32_t n_taps = plan->x.begin[plan->bins_x], first = INT32_MAX, last = -1, n = 0;
  for (int32_t t = 0; t < n_taps; t++) {
    int32_t c = plan->x.index[t];
    if (!mark[c]) {
      columns[n] = c;
      mark[c] = ++n;
    }
    first = c < first ? c : first;
    last = c > last ? c : last;
  }
  bool gather = n_taps > 0 && (int64_t)n * GATHER_COST < last - first + 1;
  plan->columns = gather ? columns : NULL;
  plan->first_column = n_taps > 0 ? first : 0;
  plan->n_columns = n_taps == 0 ? 0 : gather ? n : last - first + 1;
  for (int32_t t = 0; t < n_taps; t++)
    plan->x.index[t] = gather ? mark[plan->x.index[t]] - 1 : plan->x.index[t] - first;
  for (int32_t k = 0; k < n; k++) mark[columns[k]] = 0;
}

int64_t roi_scratch_lay(const roi_align *r, char *at, roi_scratch *out) {
  int64_t taps_y = roi_taps_max(r, r->height, r->bins_y), taps_x = roi_taps_max(r, r->width, r->bins_x), used = 0;
  struct {
    int64_t n;
    void **place;
  } parts[] = {
      {r->bins_y + 1, (void **)&out->plan.y.begin}, {taps_y, (void **)&out->plan.y.index},
      {taps_y, (void **)&out->plan.y.weight},       {r->bins_x + 1, (void **)&out->plan.x.begin},
      {taps_x, (void **)&out->plan.x.index},        {taps_x, (void **)&out->plan.x.weight},
      {r->width, (void **)&out->columns},           {r->width, (void **)&out->mark},
      {r->width, (void **)&out->plan.row},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (at) *parts[i].place = at + used;
    used += (parts[i].n * 4 + 63) & ~(int64_t)63;
  }
  return used;
}

bool roi_taps_make(const roi_align *r, const float *corners, roi_taps *y, roi_taps *x) {
  bool some = fill_taps(r, corners[0], corners[2], r->bins_x, r->width, x);
  return fill_taps(r, corners[1], corners[3], r->bins_y, r->height, y) && some;
}

void roi_ranges_make(const roi_align *r, const float *corners, int32_t *y, int32_t *x) {
  for (int axis = 0; axis < 2; axis++) {
    int64_t bins = axis ? r->bins_x : r->bins_y, extent = axis ? r->width : r->height, begin, end;
    int32_t *to = axis ? x : y;
    roi_pixels pixels = roi_pixels_of(r, corners[!axis], corners[2 + !axis], bins, extent);
    for (int64_t p = 0; p < bins; p++) {
      roi_bin_pixels(&pixels, p, &begin, &end);
      to[2 * p] = (int32_t)begin;
      to[2 * p + 1] = (int32_t)(end > begin ? end : begin);
    }
  }
}

bool roi_plan_make(const roi_align *r, bool last, const float *corners, roi_scratch *s) {
  s->plan.bins_y = r->bins_y;
  s->plan.bins_x = r->bins_x;
  s->plan.row_stride = r->width;
  s->plan.plane = r->height * r->width;
  bool some = roi_taps_make(r, corners, &s->plan.y, &s->plan.x);
  if (!last) pick_columns(&s->plan, s->columns, s->mark);
  return some;
}

/* The pixels of a side of a region, at most those of the map. */
static double side_of(double from, double to, double scale, int64_t extent) {
  const double side = (to - from) * scale + 1;
  return side > 1 ? side < (double)extent ? side : (double)extent : 1;
}

/* The pixels that the bins of one output read in a region, about: the mean of some regions. */
static int64_t pixels_of(const roi_call *c, const reed_kernel_buffers *buffers) {
  const int64_t some = c->regions < REGIONS_LOOKED_AT ? c->regions : REGIONS_LOOKED_AT;
  double sum = 0;
  for (int64_t i = 0; i < some; i++) {
    const int64_t region = i * c->regions / some;
    const int32_t map = roi_map_of(c, buffers, region);
    if (map < 0) continue;
    const roi_align *r = &c->maps[map];
    const float *at = roi_corners(c, buffers, region);
    const double area = side_of(at[0], at[2], r->scale, r->width) * side_of(at[1], at[3], r->scale, r->height);
    const double samples = (double)r->bins_y * (double)r->bins_x * (double)r->sampling * (double)r->sampling;
    sum +=
        roi_is_bilinear(r->kind) && r->sampling > 0 && SAMPLE_PIXELS * samples < area ? SAMPLE_PIXELS * samples : area;
  }
  return some ? (int64_t)(sum / (double)some) : 0;
}

roi_sharing roi_share(const roi_call *c, const reed_kernel_buffers *buffers, int64_t outputs, int64_t units,
                      int64_t step_pixels) {
  const int64_t bins = c->regions * outputs * c->widest.bins_y * c->widest.bins_x,
                mean = pixels_of(c, buffers); /* of a region and output: at most those of a map */
  const double pixels = (double)mean * (double)c->regions * (double)outputs, work = pixels * SAMPLE_WORK;
  roi_sharing s = {.team = cpu_team_for(c->team, work < (double)(bins * BIN_WORK) ? bins * BIN_WORK
                                                 : work < 1e15                    ? (int64_t)work
                                                                                  : INT64_MAX)};
  const double of_unit = ((double)bins + pixels) / (double)(units ? units : 1);
  const int64_t most = units / (2 * s.team.threads);
  s.group = of_unit < (double)step_pixels ? (int64_t)((double)step_pixels / (of_unit + 1)) : 1;
  s.group = cpu_clamp(s.group, 1, most > 1 ? most : 1);
  s.items = (units + s.group - 1) / s.group;
  const double steps = ((double)bins + pixels) / (double)step_pixels;
  s.steps = s.items + (steps < 1e9 ? (int64_t)steps : (int64_t)1e9);
  return s;
}
