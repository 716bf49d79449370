/* Operators of onnxruntime's optimiser stand for operators of ONNX: folded results beside those of the operators that
 * onnxruntime's documentation names, shapes of operands whose rank the reader does not know, and refused nodes. */
#include <math.h>

#include "tests/compiler/front.h"
#include "tests/suite.h"

/* Adds the node of a line "y,z = Operator(a,b) alpha=.5 axis=1 mode=text perm=[1,0]". A number with a point is a
 * float. */
static void add_node(onnx_build *b, const char *line) {
  char text[256], *rest = text, *attribute;
  ck_assert_int_lt(snprintf(text, sizeof text, "%s", line), (int)sizeof text);
  const char *outputs = strsep(&rest, " ");
  ck_assert_str_eq(strsep(&rest, " "), "=");
  const char *op = strsep(&rest, "("), *inputs = strsep(&rest, ")");
  build_node_t *n = build_node(b, op, inputs, outputs);
  while ((attribute = strsep(&rest, " "))) {
    char *value = attribute;
    const char *name = strsep(&value, "=");
    if (!value) continue;
    if (*value == '[') {
      char *numbers = value + 1;
      const char *list = strsep(&numbers, "]");
      if (strchr(list, '.')) build_floats(b, n, name, list);
      else build_ints(b, n, name, list);
    } else if (strspn(value, "-.0123456789") < strlen(value)) build_string(b, n, name, value);
    else if (strchr(value, '.')) build_float(b, n, name, strtof(value, NULL));
    else build_int(b, n, name, strtol(value, NULL, 10));
  }
}

/* A constant of numbers between -1 and 1, which differ from tensor to tensor. */
static void add_constant(onnx_build *b, const char *name, const char *dims) {
  float elements[64];
  for (int i = 0; i < 64; i++) elements[i] = (float)((i * 29 + name[0] * 7 + 11) % 23) / 11.5F - 1;
  build_f32(b, name, dims, elements);
}

