/* Convolutions by cuDNN (option `cudnn`): at its launch a convolution takes either Reed's own kernel or a plan of the
 * library. The faster one is measured once for the convolution's kind and the binary order of its size, and remembered
 * for the device; a plan is made once for its extents. Weights in the packed order are copied into the library's order
 * once, and the copy lives as long as the weights. A convolution that the library cannot take, and any failure of the
 * library before a launch, means the own kernel, from then on.
 *
 * All state is guarded by the library's lock, which is taken before the device's. A queue has its own handle and
 * workspaces. While a graph is recorded nothing is opened, planned, measured or allocated: the run before the recording
 * has done so. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/table.h"
#include "device/cuda/cudnn/cudnn.h"
#include "device/cuda/state.h"
#include "ops/op.h"
#include "ops/packed.h"

enum { MOST_PLANS = 1024, ALIGNMENT = 16, ALWAYS = 2, MOST_WORKSPACE_BYTES = 64 << 20 };

typedef enum library_choice { NOT_KNOWN, OWN, CUDNN } library_choice;

/* A convolution with all its extents. */
typedef struct library_plan {
  uint64_t hash, used;
  cudnn_convolution conv;
  cudnn_plan plan;
  library_choice choice;
} library_plan;

/* Convolutions that differ in their images' extents only, with as many binary digits of pixels: the choice, and the
 * engine of the latest plan. */
typedef struct library_habit {
  cudnn_convolution kind;
  library_choice choice;
  cudnn_engine engine;
} library_habit;

/* The place of weights: an address in a block of memory, which has the serial number. */
typedef struct weights_place {
  const void *from;
  uint64_t serial;
} weights_place;

/* Weights in the library's order: a copy of those at the place. */
typedef struct library_weights {
  weights_place place;
  void *copy;    /* NULL: the item is free */
  uint32_t next; /* another item of the same block, or another free one; TABLE_NONE: the last */
} library_weights;

typedef struct library {
  cuda_library base;
  uv_mutex_t lock; /* guards the fields below */
  bool tried, found;
  cudnn_calls calls;
  cudnn_descriptor card;
  uint64_t n_uses;
  VEC_OF(library_plan *) plans;
  VEC_OF(library_habit) habits;
  VEC_OF(library_weights) weights;
  uint32_t free_weights; /* the first free item of `weights` */
  table plans_by_extents, habits_by_kind, weights_by_place;
  table weights_by_block; /* the first item of each block */
} library;

/* ---- the convolution ---- */

static bool is_dense(const int64_t *axes, const int64_t *extents, int64_t image, int64_t channel, int64_t channels) {
  return channel == 1 && axes[1] == channels && axes[0] == extents[1] * channels && image == extents[0] * axes[0];
}

/* The matrix of a group is panels whose rows run over taps, then channels. */
static bool has_panels(const conv_args *a) {
  const panels_args *p = &a->panels;
  const int64_t depth = a->taps * a->c,
                part = a->m / PACKED_WIDTH * PACKED_WIDTH * depth + (a->m % PACKED_WIDTH ? p->last_width * depth : 0);
  return p->width == PACKED_WIDTH && p->channel_rows == 1 && p->tap_rows == a->c && p->depth == depth &&
         p->columns == a->m && (a->groups == 1 || p->group == part);
}

/* False: a convolution that the library is not asked for. */
static bool read_convolution(const conv_args *a, cuda_kernel_id kernel, cudnn_convolution *out) {
  const bool relu = a->activation.formula == OP_Relu;
  const int64_t channels = a->c * a->groups, outputs = a->m * a->groups;
  const void *const pointers[] = {a->x, a->y, a->bias, a->residual};
  for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++)
    if ((uintptr_t)pointers[i] % ALIGNMENT) return false;
  if (a->axes != 2 || a->counted.capacity || !has_panels(a) || (!relu && a->activation.formula != OP_Identity) ||
      a->y == a->residual || !is_dense(a->x_axis, a->in, a->x_image, a->x_channel, channels) ||
      !is_dense(a->y_axis, a->out, a->y_image, a->y_channel, outputs))
    return false;
  memset(out, 0, sizeof *out);
  out->images = a->pixels / (a->out[0] * a->out[1]);
  out->groups = a->groups;
  out->channels = channels;
  out->outputs = outputs;
  for (int d = 0; d < 2; d++) {
    out->in[d] = a->in[d];
    out->out[d] = a->out[d];
    out->kernel[d] = a->kernel[d];
    out->stride[d] = a->stride[d];
    out->dilation[d] = a->dilation[d];
    out->pad[d] = a->pad[d];
  }
  out->dtype = a->dtype == REED_F16 ? DN_HALF : a->dtype == REED_BF16 ? DN_BFLOAT16 : DN_FLOAT;
  out->bias = a->bias != NULL;
  out->residual = a->residual != NULL;
  out->relu = relu;
  out->tensor_cores = kernel != CUDA_conv_f32;
  return true;
}

