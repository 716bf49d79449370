/* Position-sensitive bins of whole pixels (ps_roi_pool) on blocks of channels: a unit's bin of many regions is one loop
 * (roi_boxes_loops.h). */
#include "base/fetch.h"
#include "ops/cpu/image/roi_boxes_loops.h"
#include "ops/cpu/image/roi_lanes_job.h"

#define BOXES_AHEAD 6 /* regions, whose bins are asked for ahead */

/* Asks for the lines of the unit's bins of a region: regions are in no order of memory. */
static void prefetch_bins(const roi_lanes_job *j, const roi_lanes_unit *u, int64_t region) {
  const roi_lanes_kernel *s = j->s;
  int64_t at, bytes = roi_lanes_bytes(s);
  roi_lane_form form = roi_lanes_bins_form(s, u, s->c.dtype, region, &at);
  const char *first = (const char *)(s->c.backward ? j->buffers->inputs[0] : j->buffers->outputs[0]) + at * bytes;
  if (s->c.last) fetch_bytes(first, (size_t)(u->slots * form.pixel * bytes));
  else
    for (int32_t k = 0; k < u->n; k++) fetch_line(first + k * form.lane * bytes);
}

/* The unit's bins of regions begin..end-1 of the order, in w->bins, ROI_BOXES_PART pixels for each bin: written to the
 * output, or read from the gradient. */
static void move_boxes(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, int64_t begin,
                       int64_t end) {
  const roi_lanes_kernel *s = j->s;
  bool fours = !s->c.last && u->slots == ROI_FOURS;
  for (int64_t i = begin; i < end; i++) {
    if (i + BOXES_AHEAD < end) prefetch_bins(j, u, j->order[i + BOXES_AHEAD]);
    for (int64_t k = 0; k < (fours ? 1 : u->slots); k++) {
      int64_t at;
      roi_lanes_unit one = {u->first, u->bin + k, 1, u->n};
      roi_lane_form form = roi_lanes_bins_form(s, &one, s->c.dtype, j->order[i], &at);
      form.fours = fours;
      form.apart = ROI_BOXES_PART * ROI_LANES;
      float *bins = w->bins + (k * ROI_BOXES_PART + i - begin) * ROI_LANES;
      if (s->c.backward) CPU_PICK(s->c.level, roi_lanes_read)
      (&form, (const char *)j->buffers->inputs[0] + at * roi_lanes_bytes(s), 1, bins);
      else CPU_PICK(s->c.level, roi_lanes_write)(&form, bins, 1,
                                                 (char *)j->buffers->outputs[0] + at * roi_lanes_bytes(s));
    }
  }
}

static roi_boxes boxes_of(const roi_lanes_job *j, int64_t bin, roi_band band, int64_t begin, int64_t end) {
  const roi_lanes_kernel *s = j->s;
  const roi_align *r = &s->c.maps[0];
  return (roi_boxes){.ranges = (const int32_t *)roi_lanes_plan(j, NULL, 0),
                     .numbers = s->plan_bytes / 4,
                     .row = 2 * (bin / r->bins_x),
                     .column = 2 * (r->bins_y + bin % r->bins_x),
                     .regions = j->order + begin,
                     .n = end - begin,
                     .width = r->width,
                     .band = band};
}

/* At most ROI_BOXES_PART places begin..end-1 of the order, which are regions of one image; its maps are in block form.
 */
static void run_boxes(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, roi_band band,
                      int64_t begin, int64_t end) {
  const roi_lanes_kernel *s = j->s;
  const roi_note *first = &j->notes[j->order[begin]];
  if (s->c.backward) move_boxes(j, w, u, begin, end);
  for (int64_t k = 0; k < u->slots; k++) {
    roi_boxes boxes = boxes_of(j, u->bin + k, band, begin, end);
    float *bins = w->bins + k * ROI_BOXES_PART * ROI_LANES, *map = w->map + k * s->map_floats;
    if (first->group == s->n_groups)
      for (int64_t i = 0; i < boxes.n * ROI_LANES; i++) bins[i] = first->nothing;
    else if (s->c.backward) CPU_PICK(s->c.level, roi_boxes_mean_back)(&boxes, bins, map);
    else CPU_PICK(s->c.level, roi_boxes_mean)(&boxes, map, bins);
  }
  if (!s->c.backward) move_boxes(j, w, u, begin, end);
}

/* Gradients are added in order. */
void roi_boxes_run(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, roi_band band,
                   int64_t begin, int64_t end) {
  int64_t parts = (end - begin + ROI_BOXES_PART - 1) / ROI_BOXES_PART;
  for (int64_t i = 0; i < parts && !cpu_cancelled(&j->s->c.team); i++) {
    int64_t part = begin + (j->s->c.backward ? i : roi_lanes_round(j, w, i, parts)) * ROI_BOXES_PART;
    run_boxes(j, w, u, band, part, part + ROI_BOXES_PART < end ? part + ROI_BOXES_PART : end);
  }
}