static void add_constants(onnx_build *b) {
  add_constant(b, "x", "2,3,4");
  add_constant(b, "s", "2,3,4"); /* the residual */
  add_constant(b, "g", "4");     /* scale, shift, bias */
  add_constant(b, "h", "4");
  add_constant(b, "c", "4");
  add_constant(b, "a", "2,4,3"); /* products */
  add_constant(b, "m", "2,5,4");
  add_constant(b, "d", "5,3");
  add_constant(b, "i", "1,2,3,3"); /* convolutions */
  add_constant(b, "w", "2,2,2,2");
  add_constant(b, "o", "2");
  add_constant(b, "r", "1,2,2,2");
  add_constant(b, "e", "9,4"); /* tables of words, places, segments */
  add_constant(b, "p", "5,4");
  add_constant(b, "t", "2,4");
  add_constant(b, "kqv", "12"); /* attentions */
  add_constant(b, "q0", "2,2,1,2");
  add_constant(b, "cross", "2,2,5,2");
  add_constant(b, "packed", "4,12");
  add_constant(b, "joined", "2,2,2,1,2");
  add_constant(b, "bias", "2,2,3,3");
  add_constant(b, "f", "5,1"); /* cosines, sines */
  add_constant(b, "z0", "5,1");
  build_tensor(b, "ids", REED_I32, "2,3", (int32_t[]){1, 5, 8, 0, 2, 2}, true);
  build_tensor(b, "segments", REED_I32, "2,3", (int32_t[]){0, 1, 1, 0, 0, 1}, true);
  build_tensor(b, "mask", REED_I32, "2,3", (int32_t[]){1, 1, 0, 1, 1, 1}, true);
  build_tensor(b, "at", REED_I64, "2,3", (int64_t[]){4, 1, 0, 2, 2, 3}, true);
  build_tensor(b, "ones", REED_I32, "2", (int32_t[]){2, 3}, true);
  build_tensor(b, "none", REED_I32, "2", (int32_t[]){0, 0}, true);
  add_constant(b, "one_head", "2,3,2"); /* fewer heads of keys than of queries */
  add_constant(b, "other_head", "2,3,2");
  add_constant(b, "beside", "2,3,8");
  add_constant(b, "rows", "2,1,2,2");
  add_constant(b, "five", "1,3,2,3,2"); /* queries, keys and values in one operand */
  add_constant(b, "half", "5,1");
  build_tensor(b, "three", REED_I32, "2", (int32_t[]){2, 2}, true);
  build_tensor(b, "five_keys", REED_I32, "2", (int32_t[]){4, 4}, true);
  build_tensor(b, "total3", REED_I32, "1", (int32_t[]){3}, true);
  build_tensor(b, "total5", REED_I32, "1", (int32_t[]){5}, true);
  build_i64(b, "in_order", "2,3", (int64_t[]){0, 1, 2, 0, 1, 2});
  build_i64(b, "third", "", (int64_t[]){2});
  build_i64(b, "flat", "3", (int64_t[]){0, 0, -1});
  build_i64(b, "widths", "3", (int64_t[]){4, 2, 2});
  build_tensor(b, "nibbles", REED_U8, "2,1,8", (uint8_t[16]){0x21, 0x43, [8] = 0x65, 0x87}, true);
  build_tensor(b, "octets", REED_U8, "2,1,16", (uint8_t[32]){1, 2, 3, 4, [16] = 5, 6, 7, 8}, true);
  build_tensor(b, "points", REED_U8, "2", (uint8_t[]){1, 3}, true);
  build_f32(b, "steps", "2", (float[]){.5F, 2});
  build_f32(b, "about8", "4,2", (float[]){-3.5F, -6, -3, -4, -2.5F, -2, -2, 0});
  build_f32(b, "about_points", "4,2", (float[]){0, 4, .5F, 6, 1, 8, 1.5F, 10});
  build_tensor(b, "whole", REED_U8, "5,4", (uint8_t[20]){3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4},
               true);
  build_tensor(b, "other", REED_U8, "4,2", (uint8_t[8]){2, 7, 1, 8, 2, 8, 1, 8}, true);
  build_tensor(b, "two", REED_U8, "", (uint8_t[]){2}, true);
  build_f32(b, "alpha", "", (float[]){.5F});
  build_f32(b, "slope", "", (float[]){1.702F});
  build_f32(b, "low", "", (float[]){-.25F});
  build_f32(b, "high", "", (float[]){.75F});
  build_f32(b, "hidden", "2,1,1,3", (float[]){0, 0, -8, 0, 0, 0});
  build_i64(b, "first", "", (int64_t[]){0});
  build_i64(b, "second", "", (int64_t[]){1});
  build_i64(b, "thirds", "3", (int64_t[]){4, 4, 4});
  build_i64(b, "place", "1", (int64_t[]){1});
  build_i64(b, "places", "2,3", (int64_t[]){1, 2, 3, 1, 2, 3});
  build_i64(b, "heads", "4", (int64_t[]){0, 0, 2, 2});
  build_i64(b, "line", "3", (int64_t[]){0, 0, 4});
  build_i64(b, "begin", "1", (int64_t[]){0});
  build_i64(b, "end", "1", (int64_t[]){3});
}

