/* The one parameter of each kernel of kernels.def: plain structs, at most 4 KB, that the host fills and a kernel reads.
 * C, C++ and CUDA read this file. Pointers come from the plan's list of pointers (kernel.h); strides and offsets are in
 * elements unless their name says bytes. */
#ifndef DEVICE_CUDA_KERNELS_ARGS_H_
#define DEVICE_CUDA_KERNELS_ARGS_H_

#include <stdint.h>

#include "device/cuda/kernels/args_map.h"
#include "device/cuda/kernels/args_places.h"
#include "device/cuda/kernels/args_sequence.h"
#include "device/cuda/kernels/counted.h"
#include "device/cuda/kernels/fault.h"

/* ---- movement of elements of 1, 2, 4 or 8 bytes (move.cu) ---- */

enum { MOVE_DIMS = 16 };

/* y[to_offset + sum(i_d to_d)] = x[from_offset + sum(i_d from_d)] for all n coordinates i below extents. */
typedef struct move_args {
  const void *x;
  void *y;
  int64_t n, from_offset, to_offset;
  int32_t rank, size, unit; /* size 16: extents and strides are in vectors of elements of `unit` bytes */
  int64_t extents[MOVE_DIMS], from[MOVE_DIMS], to[MOVE_DIMS];
  counted_extent counted;          /* of extents[0], or with `reported` of x */
  uint32_t from_scaled, to_scaled; /* bit d: the stride is for a counted extent of 1 */
  int64_t from_outer;              /* the part of x's offset that is to be multiplied by the true extent */
  /* not NULL: of the counted rows of x those from `start` to before `end` (negative: from the end) by `step` are
   * copied, `row` elements each, and their number is reported */
  int64_t *reported;
  int64_t start, end, step, row;
} move_args;

/* ---- moves: copies side by side, in 32-bit arithmetic (move.cu) ---- */

enum { MOVES_PARTS = 8, MOVES_DIMS = 5 };

/* A copy as in move_args, by blocks of its own. */
typedef struct move_part {
  const void *x;
  void *y;
  uint32_t n;           /* if it is counted, of one of the capacity */
  uint32_t first_block; /* ascending */
  uint32_t from_offset, to_offset;
  uint32_t extents[MOVES_DIMS], from[MOVES_DIMS], to[MOVES_DIMS]; /* of the last dims; 1, 0 and 0 for absent ones */
  uint8_t size, unit;
  uint8_t splits; /* dims by which an index is split */
  uint8_t keeps;  /* nothing is copied if x is y */
} move_part;

typedef struct moves_args {
  counted_extent counted; /* of each part's first dim */
  int32_t n_parts;
  move_part parts[MOVES_PARTS];
} moves_args;

/* Rows behind those of the inputs before, whose number only the device knows: rows of `row` elements. */
typedef struct join_args {
  const void *x;
  void *y;
  const int64_t *before; /* rows before these; NULL: none */
  int64_t *after;        /* gets the rows before and these */
  int64_t rows, row;
  int32_t size, is_counted;
  counted_extent counted; /* of the rows if is_counted; else of another input, whose count is not read */
} join_args;

/* Pad: dim d of the output has `before` pads, then `extent` elements of x from `first` on, then pads. */
typedef struct pad_args {
  const void *x, *value; /* value NULL: zero */
  void *y;
  int64_t n;
  int32_t rank, size, mode; /* mode: the first letter of the attribute's word */
  int64_t extents[CUDA_DIMS], strides[CUDA_DIMS], first[CUDA_DIMS], extent[CUDA_DIMS], before[CUDA_DIMS];
  counted_extent counted; /* of an axis without pads that has only extents of 1 before it */
} pad_args;

/* The part of a gather's operands that a count is a factor of. */
enum { COUNTED_OUTER, COUNTED_INDICES, COUNTED_BLOCK };

