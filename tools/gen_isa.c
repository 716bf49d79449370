/* Prints a document from a table of the program: `gen_isa isa` prints docs/isa.md from bytecode/insn.def, `gen_isa
 * verify` prints docs/verify.md from loader/verify.def. With `--check FILE` it compares the document with the file
 * instead (exit status 1: not current). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "bytecode/insn.h"
#include "loader/rules.h"

static const char isa_intro[] =
    "# Instructions\n"
    "\n"
    "Made from `bytecode/insn.def` by `gen_isa isa`; do not edit.\n"
    "\n"
    "A frame has two banks of registers. A register of bank `s` holds a 64-bit integer. A register of bank `r` holds a "
    "reference: a tensor (whose descriptor lies\n"
    "in the register), an ADT, a closure, a sequence, or none. A tensor is *shaped* when its extents are known, "
    "*stored* when it also has memory, *pending* while\n"
    "only its device knows an extent that its kernel has reported. Epochs: [epochs.md](epochs.md). The rules "
    "for registers: [verify.md](verify.md). The text\n"
    "form of code: [module.md](module.md).\n"
    "\n"
    "Code is little-endian 32-bit words. The first word of an instruction holds the opcode in its low 16 bits and the "
    "length in words in its high 16 bits. The operands\n"
    "follow. An operand is one word; a 64-bit integer is two words, the low one first; a list is its number of items "
    "and the items. An absent register is 0xffffff\n"
    "(`_`). An item with a flag is `register | flag << 24` (`none` 0, `shape` 1, `value` 2, `both` 3).\n"
    "\n"
    "The columns of the table:\n"
    "\n"
    "- *operands*: the name and the role of each operand; the roles are listed below the table.\n"
    "- *flow*: `next` continues with the next instruction, `jump` never does, `branch` may jump, `call` continues "
    "after the callee has returned, `return` and\n"
    "  `fail` leave the function.\n"
    "- *places*: where the instruction may stand: `o` outside of epochs, `s` in the shape section of an epoch, `r` in "
    "its run section.\n"
    "- *shares*: the memory that `dst` shares with `src` afterwards. `reference`: both are one tensor or object; "
    "`memory`: `dst` shares the memory of `src` and has\n"
    "  extents of its own; `device`: as `memory` if both are on one device, else `dst` is a copy; `operator`: outputs "
    "share memory of inputs according to the\n"
    "  operator's row in [operators.md](operators.md).\n"
    "\n"
    "| code | instruction | operands | effect | flow | places | shares |\n"
    "|---|---|---|---|---|---|---|\n";

static const char verify_intro[] =
    "# Rules of the verifier\n"
    "\n"
    "Made from `loader/verify.def` by `gen_isa verify`; do not edit.\n"
    "\n"
    "The loader verifies a module once, when it is opened. A module that has passed cannot make the interpreter read "
    "or write outside of its own memory. The\n"
    "interpreter checks only conditions that depend on data: extents (a register remembers the call site that shaped "
    "it, and planning compares), indices, and\n"
    "the kind of a value that comes out of an ADT, a sequence or a closure.\n"
    "\n"
    "The verifier checks code by data flow. It knows the state of every register at every instruction: undefined, "
    "dead, none, *shaped*, *allocated*, *stored*\n"
    "(on a known device), *pending*, being fetched, an object, or of unknown kind (a stored tensor or an object, known "
    "at run time only). A state may also be\n"
    "possibly none.\n"
    "\n"
    "States are joined where two paths meet:\n"
    "\n"
    "- A register that is defined on one path only is undefined.\n"
    "- A tensor and none give a tensor that is possibly none; `opt.has` and `opt.get` resolve it.\n"
    "- Stored on the host and stored on an accelerator give unknown kind. In a module of one device `assert.shape` "
    "turns unknown kind into a tensor; in a module of\n"
    "  several devices a call does, for a parameter whose type names the device.\n"
    "- Pending and stored give pending.\n"
    "- Two states with nothing in common give a register that may only be killed.\n"
    "\n"
    "Inside an epoch a register may be read if the epoch has defined it or has it as a key. Its elements may be read "
    "on the host if they follow from the keys. Both\n"
    "facts are part of the register's state. A path on which the epoch's memo is hit counts as the path on which it is "
    "missed.\n"
    "\n"
    "A diagnosis begins with the number of the broken rule. A diagnosis of code names function, word, instruction, "
    "operand and register, and the ONNX node where it\n"
    "is known:\n"
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
  text_append(doc, "\n## Roles of operands\n\n*Bank*: the bank of the registers that an operand's words name. "
                   "*Absent*: whether `_` may stand for a "
                   "register.\n\n| role | bank | absent | flagged | meaning |\n|---|---|---|---|---|\n");
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
