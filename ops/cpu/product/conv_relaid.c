/* Conv with channels second as one with channels last (conv_relaid.h). Batches of images are turned to channels last,
 * computed there, and turned back, so that the copies stay small. Each run packs the weights in its workspace, or the
 * program keeps packed constants that few pixels use. */
#include "ops/cpu/product/conv_relaid.h"

#include "ops/cpu/common/kept.h"
#include "ops/cpu/product/conv_groups.h"
#include "ops/cpu/product/conv_panels.h"
#include "ops/cpu/product/conv_planes.h"
#include "ops/cpu/product/conv_winograd.h"
#include "ops/cpu/product/rates.h"
#include "ops/cpu/product/turned_loops.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/views/call_copy.h"

#define COPY_FLOATS ((int64_t)1 << 21) /* of a batch's X and Y, about, unless one image needs more */
#define ITEM_FLOATS 16384              /* that an item turns or packs, about */
#define PIXELS_STEP 16                 /* whole vectors of every level */
#define TURNED_BYTES 8                 /* in cpu_team_for's count, of an element that is turned or packed */
#define KEPT_PIXELS 1024               /* of Y in all images: packed constants are kept for fewer */
#define FEW_OUTPUTS 8                  /* of a group: fewer are faster without panels (conv_planes.h) */
/* Picoseconds (Zen 4 and 5): to turn a value of X, Y or the residual, and to pack a weight; of conv_planes.h to fill a
 * panel with a value, and to copy a value of X from under strides. The time of products in conv_planes.h over that of
 * direct_time. */
#define TURN_PS 150
#define PACK_PS 220
#define FILL_PS 60
#define COPY_PS 100
#define PLANES_TIME 1.1
#define WINOGRAD_GAIN .8 /* of the direct time, at most: the transform of weights gains little from a second thread */
#define GAIN .95         /* of the time in conv_planes.h: at most so much, for the memory that the copies take */

typedef struct conv_relaid {
  reed_kernel batch, rest; /* rest: of the last images, fewer than a batch; run NULL: there are none */
  packed_order order;
  int64_t taps, images, batch_images, n_rest;
  int64_t channels, outputs, x_plane, y_plane;
  int64_t x, y, inner;               /* places in the workspace, in floats, after the packed weights */
  int64_t pack_channels, pack_items; /* of an item that packs; items of a panel */
  bool with_bias, with_residual;
  cpu_team team;
  kernel_cache *cache;
  float *kept; /* the cache's packed weights; NULL: packed in each run */
  void (*turn)(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to, int64_t to_row);
  void (*turn_apart)(const float *from, int64_t from_row, int64_t rows, int64_t width, int64_t columns,
                     const turned_places *places, float *to);
} conv_relaid;

static void free_relaid(void *state) {
  conv_relaid *c = state;
  if (c->batch.free) c->batch.free(c->batch.state);
  if (c->rest.free) c->rest.free(c->rest.state);
  if (c->kept) kernel_cache_release(c->cache, c->kept);
  mem_free(c);
}

/* ---- weights ---- */

typedef struct packing {
  const conv_relaid *c;
  const float *plain;
  float *packed;
} packing;

/* Items are channels of panels of groups. */
static void pack_items(void *context, int64_t begin, int64_t end) {
  const packing *job = context;
  const conv_relaid *c = job->c;
  const packed_order *o = &c->order;
  const int64_t panels = packed_panels(o->outputs), depth = c->taps * o->channels;
  for (int64_t i = begin; i < end && !cpu_cancelled(&c->team); i++) {
    const int64_t panel = i / c->pack_items % panels, part = i / c->pack_items / panels,
                  first = i % c->pack_items * c->pack_channels, output = panel * PACKED_WIDTH;
    const int64_t width = packed_width(o->outputs, panel),
                  channels = smaller(first + c->pack_channels, o->channels) - first;
    const turned_places places = {c->taps, o->channels * width, width};
    c->turn_apart(job->plain + part * o->part + output * depth + first * c->taps, depth,
                  smaller(o->outputs - output, PACKED_WIDTH), width, channels * c->taps, &places,
                  job->packed + part * packed_part_elements(o) + output * depth + first * width);
  }
}

