/* For every instruction and every operand: a module that breaks just this operand, in every way that its role can be
 * broken, is rejected with a message that names rule, function, word, mnemonic and operand. The modules are generated
 * from one line for each instruction below. */
#include <stdio.h>

#include "base/text.h"
#include "bytecode/format.h"
#include "bytecode/operands.h"
#include "tests/loader/verify_text.h"
#include "tests/suite.h"

/* Registers in every state, made by the prologue. */
enum {
  HOST,
  DEVICE,
  SHAPED_HOST,
  SHAPED_DEVICE,
  OBJECT,
  NONE,
  ANY,
  PENDING,
  DEAD,
  UNDEFINED,
  FETCHING,
  FRESH,
  N_STATES
};
#define BIT(state) (1u << (state))
#define COMPLETE (BIT(HOST) | BIT(DEVICE) | BIT(OBJECT) | BIT(ANY) | BIT(FRESH))
#define ALL (BIT(N_STATES) - 1)

static const char head[] =
    ".module \"reject\" devices 2\n.type row = f32[4]\n.const c = f32[4] {1}\n"
    ".site add = Add (2 -> 1)\n.site expand = Expand (2 -> 1)\n.site nonzero = NonZero (1 -> 1)\n"
    ".function main (row) -> (row)\n";
static const char prologue[] =
    "  const r1, c, device\n  shape.like r2, r0, host\n  shape.like r3, r0, device\n  seq.make r4\n  opt.none r5\n"
    "  adt.make r6, 0, [r0]\n  adt.get r6, r6, 0\n  shape nonzero, host, [r7], [r0:shape]\n  invoke nonzero, host, "
    "[r7], [r0]\n"
    "  const r8, c, host\n  kill r8\n  shape.like r11, r0, host\n  alloc r11\n  s.const s0, 1\n";
static const char epilogue[] = "  fail \"end\"\n.function callee (row, object | 1) -> (row, object | 1)\n  return [r0, "
                               "r1], [s0]\n.function plain (object) -> ()\n  return [], []\n";

/* One valid use of each instruction, operand by operand; the items of lists are separated by blanks. r20 and up, s2 and
 * up are free. */
static const struct {
  const char *operands[INSN_MAX_OPERANDS];
} uses[INSN_COUNT] = {
    [INSN_S_CONST] = {{"s2", "-5"}},
    [INSN_S_MOVE] = {{"s2", "s0"}},
    [INSN_R_MOVE] = {{"r20", "r0"}},
    [INSN_CONST] = {{"r20", "c", "device"}},
    [INSN_S_ITEM] = {{"s2", "r0"}},
    [INSN_S_DIM] = {{"s2", "r0", "0"}},
    [INSN_R_SCALAR] = {{"r20", "s0", "i64"}},
    [INSN_S_ADD] = {{"s2", "s0", "s0"}},
    [INSN_S_SUB] = {{"s2", "s0", "s0"}},
    [INSN_S_MUL] = {{"s2", "s0", "s0"}},
    [INSN_S_DIV] = {{"s2", "s0", "s0"}},
    [INSN_S_MOD] = {{"s2", "s0", "s0"}},
    [INSN_S_MIN] = {{"s2", "s0", "s0"}},
    [INSN_S_MAX] = {{"s2", "s0", "s0"}},
    [INSN_S_EQ] = {{"s2", "s0", "s0"}},
    [INSN_S_NE] = {{"s2", "s0", "s0"}},
    [INSN_S_LT] = {{"s2", "s0", "s0"}},
    [INSN_S_LE] = {{"s2", "s0", "s0"}},
    [INSN_S_AND] = {{"s2", "s0", "s0"}},
    [INSN_S_OR] = {{"s2", "s0", "s0"}},
    [INSN_S_NOT] = {{"s2", "s0"}},
    [INSN_JUMP] = {{"end"}},
    [INSN_BRANCH_IF] = {{"s0", "end"}},
    [INSN_BRANCH_IFNOT] = {{"s0", "end"}},
    [INSN_SWITCH] = {{"s0", "end end"}},
    [INSN_CALL] = {{"callee", "r20 r21", "s2", "r0 r4", "s0"}},
    [INSN_CALL_CLOSURE] = {{"r4", "r20", "r0"}},
    [INSN_RETURN] = {{"r0", ""}},
    [INSN_FAIL] = {{"\"text\""}},
    [INSN_ADT_MAKE] = {{"r20", "1", "r0 r4"}},
    [INSN_ADT_GET] = {{"r20", "r4", "0"}},
    [INSN_ADT_TAG] = {{"s2", "r4"}},
    [INSN_CLOSURE_MAKE] = {{"r20", "plain", "r0"}},
    [INSN_SEQ_MAKE] = {{"r20"}},
    [INSN_SEQ_PUSH] = {{"r4", "r0"}},
    [INSN_SEQ_GET] = {{"r20", "r4", "s0"}},
    [INSN_SEQ_LENGTH] = {{"s2", "r4"}},
    [INSN_SEQ_STACK] = {{"r20", "r4", "row", "host"}},
    [INSN_SEQ_JOIN] = {{"r20", "r4", "row", "host"}},
    [INSN_OPT_NONE] = {{"r20"}},
    [INSN_OPT_HAS] = {{"s2", "r5"}},
    [INSN_OPT_GET] = {{"r20", "r5"}},
    [INSN_SHAPE] = {{"expand", "host", "r20", "r0:shape r0:value"}},
    [INSN_SHAPE_LIKE] = {{"r20", "r0", "device"}},
    [INSN_ASSERT_SHAPE] = {{"r0", "row"}},
    [INSN_ASSERT_DIM] = {{"r0", "0", "s0", "row"}},
    [INSN_ALLOC] = {{"r2"}},
    [INSN_VIEW] = {{"r2", "r0"}},
    [INSN_COPY] = {{"r3", "r0", "input", "add", "0"}},
    [INSN_KILL] = {{"r0"}},
    [INSN_INVOKE] = {{"add", "host", "r2", "r0 r0"}},
    [INSN_READBACK] = {{"r20", "r1", "value", "add", "0"}},
    [INSN_EXTENT] = {{"r7"}},
    [INSN_EXTENT_FOR] = {{"r7", "\"text\""}},
    [INSN_SYNC] = {{NULL}},
};
static bool is_epoch(int id) {
  return id == INSN_EPOCH_ENTER || id == INSN_EPOCH_PLAN || id == INSN_EPOCH_END;
} /* rules of these instructions: test_rules.c */

