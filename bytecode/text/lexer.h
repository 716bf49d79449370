/* The words of the assembler's text, and errors that name line and column. Names are slices of the text, not copies.
 * The grammar: asm.c. */
#ifndef BYTECODE_TEXT_LEXER_H_
#define BYTECODE_TEXT_LEXER_H_

#include "bytecode/text/text.h"

typedef enum token_kind {
  TOKEN_END,
  TOKEN_NEWLINE,   /* the end of a line outside of brackets */
  TOKEN_NAME,      /* r1, invoke, branch.if */
  TOKEN_DIRECTIVE, /* .function */
  TOKEN_INTEGER,
  TOKEN_FLOAT,
  TOKEN_STRING,
  TOKEN_ARROW, /* -> */
  TOKEN_MARK   /* one of = , [ ] ( ) { } | : @ # ? * */
} token_kind;

typedef struct token {
  token_kind kind;
  const char *begin; /* in the text; a string's slice includes its quotes */
  size_t n;
  uint32_t line, column; /* from 1 */
  int64_t i;             /* INTEGER: the value, wrapped if above INT64_MAX; MARK: the character */
  double f;              /* FLOAT */
} token;

typedef struct lexer {
  const char *at;
  const char *line_begin;
  uint32_t line;
  int depth; /* number of open brackets */
  token now; /* the present word */
  reed_diagnosis *diagnosis;
  reed_status status; /* the first failure; after it the present word stays TOKEN_END */
} lexer;

void lexer_begin(lexer *l, const char *text, reed_diagnosis *diagnosis);
/* Moves to the next word. */
void lexer_next(lexer *l);
/* Fails at a word: "line 3, column 7: <text>". The first failure stays. */
void lexer_fail(lexer *l, const token *at, const char *format, ...) REED_PRINTF(3, 4);
void lexer_no_memory(lexer *l);

static inline bool lexer_at(const lexer *l, char mark) { return l->now.kind == TOKEN_MARK && l->now.i == mark; }
/* Moves over the mark if it is the present word; else returns false. */
bool lexer_take(lexer *l, char mark);
/* Moves over the mark; fails if the present word is another. */
void lexer_expect(lexer *l, char mark);
/* True if the present word is the name. */
bool lexer_is_name(const lexer *l, const char *name);
/* Reads an integer in [low, high]; fails at another word. */
int64_t lexer_integer(lexer *l, const char *what, int64_t low, int64_t high);
/* Reads a string. Returns it unescaped, as UTF-8, in memory that the caller frees with mem_free; NULL after a failure.
 */
char *lexer_string(lexer *l, const char *what);
/* As lexer_string, but also reads a name. */
char *lexer_name_or_string(lexer *l, const char *what);

/* Writes "; did you mean 'x'?" with the candidate closest to the word, or "" if none is close, into `out`; returns
 * `out`. candidate(context, i) is NULL past the last candidate. */
const char *lexer_suggest(const char *word, size_t n, const char *(*candidate)(const void *context, size_t i),
                          const void *context, char *out, size_t capacity);

/* True if the text may stand without quotes: it has the form [A-Za-z_][A-Za-z0-9_.]* and is no keyword of the
 * assembler.
 */
bool lexer_is_plain_name(const char *text);

#endif