static int64_t weights_of(const packed_order *o) { return packed_part_elements(o) * o->n_parts; }

static reed_status pack(const conv_relaid *c, const float *plain, float *packed) {
  packing job = {c, plain, packed};
  return cpu_parallel(cpu_team_for(c->team, weights_of(&c->order) * TURNED_BYTES),
                      c->order.n_parts * packed_panels(c->order.outputs) * c->pack_items, 1, pack_items, &job);
}

/* All that packed weights depend on. */
typedef struct kept_key {
  char what[8];
  const void *constant;
  int64_t parts, outputs, channels, taps;
} kept_key;

typedef struct kept_context {
  const conv_relaid *c;
  const float *constant;
} kept_context;

static reed_status pack_kept(const void *context, float *packed) {
  const kept_context *k = context;
  conv_relaid alone = *k->c; /* other threads may wait for the value */
  alone.team = (cpu_team){.threads = 1, .chunks = 1};
  return pack(&alone, k->constant, packed);
}

/* True for weights that the program may keep in packed form. */
static bool may_keep(const reed_kernel_call *call) {
  const reed_desc *y = &call->outputs[0];
  return call->constant[1] && call->host_values[1] && call->env && call->env->cache &&
         y->dims[0] * cpu_product(y->dims, 2, y->rank) < KEPT_PIXELS;
}

static reed_status keep(const reed_kernel_call *call, conv_relaid *c) {
  const packed_order *o = &c->order;
  const float *constant = call->host_values[1];
  kept_key key = {.what = "relaid", constant, o->n_parts, o->outputs, o->channels, c->taps};
  c->cache = call->env->cache;
  return cpu_keep(call, 1, &key, sizeof key, weights_of(o), pack_kept, &(kept_context){c, constant}, &c->kept);
}

/* ---- images ---- */

/* Images [channels][pixels], or [pixels][channels] if `back`, and their turned copies. */
typedef struct turning {
  const conv_relaid *c;
  const float *from;
  float *to;
  int64_t channels, pixels, item_pixels, image_items;
  bool back;
} turning;

static void turn_items(void *context, int64_t begin, int64_t end) {
  const turning *t = context;
  for (int64_t i = begin; i < end && !cpu_cancelled(&t->c->team); i++) {
    const int64_t image = i / t->image_items * t->channels * t->pixels, first = i % t->image_items * t->item_pixels,
                  n = smaller(t->pixels - first, t->item_pixels);
    if (t->back)
      t->c->turn(t->from + image + first * t->channels, t->channels, n, t->channels, t->to + image + first, t->pixels);
    else
      t->c->turn(t->from + image + first, t->pixels, t->channels, n, t->to + image + first * t->channels, t->channels);
  }
}

static reed_status turn_images(const conv_relaid *c, const float *from, int64_t images, int64_t channels,
                               int64_t pixels, bool back, float *to) {
  turning t = {.c = c, .from = from, .to = to, .channels = channels, .pixels = pixels, .back = back};
  t.item_pixels = round_up(larger(ITEM_FLOATS / channels, 1), PIXELS_STEP);
  t.image_items = divided(pixels, t.item_pixels);
  return cpu_parallel(cpu_team_for(c->team, images * channels * pixels * TURNED_BYTES), images * t.image_items, 1,
                      turn_items, &t);
}

/* ---- running ---- */

/* Images first .. first + n. */
static reed_status run_batch(const conv_relaid *c, const reed_kernel *kernel, const reed_kernel_buffers *buffers,
                             int64_t first, int64_t n) {
  float *workspace = buffers->workspace, *x = workspace + c->x, *y = workspace + c->y;
  const int64_t x_at = first * c->channels * c->x_plane, y_at = first * c->outputs * c->y_plane;
  const void *inputs[] = {x, c->kept ? c->kept : workspace, c->with_bias ? buffers->inputs[2] : NULL,
                          c->with_residual ? y : NULL};
  reed_kernel_buffers inner = *buffers;
  inner.inputs = inputs;
  inner.outputs = (void *const[]){y};
  inner.workspace = workspace + c->inner;
  reed_status status = turn_images(c, (const float *)buffers->inputs[0] + x_at, n, c->channels, c->x_plane, false, x);
  if (status == REED_OK && c->with_residual)
    status = turn_images(c, (const float *)buffers->inputs[3] + y_at, n, c->outputs, c->y_plane, false, y);
  if (status == REED_OK) status = kernel->run(kernel->state, &inner);
  if (status != REED_OK) return status;
  return turn_images(c, y, n, c->outputs, c->y_plane, true, (float *)buffers->outputs[0] + y_at);
}

