/* The interface of the ONNX reader: model bytes become a graph in the form of ops/op.def, whatever opset the model
 * uses. The rest of the compiler does not depend on protobuf or opsets. */
#ifndef COMPILER_ONNX_ONNX_H_
#define COMPILER_ONNX_ONNX_H_

#include "compiler/ir/ir.h"

#define ONNX_OPSET_MIN 7
#define ONNX_OPSET_MAX 25

/* Which external files may be read. */
typedef struct onnx_external {
  const char *folder; /* the folder of external tensor files, usually the model's; NULL: a model with external files is
                         refused */
  const char *model;  /* the model's path: files in the folder of the resolved path (links followed) may be read too;
                         NULL: none */
  bool anywhere;      /* files outside both folders may be read too */
  void (*reading)(void *context, const char *path); /* called for every file that is read; NULL: no call */
  void *reading_context;
} onnx_external;

/* Fills the newly opened module m from the model. `external` NULL: as an onnx_external without a folder. The bytes must
 * stay valid as long as m, because weights are not copied. ERROR_UNSUPPORTED lists every unsupported operator,
 * attribute, dtype and opset with its nodes' names; ERROR_FORMAT: not an ONNX model, damaged, or not well-formed
 * (names, order, types of initializers). After an error the caller closes m. */
reed_status onnx_read(ir_module *m, const void *bytes, size_t n_bytes, const onnx_external *external) REED_MUST_CHECK;

#endif
