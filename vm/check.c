/* Checks of types at function borders, symbols bound to extents, elements read into scalars, arithmetic on scalars. */
#include "vm/check.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *type_name(const vm_run *run, const module_type *type) {
  const char *name = string_of(run, type->name);
  return name[0] ? name : "value";
}

static void type_text(const vm_run *run, const module_type *type, char *out, size_t capacity) {
  size_t n = (size_t)snprintf(out, capacity, "%s[", type->dtype == REED_NONE ? "any" : reed_dtype_name(type->dtype));
  for (int32_t i = 0; i < type->rank && n < capacity; i++) {
    const char *comma = i ? "," : "";
    if (type->dims[i] >= 0) n += (size_t)snprintf(out + n, capacity - n, "%s%lld", comma, (long long)type->dims[i]);
    else n += (size_t)snprintf(out + n, capacity - n, "%s%s", comma, string_of(run, (uint32_t)~type->dims[i]));
  }
  if (n < capacity) snprintf(out + n, capacity - n, "]");
}

reed_status exec_assert_shape(vm_run *run, const ref *r, const module_type *type) {
  if (type->object) return REED_OK;
  if (r->kind != REF_SHAPED && r->kind != REF_STORED) return not_a_tensor(run, r, "a tensor");
  const reed_desc *desc = &r->t.desc;
  bool ok = (type->dtype == REED_NONE || type->dtype == desc->dtype) && (type->rank < 0 || type->rank == desc->rank);
  for (int32_t i = 0; ok && i < type->rank; i++) ok = type->dims[i] < 0 || type->dims[i] == desc->dims[i];
  if (ok) return REED_OK;
  char want[256], got[256];
  type_text(run, type, want, sizeof want);
  reed_status status = type->dtype != REED_NONE && type->dtype != desc->dtype ? REED_ERROR_TYPE : REED_ERROR_SHAPE;
  status = diag_fail(run->diagnosis, status, "input '%s': expected %s, got %s", type_name(run, type), want,
                     desc_text(desc, got, sizeof got));
  diag_place_node(run->diagnosis, NULL, NULL, type_name(run, type));
  return status;
}

/* Text for a diagnosis, "dim 1 of input 'x'": another parameter of the current function that declares the same symbol
 * and has the extent; symbol NULL: that has the extent at the axis, under any symbol. A general phrase if no parameter
 * does. */
static const char *dim_met_first(const vm_run *run, const ref *r, const char *symbol, int32_t own_axis, int64_t extent,
                                 char out[320]) {
  const module_function *f = frame_top(run)->function;
  snprintf(out, 320, "where it was met first");
  for (uint32_t i = 0; (!symbol || *symbol) && i < f->n_r_params; i++) {
    const module_type *type = &run->program->module->types[f->param_types[i]];
    const ref *other = reg_r(run, i);
    if (type->object || (other->kind != REF_SHAPED && other->kind != REF_STORED)) continue;
    for (int32_t axis = 0; axis < type->rank && axis < other->t.desc.rank; axis++) {
      if (type->dims[axis] >= 0 || (!symbol && axis != own_axis)) continue;
      if (symbol && strcmp(string_of(run, (uint32_t)~type->dims[axis]), symbol) != 0) continue;
      if (other->t.desc.dims[axis] != extent) continue;
      if (other == r) snprintf(out, 320, "in its dim %d", axis);
      else snprintf(out, 320, "in dim %d of input '%.256s'", axis, type_name(run, type));
      return out;
    }
  }
  return symbol && *symbol ? dim_met_first(run, r, NULL, own_axis, extent, out) : out;
}

reed_status exec_assert_dim(vm_run *run, const ref *r, uint32_t axis, int64_t extent, const module_type *type) {
  if (r->kind != REF_SHAPED && r->kind != REF_STORED) return not_a_tensor(run, r, "a tensor");
  if ((int32_t)axis >= r->t.desc.rank)
    return diag_fail(run->diagnosis, REED_ERROR_SHAPE, "input '%s' has rank %d, axis %u is asked for",
                     type_name(run, type), r->t.desc.rank, axis);
  if (r->t.desc.dims[axis] == extent) return REED_OK;
  const char *symbol =
      (int32_t)axis < type->rank && type->dims[axis] < 0 ? string_of(run, (uint32_t)~type->dims[axis]) : "";
  char first[320];
  reed_status status = diag_fail(run->diagnosis, REED_ERROR_SHAPE,
                                 "input '%s': dim %u ('%s') is %lld here, %lld %s; the model needs them equal",
                                 type_name(run, type), axis, symbol, (long long)r->t.desc.dims[axis], (long long)extent,
                                 dim_met_first(run, r, symbol, (int32_t)axis, extent, first));
  diag_place_node(run->diagnosis, NULL, NULL, type_name(run, type));
  return status;
}

