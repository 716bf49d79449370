/* Checks of each instruction by itself: its encoding, operands, jump targets, place (outside epochs, shape section, run
 * section) and callee. Register states along paths: verify_flow.c. */
#include "loader/verify_code.h"

#include <stdlib.h>

#define FAIL(rule, operand, item, ...) return verify_fail(v, rule, in, operand, item, __VA_ARGS__)

/* ---- where an instruction may stand ---- */

/* Follows epoch.enter, epoch.plan and epoch.end through the code. *place: in, the instruction's place; out, the next
 * instruction's. */
static reed_status check_place(verifier *v, const insn *in, uint32_t *place) {
  uint32_t now = *place;
  v->places[in->pc] = now;
  insn_places here = now == PLACE_OUTSIDE ? INSN_PLACES_O : place_is_shape(now) ? INSN_PLACES_S : INSN_PLACES_R;
  if (!(insn_table[in->id].places & here))
    FAIL(RULE_EPOCH_SECTION, NULL, -1, "not allowed in %s",
         here == INSN_PLACES_O   ? "code outside of epochs"
         : here == INSN_PLACES_S ? "a shape section"
                                 : "a run section");
  if (in->id != INSN_EPOCH_ENTER && in->id != INSN_EPOCH_PLAN && in->id != INSN_EPOCH_END) return REED_OK;
  uint32_t e = insn_epoch_plan_at(in->code).epoch; /* the first operand of all three */
  if (e >= v->m->n_epochs) FAIL(RULE_INDEX, "epoch", -1, "epoch %u of %zu", e, v->m->n_epochs);
  const module_epoch *epoch = &v->m->epochs[e];
  uint32_t listed = in->id == INSN_EPOCH_ENTER ? epoch->enter : in->id == INSN_EPOCH_PLAN ? epoch->plan : epoch->end;
  if (epoch->function != v->number || listed != in->pc)
    FAIL(RULE_EPOCH_TABLE, "epoch", -1, "the epoch section puts this of epoch %u at word %u of function %u", e, listed,
         epoch->function);
  uint32_t before = in->id == INSN_EPOCH_ENTER ? PLACE_OUTSIDE : in->id == INSN_EPOCH_PLAN ? 2 * e + 1 : 2 * e + 2;
  if (now != before) FAIL(RULE_EPOCH_SECTION, "epoch", -1, "epoch %u is not open here, or not at this step", e);
  uint32_t plan = in->id == INSN_EPOCH_ENTER ? insn_epoch_enter_at(in->code).plan : epoch->plan;
  if (plan != epoch->plan)
    FAIL(RULE_EPOCH_TABLE, "plan", -1, "leads to word %u, the epoch is planned at word %u", plan, epoch->plan);
  v->n_epochs_seen += in->id == INSN_EPOCH_ENTER;
  *place = in->id == INSN_EPOCH_END ? PLACE_OUTSIDE : before == PLACE_OUTSIDE ? 2 * e + 1 : 2 * e + 2;
  return REED_OK;
}

/* ---- operands ---- */

/* A register of the role's bank, or absent where the role allows it. */
static reed_status check_register(const verifier *v, const insn *in, const char *operand, int64_t item,
                                  const insn_role_info *role, uint32_t word) {
  if (role->flagged && INSN_READS(word) > REED_READS_BOTH)
    FAIL(RULE_INDEX, operand, item, "flags %u", INSN_READS(word));
  uint32_t number = role->flagged ? INSN_REGISTER(word) : word, n = role->bank == INSN_BANK_R ? v->f->n_r : v->f->n_s;
  if (number < n || (role->optional && number == MODULE_ABSENT)) return REED_OK;
  if (number == MODULE_ABSENT) FAIL(RULE_REGISTER, operand, item, "a register must be given");
  FAIL(RULE_REGISTER, operand, item, "the function has %u such registers", n);
}

static reed_status check_index(const verifier *v, const insn *in, const char *operand, int64_t item, const char *what,
                               uint32_t word, size_t n) {
  if (word < n) return REED_OK;
  FAIL(RULE_INDEX, operand, item, "%s %u of %zu", what, word, n);
}

