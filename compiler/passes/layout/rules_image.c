/* The layout pass's rules of operators on images (rules.c has the others and the table): they work on channels last by
 * the attribute channels_last. */
#include "compiler/passes/layout/rules_image.h"

#include "compiler/passes/layout/gain.h"
#include "compiler/passes/layout/order.h"
#include "ops/deform.h"

/* A convolution of an image with at most this many channels reads it with channels first, as images are stored. */
#define FEW_CHANNELS 4

static bool is_image_operator(const layout_node *n) {
  reed_attrs attrs = ir_attrs(n->node);
  return !op_attr_int(&attrs, "channels_last") && n->node->outputs[0] && n->node->outputs[0]->type.rank >= 3;
}

static bool edit_image(layout_node *n) { return ir_set_attr_int(n->node, "channels_last", 1); }

/* True if channels last would cost a convolution of a sequence of few channels, which would not fill vectors, more time
 * than turning one of its images. */
static bool stays_second(const layout_node *n) {
  const double turned = n->have[0].rank > 0 ? layout_weight(layout_input(n, 0)) : layout_weight(n->node->outputs[0]);
  return layout_conv_loss(n->node) > turned;
}

/* A convolution asks for channels last, because its kernels' vectors run over channels. */
static bool plan_convolution(layout_node *n) {
  const ir_type *x = &layout_input(n, 0)->type;
  if (!is_image_operator(n) || x->rank != n->node->outputs[0]->type.rank || stays_second(n)) return false;
  bool few = n->node->op == op_builtin(OP_Conv) && n->have[0].rank == 0 && !symbol_is(x->dims[1]) &&
             x->dims[1] <= FEW_CHANNELS;
  n->give[0] = layout_channels_last(x->rank);
  if (!few) n->want[0] = n->give[0];
  if (layout_input(n, 3)) n->want[3] = n->give[0];
  return true;
}

static bool edit_convolution(layout_node *n) {
  return edit_image(n) && (n->want[0].rank > 0 || ir_set_attr_int(n->node, "channels_first_input", 1));
}

/* The other image operators use channels last only where their input is already stored so. */
static bool plan_image(layout_node *n) {
  if (!is_image_operator(n) || !layout_has_order(n)) return false;
  layout_order order = layout_channels_last(n->have[0].rank);
  if (!layout_same(&n->have[0], &order)) return false;
  if (op_has(n->node->op, OP_PROPERTY_TORCHVISION) && order.rank != 4) return false; /* an image without a batch */
  for (int32_t i = 1; i < n->node->n_outputs; i++)
    if (n->node->outputs[i]) return false; /* the output Indices counts elements in the order of the input */
  n->want[0] = n->give[0] = order;
  return true;
}

/* Keypoints reads maps with channels last where they are stored so. Its outputs are no images and keep their order;
 * is_image_operator is not asked because the outputs' types may be unknown. */
static bool plan_maps(layout_node *n) {
  layout_order order = layout_channels_last(4);
  reed_attrs attrs = ir_attrs(n->node);
  if (op_attr_int(&attrs, "channels_last") || !layout_same(&n->have[0], &order)) return false;
  n->want[0] = order;
  return true;
}

static bool plan_levels(layout_node *n) {
  layout_order order = layout_channels_last(4);
  bool some = false;
  for (int32_t i = 3; i < n->node->n_inputs; i++) {
    some = some || layout_same(&n->have[i], &order);
    n->want[i] = order;
  }
  n->give[0] = order;
  return some && is_image_operator(n);
}

/* A deformable convolution asks for channels last of all its maps, because its kernel's vectors run over channels. */
static bool plan_deformable(layout_node *n) {
  deform_operands at = deform_operands_of(op_id_of(n->node->op));
  const int32_t maps[] = {at.input, at.offset, at.mask};
  if (!is_image_operator(n) || n->node->outputs[0]->type.rank != 4) return false;
  for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
    if (!layout_input(n, maps[i])) continue;
    if (layout_input(n, maps[i])->type.rank != 4) return false;
    n->want[maps[i]] = layout_channels_last(4);
  }
  n->give[0] = layout_channels_last(4);
  return true;
}

const layout_rule layout_convolution = {plan_convolution, edit_convolution}, layout_image = {plan_image, edit_image},
                  layout_maps = {plan_maps, edit_image}, layout_levels = {plan_levels, edit_image},
                  layout_deformable = {plan_deformable, edit_image};
