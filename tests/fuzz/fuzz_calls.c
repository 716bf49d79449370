/* Operator calls: any operator with any dtypes, extents, values and attributes that the loader and the run let through.
 * A call goes the way of a run: check against the table, shape function, prepare, run. Each operand has a block of
 * exactly its size, so that the sanitizers see a byte too far. The input is a stream of choices, so every input is a
 * call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/desc.h"
#include "base/diag.h"
#include "ops/call.h"
#include "ops/fault.h"
#include "ops/packed.h"
#include "shapefuncs/shapefn.h"
#include "tests/fuzz/fuzz.h"

const fuzz_target fuzz_this = {"calls", FUZZ_BYTES};

#define INPUTS_MOST 8
#define VARIADIC_MOST 6
#define OUTPUTS_MOST 4
#define ATTRS_MOST 16
#define ELEMENTS_MOST 4096
#define BYTES_MOST ((int64_t)4 << 20)

typedef struct block {
  void *at;
  size_t n;
} block;

typedef struct call {
  block blocks[INPUTS_MOST + OUTPUTS_MOST + 2]; /* workspace and packed weights besides */
  int n_blocks;
  fuzz_choices choices;
  const reed_op *op;
  int32_t n_inputs, n_outputs;
  reed_desc inputs[INPUTS_MOST], outputs[OUTPUTS_MOST];
  void *data[INPUTS_MOST], *results[OUTPUTS_MOST];
  reed_shape_output shapes[OUTPUTS_MOST];
  reed_attr attrs[ATTRS_MOST];
  int64_t ints[ATTRS_MOST][12];
  double floats[ATTRS_MOST][12];
  uint8_t elements[ATTRS_MOST][64];
  bool constant[INPUTS_MOST];
  const char *words; /* the unread words of a row of `fitting` */
  int64_t letters[26];
} call;

/* A 64-byte aligned block that ends where its data ends. AddressSanitizer notices an access one byte too far. Without
 * it closed pages before and after the block stop any code, also uninstrumented code, within 64 bytes of the end.
 * Released with the call. */
#ifdef __SANITIZE_ADDRESS__
static void *exact(call *k, int64_t bytes) {
  void *data = NULL;
  if (posix_memalign(&data, 64, bytes > 0 ? (size_t)bytes : 1) != 0) abort();
  return k->blocks[k->n_blocks++].at = data;
}

static void release(block *b) { free(b->at); }
#else
#define PAGE ((size_t)4096)
static void *exact(call *k, int64_t bytes) {
  size_t n = bytes > 0 ? ((size_t)bytes + 63) / 64 * 64 : 64, open = (n + PAGE - 1) / PAGE * PAGE;
  char *pages = mmap(NULL, open + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + PAGE, open, PROT_READ | PROT_WRITE) != 0) abort();
  k->blocks[k->n_blocks++] = (block){pages, open + 2 * PAGE};
  return pages + PAGE + open - n;
}

static void release(block *b) { (void)munmap(b->at, b->n); }
#endif

static int64_t some_extent(fuzz_choices *c) {
  static const int64_t extents[] = {1, 2, 3, 4, 5, 8, 16, 17, 33, 1, 2, 3, 0, 7, 1, 64};
  return extents[fuzz_pick(c, 16)];
}

static double some_double(fuzz_choices *c, bool floating) {
  if (!floating) return (double)fuzz_number(c);
  static const double special[] = {0,     1,     -1,           0.5,    INFINITY, -INFINITY, NAN, 1e30,
                                   -1e30, 1e-40, 2147483648.0, 9.3e18, 1e300,    -0.0,      2,   3};
  return fuzz_pick(c, 3) ? (double)fuzz_pick(c, 200) / 16 - 4 : special[fuzz_pick(c, 16)];
}

