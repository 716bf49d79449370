/* Plans of convolutions: the graph of operations is described to cuDNN, its heuristics name engines, and the first
 * engine that is compiled already, exact enough and content with the workspace becomes the plan. Source: NVIDIA, "cuDNN
 * backend API" (operation graphs, engine heuristics, execution plans). */
#include <string.h>

#include "device/cuda/cudnn/cudnn.h"

/* A plan while it is made. */
typedef struct maker {
  const cudnn_calls *calls;
  const cudnn_convolution *conv;
  cudnn_descriptor card;
  cudnn_plan plan;
  cudnn_status failed; /* the first error */
} maker;

static reed_status say(const cudnn_calls *calls, cudnn_status failed, const char *what, reed_diagnosis *diagnosis) {
  char text[512] = "";
  calls->last_error(text, sizeof text);
  return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN: %s (status %d) %s", what, failed, text);
}

/* ---- descriptors ---- */

static cudnn_descriptor make(maker *m, int kind) {
  cudnn_descriptor made = NULL;
  if (!m->failed && m->plan.n_made == CUDNN_MOST_DESCRIPTORS) m->failed = DN_BAD_PARAM;
  if (!m->failed) m->failed = m->calls->make(kind, &made);
  if (!m->failed) m->plan.made[m->plan.n_made++] = made;
  return made;
}

static void set(maker *m, cudnn_descriptor of, int attribute, int type, int64_t n, const void *items) {
  if (!m->failed) m->failed = m->calls->set(of, attribute, type, n, items);
}

static void set_descriptor(maker *m, cudnn_descriptor of, int attribute, cudnn_descriptor value) {
  set(m, of, attribute, DN_OF_DESCRIPTOR, 1, &value);
}

static void finalize(maker *m, cudnn_descriptor of) {
  if (!m->failed) m->failed = m->calls->finalize(of);
}

/* A tensor with the extents of ONNX, whose channels come last in memory. Virtual tensors, between two operations, hold
 * sums of f32. */
static cudnn_descriptor tensor(maker *m, int64_t name, const int64_t extents[4], bool is_virtual) {
  const int64_t strides[4] = {extents[1] * extents[2] * extents[3], 1, extents[3] * extents[1], extents[1]},
                alignment = 16;
  const int32_t dtype = is_virtual ? DN_FLOAT : m->conv->dtype;
  cudnn_descriptor made = make(m, DN_TENSOR);
  set(m, made, DN_TENSOR_DTYPE, DN_OF_DTYPE, 1, &dtype);
  set(m, made, DN_TENSOR_EXTENTS, DN_OF_INT, 4, extents);
  set(m, made, DN_TENSOR_STRIDES, DN_OF_INT, 4, strides);
  set(m, made, DN_TENSOR_NAME, DN_OF_INT, 1, &name);
  set(m, made, DN_TENSOR_ALIGNMENT, DN_OF_INT, 1, &alignment);
  set(m, made, DN_TENSOR_VIRTUAL, DN_OF_BOOL, 1, &is_virtual);
  finalize(m, made);
  return made;
}

/* ---- the graph ---- */

