/* Places of regions on a map, in arithmetic of type ROI_REAL: included by roi_align.h once for float, whose functions
 * have the plain names, and once for double. Sources: torchvision's CPU kernels (RoIAlign: He et al. 2017, "Mask
 * R-CNN"; RoI pooling: Girshick 2015, "Fast R-CNN"; position-sensitive forms: Dai et al. 2016, "R-FCN", and Li et al.
 * 2017, "Light-Head R-CNN"). Needs ROI_REAL and ROI_NAME(name). */

/* One axis of a region: bin p begins at start + p * bin and has `grid` samples. */
typedef struct ROI_NAME(roi_span) {
  ROI_REAL start, bin;
  double grid;
} ROI_NAME(roi_span);

/* The span between two corners of a region, in pixels of the feature map. */
static inline ROI_NAME(roi_span) ROI_NAME(roi_span_of)(const roi_align *r, ROI_REAL low, ROI_REAL high, int64_t bins) {
  ROI_REAL offset = r->half_pixel ? (ROI_REAL)0.5 : (ROI_REAL)0, scale = (ROI_REAL)r->scale;
  ROI_REAL start = low * scale - offset, size = high * scale - offset - start;
  if (!r->half_pixel && !(size > 1)) size = 1;
  ROI_NAME(roi_span) span = {start, size / (ROI_REAL)bins, (double)r->sampling};
  if (r->sampling <= 0) span.grid = span.bin > 0 ? __builtin_ceil((double)span.bin) : 0;
  return span;
}

static inline ROI_REAL ROI_NAME(roi_sample)(const ROI_NAME(roi_span) * span, int64_t bin, double g) {
  return span->start + (ROI_REAL)bin * span->bin + ((ROI_REAL)g + (ROI_REAL)0.5) * span->bin / (ROI_REAL)span->grid;
}

/* The place of a sample: two neighbours, and the weight of the upper one. False outside -1..extent, for NaN, and for a
 * map without pixels. */
static inline bool ROI_NAME(roi_neighbours)(ROI_REAL at, int64_t extent, int64_t *out_low, int64_t *out_high,
                                            ROI_REAL *out_upper) {
  if (!(at >= -1 && at <= (ROI_REAL)extent) || extent == 0) return false;
  if (at < 0) at = 0;
  int64_t low = (int64_t)at;
  if (low >= extent - 1) {
    *out_low = *out_high = extent - 1;
    *out_upper = 0;
  } else {
    *out_low = low;
    *out_high = low + 1;
    *out_upper = at - (ROI_REAL)low;
  }
  return true;
}

/* True for a position-sensitive region without samples: a mean over no samples is NaN, as torchvision has it. */
static inline bool ROI_NAME(roi_is_mean_of_nothing)(const roi_align *r, const ROI_NAME(roi_span) * span) {
  return r->kind == ROI_PS_ALIGN && r->sampling <= 0 && span->bin > -1 && span->bin <= 0;
}

/* One axis of a region between two corners that are rounded to pixels: bin p has the pixels from p * step to
 * (p + 1) * step after the start, rounded outwards and clamped to 0..most. ROI_POOL includes the last pixel.
 * ROI_PS_POOL does not, and its bins end one pixel before the map does: torchvision's forward kernel clamps so. */
typedef struct ROI_NAME(roi_pixels) {
  double start, most;
  ROI_REAL step;
} ROI_NAME(roi_pixels);

static inline ROI_NAME(roi_pixels)
    ROI_NAME(roi_pixels_of)(const roi_align *r, ROI_REAL low, ROI_REAL high, int64_t bins, int64_t extent) {
  ROI_REAL scale = (ROI_REAL)r->scale;
  bool closed = r->kind == ROI_POOL;
  double start = __builtin_round((double)(low * scale)), end = __builtin_round((double)(high * scale));
  double size = end - start + (closed ? 1 : 0);
  return (ROI_NAME(roi_pixels)){start, (double)(extent - (closed ? 0 : 1)),
                                (ROI_REAL)(size > 1 ? size : 1) / (ROI_REAL)bins};
}

/* Rows or columns *out_begin .. *out_end - 1 of a bin. */
static inline void ROI_NAME(roi_bin_pixels)(const ROI_NAME(roi_pixels) * axis, int64_t bin, int64_t *out_begin,
                                            int64_t *out_end) {
  double most = axis->most, first = __builtin_floor((double)((ROI_REAL)bin * axis->step)) + axis->start,
         after = __builtin_ceil((double)((ROI_REAL)(bin + 1) * axis->step)) + axis->start;
  *out_begin = first < 0 || most < 0 ? 0 : (int64_t)(first < most ? first : most);
  *out_end = after < 0 || most < 0 ? 0 : (int64_t)(after < most ? after : most);
}

#undef ROI_REAL
#undef ROI_NAME