static cudnn_convolution kind_of(const cudnn_convolution *conv) {
  cudnn_convolution kind = *conv;
  int64_t digits = 0;
  for (int64_t pixels = conv->images * conv->out[0] * conv->out[1]; pixels; pixels >>= 1) digits++;
  kind.images = digits;
  memset(kind.in, 0, sizeof kind.in);
  memset(kind.out, 0, sizeof kind.out);
  return kind;
}

/* ---- opening and closing ---- */

static void close_library(cuda_library *base) {
  library *self = (library *)base;
  for (size_t i = 0; i < self->plans.n; i++) {
    cudnn_plan_close(&self->calls, &self->plans.items[i]->plan);
    mem_free(self->plans.items[i]);
  }
  if (self->card) (void)self->calls.drop(self->card);
  VEC_FREE(&self->plans);
  VEC_FREE(&self->habits);
  VEC_FREE(&self->weights); /* the copies are blocks of the device */
  table_fini(&self->plans_by_extents);
  table_fini(&self->habits_by_kind);
  table_fini(&self->weights_by_place);
  table_fini(&self->weights_by_block);
  uv_mutex_destroy(&self->lock);
  mem_free(self);
}

/* Gives the queue a handle, and the library its functions and its card. */
static bool open_handle(library *of, cuda_queue *queue) {
  if (!of->tried) {
    of->tried = true;
    of->found = cudnn_find(&of->calls, NULL) == REED_OK;
  }
  if (!of->found) return false;
  if (!queue->library.handle) {
    if (of->calls.create(&queue->library.handle)) return false;
    if (of->calls.set_stream(queue->library.handle, queue->stream)) {
      (void)of->calls.destroy(queue->library.handle);
      queue->library.handle = NULL;
      return false;
    }
  }
  return of->card || cudnn_card_open(&of->calls, queue->library.handle, NULL, &of->card, NULL) == REED_OK;
}

static void close_queue(cuda_queue *queue) {
  library *of = (library *)cuda_of(&queue->base)->library;
  if (queue->library.handle) (void)of->calls.destroy(queue->library.handle);
  for (size_t i = 0; i < queue->library.workspaces.n; i++)
    cuda_release(queue->base.device, queue->library.workspaces.items[i], NULL);
  VEC_FREE(&queue->library.workspaces);
}

/* ---- habits ---- */

static bool same_kind(const void *context, uint32_t item, const void *wanted) {
  return memcmp(&((const library *)context)->habits.items[item].kind, wanted, sizeof(cudnn_convolution)) == 0;
}

/* NULL: none yet, or (may_make) no memory for it. */
static library_habit *find_habit(library *of, const cudnn_convolution *conv, bool may_make) {
  const cudnn_convolution kind = kind_of(conv);
  const uint64_t hash = hash_bytes(&kind, sizeof kind, 0);
  const uint32_t found = table_find(&of->habits_by_kind, hash, same_kind, of, &kind);
  if (found != TABLE_NONE) return &of->habits.items[found];
  if (!may_make || !VEC_ROOM(&of->habits) || !table_add(&of->habits_by_kind, hash, (uint32_t)of->habits.n)) return NULL;
  library_habit *made = &of->habits.items[of->habits.n++];
  *made = (library_habit){.kind = kind, .engine = {.n_knobs = -1}};
  return made;
}

/* ---- plans ---- */

static bool same_extents(const void *context, uint32_t item, const void *wanted) {
  return memcmp(&((const library *)context)->plans.items[item]->conv, wanted, sizeof(cudnn_convolution)) == 0;
}

/* The item of the plan that was used longest ago. A walk over all of them, next to which making a plan takes long. */
static uint32_t oldest_plan(const library *of) {
  uint32_t oldest = 0;
  for (uint32_t i = 1; i < of->plans.n; i++)
    if (of->plans.items[i]->used < of->plans.items[oldest]->used) oldest = i;
  return oldest;
}

