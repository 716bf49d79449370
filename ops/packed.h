/* Weights of a product in the order in which the host's kernels read them, one for every CPU level: what the pass
 * `pack` makes of constant weights of Conv, ConvTranspose, Gemm and MatMul, whose attribute `packed` then holds the
 * extents that ONNX gives them. Nothing is turned, copied or cleared when a program is loaded or meets a new shape:
 * kernels read the file's own pages.
 *
 * Panels (one group): outputs are columns, in panels of PACKED_WIDTH of which the last has the multiple of PACKED_STEP
 * that is needed; columns beyond the outputs are 0. A panel is [depth][width]; depth runs over tap rows, tap columns,
 * input channels, or over channels, tap rows, tap columns where X has its channels first. A transposed convolution,
 * whose windows lie side by side, is a matrix [channels][outputs] for each tap, one packed behind the other. Depthwise:
 * [tap rows][tap columns][channels]. */
#ifndef OPS_PACKED_H_
#define OPS_PACKED_H_

#include "ops/op.h"

#define PACKED_ATTR "packed"
#define PACKED_WIDTH 64
#define PACKED_STEP 16
#define PACKED_INPUTS 4 /* no product has more */

typedef struct packed_order {
  reed_desc plain; /* f32, f16 or bf16, as ONNX has them */
  bool depthwise;
  int64_t n_parts, part; /* matrices behind each other; distance of their first elements in the plain weights */
  int64_t outputs, rows, columns, channels; /* of a part: depth is rows * columns * channels */
  int64_t taps;                             /* tap rows: of `rows`, row y is tap y % taps of channel y / taps */
  int64_t w_output, w_channel, w_tap[2];    /* distances in the plain weights */
} packed_order;

/* The order for a call with these attributes (PACKED_ATTR may be among them) and weights; false where its weights are
 * read as they are. */
bool packed_order_of(const reed_op *op, const reed_attrs *attrs, const reed_desc *plain, packed_order *out_order);
/* The same for weights that are packed, whose extents the attribute says. False as well where there are not as many
 * elements as that order has, or the operator knows no packed weights. */
bool packed_order_read(const reed_op *op, const reed_attrs *attrs, const reed_desc *packed, packed_order *out_order);
/* True where the operator's weights are said to be packed. */
bool packed_is(const reed_op *op, const reed_attrs *attrs);

static inline int64_t packed_panels(int64_t outputs) { return (outputs + PACKED_WIDTH - 1) / PACKED_WIDTH; }
/* Columns of a panel. */
static inline int64_t packed_width(int64_t outputs, int64_t panel) {
  int64_t rest = outputs - panel * PACKED_WIDTH;
  return rest < PACKED_WIDTH ? (rest + PACKED_STEP - 1) / PACKED_STEP * PACKED_STEP : PACKED_WIDTH;
}
/* Elements of a part, and of all. */
int64_t packed_part_elements(const packed_order *order);
reed_desc packed_desc(const packed_order *order);
/* plain -> packed and back; the two must not overlap. */
void packed_pack(const packed_order *order, const void *plain, void *packed);
void packed_unpack(const packed_order *order, const void *packed, void *plain);

#endif
