/* The host's kernels: the third column of ops/op.def names cpu_prepare_<x>, defined in the other files of this folder.
 */
#include "ops/kernel.h"

#define DECLARE_LIGHT(kernel) reed_status cpu_prepare_##kernel(const reed_kernel_call *call, reed_kernel *out_kernel);
#define DECLARE_HEAVY(kernel) DECLARE_LIGHT(kernel)
#define DECLARE_CONTROL(kernel)
#define OP(name, shape, kernel, class, ...) DECLARE_##class(kernel)
#include "ops/op.def"

#define PREPARE_LIGHT(kernel) cpu_prepare_##kernel
#define PREPARE_HEAVY(kernel) cpu_prepare_##kernel
#define PREPARE_CONTROL(kernel) NULL

static const reed_kernel_prepare_fn prepares[OP_COUNT] = {
#define OP(name, shape, kernel, class, ...) [OP_##name] = PREPARE_##class(kernel),
#include "ops/op.def"
};

reed_kernel_prepare_fn kernel_cpu(const reed_op *op) {
  op_id id = op_id_of(op);
  return id < OP_COUNT ? prepares[id] : op->cpu;
}
