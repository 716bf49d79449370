/* Facts of attributes (ops/facts.h): of which calls there are none. That they say what the attributes say is shown by
 * all kernel cases (tests/ops/cpu/case_facts.c). */
#include "ops/facts.h"

#include <check.h>

#include "tests/suite.h"

enum { MOST = 64 };

typedef struct site {
  reed_attr items[MOST];
  reed_attrs attrs;
  op_facts_list list;
} site;

static const op_facts *open_site(site *s, op_id op, const reed_attr *given, int32_t n) {
  s->attrs = op_attrs_complete(op_builtin(op), &(reed_attrs){given, n}, s->items);
  ck_assert(op_facts_list_open(s->items, MOST, &s->list));
  ck_assert(op_facts_list_add(&s->list, op_builtin(op), &s->attrs));
  return op_facts_find(&s->list, &s->attrs);
}

static reed_attr ints(const char *name, const int64_t *values, int64_t n) {
  return (reed_attr){.name = name, .type = REED_ATTR_INTS, .ints = values, .n = n};
}

/* A program is of a call that has its inputs, and no more than a call may have. */
START_TEST(a_program_needs_its_inputs) {
  site s;
  const reed_attr given[] = {{.name = "program", .type = REED_ATTR_STRING, .s = "Add 0 1;Neg 2"},
                             {.name = "to", .type = REED_ATTR_INT, .i = REED_F32}};
  const op_facts *f = open_site(&s, OP_Fused, given, 2);
  ck_assert_ptr_nonnull(f);
  ck_assert_ptr_nonnull(op_facts_program(f, 2));
  ck_assert_ptr_nonnull(op_facts_program(f, FUSED_INPUTS));
  static const int32_t others[] = {-1, 0, 1, FUSED_INPUTS + 1, 512};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) ck_assert_ptr_null(op_facts_program(f, others[i]));
  op_facts_list_close(&s.list);
}
END_TEST

/* A kernel of a device's module, which has a copy of ops/ of its own, gets no facts that name operators of libreed's.
 */
START_TEST(another_copy_of_the_operators_has_no_facts) {
  site s;
  const reed_attr given[] = {{.name = "program", .type = REED_ATTR_STRING, .s = "Add 0 1"},
                             {.name = "to", .type = REED_ATTR_INT, .i = REED_F32}};
  op_facts *f = (op_facts *)open_site(&s, OP_Fused, given, 2);
  kernel_cache *cache = NULL;
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  kernel_cache_set_facts(cache, &s.list);
  reed_kernel_env env = {.cache = cache};
  const reed_kernel_call call = {.op = op_builtin(OP_Fused), .attrs = &s.attrs, .env = &env};
  ck_assert_ptr_eq(op_facts_of(&call), f);
  f->ops++;
  ck_assert_ptr_null(op_facts_of(&call));
  kernel_cache_close(&cache);
  op_facts_list_close(&s.list);
}
END_TEST

/* A kernel_shape that is not the weights' is left to the call, which refuses it. */
START_TEST(a_wrong_kernel_shape_gives_no_facts) {
  static const int64_t weights[] = {8, 4, 3, 5}, shapes[][3] = {{3, 5}, {3}, {0}, {5, 3}, {3, 5, 1}};
  static const int64_t lengths[] = {2, 1, 0, 2, 3};
  for (int i = -1; i < 5; i++) {
    site s;
    const reed_attr given[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                               ints("kernel_shape", i < 0 ? NULL : shapes[i], i < 0 ? 0 : lengths[i]),
                               ints(PACKED_ATTR, weights, 4)},
                    absent[] = {given[0], given[2]};
    const op_facts *f = open_site(&s, OP_Conv, i < 0 ? absent : given, i < 0 ? 2 : 3);
    ck_assert_int_eq(f != NULL, i <= 0);
    op_facts_list_close(&s.list);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("facts");
  TCase *t = tcase_create("all");
  suite_add_tcase(suite, t);
  tcase_add_test(t, a_program_needs_its_inputs);
  tcase_add_test(t, another_copy_of_the_operators_has_no_facts);
  tcase_add_test(t, a_wrong_kernel_shape_gives_no_facts);
  return suite_run(suite);
}