static reed_status check_target(verifier *v, const insn *in, const char *operand, int64_t item, uint32_t target) {
  if (target >= v->f->n_code || !(v->marks[target] & MARK_START))
    FAIL(RULE_TARGET, operand, item, "no instruction begins at word %u", target);
  v->marks[target] |= MARK_LEADER;
  v->loops |= target <= in->pc;
  if (in->id == INSN_EPOCH_ENTER) return REED_OK; /* checked by check_place */
  uint32_t from = v->places[in->pc], to = v->places[target];
  if (from != to) FAIL(RULE_EPOCH_JUMP, operand, item, "a jump into or out of a section of an epoch");
  if (from != PLACE_OUTSIDE && target <= in->pc)
    FAIL(RULE_EPOCH_JUMP, operand, item, "a jump backwards inside of an epoch");
  return REED_OK;
}

/* Checks one word of one operand. The switch has no default, so that a role without a check does not compile. */
static reed_status check_item(verifier *v, const insn *in, int number, int64_t item, uint32_t word) {
  const module *m = v->m;
  const insn_role role = insn_table[in->id].roles[number];
  const char *operand = insn_table[in->id].names[number];
  switch (role) {
    INSN_REGISTER_ROLES(INSN_ROLE_CASE) return check_register(v, in, operand, item, &insn_roles[role], word);
    case INSN_ROLE_IMM: return REED_OK;
    case INSN_ROLE_INDEX: /* axes, fields, tags or inputs: 24 bits, so that no reader's signed arithmetic overflows */
      return check_index(v, in, operand, item, "index", word, MODULE_ABSENT);
    case INSN_ROLE_DTYPE:
      if (word == REED_NONE) FAIL(RULE_INDEX, operand, item, "dtype 0 is none");
      return check_index(v, in, operand, item, "dtype", word, REED_DTYPE_COUNT);
    case INSN_ROLE_LABEL: return check_target(v, in, operand, item, word);
    case INSN_ROLE_FUNC: return check_index(v, in, operand, item, "function", word, m->n_functions);
    case INSN_ROLE_TYPE: return check_index(v, in, operand, item, "type", word, m->n_types);
    case INSN_ROLE_CONST: return check_index(v, in, operand, item, "constant", word, m->n_constants);
    case INSN_ROLE_SITE: return check_index(v, in, operand, item, "call site", word, m->n_sites);
    case INSN_ROLE_STR: return check_index(v, in, operand, item, "string", word, m->n_strings);
    case INSN_ROLE_DEV: return check_index(v, in, operand, item, "device", word, (size_t)m->n_devices);
    case INSN_ROLE_REASON: return check_index(v, in, operand, item, "copy reason", word, COPY_REASON_COUNT);
    case INSN_ROLE_EPOCH: return check_index(v, in, operand, item, "epoch", word, m->n_epochs);
    case INSN_ROLE_COUNT: break;
  }
  return REED_OK;
}

/* ---- callees ---- */

