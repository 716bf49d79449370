/* Cases of kernels (kernel_case.h): inputs, runs on the host at every level, comparisons. Runs on other devices:
 * device_case.c; cases that fail: case_log.c; tolerances: case_tolerance.c. */
#include "tests/ops/cpu/case_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/cpu/common/cpu.h"
#include "ops/fault.h"
#include "base/strides.h"
#include "base/text.h"
#include "ops/packed.h"
#include "shapefuncs/shapefn.h"

#define BAND 64 /* bytes before and behind every tensor */
#define BAND_BYTE 0xa5

/* Memory without bands for an input of a case that is skipped: it is not filled, so its pages are never touched. */
static value value_unfilled(const reed_desc *desc) {
  size_t bytes = (size_t)desc_bytes(desc);
  value v = {.desc = *desc, .block = calloc(1, bytes + 1)};
  if (!v.block) ck_abort_msg("out of memory");
  v.data = bytes ? v.block : NULL;
  return v;
}

static value value_open(const reed_desc *desc) {
  value v = {.desc = *desc};
  size_t bytes = (size_t)desc_bytes(desc);
  v.block = aligned_alloc(64, (bytes + 2 * BAND + 63) / 64 * 64);
  if (!v.block) ck_abort_msg("out of memory");
  memset(v.block, BAND_BYTE, bytes + 2 * BAND);
  v.data = bytes ? (char *)v.block + BAND : NULL;
  return v;
}

static void value_close(value *v) {
  free(v->block);
  *v = (value){0};
}

/* One assertion a fault: Check writes to a pipe at every one. */
static void check_band(const kernel_case *c, const value *v) {
  if (!v->block) return;
  size_t bytes = (size_t)desc_bytes(&v->desc);
  const uint8_t *p = v->block;
  for (size_t i = 0; i < BAND; i++)
    if (p[i] != BAND_BYTE || p[BAND + bytes + i] != BAND_BYTE)
      case_fail(c, "wrote outside of a tensor, %zu bytes into the band %s it", i,
                p[i] != BAND_BYTE ? "before" : "behind");
}

static void check_bands(const kernel_case *c) {
  for (int32_t i = 0; i < c->n_inputs; i++) check_band(c, &c->inputs[i]);
  for (int32_t i = 0; i < c->n_outputs; i++) check_band(c, &c->outputs[i]);
}

void case_init(kernel_case *c, op_id op) {
  memset(c, 0, sizeof *c);
  c->op = op;
  c->n_outputs = 1;
  c->n_threads = 1;
  c->in_place = c->room_input = -1;
  c->device = "host";
  c->level = "reference";
  case_begin(c);
}

const char *case_where(const kernel_case *c) {
  static char where[2048];
  text_buffer text = {0};
  char operand[128];
  text_append(&text, "%s(", op_builtin(c->op)->name);
  for (int32_t i = 0; i < c->n_inputs; i++)
    text_append(&text, "%s%s", i ? ", " : "",
                c->inputs[i].desc.dtype == REED_NONE ? "none" : desc_text(&c->inputs[i].desc, operand, sizeof operand));
  text_append(&text, ")");
  for (int32_t i = 0; i < c->n_attrs; i++) {
    const reed_attr *a = &c->attrs[i];
    text_append(&text, "%s%s", i ? ", " : " {", a->name);
    if (a->type == REED_ATTR_INT) text_append(&text, "=%lld", (long long)a->i);
    if (a->type == REED_ATTR_FLOAT) text_append(&text, "=%g", a->f);
    if (a->type == REED_ATTR_STRING) text_append(&text, "=%s", a->s);
    for (int64_t k = 0; a->type == REED_ATTR_INTS && k < a->n; k++)
      text_append(&text, "%s%lld", k ? "x" : "=", (long long)a->ints[k]);
  }
  text_append(&text, "%s on %s at %s, %d threads, seed 0x%llx", c->n_attrs ? "}" : "", c->device, c->level,
              c->n_threads, (unsigned long long)c->seed);
  if (c->in_place >= 0) text_append(&text, ", in the place of input %d", c->in_place);
  if (c->parts) text_append(&text, ", parts in place");
  if (c->room_input >= 0) text_append(&text, ", room along axis %d of input %d", c->room_axis, c->room_input);
  snprintf(where, sizeof where, "%s", text.data ? text.data : "no memory");
  text_fini(&text);
  return where;
}

