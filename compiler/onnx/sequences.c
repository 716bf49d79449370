/* ONNX's sequences -> tensors. The reader follows each sequence from the node that makes it to those that use it; in
 * the graph there are only its items. A sequence is a list of values, or the parts of one tensor along an axis: of a
 * tensor that SplitToSequence divides, whose number of parts may be known in a run only, or of a Loop's scan output
 * (sequence_loops.c). */
#include <string.h>

#include "compiler/onnx/reader.h"

const onnx_sequence *onnx_sequence_of(const onnx_reader *r, const ir_value *v) {
  return v && v->id > 0 ? &r->sequences.items[v->id - 1] : NULL;
}

/* A value of g that stands for the sequence: its id is the sequence's number, from 1 on, while all other values have 0.
 * NULL: no memory. */
static ir_value *stand_for(onnx_reader *r, ir_graph *g, onnx_sequence s) {
  ir_value *v = ir_value_new(g, "");
  if (!v || !VEC_PUSH(&r->sequences, s)) return NULL;
  v->id = (int32_t)r->sequences.n;
  return v;
}

static ir_value *fail_empty(onnx_reading *z) {
  z->status =
      diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): the sequence is empty", z->name, z->node->op_type);
  return NULL;
}

/* A list of n values of which the caller fills the items; NULL: no memory. */
static ir_value **room_for(onnx_reading *z, int32_t n) {
  return ir_alloc(z->r->m, sizeof(ir_value *) * (size_t)(n ? n : 1));
}

static ir_value *made_list(onnx_reading *z, ir_value **items, int32_t n) {
  return items ? stand_for(z->r, z->g, (onnx_sequence){.items = items, .n_items = n}) : NULL;
}

/* ---- nodes; each returns NULL without memory ---- */

static ir_value *gathered(const onnx_reading *z, ir_value *x, ir_value *at, int64_t axis) {
  return onnx_made(z->g, NULL, OP_Gather, (ir_value *[]){x, at}, 2, "axis", axis, NULL);
}

/* The places where parts of equal extent begin. */
static ir_value *begins_of(const onnx_reading *z, const onnx_sequence *s) {
  ir_value *range[] = {onnx_integer(z->g, 0), onnx_extent(z->g, s->x, s->axis), onnx_single(z->g, s->extent, 0)};
  return onnx_made(z->g, NULL, OP_Range, range, 3, NULL, 0, NULL);
}

/* The part at a position that the run computes: Gather refuses one that does not exist. */
static ir_value *part_at(onnx_reading *z, const onnx_sequence *s, ir_value *position) {
  if (!s->keeps_axis) return gathered(z, s->x, onnx_single(z->g, position, 0), s->axis);
  ir_value *at = onnx_single(z->g, position, 1), *begin, *end;
  if (s->extents) {
    ir_value *ends = onnx_binary(z->g, OP_CumSum, s->extents, onnx_integer(z->g, 0));
    end = gathered(z, ends, at, 0);
    begin = onnx_binary(z->g, OP_Sub, end, gathered(z, s->extents, at, 0));
  } else {
    begin = gathered(z, begins_of(z, s), at, 0);
    end = onnx_binary(z->g, OP_Add, begin, onnx_single(z->g, s->extent, 1));
  }
  return onnx_slice(z->g, s->x, begin, end, s->axis);
}

/* ---- attributes and operands ---- */

/* Input i as a place in a list of n items, where `absent` stands for no operand; -1: a failure. */
static int32_t place_of(onnx_reading *z, int32_t i, int32_t n, int32_t absent) {
  const ir_value *v = z->inputs[i];
  if (!v) return absent;
  reed_desc desc;
  if (!ir_is_constant(v) || !ir_desc(v, &desc) || desc_elements(&desc) != 1 ||
      (desc.dtype != REED_I32 && desc.dtype != REED_I64)) {
    onnx_refuse(z, "a place in a list of tensors that is no constant number");
    return -1;
  }
  const int64_t given = desc.dtype == REED_I32 ? *(const int32_t *)v->data : *(const int64_t *)v->data,
                at = given < 0 ? given + n : given;
  if (at >= 0 && at < n + (absent == n)) return (int32_t)at; /* a new item may come behind the last one */
  z->status = diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): place %lld in a sequence of %d items",
                        z->name, z->node->op_type, (long long)given, n);
  return -1;
}

/* True if the parts lie along the axis; *out_known: it can be told. */
static bool lies_along(const onnx_sequence *s, int64_t axis, bool *out_known) {
  const int64_t rank = s->rank;
  *out_known = rank >= 0 || (axis < 0) == (s->axis < 0);
  return rank >= 0 ? (axis + rank) % rank == (s->axis + rank) % rank : axis == s->axis;
}

/* ---- operators; each returns the output's value, NULL where z->status or z->unsupported says why ---- */

