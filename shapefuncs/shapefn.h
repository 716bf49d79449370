/* Running shape functions, and the symbols that extents may be at compile time.
 *
 * A shape function is pure: dims (and declared values) in, dims out. The functions themselves are one file per operator
 * family, named shapefn_<x> as in the second column of ops/op.def; shapefuncs/table.c is the table of them by operator,
 * shapefuncs/shapefn.c holds the runner and the checked arithmetic.
 *
 * At compile time not everything is known. An input may have rank -1 (unknown), a `value` input may have neither data
 * nor values, and an output may come back with rank -1 where its rank depends on numbers not known yet (Squeeze without
 * axes, Reshape to a shape of unknown length). With symbols NULL none of this happens. */
#ifndef SHAPEFUNCS_SHAPEFN_H_
#define SHAPEFUNCS_SHAPEFN_H_

#include "base/desc.h"
#include "base/diag.h"
#include "reed/operator.h"

/* The operator's shape function: by a table of its own for built-in ones, the row's for custom ones; NULL for control
 * flow. */
reed_shape_fn shapefn_of(const reed_op *op);

/* Runs op's shape function: presets the outputs' dtypes from the table, calls it, checks what it said (rank, no
 * negative extents, sizes that fit int64). Attributes are complete (op_attrs_complete). On failure the diagnosis names
 * node, operator, input and shapes; outputs are then unspecified. symbols NULL: numbers only, and the inputs' dtypes
 * are checked against the table first (a compiler does that with shapefn_check_call). */
reed_status shapefn_run(const reed_op *op, const reed_attrs *attrs, const char *node, int32_t n_inputs,
                        const reed_shape_input *inputs, int32_t n_outputs, reed_shape_output *outputs,
                        struct reed_symbols *symbols, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* Checks number, dtypes and presence of a call's inputs and outputs and its attributes against the operator's table row
 * (no shapes). */
reed_status shapefn_check_call(const reed_op *op, const reed_attrs *attrs, const char *node, int32_t n_inputs,
                               const reed_dtype *inputs, int32_t n_outputs, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* ---- symbols: compile time only ---- */

/* A table of expressions over atoms (a model's declared dims, and fresh unknowns) in a normal form, so that equal ids
 * mean provably equal values: integer linear combinations of atoms and of floordiv/min/max/product terms. A symbol is a
 * reed_dim in [SYMBOL_FIRST, SYMBOL_FIRST + 2^32): 2^32 numbers near INT64_MIN that no extent or index can be (models'
 * values there are clamped on import, e.g. Slice's INT64_MIN). */
#define SYMBOL_FIRST (INT64_MIN + 1)
typedef struct reed_symbols reed_symbols;

reed_status symbols_open(reed_symbols **out_symbols) REED_MUST_CHECK;
void symbols_close(reed_symbols **symbols);
static inline bool symbol_is(reed_dim d) { return d >= SYMBOL_FIRST && d < SYMBOL_FIRST + ((int64_t)1 << 32); }
/* The atom of that name (made on first use, known to be >= 0), or a fresh unknown extent (>= 0) or value (any sign).
 * Out of memory gives a poison symbol and is reported by symbols_status. */
reed_dim symbols_named(reed_symbols *symbols, const char *name);
reed_dim symbols_fresh_extent(reed_symbols *symbols);
reed_dim symbols_fresh_value(reed_symbols *symbols);
reed_status symbols_status(const reed_symbols *symbols);
/* Arithmetic on numbers and symbols alike; what has no normal form gives a fresh value. Overflow of known numbers:
 * fresh value. */
reed_dim symbols_add(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_sub(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_mul(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_floordiv(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_min(reed_symbols *symbols, reed_dim a, reed_dim b);
reed_dim symbols_max(reed_symbols *symbols, reed_dim a, reed_dim b);
/* The extent that two dims which broadcast have together: the one that is not 1. */
reed_dim symbols_broadcast(reed_symbols *symbols, reed_dim a, reed_dim b);

/* Declared names. A dim to which a model gives a name is an atom of its own, also where another dim has that name: the
 * model says that the two are equal, nobody has checked it. */
reed_dim symbols_declared(reed_symbols *symbols, const char *name);
/* An extent that is a or b; where these are one by their declared names, it is that one by them too. */
reed_dim symbols_either(reed_symbols *symbols, reed_dim a, reed_dim b);
/* Proven equal, or assumed to be. */
bool symbols_equal(reed_symbols *symbols, reed_dim a, reed_dim b);
/* Equal if the declared names are true: for choices that change no result. */
bool symbols_equal_if_declared(reed_symbols *symbols, reed_dim a, reed_dim b);
/* The same, and from now on assumed: the program has to check it (symbols_is_assumed). For whoever relies on it. */
bool symbols_assume_equal(reed_symbols *symbols, reed_dim a, reed_dim b);
/* A shape rule cannot do without their being equal: assumed where the names say so, unless the operator may never run.
 */
void symbols_demand_equal(reed_symbols *symbols, reed_dim a, reed_dim b);
void symbols_set_certain(reed_symbols *symbols, bool certain);
/* The same of dims that broadcast: one of them may be 1 instead. Nothing is assumed, the pairs of dims are noted, so
 * that a program can say early and by name what does not fit. *out_a is the older of pair i; false: there is no pair i.
 */
void symbols_demand_broadcast(reed_symbols *symbols, reed_dim a, reed_dim b);
bool symbols_broadcast_pair(const reed_symbols *symbols, size_t i, reed_dim *out_a, reed_dim *out_b);
/* Assumptions so far; taking back those made since there were n, which nothing may have relied on. */
size_t symbols_assumptions(const reed_symbols *symbols);
void symbols_take_back(reed_symbols *symbols, size_t n_assumptions);
/* Whether something relies on the atom's being equal to others; *out_first is the first of them, or the atom. */
bool symbols_is_assumed(const reed_symbols *symbols, reed_dim atom, reed_dim *out_first);
/* `a` as it would be with one atom for each name: for people. */
reed_dim symbols_as_declared(reed_symbols *symbols, reed_dim a);
/* What `a` comes to when the atom names[i] is values[i]; false where it has other atoms or unknowns, or overflows. */
bool symbols_evaluate(const reed_symbols *symbols, reed_dim a, int32_t n, const char *const *names,
                      const int64_t *values, int64_t *out_value);
/* Provable bounds; *out_low / *out_high are INT64_MIN / INT64_MAX where there is none. */
void symbols_range(const reed_symbols *symbols, reed_dim a, int64_t *out_low, int64_t *out_high);
/* "height", "floor((height + 31)/32)*32", "?7" into out, dims of one name being one; returns out. */
char *symbols_text(reed_symbols *symbols, reed_dim a, char *out, size_t capacity);

#endif
