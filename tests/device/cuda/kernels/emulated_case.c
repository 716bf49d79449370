/* The kernel cases of tests/ops/cpu on the CUDA device's kernels under the emulation, without the module and its
 * driver: the plan of launches is made and run here. The devices' names are orders of threads, and the places of the
 * operands: "aligned" to 64 bytes, or "tight", each (or each input, or each output) at an address that is a multiple of
 * its element's size and of no greater power of 2, because a view may begin at any element. On "counted" devices the
 * extents of some axes are counts that only the device knows (counted_case.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "device/cuda/kernels/kernel.h"
#include "device/cuda/kernels/operators.h"
#include "device/cuda/simt/simt.h"
#include "ops/fault.h"
#include "tests/device/cuda/kernels/counted_case.h"

extern const simt_kernel simt_kernels[];

enum { LAUNCH = 7, MOST_OPERANDS = 1200, MANY_ELEMENTS = 500, MOST_COUNTED = 2000, ALIGNMENT = 64 };

bool case_devices_only(void) { return true; }

const char *const *case_devices(void) {
  static const char *const names[] = {"emulated forward aligned",
                                      "emulated forward tight",
                                      "emulated reverse tight inputs",
                                      "emulated random tight outputs",
                                      "emulated forward counted",
                                      "emulated random counted",
                                      NULL};
  return names;
}

static uint64_t order_of(const kernel_case *c, const char *name) {
  if (strstr(name, "forward")) return SIMT_FORWARD;
  if (strstr(name, "reverse")) return SIMT_REVERSE;
  return c->seed | 2;
}

/* f16 and bf16 with tensor cores and without; tf32 has a test of its own (test_mma.c). */
static cuda_math math_of(const char *name) { return strstr(name, "reverse") ? CUDA_MATH_PLAIN : CUDA_MATH_HALVES; }

/* True if the device's list has the call, which then has a kernel; counted: one that reads counts. */
static bool has_call(kernel_case *c, const case_call *made, bool counted) {
  static capability *list;
  if (!list && capability_open("cuda-emulated", NULL, &list, &c->diagnosis))
    case_fail(c, "%s", reed_diagnosis_message(&c->diagnosis));
  return cuda_kernel_of(made->call.op, CUDA_MATH_PLAIN) && case_call_listed(made, list, counted);
}

static bool is_counted(const char *name) { return strstr(name, "counted") != NULL; }
static bool is_tight(const char *name) { return strstr(name, "tight") != NULL; }
static bool has_tight_inputs(const char *name) { return is_tight(name) && !strstr(name, "outputs"); }
static bool has_tight_outputs(const char *name) { return is_tight(name) && !strstr(name, "inputs"); }

/* Memory of a launch. Outputs have copies in the case once the launches have run. */
typedef struct memory {
  kernel_case *c;
  counted_case *counted;                                         /* NULL: no extent is counted */
  char *inputs[CASE_INPUTS], *outputs[CASE_OUTPUTS], *workspace; /* NULL: no bytes */
  void *blocks[CASE_INPUTS + CASE_OUTPUTS + 1];
  int n_blocks;
  cuda_fault fault;
  uint32_t number;
} memory;

static char *address(memory *m, const cuda_pointer *p) {
  switch ((cuda_source)p->source) {
    case CUDA_FROM_INPUT: return m->inputs[p->index];
    case CUDA_FROM_OUTPUT: return m->outputs[p->index];
    case CUDA_FROM_WORKSPACE: return m->workspace;
    case CUDA_FROM_EXTENTS: return (char *)&m->c->extents[p->index];
    case CUDA_FROM_FAULT: return (char *)&m->fault;
    case CUDA_FROM_NUMBER: return (char *)&m->number;
    case CUDA_FROM_EXTENT: return (char *)&m->counted->counts[p->index];
  }
  return NULL;
}

/* launches.def says which kernels an operator may launch. */
static void check_listed(kernel_case *c, const char *kernel) {
  const char *name = op_builtin(c->op)->name;
  const cuda_operator *row = cuda_operators;
  while (row->name && strcmp(row->name, name) != 0) row++;
  if (!row->name || !cuda_operator_launches(row, kernel))
    case_fail(c, "device/cuda/kernels/launches.def lacks %s for %s", kernel, name);
}

