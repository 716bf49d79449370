/* Every row of op.def, each by the same cases, which are made from the row: names, operands, attributes, kernels on
 * every device, shape function, properties and aliasing. A new row needs no edit here. Facts of ONNX beside the table,
 * custom operators: test_registry.c; values of attributes: test_attrs.c. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "device/device.h"
#include "ops/capability.h"
#include "ops/kernel.h"
#include "reed/device.h"
#include "shapefuncs/shapefn.h"
#include "shapefuncs/table.h"
#include "tests/suite.h"

enum { MOST = 16, N_RANDOM_CALLS = 300 };

/* The rows a second time, expanded from op.def as they are spelled there. */
static const struct {
  const char *name, *shape, *kernel, *class, *alias;
} spelled[] = {
#define OP(name, shape, kernel, class, alias, ...) {#name, #shape, #kernel, #class, #alias},
#include "ops/op.def"
};

static const char *const aliases[] = {[REED_ALIAS_NONE] = "NONE",
                                      [REED_ALIAS_INPLACE] = "INPLACE",
                                      [REED_ALIAS_INPLACE_FIRST] = "INPLACE_FIRST",
                                      [REED_ALIAS_VIEW] = "VIEW",
                                      [REED_ALIAS_JOIN] = "JOIN",
                                      [REED_ALIAS_PART] = "PART",
                                      [REED_ALIAS_INPLACE_LAST] = "INPLACE_LAST"};

START_TEST(a_row_is_found_by_its_name_and_is_what_the_table_spells) {
  const reed_op *op = op_builtin((op_id)_i);
  ck_assert_str_eq(op->name, spelled[_i].name);
  bool vision = op_has(op, OP_PROPERTY_TORCHVISION);
  ck_assert_str_eq(op->domain, vision ? "torchvision" : "");
  ck_assert_ptr_eq(op_find(NULL, "", op->name), vision ? NULL : op);
  ck_assert_ptr_eq(op_find(NULL, "ai.onnx", op->name), vision ? NULL : op);
  ck_assert_ptr_eq(op_find(NULL, "torchvision", op->name), vision ? op : NULL);
  ck_assert_ptr_null(op_find(NULL, "example", op->name));
  ck_assert_int_eq(op_id_of(op), _i);
  for (int id = 0; id < OP_COUNT; id++) ck_assert(id == _i || strcmp(op_builtin((op_id)id)->name, op->name) != 0);
  ck_assert_str_eq(aliases[op->alias], spelled[_i].alias);
  ck_assert_int_eq(op->light, strcmp(spelled[_i].class, "LIGHT") == 0);
  ck_assert_int_eq(op_is_control(op), strcmp(spelled[_i].class, "CONTROL") == 0);
  ck_assert_int_eq(op_is_control(op), strcmp(spelled[_i].shape, "none") == 0);
  ck_assert_int_eq(op_is_control(op), strcmp(spelled[_i].kernel, "none") == 0);
  ck_assert_int_eq(op_is_control(op), shapefn_of(op) == NULL);
  ck_assert_int_ge(op->n_outputs, 1);
  for (int32_t i = 0; i < op->n_inputs; i++) {
    const reed_op_input *in = &op->inputs[i];
    ck_assert(in->name[0] && in->dtypes != 0);
    ck_assert(!in->variadic || i == op->n_inputs - 1);
    ck_assert(!in->same_type || (in->dtypes & op->inputs[0].dtypes));
  }
  for (int32_t i = 0; i < op->n_outputs; i++)
    ck_assert(op->outputs[i].type_rule != REED_TYPE_LIKE || op->outputs[i].type_arg < op->n_inputs);
}
END_TEST

/* ---- calls against the row ---- */

typedef struct row_call {
  const reed_op *op;
  reed_dtype dtypes[MOST];
  int32_t n_inputs;
  reed_attr attrs[MOST * 2];
  int32_t n_attrs;
} row_call;

