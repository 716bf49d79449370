/* Plans of launches: the builder that `prepare` functions fill, and packing a plan into a kernel's state (kernel.h).
 * Launching a plan: device/cuda/launch.c. */
#include "device/cuda/kernels/kernel.h"

#include <string.h>

#include "base/desc.h"
#include "base/diag.h"
#include "base/mem.h"
#include "base/strides.h"
#include "ops/bound.h"
#include "ops/kernel.h"

enum { ARGS_ALIGNMENT = 16 };

const cuda_kernel_info cuda_kernel_infos[CUDA_KERNELS] = {
#define CUDA_KERNEL(name, args, threads) {"reed_" #name, sizeof(args), _Alignof(args), threads},
#include "device/cuda/kernels/kernels.def"
};

reed_status cuda_run(const void *state, const reed_kernel_buffers *buffers) {
  return diag_fail(buffers->diagnosis, REED_ERROR_DEVICE, "a kernel of device 'cuda' was run outside of its device");
}

void cuda_plan_launch(cuda_plan *plan, cuda_kernel_id kernel, int64_t blocks, int64_t shared_bytes, const void *args) {
  const size_t args_bytes = cuda_kernel_infos[kernel].args_bytes,
               bytes = (args_bytes + ARGS_ALIGNMENT - 1) & ~(size_t)(ARGS_ALIGNMENT - 1), at = plan->args.n;
  if (blocks < 1 || blocks > CUDA_MAX_GRID_X || shared_bytes < 0 || shared_bytes > UINT32_MAX)
    plan->wrong = cuda_kernel_infos[kernel].name;
  const cuda_launch launch = {.kernel = kernel,
                              .grid = {(uint32_t)blocks, 1, 1},
                              .shared_bytes = (uint32_t)shared_bytes,
                              .args_at = (uint32_t)at,
                              .first_pointer = (uint32_t)plan->pointers.n};
  plan->failed = plan->failed || !VEC_RESERVE(&plan->args, at + bytes) || !VEC_PUSH(&plan->launches, launch);
  if (plan->failed) return;
  plan->args.n = at + bytes;
  memcpy(plan->args.items + at, args, args_bytes);
  memset(plan->args.items + at + args_bytes, 0, bytes - args_bytes);
}

void cuda_plan_keeps(cuda_plan *plan, uint32_t pairs) {
  if (!plan->failed) plan->launches.items[plan->launches.n - 1].keeps = pairs;
}

void cuda_plan_each(cuda_plan *plan, cuda_kernel_id kernel, int64_t n, const void *args) {
  cuda_plan_launch(plan, kernel, blocks_for(kernel, n), 0, args);
}

/* The bytes that an input or output spans from its first element on, with the strides of its room. */
static int64_t operand_bytes(const reed_kernel_call *call, cuda_source source, int32_t index) {
  const bool input = source == CUDA_FROM_INPUT;
  const reed_desc *desc = input ? &call->inputs[index] : &call->outputs[index];
  const reed_room *rooms = input ? call->input_rooms : call->output_rooms;
  int64_t strides[REED_MAX_RANK], low, high = 0;
  if (desc->dtype == REED_NONE) return 0;
  if (!rooms || rooms[index].axis < 0 || rooms[index].counted) return desc_bytes(desc);
  strides_of(desc, rooms[index].axis, rooms[index].capacity, strides);
  return strides_span(desc, strides, &low, &high) ? high : 0;
}

void cuda_plan_pointer(cuda_plan *plan, size_t field, cuda_source source, int32_t index, int64_t offset, int64_t bytes,
                       bool written) {
  if (plan->failed) return;
  if (bytes < 0) bytes = operand_bytes(plan->call, source, index) - offset;
  const cuda_pointer pointer = {(uint32_t)field, index, offset, bytes, (uint8_t)source, written};
  plan->failed = !VEC_PUSH(&plan->pointers, pointer);
  if (!plan->failed) plan->launches.items[plan->launches.n - 1].n_pointers++;
}

bool cuda_is_counted(const reed_kernel_call *call, int32_t input) {
  return input < call->n_inputs && call->inputs[input].dtype != REED_NONE &&
         bound_is_counted_room(call->input_rooms, input);
}

void cuda_plan_extent(cuda_plan *plan, size_t field, int32_t input) {
  cuda_plan_pointer(plan, field + offsetof(counted_extent, count), CUDA_FROM_EXTENT, input, 0, sizeof(int64_t), false);
}

int32_t cuda_counted_input(const reed_kernel_call *call) {
  for (int32_t i = 0; i < call->n_inputs; i++)
    if (cuda_is_counted(call, i)) return i;
  return -1;
}