/* The states that an operand takes, by its role; the exceptions that come first are the instruction's own. */
static unsigned takes(int id, int operand, int item) {
  insn_role role = insn_table[id].roles[operand];
  if (id == INSN_CALL && role == INSN_ROLE_RU_ANY && item == 0) return BIT(HOST) | BIT(FRESH) | BIT(ANY);
  if (id == INSN_RETURN && role == INSN_ROLE_RU_ANY) return BIT(HOST) | BIT(FRESH);
  if (id == INSN_SHAPE && role == INSN_ROLE_RF_INPUT && item == 1) return BIT(HOST) | BIT(FRESH) | BIT(ANY);
  if (id == INSN_VIEW) return role == INSN_ROLE_RX_FILL ? BIT(SHAPED_HOST) : BIT(HOST) | BIT(FRESH) | BIT(ANY);
  if (id == INSN_COPY && role == INSN_ROLE_RX_FILL) return BIT(SHAPED_HOST) | BIT(SHAPED_DEVICE) | BIT(FRESH);
  switch (role) {
    INSN_DEFINING_ROLES(INSN_ROLE_CASE) return ALL & ~BIT(FETCHING);
    case INSN_ROLE_RX_ALLOC: return BIT(SHAPED_HOST) | BIT(SHAPED_DEVICE);
    case INSN_ROLE_RX_EXTENT: return BIT(HOST) | BIT(DEVICE) | BIT(FRESH) | BIT(PENDING);
    case INSN_ROLE_RX_KILL: return ALL & ~(BIT(DEAD) | BIT(UNDEFINED) | BIT(FETCHING));
    case INSN_ROLE_RX_PUSH:
    case INSN_ROLE_RU_OBJECT: return BIT(OBJECT) | BIT(ANY);
    case INSN_ROLE_RU_ANY: return COMPLETE;
    case INSN_ROLE_RU_SHAPE:
    case INSN_ROLE_RF_INPUT:
      return BIT(HOST) | BIT(DEVICE) | BIT(FRESH) | BIT(ANY) | BIT(SHAPED_HOST) | BIT(SHAPED_DEVICE);
    case INSN_ROLE_RU_TENSOR: return BIT(HOST) | BIT(DEVICE) | BIT(FRESH) | BIT(ANY);
    case INSN_ROLE_RU_HOST: return BIT(HOST) | BIT(FRESH) | BIT(ANY);
    case INSN_ROLE_RU_KERNEL: return BIT(HOST) | BIT(FRESH);
    case INSN_ROLE_RX_KERNEL: return BIT(SHAPED_HOST) | BIT(FRESH);
    case INSN_ROLE_RU_MAYBE: return COMPLETE | BIT(NONE);
    case INSN_ROLE_RF_KEY:  /* test_rules.c */
    case INSN_ROLE_RX_FILL: /* above */
    case INSN_ROLE_SU: INSN_NAMING_ROLES(INSN_ROLE_CASE)
    case INSN_ROLE_COUNT: break;
  }
  return 0;
}

