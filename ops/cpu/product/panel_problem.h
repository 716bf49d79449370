/* Arithmetic on the extents and distances of a panel_problem, for its plan. */
#ifndef OPS_CPU_PRODUCT_PANEL_PROBLEM_H_
#define OPS_CPU_PRODUCT_PANEL_PROBLEM_H_

#include "ops/cpu/product/panels.h"

/* Joins the rows of all images into one, if neighbouring pixels are one tap apart across rows: tiles then need not end
 * with a row. */
void panel_join_rows(panel_problem *p);
/* The last column of Y whose windows all lie within X's row; -1: none. */
int64_t panel_last_whole_column(const panel_problem *p);
/* In cpu_team_for's count. With few pixels the time is that of reading the weights. */
int64_t panel_work(const panel_problem *p);
/* The taps of an axis that meet X, if the first one lies at `from`; at least one, so that a strip has a depth. */
void panel_taps_inside(const panel_problem *p, int axis, int64_t from, int64_t *out_begin, int64_t *out_end);

#endif
