/* The interpreter loop: moves, scalar arithmetic, control, objects. Everything larger is one call: call.c, check.c,
 * copy.c, memory.c, sequence.c, epoch/.
 *
 * Code has been verified: operands are in range, registers defined, targets are instructions. What only the run can
 * show (kinds behind ADT fields, scalar overflow, depth and budget) is checked here. Register pointers are read anew
 * after anything that may push a frame. */
#include "vm/interp.h"

#include "vm/call.h"
#include "vm/check.h"
#include "vm/copy.h"
#include "vm/epoch/epoch.h"
#include "vm/memory.h"
#include "vm/sequence.h"

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
  size_t caller_r = frame_top(&s->run)->r_base, caller_s = frame_top(&s->run)->s_base;
  uint32_t function = w[1], n_captured = 0;
  if (closure) {
    const ref *r = &s->run.r.items[caller_r + w[1]];
    if (r->kind != REF_OBJECT || r->object->kind != OBJECT_CLOSURE)
      return diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "r%u is not a closure", w[1]);
    function = r->object->tag;
    n_captured = (uint32_t)r->object->fields.n;
    const module_function *f = &s->run.program->module->functions[function];
    if (f->n_r_params != n_captured + c.n_arguments || f->n_r_results != c.n_results || f->n_s_params || f->n_s_results)
      return diag_fail(s->run.diagnosis, REED_ERROR_TYPE,
                       "closure of '%s' takes %u arguments and gives %u results, called with %u for %u",
                       s->run.program->module->strings[f->name], f->n_r_params - n_captured, f->n_r_results,
                       c.n_arguments, c.n_results);
  }
  reed_status status = frame_push(&s->run, function, return_pc);
  if (status != REED_OK) return status;
  ref *callee = &s->run.r.items[frame_top(&s->run)->r_base], *caller = &s->run.r.items[caller_r];
  if (closure)
    for (uint32_t i = 0; i < n_captured; i++)
      ref_assign(&s->run.objects, &callee[i], &caller[w[1]].object->fields.items[i]);
  for (uint32_t i = 0; i < c.n_arguments; i++)
    ref_assign(&s->run.objects, &callee[n_captured + i], &caller[c.arguments[i]]);
  for (uint32_t i = 0; i < c.n_scalar_arguments; i++)
    s->run.s.items[frame_top(&s->run)->s_base + i] = s->run.s.items[caller_s + c.scalar_arguments[i]];
  /* Parameters' types are promises between functions that reach this point through ADTs and closures: checked where
   * declared. */
  const module *m = s->run.program->module;
  const module_function *f = frame_top(&s->run)->function;
  for (uint32_t i = 0; i < f->n_r_params; i++) {
    const module_type *type = &m->types[f->param_types[i]];
    if (type->object) continue;
    if ((status = exec_assert_shape(&s->run, &callee[i], type)) != REED_OK) return status;
    if (callee[i].t.device != s->devices.bind[type->device])
      return diag_fail(s->run.diagnosis, REED_ERROR_DEVICE, "argument %u of '%s' lies on another device", i,
                       m->strings[f->name]);
  }
  return REED_OK;
}

/* return RUS_ANY SUS: results into the caller's registers, the frame is dropped. */
static void do_return(reed_session *s, const uint32_t *w) {
  frame callee = *frame_top(&s->run);
  frame *caller = &s->run.frames.items[s->run.frames.n - 2];
  const uint32_t *call = s->run.program->module->code + caller->function->code_offset + callee.return_pc;
  call_lists c = call_operands(call);
  uint32_t n_r = w[1], n_s = w[2 + n_r];
  for (uint32_t i = 0; i < n_r; i++)
    ref_assign(&s->run.objects, &s->run.r.items[caller->r_base + c.results[i]],
               &s->run.r.items[callee.r_base + w[2 + i]]);
  for (uint32_t i = 0; i < n_s; i++)
    s->run.s.items[caller->s_base + c.scalars[i]] = s->run.s.items[callee.s_base + w[3 + n_r + i]];
  frame_pop(&s->run);
}

