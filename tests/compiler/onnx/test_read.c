/* Reading ONNX models: inputs, outputs, constants, attributes, functions, subgraphs, and refused models. External
 * files, limits, order of nodes, Scan and older opsets have test files of their own in this folder. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* y = Relu(x) */
static onnx_build *relu_model(void) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,3]");
  build_node(b, "Relu", "x", "y");
  build_output(b, "y", "f32[n,3]");
  return b;
}

START_TEST(a_model_becomes_a_graph) {
  onnx_build *b = relu_model();
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(f.m->main->n_params, 1);
  ck_assert_str_eq(front_type(&f, f.m->main->params[0]), "f32[n,3]");
  ck_assert_int_eq(f.m->main->n_results, 1);
  ck_assert_str_eq(f.m->main->result_names[0], "y");
  ck_assert_str_eq(front_node(&f, OP_Relu)->name, "y_node");
  front_fini(&f);
}
END_TEST

START_TEST(dims_are_symbols_of_their_own_and_names_are_only_declared) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,?]");
  build_input(b, "z", "f32[n,?]");
  build_node(b, "Add", "x,z", "y");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  const ir_type *x = &f.m->main->params[0]->type, *z = &f.m->main->params[1]->type;
  ck_assert(!symbols_equal(f.m->symbols, x->dims[0], z->dims[0]));
  ck_assert(symbols_equal_if_declared(f.m->symbols, x->dims[0], z->dims[0]));
  ck_assert(!symbols_equal_if_declared(f.m->symbols, x->dims[1], z->dims[1]));
  front_fini(&f);
}
END_TEST

START_TEST(every_dtype_is_read_from_raw_and_typed_data) {
  for (int dtype = REED_F32; dtype < REED_DTYPE_COUNT; dtype++)
    for (int raw = 0; raw < 2; raw++) {
      char elements[16] = {0};
      size_t bytes = reed_dtype_bytes((reed_dtype)dtype);
      reed_dtype_write((reed_dtype)dtype, elements, 1);
      reed_dtype_write((reed_dtype)dtype, elements + bytes, 0);
      onnx_build *b = build_open(13);
      build_tensor(b, "w", (reed_dtype)dtype, "2", elements, raw);
      build_node(b, "Identity", "w", "y");
      build_output(b, "y", reed_dtype_name((reed_dtype)dtype));
      front f;
      front_read(&f, &b);
      front_ok(&f);
      const ir_value *w = front_node(&f, OP_Identity)->inputs[0];
      ck_assert_int_eq(w->type.dtype, dtype);
      ck_assert_mem_eq(w->data, elements, 2 * bytes);
      front_fini(&f);
    }
}
END_TEST

START_TEST(constant_nodes_of_every_kind_become_constants) {
  onnx_build *b = build_open(13);
  build_float(b, build_node(b, "Constant", "", "a"), "value_float", 2.5f);
  build_int(b, build_node(b, "Constant", "", "b"), "value_int", 7);
  build_floats(b, build_node(b, "Constant", "", "c"), "value_floats", "1.5,2");
  build_ints(b, build_node(b, "Constant", "", "d"), "value_ints", "3,4,5");
  build_tensor_attr(b, build_node(b, "Constant", "", "e"), "value",
                    build_loose_tensor(b, REED_I32, "1,1", (int32_t[]){9}));
  for (const char *name = "abcde"; *name; name++)
    build_output(b, (char[]){*name, 0}, *name == 'a' || *name == 'c' ? "f32" : *name == 'e' ? "i32" : "i64");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(f.m->main->nodes.n, 0);
  ir_value **r = f.m->main->results;
  ck_assert_double_eq(front_element(r[0], 0), 2.5);
  ck_assert_double_eq(front_element(r[1], 0), 7);
  ck_assert_double_eq(front_element(r[2], 1), 2);
  ck_assert_double_eq(front_element(r[3], 2), 5);
  ck_assert_int_eq(r[0]->type.rank, 0);
  ck_assert_int_eq(r[3]->type.dims[0], 3);
  ck_assert_str_eq(front_type(&f, r[4]), "i32[1,1]");
  front_fini(&f);
}
END_TEST

START_TEST(an_input_that_is_an_initializer_is_a_constant) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[2]");
  build_input(b, "w", "f32[2]");
  build_f32(b, "w", "2", (float[]){1, 2});
  build_node(b, "Add", "x,w", "y");
  build_output(b, "y", "f32[2]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(f.m->main->n_params, 1);
  ck_assert(ir_is_constant(front_node(&f, OP_Add)->inputs[1]));
  front_fini(&f);
}
END_TEST

