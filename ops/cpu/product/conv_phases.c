/* ConvTranspose over one axis, with channels last, as a convolution with stride 1 (conv_phases.h). With stride s, the
 * pixels s q .. s q + s - 1 of Y are a *block*: one pixel of as many times more outputs, because they lie side by side.
 * Pixel s q + t, of *phase* t, is a sum over the taps that are congruent to t + pad modulo s, of neighbouring pixels of
 * X. All phases together are one convolution by Winograd's form (winograd.h), in which some phases have taps of 0.
 * Direct ones are products of the phases that see the same pixels of X, so that an infinite pixel reaches no others.
 * Weights are packed for it: once a program if they are constants, else in each run. */
#include "ops/cpu/product/conv_phases.h"

#include <stdio.h>

#include "ops/cpu/common/kept.h"
#include "ops/cpu/product/panels.h"
#include "ops/cpu/product/rates.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/product/winograd.h"

#define PARTS_MOST 3    /* where the first pixel changes, and where the number of taps does */
#define TURN_PS 150     /* to turn a value of X or Y, as conv_planes.h needs it */
#define PLANES_TIME 1.2 /* of products in conv_planes.h, over that of direct_time */

/* Neighbouring phases, and the pixels of X that they see: of block q those from q + low on. */
typedef struct part {
  int64_t phase, n_phases, low, taps;
  packed_order order;
  int64_t weights; /* place of its packed weights, in floats */
  panel_plan *plan, *rest;
} part;

typedef struct conv_phases {
  int64_t images, channels, outputs, in, out, kernel, stride, pad;
  int64_t blocks, rest; /* whole blocks; pixels of Y after them */
  int32_t n_parts;
  part parts[PARTS_MOST];
  bool is_winograd;
  winograd_plan winograd; /* of the whole blocks of the one part */
  bool with_bias;
  int64_t n_weights;                          /* floats of all packed weights */
  int64_t packed, plain, biases, last, inner; /* places in the workspace */
  kernel_cache *cache;
  float *kept; /* the cache's packed weights; NULL: packed in each run */
  char variant[64];
} conv_phases;

static void free_phases(void *state) {
  conv_phases *c = state;
  for (int32_t i = 0; i < c->n_parts; i++) {
    panel_plan_close(c->parts[i].plan);
    panel_plan_close(c->parts[i].rest);
  }
  if (c->kept) kernel_cache_release(c->cache, c->kept);
  mem_free(c);
}

static int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -divided(-a, b); }

/* The pixel of X, seen from the block, that the first tap of a phase meets, and this tap; later ones meet the pixels
 * before it. */
static int64_t begin_of(const conv_phases *c, int64_t phase, int64_t *out_tap) {
  const int64_t begin = floor_of(phase + c->pad, c->stride);
  *out_tap = phase + c->pad - begin * c->stride;
  return begin;
}

static int64_t taps_from(const conv_phases *c, int64_t tap) { return (c->kernel - 1 - tap) / c->stride + 1; }

/* True if two phases see the same pixels of X. */
static bool see_the_same(const conv_phases *c, int64_t a, int64_t b) {
  int64_t tap[2];
  return begin_of(c, a, &tap[0]) == begin_of(c, b, &tap[1]) && taps_from(c, tap[0]) == taps_from(c, tap[1]);
}

/* Fills in the pixels that a part sees. */
static void see(const conv_phases *c, part *p) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t t = p->phase; t < p->phase + p->n_phases; t++) {
    int64_t tap;
    const int64_t begin = begin_of(c, t, &tap);
    high = larger(high, begin);
    low = smaller(low, begin - taps_from(c, tap) + 1);
  }
  p->low = low;
  p->taps = high - low + 1;
}

static int64_t outputs_of(const conv_phases *c, const part *p) { return p->n_phases * c->outputs; }

static bool order_of(const conv_phases *c, part *p) {
  const reed_attr items[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1}};
  reed_attr completed[32];
  const reed_attrs given = {items, 1}, attrs = op_attrs_complete(op_builtin(OP_Conv), &given, completed);
  const reed_desc plain = {REED_F32, 3, {outputs_of(c, p), c->channels, p->taps}};
  return packed_order_of(op_builtin(OP_Conv), &attrs, &plain, &p->order) && !p->order.small_groups;
}

