/* bn_fold and fusion: each fires, and leaves near misses alone. */
#include <math.h>

#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/spelled.h"
#include "tests/suite.h"

/* x f32[n,2,h,w] -> Conv of 3 channels -> c; weights 1..6, bias 1 2 3 where wanted */
static onnx_build *conv(bool bias) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2,h,w]");
  build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
  if (bias) build_f32(b, "kb", "3", (float[]){1, 2, 3});
  build_node(b, "Conv", bias ? "x,k,kb" : "x,k", "c");
  return b;
}

static void batch_norm(onnx_build *b, const char *input, const char *output) {
  build_f32(b, "scale", "3", (float[]){1, 2, 3});
  build_f32(b, "shift", "3", (float[]){10, 20, 30});
  build_f32(b, "mean", "3", (float[]){1, 1, 2});
  build_f32(b, "var", "3", (float[]){4, 1, 9});
  char inputs[64];
  snprintf(inputs, sizeof inputs, "%s,scale,shift,mean,var", input);
  build_float(b, build_node(b, "BatchNormalization", inputs, output), "epsilon", 0);
}

static const reed_attr *attr(const ir_node *n, const char *name) {
  reed_attrs attrs = ir_attrs(n);
  return reed_attrs_find(&attrs, name);
}

static const char *activation(const ir_node *n) { return attr(n, "activation") ? attr(n, "activation")->s : ""; }

/* ---- bn_fold ---- */

START_TEST(batch_normalisation_folds_into_a_convolution) {
  for (int bias = 0; bias < 2; bias++) {
    onnx_build *b = conv(bias);
    batch_norm(b, "c", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_int_eq(front_changes(&f, "bn_fold"), 1);
    ck_assert_int_eq(f.m->main->nodes.n, 1);
    const ir_node *n = front_node(&f, OP_Conv);
    /* factors 1/2, 2, 1 */
    ck_assert_double_eq(front_element(n->inputs[1], 1), 1);
    ck_assert_double_eq(front_element(n->inputs[1], 2), 6);
    ck_assert_double_eq(front_element(n->inputs[1], 5), 6);
    ck_assert_double_eq(front_element(n->inputs[2], 0), 9.5 + (bias ? 0.5 : 0));
    ck_assert_double_eq(front_element(n->inputs[2], 1), 18 + (bias ? 4 : 0));
    ck_assert_double_eq(front_element(n->inputs[2], 2), 28 + (bias ? 3 : 0));
    front_fini(&f);
  }
}
END_TEST

START_TEST(batch_normalisation_folds_into_a_grouped_transposed_convolution) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2,h,w]");
  build_f32(b, "k", "2,2,1,1", (float[]){1, 2, 3, 4}); /* 2 groups: 1 channel in, 2 out each */
  build_int(b, build_node(b, "ConvTranspose", "x,k", "c"), "group", 2);
  build_f32(b, "factor", "4,1,1", (float[]){1, 10, 100, 1000});
  build_node(b, "Mul", "factor,c", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_ConvTranspose);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  ck_assert_int_eq(n->n_inputs, 2);
  ck_assert_double_eq(front_element(n->inputs[1], 0), 1);
  ck_assert_double_eq(front_element(n->inputs[1], 1), 20);
  ck_assert_double_eq(front_element(n->inputs[1], 2), 300);
  ck_assert_double_eq(front_element(n->inputs[1], 3), 4000);
  front_fini(&f);
}
END_TEST

