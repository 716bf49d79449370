/* The table of the CUDA device's kernels by operator (operators.h). */
#include "device/cuda/kernels/operators.h"

#include <string.h>

#include "device/cuda/kernels/rooms.h"
#include "ops/op.h"

#define CUDA_OPERATOR(name, prepare, ...) \
  reed_status cuda_prepare_##prepare(const reed_kernel_call *call, reed_kernel *out_kernel);
#include "ops/cuda.def"

static const reed_kernel_prepare_fn rows[OP_COUNT] = {
#define CUDA_OPERATOR(name, prepare, ...) [OP_##name] = cuda_prepare_##prepare,
#include "ops/cuda.def"
};

/* The call with this copy's row of the operator. */
static reed_status prepare(const reed_kernel_call *call, cuda_math math, reed_kernel *out_kernel) {
  cuda_call own = {.call = *call, .math = math};
  own.call.op = op_builtin_in(call->op->domain, call->op->name);
  return rooms_prepare(&own.call, rows[op_id_of(own.call.op)], out_kernel);
}
static reed_status prepare_plain(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, CUDA_MATH_PLAIN, out_kernel);
}
static reed_status prepare_halves(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, CUDA_MATH_HALVES, out_kernel);
}
static reed_status prepare_tf32(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return prepare(call, CUDA_MATH_TF32, out_kernel);
}
static const reed_kernel_prepare_fn prepares[CUDA_MATHS] = {
    [CUDA_MATH_PLAIN] = prepare_plain, [CUDA_MATH_HALVES] = prepare_halves, [CUDA_MATH_TF32] = prepare_tf32};

reed_kernel_prepare_fn cuda_kernel_of(const reed_op *op, cuda_math math) {
  const reed_op *own = op->domain ? op_builtin_in(op->domain, op->name) : NULL;
  return own && rows[op_id_of(own)] ? prepares[math] : NULL;
}

#define CUDA_LAUNCHES(prepare, kernels) static const char launches_##prepare[] = kernels;
#include "device/cuda/kernels/launches.def"

const cuda_operator cuda_operators[] = {
#define CUDA_OPERATOR(name, prepare, ...) {#name, launches_##prepare},
#include "ops/cuda.def"
    {0}};

bool cuda_operator_launches(const cuda_operator *row, const char *kernel) {
  if (strncmp(kernel, "reed_", 5) == 0) kernel += 5;
  const size_t n = strlen(kernel);
  for (const char *at = row->kernels;; at++) {
    const size_t word = strcspn(at, "+");
    if (word == n && memcmp(at, kernel, n) == 0) return true;
    at += word;
    if (!*at) return false;
  }
}
