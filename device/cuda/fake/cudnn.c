/* A stand-in for cuDNN over the fake driver: it keeps the descriptors that the module makes, refuses those that break a
 * rule of the library's manual, and carries a plan out by Reed's own kernels on the handle's stream, from nothing but
 * the descriptors and the variant pack. It offers engines of every kind that the module must pass over. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/cudnn/cudnn.h"
#include "device/cuda/fake/state.h"
#include "device/cuda/kernels/product.h"
#include "ops/op.h"

/* The one setting that every engine has. */
enum { KNOB = 5, KNOB_SETTING = 7 };
enum { NOT_INITIALIZED = 1001, NOT_SUPPORTED = 3000, FAILED = 5000, ATTRIBUTES = 16, STEPS = 4, TILE = 64 };

/* The engines in the order of the heuristics. */
typedef enum engine { COMPILES, TENSOR_CORES, LARGE, RANDOM, STRICT, ENGINES } engine;

typedef struct attribute {
  int name, type;
  int64_t n;
  void *items;
} attribute;

typedef struct descriptor {
  fake_world *world;
  int kind;
  bool finalized;
  attribute attributes[ATTRIBUTES];
  int n_attributes;
  engine engine;            /* of a configuration or an engine */
  struct descriptor *graph; /* of a configuration */
} descriptor;

struct cudnnContext {
  fake_world *world;
  cu_stream stream;
  cu_module module;
};

static _Atomic int64_t n_runs, n_known;

/* ---- descriptors ---- */

static size_t item_bytes(int type) {
  switch (type) {
    case DN_OF_BOOL:
    case DN_OF_CHAR: return 1;
    case DN_OF_INT:
    case DN_OF_POINTER:
    case DN_OF_HANDLE:
    case DN_OF_DESCRIPTOR: return 8;
    default: return 4;
  }
}

static void count(fake_world *world, int64_t by) { fake_library_count(world, FAKE_CUDNN, by); }

/* True if the options tell this call of the library to fail. */
static bool told_to_fail(fake_world *world) {
  return fake_library_fails(world, &world->n_cudnn_calls, world->options.fail_cudnn);
}

static const attribute *find(const descriptor *d, int name) {
  for (int i = 0; i < d->n_attributes; i++)
    if (d->attributes[i].name == name) return &d->attributes[i];
  return NULL;
}

/* The items of an attribute that has n of this type; NULL: it has not. */
static const void *items(const descriptor *d, int name, int type, int64_t n) {
  const attribute *a = find(d, name);
  return a && a->type == type && a->n == n ? a->items : NULL;
}

static descriptor *part(const descriptor *d, int name) {
  descriptor *const *one = items(d, name, DN_OF_DESCRIPTOR, 1);
  return one ? *one : NULL;
}

static cudnn_status stand_in_make(int kind, cudnn_descriptor *out) {
  const cu_context context = fake_current();
  if (!context) return NOT_INITIALIZED;
  if (told_to_fail(context->world)) return FAILED;
  descriptor *made = mem_calloc(1, sizeof *made);
  if (!made) return FAILED;
  made->world = context->world;
  made->kind = kind;
  count(made->world, 1);
  *out = made;
  return DN_SUCCESS;
}

static cudnn_status stand_in_drop(cudnn_descriptor of) {
  descriptor *d = of;
  count(d->world, -1);
  for (int i = 0; i < d->n_attributes; i++) mem_free(d->attributes[i].items);
  mem_free(d);
  return DN_SUCCESS;
}

static cudnn_status stand_in_set(cudnn_descriptor of, int name, int type, int64_t n, const void *values) {
  descriptor *d = of;
  if (told_to_fail(d->world)) return FAILED;
  if (d->finalized || n < 1 || !values || d->n_attributes == ATTRIBUTES || find(d, name)) return DN_BAD_PARAM;
  if (type == DN_OF_DESCRIPTOR)
    for (int64_t i = 0; i < n; i++)
      if (!((descriptor *const *)values)[i]->finalized) return NOT_INITIALIZED;
  const size_t bytes = (size_t)n * item_bytes(type);
  void *copy = mem_alloc(bytes);
  if (!copy) return FAILED;
  memcpy(copy, values, bytes);
  d->attributes[d->n_attributes++] = (attribute){name, type, n, copy};
  return DN_SUCCESS;
}