START_TEST(batch_normalisation_folds_into_a_gemm) {
  for (int transposed = 0; transposed < 2; transposed++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n,2]");
    build_f32(b, "k", transposed ? "3,2" : "2,3", (float[]){1, 2, 3, 4, 5, 6});
    build_f32(b, "kb", "", (float[]){1});
    build_node_t *gemm = build_node(b, "Gemm", "x,k,kb", "c");
    build_int(b, gemm, "transB", transposed);
    build_float(b, gemm, "beta", 2);
    batch_norm(b, "c", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    const ir_node *n = front_node(&f, OP_Gemm);
    ck_assert_int_eq(f.m->main->nodes.n, 1);
    ck_assert_double_eq(front_element(n->inputs[1], 1), transposed ? 1 : 4);
    ck_assert_double_eq(front_element(n->inputs[2], 0), 9.5 + 1);
    ck_assert_double_eq(attr(n, "beta")->f, 1);
    front_fini(&f);
  }
}
END_TEST

/* The rows of a product of tokens are normalised as a matrix, whose shape is read from the product. */
START_TEST(batch_normalisation_folds_behind_a_view) {
  for (int miss = 0; miss < 3; miss++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n,6,2]");
    build_f32(b, "k", "2,3", (float[]){1, 2, 3, 4, 5, 6});
    build_i64(b, "to", "2", miss == 1 ? (int64_t[]){-1, 9} : (int64_t[]){-1, 3});
    build_node(b, "MatMul", "x,k", "c");
    build_node(b, "Reshape", "c,to", "d");
    if (miss == 2) build_output(b, "d", "f32");
    if (miss == 1) {
      build_f32(b, "ones", "9", (float[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
      build_node(b, "BatchNormalization", "d,ones,ones,ones,ones", "e");
    } else {
      batch_norm(b, "d", "e");
    }
    build_node(b, "Shape", "c", "s");
    build_node(b, "Reshape", "e,s", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_count(&f, OP_BatchNormalization) == (miss > 0), "miss %d", miss);
    ck_assert_int_eq(front_count(&f, OP_Shape), 0);
    const ir_node *n = front_node(&f, OP_MatMul);
    if (!miss) {
      ck_assert_int_eq(f.m->main->nodes.n, 1);
      ck_assert_double_eq(front_element(n->inputs[1], 0), 0.5);
      ck_assert_double_eq(front_element(n->inputs[1], 4), 10);
      ck_assert_double_eq(front_element(n->inputs[2], 0), 9.5);
      ck_assert_str_eq(front_result_type(&f), "f32[n,6,3]");
    }
    front_fini(&f);
  }
}
END_TEST

START_TEST(batch_normalisation_that_cannot_fold_stays) {
  for (int miss = 0; miss < 5; miss++) {
    onnx_build *b = conv(false);
    if (miss == 0) build_output(b, "c", "f32"); /* the convolution's result is an output, too */
    if (miss == 1) {                            /* Exp stands between convolution and normalisation */
      build_node(b, "Exp", "c", "d");
      batch_norm(b, "d", "y");
    } else if (miss == 2) { /* weights are computed */
      build_input(b, "k2", "f32[3,2,1,1]");
      build_node(b, "Conv", "x,k2", "d");
      batch_norm(b, "d", "y");
    } else if (miss == 3) { /* variance is an input */
      build_input(b, "v2", "f32[3]");
      build_f32(b, "s", "3", (float[]){1, 2, 3});
      build_node(b, "BatchNormalization", "c,s,s,s,v2", "y");
    } else if (miss == 4) { /* half precision would round twice */
      build_int(b, build_node(b, "Cast", "x", "xh"), "to", 10);
      build_tensor(b, "kh", REED_F16, "3,2,1,1", (uint16_t[6]){0}, true);
      build_node(b, "Conv", "xh,kh", "d");
      batch_norm(b, "d", "y");
    } else {
      batch_norm(b, "c", "y");
    }
    build_output(b, "y", "");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_count(&f, OP_BatchNormalization) == 1, "miss %d", miss);
    front_fini(&f);
  }
}
END_TEST

START_TEST(scaling_that_is_not_per_channel_stays) {
  onnx_build *b = conv(false);
  build_f32(b, "factor", "1,1,1,2", (float[]){1, 10});
  build_node(b, "Mul", "c,factor", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Mul), 1);
  front_fini(&f);
}
END_TEST