/* `shape` and `invoke`, whose operands are the same. */
static reed_status check_operator(verifier *v, const insn *in) {
  const insn_invoke i = insn_invoke_at(in->code);
  const module_site *site = &v->m->sites[i.site];
  const reed_op *op = v->m->site_ops[i.site];
  if (op_is_control(op)) FAIL(RULE_OPERANDS, "site", -1, "%s is control flow: nothing calls it", op->name);
  if (i.n_outputs != (uint32_t)site->n_outputs)
    FAIL(RULE_OPERANDS, "outputs", -1, "%u outputs, the call site of %s has %d", i.n_outputs, op->name,
         site->n_outputs);
  if (i.n_inputs != (uint32_t)site->n_inputs)
    FAIL(RULE_OPERANDS, "inputs", -1, "%u inputs, the call site of %s has %d", i.n_inputs, op->name, site->n_inputs);
  for (uint32_t k = 0; k < i.n_outputs; k++) {
    const reed_op_output *row = reed_op_output_at(op, (int32_t)k);
    if (i.outputs[k] == MODULE_ABSENT && !row->optional)
      FAIL(RULE_REGISTER, "outputs", k, "output '%s' of %s must be given", row->name, op->name);
    for (uint32_t other = 0; i.outputs[k] != MODULE_ABSENT && other < k; other++)
      if (i.outputs[other] == i.outputs[k]) FAIL(RULE_OPERANDS, "outputs", k, "output %u is the same register", other);
  }
  for (uint32_t k = 0; k < i.n_inputs; k++) {
    const reed_op_input *row = reed_op_input_at(op, (int32_t)k);
    if (INSN_REGISTER(i.inputs[k]) == MODULE_ABSENT && !row->optional)
      FAIL(RULE_REGISTER, "inputs", k, "input '%s' of %s must be given", row->name, op->name);
    if (in->id != INSN_SHAPE || INSN_REGISTER(i.inputs[k]) == MODULE_ABSENT) continue;
    reed_reads given = (reed_reads)INSN_READS(i.inputs[k]), needed = op_reads(op, &site->attrs, (int32_t)k);
    if (!op_reads_covers(given, needed))
      FAIL(RULE_FLAGS, "inputs", k, "flags %d, input '%s' of %s needs %d", given, row->name, op->name, needed);
    bool more = (given & REED_READS_VALUE) && !(needed & REED_READS_VALUE);
    if (more && !VEC_PUSH(&v->asked, (uint64_t)i.site << 32 | k))
      return diag_no_memory(v->diagnosis, "verifying a function");
  }
  return REED_OK;
}

/* A list against a signature. */
static reed_status check_count(const verifier *v, const insn *in, verify_rule rule, const char *operand, uint32_t n,
                               uint32_t want, const module_function *f) {
  if (n == want) return REED_OK;
  FAIL(rule, operand, -1, "%u of them, the signature of '%.100s' has %u", n, v->m->strings[f->name], want);
}

static reed_status check_call(const verifier *v, const insn *in) {
  const insn_call c = insn_call_at(in->code);
  const module_function *f = &v->m->functions[c.function];
  reed_status status = check_count(v, in, RULE_CALL, "results", c.n_results, f->n_r_results, f);
  if (status == REED_OK) status = check_count(v, in, RULE_CALL, "scalars", c.n_scalars, f->n_s_results, f);
  if (status == REED_OK) status = check_count(v, in, RULE_CALL, "arguments", c.n_arguments, f->n_r_params, f);
  if (status == REED_OK)
    status = check_count(v, in, RULE_CALL, "scalar_arguments", c.n_scalar_arguments, f->n_s_params, f);
  return status;
}

static reed_status check_return(const verifier *v, const insn *in) {
  const insn_return r = insn_return_at(in->code);
  reed_status status = check_count(v, in, RULE_RETURN, "results", r.n_results, v->f->n_r_results, v->f);
  return status == REED_OK ? check_count(v, in, RULE_RETURN, "scalars", r.n_scalars, v->f->n_s_results, v->f) : status;
}

static reed_status check_closure(const verifier *v, const insn *in) {
  const insn_closure_make c = insn_closure_make_at(in->code);
  const module_function *f = &v->m->functions[c.function];
  if (f->n_s_params || f->n_s_results)
    FAIL(RULE_CLOSURE, "function", -1, "'%.100s' takes or gives scalars", v->m->strings[f->name]);
  if (c.n_captured > f->n_r_params)
    FAIL(RULE_CLOSURE, "captured", -1, "%u captured, '%.100s' has %u parameters", c.n_captured, v->m->strings[f->name],
         f->n_r_params);
  return REED_OK;
}

/* `seq.stack` and `seq.join`: a stacked sequence has the elements' type and one axis more; a joined one has as many
 * axes, one at least. */
