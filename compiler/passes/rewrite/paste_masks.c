/* Replaces a Loop that pastes masks into pictures by one PasteMasks node. The Loop has a turn for every mask: it
 * resizes the mask to its box, cuts off the part outside of the picture, pads the rest with zeros to the picture's
 * size, and appends the picture to the earlier ones. PasteMasks writes every picture once and needs no boxes on the
 * host. The patterns follow torchvision's paste_masks_in_image. */
#include <string.h>

#include "compiler/ir/attempt.h"
#include "compiler/ir/pass.h"
#include "compiler/ir/pattern.h"

enum { BEFORE, PICTURE, TURN, MASKS, RESIZED, FLAT, BOXES, X1, Y1, X2, Y2, HEIGHT, WIDTH, N_SLOTS };

/* The row of BOXES with the loop's turn as its number, and the row's four elements. */
#define BOX P_INT("axis", 0, P_OP(Gather, P_AS(BOXES, P_ANY), P_AS(TURN, P_ANY)))
#define CORNER(slot, k) P_ROOT(P_AS(slot, P_INT("axis", 0, P_OP(Gather, BOX, P_NUMBER(k)))))
#define FIRST_X CORNER(X1, 0)
#define FIRST_Y CORNER(Y1, 1)
#define LAST_X CORNER(X2, 2)
#define LAST_Y CORNER(Y2, 3)

/* Two numbers in a row, and the larger and the smaller of two numbers. */
#define ROW(a, b) P_INT("axis", 0, P_OP(Concat, a, b))
#define LARGER(a, b) P_VIEWS(P_EITHER(P_PAIR(Max, a, b), P_OP(ReduceMax, ROW(a, b), P_ABSENT)))
#define SMALLER(a, b) P_VIEWS(P_EITHER(P_PAIR(Min, a, b), P_OP(ReduceMin, ROW(a, b), P_ABSENT)))
#define NEXT(a) P_VIEWS(P_PAIR(Add, a, P_NUMBER(1)))
#define MINUS(a, b) P_VIEWS(P_OP(Sub, a, b))

#define SIZE(which) P_ROOT(P_AS(which, P_ANY))
/* The first pixel of the box inside the picture, the pixel after the last one, and the number of pixels of the box. */
#define BEGIN(first) LARGER(first, P_NUMBER(0))
#define END(last, size) SMALLER(NEXT(last), SIZE(size))
#define EXTENT(first, last) LARGER(NEXT(MINUS(last, first)), P_NUMBER(1))

/* a[from:to] along an axis. */
#define SLICE(a, from, to, axis) P_OP(Slice, a, from, to, P_NUMBER(axis), P_EITHER(P_ABSENT, P_NUMBER(1)))
#define VISIBLE(a, first, last, size, axis) SLICE(a, MINUS(BEGIN(first), first), MINUS(END(last, size), first), axis)
#define ZEROS(rows, columns) P_FILL(0, P_INT("axis", 0, P_OP(Concat, rows, columns)))
/* `a` between zeros, cut to the picture's size. */
#define PADDED(axis_, before, a, after, size) \
  SLICE(P_INT("axis", axis_, P_OP(Concat, before, a, after)), P_NUMBER(0), SIZE(size), axis_)

#define NOTHING \
  P_EITHER(P_ABSENT, P_CONSTANT) /* the operands roi and scales of Resize have no elements: the sizes alone decide */
#define SIZES \
  P_INT("axis", 0, \
        P_OP(Concat, P_NUMBER(1), P_INT("axis", 0, P_OP(Concat, EXTENT(FIRST_Y, LAST_Y), EXTENT(FIRST_X, LAST_X)))))
#define MASK P_VIEWS(P_INT("axis", 0, P_OP(Gather, P_AS(MASKS, P_ANY), P_AS(TURN, P_ANY))))
#define LINEAR(part) P_TEXT("mode", "linear", P_INT("antialias", 0, P_INT("exclude_outside", 0, part)))
#define MASK_OF_BOX P_AS(FLAT, P_VIEWS(P_AS(RESIZED, LINEAR(P_OP(Resize, MASK, NOTHING, NOTHING, SIZES)))))

#define IN_ROWS \
  PADDED(0, ZEROS(BEGIN(FIRST_Y), P_ANY), \
         VISIBLE(VISIBLE(MASK_OF_BOX, FIRST_Y, LAST_Y, HEIGHT, 0), FIRST_X, LAST_X, WIDTH, 1), \
         ZEROS(MINUS(SIZE(HEIGHT), END(LAST_Y, HEIGHT)), P_ANY), HEIGHT)
#define IN_PICTURE \
  PADDED(1, ZEROS(P_ANY, BEGIN(FIRST_X)), IN_ROWS, ZEROS(P_ANY, MINUS(SIZE(WIDTH), END(LAST_X, WIDTH))), WIDTH)