static reed_dtype allowed(reed_dtype_set set) {
  for (reed_dtype d = REED_F32; d < REED_DTYPE_COUNT; d++)
    if (set >> d & 1) return d;
  return REED_NONE;
}

/* All inputs and the required attributes. */
static row_call whole_call(const reed_op *op) {
  row_call c = {.op = op, .n_inputs = op->n_inputs};
  for (int32_t i = 0; i < op->n_inputs; i++)
    c.dtypes[i] = op->inputs[i].same_type && i > 0 ? c.dtypes[0] : allowed(op->inputs[i].dtypes);
  for (int32_t i = 0; i < op->n_attrs; i++)
    if (op->attrs[i].required)
      c.attrs[c.n_attrs++] = (reed_attr){.name = op->attrs[i].name, .type = op->attrs[i].type, .s = "", .ints = NULL};
  return c;
}

static reed_status check(const row_call *c, int32_t n_outputs, const char *says) {
  reed_diagnosis d = {0};
  reed_attrs attrs = {c->attrs, c->n_attrs};
  reed_status status = shapefn_check_call(c->op, &attrs, "n", c->n_inputs, c->dtypes, n_outputs, &d);
  if (!strstr(reed_diagnosis_message(&d), says) || (*says == '\0') != (status == REED_OK))
    ck_abort_msg("%s: %s '%s', expected is '%s'", c->op->name, reed_status_name(status), reed_diagnosis_message(&d),
                 says);
  return status;
}

START_TEST(a_call_is_checked_against_its_row) {
  const reed_op *op = op_builtin((op_id)_i);
  char text[256];
  row_call c = whole_call(op);
  bool many = op->n_inputs && op->inputs[op->n_inputs - 1].variadic, many_out = op->outputs[op->n_outputs - 1].variadic;
  check(&c, op->n_outputs, "");
  snprintf(text, sizeof text, "%s node 'n': has 0 outputs", op->name);
  check(&c, 0, op->outputs[0].optional ? "" : text);
  snprintf(text, sizeof text, "has %d outputs, at most %d", op->n_outputs + 1, op->n_outputs);
  check(&c, op->n_outputs + 1, many_out ? "" : text);
  row_call more = c;
  more.dtypes[more.n_inputs++] = op->n_inputs ? c.dtypes[op->n_inputs - 1] : REED_F32;
  snprintf(text, sizeof text, "has %d inputs, at most %d", op->n_inputs + 1, op->n_inputs);
  check(&more, op->n_outputs, many ? "" : text);
  for (int32_t i = 0; i < op->n_inputs; i++) {
    row_call without = c, wrong = c;
    without.dtypes[i] = REED_NONE;
    if (i == 0) /* input 0 is absent, so an input with the dtype of input 0 is refused, too */
      for (int32_t k = 1; k < op->n_inputs; k++)
        if (op->inputs[k].same_type && op->inputs[k].optional) without.dtypes[k] = REED_NONE;
    snprintf(text, sizeof text, "input %d (%s", i, op->inputs[i].name);
    if (op->inputs[i].optional) check(&without, op->n_outputs, "");
    else check(&without, op->n_outputs, text);
    for (reed_dtype d = REED_F32; d < REED_DTYPE_COUNT; d++) {
      bool fits = (op->inputs[i].dtypes >> d & 1) && (!op->inputs[i].same_type || i == 0 || d == c.dtypes[0]);
      if (fits) continue;
      wrong.dtypes[i] = d;
      check(&wrong, op->n_outputs, text);
    }
  }
}
END_TEST

static bool same_value(const reed_attr *a, const reed_attr *b) {
  if (a->type != b->type) return false;
  switch (a->type) {
    case REED_ATTR_INT: return a->i == b->i;
    case REED_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case REED_ATTR_STRING: return strcmp(a->s, b->s) == 0;
    default: return a->n == b->n;
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const reed_attr *)a)->name, ((const reed_attr *)b)->name);
}

