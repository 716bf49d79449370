/* Prints a document from a table of the program: `gen_isa isa` prints docs/isa.md from bytecode/insn.def, `gen_isa
 * verify` prints docs/verify.md from loader/verify.def. With `--check FILE` it compares the document with the file
 * instead (exit status 1: not current). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "bytecode/insn.h"
#include "loader/rules.h"

static const char isa_intro[] = "# Instructions\n"
                                "\n"
                                "Made from `bytecode/insn.def` by `gen_isa isa`; do not edit.\n"
                                "\n"
                                "A frame has two banks of registers: `s` holds 64-bit integers, `r` references: a "
                                "tensor (its descriptor in place), an ADT, a closure, a sequence, or none.\n"
                                "A reference is *shaped* when its extents are known, *stored* when it has memory as "
                                "well, *pending* while a kernel has reported its extent to the device only.\n"
                                "*Flow*: `next` goes on behind the instruction, `jump` never does, `branch` may, "
                                "`call` does when the callee has returned.\n"
                                "*Places*: where the instruction may stand, `o` outside of epochs, `s` in an epoch's "
                                "shape section, `r` in its run section.\n"
                                "*Shares*: whose memory `dst` shares afterwards: `reference` is another reference to "
                                "src, `memory` shares src's memory under its own extents, `device` does so\n"
                                "where both are on one device and is a copy otherwise, `operator` is as the operator's "
                                "row in [operators.md](operators.md) says of its outputs.\n"
                                "\n"
                                "Code is little-endian 32-bit words. The first word of an instruction has the opcode "
                                "in its low and the length in words in its high 16 bits; then the\n"
                                "operands: one word each, a 64-bit integer two (low first), a list its number of items "
                                "and the items. A register that is not given is 0xffffff (`_`); an item\n"
                                "with a flag is `register | flag << 24` (`none` 0, `shape` 1, `value` 2, `both` 3). "
                                "What epochs are: [epochs.md](epochs.md). What must hold of all\n"
                                "registers: [verify.md](verify.md). The text form: [module.md](module.md).\n"
                                "\n"
                                "| code | instruction | operands | effect | flow | places | shares |\n"
                                "|---|---|---|---|---|---|---|\n";

static const char verify_intro[] =
    "# What the loader checks\n"
    "\n"
    "Made from `loader/verify.def` by `gen_isa verify`; do not edit.\n"
    "\n"
    "A module is checked once, when it is opened, and completely: one that has passed cannot make the interpreter read "
    "or write outside of its own memory. What\n"
    "is left to run time is what only data can show: extents (a register remembers the call site that shaped it, and "
    "planning compares), indices, and the\n"
    "kind of a value that came out of an ADT, a sequence or a closure.\n"
    "\n"
    "Code is checked by data flow. For every register the verifier knows at every instruction what it holds: "
    "undefined, dead, none, *shaped*, *allocated*, *stored*\n"
    "(and on which device), *pending*, being fetched, an object, or something complete of a kind known only at run "
    "time; perhaps none instead. Where paths meet,\n"
    "the states meet: what is defined on one path only is undefined, a tensor or none is possibly none (`opt.has` and "
    "`opt.get` tell), stored on the host and on the\n"
    "device is of unknown kind, pending and stored is pending, and what agrees in nothing is only good to be killed. "
    "In a module of one device\n"
    "`assert.shape` makes a tensor of something of unknown kind; in one of two a call does, to a parameter whose type "
    "says the device. Inside of an epoch a register may be read when the epoch has defined it or has it in its keys, "
    "and its elements may be\n"
    "read on the host when they follow from the keys; both are part of the state. A path that hits the epoch's memo is "
    "the same as one that does not.\n"
    "\n"
    "A diagnosis begins with the number of the rule; one of code names function, word, instruction, operand and "
    "register, and the ONNX node where it is known:\n"
    "\n"
    "    V30: function 'main', word 24, invoke, operand 'inputs'[0] (r7): the register is dead\n"
    "\n"
    "| rule | what must hold |\n"
    "|---|---|\n";

/* "dst RD_ANY", and a list as "results: RD_ANY ..." */
static void put_operand(text_buffer *doc, const insn_info *info, int i) {
  text_append(doc, info->forms[i] == INSN_FORM_LIST ? "%s%s: %s ..." : "%s%s %s", i ? ", " : "", info->names[i],
              insn_roles[info->roles[i]].name);
}

static void put_isa(text_buffer *doc) {
  static const char *const flows[] = {"next", "jump", "branch", "call", "return", "fail"};
  static const char *const shares[] = {"", "reference", "memory", "device", "operator"};
  static const char *const banks[] = {"r", "s", ""};
  text_append(doc, "%s", isa_intro);
  for (int id = 0; id < INSN_COUNT; id++) {
    const insn_info *info = &insn_table[id];
    text_append(doc, "| %d | `%s` | ", id, info->mnemonic);
    for (int i = 0; i < info->n_operands; i++) put_operand(doc, info, i);
    text_append(doc, " | %s | %s | %s%s%s | %s |\n", info->effect, flows[info->flow],
                info->places & INSN_PLACES_O ? "o" : "", info->places & INSN_PLACES_S ? "s" : "",
                info->places & INSN_PLACES_R ? "r" : "", shares[info->shares]);
  }
  text_append(doc, "\n## Operands\n\n*Bank*: the registers that an operand's words name. *Absent*: `_` may stand for a "
                   "register.\n\n| role | bank | absent | flagged | what it says |\n|---|---|---|---|---|\n");
  for (int role = 0; role < INSN_ROLE_COUNT; role++) {
    const insn_role_info *info = &insn_roles[role];
    text_append(doc, "| %s | %s | %s | %s | %s |\n", info->name, banks[info->bank], info->optional ? "may be" : "",
                info->flagged ? "yes" : "", info->text);
  }
  text_append(doc, "\n%d instructions.\n", (int)INSN_COUNT);
}

static void put_verify(text_buffer *doc) {
  text_append(doc, "%s", verify_intro);
  for (int i = 0; i < VERIFY_RULE_COUNT; i++)
    text_append(doc, "| V%02d | %s |\n", verify_rules[i].number, verify_rules[i].text);
}

/* Returns 0 if the file holds exactly this text. */
static int check(const char *document, const char *path, const text_buffer *doc) {
  int different = 1;
  FILE *file = fopen(path, "rb");
  char *held = mem_alloc(doc->n + 1);
  if (file && held) different = fread(held, 1, doc->n + 1, file) != doc->n || memcmp(held, doc->data, doc->n) != 0;
  if (different) fprintf(stderr, "%s is not current: run gen_isa %s > %s\n", path, document, path);
  if (file) fclose(file);
  mem_free(held);
  return different;
}

int main(int argc, char **argv) {
  bool isa = argc > 1 && strcmp(argv[1], "isa") == 0, verify = argc > 1 && strcmp(argv[1], "verify") == 0;
  if (!isa && !verify) {
    fprintf(stderr, "usage: gen_isa isa|verify [--check FILE]\n");
    return 2;
  }
  text_buffer doc = {0};
  (isa ? put_isa : put_verify)(&doc);
  int status = 2;
  if (!doc.failed && argc == 4 && strcmp(argv[2], "--check") == 0) status = check(argv[1], argv[3], &doc);
  else if (!doc.failed && argc == 2) status = fwrite(doc.data, 1, doc.n, stdout) == doc.n ? 0 : 2;
  text_fini(&doc);
  return status;
}
