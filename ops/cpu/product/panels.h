/* Convolutions and products of f32 over packed weights (ops/packed.h) as one problem: Y[pixel][output] = sum over taps
 * and channels of X[pixel at tap][channel] * W[output][tap][channel], with channels last in Y. Tiles are a few
 * neighbouring pixels of one row. No code is generated, and extents appear only as counts and distances, so any shape
 * runs without preparation.
 *
 * After Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication" (panels, blocks of depth), and
 * Zhang, Franchetti and Low 2018, "High Performance Zero-Memory Overhead Direct Convolutions" (X is read in place). */
#ifndef OPS_CPU_PRODUCT_PANELS_H_
#define OPS_CPU_PRODUCT_PANELS_H_

#include "ops/cpu/formulas/activation.h"
#include "ops/packed.h"

#define PANEL_AXES 3

/* Distances are in elements. Three axes: slabs, rows and columns of an image; a product of matrices is one image of one
 * row with its rows as pixels. Channels and outputs are those of a group; a pixel's groups lie side by side in X and Y.
 */
typedef struct panel_problem {
  int64_t images, groups, channels, outputs;
  int64_t in[PANEL_AXES], out[PANEL_AXES], taps[PANEL_AXES], stride[PANEL_AXES], dilation[PANEL_AXES];
  int64_t pad[PANEL_AXES]; /* before */
  int64_t x_image, x_slab, x_row, x_pixel, x_channel;
  bool channels_first;                     /* of X: x_pixel is 1, else x_channel */
  int64_t y_image, y_slab, y_row, y_pixel; /* outputs of a pixel lie side by side */
  int64_t weights_group;                   /* from the weights of a group to the next */
  bool pairs; /* the weights are bf16 in pairs of channels (ops/packed.h), and X is rounded to bf16. Channels, and the
                 distance of weights, are then pairs; X has two floats for a pair, or is bf16 itself. X has channels
                 last */
  packed_halves halves; /* if pairs */
  bool weights_f16;
  activation activation;
} panel_problem;

/* Turns a problem with channels last into the problem of weights in pairs. An X of bf16 is then read as pairs, each in
 * the place of a float: its distances are halved. */
static inline void panel_problem_pair(panel_problem *p, packed_halves halves) {
  p->pairs = true;
  p->halves = halves;
  p->channels /= 2;
  p->x_channel = halves.x ? 1 : 2;
  if (!halves.x) return;
  p->x_pixel /= 2;
  p->x_row /= 2;
  p->x_slab /= 2;
  p->x_image /= 2;
}

/* True if these kernels compute f32 with weights of that dtype and order (NULL: plain) on this CPU: f32, packed f16
 * from level AVX2 on, or bf16 in pairs from level AVX512_BF16 on. */
static inline bool packed_computes(const packed_order *order, reed_dtype weights) {
  if (weights == REED_F32) return true;
  if (!order || order->small_groups) return false;
  return weights == REED_F16 ? cpu_level_now() >= CPU_AVX2 : order->pairs && cpu_level_now() >= CPU_AVX512_BF16;
}

typedef struct panel_plan panel_plan;

/* On error *out_plan is untouched, and the call's diagnosis says that there is no memory. */
reed_status panel_plan_open(const reed_kernel_call *call, const panel_problem *problem,
                            panel_plan **out_plan) REED_MUST_CHECK;
void panel_plan_close(panel_plan *plan);
/* True if the products take Strassen's form (strassen.h). */
bool panel_plan_is_strassen(const panel_plan *plan);
int64_t panel_plan_workspace_bytes(const panel_plan *plan);
int64_t panel_plan_state_bytes(const panel_plan *plan);
/* weights: packed, of f32 or as the problem says; bias f32[groups * outputs]; residual with y's layout (or y itself).
 * Bias and residual may be NULL. X, residual and Y are f32 or bf16 as the problem's halves say. Any number of threads
 * may run a plan, each with a workspace of its own. */
REED_MUST_CHECK reed_status panel_plan_run(const panel_plan *plan, const void *x, const void *weights,
                                           const float *bias, const void *residual, void *y, void *workspace);

#endif
