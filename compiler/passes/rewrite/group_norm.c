/* Replaces GroupNormalization (Wu and He 2018, "Group Normalization") as exporters write it for opsets without the
 * operator: the channels of a group are reshaped to one channel, normalised, and reshaped back:
 *
 *   Reshape(InstanceNormalization(Reshape(x, [0, groups, -1])), Shape(x)) * scale + shift */
#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/constant_weights.h"

enum { X, GROUPED, FACTOR, OFFSET, NORMALISED, SCALED, SCALE, SHIFT, N_SLOTS };

#define IN_GROUPS \
  P_AS(GROUPED, \
       P_OP(InstanceNormalization, P_OP(Reshape, P_AS(X, P_ANY)), P_AS(FACTOR, P_CONSTANT), P_AS(OFFSET, P_CONSTANT)))
#define NORM P_OP(Reshape, P_ONCE(IN_GROUPS))
#define TIMES_SCALE P_PAIR(Mul, P_ONCE(P_AS(NORMALISED, NORM)), P_AS(SCALE, P_CONSTANT))
static const pattern *const group_norm =
    P_EITHER(P_PAIR(Add, P_ONCE(P_AS(SCALED, TIMES_SCALE)), P_AS(SHIFT, P_CONSTANT)), TIMES_SCALE, NORM);

typedef struct joining {
  ir_module *m;
  VEC_OF(ir_node *) nodes;
  int64_t n_joined;
} joining;

/* The number of channels of a group, where x [N,C,...] has been reshaped to [N,groups,...]; 0: the extents do not fit.
 */
static int64_t channels_of_group(const ir_module *m, const ir_value *x, const ir_value *grouped) {
  const ir_type *t = &x->type, *g = &grouped->type;
  if (t->rank < 3 || g->rank < 3 || symbol_is(t->dims[1]) || symbol_is(g->dims[1]) || g->dims[1] < 1 || t->dims[1] < 1)
    return 0;
  return symbols_assume_equal(m->symbols, t->dims[0], g->dims[0]) && t->dims[1] % g->dims[1] == 0
             ? t->dims[1] / g->dims[1]
             : 0;
}

/* A constant of one number for each channel; NULL: no memory. */
static ir_value *per_channel(ir_module *m, reed_dtype dtype, int64_t n, const double *numbers) {
  reed_desc d = {.dtype = dtype, .rank = 1, .dims = {n}};
  size_t bytes = reed_dtype_bytes(dtype);
  char *data = ir_alloc(m, (size_t)n * bytes);
  for (int64_t i = 0; data && i < n; i++) reed_dtype_write(dtype, data + (size_t)i * bytes, numbers[i]);
  return data ? ir_constant(m, &d, data, true, NULL) : NULL;
}

/* Scale and shift of every channel: the group's, combined with SCALE and SHIFT of the channel. False: one of the
 * constants varies along another axis. */
static bool read_affine(ir_value *const *slots, int64_t groups, int64_t shared, double *scale, double *shift,
                        double *scratch) {
  int64_t n = groups * shared;
  int32_t rank = slots[X]->type.rank;
  if (!weights_per_channel(slots[FACTOR], 1, 0, groups, scratch)) return false;
  for (int64_t i = 0; i < n; i++) scale[i] = scratch[i / shared];
  if (!weights_per_channel(slots[OFFSET], 1, 0, groups, scratch)) return false;
  for (int64_t i = 0; i < n; i++) shift[i] = scratch[i / shared];
  if (slots[SCALE] && !weights_per_channel(slots[SCALE], rank, 1, n, scratch)) return false;
  for (int64_t i = 0; i < n && slots[SCALE]; i++) scale[i] *= scratch[i], shift[i] *= scratch[i];
  if (slots[SHIFT] && !weights_per_channel(slots[SHIFT], rank, 1, n, scratch)) return false;
  for (int64_t i = 0; i < n && slots[SHIFT]; i++) shift[i] += scratch[i];
  return true;
}

static reed_status make(joining *j, ir_node *last, ir_value *const *slots, int64_t shared, const double *scale,
                        const double *shift) {
  int64_t channels = slots[X]->type.dims[1];
  reed_dtype dtype = slots[X]->type.dtype;
  reed_attrs attrs = ir_attrs(slots[GROUPED]->producer);
  ir_value *inputs[] = {slots[X], per_channel(j->m, dtype, channels, scale), per_channel(j->m, dtype, channels, shift)};
  ir_node *n = inputs[1] && inputs[2] ? ir_node_new(last->graph, last, op_builtin(OP_GroupNormalization), last->name,
                                                    inputs, 3, last->outputs, 1)
                                      : NULL;
  if (!n || !ir_set_attr_int(n, "num_groups", channels / shared) ||
      !ir_set_attr_float(n, "epsilon", op_attr_float(&attrs, "epsilon")))
    return diag_no_memory(j->m->diagnosis, "a normalisation");
  last->dead = true;
  if (slots[SCALED]) slots[SCALED]->producer->dead = true;
  if (slots[NORMALISED]) slots[NORMALISED]->producer->dead = true;
  slots[GROUPED]->producer->dead = true;
  j->n_joined++;
  return REED_OK;
}

static reed_status join(void *context, ir_node *last) {
  joining *j = context;
  ir_value *slots[N_SLOTS], *result = last->outputs[0];
  if (!pattern_match(group_norm, result, slots, N_SLOTS) || !ir_same_type(j->m, slots[X], result)) return REED_OK;
  int64_t shared = channels_of_group(j->m, slots[X], slots[GROUPED]);
  bool wide = slots[X]->type.dtype == REED_F32 ||
              slots[X]->type.dtype == REED_F64; /* in half precision the result would be rounded differently */
  if (!shared || !wide) return REED_OK;
  int64_t n = slots[X]->type.dims[1];
  double *numbers = mem_calloc(3 * (size_t)n, sizeof *numbers);
  if (!numbers) return diag_no_memory(j->m->diagnosis, "a normalisation");
  bool fits = read_affine(slots, n / shared, shared, numbers, numbers + n, numbers + 2 * n);
  reed_status status = fits ? make(j, last, slots, shared, numbers, numbers + n) : REED_OK;
  mem_free(numbers);
  return status;
}

static reed_status collect(void *context, ir_node *n) {
  joining *j = context;
  bool last = n->op == op_builtin(OP_Reshape) || n->op == op_builtin(OP_Mul) || n->op == op_builtin(OP_Add);
  return !last || VEC_PUSH(&j->nodes, n) ? REED_OK : diag_no_memory(j->m->diagnosis, "a normalisation");
}

/* Visits nodes from the last one back, so that the longest form is matched first. */
reed_status pass_group_norm(ir_module *m, pass_report *report) {
  joining j = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, collect, &j);
  if (status == REED_OK) status = pass_try_back(m, j.nodes.items, j.nodes.n, join, &j, &j.n_joined);
  VEC_FREE(&j.nodes);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"group normalisations recognised", j.n_joined}}};
  return status;
}
