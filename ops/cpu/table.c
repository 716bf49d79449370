/* The host's kernel for each operator. op.def names a row of kernels.def; the row says what its kernel supports. This
 * file, and no other, wraps a kernel to support the rest. The layers in order:
 *
 *   widen      gives a product f32 weights, unless its kernel takes those of bf16
 *   halves     runs the whole call in f32, between conversions, unless its kernel takes them
 *   level      REED_CPU=reference skips the kernel, unless an output has room, which references do not write
 *   kernel     sees plain weights and channels second, and may decline the call
 *   unpack     gives the reference plain weights
 *   channels   gives the reference channels second, between transposes
 *   reference  computes every call that the kernel declined
 */
#include "ops/cpu/common/common.h"
#include "ops/cpu/views/half.h"
#include "ops/cpu/views/view.h"
#include "ops/cpu/views/widen.h"

typedef reed_status (*viewed_prepare_fn)(const cpu_view *view, reed_kernel *out_kernel);

typedef struct kernel_row {
  reed_kernel_prepare_fn kernel;
  viewed_prepare_fn viewed; /* instead of `kernel` */
  reed_kernel_prepare_fn reference;
  reed_kernel_prepare_fn second; /* for what `viewed` declines of plain weights: images have channels second. Or NULL */
  uint32_t halves;               /* bit i: the dtype of input i decides whether the call runs in f32 */
  bool native;                   /* the kernel takes halves; `halves` is for calls that it declines */
  half_kept kept;                /* the kernel takes these operands as halves; likewise */
  uint32_t images;
} kernel_row;

#define REFERENCE(name) reed_status reference_prepare_##name(const reed_kernel_call *call, reed_kernel *out_kernel);
#define KERNEL(name, plain, ...) \
  reed_status cpu_prepare_##name(const reed_kernel_call *call, reed_kernel *out_kernel); \
  REFERENCE(plain)
#define VIEWED(name, plain, ...) \
  reed_status cpu_prepare_##name(const cpu_view *view, reed_kernel *out_kernel); \
  REFERENCE(plain)
#define VIEWED_OR_SECOND(name, plain, ...) \
  reed_status cpu_prepare_##name##_second(const reed_kernel_call *call, reed_kernel *out_kernel); \
  VIEWED(name, plain)
#include "ops/cpu/kernels.def"

#define reference_prepare_none NULL
#define NATIVE .native = true
#define AS_F32(i) .halves = 1u << i
#define AS_F32_OF(i, j) .halves = 1u << i | 1u << j
#define ALSO_AS_F32(i, j) .native = true, .halves = 1u << i | 1u << j
#define REST_AS_F32(i, ...) .halves = 1u << i, .kept = {__VA_ARGS__}
#define KERNEL(name, plain, ...) \
  static const kernel_row row_##name = {cpu_prepare_##name, NULL, reference_prepare_##plain, NULL, __VA_ARGS__};
#define VIEWED(name, plain, of_halves, of_images) \
  static const kernel_row row_##name = {NULL, cpu_prepare_##name, reference_prepare_##plain, \
                                        NULL, of_halves,          .images = of_images};
#define VIEWED_OR_SECOND(name, plain, of_halves, of_images) \
  static const kernel_row row_##name = {NULL, \
                                        cpu_prepare_##name, \
                                        reference_prepare_##plain, \
                                        cpu_prepare_##name##_second, \
                                        of_halves, \
                                        .images = of_images};
#include "ops/cpu/kernels.def"

#define ROW_LIGHT(kernel) &row_##kernel
#define ROW_HEAVY(kernel) &row_##kernel
#define ROW_CONTROL(kernel) NULL
static const kernel_row *const rows[OP_COUNT] = {
#define OP(name, shape, kernel, class, ...) [OP_##name] = ROW_##class(kernel),
#include "ops/op.def"
};

static const kernel_row *row_of(const reed_kernel_call *call) { return rows[op_id_of(call->op)]; }

