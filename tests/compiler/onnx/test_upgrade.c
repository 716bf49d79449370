/* Nodes of older opsets in the form of the newest one. */
#include <float.h>

#include "tests/compiler/front.h"
#include "tests/suite.h"

/* The node reads x f32[1,3,4,4]; gives the read graph's only node of `op`. */
static ir_node *upgraded(front *f, onnx_build **b, const char *output, op_id op) {
  build_output(*b, output, "f32");
  front_read(f, b);
  front_ok(f);
  ir_node *n = front_node(f, op);
  ck_assert_ptr_nonnull(n);
  return n;
}

static onnx_build *model(int64_t opset) {
  onnx_build *b = build_open(opset);
  build_input(b, "x", "f32[1,3,4,4]");
  return b;
}

static int64_t int_attr(const ir_node *n, const char *name) {
  reed_attrs attrs = ir_attrs(n);
  return reed_attrs_int(&attrs, name, INT64_MIN);
}

static const char *text_attr(const ir_node *n, const char *name) {
  reed_attrs attrs = ir_attrs(n);
  return reed_attrs_string(&attrs, name, "(none)");
}

/* Attributes that became inputs: operator, opset, attribute, the input it is now, its first number */
START_TEST(attributes_become_inputs) {
  static const struct {
    const char *op;
    int64_t opset;
    const char *attr, *numbers;
    op_id now;
    int32_t input;
    int64_t first;
  } cases[] = {
      {"Squeeze", 11, "axes", "0", OP_Squeeze, 1, 0},     {"Unsqueeze", 12, "axes", "2,3", OP_Unsqueeze, 1, 2},
      {"ReduceSum", 12, "axes", "1", OP_ReduceSum, 1, 1}, {"ReduceMean", 17, "axes", "-1", OP_ReduceMean, 1, -1},
      {"ReduceMax", 11, "axes", "3", OP_ReduceMax, 1, 3}, {"ReduceL2", 13, "axes", "2", OP_ReduceL2, 1, 2},
      {"Split", 11, "split", "1", OP_Split, 1, 1},        {"Pad", 10, "pads", "0,0,1,1,0,0,1,1", OP_Pad, 1, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = model(cases[i].opset);
    build_ints(b, build_node(b, cases[i].op, "x", "y"), cases[i].attr, cases[i].numbers);
    front f;
    const ir_node *n = upgraded(&f, &b, "y", cases[i].now);
    reed_attrs attrs = ir_attrs(n);
    ck_assert_ptr_null(reed_attrs_find(&attrs, cases[i].attr));
    ck_assert_int_eq(n->n_inputs, cases[i].input + 1);
    ck_assert_int_eq(n->inputs[cases[i].input]->type.dtype, REED_I64);
    ck_assert_double_eq(front_element(n->inputs[cases[i].input], 0), (double)cases[i].first);
    front_fini(&f);
  }
}
END_TEST

START_TEST(newer_forms_are_left_alone) {
  onnx_build *b = model(18);
  build_i64(b, "axes", "1", (int64_t[]){2});
  build_node(b, "ReduceMean", "x,axes", "y");
  front f;
  const ir_node *n = upgraded(&f, &b, "y", OP_ReduceMean);
  ck_assert_str_eq(n->inputs[1]->name, "axes");
  front_fini(&f);

  b = model(13);
  build_node(b, "Softmax", "x", "y");
  n = upgraded(&f, &b, "y", OP_Softmax);
  ck_assert_int_eq(int_attr(n, "axis"), -1);
  ck_assert_int_eq(int_attr(n, "flattened"), 0);
  front_fini(&f);
}
END_TEST

START_TEST(slice_with_attributes) {
  onnx_build *b = model(9);
  build_node_t *node = build_node(b, "Slice", "x", "y");
  build_ints(b, node, "starts", "1,0");
  build_ints(b, node, "ends", "3,2");
  build_ints(b, node, "axes", "1,3");
  front f;
  const ir_node *n = upgraded(&f, &b, "y", OP_Slice);
  ck_assert_int_eq(n->n_inputs, 4);
  ck_assert_int_eq(n->n_attrs, 0);
  ck_assert_double_eq(front_element(n->inputs[3], 1), 3);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[1,2,4,2]");
  front_fini(&f);
}
END_TEST

START_TEST(clip_and_pad_with_attributes_take_the_dtype_of_their_data) {
  onnx_build *b = build_open(7);
  build_input(b, "x", "f64[2]");
  build_node_t *node = build_node(b, "Clip", "x", "y");
  build_float(b, node, "max", 6);
  build_output(b, "y", "f64");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  const ir_node *n = front_node(&f, OP_Clip);
  ck_assert_double_eq(front_element(n->inputs[1], 0), -FLT_MAX); /* ONNX's default until opset 10 */
  ck_assert_int_eq(n->inputs[2]->type.dtype, REED_F64);
  ck_assert_int_eq(n->inputs[2]->type.rank, 0);
  ck_assert_double_eq(front_element(n->inputs[2], 0), 6);
  front_fini(&f);
}
END_TEST

START_TEST(topk_with_an_attribute) {
  onnx_build *b = model(9);
  build_int(b, build_node(b, "TopK", "x", "y,i"), "k", 2);
  front f;
  const ir_node *n = upgraded(&f, &b, "y", OP_TopK);
  ck_assert_str_eq(front_type(&f, n->inputs[1]), "i64[1]");
  front_fini(&f);
}
END_TEST

START_TEST(softmax_of_old_is_flattened_from_axis_1) {
  static const char *const names[] = {"Softmax", "LogSoftmax"};
  for (int i = 0; i < 2; i++) {
    onnx_build *b = model(12);
    build_node(b, names[i], "x", "y");
    front f;
    const ir_node *n = upgraded(&f, &b, "y", i ? OP_LogSoftmax : OP_Softmax);
    ck_assert_int_eq(int_attr(n, "axis"), 1);
    ck_assert_int_eq(int_attr(n, "flattened"), 1);
    front_fini(&f);
  }
  onnx_build *b = model(11);
  build_int(b, build_node(b, "Softmax", "x", "y"), "axis", 3);
  front f;
  ck_assert_int_eq(int_attr(upgraded(&f, &b, "y", OP_Softmax), "axis"), 3);
  front_fini(&f);
}
END_TEST

START_TEST(upsample_becomes_resize) {
  onnx_build *b = model(7);
  build_node_t *node = build_node(b, "Upsample", "x", "y");
  build_string(b, node, "mode", "bilinear");
  build_floats(b, node, "scales", "1,1,2,2");
  front f;
  const ir_node *n = upgraded(&f, &b, "y", OP_Resize);
  ck_assert_int_eq(n->n_inputs, 3);
  ck_assert_ptr_null(n->inputs[1]);
  ck_assert_int_eq(n->inputs[2]->type.dtype, REED_F32);
  ck_assert_str_eq(text_attr(n, "mode"), "linear");
  ck_assert_str_eq(text_attr(n, "coordinate_transformation_mode"), "asymmetric");
  ck_assert_str_eq(text_attr(n, "nearest_mode"), "floor");
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[1,3,8,8]");
  front_fini(&f);

  b = model(9);
  build_f32(b, "scales", "4", (float[]){1, 1, 2, 3});
  build_node(b, "Upsample", "x,scales", "y");
  n = upgraded(&f, &b, "y", OP_Resize);
  ck_assert_str_eq(n->inputs[2]->name, "scales");
  front_fini(&f);
}
END_TEST

START_TEST(resize_of_opset_10_is_asymmetric) {
  onnx_build *b = model(10);
  build_f32(b, "scales", "4", (float[]){1, 1, 2, 2});
  build_node(b, "Resize", "x,scales", "y");
  front f;
  const ir_node *n = upgraded(&f, &b, "y", OP_Resize);
  ck_assert_str_eq(n->inputs[2]->name, "scales");
  ck_assert_str_eq(text_attr(n, "coordinate_transformation_mode"), "asymmetric");
  front_fini(&f);

  b = model(11);
  build_f32(b, "roi", "0", (float[]){0});
  build_f32(b, "scales", "4", (float[]){1, 1, 2, 2});
  build_node(b, "Resize", "x,roi,scales", "y");
  n = upgraded(&f, &b, "y", OP_Resize);
  ck_assert_str_eq(text_attr(n, "coordinate_transformation_mode"), "half_pixel");
  front_fini(&f);
}
END_TEST

START_TEST(resize_of_pytorch_aligns_corners_of_whole_extents) {
  static const struct {
    const char *producer, *mapping;
    int64_t whole;
  } rows[] = {{"pytorch", "align_corners", 1},
              {"pytorch", "half_pixel", 0},
              {"backend-test", "align_corners", 0},
              {NULL, "align_corners", 0}};
  for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
    onnx_build *b = model(18);
    build_model(b)->producer_name = (char *)rows[i].producer;
    build_f32(b, "scales", "4", (float[]){1, 1, 1.7F, 1.7F});
    build_string(b, build_node(b, "Resize", "x,,scales", "y"), "coordinate_transformation_mode", rows[i].mapping);
    front f;
    const ir_node *n = upgraded(&f, &b, "y", OP_Resize);
    ck_assert_int_eq(int_attr(n, "whole_extents"), rows[i].whole);
    front_fini(&f);
  }
}
END_TEST