static const pattern *const one_turn =
    P_INT("axis", 0, P_OP(Concat, P_AS(BEFORE, P_ANY), P_AS(PICTURE, P_VIEWS(IN_PICTURE))));

typedef struct pasting {
  ir_module *m;
  int64_t n_pasted;
} pasting;

static bool same_dim(const ir_module *m, reed_dim a, reed_dim b) { return symbols_assume_equal(m->symbols, a, b); }

/* True when v is one integer that is known to equal the extent. */
static bool is_extent(const ir_module *m, const ir_value *v, reed_dim extent) {
  return v->elements && v->n_elements == 1 && same_dim(m, v->elements[0], extent);
}

/* True when the Loop has one turn for every mask, is ended by its trip count alone, and carries only the pictures, of
 * which there are none at first. */
static bool counts_masks(const ir_module *m, const ir_node *loop, ir_value *const *slots) {
  const ir_graph *body = loop->regions[0];
  const ir_type *masks = &slots[MASKS]->type, *first = &loop->inputs[2]->type;
  if (body->params[0] != slots[TURN] || body->params[2] != slots[BEFORE]) return false;
  if (masks->rank != 4 || masks->dims[1] != 1 || !pattern_loops(m, loop, masks->dims[0])) return false;
  return first->rank == 3 && first->dims[0] == 0 && is_extent(m, slots[HEIGHT], first->dims[1]) &&
         is_extent(m, slots[WIDTH], first->dims[2]);
}

/* True when the last two extents of a and b are equal. */
static bool same_plane(const ir_module *m, const ir_type *a, const ir_type *b) {
  return a->rank >= 2 && b->rank >= 2 && same_dim(m, a->dims[a->rank - 2], b->dims[b->rank - 2]) &&
         same_dim(m, a->dims[a->rank - 1], b->dims[b->rank - 1]);
}

/* True when the views of a mask keep its rows and columns. */
static bool stay_planes(const ir_module *m, ir_value *const *slots) {
  const ir_value *resized = slots[RESIZED], *flat = slots[FLAT];
  return same_plane(m, &slots[MASKS]->type, &resized->producer->inputs[0]->type) && flat->type.rank == 2 &&
         same_plane(m, &resized->type, &flat->type);
}

/* True when PasteMasks' operands are defined outside of the Loop's body and have the types that PasteMasks takes. */
static bool can_be_pasted(const ir_module *m, const ir_node *loop, ir_value *const *slots) {
  static const int outside[] = {MASKS, BOXES, HEIGHT, WIDTH};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    if (slots[outside[i]]->graph == loop->regions[0]) return false;
  const ir_type *masks = &slots[MASKS]->type, *boxes = &slots[BOXES]->type;
  reed_attrs attrs = ir_attrs(slots[RESIZED]->producer);
  bool crops = strcmp(op_attr_string(&attrs, "coordinate_transformation_mode"), "tf_crop_and_resize") == 0;
  return masks->dtype == REED_F32 && boxes->dtype == REED_I64 && boxes->rank == 2 && boxes->dims[1] == 4 && !crops &&
         same_dim(m, boxes->dims[0], masks->dims[0]) && !reed_attrs_find(&attrs, "axes") &&
         slots[HEIGHT]->type.dtype == REED_I64 && slots[WIDTH]->type.dtype == REED_I64;
}

static reed_status visit(void *context, ir_node *n) {
  pasting *p = context;
  ir_value *slots[N_SLOTS];
  if (n->op != op_builtin(OP_Loop) || n->n_inputs != 3 || n->n_outputs != 1 || !n->outputs[0]) return REED_OK;
  const ir_graph *body = n->regions[0];
  if (body->n_params != 3 || body->n_results != 2 || !pattern_match(one_turn, body->results[1], slots, N_SLOTS))
    return REED_OK;
  if (!counts_masks(p->m, n, slots) || !stay_planes(p->m, slots) || !can_be_pasted(p->m, n, slots)) return REED_OK;
  ir_value *inputs[] = {slots[MASKS], slots[BOXES], slots[HEIGHT], slots[WIDTH]}, *result = n->outputs[0];
  ir_node *made = ir_node_new(n->graph, n, op_builtin(OP_PasteMasks), n->name, inputs, 4, &result, 1);
  reed_attrs attrs = ir_attrs(slots[RESIZED]->producer);
  const reed_attr *mapping = reed_attrs_find(&attrs, "coordinate_transformation_mode");
  if (!made || (mapping && !ir_set_attr(made, mapping))) return diag_no_memory(p->m->diagnosis, "mask pasting");
  n->dead = true;
  p->n_pasted++;
  return REED_OK;
}

reed_status pass_paste_masks(ir_module *m, pass_report *report) {
  pasting p = {.m = m};
  reed_status status = pass_try_each(m, visit, &p, &p.n_pasted);
  ir_sweep(m);
  *report = (pass_report){.counts = {{"loops that paste masks replaced", p.n_pasted}}};
  return status;
}
