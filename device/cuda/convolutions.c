/* Convolutions by cuDNN (convolutions.h): which launches the library takes, their plans and their weights. */
#include "device/cuda/convolutions.h"

#include <string.h>

#include "base/mem.h"
#include "device/cuda/cudnn/cudnn.h"
#include "device/cuda/library_call.h"
#include "ops/op.h"
#include "ops/packed.h"

/* A convolution with all its extents. */
typedef struct convolution_plan {
  remembered head;
  cudnn_convolution conv;
  cudnn_plan plan;
} convolution_plan;

/* Convolutions that differ in their images' extents only, with as many binary digits of pixels: the choice, and the
 * engine of the latest plan. */
typedef struct convolution_habit {
  remembered head;
  cudnn_convolution kind;
  cudnn_engine engine;
} convolution_habit;

_Static_assert(offsetof(convolution_plan, conv) == sizeof(remembered) &&
                   offsetof(convolution_habit, kind) == sizeof(remembered),
               "the key is right behind the head");

struct convolutions {
  library_memory memory;
  cudnn_calls calls;
  cudnn_descriptor card;
};

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
  if (library_is_unaligned(pointers, sizeof pointers / sizeof *pointers) || a->axes != 2 || a->counted.capacity ||
      !has_panels(a) || (!relu && a->activation.formula != OP_Identity) || a->y == a->residual ||
      !is_dense(a->x_axis, a->in, a->x_image, a->x_channel, channels) ||
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

static void drop_plan(void *context, remembered *item) {
  cudnn_plan_close(&((convolutions *)context)->calls, &((convolution_plan *)item)->plan);
}

convolutions *convolutions_open(bool always) {
  convolutions *made = mem_calloc(1, sizeof *made);
  if (!made) return NULL;
  library_memory_init(&made->memory, always, sizeof(cudnn_convolution), sizeof(convolution_plan),
                      sizeof(convolution_habit), drop_plan, made);
  return made;
}

void convolutions_close(convolutions *of) {
  library_memory_fini(&of->memory);
  if (of->card) (void)of->calls.drop(of->card);
  mem_free(of);
}

static bool find(void *context) { return cudnn_find(&((convolutions *)context)->calls, NULL) == REED_OK; }

/* Gives the queue a handle, and the library its functions and its card. */
static bool open_handle(convolutions *of, cuda_queue *queue) {
  if (!library_is_there(&of->memory, find)) return false;
  if (!queue->library.cudnn) {
    if (of->calls.create(&queue->library.cudnn)) return false;
    if (of->calls.set_stream(queue->library.cudnn, queue->stream)) {
      (void)of->calls.destroy(queue->library.cudnn);
      queue->library.cudnn = NULL;
      return false;
    }
  }
  return of->card || cudnn_card_open(&of->calls, queue->library.cudnn, NULL, &of->card, NULL) == REED_OK;
}

void convolutions_close_queue(convolutions *of, cuda_queue *queue) {
  if (queue->library.cudnn) (void)of->calls.destroy(queue->library.cudnn);
}

/* ---- plans ---- */

/* The plan; a new one where there is none. NULL: no memory, or a graph is recorded. */
static convolution_plan *find_plan(convolutions *of, const cudnn_convolution *conv, bool may_make) {
  remembered *found = remembered_find(&of->memory.plans, conv);
  if (found || !may_make) return (convolution_plan *)found;
  convolution_plan *made = (convolution_plan *)remembered_add(&of->memory.plans, conv);
  if (!made) return NULL;
  const cudnn_convolution kind = kind_of(conv);
  convolution_habit *habit = (convolution_habit *)remembered_find(&of->memory.habits, &kind);
  if (!habit && (habit = (convolution_habit *)remembered_add(&of->memory.habits, &kind))) habit->engine.n_knobs = -1;
  if (cudnn_plan_open(&of->calls, of->card, conv, LIBRARY_MOST_WORKSPACE_BYTES, habit ? &habit->engine : NULL,
                      &made->plan, NULL) != REED_OK)
    made->head.choice = CHOICE_OWN;
  else if (habit) habit->engine = made->plan.engine;
  return made;
}

/* ---- weights ---- */

/* Enqueues the copy of packed weights into [outputs][taps][channels]: whole panels, then the last one. */
static reed_status unpack(cuda_queue *queue, const void *args, void *copy, reed_diagnosis *diagnosis) {
  const conv_args *a = args;
  const int64_t depth = a->taps * a->c, size = a->dtype == REED_F32 ? 4 : 2, bytes = a->groups * a->m * depth * size,
                full = a->m / PACKED_WIDTH, last = a->m % PACKED_WIDTH,
                n_from = a->groups == 1 ? full * PACKED_WIDTH * depth + (last ? a->panels.last_width * depth : 0)
                                        : a->groups * a->panels.group;
  const move_args all[] = {{.x = a->w,
                            .y = copy,
                            .n = a->groups * full * PACKED_WIDTH * depth,
                            .rank = 4,
                            .size = (int32_t)size,
                            .extents = {a->groups, full, PACKED_WIDTH, depth},
                            .from = {a->panels.group, PACKED_WIDTH * depth, 1, PACKED_WIDTH},
                            .to = {a->m * depth, PACKED_WIDTH * depth, depth, 1}},
                           {.x = a->w,
                            .y = copy,
                            .n = a->groups * last * depth,
                            .from_offset = full * PACKED_WIDTH * depth,
                            .to_offset = full * PACKED_WIDTH * depth,
                            .rank = 3,
                            .size = (int32_t)size,
                            .extents = {a->groups, last, depth},
                            .from = {a->panels.group, 1, a->panels.last_width},
                            .to = {a->m * depth, depth, 1}}};
  const cu_operand operands[] = {{a->w, n_from * size, false}, {copy, bytes, true}};
  return weights_move(queue, all, operands, diagnosis);
}

/* ---- launches ---- */

typedef struct convolution_call {
  library_call call;
  convolutions *of;
  weights_copies *weights;
} convolution_call;

static bool enqueue(const library_call *call, cuda_queue *queue) {
  const convolution_call *c = (const convolution_call *)call;
  const conv_args *a = call->own->args;
  const cudnn_plan *plan = &((convolution_plan *)call->plan)->plan;
  const int64_t bytes = a->groups * a->m * a->taps * a->c * (a->dtype == REED_F32 ? 4 : 2);
  void *workspace = NULL;
  const void *weights = NULL;
  if (library_find_workspace(queue, plan->workspace_bytes, &workspace))
    weights = weights_find(c->weights, queue, WEIGHTS_OF_CONVOLUTION, a->w, bytes, unpack, a);
  if (!weights) return false;
  if (queue->recording) cuda_graph_note(cuda_of(&queue->base), queue->recording, weights);
  return cudnn_plan_run(&c->of->calls, queue->library.cudnn, plan, a->x, weights, a->bias, a->residual, a->y, workspace,
                        NULL) == REED_OK;
}

bool convolutions_take(cuda_kernel_id kernel) {
  return kernel == CUDA_conv_f32 || kernel == CUDA_conv_tf32 || kernel == CUDA_conv_f16 || kernel == CUDA_conv_bf16 ||
         kernel == CUDA_conv_tall_tf32 || kernel == CUDA_conv_tall_f16 || kernel == CUDA_conv_tall_bf16;
}

reed_status convolutions_launch(convolutions *of, weights_copies *weights, cuda_queue *queue, const cuda_ready *own,
                                bool *out_done, reed_diagnosis *diagnosis) {
  cudnn_convolution conv;
  if (!read_convolution(own->args, own->kernel, &conv)) return REED_OK;
  if (!queue->recording && !open_handle(of, queue)) return REED_OK;
  if (of->memory.search == LIBRARY_MISSING) return REED_OK;
  convolution_plan *plan = find_plan(of, &conv, !queue->recording);
  if (queue->recording && (!plan || !queue->library.cudnn))
    cuda_graph_spoil(queue->recording, "met a convolution that cuDNN has no plan of yet");
  if (!plan || !queue->library.cudnn) return REED_OK;
  const cudnn_convolution kind = kind_of(&conv);
  const convolution_call call = {.call = {.spoilt = "could not convolve by cuDNN as before",
                                          .plan = &plan->head,
                                          .memory = &of->memory,
                                          .kind = &kind,
                                          .enqueue = enqueue,
                                          .own = own},
                                 .of = of,
                                 .weights = weights};
  return library_run(&call.call, queue, out_done, diagnosis);
}
