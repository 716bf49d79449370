/* Kernel cases with counted axes (counted_case.h). */
#include "tests/device/cuda/kernels/counted_case.h"

#include <stdio.h>

#include "ops/bound.h"
#include "shapefuncs/shapefn.h"

enum { MOST_TRIED = 3000 };

/* A search over the inputs' axes. */
typedef struct search {
  kernel_case *c;
  const case_call *made;
  uint64_t random;
  int64_t extent; /* of the counted axes, which have one count; -1: any, each with a count of its own */
  int64_t factor, more;
  int32_t axes[CASE_INPUTS]; /* -1: not counted */
  int n_tried, n_ways;
  counted_case *out; /* the way chosen so far */
} search;

static uint64_t draw(search *s, uint64_t n) {
  s->random = s->random * 6364136223846793005u + 1442695040888963407u;
  return (s->random >> 33) % n;
}

static bool reads(const search *s, int32_t i) { return op_reads_value(s->made->call.op, s->made->call.attrs, i); }

/* The bound of an extent: more counts than the true ones. */
static int64_t bound_of(const search *s, int64_t extent) { return extent + s->factor * s->more; }

/* The call at the bound. False: the shape function refuses the bound. */
static bool describe(const search *s, counted_case *way, reed_shape_output *shapes) {
  const case_call *made = s->made;
  reed_diagnosis unsaid = {0};
  *way = (counted_case){.call = made->call, .reporter = -1};
  way->call.inputs = way->in;
  way->call.outputs = way->out;
  way->call.input_rooms = way->in_rooms;
  way->call.output_rooms = way->out_rooms;
  way->call.reads_counts = true;
  for (int32_t i = 0; i < s->c->n_inputs; i++) {
    way->in[i] = made->in[i];
    way->in_rooms[i] = (reed_room){.axis = -1};
    if (s->axes[i] < 0) continue;
    way->descs[i] = *made->in[i].desc;
    int64_t *extent = &way->descs[i].dims[s->axes[i]];
    way->counts[i] = *extent / s->factor;
    *extent = bound_of(s, *extent);
    way->in[i] = (op_call_input){.desc = &way->descs[i]};
    way->in_rooms[i] = (reed_room){.axis = s->axes[i],
                                   .factor = (uint32_t)s->factor,
                                   .capacity = *extent,
                                   .counted = (uint16_t)(s->extent < 0 ? i + 1 : 1)};
  }
  op_call quiet = way->call;
  quiet.diagnosis = &unsaid;
  return shapefn_call(&quiet, shapes) == REED_OK;
}

/* The extent of a count that follows from the inputs' counts. */
static int64_t follow(const search *s, int32_t axis) {
  reed_desc inputs[CASE_INPUTS];
  const void *values[CASE_INPUTS];
  for (int32_t i = 0; i < s->c->n_inputs; i++) {
    const op_call_input *in = &s->made->in[i];
    inputs[i] = in->desc ? *in->desc : (reed_desc){.dtype = REED_NONE};
    values[i] = reads(s, i) ? in->data : NULL;
  }
  return bound_reported(&(reed_kernel_call){.op = s->made->call.op,
                                            .attrs = s->made->call.attrs,
                                            .n_inputs = s->c->n_inputs,
                                            .n_outputs = s->c->n_outputs,
                                            .inputs = inputs,
                                            .outputs = s->made->out,
                                            .host_values = values},
                        axis);
}

static void wrong(const search *s, int32_t k, const char *text, int64_t said, int64_t is) {
  char counted[128] = "";
  size_t n = 0;
  for (int32_t i = 0; i < s->c->n_inputs; i++)
    if (s->axes[i] >= 0)
      n += (size_t)snprintf(counted + n, sizeof counted - n, " axis %d of input %d", (int)s->axes[i], (int)i);
  case_fail(s->c,
            "with the counted%s, %lld more than the count: %s of output %d is %lld by ops/bound.def and %lld by the "
            "shape function",
            counted, (long long)s->more, text, (int)k, (long long)said, (long long)is);
}

/* Compares the rule's answer with the shapes of output k at the bound and at the true extents. */
static void check(const search *s, const counted_case *way, const bound_outcome *found, int32_t k,
                  const reed_shape_output *at_bound) {
  const reed_shape_output *exact = &s->made->shapes[k];
  const bool own = reed_op_output_at(s->made->call.op, k)->bounded; /* its kernel counts by itself */
  const int32_t axis = own ? at_bound->bounded_axis : found->axis;
  if (at_bound->rank != exact->rank) wrong(s, k, "the rank", at_bound->rank, exact->rank);
  for (int32_t d = 0; d < exact->rank; d++)
    if (d != axis && at_bound->dims[d] != exact->dims[d])
      wrong(s, k, "an extent without a count", at_bound->dims[d], exact->dims[d]);
  if (own || axis < 0) return;
  const int64_t count = found->input < 0 ? 0 : way->counts[found->input];
  const int64_t said = found->input < 0 ? follow(s, axis) : count * found->factor;
  if (said != exact->dims[axis]) wrong(s, k, "the counted extent", said, exact->dims[axis]);
  if (found->input < 0) return;
  const int64_t bound = said + s->more * (int64_t)found->factor;
  if (bound != at_bound->dims[axis]) wrong(s, k, "the bound", bound, at_bound->dims[axis]);
}

/* True if output k has the same number along the counted axis at the bound and at the true extents: the bound is that
 * number by chance. The compiler tells it from the count by the count's symbol, and does not leave such a count on the
 * device. */