/* One part of all phases, or parts of the phases that see the same pixels of X. */
static bool set_parts(conv_phases *c, bool one) {
  int64_t end = 0;
  c->n_parts = 0;
  c->n_weights = 0;
  while (end < c->stride) {
    part *p = &c->parts[c->n_parts];
    *p = (part){.phase = end};
    while (end < c->stride && (one || see_the_same(c, p->phase, end))) end++;
    p->n_phases = end - p->phase;
    see(c, p);
    if (!order_of(c, p)) return false;
    p->weights = reserve_floats(&c->n_weights, packed_desc(&p->order).dims[0]);
    c->n_parts++;
  }
  return true;
}

/* ---- weights ---- */

/* Packs W[channel][output][tap]; `plain` has room for the weights of a part in the order of a convolution. */
static void pack(const conv_phases *c, const float *weights, float *plain, float *packed) {
  for (int32_t i = 0; i < c->n_parts; i++) {
    const part *p = &c->parts[i];
    float *to = plain;
    for (int64_t t = p->phase; t < p->phase + p->n_phases; t++) {
      int64_t first;
      const int64_t begin = begin_of(c, t, &first) - p->low;
      for (int64_t o = 0; o < c->outputs; o++)
        for (int64_t k = 0; k < c->channels; k++)
          for (int64_t u = 0; u < p->taps; u++) {
            const int64_t tap = first + (begin - u) * c->stride;
            *to++ = u <= begin && tap < c->kernel ? weights[(k * c->outputs + o) * c->kernel + tap] : 0;
          }
    }
    packed_pack(&p->order, plain, packed + p->weights);
  }
}

/* Floats of the largest part in the order of a convolution. */
static int64_t plain_floats(const conv_phases *c) {
  int64_t most = 0;
  for (int32_t i = 0; i < c->n_parts; i++)
    most = larger(most, outputs_of(c, &c->parts[i]) * c->channels * c->parts[i].taps);
  return most;
}

/* All that packed weights depend on. */
typedef struct kept_key {
  char what[8];
  const void *constant;
  int64_t channels, outputs, kernel, stride, pad, n_parts;
} kept_key;

typedef struct kept_context {
  const conv_phases *c;
  const float *constant;
} kept_context;

static reed_status pack_kept(const void *context, float *packed) {
  const kept_context *k = context;
  float *plain = mem_alloc_bulk((size_t)plain_floats(k->c) * sizeof *plain);
  if (!plain) return REED_ERROR_MEMORY;
  pack(k->c, k->constant, plain, packed);
  mem_free_aligned(plain);
  return REED_OK;
}

static reed_status keep(const reed_kernel_call *call, conv_phases *c) {
  const float *constant = call->constant[1] ? call->host_values[1] : NULL;
  if (!constant || !call->env || !call->env->cache) return REED_OK;
  kept_key key = {"phases", constant, c->channels, c->outputs, c->kernel, c->stride, c->pad, c->n_parts};
  c->cache = call->env->cache;
  return cpu_keep(call, 1, &key, sizeof key, c->n_weights, pack_kept, &(kept_context){c, constant}, &c->kept);
}

/* ---- running ---- */

/* The blocks of all images, or the last one of each, which is cut, into the workspace. */
static reed_status run_part(const conv_phases *c, int32_t i, bool rest, const void *x, const float *weights,
                            const float *bias, float *y, float *workspace) {
  const part *p = &c->parts[i];
  weights += p->weights;
  if (bias) bias += p->phase * c->outputs;
  y += p->phase * c->outputs;
  return c->is_winograd && !rest ? winograd_plan_run(&c->winograd, x, weights, bias, NULL, y, workspace)
                                 : panel_plan_run(rest ? p->rest : p->plan, x, weights, bias, NULL, y, workspace);
}

