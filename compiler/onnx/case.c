/* Reads one TensorProto in a file of its own into an API tensor: the inputs and outputs of ONNX test cases. */
#include <string.h>

#include "compiler/onnx/reader.h"
#include "reed/compiler.h"

/* Reads the elements into the scratch module's memory and copies them to a new tensor. */
static reed_status copy_out(onnx_reader *r, const Onnx__TensorProto *t, reed_tensor **out_tensor) {
  reed_desc desc;
  const void *data;
  reed_tensor *tensor = NULL;
  reed_status status = onnx_read_tensor(r, t, onnx_text(t->name), &desc, &data);
  if (status == REED_OK) status = onnx_report_problems(r);
  if (status != REED_OK) return status;
  status = reed_tensor_open(desc.dtype, desc.rank, desc.dims, &tensor);
  if (status != REED_OK)
    return diag_fail(r->diagnosis, status, "tensor '%s': %s", onnx_text(t->name), reed_status_text(status));
  if (desc_bytes(&desc)) memcpy(reed_tensor_data(tensor), data, (size_t)desc_bytes(&desc));
  *out_tensor = tensor;
  return REED_OK;
}

static void *unpack_allocate(void *context, size_t bytes) {
  (void)context;
  return mem_alloc(bytes);
}

static void unpack_release(void *context, void *block) {
  (void)context;
  mem_free(block);
}

reed_status reed_onnx_read_tensor(const void *bytes, size_t n_bytes, char **out_name, reed_tensor **out_tensor,
                                  reed_diagnosis *diagnosis) {
  if (!bytes || !out_tensor)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_onnx_read_tensor: bytes and a place for the tensor are needed");
  ProtobufCAllocator allocator = {unpack_allocate, unpack_release, NULL};
  reed_tensor *tensor = NULL;
  ir_module *scratch = NULL;
  reed_status status;
  /* no outline is needed, because a TensorProto nests at most two levels */
  Onnx__TensorProto *t = onnx__tensor_proto__unpack(&allocator, n_bytes, bytes);
  if (!t)
    return diag_fail(diagnosis, REED_ERROR_FORMAT, "not an ONNX tensor: its bytes are no protobuf message of one");
  status = ir_module_open(NULL, diagnosis, &scratch);
  if (status == REED_OK) {
    onnx_reader r = {.m = scratch, .diagnosis = diagnosis};
    status = copy_out(&r, t, &tensor);
    onnx_forget_problems(&r);
  }
  if (status == REED_OK && out_name && !(*out_name = mem_copy_text(onnx_text(t->name)))) {
    reed_tensor_close(&tensor);
    status = diag_no_memory(diagnosis, "a tensor's name");
  }
  ir_module_close(&scratch);
  onnx__tensor_proto__free_unpacked(t, &allocator);
  if (status == REED_OK) *out_tensor = tensor;
  return status;
}
