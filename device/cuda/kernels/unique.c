/* Launches of Unique. */
#include "base/desc.h"
#include "device/cuda/kernels/select.h"
#include "ops/kernel.h"

enum { UNIQUE_INDICES = 1, UNIQUE_INVERSE, UNIQUE_COUNTS };

/* Parts of the workspace, in bytes: two arrays of places for the merging, marks, then the lists. */
typedef struct layout {
  int64_t places[2], begins, marks, end;
} layout;

static layout layout_of(int64_t n) {
  const int64_t numbers = cuda_round_up(n * 8), flags = cuda_round_up(n);
  return (layout){{0, numbers}, 2 * numbers, 2 * numbers + flags, 2 * numbers + 2 * flags};
}

static bool wanted(const reed_kernel_call *call, int32_t output) {
  return output < call->n_outputs && call->outputs[output].dtype != REED_NONE;
}

/* Returns where the ordered places are in the workspace. */
static int64_t plan_order(cuda_plan *plan, unique_args made, const layout *at) {
  int64_t from = at->places[0], to = at->places[1];
  bool begun = false;
  for (made.run = 1; made.run < made.n || !begun; made.run *= 2, begun = true) {
    cuda_plan_each(plan, CUDA_unique_merge, made.n, &made);
    cuda_plan_count(plan, offsetof(unique_args, counted));
    CUDA_INPUT(plan, unique_args, x, 0);
    if (begun) CUDA_PART(plan, unique_args, from, CUDA_FROM_WORKSPACE, 0, from, made.n * 8, false);
    CUDA_PART(plan, unique_args, to, CUDA_FROM_WORKSPACE, 0, to, made.n * 8, true);
    const int64_t written = to;
    to = from;
    from = written;
  }
  return from;
}

reed_status cuda_prepare_unique(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  const take_args slices = cuda_slices(call);
  const int64_t n = slices.extent, numbers = n * 8;
  const bool sorted = op_attr_int(call->attrs, "sorted");
  const layout at = layout_of(n);
  const unique_args made = {.outer = slices.outer,
                            .n = n,
                            .block = slices.block,
                            .dtype = call->inputs[0].dtype,
                            .bits = slices.size == 8 ? 64 : 32,
                            .counted = cuda_counted(call)};
  int64_t order = 0;
  if (n) {
    order = plan_order(&plan, made, &at);
    cuda_plan_each(&plan, CUDA_unique_begins, n, &made);
    cuda_plan_count(&plan, offsetof(unique_args, counted));
    CUDA_INPUT(&plan, unique_args, x, 0);
    CUDA_PART(&plan, unique_args, from, CUDA_FROM_WORKSPACE, 0, order, numbers, false);
    CUDA_PART(&plan, unique_args, begins, CUDA_FROM_WORKSPACE, 0, at.begins, n, true);
    if (!sorted) CUDA_PART(&plan, unique_args, marks, CUDA_FROM_WORKSPACE, 0, at.marks, n, true);
  }
  const select_args flags = {.n = n, .extents = {n}, .rank = 1, .dtype = REED_BOOL, .counted = made.counted};
  cuda_choice choice = {.source = CUDA_FROM_WORKSPACE, .at = at.begins, .begin = at.end, .reports = true};
  const cuda_places starts = cuda_plan_places(&plan, &choice, flags);
  choice = (cuda_choice){.source = CUDA_FROM_WORKSPACE, .at = at.marks, .begin = starts.end};
  const cuda_places firsts = sorted ? starts : cuda_plan_places(&plan, &choice, flags);
  const int64_t first = sorted ? firsts.end : firsts.places; /* places of the groups' first slices */
  cuda_plan_each(&plan, CUDA_unique_groups, n ? n : 1, &made);
  cuda_plan_count(&plan, offsetof(unique_args, counted));
  CUDA_PART(&plan, unique_args, from, CUDA_FROM_WORKSPACE, 0, order, numbers, false);
  CUDA_PART(&plan, unique_args, starts, CUDA_FROM_WORKSPACE, 0, starts.places, numbers, false);
  CUDA_PART(&plan, unique_args, total, CUDA_FROM_WORKSPACE, 0, starts.total, 8, false);
  if (sorted) CUDA_PART(&plan, unique_args, first, CUDA_FROM_WORKSPACE, 0, first, numbers, true);
  else CUDA_PART(&plan, unique_args, firsts, CUDA_FROM_WORKSPACE, 0, first, numbers, false);
  if (wanted(call, UNIQUE_INDICES)) CUDA_OUTPUT(&plan, unique_args, indices, UNIQUE_INDICES);
  if (wanted(call, UNIQUE_INVERSE)) CUDA_OUTPUT(&plan, unique_args, inverse, UNIQUE_INVERSE);
  if (wanted(call, UNIQUE_COUNTS)) CUDA_OUTPUT(&plan, unique_args, counts, UNIQUE_COUNTS);
  if (wanted(call, UNIQUE_INDICES))
    CUDA_PART(&plan, unique_args, extents[0], CUDA_FROM_EXTENTS, UNIQUE_INDICES, 0, 8, true);
  if (wanted(call, UNIQUE_COUNTS))
    CUDA_PART(&plan, unique_args, extents[1], CUDA_FROM_EXTENTS, UNIQUE_COUNTS, 0, 8, true);
  cuda_plan_take(&plan, slices, n, first, starts.total);
  return cuda_plan_close(&plan, first + numbers, out_kernel);
}
