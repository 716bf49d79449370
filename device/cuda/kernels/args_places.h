/* Args of the kernels that choose, sort, scatter and make elements, and of resizing (args.h):
 * select.cu, unique.cu, topk.cu, scan.cu, scatter.cu, generate.cu, resize.cu, regions.cu, fold.cu,
 * grid_sample.cu. */
#ifndef DEVICE_CUDA_KERNELS_ARGS_PLACES_H_
#define DEVICE_CUDA_KERNELS_ARGS_PLACES_H_

#include <stdint.h>

#include "device/cuda/kernels/args_map.h"
#include "device/cuda/kernels/counted.h"
#include "device/cuda/kernels/fault.h"

/* ---- NonZero and Compress (select.cu) ---- */

enum { SELECT_CHUNK = 2048 }; /* elements a block */

/* The elements of x that are not zero, in order: x is cut into chunks, whose counts become offsets. */
typedef struct select_args {
  const void *x;
  int64_t *offsets;        /* a chunk each: the count of its elements, then of those before it */
  int64_t *total, *extent; /* of all chunks; both get it. extent NULL: not wanted */
  int64_t *places;         /* coordinate d of element k at [d * total + k] */
  int64_t n, chunks;
  int64_t extents[CUDA_DIMS];
  int32_t rank, dtype;
  int32_t counted_axis;   /* of x */
  counted_extent counted; /* of that axis */
} select_args;

/* y[o, k] = x[o, places[k]] for k below total; elements of `block` elements each. */
typedef struct take_args {
  const void *x;
  const int64_t *places, *total;
  void *y;
  int64_t n, outer, extent, block; /* n: of y, if every place were taken */
  int32_t size;
  counted_extent counted; /* `extent`, if it is counted */
} take_args;

/* ---- Unique (unique.cu): slices along an axis of x, which is [outer, n, block] ---- */

/* Runs of slices in ascending order become runs twice as long, then groups of equal ones. */
typedef struct unique_args {
  const void *x;
  const int64_t *from;           /* places of the slices in sorted runs; NULL: slice i is at i */
  int64_t *to;                   /* the same in runs twice as long */
  uint8_t *begins;               /* the slice of this rank is the first of its group */
  uint8_t *marks;                /* the slice at this place is */
  const int64_t *starts, *total; /* ranks of the groups' first slices, in ascending order; how many */
  const int64_t *firsts;         /* their places in ascending order; NULL: groups are numbered by rank */
  int64_t *first, *indices;      /* both: of a group, the place of its first slice. NULL: not wanted */
  int64_t *inverse, *counts;     /* of a place, its group; of a group, its slices. NULL: not wanted */
  int64_t *extents[2];           /* get the total; NULL: not wanted */
  int64_t outer, n, block, run;
  int32_t dtype, bits;    /* bits: of a key */
  counted_extent counted; /* n, if it is counted */
} unique_args;

/* ---- TopK (topk.cu): rows of `extent` elements, `inner` apart ---- */

enum {
  TOPK_RUN = 2048,   /* keys and places that a block sorts in shared memory; elements of a chunk */
  TOPK_DIGITS = 256, /* of 8 bits */
  TOPK_CHUNK = TOPK_RUN
};

/* A row that is spread over blocks has `chunks` of them; its first k elements become runs of keys with their places,
 * which are merged, each time into the other memory. */
typedef struct topk_args {
  const void *x;
  void *y;
  int64_t *indices;                       /* NULL: not wanted */
  int64_t *reported;                      /* NULL, or the count of the output */
  unsigned long long *counts;             /* per row and digit of a key: how many keys have each value of it */
  uint32_t *of_chunk;                     /* the same of the last digit alone, per row and chunk */
  unsigned long long *taken;              /* per row: how many elements */
  void *keys;                             /* per row `padded` keys with their places: not yet merged */
  void *merged;                           /* the other memory */
  int64_t rows, extent, inner, k, padded; /* padded: a power of two; of whole runs if it is larger than one */
  int64_t chunks, run;                    /* run: keys of a run that is merged with its neighbours */
  counted_extent counted;                 /* of the rows' extent (counts_extent), or of their number */
  int32_t dtype, size, largest, bits;     /* bits: of a key */
  int32_t shift;                          /* of the digit that is counted */
  int32_t packed;                         /* a key and its place are 32 bits each, not 64 */
  int32_t counts_extent;
} topk_args;

/* ---- CumSum (scan.cu) ---- */

enum { SCAN_CHUNK = 2048, SCAN_FEW_LINES = 264 }; /* two blocks for each multiprocessor of an H100 */

typedef struct scan_args {
  const void *x, *axis; /* axis: one element */
  void *y;
  uint64_t *sums; /* of chunks of few long lines: the bits of each chunk's sum. NULL: no axis has such lines */
  cuda_fault *fault;
  int64_t n;
  int64_t extents[CUDA_DIMS];
  uint32_t launch;
  int32_t rank, dtype, axis_size, exclusive, reverse;
  int32_t counted_axis;   /* of x */
  counted_extent counted; /* of that axis */
} scan_args;

/* ---- ScatterElements and ScatterND (scatter.cu) ---- */