static reed_status run_relaid(const void *state, const reed_kernel_buffers *buffers) {
  const conv_relaid *c = state;
  reed_status status = c->kept ? REED_OK : pack(c, buffers->inputs[1], buffers->workspace);
  for (int64_t i = 0; i < c->images && status == REED_OK; i += c->batch_images) {
    const bool whole = c->images - i >= c->batch_images;
    status = run_batch(c, whole ? &c->batch : &c->rest, buffers, i, whole ? c->batch_images : c->n_rest);
  }
  return status;
}

/* ---- the faster kernel ---- */

/* Picoseconds of a direct convolution with channels last, which leaves out most taps in the padding. */
static double direct_time_of(const reed_kernel_call *call, const packed_order *o, const window *w,
                             const activation *act) {
  const reed_desc *y = &call->outputs[0];
  const direct_product d = {.pixels = (double)y->dims[0] * (double)cpu_product(y->dims, 2, y->rank),
                            .outputs = (double)o->outputs,
                            .depth = (double)(o->rows * o->columns * o->channels)};
  double time = direct_time(&d, act->level, false);
  for (int32_t i = 0; i < w->n; i++)
    if (i + 1 < w->n || w->dilation[i] > 1)
      time *= window_share_inside(w->in[i], w->out[i], w->kernel[i], w->stride[i], w->dilation[i], w->pad_begin[i]);
  return (double)o->n_parts * time;
}

/* Picoseconds of Winograd's form; 0: the direct convolution is taken. */
static double winograd_time_of(const reed_kernel_call *call, const packed_order *o, const window *w,
                               const activation *act) {
  const double time = conv_winograd_time(call, o, w, act);
  return time <= WINOGRAD_GAIN * direct_time_of(call, o, w, act) ? time : 0;
}

static bool is_faster(const reed_kernel_call *call, const packed_order *o, const window *w, const activation *act) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  const double groups = (double)o->n_parts, windows = (double)cpu_product(y->dims, 2, y->rank),
               images = (double)y->dims[0], depth = (double)(o->rows * o->columns * o->channels),
               winograd = winograd_time_of(call, o, w, act),
               turned = (double)desc_elements(x) + (double)desc_elements(y) * (cpu_present(call, 3) ? 2 : 1),
               relaid = (winograd > 0 ? winograd : direct_time_of(call, o, w, act)) + turned * TURN_PS +
                        (may_keep(call) ? 0 : (double)desc_elements(&call->inputs[1]) * PACK_PS);
  /* there rows of a tile are outputs, and vectors are windows */
  const double columns = (double)round_up((int64_t)windows, PACKED_STEP) * images * groups,
               product = PLANES_TIME * product_rates_of(act->level)->direct * (double)o->outputs,
               copied = w->n > 0 && w->stride[w->n - 1] > 1 ? (double)desc_elements(x) * COPY_PS : 0;
  bool has_panels;
  if (!conv_planes_takes(call, &has_panels)) return true; /* than the reference */
  const double fill = has_panels ? FILL_PS : 0;
  return o->outputs >= FEW_OUTPUTS && relaid < (columns * depth * (product + fill) + copied) * GAIN;
}

/* ---- preparing ---- */

/* X is turned, so that the attribute has no meaning. */
static void hide_first(call_copy *copy) {
  reed_attr *first = call_copy_attr(copy, "channels_first_input");
  if (first) first->i = 0;
}

/* The order that the weights would have with channels last; false: they have none with panels. */
static bool order_of(const reed_kernel_call *call, packed_order *out_order) {
  call_copy copy;
  if (call_copy_init(call, &copy) != REED_OK) return false;
  reed_attr *last = call_copy_attr(&copy, "channels_last");
  if (!last) return false;
  last->i = 1;
  hide_first(&copy);
  return packed_order_of(call->op, &copy.attrs, &call->inputs[1], out_order) && !out_order->small_groups;
}

