/* The interpreter loop: moves, scalar arithmetic, control, objects; everything larger is one call into exec.c or
 * epoch.c.
 *
 * Code has been verified: operands are in range, registers defined, targets are instructions. What only the run can
 * show (kinds behind ADT fields, scalar overflow, depth and budget) is checked here. Register pointers are read anew
 * after anything that may push a frame. */
#include <string.h>

#include "vm/vm.h"

reed_status frame_push(reed_session *s, uint32_t function, uint32_t return_pc) {
  const module_function *f = &s->program->module->functions[function];
  if ((int64_t)s->frames.n >= s->max_call_depth)
    return diag_fail(s->diagnosis, REED_ERROR_LIMIT, "calls nest deeper than %lld", (long long)s->max_call_depth);
  size_t r_base = s->r.n, s_base = s->s.n;
  bool ok = r_base + f->n_r <= s->r.capacity ||
            mem_vec_grow((void **)&s->r.items, &s->r.capacity, r_base + f->n_r, sizeof(ref));
  ok = ok && (s_base + f->n_s <= s->s.capacity ||
              mem_vec_grow((void **)&s->s.items, &s->s.capacity, s_base + f->n_s, sizeof(int64_t)));
  frame made = {.function = f, .function_index = function, .return_pc = return_pc, .r_base = r_base, .s_base = s_base};
  if (!ok || !VEC_PUSH(&s->frames, made)) return diag_no_memory(s->diagnosis, "registers of a call");
  if (f->n_r) memset(s->r.items + r_base, 0, f->n_r * sizeof(ref));
  if (f->n_s) memset(s->s.items + s_base, 0, f->n_s * sizeof(int64_t));
  s->r.n += f->n_r;
  s->s.n += f->n_s;
  return REED_OK;
}

void frame_pop(reed_session *s) {
  frame *f = frame_top(s);
  for (size_t i = f->r_base; i < s->r.n; i++) ref_clear(&s->objects, &s->r.items[i]);
  s->r.n = f->r_base;
  s->s.n = f->s_base;
  s->frames.n--;
}

/* Where call and call.closure keep their lists. */
typedef struct call_lists {
  const uint32_t *results, *scalars, *arguments, *scalar_arguments;
  uint32_t n_results, n_scalars, n_arguments, n_scalar_arguments;
} call_lists;

static call_lists call_operands(const uint32_t *w) {
  call_lists c = {0};
  bool closure = (w[0] & 0xffff) == INSN_CALL_CLOSURE;
  const uint32_t *at = w + 2;
  c.n_results = *at++;
  c.results = at;
  at += c.n_results;
  if (!closure) {
    c.n_scalars = *at++;
    c.scalars = at;
    at += c.n_scalars;
  }
  c.n_arguments = *at++;
  c.arguments = at;
  at += c.n_arguments;
  if (!closure) {
    c.n_scalar_arguments = *at++;
    c.scalar_arguments = at;
  }
  return c;
}

static reed_status do_call(reed_session *s, const uint32_t *w, uint32_t return_pc) {
  call_lists c = call_operands(w);
  bool closure = (w[0] & 0xffff) == INSN_CALL_CLOSURE;
  size_t caller_r = frame_top(s)->r_base, caller_s = frame_top(s)->s_base;
  uint32_t function = w[1], n_captured = 0;
  if (closure) {
    const ref *r = &s->r.items[caller_r + w[1]];
    if (r->kind != REF_OBJECT || r->object->kind != OBJECT_CLOSURE)
      return diag_fail(s->diagnosis, REED_ERROR_TYPE, "r%u is not a closure", w[1]);
    function = r->object->tag;
    n_captured = (uint32_t)r->object->fields.n;
    const module_function *f = &s->program->module->functions[function];
    if (f->n_r_params != n_captured + c.n_arguments || f->n_r_results != c.n_results || f->n_s_params || f->n_s_results)
      return diag_fail(s->diagnosis, REED_ERROR_TYPE,
                       "closure of '%s' takes %u arguments and gives %u results, called with %u for %u",
                       s->program->module->strings[f->name], f->n_r_params - n_captured, f->n_r_results, c.n_arguments,
                       c.n_results);
  }
  reed_status status = frame_push(s, function, return_pc);
  if (status != REED_OK) return status;
  ref *callee = &s->r.items[frame_top(s)->r_base], *caller = &s->r.items[caller_r];
  if (closure)
    for (uint32_t i = 0; i < n_captured; i++)
      ref_assign(&s->objects, &callee[i], &caller[w[1]].object->fields.items[i]);
  for (uint32_t i = 0; i < c.n_arguments; i++)
    ref_assign(&s->objects, &callee[n_captured + i], &caller[c.arguments[i]]);
  for (uint32_t i = 0; i < c.n_scalar_arguments; i++)
    s->s.items[frame_top(s)->s_base + i] = s->s.items[caller_s + c.scalar_arguments[i]];
  /* Parameters' types are promises between functions that reach this point through ADTs and closures: checked where
   * declared. */
  const module *m = s->program->module;
  const module_function *f = frame_top(s)->function;
  for (uint32_t i = 0; i < f->n_r_params; i++) {
    const module_type *type = &m->types[f->param_types[i]];
    if (type->object) continue;
    if ((status = exec_assert_shape(s, &callee[i], type)) != REED_OK) return status;
    if (callee[i].t.device != s->bind[type->device])
      return diag_fail(s->diagnosis, REED_ERROR_DEVICE, "argument %u of '%s' lies on another device", i,
                       m->strings[f->name]);
  }
  return REED_OK;
}

