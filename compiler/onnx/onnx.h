/* The door to ONNX: model bytes -> graph in canonical form (that of ops/op.def, whatever opset the model speaks). The
 * rest of the compiler knows nothing of protobuf or opsets. */
#ifndef COMPILER_ONNX_ONNX_H_
#define COMPILER_ONNX_ONNX_H_

#include "compiler/ir/ir.h"

#define ONNX_OPSET_MIN 7
#define ONNX_OPSET_MAX 23

/* Where files beside the model may be read. */
typedef struct onnx_external {
  const char *folder; /* of the model: where external tensor files are; NULL: a model that has any is refused */
  const char *model;  /* the model's path: files may also lie where it leads when links are followed; NULL: none */
  bool anywhere;      /* files outside of both folders are read too */
  void (*reading)(void *context, const char *path); /* told of every file that is read, NULL: nobody is */
  void *reading_context;
} onnx_external;

/* Fills the freshly opened module m from the model. `external`: NULL is as one without a folder. The bytes have to stay
 * as long as m: weights stay in them. ERROR_UNSUPPORTED lists every operator, attribute, dtype and opset that is not
 * known here by node name; ERROR_FORMAT: not an ONNX model, damaged, or not well-formed (names, order, types of
 * initializers). On error m is to be closed. */
reed_status onnx_read(ir_module *m, const void *bytes, size_t n_bytes, const onnx_external *external) REED_MUST_CHECK;

#endif
