/* Steps of a Winograd convolution (winograd.h), and the work on each of them: the transforms of X and of weights, the
 * products, the transforms into Y. Each kind of work is a row of elements, of which a caller takes begin..end; elements
 * of one kind may be taken in any order and at the same time. The threads that take them, and the order of the kinds,
 * are in winograd_run.c. */
#ifndef OPS_CPU_PRODUCT_WINOGRAD_STEP_H_
#define OPS_CPU_PRODUCT_WINOGRAD_STEP_H_

#include "ops/cpu/product/winograd.h"

/* Products of a chunk, about: some 13 us, or 5 where units compute whole vectors. */
#define WINOGRAD_CHUNK (5 << 17)

/* A block of a section's tiles by a part of the outputs. A block in halves has tiles of the section's first half and of
 * its second one. The calling thread takes a stage from its begin on, which is the first halves, and helpers from its
 * end: so a thread mostly reads what it wrote itself, here and in the layers before. Caches of two cores may be far
 * from each other. */
typedef struct winograd_step {
  const winograd_section *s;
  int64_t first[2], n[2];  /* the tiles, by halves */
  int64_t tiles;           /* of both halves */
  int64_t column, columns; /* of the packed weights, with those beyond the outputs */
} winograd_step;

typedef struct winograd_run {
  const winograd_plan *plan;
  const void *x;
  const float *weights; /* packed or transformed ones; pairs of bf16 are as long as a float */
  const float *bias;
  const void *residual;
  void *y;
  float *v, *m, *u;
  float *scratch; /* of a thread */
} winograd_run;

/* Step `index` of a section: through the parts of the outputs, then through the blocks (one of both has one). */
winograd_step winograd_step_at(const winograd_plan *plan, const winograd_section *s, int64_t index);

/* Transforms X into V. An element is a tile. */
void winograd_step_input(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end);

/* Transforms the packed weights of the step's outputs into U. Each panel has winograd_panel_pieces elements. */
void winograd_step_weights(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end);
int64_t winograd_panel_pieces(const winograd_plan *plan);
/* The weights that an element transforms, twice as many in fixed point, where each is transformed for its norm, too. */
int64_t winograd_weights_work(const winograd_plan *plan);

/* Multiplies V by U, or by weights that are stored, into M. Each half of the step has winograd_half_products elements,
 * of winograd_product_tiles tiles at most. */
void winograd_step_products(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end);
int64_t winograd_half_products(const winograd_plan *plan, const winograd_step *t, int half);
int64_t winograd_product_tiles(const winograd_plan *plan);

/* Transforms M into Y. An element is a tile. */
void winograd_step_output(const winograd_run *run, const winograd_step *t, int64_t begin, int64_t end);

/* ---- pieces of the depth, of a section with depth_step: its U has the weights of one piece of one panel ---- */

/* The number of pieces. */
int64_t winograd_depth_pieces(const winograd_plan *plan, const winograd_section *s);
/* Transforms the weights of a piece for the outputs of a step, which are one panel. */
void winograd_piece_weights(const winograd_run *run, const winograd_step *t, int64_t piece);
/* Adds the products of a piece to those of the pieces before, at positions begin..end. `after` and piece_after: the
 * weights that the thread transforms next, which are fetched meanwhile. */
void winograd_piece_products(const winograd_run *run, const winograd_step *t, int64_t piece, const winograd_step *after,
                             int64_t piece_after, int64_t begin, int64_t end);

#endif