static void run_launch(memory *m, const cuda_prepared *plan, const cuda_launch *l, uint64_t order) {
  static simt_operand operands[MOST_OPERANDS];
  char args[CUDA_MAX_ARGS_BYTES] __attribute__((aligned(16))), said[512];
  const cuda_kernel_info *info = &cuda_kernel_infos[l->kernel];
  int32_t n = 0;
  check_listed(m->c, info->name);
  memcpy(args, plan->args + l->args_at, info->args_bytes);
  for (uint32_t i = 0; i < l->n_pointers; i++) {
    const cuda_pointer *p = &plan->pointers[l->first_pointer + i];
    char *data = address(m, p);
    if (p->source == CUDA_FROM_NUMBER) {
      memcpy(args + p->field, data, 4);
      continue;
    }
    data = data && p->bytes ? data + p->offset : NULL;
    memcpy(args + p->field, &data, sizeof data);
    if (data) operands[n++] = (simt_operand){data, p->bytes, p->written};
  }
  const simt_launch launch = {.kernel = &simt_kernels[l->kernel],
                              .grid = {l->grid[0], l->grid[1], l->grid[2]},
                              .block = {info->threads, 1, 1},
                              .shared_bytes = l->shared_bytes,
                              .shared_limit = SIMT_SHARED_MOST,
                              .args = args,
                              .operands = operands,
                              .n_operands = n,
                              .order = order,
                              .warpgroups = order % 2 == 0};
  if (!simt_run(&launch, said, sizeof said)) case_fail(m->c, "%s", said);
}

/* Memory whose address is a multiple of `alignment` and of no greater power of 2, at most 64; filled with bytes 0xff.
 */
static char *place(memory *m, int64_t bytes, size_t alignment) {
  enum { BOUNDARY = 128 };
  if (!bytes) return NULL;
  char *block = aligned_alloc(BOUNDARY, ((size_t)bytes + 2 * BOUNDARY - 1) / BOUNDARY * BOUNDARY);
  if (!block) case_fail(m->c, "out of memory");
  m->blocks[m->n_blocks++] = block;
  return memset(block + alignment, 0xff, (size_t)bytes);
}

static void place_operands(memory *m, const case_call *made, int64_t workspace_bytes) {
  kernel_case *c = m->c;
  const bool tight_in = has_tight_inputs(c->device), tight_out = has_tight_outputs(c->device);
  for (int32_t i = 0; i < c->n_inputs; i++) {
    const reed_desc *desc = &c->inputs[i].desc, *room = m->counted ? m->counted->in[i].desc : desc;
    if (desc->dtype == REED_NONE || !desc_bytes(room)) continue;
    m->inputs[i] = place(m, desc_bytes(room), tight_in ? reed_dtype_bytes(desc->dtype) : ALIGNMENT);
    if (c->inputs[i].data) memcpy(m->inputs[i], c->inputs[i].data, (size_t)desc_bytes(desc));
  }
  for (int32_t i = 0; i < c->n_outputs; i++) {
    if (c->unwanted[i]) continue;
    const reed_desc *room = m->counted ? &m->counted->out[i] : &made->out[i];
    case_open_output(c, i, &made->out[i]);
    m->outputs[i] = place(m, desc_bytes(room), tight_out ? reed_dtype_bytes(room->dtype) : ALIGNMENT);
  }
  m->workspace = place(m, workspace_bytes, ALIGNMENT);
}

/* Output i behind its true extent is as it was, and the kernel has reported an extent that follows from counts. */
static void check_counted(const memory *m, int32_t i, const reed_desc *exact) {
  const counted_case *at = m->counted;
  const reed_room *room = &at->out_rooms[i];
  if (i == at->reporter && m->c->extents[i] != at->reported)
    case_fail(m->c, "output %d has the extent %lld, the kernel reports %lld", (int)i, (long long)at->reported,
              (long long)m->c->extents[i]);
  const int64_t end = room->axis < 0 ? 0 : desc_bytes(&at->out[i]);
  for (int64_t k = desc_bytes(exact); k < end; k++)
    if ((uint8_t)m->outputs[i][k] != 0xff) case_fail(m->c, "output %d is written behind its true extent", (int)i);
}

