/* Arithmetic on columns becomes one FusedColumns; near misses stay. tests/whole/test_equal.c shows that results are
 * equal. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/fuse/boxes.h"
#include "tests/suite.h"

static bool is_view(const ir_node *n) {
  const op_id id = op_id_of(n->op);
  return id == OP_Reshape || id == OP_Squeeze || id == OP_Unsqueeze || id == OP_Flatten || id == OP_Identity;
}

static void read_model(front *f, onnx_build *b) {
  front_read(f, &b);
  front_ok(f);
  front_passes(f, NULL);
  front_ok(f);
}

static const char *program_of(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  return reed_attrs_string(&attrs, "program", "");
}

static void numbers_are(const ir_node *n, const char *name, const int64_t *wanted, int64_t n_wanted) {
  const reed_attrs attrs = ir_attrs(n);
  int64_t count;
  const int64_t *numbers = reed_attrs_ints(&attrs, name, &count);
  ck_assert_int_eq(count, n_wanted);
  for (int64_t i = 0; i < count; i++) ck_assert_int_eq(numbers[i], wanted[i]);
}

START_TEST(columns_become_one_program) {
  const box_case *c = &box_cases[_i];
  front f;
  read_model(&f, box_open(c, true));
  int left = 0;
  for (size_t i = 0; i < f.m->main->nodes.n; i++) left += !is_view(f.m->main->nodes.items[i]);
  ck_assert_msg(front_count(&f, OP_FusedColumns) == c->made, "%s: %d programs", c->what,
                (int)front_count(&f, OP_FusedColumns));
  ck_assert_msg(c->n_left < 0 || left == c->n_left, "%s: %d operators", c->what, left);
  front_fini(&f);
}
END_TEST

START_TEST(a_program_reads_columns_and_writes_columns) {
  front f;
  read_model(&f, box_open(&box_cases[0], true));
  const ir_node *n = front_node(&f, OP_FusedColumns);
  ck_assert_str_eq(program_of(n), "Mul 1 2;Sub 0 5;Mul 4 2;Sub 3 7;Add 0 5;Add 3 7");
  numbers_are(n, "columns", (int64_t[]){0, 2, 0, 1, 3}, 5);
  numbers_are(n, "results", (int64_t[]){6, 8, 9, 10}, 4);
  ck_assert_str_eq(n->outputs[0]->name, "o");
  ck_assert_str_eq(front_type(&f, n->outputs[0]), "f32[n,4]");
  front_fini(&f);
}
END_TEST

/* A computation of more steps than a program has is cut at a Concat. */
START_TEST(a_long_program_is_cut) {
  onnx_build *b = build_open(18);
  char name[2][16] = {"x"}, parts[64];
  int64_t place;
  build_input(b, "x", "f32[n,2]");
  build_input(b, "y", "f32[n,1]");
  for (place = 0; place < 2; place++) build_i64(b, place ? "i1" : "i0", "1", &place);
  for (int k = 0; k < 12; k++) {
    const char *const ops[] = {"Exp", "Tanh"};
    snprintf(parts, sizeof parts, "a%d,b%d", k, k);
    for (int j = 0; j < 2; j++) {
      char column[16], made[16], sum[16], inputs[40];
      snprintf(column, sizeof column, "c%d%d", k, j);
      snprintf(made, sizeof made, "m%d%d", k, j);
      snprintf(sum, sizeof sum, "%c%d", "ab"[j], k);
      snprintf(inputs, sizeof inputs, "%s,i%d", name[0], j);
      build_int(b, build_node(b, "Gather", inputs, column), "axis", 1);
      build_node(b, ops[j], column, made);
      snprintf(inputs, sizeof inputs, "%s,y", made);
      build_node(b, "Add", inputs, sum);
    }
    snprintf(name[1], sizeof name[1], "j%d", k);
    build_int(b, build_node(b, "Concat", parts, name[1]), "axis", 1);
    strcpy(name[0], name[1]);
  }
  build_output(b, name[0], "f32");
  front f;
  read_model(&f, b);
  ck_assert_int_ge(front_count(&f, OP_FusedColumns), 2);
  ck_assert_int_eq(front_count(&f, OP_Exp) + front_count(&f, OP_Tanh) + front_count(&f, OP_Gather), 0);
  front_fini(&f);
}
END_TEST

/* Boxes are decoded after the best ones are chosen, not before; rows that are numbered by an input stay. */
START_TEST(rows_are_chosen_first) {
  for (int by_input = 0; by_input < 2; by_input++) {
    onnx_build *b = build_open(18);
    build_input(b, "x", "f32[n,4]");
    build_input(b, "s", "f32[n]");
    build_input(b, "k", "i64[m]");
    spelled_constants(b);
    build_i64(b, "ten", "1", (int64_t[]){10});
    build_int(b, build_node(b, "Split", "x", "a,c"), "axis", 1);
    build_int(b, build_node(b, "TopK", "s,ten", "best,place"), "axis", 0);
    const char *text = by_input ? "p=Sub a,c;q=Add a,c;j=Concat[1] p,q;o=Gather[0] j,k"
                                : "p=Sub a,c;q=Add a,c;j=Concat[1] p,q;o=Gather[0] j,place";
    build_output(b, spelled_nodes(b, text), "");
    build_output(b, "best", "");
    front f;
    read_model(&f, b);
    const ir_node *n = front_node(&f, OP_FusedColumns), *gather = front_node(&f, OP_Gather);
    ck_assert_ptr_nonnull(n);
    ck_assert_ptr_nonnull(gather);
    ck_assert_ptr_eq(by_input ? gather->inputs[0] : n->inputs[0], by_input ? n->outputs[0] : gather->outputs[0]);
    ck_assert_str_eq(front_type(&f, f.m->main->results[0]), by_input ? "f32[m,4]" : "f32[10,4]");
    front_fini(&f);
  }
}
END_TEST

START_TEST(few_rows_stay) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[3,4]");
  spelled_constants(b);
  build_i64(b, "i0", "", (int64_t[]){0});
  build_i64(b, "i2", "", (int64_t[]){2});
  build_output(b, spelled_nodes(b, "a=Gather[1] x,i0;b=Gather[1] x,i2;o=Sub b,a"), "");
  front f;
  read_model(&f, b);
  ck_assert_int_eq(front_count(&f, OP_FusedColumns), 0);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("columns");
  TCase *t = tcase_create("columns");
  tcase_add_loop_test(t, columns_become_one_program, 0, sizeof box_cases / sizeof *box_cases);
  tcase_add_test(t, a_program_reads_columns_and_writes_columns);
  tcase_add_test(t, a_long_program_is_cut);
  tcase_add_test(t, rows_are_chosen_first);
  tcase_add_test(t, few_rows_stay);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
