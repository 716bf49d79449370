/* The order in which regions are computed: by image, strip of rows, column and number, so that neighbours share pixels
 * in the core's cache; or by image, rows, columns and number, so that neighbours have the same extents, and the CPU
 * predicts the ends of their loops. */
#ifndef OPS_CPU_IMAGE_ROI_ORDER_H_
#define OPS_CPU_IMAGE_ROI_ORDER_H_

#include <stdbool.h>
#include <stdint.h>

#include "ops/cpu/common/common.h"

/* A region and the part of its map that its taps need. */
typedef struct roi_note {
  int32_t map, group; /* group: number of the image among all maps' images; n_groups: none, all bins are `nothing` */
  int32_t row, after_row, column, after_column;
  bool dense;
  float nothing;
} roi_note;

typedef struct roi_order {
  const roi_note *notes; /* of `regions` */
  cpu_team team;
  int64_t regions, n_groups, rows, width; /* rows and width: the most of any map */
  bool by_extents;
  int32_t *order, *spare; /* regions: the result; memory of as many */
  int64_t *begins;        /* n_groups + 2: the first place of each group in `order` */
  int64_t *counts;        /* memory: roi_order_counts */
} roi_order;

/* Numbers of `counts`. */
int64_t roi_order_counts(cpu_team team, int64_t regions, int64_t n_groups, int64_t rows, int64_t width,
                         bool by_extents);
/* Makes `order` and `begins`. */
reed_status roi_order_make(const roi_order *o) REED_MUST_CHECK;

/* The rows of a map that a thread has copied: those of one unit of work (0: none) and one group of regions,
 * first..after. */
typedef struct roi_held_rows {
  int64_t unit, group, first, after;
  int64_t taken; /* the share whose parts the thread takes, counted from 1; 0: none yet */
} roi_held_rows;

/* Forgets rows of another unit or group, before rows from `begin` on are added. Rows that no region touches lie between
 * without harm. */
static inline void roi_held_begin(roi_held_rows *held, int64_t unit, int64_t group, int64_t begin) {
  if (held->unit != unit || held->group != group) *held = (roi_held_rows){unit, group, begin, begin, held->taken};
}

/* Columns of a row that some region touches. */
typedef struct roi_columns {
  int32_t first, after;
} roi_columns;

static inline void roi_columns_widen(roi_columns *of, const roi_note *n) {
  if (n->column < of->first) of->first = n->column;
  if (n->after_column > of->after) of->after = n->after_column;
}

/* Parts of regions, of all units together, at least. forward_work: in cpu_team_for's count; 0: backward, where a part
 * is a band of rows, and reads all regions that touch it. */
static inline int64_t roi_parts_wanted(cpu_team team, int64_t forward_work) {
  int64_t least = team.threads > 1 ? 2 * team.threads : 1;
  int32_t chunks = team.threads > 1 ? cpu_team_for(team, forward_work / 3).chunks : 1;
  return chunks > least ? chunks : least;
}

#endif
