/* The module builder and the instruction table: what is interned, renumbered, collected, and what is refused. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bytecode/format.h"
#include "bytecode/insn.h"
#include "loader/loader.h"
#include "tests/alloc_hook.h"

static uint32_t f32_type(module_builder *b, const char *name, int64_t extent) {
  module_type t = {.dtype = REED_F32, .rank = 1, .dims = {extent}, .name = module_add_string(b, name)};
  return module_add_type(b, &t);
}

static void emit_return(module_builder *b, uint32_t result) {
  emit_begin(b, INSN_RETURN, NULL);
  emit_list(b, &result, 1);
  emit_list(b, NULL, 0);
  emit_end(b);
}

/* main(x) -> x, after a loop that counts s0 down; "end" is a label that is used before it is bound. */
static void build(module_builder *b) {
  uint32_t type = f32_type(b, "x", 4);
  module_declare_function(b, "main", &type, 1, 0, &type, 1, 0);
  module_set_io(b, &type, 1, &type, 1);
  module_set_names(b, "zebra", "alpha", "1", 1);
  module_begin_function(b, 0);
  emit_begin(b, INSN_S_CONST, "a node");
  emit_u32(b, 0), emit_i64(b, -2);
  emit_end(b);
  uint32_t again = emit_new_label(b), end = emit_new_label(b);
  emit_bind_label(b, again);
  emit_begin(b, INSN_BRANCH_IFNOT, NULL);
  emit_u32(b, 0), emit_label(b, end);
  emit_end(b);
  emit_begin(b, INSN_S_NOT, "another node");
  emit_u32(b, 0), emit_u32(b, 0);
  emit_end(b);
  uint32_t targets[] = {again, end};
  emit_begin(b, INSN_SWITCH, NULL);
  emit_u32(b, 0), emit_labels(b, targets, 2);
  emit_end(b);
  emit_begin(b, INSN_FAIL, NULL);
  emit_u32(b, module_add_string(b, "middle"));
  emit_end(b);
  emit_bind_label(b, end);
  emit_return(b, 0);
  module_end_function(b, 1, 1);
}

START_TEST(a_built_module_loads_with_its_parts) {
  module_builder *b;
  ck_assert_int_eq(module_builder_open(&b), REED_OK);
  build(b);
  module_add_string(b, "nobody refers to this");
  void *bytes;
  size_t n;
  ck_assert_int_eq(module_builder_finish(b, &bytes, &n, NULL), REED_OK);
  module_builder_close(&b);
  module *m;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = loader_open_bytes(bytes, n, &(load_options){0}, &m, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  ck_assert_str_eq(m->model_name, "zebra");
  ck_assert_str_eq(m->producer, "alpha");
  for (size_t i = 0; i < m->n_strings; i++) ck_assert_str_ne(m->strings[i], "nobody refers to this");
  insn in;
  ck_assert(insn_decode(m->code, (uint32_t)m->n_code, 0, &in));
  ck_assert_int_eq(in.id, INSN_S_CONST);
  ck_assert_int_eq(insn_long(&in.operands[1]), -2);
  ck_assert(insn_decode(m->code, (uint32_t)m->n_code, 17, &in));
  ck_assert_int_eq(in.id, INSN_RETURN);
  ck_assert(insn_decode(m->code, (uint32_t)m->n_code, 15, &in));
  ck_assert_str_eq(m->strings[in.operands[0].words[0]], "middle");
  ck_assert(!insn_decode(m->code, (uint32_t)m->n_code, 1, &in));
  ck_assert(!insn_decode(m->code, 3, 0, &in));
  ck_assert_uint_eq(m->n_debug, 2);
  ck_assert_uint_eq(m->debug[1].pc, 7);
  ck_assert_str_eq(m->strings[m->debug[1].node], "another node");
  module_close(&m);
  reed_diagnosis_close(&d);
  mem_free(bytes);
}
END_TEST

START_TEST(equal_strings_types_and_constants_are_one) {
  module_builder *b;
  ck_assert_int_eq(module_builder_open(&b), REED_OK);
  char name[32];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "string %d", i % 500);
    ck_assert_uint_eq(module_add_string(b, name), 1 + i % 500); /* 0 is "" */
  }
  ck_assert_uint_eq(f32_type(b, "x", 4), f32_type(b, "x", 4));
  ck_assert_uint_ne(f32_type(b, "x", 4), f32_type(b, "y", 4));
  ck_assert_uint_ne(f32_type(b, "x", 4), f32_type(b, "x", 5));
  const float data[] = {1, 2, 3, 4};
  reed_desc row = {REED_F32, 1, {4}}, square = {REED_F32, 2, {2, 2}}, integers = {REED_I32, 1, {4}},
            two = {REED_F32, 1, {2}};
  uint32_t first = module_add_constant(b, &row, data, "first", true);
  ck_assert_uint_eq(module_add_constant(b, &row, data, "second", false), first);
  ck_assert_uint_ne(module_add_constant(b, &square, data, "", false), first);
  ck_assert_uint_ne(module_add_constant(b, &integers, data, "", false), first);
  ck_assert_uint_ne(module_add_constant(b, &two, data, "", false), module_add_constant(b, &two, data + 2, "", false));
  module_builder_close(&b);
}
END_TEST

