/* Patterns: each kind of pattern matches the values that it describes and no others. */
#include "compiler/ir/pattern.h"

#include "tests/compiler/front.h"
#include "tests/suite.h"

enum { A, B, N_SLOTS };

/* y, the only result of the graph. */
static ir_value *result(const front *f) { return f->m->main->results[0]; }

static bool fits(const front *f, const pattern *p, ir_value **out_slots) {
  ir_count_uses(f->m);
  return pattern_match(p, result(f), out_slots, N_SLOTS);
}

/* The model as it is read, with its types; closes the builder. */
static void read(front *f, onnx_build **b) {
  static const char *const others[] = {"fold",   "simplify",   "cse",         "layout", "bn_fold",
                                       "fusion", "roi_levels", "activations", "norms",  "chains"};
  front_read(f, b);
  front_ok(f);
  f->run = (pass_run){.m = f->m};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) f->run.totals[pass_find(others[i])].disabled = true;
  f->status = pass_run_all(&f->run);
  front_ok(f);
}

START_TEST(operators_constants_and_slots) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n,2]");
  build_f32(b, "k", "2", (float[]){3, 3});
  build_node(b, "Sub", "x,k", "y");
  build_output(b, "y", "f32");
  front f;
  read(&f, &b);
  ir_value *s[N_SLOTS];
  ck_assert(fits(&f, P_AS(A, P_OP(Sub, P_AS(B, P_ANY), P_NUMBER(3))), s));
  ck_assert_ptr_eq(s[A], result(&f));
  ck_assert_ptr_eq(s[B], f.m->main->params[0]);
  ck_assert(fits(&f, P_OP(Sub, NULL, P_CONSTANT), s));
  ck_assert_ptr_null(s[A]);
  ck_assert(!fits(&f, P_OP(Sub, P_ANY, P_NUMBER(2)), s));
  ck_assert(!fits(&f, P_OP(Sub, P_CONSTANT), s));
  ck_assert(!fits(&f, P_OP(Sub, P_NUMBER(3), P_ANY), s));
  ck_assert(!fits(&f, P_OP(Sub, P_ANY, P_ANY, P_ANY), s)); /* there are two inputs */
  ck_assert(!fits(&f, P_OP(Add, P_ANY, P_ANY), s));
  ck_assert(fits(&f, P_OP(Sub, P_ANY, P_ANY, P_ABSENT), s));
  ck_assert(!fits(&f, P_OP(Sub, P_ANY, P_ABSENT), s));
  double number;
  ck_assert(!pattern_number(result(&f)->producer->inputs[1], &number)); /* two elements */
  front_fini(&f);
}
END_TEST

START_TEST(a_slot_named_twice_is_one_value) {
  for (int same = 0; same < 2; same++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n]");
    build_input(b, "z", "f32[n]");
    build_node(b, "Exp", "x", "e");
    build_node(b, "Mul", same ? "e,x" : "e,z", "y");
    build_output(b, "y", "f32");
    front f;
    read(&f, &b);
    ir_value *s[N_SLOTS];
    ck_assert_int_eq(fits(&f, P_PAIR(Mul, P_AS(A, P_ANY), P_OP(Exp, P_AS(A, P_ANY))), s), same);
    ck_assert(fits(&f, P_PAIR(Mul, P_AS(A, P_ANY), P_OP(Exp, P_AS(B, P_ANY))), s)); /* the second order fits */
    ck_assert_ptr_eq(s[A], f.m->main->params[same ? 0 : 1]);
    ck_assert(!fits(&f, P_PAIR(Mul, P_OP(Exp, P_ANY), P_OP(Exp, P_ANY)), s));
    front_fini(&f);
  }
}
END_TEST