/* A small generator of its own (xorshift64), so that a case is the same on every machine. */
static double next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return (double)(*state >> 11) * 0x1p-53 * 2 - 1;
}

value *case_input(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims, double range) {
  reed_desc desc = {.dtype = dtype, .rank = rank};
  for (int32_t d = 0; d < rank; d++) desc.dims[d] = dims[d];
  value *v = &c->inputs[c->n_inputs++];
  *v = c->skipped ? value_unfilled(&desc) : value_open(&desc);
  int64_t n = c->skipped ? 0 : desc_elements(&desc);
  uint64_t state = c->seed + (uint64_t)c->n_inputs * 0x9e3779b97f4a7c15u;
  bool floats = dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
  for (int64_t i = 0; i < n; i++) {
    double x = next_random(&state) * range;
    case_set(v, i, floats ? x : dtype == REED_BOOL ? x > 0 : round(x));
  }
  return v;
}

value *case_filled(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims, const double *elements) {
  value *v = case_input(c, dtype, rank, dims, 0);
  for (int64_t i = 0; !c->skipped && i < desc_elements(&v->desc); i++) case_set(v, i, elements[i]);
  return v;
}

void case_absent(kernel_case *c) { c->inputs[c->n_inputs++] = (value){0}; }

value *case_ints(kernel_case *c, int32_t n, ...) {
  value *v = case_input(c, REED_I64, 1, &(int64_t){n}, 0);
  va_list arguments;
  va_start(arguments, n);
  for (int32_t i = 0; i < n; i++) ((int64_t *)v->data)[i] = va_arg(arguments, int);
  va_end(arguments);
  return v;
}

value *case_scalar(kernel_case *c, reed_dtype dtype, double x) {
  value *v = case_input(c, dtype, 0, NULL, 0);
  case_set(v, 0, x);
  return v;
}

static reed_attr *add_attr(kernel_case *c, const char *name, reed_attr_type type) {
  int32_t at = c->n_attrs++;
  while (at > 0 && strcmp(c->attrs[at - 1].name, name) > 0) {
    c->attrs[at] = c->attrs[at - 1];
    at--;
  }
  c->attrs[at] = (reed_attr){.name = name, .type = type};
  return &c->attrs[at];
}
void case_attr_int(kernel_case *c, const char *name, int64_t i) { add_attr(c, name, REED_ATTR_INT)->i = i; }
void case_attr_float(kernel_case *c, const char *name, double f) { add_attr(c, name, REED_ATTR_FLOAT)->f = f; }
void case_attr_string(kernel_case *c, const char *name, const char *s) { add_attr(c, name, REED_ATTR_STRING)->s = s; }
void case_attr_ints(kernel_case *c, const char *name, const int64_t *ints, int64_t n) {
  reed_attr *a = add_attr(c, name, REED_ATTR_INTS);
  a->ints = ints;
  a->n = n;
}

void case_attr_floats(kernel_case *c, const char *name, const double *floats, int64_t n) {
  reed_attr *a = add_attr(c, name, REED_ATTR_FLOATS);
  a->floats = floats;
  a->n = n;
}

void case_attr_activation(kernel_case *c, const char *activation) {
  if (!activation) return;
  case_attr_string(c, "activation", activation);
  case_attr_float(c, "activation_alpha", -0.2);
  case_attr_float(c, "activation_beta", 0.7);
}

void case_set(value *v, int64_t i, double x) {
  reed_dtype_write(v->desc.dtype, (char *)v->data + i * (int64_t)reed_dtype_bytes(v->desc.dtype), x);
}
double case_get(const value *v, int64_t i) {
  return reed_dtype_read(v->desc.dtype, (const char *)v->data + i * (int64_t)reed_dtype_bytes(v->desc.dtype));
}

void case_open_output(kernel_case *c, int32_t i, const reed_desc *desc) {
  value_close(&c->outputs[i]);
  c->outputs[i] = value_open(desc);
}