static reed_status overflow(reed_session *s, const char *what, int64_t a, int64_t b) {
  return diag_fail(s->run.diagnosis, REED_ERROR_VALUE, "%s of %lld and %lld does not fit 64 bits or divides by zero",
                   what, (long long)a, (long long)b);
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
  object *o = object_new(&s->run.objects, kind, tag);
  if (!o) return diag_no_memory(s->run.diagnosis, "an object");
  for (uint32_t i = 0; i < n_fields; i++)
    if (!object_push(&s->run.objects, o, reg_r(&s->run, fields[i]))) {
      object_release(&s->run.objects, o);
      return diag_no_memory(s->run.diagnosis, "an object's fields");
    }
  ref_clear(&s->run.objects, target);
  *target = (ref){.kind = REF_OBJECT, .bounded_axis = -1, .object = o};
  return REED_OK;
}

static reed_status get_field(reed_session *s, ref *target, const ref *source, object_kind kind, int64_t i) {
  static const char *const names[] = {"an ADT", "a closure", "a sequence"};
  if (source->kind != REF_OBJECT || source->object->kind != kind)
    return diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "%s is needed", names[kind]);
  if (i < 0 || i >= (int64_t)source->object->fields.n)
    return diag_fail(s->run.diagnosis, REED_ERROR_VALUE, "index %lld of %s with %zu elements", (long long)i,
                     names[kind], source->object->fields.n);
  ref_assign(&s->run.objects, target, &source->object->fields.items[i]);
  return REED_OK;
}