enum { NO_CODE, LABEL_UNBOUND, OPERAND_MISSING, OPERAND_TOO_MANY, WRONG_FORM, IO_DISAGREES, BAD_TYPE, N_MISUSES };

START_TEST(misuse_is_told_by_finish) {
  static const char *const said[] = {"has no code",
                                     "used but not bound",
                                     "1 of 2 operands given",
                                     "more than 2 operands",
                                     "'value' given in the wrong form",
                                     "0 inputs and 0 outputs",
                                     "no string of this builder"};
  module_builder *b;
  ck_assert_int_eq(module_builder_open(&b), REED_OK);
  uint32_t type = f32_type(b, "x", 4);
  module_declare_function(b, "main", &type, 1, 0, &type, 1, 0);
  if (_i != IO_DISAGREES) module_set_io(b, &type, 1, &type, 1);
  module_begin_function(b, 0);
  if (_i == LABEL_UNBOUND) emit_begin(b, INSN_JUMP, NULL), emit_label(b, emit_new_label(b)), emit_end(b);
  if (_i == OPERAND_MISSING) emit_begin(b, INSN_S_CONST, NULL), emit_u32(b, 0), emit_end(b);
  if (_i == OPERAND_TOO_MANY)
    emit_begin(b, INSN_S_MOVE, NULL), emit_u32(b, 0), emit_u32(b, 0), emit_u32(b, 0), emit_end(b);
  if (_i == WRONG_FORM) emit_begin(b, INSN_S_CONST, NULL), emit_u32(b, 0), emit_u32(b, 0), emit_end(b);
  if (_i == BAD_TYPE) module_add_type(b, &(module_type){.name = 99});
  if (_i != NO_CODE) emit_return(b, 0), module_end_function(b, 1, 1);
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  void *bytes;
  size_t n;
  ck_assert_int_eq(module_builder_finish(b, &bytes, &n, d), REED_ERROR_ARGUMENT);
  ck_assert_msg(strstr(reed_diagnosis_message(d), said[_i]), "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  module_builder_close(&b);
}
END_TEST

START_TEST(every_allocation_of_building_may_fail) {
  for (int64_t k = 1, more = 1; more; k++) {
    alloc_hook_begin();
    alloc_hook_fail_at(k);
    module_builder *b = NULL;
    void *bytes = NULL;
    size_t n;
    reed_status status = module_builder_open(&b);
    if (status == REED_OK) build(b), status = module_builder_finish(b, &bytes, &n, NULL);
    module_builder_close(&b);
    mem_free(bytes);
    more = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_int_eq(status, more ? REED_ERROR_MEMORY : REED_OK);
  }
}
END_TEST

START_TEST(the_hash_is_that_of_its_specification) {
  ck_assert_uint_eq(format_hash("", 0, 0), 0xef46db3751d8e999ull);
  ck_assert_uint_eq(format_hash("abc", 3, 0), 0x44bc2cf5ad770999ull);
  const char *fox = "The quick brown fox jumps over the lazy dog";
  ck_assert_uint_eq(format_hash(fox, strlen(fox), 0), 0x0b242d361fda71bcull);
}
END_TEST

START_TEST(every_instruction_has_its_row) {
  for (int id = 0; id < INSN_COUNT; id++) {
    const insn_info *info = &insn_table[id];
    ck_assert_ptr_nonnull(info->mnemonic);
    ck_assert_ptr_nonnull(info->effect);
    ck_assert_int_le(info->n_operands, INSN_MAX_OPERANDS);
    for (int i = 0; i < info->n_operands; i++) ck_assert(info->names[i] && info->roles[i] < INSN_ROLE_COUNT);
    for (int other = 0; other < id; other++) ck_assert_str_ne(info->mnemonic, insn_table[other].mnemonic);
  }
  ck_assert_int_eq(insn_table[INSN_SYNC].n_operands, 0);
  ck_assert_int_eq(insn_table[INSN_CALL].n_operands, 5);
  ck_assert_int_eq(insn_role_form(INSN_ROLE_IMM), INSN_FORM_LONG);
  ck_assert_str_eq(insn_role_name(INSN_ROLE_RFS_IN), "RFS_IN");
}
END_TEST

START_TEST(utf8_is_well_formed_or_refused) {
  static const char *const good[] = {
      "", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xb3", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"};
  static const char *const bad[] = {
      "\x80",     "\xc0\xaf", "\xc3", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80",
      "\xe2\x82", "a\xff"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) ck_assert(format_utf8_valid(good[i], strlen(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert(!format_utf8_valid(bad[i], strlen(bad[i])));
  ck_assert(!format_utf8_valid("a\0b", 3));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("builder");
  TCase *c = tcase_create("builder");
  suite_add_tcase(suite, c);
  tcase_add_test(c, a_built_module_loads_with_its_parts);
  tcase_add_test(c, equal_strings_types_and_constants_are_one);
  tcase_add_loop_test(c, misuse_is_told_by_finish, 0, N_MISUSES);
  tcase_add_test(c, every_allocation_of_building_may_fail);
  tcase_add_test(c, the_hash_is_that_of_its_specification);
  tcase_add_test(c, every_instruction_has_its_row);
  tcase_add_test(c, utf8_is_well_formed_or_refused);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
