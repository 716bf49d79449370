/* The operands and steps of deformable convolutions by the names of ONNX (DeformConv) and of torchvision
 * (deform_conv2d and its backward operator), for shape functions and kernels. */
#ifndef OPS_DEFORM_H_
#define OPS_DEFORM_H_

#include "ops/op.h"

/* Numbers of inputs; -1: the operator has no such input. */
typedef struct deform_operands {
  int32_t grad, input, weight, offset, mask, bias;
} deform_operands;

static inline deform_operands deform_operands_of(op_id op) {
  return op == OP_DeformConv      ? (deform_operands){-1, 0, 1, 2, 4, 3}
         : op == OP_deform_conv2d ? (deform_operands){-1, 0, 1, 2, 3, 4}
                                  : (deform_operands){0, 1, 2, 3, 4, -1};
}

/* Outputs of the backward operator. */
enum { DEFORM_GRAD_INPUT, DEFORM_GRAD_WEIGHT, DEFORM_GRAD_OFFSET, DEFORM_GRAD_MASK, DEFORM_GRAD_BIAS, DEFORM_GRADS };

/* Rows, then columns. */
typedef struct deform_steps {
  int64_t stride[2], dilation[2], pad_begin[2], pad_end[2], groups, offset_groups;
} deform_steps;

static inline int64_t deform_step(const reed_attrs *attrs, const char *name, int32_t i) {
  const reed_attr *a = reed_attrs_find(attrs, name);
  return a && i < a->n ? a->ints[i] : op_attr_each(op_builtin(OP_DeformConv), name);
}

static inline deform_steps deform_steps_of(op_id op, const reed_attrs *attrs) {
  deform_steps s;
  if (op == OP_DeformConv) {
    for (int32_t i = 0; i < 2; i++) {
      s.stride[i] = deform_step(attrs, "strides", i);
      s.dilation[i] = deform_step(attrs, "dilations", i);
      s.pad_begin[i] = deform_step(attrs, "pads", i);
      s.pad_end[i] = deform_step(attrs, "pads", 2 + i);
    }
    s.groups = op_attr_int(attrs, "group");
    s.offset_groups = op_attr_int(attrs, "offset_group");
    return s;
  }
  s = (deform_steps){.stride = {op_attr_int(attrs, "stride_h"), op_attr_int(attrs, "stride_w")},
                     .dilation = {op_attr_int(attrs, "dilation_h"), op_attr_int(attrs, "dilation_w")},
                     .groups = op_attr_int(attrs, "groups"),
                     .offset_groups = op_attr_int(attrs, "offset_groups")};
  s.pad_begin[0] = s.pad_end[0] = op_attr_int(attrs, "pad_h");
  s.pad_begin[1] = s.pad_end[1] = op_attr_int(attrs, "pad_w");
  return s;
}

#endif
