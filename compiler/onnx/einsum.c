/* Einsum -> Transpose, ReduceSum, MatMul and Mul (ONNX opset 12 and later). Two operands at a time are contracted, from
 * left to right: axes that nothing else names are summed first; what both have and something later needs is a batch,
 * what only these two have is the depth of a product, and an operand's other axes are its rows or columns. Several
 * rows, columns or depths are seen as one axis. Without a depth the operands are multiplied element by element. The
 * axes for which "..." stands in front of all letters are seen as one where their number is not known. */
#include <string.h>

#include "compiler/onnx/reader.h"

#define N_LETTERS 52
#define N_LABELS (N_LETTERS + REED_MAX_RANK) /* the axes of "..." come after the letters, the last of them last */

/* A list of labels: of a tensor's axes, at most REED_MAX_RANK, or of several tensors'. */
typedef struct axes {
  int32_t n;
  int8_t labels[N_LABELS];
} axes;

typedef struct term {
  ir_value *value;
  int32_t rank;   /* -1: not known */
  int32_t dots;   /* the letters before "..."; -1: it has none */
  int32_t n_dots; /* the axes for which "..." stands */
  axes axes;
} term;

typedef struct einsum {
  onnx_reader *r;
  ir_graph *g;
  const char *node_name, *equation;
  term *terms; /* the operands; the first one is what has been contracted so far */
  int32_t n_terms;
  axes output;
  ir_value *front;  /* the extents for which "..." stands, seen as one axis as their number is not known; NULL: it is */
  bool unsupported; /* which has been noted */
} einsum;

/* ---- sets of labels ---- */

static int32_t place_of(const axes *a, int label) {
  for (int32_t i = 0; i < a->n; i++)
    if (a->labels[i] == label) return i;
  return -1;
}

static bool has(const axes *a, int label) { return place_of(a, label) >= 0; }
static void add(axes *a, int label) { a->labels[a->n++] = (int8_t)label; }

/* a, then what b has besides. */
static axes joined(const axes *a, const axes *b) {
  axes both = *a;
  for (int32_t i = 0; i < b->n; i++)
    if (!has(a, b->labels[i])) add(&both, b->labels[i]);
  return both;
}

static bool is_equal(const axes *a, const axes *b) {
  return a->n == b->n && memcmp(a->labels, b->labels, (size_t)a->n) == 0;
}

/* ---- the equation ---- */

static reed_status malformed(const einsum *e, const char *what) {
  return diag_fail(e->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (Einsum): equation '%s': %s", e->node_name,
                   e->equation, what);
}

/* Checks what is known of operand k's rank and counts the axes for which its dots stand. */
static reed_status check_rank(const einsum *e, int32_t k) {
  const ir_value *v = e->terms[k].value;
  const int32_t rank = e->terms[k].rank, n_letters = e->terms[k].axes.n;
  const bool has_dots = e->terms[k].dots >= 0;
  if (rank >= 0 && (has_dots ? rank < n_letters : rank != n_letters))
    return diag_fail(e->r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (Einsum): equation '%s' names %d axes%s of operand %d '%s', which has rank %d",
                     e->node_name, e->equation, n_letters, has_dots ? " or more" : "", k, v->name, rank);
  e->terms[k].n_dots = has_dots && rank >= 0 ? rank - n_letters : 0;
  return REED_OK;
}

/* Reads the letters and dots up to a comma, an arrow or the end. *out_dots: where in `out` the dots stand; -1: none. */
static reed_status read_letters(const einsum *e, const char **at, axes *out, int32_t *out_dots) {
  *out = (axes){0};
  *out_dots = -1;
  for (; **at && **at != ',' && **at != '-'; ++*at) {
    const char c = **at;
    if (c == ' ') continue;
    if (c == '.') {
      if (strncmp(*at, "...", 3) != 0) return malformed(e, "'.' is no part of '...'");
      if (*out_dots >= 0) return malformed(e, "'...' stands twice in a term");
      *out_dots = out->n;
      *at += 2;
      continue;
    }
    const bool is_small = c >= 'a' && c <= 'z', is_large = c >= 'A' && c <= 'Z';
    if (!is_small && !is_large) return malformed(e, "neither a letter nor '...', ',' or '->'");
    if (out->n == REED_MAX_RANK) return malformed(e, "a term has more letters than a tensor can have axes");
    add(out, is_large ? c - 'A' : 26 + c - 'a');
  }
  return REED_OK;
}

/* Puts `n_dots` labels of the dots' axes into the list, at their place. */
static reed_status place_dots(const einsum *e, axes *a, int32_t place, int32_t n_dots) {
  if (a->n + n_dots > REED_MAX_RANK) return malformed(e, "a term has more axes than a tensor can have");
  axes with = {0};
  for (int32_t i = 0; i <= a->n; i++) {
    for (int32_t k = 0; i == place && k < n_dots; k++) add(&with, N_LABELS - n_dots + k);
    if (i < a->n) add(&with, a->labels[i]);
  }
  *a = with;
  return REED_OK;
}

