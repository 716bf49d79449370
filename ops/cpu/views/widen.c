/* Weights of half precision in front of f32 kernels (widen.h). */
#include "ops/cpu/views/widen.h"

#include "base/half.h"
#include "ops/cpu/common/convert.h"
#include "ops/cpu/common/kept.h"
#include "ops/cpu/views/half.h"
#include "ops/inner.h"
#include "ops/kernel.h"
#include "ops/packed.h"

typedef struct weights {
  reed_dtype dtype;
  cpu_level level;
  bool packed; /* else `order` is undefined */
  packed_order order;
  int64_t n;
} weights;

typedef struct widened {
  inner_kernel inner;
  kernel_cache *cache;
  float *kept; /* the cache's; NULL: widened in each run */
  weights w;
  int32_t n_inputs;
} widened;

/* [depth / 2][width][2] to [depth][width] */
static void widen_pairs(const packed_order *order, const uint16_t *from, float *to) {
  int64_t depth = order->rows * order->columns * order->channels;
  for (int64_t part = 0; part < order->n_parts; part++)
    for (int64_t panel = 0; panel < packed_panels(order->outputs); panel++) {
      int64_t width = packed_width(order->outputs, panel);
      for (int64_t pair = 0; pair < depth / 2; pair++, from += 2 * width, to += 2 * width)
        for (int64_t i = 0; i < width; i++) {
          to[i] = bf16_to_f32(from[2 * i]);
          to[width + i] = bf16_to_f32(from[2 * i + 1]);
        }
    }
}

void widen_packed(const packed_order *order, cpu_level level, const void *packed, float *to) {
  if (order->pairs) widen_pairs(order, packed, to);
  else convert_between(level, order->plain.dtype, REED_F32)(to, packed, packed_desc(order).dims[0]);
}

static void widen(const weights *w, const void *from, float *to) {
  if (w->packed) widen_packed(&w->order, w->level, from, to);
  else convert_between(w->level, w->dtype, REED_F32)(to, from, w->n);
}

static reed_status run_widened(const void *state, const reed_kernel_buffers *buffers) {
  const widened *w = state;
  const void *inputs[PACKED_INPUTS];
  for (int32_t i = 0; i < w->n_inputs; i++) inputs[i] = buffers->inputs[i];
  if (!w->kept) widen(&w->w, buffers->inputs[1], buffers->workspace);
  inputs[1] = w->kept ? (const void *)w->kept : buffers->workspace;
  return inner_run(&w->inner, buffers, inputs, buffers->outputs);
}

static void widened_free(void *state) {
  widened *w = state;
  if (w->kept) kernel_cache_release(w->cache, w->kept);
  if (w->inner.kernel.free) w->inner.kernel.free(w->inner.kernel.state);
  mem_free(w);
}

typedef struct widen_key {
  char what[8];
  const void *constant;
  int64_t n;
} widen_key;

typedef struct build_context {
  const weights *w;
  const void *from;
} build_context;

static reed_status widen_kept(const void *context, float *to) {
  const build_context *c = context;
  widen(c->w, c->from, to);
  return REED_OK;
}

/* The program's widened weights, unless they are no constant. */
static reed_status kept_get(const reed_kernel_call *call, widened *w) {
  if (!widen_once(call, call->constant[1] ? call->host_values[1] : NULL) || w->w.n == 0) return REED_OK;
  w->cache = call->env->cache;
  widen_key key = {"widened", call->host_values[1], w->w.n};
  return cpu_keep(call, 1, &key, sizeof key, w->w.n, widen_kept, &(build_context){&w->w, key.constant}, &w->kept);
}

bool widen_needed(const reed_kernel_call *call) {
  return call->n_inputs > 1 && half_is(call->inputs[1].dtype) &&
         (call->inputs[0].dtype == REED_F32 || packed_has_pairs(call->op, call->attrs));
}

reed_status widen_prepare(const reed_kernel_call *call, reed_kernel_prepare_fn prepare, reed_kernel *out_kernel) {
  call_copy seen;
  reed_status status = call_copy_init(call, &seen);
  if (status != REED_OK) return status;
  if (call->n_inputs > PACKED_INPUTS)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%d inputs with packed weights", (int)call->n_inputs);
  widened *w = mem_calloc(1, sizeof *w);
  if (!w) return cpu_no_memory(call);
  w->n_inputs = call->n_inputs;
  w->w = (weights){.dtype = call->inputs[1].dtype, .level = cpu_level_now(), .n = desc_elements(&call->inputs[1])};
  w->w.packed = packed_is(call->op, call->attrs);
  if (w->w.packed && !packed_order_read(call->op, call->attrs, &call->inputs[1], &w->w.order))
    status = reed_kernel_fail(call, REED_ERROR_SHAPE, "weights are not packed as attribute %s says", PACKED_ATTR);
  if (status == REED_OK) status = kept_get(call, w);
  if (status == REED_OK) {
    if (!w->kept) w->inner.workspace_at = call_copy_next(0, w->w.n * (int64_t)sizeof(float));
    seen.inputs[1].dtype = REED_F32;
    call_copy_hide_values(&seen, 1);
    call_copy_drop_attr(&seen, PACKED_PAIRS_ATTR);
    status = prepare(&seen.call, &w->inner.kernel);
  }
  if (status != REED_OK || !w->inner.kernel.run) {
    widened_free(w);
    return status;
  }
  *out_kernel = (reed_kernel){.run = run_widened,
                              .state = w,
                              .free = widened_free,
                              .workspace_bytes = w->inner.workspace_at + w->inner.kernel.workspace_bytes,
                              .state_bytes = (int64_t)sizeof *w + w->inner.kernel.state_bytes,
                              .variant = w->inner.kernel.variant,
                              .apart = w->inner.kernel.apart};
  return REED_OK;
}