reed_status check_ranges(const module *m, size_t input, int32_t rank, const int64_t *dims, reed_diagnosis *diagnosis) {
  for (size_t i = 0; i < m->n_ranges; i++) {
    const module_range *r = &m->ranges[i];
    if (r->input != input || (int32_t)r->axis >= rank || dims[r->axis] < 0) continue;
    if (dims[r->axis] >= r->low && dims[r->axis] <= r->high) continue;
    const module_type *type = &m->types[m->inputs[input]];
    if (type->rank != rank) continue;
    char range[64];
    reed_status status =
        diag_fail(diagnosis, REED_ERROR_SHAPE, "input '%s': dim %u ('%s') is %lld; the model was compiled for %s=%s",
                  m->strings[type->name], r->axis, m->strings[r->name], (long long)dims[r->axis], m->strings[r->name],
                  range_text(r->low, r->high, range, sizeof range));
    diag_place_node(diagnosis, NULL, NULL, m->strings[type->name]);
    return status;
  }
  return REED_OK;
}

reed_status exec_item(vm_run *run, const ref *r, int64_t *out_value) {
  if (r->kind != REF_STORED || r->t.device != 0) return not_a_tensor(run, r, "a host tensor");
  if (desc_elements(&r->t.desc) != 1) {
    char text[128];
    return diag_fail(run->diagnosis, REED_ERROR_SHAPE, "a single element is needed, got %s",
                     desc_text(&r->t.desc, text, sizeof text));
  }
  switch (r->t.desc.dtype) {
    case REED_I64: memcpy(out_value, r->t.data, 8); return REED_OK;
    case REED_BOOL: *out_value = *(const uint8_t *)r->t.data != 0; return REED_OK;
    case REED_I32: *out_value = *(const int32_t *)r->t.data; return REED_OK;
    default:
      return diag_fail(run->diagnosis, REED_ERROR_TYPE, "an integer or bool is needed, got %s",
                       reed_dtype_name(r->t.desc.dtype));
  }
}

static reed_status overflow(reed_diagnosis *diagnosis, const char *what, int64_t a, int64_t b) {
  return diag_fail(diagnosis, REED_ERROR_VALUE, "%s of %lld and %lld does not fit 64 bits or divides by zero", what,
                   (long long)a, (long long)b);
}

reed_status scalar_arithmetic(reed_diagnosis *diagnosis, insn_id id, int64_t a, int64_t b, int64_t *out) {
  switch (id) {
    case INSN_S_ADD: return __builtin_add_overflow(a, b, out) ? overflow(diagnosis, "s.add", a, b) : REED_OK;
    case INSN_S_SUB: return __builtin_sub_overflow(a, b, out) ? overflow(diagnosis, "s.sub", a, b) : REED_OK;
    case INSN_S_MUL: return __builtin_mul_overflow(a, b, out) ? overflow(diagnosis, "s.mul", a, b) : REED_OK;
    case INSN_S_DIV:
    case INSN_S_MOD: {
      if (b == 0 || (a == INT64_MIN && b == -1)) return overflow(diagnosis, id == INSN_S_DIV ? "s.div" : "s.mod", a, b);
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) quotient--, rest += b;
      *out = id == INSN_S_DIV ? quotient : rest;
      return REED_OK;
    }
    case INSN_S_MIN: *out = a < b ? a : b; return REED_OK;
    case INSN_S_MAX: *out = a > b ? a : b; return REED_OK;
    case INSN_S_EQ: *out = a == b; return REED_OK;
    case INSN_S_NE: *out = a != b; return REED_OK;
    case INSN_S_LT: *out = a < b; return REED_OK;
    case INSN_S_LE: *out = a <= b; return REED_OK;
    case INSN_S_AND: *out = a && b; return REED_OK;
    case INSN_S_OR: *out = a || b; return REED_OK;
    default: return REED_OK; /* not arithmetic: never reached */
  }
}