START_TEST(attributes_are_as_their_row_says) {
  const reed_op *op = op_builtin((op_id)_i);
  char text[256];
  row_call c = whole_call(op);
  reed_attr given[MOST * 2], items[MOST * 4], spelled_items[MOST * 4];
  ck_assert_int_lt(op->n_attrs, MOST * 2);
  row_call unknown = c;
  unknown.attrs[unknown.n_attrs++] = (reed_attr){.name = "~no_such", .type = REED_ATTR_INT};
  check(&unknown, op->n_outputs, "attribute '~no_such' is not known");
  int32_t n_given = 0, n_defaults = 0;
  for (int32_t i = 0; i < op->n_attrs; i++) {
    const reed_op_attr *row = &op->attrs[i];
    ck_assert_ptr_eq(op_attr_row(op, row->name), row);
    ck_assert(!(row->required && row->otherwise));
    row_call other = c;
    int32_t at = 0;
    while (at < other.n_attrs && strcmp(other.attrs[at].name, row->name) != 0) at++;
    if (row->required) {
      row_call without = c;
      memmove(&without.attrs[at], &without.attrs[at + 1], (size_t)(--without.n_attrs - at) * sizeof *without.attrs);
      snprintf(text, sizeof text, "attribute '%s' is missing", row->name);
      check(&without, op->n_outputs, text);
    } else {
      other.n_attrs++;
    }
    other.attrs[at] =
        (reed_attr){.name = row->name, .type = row->type == REED_ATTR_INT ? REED_ATTR_STRING : REED_ATTR_INT, .s = ""};
    snprintf(text, sizeof text, "attribute '%s' is a", row->name);
    check(&other, op->n_outputs, text);
    given[n_given] = row->otherwise ? *row->otherwise : (reed_attr){.s = ""};
    given[n_given].name = row->name;
    given[n_given].type = row->type;
    if (row->otherwise) ck_assert_msg(op_attr_is_default(op, &given[n_given]), "%s %s", op->name, row->name);
    n_defaults += row->otherwise != NULL;
    n_given += row->otherwise || row->required;
  }
  qsort(given, (size_t)n_given, sizeof *given, by_name);
  /* leaving out and spelling a value are one list, sorted by name */
  reed_attrs none = op_attrs_complete(op, &(reed_attrs){c.attrs, c.n_attrs}, items);
  reed_attrs all = op_attrs_complete(op, &(reed_attrs){given, n_given}, spelled_items);
  ck_assert_int_eq(none.n, c.n_attrs + n_defaults);
  ck_assert_int_eq(all.n, none.n);
  for (int64_t i = 0; i < none.n; i++) {
    ck_assert_str_eq(none.items[i].name, all.items[i].name);
    ck_assert(same_value(&none.items[i], &all.items[i]));
    ck_assert(i == 0 || strcmp(none.items[i - 1].name, none.items[i].name) < 0);
  }
}
END_TEST

START_TEST(every_device_has_the_kernel_that_it_claims) {
  const reed_op *op = op_builtin((op_id)_i);
  ck_assert_int_eq(kernel_cpu(op) == NULL, op_is_control(op));
  reed_device_info kind;
  for (size_t i = 0; reed_device_kind(i, &kind); i++) {
    device *dev = NULL;
    reed_diagnosis d = {0};
    capability *target = NULL;
    if (device_open(kind.name, &dev, &d) != REED_OK) {
      ck_assert_msg(strcmp(kind.name, "host") != 0 && strcmp(kind.name, "sim") != 0, "%s", reed_diagnosis_message(&d));
      continue;
    }
    ck_assert_int_eq(capability_open(dev->interface->target(dev), NULL, &target, &d), REED_OK);
    bool claimed = !op_is_control(op) && capability_has(target, &(capability_call){.op = op});
    if (claimed) ck_assert_msg(dev->interface->kernel(dev, op) != NULL, "%s has no kernel for %s", kind.name, op->name);
    capability_close(&target);
    device_close(&dev);
  }
}
END_TEST

/* ---- the shape function ---- */

static uint64_t state;

