/* The time that a convolution saves with channels last (gain.h), as the number of elements that could be turned in
 * it: an estimate from measurements of single convolutions. */
#include "compiler/passes/layout/gain.h"

#include "compiler/passes/layout/order.h"
#include "ops/packed.h"

/* Products that are saved in the time of turning one element: by Winograd's form, which takes a third of a direct
 * convolution's time; with groups of few outputs; with weights of half precision, which only packed ones have; and by
 * direct convolutions. */
#define WINOGRAD_PRODUCTS 32
#define LINE_PRODUCTS 48  /* the same of windows with taps along one axis only, where it takes half of the time */
#define WINOGRAD_LEAST 12 /* of channels and outputs */
#define NARROW_PRODUCTS 48
#define HALF_PRODUCTS 37
#define DIRECT_PRODUCTS 232
#define TURN_PRODUCTS 18 /* that take as long as turning one element */
#define LOST_PRODUCTS 8  /* the same of products by columns of a panel that have no output */
#define SEQUENCE_RANK 3
#define LANES 16 /* pixels of a vector, with channels second */
/* Elements for each of a depthwise convolution's, and for each of its taps. */
#define DEPTHWISE .5
#define DEPTHWISE_TAP .03

typedef struct conv_shape {
  int64_t groups, outputs, channels, taps; /* outputs and channels: of a group */
  bool winograd; /* 3x3 windows with stride 1 in images, dilated or not, or in a volume's slices, and one group */
  bool line;     /* windows with stride 1 and three taps or more along one axis only, and one group */
} conv_shape;

/* True if the last `axes` axes, rows and columns if it is 2, have stride 1. */
static bool sees_all_pixels(const reed_attrs *attrs, int64_t axes) {
  int64_t n;
  const int64_t *strides = reed_attrs_ints(attrs, "strides", &n);
  for (int64_t i = n > axes ? n - axes : 0; strides && i < n; i++)
    if (strides[i] != 1) return false;
  return true;
}

/* True for windows with three taps or more along one axis and one tap along the others, all with stride 1. */
static bool is_line(const reed_desc *w, const reed_attrs *attrs) {
  int64_t lines = 0;
  for (int32_t i = 2; i < w->rank; i++) {
    if (w->dims[i] == 1) continue;
    if (w->dims[i] < 3) return false;
    lines++;
  }
  return lines == 1 && sees_all_pixels(attrs, w->rank - 2);
}

/* False: the weights are no constant. */
static bool shape_of(const ir_node *n, conv_shape *out) {
  reed_attrs attrs = ir_attrs(n);
  reed_desc w;
  if (n->n_inputs < 2 || !ir_is_constant(n->inputs[1]) || !ir_desc(n->inputs[1], &w) || w.rank < 3) return false;
  const int64_t groups = op_attr_int(&attrs, "group");
  if (groups < 1) return false;
  *out = (conv_shape){.groups = groups, .outputs = w.dims[0] / groups, .channels = w.dims[1], .taps = 1};
  for (int32_t i = 2; i < w.rank; i++) out->taps *= w.dims[i];
  out->winograd =
      w.rank >= 4 && w.dims[w.rank - 2] == 3 && w.dims[w.rank - 1] == 3 && groups == 1 && sees_all_pixels(&attrs, 2);
  out->line = groups == 1 && is_line(&w, &attrs);
  return true;
}

/* The products with channels second for each one that is needed, because the pixels take whole vectors. */
static double lanes_taken(const ir_type *y) {
  int64_t pixels = 1;
  for (int32_t i = 2; i < y->rank; i++) {
    if (symbol_is(y->dims[i]) || y->dims[i] > INT32_MAX || pixels > INT32_MAX) return 1;
    pixels *= y->dims[i];
  }
  return pixels > 0 ? (double)((pixels + LANES - 1) / LANES * LANES) / (double)pixels : 1;
}

static double products_of_turn(const ir_module *m, const conv_shape *s) {
  if (s->winograd) return WINOGRAD_PRODUCTS;
  if (s->line) return LINE_PRODUCTS;
  if (m->precision == REED_F16 || m->precision == REED_BF16) return HALF_PRODUCTS;
  return s->groups > 1 && s->outputs < PACKED_WIDTH ? NARROW_PRODUCTS : DIRECT_PRODUCTS;
}

double layout_conv_loss(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  conv_shape s;
  if (n->op != op_builtin(OP_Conv) || n->outputs[0]->type.rank != SEQUENCE_RANK || !shape_of(n, &s) || s.groups > 1 ||
      s.taps == 1 || !sees_all_pixels(&attrs, 1) || s.channels >= PACKED_STEP || s.outputs >= PACKED_STEP)
    return 0;
  const double products = layout_weight(n->outputs[0]) * (double)(s.channels * s.taps),
               columns = (double)PACKED_STEP / (double)s.outputs; /* of a panel, for each that is needed */
  return products * (columns - lanes_taken(&n->outputs[0]->type)) / LOST_PRODUCTS;
}

double layout_conv_gain(const ir_module *m, const ir_node *n, bool turns_input) {
  const double outputs = layout_weight(n->outputs[0]),
               turned = outputs + (turns_input ? layout_weight(n->inputs[0]) : 0);
  conv_shape s;
  if (n->op != op_builtin(OP_Conv)) return turned;
  if (!shape_of(n, &s)) return 0; /* its kernel turns both images */
  if (s.groups > 1 && s.channels == 1 && s.outputs == 1) return outputs * (DEPTHWISE + DEPTHWISE_TAP * (double)s.taps);
  const int64_t least = s.winograd || s.line ? WINOGRAD_LEAST : PACKED_STEP;
  if (s.channels < least || s.outputs < least) return turned;
  const double products = outputs * (double)(s.channels * s.taps),
               saved = products / products_of_turn(m, &s) +
                       products * (lanes_taken(&n->outputs[0]->type) - 1) / TURN_PRODUCTS;
  return s.taps > 1 && saved < turned ? turned : saved;
}