/* The kernel for so many of the call's images. */
static reed_status prepare_images(const reed_kernel_call *call, int64_t images, const packed_order *order,
                                  const window *w, const activation *act, reed_kernel *out_kernel) {
  call_copy copy;
  reed_status status = call_copy_init(call, &copy);
  if (status != REED_OK) return status;
  copy.inputs[0].dims[0] = copy.outputs[0].dims[0] = images;
  if (cpu_present(call, 3)) copy.inputs[3].dims[0] = images;
  for (int32_t i = 0; i < call->n_inputs; i++) call_copy_hide_values(&copy, i);
  hide_first(&copy);
  const reed_kernel_call *seen = &copy.call;
  if (winograd_time_of(seen, order, w, act) > 0) return conv_winograd_prepare(seen, order, NULL, w, act, out_kernel);
  status = conv_groups_prepare(seen, order, w, act, out_kernel);
  if (status != REED_OK || out_kernel->run) return status;
  return conv_panels_prepare(seen, order, w, true, act, out_kernel);
}

/* Places in the workspace. */
static int64_t places(conv_relaid *c, int64_t inner_bytes) {
  int64_t end = 0;
  (void)reserve_floats(&end, c->kept ? 0 : weights_of(&c->order)); /* the packed weights, at the begin */
  c->x = reserve_floats(&end, c->batch_images * c->channels * c->x_plane);
  c->y = reserve_floats(&end, c->batch_images * c->outputs * c->y_plane);
  c->inner = end;
  return end * (int64_t)sizeof(float) + inner_bytes;
}

reed_status conv_relaid_prepare(const reed_kernel_call *call, const window *w, const activation *act,
                                reed_kernel *out_kernel) {
  const reed_desc *x = &call->inputs[0], *y = &call->outputs[0];
  packed_order order;
  if (w->n > 3 || desc_elements(y) == 0 || !order_of(call, &order)) return REED_OK;
  if (!is_faster(call, &order, w, act)) return REED_OK;
  conv_relaid *c = mem_calloc(1, sizeof *c);
  if (!c) return cpu_no_memory(call);
  const cpu_level level = cpu_level_now();
  *c = (conv_relaid){.order = order,
                     .taps = order.rows * order.columns,
                     .images = x->dims[0],
                     .channels = x->dims[1],
                     .outputs = y->dims[1],
                     .x_plane = cpu_product(x->dims, 2, x->rank),
                     .y_plane = cpu_product(y->dims, 2, y->rank),
                     .with_bias = cpu_present(call, 2),
                     .with_residual = cpu_present(call, 3),
                     .team = cpu_env_team(call),
                     .turn = CPU_PICK(level, turn_rows),
                     .turn_apart = CPU_PICK(level, turn_apart)};
  const int64_t floats = c->channels * c->x_plane + c->outputs * c->y_plane,
                batches = divided(c->images, cpu_clamp(COPY_FLOATS / floats, 1, c->images));
  c->batch_images = divided(c->images, batches);
  c->n_rest = c->images % c->batch_images;
  c->pack_channels = larger(ITEM_FLOATS / (c->taps * PACKED_WIDTH), 1);
  c->pack_items = divided(order.channels, c->pack_channels);
  reed_status status = may_keep(call) ? keep(call, c) : REED_OK;
  if (status == REED_OK) status = prepare_images(call, c->batch_images, &order, w, act, &c->batch);
  if (status == REED_OK && c->batch.run && c->n_rest)
    status = prepare_images(call, c->n_rest, &order, w, act, &c->rest);
  if (status != REED_OK || !c->batch.run || (c->n_rest && !c->rest.run)) {
    free_relaid(c);
    return status;
  }
  *out_kernel = (reed_kernel){.run = run_relaid,
                              .state = c,
                              .free = free_relaid,
                              .workspace_bytes = places(c, larger(c->batch.workspace_bytes, c->rest.workspace_bytes)),
                              .state_bytes = (int64_t)sizeof *c + c->batch.state_bytes + c->rest.state_bytes,
                              .variant = c->batch.variant};
  return REED_OK;
}