static reed_status launch(kernel_case *c, const case_call *made, counted_case *counted, const reed_kernel *kernel) {
  const cuda_prepared *plan = kernel->state;
  memory m = {.c = c, .counted = counted, .number = LAUNCH};
  place_operands(&m, made, kernel->workspace_bytes);
  memset(c->extents, 0xff, sizeof c->extents);
  if (kernel->run == cuda_run)
    for (uint32_t i = 0; i < plan->n_launches; i++) run_launch(&m, plan, &plan->launches[i], order_of(c, c->device));
  for (int32_t i = 0; i < c->n_outputs; i++) {
    if (m.outputs[i] && c->outputs[i].data) memcpy(c->outputs[i].data, m.outputs[i], (size_t)desc_bytes(&made->out[i]));
    if (m.outputs[i] && counted && !m.fault.taken) check_counted(&m, i, &made->out[i]);
  }
  for (int i = 0; i < m.n_blocks; i++) free(m.blocks[i]);
  if (m.fault.taken) {
    if (m.fault.launch != LAUNCH) case_fail(c, "the failure is of launch %u", m.fault.launch);
    reed_fault fault = {m.fault.record.code, m.fault.record.operand, m.fault.record.element, m.fault.record.value,
                        m.fault.record.limit};
    return fault_say(&fault, &made->call);
  }
  case_take_extents(c, made);
  return REED_OK;
}

/* Large products and deformable convolutions, and large maps of which every pixel looks at every region, take minutes
 * and test nothing that small ones do not test. */
static int64_t most_elements(op_id op) {
  switch ((int)op) {
    case OP_Conv:
    case OP_ConvTranspose:
    case OP_Gemm:
    case OP_MatMul: return 4000;
    case OP_GRU:
    case OP_LSTM:
    case OP_RNN: return 2500;
    case OP_DeformConv:
    case OP_deform_conv2d:
    case OP_deform_conv2d_backward:
    case OP_roi_align_backward:
    case OP_roi_pool_backward:
    case OP_ps_roi_align_backward:
    case OP_ps_roi_pool_backward: return 21000;
    case OP_Attention: return 80000;
    default: return INT64_MAX;
  }
}

/* Cases of many elements run in one order of threads and at one kind of place, which follows from the seed, because
 * more runs take time and show nothing more. */
static bool runs_large_case(const kernel_case *c, const char *name, int64_t elements) {
  if (is_counted(name)) return elements <= MOST_COUNTED && __builtin_popcountll(c->seed) % 8 == 0;
  return order_of(c, name) == SIMT_FORWARD && is_tight(name) == (__builtin_popcountll(c->seed) % 2 == 0);
}

reed_status case_run_on(kernel_case *c, const char *name, bool *out_has) {
  case_call made;
  counted_case at_bound;
  reed_kernel kernel = {0};
  c->device = name;
  *out_has = true;
  reed_status status = case_call_init(c, cpu_level_name(cpu_level_best()), &made);
  if (status) return status;
  const int64_t elements = case_elements(c, &made);
  const char *bound = getenv("REED_CASE_ELEMENTS");
  const int64_t most = bound                         ? strtoll(bound, NULL, 10)
                       : getenv("REED_ALL_EMULATED") ? INT64_MAX
                                                     : most_elements(c->op);
  const bool counted = is_counted(name);
  made.call.device = name;
  made.call.prepare = cuda_kernel_of(made.call.op, math_of(name));
  *out_has = elements <= most && (elements <= MANY_ELEMENTS || runs_large_case(c, name, elements)) &&
             (!counted || counted_case_make(c, &made, c->seed + order_of(c, name), &at_bound)) &&
             has_call(c, &made, counted);
  if (*out_has) status = op_call_prepare(counted ? &at_bound.call : &made.call, &kernel);
  if (*out_has && status == REED_OK) status = launch(c, &made, counted ? &at_bound : NULL, &kernel);
  if (kernel.free) kernel.free(kernel.state);
  case_call_fini(&made);
  return status;
}