#define MS "com.microsoft."
static const struct {
  const char *node;     /* gives y, y2, ... */
  const char *nodes[8]; /* give z, z2, ... */
} cases[] = {
    {"y = " MS "Gelu(x)", {"z = Gelu(x)"}},
    {"y = " MS "BiasGelu(x,g)", {"v = Add(x,g)", "z = Gelu(v)"}},
    {"y = " MS "FastGelu(x)", {"z = Gelu(x) approximate=tanh"}},
    {"y = " MS "FastGelu(x,g)", {"v = Add(x,g)", "z = Gelu(v) approximate=tanh"}},
    {"y = " MS "QuickGelu(x)", {"u = Mul(x,slope)", "v = Sigmoid(u)", "z = Mul(x,v)"}},
    {"y = " MS "QuickGelu(x) alpha=0.5", {"u = Mul(x,alpha)", "v = Sigmoid(u)", "z = Mul(x,v)"}},
    {"y = " MS "FusedMatMul(x,a)", {"z = MatMul(x,a)"}},
    {"y = " MS "FusedMatMul(x,m) transB=1 alpha=0.5",
     {"u = Transpose(m) perm=[0,2,1]", "v = MatMul(x,u)", "z = Mul(v,alpha)"}},
    {"y = " MS "FusedMatMul(a,m) transA=1 transB=1",
     {"t0 = Transpose(a) perm=[0,2,1]", "u = Transpose(m) perm=[0,2,1]", "z = MatMul(t0,u)"}},
    {"y = " MS "FusedMatMul(a,d) transB=1", {"u = Transpose(d) perm=[1,0]", "z = MatMul(a,u)"}},
    {"y = " MS "FusedMatMul(c,m) transA=1 transB=1", {"u = Transpose(m) perm=[0,2,1]", "z = MatMul(c,u)"}},
    {"y = " MS "FusedConv(i,w) pads=[1,0,0,1] activation=Relu", {"v = Conv(i,w) pads=[1,0,0,1]", "z = Relu(v)"}},
    {"y = " MS "FusedConv(i,w,o,r) activation=LeakyRelu activation_params=[0.25]",
     {"u = Conv(i,w,o)", "v = Add(u,r)", "z = LeakyRelu(v) alpha=0.25"}},
    {"y = " MS "FusedConv(i,w,,r)", {"u = Conv(i,w)", "z = Add(u,r)"}},
    {"y = " MS "FusedConv(i,w,o) activation=Clip activation_params=[-0.25,0.75]",
     {"v = Conv(i,w,o)", "z = Clip(v,low,high)"}},
    {"y = " MS "FusedConv(i,w,o) activation=HardSigmoid activation_params=[0.25,0.75]",
     {"v = Conv(i,w,o)", "z = HardSigmoid(v) alpha=0.25 beta=0.75"}},
    {"y = " MS "FusedGemm(p,e) transB=1 alpha=0.5 activation=Tanh",
     {"v = Gemm(p,e) transB=1 alpha=0.5", "z = Tanh(v)"}},
    {"y = " MS "FusedGemm(d,p,g) transA=1 activation=LeakyRelu activation_alpha=0.25",
     {"v = Gemm(d,p,g) transA=1", "z = LeakyRelu(v) alpha=0.25"}},
    {"y,,,y2 = " MS "SkipLayerNormalization(x,s,g,h,c) epsilon=0.125",
     {"u = Add(x,s)", "z2 = Add(u,c)", "z = LayerNormalization(z2,g,h) epsilon=0.125"}},
    {"y = " MS "SkipLayerNormalization(x,s,g) epsilon=0.125",
     {"u = Add(x,s)", "z = LayerNormalization(u,g) epsilon=0.125"}},
    {"y,,,y2 = " MS "SkipSimplifiedLayerNormalization(x,s,g,c) epsilon=0.125",
     {"u = Add(x,s)", "z2 = Add(u,c)", "z = RMSNormalization(z2,g) epsilon=0.125"}},
    {"y = SimplifiedLayerNormalization(x,g) epsilon=0.125 axis=-1 stash_type=1",
     {"z = RMSNormalization(x,g) epsilon=0.125"}},
    {"y,y2,y3 = " MS "EmbedLayerNormalization(ids,segments,e,p,t,g,h,mask) epsilon=0.125",
     {"k = Gather(e,ids)", "l = Slice(p,begin,end)", "n = Add(k,l)", "q = Gather(t,segments)", "z3 = Add(n,q)",
      "z = LayerNormalization(z3,g,h) epsilon=0.125", "z2 = Identity(ones)"}},
    {"y,y2 = " MS "EmbedLayerNormalization(ids,,e,p,,g,h,,at) epsilon=0.125",
     {"k = Gather(e,ids)", "l = Gather(p,at)", "n = Add(k,l)", "z = LayerNormalization(n,g,h) epsilon=0.125",
      "z2 = Identity(none)"}},
    {"y = " MS "MultiHeadAttention(x,s,s) num_heads=2", {"z = Attention(x,s,s) q_num_heads=2 kv_num_heads=2"}},
    {"y = " MS "MultiHeadAttention(x,s,x) num_heads=2 unidirectional=1 scale=0.25",
     {"z = Attention(x,s,x) q_num_heads=2 kv_num_heads=2 is_causal=1 scale=0.25"}},
    {"y = " MS "MultiHeadAttention(x,s,x,kqv,mask,bias) num_heads=2 mask_filter_value=-8.0",
     {"b0,b1,b2 = Split(kqv,thirds)", "q = Add(x,b0)", "k = Add(s,b1)", "v = Add(x,b2)", "n = Add(hidden,bias)",
      "z = Attention(q,k,v,n) q_num_heads=2 kv_num_heads=2"}},
    {"y = " MS "MultiHeadAttention(x,s,x,,ones) num_heads=2 mask_filter_value=-8.0", /* a mask of numbers of keys */
     {"z = Attention(x,s,x,hidden) q_num_heads=2 kv_num_heads=2"}},
    {"y,y2,y3 = " MS "MultiHeadAttention(x,s,x,,,,q0,q0) num_heads=2 unidirectional=1",
     {"z,z2,z3 = Attention(x,s,x,,q0,q0) q_num_heads=2 kv_num_heads=2 is_causal=1"}},
    {"y = " MS "MultiHeadAttention(x,cross,cross) num_heads=2", /* keys with an axis of heads */
     {"u = Reshape(x,heads)", "v = Transpose(u) perm=[0,2,1,3]", "k = Attention(v,cross,cross)",
      "l = Transpose(k) perm=[0,2,1,3]", "z = Reshape(l,line)"}},
    {"y = " MS "Attention(x,packed,kqv,mask) num_heads=2 mask_filter_value=-8.0",
     {"u = MatMul(x,packed)", "v = Add(u,kqv)", "q,k,l = Split(v,thirds) axis=2",
      "z = Attention(q,k,l,hidden) q_num_heads=2 kv_num_heads=2"}},
    {"y,y2 = " MS "Attention(x,packed,,,joined) num_heads=2 unidirectional=1",
     {"u = MatMul(x,packed)", "q,k,l = Split(u,thirds) axis=2", "k0 = Gather(joined,first)",
      "l0 = Gather(joined,second)", "z,k1,l1 = Attention(q,k,l,,k0,l0) q_num_heads=2 kv_num_heads=2 is_causal=1",
      "k2 = Unsqueeze(k1,begin)", "l2 = Unsqueeze(l1,begin)", "z2 = Concat(k2,l2) axis=0"}},
    {"y = " MS "MultiHeadAttention(five) num_heads=2",
     {"qq = Gather(five,first) axis=3", "k0 = Gather(five,second) axis=3", "v0 = Gather(five,third) axis=3",
      "q = Reshape(qq,flat)", "k = Reshape(k0,flat)", "v = Reshape(v0,flat)",
      "z = Attention(q,k,v) q_num_heads=2 kv_num_heads=2"}},
    {"y = " MS "GroupQueryAttention(x,one_head,other_head,,,three,total3) num_heads=2 kv_num_heads=1 scale=0.25",
     {"z = Attention(x,one_head,other_head) q_num_heads=2 kv_num_heads=1 is_causal=1 scale=0.25"}},
    {"y,y2,y3 = " MS "GroupQueryAttention(x,one_head,other_head,rows,rows,five_keys,total5) num_heads=2 kv_num_heads=1",
     {"z,z2,z3 = Attention(x,one_head,other_head,,rows,rows) q_num_heads=2 kv_num_heads=1 is_causal=1"}},
    {"y = " MS "GroupQueryAttention(beside,,,,,three,total3,half,half) num_heads=2 kv_num_heads=1 do_rotary=1",
     {"u,v,w0 = Split(beside,widths) axis=2", "q = RotaryEmbedding(u,half,half,in_order) num_heads=2",
      "k = RotaryEmbedding(v,half,half,in_order) num_heads=1",
      "z = Attention(q,k,w0) q_num_heads=2 kv_num_heads=1 is_causal=1"}},
    {"y = " MS "MatMulNBits(x,nibbles,steps) K=4 N=2 bits=4 block_size=16", {"z = MatMul(x,about8)"}},
    {"y = " MS "MatMulNBits(x,nibbles,steps,points,,o) K=4 N=2 bits=4 block_size=16",
     {"u = MatMul(x,about_points)", "z = Add(u,o)"}},
    {"y = " MS "MatMulNBits(x,octets,steps,points) K=4 N=2 bits=8 block_size=16", {"z = MatMul(x,about_points)"}},
    {"y = " MS "DynamicQuantizeMatMul(p,other,steps,two,o)",
     {"q,l,n = DynamicQuantizeLinear(p)", "u = MatMulInteger(q,other,n,two)", "v = Cast(u) to=1", "k = Mul(l,steps)",
      "j = Mul(v,k)", "z = Add(j,o)"}},
    {"y = " MS "MatMulIntegerToFloat(whole,other,alpha,steps,two,two,o)",
     {"u = MatMulInteger(whole,other,two,two)", "v = Cast(u) to=1", "k = Mul(alpha,steps)", "j = Mul(v,k)",
      "z = Add(j,o)"}},
    {"y = " MS "RotaryEmbedding(x,at,f,z0) num_heads=2", {"z = RotaryEmbedding(x,f,z0,at) num_heads=2"}},
    {"y = " MS "RotaryEmbedding(x,place,f,z0) interleaved=1", /* heads of the caches' width */
     {"z = RotaryEmbedding(x,f,z0,places) num_heads=2 interleaved=1"}},
};