/* The module's text with one use of the instruction, in which item `item` of operand `operand` (-1: none) is `instead`.
 * `:flags` stay. */
static void write_text(text_buffer *t, int id, int operand, int item, const char *instead, const char *more_prologue) {
  t->n = 0;
  text_append(t, "%s%s%s  %s", head, prologue, more_prologue, insn_table[id].mnemonic);
  for (int i = 0; i < insn_table[id].n_operands; i++) {
    bool list = insn_table[id].forms[i] == INSN_FORM_LIST;
    char copy[128], *save = NULL;
    snprintf(copy, sizeof copy, "%s", uses[id].operands[i]);
    text_append(t, "%s%s", i ? ", " : " ", list ? "[" : "");
    int k = 0;
    for (char *word = list ? strtok_r(copy, " ", &save) : copy; word;
         word = list ? strtok_r(NULL, " ", &save) : NULL, k++) {
      bool here = i == operand && k == item;
      char *flags = strchr(word, ':');
      text_append(t, "%s%s%s", k ? ", " : "", here ? instead : word, here && flags ? flags : "");
    }
    text_append(t, "%s", list ? "]" : "");
  }
  text_append(t, "\nend:\n%s", epilogue);
}

static int count_items(int id, int operand) {
  const char *text = uses[id].operands[operand];
  if (insn_table[id].forms[operand] != INSN_FORM_LIST) return 1;
  int n = *text ? 1 : 0;
  for (; *text; text++) n += *text == ' ';
  return n;
}

START_TEST(every_instruction_has_a_valid_use) {
  text_buffer t = {0};
  for (int id = 0; id < INSN_COUNT; id++) {
    if (is_epoch(id)) continue;
    for (int i = 0; i < insn_table[id].n_operands; i++)
      ck_assert_msg(uses[id].operands[i], "%s", insn_table[id].mnemonic);
    write_text(&t, id, -1, -1, "", "");
    accept(t.data);
  }
  text_fini(&t);
}
END_TEST

START_TEST(a_register_in_a_state_that_its_role_does_not_take_is_rejected) {
  text_buffer t = {0};
  for (int id = 0; id < INSN_COUNT; id++) {
    for (int i = 0; i < insn_table[id].n_operands && !is_epoch(id); i++) {
      if (insn_roles[insn_table[id].roles[i]].bank != INSN_BANK_R) continue;
      for (int k = 0; k < count_items(id, i); k++)
        for (int state = 0; state < N_STATES; state++) {
          char reg[8], name[32];
          snprintf(reg, sizeof reg, "r%d", state);
          write_text(&t, id, i, k, reg, state == FETCHING ? "  readback r10, r1, value, add, 0\n" : "");
          snprintf(name, sizeof name, "'%s'", insn_table[id].names[i]);
          if (id == INSN_VIEW) snprintf(name, sizeof name, "operand '"); /* either of the two may be named */
          bool calls = insn_table[id].flow == INSN_FLOW_CALL || insn_table[id].flow == INSN_FLOW_RETURN;
          if (takes(id, i, k) & BIT(state)) accept(t.data);
          else
            reject(t.data, "V",
                   state == FETCHING && calls && insn_table[id].roles[i] == INSN_ROLE_RD_ANY ? "fetched" : name,
                   "function 'main', word ");
        }
    }
  }
  text_fini(&t);
}
END_TEST

START_TEST(a_register_is_absent_only_where_its_role_allows_that) {
  text_buffer t = {0};
  for (int id = 0; id < INSN_COUNT; id++) {
    for (int i = 0; i < insn_table[id].n_operands && !is_epoch(id); i++) {
      const insn_role_info *role = &insn_roles[insn_table[id].roles[i]];
      if (role->bank != INSN_BANK_R) continue;
      for (int k = 0; k < count_items(id, i); k++) {
        char name[32];
        snprintf(name, sizeof name, "'%s'", insn_table[id].names[i]);
        write_text(&t, id, i, k, "_", "");
        /* all operands of the operators used here are required: their rows refuse an absent operand, which the role
         * allows */
        reject(t.data, "V21", name, role->optional ? " of " : "a register must be given");
      }
    }
  }
  text_fini(&t);
}
END_TEST

