/* The module builder and the instruction table: interning, renumbering of strings, epochs, and refused misuse. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "bytecode/emit.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"
#include "bytecode/format.h"
#include "loader/loader.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static uint32_t f32_type(module_builder *b, const char *name, int64_t extent) {
  module_type t = {.dtype = REED_F32, .rank = 1, .dims = {extent}, .name = module_add_string(b, name)};
  return module_add_type(b, &t);
}

static void return_one(module_builder *b, uint32_t result) {
  insn_emit_return(b, NULL, (insn_return){.n_results = 1, .results = &result});
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
  emit_u32(b, 0), emit_u32(b, end);
  emit_end(b);
  emit_begin(b, INSN_S_NOT, "another node");
  emit_u32(b, 0), emit_u32(b, 0);
  emit_end(b);
  uint32_t targets[] = {again, end};
  emit_begin(b, INSN_SWITCH, NULL);
  emit_u32(b, 0), emit_list(b, targets, 2);
  emit_end(b);
  emit_begin(b, INSN_FAIL, NULL);
  emit_u32(b, module_add_string(b, "middle"));
  emit_end(b);
  emit_bind_label(b, end);
  return_one(b, 0);
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
  if (_i == LABEL_UNBOUND) emit_begin(b, INSN_JUMP, NULL), emit_u32(b, emit_new_label(b)), emit_end(b);
  if (_i == OPERAND_MISSING) emit_begin(b, INSN_S_CONST, NULL), emit_u32(b, 0), emit_end(b);
  if (_i == OPERAND_TOO_MANY)
    emit_begin(b, INSN_S_MOVE, NULL), emit_u32(b, 0), emit_u32(b, 0), emit_u32(b, 0), emit_end(b);
  if (_i == WRONG_FORM) emit_begin(b, INSN_S_CONST, NULL), emit_u32(b, 0), emit_u32(b, 0), emit_end(b);
  if (_i == BAD_TYPE) module_add_type(b, &(module_type){.name = 99});
  if (_i != NO_CODE) return_one(b, 0), module_end_function(b, 1, 1);
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
  ck_assert_uint_eq(hash_bytes("", 0, 0), 0xef46db3751d8e999ull);
  ck_assert_uint_eq(hash_bytes("abc", 3, 0), 0x44bc2cf5ad770999ull);
  const char *fox = "The quick brown fox jumps over the lazy dog";
  ck_assert_uint_eq(hash_bytes(fox, strlen(fox), 0), 0x0b242d361fda71bcull);
}
END_TEST

START_TEST(every_instruction_has_its_row) {
  for (int id = 0; id < INSN_COUNT; id++) {
    const insn_info *info = &insn_table[id];
    ck_assert_ptr_nonnull(info->mnemonic);
    ck_assert_ptr_nonnull(info->effect);
    ck_assert_int_le(info->n_operands, INSN_MAX_OPERANDS);
    for (int i = 0; i < info->n_operands; i++) {
      ck_assert(info->names[i] && info->roles[i] < INSN_ROLE_COUNT);
      ck_assert_int_eq(insn_operand_named((insn_id)id, info->names[i]), i);
      ck_assert_int_eq(info->forms[i] == INSN_FORM_LONG, info->roles[i] == INSN_ROLE_IMM);
    }
    ck_assert_int_ne(info->places, 0);
    for (int other = 0; other < id; other++) ck_assert_str_ne(info->mnemonic, insn_table[other].mnemonic);
  }
  ck_assert_int_eq(insn_table[INSN_SYNC].n_operands, 0);
  ck_assert_int_eq(insn_table[INSN_CALL].n_operands, 5);
  ck_assert_int_eq(insn_operand_named(INSN_CALL, "dst"), -1);
}
END_TEST

START_TEST(every_role_has_its_row) {
  for (int role = 0; role < INSN_ROLE_COUNT; role++) {
    const insn_role_info *info = &insn_roles[role];
    ck_assert(info->name && info->text);
    /* RD_STORED, SU: the first letter names the bank; a role that is no register begins with another letter */
    ck_assert_int_eq(info->bank == INSN_BANK_R, info->name[0] == 'R' && role != INSN_ROLE_REASON);
    ck_assert_int_eq(info->bank == INSN_BANK_S, strcmp(info->name, "SD") == 0 || strcmp(info->name, "SU") == 0);
    ck_assert(info->bank == INSN_BANK_R || (!info->optional && !info->flagged));
  }
  ck_assert(insn_roles[INSN_ROLE_RF_INPUT].optional && insn_roles[INSN_ROLE_RF_INPUT].flagged);
  ck_assert(!insn_roles[INSN_ROLE_RF_KEY].optional && insn_roles[INSN_ROLE_RF_KEY].flagged);
}
END_TEST