/* return RUS_ANY SUS: results into the caller's registers, the frame is dropped. */
static void do_return(reed_session *s, const uint32_t *w) {
  frame callee = *frame_top(s);
  frame *caller = &s->frames.items[s->frames.n - 2];
  const uint32_t *call = s->program->module->code + caller->function->code_offset + callee.return_pc;
  call_lists c = call_operands(call);
  uint32_t n_r = w[1], n_s = w[2 + n_r];
  for (uint32_t i = 0; i < n_r; i++)
    ref_assign(&s->objects, &s->r.items[caller->r_base + c.results[i]], &s->r.items[callee.r_base + w[2 + i]]);
  for (uint32_t i = 0; i < n_s; i++)
    s->s.items[caller->s_base + c.scalars[i]] = s->s.items[callee.s_base + w[3 + n_r + i]];
  frame_pop(s);
}

static reed_status overflow(reed_session *s, const char *what, int64_t a, int64_t b) {
  return diag_fail(s->diagnosis, REED_ERROR_VALUE, "%s of %lld and %lld does not fit 64 bits or divides by zero", what,
                   (long long)a, (long long)b);
}

static reed_status arithmetic(reed_session *s, insn_id id, int64_t a, int64_t b, int64_t *out) {
  switch (id) {
    case INSN_S_ADD: return __builtin_add_overflow(a, b, out) ? overflow(s, "s.add", a, b) : REED_OK;
    case INSN_S_SUB: return __builtin_sub_overflow(a, b, out) ? overflow(s, "s.sub", a, b) : REED_OK;
    case INSN_S_MUL: return __builtin_mul_overflow(a, b, out) ? overflow(s, "s.mul", a, b) : REED_OK;
    case INSN_S_DIV:
    case INSN_S_MOD: {
      if (b == 0 || (a == INT64_MIN && b == -1)) return overflow(s, id == INSN_S_DIV ? "s.div" : "s.mod", a, b);
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
    default: return REED_OK; /* not arithmetic: never asked */
  }
}

static reed_status make_object(reed_session *s, ref *target, object_kind kind, uint32_t tag, const uint32_t *fields,
                               uint32_t n_fields) {
  object *o = object_new(&s->objects, kind, tag);
  if (!o) return diag_no_memory(s->diagnosis, "an object");
  for (uint32_t i = 0; i < n_fields; i++)
    if (!object_push(&s->objects, o, reg_r(s, fields[i]))) {
      object_release(&s->objects, o);
      return diag_no_memory(s->diagnosis, "an object's fields");
    }
  ref_clear(&s->objects, target);
  *target = (ref){.kind = REF_OBJECT, .bounded_axis = -1, .object = o};
  return REED_OK;
}

static reed_status get_field(reed_session *s, ref *target, const ref *source, object_kind kind, int64_t i) {
  static const char *const names[] = {"an ADT", "a closure", "a sequence"};
  if (source->kind != REF_OBJECT || source->object->kind != kind)
    return diag_fail(s->diagnosis, REED_ERROR_TYPE, "%s is needed", names[kind]);
  if (i < 0 || i >= (int64_t)source->object->fields.n)
    return diag_fail(s->diagnosis, REED_ERROR_VALUE, "index %lld of %s with %zu elements", (long long)i, names[kind],
                     source->object->fields.n);
  ref_assign(&s->objects, target, &source->object->fields.items[i]);
  return REED_OK;
}

/* Asked at backward jumps, calls and epochs: often enough to stop any program. */
static reed_status check_limits(reed_session *s) {
  if (atomic_load_explicit(&s->cancel, memory_order_relaxed))
    return diag_fail(s->diagnosis, REED_ERROR_CANCELLED, "cancelled by the caller");
  if (s->max_instructions && s->n_instructions > s->max_instructions)
    return diag_fail(s->diagnosis, REED_ERROR_LIMIT, "more than %lld instructions", (long long)s->max_instructions);
  return REED_OK;
}

/* Names the ONNX node of an instruction that failed, where a debug record covers it. */
static void place(reed_session *s, uint32_t pc) {
  const module *m = s->program->module;
  const frame *f = frame_top(s);
  diag_place_code(s->diagnosis, m->strings[f->function->name], pc);
  for (size_t i = 0; i < m->n_debug; i++)
    if (m->debug[i].function == f->function_index && m->debug[i].pc == pc) {
      diag_place_node(s->diagnosis, NULL, m->strings[m->debug[i].node], NULL);
      return;
    }
}

reed_status interp_run(reed_session *s, uint32_t *out_return_pc) {
  const module *m = s->program->module;
  const uint32_t *code = m->code + frame_top(s)->function->code_offset;
  size_t bottom = s->frames.n;
  uint32_t pc = 0;
  reed_status status = REED_OK;
/* Registers the shape section of an epoch writes are noted for its memo entry. */
#define WROTE_R(number) (s->in_shape_section ? epoch_note_write(s, number) : REED_OK)
#define WROTE_S(number) (s->in_shape_section ? epoch_note_scalar(s, number) : REED_OK)
#define R(i) (&s->r.items[frame_top(s)->r_base + w[i]])
#define S(i) (s->s.items[frame_top(s)->s_base + w[i]])
  for (;;) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + (w[0] >> 16);
    s->n_instructions++;
    switch ((insn_id)(w[0] & 0xffff)) {
      case INSN_INVOKE: status = exec_invoke(s, w); break;
      case INSN_KILL: ref_clear(&s->objects, R(1)); break;
      case INSN_SHAPE: status = exec_shape(s, w); break;

      case INSN_S_CONST:
        S(1) = (int64_t)((uint64_t)w[3] << 32 | w[2]);
        status = WROTE_S(w[1]);
        break;
      case INSN_S_MOVE:
        S(1) = S(2);
        status = WROTE_S(w[1]);
        break;
      case INSN_R_MOVE: status = exec_move(s, w[1], w[2]); break;
      case INSN_CONST:
        status = exec_constant(s, R(1), w[2], (int32_t)w[3]);
        if (status == REED_OK) status = WROTE_R(w[1]);
        break;
      case INSN_S_ITEM:
        status = exec_item(s, R(2), &S(1));
        if (status == REED_OK) status = WROTE_S(w[1]);
        break;
      case INSN_S_DIM: {
        const ref *r = R(2);
        if ((r->kind != REF_SHAPED && r->kind != REF_STORED) || (int32_t)w[3] >= r->t.desc.rank)
          status = diag_fail(s->diagnosis, REED_ERROR_SHAPE, "axis %u of a tensor of rank %d", w[3],
                             ref_is_tensor(r) ? r->t.desc.rank : -1);
        else S(1) = r->t.desc.dims[w[3]], status = WROTE_S(w[1]);
        break;
      }
      case INSN_R_SCALAR:
        status = exec_scalar_tensor(s, R(1), S(2), (reed_dtype)w[3]);
        if (status == REED_OK) status = WROTE_R(w[1]);
        break;

      case INSN_S_ADD:
      case INSN_S_SUB:
      case INSN_S_MUL:
      case INSN_S_DIV:
      case INSN_S_MOD:
      case INSN_S_MIN:
      case INSN_S_MAX:
      case INSN_S_EQ:
      case INSN_S_NE:
      case INSN_S_LT:
      case INSN_S_LE:
      case INSN_S_AND:
      case INSN_S_OR:
        status = arithmetic(s, (insn_id)(w[0] & 0xffff), S(2), S(3), &S(1));
        if (status == REED_OK) status = WROTE_S(w[1]);
        break;
      case INSN_S_NOT:
        S(1) = !S(2);
        status = WROTE_S(w[1]);
        break;

      case INSN_JUMP:
        next = w[1];
        if (next <= pc) status = check_limits(s);
        break;
      case INSN_BRANCH_IF:
        if (S(1)) next = w[2];
        if (next <= pc) status = check_limits(s);
        break;
      case INSN_BRANCH_IFNOT:
        if (!S(1)) next = w[2];
        if (next <= pc) status = check_limits(s);
        break;
      case INSN_SWITCH:
        if (S(1) >= 0 && S(1) < (int64_t)w[2]) next = w[3 + S(1)];
        if (next <= pc) status = check_limits(s);
        break;
      case INSN_CALL:
      case INSN_CALL_CLOSURE:
        status = check_limits(s);
        if (status == REED_OK) status = do_call(s, w, pc);
        if (status != REED_OK) break;
        code = m->code + frame_top(s)->function->code_offset;
        next = 0;
        break;
      case INSN_RETURN: {
        if (s->frames.n == bottom) {
          *out_return_pc = pc;
          return REED_OK;
        }
        uint32_t call_pc = frame_top(s)->return_pc;
        do_return(s, w);
        code = m->code + frame_top(s)->function->code_offset;
        next = call_pc + (code[call_pc] >> 16);
        break;
      }
      case INSN_FAIL: status = diag_fail(s->diagnosis, REED_ERROR_FAILED, "%s", m->strings[w[1]]); break;

      case INSN_ADT_MAKE: status = make_object(s, R(1), OBJECT_ADT, w[2], w + 4, w[3]); break;
      case INSN_ADT_GET: status = get_field(s, R(1), R(2), OBJECT_ADT, w[3]); break;
      case INSN_ADT_TAG: {
        const ref *r = R(2);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_ADT)
          status = diag_fail(s->diagnosis, REED_ERROR_TYPE, "an ADT is needed");
        else S(1) = r->object->tag;
        break;
      }
      case INSN_CLOSURE_MAKE: status = make_object(s, R(1), OBJECT_CLOSURE, w[2], w + 4, w[3]); break;
      case INSN_SEQ_MAKE: status = make_object(s, R(1), OBJECT_SEQUENCE, 0, NULL, 0); break;
      case INSN_SEQ_PUSH: {
        ref *r = R(1);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_SEQUENCE) {
          status = diag_fail(s->diagnosis, REED_ERROR_TYPE, "a sequence is needed");
        } else {
          ref item = {0}; /* held over object_own: pushing a sequence into itself appends what it was */
          ref_assign(&s->objects, &item, R(2));
          if (!object_own(&s->objects, r) || !object_push(&s->objects, r->object, &item))
            status = diag_no_memory(s->diagnosis, "a sequence");
          ref_clear(&s->objects, &item);
        }
        break;
      }
      case INSN_SEQ_GET: status = get_field(s, R(1), R(2), OBJECT_SEQUENCE, S(3)); break;
      case INSN_SEQ_LENGTH: {
        const ref *r = R(2);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_SEQUENCE)
          status = diag_fail(s->diagnosis, REED_ERROR_TYPE, "a sequence is needed");
        else S(1) = (int64_t)r->object->fields.n;
        break;
      }
      case INSN_SEQ_STACK: status = exec_stack(s, R(1), R(2), &m->types[w[3]], (int32_t)w[4], false); break;
      case INSN_SEQ_JOIN: status = exec_stack(s, R(1), R(2), &m->types[w[3]], (int32_t)w[4], true); break;
      case INSN_OPT_NONE:
        ref_clear(&s->objects, R(1));
        *R(1) = (ref){.kind = REF_NONE, .bounded_axis = -1};
        break;
      case INSN_OPT_HAS: S(1) = R(2)->kind != REF_NONE; break;
      case INSN_OPT_GET:
        if (R(2)->kind == REF_NONE) status = diag_fail(s->diagnosis, REED_ERROR_TYPE, "r%u is none", w[2]);
        else ref_assign(&s->objects, R(1), R(2));
        break;

      case INSN_SHAPE_LIKE: {
        const ref *source = R(2);
        if (source->kind != REF_SHAPED && source->kind != REF_STORED) {
          status = diag_fail(s->diagnosis, REED_ERROR_TYPE, "r%u is not a tensor with known extents", w[2]);
        } else if (ref_set_shaped(&s->objects, R(1), &source->t.desc, s->bind[w[3]], -1)) {
          status = WROTE_R(w[1]);
        }
        break;
      }
      case INSN_ASSERT_SHAPE: status = exec_assert_shape(s, R(1), &m->types[w[2]]); break;
      case INSN_ASSERT_DIM: status = exec_assert_dim(s, R(1), w[2], S(3), &m->types[w[4]]); break;
      case INSN_ALLOC: status = exec_alloc(s, R(1)); break;
      case INSN_VIEW: status = exec_view(s, R(1), R(2)); break;
      case INSN_COPY: status = exec_copy(s, w); break;

      case INSN_EPOCH_ENTER: {
        bool hit = false;
        status = check_limits(s);
        if (status == REED_OK) status = epoch_enter(s, w, &hit);
        if (hit) next = w[2] + (code[w[2]] >> 16);
        break;
      }
      case INSN_EPOCH_PLAN: status = epoch_plan(s, next); break;
      case INSN_EPOCH_END: epoch_end(s); break;
      case INSN_READBACK: status = exec_readback(s, w); break;
      case INSN_EXTENT: status = exec_extent(s, R(1)); break;
      case INSN_SYNC: status = exec_sync(s); break;
      case INSN_COUNT: break;
    }
    if (status != REED_OK) {
      place(s, pc);
      return status;
    }
    pc = next;
  }
#undef WROTE_R
#undef WROTE_S
#undef R
#undef S
}