static reed_status run_phases(const void *state, const reed_kernel_buffers *buffers) {
  const conv_phases *c = state;
  float *workspace = buffers->workspace, *y = buffers->outputs[0], *last = workspace + c->last,
        *biases = c->with_bias ? workspace + c->biases : NULL;
  const float *x = buffers->inputs[0], *weights = c->kept ? c->kept : workspace + c->packed;
  if (!c->kept) pack(c, buffers->inputs[1], workspace + c->plain, workspace + c->packed);
  for (int64_t t = 0; biases && t < c->stride; t++)
    memcpy(biases + t * c->outputs, buffers->inputs[2], (size_t)c->outputs * sizeof *biases);
  reed_status status = REED_OK;
  for (int32_t i = 0; i < c->n_parts && status == REED_OK && c->blocks > 0; i++)
    status = run_part(c, i, false, x, weights, biases, y, workspace + c->inner);
  if (c->rest == 0) return status;
  for (int32_t i = 0; i < c->n_parts && status == REED_OK; i++)
    status = run_part(c, i, true, x, weights, biases, last, workspace + c->inner);
  for (int64_t k = 0; k < c->images && status == REED_OK; k++)
    memcpy(y + (k * c->out + c->blocks * c->stride) * c->outputs, last + k * c->stride * c->outputs,
           (size_t)(c->rest * c->outputs) * sizeof *y);
  return status;
}

/* ---- preparing ---- */

/* The problem of a part: of whole blocks, or of the last one of each image. */
static panel_problem panels_of(const conv_phases *c, const part *p, bool rest, const activation *act) {
  const int64_t pixel = c->stride * c->outputs;
  return (panel_problem){.images = c->images,
                         .groups = 1,
                         .channels = c->channels,
                         .outputs = outputs_of(c, p),
                         .in = {1, 1, c->in},
                         .out = {1, 1, rest ? 1 : c->blocks},
                         .taps = {1, 1, p->taps},
                         .stride = {1, 1, 1},
                         .dilation = {1, 1, 1},
                         .pad = {0, 0, -p->low - (rest ? c->blocks : 0)},
                         .x_image = c->in * c->channels,
                         .x_slab = c->in * c->channels,
                         .x_row = c->in * c->channels,
                         .x_pixel = c->channels,
                         .x_channel = 1,
                         .y_image = rest ? pixel : c->out * c->outputs,
                         .y_slab = rest ? pixel : c->out * c->outputs,
                         .y_row = rest ? pixel : c->out * c->outputs,
                         .y_pixel = pixel,
                         .activation = *act};
}

static winograd_problem winograd_of(const conv_phases *c, const activation *act) {
  const panel_problem p = panels_of(c, &c->parts[0], false, act);
  return (winograd_problem){.images = p.images,
                            .channels = p.channels,
                            .outputs = p.outputs,
                            .in = {1, p.in[2]},
                            .out = {1, p.out[2]},
                            .pad = {0, p.pad[2]},
                            .line_taps = p.taps[2],
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .slices = winograd_one_slice,
                            .x_image = p.x_image,
                            .x_row = p.x_row,
                            .x_pixel = p.x_pixel,
                            .x_channel = 1,
                            .y_image = p.y_image,
                            .y_row = p.y_row,
                            .y_pixel = p.y_pixel,
                            .activation = *act};
}

static double direct_time_of(const conv_phases *c, cpu_level level) {
  double time = 0;
  for (int32_t i = 0; i < c->n_parts; i++) {
    const part *p = &c->parts[i];
    const direct_product d = {.pixels = (double)(c->images * divided(c->out, c->stride)),
                              .outputs = (double)outputs_of(c, p),
                              .depth = (double)(p->taps * c->channels)};
    time += direct_time(&d, level, false);
  }
  return time;
}

/* Chooses the parts; false: conv_planes.h is faster. */
static bool choose(conv_phases *c, const activation *act, winograd_form *out_form) {
  const double rate = product_rates_of(act->level)->direct, pixels = (double)(c->images * c->in),
               values = pixels * (double)c->channels + (double)(c->images * c->out * c->outputs),
               planes = pixels * (double)(c->channels * c->outputs * c->kernel) * rate * PLANES_TIME + values * TURN_PS;
  conv_phases direct = *c;
  const bool has_direct = set_parts(&direct, false);
  const double time = has_direct ? direct_time_of(&direct, act->level) : 0;
  winograd_form form;
  if (c->blocks > 0 && set_parts(c, true) && c->parts[0].taps >= 3) {
    const winograd_problem p = winograd_of(c, act);
    if (winograd_choose(&p, false, &form)) {
      const double fast = winograd_time(&p, &form);
      c->is_winograd = fast < planes && (!has_direct || fast < time);
    }
  }
  if (c->is_winograd) {
    *out_form = form;
    return true;
  }
  *c = direct;
  return has_direct && time < planes;
}