reed_status case_call_init(kernel_case *c, const char *level, case_call *out) {
  const reed_op *op = op_builtin(c->op);
  const reed_attrs given = {c->attrs, c->n_attrs};
  cpu_level_use(level);
  c->level = level;
  case_note(c);
  reed_diagnosis_clear(&c->diagnosis);
  memset(out, 0, sizeof *out);
  out->attrs = op_attrs_complete(op, &given, out->completed);
  for (int32_t i = 0; i < c->n_inputs; i++)
    if (c->inputs[i].desc.dtype != REED_NONE)
      out->in[i] = (op_call_input){&c->inputs[i].desc, c->inputs[i].data, !c->hide_values};
  out->env = (reed_kernel_env){.n_threads = c->n_threads, .cancel = &out->cancel};
  out->call = (op_call){.op = op,
                        .attrs = &out->attrs,
                        .node = "node",
                        .n_inputs = c->n_inputs,
                        .n_outputs = c->n_outputs,
                        .inputs = out->in,
                        .outputs = out->out,
                        .env = &out->env,
                        .diagnosis = &c->diagnosis};
  reed_status status = shapefn_call(&out->call, out->shapes);
  if (!status && !c->hide_values) ck_assert_int_eq(kernel_cache_open(&out->env.cache), REED_OK);
  if (strcmp(level, "reference") != 0) status = case_facts_init(c, out, status);
  if (status) {
    case_call_fini(out);
    return status;
  }
  for (int32_t i = 0; i < c->n_outputs; i++)
    if (!c->unwanted[i]) out->out[i] = shapefn_desc(&out->shapes[i]);
  return REED_OK;
}

bool case_call_listed(const case_call *made, const capability *list, bool counted) {
  reed_dtype dtypes[CASE_INPUTS + CASE_OUTPUTS];
  const op_call *call = &made->call;
  for (int32_t i = 0; i < call->n_inputs; i++)
    dtypes[i] = call->inputs[i].desc ? call->inputs[i].desc->dtype : REED_NONE;
  for (int32_t i = 0; i < call->n_outputs; i++) dtypes[call->n_inputs + i] = made->out[i].dtype;
  const capability_call asked = {.op = call->op,
                                 .attrs = call->attrs,
                                 .dtypes = dtypes,
                                 .n_inputs = call->n_inputs,
                                 .n_dtypes = call->n_inputs + call->n_outputs};
  return capability_has(list, &asked) && (!counted || capability_reads_counts(list, &asked));
}

int64_t case_elements(const kernel_case *c, const case_call *made) {
  int64_t n = 0;
  for (int32_t i = 0; i < c->n_inputs; i++)
    n += c->inputs[i].desc.dtype == REED_NONE ? 0 : desc_elements(&c->inputs[i].desc);
  for (int32_t i = 0; i < c->n_outputs; i++) n += c->unwanted[i] ? 0 : desc_elements(&made->out[i]);
  return n;
}

void case_take_extents(kernel_case *c, const case_call *made) {
  for (int32_t i = 0; i < c->n_outputs; i++) {
    int32_t axis = c->unwanted[i] ? -1 : made->shapes[i].bounded_axis;
    if (axis < 0) continue;
    if (!(c->extents[i] >= 0 && c->extents[i] <= c->outputs[i].desc.dims[axis]))
      case_fail(c, "extent %lld", (long long)c->extents[i]);
    c->outputs[i].desc.dims[axis] = c->extents[i];
  }
}

/* Tells the kernel of the room of one input, and gives it that input's elements in such memory, between elements of
 * all bits set. */
