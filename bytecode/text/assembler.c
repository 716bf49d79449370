/* The assembler's symbols (assembler.h): types, constants, call sites, functions and labels, found by kind and name. */
#include "bytecode/text/assembler.h"

#include <string.h>

#include "base/hash.h"

const char *const asm_kind_names[SYMBOL_KINDS] = {"type", "constant", "call site", "function", "label"};

typedef struct wanted_name {
  const char *name;
  size_t n;
  symbol_kind kind;
} wanted_name;

static uint64_t name_hash(const char *name, size_t n, symbol_kind kind) { return hash_bytes(name, n, (uint64_t)kind); }

static bool same_symbol(const void *context, uint32_t item, const void *wanted) {
  const assembler *a = context;
  const symbol *s = &a->symbols.items[item];
  const wanted_name *w = wanted;
  return s->kind == w->kind && strlen(s->name) == w->n && memcmp(s->name, w->name, w->n) == 0;
}

symbol *asm_find(assembler *a, const char *name, size_t n, symbol_kind kind) {
  uint32_t found =
      table_find(&a->symbol_table, name_hash(name, n, kind), same_symbol, a, &(wanted_name){name, n, kind});
  return found == TABLE_NONE ? NULL : &a->symbols.items[found];
}

symbol *asm_add(assembler *a, char *name, symbol_kind kind, uint32_t number, const token *at, bool defined) {
  if (name && VEC_ROOM(&a->symbols) &&
      table_add(&a->symbol_table, name_hash(name, strlen(name), kind), (uint32_t)a->symbols.n)) {
    a->symbols.items[a->symbols.n] =
        (symbol){.name = name, .kind = kind, .number = number, .at = *at, .defined = defined};
    return &a->symbols.items[a->symbols.n++];
  }
  mem_free(name);
  lexer_no_memory(&a->lex);
  return NULL;
}

char *asm_copy_name(const token *t) {
  char *name = mem_alloc(t->n + 1);
  if (name) memcpy(name, t->begin, t->n), name[t->n] = 0;
  return name;
}

typedef struct candidates {
  const assembler *a;
  symbol_kind kind;
} candidates;

static const char *symbol_candidate(const void *context, size_t i) {
  const candidates *c = context;
  if (i >= c->a->symbols.n) return NULL;
  return c->a->symbols.items[i].kind == c->kind ? c->a->symbols.items[i].name : "";
}

const char *asm_suggest(const assembler *a, symbol_kind kind, const char *name, size_t n, char *out, size_t capacity) {
  candidates context = {a, kind};
  return lexer_suggest(name, n, symbol_candidate, &context, out, capacity);
}

uint32_t asm_use(assembler *a, symbol_kind kind) {
  token t = a->lex.now;
  if (t.kind != TOKEN_NAME) {
    FAIL(a, "the name of a %s is expected here", asm_kind_names[kind]);
    return 0;
  }
  const symbol *s = asm_find(a, t.begin, t.n, kind);
  if (!s) {
    char hint[96];
    FAIL(a, "there is no %s '%.*s'%s", asm_kind_names[kind], (int)t.n, t.begin,
         asm_suggest(a, kind, t.begin, t.n, hint, sizeof hint));
    return 0;
  }
  lexer_next(&a->lex);
  return s->number;
}

void asm_forget(assembler *a, size_t first) {
  while (a->symbols.n > first) {
    const symbol *s = &a->symbols.items[--a->symbols.n];
    table_remove(&a->symbol_table, name_hash(s->name, strlen(s->name), s->kind), (uint32_t)a->symbols.n);
    mem_free((void *)s->name);
  }
}

void asm_end_line(assembler *a) {
  if (a->lex.now.kind == TOKEN_NEWLINE) lexer_next(&a->lex);
  else if (a->lex.now.kind != TOKEN_END)
    FAIL(a, "'%.*s' is too much on this line", (int)a->lex.now.n, a->lex.now.begin);
}
