/* Replaces the pooling of regions from a feature pyramid (Lin et al. 2017, "Feature Pyramid Networks for Object
 * Detection") by one MultiLevelRoiAlign. The pooling is exported level by level: find the regions of the level, gather
 * them, RoiAlign, scatter the result into rows of a tensor of zeros. MultiLevelRoiAlign needs no list of regions for
 * each level and writes its result once. */
#include <string.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

#define MOST_LEVELS 16

/* One level: BEFORE with the rows of LEVEL's regions replaced. A row of REGIONS has image, x1, y1, x2, y2. */
enum { BEFORE, LEVELS, LEVEL, ROWS, ROW_INDEX, REGIONS, CORNERS, MAP, ALIGNED, N_SLOTS };

#define ROWS_OF_LEVEL P_VIEWS(P_AS(ROWS, P_OP(NonZero, P_PAIR(Equal, P_AS(LEVEL, P_CONSTANT), P_AS(LEVELS, P_ANY)))))
#define REGIONS_OF_LEVEL P_INT("axis", 0, P_OP(Gather, P_AS(REGIONS, P_ANY), ROWS_OF_LEVEL))
#define COLUMNS(which) P_INT("axis", 1, P_OP(Gather, REGIONS_OF_LEVEL, which))
static const pattern *const one_level =
    P_INT("axis", 0,
          P_TEXT("reduction", "none",
                 P_OP(ScatterElements, P_AS(BEFORE, P_ANY), P_OP(Expand, P_AS(ROW_INDEX, ROWS_OF_LEVEL)),
                      P_AS(ALIGNED, P_OP(RoiAlign, P_AS(MAP, P_ANY), COLUMNS(P_AS(CORNERS, P_CONSTANT)),
                                         P_OP(Cast, P_VIEWS(COLUMNS(P_NUMBER(0)))))))));

typedef struct chain {
  int32_t n;
  ir_value *levels, *regions, *corners;
  ir_value *aligned[MOST_LEVELS], *maps[MOST_LEVELS]; /* by level; NULL: not met yet */
  ir_node *scatters[MOST_LEVELS];
} chain;

typedef struct joining {
  ir_module *m;
  VEC_OF(ir_node *) scatters;
  int64_t n_chains, n_levels;
} joining;

static bool same_dim(const ir_module *m, const ir_value *a, int32_t i, const ir_value *b, int32_t k) {
  return symbols_assume_equal(m->symbols, a->type.dims[i], b->type.dims[k]);
}

/* True for a tensor of zeros, or a tensor without elements. */
static bool is_zeros(const ir_value *v) {
  ir_value *none[1];
  return pattern_match(P_EITHER(P_NUMBER(0), P_OP(Expand, P_NUMBER(0)), P_FILL(0, P_ANY)), (ir_value *)v, none, 0);
}

static bool is_corners(const ir_value *v) {
  reed_desc d;
  if (!ir_desc(v, &d) || d.rank != 1 || d.dims[0] != 4) return false;
  for (int i = 0; i < 4; i++)
    if (reed_dtype_read(d.dtype, (const char *)v->data + (size_t)i * reed_dtype_bytes(d.dtype)) != i + 1) return false;
  return true;
}

/* True when the Scatter's indices name whole rows of its data: [n,1,1,1] expanded to the shape of the updates, which is
 * the data's except for the number of rows. */
static bool whole_rows(const ir_module *m, const ir_node *scatter, ir_value *const *slots) {
  const ir_value *data = slots[BEFORE], *index = slots[ROW_INDEX], *all = scatter->inputs[1], *updates = slots[ALIGNED];
  if (data->type.rank != 4 || index->type.rank != 4 || all->type.rank != 4 || updates->type.rank != 4) return false;
  for (int32_t i = 0; i < 4; i++) {
    if (!same_dim(m, all, i, updates, i)) return false;
    if (i && (index->type.dims[i] != 1 || !same_dim(m, data, i, updates, i))) return false;
  }
  return same_dim(m, index, 0, updates, 0);
}

/* True when every region has a level and a row for its result. */
static bool agree(const ir_module *m, ir_value *const *slots) {
  const ir_value *levels = slots[LEVELS], *regions = slots[REGIONS], *data = slots[BEFORE];
  return levels->type.dtype == REED_I64 && levels->type.rank == 1 && regions->type.rank == 2 &&
         regions->type.dims[1] == 5 && same_dim(m, levels, 0, regions, 0) && same_dim(m, levels, 0, data, 0) &&
         is_corners(slots[CORNERS]);
}

/* Adds the matched level to the chain. False: the level belongs to another chain. */
static bool take_level(chain *c, ir_node *scatter, ir_value *const *slots) {
  double level;
  if (!pattern_number(slots[LEVEL], &level) || slots[LEVEL]->type.rank > 1) return false;
  if (level < 0 || level >= MOST_LEVELS || c->aligned[(int)level]) return false;
  if (c->n && (c->levels != slots[LEVELS] || c->regions != slots[REGIONS])) return false;
  c->levels = slots[LEVELS];
  c->regions = slots[REGIONS];
  c->corners = slots[CORNERS];
  c->aligned[(int)level] = slots[ALIGNED];
  c->maps[(int)level] = slots[MAP];
  c->scatters[c->n] = scatter;
  c->n++;
  return true;
}

