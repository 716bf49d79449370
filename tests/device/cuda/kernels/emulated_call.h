/* One call of an operator on the device's kernels under the emulation, for tests of single kernels: prepares it and
 * runs its launches. The kernel cases of tests/ops/cpu: emulated_case.c. */
#ifndef TESTS_DEVICE_CUDA_KERNELS_EMULATED_CALL_H_
#define TESTS_DEVICE_CUDA_KERNELS_EMULATED_CALL_H_

#include <check.h>
#include <string.h>

#include "base/diag.h"
#include "device/cuda/kernels/kernel.h"
#include "device/cuda/kernels/operators.h"
#include "device/cuda/simt/simt.h"
#include "ops/kernel.h"

extern const simt_kernel simt_kernels[];

enum { EMULATED_OPERANDS = 24, EMULATED_MORE = 3 };

/* A call. Zeros: one output, no attributes, no rooms, no values on the host, all blocks in order. */
typedef struct emulated_call {
  op_id op;
  const reed_attrs *attrs;
  const reed_desc *in, *out;
  int32_t n_in, more_out; /* outputs after the first */
  const reed_room *in_rooms, *out_rooms;
  const void *const *host; /* per input */
  cuda_math math;
  const void *inputs[EMULATED_OPERANDS];
  void *output, *more_outputs[EMULATED_MORE], *workspace;
  int64_t count, extent;  /* the counted input's true extent; the extent that the kernel reports */
  int64_t touched;        /* += bytes that launches have read and written, but for counts */
  const uint64_t *blocks; /* these alone run; NULL: all */
  uint64_t n_blocks, order;
  bool warpgroups; /* the card has wgmma */
} emulated_call;

/* Prepares the call's kernel. The caller frees its state. */
static inline reed_kernel emulated_prepare(const emulated_call *c) {
  static const void *const no_host[EMULATED_OPERANDS];
  static const bool constant[EMULATED_OPERANDS];
  reed_diagnosis diagnosis = {0};
  reed_attr completed[16];
  const reed_attrs none = {NULL, 0},
                   attrs = op_attrs_complete(op_builtin(c->op), c->attrs ? c->attrs : &none, completed);
  const reed_kernel_call call = {.op = op_builtin(c->op),
                                 .attrs = &attrs,
                                 .node = "node",
                                 .n_inputs = c->n_in,
                                 .n_outputs = 1 + c->more_out,
                                 .inputs = c->in,
                                 .outputs = c->out,
                                 .input_rooms = c->in_rooms,
                                 .output_rooms = c->out_rooms,
                                 .host_values = c->host ? c->host : no_host,
                                 .constant = constant,
                                 .env = &(reed_kernel_env){.n_threads = 1},
                                 .diagnosis = &diagnosis};
  reed_kernel kernel = {0};
  ck_assert_msg(cuda_kernel_of(call.op, c->math)(&call, &kernel) == REED_OK, "%s", reed_diagnosis_message(&diagnosis));
  return kernel;
}

static inline char *emulated_address(emulated_call *c, const cuda_pointer *p) {
  switch ((cuda_source)p->source) {
    case CUDA_FROM_INPUT: return (char *)(uintptr_t)c->inputs[p->index];
    case CUDA_FROM_OUTPUT: return p->index ? c->more_outputs[p->index - 1] : c->output;
    case CUDA_FROM_WORKSPACE: return c->workspace;
    case CUDA_FROM_EXTENT: return (char *)&c->count;
    case CUDA_FROM_EXTENTS: return (char *)&c->extent;
    case CUDA_FROM_FAULT:
    case CUDA_FROM_NUMBER: break;
  }
  return NULL;
}

/* Runs one launch of the prepared kernel; the fault, or "". */
static inline const char *emulated_fault(emulated_call *c, const cuda_prepared *plan, const cuda_launch *l) {
  static char said[512];
  char args[CUDA_MAX_ARGS_BYTES] __attribute__((aligned(16)));
  simt_operand operands[EMULATED_OPERANDS];
  bool is_count[EMULATED_OPERANDS];
  int64_t touched[EMULATED_OPERANDS] = {0};
  int32_t n = 0;
  memcpy(args, plan->args + l->args_at, cuda_kernel_infos[l->kernel].args_bytes);
  for (uint32_t i = 0; i < l->n_pointers; i++) {
    const cuda_pointer *p = &plan->pointers[l->first_pointer + i];
    if (p->source == CUDA_FROM_FAULT || p->source == CUDA_FROM_NUMBER) continue;
    char *base = emulated_address(c, p), *data = base && p->bytes ? base + p->offset : NULL;
    memcpy(args + p->field, &data, sizeof data);
    if (!data) continue;
    is_count[n] = p->source == CUDA_FROM_EXTENT;
    operands[n++] = (simt_operand){data, p->bytes, p->written};
  }
  const simt_launch launch = {.kernel = &simt_kernels[l->kernel],
                              .grid = {l->grid[0], l->grid[1], l->grid[2]},
                              .block = {cuda_kernel_infos[l->kernel].threads, 1, 1},
                              .shared_bytes = l->shared_bytes,
                              .shared_limit = SIMT_SHARED_MOST,
                              .args = args,
                              .operands = operands,
                              .n_operands = n,
                              .blocks = c->blocks,
                              .n_blocks = c->n_blocks,
                              .touched = touched,
                              .order = c->order,
                              .warpgroups = c->warpgroups};
  said[0] = 0;
  ck_assert(simt_run(&launch, said, sizeof said) == !said[0]);
  for (int32_t i = 0; i < n; i++) c->touched += is_count[i] ? 0 : touched[i];
  return said;
}

/* Runs one launch of the prepared kernel. */
static inline void emulated_launch(emulated_call *c, const cuda_prepared *plan, const cuda_launch *l) {
  const char *said = emulated_fault(c, plan, l);
  ck_assert_msg(!said[0], "%s", said);
}

/* Runs all launches of the prepared kernel. */
static inline void emulated_run(emulated_call *c, const reed_kernel *kernel) {
  const cuda_prepared *plan = kernel->state;
  for (uint32_t i = 0; i < plan->n_launches; i++) emulated_launch(c, plan, &plan->launches[i]);
}

#endif