static value open_room(const kernel_case *c, case_call *made, const void **data) {
  value v = {0};
  if (c->room_input < 0) return v;
  const value *from = &c->inputs[c->room_input];
  int64_t dense[REED_MAX_RANK], strides[REED_MAX_RANK];
  reed_desc memory = from->desc;
  for (int32_t i = 0; i < c->n_inputs; i++) made->rooms[i] = (reed_room){.axis = -1};
  memory.dims[c->room_axis] += ROOM_MORE;
  made->rooms[c->room_input] = (reed_room){.axis = c->room_axis, .capacity = memory.dims[c->room_axis]};
  made->call.input_rooms = made->rooms;
  made->in[c->room_input] = (op_call_input){.desc = &from->desc}; /* no constant */
  v = value_open(&memory);
  memset(v.data, 0xff, (size_t)desc_bytes(&memory));
  strides_of(&from->desc, -1, 0, dense);
  strides_of(&memory, -1, 0, strides);
  strides_copy(&from->desc, v.data, strides, from->data, dense);
  data[c->room_input] = v.data;
  return v;
}

/* Runs on the host, once cancelled from its beginning (the reference, which is slow and seldom polls, is not) and once
 * to its end. */
reed_status case_run(kernel_case *c, const char *level) {
  case_call made;
  const void *data[CASE_INPUTS] = {0};
  void *results[CASE_OUTPUTS] = {0};
  reed_kernel kernel;
  c->device = "host";
  reed_status status = case_call_init(c, level, &made);
  if (status) return status;
  const reed_op *op = made.call.op;
  made.call.prepare = kernel_cpu(op);
  for (int32_t i = 0; i < c->n_inputs; i++) data[i] = c->inputs[i].data;
  value room = open_room(c, &made, data);
  status = case_prepare(c, &made, strcmp(level, "reference") == 0, &kernel);
  if (status) {
    value_close(&room);
    case_call_fini(&made);
    return status;
  }
  for (int32_t i = 0; i < c->n_outputs; i++) {
    value_close(&c->outputs[i]);
    if (c->unwanted[i]) continue;
    c->outputs[i] = value_open(&made.out[i]);
    results[i] = c->outputs[i].data;
  }
  const int in_place = kernel.apart ? -1 : c->in_place;
  if (in_place >= 0) {
    ck_assert_int_eq(desc_bytes(&c->inputs[in_place].desc), desc_bytes(&made.out[0]));
    if (results[0]) memcpy(results[0], data[in_place], (size_t)desc_bytes(&made.out[0]));
    data[in_place] = results[0];
    c->n_in_place++;
  }
  for (int32_t i = 0; i < c->n_outputs && c->parts && kernel.part_at; i++)
    if (results[i] && kernel.part_at[i] >= 0) results[i] = (char *)c->inputs[0].data + kernel.part_at[i], c->n_parts++;
  void *workspace = kernel.workspace_bytes ? aligned_alloc(64, (size_t)(kernel.workspace_bytes + 63) / 64 * 64) : NULL;
  reed_fault fault = {0};
  reed_kernel_buffers buffers = {
      .inputs = data, .outputs = results, .workspace = workspace, .extents = c->extents, .fault = &fault};
  if (workspace) memset(workspace, BAND_BYTE, (size_t)kernel.workspace_bytes);
  /* a cancelled kernel may leave anything in the outputs, but writes nothing elsewhere */
  if (strcmp(level, "reference") != 0) {
    made.cancel = true;
    status = kernel.run(kernel.state, &buffers);
    if (!(status == REED_OK || status == REED_ERROR_CANCELLED || fault.code))
      case_fail(c, "cancelled: %s", reed_status_name(status));
    check_bands(c);
    made.cancel = false;
    fault = (reed_fault){0};
  }
  if (in_place >= 0 && results[0]) memcpy(results[0], c->inputs[in_place].data, (size_t)desc_bytes(&made.out[0]));
  memset(c->extents, 0xff, sizeof c->extents);
  status = kernel.run(kernel.state, &buffers);
  if (!(status == (fault.code ? fault_say(&fault, &made.call) : REED_OK))) case_fail(c, "%s", reed_status_name(status));
  for (int32_t i = 0; i < c->n_outputs && c->parts; i++)
    if (results[i] != c->outputs[i].data) memcpy(c->outputs[i].data, results[i], (size_t)desc_bytes(&made.out[i]));
  if (kernel.free) kernel.free(kernel.state);
  case_call_fini(&made);
  free(workspace);
  check_bands(c);
  check_band(c, &room);
  value_close(&room);
  if (status == REED_OK) case_take_extents(c, &made);
  return status;
}

