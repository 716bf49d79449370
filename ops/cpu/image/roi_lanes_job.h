/* A run of the kernel of roi_lanes.c: its state, its memory and its units of work, for roi_lanes.c, roi_lanes_order.c
 * and roi_boxes.c. */
#ifndef OPS_CPU_IMAGE_ROI_LANES_JOB_H_
#define OPS_CPU_IMAGE_ROI_LANES_JOB_H_

#include "ops/cpu/calls/roi_align.h"
#include "ops/cpu/image/roi_lanes_loops.h"
#include "ops/cpu/image/roi_order.h"

#define ROI_BOXES_PART 256 /* regions, whose boxes are computed before they are written */

typedef struct roi_lanes_kernel {
  roi_call c;
  bool position_sensitive;
  bool boxes; /* position-sensitive bins of whole pixels, with stored plans */
  int64_t outputs, bins;
  int64_t alone;           /* steps that are made one */
  int64_t slots;           /* units of a block of outputs: bins if position-sensitive, else 1 */
  int64_t together;        /* slots of a unit: 1, or ROI_FOURS */
  int64_t map_floats;      /* of a map in block form, of which a thread has `together` */
  int64_t blocks, divided; /* divided: each unit's parts of regions, or bands of rows if backward */
  bool banded;             /* threads take bands, not units, because units write the same lines of the cache */
  int64_t rows;            /* the most of any map */
  int64_t group_base[ROI_MAPS_MOST], n_groups;
  int64_t room_y, room_x, plan_bytes;
  bool stored; /* plans are made once */
  bool past;   /* bins are whole lines, and so many that no cache keeps them: they are written past the caches */
  /* the workspace */
  int64_t notes_at, order_at, spare_at, counts_at, begins_at, spans_at, begun_at, plans_at, workers_at, worker_bytes;
  /* a worker's part of it */
  int64_t map_at, sums_at, bins_at, argmax_at;
} roi_lanes_kernel;

/* A block of outputs, and the first bin and their number if channels are position-sensitive. */
typedef struct roi_lanes_unit {
  int64_t first, bin, slots;
  int32_t n;
} roi_lanes_unit;

/* How far a part of a unit has come. */
typedef struct roi_lanes_walk {
  roi_lanes_unit unit;
  int64_t part, image, slot, done; /* done: regions of the image; backward, of its rows after the last slot */
  int64_t cleared;                 /* backward: rows of the slot's map */
  int64_t begin, after, end;       /* forward: places of the order, of regions of one image, and the part's end */
  int64_t row, after_row;          /* forward: rows of the map that these regions need */
} roi_lanes_walk;

typedef struct roi_lanes_job {
  const roi_lanes_kernel *s;
  const reed_kernel_buffers *buffers;
  roi_note *notes;
  int32_t *order;         /* regions in the order of work: of all, then of each band */
  int32_t *spare;         /* memory for as many regions */
  int64_t *counts;        /* memory: roi_lanes_counts */
  int64_t *begins;        /* the first place of each group in `order`, n_groups + 2, likewise */
  roi_columns *spans;     /* by group and row */
  roi_held_rows *held;    /* by worker */
  roi_lanes_walk *walks;  /* by worker */
  _Atomic int64_t *begun; /* by share: the parts that workers have taken */
  int64_t mean_work;      /* of a region */
  _Atomic int64_t work;   /* of all regions' bins of a unit: sums of roi_lanes_work_of */
} roi_lanes_job;

/* Memory of a thread. */
typedef struct roi_lanes_worker {
  char *plan;
  float *map, *sums, *bins;
  int32_t *argmax;
  roi_held_rows *held;
  int32_t number;
} roi_lanes_worker;

static inline int64_t roi_lanes_units_of_block(const roi_lanes_kernel *s) {
  return (s->slots + s->together - 1) / s->together;
}
/* A worker takes the parts of a share: of a unit, so that it copies the unit's rows once, or of a band, which is a
 * range of regions (backward, of rows) and whose parts are that range in all units. */
static inline int64_t roi_lanes_shares(const roi_lanes_kernel *s) {
  return s->banded ? s->divided : s->blocks * roi_lanes_units_of_block(s);
}

static inline int64_t roi_lanes_bytes(const roi_lanes_kernel *s) { return (int64_t)reed_dtype_bytes(s->c.dtype); }

/* The memory of a region's plan. */
static inline char *roi_lanes_plan(const roi_lanes_job *j, const roi_lanes_worker *w, int64_t region) {
  return j->s->stored ? (char *)j->buffers->workspace + j->s->plans_at + region * j->s->plan_bytes : w->plan;
}