/* Every instruction inside of an epoch, in either section: allowed exactly where its row says. An instruction in the
 * right place may still break another rule. */
START_TEST(an_instruction_stands_only_where_its_row_says) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  text_buffer t = {0};
  for (int id = 0; id < INSN_COUNT; id++)
    for (int place = INSN_PLACES_O; place <= INSN_PLACES_R; place *= 2) {
      if (is_epoch(id)) continue;
      write_text(&t, id, -1, -1, "",
                 place == INSN_PLACES_S   ? "  epoch.enter 0, plan, [r0:shape], []\n"
                 : place == INSN_PLACES_R ? "  epoch.enter 0, plan, [r0:shape], []\nplan: "
                                            "epoch.plan 0\n"
                                          : "");
      const char *end = strstr(t.data, "\nend:\n");
      text_buffer whole = {0};
      text_append(&whole, "%.*s\n%s%s", (int)(end - t.data), t.data,
                  place == INSN_PLACES_S   ? "plan: epoch.plan 0\nend:  epoch.end 0\n"
                  : place == INSN_PLACES_R ? "end:  epoch.end 0\n"
                                           : "end:\n",
                  end + strlen("\nend:\n"));
      reed_status status = check_text(whole.data, d);
      const char *message = reed_diagnosis_message(d);
      bool refused = status != REED_OK && strncmp(message, "V51", 3) == 0 && strstr(message, insn_table[id].mnemonic);
      ck_assert_msg(refused == !(insn_table[id].places & (insn_places)place), "%s in place %d: %s",
                    insn_table[id].mnemonic, place, message);
      if (refused)
        ck_assert_ptr_nonnull(strstr(message, place == INSN_PLACES_S ? "not allowed in a shape section"
                                                                     : "not allowed in a run section"));
      text_fini(&whole);
    }
  text_fini(&t);
  reed_diagnosis_close(&d);
}
END_TEST

/* After every instruction whose row says that dst shares the memory of src: an allocated src must not be written by a
 * kernel any more, and dst is as complete as src is. After every other instruction that reads r11 and keeps no
 * reference to it: the kernel still may. */
START_TEST(a_register_that_shares_its_memory_is_not_written_again) {
  text_buffer t = {0};
  for (int id = 0; id < INSN_COUNT; id++)
    for (int i = 0; i < insn_table[id].n_operands && !is_epoch(id); i++) {
      insn_role role = insn_table[id].roles[i];
      bool reads = role == INSN_ROLE_RU_SHAPE || role == INSN_ROLE_RU_HOST || role == INSN_ROLE_RU_KERNEL ||
                   role == INSN_ROLE_RF_INPUT || (i == 1 && insn_shares_src((insn_id)id));
      for (int k = 0; k < count_items(id, i) && reads; k++) {
        write_text(&t, id, i, k, "r11", "");
        const char *end = strstr(t.data, "end:\n");
        text_buffer whole = {0};
        text_append(&whole, "%.*s%s%s", (int)(end - t.data), t.data, id == INSN_READBACK ? "  sync\n" : "",
                    "  invoke add, host, [r11], [r0, r0]\n");
        if (insn_shares_src((insn_id)id)) {
          size_t written = whole.n;
          text_append(&whole, "%s", end);
          reject(whole.data, "V31", "operand 'outputs'[0] (r11)", "a shaped tensor is needed");
          whole.n = written - strlen("  invoke add, host, [r11], [r0, r0]\n");
          const char *dst = uses[id].operands[0];
          text_append(&whole, id == INSN_COPY ? "  readback r21, %s, value, add, 0\n%s" : "  r.move r21, %s\n%s", dst,
                      end);
          accept(whole.data);
        } else {
          text_append(&whole, "%s", end);
          accept(whole.data);
        }
        text_fini(&whole);
      }
    }
  text_fini(&t);
}
END_TEST

START_TEST(a_scalar_that_is_not_defined_is_rejected) {
  text_buffer t = {0};
  for (int id = 0; id < INSN_COUNT; id++)
    for (int i = 0; i < insn_table[id].n_operands && !is_epoch(id); i++) {
      if (insn_table[id].roles[i] != INSN_ROLE_SU) continue;
      for (int k = 0; k < count_items(id, i); k++) {
        char name[32];
        snprintf(name, sizeof name, "'%s'", insn_table[id].names[i]);
        write_text(&t, id, i, k, "s1", "");
        reject(t.data, "V30", name, insn_table[id].mnemonic);
      }
    }
  text_fini(&t);
}
END_TEST