static ir_value *construct(onnx_reading *z, const onnx_sequence *s) {
  (void)s;
  const int32_t n = (int32_t)z->node->n_input;
  ir_value **items = room_for(z, n);
  for (int32_t i = 0; i < n && items; i++)
    if (!(items[i] = z->inputs[i])) return onnx_refuse(z, "SequenceConstruct with an absent item");
  return made_list(z, items, n);
}

static ir_value *empty(onnx_reading *z, const onnx_sequence *s) {
  (void)s;
  return made_list(z, room_for(z, 0), 0);
}

/* Parts of given extents, one node for all. */
static ir_value *split_all(onnx_reading *z, ir_value *x, ir_value *extents, int32_t n, int64_t axis) {
  ir_value **items = room_for(z, n), *operands[] = {x, extents};
  ir_node *split =
      items ? ir_node_new(z->g, NULL, op_builtin(OP_Split), NULL, operands, extents ? 2 : 1, NULL, n) : NULL;
  if (!split || !ir_set_attr_int(split, "axis", axis)) return NULL;
  for (int32_t i = 0; i < n; i++) {
    items[i] = split->outputs[i];
    items[i]->type.dtype = x->type.dtype;
  }
  return made_list(z, items, n);
}

/* The rank of SplitToSequence's operand `split`, judged by the operator that computes it where it is not known. */
static int32_t rank_of_split(const onnx_reading *z) {
  if (z->ranks[1] >= 0) return z->ranks[1];
  const ir_node *n = z->inputs[1]->producer;
  static const op_id vectors[] = {OP_Concat, OP_Shape, OP_Slice, OP_ConstantOfShape, OP_Range, OP_Unsqueeze},
                     scalars[] = {OP_Size};
  for (size_t i = 0; n && i < sizeof vectors / sizeof *vectors; i++)
    if (n->op == op_builtin(vectors[i])) return 1;
  for (size_t i = 0; n && i < sizeof scalars / sizeof *scalars; i++)
    if (n->op == op_builtin(scalars[i])) return 0;
  return -1;
}

static ir_value *divide(onnx_reading *z, const onnx_sequence *none) {
  (void)none;
  ir_value *x = z->inputs[0], *by = z->inputs[1];
  const int64_t axis = onnx_int(z, "axis", 0);
  onnx_sequence s = {.x = x, .rank = z->ranks[0], .axis = axis, .keeps_axis = by || onnx_int(z, "keepdims", 1)};
  if (s.rank >= 0 && (axis < -s.rank || axis >= s.rank)) {
    z->status =
        diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (SplitToSequence): axis %lld of a tensor of rank %d",
                  z->name, (long long)axis, s.rank);
    return NULL;
  }
  if (!by) return (s.extent = onnx_integer(z->g, 1)) ? stand_for(z->r, z->g, s) : NULL;
  reed_desc desc;
  switch (rank_of_split(z)) {
    case 0: s.extent = by; return stand_for(z->r, z->g, s);
    case 1:
      if (ir_is_constant(by) && ir_desc(by, &desc) && desc.dims[0] > 0 && desc.dims[0] <= REED_MAX_OPERANDS)
        return split_all(z, x, onnx_cast(z->g, by, REED_I64), (int32_t)desc.dims[0], axis);
      s.extents = onnx_cast(z->g, by, REED_I64);
      return s.extents ? stand_for(z->r, z->g, s) : NULL;
    default: return onnx_refuse(z, "SplitToSequence with an operand 'split' whose rank is not known");
  }
}

static ir_value *length(onnx_reading *z, const onnx_sequence *s) {
  if (!s->x) return onnx_integer(z->g, s->n_items);
  if (s->numbered) return onnx_extent(z->g, s->numbered, 0);
  if (!s->keeps_axis) return onnx_extent(z->g, s->x, s->axis);
  return onnx_extent(z->g, s->extents ? s->extents : begins_of(z, s), 0);
}

static ir_value *at(onnx_reading *z, const onnx_sequence *s) {
  if (!z->inputs[1]) return onnx_refuse(z, "SequenceAt without a position");
  if (s->x) return part_at(z, s, z->inputs[1]);
  const int32_t place = place_of(z, 1, s->n_items, -1);
  return place < 0 ? NULL : s->items[place];
}

/* The list with the item of input 1 at input 2's place, or without the item at input 1's place. */
static ir_value *insert(onnx_reading *z, const onnx_sequence *s) {
  const int32_t n = s->n_items, place = s->x ? -1 : place_of(z, 2, n, n);
  if (s->x) return onnx_refuse(z, "SequenceInsert into the parts of a tensor");
  if (!z->inputs[1]) return onnx_refuse(z, "SequenceInsert without a tensor");
  if (n == REED_MAX_OPERANDS) return onnx_refuse(z, "a list of more than 512 tensors");
  ir_value **items = place < 0 ? NULL : room_for(z, n + 1);
  for (int32_t i = 0; i <= n && items; i++) items[i] = i == place ? z->inputs[1] : s->items[i - (i > place)];
  return made_list(z, items, n + 1);
}