reed_status interp_run(reed_session *s, uint32_t *out_return_pc) {
  const module *m = s->run.program->module;
  const uint32_t *code = m->code + frame_top(&s->run)->function->code_offset;
  size_t bottom = s->run.frames.n;
  uint32_t pc = 0;
  reed_status status = REED_OK;
/* Registers the shape section of an epoch writes are noted for its memo entry. */
#define WROTE_R(number) (s->epoch.in_shape_section ? active_note_write(&s->epoch, number, s->run.diagnosis) : REED_OK)
#define WROTE_S(number) (s->epoch.in_shape_section ? active_note_scalar(&s->epoch, number, s->run.diagnosis) : REED_OK)
#define R(i) (&s->run.r.items[frame_top(&s->run)->r_base + w[i]])
#define S(i) (s->run.s.items[frame_top(&s->run)->s_base + w[i]])
  for (;;) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + (w[0] >> 16);
    s->run.n_instructions++;
    switch ((insn_id)(w[0] & 0xffff)) {
      case INSN_INVOKE: status = exec_invoke(s, w); break;
      case INSN_KILL: ref_clear(&s->run.objects, R(1)); break;
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
        status = exec_item(&s->run, R(2), &S(1));
        if (status == REED_OK) status = WROTE_S(w[1]);
        break;
      case INSN_S_DIM: {
        const ref *r = R(2);
        if ((r->kind != REF_SHAPED && r->kind != REF_STORED) || (int32_t)w[3] >= r->t.desc.rank)
          status = diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "axis %u of a tensor of rank %d", w[3],
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
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      case INSN_BRANCH_IF:
        if (S(1)) next = w[2];
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      case INSN_BRANCH_IFNOT:
        if (!S(1)) next = w[2];
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      case INSN_SWITCH:
        if (S(1) >= 0 && S(1) < (int64_t)w[2]) next = w[3 + S(1)];
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      case INSN_CALL:
      case INSN_CALL_CLOSURE:
        status = run_check_limits(&s->run);
        if (status == REED_OK) status = do_call(s, w, pc);
        if (status != REED_OK) break;
        code = m->code + frame_top(&s->run)->function->code_offset;
        next = 0;
        break;
      case INSN_RETURN: {
        if (s->run.frames.n == bottom) {
          *out_return_pc = pc;
          return REED_OK;
        }
        uint32_t call_pc = frame_top(&s->run)->return_pc;
        do_return(s, w);
        code = m->code + frame_top(&s->run)->function->code_offset;
        next = call_pc + (code[call_pc] >> 16);
        break;
      }
      case INSN_FAIL: status = diag_fail(s->run.diagnosis, REED_ERROR_FAILED, "%s", m->strings[w[1]]); break;

      case INSN_ADT_MAKE: status = make_object(s, R(1), OBJECT_ADT, w[2], w + 4, w[3]); break;
      case INSN_ADT_GET: status = get_field(s, R(1), R(2), OBJECT_ADT, w[3]); break;
      case INSN_ADT_TAG: {
        const ref *r = R(2);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_ADT)
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "an ADT is needed");
        else S(1) = r->object->tag;
        break;
      }
      case INSN_CLOSURE_MAKE: status = make_object(s, R(1), OBJECT_CLOSURE, w[2], w + 4, w[3]); break;
      case INSN_SEQ_MAKE: status = make_object(s, R(1), OBJECT_SEQUENCE, 0, NULL, 0); break;
      case INSN_SEQ_PUSH: {
        ref *r = R(1);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_SEQUENCE) {
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "a sequence is needed");
        } else {
          ref item = {0}; /* held over object_own: pushing a sequence into itself appends what it was */
          ref_assign(&s->run.objects, &item, R(2));
          if (!object_own(&s->run.objects, r) || !object_push(&s->run.objects, r->object, &item))
            status = diag_no_memory(s->run.diagnosis, "a sequence");
          ref_clear(&s->run.objects, &item);
        }
        break;
      }
      case INSN_SEQ_GET: status = get_field(s, R(1), R(2), OBJECT_SEQUENCE, S(3)); break;
      case INSN_SEQ_LENGTH: {
        const ref *r = R(2);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_SEQUENCE)
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "a sequence is needed");
        else S(1) = (int64_t)r->object->fields.n;
        break;
      }
      case INSN_SEQ_STACK: status = exec_stack(s, R(1), R(2), &m->types[w[3]], (int32_t)w[4], false); break;
      case INSN_SEQ_JOIN: status = exec_stack(s, R(1), R(2), &m->types[w[3]], (int32_t)w[4], true); break;
      case INSN_OPT_NONE:
        ref_clear(&s->run.objects, R(1));
        *R(1) = (ref){.kind = REF_NONE, .bounded_axis = -1};
        break;
      case INSN_OPT_HAS: S(1) = R(2)->kind != REF_NONE; break;
      case INSN_OPT_GET:
        if (R(2)->kind == REF_NONE) status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "r%u is none", w[2]);
        else ref_assign(&s->run.objects, R(1), R(2));
        break;

      case INSN_SHAPE_LIKE: {
        const ref *source = R(2);
        if (source->kind != REF_SHAPED && source->kind != REF_STORED) {
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "r%u is not a tensor with known extents", w[2]);
        } else if (ref_set_shaped(&s->run.objects, R(1), &source->t.desc, s->devices.bind[w[3]], -1)) {
          status = WROTE_R(w[1]);
        }
        break;
      }
      case INSN_ASSERT_SHAPE: status = exec_assert_shape(&s->run, R(1), &m->types[w[2]]); break;
      case INSN_ASSERT_DIM: status = exec_assert_dim(&s->run, R(1), w[2], S(3), &m->types[w[4]]); break;
      case INSN_ALLOC: status = exec_alloc(s, R(1)); break;
      case INSN_VIEW: status = exec_view(s, R(1), R(2)); break;
      case INSN_COPY: status = exec_copy(s, w); break;

      case INSN_EPOCH_ENTER: {
        bool hit = false;
        status = run_check_limits(&s->run);
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
      run_place_failure(&s->run, pc);
      return status;
    }
    pc = next;
  }
#undef WROTE_R
#undef WROTE_S
#undef R
#undef S
}