START_TEST(roi_align_changed_its_default_at_16) {
  for (int64_t opset = 15; opset <= 16; opset++) {
    onnx_build *b = model(opset);
    build_f32(b, "rois", "1,4", (float[]){0, 0, 2, 2});
    build_i64(b, "batch", "1", (int64_t[]){0});
    build_node(b, "RoiAlign", "x,rois,batch", "y");
    front f;
    const ir_node *n = upgraded(&f, &b, "y", OP_RoiAlign);
    ck_assert_str_eq(text_attr(n, "coordinate_transformation_mode"), opset == 15 ? "output_half_pixel" : "half_pixel");
    front_fini(&f);
  }
}
END_TEST

START_TEST(dtypes_of_attributes_are_reeds) {
  onnx_build *b = model(13);
  build_int(b, build_node(b, "Cast", "x", "y"), "to", 7);
  build_output(b, "y", "i64");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(int_attr(front_node(&f, OP_Cast), "to"), REED_I64);
  ck_assert_int_eq(f.m->main->results[0]->type.dtype, REED_I64);
  front_fini(&f);

  b = model(19);
  build_node_t *cast = build_node(b, "Cast", "x", "y");
  build_int(b, cast, "to", 17);
  build_int(b, cast, "saturate", 1);
  build_output(b, "y", "f32");
  front_read(&f, &b);
  front_says(&f, REED_ERROR_UNSUPPORTED, "Cast to a dtype that is float8e4m3fn: 'y_node'");
  front_fini(&f);
}
END_TEST