static bool is_float(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

/* The first elements are chosen, the rest repeats them. */
static void fill(fuzz_choices *c, const reed_desc *desc, void *data) {
  int64_t n = desc_elements(desc);
  size_t bytes = reed_dtype_bytes(desc->dtype);
  bool small = fuzz_pick(c, 2);
  for (int64_t i = 0; i < n; i++) {
    char *at = (char *)data + (size_t)i * bytes;
    if (i >= 32) {
      memcpy(at, at - 31 * bytes, bytes);
    } else if (desc->dtype == REED_I64) {
      int64_t value = small ? (int64_t)fuzz_pick(c, 6) - (int64_t)fuzz_pick(c, 2) : fuzz_number(c);
      memcpy(at, &value, 8);
    } else {
      reed_dtype_write(desc->dtype, at,
                       small && !is_float(desc->dtype) ? (double)fuzz_pick(c, 5)
                                                       : some_double(c, is_float(desc->dtype)));
      if (desc->dtype == REED_BOOL) *at = *at != 0;
    }
  }
}

static reed_dtype some_dtype(fuzz_choices *c, const reed_op_input *declared, reed_dtype first) {
  if (declared->same_type && first != REED_NONE) return first;
  uint64_t start = fuzz_pick(c, 4) ? 0 : fuzz_pick(c, REED_DTYPE_COUNT); /* mostly the first, f32 */
  for (uint64_t i = 0; i < REED_DTYPE_COUNT; i++) {
    reed_dtype dtype = (reed_dtype)((start + i) % REED_DTYPE_COUNT);
    if (declared->dtypes & 1u << dtype) return dtype;
  }
  return REED_F32;
}

/* Extents that go together: a word per input, a letter per axis; the same letter is the same extent, a digit itself,
 * '.' rank 0. Without them few calls of these operators would pass their shape function. */
static const struct {
  const char *op, *words;
} fitting[] = {{"Conv", "nchw oclk o nohw"},
               {"Conv", "nch ock o"},
               {"Conv", "nchwd ockkk o"},
               {"Conv", "n1hw o1lk o"},
               {"ConvTranspose", "nchw colk o"},
               {"ConvTranspose", "nch cok o"},
               {"AveragePool", "nchw"},
               {"MaxPool", "nchw"},
               {"AveragePool", "nch"},
               {"MaxPool", "nchwd"},
               {"BatchNormalization", "nchw c c c c"},
               {"BatchNormalization", "nc c c c c"},
               {"InstanceNormalization", "nchw c c"},
               {"LayerNormalization", "nhw w w"},
               {"LayerNormalization", "nhw hw hw"},
               {"NonMaxSuppression", "nm4 ncm 1 1 1"},
               {"NonMaxSuppression", "nm4 ncm . . ."},
               {"NonMaxSuppression", "nm4 ncm 1 1 1 nm nm"},
               {"GridSample", "nchw nop2"},
               {"GridSample", "ncw nk1"},
               {"RoiAlign", "nchw r4 r"},
               {"MultiLevelRoiAlign", "r4 r r nchw"},
               {"MaxRoiPool", "nchw r5"},
               {"roi_align", "nchw r5"},
               {"roi_align", "chw r4"},
               {"roi_align_backward", "rc11 r5 4"},
               {"roi_pool", "nchw r5"},
               {"roi_pool_backward", "rc11 r4 rc11 3"},
               {"ps_roi_align", "nchw r5"},
               {"ps_roi_align_backward", "rc11 r5 4"},
               {"ps_roi_pool", "chw r4"},
               {"ps_roi_pool_backward", "rc11 r5 4"},
               {"nms", "n4 n n"},
               {"DeformConv", "nchw oc11 n2hw o n1hw"},
               {"deform_conv2d", "chw oc11 2hw 1hw o"},
               {"deform_conv2d_backward", "nohw nchw oc11 n2hw n1hw"},
               {"Col2Im", "ncw 1 1"},
               {"Col2Im", "n4w 2 2"},
               {"Attention", "nhqd nhkd nhkv"},
               {"Attention", "nhqd n1kd n1kv qk"},
               {"Attention", "nhqd nhkd nhkv . nhpd nhpv"},
               {"RotaryEmbedding", "nhp8 np4 np4"},
               {"RotaryEmbedding", "nhp8 k8 k8 np"},
               {"TensorScatter", "nhkd nh1d n"},
               {"PasteMasks", "n1hw n4 1 1"},
               {"Keypoints", "nchw n n n n n n"},
               {"DepthToSpace", "n4hw"},
               {"SpaceToDepth", "nc48"},
               {"MatMul", "mk kn n"},
               {"MatMul", "bmk bkn"},
               {"MatMul", "abmk bkn n"},
               {"Gemm", "mk kn n"},
               {"Gemm", "km kn mn"},
               {"GatherElements", "hw hw"},
               {"ScatterElements", "hw rw rw"},
               {"ScatterND", "hw r1 rw"},
               {"GatherND", "hwc r2"},
               {"TopK", "hw 1"},
               {"Compress", "hw h"},
               {"Unique", "hw"},
               {"CumSum", "hw ."},
               {"Pad", "nchw 8 ."},
               {"Pad", "hw 4 1"},
               {"Pad", "hwc 2 . 1"},
               {"Resize", "nchw 0 4"},
               {"Resize", "nchw 0 0 4"},
               {"Resize", "nchw 8 4"},
               {"Resize", "hw 0 0 2"},
               {"Upsample", "nchw 0 4"},
               {"Concat", "hw cw nw"},
               {"Split", "hw 2"},
               {"Slice", "hwc 2 2 2 2"},
               {"Slice", "hwc 3 3"},
               {"Expand", "h1 2"},
               {"Where", "hw hw hw"},
               {"Where", "hw 1w h1"},
               {"Clip", "hw . ."},
               {"Tile", "hw 2"},
               {"RNN", "tni 1hi 1hh"},
               {"RNN", "tni 24i 244 28 n 2n4"},
               {"RNN", "tni 14i 144 18 n 1n4"},
               {"GRU", "tni 13i 131 16 n 1n1"},
               {"GRU", "tni 29i 293 h n 2n3"},
               {"GRU", "tni 16i 162 h n 1n2"},
               {"LSTM", "tni 14i 141 18 n 1n1 1n1 13"},
               {"LSTM", "tni 28i 282 h n 2n2 2n2 26"},
               {"LSTM", "nti 14i 141 18 n n11 n11 13"}};

/* FNV-1a, folded to 16 bits. */
static uint64_t name_hash(const char *name) {
  uint32_t h = 2166136261u;
  for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
  return (h ^ h >> 16) & 65535;
}

/* The operator whose name's hash comes next: an input goes on meaning the same operator when others are added. */
static const reed_op *some_op(fuzz_choices *c) {
  uint64_t chosen = fuzz_bytes(c, 2), least = 65536;
  const reed_op *found = op_builtin((op_id)0);
  for (int i = 0; i < OP_COUNT; i++) {
    uint64_t distance = (name_hash(op_builtin((op_id)i)->name) - chosen) & 65535;
    if (distance < least) least = distance, found = op_builtin((op_id)i);
  }
  return found;
}

/* Operators that are hard to call get more. */
void fuzz_seeds(fuzz_corpus *corpus) {
  uint64_t state = 1;
  for (int op = 0; op < OP_COUNT; op++) {
    bool hard = false;
    for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++)
      hard |= strcmp(fitting[i].op, op_builtin((op_id)op)->name) == 0;
    for (int k = 0; k < (hard ? 40 : 8); k++) {
      uint8_t bytes[400];
      for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        bytes[i] = (uint8_t)(state >> 56);
      }
      uint64_t h = name_hash(op_builtin((op_id)op)->name);
      bytes[0] = (uint8_t)h, bytes[1] = (uint8_t)(h >> 8);
      fuzz_seed(corpus, bytes, sizeof bytes, sizeof bytes);
    }
  }
}

