/* Scan becomes Loop: carried values, scanned inputs and stacked outputs in every form, and refused forms. The ONNX node
 * cases and tests/random compare the results. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* y, z = Scan(start, x): y carries the sum of x's elements, z stacks each sum. A node to add attributes to. */
static build_node_t *summing_scan(onnx_build *b, const char *inputs, const char *element) {
  onnx_build *body = build_subgraph(b);
  build_input(body, "sum", element);
  build_input(body, "next", element);
  build_node(body, "Add", "sum,next", "sum_out");
  build_node(body, "Identity", "sum_out", "each");
  build_output(body, "sum_out", element);
  build_output(body, "each", element);
  build_node_t *n = build_node(b, "Scan", inputs, "y,z");
  build_int(b, n, "num_scan_inputs", 1);
  build_graph_attr(b, n, "body", body);
  build_output(b, "y", "f32");
  build_output(b, "z", "f32");
  return n;
}

static onnx_build *model(int64_t opset, const char *start, const char *x) {
  onnx_build *b = build_open(opset);
  build_input(b, "start", start);
  build_input(b, "x", x);
  return b;
}

static void check_results(front *f, onnx_build **b, const char *y, const char *z) {
  front_read(f, b);
  front_ok(f);
  ck_assert_int_eq(front_count(f, OP_Scan), 0);
  front_passes(f, NULL);
  front_ok(f);
  ck_assert_str_eq(front_type(f, f->m->main->results[0]), y);
  ck_assert_str_eq(front_type(f, f->m->main->results[1]), z);
}

START_TEST(a_scan_is_a_loop_that_takes_its_elements) {
  onnx_build *b = model(16, "f32[n]", "f32[t,n]");
  summing_scan(b, "start,x", "f32[n]");
  front f;
  check_results(&f, &b, "f32[n]", "f32[t,n]");
  const ir_node *loop = front_node(&f, OP_Loop);
  ck_assert_int_eq(loop->n_inputs, 3);
  ck_assert_ptr_null(loop->inputs[1]);
  ck_assert_int_eq(loop->regions[0]->n_params, 3);
  ck_assert_int_eq(loop->regions[0]->n_results, 3);
  ck_assert_int_eq(front_count(&f, OP_Transpose) + front_count(&f, OP_Slice), 0);
  front_fini(&f);
}
END_TEST

START_TEST(axes_turn_what_is_scanned_and_stacked) {
  static const struct {
    const char *in, *out, *x, *z;
  } cases[] = {{"1", "1", "f32[n,t,4]", "f32[n,t,4]"},
               {"-1", "2", "f32[n,4,t]", "f32[n,4,t]"},
               {"-2", "-3", "f32[n,t,4]", "f32[t,n,4]"},
               {"0", "-1", "f32[t,n,4]", "f32[n,4,t]"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = model(11, "f32[n,4]", cases[i].x);
    build_node_t *n = summing_scan(b, "start,x", "f32[n,4]");
    build_ints(b, n, "scan_input_axes", cases[i].in);
    build_ints(b, n, "scan_output_axes", cases[i].out);
    front f;
    check_results(&f, &b, "f32[n,4]", cases[i].z);
    front_fini(&f);
  }
}
END_TEST

/* The body declares no extents: inference finds the ranks after the Scan has become a Loop. */
START_TEST(axes_turn_elements_whose_rank_is_not_declared) {
  static const char *const axes[] = {"1", "2", "-1", "-2", "-3"};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
    for (int reversed = 0; reversed < 2; reversed++) {
      onnx_build *b = model(16, "f32[2,4]", "f32[3,2,4]");
      build_node_t *n = summing_scan(b, "start,x", "f32");
      build_ints(b, n, "scan_output_axes", axes[i]);
      if (reversed) build_ints(b, n, "scan_output_directions", "1");
      front f;
      check_results(&f, &b, "f32[2,4]", i == 0 || i == 3 ? "f32[2,3,4]" : i == 4 ? "f32[3,2,4]" : "f32[2,4,3]");
      front_fini(&f);
    }
}
END_TEST

START_TEST(directions_reverse_what_is_scanned_and_stacked) {
  onnx_build *b = model(9, "f32[n]", "f32[t,n]");
  build_node_t *n = summing_scan(b, "start,x", "f32[n]");
  build_ints(b, n, "scan_input_directions", "1");
  build_ints(b, n, "scan_output_directions", "1");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_Sub), 2); /* last = t - 1; last - iteration */
  ck_assert_int_eq(front_count(&f, OP_Slice), 1);
  front_fini(&f);
}
END_TEST

START_TEST(opset_8_scans_every_entry_of_a_batch) {
  onnx_build *b = model(8, "f32[b,n]", "f32[b,t,n]");
  summing_scan(b, ",start,x", "f32[n]");
  front f;
  check_results(&f, &b, "f32[b,n]", "f32[b,t,n]");
  ck_assert_int_eq(front_count(&f, OP_Loop), 2);
  front_fini(&f);
}
END_TEST

START_TEST(what_does_not_fit_is_refused) {
  static const struct {
    int64_t opset;
    const char *inputs, *element, *attribute, *numbers;
    reed_status status;
    const char *text;
  } cases[] = {
      {9, "start", "f32[n]", NULL, NULL, REED_ERROR_FORMAT,
       "node 'y_node' (Scan) has 1 inputs, 1 of them scanned, and 2 outputs, but its body takes 2 and gives 2 results"},
      {9, "start,x,x", "f32[n]", NULL, NULL, REED_ERROR_FORMAT, "has 3 inputs"},
      {9, ",x", "f32[n]", NULL, NULL, REED_ERROR_FORMAT, "node 'y_node' (Scan): input 0 is missing"},
      {9, "start,x", "f32[n]", "scan_input_axes", "0,1", REED_ERROR_FORMAT,
       "attribute 'scan_input_axes' has 2 numbers, 1 are needed"},
      {9, "start,x", "f32", "scan_output_axes", "8", REED_ERROR_FORMAT,
       "scan_output_axes: no axis 8 in an output of rank 8 or less"},
      {9, "start,x", "f32", "scan_output_axes", "-9", REED_ERROR_FORMAT, "no axis -9 in an output of rank 8 or less"},
      {9, "start,x", "f32[n]", "scan_output_axes", "2", REED_ERROR_FORMAT,
       "scan_output_axes: no axis 2 in an output of rank 2"},
      {8, "start,start,x", "f32[n]", NULL, NULL, REED_ERROR_UNSUPPORTED, "sequence_lens of Scan: 'y_node'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    onnx_build *b = model(cases[i].opset, "f32[n]", "f32[t,n]");
    build_node_t *n = summing_scan(b, cases[i].inputs, cases[i].element);
    if (cases[i].attribute) build_ints(b, n, cases[i].attribute, cases[i].numbers);
    front_refuses(&b, cases[i].status, cases[i].text);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_scan");
  TCase *t = tcase_create("onnx_scan");
  tcase_add_test(t, a_scan_is_a_loop_that_takes_its_elements);
  tcase_add_test(t, axes_turn_what_is_scanned_and_stacked);
  tcase_add_test(t, axes_turn_elements_whose_rank_is_not_declared);
  tcase_add_test(t, directions_reverse_what_is_scanned_and_stacked);
  tcase_add_test(t, opset_8_scans_every_entry_of_a_batch);
  tcase_add_test(t, what_does_not_fit_is_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