/* Gather and GatherND: y is [outer, n_indices, block]; an index has n_components numbers, each into an axis of x. */
typedef struct gather_args {
  const void *x, *indices;
  void *y;
  cuda_fault *fault;
  int64_t n, n_indices, block;
  int64_t batch;         /* elements of x from one outer position to the next */
  int64_t indices_batch; /* numbers of indices from one outer position to the next */
  uint32_t launch;
  int32_t size, unit; /* size 16: n, block, batch and strides are in vectors of elements of `unit` bytes */
  int32_t index_size, n_components;
  int64_t extents[CUDA_DIMS], strides[CUDA_DIMS]; /* of the components */
  counted_extent counted;
  int32_t counted_part;
  counted_extent rows; /* of extents[0], on which no element's place depends */
} gather_args;

/* GatherElements: y[i...] = x[i... with indices[i...] at axis]. */
typedef struct gather_elements_args {
  const void *x, *indices;
  void *y;
  cuda_fault *fault;
  int64_t n, extent; /* extent: of x along the axis */
  uint32_t launch;
  int32_t size, index_size, rank, axis;
  int64_t extents[CUDA_DIMS], strides[CUDA_DIMS]; /* of y; of x */
  counted_extent counted;                         /* of the first axis of y with an extent above 1 */
} gather_elements_args;

/* ---- products and convolutions (product.cu, conv.cu) ---- */

/* Tiles on tensor cores (product_mma.cuh): words of a line (a row or column) of a part of the operands, the
 * alignment of parts in shared memory, and how many are there at a time. */
enum { CUDA_MMA_LINE_WORDS = 32, CUDA_MMA_ALIGNMENT = 1024, CUDA_MMA_STAGES = 3 };

/* Weights in the packed order (ops/packed.h): matrices in panels of columns. Small groups are one matrix with one
 * panel, which has the columns of all groups. */
typedef struct panels_args {
  int64_t width, last_width;      /* columns of a panel, of a matrix's last one; width 0: the weights are plain */
  int64_t depth, columns;         /* of a matrix: its rows, its columns that have outputs */
  int64_t group, tap;             /* elements from a group's (tap's) first weight to the next one's */
  int64_t channel_rows, tap_rows; /* rows of the depth from a channel (tap) to the next one */
} panels_args;

/* y = activation(alpha a b + beta c + residual) for a batch of matrices; a, b and c by strides, y and residual dense.
 */
typedef struct product_args {
  const void *a, *b, *c, *residual; /* c, residual NULL: none */
  void *y;
  int64_t m, k, n, tiles_m, tiles_n;
  int64_t batch_dims[CUDA_DIMS], a_batch[CUDA_DIMS], b_batch[CUDA_DIMS], c_batch[CUDA_DIMS];
  int64_t a_row, a_column, b_row, b_column, c_row, c_column;
  panels_args panels; /* of b */
  double alpha, beta;
  map_step activation;                /* formula OP_Identity: none */
  int32_t batch_rank, dtype, y_dtype; /* dtype: of a, b, c and residual */
  int32_t counted_batch;              /* the count is a factor of the number of matrices; 0: of m */
  counted_extent counted;
} product_args;

/* A convolution: per group, pixels of y (all images) times weights [m, c, taps]. */
typedef struct conv_args {
  const void *x, *w, *bias, *residual;
  void *y;
  int64_t pixels, c, m, taps, groups, tiles_m, tiles_n; /* c, m: channels of a group, in and out */
  int64_t in[CUDA_AXES], out[CUDA_AXES], kernel[CUDA_AXES], stride[CUDA_AXES], dilation[CUDA_AXES], pad[CUDA_AXES];
  int64_t x_image, x_channel, x_axis[CUDA_AXES]; /* strides */
  int64_t y_image, y_channel, y_axis[CUDA_AXES];
  panels_args panels; /* of w */
  map_step activation;
  int32_t axes, dtype;
  counted_extent counted; /* of the images */
} conv_args;