/* The attributes without which a descriptor of each kind cannot be finished; several items: any number is -1. */
static const struct {
  int kind, name, type;
  int64_t n;
} needed[] = {{DN_FORMULA, DN_POINTWISE_MODE, DN_OF_FORMULA, 1},
              {DN_FORMULA, DN_POINTWISE_PRECISION, DN_OF_DTYPE, 1},
              {DN_CONV, DN_CONV_AXES, DN_OF_INT, 1},
              {DN_CONV, DN_CONV_PRECISION, DN_OF_DTYPE, 1},
              {DN_CONV, DN_CONV_MODE, DN_OF_CONV_MODE, 1},
              {DN_CONV, DN_CONV_PAD_BEGIN, DN_OF_INT, 2},
              {DN_CONV, DN_CONV_PAD_END, DN_OF_INT, 2},
              {DN_CONV, DN_CONV_DILATIONS, DN_OF_INT, 2},
              {DN_CONV, DN_CONV_STRIDES, DN_OF_INT, 2},
              {DN_FORWARD, DN_FORWARD_X, DN_OF_DESCRIPTOR, 1},
              {DN_FORWARD, DN_FORWARD_W, DN_OF_DESCRIPTOR, 1},
              {DN_FORWARD, DN_FORWARD_Y, DN_OF_DESCRIPTOR, 1},
              {DN_FORWARD, DN_FORWARD_CONV, DN_OF_DESCRIPTOR, 1},
              {DN_FORWARD, DN_FORWARD_ALPHA, DN_OF_FLOAT, 1},
              {DN_FORWARD, DN_FORWARD_BETA, DN_OF_FLOAT, 1},
              {DN_STEP, DN_STEP_FORMULA, DN_OF_DESCRIPTOR, 1},
              {DN_STEP, DN_STEP_X, DN_OF_DESCRIPTOR, 1},
              {DN_STEP, DN_STEP_Y, DN_OF_DESCRIPTOR, 1},
              {DN_TENSOR, DN_TENSOR_DTYPE, DN_OF_DTYPE, 1},
              {DN_TENSOR, DN_TENSOR_EXTENTS, DN_OF_INT, 4},
              {DN_TENSOR, DN_TENSOR_STRIDES, DN_OF_INT, 4},
              {DN_TENSOR, DN_TENSOR_NAME, DN_OF_INT, 1},
              {DN_TENSOR, DN_TENSOR_ALIGNMENT, DN_OF_INT, 1},
              {DN_TENSOR, DN_TENSOR_VIRTUAL, DN_OF_BOOL, 1},
              {DN_GRAPH, DN_GRAPH_STEPS, DN_OF_DESCRIPTOR, -1},
              {DN_HEURISTIC, DN_HEURISTIC_GRAPH, DN_OF_DESCRIPTOR, 1},
              {DN_HEURISTIC, DN_HEURISTIC_MODE, DN_OF_HEURISTIC, 1},
              {DN_HEURISTIC, DN_HEURISTIC_CARD, DN_OF_DESCRIPTOR, 1},
              {DN_ENGINE, DN_ENGINE_GRAPH, DN_OF_DESCRIPTOR, 1},
              {DN_ENGINE, DN_ENGINE_NUMBER, DN_OF_INT, 1},
              {DN_ENGINE, DN_ENGINE_CARD, DN_OF_DESCRIPTOR, 1},
              {DN_KNOB, DN_KNOB_KIND, DN_OF_KNOB, 1},
              {DN_KNOB, DN_KNOB_VALUE, DN_OF_INT, 1},
              {DN_CONFIG, DN_CONFIG_ENGINE, DN_OF_DESCRIPTOR, 1},
              {DN_PLAN, DN_PLAN_CONFIG, DN_OF_DESCRIPTOR, 1},
              {DN_PLAN, DN_PLAN_CARD, DN_OF_DESCRIPTOR, 1},
              {DN_CARD, DN_CARD_HANDLE, DN_OF_HANDLE, 1},
              {DN_PACK, DN_PACK_NAMES, DN_OF_INT, -1},
              {DN_PACK, DN_PACK_POINTERS, DN_OF_POINTER, -1},
              {DN_PACK, DN_PACK_WORKSPACE, DN_OF_POINTER, 1}};

