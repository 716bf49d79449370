/* Symbols: extents at compile time. symbols.c computes with them, symbols_declared.c compares them by their declared
 * names, symbols_part.c has extents of parts of rows, symbols_widened.c dims of different names that must be equal,
 * symbols_text.c evaluates and writes them. */
#ifndef SHAPEFUNCS_SYMBOLS_H_
#define SHAPEFUNCS_SYMBOLS_H_

#include "reed/operator.h"

/* A table of expressions over atoms (a model's declared dims, and fresh unknowns) in a normal form, so that equal ids
 * mean provably equal values: integer linear combinations of atoms and of floordiv/min/max/product terms. A symbol is a
 * reed_dim in [SYMBOL_FIRST, SYMBOL_FIRST + 2^32): 2^32 numbers near INT64_MIN that no extent or index can be (models'
 * values there are clamped on import, e.g. Slice's INT64_MIN). */
#define SYMBOL_FIRST (INT64_MIN + 1)
typedef struct reed_symbols reed_symbols;

reed_status symbols_open(reed_symbols **out_symbols) REED_MUST_CHECK;
void symbols_close(reed_symbols **symbols);
static inline bool symbol_is(reed_dim d) { return d >= SYMBOL_FIRST && d < SYMBOL_FIRST + ((int64_t)1 << 32); }
/* The atom with this name (made on first use, known to be >= 0); a fresh unknown extent (>= 0); a fresh unknown value
 * (any sign). Out of memory gives a poison symbol, which symbols_status reports. */
reed_dim symbols_named(reed_symbols *symbols, const char *name);
reed_dim symbols_fresh_extent(reed_symbols *symbols);
reed_dim symbols_fresh_value(reed_symbols *symbols);
reed_status symbols_status(const reed_symbols *symbols);
/* Arithmetic on numbers and symbols alike. A result without a normal form, or an overflow of known numbers, gives a
 * fresh value. */