/* True when the chain has all levels from 0 on, at least two, and their RoiAligns differ in scale only. */
static bool complete(const chain *c) {
  for (int32_t k = 0; k < c->n; k++) {
    if (!c->aligned[k]) return false;
    reed_attrs first = ir_attrs(c->aligned[0]->producer), own = ir_attrs(c->aligned[k]->producer);
    static const char *const ints[] = {"output_height", "output_width", "sampling_ratio"};
    static const char *const texts[] = {"mode", "coordinate_transformation_mode"};
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
      if (op_attr_int(&first, ints[i]) != op_attr_int(&own, ints[i])) return false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
      if (strcmp(op_attr_string(&first, texts[i]), op_attr_string(&own, texts[i])) != 0) return false;
  }
  return c->n > 1;
}

/* Follows the chain of scatters from the last one to the tensor of zeros. False: a link does not match, or another node
 * uses it. */
static bool follow(const ir_module *m, ir_node *last, chain *c) {
  for (ir_value *v = last->outputs[0]; !is_zeros(v);) {
    ir_value *slots[N_SLOTS];
    if (v != last->outputs[0] && v->n_uses != 1) return false;
    if (!pattern_match(one_level, v, slots, N_SLOTS) || !whole_rows(m, v->producer, slots) || !agree(m, slots))
      return false;
    if (!take_level(c, v->producer, slots)) return false;
    v = slots[BEFORE];
  }
  return complete(c);
}

/* ---- the new node ---- */

/* The output of a new node before `place`; NULL: no memory. */
static ir_value *make(ir_node *place, op_id op, ir_value *const *inputs, int32_t n, const char *attr, int64_t number) {
  ir_node *made = ir_node_new(place->graph, place, op_builtin(op), NULL, inputs, n, NULL, 1);
  return made && ir_set_attr_int(made, attr, number) ? made->outputs[0] : NULL;
}

/* Gives the node the RoiAligns' common attributes and the scales of all levels. False: no memory. */
static bool set_attrs(ir_node *n, const chain *c) {
  double scales[MOST_LEVELS];
  reed_attrs common = ir_attrs(c->aligned[0]->producer);
  for (int32_t i = 0; i < common.n; i++)
    if (strcmp(common.items[i].name, "spatial_scale") != 0 && !ir_set_attr(n, &common.items[i])) return false;
  for (int32_t k = 0; k < c->n; k++) {
    reed_attrs own = ir_attrs(c->aligned[k]->producer);
    scales[k] = op_attr_float(&own, "spatial_scale");
  }
  return ir_set_attr(n, &(reed_attr){.name = "spatial_scales", .type = REED_ATTR_FLOATS, .floats = scales, .n = c->n});
}

static reed_status join(joining *j, ir_node *last, const chain *c) {
  ir_module *m = j->m;
  ir_value *zero = ir_constant(m, &(reed_desc){.dtype = REED_I64}, &(int64_t){0}, false, NULL);
  ir_value *corners = make(last, OP_Gather, (ir_value *[]){c->regions, c->corners}, 2, "axis", 1);
  ir_value *image = zero ? make(last, OP_Gather, (ir_value *[]){c->regions, zero}, 2, "axis", 1) : NULL;
  ir_value *images = image ? make(last, OP_Cast, &image, 1, "to", REED_I64) : NULL;
  ir_value *inputs[3 + MOST_LEVELS] = {corners, images, c->levels};
  memcpy(inputs + 3, c->maps, (size_t)c->n * sizeof *inputs);
  if (!corners || !images) return diag_no_memory(m->diagnosis, "multi-level RoiAlign");
  ir_value *result = last->outputs[0];
  ir_node *n =
      ir_node_new(last->graph, last, op_builtin(OP_MultiLevelRoiAlign), last->name, inputs, 3 + c->n, &result, 1);
  if (!n || !set_attrs(n, c)) return diag_no_memory(m->diagnosis, "multi-level RoiAlign");
  for (int32_t k = 0; k < c->n; k++) c->scatters[k]->dead = true;
  j->n_chains++;
  j->n_levels += c->n;
  return REED_OK;
}

static reed_status collect(void *context, ir_node *n) {
  joining *j = context;
  if (n->op != op_builtin(OP_ScatterElements) || VEC_PUSH(&j->scatters, n)) return REED_OK;
  return diag_no_memory(j->m->diagnosis, "multi-level RoiAlign");
}

static reed_status visit(void *context, ir_node *last) {
  joining *j = context;
  chain c = {0};
  return follow(j->m, last, &c) ? join(j, last, &c) : REED_OK;
}

/* Visits scatters from the last one back, because a joined chain includes the earlier scatters. */
reed_status pass_roi_levels(ir_module *m, pass_report *report) {
  joining j = {.m = m};
  ir_count_uses(m);
  reed_status status = ir_walk(m->main, true, collect, &j);
  if (status == REED_OK) status = pass_try_back(m, j.scatters.items, j.scatters.n, visit, &j, &j.n_chains);
  VEC_FREE(&j.scatters);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"multi-level RoiAligns made", j.n_chains}, {"levels joined", j.n_levels}}};
  return status;
}
