/* Parts of decoders (decoders.h): masks that are computed from positions become attributes of Attention, repeated heads
 * are read once, rotary embeddings become one operator; near misses stay. tests/whole/test_equal.c shows that results
 * are equal. */
#include "tests/compiler/front.h"
#include "tests/compiler/passes/rewrite/decoders.h"
#include "tests/suite.h"

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

START_TEST(masks_of_places_become_attributes) {
  const spelled_mask *s = &spelled_masks[_i];
  onnx_build *b = spelled_mask_open(s);
  front f;
  front_optimize(&f, &b);
  ck_assert_msg(front_count(&f, OP_Attention) == 1, "%s: no Attention", s->what);
  const ir_node *n = front_node(&f, OP_Attention);
  reed_attrs attrs = ir_attrs(n);
  bool rest = n->n_inputs > 3 && n->inputs[3];
  int64_t left = op_attr_int(&attrs, "left_window_size");
  ck_assert_msg((front_changes(&f, "attention_masks") > 0) == s->folded, "%s: %s", s->what,
                s->folded ? "left alone" : "folded");
  ck_assert_msg(rest == (s->folded ? s->rest : true), "%s: a mask %s", s->what, rest ? "stays" : "is lost");
  ck_assert_msg(op_attr_int(&attrs, "is_causal") == s->causal, "%s: causal", s->what);
  ck_assert_msg(op_attr_int(&attrs, "to_last_key") == s->to_last_key, "%s: the place of the last query", s->what);
  ck_assert_msg(left == (s->folded ? s->left : -1), "%s: a window of %lld", s->what, (long long)left);
  ck_assert_int_eq(op_attr_int(&attrs, "right_window_size"), -1);
  front_fini(&f);
}
END_TEST

START_TEST(a_folded_mask_is_not_computed) {
  onnx_build *b = spelled_mask_open(&spelled_masks[0]);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_LessOrEqual) + front_count(&f, OP_Range) + front_count(&f, OP_Where), 0);
  front_fini(&f);
}
END_TEST

/* Attention reads K as it is, and so do the extents of the bias: no Transpose is left, even without the pass layout,
 * which would move it behind the Shape in this model. */
START_TEST(keys_are_not_turned_for_the_extents_of_a_bias) {
  onnx_build *b = decoder_open(joined_heads);
  front f;
  front_read(&f, &b);
  front_passes(&f, "layout");
  ck_assert_int_eq(front_count(&f, OP_Attention), 1);
  ck_assert_int_eq(front_count(&f, OP_Transpose), 0);
  front_fini(&f);
}
END_TEST

START_TEST(a_bias_of_unproven_extents_is_no_hindrance) {
  onnx_build *b = decoder_open(unproven_biases[_i]);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Attention), 1);
  ck_assert_int_eq(front_count(&f, OP_Softmax), 0);
  front_fini(&f);
}
END_TEST

START_TEST(queries_as_many_as_a_table_has_rows_are_recognised) {
  onnx_build *b = decoder_open(layers_of_tables[_i]);
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_count(&f, OP_Attention), 2);
  ck_assert_int_eq(front_count(&f, OP_Softmax) + front_count(&f, OP_Slice) + front_count(&f, OP_Where), 0);
  front_fini(&f);
}
END_TEST

START_TEST(repeated_heads_are_read_once) {
  const spelled *s = &spelled_heads[_i];
  onnx_build *b = spelled_heads_open(s);
  front f;
  front_optimize(&f, &b);
  const ir_node *n = front_node(&f, OP_Attention);
  ck_assert_msg(n != NULL, "%s: no Attention", s->what);
  for (int i = 1; i < 3; i++)
    ck_assert_msg((n->inputs[i]->type.dims[1] == 2) == (s->made != NULL), "%s: input %d has %lld heads", s->what, i,
                  (long long)n->inputs[i]->type.dims[1]);
  ck_assert_msg(front_changes(&f, "attention_heads") == (s->made != NULL), "%s", s->what);
  front_fini(&f);
}
END_TEST

START_TEST(rotary_embeddings_are_recognised) {
  const spelled *s = &spelled_rotaries[_i];
  onnx_build *b = spelled_rotary_open(s);
  front f;
  front_optimize(&f, &b);
  ck_assert_msg(front_count(&f, OP_RotaryEmbedding) == (s->made != NULL), "%s: %s", s->what,
                s->made ? "left alone" : "recognised");
  if (s->made)
    ck_assert_msg(front_count(&f, OP_Mul) + front_count(&f, OP_Add) + front_count(&f, OP_Concat) == 0,
                  "%s: its parts are computed too", s->what);
  front_fini(&f);
}
END_TEST

START_TEST(caches_of_the_last_places_are_recognised) {
  const spelled *s = &spelled_last_places[_i];
  onnx_build *b = spelled_last_places_open(s);
  front f;
  front_optimize(&f, &b);
  ck_assert_msg(front_count(&f, OP_RotaryEmbedding) == (s->made != NULL), "%s: %s", s->what,
                s->made ? "left alone" : "recognised");
  front_fini(&f);
}
END_TEST

START_TEST(rows_of_caches_are_recognised) {
  const spelled_rows *s = &spelled_rows_of_caches[_i];
  onnx_build *b = spelled_rows_open(s);
  front f;
  front_optimize(&f, &b);
  ck_assert_msg(front_count(&f, OP_TensorScatter) == s->made, "%s: %s", s->what, s->made ? "left alone" : "recognised");
  if (s->made) ck_assert_int_eq(front_count(&f, OP_ScatterND) + front_count(&f, OP_ScatterElements), 0);
  front_fini(&f);
}
END_TEST

/* Only a place that may be negative is compared with 0. */
START_TEST(a_place_that_is_not_negative_is_taken_as_it_is) {
  for (int i = 0; i < COUNT(spelled_rows_of_caches); i++) {
    const spelled_rows *s = &spelled_rows_of_caches[i];
    if (!s->made) continue;
    onnx_build *b = spelled_rows_open(s);
    front f;
    front_optimize(&f, &b);
    ck_assert_msg(front_count(&f, OP_Less) == (strstr(s->text, "Max") == NULL), "%s", s->what);
    front_fini(&f);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("decoders");
  TCase *t = tcase_create("decoders");
  tcase_add_loop_test(t, masks_of_places_become_attributes, 0, COUNT(spelled_masks));
  tcase_add_test(t, a_folded_mask_is_not_computed);
  tcase_add_test(t, keys_are_not_turned_for_the_extents_of_a_bias);
  tcase_add_loop_test(t, a_bias_of_unproven_extents_is_no_hindrance, 0, COUNT(unproven_biases));
  tcase_add_loop_test(t, queries_as_many_as_a_table_has_rows_are_recognised, 0, COUNT(layers_of_tables));
  tcase_add_loop_test(t, repeated_heads_are_read_once, 0, COUNT(spelled_heads));
  tcase_add_loop_test(t, rotary_embeddings_are_recognised, 0, COUNT(spelled_rotaries));
  tcase_add_loop_test(t, caches_of_the_last_places_are_recognised, 0, COUNT(spelled_last_places));
  tcase_add_loop_test(t, rows_of_caches_are_recognised, 0, COUNT(spelled_rows_of_caches));
  tcase_add_test(t, a_place_that_is_not_negative_is_taken_as_it_is);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
