/* One call of an operator on tensors of the host, without a model: for programs that want a kernel of Reed alone, such
 * as torchvision's operators on regions and their gradients (docs/operators.md lists operators, operands and
 * attributes). A model's many calls are faster in a session, which plans memory and prepares kernels once. */
#ifndef REED_CALL_H_
#define REED_CALL_H_

#include "reed/operator.h"
#include "reed/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Everything is borrowed for the time of the call. */
typedef struct reed_operator_call {
  const char *domain;         /* "" (ONNX's), "torchvision", or a custom operator's; NULL: "" */
  const char *name;           /* "RoiAlign", "roi_align" */
  reed_tensor *const *inputs; /* n_inputs tensors; NULL for an optional input that is left out */
  int32_t n_inputs;
  int32_t n_outputs;      /* number of wanted outputs, the operator's first ones */
  const reed_attr *attrs; /* n_attrs attributes in any order; the others have the operator's values */
  int32_t n_attrs;
  const reed_registry *registry; /* of custom operators; NULL: Reed's own operators */
  int n_threads;                 /* 0: one per CPU available */
  const int *cancel; /* read atomically between chunks of work: not 0 ends the call with ERROR_CANCELLED; NULL: none */
} reed_operator_call;

/* Computes the outputs: n_outputs new dense tensors of the host, which the caller closes; on an error out_outputs is
 * untouched. An output whose extent depends on elements (nms) has its true extent. Inputs that lie on a device or are
 * not dense are copied. Any number of threads may call at a time. Random numbers are the first ones of the attribute
 * `seed`, or of the seed 0.
 *
 * ERROR_UNSUPPORTED: no such operator or attribute, a control-flow operator, or one without a kernel for the host;
 * ERROR_ARGUMENT: a negative number, a pointer that is missing, an attribute that is given twice; ERROR_TYPE,
 * ERROR_SHAPE, ERROR_VALUE: operands that the operator does not accept; ERROR_MEMORY; ERROR_CANCELLED. */
REED_API REED_MUST_CHECK reed_status reed_operator_run(const reed_operator_call *call, reed_tensor **out_outputs,
                                                       reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif

#endif