START_TEST(results_are_those_of_the_operators_it_stands_for) {
  onnx_build *b = build_open(23);
  add_constants(b);
  add_node(b, cases[_i].node);
  int n_nodes = 0, n_results = 1;
  while (n_nodes < 8 && cases[_i].nodes[n_nodes]) add_node(b, cases[_i].nodes[n_nodes++]);
  while (n_results < 3) { /* "y2" and "y3" before the operator */
    const char name[] = {'y', (char)('1' + n_results), 0}, *at = strstr(cases[_i].node, name);
    if (!at || at > strchr(cases[_i].node, '=')) break;
    n_results++;
  }
  for (int k = 1; k <= n_results; k++) {
    char y[8] = "y", z[8] = "z";
    if (k > 1) snprintf(y, sizeof y, "y%d", k), snprintf(z, sizeof z, "z%d", k);
    const char *type = k == 2 && strstr(cases[_i].node, "Embed") ? "i32" : "f32";
    build_output(b, y, type);
    build_output(b, z, type);
  }
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  for (int k = 0; k < n_results; k++) {
    const ir_value *y = f.m->main->results[2 * k], *z = f.m->main->results[2 * k + 1];
    reed_desc one, other;
    ck_assert_msg(ir_desc(y, &one) && ir_desc(z, &other) && y->data && z->data, "%s is not folded", cases[_i].node);
    ck_assert_int_eq(one.dtype, other.dtype);
    ck_assert_int_eq(one.rank, other.rank);
    for (int32_t d = 0; d < one.rank; d++) ck_assert_int_eq(one.dims[d], other.dims[d]);
    for (int64_t i = 0; i < desc_elements(&one); i++)
      ck_assert_msg(fabs(front_element(y, i) - front_element(z, i)) <= 1e-6,
                    "%s: element %d of result %d is %g, not %g", cases[_i].node, (int)i, k, front_element(y, i),
                    front_element(z, i));
  }
  front_fini(&f);
}
END_TEST

