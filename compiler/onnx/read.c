/* onnx_read: model bytes -> outline -> protobuf structs -> graph. Graphs are read in graph.c, tensors in tensor.c. */
#include <string.h>

#include "compiler/onnx/reader.h"

/* Memory of protobuf-c; `failed` distinguishes a lack of memory from a damaged file. */
typedef struct unpack_memory {
  bool failed;
} unpack_memory;

static void *unpack_allocate(void *context, size_t bytes) {
  void *block = mem_alloc(bytes);
  if (!block) ((unpack_memory *)context)->failed = true;
  return block;
}

static void unpack_release(void *context, void *block) { mem_free(block); }

/* ---- the model ---- */

static reed_status read_model(onnx_reader *r, const Onnx__ModelProto *model) {
  if (!model->graph) return diag_fail(r->diagnosis, REED_ERROR_FORMAT, "not an ONNX model: it has no graph");
  if (!model->n_opset_import && !model->has_ir_version)
    return diag_fail(r->diagnosis, REED_ERROR_FORMAT,
                     "not an ONNX model: it names neither its IR version nor an opset");
  r->m->name = ir_text(r->m, "%s", onnx_text(model->graph->name));
  if (!r->m->name) return diag_no_memory(r->diagnosis, "the model's name");
  reed_status status = onnx_read_graph(r, model->graph);
  return status == REED_OK ? onnx_report_problems(r) : status;
}

reed_status onnx_read(ir_module *m, const void *bytes, size_t n_bytes, const onnx_external *external) {
  reed_diagnosis *d = m->diagnosis;
  if (!n_bytes) return diag_fail(d, REED_ERROR_FORMAT, "not an ONNX model: it is empty");
  text_buffer outline = {0};
  bool is_model = onnx_outline(bytes, n_bytes, &outline);
  unpack_memory memory = {.failed = outline.failed};
  ProtobufCAllocator allocator = {unpack_allocate, unpack_release, &memory};
  Onnx__ModelProto *model = is_model && !memory.failed
                                ? onnx__model_proto__unpack(&allocator, outline.n, (const uint8_t *)outline.data)
                                : NULL;
  text_fini(&outline);
  if (memory.failed && !model) return diag_no_memory(d, "the model's protobuf messages");
  if (!is_model)
    return diag_fail(d, REED_ERROR_FORMAT,
                     "not an ONNX model, or damaged: its bytes are no protobuf message of a model");
  if (!model)
    return diag_fail(d, REED_ERROR_FORMAT, "not an ONNX model, or damaged: its protobuf messages cannot be read");
  onnx_reader r = {.m = m, .model = model, .outlined = bytes, .diagnosis = d, .external = external};
  reed_status status = read_model(&r, model);
  onnx_forget_problems(&r);
  VEC_FREE(&r.sequences);
  onnx__model_proto__free_unpacked(model, &allocator);
  return status;
}
