/* Defaults of ONNX that depend on ranks, extents, dtypes or the opset: a model that spells one and a model that omits
 * it give the same bytes. Defaults that are the same for all calls: tests/compiler/test_op_table.c. */
#include "base/mem.h"
#include "reed/compiler.h"
#include "tests/compiler/front.h"
#include "tests/suite.h"

#define ANY ONNX_OPSET_MAX
#define CELLS(gates) "f32[t,n,5];f32[1," gates ",5];f32[1," gates ",4]"
#define PAIRS(gates) "f32[t,n,5];f32[2," gates ",5];f32[2," gates ",4]"
#define HEADS "f32[n,2,t,8];f32[n,2,t,8];f32[n,2,t,8]"

/* Inputs: types between semicolons; `=5` is a constant, `$NAME` a constant whose elements stand among the attributes
 * (of i32 after `$$`). Attributes: NAME=VALUE between semicolons; the value's form is the type: 1 an int,
 * 1.0 a float, [1,2] ints, [0.5,] floats, {a,b} strings, a a string. */
static const struct {
  const char *op;
  int64_t opset;
  const char *inputs;
  int n_outputs;
  const char *common, *spelled;
  bool differs;
  const char *other; /* another spelling, to compare with instead of the omission */
} cases[] = {
    {"Shape", ANY, "f32[n,3,h]", 1, "", "end=3"},
    {"Shape", ANY, "f32[n,3,h]", 1, "", "end=9"},
    {"Shape", ANY, "f32[n,3,h]", 1, "start=1", "end=3"},
    {"Shape", ANY, "f32[n,3,h]", 1, "", "start=-3"},
    {"Shape", ANY, "f32[]", 1, "", "end=0"},
    {"Shape", ANY, "f32[n,3,h]", 1, "", "end=2", true},
    {"Shape", ANY, "f32", 1, "", "end=3", true}, /* the rank may be 4 */
    {"EyeLike", ANY, "f32[a,b]", 1, "", "dtype=1"},
    {"EyeLike", 9, "i64[a,b]", 1, "", "dtype=7"},
    {"EyeLike", ANY, "i64[a,b]", 1, "", "dtype=1", true},
    {"Resize", ANY, "f32[n,3,h,w];;f32[4]", 1, "", "axes=[0,1,2,3]"},
    {"Resize", ANY, "f32[n,3,h,w];;f32[4]", 1, "", "axes=[-4,-3,2,3]"},
    {"Resize", ANY, "f32[n,3,h,w];;f32[4]", 1, "", "axes=[0,1,3,2]", true},
    {"LSTM", 14, CELLS("16"), 3, "", "activations={Sigmoid,Tanh,Tanh};hidden_size=4"},
    {"LSTM", 14, CELLS("16"), 3, "direction=reverse", "activations={sigmoid,tanh,tanh}"},
    {"LSTM", 14, PAIRS("16"), 3, "direction=bidirectional", "activations={Sigmoid,Tanh,Tanh,Sigmoid,Tanh,Tanh}"},
    {"LSTM", 14, CELLS("16"), 3, "", "activations={Sigmoid,Tanh,Relu}", true},
    {"LSTM", 14, "f32;f32[1,16,5];f32[1,16,4]", 3, "", "activations={Sigmoid,Tanh,Tanh};hidden_size=4"},
    {"GRU", 7, CELLS("12"), 2, "", "activations={Sigmoid,Tanh}"},
    {"GRU", ANY, PAIRS("12"), 2, "direction=bidirectional", "activations={Sigmoid,Tanh,Sigmoid,Tanh};hidden_size=4"},
    {"RNN", ANY, CELLS("4"), 2, "", "activations={Tanh}"},
    {"RNN", ANY, CELLS("4"), 2, "", "activations={Relu}", true},
    {"RNN", 14, CELLS("4"), 2, "activations={HardSigmoid}", "activation_alpha=[0.2,];activation_beta=[0.5,]"},
    {"GRU", 14, CELLS("12"), 2, "activations={LeakyRelu,Tanh}", "activation_alpha=[0.01,]"},
    {"GRU", 14, CELLS("12"), 2, "activations={LeakyRelu,Tanh}", "activation_alpha=[0.02,]", true},
    {"RNN", 14, CELLS("4"), 2, "activations={Affine}", "activation_alpha=[1.0,]", true}, /* ONNX has no default here */
    {"Attention", ANY, HEADS, 1, "", "scale=0.35355338454246521"},
    {"Attention", ANY, HEADS, 1, "", "q_num_heads=2;kv_num_heads=2;softmax_precision=1"},
    {"Attention", ANY, HEADS, 1, "", "scale=0.25", true},
    {"Attention", ANY, "f32[n,t,16];f32[n,t,16];f32[n,t,16]", 1, "q_num_heads=2;kv_num_heads=2",
     "scale=0.35355338454246521"},
    {"RotaryEmbedding", ANY, "f32[n,2,t,8];f32[50,4];f32[50,4];i64[n,t]", 1, "", "rotary_embedding_dim=8;num_heads=2"},
    {"RotaryEmbedding", ANY, "f32[n,t,16];f32[50,2];f32[50,2];i64[n,t]", 1, "num_heads=2", "rotary_embedding_dim=4",
     true},
    {"Split", ANY, "f32[n,6]", 3, "axis=1", "num_outputs=3"},
    {"Split", 11, "f32[6,n]", 3, "", "split=[2,2,2]"},
    {"Split", 11, "f32[6,n]", 3, "", "split=[1,3,2]", true},
    {"Slice", 9, "f32[n,3,h,w]", 1, "starts=[1,0];ends=[5,2]", "axes=[0,1]"},
    {"Slice", 9, "f32", 1, "starts=[1];ends=[5]", "axes=[0]"},
    {"Slice", 9, "f32[n,3,h,w]", 1, "starts=[1];ends=[5]", "axes=[2]", true},
    {"Pad", 9, "f32[n,3]", 1, "pads=[0,1,0,1]", "value=0.0"},
    {"Pad", 9, "f32[n,3]", 1, "pads=[0,1,0,1]", "value=1.0", true},
    {"Clip", 9, "f32[n,3]", 1, "", "min=-3.4028234663852886e38;max=3.4028234663852886e38"},
    {"Clip", 9, "f32[n,3]", 1, "min=0.0", "max=3.4028234663852886e38"},
    {"Clip", 9, "f32[n,3]", 1, "min=0.0", "max=6.0", true},
    {"ReduceSum", 11, "f32[n,3,h]", 1, "", "axes=[0,1,2]"},
    {"ReduceMean", 11, "f32[n,3,h]", 1, "keepdims=0", "axes=[-1,0,1]"},
    {"ReduceMax", 11, "f32[n,3,h]", 1, "", "axes=[0,2]", true},
    {"ReduceL2", 11, "f32", 1, "", "axes=[0,1]", true}, /* the rank may be 3 */
    {"Squeeze", 11, "f32[1,3,1,5]", 1, "", "axes=[0,2]"},
    {"Squeeze", 11, "f32[1,n,1,5]", 1, "", "axes=[0,2]", true}, /* n may be 1 */
    {"TopK", 9, "f32[n,9]", 2, "k=2", "axis=1"},
    {"Softmax", 13, "f32[n,3,9]", 1, "", "axis=2"},
    {"Softmax", 13, "f32[n,3,9]", 1, "", "axis=1", true},
    {"Gather", 13, "f32[n,3,9];i64[2]", 1, "", "axis=-3"},
    {"Softmax", 13, "f32[n,3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"Softmax", 13, "f32[n,3,9]", 1, "", "axis=-2", true, "axis=0"},
    {"Softmax", 13, "f32", 1, "", "axis=-2", true, "axis=1"}, /* the rank may be 4 */
    {"Concat", 13, "f32[n,3,9];f32[n,3,4]", 1, "", "axis=-1", false, "axis=2"},
    {"OneHot", 11, "i64[n,3];i64;f32[2]", 1, "", "axis=-2", true, "axis=0"},
    {"OneHot", 11, "i64[n,3];=5;f32[2]", 1, "", "axis=-2", false, "axis=1"},
    {"OneHot", 11, "i64[n,3];=5;f32[2]", 1, "", "axis=2"},
    {"Resize", ANY, "f32[n,3,h,w];;f32[2]", 1, "", "axes=[-2,-1]", false, "axes=[2,3]"},
    {"Resize", ANY, "f32[n,3,h,w];;f32[2]", 1, "", "axes=[-1,-2]", true, "axes=[2,3]"},
    {"Squeeze", 11, "f32[1,3,1,5]", 1, "", "axes=[-2,-4]"},
    {"Squeeze", 11, "f32[1,n,1,5]", 1, "", "axes=[-2,0]", false, "axes=[0,2]"},
    {"Squeeze", 11, "f32", 1, "", "axes=[-2]", true, "axes=[2]"},
    {"Unsqueeze", 11, "f32[n,3]", 1, "", "axes=[-1,0]", false, "axes=[0,3]"},
    {"Unsqueeze", 11, "f32[n,3]", 1, "", "axes=[-1,0]", true, "axes=[0,2]"},
    {"ReduceSum", 11, "f32[n,3,9]", 1, "", "axes=[-1,0]", false, "axes=[0,2]"},
    {"ReduceMax", 11, "f32[n,3,9]", 1, "", "axes=[-1]", true, "axes=[1]"},
    {"Slice", 9, "f32[n,3,h,w]", 1, "starts=[1,2];ends=[5,7]", "axes=[-1,1]", false, "axes=[3,1]"},
    {"Slice", 9, "f32[n,3,h,w]", 1, "starts=[1,2];ends=[5,7]", "axes=[-1,1]", true, "axes=[1,3]"},
    /* axes from the last and from the first: a pair for every operator with axes (every_operator_with_axes_has_a_pair)
     */
    {"ArgMax", ANY, "f32[n,3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"ArgMin", ANY, "f32[n,3,9]", 1, "", "axis=-1", false, "axis=2"},
    {"Compress", ANY, "f32[n,3,9];bool[k]", 1, "", "axis=-2", false, "axis=1"},
    {"CumSum", ANY, "f32[n,3,4];$axis", 1, "", "axis=[-1]", false, "axis=[2]"},
    {"CumSum", ANY, "f32[n,3,4];$$axis", 1, "", "axis=[-1]", false, "axis=[2]"},
    {"CumSum", ANY, "f32[n,3,4];$axis", 1, "", "axis=[-1]", true, "axis=[1]"},
    {"Flatten", ANY, "f32[n,3,h,w]", 1, "", "axis=-2", false, "axis=2"},
    {"Gather", 13, "f32[n,3,9];i64[k]", 1, "", "axis=-1", false, "axis=2"},
    {"GatherElements", ANY, "f32[n,3,9];i64[n,3,2]", 1, "", "axis=-1", false, "axis=2"},
    {"Hardmax", 13, "f32[n,3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"LayerNormalization", ANY, "f32[n,3,9];f32[3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"LogSoftmax", 13, "f32[n,3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"LpNormalization", ANY, "f32[n,3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"Pad", ANY, "f32[n,3,9];$pads;;$axes", 1, "pads=[1,2,3,4]", "axes=[-1,-2]", false, "axes=[2,1]"},
    {"Pad", ANY, "f32[n,3,9];$pads;;$$axes", 1, "pads=[1,2,3,4]", "axes=[-1,1]", false, "axes=[2,1]"},
    {"Pad", ANY, "f32[n,3,9];$pads;;$axes", 1, "pads=[1,2,3,4]", "axes=[-1,1]", true, "axes=[1,2]"},
    {"RMSNormalization", ANY, "f32[n,3,9];f32[3,9]", 1, "", "axis=-2", false, "axis=1"},
    {"ReduceL1", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceL2", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceLogSum", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceLogSumExp", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceMax", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceMean", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceMin", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceProd", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceSum", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ReduceSumSquare", ANY, "f32[n,3,9];$axes", 1, "", "axes=[-1,-3]", false, "axes=[0,2]"},
    {"ScatterElements", ANY, "f32[n,3,9];i64[n,3,2];f32[n,3,2]", 1, "", "axis=-1", false, "axis=2"},
    {"Slice", ANY, "f32[n,3,h,w];=1;=2;$axes", 1, "", "axes=[-1]", false, "axes=[3]"},
    {"Slice", ANY, "f32[n,3,h,w];=1;=2;$$axes", 1, "", "axes=[-1]", false, "axes=[3]"},
    {"Split", ANY, "f32[n,6,2]", 3, "num_outputs=3", "axis=-2", false, "axis=1"},
    {"Squeeze", ANY, "f32[1,n,1,5];$axes", 1, "", "axes=[-2,0]", false, "axes=[0,2]"},
    {"TensorScatter", ANY, "f32[n,2,t,8];f32[n,2,1,8];i64[n]", 1, "", "axis=-3", false, "axis=1"},
    {"TopK", ANY, "f32[n,9,4];=2", 2, "", "axis=-2", false, "axis=1"},
    {"Unique", ANY, "f32[n,9,4]", 4, "", "axis=-2", false, "axis=1"},
    {"Unsqueeze", ANY, "f32[n,3];$axes", 1, "", "axes=[-1,0]", false, "axes=[0,3]"},
    {"Conv", ANY, "f32;f32[4,3,3,3]", 1, "", "strides=[1,1];pads=[0,0,0,0];dilations=[1,1];kernel_shape=[3,3]"},
    {"Conv", ANY, "f32[n,3,h,w];f32", 1, "", "strides=[1,1];pads=[0,0,0,0];dilations=[1,1]"},
    {"Conv", ANY, "f32[n,3,h,w];f32", 1, "", "kernel_shape=[3,3]", true}, /* W may be larger */
    {"Conv", ANY, "f32;f32", 1, "", "strides=[1,1]", true},               /* W may have three spatial axes */
    {"Conv", ANY, "f32;f32[4,3,3,3]", 1, "", "pads=[0,0]", true}, /* pads for one axis only: the run refuses the call */
    {"MaxPool", ANY, "f32", 1, "kernel_shape=[2,2]", "strides=[1,1];pads=[0,0,0,0];dilations=[1,1]"},
    {"AveragePool", ANY, "f32", 1, "kernel_shape=[2]", "strides=[1];pads=[0,0]"},
};

static void build_attribute(onnx_build *b, build_node_t *n, char *text) {
  char *value = strchr(text, '=');
  *value++ = '\0';
  size_t last = strlen(value) - 1;
  bool has_point = strchr(value, '.') != NULL;
  if (*value == '[' || *value == '{') {
    bool is_text = *value++ == '{';
    value[last - 1] = '\0';
    if (has_point) value[last - 2] = '\0'; /* the comma after floats */
    if (is_text) build_strings(b, n, text, value);
    else if (has_point) build_floats(b, n, text, value);
    else build_ints(b, n, text, value);
  } else if (strchr("-0123456789", *value)) {
    if (has_point) build_float(b, n, text, strtof(value, NULL));
    else build_int(b, n, text, atoll(value));
  } else build_string(b, n, text, value);
}

/* True if the case has that constant among its inputs. *out_narrow: its dtype is i32. */
static bool is_constant(int which, const char *name, size_t n_name, bool *out_narrow) {
  for (const char *at = strchr(cases[which].inputs, '$'); at; at = strchr(at, '$')) {
    *out_narrow = at[1] == '$';
    at += *out_narrow ? 2 : 1;
    if (strncmp(at, name, n_name) == 0 && (!at[n_name] || at[n_name] == ';')) return true;
  }
  return false;
}

/* NAME=[1,2] as the constant NAME. */
static void build_constant(onnx_build *b, char *text, bool narrow) {
  int64_t elements[8];
  int32_t narrowed[8];
  int n = 0;
  char *value = strchr(text, '='), extent[8];
  *value++ = '\0';
  for (char *at = value; *at != ']'; n++) narrowed[n] = (int32_t)(elements[n] = strtoll(at + 1, &at, 10));
  snprintf(extent, sizeof extent, "%d", n);
  if (narrow) build_tensor(b, text, REED_I32, extent, narrowed, true);
  else build_i64(b, text, extent, elements);
}

static void build_attributes(onnx_build *b, build_node_t *n, int which, const char *texts) {
  char copy[256], *at = copy, *text;
  bool narrow;
  snprintf(copy, sizeof copy, "%s", texts);
  while ((text = strsep(&at, ";")))
    if (*text && is_constant(which, text, strcspn(text, "="), &narrow)) build_constant(b, text, narrow);
    else if (*text) build_attribute(b, n, text);
}

typedef struct module {
  void *bytes;
  size_t n;
} module;

/* Compiles the model and frees it. */
static module compiled(onnx_build **model, const char *op) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  module m;
  size_t n_onnx;
  const void *onnx = build_pack(*model, &n_onnx);
  reed_status status = reed_compile_bytes(onnx, n_onnx, NULL, &m.bytes, &m.n, NULL, d);
  ck_assert_msg(status == REED_OK, "%s: %s", op, reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  build_close(model);
  return m;
}

static module module_of(int which, bool spelled) {
  onnx_build *b = build_open(cases[which].opset);
  char types[256], *at = types, *type, inputs[64] = "", outputs[32] = "";
  snprintf(types, sizeof types, "%s", cases[which].inputs);
  for (int i = 0; (type = strsep(&at, ";")); i++) {
    char name[16];
    snprintf(name, sizeof name, "in%d", i);
    if (*type == '=') build_i64(b, name, "1", (int64_t[]){atoll(type + 1)});
    else if (*type && *type != '$') build_input(b, name, type);
    const char *used = *type == '$' ? type + strspn(type, "$") : *type ? name : "";
    snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i ? "," : "", used);
  }
  for (int i = 0; i < cases[which].n_outputs; i++)
    snprintf(outputs + strlen(outputs), sizeof outputs - strlen(outputs), "%sy%d", i ? "," : "", i);
  build_node_t *n = build_node(b, cases[which].op, inputs, outputs);
  build_attributes(b, n, which, cases[which].common);
  const char *own = spelled ? cases[which].spelled : cases[which].other;
  if (own) build_attributes(b, n, which, own);
  for (int i = 0; i < cases[which].n_outputs; i++) {
    char name[16];
    snprintf(name, sizeof name, "y%d", i);
    build_output(b, name, "f32");
    build_graph(b)->output[i]->type = NULL; /* the output's dtype is left to inference */
  }
  return compiled(&b, cases[which].op);
}

START_TEST(spelled_and_omitted_give_the_same_module) {
  module omitted = module_of(_i, false), spelled = module_of(_i, true);
  bool same = omitted.n == spelled.n && memcmp(omitted.bytes, spelled.bytes, spelled.n) == 0;
  ck_assert_msg(same != cases[_i].differs, "%s over %s, %s: %s", cases[_i].op, cases[_i].inputs, cases[_i].spelled,
                same ? "the same bytes" : "other bytes");
  mem_free(omitted.bytes);
  mem_free(spelled.bytes);
}
END_TEST

/* Operators with axes for which no pair of spellings is possible, and why. */
static const struct {
  const char *op, *name, *reason;
} excused[] = {
    {"ReverseSequence", "batch_axis", "ONNX has 0 and 1 only"},
    {"ReverseSequence", "time_axis", "ONNX has 0 and 1 only"},
    {"Upsample", "axes", "not of ONNX's Upsample: the importer makes a Resize of it"},
    {"Scan", "scan_input_axes", "the importer turns the node into a Loop: axes_of_a_scan_count_from_either_end"},
    {"Scan", "scan_output_axes", "the importer turns the node into a Loop: axes_of_a_scan_count_from_either_end"},
};

static bool is_excused(const char *op, const char *name) {
  for (size_t i = 0; i < sizeof excused / sizeof *excused; i++)
    if (strcmp(excused[i].op, op) == 0 && strcmp(excused[i].name, name) == 0) return true;
  return false;
}

/* True if `texts` has NAME with a negative number (negative) or with none. */
static bool spells(const char *texts, const char *name, bool negative) {
  const size_t n = strlen(name);
  for (const char *at = texts; at && *at; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
    const size_t length = strcspn(at, ";");
    if (length > n && strncmp(at, name, n) == 0 && at[n] == '=') return (memchr(at, '-', length) != NULL) == negative;
  }
  return false;
}

/* The case shows that the name counted from the last and from the first gives one module. */
static bool has_pair(const char *op, const char *name) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(cases[i].op, op) == 0 && !cases[i].differs && cases[i].other && spells(cases[i].spelled, name, true) &&
        spells(cases[i].other, name, false))
      return true;
  return false;
}

static void ck_axes(const char *op, const char *name) {
  if (!strstr(name, "axis") && !strstr(name, "axes")) return;
  if (strcmp(name, "noop_with_empty_axes") == 0) return; /* a flag */
  ck_assert_msg(has_pair(op, name) != is_excused(op, name), "%s: %s needs a pair of spellings or an excuse, not both",
                op, name);
}

/* Every attribute and every input of ops/op.def whose name speaks of axes. */
START_TEST(every_operator_with_axes_has_a_pair) {
  int n_named = 0;
  for (int id = 0; id < OP_COUNT; id++) {
    const reed_op *op = op_builtin((op_id)id);
    for (int32_t i = 0; i < op->n_attrs; i++) ck_axes(op->name, op->attrs[i].name);
    for (int32_t i = 0; i < op->n_inputs; i++) ck_axes(op->name, op->inputs[i].name);
    n_named++;
  }
  ck_assert_int_gt(n_named, 100);
}
END_TEST

/* A Scan over the last axis of x, whose sums are joined along the last axis. */
static module scan_along(int64_t in, int64_t out) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(body, "part", "f32[n,3]");
  build_node(body, "Relu", "part", "made");
  build_output(body, "made", "f32[n,3]");
  build_input(b, "x", "f32[n,3,t]");
  build_node_t *n = build_node(b, "Scan", "x", "y");
  build_int(b, n, "num_scan_inputs", 1);
  build_ints(b, n, "scan_input_axes", in < 0 ? "-1" : "2");
  build_ints(b, n, "scan_output_axes", out < 0 ? "-1" : "2");
  build_graph_attr(b, n, "body", body);
  build_output(b, "y", "f32");
  return compiled(&b, "Scan");
}

START_TEST(axes_of_a_scan_count_from_either_end) {
  module first = scan_along(2, 2), last = scan_along(-1, -1);
  ck_assert_uint_eq(first.n, last.n);
  ck_assert_mem_eq(first.bytes, last.bytes, last.n);
  mem_free(first.bytes);
  mem_free(last.bytes);
}
END_TEST

/* dims: the extents of the constant axis; a wrong number of elements fails in the run. */
static module cumsum_along(int64_t axis, const char *dims) {
  onnx_build *b = build_open(14);
  build_input(b, "x", "f32[n,3,4]");
  build_i64(b, "axis", dims, &axis);
  build_node(b, "CumSum", "x,axis", "y");
  build_output(b, "y", "f32");
  return compiled(&b, "CumSum");
}

START_TEST(a_constant_axis_of_a_sum_counts_from_the_first) {
  module last = cumsum_along(-1, "1"), second = cumsum_along(1, "1"), third = cumsum_along(2, "1"),
         none = cumsum_along(-1, "0");
  ck_assert_uint_eq(last.n, third.n);
  ck_assert_mem_eq(last.bytes, third.bytes, third.n);
  ck_assert(second.n != third.n || memcmp(second.bytes, third.bytes, third.n) != 0);
  mem_free(none.bytes);
  mem_free(last.bytes);
  mem_free(second.bytes);
  mem_free(third.bytes);
}
END_TEST

/* The rank of a carried value grows in every round: defaults settled by the first round's rank must not stay in the
 * body. */
START_TEST(a_loops_first_round_settles_nothing) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(body, "round", "i64[]");
  build_input(body, "condition", "bool[]");
  build_input(body, "carried", "f32");
  build_i64(body, "zero", "1", (int64_t[]){0});
  build_node(body, "Identity", "condition", "goes_on");
  build_node(body, "Transpose", "carried", "turned");
  build_node(body, "Unsqueeze", "turned,zero", "next");
  build_output(body, "goes_on", "bool");
  build_output(body, "next", "f32");
  build_input(b, "x", "f32[2,3]");
  build_input(b, "rounds", "i64[]");
  build_graph_attr(b, build_node(b, "Loop", "rounds,,x", "y"), "body", body);
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  const ir_node *loop = f.m->main->nodes.items[0];
  ck_assert_ptr_eq(loop->op, op_builtin(OP_Loop));
  int n_transposes = 0;
  for (size_t i = 0; i < loop->regions[0]->nodes.n; i++) {
    const ir_node *n = loop->regions[0]->nodes.items[i];
    const reed_attrs attrs = ir_attrs(n);
    if (n->op != op_builtin(OP_Transpose)) continue;
    n_transposes++;
    ck_assert_ptr_null(reed_attrs_find(&attrs, "perm"));
  }
  ck_assert_int_eq(n_transposes, 1);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("settle");
  TCase *c = tcase_create("settle");
  suite_add_tcase(suite, c);
  tcase_add_loop_test(c, spelled_and_omitted_give_the_same_module, 0, sizeof cases / sizeof *cases);
  tcase_add_test(c, every_operator_with_axes_has_a_pair);
  tcase_add_test(c, axes_of_a_scan_count_from_either_end);
  tcase_add_test(c, a_constant_axis_of_a_sum_counts_from_the_first);
  tcase_add_test(c, a_loops_first_round_settles_nothing);
  return suite_run(suite);
}
