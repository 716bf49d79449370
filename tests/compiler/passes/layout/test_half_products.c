/* The pass half_products: the products of a target without weights of half precision beside inputs of f32, what lies
 * between them, and what keeps f32. */
#include "ops/packed.h"
#include "tests/compiler/front.h"
#include "tests/suite.h"

enum { WIDTH = 64 }; /* of all products: wide enough for bf16 */

static float weights[4 * WIDTH * WIDTH];

/* Runs all passes but chains for the target, in the precision. */
static void optimize(front *f, onnx_build **b, const char *target, reed_dtype precision) {
  capability *targets = NULL;
  front_read(f, b);
  front_ok(f);
  ck_assert_int_eq(capability_open(target, NULL, &targets, &f->diagnosis), REED_OK);
  f->m->targets = targets;
  f->m->precision = precision;
  front_passes(f, "chains");
  capability_close(&targets);
  f->m->targets = NULL;
}

static onnx_build *open_model(void) {
  onnx_build *b = build_open(23);
  for (int i = 0; i < 4 * WIDTH * WIDTH; i++) weights[i] = (float)(i % 13) / 8;
  build_input(b, "x", "f32[n,64]");
  build_f32(b, "w", "64,64", weights);
  build_f32(b, "v", "64,64", weights + 1);
  build_f32(b, "scale", "64", weights + 2);
  build_f32(b, "bias", "64", weights + 3);
  return b;
}

static const ir_node *node_named(const front *f, const char *name) {
  for (size_t i = 0; i < f->m->main->nodes.n; i++)
    if (strcmp(f->m->main->nodes.items[i]->name, name) == 0) return f->m->main->nodes.items[i];
  ck_abort_msg("no node '%s'", name);
}

/* True if all float operands and the result of the node are of that dtype. */
static bool is_of(const ir_node *n, reed_dtype dtype) {
  bool all = n->outputs[0]->type.dtype == dtype;
  for (int32_t i = 0; i < n->n_inputs; i++) all = all && (!n->inputs[i] || n->inputs[i]->type.dtype == dtype);
  return all;
}

/* Names of the node of output y. */
#define NODE(y) y "_node"

START_TEST(products_and_a_norm_between_them_take_halves) {
  const reed_dtype half = _i ? REED_BF16 : REED_F16;
  onnx_build *b = open_model();
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "Add", "a,bias", "c");
  build_node(b, "LayerNormalization", "c,scale,bias", "l");
  build_node(b, "MatMul", "l,v", "d");
  build_node(b, "Add", "d,l", "s");
  build_node(b, "Gelu", "s", "g");
  build_node(b, "Gemm", "g,w,bias", "y");
  build_output(b, "y", "f32");
  front f;
  optimize(&f, &b, "cuda", half);
  front_ok(&f);
  ck_assert(is_of(front_node(&f, OP_LayerNormalization), half));
  ck_assert(is_of(front_node(&f, OP_MatMul), half));
  ck_assert(is_of(front_node(&f, OP_Gemm), half));
  ck_assert_int_eq(front_count(&f, OP_MatMul), 2);
  ck_assert_int_eq(front_count(&f, OP_Cast), 2); /* of x and of y */
  ck_assert_str_eq(f.m->main->results[0]->name, "y");
  ck_assert_int_eq(f.m->main->results[0]->type.dtype, REED_F32);
  ck_assert_int_eq(front_changes(&f, "half_products"), 4);
  ck_assert_int_eq(front_changes(&f, "precision"), 0);
  front_fini(&f);
}
END_TEST

/* Its scale and bias are no constants, or its result is read as f32 as well. */
START_TEST(a_norm_that_others_read_keeps_f32) {
  onnx_build *b = open_model();
  if (_i) build_input(b, "given", "f32[64]");
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "RMSNormalization", _i ? "a,given" : "a,scale", "l");
  build_node(b, "MatMul", "l,v", "y");
  build_output(b, "y", "f32");
  if (!_i) build_output(b, "l", "f32");
  front f;
  optimize(&f, &b, "cuda", REED_F16);
  front_ok(&f);
  ck_assert(is_of(front_node(&f, OP_RMSNormalization), REED_F32));
  ck_assert_int_eq(front_count(&f, OP_Cast), 4); /* of x, a, l and y */
  front_fini(&f);
}
END_TEST

/* One Cast serves all readers of a value, and moved elements stay halves. */
START_TEST(a_value_is_rounded_once_and_moved_as_halves) {
  onnx_build *b = open_model();
  static const int64_t shape[] = {-1, 4, 16};
  build_i64(b, "shape", "3", shape);
  build_f32(b, "u", "16,64", weights);
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "MatMul", "x,v", "c");
  build_node_t *join = build_node(b, "Concat", "a,c", "j");
  build_int(b, join, "axis", 0);
  build_node(b, "Reshape", "j,shape", "r");
  build_node(b, "MatMul", "r,u", "y");
  build_node(b, "Exp", "x", "z");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  front f;
  optimize(&f, &b, "cuda", REED_F16);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_MatMul), 3);
  ck_assert_int_eq(front_node(&f, OP_Concat)->outputs[0]->type.dtype, REED_F16);
  ck_assert_int_eq(front_node(&f, OP_Reshape)->outputs[0]->type.dtype, REED_F16);
  ck_assert(is_of(front_node(&f, OP_Exp), REED_F32));
  ck_assert_int_eq(front_count(&f, OP_Cast), 2);
  front_fini(&f);
}
END_TEST