static cudnn_status stand_in_finalize(cudnn_descriptor of) {
  descriptor *d = of;
  if (told_to_fail(d->world)) return FAILED;
  if (d->finalized) return DN_BAD_PARAM;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    if (needed[i].kind != d->kind) continue;
    const attribute *a = find(d, needed[i].name);
    if (!a || a->type != needed[i].type || (needed[i].n > 0 && a->n != needed[i].n)) return DN_BAD_PARAM;
  }
  if (d->kind == DN_PLAN && part(d, DN_PLAN_CONFIG)->engine == COMPILES) return NOT_SUPPORTED;
  if (d->kind == DN_ENGINE) {
    const int64_t number = *(const int64_t *)items(d, DN_ENGINE_NUMBER, DN_OF_INT, 1);
    if (number < 0 || number >= ENGINES) return DN_BAD_PARAM;
    d->engine = (engine)number;
    d->graph = part(d, DN_ENGINE_GRAPH);
  }
  if (d->kind == DN_CONFIG) {
    const descriptor *knob = part(d, DN_CONFIG_KNOBS);
    if (!knob || *(const int32_t *)items(knob, DN_KNOB_KIND, DN_OF_KNOB, 1) != KNOB ||
        *(const int64_t *)items(knob, DN_KNOB_VALUE, DN_OF_INT, 1) != KNOB_SETTING)
      return DN_BAD_PARAM;
    d->engine = part(d, DN_CONFIG_ENGINE)->engine;
    d->graph = part(d, DN_CONFIG_ENGINE)->graph;
    n_known++;
  }
  d->finalized = true;
  return DN_SUCCESS;
}

/* ---- engines ---- */

static int64_t elements(const descriptor *tensor) {
  const int64_t *extents = items(tensor, DN_TENSOR_EXTENTS, DN_OF_INT, 4);
  return extents[0] * extents[1] * extents[2] * extents[3];
}

static int64_t bytes_of(const descriptor *tensor) {
  return elements(tensor) * (*(const int32_t *)items(tensor, DN_TENSOR_DTYPE, DN_OF_DTYPE, 1) == DN_FLOAT ? 4 : 2);
}

static const descriptor *step_of(const descriptor *graph, int64_t i) {
  const attribute *steps = find(graph, DN_GRAPH_STEPS);
  return i < steps->n ? ((descriptor *const *)steps->items)[i] : NULL;
}

static cudnn_status give(const void *values, int64_t n, size_t bytes, int64_t capacity, int64_t *out_n, void *out) {
  *out_n = n;
  if (out) memcpy(out, values, bytes * (size_t)(n < capacity ? n : capacity));
  return DN_SUCCESS;
}

/* The heuristics give configurations into descriptors of the caller. */
static cudnn_status configure(const descriptor *heuristic, int64_t capacity, int64_t *out_n, descriptor **configs) {
  const int32_t mode = *(const int32_t *)items(heuristic, DN_HEURISTIC_MODE, DN_OF_HEURISTIC, 1);
  *out_n = mode == DN_BY_MODEL ? ENGINES < capacity ? ENGINES : capacity : 0;
  for (int64_t i = 0; i < *out_n; i++) {
    configs[i]->engine = (engine)i;
    configs[i]->graph = part(heuristic, DN_HEURISTIC_GRAPH);
    configs[i]->finalized = true;
  }
  return DN_SUCCESS;
}

