/* The order of a row of boxes for nms.c: its candidates by score, and the slots of their class ids. */
#ifndef OPS_CPU_IMAGE_NMS_ORDER_H_
#define OPS_CPU_IMAGE_NMS_ORDER_H_

#include "ops/cpu/calls/nms.h"

typedef struct nms_candidate {
  uint32_t rank; /* ascending rank is descending score */
  uint32_t index;
} nms_candidate;

/* A thread's scratch for one row. A candidate's number is its place in the order; a box's slot is its place among the
 * boxes of its class, classes one after the other, so that a box is compared with consecutive slots. */
typedef struct nms_scratch {
  int64_t padded; /* room in each array */
  nms_candidate *order, *spare;
  float *corners;               /* by slot: x1, y1, x2, y2, area, five arrays; before they are laid, numbers */
  uint32_t *group, *slot, *end; /* group and slot of each candidate; one past the last slot of each group */
  uint8_t *alive;               /* by slot */
} nms_scratch;

#define NMS_VECTOR ((int64_t)16) /* boxes, at most */

static inline int64_t nms_vector_end(int64_t n) { return (n + NMS_VECTOR - 1) & ~(NMS_VECTOR - 1); }

/* Lays the scratch for rows of so many boxes out. */
nms_scratch nms_scratch_at(char *memory, int64_t boxes);
int64_t nms_scratch_bytes(int64_t boxes);

/* One row of scores. */
typedef struct nms_row {
  const nms *n;
  const float *scores;
  const bool *candidates; /* NULL: all boxes are candidates */
  const int64_t *ids;     /* class ids; NULL: all boxes are of one class */
  float least_score;
  cpu_team team; /* of one thread: the row is ordered without chunks */
} nms_row;

/* Sorts the candidates over the score threshold into s->order and gives their number. */
reed_status nms_order(const nms_row *row, const nms_scratch *s, int64_t *out_count) REED_MUST_CHECK;
/* Assigns the candidates to the slots of their groups, in order: s->group, s->slot and s->end. Gives the number of
 * groups. */
reed_status nms_deal(const nms_row *row, const nms_scratch *s, int64_t count, int64_t *out_groups) REED_MUST_CHECK;

#endif