static bool close_enough(double a, double b, double relative, double absolute) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b || fabs(a - b) <= relative * fabs(b) + absolute;
}

static void compare(const kernel_case *c, const value *expected, double relative, double absolute) {
  for (int32_t o = 0; o < c->n_outputs; o++) {
    const value *got = &c->outputs[o];
    char text[2][128];
    if (c->unwanted[o]) continue;
    if (!desc_equal(&got->desc, &expected[o].desc))
      case_fail(c, "output %d is %s, not %s", o, desc_text(&got->desc, text[0], sizeof text[0]),
                desc_text(&expected[o].desc, text[1], sizeof text[1]));
    for (int64_t i = 0; i < desc_elements(&got->desc); i++) {
      double a = case_get(got, i), b = case_get(&expected[o], i);
      if (!close_enough(a, b, relative, absolute))
        case_fail(c, "output %d element %lld of %s is %.9g, the reference says %.9g", o, (long long)i,
                  desc_text(&got->desc, text[0], sizeof text[0]), a, b);
    }
  }
}

static bool may_share(const kernel_case *c, int32_t i, const reed_desc *out) {
  reed_alias alias = op_builtin(c->op)->alias;
  if (c->inputs[i].desc.dtype != out->dtype || desc_bytes(&c->inputs[i].desc) != desc_bytes(out)) return false;
  return alias == REED_ALIAS_INPLACE || (alias == REED_ALIAS_INPLACE_FIRST && i == 0) ||
         (alias == REED_ALIAS_VIEW && i == 0) ||
         (alias == REED_ALIAS_INPLACE_LAST && i == op_builtin(c->op)->n_inputs - 1);
}

/* [N,C,spatial...] <-> [N,spatial...,C], extents and elements. */
static void move_channels(value *v, bool to_last) {
  reed_desc from = v->desc, to = from;
  int32_t rank = from.rank;
  if (from.dtype == REED_NONE || rank < 3) return;
  for (int32_t i = 1; i < rank; i++)
    to.dims[i] = from.dims[to_last ? (i == rank - 1 ? 1 : i + 1) : (i == 1 ? rank - 1 : i - 1)];
  value moved = value_open(&to);
  int64_t channels = from.dims[to_last ? 1 : rank - 1], n = desc_elements(&from),
          pixels = n ? n / from.dims[0] / channels : 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t image = i / (channels * pixels), channel = to_last ? i / pixels % channels : i % channels;
    int64_t pixel = to_last ? i % pixels : i / channels % pixels;
    int64_t at =
        to_last ? (image * pixels + pixel) * channels + channel : (image * channels + channel) * pixels + pixel;
    case_set(&moved, at, case_get(v, i));
  }
  value_close(v);
  *v = moved;
}

static void must(const kernel_case *c, reed_status status) {
  if (status) case_fail(c, "%s", reed_diagnosis_message(&c->diagnosis));
}

/* Every input with elements in turn lies in memory with room along an axis that is not its first. */
static void compare_with_rooms(kernel_case *c, const value *expected, double relative, double absolute) {
  const reed_op *op = op_builtin(c->op);
  const reed_attrs given = {c->attrs, c->n_attrs};
  for (int i = 0; i < c->n_inputs; i++) {
    const reed_desc *desc = &c->inputs[i].desc;
    bool value = op_reads_value(op, &given, i);
    for (int32_t axis = desc->rank > 2 ? desc->rank - 2 : 1; axis < desc->rank && !value; axis++) {
      if (desc->dtype == REED_NONE || desc_bytes(desc) == 0 || desc_bytes(desc) > 16384) break;
      c->room_input = i;
      c->room_axis = axis;
      must(c, case_run(c, cpu_level_name(cpu_level_best())));
      compare(c, expected, relative, absolute);
    }
  }
  c->room_input = -1;
}

/* Every level, 1 and 2 threads, in place where that is allowed, and every other device, against the expected outputs;
 * with channels last where `last`. */