static void fit(call *k) {
  size_t first = 0, n = 0;
  for (size_t i = 0; i < sizeof fitting / sizeof *fitting; i++)
    if (strcmp(fitting[i].op, k->op->name) == 0 && n++ == 0) first = i;
  k->words = NULL;
  uint64_t which = fuzz_pick(&k->choices, 16);
  for (size_t i = first; n && which && i < sizeof fitting / sizeof *fitting; i++)
    if (strcmp(fitting[i].op, k->op->name) == 0 && (!k->words || which % n-- == 0)) k->words = fitting[i].words;
  for (int i = 0; i < 26; i++) k->letters[i] = some_extent(&k->choices);
}

/* Takes the next word; false: there is none. */
static bool fit_input(call *k, reed_desc *desc) {
  if (!k->words || !*k->words) return false;
  for (; *k->words && *k->words != ' '; k->words++)
    if (*k->words != '.' && desc->rank < REED_MAX_RANK)
      desc->dims[desc->rank++] = *k->words <= '9' ? *k->words - '0' : k->letters[*k->words - 'a'];
  while (*k->words == ' ') k->words++;
  return true;
}

/* False: too many elements to be worth a try. */
static bool make_input(call *k, int32_t i) {
  fuzz_choices *c = &k->choices;
  const reed_op_input *declared = reed_op_input_at(k->op, i);
  reed_desc *desc = &k->inputs[i];
  *desc = (reed_desc){.dtype = REED_NONE};
  reed_desc fitted = {0};
  bool fits = fit_input(k, &fitted);
  if (!declared || (declared->optional && fuzz_pick(c, 3) == 0)) return true;
  desc->dtype = some_dtype(c, declared, k->inputs[0].dtype);
  /* an input whose flag depends on an attribute gets values whatever the attribute says */
  bool value = declared->reads & REED_READS_VALUE;
  if (fits && fuzz_pick(c, 32)) {
    desc->rank = fitted.rank;
    memcpy(desc->dims, fitted.dims, sizeof desc->dims);
  } else if (i > 0 && !value && k->inputs[0].dtype != REED_NONE && fuzz_pick(c, 3) == 0) { /* like input 0 */
    desc->rank = k->inputs[0].rank;
    memcpy(desc->dims, k->inputs[0].dims, sizeof desc->dims);
  } else {
    desc->rank = value ? (int32_t)(fuzz_pick(c, 8) ? 1 : fuzz_pick(c, 3))
                       : (int32_t)(fuzz_pick(c, 16) ? fuzz_pick(c, 6) : fuzz_pick(c, REED_MAX_RANK + 1));
    for (int32_t a = 0; a < desc->rank; a++)
      desc->dims[a] = value && fuzz_pick(c, 2) ? k->inputs[0].rank : some_extent(c);
    if (desc->rank > 1 && fuzz_pick(c, 32) == 0) { /* a tensor without elements, however large its other extents */
      desc->dims[0] = fuzz_pick(c, 2) ? (int64_t)1 << fuzz_pick(c, 60) : 0;
      desc->dims[1] = desc->dims[0] ? 0 : (int64_t)1 << fuzz_pick(c, 60);
    }
  }
  int64_t n = desc_elements(desc);
  if (n < 0 || n > ELEMENTS_MOST || desc_bytes(desc) < 0) return false;
  k->data[i] = exact(k, desc_bytes(desc));
  fill(c, desc, k->data[i]);
  k->constant[i] = fuzz_pick(c, 2);
  return true;
}