static reed_status check_stack(const verifier *v, const insn *in) {
  const module_type *t = &v->m->types[insn_seq_stack_at(in->code).element];
  if (in->id == INSN_SEQ_JOIN && t->rank < 1) FAIL(RULE_INDEX, "element", -1, "elements that are joined need an axis");
  if (t->object || t->dtype == REED_NONE || t->rank >= REED_MAX_RANK)
    FAIL(RULE_INDEX, "element", -1, "elements need a dtype and a rank below %d, not %s and %d", REED_MAX_RANK,
         reed_dtype_name(t->dtype), t->rank);
  return REED_OK;
}

static reed_status check_insn(verifier *v, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++) {
    bool list = info->forms[i] == INSN_FORM_LIST;
    for (uint32_t k = 0; k < in->operands[i].n; k++) {
      reed_status status = check_item(v, in, i, list ? (int64_t)k : -1, in->operands[i].words[k]);
      if (status != REED_OK) return status;
    }
  }
  if (in->id == INSN_SHAPE || in->id == INSN_INVOKE) return check_operator(v, in);
  if (in->id == INSN_CALL) return check_call(v, in);
  if (in->id == INSN_RETURN) return check_return(v, in);
  if (in->id == INSN_CLOSURE_MAKE) return check_closure(v, in);
  if (in->id == INSN_SEQ_STACK || in->id == INSN_SEQ_JOIN) return check_stack(v, in);
  return REED_OK;
}

/* ---- the function ---- */

/* Marks the first word of every instruction, and the leaders: the first instruction of every basic block. */
static reed_status find_instructions(verifier *v) {
  uint32_t n_code = v->f->n_code, place = PLACE_OUTSIDE;
  insn in_storage, *in = &in_storage;
  insn_flow last = INSN_FLOW_NEXT;
  for (uint32_t pc = 0; pc < n_code; pc += in->n_words) {
    if (!insn_decode(v->code, n_code, pc, in)) {
      const char *name = v->m->strings[v->f->name];
      reed_status status = verify_reject(v->diagnosis, REED_ERROR_FORMAT, RULE_DECODE,
                                         "function '%.200s', word %u: 0x%08x begins no instruction of %u words", name,
                                         pc, v->code[pc], v->code[pc] >> 16);
      diag_place_code(v->diagnosis, name, pc);
      return status;
    }
    v->marks[pc] |= MARK_START;
    reed_status status = check_place(v, in, &place);
    if (status != REED_OK) return status;
    last = insn_table[in->id].flow;
    bool ends =
        last == INSN_FLOW_JUMP || last == INSN_FLOW_BRANCH || last == INSN_FLOW_RETURN || last == INSN_FLOW_FAIL;
    if (ends) v->marks[pc + in->n_words] |= MARK_LEADER;
  }
  if (n_code == 0 || last == INSN_FLOW_NEXT || last == INSN_FLOW_BRANCH || last == INSN_FLOW_CALL) {
    const char *name = v->m->strings[v->f->name];
    reed_status status =
        verify_reject(v->diagnosis, REED_ERROR_FORMAT, RULE_FALL_OFF,
                      "function '%.200s' runs past its last instruction, word %u", name, n_code ? in->pc : 0);
    diag_place_code(v->diagnosis, name, n_code ? in->pc : 0);
    return status;
  }
  if (place != PLACE_OUTSIDE)
    FAIL(RULE_EPOCH_TABLE, NULL, -1, "the function ends inside of epoch %u", place_stamp(place) - 1);
  v->marks[0] |= MARK_LEADER;
  return REED_OK;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

reed_status verify_code(verifier *v) {
  reed_status status = find_instructions(v);
  insn in;
  for (uint32_t pc = 0; status == REED_OK && pc < v->f->n_code; pc += in.n_words) {
    if (!insn_decode(v->code, v->f->n_code, pc, &in)) break; /* decoded before, by find_instructions */
    status = diag_check_cancel(v->diagnosis, v->cancel);
    if (status == REED_OK) status = check_insn(v, &in);
  }
  if (v->asked.n) qsort(v->asked.items, v->asked.n, sizeof *v->asked.items, by_number);
  return status;
}