/* ---- fusion ---- */

START_TEST(a_constant_bias_joins_the_convolution) {
  for (int bias = 0; bias < 2; bias++) {
    onnx_build *b = conv(bias);
    build_f32(b, "more", "1,3,1,1", (float[]){10, 20, 30});
    build_node(b, "Add", "more,c", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_int_eq(f.m->main->nodes.n, 1);
    ck_assert_double_eq(front_element(front_node(&f, OP_Conv)->inputs[2], 1), bias ? 22 : 20);
    ck_assert_str_eq(f.m->main->results[0]->name, "y");
    front_fini(&f);
  }
}
END_TEST

START_TEST(activations_join_with_their_parameters) {
  static const struct {
    const char *op, *name, *approximate;
    double alpha, beta; /* NAN: none */
  } cases[] = {{"Relu", "relu", NULL, 0, 0},
               {"Sigmoid", "sigmoid", NULL, 0, 0},
               {"Tanh", "tanh", NULL, 0, 0},
               {"LeakyRelu", "leaky_relu", NULL, 0.01, 0},
               {"Clip", "clip", NULL, -INFINITY, 6},
               {"HardSwish", "hardswish", NULL, 0, 0},
               {"HardSigmoid", "hardsigmoid", NULL, 0.2, 0.5},
               {"Elu", "elu", NULL, 1, 0},
               {"Gelu", "gelu", NULL, 0, 0},
               {"Gelu", "gelu_tanh", "tanh", 0, 0},
               {"Mish", "mish", NULL, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool clip = strcmp(cases[i].op, "Clip") == 0;
    onnx_build *b = build_open(20);
    build_input(b, "x", "f32[n,2,h,w]");
    build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
    build_f32(b, "six", "", (float[]){6});
    build_node(b, "Conv", "x,k", "c");
    build_node_t *last = build_node(b, cases[i].op, clip ? "c,,six" : "c", "y");
    if (cases[i].approximate) build_string(b, last, "approximate", cases[i].approximate);
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    const ir_node *n = front_node(&f, OP_Conv);
    ck_assert_msg(front_count(&f, op_id_of(op_find(NULL, "", cases[i].op))) == 0, "%s stayed", cases[i].op);
    ck_assert_str_eq(activation(n), cases[i].name);
    const reed_attr *alpha = attr(n, "activation_alpha"), *beta = attr(n, "activation_beta");
    ck_assert(alpha->f == cases[i].alpha || fabs(alpha->f - cases[i].alpha) < 1e-7);
    ck_assert_double_eq_tol(beta->f, cases[i].beta, 1e-7);
    front_fini(&f);
  }
}
END_TEST

START_TEST(a_residual_joins_before_the_activation) {
  onnx_build *b = conv(true);
  build_node(b, "Exp", "c", "p");
  build_node(b, "Conv", "x,k", "d");
  build_node(b, "Add", "p,d", "s");
  build_node(b, "Relu", "s", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Add), 0);
  ck_assert_int_eq(front_count(&f, OP_Relu), 0);
  const ir_node *n = NULL;
  for (size_t i = 0; i < f.m->main->nodes.n; i++)
    if (f.m->main->nodes.items[i]->n_inputs == 4) n = f.m->main->nodes.items[i];
  ck_assert_ptr_nonnull(n);
  ck_assert_ptr_eq(n->op, op_builtin(OP_Conv));
  ck_assert_ptr_eq(n->inputs[3]->producer->op, op_builtin(OP_Exp));
  ck_assert_str_eq(activation(n), "relu");
  front_fini(&f);
}
END_TEST

START_TEST(a_residual_made_after_the_convolution_still_comes_before_it) {
  onnx_build *b = conv(true);
  build_node(b, "Conv", "x,k", "d");
  build_node(b, "Exp", "d", "e");
  build_node(b, "Add", "c,e", "y");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, "layout");
  front_ok(&f);
  const ir_graph *g = f.m->main;
  ck_assert_int_eq(g->nodes.n, 3);
  ck_assert_ptr_eq(g->nodes.items[1]->op, op_builtin(OP_Exp));
  ck_assert_ptr_eq(g->nodes.items[2]->inputs[3], g->nodes.items[1]->outputs[0]);
  front_fini(&f);
}
END_TEST