START_TEST(convolutions_take_halves_with_their_residuals) {
  onnx_build *b = build_open(20);
  for (int i = 0; i < 4 * WIDTH * WIDTH; i++) weights[i] = (float)(i % 13) / 8;
  build_input(b, "x", "f32[n,64,h,w]");
  build_f32(b, "k", "64,64,1,1", weights);
  build_node(b, "Conv", "x,k", "a");
  build_node(b, "Relu", "a", "r");
  build_ints(b, build_node(b, "MaxPool", "r", "p"), "kernel_shape", "1,1");
  build_node(b, "Conv", "p,k", "c");
  build_node(b, "Conv", "c,k", "d");
  build_node(b, "Add", "d,p", "y");
  build_output(b, "y", "f32");
  front f;
  optimize(&f, &b, "cuda", REED_F16);
  front_ok(&f);
  ck_assert(is_of(node_named(&f, NODE("d")), REED_F16));
  ck_assert_ptr_nonnull(node_named(&f, NODE("d"))->inputs[3]);
  ck_assert(is_of(front_node(&f, OP_MaxPool), REED_F16));
  ck_assert_int_eq(front_count(&f, OP_Cast), 2);
  front_fini(&f);
}
END_TEST

START_TEST(attention_takes_halves_beside_its_mask) {
  onnx_build *b = build_open(23);
  build_input(b, "q", "f32[1,8,16,64]");
  build_input(b, "k", "f32[1,8,16,64]");
  build_input(b, "v", "f32[1,8,16,64]");
  build_input(b, "mask", "f32[16,16]");
  build_node(b, "Attention", "q,k,v,mask", _i ? "y,keys" : "y");
  if (_i) build_output(b, "keys", "f32");
  build_output(b, "y", "f32");
  front f;
  optimize(&f, &b, "cuda", REED_F16);
  front_ok(&f);
  const ir_node *n = front_node(&f, OP_Attention);
  const reed_dtype expected = _i ? REED_F32 : REED_F16;
  for (int32_t i = 0; i < 3; i++) ck_assert_int_eq(n->inputs[i]->type.dtype, expected);
  ck_assert_int_eq(n->inputs[3]->type.dtype, REED_F32);
  ck_assert_int_eq(n->outputs[0]->type.dtype, expected);
  front_fini(&f);
}
END_TEST

/* A product whose result is chosen from, narrow products in bf16, products without constant weights, models that ask
 * for no precision, and targets whose kernels take weights of half precision beside f32. */
START_TEST(other_products_keep_f32) {
  static const struct {
    const char *target;
    reed_dtype precision;
    int computed, chosen, narrow;
    int n_products;
  } cases[] = {{"cuda", REED_F16, .n_products = 1},
               {"cuda", REED_F16, .computed = 1},
               {"cuda", REED_F16, .chosen = 1},
               {"cuda", REED_BF16, .narrow = 1},
               {"cuda", REED_F16, .narrow = 1, .n_products = 1},
               {"cuda", REED_F32},
               {"host", REED_F16},
               {"sim", REED_BF16},
               {"cuda?lacks=*.f16", REED_F16},
               {"cuda?lacks=*.f16", REED_BF16, .n_products = 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = open_model();
    if (cases[i].computed) build_input(b, "given", "f32[64,64]");
    build_f32(b, "few", "64,40", weights);
    build_node(b, "MatMul", cases[i].computed ? "x,given" : cases[i].narrow ? "x,few" : "x,w", "y");
    if (cases[i].chosen) build_node(b, "ArgMax", "y", "z");
    build_output(b, cases[i].chosen ? "z" : "y", "");
    front f;
    optimize(&f, &b, cases[i].target, cases[i].precision);
    front_ok(&f);
    ck_assert_msg(front_changes(&f, "half_products") == cases[i].n_products, "%zu", i);
    front_fini(&f);
  }
}
END_TEST

START_TEST(weights_that_exceed_f16_are_refused) {
  onnx_build *b = open_model();
  static float large[WIDTH * WIDTH] = {[5] = 70000};
  build_f32(b, "large", "64,64", large);
  build_node(b, "MatMul", "x,large", "y");
  build_output(b, "y", "f32");
  front f;
  optimize(&f, &b, "cuda", REED_F16);
  front_says(&f, REED_ERROR_UNSUPPORTED, "its weights exceed what f16 holds");
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("half_products");
  TCase *t = tcase_create("half_products");
  tcase_add_loop_test(t, products_and_a_norm_between_them_take_halves, 0, 2);
  tcase_add_loop_test(t, a_norm_that_others_read_keeps_f32, 0, 2);
  tcase_add_test(t, a_value_is_rounded_once_and_moved_as_halves);
  tcase_add_test(t, convolutions_take_halves_with_their_residuals);
  tcase_add_loop_test(t, attention_takes_halves_beside_its_mask, 0, 2);
  tcase_add_test(t, other_products_keep_f32);
  tcase_add_test(t, weights_that_exceed_f16_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