counted_extent cuda_counted_by(const reed_kernel_call *call, int32_t input) {
  const reed_room *room = &call->input_rooms[input];
  return (counted_extent){.capacity = room->capacity, .factor = bound_factor(room)};
}

counted_extent cuda_counted(const reed_kernel_call *call) {
  const int32_t i = cuda_counted_input(call);
  return i < 0 ? (counted_extent){0} : cuda_counted_by(call, i);
}

void cuda_plan_count(cuda_plan *plan, size_t field) {
  const int32_t i = cuda_counted_input(plan->call);
  if (i < 0) return;
  cuda_plan_extent(plan, field, i);
}

/* The kernel of a launch that touches a counted operand and reads no count; NULL: there is none. A launch without
 * counted operands, such as one that fills tables in the workspace, needs no count. */
static const char *uncounted_launch(const cuda_plan *plan) {
  for (size_t k = 0; k < plan->launches.n; k++) {
    const cuda_launch *launch = &plan->launches.items[k];
    bool touches = false, reads = false;
    for (uint32_t i = launch->first_pointer; i < launch->first_pointer + launch->n_pointers; i++) {
      const cuda_pointer *p = &plan->pointers.items[i];
      touches |= (p->source == CUDA_FROM_INPUT && bound_is_counted_room(plan->call->input_rooms, p->index)) ||
                 (p->source == CUDA_FROM_OUTPUT && bound_is_counted_room(plan->call->output_rooms, p->index));
      reads |= p->source == CUDA_FROM_EXTENT;
    }
    if (touches && !reads) return cuda_kernel_infos[launch->kernel].name;
  }
  return NULL;
}

int32_t cuda_splits(int64_t rows, int64_t n) {
  enum {
    ENOUGH_BLOCKS = 264, /* two for each multiprocessor of an H100 */
    ELEMENTS = 8192      /* of a block, at least */
  };
  const int64_t most = n / ELEMENTS, wanted = rows ? ENOUGH_BLOCKS / rows : 0, splits = most < wanted ? most : wanted;
  return splits < 2 ? 1 : (int32_t)splits;
}

void cuda_plan_drop(cuda_plan *plan) {
  VEC_FREE(&plan->launches);
  VEC_FREE(&plan->pointers);
  VEC_FREE(&plan->args);
}

reed_status cuda_plan_close(cuda_plan *plan, int64_t workspace_bytes, reed_kernel *out_kernel) {
  const size_t launches = plan->launches.n * sizeof(cuda_launch), pointers = plan->pointers.n * sizeof(cuda_pointer),
               args_at =
                   (sizeof(cuda_prepared) + launches + pointers + ARGS_ALIGNMENT - 1) & ~(size_t)(ARGS_ALIGNMENT - 1);
  const char *uncounted = plan->failed ? NULL : uncounted_launch(plan);
  char *block = plan->failed || plan->wrong || uncounted ? NULL : mem_alloc(args_at + plan->args.n);
  if (block) {
    cuda_prepared *made = (cuda_prepared *)block;
    char *first = block + sizeof *made, *second = first + pointers; /* launches last: their alignment is the least */
    *made = (cuda_prepared){.n_launches = (uint32_t)plan->launches.n,
                            .n_pointers = (uint32_t)plan->pointers.n,
                            .launches = (const cuda_launch *)second,
                            .pointers = (const cuda_pointer *)first,
                            .args = block + args_at,
                            .cancel = plan->call->env && !plan->overwrites.n_bytes ? plan->call->env->cancel : NULL,
                            .overwrites = plan->overwrites};
    if (launches) memcpy(second, plan->launches.items, launches);
    if (pointers) memcpy(first, plan->pointers.items, pointers);
    if (plan->args.n) memcpy(block + args_at, plan->args.items, plan->args.n);
    *out_kernel = (reed_kernel){.run = cuda_run,
                                .state = made,
                                .free = mem_free,
                                .workspace_bytes = workspace_bytes,
                                .state_bytes = (int64_t)(args_at + plan->args.n)};
  }
  cuda_plan_drop(plan);
  if (plan->wrong)
    return reed_kernel_fail(plan->call, REED_ERROR_UNSUPPORTED, "its operands are too large for a launch of kernel %s",
                            plan->wrong);
  if (uncounted)
    return reed_kernel_fail(plan->call, REED_ERROR_UNSUPPORTED,
                            "launch %s touches an operand whose extent only the device knows, and reads no count; "
                            "compile for this device, or with --counts host",
                            uncounted);
  return block ? REED_OK : reed_kernel_fail(plan->call, REED_ERROR_MEMORY, "no memory for a plan of launches");
}
