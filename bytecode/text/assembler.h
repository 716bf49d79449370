/* The state of the assembler and its symbols. The lexer keeps the first failure; after it every reading function
 * returns soon, without a result of meaning. Directives and the two passes: asm.c. Instructions: asm_code.c. Types and
 * elements: asm_data.c. */
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
  token at;             /* the word that defines the symbol; for a label without a definition, its first use */
  bool defined, shared; /* shared: several functions have this name */
} symbol;

typedef struct asm_function {
  uint32_t n_r_params, n_s_params;
} asm_function;

typedef struct assembler {
  lexer lex;
  module_builder *b;
  VEC_OF(symbol) symbols;    /* at the end: the labels of the function in progress */
  table symbol_table;        /* finds `symbols` by kind and name */
  VEC_OF(module_type) types; /* by the number of a type's symbol */
  VEC_OF(asm_function) functions;
  VEC_OF(uint32_t) inputs;
  VEC_OF(uint32_t) outputs;
  bool has_module, has_io;
  VEC_OF(uint32_t) main_params;
  VEC_OF(uint32_t) main_results;
  uint32_t n_r, n_s;     /* registers used so far by the function in progress */
  VEC_OF(uint32_t) list; /* scratch for one operand */
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
/* The symbol with the kind and name; NULL: none. */
symbol *asm_find(assembler *a, const char *name, size_t n, symbol_kind kind);
/* Adds a symbol and takes its name; a NULL name counts as lack of memory. NULL after a failure. */
symbol *asm_add(assembler *a, char *name, symbol_kind kind, uint32_t number, const token *at, bool defined);
/* A copy of the token's text; NULL: no memory. */
char *asm_copy_name(const token *t);
/* Forgets all symbols from number `first` on. */
void asm_forget(assembler *a, size_t first);
/* Reads the name of a symbol of the kind; returns the symbol's number. */
uint32_t asm_use(assembler *a, symbol_kind kind);
/* Writes "; did you mean 'x'?" with the nearest name of the kind, or "", into `out`; returns `out`. */
const char *asm_suggest(const assembler *a, symbol_kind kind, const char *name, size_t n, char *out, size_t capacity);
/* Moves over the end of the line; fails if another word stands here. */
void asm_end_line(assembler *a);

#endif
