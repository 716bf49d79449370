/* Emission of whole instructions, operands by name: for every instruction of insn.def one function, expanded from the
 * table, over the builder's emit_begin .. emit_end (bytecode/module.h). A label operand is a number returned by
 * emit_new_label.
 *
 *      insn_emit_view(b, node, (insn_view){.dst = to, .src = from}); */
#ifndef BYTECODE_EMIT_H_
#define BYTECODE_EMIT_H_

#include "bytecode/module.h"
#include "bytecode/operands.h"

#define ONE(name, role) emit_u32(b, i.name);
#define LONG(name, role) emit_i64(b, i.name);
#define LIST(name, role) emit_list(b, i.name, i.n_##name);
#define INSN(id, op, text, flow, places, shares, effect, ...) \
  static inline void insn_emit_##op(module_builder *b, const char *node, insn_##op i) { \
    (void)i; \
    emit_begin(b, INSN_##id, node); \
    __VA_ARGS__ \
    emit_end(b); \
  }
#include "bytecode/insn.def"
#undef ONE
#undef LONG
#undef LIST

#endif
