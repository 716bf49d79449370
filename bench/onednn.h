/* The only use of oneDNN: the peer of bench_conv. A problem is a convolution, transposed convolution or matrix product
 * of f32 whose leading extent (images, boxes, rows) is free: it is cut into chunks of a few sizes, so that any extent
 * needs a handful of primitives, which the program's cache keeps. The caller's tensors are dense, with the axis order
 * that their strides give; if oneDNN chooses other layouts, reorders through the workspace lead to them. */
#ifndef BENCH_ONEDNN_H_
#define BENCH_ONEDNN_H_

#include "ops/cpu/common/window.h"

#define ONEDNN_MAX_DIMS 12 /* DNNL_MAX_NDIMS: its prototypes ask for arrays of that size */

typedef enum onednn_kind { ONEDNN_CONV, ONEDNN_CONV_TRANSPOSE, ONEDNN_MATMUL } onednn_kind;

/* The whole struct is the primitive's key, so its members have 8 bytes and are zero if unused. onednn_open sets dims[0]
 * of src and dst (and of weights if weights_follow) to the chunk. */
typedef struct onednn_problem {
  int64_t kind, rank, weights_rank;
  int64_t src[ONEDNN_MAX_DIMS], src_strides[ONEDNN_MAX_DIMS];
  int64_t weights[ONEDNN_MAX_DIMS], weights_strides[ONEDNN_MAX_DIMS];
  int64_t dst[ONEDNN_MAX_DIMS], dst_strides[ONEDNN_MAX_DIMS];
  int64_t strides[ONEDNN_MAX_DIMS], dilations[ONEDNN_MAX_DIMS], pads_begin[ONEDNN_MAX_DIMS], pads_end[ONEDNN_MAX_DIMS];
  int64_t with_bias;            /* f32[channels] or, of a product, f32[columns] */
  int64_t with_residual;        /* a tensor like dst is added */
  int64_t weights_follow;       /* the weights' dims[0] is the free extent too */
  int64_t src_plain, dst_plain; /* use src, dst (and residual) in the caller's layout; 0: oneDNN may choose a layout,
                                   with reorders (never for a product) */
  int64_t weights_plain;        /* read the weights as they are (they are not constant) */
  int64_t bf16;     /* src is bf16, and constant weights are packed as bf16 (a convolution's, with a plain src) */
  int64_t products; /* multiplications per unit of the free extent: small work is not given to many threads */
  double scale;     /* of the product, before bias */
} onednn_problem;

typedef struct onednn_runner onednn_runner;

/* Builds or finds the primitives for the free extent, and packs constant_weights once per program (NULL: weights come
 * with each run). Chunks are at most max_chunk. *out_runner is NULL with REED_OK if oneDNN has no primitive for the
 * problem. */
reed_status onednn_open(const reed_kernel_call *call, const onednn_problem *problem, int64_t extent, int64_t max_chunk,
                        const void *constant_weights, onednn_runner **out_runner) REED_MUST_CHECK;
void onednn_close(onednn_runner *runner);
int64_t onednn_workspace_bytes(const onednn_runner *runner);
/* Memory that opening the runner has added, approximately; primitives that already existed are not counted. */
int64_t onednn_state_bytes(const onednn_runner *runner);
/* y = problem(x, w, bias, residual). x is bf16 if the problem says so. bias and residual are NULL if the problem has
 * none. One thread at a time per runner. */
reed_status onednn_run(const onednn_runner *runner, const void *x, const float *w, const float *bias,
                       const float *residual, float *y, void *workspace) REED_MUST_CHECK;

#endif
