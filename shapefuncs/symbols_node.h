/* Inside the symbols: the nodes of the table, shared by the files symbols*.c. All other files use shapefuncs/symbols.h.
 */
#ifndef SHAPEFUNCS_SYMBOLS_NODE_H_
#define SHAPEFUNCS_SYMBOLS_NODE_H_

#include "base/table.h"
#include "base/vec.h"
#include "shapefuncs/symbols.h"

#define MAX_TERMS 128 /* a detector of 90 classes concatenates as many lists */
#define MAX_DEGREE 8  /* the number of elements of a rank-8 tensor is one product */
#define MAX_ARGS 16
#define MAX_DEPTH 48 /* of factors within factors: bounds the recursion of text and evaluation */
#define N_IDS ((int64_t)1 << 32)
#define FLOOR_NUMBER (SYMBOL_FIRST + N_IDS) /* the smallest number that is not mistaken for a symbol */
#define POISON SYMBOL_FIRST                 /* id 0: made when there was no memory; equal to nothing */

typedef enum node_kind {
  NODE_POISON,
  NODE_NAMED,
  NODE_FRESH,
  NODE_FLOORDIV,
  NODE_MIN,
  NODE_MAX,
  NODE_BROADCAST,
  NODE_EITHER,
  NODE_SUM
} node_kind;

typedef struct term {
  int64_t coefficient;
  uint32_t n_factors;
  uint32_t factors[MAX_DEGREE]; /* ids, ascending; unused ones are 0 */
} term;

typedef struct polynomial {
  int64_t constant;
  int32_t n;
  bool lost; /* overflowed or outgrew a limit */
  term terms[MAX_TERMS];
} polynomial;

typedef struct node {
  node_kind kind;
  int32_t depth;
  int64_t constant; /* NODE_SUM: of the polynomial; NODE_FRESH, NODE_EITHER, NODE_NAMED: serial number, 0 for
                       the atom that all users of its name share */
  int32_t n;        /* terms or arguments */
  term *terms;      /* NODE_SUM */
  reed_dim *args; /* NODE_FLOORDIV (numerator, divisor), NODE_MIN, NODE_MAX, NODE_BROADCAST (ascending), NODE_EITHER */
  char *name;     /* NODE_NAMED */
  int64_t low, high;
  uint64_t hash;
  uint32_t namesake; /* NODE_NAMED: the first atom of that name, or of names that count as one */
  uint32_t same_as;  /* NODE_NAMED: an older atom that this one is assumed to be equal to, 0: none */
  struct {
    reed_dim by;
    uint32_t age; /* of the assumptions when `by` was made; 0: never */
  } replaced[2];  /* with other atoms in its place: see symbols_declared.c */
} node;

typedef struct symbol_pair {
  uint32_t a, b; /* ids; a is the older */
} symbol_pair;

/* An extent that broadcasts against as many rows of `whole`. */
typedef struct symbol_part {
  reed_dim extent; /* an atom, or a broadcast of atoms */
  reed_dim whole;  /* linear */
} symbol_part;

/* A dim of an input that is another one's extent, or 1. checked: the compiled program checks it; otherwise the dims
 * stand for those of their names. */
typedef struct symbol_widening {
  reed_dim from, to;
  bool checked;
} symbol_widening;

typedef struct symbol_limit {
  reed_dim extent; /* linear */
  int64_t most;
} symbol_limit;

typedef struct declared_range {
  const char *name;
  int64_t low, high;
} declared_range;

struct reed_symbols {
  VEC_OF(node) nodes;
  VEC_OF(declared_range) ranges;
  table ids; /* of nodes, but for the poison */
  int64_t n_fresh, n_declared;
  bool namesakes;           /* some name has two atoms */
  bool uncertain;           /* demands for equality are not noted, because the operator that makes them may never run */
  VEC_OF(uint32_t) assumed; /* atoms with same_as, newest last */
  VEC_OF(symbol_pair) broadcast;   /* atoms of one name that operators broadcast against each other */
  VEC_OF(symbol_part) parts;       /* see symbols_broadcast_part */
  VEC_OF(symbol_limit) limits;     /* see symbols_limited */
  VEC_OF(symbol_widening) widened; /* see symbols_widened */
  uint32_t n_changes;              /* of assumptions */
  uint32_t n_rules;                /* names that have become one, and widenings */
  reed_status status;
};

static inline const node *node_of(const reed_symbols *symbols, reed_dim d) {
  return &symbols->nodes.items[d - SYMBOL_FIRST];
}
static inline reed_dim symbol_of(uint32_t id) { return SYMBOL_FIRST + (int64_t)id; }

/* The node equal to `wanted`, whose arrays are borrowed, and copied on first use. */
reed_dim symbols_intern(reed_symbols *symbols, node wanted);

/* True if b is the extent of the first or last `a` rows of a whole (symbols_last), and a and b broadcast to a. */
bool symbols_absorbs_part(reed_symbols *symbols, reed_dim a, reed_dim b);
/* Notes that a broadcasts against b, if b is such an extent of a whole whose rows nothing proves. */
void symbols_note_part(reed_symbols *symbols, reed_dim a, reed_dim b);
/* Limits a (symbols_limit) if a broadcasts against b, the extent of the first a rows of a table of 2 rows or more. */
void symbols_note_limit(reed_symbols *symbols, reed_dim a, reed_dim b);

/* Notes what a rule that needs a and b to be equal says of dims with different names. True: it may hold by names now.
 */
bool symbols_note_rule(reed_symbols *symbols, reed_dim a, reed_dim b);
/* The same of sums that broadcast against each other. */
void symbols_note_sums(reed_symbols *symbols, reed_dim a, reed_dim b);
/* True if b widens to a (symbols_widened). */
bool symbols_absorbs_widened(const reed_symbols *symbols, reed_dim a, reed_dim b);

/* Of numbers: towards minus infinity; b > 0. */
static inline int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

#endif