/* insn_sharing_at reads every instruction that shares memory as if it were a view. */
START_TEST(what_shares_memory_begins_with_dst_and_src) {
  for (int id = 0; id < INSN_COUNT; id++) {
    if (!insn_shares_src((insn_id)id)) continue;
    const insn_info *info = &insn_table[id];
    ck_assert_int_ge(info->n_operands, 2);
    for (int i = 0; i < 2; i++) {
      ck_assert_str_eq(info->names[i], i ? "src" : "dst");
      ck_assert_int_eq(info->forms[i], INSN_FORM_ONE);
      ck_assert_int_eq(insn_roles[info->roles[i]].bank, INSN_BANK_R);
    }
  }
}
END_TEST

/* Every operand of every instruction is written by its emitter and read back by its accessor. */
#define ONE(name, role) ck_assert_uint_eq(read.name, given.name);
#define LONG(name, role) ck_assert_int_eq(read.name, given.name);
#define LIST(name, role) \
  ck_assert_uint_eq(read.n_##name, given.n_##name); \
  for (uint32_t k = 0; k < given.n_##name; k++) ck_assert_uint_eq(read.name[k], given.name[k]);
#define INSN(id, op, text, flow, places, shares, effect, ...) \
  static void check_##op(const uint32_t *w, insn_##op given) { \
    insn_##op read = insn_##op##_at(w); \
    (void)given; \
    ck_assert_int_eq(insn_id_at(w), INSN_##id); \
    ck_assert_ptr_eq(read.next, w + (w[0] >> 16)); \
    __VA_ARGS__ \
  }
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST

/* Values that no two operands of an instruction have in common; lists of three and of none in turn. A label's number is
 * given, its word read: the only label stands at word 0. */
static uint32_t next_value;
static uint32_t value_of_role(insn_role role) { return role == INSN_ROLE_LABEL ? 0 : ++next_value; }
static const uint32_t *list_of_role(insn_role role, uint32_t *items) {
  for (int k = 0; k < 3; k++) items[k] = value_of_role(role);
  return items;
}

START_TEST(every_operand_is_emitted_and_read_by_name) {
  const module_type f32 = {.dtype = REED_F32, .rank = 0};
  module_builder *b;
  ck_assert_int_eq(module_builder_open(&b), REED_OK);
  module_add_type(b, &f32);
  module_begin_function(b, module_declare_function(b, "main", NULL, 0, 0, NULL, 0, 0));
  emit_bind_label(b, emit_new_label(b));
  uint32_t items[INSN_COUNT][INSN_MAX_OPERANDS][3], n_lists = 0;
#define ONE(name, role) .name = value_of_role(INSN_ROLE_##role),
#define LONG(name, role) .name = -(INT64_C(5) << 40) + 3,
#define LIST(name, role) .n_##name = ++n_lists % 3 ? 3 : 0, .name = list_of_role(INSN_ROLE_##role, items[here][n++]),
#define INSN(id, op, text, flow, places, shares, effect, ...) \
  insn_##op given_##op; \
  { \
    int here = INSN_##id, n = 0; \
    (void)here, (void)n; \
    given_##op = (insn_##op){__VA_ARGS__.next = NULL}; \
    if (insn_table[INSN_##id].roles[0] != INSN_ROLE_STR) \
      insn_emit_##op(b, NULL, given_##op); /* the builder renumbers strings */ \
  }
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST
  module_end_function(b, 0, 0);
  void *bytes;
  size_t n_bytes;
  reed_status status = module_builder_finish(b, &bytes, &n_bytes, NULL);
  ck_assert_int_eq(status, REED_OK);
  const format_section *toc = (const format_section *)((char *)bytes + sizeof(format_header));
  const uint32_t *w = (const uint32_t *)((char *)bytes + toc[FORMAT_CODE - 1].offset),
                 *end = w + toc[FORMAT_CODE - 1].n_bytes / 4;
#define INSN(id, op, text, flow, places, shares, effect, ...) \
  if (insn_table[INSN_##id].roles[0] != INSN_ROLE_STR) { \
    check_##op(w, given_##op); \
    w = insn_next(w); \
  }
#include "bytecode/insn.def"
  ck_assert_ptr_eq(w, end);
  mem_free(bytes);
  module_builder_close(&b);
}
END_TEST

START_TEST(utf8_is_well_formed_or_refused) {
  static const char *const good[] = {
      "", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\xb3", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"};
  static const char *const bad[] = {
      "\x80",     "\xc0\xaf", "\xc3", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80",
      "\xe2\x82", "a\xff"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) ck_assert(utf8_valid(good[i], strlen(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert(!utf8_valid(bad[i], strlen(bad[i])));
  ck_assert(!utf8_valid("a\0b", 3));
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
  tcase_add_test(c, every_role_has_its_row);
  tcase_add_test(c, what_shares_memory_begins_with_dst_and_src);
  tcase_add_test(c, every_operand_is_emitted_and_read_by_name);
  tcase_add_test(c, utf8_is_well_formed_or_refused);
  return suite_run(suite);
}