/* The output without an arrow: the dots' axes, then the letters that stand once, in the alphabet's order, large ones
 * first. */
static reed_status find_output(einsum *e, int32_t most_dots) {
  for (int label = 0; label < N_LETTERS; label++) {
    int32_t n = 0;
    for (int32_t k = 0; k < e->n_terms; k++)
      for (int32_t i = 0; i < e->terms[k].axes.n; i++) n += e->terms[k].axes.labels[i] == label;
    if (n == 1 && e->output.n == REED_MAX_RANK) return malformed(e, "the output has more axes than a tensor can have");
    if (n == 1) add(&e->output, label);
  }
  return place_dots(e, &e->output, 0, most_dots);
}

static reed_status refuse_dots(einsum *e) {
  e->unsupported = true;
  return onnx_unsupported(
      e->r, e->node_name,
      "Einsum with '...' behind letters or not in the output, of an operand whose rank is not declared");
}

static reed_status read_output(einsum *e, const char *at, int32_t most_dots) {
  int32_t place;
  reed_status status = read_letters(e, &at, &e->output, &place);
  if (status != REED_OK) return status;
  if (*at) return malformed(e, "something follows the output");
  for (int32_t i = 0; i < e->output.n; i++) {
    bool found = false;
    for (int32_t k = 0; k < e->n_terms && !found; k++) found = has(&e->terms[k].axes, e->output.labels[i]);
    if (!found) return malformed(e, "the output has a letter that no operand has");
    if (place_of(&e->output, e->output.labels[i]) < i) return malformed(e, "the output has a letter twice");
  }
  if (e->front && most_dots && place != 0) return refuse_dots(e);
  if (place < 0 && most_dots) return malformed(e, "the output lacks '...'");
  return place < 0 ? REED_OK : place_dots(e, &e->output, place, most_dots);
}

/* Sees the axes for which "..." stands, of unknown number, as one in every operand, at its front. Each operand has the
 * extents of all, because "..." broadcasts. */
static void flatten_dots(einsum *e) {
  ir_graph *g = e->g;
  ir_value *none = onnx_vector(g->module, 0, 0);
  for (int32_t pass = 0; pass < 2; pass++)
    for (int32_t k = 0; k < e->n_terms; k++) {
      term *t = &e->terms[k];
      if (t->dots < 0 || !t->value) continue;
      ir_value *shape = onnx_unary(g, OP_Shape, t->value);
      const int64_t n = t->axes.n;
      ir_value *own = onnx_part(g, shape, 0, n ? -n : INT64_MAX), *rest = n ? onnx_part(g, shape, -n, INT64_MAX) : none;
      if (pass == 0) {
        e->front = !e->front ? own
                             : onnx_unary(g, OP_Shape,
                                          onnx_binary(g, OP_Expand, onnx_unary(g, OP_ConstantOfShape, e->front), own));
      } else {
        ir_value *whole = onnx_joined(g, (ir_value *[]){e->front, rest}, 2, 0);
        ir_value *wide = onnx_binary(g, OP_Expand, t->value, whole);
        t->value = onnx_reshaped(g, wide, onnx_product(g, e->front), rest, none, NULL);
        t->n_dots = 1;
      }
    }
}

static reed_status read_equation(einsum *e) {
  const char *at = e->equation;
  int32_t most_dots = 0;
  bool is_known = true, is_front = true;
  for (int32_t k = 0;; k++) {
    if (k >= e->n_terms) return malformed(e, "more terms than operands");
    term *t = &e->terms[k];
    reed_status status = read_letters(e, &at, &t->axes, &t->dots);
    if (status == REED_OK) status = check_rank(e, k);
    if (status != REED_OK) return status;
    is_known = is_known && (t->dots < 0 || t->rank >= 0);
    is_front = is_front && t->dots <= 0;
    if (*at != ',') {
      if (k + 1 < e->n_terms) return malformed(e, "fewer terms than operands");
      break;
    }
    at++;
  }
  if (!is_known && !is_front) return refuse_dots(e);
  if (!is_known) flatten_dots(e);
  for (int32_t k = 0; k < e->n_terms; k++) {
    term *t = &e->terms[k];
    reed_status status = t->dots >= 0 ? place_dots(e, &t->axes, t->dots, t->n_dots) : REED_OK;
    if (status != REED_OK) return status;
    if (t->n_dots > most_dots) most_dots = t->n_dots;
  }
  if (!*at) return find_output(e, most_dots);
  if (strncmp(at, "->", 2) != 0) return malformed(e, "'-' is no part of '->'");
  return read_output(e, at + 2, most_dots);
}