/* saturate and round_mode say how to convert to dtypes of 8 bits. */
START_TEST(attributes_for_dtypes_that_reed_lacks_are_dropped) {
  onnx_build *b = model(24);
  build_node_t *cast = build_node(b, _i ? "CastLike" : "Cast", _i ? "x,x" : "x", "y");
  if (!_i) build_int(b, cast, "to", 1);
  build_int(b, cast, "saturate", 0);
  build_string(b, cast, "round_mode", "up");
  front f;
  const ir_node *n = upgraded(&f, &b, "y", OP_Cast);
  ck_assert_int_eq(int_attr(n, "to"), REED_F32);
  ck_assert_int_eq(n->n_attrs, 1);
  front_fini(&f);
}
END_TEST

START_TEST(batch_normalization_of_old_loses_its_training_outputs) {
  for (int used = 0; used < 2; used++) {
    onnx_build *b = model(7);
    build_f32(b, "v", "3", (float[]){1, 1, 1});
    build_node(b, "BatchNormalization", "x,v,v,v,v", used ? "y,m" : "y,,,,");
    build_output(b, "y", "f32");
    front f;
    front_read(&f, &b);
    if (used) {
      front_says(&f, REED_ERROR_UNSUPPORTED, "output 1 of BatchNormalization (training): 'y_node'");
    } else {
      front_ok(&f);
      ck_assert_int_eq(front_node(&f, OP_BatchNormalization)->n_outputs, 1);
    }
    front_fini(&f);
  }
}
END_TEST