/* An index into make_attr's words, mostly of a word that is valid for the attribute. */
static uint64_t some_word(fuzz_choices *c, const char *attribute) {
  static const struct {
    const char *attribute;
    uint8_t first, n;
  } known[] = {
      {"auto_pad", 1, 4},      {"mode", 5, 9},        {"reduction", 14, 5}, {"coordinate_transformation_mode", 20, 5},
      {"nearest_mode", 25, 4}, {"activation", 29, 6}, {"direction", 42, 3}, {"activations", 45, 5}};
  for (size_t i = 0; i < sizeof known / sizeof *known && fuzz_pick(c, 8); i++)
    if (strcmp(known[i].attribute, attribute) == 0) return known[i].first + fuzz_pick(c, known[i].n);
  return fuzz_pick(c, 42);
}

static void make_attr(call *k, const reed_op_attr *declared, int32_t i) {
  static const char *const words[] = {"",
                                      "NOTSET",
                                      "SAME_UPPER",
                                      "SAME_LOWER",
                                      "VALID",
                                      "linear",
                                      "nearest",
                                      "cubic",
                                      "constant",
                                      "reflect",
                                      "edge",
                                      "wrap",
                                      "DCR",
                                      "CRD",
                                      "none",
                                      "add",
                                      "mul",
                                      "max",
                                      "min",
                                      "avg",
                                      "asymmetric",
                                      "align_corners",
                                      "half_pixel",
                                      "pytorch_half_pixel",
                                      "tf_crop_and_resize",
                                      "floor",
                                      "ceil",
                                      "round_prefer_floor",
                                      "round_prefer_ceil",
                                      "relu",
                                      "sigmoid",
                                      "tanh",
                                      "leaky_relu",
                                      "clip",
                                      "hardswish",
                                      "output_half_pixel",
                                      "half_pixel_symmetric",
                                      "stretch",
                                      "not_larger",
                                      "not_smaller",
                                      "%s%n",
                                      "RELU",
                                      "forward",
                                      "reverse",
                                      "bidirectional",
                                      "Relu",
                                      "Tanh,Affine",
                                      "Elu,HardSigmoid,Softplus",
                                      "ScaledTanh,Softsign,Sigmoid,Tanh",
                                      "Tanh,Tanh,Tanh,LeakyRelu,ThresholdedRelu,Relu"};
  fuzz_choices *c = &k->choices;
  reed_attr *a = &k->attrs[i];
  *a = (reed_attr){.name = declared->name, .type = declared->type};
  switch (declared->type) {
    case REED_ATTR_INT: a->i = fuzz_pick(c, 2) ? (int64_t)fuzz_pick(c, 3) : fuzz_number(c); break;
    case REED_ATTR_FLOAT: a->f = some_double(c, true); break;
    case REED_ATTR_STRING: a->s = words[some_word(c, declared->name)]; break;
    case REED_ATTR_INTS:
      a->n = fuzz_pick(c, 16)
                 ? (int64_t)(k->inputs[0].rank > 2 ? k->inputs[0].rank - 2 : 2) * (strcmp(a->name, "pads") == 0 ? 2 : 1)
                 : (int64_t)fuzz_pick(c, 12);
      if (strcmp(a->name, "perm") == 0 && fuzz_pick(c, 8)) a->n = k->inputs[0].rank;
      if (a->n > 12) a->n = 12;
      bool tame = fuzz_pick(c, 4), weights = strcmp(a->name, "kernel_shape") == 0 && k->n_inputs > 1 && fuzz_pick(c, 8);
      for (int64_t j = 0; j < a->n; j++) {
        k->ints[i][j] = tame ? (int64_t)fuzz_pick(c, 3) + (a->name[0] != 'p' && a->name[0] != 'o') : fuzz_number(c);
        if (weights && j + 2 < k->inputs[1].rank) k->ints[i][j] = k->inputs[1].dims[j + 2];
      }
      a->ints = k->ints[i];
      break;
    case REED_ATTR_FLOATS:
      a->n = (int64_t)fuzz_pick(c, 12);
      for (int64_t j = 0; j < a->n; j++) k->floats[i][j] = some_double(c, true);
      a->floats = k->floats[i];
      break;
    case REED_ATTR_TENSOR:
      a->desc =
          (reed_desc){.dtype = (reed_dtype)(1 + fuzz_pick(c, REED_DTYPE_COUNT - 1)), .rank = (int32_t)fuzz_pick(c, 3)};
      for (int32_t j = 0; j < a->desc.rank; j++) a->desc.dims[j] = (int64_t)fuzz_pick(c, 3);
      a->n = desc_elements(&a->desc);
      a->data = k->elements[i];
      fill(c, &a->desc, k->elements[i]);
      break;
  }
}

