/* Conv as a plan of winograd.h. */
#include "ops/cpu/product/conv_winograd.h"

#include "ops/cpu/product/conv_panels.h"
#include "ops/cpu/product/winograd.h"
#include "ops/cpu/views/half.h"
#include "ops/cpu/views/widen.h"

#define LINE_TAPS_MOST 192 /* of lines: V has a phase for each three of them */

typedef struct winograd_kernel {
  winograd_plan plan; /* of a group */
  bool with_bias, with_residual;
  int64_t groups, group_weights; /* group_weights: from the packed weights of a group to those of the next */
  kernel_cache *cache;
  float *stored; /* the cache's; NULL: the form is not stored */
  char variant[64];
} winograd_kernel;

static void free_winograd(void *state) {
  winograd_kernel *k = state;
  if (k->stored) kernel_cache_release(k->cache, k->stored);
  mem_free(k);
}

/* All that transformed weights depend on: a stored form has tiles of one size. */
typedef struct stored_key {
  char what[16];
  const void *constant;
  int64_t channels, outputs, level;
  int32_t stride[2];
  int64_t slice_taps, line_taps;
} stored_key;

typedef struct stored_context {
  const winograd_plan *plan;
  const packed_order *order;
  const void *packed;
} stored_context;

/* The stored transform of packed weights, which halves are widened for. */
static reed_status store(const stored_context *c, float *out_stored) {
  if (!half_is(c->order->plain.dtype)) {
    winograd_plan_store(c->plan, c->packed, out_stored);
    return REED_OK;
  }
  float *widened = mem_alloc_bulk((size_t)packed_desc(c->order).dims[0] * sizeof *widened);
  if (!widened) return REED_ERROR_MEMORY;
  widen_packed(c->order, c->plan->p.activation.level, c->packed, widened);
  winograd_plan_store(c->plan, widened, out_stored);
  mem_free_aligned(widened);
  return REED_OK;
}

static reed_status stored_build(void *context, kernel_cache_value *out_value) {
  const stored_context *c = context;
  const int64_t bytes = winograd_plan_stored_bytes(c->plan);
  float *stored = mem_alloc_bulk((size_t)bytes);
  if (!stored) return REED_ERROR_MEMORY;
  (void)mem_warm(stored, (size_t)bytes,
                 NULL); /* all pages at once: a fault for each would take as long as the transform */
  reed_status status = store(c, stored);
  if (status != REED_OK) {
    mem_free_aligned(stored);
    return status;
  }
  *out_value = (kernel_cache_value){stored, mem_free_aligned, bytes};
  return REED_OK;
}

static reed_status stored_get(const reed_kernel_call *call, const packed_order *order, const void *constant,
                              winograd_kernel *k) {
  const winograd_problem *p = &k->plan.p;
  stored_key key = {.what = "winograd",
                    .constant = constant,
                    .channels = p->channels,
                    .outputs = p->outputs,
                    .level = p->activation.level,
                    .stride = {p->stride[0], p->stride[1]},
                    .slice_taps = p->slices.taps,
                    .line_taps = p->line_taps};
  stored_context context = {&k->plan, order, constant};
  void *stored;
  k->cache = call->env->cache;
  reed_status status = kernel_cache_get(k->cache, &key, sizeof key, stored_build, &context, &stored);
  if (status == REED_OK) k->stored = stored;
  return status;
}

static reed_status run_winograd(const void *state, const reed_kernel_buffers *buffers) {
  const winograd_kernel *k = state;
  const winograd_problem *p = &k->plan.p;
  const float *bias = k->with_bias ? buffers->inputs[2] : NULL;
  const void *residual = k->with_residual ? buffers->inputs[3] : NULL;
  if (k->groups == 1)
    return winograd_plan_run(&k->plan, buffers->inputs[0], k->stored ? k->stored : buffers->inputs[1], bias, residual,
                             buffers->outputs[0], buffers->workspace);
  reed_status status = REED_OK;
  for (int64_t i = 0; i < k->groups && status == REED_OK; i++)
    status =
        winograd_plan_run(&k->plan, half_element(buffers->inputs[0], p->halves.x, i * p->channels),
                          (const float *)buffers->inputs[1] + i * k->group_weights, bias ? bias + i * p->outputs : NULL,
                          half_element(residual, p->halves.residual, i * p->outputs),
                          half_element(buffers->outputs[0], p->halves.y, i * p->outputs), buffers->workspace);
  return status;
}

/* True if the program may keep transformed weights. Depends on the program alone, so that all its sessions choose the
 * same. */
static bool may_keep(const reed_kernel_call *call, const void *constant) {
  return call->env && call->env->cache && constant;
}

/* A window along an axis that Winograd's form takes. */
static bool takes_axis(const window *w, int32_t axis) {
  const bool dilated = w->dilation[axis] > 1;
  return w->stride[axis] <= 2 && (!dilated || (w->stride[axis] == 1 && w->dilation[axis] <= w->out[axis]));
}

static void set_axis(winograd_problem *p, int i, const window *w, int32_t axis) {
  p->stride[i] = (int32_t)w->stride[axis];
  p->dilation[i] = w->dilation[axis];
  p->in[i] = w->in[axis];
  p->out[i] = w->out[axis];
  p->pad[i] = w->pad_begin[axis];
}