START_TEST(optional_inputs_left_out_are_absent) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[2]");
  build_f32(b, "high", "", (float[]){6});
  build_node(b, "Clip", "x,,high", "y");
  build_output(b, "y", "f32[2]");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  const ir_node *clip = front_node(&f, OP_Clip);
  ck_assert_int_eq(clip->n_inputs, 3);
  ck_assert_ptr_null(clip->inputs[1]);
  ck_assert_ptr_nonnull(clip->inputs[2]);
  front_fini(&f);
}
END_TEST

/* y = If(c) { Add(x, x) } else { Neg(x) }, capturing x */
static onnx_build *if_model(void) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_input(b, "c", "bool[]");
  onnx_build *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_node(then, "Add", "x,x", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Neg", "x", "e");
  build_output(otherwise, "e", "f32");
  build_node_t *n = build_node(b, "If", "c", "y");
  build_graph_attr(b, n, "else_branch", otherwise);
  build_graph_attr(b, n, "then_branch", then);
  build_output(b, "y", "f32[n]");
  return b;
}

START_TEST(branches_become_regions_in_order_and_capture_implicitly) {
  onnx_build *b = if_model();
  front f;
  front_read(&f, &b);
  front_ok(&f);
  const ir_node *n = front_node(&f, OP_If);
  ck_assert_int_eq(n->n_regions, 2);
  ck_assert_ptr_eq(n->regions[0]->nodes.items[0]->op, op_builtin(OP_Add));
  ck_assert_ptr_eq(n->regions[0]->nodes.items[0]->inputs[0], f.m->main->params[0]);
  ck_assert_ptr_eq(n->regions[1]->nodes.items[0]->op, op_builtin(OP_Neg));
  front_fini(&f);
}
END_TEST

START_TEST(a_loop_whose_body_does_not_fit_is_refused) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[n]");
  build_i64(b, "m", "", (int64_t[]){3});
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_node(body, "Identity", "c", "d");
  build_output(body, "d", "bool[]");
  build_graph_attr(b, build_node(b, "Loop", "m,,x", "y"), "body", body);
  build_output(b, "y", "f32[n]");
  front_refuses(&b, REED_ERROR_FORMAT, "node 'y_node' (Loop) has 3 inputs and 1 outputs, but its body takes 2");
}
END_TEST

START_TEST(functions_are_inlined_with_their_attributes_and_absent_inputs) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[2,3]");
  build_node_t *inner = build_node(body, "Concat", "p,p", "q");
  build_ref_attr(body, inner, "axis", "along");
  build_node(body, "Clip", "q,low", "r");
  build_function(b, "mine", "Twice", "p,low", "r", "along", body);
  build_int(b, build_node(b, "mine.Twice", "x", "y"), "along", 1);
  build_int(b, build_node(b, "mine.Twice", "y", "z"), "along", 0);
  build_output(b, "z", "f32");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_Concat), 2);
  const ir_node *first = front_node(&f, OP_Concat);
  ck_assert_str_eq(first->name, "y_node/q_node");
  reed_attrs attrs = ir_attrs(first);
  ck_assert_int_eq(reed_attrs_int(&attrs, "axis", -1), 1);
  ck_assert_int_eq(front_node(&f, OP_Clip)->n_inputs, 2);
  ck_assert_ptr_null(front_node(&f, OP_Clip)->inputs[1]);
  front_fini(&f);
}
END_TEST

START_TEST(a_function_that_calls_itself_is_refused) {
  onnx_build *b = build_open(13), *body = build_subgraph(b);
  build_input(b, "x", "f32[2]");
  build_node(body, "mine.Again", "p", "q");
  build_function(b, "mine", "Again", "p", "q", "", body);
  build_node(b, "mine.Again", "x", "y");
  build_output(b, "y", "f32");
  front_refuses(&b, REED_ERROR_FORMAT, "call themselves");
}
END_TEST

START_TEST(all_that_is_not_supported_is_listed_at_once) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[2]");
  build_input(b, "k", "i64[2]");
  build_node(b, "TfIdfVectorizer", "x", "a");
  build_node(b, "ImageDecoder", "a", "b");
  build_node(b, "TfIdfVectorizer", "b", "c");
  build_int(b, build_node(b, "Relu", "x", "d"), "slope", 3);
  build_node(b, "Exp", "k", "e");
  build_node(b, "other.Thing", "c", "y");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_says(&f, REED_ERROR_UNSUPPORTED, "operator TfIdfVectorizer: 'a_node', 'c_node'");
  front_says(&f, REED_ERROR_UNSUPPORTED, "operator ImageDecoder: 'b_node'");
  front_says(&f, REED_ERROR_UNSUPPORTED, "attribute 'slope' of Relu: 'd_node'");
  front_says(&f, REED_ERROR_UNSUPPORTED, "dtype i64 of Exp's input 'X': 'e_node'");
  front_says(&f, REED_ERROR_UNSUPPORTED, "operator Thing of domain other: 'y_node'");
  front_fini(&f);
}
END_TEST

