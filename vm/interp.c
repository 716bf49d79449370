/* The interpreter loop: moves, scalar arithmetic, control, objects. Everything larger is one call: call.c, check.c,
 * copy.c, memory.c, sequence.c, epoch/.
 *
 * Code has been verified: operands are in range, registers defined, targets are instructions. Conditions known only at
 * run time (kinds of ADT fields, scalar overflow, depth and budget) are checked here. Register pointers are read anew
 * after anything that may push a frame. */
#include "vm/interp.h"

#include "bytecode/operands.h"

#include "vm/call.h"
#include "vm/check.h"
#include "vm/copy.h"
#include "vm/epoch/epoch.h"
#include "vm/epoch/plan.h"
#include "vm/memory.h"
#include "vm/sequence.h"

/* The lists of `call`, or of `call.closure`, which has no scalars. */
static insn_call call_operands(const uint32_t *w) {
  if (insn_id_at(w) == INSN_CALL) return insn_call_at(w);
  const insn_call_closure c = insn_call_closure_at(w);
  return (insn_call){
      .n_results = c.n_results, .results = c.results, .n_arguments = c.n_arguments, .arguments = c.arguments};
}

/* The callee of `call.closure` and the values it has captured. */
static reed_status find_closure(reed_session *s, const uint32_t *w, uint32_t *out_function,
                                const object **out_closure) {
  const insn_call_closure c = insn_call_closure_at(w);
  const ref *r = reg_r(&s->run, c.closure);
  if (r->kind != REF_OBJECT || r->object->kind != OBJECT_CLOSURE)
    return diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "r%u is not a closure", c.closure);
  uint32_t n_captured = (uint32_t)r->object->fields.n;
  const module_function *f = &s->run.program->module->functions[r->object->tag];
  if (f->n_r_params != n_captured + c.n_arguments || f->n_r_results != c.n_results || f->n_s_params || f->n_s_results)
    return diag_fail(s->run.diagnosis, REED_ERROR_TYPE,
                     "closure of '%s' takes %u arguments and gives %u results, called with %u for %u",
                     s->run.program->module->strings[f->name], f->n_r_params - n_captured, f->n_r_results,
                     c.n_arguments, c.n_results);
  *out_function = r->object->tag;
  *out_closure = r->object;
  return REED_OK;
}