static reed_status open_panels(const reed_kernel_call *call, const activation *act, conv_phases *c,
                               int64_t *out_bytes) {
  for (int32_t i = 0; i < c->n_parts; i++)
    for (int rest = 0; rest < 2; rest++) {
      part *p = &c->parts[i];
      panel_plan **plan = rest ? &p->rest : &p->plan;
      if ((rest ? c->rest : c->blocks) == 0 || (c->is_winograd && !rest)) continue;
      const panel_problem problem = panels_of(c, p, rest, act);
      reed_status status = panel_plan_open(call, &problem, plan);
      if (status != REED_OK) return status;
      *out_bytes = larger(*out_bytes, panel_plan_workspace_bytes(*plan));
    }
  return REED_OK;
}

reed_status conv_phases_prepare(const reed_kernel_call *call, const window *w, const activation *act,
                                reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  if (w->n != 1 || w->dilation[0] != 1 || op_attr_int(call->attrs, "group") != 1 || desc_elements(y) == 0 ||
      call->inputs[1].dtype != REED_F32)
    return REED_OK;
  if (w->stride[0] > w->kernel[0]) return REED_OK; /* each phase has a tap, so that there are no more than W has */
  conv_phases *c = mem_calloc(1, sizeof *c), chosen = {.images = x->dims[0],
                                                       .channels = x->dims[1],
                                                       .outputs = y->dims[1],
                                                       .in = w->in[0],
                                                       .out = w->out[0],
                                                       .kernel = w->kernel[0],
                                                       .stride = w->stride[0],
                                                       .pad = w->pad_begin[0],
                                                       .blocks = w->out[0] / w->stride[0],
                                                       .rest = w->out[0] % w->stride[0],
                                                       .with_bias = cpu_present(call, 2)};
  if (!c) return cpu_no_memory(call);
  winograd_form form;
  if (!choose(&chosen, act, &form)) {
    mem_free(c);
    return REED_OK;
  }
  *c = chosen;
  int64_t bytes = 0, end = 0;
  if (c->is_winograd) {
    const winograd_problem p = winograd_of(c, act);
    winograd_plan_init(&c->winograd, &p, &form, cpu_team_for(cpu_env_team(call), winograd_work(&p)));
    bytes = winograd_plan_workspace_bytes(&c->winograd);
  }
  reed_status status = open_panels(call, act, c, &bytes);
  if (status == REED_OK) status = keep(call, c);
  if (status != REED_OK) {
    free_phases(c);
    return status;
  }
  char text[48] = "direct";
  if (c->is_winograd) winograd_form_text(&c->winograd.p, &form, text, sizeof text);
  snprintf(c->variant, sizeof c->variant, "%s, phases", text);
  c->packed = reserve_floats(&end, c->kept ? 0 : c->n_weights);
  c->plain = reserve_floats(&end, c->kept ? 0 : plain_floats(c));
  c->biases = reserve_floats(&end, c->with_bias ? c->stride * c->outputs : 0);
  c->last = reserve_floats(&end, c->rest ? c->images * c->stride * c->outputs : 0);
  c->inner = reserve_floats(&end, divided(bytes, (int64_t)sizeof(float)));
  *out_kernel = (reed_kernel){.run = run_phases,
                              .state = c,
                              .free = free_phases,
                              .workspace_bytes = end * (int64_t)sizeof(float),
                              .state_bytes = (int64_t)sizeof *c,
                              .variant = c->variant};
  for (int32_t i = 0; i < c->n_parts; i++) {
    const panel_plan *plans[] = {c->parts[i].plan, c->parts[i].rest};
    for (int k = 0; k < 2; k++)
      if (plans[k]) out_kernel->state_bytes += panel_plan_state_bytes(plans[k]);
  }
  return REED_OK;
}