/* ---- nodes; each returns NULL without memory ---- */

static ir_value *extents(const einsum *e, ir_value *x) { return onnx_unary(e->g, OP_Shape, x); }

static void transpose(const einsum *e, term *t, const axes *to) {
  int64_t perm[REED_MAX_RANK];
  if (is_equal(&t->axes, to)) return;
  for (int32_t i = 0; i < to->n; i++) perm[i] = place_of(&t->axes, to->labels[i]);
  t->axes = *to;
  t->value = onnx_transposed(e->g, t->value, perm, to->n, NULL);
}

/* Sums the axes of t that are not in `kept`. */
static void sum_others(const einsum *e, term *t, const axes *kept) {
  int64_t summed[REED_MAX_RANK];
  int32_t n = 0;
  axes left = {0};
  for (int32_t i = 0; i < t->axes.n; i++) {
    if (has(kept, t->axes.labels[i])) add(&left, t->axes.labels[i]);
    else summed[n++] = i;
  }
  t->axes = left;
  if (n == 0 || !t->value) return;
  ir_value *operands[] = {t->value, ir_constant_i64(e->g->module, summed, n, NULL)};
  t->value = onnx_made(e->g, NULL, OP_ReduceSum, operands, 2, "keepdims", 0, NULL);
}

/* Takes the diagonal of axes with one label, until each label stands once: both axes, put last, are seen as one, of
 * which every (extent + 1)-th element is taken. */
static void take_diagonals(const einsum *e, term *t) {
  ir_module *m = e->g->module;
  for (int32_t first = 0; first < t->axes.n; first++) {
    int32_t second = first + 1;
    while (second < t->axes.n && t->axes.labels[second] != t->axes.labels[first]) second++;
    if (second == t->axes.n || !t->value) continue;
    int64_t perm[REED_MAX_RANK];
    axes left = {0};
    for (int32_t i = 0; i < t->axes.n; i++)
      if (i != first && i != second) {
        perm[left.n] = i;
        add(&left, t->axes.labels[i]);
      }
    const int32_t n = left.n;
    perm[n] = first;
    perm[n + 1] = second;
    add(&left, t->axes.labels[first]);
    ir_value *turned = onnx_transposed(e->g, t->value, perm, n + 2, NULL);
    ir_value *shape = extents(e, turned), *pair = onnx_part(e->g, shape, n, n + 2);
    ir_value *flat =
        onnx_reshaped(e->g, turned, onnx_part(e->g, shape, 0, n), onnx_product(e->g, pair), onnx_vector(m, 0, 0), NULL);
    ir_value *step = onnx_binary(e->g, OP_Add, onnx_part(e->g, shape, n, n + 1), onnx_vector(m, 1, 1));
    ir_value *operands[] = {flat, onnx_vector(m, 0, 1), onnx_vector(m, INT64_MAX, 1), onnx_vector(m, n, 1), step};
    t->value = onnx_made(e->g, NULL, OP_Slice, operands, 5, NULL, 0, NULL);
    t->axes = left;
    first = -1; /* from the start: axes have moved */
  }
}

/* The axes of x, which are `batch` ones and two groups, with each group as one axis. */
static ir_value *grouped(const einsum *e, ir_value *x, int32_t batch, int32_t n_first, int32_t n_second) {
  if (n_first == 1 && n_second == 1) return x;
  ir_value *shape = extents(e, x);
  const int32_t middle = batch + n_first;
  return onnx_reshaped(e->g, x, onnx_part(e->g, shape, 0, batch),
                       onnx_product(e->g, onnx_part(e->g, shape, batch, middle)),
                       onnx_product(e->g, onnx_part(e->g, shape, middle, middle + n_second)), NULL);
}

/* The elements of x, [batch, rows], by those of y, [batch, columns], as [batch, rows, columns]. */
static ir_value *multiplied(const einsum *e, ir_value *x, ir_value *y, int32_t batch, int32_t rows, int32_t columns) {
  ir_module *m = e->g->module;
  if (columns) x = onnx_binary(e->g, OP_Unsqueeze, x, onnx_vector(m, batch + rows, columns));
  if (rows && batch) y = onnx_binary(e->g, OP_Unsqueeze, y, onnx_vector(m, batch, rows));
  return onnx_binary(e->g, OP_Mul, x, y);
}