/* Prepares the reference, which needs channels second. */
static reed_status prepare_second(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cpu_view view;
  reed_status status = cpu_view_init(call, row_of(call)->images, &view);
  if (status != REED_OK) return status;
  return channels_prepare_second(&view.channels, row_of(call)->reference, out_kernel);
}

/* Prepares the reference, which also needs plain weights. */
static reed_status prepare_reference(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const kernel_row *row = row_of(call);
  if (!row->viewed) return row->reference(call, out_kernel);
  unpack_view view;
  reed_status status = unpack_view_init(call, &view);
  if (status != REED_OK) return status;
  return view.packed ? unpack_prepare(&view, prepare_second, out_kernel) : prepare_second(call, out_kernel);
}

static reed_status prepare_kernel(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const kernel_row *row = row_of(call);
  if (!row->viewed) return row->kernel(call, out_kernel);
  cpu_view view;
  reed_status status = cpu_view_init(call, row->images, &view);
  if (status == REED_OK) status = row->viewed(&view, out_kernel);
  if (status != REED_OK || out_kernel->run || !row->second || view.order) return status;
  return channels_prepare_second(&view.channels, row->second, out_kernel);
}

static bool has_halves(const reed_kernel_call *call) {
  bool halves = false;
  for (int32_t i = 0; i < call->n_inputs; i++) halves = halves || half_is(call->inputs[i].dtype);
  for (int32_t i = 0; i < call->n_outputs; i++) halves = halves || half_is(call->outputs[i].dtype);
  return halves;
}

/* Prepares a call whose deciding inputs are no halves, or of a kernel that takes halves. If the kernel declines the
 * call, halves among the other operands are converted. */
static reed_status prepare_seen(const reed_kernel_call *call, reed_kernel *out_kernel) {
  *out_kernel = (reed_kernel){0};
  bool plain = cpu_level_now() == CPU_REFERENCE && row_of(call)->reference && !call->output_rooms;
  reed_status status = plain ? REED_OK : prepare_kernel(call, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  if (row_of(call)->halves && has_halves(call))
    return half_prepare_as_f32(call, (half_kept){0}, prepare_reference, out_kernel);
  return prepare_reference(call, out_kernel);
}

/* Prepares a product whose weights are widened: f32 in all operands, or images of bf16 that its kernel may take. */
static reed_status prepare_widened(const reed_kernel_call *call, reed_kernel *out_kernel) {
  if (!has_halves(call)) return prepare_seen(call, out_kernel);
  *out_kernel = (reed_kernel){0};
  reed_status status = cpu_level_now() == CPU_REFERENCE ? REED_OK : prepare_kernel(call, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  return half_prepare_as_f32(call, (half_kept){0}, prepare_seen, out_kernel);
}

static reed_status prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const kernel_row *row = row_of(call);
  bool halves = false;
  for (int32_t i = 0; i < call->n_inputs && row->halves >> i; i++)
    halves = halves || ((row->halves >> i & 1) && half_is(call->inputs[i].dtype));
  *out_kernel = (reed_kernel){0};
  if (row->viewed && widen_needed(call)) {
    reed_status status = cpu_level_now() == CPU_REFERENCE ? REED_OK : prepare_kernel(call, out_kernel);
    if (status != REED_OK || out_kernel->run) return status;
    return widen_prepare(call, prepare_widened, out_kernel);
  }
  if (!halves) return prepare_seen(call, out_kernel);
  if (row->native && cpu_level_now() != CPU_REFERENCE) {
    reed_status status = prepare_kernel(call, out_kernel);
    if (status != REED_OK || out_kernel->run) return status;
  }
  if (row->kept.inputs && cpu_level_now() != CPU_REFERENCE) {
    reed_status status = half_prepare_as_f32(call, row->kept, prepare_kernel, out_kernel);
    if (status != REED_OK || out_kernel->run) return status;
  }
  return half_prepare_as_f32(call, (half_kept){0}, prepare_seen, out_kernel);
}

reed_kernel_prepare_fn kernel_cpu(const reed_op *op) {
  op_id id = op_id_of(op);
  return id == OP_COUNT ? op->cpu : rows[id] ? prepare : NULL;
}