START_TEST(a_matrix_of_unknown_rank_is_transposed) {
  onnx_build *b = build_open(23);
  build_input(b, "x", "f32[n,3,h,w]");
  build_input(b, "k", "f32[n,3,5,w]");
  add_node(b, "a = Identity(x)");
  add_node(b, "c = Identity(k)");
  add_node(b, "y = " MS "FusedMatMul(a,c) transB=1");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_result_type(&f), "f32[n,3,h,5]");
  front_fini(&f);
}
END_TEST

START_TEST(nodes_that_do_not_fit_are_refused) {
  static const struct {
    const char *node, *text;
    reed_status status;
  } refused[] = {
      {"y = " MS "BiasGelu(x)", "node 'y_node' (BiasGelu): input 1 is missing", REED_ERROR_FORMAT},
      {"y = " MS "Gelu(x,x)", "has 2 inputs and 1 outputs, at most 1 and 1 are allowed", REED_ERROR_FORMAT},
      {"y,q = " MS "SkipLayerNormalization(x,x,x)", "outputs 'mean' and 'inv_std_var': 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {"y = " MS "FusedMatMul(x,x) transBatchB=1", "attribute 'transBatchA' or 'transBatchB': 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {"y = " MS "FusedConv(x,x) activation=Mish", "an activation other than", REED_ERROR_UNSUPPORTED},
      {"y = " MS "FusedConv(x,x) activation=Clip activation_params=[0.5]", "too few 'activation_params'",
       REED_ERROR_UNSUPPORTED},
      {"y = " MS "EmbedLayerNormalization(x,,x,,,x,x)", "without tables, scale or shift", REED_ERROR_UNSUPPORTED},
      {"y = " MS "MultiHeadAttention(x,x,x)", "an attention without 'num_heads': 'y_node'", REED_ERROR_UNSUPPORTED},
      {"y = " MS "MultiHeadAttention(x) num_heads=1", "an attention without keys or values: 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {"y = " MS "GroupQueryAttention(x,x,x) num_heads=1 kv_num_heads=1",
       "an attention without numbers of keys: 'y_node'", REED_ERROR_UNSUPPORTED},
      {"y = " MS "GroupQueryAttention(x,x,,,,x,x) num_heads=1 kv_num_heads=1", "keys without values: 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {"y = " MS "MatMulNBits(x,x,x) K=2 N=2 bits=3 block_size=16", "'bits' are not 2, 4 or 8: 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {"y = " MS "MatMulNBits(x,x,x) K=2 N=2", "without 'K', 'N' or 'block_size': 'y_node'", REED_ERROR_UNSUPPORTED},
      {"y = " MS "Attention(x,x,,,,,x) num_heads=1", "a cache longer than its tokens", REED_ERROR_UNSUPPORTED},
      {"y = " MS "RotaryEmbedding(x,x,x,x)", "operands whose rank is not 3 or 4", REED_ERROR_UNSUPPORTED},
      {"y = " MS "nchwc.Conv(x,x)", "operator Conv of domain com.microsoft.nchwc", REED_ERROR_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    onnx_build *b = build_open(23);
    build_input(b, "x", "f32[2,2]");
    add_node(b, refused[i].node);
    build_output(b, "y", "f32");
    front_refuses(&b, refused[i].status, refused[i].text);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_contrib");
  TCase *t = tcase_create("onnx_contrib");
  tcase_add_loop_test(t, results_are_those_of_the_operators_it_stands_for, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(t, a_matrix_of_unknown_rank_is_transposed);
  tcase_add_test(t, nodes_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
