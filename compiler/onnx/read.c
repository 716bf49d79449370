/* Model bytes -> outline -> protobuf structs -> graph: the outermost layer, and the list of what is not supported. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/onnx/reader.h"

/* protobuf-c's allocations; `failed` tells a want of memory from a damaged file. */
typedef struct unpack_memory {
  bool failed;
} unpack_memory;

static void *unpack_allocate(void *context, size_t bytes) {
  void *block = mem_alloc(bytes);
  if (!block) ((unpack_memory *)context)->failed = true;
  return block;
}

static void unpack_release(void *context, void *block) { mem_free(block); }

/* ---- what is not supported ---- */

reed_status onnx_unsupported(onnx_reader *r, const char *where, const char *format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  onnx_problem *p = NULL;
  for (size_t i = 0; i < r->problems.n && !p; i++)
    if (strcmp(r->problems.items[i].what, what) == 0) p = &r->problems.items[i];
  if (!p) {
    char *copy = mem_copy_text(what);
    if (!copy || !VEC_PUSH(&r->problems, ((onnx_problem){.what = copy}))) {
      mem_free(copy);
      return diag_no_memory(r->diagnosis, "the list of what is not supported");
    }
    p = &r->problems.items[r->problems.n - 1];
  }
  text_append(&p->where, "%s'%s'", p->where.n ? ", " : "", where);
  return p->where.failed ? diag_no_memory(r->diagnosis, "the list of what is not supported") : REED_OK;
}

reed_status onnx_report_problems(onnx_reader *r) {
  if (!r->problems.n) return REED_OK;
  text_buffer list = {0};
  for (size_t i = 0; i < r->problems.n; i++)
    text_append(&list, "\n  %s: %s", r->problems.items[i].what, r->problems.items[i].where.data);
  reed_status status = list.failed ? diag_no_memory(r->diagnosis, "the list of what is not supported")
                                   : diag_fail(r->diagnosis, REED_ERROR_UNSUPPORTED, "not supported:%s", list.data);
  text_fini(&list);
  return status;
}

void onnx_forget_problems(onnx_reader *r) {
  for (size_t i = 0; i < r->problems.n; i++) {
    mem_free(r->problems.items[i].what);
    text_fini(&r->problems.items[i].where);
  }
  VEC_FREE(&r->problems);
}

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
  onnx__model_proto__free_unpacked(model, &allocator);
  return status;
}