static void compare_at_levels(kernel_case *c, const value *expected, cpu_level from, bool last, double relative,
                              double absolute) {
  int64_t most_bytes = 0;
  for (int32_t i = 0; i < c->n_inputs; i++)
    if (c->inputs[i].desc.dtype != REED_NONE && desc_bytes(&c->inputs[i].desc) > most_bytes)
      most_bytes = desc_bytes(&c->inputs[i].desc);
  for (cpu_level level = from; level <= cpu_level_best() && !case_devices_only(); level++) {
    for (int threads = 1; threads <= (most_bytes > 16384 ? 2 : 1); threads++)
      for (int in_place = -1; in_place < c->n_inputs; in_place++) {
        if (in_place >= 0 && !may_share(c, in_place, &expected[0].desc)) continue;
        c->in_place = in_place;
        c->n_threads = threads;
        for (int parts = 0; parts <= (op_builtin(c->op)->alias == REED_ALIAS_PART); parts++) {
          c->parts = parts;
          must(c, case_run(c, cpu_level_name(level)));
          for (int32_t i = 0; i < c->n_outputs && last; i++) move_channels(&c->outputs[i], false);
          compare(c, expected, relative, absolute);
        }
      }
  }
  c->in_place = -1;
  c->parts = false;
  c->n_threads = 1;
  if (!last && !c->no_rooms && !case_devices_only()) compare_with_rooms(c, expected, relative, absolute);
  for (const char *const *device = case_devices(); *device; device++) {
    bool has;
    must(c, case_run_on(c, *device, &has));
    for (int32_t i = 0; i < c->n_outputs && has && last; i++) move_channels(&c->outputs[i], false);
    double widened[2] = {relative, absolute};
    case_tolerances_on(c, *device, &widened[0], &widened[1]);
    if (has) compare(c, expected, widened[0], widened[1]);
  }
}

/* Puts the weights of a product in the order that the compiler would; false: the compiler would not pack them. */
static bool pack_weights(kernel_case *c, value *out_plain) {
  const reed_op *op = op_builtin(c->op);
  const reed_attrs given = {c->attrs, c->n_attrs};
  reed_attr completed[CASE_ATTRS_COMPLETE];
  const reed_attrs attrs = op_attrs_complete(op, &given, completed);
  packed_order order;
  if (c->n_inputs < 2 || c->inputs[1].desc.dtype == REED_NONE ||
      !packed_order_of(op, &attrs, &c->inputs[1].desc, &order))
    return false;
  reed_desc desc = packed_desc(&order);
  *out_plain = c->inputs[1];
  c->inputs[1] = value_open(&desc);
  packed_pack(&order, out_plain->data, c->inputs[1].data);
  case_attr_ints(c, PACKED_ATTR, out_plain->desc.dims, out_plain->desc.rank);
  return true;
}

static void drop_attr(kernel_case *c, const char *name) {
  int32_t i = 0;
  while (strcmp(c->attrs[i].name, name) != 0) i++;
  memmove(&c->attrs[i], &c->attrs[i + 1], (size_t)(--c->n_attrs - i) * sizeof *c->attrs);
}

/* Runs with plain weights, then with packed weights if the compiler would pack them. */
static void compare_levels(kernel_case *c, const value *expected, cpu_level from, bool last, double relative,
                           double absolute) {
  compare_at_levels(c, expected, from, last, relative, absolute);
  value plain;
  if (!pack_weights(c, &plain)) return;
  compare_at_levels(c, expected, CPU_REFERENCE, last, relative, absolute);
  drop_attr(c, PACKED_ATTR);
  value_close(&c->inputs[1]);
  c->inputs[1] = plain;
}

typedef struct parity {
  uint32_t images;
  double relative, absolute;
} parity;

/* The outputs of the reference, which the caller closes. */
static void take_reference(kernel_case *c, value *out_expected) {
  must(c, case_run(c, "reference"));
  for (int32_t i = 0; i < c->n_outputs; i++) {
    out_expected[i] = c->outputs[i];
    c->outputs[i] = (value){0};
  }
}

static void run_rooms(kernel_case *c, const void *argument) {
  const parity *p = argument;
  value expected[CASE_OUTPUTS] = {0};
  take_reference(c, expected);
  compare_with_rooms(c, expected, p->relative, p->absolute);
  for (int32_t i = 0; i < c->n_outputs; i++) value_close(&expected[i]);
}

