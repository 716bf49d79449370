/* Replaces a Loop that finds keypoints in heat maps by one Keypoints node. The Loop has a turn for every detected box:
 * it resizes the box's maps to the size of the box, takes the largest element of each resized map, and computes the
 * element's position in the picture and its value. Keypoints never stores the resized maps and needs no sizes on the
 * host. The patterns follow torchvision's heatmaps_to_keypoints after the accumulate pass, which turns its results into
 * scan outputs. */
#include <string.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { TURN, MAPS, RESIZED, FLAT, PLACE, LEFT, TOP, WIDTH, HEIGHT, COLUMNS, ROWS, DIAGONAL, N_SLOTS };

/* The element of a list, or the map of a tensor of maps, that belongs to this turn. */
#define OF_TURN(slot) P_INT("axis", 0, P_OP(Gather, P_AS(slot, P_ANY), P_AS(TURN, P_ANY)))
#define NUMBER(slot) P_VIEWS(OF_TURN(slot))
#define TO_INTEGER(a) P_INT("to", REED_I64, P_OP(Cast, a))
#define TO_FLOAT(a) P_INT("to", REED_F32, P_OP(Cast, a))
#define ROW(...) P_INT("axis", 0, P_OP(Concat, __VA_ARGS__))

#define NOTHING \
  P_EITHER(P_ABSENT, P_CONSTANT) /* the operands roi and scales of Resize have no elements: the sizes alone decide */
#define SIZES ROW(P_CONSTANT, TO_INTEGER(ROW(NUMBER(ROWS), NUMBER(COLUMNS))))
#define CUBIC(part) P_TEXT("mode", "cubic", P_INT("antialias", 0, P_INT("exclude_outside", 0, part)))
#define RESIZED_MAPS P_AS(RESIZED, CUBIC(P_OP(Resize, P_VIEWS(OF_TURN(MAPS)), NOTHING, NOTHING, SIZES)))
#define PLANES P_AS(FLAT, P_VIEWS(RESIZED_MAPS))

/* The position of the largest element of a map: the pixel's number PIXEL, its column X and its row Y. */
#define PIXEL \
  P_AS(PLACE, P_INT("axis", 1, P_INT("keepdims", 0, P_INT("select_last_index", 0, P_OP(ArgMax, P_ROOT(RESIZED_MAPS))))))
#define N_COLUMNS P_VIEWS(P_OP(Gather, P_OP(Shape, PLANES), P_NUMBER(2)))
#define X P_INT("fmod", 0, P_OP(Mod, PIXEL, N_COLUMNS))
#define Y P_OP(Div, P_OP(Sub, PIXEL, X), N_COLUMNS)
#define IN_PICTURE(at, size, pixels, begin) \
  P_VIEWS(P_PAIR(Add, P_PAIR(Mul, P_PAIR(Add, P_NUMBER(0.5), TO_FLOAT(at)), P_OP(Div, NUMBER(size), NUMBER(pixels))), \
                 NUMBER(begin)))
static const pattern *const points =
    P_VIEWS(ROW(IN_PICTURE(X, WIDTH, COLUMNS, LEFT), IN_PICTURE(Y, HEIGHT, ROWS, TOP), P_NUMBER(1)));

/* Gathers every map at every place, then keeps the diagonal: each map at its own place. */
#define AT(axis_, a, place) P_INT("axis", axis_, P_OP(Gather, a, place))
static const pattern *const peaks =
    P_VIEWS(AT(0, P_VIEWS(AT(2, AT(1, PLANES, TO_INTEGER(TO_FLOAT(Y))), X)), P_AS(DIAGONAL, P_CONSTANT)));

typedef struct reading {
  ir_module *m;
  int64_t n_read;
} reading;

static bool same_dim(const ir_module *m, reed_dim a, reed_dim b) { return symbols_assume_equal(m->symbols, a, b); }

/* Checks the types of the matched values: the maps are [K,C,M,N] with a known C; the Loop has K turns and each list K
 * elements; each turn resizes the planes of one map. */