/* ---- the memory of workers and plans ---- */

static inline roi_lanes_worker roi_lanes_worker_at(const roi_lanes_job *j, int32_t number) {
  char *memory = (char *)j->buffers->workspace + j->s->workers_at + number * j->s->worker_bytes;
  return (roi_lanes_worker){memory,
                            (float *)(memory + j->s->map_at),
                            (float *)(memory + j->s->sums_at),
                            (float *)(memory + j->s->bins_at),
                            (int32_t *)(memory + j->s->argmax_at),
                            &j->held[number],
                            number};
}

/* Plans are ranges of whole pixels, not taps. */
static inline bool roi_lanes_has_ranges(const roi_lanes_kernel *s) { return s->boxes || s->c.widest.kind == ROI_POOL; }

static inline void roi_lanes_lay_taps(const roi_lanes_kernel *s, char *memory, roi_taps *y, roi_taps *x) {
  int32_t *at = (int32_t *)memory;
  y->begin = at;
  y->index = y->begin + s->c.widest.bins_y + 1;
  y->weight = (float *)(y->index + s->room_y);
  x->begin = (int32_t *)(y->weight + s->room_y);
  x->index = x->begin + s->c.widest.bins_x + 1;
  x->weight = (float *)(x->index + s->room_x);
}

static inline roi_ranges roi_lanes_lay_ranges(const roi_lanes_kernel *s, char *memory) {
  const roi_align *r = &s->c.maps[0];
  int32_t *y = (int32_t *)memory;
  return (roi_ranges){.bins_y = r->bins_y, .bins_x = r->bins_x, .width = r->width, .y = y, .x = y + 2 * r->bins_y};
}

/* Makes the region's plan in this memory. False: all bins are NaN. */
bool roi_lanes_make_plan(const roi_lanes_job *j, int32_t map, int64_t region, char *memory);

/* ---- the order ---- */

/* Lists of regions in the order of work: one of all, and of those of each band. */
static inline int64_t roi_lanes_lists(const roi_lanes_kernel *s) {
  return 1 + (s->c.backward && s->divided > 1 ? s->divided : 0);
}

static inline roi_band roi_lanes_band(const roi_lanes_kernel *s, int64_t part) {
  return (roi_band){s->rows * part / s->divided, s->rows * (part + 1) / s->divided};
}

/* The pixels that a region's bins of a unit read, about, after its plan has been made in `memory`. */
int64_t roi_lanes_work_of(const roi_lanes_kernel *s, const roi_note *n, char *memory);

/* Numbers of the workspace's counts. */
int64_t roi_lanes_counts(const roi_lanes_kernel *s);

/* Makes the notes of all regions with their plans, the spans, the order and its lists, and job->work. */
reed_status roi_lanes_order(roi_lanes_job *j) REED_MUST_CHECK;

/* ---- units ---- */

/* Item i of n of the thread's round, which begins at another item for each thread: units of several threads have
 * elements in the same lines of the cache, and threads that write a line at a time wait for each other. */
static inline int64_t roi_lanes_round(const roi_lanes_job *j, const roi_lanes_worker *w, int64_t i, int64_t n) {
  int64_t item = i + n * w->number / j->s->c.team.threads;
  return item < n ? item : item - n;
}

/* The bins of a region: their form, and the number of the first element. */
static inline roi_lane_form roi_lanes_bins_form(const roi_lanes_kernel *s, const roi_lanes_unit *u, reed_dtype dtype,
                                                int64_t region, int64_t *out_first) {
  bool last = s->c.last;
  *out_first =
      last ? (region * s->bins + u->bin) * s->outputs + u->first : (region * s->outputs + u->first) * s->bins + u->bin;
  return (roi_lane_form){.dtype = dtype, .lane = last ? 1 : s->bins, .pixel = last ? s->outputs : 1, .n = u->n};
}

/* Places begin..end-1 of the order, which are regions of one image, of ROI_PS_POOL: computes their bins of the unit
 * from its maps in block form, or, backward, adds the bins' gradients to them. */
void roi_boxes_run(const roi_lanes_job *j, const roi_lanes_worker *w, const roi_lanes_unit *u, roi_band band,
                   int64_t begin, int64_t end);

/* A worker takes the parts of one share after the other; then those of another. There are as many calls as parts, so
 * each call finds one. Returns the number of the unit, and of its part. */
int64_t roi_lanes_next_part(const roi_lanes_job *j, roi_held_rows *held, int32_t number, int64_t *out_part);

#endif
