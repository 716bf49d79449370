/* Chains of element-wise operators become one operator; near misses stay. tests/whole/test_equal.c shows that results
 * are equal. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/spelled.h"
#include "tests/suite.h"

/* x and y: f32[n,6,8]; z: f32[n,6,1]; b: bool[n,6,8]; i: i64[n,6,8]; t: f32[4,8]. "|" in front of a text: its first
 * name is an output too. */
static const struct {
  const char *what, *text, *program; /* the chain's program; NULL: no chain is made */
  int n_inputs;
} cases[] = {
    {"two", "a=Add x,y;o=Exp a", "Add 0 1;Exp 2", 2},
    {"one", "o=Exp x", NULL, 0},
    {"a value used twice inside", "a=Add x,y;s=Tanh a;o=Mul a,s", "Add 0 1;Tanh 2;Mul 2 3", 2},
    {"an input used twice", "s=Exp x;o=Mul x,s", "Exp 0;Mul 0 1", 1},
    {"constants and broadcasting", "a=Mul x,rows;o=Add a,z", "Mul 0 1;Add 3 2", 3},
    {"what repeats is computed once", "e=Exp z;m=Mul x,e;o=Sub m,y", "Mul 0 1;Sub 3 2", 3},
    {"a result that is seen", "|a=Add x,y;o=Exp a", NULL, 0},
    {"a result that another needs", "a=Add x,y;e=Exp a;f=Exp x;g=Softmax a;h=Mul f,g;o=Sub h,e",
     "Exp 0;Mul 4 1;Exp 2;Sub 5 6", 0},
    {"something between", "a=Add x,y;s=Softmax a;o=Exp s", NULL, 0},
    {"comparisons and a choice", "c=Less x,y;m=And c,b;o=Where m,x,y", "Less 0 1;And 3 2;Where 4 0 1", 3},
    {"a cast", "f=Cast i;m=Mul f,x;o=Add m,y", "Cast 0 to=#0;Mul 3 1;Add 4 2", 3},
    {"Clip without a bound", "c=Clip x,,six;o=Neg c", "Clip 0 1 2;Neg 3", 3},
    {"Clip without bounds", "c=Clip x;o=Neg c", "Clip 0 1 2;Neg 3", 3},
    {"many at once", "s=Sum x,y,z;m=Max s,x,y;o=Neg m", "Add 0 1;Add 3 2;Max 4 0;Max 5 1;Neg 6", 3},
    {"a mean", "m=Mean x,y;o=Neg m", NULL, 0},
    {"whole numbers", "a=Add i,i;o=Mul a,i", "Add 0 0;Mul 1 0", 1},
    {"a division of whole numbers", "a=Add i,i;o=Div a,i", NULL, 0},
    {"a power of another dtype", "a=Add x,y;o=Pow a,i", NULL, 0},
    {"few elements", "a=Add t,t;o=Exp a", NULL, 0},
};

static onnx_build *chain_model(const char *text) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,6,8]");
  build_input(b, "y", "f32[n,6,8]");
  build_input(b, "z", "f32[n,6,1]");
  build_input(b, "b", "bool[n,6,8]");
  build_input(b, "i", "i64[n,6,8]");
  build_input(b, "t", "f32[4,8]");
  spelled_constants(b);
  bool seen = *text == '|';
  build_output(b, spelled_nodes(b, text + seen), "");
  if (seen) build_output(b, "a", "f32");
  return b;
}

/* Reads the model and runs all passes. */
static void chain(front *f, onnx_build **b) {
  front_read(f, b);
  front_ok(f);
  front_passes(f, NULL);
  front_ok(f);
}

static const char *program_of(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  return reed_attrs_string(&attrs, "program", "");
}

START_TEST(chains_become_one_operator) {
  onnx_build *b = chain_model(cases[_i].text);
  front f;
  chain(&f, &b);
  const ir_node *n = front_node(&f, OP_Fused);
  ck_assert_msg((n != NULL) == (cases[_i].program != NULL), "%s: %s", cases[_i].what, n ? program_of(n) : "left alone");
  if (n && cases[_i].n_inputs) {
    ck_assert_str_eq(program_of(n), cases[_i].program);
    ck_assert_int_eq(n->n_inputs, cases[_i].n_inputs);
    ck_assert_int_eq(f.m->main->nodes.n, strcmp(cases[_i].what, "what repeats is computed once") == 0 ? 2 : 1);
  }
  front_fini(&f);
}
END_TEST

START_TEST(the_result_keeps_its_name_and_dtype) {
  onnx_build *b = chain_model("c=Less x,y;o=And c,b");
  front f;
  chain(&f, &b);
  const ir_node *n = front_node(&f, OP_Fused);
  reed_attrs attrs = ir_attrs(n);
  ck_assert_str_eq(n->outputs[0]->name, "o");
  ck_assert_str_eq(n->name, "o_node");
  ck_assert_int_eq(reed_attrs_int(&attrs, "to", 0), REED_BOOL);
  ck_assert_str_eq(front_type(&f, n->outputs[0]), "bool[n,6,8]");
  ck_assert_int_eq(front_changes(&f, "chains"), 3); /* one change for the chain, two for its operators */
  front_fini(&f);
}
END_TEST

START_TEST(products_take_their_activations_first) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,2,h,w]");
  build_f32(b, "k", "3,2,1,1", (float[]){1, 2, 3, 4, 5, 6});
  spelled_constants(b);
  build_output(b, spelled_nodes(b, "c=Conv x,k;r=Relu c;e=Exp r;o=Mul e,r"), "");
  front f;
  chain(&f, &b);
  ck_assert_int_eq(f.m->main->nodes.n, 2);
  ck_assert_str_eq(program_of(front_node(&f, OP_Fused)), "Exp 0;Mul 1 0");
  front_fini(&f);
}
END_TEST

START_TEST(a_long_chain_is_cut) {
  onnx_build *b = chain_model("a=Exp x");
  char name[2][16] = {"a"};
  for (int k = 0; k < 40; k++) {
    snprintf(name[1], sizeof name[1], "n%d", k);
    build_node(b, "Tanh", name[0], name[1]);
    strcpy(name[0], name[1]);
  }
  build_output(b, name[1], "f32");
  front f;
  chain(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Fused), 2);
  ck_assert_int_eq(front_count(&f, OP_Tanh), 0);
  front_fini(&f);
}
END_TEST

START_TEST(shape_arithmetic_stays) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,6]");
  build_i64(b, "k", "2", (int64_t[]){2, 1});
  build_node(b, "Shape", "x", "s");
  build_node(b, "Mul", "s,k", "m");
  build_node(b, "Add", "m,k", "a");
  build_node(b, "ConstantOfShape", "a", "y");
  build_output(b, "y", "f32");
  front f;
  chain(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Fused), 0);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "f32[n*2 + 2,7]");
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("chains");
  TCase *t = tcase_create("chains");
  tcase_add_loop_test(t, chains_become_one_operator, 0, sizeof cases / sizeof *cases);
  tcase_add_test(t, the_result_keeps_its_name_and_dtype);
  tcase_add_test(t, products_take_their_activations_first);
  tcase_add_test(t, a_long_chain_is_cut);
  tcase_add_test(t, shape_arithmetic_stays);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