static int64_t below(int64_t n) { /* xorshift64 (Marsaglia 2003) */
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (int64_t)(state >> 11) % n;
}

typedef struct shape_case {
  reed_shape_input inputs[MOST];
  reed_dim dims[MOST][REED_MAX_RANK];
  int64_t values[MOST][4];
  int64_t ints[MOST * 2][4];
  char words[MOST * 2][32];
} shape_case;

/* A call of small tensors, many of one shape, with small values; attributes that are required, and sometimes others. */
static void random_call(row_call *c, shape_case *s) {
  const reed_op *op = c->op;
  int32_t rank = (int32_t)below(5), most = op->n_inputs;
  int64_t common[REED_MAX_RANK];
  for (int d = 0; d < REED_MAX_RANK; d++) common[d] = 1 + below(4);
  if (most && op->inputs[most - 1].variadic) most += (int32_t)below(3);
  c->n_inputs = 0;
  for (int32_t i = 0; i < most; i++) {
    const reed_op_input *in = reed_op_input_at(op, i);
    reed_shape_input *made = &s->inputs[c->n_inputs++];
    *made = (reed_shape_input){.dtype = in->same_type && i > 0 ? s->inputs[0].dtype : allowed(in->dtypes),
                               .dims = s->dims[i]};
    if (in->optional && below(2)) made->dtype = REED_NONE;
    made->rank = below(4) ? rank : (int32_t)below(5);
    for (int32_t d = 0; d < made->rank; d++) s->dims[i][d] = below(5) ? common[d] : 1 + below(4);
    if (!(in->reads & REED_READS_VALUE)) continue;
    made->rank = below(5) != 0;
    made->n_values = made->rank ? below(4) : 1;
    s->dims[i][0] = made->n_values;
    if (in->dtypes >> REED_I64 & 1) made->dtype = made->dtype == REED_NONE ? REED_NONE : REED_I64;
    for (int64_t k = 0; k < 4; k++) s->values[i][k] = below(4) ? 1 + below(3) : -below(3);
    made->data = s->values[i];
  }
  for (int32_t i = 0; i < c->n_attrs; i++) {
    c->attrs[i].i = below(4) - 1;
    c->attrs[i].ints = s->ints[i];
    c->attrs[i].n = c->attrs[i].type == REED_ATTR_INTS ? below(4) : 0;
    for (int k = 0; k < 4; k++) s->ints[i][k] = 1 + below(2);
    /* the attribute becomes the first valid word or, once in eight calls, the empty text */
    const char *words = op_attr_row(op, c->attrs[i].name)->words;
    if (words && below(8)) snprintf(s->words[i], sizeof s->words[i], "%.*s", (int)strcspn(words, " "), words);
    else s->words[i][0] = 0;
    c->attrs[i].s = s->words[i];
  }
}

static reed_status run_shapes(const row_call *c, const shape_case *s, reed_shape_output *out) {
  reed_attr items[MOST * 4];
  reed_attrs attrs = op_attrs_complete(c->op, &(reed_attrs){c->attrs, c->n_attrs}, items);
  reed_diagnosis d = {0};
  memset(out, 0, MOST * sizeof *out);
  return shapefn_run(c->op, &attrs, "n", c->n_inputs, s->inputs, c->op->n_outputs, out, NULL, &d);
}

static int64_t elements(int32_t rank, const reed_dim *dims) {
  int64_t n = 1;
  for (int32_t i = 0; i < rank; i++) n *= dims[i];
  return n;
}