static bool is_chance(const search *s, const bound_outcome *found, int32_t k, const reed_shape_output *at_bound) {
  const reed_shape_output *exact = &s->made->shapes[k];
  return found->axis >= 0 && found->input >= 0 && !reed_op_output_at(s->made->call.op, k)->bounded &&
         exact->rank == at_bound->rank && found->axis < exact->rank &&
         exact->dims[found->axis] == at_bound->dims[found->axis];
}

/* Gives the outputs their extents at the bound, and their rooms. */
static void give_rooms(const search *s, counted_case *way, const bound_outcome *found,
                       const reed_shape_output *shapes) {
  for (int32_t k = 0; k < s->c->n_outputs; k++) {
    way->out_rooms[k] = (reed_room){.axis = -1};
    if (s->c->unwanted[k]) continue;
    way->out[k] = shapefn_desc(&shapes[k]);
    if (found->axis < 0 || reed_op_output_at(s->made->call.op, k)->bounded) continue;
    const reed_room *given = found->input < 0 ? NULL : &way->in_rooms[found->input];
    const bool same = given && given->factor == found->factor;
    way->out_rooms[k] = (reed_room){.axis = found->axis,
                                    .factor = found->factor,
                                    .capacity = shapes[k].dims[found->axis],
                                    .counted = same ? given->counted : CASE_INPUTS + 1};
    if (given || way->reporter >= 0) continue;
    way->reporter = k;
    way->reported = s->made->shapes[k].dims[found->axis];
  }
}

static void try_axes(search *s) {
  counted_case way;
  reed_shape_output shapes[CASE_OUTPUTS];
  bound_operand operands[CASE_INPUTS];
  const op_call *call = &s->made->call;
  if (s->n_tried++ >= MOST_TRIED || !describe(s, &way, shapes)) return;
  for (int32_t i = 0; i < s->c->n_inputs; i++) {
    const reed_desc *desc = way.in[i].desc;
    operands[i] = (bound_operand){.rank = -1};
    if (!desc) continue;
    operands[i] = (bound_operand){.rank = desc->rank,
                                  .dims = desc->dims,
                                  .counter = way.in_rooms[i].counted,
                                  .factor = way.in_rooms[i].factor,
                                  .axis = way.in_rooms[i].axis,
                                  .values = reads(s, i) ? way.in[i].data : NULL,
                                  .n_values = desc_elements(desc),
                                  .dtype = desc->dtype};
  }
  const bound_operand output = {.rank = shapes[0].rank, .dims = shapes[0].dims, .axis = shapes[0].bounded_axis};
  const bound_outcome found = bound_apply(call->op, call->attrs, operands, s->c->n_inputs, &output, NULL);
  if (found.axis < 0 && !found.exact) return;
  for (int32_t k = 0; k < s->c->n_outputs; k++)
    if (is_chance(s, &found, k, &shapes[k])) return;
  for (int32_t k = 0; k < s->c->n_outputs; k++) check(s, &way, &found, k, &shapes[k]);
  give_rooms(s, &way, &found, shapes);
  if (draw(s, (uint64_t)++s->n_ways)) return;
  *s->out = way; /* its pointers into itself are set by the caller */
}

static void choose(search *s, int32_t i, bool any) {
  if (i == s->c->n_inputs) {
    if (any) try_axes(s);
    return;
  }
  const reed_desc *desc = s->made->in[i].desc;
  s->axes[i] = -1;
  choose(s, i + 1, any);
  if (!desc || reads(s, i) || !bound_may_pass(s->made->call.op, i)) return;
  for (int32_t axis = 0; axis < desc->rank; axis++) {
    const int64_t extent = desc->dims[axis];
    if (s->extent >= 0 ? extent != s->extent : extent % s->factor != 0) continue;
    s->axes[i] = axis;
    choose(s, i + 1, true);
  }
  s->axes[i] = -1;
}

/* Tries each extent of an input as the count of all axes that have it. */
static void choose_one_count(search *s) {
  for (int32_t i = 0; i < s->c->n_inputs; i++) {
    const reed_desc *desc = s->made->in[i].desc;
    for (int32_t d = 0; desc && d < desc->rank; d++) {
      bool seen = false;
      for (int32_t k = 0; k <= i; k++)
        for (int32_t e = 0; s->made->in[k].desc && e < (k < i ? s->made->in[k].desc->rank : d); e++)
          seen |= s->made->in[k].desc->dims[e] == desc->dims[d];
      s->extent = desc->dims[d];
      if (!seen && s->extent % s->factor == 0) choose(s, 0, false);
    }
  }
}

bool counted_case_make(kernel_case *c, const case_call *made, uint64_t choice, counted_case *out) {
  search s = {.c = c, .made = made, .random = choice, .out = out};
  const op_call *call = &made->call;
  if (!bound_has_outputs(call->op, call->n_outputs)) return false;
  s.more = 2 + (int64_t)draw(&s, 6); /* a bound of 1 could be any axis */
  for (s.factor = draw(&s, 3) ? 1 : 2; s.factor > 0 && !s.n_ways; s.factor--) {
    choose_one_count(&s);
    s.extent = -1;
    if (bound_allows_counts(call->op)) choose(&s, 0, false);
  }
  if (!s.n_ways) return false;
  out->call.inputs = out->in;
  out->call.outputs = out->out;
  out->call.input_rooms = out->in_rooms;
  out->call.output_rooms = out->out_rooms;
  for (int32_t i = 0; i < c->n_inputs; i++)
    if (out->in_rooms[i].axis >= 0) out->in[i].desc = &out->descs[i];
  return true;
}