/* Fills in the axes of 3x3 windows; false: the windows are others. */
static bool is_of_images(const window *w, winograd_problem *p) {
  const int32_t first = w->n - 2; /* axis of the window: that of the rows */
  if (first < 0 || first > 1) return false;
  if (first == 1)
    p->slices = (winograd_slices){.in = w->in[0],
                                  .out = w->out[0],
                                  .taps = w->kernel[0],
                                  .stride = w->stride[0],
                                  .dilation = w->dilation[0],
                                  .pad = w->pad_begin[0]};
  for (int32_t i = 0; i < 2; i++) {
    if (w->kernel[first + i] != 3 || !takes_axis(w, first + i)) return false;
    set_axis(p, i, w, first + i);
  }
  p->x_channel = 1;
  p->x_pixel = p->channels;
  p->x_row = p->in[1] * p->x_pixel;
  p->slices.x = p->in[0] * p->x_row;
  p->x_image = p->slices.in * p->slices.x;
  p->y_pixel = p->outputs;
  p->y_row = p->out[1] * p->y_pixel;
  p->slices.y = p->out[0] * p->y_row;
  p->y_image = p->slices.out * p->slices.y;
  return true;
}

/* Fills in the axes of windows with taps along one axis only: what lies outside of that axis are images, what lies
 * within it are lines side by side. x_pixel, y_pixel: the channels and outputs of all groups. False: the windows are
 * others. */
static bool is_of_lines(const window *w, int64_t x_pixel, int64_t y_pixel, winograd_problem *p) {
  int32_t line = -1;
  for (int32_t i = 0; i < w->n; i++) {
    const bool plain = w->kernel[i] == 1 && w->stride[i] == 1 && w->pad_begin[i] == 0 && w->in[i] == w->out[i];
    if (plain) continue;
    if (line >= 0) return false;
    line = i;
  }
  if (line < 0) return false;
  const int64_t taps = w->kernel[line];
  if (taps < 3 || taps > LINE_TAPS_MOST || !takes_axis(w, line) || (taps > 3 && w->stride[line] > 1)) return false;
  int64_t beside = 1;
  for (int32_t i = 0; i < line; i++) p->images *= w->in[i];
  for (int32_t i = line + 1; i < w->n; i++) beside *= w->in[i];
  p->line_taps = taps;
  p->stride[0] = 1;
  p->dilation[0] = 1;
  p->in[0] = p->out[0] = beside;
  set_axis(p, 1, w, line);
  p->x_channel = 1;
  p->x_row = x_pixel;
  p->x_pixel = beside * p->x_row;
  p->x_image = p->in[1] * p->x_pixel;
  p->y_row = y_pixel;
  p->y_pixel = beside * p->y_row;
  p->y_image = p->out[1] * p->y_pixel;
  return true;
}

/* The problem of the call, if its form allows one, and the form that is estimated fastest. False: a direct convolution
 * is faster. */
static bool choose(const reed_kernel_call *call, const packed_order *order, const void *constant, const window *w,
                   const activation *act, winograd_problem *p, winograd_form *out_form) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  if (order->small_groups) return false;
  if (half_is(y->dtype) && !activation_ends_tiles(act)) return false;
  *p = (winograd_problem){.images = x->dims[0],
                          .channels = x->dims[1] / order->n_parts,
                          .outputs = y->dims[1] / order->n_parts,
                          .slices = winograd_one_slice,
                          .activation = *act,
                          .halves = conv_halves(call),
                          .direct_pairs = order->pairs};
  return (is_of_lines(w, x->dims[1], y->dims[1], p) || (order->n_parts == 1 && is_of_images(w, p))) &&
         winograd_choose(p, order->n_parts == 1 && may_keep(call, constant), out_form);
}
bool conv_winograd_is_faster(const reed_kernel_call *call, const packed_order *order, const void *constant,
                             const window *w, const activation *act) {
  winograd_problem p;
  winograd_form form;
  return choose(call, order, constant, w, act, &p, &form);
}

double conv_winograd_time(const reed_kernel_call *call, const packed_order *order, const window *w,
                          const activation *act) {
  winograd_problem p;
  winograd_form form;
  return choose(call, order, NULL, w, act, &p, &form) ? (double)order->n_parts * winograd_time(&p, &form) : 0;
}

reed_status conv_winograd_prepare(const reed_kernel_call *call, const packed_order *order, const void *constant,
                                  const window *w, const activation *act, reed_kernel *out_kernel) {
  winograd_problem p;
  winograd_form form;
  if (!choose(call, order, constant, w, act, &p, &form)) return REED_OK;
  if (half_is(order->plain.dtype) && !form.stored && !form.fixed) return REED_OK;
  winograd_kernel *k = mem_calloc(1, sizeof *k);
  if (!k) return cpu_no_memory(call);
  winograd_plan_init(&k->plan, &p, &form, cpu_team_for(cpu_env_team(call), winograd_work(&p)));
  k->groups = order->n_parts;
  k->group_weights = packed_part_elements(order);
  k->with_bias = cpu_present(call, 2);
  k->with_residual = cpu_present(call, 3);
  if (form.stored && stored_get(call, order, constant, k) != REED_OK) {
    mem_free(k);
    return cpu_no_memory(call);
  }
  char text[sizeof k->variant];
  winograd_form_text(&p, &form, text, sizeof text);
  conv_variant(text, call, k->variant, sizeof k->variant);
  *out_kernel = (reed_kernel){.run = run_winograd,
                              .state = k,
                              .free = free_winograd,
                              .workspace_bytes = winograd_plan_workspace_bytes(&k->plan),
                              .state_bytes = (int64_t)sizeof *k,
                              .variant = k->variant};
  return REED_OK;
}
