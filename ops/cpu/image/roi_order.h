/* The order in which regions are computed: by image, strip of rows, column and number, so that neighbours share pixels
 * in the core's cache. */
#ifndef OPS_CPU_IMAGE_ROI_ORDER_H_
#define OPS_CPU_IMAGE_ROI_ORDER_H_

#include <stdbool.h>
#include <stdint.h>

/* A region and the part of its map that its taps need. */
typedef struct roi_note {
  int32_t map, group; /* group: number of the image among all maps' images; n_groups: none, all bins are `nothing` */
  int32_t row, after_row, column, after_column;
  bool dense;
  float nothing;
} roi_note;

typedef struct roi_order {
  const roi_note *notes;                  /* of `regions` */
  int64_t regions, n_groups, rows, width; /* rows and width: the most of any map */
  int32_t *order, *spare;                 /* regions: the result; memory of as many */
  int64_t *begins;                        /* n_groups + 2: the first place of each group in `order` */
  int64_t *counts;                        /* memory: roi_order_counts */
} roi_order;

/* Numbers of `counts`. */
int64_t roi_order_counts(int64_t n_groups, int64_t rows, int64_t width);
/* Makes `order` and `begins`. */
void roi_order_make(const roi_order *o);

#endif