static bool agree(const ir_module *m, const ir_node *loop, ir_value *const *slots) {
  static const int lists[] = {LEFT, TOP, WIDTH, HEIGHT, COLUMNS, ROWS};
  const ir_type *maps = &slots[MAPS]->type, *resized = &slots[RESIZED]->producer->inputs[0]->type,
                *flat = &slots[FLAT]->type;
  if (maps->rank != 4 || maps->dtype != REED_F32 || slots[MAPS]->graph == loop->regions[0] ||
      slots[TURN] != loop->regions[0]->params[0] || !pattern_loops(m, loop, maps->dims[0]))
    return false;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    const ir_value *v = slots[lists[i]];
    if (v->type.rank != 1 || v->type.dtype != REED_F32 || v->graph == loop->regions[0] ||
        !same_dim(m, v->type.dims[0], maps->dims[0]))
      return false;
  }
  if (resized->rank != 4 || flat->rank != 3 || symbol_is(maps->dims[1]) || resized->dims[1] != 1) return false;
  const int from[] = {1, 2, 3}, to[] = {0, 2, 3};
  for (int i = 0; i < 3; i++)
    if (!same_dim(m, maps->dims[from[i]], resized->dims[to[i]])) return false;
  const ir_type *y = &slots[RESIZED]->type, *lines = &slots[PLACE]->producer->inputs[0]->type;
  if (lines->rank != 2 || !same_dim(m, lines->dims[0], maps->dims[1])) return false;
  reed_attrs attrs = ir_attrs(slots[RESIZED]->producer);
  bool crops = strcmp(op_attr_string(&attrs, "coordinate_transformation_mode"), "tf_crop_and_resize") == 0;
  return !crops && !reed_attrs_find(&attrs, "axes") && same_dim(m, flat->dims[0], y->dims[0]) &&
         same_dim(m, flat->dims[1], y->dims[2]) && same_dim(m, flat->dims[2], y->dims[3]) &&
         same_dim(m, y->dims[0], maps->dims[1]) && y->dims[1] == 1;
}

/* True for the flat indices of the elements [c, c, c] of a tensor [n, n, n]. */
static bool is_diagonal(const ir_value *v, int64_t n) {
  reed_desc d;
  if (!ir_desc(v, &d) || d.dtype != REED_I64 || desc_elements(&d) != n || n > 1 << 20) return false;
  for (int64_t c = 0; c < n; c++)
    if (((const int64_t *)v->data)[c] != c * (n * n + n + 1)) return false;
  return true;
}

/* Replaces output `output` of the Loop by `from`, with extents of 1 inserted after axis 0, because a turn's result has
 * them in front. False: no memory. */
static bool stand_in(ir_node *loop, ir_value *from, const ir_value *of_turn, int32_t rank, int32_t output) {
  static const int64_t axes[] = {1, 2, 3, 4, 5, 6, 7};
  ir_module *m = loop->graph->module;
  ir_value *more = ir_constant_i64(m, axes, of_turn->type.rank - rank, NULL), *result = loop->outputs[output];
  if (!result) return true;
  return more &&
         ir_node_new(loop->graph, loop, op_builtin(OP_Unsqueeze), NULL, (ir_value *[]){from, more}, 2, &result, 1);
}

static bool replace(ir_node *loop, ir_value *const *slots, int32_t at_points) {
  ir_value *inputs[] = {slots[MAPS], slots[LEFT], slots[TOP], slots[WIDTH], slots[HEIGHT], slots[COLUMNS], slots[ROWS]};
  ir_node *made = ir_node_new(loop->graph, loop, op_builtin(OP_Keypoints), loop->name, inputs, 7, NULL, 2);
  static const char *const kept[] = {"coordinate_transformation_mode", "cubic_coeff_a"};
  reed_attrs attrs = ir_attrs(slots[RESIZED]->producer);
  for (int i = 0; made && i < 2; i++) {
    const reed_attr *attr = reed_attrs_find(&attrs, kept[i]);
    if (attr && !ir_set_attr(made, attr)) return false;
  }
  ir_value *const *results = loop->regions[0]->results + 1;
  loop->dead = true;
  return made && stand_in(loop, made->outputs[0], results[at_points], 2, at_points) &&
         stand_in(loop, made->outputs[1], results[1 - at_points], 1, 1 - at_points);
}

static reed_status visit(void *context, ir_node *n) {
  reading *r = context;
  if (n->op != op_builtin(OP_Loop) || n->n_outputs != 2 || n->regions[0]->n_params != 2) return REED_OK;
  for (int32_t at = 0; at < 2; at++) {
    ir_value *const *results = n->regions[0]->results + 1, *slots[N_SLOTS], *of_peaks[N_SLOTS];
    const ir_type *first = &results[at]->type, *second = &results[1 - at]->type;
    if (!pattern_match(points, results[at], slots, N_SLOTS) ||
        !pattern_match(peaks, results[1 - at], of_peaks, N_SLOTS))
      continue;
    if (slots[FLAT] != of_peaks[FLAT] || slots[PLACE] != of_peaks[PLACE] || !agree(r->m, n, slots)) continue;
    int64_t channels = slots[MAPS]->type.dims[1];
    if (!is_diagonal(of_peaks[DIAGONAL], channels) || first->rank < 2 || second->rank < 1) continue;
    if (first->dims[first->rank - 1] != channels || first->dims[first->rank - 2] != 3 ||
        second->dims[second->rank - 1] != channels)
      continue;
    if (!replace(n, slots, at)) return diag_no_memory(r->m->diagnosis, "keypoints");
    r->n_read++;
    break;
  }
  return REED_OK;
}

reed_status pass_keypoints(ir_module *m, pass_report *report) {
  reading r = {.m = m};
  reed_status status = pass_try_each(m, visit, &r, &r.n_read);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"loops that read points off maps replaced", r.n_read}}};
  return status;
}