/* True if the extents are those of all inputs whose shape is read, broadcast together. */
static bool is_broadcast(const row_call *c, const shape_case *s, const reed_shape_output *out) {
  int32_t rank = 0;
  for (int32_t i = 0; i < c->n_inputs; i++) {
    const reed_shape_input *in = &s->inputs[i];
    if (in->dtype == REED_NONE || reed_op_input_at(c->op, i)->reads != REED_READS_SHAPE) continue;
    if (in->rank > rank) rank = in->rank;
  }
  if (out->rank != rank) return false;
  for (int32_t d = 0; d < rank; d++) {
    int64_t extent = 1;
    for (int32_t i = 0; i < c->n_inputs; i++) {
      const reed_shape_input *in = &s->inputs[i];
      if (in->dtype == REED_NONE || reed_op_input_at(c->op, i)->reads != REED_READS_SHAPE) continue;
      int32_t at = d - (rank - in->rank);
      if (at >= 0 && in->dims[at] != 1) extent = in->dims[at];
    }
    if (out->dims[d] != extent) return false;
  }
  return true;
}

/* Claims of a row about shapes, over random calls that the shape function accepts: flags, exact extents, aliasing,
 * element-wise. */
START_TEST(claims_about_shapes_hold) {
  const reed_op *op = op_builtin((op_id)_i);
  int n_accepted = 0;
  state = (uint64_t)_i * 0x9e3779b97f4a7c15u + 77;
  for (int round = 0; round < N_RANDOM_CALLS && !op_is_control(op); round++) {
    row_call c = whole_call(op);
    shape_case s;
    reed_shape_output out[MOST], other[MOST];
    random_call(&c, &s);
    if (run_shapes(&c, &s, out) != REED_OK) continue;
    n_accepted++;
    for (int32_t k = 0; k < op->n_outputs && !op->outputs[k].variadic; k++)
      ck_assert_msg(out[k].bounded_axis < 0 || op->outputs[k].bounded, "%s output %d is not exact", op->name, k);
    for (int32_t i = 0; i < c.n_inputs; i++) { /* an input of which nothing is read may have any shape */
      if (s.inputs[i].dtype == REED_NONE || reed_op_input_at(op, i)->reads != REED_READS_NONE) continue;
      s.inputs[i].rank = (int32_t)below(5);
      for (int32_t d = 0; d < 5; d++) s.dims[i][d] = below(9);
      ck_assert_msg(run_shapes(&c, &s, other) == REED_OK, "%s reads the shape of input %d", op->name, i);
      for (int32_t k = 0; k < op->n_outputs; k++)
        ck_assert_msg(out[k].rank == other[k].rank &&
                          memcmp(out[k].dims, other[k].dims, sizeof(reed_dim) * (size_t)out[k].rank) == 0,
                      "%s reads the shape of input %d", op->name, i);
    }
    if (op_has(op, OP_PROPERTY_FUSABLE))
      ck_assert_msg(is_broadcast(&c, &s, &out[0]), "%s is fusable and not element-wise", op->name);
    int64_t n = elements(out[0].rank, out[0].dims), joined = 0;
    for (int32_t i = 0; i < c.n_inputs; i++)
      joined += s.inputs[i].dtype == REED_NONE ? 0 : elements(s.inputs[i].rank, s.inputs[i].dims);
    int64_t first = c.n_inputs && s.inputs[0].dtype != REED_NONE ? elements(s.inputs[0].rank, s.inputs[0].dims) : 0;
    if (op->alias == REED_ALIAS_VIEW) ck_assert_msg(n == first, "%s is a view of other elements", op->name);
    if (op->alias == REED_ALIAS_JOIN) ck_assert_msg(n == joined, "%s joins other elements", op->name);
  }
  if (op_has(op, OP_PROPERTY_FUSABLE)) ck_assert_msg(n_accepted > 5, "%s: %d calls accepted", op->name, n_accepted);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rows of op.def");
  TCase *t = tcase_create("rows");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, a_row_is_found_by_its_name_and_is_what_the_table_spells, 0, OP_COUNT);
  tcase_add_loop_test(t, a_call_is_checked_against_its_row, 0, OP_COUNT);
  tcase_add_loop_test(t, attributes_are_as_their_row_says, 0, OP_COUNT);
  tcase_add_loop_test(t, every_device_has_the_kernel_that_it_claims, 0, OP_COUNT);
  tcase_add_loop_test(t, claims_about_shapes_hold, 0, OP_COUNT);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