/* Random attributes hardly ever describe packed weights, so half of the calls that may have them get them here. */
static void pack_weights(call *k, reed_attrs *attrs, const reed_attrs *completed) {
  packed_order order;
  if (k->n_inputs < 2 || packed_is(k->op, completed) || !packed_order_of(k->op, completed, &k->inputs[1], &order) ||
      !fuzz_pick(&k->choices, 2))
    return;
  int32_t i = attrs->n++;
  memcpy(k->ints[i], order.plain.dims, sizeof order.plain.dims);
  k->attrs[i] = (reed_attr){.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = k->ints[i], .n = order.plain.rank};
  k->inputs[1] = packed_desc(&order);
  void *packed = exact(k, desc_bytes(&k->inputs[1]));
  packed_pack(&order, k->data[1], packed);
  k->data[1] = packed;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const reed_attr *)a)->name, ((const reed_attr *)b)->name);
}

static void run_kernel(call *k, op_call *made, reed_diagnosis *d) {
  int64_t extents[OUTPUTS_MOST] = {0};
  for (int32_t i = 0; i < k->n_outputs; i++) {
    k->outputs[i] = shapefn_desc(&k->shapes[i]);
    int64_t bytes = desc_bytes(&k->outputs[i]);
    if (bytes < 0) fuzz_fail("%s: output %d is too large", k->op->name, i);
    if (bytes > BYTES_MOST) return;
    k->results[i] = exact(k, bytes);
  }
  reed_kernel_env env = {.n_threads = 1};
  reed_kernel kernel;
  made->outputs = k->outputs;
  made->env = &env;
  made->prepare = kernel_cpu(k->op);
  reed_status status = op_call_prepare(made, &kernel);
  fuzz_seen(status, status == REED_OK ? k->op->name : reed_diagnosis_message(d));
  if (status != REED_OK) return;
  if (kernel.workspace_bytes < 0)
    fuzz_fail("%s: %lld bytes of workspace", k->op->name, (long long)kernel.workspace_bytes);
  void *workspace = kernel.workspace_bytes <= 4 * BYTES_MOST ? exact(k, kernel.workspace_bytes) : NULL;
  if (workspace) {
    reed_fault fault = {0};
    reed_kernel_buffers buffers = {(const void *const *)k->data, k->results, workspace, extents, NULL, &fault};
    status = kernel.run(kernel.state, &buffers);
    if (status != (fault.code ? fault_say(&fault, made) : REED_OK))
      fuzz_fail("%s: the status is not that of the fault record", k->op->name);
    fuzz_seen(status, status == REED_OK ? "ran" : reed_diagnosis_message(d));
    if (status == REED_OK) fuzz_accepted();
    for (int32_t i = 0; i < k->n_outputs && status == REED_OK; i++)
      if (k->shapes[i].bounded_axis >= 0 &&
          (extents[i] < 0 || extents[i] > k->outputs[i].dims[k->shapes[i].bounded_axis]))
        fuzz_fail("%s: extent %lld of at most %lld", k->op->name, (long long)extents[i],
                  (long long)k->outputs[i].dims[k->shapes[i].bounded_axis]);
  }
  if (kernel.free) kernel.free(kernel.state);
}