START_TEST(scatter_is_scatter_elements) {
  onnx_build *b = model(9);
  build_tensor(b, "i", REED_I64, "1,1,1,1", (int64_t[]){0}, true);
  build_f32(b, "u", "1,1,1,1", (float[]){5});
  build_int(b, build_node(b, "Scatter", "x,i,u", "y"), "axis", 2);
  front f;
  ck_assert_int_eq(int_attr(upgraded(&f, &b, "y", OP_ScatterElements), "axis"), 2);
  front_fini(&f);
}
END_TEST

START_TEST(an_attribute_and_the_input_it_became_are_too_much) {
  onnx_build *b = model(12);
  build_i64(b, "axes", "1", (int64_t[]){0});
  build_ints(b, build_node(b, "Squeeze", "x,axes", "y"), "axes", "0");
  build_output(b, "y", "f32");
  front_refuses(&b, REED_ERROR_FORMAT, "attribute 'axes' and input 1 are both given");
}
END_TEST

/* A list of strings is one string; layout came with opset 14, and the operator's form is the same in all. */
START_TEST(recurrent_cells_of_every_opset) {
  for (int64_t opset = 7; opset <= 23; opset++) {
    onnx_build *b = build_open(opset);
    build_input(b, "x", "f32[5,n,2]");
    build_tensor(b, "w", REED_F32, "1,4,2", (float[8]){0}, true);
    build_tensor(b, "r", REED_F32, "1,4,1", (float[4]){0}, true);
    build_input(b, "lengths", "i32[n]");
    build_node_t *node = build_node(b, "LSTM", "x,w,r,,lengths", ",h,c");
    build_strings(b, node, "activations", "Sigmoid,Tanh,ScaledTanh");
    build_floats(b, node, "activation_alpha", "0.5");
    build_int(b, node, "hidden_size", 1);
    if (opset >= 14) build_int(b, node, "layout", 0);
    build_output(b, "c", "f32");
    front f;
    const ir_node *n = upgraded(&f, &b, "h", OP_LSTM);
    ck_assert_str_eq(text_attr(n, "activations"), "Sigmoid,Tanh,ScaledTanh");
    ck_assert_ptr_null(n->outputs[0]);
    ck_assert_ptr_null(n->inputs[3]);
    front_passes(&f, NULL);
    front_ok(&f);
    ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[1,n,1]");
    front_fini(&f);
  }
}
END_TEST