static cudnn_status stand_in_get(cudnn_descriptor of, int name, int type, int64_t capacity, int64_t *out_n, void *out) {
  static const int32_t notes[ENGINES][2] = {
      [TENSOR_CORES] = {DN_NOTE_TENSOR_CORE, DN_NOTE_DOWN_CONVERT}, [RANDOM] = {DN_NOTE_RANDOM_ORDER}};
  static const int64_t n_notes[ENGINES] = {[TENSOR_CORES] = 2, [RANDOM] = 1};
  static const int32_t compiles = DN_NOTE_COMPILES;
  descriptor *d = of;
  if (told_to_fail(d->world)) return FAILED;
  if (!d->finalized) return NOT_INITIALIZED;
  switch (name) {
    case DN_HEURISTIC_RESULTS: return configure(d, capacity, out_n, out);
    case DN_CONFIG_ENGINE:
      (*(descriptor **)out)->engine = d->engine;
      (*(descriptor **)out)->finalized = true;
      *out_n = 1;
      return DN_SUCCESS;
    case DN_CONFIG_KNOBS:
      (*(descriptor **)out)->finalized = true;
      *out_n = 1;
      return DN_SUCCESS;
    case DN_KNOB_KIND: return give(&(int32_t){KNOB}, 1, 4, capacity, out_n, out);
    case DN_KNOB_VALUE: return give(&(int64_t){KNOB_SETTING}, 1, 8, capacity, out_n, out);
    case DN_ENGINE_NUMERICS: return give(notes[d->engine], n_notes[d->engine], 4, capacity, out_n, out);
    case DN_ENGINE_BEHAVIOUR: return give(&compiles, d->engine == COMPILES, 4, capacity, out_n, out);
    case DN_ENGINE_NUMBER: return give(&(int64_t){d->engine}, 1, 8, capacity, out_n, out);
    case DN_PLAN_WORKSPACE: {
      const descriptor *config = part(d, DN_PLAN_CONFIG);
      const int64_t bytes =
          config->engine == LARGE ? (int64_t)1 << 40 : bytes_of(part(step_of(config->graph, 0), DN_FORWARD_W));
      return give(&bytes, 1, 8, capacity, out_n, out);
    }
    default: return type ? DN_BAD_PARAM : NOT_SUPPORTED;
  }
}

/* ---- handles ---- */

static cudnn_status stand_in_create(cudnn_handle *out_handle) {
  const cu_context context = fake_current();
  if (!context) return NOT_INITIALIZED;
  if (told_to_fail(context->world)) return FAILED;
  cudnn_handle made = mem_calloc(1, sizeof *made);
  if (!made) return FAILED;
  made->world = context->world;
  if (fake_module_load(&made->module, fake_images[0])) {
    mem_free(made);
    return FAILED;
  }
  count(made->world, 1);
  *out_handle = made;
  return DN_SUCCESS;
}

static cudnn_status stand_in_destroy(cudnn_handle handle) {
  count(handle->world, -1);
  (void)fake_module_unload(handle->module);
  mem_free(handle);
  return DN_SUCCESS;
}

static cudnn_status stand_in_set_stream(cudnn_handle handle, cu_stream stream) {
  if (told_to_fail(handle->world)) return FAILED;
  handle->stream = stream;
  return DN_SUCCESS;
}

/* ---- runs ---- */

/* The pointer that the pack gives to the tensor; NULL: none, or not a multiple of the tensor's alignment. */
static void *pointer_of(const descriptor *pack, const descriptor *tensor) {
  const attribute *names = find(pack, DN_PACK_NAMES), *pointers = find(pack, DN_PACK_POINTERS);
  const int64_t name = *(const int64_t *)items(tensor, DN_TENSOR_NAME, DN_OF_INT, 1),
                alignment = *(const int64_t *)items(tensor, DN_TENSOR_ALIGNMENT, DN_OF_INT, 1);
  for (int64_t i = 0; i < names->n && i < pointers->n; i++) {
    void *data = ((void *const *)pointers->items)[i];
    if (((const int64_t *)names->items)[i] == name) return (uintptr_t)data % (uintptr_t)alignment ? NULL : data;
  }
  return NULL;
}

static bool is_virtual(const descriptor *tensor) {
  return *(const bool *)items(tensor, DN_TENSOR_VIRTUAL, DN_OF_BOOL, 1);
}

/* Reads the steps behind the convolution: sums and a relu, each of the result before. The last result is in memory, the
 * others are not. */
