/* Operators that exporters write as several operators (spelled.h): each form becomes the operator, and near misses
 * stay. tests/whole/test_equal.c shows that results are equal. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/spelled.h"
#include "tests/suite.h"

static int64_t count_of(const front *f, const char *name) {
  const reed_op *op = op_find(NULL, "", name);
  ck_assert_ptr_nonnull(op);
  return front_count(f, op_id_of(op));
}

static void check(const spelled *s, onnx_build *b, const char *pass) {
  front f;
  front_optimize(&f, &b);
  bool fired = front_changes(&f, pass) > 0;
  ck_assert_msg(fired == (s->made != NULL), "%s: %s", s->what, fired ? "recognised" : "left alone");
  if (s->made) ck_assert_msg(count_of(&f, s->made) == 1, "%s: no %s", s->what, s->made);
  if (s->made && strcmp(pass, "attention"))
    ck_assert_msg(front_changes(&f, pass) == 1, "%s: recognised %lld times", s->what,
                  (long long)front_changes(&f, pass));
  front_fini(&f);
}

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

START_TEST(activations_are_recognised) {
  check(&spelled_activations[_i], spelled_open(&spelled_activations[_i]), "activations");
}
END_TEST
START_TEST(normalisations_are_recognised) { check(&spelled_norms[_i], spelled_open(&spelled_norms[_i]), "norms"); }
END_TEST

START_TEST(attentions_are_recognised) {
  check(&spelled_attentions[_i], spelled_attention_open(&spelled_attentions[_i]), "attention");
}
END_TEST

static const spelled *attention_named(const char *what) {
  for (int i = 0; i < COUNT(spelled_attentions); i++)
    if (strcmp(spelled_attentions[i].what, what) == 0) return &spelled_attentions[i];
  ck_abort_msg("there is no %s", what);
}

START_TEST(attention_takes_heads_scale_and_mask) {
  onnx_build *b = spelled_attention_open(attention_named("BERT's"));
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_Attention);
  reed_attrs attrs = ir_attrs(n);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  ck_assert_int_eq(reed_attrs_int(&attrs, "q_num_heads", 0), 3);
  ck_assert_int_eq(reed_attrs_int(&attrs, "kv_num_heads", 0), 3);
  ck_assert_double_eq(reed_attrs_float(&attrs, "scale", 0), 0.5);
  ck_assert_int_eq(n->n_inputs, 4);
  ck_assert_str_eq(n->inputs[1]->name, "w");
  ck_assert_str_eq(n->inputs[3]->name, "mask");
  ck_assert_str_eq(front_type(&f, n->outputs[0]), "f32[n,6,24]");
  front_fini(&f);
}
END_TEST

/* The mask of rank 4 is attention's; no Reshape is left, not even around the tensors with batch and heads joined. */
START_TEST(attention_of_joined_axes_reads_them_apart) {
  onnx_build *b = spelled_attention_open(attention_named("batch and heads joined, also for the Softmax"));
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_Attention);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  for (int i = 0; i < 4; i++) ck_assert_str_eq(n->inputs[i]->name, ((const char *[]){"q", "k", "v", "mask"})[i]);
  front_fini(&f);
}
END_TEST

START_TEST(attention_multiplies_scales_and_turns_keys_back) {
  onnx_build *b = spelled_attention_open(attention_named("Q and K scaled"));
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_Attention);
  reed_attrs attrs = ir_attrs(n);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  ck_assert_double_eq(reed_attrs_float(&attrs, "scale", 0), 0.25);
  ck_assert_str_eq(n->inputs[1]->name, "k");
  front_fini(&f);
}
END_TEST

START_TEST(group_normalisations_are_recognised) {
  check(&spelled_groups[_i], spelled_open(&spelled_groups[_i]), "group_norm");
}
END_TEST

START_TEST(a_recognised_activation_keeps_its_attributes) {
  static const struct {
    const char *what, *attr, *text;
    double number;
  } cases[] = {{"NewGELU", "approximate", "tanh", 0},
               {"quick Gelu", "alpha", NULL, 1.702},
               {"HardSigmoid", "alpha", NULL, 1.0 / 6}};
  for (int i = 0; i < COUNT(cases); i++)
    for (int k = 0; k < COUNT(spelled_activations); k++) {
      const spelled *s = &spelled_activations[k];
      if (strcmp(s->what, cases[i].what) != 0) continue;
      onnx_build *b = spelled_open(s);
      front f;
      front_optimize(&f, &b);
      reed_attrs attrs = ir_attrs(front_node(&f, op_id_of(op_find(NULL, "", s->made))));
      const reed_attr *attr = reed_attrs_find(&attrs, cases[i].attr);
      ck_assert_ptr_nonnull(attr);
      if (cases[i].text) ck_assert_str_eq(attr->s, cases[i].text);
      else ck_assert_double_eq_tol(attr->f, cases[i].number, 1e-6);
      front_fini(&f);
    }
}
END_TEST

START_TEST(a_recognised_norm_has_axis_epsilon_and_inputs) {
  onnx_build *b = spelled_open(&spelled_norms[0]);
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_LayerNormalization);
  reed_attrs attrs = ir_attrs(n);
  ck_assert_int_eq(reed_attrs_int(&attrs, "axis", 0), -1);
  ck_assert_double_eq_tol(reed_attrs_float(&attrs, "epsilon", 0), 1e-5, 1e-10);
  ck_assert_int_eq(n->n_inputs, 3);
  ck_assert_str_eq(n->inputs[0]->name, "x");
  ck_assert_double_eq(front_element(n->inputs[1], 1), 1.5);
  ck_assert_double_eq(front_element(n->inputs[2], 1), 2);
  ck_assert_int_eq(f.m->main->nodes.n, 1);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("recognise");
  TCase *t = tcase_create("recognise");
  tcase_add_loop_test(t, activations_are_recognised, 0, COUNT(spelled_activations));
  tcase_add_loop_test(t, normalisations_are_recognised, 0, COUNT(spelled_norms));
  tcase_add_loop_test(t, attentions_are_recognised, 0, COUNT(spelled_attentions));
  tcase_add_test(t, attention_takes_heads_scale_and_mask);
  tcase_add_test(t, attention_of_joined_axes_reads_them_apart);
  tcase_add_test(t, attention_multiplies_scales_and_turns_keys_back);
  tcase_add_loop_test(t, group_normalisations_are_recognised, 0, COUNT(spelled_groups));
  tcase_add_test(t, a_recognised_activation_keeps_its_attributes);
  tcase_add_test(t, a_recognised_norm_has_axis_epsilon_and_inputs);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