/* The plan with its place in the table; a new one where there is none. NULL: no memory. */
static library_plan *find_plan(library *of, const cudnn_convolution *conv, bool may_make) {
  const uint64_t hash = hash_bytes(conv, sizeof *conv, 0);
  const uint32_t found = table_find(&of->plans_by_extents, hash, same_extents, of, conv);
  if (found != TABLE_NONE) return of->plans.items[found];
  library_plan *made = NULL;
  if (!may_make || !table_reserve(&of->plans_by_extents, MOST_PLANS)) return NULL;
  uint32_t item = (uint32_t)of->plans.n;
  if (of->plans.n == MOST_PLANS) { /* graphs do not need the plan that their launches were made from */
    item = oldest_plan(of);
    made = of->plans.items[item];
    table_remove(&of->plans_by_extents, made->hash, item);
    cudnn_plan_close(&of->calls, &made->plan);
  } else {
    if (!VEC_ROOM(&of->plans) || !(made = mem_alloc(sizeof *made))) return NULL;
    of->plans.items[of->plans.n++] = made;
  }
  (void)table_add(&of->plans_by_extents, hash, item); /* the room is there */
  *made = (library_plan){.hash = hash, .conv = *conv};
  library_habit *habit = find_habit(of, conv, true);
  if (cudnn_plan_open(&of->calls, of->card, conv, MOST_WORKSPACE_BYTES, habit ? &habit->engine : NULL, &made->plan,
                      NULL) != REED_OK)
    made->choice = OWN;
  else if (habit) habit->engine = made->plan.engine;
  return made;
}

/* ---- weights and workspaces ---- */

/* Enqueues the copy of packed weights into [outputs][taps][channels]: whole panels, then the last one. */
static reed_status unpack(cuda_queue *queue, const conv_args *a, void *copy, reed_diagnosis *diagnosis) {
  const int64_t depth = a->taps * a->c, size = a->dtype == REED_F32 ? 4 : 2, bytes = a->groups * a->m * depth * size,
                full = a->m / PACKED_WIDTH, last = a->m % PACKED_WIDTH,
                n_from = a->groups == 1 ? full * PACKED_WIDTH * depth + (last ? a->panels.last_width * depth : 0)
                                        : a->groups * a->panels.group;
  const move_args whole = {.x = a->w,
                           .y = copy,
                           .n = a->groups * full * PACKED_WIDTH * depth,
                           .rank = 4,
                           .size = (int32_t)size,
                           .extents = {a->groups, full, PACKED_WIDTH, depth},
                           .from = {a->panels.group, PACKED_WIDTH * depth, 1, PACKED_WIDTH},
                           .to = {a->m * depth, PACKED_WIDTH * depth, depth, 1}};
  const move_args rest = {.x = a->w,
                          .y = copy,
                          .n = a->groups * last * depth,
                          .from_offset = full * PACKED_WIDTH * depth,
                          .to_offset = full * PACKED_WIDTH * depth,
                          .rank = 3,
                          .size = (int32_t)size,
                          .extents = {a->groups, last, depth},
                          .from = {a->panels.group, 1, a->panels.last_width},
                          .to = {a->m * depth, depth, 1}};
  const cu_operand operands[] = {{a->w, n_from * size, false}, {copy, bytes, true}};
  const move_args *const all[] = {&whole, &rest};
  reed_status status = REED_OK;
  for (int i = 0; i < 2 && status == REED_OK; i++)
    if (all[i]->n)
      status = cuda_launch_ready(queue,
                                 &(cuda_ready){.kernel = CUDA_move,
                                               .grid = {(uint32_t)blocks_for(CUDA_move, all[i]->n), 1, 1},
                                               .args = all[i],
                                               .operands = operands,
                                               .n_operands = 2},
                                 diagnosis);
  return status;
}

static uint64_t hash_of_block(uint64_t serial) { return hash_bytes(&serial, sizeof serial, 0); }

static bool same_place(const void *context, uint32_t item, const void *wanted) {
  return memcmp(&((const library *)context)->weights.items[item].place, wanted, sizeof(weights_place)) == 0;
}

static bool same_block(const void *context, uint32_t item, const void *wanted) {
  return ((const library *)context)->weights.items[item].place.serial == *(const uint64_t *)wanted;
}

/* Room for one more copy in the list and in its tables. False: no memory. */
static bool reserve_weights(library *of) {
  const size_t n = of->weights.n + 1;
  return VEC_ROOM(&of->weights) && table_reserve(&of->weights_by_place, n) && table_reserve(&of->weights_by_block, n);
}