/* A transposed convolution (conv_transpose.cu). A phase: places of y with the same remainders by the strides. */
typedef struct conv_transpose_args {
  const void *x, *w, *bias;
  void *y;
  int64_t images, c, m, taps, groups, tiles_m, tiles_n; /* c, m: channels of a group, in and out; tiles_m: of a phase */
  int64_t in[CUDA_AXES], out[CUDA_AXES], kernel[CUDA_AXES], stride[CUDA_AXES], dilation[CUDA_AXES], pad[CUDA_AXES];
  int64_t phases[CUDA_AXES], tap_step[CUDA_AXES]; /* tap_step: between the taps that reach one place */
  int64_t x_image, x_channel, x_axis[CUDA_AXES];  /* strides */
  int64_t y_image, y_channel, y_axis[CUDA_AXES];
  panels_args panels; /* of w: a part for each tap */
  map_step activation;
  int32_t axes, dtype;
  counted_extent counted; /* of the images */
} conv_transpose_args;

/* ---- pools (pool.cu) ---- */

enum { POOL_PLANE_AXES = 2 }; /* the most of pool_planes, pool_4 and pool_8 */

/* Axes stand at the end of the arrays; those before them have one element, one tap and a step of 1. */
typedef struct pool_args {
  const void *x;
  void *y;
  int64_t *indices; /* NULL: not wanted */
  int64_t n, channels, in_plane;
  int64_t in[CUDA_AXES], out[CUDA_AXES], kernel[CUDA_AXES], stride[CUDA_AXES], dilation[CUDA_AXES], pad[CUDA_AXES],
      pad_end[CUDA_AXES];
  int64_t x_image, x_channel, x_axis[CUDA_AXES];
  int64_t y_image, y_channel, y_axis[CUDA_AXES];
  int64_t number_axis[CUDA_AXES]; /* of an index: by rows or by columns */
  int64_t power;                  /* 0: mean or maximum */
  int32_t dtype, mean, include_pad;
  counted_extent counted; /* of the images */
} pool_args;

/* ---- softmax and its like (softmax.cu): rows of `axis` elements, `inner` apart ---- */

/* The result of threads over some elements of a row: the largest element, its place (INT64_MAX: none), and the sum. */
typedef struct softmax_part {
  double most, sum;
  int64_t place;
} softmax_part;

typedef struct softmax_args {
  const void *x;
  void *y;
  softmax_part *parts; /* per row and split; NULL: one split */
  int64_t rows, axis, inner, power;
  int32_t dtype, kind;    /* softmax_kind of ops/cpu/calls/softmax.h */
  int32_t lanes, splits;  /* lanes: threads a row, 32 or the block's; splits: blocks a row */
  counted_extent counted; /* a factor of the rows */
} softmax_args;

/* ---- reductions (reduce.cu): dims of the input that stay, then those that are reduced ---- */

typedef struct reduce_args {
  const void *x;
  void *y;
  int64_t outputs, n; /* n: elements of each */
  int64_t kept[CUDA_DIMS], kept_strides[CUDA_DIMS], reduced[CUDA_DIMS], reduced_strides[CUDA_DIMS];
  int32_t n_kept, n_reduced, dtype, op; /* op: the op_id of a reduction */
  int32_t lanes;                        /* threads an output, a power of two up to the block's */
  int32_t splits;                       /* blocks an output; 1 but for few outputs of many elements */
  uint64_t *parts;                      /* per output and split; NULL: one split */
} reduce_args;

/* The best element of a part: its bits and its place; place -1: none. */
typedef struct arg_part {
  uint64_t value;
  int64_t place;
} arg_part;

typedef struct arg_reduce_args {
  const void *x;
  int64_t *y;
  int64_t outputs, axis, inner;
  int32_t dtype, smallest, last;
  int32_t lanes, splits;  /* as in reduce_args */
  arg_part *parts;        /* per output and split; NULL: one split */
  counted_extent counted; /* a factor of the outputs */
} arg_reduce_args;

/* ---- NonMaxSuppression and torchvision's nms (nms.cu): a row is a class of a batch ---- */

enum {
  NMS_CHUNK = 64,
  NMS_MOST_TILES = 256,
  NMS_SORT_RUN = 2048 /* keys that a block sorts */
};