static bool read_steps(const descriptor *graph, const descriptor *pack, const descriptor **out_y, conv_args *a) {
  const descriptor *now = part(step_of(graph, 0), DN_FORWARD_Y);
  a->activation = (map_step){.formula = OP_Identity, .from = REED_F32};
  for (int64_t i = 1; step_of(graph, i); i++) {
    const descriptor *step = step_of(graph, i), *added = part(step, DN_STEP_B), *what = part(step, DN_STEP_FORMULA);
    const int32_t formula = *(const int32_t *)items(what, DN_POINTWISE_MODE, DN_OF_FORMULA, 1);
    if (!is_virtual(now) || part(step, DN_STEP_X) != now || (formula != DN_ADD && formula != DN_RELU) ||
        (formula == DN_ADD) != (added != NULL) || a->activation.formula != OP_Identity)
      return false;
    now = part(step, DN_STEP_Y);
    if (formula == DN_RELU) {
      a->activation.formula = OP_Relu;
      continue;
    }
    const int64_t *extents = items(added, DN_TENSOR_EXTENTS, DN_OF_INT, 4);
    const bool is_row = extents[0] == 1 && extents[2] == 1 && extents[3] == 1;
    const void **to = is_row && !a->bias ? &a->bias : &a->residual;
    if (*to || !(*to = pointer_of(pack, added))) return false;
  }
  *out_y = now;
  return !is_virtual(now);
}

static const char *kernel_of(int32_t dtype, bool tensor_cores) {
  if (!tensor_cores) return "reed_conv_f32";
  return dtype == DN_HALF ? "reed_conv_f16" : dtype == DN_BFLOAT16 ? "reed_conv_bf16" : "reed_conv_tf32";
}

/* Describes the convolution to the own kernel. */
static bool read_forward(const descriptor *forward, conv_args *a) {
  const descriptor *conv = part(forward, DN_FORWARD_CONV), *x = part(forward, DN_FORWARD_X),
                   *w = part(forward, DN_FORWARD_W), *y = part(forward, DN_FORWARD_Y);
  const int64_t *x_extents = items(x, DN_TENSOR_EXTENTS, DN_OF_INT, 4),
                *w_extents = items(w, DN_TENSOR_EXTENTS, DN_OF_INT, 4),
                *y_extents = items(y, DN_TENSOR_EXTENTS, DN_OF_INT, 4),
                *x_strides = items(x, DN_TENSOR_STRIDES, DN_OF_INT, 4),
                *y_strides = items(y, DN_TENSOR_STRIDES, DN_OF_INT, 4);
  const int64_t *pad = items(conv, DN_CONV_PAD_BEGIN, DN_OF_INT, 2), *end = items(conv, DN_CONV_PAD_END, DN_OF_INT, 2),
                *stride = items(conv, DN_CONV_STRIDES, DN_OF_INT, 2),
                *dilation = items(conv, DN_CONV_DILATIONS, DN_OF_INT, 2);
  const int32_t dtype = *(const int32_t *)items(x, DN_TENSOR_DTYPE, DN_OF_DTYPE, 1);
  a->axes = 2;
  a->c = w_extents[1];
  a->groups = x_extents[1] / a->c;
  a->m = w_extents[0] / a->groups;
  a->taps = w_extents[2] * w_extents[3];
  a->pixels = y_extents[0] * y_extents[2] * y_extents[3];
  a->tiles_m = (a->pixels + TILE - 1) / TILE;
  a->tiles_n = (a->m + TILE - 1) / TILE;
  a->dtype = dtype == DN_FLOAT ? REED_F32 : dtype == DN_HALF ? REED_F16 : REED_BF16;
  a->x_image = x_strides[0], a->x_channel = x_strides[1];
  a->y_image = y_strides[0], a->y_channel = y_strides[1];
  for (int d = 0; d < 2; d++) {
    a->in[d] = x_extents[2 + d], a->out[d] = y_extents[2 + d], a->kernel[d] = w_extents[2 + d];
    a->stride[d] = stride[d], a->dilation[d] = dilation[d], a->pad[d] = pad[d];
    a->x_axis[d] = x_strides[2 + d], a->y_axis[d] = y_strides[2 + d];
    const int64_t window = (a->kernel[d] - 1) * dilation[d] + 1;
    if (end[d] < 0 || (a->in[d] + pad[d] + end[d] - window) / stride[d] + 1 != a->out[d]) return false;
  }
  return x_extents[0] == y_extents[0] && y_extents[1] == w_extents[0] && a->groups * a->c == x_extents[1];
}