/* The body declares only its parameters' names: their dtypes are those of the Loop's inputs. */
START_TEST(castlike_to_an_untyped_parameter_of_a_loop) {
  onnx_build *b = build_open(15), *body = build_subgraph(b);
  build_input(b, "x", "f16[n]");
  build_i64(b, "m", "", (int64_t[]){3});
  build_i64(b, "k", "1", (int64_t[]){2});
  build_input(body, "i", "i64");
  build_input(body, "c", "bool");
  build_input(body, "s", "f32");
  for (size_t i = 0; i < 3; i++) build_graph(body)->input[i]->type->tensor_type->elem_type = 0;
  build_node(body, "Identity", "c", "d");
  build_node(body, "CastLike", "k,s", "like_state");
  build_node(body, "CastLike", "k,i", "like_turn");
  build_node(body, "CastLike", "k,c", "like_condition");
  build_node(body, "Add", "s,like_state", "next");
  build_output(body, "d", "bool");
  build_output(body, "next", "f16");
  build_output(body, "like_turn", "i64");
  build_output(body, "like_condition", "bool");
  build_graph_attr(b, build_node(b, "Loop", "m,,x", "y,t,u"), "body", body);
  build_output(b, "y", "f16[n]");
  build_output(b, "t", "i64");
  build_output(b, "u", "bool");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(f.m->main->results[0]->type.dtype, REED_F16);
  ck_assert_int_eq(f.m->main->results[1]->type.dtype, REED_I64);
  ck_assert_int_eq(f.m->main->results[2]->type.dtype, REED_BOOL);
  ck_assert_int_eq(int_attr(front_node(&f, OP_Cast), "to"), REED_F16);
  front_passes(&f, NULL);
  front_ok(&f);
  front_fini(&f);
}
END_TEST

START_TEST(castlike_to_an_untyped_element_of_a_scan) {
  for (int64_t opset = 15; opset >= 8; opset -= 7) {
    onnx_build *b = build_open(opset), *body = build_subgraph(b);
    build_input(b, "first", opset < 9 ? "f32[2]" : "f32[]");
    build_input(b, "x", opset < 9 ? "f64[2,n]" : "f64[n]");
    build_i64(b, "k", "", (int64_t[]){2});
    build_input(body, "s", "f32");
    build_input(body, "e", "f64");
    for (size_t i = 0; i < 2; i++) build_graph(body)->input[i]->type->tensor_type->elem_type = 0;
    build_node(body, "CastLike", "k,s", "ks");
    build_node(body, "CastLike", "k,e", "ke");
    build_node(body, "Add", "s,ks", "t");
    build_node(body, "Add", "e,ke", "o");
    build_output(body, "t", "f32[]");
    build_output(body, "o", "f64[]");
    build_node_t *n = build_node(b, "Scan", opset < 9 ? ",first,x" : "first,x", "y,z");
    build_int(b, n, "num_scan_inputs", 1);
    build_graph_attr(b, n, "body", body);
    build_output(b, "y", "f32");
    build_output(b, "z", "f64");
    front f;
    front_read(&f, &b);
    front_ok(&f);
    ck_assert_int_eq(f.m->main->results[0]->type.dtype, REED_F32);
    ck_assert_int_eq(f.m->main->results[1]->type.dtype, REED_F64);
    front_fini(&f);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_upgrade");
  TCase *t = tcase_create("onnx_upgrade");
  tcase_add_test(t, attributes_become_inputs);
  tcase_add_test(t, newer_forms_are_left_alone);
  tcase_add_test(t, slice_with_attributes);
  tcase_add_test(t, clip_and_pad_with_attributes_take_the_dtype_of_their_data);
  tcase_add_test(t, topk_with_an_attribute);
  tcase_add_test(t, softmax_of_old_is_flattened_from_axis_1);
  tcase_add_test(t, upsample_becomes_resize);
  tcase_add_test(t, resize_of_opset_10_is_asymmetric);
  tcase_add_test(t, resize_of_pytorch_aligns_corners_of_whole_extents);
  tcase_add_test(t, roi_align_changed_its_default_at_16);
  tcase_add_test(t, dtypes_of_attributes_are_reeds);
  tcase_add_loop_test(t, attributes_for_dtypes_that_reed_lacks_are_dropped, 0, 2);
  tcase_add_test(t, batch_normalization_of_old_loses_its_training_outputs);
  tcase_add_test(t, scatter_is_scatter_elements);
  tcase_add_test(t, an_attribute_and_the_input_it_became_are_too_much);
  tcase_add_test(t, recurrent_cells_of_every_opset);
  tcase_add_test(t, castlike_to_an_untyped_parameter_of_a_loop);
  tcase_add_test(t, castlike_to_an_untyped_element_of_a_scan);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