/* As in a feature pyramid: a smaller map is resized to the convolution's extents, which its input has, too, and added
 * to its result. Not with a stride, whose result has extents of its own, nor if the number of channels is read. */
START_TEST(extents_that_the_input_has_are_read_there) {
  static const struct {
    const char *read, *strides;
    bool fuses;
  } forms[] = {{"2,3", "1,1", true},
               {"-2,-1", "1,1", true},
               {"turned", "1,1", true},
               {"2,3", "2,2", false},
               {"all", "1,1", false}};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const char *read = forms[i].read;
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[1,2,h,w]");
    build_input(b, "z", "f32[1,3,p,q]");
    build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
    build_i64(b, "front", "2", (int64_t[]){1, 3});
    build_i64(b, "places", "2", *read == '-' ? (int64_t[]){-2, -1} : (int64_t[]){2, 3});
    build_i64(b, "perm", "4", (int64_t[]){2, 3, 0, 1});
    build_i64(b, "two", "2", (int64_t[]){0, 1});
    build_ints(b, build_node(b, "Conv", "x,k", "c"), "strides", forms[i].strides);
    build_node(b, "Shape", "c", "s");
    if (strcmp(read, "turned") == 0) {
      build_node(b, "Gather", "s,perm", "t");
      build_node(b, "Gather", "t,two", "e");
    } else if (strcmp(read, "all")) {
      build_node(b, "Gather", "s,places", "e");
    }
    if (strcmp(read, "all")) build_int(b, build_node(b, "Concat", "front,e", "sizes"), "axis", 0);
    build_node_t *resize = build_node(b, "Resize", strcmp(read, "all") ? "z,,,sizes" : "z,,,s", "r");
    build_string(b, resize, "mode", "nearest");
    build_string(b, resize, "coordinate_transformation_mode", "asymmetric");
    build_string(b, resize, "nearest_mode", "floor");
    build_node(b, "Add", i % 2 ? "r,c" : "c,r", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_msg((int)front_count(&f, OP_Add) == !forms[i].fuses, "%s, strides %s", read, forms[i].strides);
    const ir_node *n = front_node(&f, OP_Conv);
    ck_assert_int_eq(n->n_inputs == 4, forms[i].fuses);
    front_fini(&f);
  }
}
END_TEST

/* Names are no proof: a residual of another extent is broadcast. */
START_TEST(what_does_not_provably_fit_is_not_fused) {
  static const char *const residuals[] = {"f32[n,3,h,w]", "f32[n,3,h,1]", "f32[m,3,h,w]", "f32[1,3,1,1]", "f32[3,h,w]"};
  for (size_t i = 0; i < sizeof residuals / sizeof *residuals; i++) {
    onnx_build *b = conv(true);
    build_input(b, "r", residuals[i]);
    build_node(b, "Add", "c,r", "y");
    build_output(b, "y", "f32");
    front f;
    front_optimize(&f, &b);
    ck_assert_int_eq(front_count(&f, OP_Add), 1);
    front_fini(&f);
  }
}
END_TEST

START_TEST(what_others_see_is_not_fused) {
  onnx_build *b = conv(true);
  build_node(b, "Relu", "c", "y");
  build_node(b, "Exp", "c", "z");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Relu), 1);
  front_fini(&f);
}
END_TEST

