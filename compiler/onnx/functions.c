/* Look-up of a model's local functions by domain and name. Calls are inlined in graph.c. */
#include <string.h>

#include "compiler/onnx/reader.h"

const char *onnx_plain_domain(const char *domain) { return !domain || strcmp(domain, "ai.onnx") == 0 ? "" : domain; }

/* The version of ai.onnx in force: the function's, otherwise that of the frames around it; 0: not imported. */
int64_t onnx_opset(const onnx_frame *f) {
  for (; f; f = f->caller)
    for (size_t i = 0; i < f->n_opsets; i++)
      if (!*onnx_plain_domain(f->opsets[i]->domain)) return f->opsets[i]->version;
  return 0;
}

const Onnx__FunctionProto *onnx_find_function(const onnx_reader *r, const char *domain, const char *name) {
  for (size_t i = 0; i < r->model->n_functions; i++) {
    const Onnx__FunctionProto *f = r->model->functions[i];
    if (strcmp(onnx_plain_domain(f->domain), domain) == 0 && strcmp(onnx_text(f->name), name) == 0) return f;
  }
  return NULL;
}