/* The weights go to the workspace, in the order of ONNX; then the own kernel runs. */
static cudnn_status stand_in_execute(cudnn_handle handle, cudnn_descriptor plan_, cudnn_descriptor pack_) {
  const descriptor *plan = plan_, *pack = pack_;
  if (told_to_fail(handle->world)) return FAILED;
  if (!plan->finalized || !pack->finalized || plan->kind != DN_PLAN || pack->kind != DN_PACK) return NOT_INITIALIZED;
  const descriptor *config = part(plan, DN_PLAN_CONFIG), *forward = step_of(config->graph, 0),
                   *w = part(forward, DN_FORWARD_W), *x = part(forward, DN_FORWARD_X), *y = NULL;
  conv_args a = {0};
  void *const *workspace = items(pack, DN_PACK_WORKSPACE, DN_OF_POINTER, 1), *weights = pointer_of(pack, w);
  if (!read_forward(forward, &a) || !read_steps(config->graph, pack, &y, &a)) return DN_BAD_PARAM;
  const int64_t *from = items(w, DN_TENSOR_STRIDES, DN_OF_INT, 4), *extents = items(w, DN_TENSOR_EXTENTS, DN_OF_INT, 4);
  a.x = pointer_of(pack, x);
  a.w = *workspace;
  a.y = pointer_of(pack, y);
  if (!a.x || !a.w || !a.y || !weights) return DN_BAD_PARAM;
  const int64_t taps = extents[2] * extents[3];
  const move_args move = {.x = weights,
                          .y = *workspace,
                          .n = elements(w),
                          .rank = 4,
                          .size = a.dtype == REED_F32 ? 4 : 2,
                          .extents = {extents[0], extents[1], extents[2], extents[3]},
                          .from = {from[0], from[1], from[2], from[3]},
                          .to = {extents[1] * taps, taps, extents[3], 1}};
  const cu_operand moved[] = {{weights, bytes_of(w), false}, {*workspace, bytes_of(w), true}};
  cu_result result = fake_library_launch(handle->module, handle->stream, "reed_move", blocks_for(CUDA_move, move.n), 0,
                                         &move, moved, 2);
  cu_operand operands[5] = {{a.x, bytes_of(x), false}, {a.w, bytes_of(w), false}, {a.y, bytes_of(y), true}};
  size_t n = 3;
  if (a.bias) operands[n++] = (cu_operand){a.bias, a.m * a.groups * (a.dtype == REED_F32 ? 4 : 2), false};
  if (a.residual) operands[n++] = (cu_operand){a.residual, bytes_of(y), false};
  if (!result)
    result = fake_library_launch(
        handle->module, handle->stream,
        kernel_of(*(const int32_t *)items(x, DN_TENSOR_DTYPE, DN_OF_DTYPE, 1), config->engine == TENSOR_CORES),
        a.groups * a.tiles_m * a.tiles_n, config->engine == TENSOR_CORES ? CUDA_SMALL_TILE_BYTES : 0, &a, operands, n);
  n_runs += !result;
  return result ? FAILED : DN_SUCCESS;
}

static size_t stand_in_version(void) { return 91900; }
static void stand_in_last_error(char *out_text, size_t capacity) {
  if (capacity) out_text[0] = 0;
}

reed_status cudnn_find(cudnn_calls *out_calls, reed_diagnosis *diagnosis) {
  (void)diagnosis;
  *out_calls = (cudnn_calls){
#define CUDNN(result, name, symbol, parameters) .name = stand_in_##name,
#include "device/cuda/cudnn/cudnn.def"
  };
  return REED_OK;
}

/* For tests: the number of convolutions that plans have run, and of plans that were made from a known engine. */
REED_API void reed_fake_cudnn_counts(int64_t *out_runs, int64_t *out_known);
void reed_fake_cudnn_counts(int64_t *out_runs, int64_t *out_known) {
  *out_runs = n_runs;
  *out_known = n_known;
}