static void run_call(call *k, reed_diagnosis *d) {
  fuzz_choices *c = &k->choices;
  k->op = some_op(c);
  if (op_is_control(k->op)) return;
  int32_t n_declared = k->op->n_inputs < INPUTS_MOST ? k->op->n_inputs : INPUTS_MOST;
  k->n_inputs = n_declared;
  if (n_declared && k->op->inputs[n_declared - 1].variadic)
    k->n_inputs = n_declared + (int32_t)fuzz_pick(c, (uint64_t)(VARIADIC_MOST - n_declared + 1));
  fit(k);
  k->n_outputs = 1;
  for (int32_t i = 1; i < k->op->n_outputs; i++) k->n_outputs += !k->op->outputs[i].optional || fuzz_pick(c, 2);
  if (k->op->n_outputs && k->op->outputs[k->op->n_outputs - 1].variadic)
    k->n_outputs = 1 + (int32_t)fuzz_pick(c, OUTPUTS_MOST);
  if (k->n_outputs > OUTPUTS_MOST) return;
  reed_dtype dtypes[INPUTS_MOST];
  for (int32_t i = 0; i < k->n_inputs; i++) {
    if (!make_input(k, i)) return;
    dtypes[i] = k->inputs[i].dtype;
  }
  reed_attrs attrs = {k->attrs, 0};
  for (int32_t i = 0; i < k->op->n_attrs && i < ATTRS_MOST; i++) {
    bool rare = strcmp(k->op->attrs[i].name, PACKED_ATTR) == 0; /* a random `packed` attribute fits no weights */
    if (k->op->attrs[i].required || fuzz_pick(c, rare ? 32 : 2) == 1) make_attr(k, &k->op->attrs[i], attrs.n++);
  }
  reed_attr completed[2 * ATTRS_MOST];
  const reed_attrs unpacked = op_attrs_complete(k->op, &attrs, completed);
  pack_weights(k, &attrs, &unpacked);
  if (attrs.n) qsort(k->attrs, (size_t)attrs.n, sizeof *k->attrs, by_name);
  reed_status status = shapefn_check_call(k->op, &attrs, "node", k->n_inputs, dtypes, k->n_outputs, d);
  fuzz_seen(status, status == REED_OK ? "fits the table" : reed_diagnosis_message(d));
  if (status != REED_OK) return;
  attrs = op_attrs_complete(k->op, &attrs, completed);
  op_call_input given[INPUTS_MOST] = {{NULL}};
  for (int32_t i = 0; i < k->n_inputs; i++)
    if (k->inputs[i].dtype != REED_NONE) given[i] = (op_call_input){&k->inputs[i], k->data[i], k->constant[i]};
  op_call made = {.op = k->op,
                  .attrs = &attrs,
                  .node = "node",
                  .n_inputs = k->n_inputs,
                  .n_outputs = k->n_outputs,
                  .inputs = given,
                  .diagnosis = d};
  status = shapefn_call(&made, k->shapes);
  fuzz_seen(status, status == REED_OK ? "shaped" : reed_diagnosis_message(d));
  if (status == REED_OK) run_kernel(k, &made, d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  fuzz_heap_begin();
  reed_diagnosis *d;
  if (reed_diagnosis_open(&d) != REED_OK) return 0;
  call k = {.choices = {bytes, bytes + n}};
  run_call(&k, d);
  for (int i = 0; i < k.n_blocks; i++) release(&k.blocks[i]);
  reed_diagnosis_close(&d);
  fuzz_heap_end();
  return 0;
}
