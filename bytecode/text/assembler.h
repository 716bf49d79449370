/* The state of an assembly and its names. Types and elements are read in asm_data.c, instructions in asm_code.c,
 * directives and the two passes in asm.c. A failure is kept in the lexer, after which every parsing function does
 * nothing useful and soon returns. */
#ifndef BYTECODE_TEXT_ASSEMBLER_H_
#define BYTECODE_TEXT_ASSEMBLER_H_

#include "base/table.h"
#include "base/vec.h"
#include "bytecode/text/lexer.h"

typedef enum symbol_kind {
  SYMBOL_TYPE,
  SYMBOL_CONST,
  SYMBOL_SITE,
  SYMBOL_FUNCTION,
  SYMBOL_LABEL,
  SYMBOL_KINDS
} symbol_kind;

typedef struct symbol {
  const char *name; /* owned */
  symbol_kind kind;
  uint32_t number;
  token at;             /* where it is defined, or for a label used first */
  bool defined, shared; /* shared: several functions have this name */
} symbol;

typedef struct asm_function {
  uint32_t n_r_params, n_s_params;
} asm_function;

typedef struct assembler {
  lexer lex;
  module_builder *b;
  VEC_OF(symbol) symbols;    /* labels of the function at hand are at the end */
  table symbol_table;        /* of symbols */
  VEC_OF(module_type) types; /* what the symbols of types stand for */
  VEC_OF(asm_function) functions;
  VEC_OF(uint32_t) inputs;
  VEC_OF(uint32_t) outputs;
  bool has_module, has_io;
  VEC_OF(uint32_t) main_params;
  VEC_OF(uint32_t) main_results;
  uint32_t n_r, n_s;     /* registers used by the function at hand */
  VEC_OF(uint32_t) list; /* scratch of one operand */
} assembler;

#define FAIL(a, ...) lexer_fail(&(a)->lex, &(a)->lex.now, __VA_ARGS__)
static inline bool failed(const assembler *a) { return a->lex.status != REED_OK; }

/* Appends to one of the assembler's lists. */
#define PUSH(a, list, item) \
  do { \
    if (!VEC_PUSH(list, item)) lexer_no_memory(&(a)->lex); \
  } while (0)

/* "type", "constant", ... */
extern const char *const asm_kind_names[SYMBOL_KINDS];
/* The symbol of that kind and name, or NULL. */
symbol *asm_find(assembler *a, const char *name, size_t n, symbol_kind kind);
/* Adds one; takes the name, where NULL says that there was no memory for it. NULL after a failure. */
symbol *asm_add(assembler *a, char *name, symbol_kind kind, uint32_t number, const token *at, bool defined);
/* The token's text in memory of its own, or NULL. */
char *asm_copy_name(const token *t);
/* Forgets all symbols from number `first` on. */
void asm_forget(assembler *a, size_t first);
/* The number of the thing of that kind whose name stands here. */
uint32_t asm_use(assembler *a, symbol_kind kind);
/* "; did you mean 'x'?" with the nearest name of that kind, or "". */
const char *asm_suggest(const assembler *a, symbol_kind kind, const char *name, size_t n, char *out, size_t capacity);
/* The end of a line, or of the text, must be here. */
void asm_end_line(assembler *a);

#endif