/* After reserve_weights. */
static void keep_weights(library *of, const weights_place *place, void *copy) {
  uint32_t item = of->free_weights;
  if (item == TABLE_NONE) item = (uint32_t)of->weights.n++;
  else of->free_weights = of->weights.items[item].next;
  const uint64_t hash = hash_of_block(place->serial);
  const uint32_t first = table_find(&of->weights_by_block, hash, same_block, of, &place->serial);
  of->weights.items[item] = (library_weights){.place = *place, .copy = copy, .next = TABLE_NONE};
  (void)table_add(&of->weights_by_place, hash_bytes(place, sizeof *place, 0), item);
  if (first == TABLE_NONE) {
    (void)table_add(&of->weights_by_block, hash, item);
  } else {
    of->weights.items[item].next = of->weights.items[first].next;
    of->weights.items[first].next = item;
  }
}

/* The weights in the library's order; NULL: no memory, or a graph is recorded. */
static const void *find_weights(library *of, cuda_queue *queue, const conv_args *a) {
  cuda_device *self = cuda_of(&queue->base);
  uv_mutex_lock(&self->lock);
  const cuda_block *block = cuda_blocks_find(&self->blocks, a->w);
  const weights_place place = {a->w, block ? block->serial : 0};
  uv_mutex_unlock(&self->lock);
  const uint32_t found = table_find(&of->weights_by_place, hash_bytes(&place, sizeof place, 0), same_place, of, &place);
  if (found != TABLE_NONE) return of->weights.items[found].copy;
  void *copy = NULL;
  if (!block || queue->recording || !reserve_weights(of) ||
      cuda_allocate(&self->base, a->groups * a->m * a->taps * a->c * (a->dtype == REED_F32 ? 4 : 2), 0, &copy, NULL) !=
          REED_OK)
    return NULL;
  /* another queue may use the copy next, so the copy is finished here */
  if (cuda_begin_work(queue, NULL, NULL) != REED_OK || unpack(queue, a, copy, NULL) != REED_OK ||
      self->driver.stream_synchronize(queue->stream)) {
    cuda_release(&self->base, copy, &queue->base);
    return NULL;
  }
  keep_weights(of, &place, copy);
  return copy;
}

/* Takes the block's copies out of the tables. The items: a list, which the caller frees; TABLE_NONE: there are none. */
static uint32_t take_weights(library *of, uint64_t serial) {
  const uint32_t first = table_find(&of->weights_by_block, hash_of_block(serial), same_block, of, &serial);
  if (first != TABLE_NONE) table_remove(&of->weights_by_block, hash_of_block(serial), first);
  for (uint32_t i = first; i != TABLE_NONE; i = of->weights.items[i].next) {
    const weights_place *place = &of->weights.items[i].place;
    table_remove(&of->weights_by_place, hash_bytes(place, sizeof *place, 0), i);
  }
  return first;
}

static void forget(cuda_device *self, uint64_t serial, device_queue *after) {
  library *of = (library *)self->library;
  uv_mutex_lock(&of->lock);
  for (uint32_t item = take_weights(of, serial), next; item != TABLE_NONE; item = next) {
    library_weights *w = &of->weights.items[item];
    void *copy = w->copy;
    next = w->next;
    *w = (library_weights){.next = of->free_weights};
    of->free_weights = item;
    uv_mutex_unlock(&of->lock); /* the device's lock is taken in the release */
    cuda_release(&self->base, copy, after);
    uv_mutex_lock(&of->lock);
  }
  uv_mutex_unlock(&of->lock);
}

/* Memory of the queue for a plan's workspace. Earlier, smaller ones stay, because graphs name them. False: no memory,
 * or a graph is recorded. */
static bool find_workspace(cuda_queue *queue, int64_t bytes, void **out_data) {
  *out_data = queue->library.workspaces.n ? queue->library.workspaces.items[queue->library.workspaces.n - 1] : NULL;
  if (bytes <= queue->library.workspace_bytes) return true;
  if (queue->recording || !VEC_ROOM(&queue->library.workspaces) ||
      cuda_allocate(queue->base.device, bytes, 0, out_data, NULL) != REED_OK ||
      cuda_begin_work(queue, NULL, NULL) != REED_OK)
    return false;
  queue->library.workspaces.items[queue->library.workspaces.n++] = *out_data;
  queue->library.workspace_bytes = bytes;
  return true;
}

/* ---- runs ---- */

/* Enqueues the plan. False: nothing was enqueued, and the own kernel is to run from now on; a recording fails, so that
 * a graph's results are those of its key's first run. */
static bool run_plan(library *of, cuda_queue *queue, library_plan *plan, const conv_args *a) {
  cuda_device *self = cuda_of(&queue->base);
  void *workspace = NULL;
  const void *weights = NULL;
  if (find_workspace(queue, plan->plan.workspace_bytes, &workspace)) weights = find_weights(of, queue, a);
  if (weights && queue->recording) {
    cuda_graph_note(self, queue->recording, weights);
    if (workspace) cuda_graph_note(self, queue->recording, workspace);
  }
  if (weights && cudnn_plan_run(&of->calls, queue->library.handle, &plan->plan, a->x, weights, a->bias, a->residual,
                                a->y, workspace, NULL) == REED_OK)
    return true;
  if (queue->recording) cuda_graph_spoil(queue->recording, "could not convolve by cuDNN as before");
  else plan->choice = OWN;
  return false;
}