START_TEST(the_first_alternative_that_fits_is_taken) {
  onnx_build *b = build_open(13);
  build_input(b, "x", "f32[n]");
  build_node(b, "Exp", "x", "y");
  build_output(b, "y", "f32");
  front f;
  read(&f, &b);
  ir_value *s[N_SLOTS];
  ck_assert(fits(&f, P_EITHER(P_OP(Log, P_AS(A, P_ANY)), P_OP(Exp, P_AS(B, P_ANY)), P_AS(A, P_ANY)), s));
  ck_assert_ptr_null(s[A]);
  ck_assert_ptr_eq(s[B], f.m->main->params[0]);
  ck_assert(!fits(&f, P_EITHER(P_OP(Log, P_ANY), P_OP(Sin, P_ANY)), s));
  front_fini(&f);
}
END_TEST

START_TEST(views_are_looked_through_and_nothing_else_is) {
  static const struct {
    const char *perm;
    int fits;
  } rows[] = {{"0,1,2", 1}, {"0,2,1", 1}, {"2,0,1", 1}, {"2,1,0", 0}, {"1,0,2", 0}}; /* of extents n, 4, 1 */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n,4,1]");
    build_node(b, "Exp", "x", "e");
    build_ints(b, build_node(b, "Transpose", "e", "t"), "perm", rows[i].perm);
    build_i64(b, "axes", "1", (int64_t[]){0});
    build_node(b, "Unsqueeze", "t,axes", "u");
    build_node(b, "Identity", "u", "v");
    build_node(b, "Flatten", "v", "y");
    build_output(b, "y", "f32");
    front f;
    read(&f, &b);
    ir_value *s[N_SLOTS];
    ck_assert_int_eq(fits(&f, P_VIEWS(P_AS(A, P_OP(Exp, P_ANY))), s), rows[i].fits);
    ck_assert(fits(&f, P_VIEWS(P_AS(A, P_ANY)), s)); /* itself first */
    ck_assert_ptr_eq(s[A], result(&f));
    ck_assert(!fits(&f, P_VIEWS(P_OP(Log, P_ANY)), s));
    front_fini(&f);
  }
}
END_TEST

START_TEST(uses_and_attributes_are_asked_for) {
  for (int uses = 1; uses < 3; uses++) {
    onnx_build *b = build_open(13);
    build_input(b, "x", "f32[n,4,5]");
    build_node(b, "Exp", "x", "e");
    build_int(b, build_node(b, "Softmax", "e", "y"), "axis", 1);
    build_output(b, "y", "f32");
    if (uses == 2) build_output(b, "e", "f32");
    front f;
    read(&f, &b);
    ir_value *s[N_SLOTS];
    ck_assert_int_eq(fits(&f, P_OP(Softmax, P_ONCE(P_OP(Exp, P_ANY))), s), uses == 1);
    ck_assert(fits(&f, P_INT("axis", 1, P_OP(Softmax, P_ANY)), s));
    ck_assert(!fits(&f, P_INT("axis", 0, P_OP(Softmax, P_ANY)), s));
    ck_assert(fits(&f, P_INT("flattened", 0, P_OP(Softmax, P_ANY)), s));        /* not given: by the row */
    ck_assert(!fits(&f, P_INT("other", 7, P_OP(Softmax, P_ANY)), s));           /* no such attribute */
    ck_assert(!fits(&f, P_TEXT("axis", "1", P_OP(Softmax, P_ANY)), s));         /* of another type */
    ck_assert(!fits(&f, P_OP(Softmax, P_OP(Exp, P_INT("axis", 0, P_ANY))), s)); /* an input is made by no operator */
    front_fini(&f);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pattern");
  TCase *t = tcase_create("kinds");
  tcase_add_test(t, operators_constants_and_slots);
  tcase_add_test(t, a_slot_named_twice_is_one_value);
  tcase_add_test(t, the_first_alternative_that_fits_is_taken);
  tcase_add_test(t, views_are_looked_through_and_nothing_else_is);
  tcase_add_test(t, uses_and_attributes_are_asked_for);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