reed_dim symbols_add(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_sub(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_mul(reed_symbols *symbols, reed_dim a, reed_dim b);
/* The product of n extents; 1 of none. */
reed_dim symbols_product(reed_symbols *symbols, const reed_dim *dims, int32_t n);
reed_dim symbols_floordiv(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_min(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_max(reed_symbols *symbols, reed_dim a, reed_dim b);
/* The extent that two dims broadcast to: the one that is not 1. */
reed_dim symbols_broadcast(reed_symbols *symbols, reed_dim a, reed_dim b);

/* The extent of rows -n to the end of `whole` rows, as Slice takes them (all rows for n = 0); n >= 0. */
reed_dim symbols_last(reed_symbols *symbols, reed_dim whole, reed_dim n);

/* Declared names. Every dim that a model names is an atom of its own, even if another dim has the same name: the model
 * states that the two are equal, but nobody has checked it. */
reed_dim symbols_declared(reed_symbols *symbols, const char *name);
/* The extents of all dims of the name are in low..high (INT64_MAX: no upper bound): atoms that symbols_declared makes
 * from now on have this range, and a range of one number gives the number instead of an atom. `name` is borrowed. */
void symbols_declare_range(reed_symbols *symbols, const char *name, int64_t low, int64_t high);
/* An extent that is a or b. If a and b are equal by their declared names, the extent is equal to them by these names
 * too. */
reed_dim symbols_either(reed_symbols *symbols, reed_dim a, reed_dim b);
/* True if a and b are proven equal, or assumed to be. */
bool symbols_equal(reed_symbols *symbols, reed_dim a, reed_dim b);
/* True if a and b are equal provided that the declared names are true: for choices that change no result. */
bool symbols_equal_if_declared(reed_symbols *symbols, reed_dim a, reed_dim b);
/* As symbols_equal_if_declared, and the equality is assumed from now on: the program has to check it
 * (symbols_is_assumed). For results that rely on the equality. */
bool symbols_assume_equal(reed_symbols *symbols, reed_dim a, reed_dim b);
/* States that a shape rule needs a and b to be equal: the equality is assumed if the names state it, unless the
 * operator may never run. Names of two dims that must be equal count as one from then on, and a dim that must not
 * decide what it broadcasts to with another one widens to it (symbols_widened). */
void symbols_demand_equal(reed_symbols *symbols, reed_dim a, reed_dim b);
void symbols_set_certain(reed_symbols *symbols, bool certain);
/* As symbols_demand_equal for dims that broadcast, of which one may be 1 instead. No equality is assumed; the pairs of
 * dims are noted, so that a program can report early and by name which dims do not fit. An extent that broadcasts
 * against as many of the first rows of a table is limited by the table's rows (symbols_limit), if these are 2 or more.
 * *out_a is the older of pair i; false: there is no pair i. */
void symbols_demand_broadcast(reed_symbols *symbols, reed_dim a, reed_dim b);
bool symbols_broadcast_pair(const reed_symbols *symbols, size_t i, reed_dim *out_a, reed_dim *out_b);
/* Argument i of a dim that several dims broadcast to; for i 0 of another symbol the symbol itself. False: there is no
 * argument i. */
bool symbols_broadcast_argument(const reed_symbols *symbols, reed_dim d, int32_t i, reed_dim *out);
/* An extent, an atom or a dim that atoms broadcast to, that broadcasts against that number of rows of `whole`, which is
 * linear: the result is `extent` from then on, and the program has to refuse a `whole` below 1 where `extent` is 1.
 * False: there is no part i. */
bool symbols_broadcast_part(const reed_symbols *symbols, size_t i, reed_dim *out_extent, reed_dim *out_whole);
/* The whole of which b is the extent of the first or last `a` rows; false: b is no such extent. */
bool symbols_whole_of_part(reed_symbols *symbols, reed_dim a, reed_dim b, reed_dim *out_whole);
/* States that a result relies on `extent` being at most `most`, which the program has to check (symbols_limited).
 * False: the extent is above the limit, or it is not linear in atoms; nothing is stated. */
bool symbols_limit(reed_symbols *symbols, reed_dim extent, int64_t most) REED_MUST_CHECK;
/* The stated limit of `extent`; 0: there is none. */
int64_t symbols_limit_of(const reed_symbols *symbols, reed_dim extent);
/* Limit i; false: there is no limit i. */
bool symbols_limited(const reed_symbols *symbols, size_t i, reed_dim *out_extent, int64_t *out_most);
/* Term i of a linear `d`: a coefficient times 1, an atom, or a dim that atoms broadcast to. False: there is no term i.
 */
bool symbols_linear_term(const reed_symbols *symbols, reed_dim d, int32_t i, int64_t *out_coefficient,
                         reed_dim *out_atom);
/* A dim of an input that is `to` or 1, because a rule needs what both broadcast to to be `to`: the result of
 * broadcasting them is `to`, and the program has to check it. False: there is no widening i. */
bool symbols_widened(const reed_symbols *symbols, size_t i, reed_dim *out_from, reed_dim *out_to);
/* A number that changes when a rule has stated something of dims with different names. */
uint32_t symbols_rules(const reed_symbols *symbols);
/* The number of assumptions so far; and taking back those after the first n, on which nothing may rely. */
size_t symbols_assumptions(const reed_symbols *symbols);
void symbols_take_back(reed_symbols *symbols, size_t n_assumptions);
/* True if a result relies on the atom's being equal to others; *out_first is the first of them, or the atom. */
bool symbols_is_assumed(const reed_symbols *symbols, reed_dim atom, reed_dim *out_first);
/* `a` with one atom for each name: for people. */
reed_dim symbols_as_declared(reed_symbols *symbols, reed_dim a);
/* The value of `a` if atom names[i] is values[i]; false if `a` has other atoms or unknowns, or overflows. */
bool symbols_evaluate(const reed_symbols *symbols, reed_dim a, int32_t n, const char *const *names,
                      const int64_t *values, int64_t *out_value);
/* True if `a` has an unknown, such as a count of results: values of the named atoms do not give it. */
bool symbols_has_unknown(const reed_symbols *symbols, reed_dim a);
/* Provable bounds of `a`; *out_low / *out_high are INT64_MIN / INT64_MAX for no bound. */
void symbols_range(const reed_symbols *symbols, reed_dim a, int64_t *out_low, int64_t *out_high);
/* The text of `a`, such as "height", "floor((height + 31)/32)*32", "?7", with one atom for each name; returns out. */
char *symbols_text(reed_symbols *symbols, reed_dim a, char *out, size_t capacity);

#endif