static reed_status twice_shape(reed_shape_call *call) {
  call->outputs[0].rank = call->inputs[0].rank;
  for (int32_t i = 0; i < call->inputs[0].rank; i++)
    call->outputs[0].dims[i] = reed_dim_mul(call, call->inputs[0].dims[i], 2);
  return REED_OK;
}

static reed_status no_kernel(const reed_kernel_call *call, reed_kernel *out_kernel) {
  return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "none");
}

/* Reads the built model with a program's own operator, and closes the builder. Gives the registry. */
static reed_registry *read_with(front *f, onnx_build *b, const reed_op *op) {
  reed_registry *registry = NULL;
  *f = (front){0};
  reed_diagnosis_clear(&f->diagnosis);
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_msg(reed_registry_add(registry, op, &f->diagnosis) == REED_OK, "%s", f->diagnosis.message);
  ck_assert_int_eq(ir_module_open(registry, &f->diagnosis, &f->m), REED_OK);
  size_t n;
  const void *bytes = build_pack(b, &n);
  f->status = onnx_read(f->m, bytes, n, NULL);
  build_close(&b);
  return registry;
}

START_TEST(custom_operators_are_found_in_the_registry) {
  static const reed_op_input in = {"x", REED_READS_SHAPE, 1u << REED_F32, false, false, false};
  static const reed_op_output out = {"y", false, false, false, REED_TYPE_LIKE, 0};
  static const reed_op_attr attrs[] = {{"speed", REED_ATTR_INT, true}};
  static const reed_op op = {.domain = "mine",
                             .name = "Twice",
                             .inputs = &in,
                             .n_inputs = 1,
                             .outputs = &out,
                             .n_outputs = 1,
                             .attrs = attrs,
                             .n_attrs = 1,
                             .shape = twice_shape,
                             .cpu = no_kernel};
  for (int with_attr = 0; with_attr < 2; with_attr++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n,3]");
    build_node_t *node = build_node(b, "mine.Twice", "x", "y");
    if (with_attr) build_int(b, node, "speed", 9);
    build_output(b, "y", "f32");
    front f;
    reed_registry *registry = read_with(&f, b, &op);
    if (with_attr) {
      front_ok(&f);
      front_passes(&f, NULL);
      front_ok(&f);
      ck_assert_ptr_eq(f.m->main->nodes.items[0]->op, &op);
      ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[n*2,6]");
    } else {
      front_says(&f, REED_ERROR_FORMAT, "node 'y_node' (Twice): attribute 'speed' is missing");
    }
    front_fini(&f);
    reed_registry_close(&registry);
  }
}
END_TEST

/* A program's own operator comes before what the reader would make of the name. */
START_TEST(custom_operators_have_names_of_others) {
  static const reed_op_input in = {"x", REED_READS_SHAPE, 1u << REED_F32, false, false, false};
  static const reed_op_output out = {"y", false, false, false, REED_TYPE_LIKE, 0};
  static const reed_op ops[] = {{.domain = "com.microsoft", .name = "Gelu"}, {.domain = "", .name = "LRN"}};
  for (int k = 0; k < 2; k++) {
    reed_op op = ops[k];
    op.inputs = &in, op.n_inputs = 1, op.outputs = &out, op.n_outputs = 1;
    op.shape = twice_shape, op.cpu = no_kernel;
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n,3]");
    build_node(b, k ? "LRN" : "com.microsoft.Gelu", "x", "y");
    build_output(b, "y", "f32");
    front f;
    reed_registry *registry = read_with(&f, b, &op);
    front_ok(&f);
    ck_assert_ptr_eq(f.m->main->nodes.items[0]->op, &op);
    front_fini(&f);
    reed_registry_close(&registry);
  }
}
END_TEST

START_TEST(opsets_outside_the_range_are_named) {
  for (int64_t opset = 6; opset <= 26; opset += 20) {
    onnx_build *b = build_open(opset);
    build_input(b, "x", "f32[2]");
    build_node(b, "Relu", "x", "y");
    build_output(b, "y", "f32");
    front_refuses(&b, REED_ERROR_UNSUPPORTED, opset == 6 ? "opset 6" : "opset 26");
  }
}
END_TEST