typedef struct nms_args {
  const void *boxes, *scores;
  const float *iou, *least;                /* one element each; NULL: 0, and no least score */
  const int64_t *ids;                      /* per batch and box; NULL: one id for all */
  const uint8_t *candidates;               /* per batch and box; NULL: all are */
  uint64_t *sorted, *merged;               /* per row `padded` keys; merged: NULL if a run holds a row */
  unsigned long long *mask;                /* per row `tiles` x `tiles` x NMS_CHUNK words: the best boxes' overlaps */
  int32_t *kept, *counts;                  /* per row: `limit` numbers of boxes; how many of them */
  int64_t *selected, *extent;              /* the output and its true extent */
  int64_t n, padded, classes, rows, limit; /* n: boxes; padded: a power of two */
  int64_t tiles;                           /* of the best boxes; 0: no mask */
  int64_t run;                             /* keys of a run that is merged with its neighbours */
  int32_t centers;
  int32_t boxes_dtype, scores_dtype;
  int32_t as_given;       /* torchvision's: corners as they are, NaN first, a list of boxes */
  float threshold;        /* as_given: in place of `iou` */
  counted_extent counted; /* of n */
} nms_args;

/* ---- RoiAlign (roi_align.cu): all maps in one launch ---- */

enum { ROI_MAPS = 16, ROI_CHANNELS = 8 }; /* channels of a thread of roi_align_4 and roi_align_8 */

typedef struct roi_map {
  const void *x;
  double scale;
  int64_t images, height, width;
} roi_map;

typedef struct roi_args {
  const void *regions;
  const int64_t *image_of, *level_of; /* level_of NULL: one map */
  void *y;
  cuda_fault *fault;
  int64_t n, channels, bins_y, bins_x, sampling;
  uint32_t launch;
  int32_t dtype, size, maximum, half_pixel, last, n_maps, image_operand;
  roi_map maps[ROI_MAPS];
  counted_extent counted; /* of the regions */
} roi_args;

/* Rows and columns of an image. */
typedef struct pixel_box {
  int64_t begin[2], end[2];
} pixel_box;

/* A region's image, and the pixels of it that may get a part of the region's gradients. */
typedef struct roi_box {
  int64_t image;
  pixel_box pixels;
} roi_box;

/* Pools of regions without levels (roi_pool.cu): MaxRoiPool and torchvision's operators, and their gradients, of which
 * x is the gradient of the bins and y that of the map. */
typedef struct roi_pool_args {
  const void *x, *regions;
  void *y;
  int32_t *argmax; /* NULL: not wanted; of gradients: read */
  roi_box *boxes;  /* of gradients: one each region */
  cuda_fault *fault;
  int64_t n, regions_n, images, channels, outputs, height, width, bins_y, bins_x, sampling;
  double scale;
  uint32_t launch;
  int32_t dtype, regions_dtype, columns, kind, half_pixel, last; /* columns: of a region; kind: a roi_kind */
  counted_extent counted;                                        /* of the regions */
} roi_pool_args;

/* ---- deformable convolutions (deform.cu) and their gradients (deform_backward.cu) ---- */

/* Distances in a map [images][channels][pixels]. */
typedef struct deform_places {
  int64_t image, channel, pixel;
} deform_places;

typedef struct deform_args {
  const void *x, *w, *offset, *mask, *bias; /* mask, bias NULL: absent */
  void *y;
  int64_t n, outputs, group_channels, group_outputs, offset_channels;
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
  deform_places input, output, offsets, masks;
  int32_t dtype;
  counted_extent counted; /* of the images */
} deform_args;

/* One launch makes one gradient, y, of n elements or units; the launch of the offsets' makes that of the mask, too. */
typedef struct deform_back_args {
  deform_args of; /* the forward call's; y and n are the launch's own */
  const void *grad;
  void *of_mask;    /* NULL: not wanted; then y may be NULL, too */
  pixel_box *boxes; /* [images][groups of offsets][taps][tiles]: of samples that lie side by side on the output */
  int64_t images, offset_groups, tiles;
} deform_back_args;

enum { DEFORM_TILE = 32, DEFORM_OUTPUTS = 8 }; /* samples of a box; outputs whose weights' gradients a block computes */

#endif
