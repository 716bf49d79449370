/* The order of packed weights: weights of a product in the order in which the host's kernels read them, the same for
 * every CPU level. The pass `pack` writes constant weights of Conv, ConvTranspose, Gemm and MatMul in this order and
 * keeps their ONNX extents in the attribute `packed`. Kernels then read the module's own pages: loading a program or
 * meeting a new shape transposes, copies and clears no weights.
 *
 * Panels: the columns are the outputs, in panels of PACKED_WIDTH. The last panel has as many columns as its
 * outputs need, rounded up to PACKED_STEP; columns without an output are 0. A panel is [depth][width]; the depth runs
 * over tap rows, tap columns, input channels, or, for an X with channels first, over channels, tap rows, tap columns.
 * The panels of a convolution's groups follow one another. A transposed convolution whose windows do not overlap is a
 * matrix [channels][outputs] per tap, one after the other. Small groups, which have as many outputs as inputs, 8 at
 * most (depthwise: 1): [tap rows][tap columns][input of a group][outputs of all groups].
 *
 * Pairs, if the attribute `packed_pairs` is 1: panels of bf16 for the dot products of AVX512-BF16. The weights of two
 * neighbouring channels of an output lie side by side: [depth / 2][width][2]. Each matrix has an even number of
 * channels. */
#ifndef OPS_PACKED_H_
#define OPS_PACKED_H_

#include "ops/op.h"

#define PACKED_ATTR "packed"
#define PACKED_PAIRS_ATTR "packed_pairs"
#define SHARED_WEIGHTS_ATTR "shared_weights"
#define OUTPUT_DTYPE_ATTR "output_dtype"
#define PACKED_WIDTH 64
#define PACKED_STEP 16
#define PACKED_INPUTS 4 /* the most inputs of any product */

typedef struct packed_order {
  reed_desc plain; /* f32, f16 or bf16, with the extents of ONNX */
  bool small_groups;
  bool pairs;
  int64_t n_parts, part; /* number of matrices; distance of their first elements in the plain weights */
  int64_t outputs, rows, columns, channels; /* of one matrix: its depth is rows * columns * channels */
  int64_t taps; /* number of tap rows, of all slabs: row y is tap row y % taps of channel y / taps */
  int64_t w_output, w_channel, w_tap[2]; /* distances in the plain weights */
} packed_order;

/* Operands of a convolution with weights in pairs that are bf16 in memory; others are f32. A residual that is absent is
 * as Y. */
typedef struct packed_halves {
  bool x, residual, y;
} packed_halves;

/* The packed order for a call with these attributes (which may include PACKED_ATTR) and weights; false if the call's
 * weights must stay plain. */
bool packed_order_of(const reed_op *op, const reed_attrs *attrs, const reed_desc *plain, packed_order *out_order);
/* The order of weights that are already packed; their ONNX extents are read from the attribute. False if the operator
 * has no packed weights, or if the weights have not as many elements as the order. */
bool packed_order_read(const reed_op *op, const reed_attrs *attrs, const reed_desc *packed, packed_order *out_order);
/* True if the attributes say that the call's weights are packed. */
bool packed_is(const reed_op *op, const reed_attrs *attrs);

/* True if they lie in pairs of channels. */
bool packed_has_pairs(const reed_op *op, const reed_attrs *attrs);

/* True for a convolution of such groups with these weights [outputs, inputs of a group, taps]. */
bool packed_has_small_groups(const reed_desc *plain, int64_t groups);
/* The order of their weights. */
packed_order packed_small_groups(const reed_desc *plain);

static inline int64_t packed_panels(int64_t outputs) { return (outputs + PACKED_WIDTH - 1) / PACKED_WIDTH; }
/* The number of columns of panel `panel`. */
static inline int64_t packed_width(int64_t outputs, int64_t panel) {
  int64_t rest = outputs - panel * PACKED_WIDTH;
  return rest < PACKED_WIDTH ? (rest + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP : PACKED_WIDTH;
}
/* The place of a weight in the plain weights. Taps are numbered through the rows, `columns` in each. */
static inline int64_t packed_plain_place(const packed_order *o, int64_t part, int64_t output, int64_t tap,
                                         int64_t channel) {
  const int64_t y = tap / o->columns, x = tap % o->columns;
  return part * o->part + output * o->w_output + (y / o->taps + channel) * o->w_channel + y % o->taps * o->w_tap[0] +
         x * o->w_tap[1];
}
/* The number of elements of one matrix, and of all. */
int64_t packed_part_elements(const packed_order *order);
reed_desc packed_desc(const packed_order *order);
/* Copies plain weights to packed ones and back; the two must not overlap. */
void packed_pack(const packed_order *order, const void *plain, void *packed);
void packed_unpack(const packed_order *order, const void *packed, void *plain);
/* Packs the part that begins at byte `at` of the packed weights into `packed`, and returns its number of bytes; packed
 * NULL: only returns the number. The first part begins at 0, each other where the one before ends. */
size_t packed_pack_part(const packed_order *order, const void *plain, size_t at, void *packed);

#endif