void case_rooms(kernel_case *c, double relative, double absolute) {
  case_guard(c, run_rooms, &(parity){0, relative, absolute});
}

static void run_parity(kernel_case *c, const void *argument) {
  const parity *p = argument;
  uint32_t images = p->images;
  double relative = p->relative, absolute = p->absolute;
  value expected[CASE_OUTPUTS] = {0};
  take_reference(c, expected);
  compare_levels(c, expected, CPU_BASE, false, relative, absolute);
  for (int32_t i = 0; i < c->n_inputs; i++)
    if (images >> i & 1) move_channels(&c->inputs[i], true);
  if (images) {
    case_attr_int(c, "channels_last", 1);
    compare_levels(c, expected, CPU_REFERENCE, true, relative, absolute);
  }
  if (c->wants_in_place && c->n_in_place == 0 && !case_devices_only()) case_fail(c, "output 0 never lay over an input");
  for (int32_t i = 0; i < c->n_outputs; i++) value_close(&expected[i]);
}

void case_parity_orders(kernel_case *c, uint32_t images, double relative, double absolute) {
  case_guard(c, run_parity, &(parity){images, relative, absolute});
}

void case_parity(kernel_case *c, double relative, double absolute) { case_parity_orders(c, 0, relative, absolute); }

typedef struct elements {
  const double *items;
  int64_t n;
} elements;

static void expect_elements(const kernel_case *c, const elements *expected) {
  if (desc_elements(&c->outputs[0].desc) != expected->n)
    case_fail(c, "%lld elements, not %lld", (long long)desc_elements(&c->outputs[0].desc), (long long)expected->n);
  double relative = 1e-6, absolute = 1e-6;
  case_tolerances_on(c, c->device, &relative, &absolute);
  for (int64_t i = 0; i < expected->n; i++) {
    double got = case_get(&c->outputs[0], i);
    if (!close_enough(got, expected->items[i], relative, absolute))
      case_fail(c, "element %lld is %.9g, not %.9g", (long long)i, got, expected->items[i]);
  }
}

static void run_expect(kernel_case *c, const void *argument) {
  for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best() && !case_devices_only(); level++) {
    must(c, case_run(c, cpu_level_name(level)));
    expect_elements(c, argument);
  }
  for (const char *const *device = case_devices(); *device; device++) {
    bool has;
    must(c, case_run_on(c, *device, &has));
    if (has) expect_elements(c, argument);
  }
}

void case_expect(kernel_case *c, const double *expected, int64_t n) {
  case_guard(c, run_expect, &(elements){expected, n});
}

typedef struct failure {
  reed_status status;
  const char *text;
} failure;

static void expect_failure(const kernel_case *c, reed_status status, const failure *expected) {
  const char *said = reed_diagnosis_message(&c->diagnosis);
  if (status != expected->status || !strstr(said, expected->text) ||
      strcmp(reed_diagnosis_node(&c->diagnosis), "node") != 0)
    case_fail(c, "%s, '%s' of node '%s'; expected is %s and '%s'", reed_status_name(status), said,
              reed_diagnosis_node(&c->diagnosis), reed_status_name(expected->status), expected->text);
}

static void run_fails(kernel_case *c, const void *argument) {
  for (cpu_level level = CPU_BASE; level <= cpu_level_best() && !case_devices_only(); level++)
    expect_failure(c, case_run(c, cpu_level_name(level)), argument);
  for (const char *const *device = case_devices(); *device; device++) {
    bool has;
    reed_status status = case_run_on(c, *device, &has);
    if (has) expect_failure(c, status, argument);
  }
}

void case_fails(kernel_case *c, reed_status expected, const char *text) {
  case_guard(c, run_fails, &(failure){expected, text});
}

void case_close(kernel_case *c) {
  for (int32_t i = 0; i < c->n_inputs; i++) value_close(&c->inputs[i]);
  for (int32_t i = 0; i < c->n_outputs; i++) value_close(&c->outputs[i]);
}