/* An update goes to a slot: `block` neighbouring elements of y. */
typedef struct scatter_args {
  const void *x, *indices, *updates;
  void *y;
  unsigned long long *slots;  /* one each: without reduction, the number from 1 on of the last update; else how many */
  unsigned long long *starts; /* one each: where its updates begin in the list */
  unsigned long long *taken;  /* one number: how many places of the list are taken */
  int64_t *list;              /* the updates of all slots */
  cuda_fault *fault;
  int64_t elements, n, n_slots, block;            /* of y; updates */
  int64_t walk[CUDA_DIMS];                        /* ScatterElements: extents of the indices */
  int64_t extents[CUDA_DIMS], strides[CUDA_DIMS]; /* of the components, or of y's dims; in slots */
  uint32_t launch;
  int32_t size, dtype, index_size, rank, axis, n_components; /* axis -1: ScatterND */
  int32_t reduction;                                         /* op.def's word */
  int32_t counted_component; /* of an index of ScatterND: of the extent that has data's count */
  counted_extent counted;    /* of the data; of Dropout's, too */
  counted_extent updated;    /* of indices and updates */
} scatter_args;

/* ---- elements made of places (generate.cu) ---- */

enum { MAKE_CONSTANT, MAKE_RANGE, MAKE_EYE };

typedef struct make_args {
  void *y;
  int64_t n, columns, diagonal; /* MAKE_EYE */
  double start, delta;          /* MAKE_RANGE of floats */
  uint64_t value, step;         /* the bits of an element; MAKE_RANGE of integers: of the first, and of the step */
  int32_t kind, dtype, size, is_float;
  counted_extent counted; /* MAKE_EYE: of the rows */
} make_args;

typedef struct one_hot_args {
  const void *indices, *values;
  void *y;
  int64_t n, depth, inner;
  int32_t dtype, size;    /* dtype: of the indices */
  counted_extent counted; /* of an axis before the depth */
} one_hot_args;

typedef struct trilu_args {
  const void *x;
  const int64_t *k; /* NULL: 0 */
  void *y;
  int64_t n, rows, columns;
  int32_t size, upper;
  counted_extent counted; /* of an axis before the matrices' two */
} trilu_args;

typedef struct reverse_args {
  const void *x;
  const int64_t *lengths;
  void *y;
  cuda_fault *fault;
  int64_t n, times, batches, block, time_stride; /* time_stride: in blocks; 1, or batches */
  uint32_t launch;
  int32_t size;
  counted_extent counted; /* of the sequences, if time_stride is 1 */
} reverse_args;

typedef struct dropout_args {
  const void *ratio;
  const uint8_t *training; /* NULL: no training */
  uint8_t *mask;           /* NULL: not wanted */
  cuda_fault *fault;
  int64_t n;
  uint32_t launch;
  int32_t ratio_dtype;
  counted_extent counted; /* of the mask */
} dropout_args;

/* ---- resizing (resize.cu, regions.cu) ---- */

/* An axis that is resized, and where its part of the tables begins. */
typedef struct resize_part {
  double scale, crop_begin, crop_end;
  int64_t in, out, taps, first; /* first: of all positions in the tables `outside`, of all taps in the others */
  int64_t first_place;
  int32_t axis;
} resize_part;

enum { RESIZE_ROWS = 4 }; /* of a thread of resize_1, resize_4 and resize_8 */

typedef struct resize_args {
  const void *x;
  void *y;
  int32_t *index; /* the places along the axis that a position reads, and their weights */
  float *weight;
  uint8_t *outside; /* NULL: no position is */
  double cubic_a, extrapolation;
  int64_t n, positions;                           /* n: threads */
  int64_t extents[CUDA_DIMS], strides[CUDA_DIMS]; /* of y; of x */
  resize_part parts[CUDA_DIMS];
  int32_t rank, n_parts, dtype, size, mapping, mode, nearest, antialias, exclude_outside;
  counted_extent counted; /* of extents[0] */
} resize_args;

enum { PASTE_ROWS = 8 }; /* of a thread */

typedef struct paste_args {
  const float *masks;
  const int64_t *boxes; /* x1, y1, x2, y2 */
  float *y;
  int64_t n, rows, columns, height, width; /* n: threads */
  int64_t bands;                           /* of PASTE_ROWS rows of a picture */
  int32_t mapping;
  counted_extent counted; /* of the masks */
} paste_args;

typedef struct keypoints_args {
  const float *maps, *left, *top, *width, *height, *columns_of, *rows_of;
  float *points, *peaks;
  cuda_fault *fault;
  double cubic_a;
  int64_t channels, rows, columns, lanes; /* lanes: elements from one pixel of a map to the next */
  counted_extent counted;                 /* of the regions */
  uint32_t launch;
  int32_t mapping;
} keypoints_args;

/* ---- GridSample (grid_sample.cu) ---- */

enum { GRID_CHANNELS = 4 }; /* of a thread */

/* a picture's pixels and samples in a plane; slices: of GRID_CHANNELS channels */
typedef struct grid_args {
  const void *x, *grid;
  void *y;
  int64_t n, channels, slices, pixels, samples;
  int64_t in[CUDA_AXES];
  int32_t axes, mode, outside, align_corners, dtype, grid_dtype, last;
  counted_extent counted; /* of the images */
} grid_args;

/* ---- Col2Im (fold.cu) ---- */

typedef struct fold_args {
  const void *x;
  void *y;
  int64_t n, image, block, windows;
  int64_t in[CUDA_AXES], out[CUDA_AXES], kernel[CUDA_AXES], stride[CUDA_AXES], dilation[CUDA_AXES], pad[CUDA_AXES];
  int32_t axes, dtype;
} fold_args;

#endif
