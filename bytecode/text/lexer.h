/* Words of the assembler's text, and errors that say where. Names are slices of the text; nothing is copied. */
#ifndef BYTECODE_TEXT_LEXER_H_
#define BYTECODE_TEXT_LEXER_H_

#include "bytecode/text/text.h"

typedef enum token_kind {
  TOKEN_END,
  TOKEN_NEWLINE,   /* ends a line; not inside of brackets */
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
  const char *begin; /* in the text; a string's includes its quotes */
  size_t n;
  uint32_t line, column; /* from 1 */
  int64_t i;             /* INTEGER (an unsigned one above INT64_MAX wraps); MARK: the character */
  double f;              /* FLOAT */
} token;

typedef struct lexer {
  const char *at;
  const char *line_begin;
  uint32_t line;
  int depth; /* of brackets */
  token now; /* the word being looked at */
  reed_diagnosis *diagnosis;
  reed_status status; /* the first failure; the word is then TOKEN_END for good */
} lexer;

void lexer_begin(lexer *l, const char *text, reed_diagnosis *diagnosis);
/* Moves on to the next word. */
void lexer_next(lexer *l);
/* Fails at a word: "line 3, column 7: <text>". The first failure stays. */
void lexer_fail(lexer *l, const token *at, const char *format, ...) REED_PRINTF(3, 4);
void lexer_no_memory(lexer *l);

static inline bool lexer_at(const lexer *l, char mark) { return l->now.kind == TOKEN_MARK && l->now.i == mark; }
/* Moves over the mark where it stands; false: something else stands there. */
bool lexer_take(lexer *l, char mark);
/* As lexer_take, failing when it does not stand there. */
void lexer_expect(lexer *l, char mark);
/* True where the word is that name. */
bool lexer_is_name(const lexer *l, const char *name);
/* The integer in [low, high] that must stand here. */
int64_t lexer_integer(lexer *l, const char *what, int64_t low, int64_t high);
/* The string that must stand here, unescaped, as UTF-8, in memory that the caller mem_free's; NULL after a failure. */
char *lexer_string(lexer *l, const char *what);
/* A name or a string, the same way. */
char *lexer_name_or_string(lexer *l, const char *what);

/* "; did you mean 'x'?" when one of the candidates is close to the word, else "". candidate(context, i) is NULL past
 * the end. */
const char *lexer_suggest(const char *word, size_t n, const char *(*candidate)(const void *context, size_t i),
                          const void *context, char *out, size_t capacity);

/* True for [A-Za-z_][A-Za-z0-9_.]* that is no word the assembler reads otherwise: may stand without quotes. */
bool lexer_is_plain_name(const char *text);

#endif