/* Runs both after a first run of each, and keeps the faster one's result in y. */
static reed_status measure(library *of, cuda_queue *queue, library_plan *plan, const cuda_ready *own,
                           reed_diagnosis *diagnosis) {
  const cuda_driver *cu = &cuda_of(&queue->base)->driver;
  cu_event at[3] = {NULL};
  float own_ms = 0, library_ms = 0;
  bool known = true;
  reed_status status = cuda_launch_ready(queue, own, diagnosis);
  if (status == REED_OK && run_plan(of, queue, plan, own->args)) {
    for (int i = 0; i < 3 && known; i++) known = !cu->event_create(&at[i], 0);
    known = known && !cu->event_record(at[0], queue->stream) && cuda_launch_ready(queue, own, diagnosis) == REED_OK &&
            !cu->event_record(at[1], queue->stream) && run_plan(of, queue, plan, own->args) &&
            !cu->event_record(at[2], queue->stream) && !cu->event_synchronize(at[2]) &&
            !cu->event_elapsed(&own_ms, at[0], at[1]) && !cu->event_elapsed(&library_ms, at[1], at[2]);
    plan->choice = known && library_ms < own_ms ? CUDNN : OWN;
    if (plan->choice == OWN) status = cuda_launch_ready(queue, own, diagnosis);
    for (int i = 0; i < 3; i++)
      if (at[i]) (void)cu->event_destroy(at[i]);
  }
  library_habit *habit = status == REED_OK ? find_habit(of, &plan->conv, true) : NULL;
  if (habit) habit->choice = plan->choice;
  return status;
}

static library_choice habit_of(library *of, const cudnn_convolution *conv) {
  const library_habit *habit = find_habit(of, conv, false);
  return habit ? habit->choice : NOT_KNOWN;
}

static reed_status convolve(library *of, cuda_queue *queue, const cudnn_convolution *conv, const cuda_ready *own,
                            bool *out_done, reed_diagnosis *diagnosis) {
  cuda_device *self = cuda_of(&queue->base);
  if (!queue->recording && !open_handle(of, queue)) return REED_OK;
  if (of->tried && !of->found) return REED_OK;
  library_plan *plan = find_plan(of, conv, !queue->recording);
  if (queue->recording && (!plan || plan->choice == NOT_KNOWN || !queue->library.handle))
    cuda_graph_spoil(queue->recording, "met a convolution that cuDNN has no plan of yet");
  if (!plan || !queue->library.handle) return REED_OK;
  plan->used = ++of->n_uses;
  if (plan->choice == NOT_KNOWN) plan->choice = self->options.cudnn == ALWAYS ? CUDNN : habit_of(of, conv);
  if (plan->choice == NOT_KNOWN && !queue->recording) {
    *out_done = true;
    return measure(of, queue, plan, own, diagnosis);
  }
  *out_done = plan->choice == CUDNN && run_plan(of, queue, plan, own->args);
  return REED_OK;
}

static reed_status convolution_of(cuda_queue *queue, const cuda_ready *own, bool *out_done, reed_diagnosis *diagnosis) {
  library *of = (library *)cuda_of(&queue->base)->library;
  cudnn_convolution conv;
  *out_done = false;
  if (own->kernel != CUDA_conv_f32 && own->kernel != CUDA_conv_tf32 && own->kernel != CUDA_conv_f16 &&
      own->kernel != CUDA_conv_bf16)
    return REED_OK;
  if (!read_convolution(own->args, own->kernel, &conv)) return REED_OK;
  uv_mutex_lock(&of->lock);
  const reed_status status = convolve(of, queue, &conv, own, out_done, diagnosis);
  uv_mutex_unlock(&of->lock);
  return status;
}

reed_status cuda_library_open(cuda_library **out_library, reed_diagnosis *diagnosis) {
  library *made = mem_calloc(1, sizeof *made);
  if (!made || uv_mutex_init_recursive(&made->lock) != 0) { /* a release within asks for copies of weights */
    mem_free(made);
    return diag_no_memory(diagnosis, "the library of convolutions");
  }
  made->base = (cuda_library){convolution_of, forget, close_queue, close_library};
  made->free_weights = TABLE_NONE;
  *out_library = &made->base;
  return REED_OK;
}
