/* Y = activation(A * B + biases + residual) for many rows of A and a packed B (ops/packed.h), with an eighth fewer
 * multiplications: Strassen 1969, "Gaussian elimination is not optimal", in Winograd's variant (D. H. Bailey, K. Lee,
 * H. D. Simon 1991, "Using Strassen's algorithm to accelerate the solution of linear systems"): A, B and Y are four
 * blocks each, and
 *
 *   p1 = a11 b11, p2 = a12 b21, p3 = s4 b22, p4 = a22 t4, p5 = s1 t1, p6 = s2 t2, p7 = s3 t3
 *   s1 = a21 + a22, s2 = s1 - a11, s3 = a11 - a21, s4 = a12 - s2
 *   t1 = b12 - b11, t2 = b22 - t1, t3 = b22 - b12, t4 = t2 - b21
 *   y11 = p1 + p2, u2 = p1 + p6, u3 = u2 + p7, y12 = u2 + p5 + p3, y21 = u3 - p4, y22 = u3 + p5
 *
 * The blocks of B and Y are panels beside each other; those of A and Y are some rows and as many after them; the depth
 * is halved. An error of a product reaches other rows and columns than its own, so rows of A and columns of B are first
 * scaled by powers of two to one magnitude, and Y is scaled back (Ballard, Benson, Druinsky, Lipshitz, Schwartz 2016,
 * "Improving the numerical stability of fast matrix multiplication", arXiv 1507.00687): a small row beside a large one
 * stays as exact as beside a row of its own size. Blocks with numbers that are not finite are multiplied directly.
 * Which rows share a block follows from the extents alone. */
#ifndef OPS_CPU_PRODUCT_STRASSEN_H_
#define OPS_CPU_PRODUCT_STRASSEN_H_

#include "ops/cpu/common/common.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/product/strassen_loops.h"

/* Elements of a row of A are adjacent, as are those of Y. */
typedef struct strassen_problem {
  int64_t rows, depth, outputs, a_row, y_row;
  bool weights_f16; /* B is f16, widened where it is added; else f32 */
  activation activation;
} strassen_problem;

/* Plain data. */
typedef struct strassen_plan {
  strassen_problem p;
  cpu_team team;
  int tile_rows, lanes;
  void (*multiply)(const panel_tile *tile);
  void (*multiply_direct)(const panel_tile *tile); /* with B as it lies in memory */
  convert_fn widen;
  bool (*add_columns)(const strassen_columns *c, strassen_scales *out_scales);
  bool (*add_rows)(const strassen_rows *r, strassen_scales *out_scales);
  void (*finish)(const strassen_result *r);
  int64_t block_depth, job_pairs; /* of a job: all rows by some pairs of panels */
  int64_t half_rows, n_blocks;    /* a block has twice as many rows, the last one fewer */
  int64_t n_pieces;               /* of a block's rows, items of their own */
  int64_t n_pairs, n_panels;      /* pairs of whole panels; all panels */
  bool own_pairs; /* each worker adds the panels that it needs, which is less work than to read what others wrote */
  int64_t worker_floats;
} strassen_plan;

/* True if the products are estimated to be clearly faster than direct ones at this level. */
bool strassen_is_faster(const strassen_problem *p, cpu_level level);
void strassen_plan_init(strassen_plan *plan, const strassen_problem *p, cpu_level level, cpu_team team);
int64_t strassen_plan_workspace_bytes(const strassen_plan *plan);
/* bias: one for each column and PACKED_WIDTH more that are read; residual: like y, may be y; or NULL. */
reed_status strassen_plan_run(const strassen_plan *plan, const float *a, const void *b, const float *bias,
                              const float *residual, float *y, void *workspace) REED_MUST_CHECK;

#endif