START_TEST(nothing_joins_after_an_activation) {
  onnx_build *b = conv(true);
  build_f32(b, "more", "1,3,1,1", (float[]){10, 20, 30});
  build_node(b, "Relu", "c", "r");
  build_node(b, "Add", "r,more", "s");
  build_node(b, "Sigmoid", "s", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Add), 1);
  ck_assert_int_eq(front_count(&f, OP_Sigmoid), 1);
  front_fini(&f);
}
END_TEST

START_TEST(matrix_products_take_bias_and_activation) {
  for (int computed = 0; computed < 2; computed++)
    for (int gemm = 0; gemm < 2; gemm++) {
      onnx_build *b = build_open(13);
      build_input(b, "x", "f32[n,2]");
      build_f32(b, "k", "2,3", (float[]){1, 2, 3, 4, 5, 6});
      if (computed) build_input(b, "v", "f32[3]");
      else build_f32(b, "v", "3", (float[]){1, 2, 3});
      build_node(b, gemm ? "Gemm" : "MatMul", "x,k", "c");
      build_node(b, "Add", "c,v", "s");
      build_node(b, "Relu", "s", "y");
      build_output(b, "y", "f32");
      front f;
      front_optimize(&f, &b);
      const ir_node *n = f.m->main->nodes.items[0];
      ck_assert_int_eq(f.m->main->nodes.n, 1);
      ck_assert_int_eq(n->n_inputs, 3);
      ck_assert_str_eq(activation(n), "relu");
      front_fini(&f);
    }
}
END_TEST

/* A residual with the extents of the result is the fourth input of a product, or the third one without a bias, before
 * the activation. */
START_TEST(matrix_products_take_residuals) {
  static const struct {
    const char *input; /* NULL: the residual is made of x */
    bool bias, joins;
  } cases[] = {{NULL, false, true},
               {NULL, true, true},
               {"f32[n,3]", false, false},
               {"f32[n,1]", false, false},
               {"f32[2,n,3]", false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int gemm = 0; gemm < 2; gemm++) {
      onnx_build *b = build_open(13);
      build_input(b, "x", "f32[n,2]");
      build_f32(b, "k", "2,3", (float[]){1, 2, 3, 4, 5, 6});
      build_f32(b, "v", "3", (float[]){1, 2, 3});
      if (cases[i].input) {
        build_input(b, "r", cases[i].input);
      } else {
        build_node(b, "Abs", "x", "positive");
        build_node(b, gemm ? "MatMul" : "Gemm", "positive,k", "p");
        build_node(b, "Exp", "p", "r");
      }
      build_node_t *product = build_node(b, gemm ? "Gemm" : "MatMul", "x,k", "c");
      if (gemm) build_float(b, product, "beta", 0.5);
      if (cases[i].bias) build_node(b, "Add", "c,v", "s");
      build_node(b, "Add", cases[i].bias ? "r,s" : "r,c", "t");
      build_node(b, "Relu", "t", "y");
      build_output(b, "y", "f32");
      front f;
      front_optimize(&f, &b);
      const ir_node *n = front_node(&f, gemm ? OP_Gemm : OP_MatMul);
      ck_assert_msg(front_count(&f, OP_Add) == !cases[i].joins, "%zu", i);
      ck_assert_msg(front_count(&f, OP_Relu) == !cases[i].joins, "%zu", i);
      if (cases[i].joins) {
        ck_assert_int_eq(n->n_inputs, 3 + cases[i].bias);
        ck_assert_ptr_eq(n->inputs[2 + cases[i].bias]->producer->op, op_builtin(OP_Exp));
        ck_assert_str_eq(activation(n), "relu");
        if (gemm) ck_assert_double_eq(attr(n, "beta")->f, 1);
      }
      front_fini(&f);
    }
}
END_TEST

START_TEST(normalisations_take_activations) {
  const spelled *s = &spelled_norm_ends[_i];
  onnx_build *b = spelled_open(s);
  front f;
  front_optimize(&f, &b);
  ck_assert_msg(front_changes(&f, "fusion") == (s->made ? 1 : 0), "%s", s->what);
  if (s->made) {
    const ir_node *n = front_node(&f, op_id_of(op_find(NULL, "", s->made)));
    ck_assert_msg(n && f.m->main->nodes.n == 1 && *activation(n), "%s", s->what);
  }
  front_fini(&f);
}
END_TEST

START_TEST(a_normalisation_whose_mean_is_used_stays_where_it_is) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,8]");
  build_f32(b, "g", "8", (float[]){1, 2, 3, 4, 5, 6, 7, 8});
  build_node(b, "LayerNormalization", "x,g,g", "l,mean");
  build_node(b, "Neg", "mean", "z");
  build_node(b, "Relu", "l", "y");
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Relu), 1);
  front_fini(&f);
}
END_TEST