static cudnn_descriptor convolution(maker *m, cudnn_descriptor x, cudnn_descriptor w, cudnn_descriptor y) {
  const cudnn_convolution *c = m->conv;
  const int32_t sums = DN_FLOAT, mode = DN_CROSS_CORRELATION;
  const int64_t axes = 2;
  const float one = 1, zero = 0;
  int64_t pad_end[2]; /* so much that all outputs have a window; more would change nothing */
  for (int d = 0; d < 2; d++) {
    pad_end[d] = (c->out[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1 - c->in[d] - c->pad[d];
    if (pad_end[d] < 0) pad_end[d] = 0;
  }
  cudnn_descriptor conv = make(m, DN_CONV);
  set(m, conv, DN_CONV_AXES, DN_OF_INT, 1, &axes);
  set(m, conv, DN_CONV_PRECISION, DN_OF_DTYPE, 1, &sums);
  set(m, conv, DN_CONV_MODE, DN_OF_CONV_MODE, 1, &mode);
  set(m, conv, DN_CONV_PAD_BEGIN, DN_OF_INT, 2, c->pad);
  set(m, conv, DN_CONV_PAD_END, DN_OF_INT, 2, pad_end);
  set(m, conv, DN_CONV_DILATIONS, DN_OF_INT, 2, c->dilation);
  set(m, conv, DN_CONV_STRIDES, DN_OF_INT, 2, c->stride);
  finalize(m, conv);
  cudnn_descriptor forward = make(m, DN_FORWARD);
  set_descriptor(m, forward, DN_FORWARD_X, x);
  set_descriptor(m, forward, DN_FORWARD_W, w);
  set_descriptor(m, forward, DN_FORWARD_Y, y);
  set_descriptor(m, forward, DN_FORWARD_CONV, conv);
  set(m, forward, DN_FORWARD_ALPHA, DN_OF_FLOAT, 1, &one);
  set(m, forward, DN_FORWARD_BETA, DN_OF_FLOAT, 1, &zero);
  finalize(m, forward);
  return forward;
}

/* y = x + b, or y = relu(x) if b is NULL. */
static cudnn_descriptor step(maker *m, cudnn_descriptor x, cudnn_descriptor b, cudnn_descriptor y) {
  const int32_t formula = b ? DN_ADD : DN_RELU, precision = DN_FLOAT;
  cudnn_descriptor what = make(m, DN_FORMULA);
  set(m, what, DN_POINTWISE_MODE, DN_OF_FORMULA, 1, &formula);
  set(m, what, DN_POINTWISE_PRECISION, DN_OF_DTYPE, 1, &precision);
  finalize(m, what);
  cudnn_descriptor made = make(m, DN_STEP);
  set_descriptor(m, made, DN_STEP_FORMULA, what);
  set_descriptor(m, made, DN_STEP_X, x);
  if (b) set_descriptor(m, made, DN_STEP_B, b);
  set_descriptor(m, made, DN_STEP_Y, y);
  finalize(m, made);
  return made;
}

/* conv, + residual, + bias, relu: the order of operations that cuDNN's compiled engines know. */
static cudnn_descriptor graph(maker *m) {
  const cudnn_convolution *c = m->conv;
  const int64_t x_extents[4] = {c->images, c->channels, c->in[0], c->in[1]},
                w_extents[4] = {c->outputs, c->channels / c->groups, c->kernel[0], c->kernel[1]},
                y_extents[4] = {c->images, c->outputs, c->out[0], c->out[1]}, bias_extents[4] = {1, c->outputs, 1, 1};
  int left = c->bias + c->residual + c->relu;
  int64_t virtual_name = CUDNN_Y + 1, n = 0;
  cudnn_descriptor steps[4];
#define RESULT() (left ? tensor(m, virtual_name++, y_extents, true) : tensor(m, CUDNN_Y, y_extents, false))
  cudnn_descriptor now = RESULT();
  steps[n++] = convolution(m, tensor(m, CUDNN_X, x_extents, false), tensor(m, CUDNN_W, w_extents, false), now);
  const struct {
    bool wanted;
    int64_t name;
    const int64_t *extents;
  } later[] = {{c->residual, CUDNN_RESIDUAL, y_extents}, {c->bias, CUDNN_BIAS, bias_extents}, {c->relu, 0, NULL}};
  for (int i = 0; i < 3; i++) {
    if (!later[i].wanted) continue;
    left--;
    cudnn_descriptor added = later[i].name ? tensor(m, later[i].name, later[i].extents, false) : NULL, y = RESULT();
    steps[n++] = step(m, now, added, y);
    now = y;
  }
#undef RESULT
  cudnn_descriptor made = make(m, DN_GRAPH);
  set(m, made, DN_GRAPH_STEPS, DN_OF_DESCRIPTOR, n, steps);
  finalize(m, made);
  return made;
}

/* ---- engines ---- */

enum { MOST_NOTES = 32, MOST_CONFIGS = 24 };

/* True if the engine's list of notes has one of them, or cannot be read. */
static bool has_note(maker *m, cudnn_descriptor engine, int attribute, int type, const int32_t *unwanted, int n) {
  int32_t notes[MOST_NOTES];
  int64_t n_notes = 0;
  if (m->calls->get(engine, attribute, type, MOST_NOTES, &n_notes, notes)) return true;
  for (int64_t i = 0; i < n_notes && i < MOST_NOTES; i++)
    for (int k = 0; k < n; k++)
      if (notes[i] == unwanted[k]) return true;
  return false;
}

/* True if the engine is compiled already, and as exact as the convolution asks: the sums have a fixed order and are of
 * f32, and without tensor_cores so are the products. */
static bool fits(maker *m, cudnn_descriptor engine) {
  static const int32_t compiles[] = {DN_NOTE_COMPILES},
                       inexact[] = {DN_NOTE_RANDOM_ORDER, DN_NOTE_REDUCED_SUMS, DN_NOTE_WINOGRAD_13,
                                    DN_NOTE_TENSOR_CORE, DN_NOTE_DOWN_CONVERT};
  return !has_note(m, engine, DN_ENGINE_BEHAVIOUR, DN_OF_BEHAVIOUR, compiles, 1) &&
         !has_note(m, engine, DN_ENGINE_NUMERICS, DN_OF_NUMERICS, inexact, m->conv->tensor_cores ? 3 : 5);
}

/* Makes a plan of the configuration. False: it is none, or its workspace is too large. */
static bool finish(maker *m, cudnn_descriptor config, int64_t most_workspace_bytes) {
  cudnn_descriptor plan = NULL;
  int64_t n = 0;
  if (m->calls->make(DN_PLAN, &plan)) return false;
  const bool good = !m->calls->set(plan, DN_PLAN_CONFIG, DN_OF_DESCRIPTOR, 1, &config) &&
                    !m->calls->set(plan, DN_PLAN_CARD, DN_OF_DESCRIPTOR, 1, &m->card) && !m->calls->finalize(plan) &&
                    !m->calls->get(plan, DN_PLAN_WORKSPACE, DN_OF_INT, 1, &n, &m->plan.workspace_bytes) &&
                    m->plan.workspace_bytes <= most_workspace_bytes;
  if (good) m->plan.plan = plan;
  else (void)m->calls->drop(plan);
  return good;
}

/* Notes the configuration's settings. */
static void read_knobs(maker *m, cudnn_descriptor config) {
  cudnn_descriptor all[CUDNN_MOST_KNOBS] = {NULL};
  cudnn_engine *e = &m->plan.engine;
  int64_t n = 0, got;
  bool known = true;
  for (int i = 0; i < CUDNN_MOST_KNOBS && known; i++) known = !m->calls->make(DN_KNOB, &all[i]);
  known = known && !m->calls->get(config, DN_CONFIG_KNOBS, DN_OF_DESCRIPTOR, CUDNN_MOST_KNOBS, &n, all) &&
          n <= CUDNN_MOST_KNOBS;
  for (int64_t i = 0; i < n && known; i++)
    known = !m->calls->get(all[i], DN_KNOB_KIND, DN_OF_KNOB, 1, &got, &e->knobs[i]) &&
            !m->calls->get(all[i], DN_KNOB_VALUE, DN_OF_INT, 1, &got, &e->values[i]);
  e->n_knobs = known ? (int32_t)n : -1;
  for (int i = 0; i < CUDNN_MOST_KNOBS; i++)
    if (all[i]) (void)m->calls->drop(all[i]);
}

/* Tries a configuration of the heuristics. False: another one is tried. */
static bool try_config(maker *m, cudnn_descriptor config, int64_t most_workspace_bytes) {
  cudnn_descriptor engine = NULL;
  int64_t n = 0;
  if (m->calls->make(DN_ENGINE, &engine)) return false;
  const bool good = !m->calls->get(config, DN_CONFIG_ENGINE, DN_OF_DESCRIPTOR, 1, &n, &engine) && fits(m, engine) &&
                    !m->calls->get(engine, DN_ENGINE_NUMBER, DN_OF_INT, 1, &n, &m->plan.engine.number) &&
                    finish(m, config, most_workspace_bytes);
  (void)m->calls->drop(engine);
  if (good) read_knobs(m, config);
  return good;
}

/* Tries an engine that has done for other extents. False: the heuristics are asked. */
static bool try_known(maker *m, cudnn_descriptor of, const cudnn_engine *known, int64_t most_workspace_bytes) {
  cudnn_descriptor knobs[CUDNN_MOST_KNOBS], engine, config;
  if (!known || known->n_knobs < 0) return false;
  engine = make(m, DN_ENGINE);
  set_descriptor(m, engine, DN_ENGINE_GRAPH, of);
  set(m, engine, DN_ENGINE_NUMBER, DN_OF_INT, 1, &known->number);
  set_descriptor(m, engine, DN_ENGINE_CARD, m->card);
  finalize(m, engine);
  for (int32_t i = 0; i < known->n_knobs; i++) {
    knobs[i] = make(m, DN_KNOB);
    set(m, knobs[i], DN_KNOB_KIND, DN_OF_KNOB, 1, &known->knobs[i]);
    set(m, knobs[i], DN_KNOB_VALUE, DN_OF_INT, 1, &known->values[i]);
    finalize(m, knobs[i]);
  }
  config = make(m, DN_CONFIG);
  set_descriptor(m, config, DN_CONFIG_ENGINE, engine);
  if (known->n_knobs) set(m, config, DN_CONFIG_KNOBS, DN_OF_DESCRIPTOR, known->n_knobs, knobs);
  finalize(m, config);
  const bool good = !m->failed && finish(m, config, most_workspace_bytes);
  m->failed = DN_SUCCESS;
  if (good) m->plan.engine = *known;
  return good;
}

/* Asks for one configuration first, because each one takes time; for the others only if it does not do. */
static bool choose(maker *m, cudnn_descriptor of, int32_t mode, int64_t most_workspace_bytes) {
  cudnn_descriptor configs[MOST_CONFIGS] = {NULL}, heuristic = make(m, DN_HEURISTIC);
  if (m->plan.n_made == CUDNN_MOST_DESCRIPTORS) m->failed = DN_BAD_PARAM; /* one more for the configuration */
  set_descriptor(m, heuristic, DN_HEURISTIC_GRAPH, of);
  set(m, heuristic, DN_HEURISTIC_MODE, DN_OF_HEURISTIC, 1, &mode);
  set_descriptor(m, heuristic, DN_HEURISTIC_CARD, m->card);
  if (m->failed || m->calls->finalize(heuristic)) return false; /* another mode may know engines */
  bool found = false;
  int64_t tried = 0;
  for (int64_t wanted = 1; wanted <= MOST_CONFIGS && !found; wanted += MOST_CONFIGS - 1) {
    int64_t got = 0;
    for (int64_t i = tried; i < wanted && !m->failed; i++) m->failed = m->calls->make(DN_CONFIG, &configs[i]);
    if (m->failed || m->calls->get(heuristic, DN_HEURISTIC_RESULTS, DN_OF_DESCRIPTOR, wanted, &got, configs)) break;
    for (; tried < got && tried < wanted && !found; tried++)
      found = try_config(m, configs[tried], most_workspace_bytes);
    if (got < wanted) break;
  }
  for (int i = 0; i < MOST_CONFIGS; i++) {
    if (!configs[i]) continue;
    if (found && i == tried - 1) m->plan.made[m->plan.n_made++] = configs[i]; /* the plan's */
    else (void)m->calls->drop(configs[i]);
  }
  return found;
}

reed_status cudnn_plan_open(const cudnn_calls *calls, cudnn_descriptor card, const cudnn_convolution *conv,
                            int64_t most_workspace_bytes, const cudnn_engine *known, cudnn_plan *out_plan,
                            reed_diagnosis *diagnosis) {
  maker m = {.calls = calls, .conv = conv, .card = card};
  cudnn_descriptor of = graph(&m);
  if (m.failed) {
    const reed_status status = say(calls, m.failed, "a convolution cannot be described", diagnosis);
    cudnn_plan_close(calls, &m.plan);
    return status;
  }
  if (!try_known(&m, of, known, most_workspace_bytes) && !choose(&m, of, DN_BY_MODEL, most_workspace_bytes) &&
      !choose(&m, of, DN_BY_FALLBACK, most_workspace_bytes)) {
    cudnn_plan_close(calls, &m.plan);
    return diag_fail(diagnosis, REED_ERROR_UNSUPPORTED, "cuDNN has no compiled engine for the convolution");
  }
  *out_plan = m.plan;
  return REED_OK;
}

void cudnn_plan_close(const cudnn_calls *calls, cudnn_plan *plan) {
  if (plan->plan) (void)calls->drop(plan->plan);
  for (int32_t i = plan->n_made; i-- > 0;) (void)calls->drop(plan->made[i]);
  *plan = (cudnn_plan){0};
}

/* ---- the card ---- */

reed_status cudnn_card_open(const cudnn_calls *calls, cudnn_handle handle, const char *json, cudnn_descriptor *out_card,
                            reed_diagnosis *diagnosis) {
  cudnn_descriptor made = NULL;
  cudnn_status failed = calls->make(DN_CARD, &made);
  if (!failed && handle) failed = calls->set(made, DN_CARD_HANDLE, DN_OF_HANDLE, 1, &handle);
  else if (!failed) failed = calls->set(made, DN_CARD_JSON, DN_OF_CHAR, (int64_t)strlen(json) + 1, json);
  if (!failed) failed = calls->finalize(made);
  if (!failed) {
    *out_card = made;
    return REED_OK;
  }
  const reed_status status = say(calls, failed, "the card cannot be described", diagnosis);
  if (made) (void)calls->drop(made);
  return status;
}

/* ---- runs ---- */

reed_status cudnn_plan_run(const cudnn_calls *calls, cudnn_handle handle, const cudnn_plan *plan, const void *x,
                           const void *w, const void *bias, const void *residual, void *y, void *workspace,
                           reed_diagnosis *diagnosis) {
  const void *const all[] = {x, w, bias, residual, y}, *pointers[5];
  int64_t names[5], n = 0;
  for (int64_t i = 0; i < 5; i++) {
    if (!all[i]) continue;
    names[n] = CUDNN_X + i;
    pointers[n++] = all[i];
  }
  cudnn_descriptor pack = NULL;
  cudnn_status failed = calls->make(DN_PACK, &pack);
  if (!failed) failed = calls->set(pack, DN_PACK_NAMES, DN_OF_INT, n, names);
  if (!failed) failed = calls->set(pack, DN_PACK_POINTERS, DN_OF_POINTER, n, pointers);
  if (!failed) failed = calls->set(pack, DN_PACK_WORKSPACE, DN_OF_POINTER, 1, &workspace);
  if (!failed) failed = calls->finalize(pack);
  if (!failed) failed = calls->execute(handle, plan->plan, pack);
  const reed_status status = failed ? say(calls, failed, "a convolution cannot be enqueued", diagnosis) : REED_OK;
  if (pack) (void)calls->drop(pack);
  return status;
}