/* The product of x, [batch, rows, depth], and y, [batch, depth, columns], as [batch, rows, columns]. */
static ir_value *product(const einsum *e, ir_value *x, ir_value *y, int32_t batch, int32_t rows, int32_t depth,
                         int32_t columns) {
  const bool is_matrix = batch == 0 && rows > 0 && depth == 1 && columns == 1; /* MatMul takes any rows of x */
  ir_value *z = onnx_binary(e->g, OP_MatMul, is_matrix ? x : grouped(e, x, batch, rows, depth),
                            grouped(e, y, batch, depth, columns));
  if (is_matrix || (rows == 1 && columns == 1)) return z;
  return onnx_reshaped(e->g, z, onnx_part(e->g, extents(e, z), 0, batch),
                       onnx_part(e->g, extents(e, x), batch, batch + rows),
                       onnx_part(e->g, extents(e, y), batch + depth, batch + depth + columns), NULL);
}

/* ---- contraction ---- */

/* The labels that the output and the operands after `last` have. */
static axes needed_after(const einsum *e, int32_t last) {
  bool found[N_LABELS] = {false};
  axes needed = {0};
  for (int32_t i = 0; i < e->output.n; i++) found[(int)e->output.labels[i]] = true;
  for (int32_t k = last + 1; k < e->n_terms; k++)
    for (int32_t i = 0; i < e->terms[k].axes.n; i++) found[(int)e->terms[k].axes.labels[i]] = true;
  for (int label = 0; label < N_LABELS; label++)
    if (found[label]) add(&needed, label);
  return needed;
}

/* Makes x the product of x and y over the labels that are not needed. */
static reed_status contract(einsum *e, term *x, term *y, const axes *needed) {
  const axes of_x = joined(needed, &y->axes), of_y = joined(needed, &x->axes);
  sum_others(e, x, &of_x);
  sum_others(e, y, &of_y);
  axes batch = {0}, rows = {0}, depth = {0}, columns = {0};
  for (int32_t i = 0; i < x->axes.n; i++) {
    const int label = x->axes.labels[i];
    add(!has(&y->axes, label) ? &rows : has(needed, label) ? &batch : &depth, label);
  }
  for (int32_t i = 0; i < y->axes.n; i++)
    if (!has(&x->axes, y->axes.labels[i])) add(&columns, y->axes.labels[i]);
  e->unsupported = batch.n + rows.n + columns.n > REED_MAX_RANK;
  if (e->unsupported)
    return onnx_unsupported(e->r, e->node_name, "Einsum with more than %d axes between two operands", REED_MAX_RANK);
  const axes batch_rows = joined(&batch, &rows), batch_depth = joined(&batch, &depth),
             x_order = joined(&batch_rows, &depth), y_order = joined(&batch_depth, &columns);
  transpose(e, x, &x_order);
  transpose(e, y, &y_order);
  x->value = depth.n ? product(e, x->value, y->value, batch.n, rows.n, depth.n, columns.n)
                     : multiplied(e, x->value, y->value, batch.n, rows.n, columns.n);
  x->axes = joined(&batch_rows, &columns);
  return REED_OK;
}

static reed_status contract_all(einsum *e) {
  term *first = &e->terms[0];
  reed_status status = REED_OK;
  for (int32_t k = 0; k < e->n_terms; k++) take_diagonals(e, &e->terms[k]);
  for (int32_t k = 1; k < e->n_terms && status == REED_OK && !e->unsupported; k++) {
    const axes needed = needed_after(e, k);
    status = contract(e, first, &e->terms[k], &needed);
  }
  if (status != REED_OK || e->unsupported) return status;
  sum_others(e, first, &e->output);
  transpose(e, first, &e->output);
  return REED_OK;
}

reed_status onnx_einsum(onnx_reader *r, ir_graph *g, const char *node_name, const char *equation,
                        ir_value *const *operands, const int32_t *ranks, int32_t n_operands, ir_value **out_value) {
  einsum e = {.r = r,
              .g = g,
              .node_name = node_name,
              .equation = equation,
              .terms = ir_alloc(g->module, sizeof *e.terms * (size_t)n_operands),
              .n_terms = n_operands};
  const size_t first = g->nodes.n;
  *out_value = NULL;
  if (!e.terms) return diag_no_memory(r->diagnosis, "an Einsum's operands");
  for (int32_t k = 0; k < n_operands; k++) e.terms[k] = (term){.value = operands[k], .rank = ranks[k]};
  reed_status status = read_equation(&e);
  if (status == REED_OK && !e.unsupported) status = contract_all(&e);
  if (status != REED_OK || e.unsupported) return status;
  term *made = &e.terms[0];
  if (e.front && made->value)
    made->value = onnx_reshaped(g, made->value, e.front, onnx_part(g, extents(&e, made->value), 1, INT64_MAX),
                                onnx_vector(g->module, 0, 0), NULL);
  if (!e.terms[0].value || !onnx_name_made(g, first, node_name))
    return diag_no_memory(r->diagnosis, "an Einsum's nodes");
  *out_value = e.terms[0].value;
  return REED_OK;
}