static ir_value *erase(onnx_reading *z, const onnx_sequence *s) {
  const int32_t n = s->n_items, place = s->x ? -1 : place_of(z, 1, n, n - 1);
  if (s->x) return onnx_refuse(z, "SequenceErase of a part of a tensor");
  if (n == 0) return fail_empty(z);
  ir_value **items = place < 0 ? NULL : room_for(z, n);
  for (int32_t i = 0; i + 1 < n && items; i++) items[i] = s->items[i + (i >= place)];
  return made_list(z, items, n - 1);
}

/* The items along an axis of theirs, or along a new one. */
static ir_value *join(onnx_reading *z, const onnx_sequence *s) {
  const int64_t axis = onnx_int(z, "axis", 0);
  const bool new_axis = onnx_int(z, "new_axis", 0) != 0;
  if (s->joined && axis == 0 && !new_axis) return s->joined;
  if (s->x) {
    bool known, along = lies_along(s, axis, &known);
    if (known && along && new_axis != s->keeps_axis) return s->x;
    return onnx_refuse(z, "ConcatFromSequence of a tensor's parts along another axis");
  }
  if (s->n_items == 0) return fail_empty(z);
  ir_value **items = room_for(z, s->n_items);
  for (int32_t i = 0; i < s->n_items && items; i++) {
    items[i] =
        new_axis ? onnx_binary(z->g, OP_Unsqueeze, s->items[i], onnx_vector(z->g->module, axis, 1)) : s->items[i];
    if (!items[i]) return NULL;
  }
  if (s->n_items == 1 && items) return items[0];
  return items ? onnx_joined(z->g, items, s->n_items, axis) : NULL;
}

static ir_value *same(onnx_reading *z, const onnx_sequence *s) {
  (void)s;
  return z->inputs[0];
}

static const struct operator_row {
  const char *name;
  int32_t least_inputs, most_inputs;
  bool takes_sequence; /* as input 0 */
  ir_value *(*make)(onnx_reading *z, const onnx_sequence *s);
} rows[] = {
    {"SequenceConstruct", 1, REED_MAX_OPERANDS, false, construct},
    {"SequenceEmpty", 0, 0, false, empty},
    {"SplitToSequence", 1, 2, false, divide},
    {"SequenceLength", 1, 1, true, length},
    {"SequenceAt", 2, 2, true, at},
    {"SequenceInsert", 2, 3, true, insert},
    {"SequenceErase", 1, 2, true, erase},
    {"ConcatFromSequence", 1, 1, true, join},
    {"Identity", 1, 1, true, same},
};

static const struct operator_row *row_of(const char *type) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(type, rows[i].name) == 0) return &rows[i];
  return NULL;
}

bool onnx_is_of_sequences(const char *type) { return row_of(type) != NULL; }

/* Notes or refuses operands that have the wrong kind. False: there is one. s: the sequence of input 0, or NULL. */
static bool check_kinds(onnx_reading *z, const struct operator_row *row, const onnx_sequence *s) {
  for (int32_t i = row->takes_sequence; i < z->n_inputs; i++)
    if (onnx_sequence_of(z->r, z->inputs[i])) return onnx_refuse(z, "a sequence of sequences"), false;
  if (s || !row->takes_sequence) return true;
  z->unsupported = true; /* an operator before this one is, unless the model is wrong */
  if (!z->r->problems.n)
    z->status =
        diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): input 0 is no sequence", z->name, row->name);
  return false;
}

reed_status onnx_read_sequence(onnx_reading *z) {
  const struct operator_row *row = row_of(z->node->op_type);
  if (z->n_inputs < row->least_inputs || z->n_inputs > row->most_inputs || z->node->n_output != 1)
    return diag_fail(z->r->diagnosis, REED_ERROR_FORMAT,
                     "node '%s' (%s) has %d inputs and %zu outputs, %d to %d inputs and one output are needed", z->name,
                     row->name, z->n_inputs, z->node->n_output, row->least_inputs, row->most_inputs);
  if (row->least_inputs && !z->inputs[0])
    return diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (%s): input 0 is missing", z->name, row->name);
  const size_t first = z->g->nodes.n;
  const onnx_sequence *s = onnx_sequence_of(z->r, z->inputs[0]);
  if (check_kinds(z, row, s)) z->outputs[0] = row->make(z, s);
  return onnx_end_reading(z, first);
}

ir_value *onnx_looped_sequence(onnx_reader *r, ir_graph *g, ir_value *const items[ONNX_LOOP_ITEMS]) {
  onnx_sequence s = {.x = items[0], .joined = items[1], .numbered = items[2], .rank = -1};
  s.extent = onnx_vector(r->m, 1, 1);
  items[1]->joined = true;
  return s.extent ? stand_for(r, g, s) : NULL;
}
