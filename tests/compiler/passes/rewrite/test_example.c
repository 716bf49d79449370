/* Rewrites fire on a real export (examples/shapes); paste_masks leaves a damaged version of the export's loop alone. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

static void read_example(front *f) {
  char path[1024];
  const char *folder = getenv("REED_EXAMPLES");
  ck_assert_ptr_nonnull(folder);
  snprintf(path, sizeof path, "%s/shapes.onnx", folder);
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  fseek(file, 0, SEEK_END);
  size_t n = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(n);
  ck_assert_int_eq(fread(bytes, 1, n, file), n);
  fclose(file);
  front_read_bytes(f, bytes, n, NULL);
  front_ok(f);
  f->bytes = bytes;
}

START_TEST(both_pools_of_the_example_become_one_roi_align_each) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_MultiLevelRoiAlign), 2);
  ck_assert_int_eq(front_count(&f, OP_RoiAlign) + front_count(&f, OP_ScatterElements), 0);
  ck_assert_int_eq(front_changes(&f, "roi_levels"), 2 + 8);
  front_fini(&f);
}
END_TEST

static reed_status note_limit(void *context, ir_node *n) {
  int64_t **next = context;
  if (n->op == op_builtin(OP_NonMaxSuppression)) *(*next)++ = *(const int64_t *)n->inputs[2]->data;
  return REED_OK;
}

START_TEST(both_selections_of_the_example_lose_their_guards) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "nms_guard"), 2);
  ck_assert_ptr_eq(front_node(&f, OP_NonMaxSuppression)->graph, f.m->main);
  front_fini(&f);
}
END_TEST

START_TEST(both_selections_of_the_example_know_classes) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "nms_classes"), 2); /* one selection is by pyramid level, one by class */
  ck_assert_ptr_nonnull(front_node(&f, OP_NonMaxSuppression)->inputs[5]);
  front_fini(&f);
}
END_TEST

START_TEST(the_example_finds_no_rows) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "filter_chain"), 2);
  ck_assert_int_eq(front_changes(&f, "nms_filter"), 2);
  ck_assert_int_eq(front_count(&f, OP_NonZero), 0);
  front_fini(&f);
}
END_TEST

START_TEST(both_selections_of_the_example_are_limited) {
  int64_t found[2], *next = found;
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_NonMaxSuppression), 2);
  ck_assert_int_eq(ir_walk(f.m->main, true, note_limit, &next), REED_OK);
  ck_assert_int_eq(found[0], 300);
  ck_assert_int_eq(found[1], 50);
  front_fini(&f);
}
END_TEST

/* Damage to the loop's k-th node of an operator: another attribute, another operand or another operator. */
typedef struct damage {
  op_id op;
  int k;
  op_id becomes;
  const char *attr, *text; /* the attribute and its text; text NULL: the attribute is `number` */
  int operand;             /* the operand that becomes the constant {number} */
  int64_t number;
} damage;

#define BECOMES(from, k, to) \
  { OP_##from, k, .becomes = OP_##to }
#define ATTR(from, k, name, x) \
  { OP_##from, k, OP_##from, .attr = name, .number = (x) }
#define OPERAND(from, k, i, x) \
  { OP_##from, k, OP_##from, .operand = (i), .number = (x) }
static const damage damages[] = {
    ATTR(Resize, 0, "antialias", 1),
    {OP_Resize, 0, OP_Resize, .attr = "mode", .text = "nearest"},
    BECOMES(ReduceMax, 0, ReduceMin),
    BECOMES(ReduceMax, 2, ReduceMin),
    BECOMES(ReduceMin, 1, ReduceMax),
    BECOMES(Sub, 0, Add),
    OPERAND(Add, 0, 1, 2),      /* adds 2 to the last pixel, not 1 */
    OPERAND(Gather, 3, 1, 3),   /* another corner */
    OPERAND(Slice, 2, 1, 1),    /* all but the first row */
    ATTR(Concat, 0, "axis", 1), /* an axis that a vector lacks */
};

typedef struct hunt {
  const damage *d;
  int next;
} hunt;

static reed_status hurt(void *context, ir_node *n) {
  hunt *h = context;
  const damage *d = h->d;
  if (!n->graph->parent || n->graph->parent->op != op_builtin(OP_Loop) || n->op != op_builtin(d->op) ||
      h->next++ != d->k)
    return REED_OK;
  n->op = op_builtin(d->becomes);
  if (d->text) ir_set_attr_string(n, d->attr, d->text);
  else if (d->attr) ir_set_attr_int(n, d->attr, d->number);
  else if (d->becomes == d->op)
    n->inputs[d->operand] =
        ir_constant(n->graph->module, &(reed_desc){.dtype = REED_I64, .rank = d->op != OP_Gather, .dims = {1}},
                    &d->number, false, NULL);
  return REED_OK;
}

START_TEST(the_loop_of_the_example_that_pastes_masks_becomes_one_operator) {
  front f;
  read_example(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "paste_masks"), 1);
  ck_assert_int_eq(front_count(&f, OP_Loop), 0);
  const ir_node *paste = front_node(&f, OP_PasteMasks);
  reed_attrs attrs = ir_attrs(paste);
  ck_assert_str_eq(reed_attrs_string(&attrs, "coordinate_transformation_mode", ""), "half_pixel");
  ck_assert_int_eq(paste->n_inputs, 4);
  const ir_type *t = &paste->outputs[0]->type;
  ck_assert_int_eq(t->rank, 3);
  ck_assert(symbols_equal(f.m->symbols, t->dims[1],
                          f.m->main->params[0]->type.dims[1])); /* the picture's own height and width */
  ck_assert(symbols_equal(f.m->symbols, t->dims[2], f.m->main->params[0]->type.dims[2]));
  front_fini(&f);
}
END_TEST

START_TEST(a_loop_that_only_resembles_mask_pasting_stays) {
  front f;
  read_example(&f);
  f.run = (pass_run){.m = f.m};
  for (int i = 0; i < pass_count; i++)
    f.run.totals[i].disabled = !pass_table[i].required && strcmp(pass_table[i].name, "cse") != 0;
  ck_assert_int_eq(pass_run_all(&f.run), REED_OK);
  hunt h = {.d = &damages[_i]};
  ck_assert_int_eq(ir_walk(f.m->main, true, hurt, &h), REED_OK);
  ck_assert_int_gt(h.next, h.d->k);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_changes(&f, "paste_masks"), 0);
  ck_assert_int_eq(front_count(&f, OP_PasteMasks), 0);
  front_fini(&f);
}
END_TEST

START_TEST(rewrites_can_be_left_out) {
  front f;
  read_example(&f);
  front_passes(&f, "roi_levels");
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_RoiAlign), 8);
  ck_assert_int_eq(front_count(&f, OP_MultiLevelRoiAlign), 0);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rewrites of the example");
  TCase *t = tcase_create("rewrites");
  tcase_add_test(t, both_pools_of_the_example_become_one_roi_align_each);
  tcase_add_test(t, both_selections_of_the_example_lose_their_guards);
  tcase_add_test(t, both_selections_of_the_example_know_classes);
  tcase_add_test(t, the_example_finds_no_rows);
  tcase_add_test(t, both_selections_of_the_example_are_limited);
  tcase_add_test(t, the_loop_of_the_example_that_pastes_masks_becomes_one_operator);
  tcase_add_loop_test(t, a_loop_that_only_resembles_mask_pasting_stays, 0, sizeof damages / sizeof *damages);
  tcase_add_test(t, rewrites_can_be_left_out);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