START_TEST(wrong_names_are_refused) {
  static const struct {
    const char *in_0, *out_0, *in_1, *out_1, *output, *says;
  } cases[] = {
      {"x", "a", "nobody", "b", "b", "input 'nobody' is not defined"},
      {"x", "a", "x", "a", "a", "'a' is defined twice"},
      {"x", "x", "x", "b", "b", "'x' is defined twice"},
      {"x", "a", "a", "b", "nobody", "output 'nobody' is not defined"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[2]");
    build_node(b, "Relu", cases[i].in_0, cases[i].out_0);
    build_node(b, "Relu", cases[i].in_1, cases[i].out_1);
    build_output(b, cases[i].output, "f32");
    front_refuses(&b, REED_ERROR_FORMAT, cases[i].says);
  }
}
END_TEST

START_TEST(missing_and_surplus_operands_are_refused) {
  static const struct {
    const char *op, *inputs, *outputs, *says;
  } cases[] = {{"Add", "x", "y", "input 1 'B' is missing"},
               {"Relu", "x,x", "y", "has 2 inputs, at most 1 are taken"},
               {"Relu", "x", "y,z", "has 2 outputs, at most 1 are given"},
               {"Concat", "x,x", "y", "attribute 'axis' is missing"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[2]");
    build_node(b, cases[i].op, cases[i].inputs, cases[i].outputs);
    build_output(b, "y", "f32");
    front_refuses(&b, REED_ERROR_FORMAT, cases[i].says);
  }
}
END_TEST

START_TEST(operands_of_different_dtypes_are_refused_with_both) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[2]");
  build_input(b, "k", "i64[2]");
  build_node(b, "Add", "x,k", "y");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_says(&f, REED_ERROR_TYPE, "Add node 'y_node': input 1 'k' is i64, but input 0 'x' is f32");
  ck_assert_str_eq(f.diagnosis.node, "y_node");
  front_fini(&f);
}
END_TEST

START_TEST(tensors_that_lie_about_their_size_are_refused) {
  for (int damage = 0; damage < 4; damage++) {
    onnx_build *b = build_open(13);
    Onnx__TensorProto *raw = build_f32(b, "w", "2,2", (float[]){1, 2, 3, 4});
    Onnx__TensorProto *typed = build_i64(b, "k", "2", (int64_t[]){1, 2});
    if (damage == 0) raw->raw_data.len = 12;
    if (damage == 1) raw->dims[0] = INT64_MAX;
    if (damage == 2) raw->dims[0] = -2;
    if (damage == 3) typed->n_int64_data = 1;
    build_node(b, "Identity", "w", "y");
    build_output(b, "y", "f32");
    front_refuses(&b, REED_ERROR_FORMAT, damage == 3 ? "tensor 'k'" : "tensor 'w'");
  }
}
END_TEST

START_TEST(large_weights_stay_in_the_models_bytes) {
  enum { ROWS = 129, COLUMNS = 131 }; /* 67,596 bytes */
  float *w = malloc(sizeof(float[ROWS][COLUMNS]));
  for (int i = 0; i < ROWS * COLUMNS; i++) w[i] = (float)i;
  for (int shift = 0; shift < 4; shift++) { /* wherever they lie */
    onnx_build *b = build_open(13);
    build_model(b)->producer_name = &"xxx"[3 - shift];
    build_f32(b, "w", "129,131", w);
    build_f32(b, "small", "2", (float[]){5, 6});
    build_node(b, "Identity", "w", "y");
    build_node(b, "Transpose", "w", "t");
    build_node(b, "Identity", "small", "z");
    build_output(b, "y", "f32");
    build_output(b, "t", "f32");
    build_output(b, "z", "f32");
    size_t n;
    (void)build_pack(b, &n);
    front f;
    front_read(&f, &b);
    front_ok(&f);
    front_passes(&f, NULL);
    front_ok(&f);
    const char *stays = f.m->main->results[0]->data, *begin = f.bytes;
    ck_assert(stays > begin && stays < begin + n);
    ck_assert_mem_eq(stays, w, sizeof(float[ROWS][COLUMNS]));
    const float *transposed = f.m->main->results[1]->data, *small = f.m->main->results[2]->data;
    ck_assert_ptr_nonnull(transposed);
    for (int i = 0; i < ROWS; i++)
      for (int k = 0; k < COLUMNS; k++) ck_assert_float_eq(transposed[k * ROWS + i], w[i * COLUMNS + k]);
    ck_assert(((const char *)small < begin || (const char *)small >= begin + n) &&
              (uintptr_t)small % sizeof(float) == 0);
    ck_assert_float_eq(small[1], 6);
    front_fini(&f);
  }
  free(w);
}
END_TEST

/* ---- external data ---- */

/* ---- damage ---- */

START_TEST(what_is_no_model_is_refused) {
  static const char *const texts[] = {"", "not a model", "\x0a", "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
                                      "\x3a\x7f"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    front f;
    front_read_bytes(&f, texts[i], strlen(texts[i]), NULL);
    front_says(&f, REED_ERROR_FORMAT, "not an ONNX model");
    front_fini(&f);
  }
}
END_TEST

/* Graphs within graphs, as bytes: each level wraps the last in an attribute of a node of a graph. */
START_TEST(nesting_without_end_is_refused) {
  enum { LEVELS = 5000 };
  uint8_t *bytes = malloc(64 + LEVELS * 24), *end = bytes + 64 + LEVELS * 24, *at = end;
  ck_assert_ptr_nonnull(bytes);
  static const uint8_t keys[] = {0x32, 0x2a, 0x0a}; /* attribute.g, node.attribute, graph.node */
  for (int i = 0; i < LEVELS * 3; i++) {
    uint64_t n = (uint64_t)(end - at);
    uint8_t varint[10];
    int k = 0;
    do varint[k++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
    while (n >>= 7);
    at -= k;
    memcpy(at, varint, (size_t)k);
    *--at = keys[i % 3];
  }
  uint64_t n = (uint64_t)(end - at);
  uint8_t varint[10];
  int k = 0;
  do varint[k++] = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
  while (n >>= 7);
  at -= k;
  memcpy(at, varint, (size_t)k);
  *--at = 0x3a; /* model.graph */
  front f;
  front_read_bytes(&f, at, (size_t)(end - at), NULL);
  front_says(&f, REED_ERROR_FORMAT, "not an ONNX model");
  front_fini(&f);
  free(bytes);
}
END_TEST

/* Every byte changed in several ways, and every prefix: any outcome but a crash will do, through the passes too. */
START_TEST(damaged_models_never_crash) {
  onnx_build *b = if_model();
  size_t n;
  const uint8_t *bytes = build_pack(b, &n);
  uint8_t *damaged = malloc(n);
  ck_assert_ptr_nonnull(damaged);
  static const uint8_t flips[] = {0x01, 0x08, 0x40, 0x80, 0xff};
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < sizeof flips + 1; k++) {
      memcpy(damaged, bytes, n);
      if (k < sizeof flips) damaged[i] ^= flips[k];
      front f;
      front_read_bytes(&f, damaged, k < sizeof flips ? n : i, NULL);
      if (f.status == REED_OK) front_passes(&f, NULL);
      front_fini(&f);
    }
  free(damaged);
  build_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_read");
  TCase *t = tcase_create("onnx_read");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, a_model_becomes_a_graph);
  tcase_add_test(t, dims_are_symbols_of_their_own_and_names_are_only_declared);
  tcase_add_test(t, every_dtype_is_read_from_raw_and_typed_data);
  tcase_add_test(t, constant_nodes_of_every_kind_become_constants);
  tcase_add_test(t, an_input_that_is_an_initializer_is_a_constant);
  tcase_add_test(t, optional_inputs_left_out_are_absent);
  tcase_add_test(t, branches_become_regions_in_order_and_capture_implicitly);
  tcase_add_test(t, a_loop_whose_body_does_not_fit_is_refused);
  tcase_add_test(t, functions_are_inlined_with_their_attributes_and_absent_inputs);
  tcase_add_test(t, a_function_that_calls_itself_is_refused);
  tcase_add_test(t, all_that_is_not_supported_is_listed_at_once);
  tcase_add_test(t, custom_operators_are_found_in_the_registry);
  tcase_add_test(t, custom_operators_have_names_of_others);
  tcase_add_test(t, opsets_outside_the_range_are_named);
  tcase_add_test(t, wrong_names_are_refused);
  tcase_add_test(t, missing_and_surplus_operands_are_refused);
  tcase_add_test(t, operands_of_different_dtypes_are_refused_with_both);
  tcase_add_test(t, tensors_that_lie_about_their_size_are_refused);
  tcase_add_test(t, large_weights_stay_in_the_models_bytes);
  tcase_add_test(t, what_is_no_model_is_refused);
  tcase_add_test(t, nesting_without_end_is_refused);
  tcase_add_test(t, damaged_models_never_crash);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