static const char epoch_text[] = "  s.const s0, 1\n  epoch.enter 0, plan, [r0:shape], [s0]\n  shape.like r1, r0, "
                                 "device\nplan: epoch.plan 0\n  copy r1, r0, input, add, 0\n  epoch.end 0\n";

/* A module with the instruction, its code, and the instruction's place. */
static void *make_module(int id, reed_diagnosis *d, size_t *out_n, uint32_t **out_code, insn *out_insn) {
  text_buffer t = {0};
  if (is_epoch(id)) text_append(&t, "%s%s%s", head, epoch_text, epilogue);
  else write_text(&t, id, -1, -1, "", "");
  void *bytes;
  reed_status status = reed_module_assemble(t.data, NULL, &bytes, out_n, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  text_fini(&t);
  const format_section *toc = (const format_section *)((char *)bytes + sizeof(format_header));
  *out_code = (uint32_t *)((char *)bytes + toc[FORMAT_CODE - 1].offset);
  uint32_t pc = 0, n_code = (uint32_t)(toc[FORMAT_CODE - 1].n_bytes / 4);
  while (insn_decode(*out_code, n_code, pc, out_insn) && out_insn->id != (insn_id)id) pc += out_insn->n_words;
  ck_assert_int_eq((int)out_insn->id, id);
  return bytes;
}

/* Rejected, naming this operand of this instruction. */
static void rejected_there(const void *bytes, size_t n, const insn *in, int operand, uint32_t word, reed_diagnosis *d) {
  reed_program_options ignore = {.ignore_checksum = true};
  reed_status status = reed_module_verify(bytes, n, &ignore, d);
  const char *message = reed_diagnosis_message(d);
  char name[64], place[64];
  snprintf(name, sizeof name, "%s, operand '%s'", insn_table[in->id].mnemonic, insn_table[in->id].names[operand]);
  snprintf(place, sizeof place, "function 'main', word %u", in->pc);
  ck_assert_msg(status != REED_OK && strstr(message, name) && strstr(message, place) &&
                    reed_diagnosis_pc(d) == in->pc && strcmp(reed_diagnosis_function(d), "main") == 0,
                "%s %u: %s", name, word, message);
}

/* Every word of every operand replaced by a number that nothing has: an index, a register, a target out of range; and a
 * list's length. */
START_TEST(an_operand_out_of_range_is_rejected_by_name) {
  static const uint32_t bad[] = {0x00fffffe, 0xfffffffe, 0x7fffffff};
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  for (int id = 0; id < INSN_COUNT; id++) {
    size_t n;
    uint32_t *code;
    insn in;
    void *bytes = make_module(id, d, &n, &code, &in);
    for (int i = 0; i < insn_table[id].n_operands; i++) {
      insn_role role = insn_table[id].roles[i];
      for (uint32_t k = 0; k < in.operands[i].n && role != INSN_ROLE_IMM; k++)
        for (int b = role == INSN_ROLE_INDEX; b < 3; b++) { /* the first is an index like another */
          uint32_t *word = &code[in.operands[i].words - code + k], old = *word;
          *word = bad[b];
          rejected_there(bytes, n, &in, i, bad[b], d);
          *word = old;
        }
      if (insn_table[id].forms[i] != INSN_FORM_LIST) continue;
      reed_program_options ignore = {.ignore_checksum = true};
      uint32_t *count = &code[in.operands[i].words - code - 1];
      *count += 1000;
      ck_assert_int_ne(reed_module_verify(bytes, n, &ignore, d), REED_OK);
      ck_assert_int_eq(strncmp(reed_diagnosis_message(d), "V20", 3), 0);
      *count -= 1000;
    }
    mem_free(bytes);
  }
  reed_diagnosis_close(&d);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("reject");
  TCase *c = tcase_create("operands");
  tcase_set_timeout(c, 120);
  suite_add_tcase(suite, c);
  tcase_add_test(c, every_instruction_has_a_valid_use);
  tcase_add_test(c, a_register_in_a_state_that_its_role_does_not_take_is_rejected);
  tcase_add_test(c, a_register_is_absent_only_where_its_role_allows_that);
  tcase_add_test(c, an_instruction_stands_only_where_its_row_says);
  tcase_add_test(c, a_register_that_shares_its_memory_is_not_written_again);
  tcase_add_test(c, a_scalar_that_is_not_defined_is_rejected);
  tcase_add_test(c, an_operand_out_of_range_is_rejected_by_name);
  return suite_run(suite);
}