static reed_status do_call(reed_session *s, const uint32_t *w, uint32_t return_pc) {
  const insn_call c = call_operands(w);
  size_t caller_r = frame_top(&s->run)->r_base, caller_s = frame_top(&s->run)->s_base;
  uint32_t function = c.function, n_captured = 0;
  const object *closure = NULL; /* the caller's register holds it */
  reed_status status = REED_OK;
  if (insn_id_at(w) == INSN_CALL_CLOSURE) status = find_closure(s, w, &function, &closure);
  if (status == REED_OK) status = frame_push(&s->run, function, return_pc);
  if (status != REED_OK) return status;
  ref *callee = &s->run.r.items[frame_top(&s->run)->r_base], *caller = &s->run.r.items[caller_r];
  for (; closure && n_captured < closure->fields.n; n_captured++)
    ref_assign(&s->run.objects, &callee[n_captured], &closure->fields.items[n_captured]);
  for (uint32_t i = 0; i < c.n_arguments; i++)
    ref_assign(&s->run.objects, &callee[n_captured + i], &caller[c.arguments[i]]);
  for (uint32_t i = 0; i < c.n_scalar_arguments; i++)
    s->run.s.items[frame_top(&s->run)->s_base + i] = s->run.s.items[caller_s + c.scalar_arguments[i]];
  /* The verifier cannot check arguments that come through ADTs and closures; so declared parameter types are checked at
   * every call. */
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

/* Moves the results of `return` into the caller's registers and drops the callee's frame. */
static void do_return(reed_session *s, const uint32_t *w) {
  const insn_return given = insn_return_at(w);
  frame callee = *frame_top(&s->run);
  frame *caller = &s->run.frames.items[s->run.frames.n - 2];
  const insn_call c = call_operands(s->run.program->module->code + caller->function->code_offset + callee.return_pc);
  for (uint32_t i = 0; i < given.n_results; i++)
    ref_assign(&s->run.objects, &s->run.r.items[caller->r_base + c.results[i]],
               &s->run.r.items[callee.r_base + given.results[i]]);
  for (uint32_t i = 0; i < given.n_scalars; i++)
    s->run.s.items[caller->s_base + c.scalars[i]] = s->run.s.items[callee.s_base + given.scalars[i]];
  frame_pop(&s->run);
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
  return devices_count_objects(&s->devices, s->run.objects.bytes, s->run.diagnosis);
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
/* A register that the shape section of an epoch writes is noted for the epoch's memo entry. */
#define WROTE_R(number) (s->epoch.in_shape_section ? active_note_write(&s->epoch, number, s->run.diagnosis) : REED_OK)
#define WROTE_S(number) (s->epoch.in_shape_section ? active_note_scalar(&s->epoch, number, s->run.diagnosis) : REED_OK)
#define OPERANDS(op) const insn_##op i = insn_##op##_at(w)
#define R(number) (&s->run.r.items[frame_top(&s->run)->r_base + (number)])
#define S(number) (s->run.s.items[frame_top(&s->run)->s_base + (number)])
  for (;;) {
    const uint32_t *w = code + pc;
    uint32_t next = pc + insn_length_at(w);
    s->run.n_instructions++;
    switch (insn_id_at(w)) {
      case INSN_INVOKE: status = exec_invoke(s, w); break;
      case INSN_KILL: {
        OPERANDS(kill);
        ref_clear(&s->run.objects, R(i.victim));
        break;
      }
      case INSN_SHAPE: status = exec_shape(s, w); break;

      case INSN_S_CONST: {
        OPERANDS(s_const);
        S(i.dst) = i.value;
        status = WROTE_S(i.dst);
        break;
      }
      case INSN_S_MOVE: {
        OPERANDS(s_move);
        S(i.dst) = S(i.src);
        status = WROTE_S(i.dst);
        break;
      }
      case INSN_R_MOVE: {
        OPERANDS(r_move);
        status = exec_move(s, i.dst, i.src);
        break;
      }
      case INSN_CONST: {
        OPERANDS(const);
        status = exec_constant(s, R(i.dst), i.constant, (int32_t)i.device);
        if (status == REED_OK) status = WROTE_R(i.dst);
        break;
      }
      case INSN_S_ITEM: {
        OPERANDS(s_item);
        status = exec_item(&s->run, R(i.src), &S(i.dst));
        if (status == REED_OK) status = WROTE_S(i.dst);
        break;
      }
      case INSN_S_DIM: {
        OPERANDS(s_dim);
        const ref *r = R(i.src);
        if ((r->kind != REF_SHAPED && r->kind != REF_STORED) || (int32_t)i.axis >= r->t.desc.rank)
          status = diag_fail(s->run.diagnosis, REED_ERROR_SHAPE, "axis %u of a tensor of rank %d", i.axis,
                             ref_is_tensor(r) ? r->t.desc.rank : -1);
        else S(i.dst) = r->t.desc.dims[i.axis], status = WROTE_S(i.dst);
        break;
      }
      case INSN_R_SCALAR: {
        OPERANDS(r_scalar);
        status = exec_scalar_tensor(s, R(i.dst), S(i.src), (reed_dtype)i.dtype);
        if (status == REED_OK) status = WROTE_R(i.dst);
        break;
      }
        INSN_ARITHMETIC(INSN_CASE) {
          OPERANDS(s_add); /* all these instructions have the operands of s.add */
          status = scalar_arithmetic(s->run.diagnosis, insn_id_at(w), S(i.a), S(i.b), &S(i.dst));
          if (status == REED_OK) status = WROTE_S(i.dst);
          break;
        }
      case INSN_S_NOT: {
        OPERANDS(s_not);
        S(i.dst) = !S(i.a);
        status = WROTE_S(i.dst);
        break;
      }
      case INSN_JUMP: {
        OPERANDS(jump);
        next = i.target;
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      }
      case INSN_BRANCH_IF: {
        OPERANDS(branch_if);
        if (S(i.condition)) next = i.target;
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      }
      case INSN_BRANCH_IFNOT: {
        OPERANDS(branch_ifnot);
        if (!S(i.condition)) next = i.target;
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      }
      case INSN_SWITCH: {
        OPERANDS(switch);
        if (S(i.selector) >= 0 && S(i.selector) < (int64_t)i.n_targets) next = i.targets[S(i.selector)];
        if (next <= pc) status = run_check_limits(&s->run);
        break;
      }
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
        next = call_pc + insn_length_at(code + call_pc);
        break;
      }
      case INSN_FAIL: {
        OPERANDS(fail);
        status = diag_fail(s->run.diagnosis, REED_ERROR_FAILED, "%s", m->strings[i.message]);
        break;
      }
      case INSN_ADT_MAKE: {
        OPERANDS(adt_make);
        status = make_object(s, R(i.dst), OBJECT_ADT, i.tag, i.fields, i.n_fields);
        break;
      }
      case INSN_ADT_GET: {
        OPERANDS(adt_get);
        status = get_field(s, R(i.dst), R(i.src), OBJECT_ADT, i.index);
        break;
      }
      case INSN_ADT_TAG: {
        OPERANDS(adt_tag);
        const ref *r = R(i.src);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_ADT)
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "an ADT is needed");
        else S(i.dst) = r->object->tag;
        break;
      }
      case INSN_CLOSURE_MAKE: {
        OPERANDS(closure_make);
        status = make_object(s, R(i.dst), OBJECT_CLOSURE, i.function, i.captured, i.n_captured);
        break;
      }
      case INSN_SEQ_MAKE: {
        OPERANDS(seq_make);
        status = make_object(s, R(i.dst), OBJECT_SEQUENCE, 0, NULL, 0);
        break;
      }
      case INSN_SEQ_PUSH: {
        OPERANDS(seq_push);
        ref *r = R(i.sequence);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_SEQUENCE) {
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "a sequence is needed");
        } else {
          ref item = {0};
          /* The reference is held over object_own, because pushing a sequence into itself appends its old value. */
          ref_assign(&s->run.objects, &item, R(i.item));
          if (!object_own(&s->run.objects, r) || !object_push(&s->run.objects, r->object, &item))
            status = diag_no_memory(s->run.diagnosis, "a sequence");
          else status = devices_count_objects(&s->devices, s->run.objects.bytes, s->run.diagnosis);
          ref_clear(&s->run.objects, &item);
        }
        break;
      }
      case INSN_SEQ_GET: {
        OPERANDS(seq_get);
        status = get_field(s, R(i.dst), R(i.src), OBJECT_SEQUENCE, S(i.index));
        break;
      }
      case INSN_SEQ_LENGTH: {
        OPERANDS(seq_length);
        const ref *r = R(i.src);
        if (r->kind != REF_OBJECT || r->object->kind != OBJECT_SEQUENCE)
          status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "a sequence is needed");
        else S(i.dst) = (int64_t)r->object->fields.n;
        break;
      }
      case INSN_SEQ_STACK: {
        OPERANDS(seq_stack);
        status = exec_stack(s, R(i.dst), R(i.src), &m->types[i.element], (int32_t)i.device, false);
        break;
      }
      case INSN_SEQ_JOIN: {
        OPERANDS(seq_join);
        status = exec_stack(s, R(i.dst), R(i.src), &m->types[i.element], (int32_t)i.device, true);
        break;
      }
      case INSN_OPT_NONE: {
        OPERANDS(opt_none);
        ref_clear(&s->run.objects, R(i.dst));
        *R(i.dst) = (ref){.kind = REF_NONE, .bounded_axis = -1};
        break;
      }
      case INSN_OPT_HAS: {
        OPERANDS(opt_has);
        S(i.dst) = R(i.src)->kind != REF_NONE;
        break;
      }
      case INSN_OPT_GET: {
        OPERANDS(opt_get);
        if (R(i.src)->kind == REF_NONE) status = diag_fail(s->run.diagnosis, REED_ERROR_TYPE, "r%u is none", i.src);
        else ref_assign(&s->run.objects, R(i.dst), R(i.src));
        break;
      }
      case INSN_SHAPE_LIKE: status = exec_shape_like(s, w); break;
      case INSN_ASSERT_SHAPE: {
        OPERANDS(assert_shape);
        status = exec_assert_shape(&s->run, R(i.src), &m->types[i.type]);
        break;
      }
      case INSN_ASSERT_DIM: {
        OPERANDS(assert_dim);
        status = exec_assert_dim(&s->run, R(i.src), i.axis, S(i.extent), &m->types[i.type]);
        break;
      }
      case INSN_ALLOC: {
        OPERANDS(alloc);
        status = exec_alloc(s, R(i.tensor));
        break;
      }
      case INSN_VIEW: {
        OPERANDS(view);
        status = exec_view(s, i.dst, i.src);
        break;
      }
      case INSN_COPY: status = exec_copy(s, w); break;

      case INSN_EPOCH_ENTER:
        status = run_check_limits(&s->run);
        if (status == REED_OK) status = epoch_enter(s, w, &pc);
        next = pc;
        break;
      case INSN_EPOCH_PLAN: status = epoch_plan(s, next); break;
      case INSN_EPOCH_END: status = epoch_end(s, &next); break;
      case INSN_READBACK: status = exec_readback(s, w); break;
      case INSN_EXTENT: {
        OPERANDS(extent);
        status = exec_extent(s, R(i.src), PROFILE_NO_REASON);
        break;
      }
      case INSN_EXTENT_FOR: {
        OPERANDS(extent_for);
        status = exec_extent(s, R(i.src), i.why);
        break;
      }
      case INSN_SYNC: status = exec_sync(s); break;
      case INSN_COUNT: break;
    }
    if (status != REED_OK) {
      run_place_failure(&s->run, pc);
      return status;
    }
    pc = next;
  }
#undef OPERANDS
#undef WROTE_R
#undef WROTE_S
#undef R
#undef S
}