START_TEST(a_bias_that_widens_the_product_is_not_fused) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[1,2]");
  build_f32(b, "k", "2,3", (float[]){1, 2, 3, 4, 5, 6});
  build_f32(b, "v", "2,3", (float[]){1, 2, 3, 4, 5, 6});
  build_node(b, "MatMul", "x,k", "c");
  build_node(b, "Add", "c,v", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Add), 1);
  front_fini(&f);
}
END_TEST

START_TEST(whole_numbers_are_not_fused) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "i32[n,2]");
  build_tensor(b, "k", REED_I32, "2,3", (int32_t[]){1, 2, 3, 4, 5, 6}, true);
  build_tensor(b, "v", REED_I32, "3", (int32_t[]){1, 2, 3}, true);
  build_node(b, "MatMul", "x,k", "c");
  build_node(b, "Add", "c,v", "y");
  build_output(b, "y", "i32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Add), 1);
  front_fini(&f);
}
END_TEST

START_TEST(fusion_works_in_bodies) {
  onnx_build *b = build_open(13), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "x", "f32[n,2,h,w]");
  build_input(b, "q", "bool[]");
  build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
  build_node(then, "Conv", "x,k", "c");
  build_node(then, "Relu", "c", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Conv", "x,k", "d");
  build_output(otherwise, "d", "f32");
  build_node_t *n = build_node(b, "If", "q", "y");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Relu), 0);
  ck_assert_str_eq(activation(front_node(&f, OP_Conv)), "relu");
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("fusion");
  TCase *t = tcase_create("fusion");
  tcase_add_test(t, batch_normalisation_folds_into_a_convolution);
  tcase_add_test(t, batch_normalisation_folds_into_a_grouped_transposed_convolution);
  tcase_add_test(t, batch_normalisation_folds_into_a_gemm);
  tcase_add_test(t, batch_normalisation_folds_behind_a_view);
  tcase_add_test(t, batch_normalisation_that_cannot_fold_stays);
  tcase_add_test(t, scaling_that_is_not_per_channel_stays);
  tcase_add_test(t, a_constant_bias_joins_the_convolution);
  tcase_add_test(t, activations_join_with_their_parameters);
  tcase_add_test(t, a_residual_joins_before_the_activation);
  tcase_add_test(t, extents_that_the_input_has_are_read_there);
  tcase_add_test(t, a_residual_made_after_the_convolution_still_comes_before_it);
  tcase_add_test(t, what_does_not_provably_fit_is_not_fused);
  tcase_add_test(t, what_others_see_is_not_fused);
  tcase_add_test(t, nothing_joins_after_an_activation);
  tcase_add_test(t, matrix_products_take_bias_and_activation);
  tcase_add_test(t, matrix_products_take_residuals);
  tcase_add_loop_test(t, normalisations_take_activations, 0, sizeof spelled_norm_ends / sizeof *spelled_norm_ends);
  tcase_add_test(t, a_normalisation_whose_mean_is_used_stays_where_it_is);
  tcase_add_test(t, a_bias_that_widens_the_product_is_not_fused);
  tcase_add_test(t, whole_numbers_are_not_fused);
  tcase_add_test(t, fusion_works_in_bodies);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
