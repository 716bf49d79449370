/* Each instruction by itself: that it is one, that its operands exist, where it jumps, where it may stand, and what it
 * calls. */
#include "loader/verify.h"

#define FAIL(rule, operand, item, ...) return verify_fail(v, rule, in, operand, item, __VA_ARGS__)

/* ---- where an instruction may stand ---- */

enum { IN_CODE = 1, IN_SHAPE = 2, IN_RUN = 4 };

/* The list of docs/epochs.md. */
static int allowed_in(insn_id id) {
  switch (id) {
    case INSN_S_CONST:
    case INSN_S_MOVE:
    case INSN_CONST:
    case INSN_S_ITEM:
    case INSN_S_DIM:
    case INSN_R_SCALAR:
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
    case INSN_S_NOT:
    case INSN_SHAPE:
    case INSN_SHAPE_LIKE:
    case INSN_ASSERT_SHAPE:
    case INSN_ASSERT_DIM:
    case INSN_SWITCH:
    case INSN_EPOCH_PLAN: /* ends the shape section */ return IN_CODE | IN_SHAPE;
    case INSN_R_MOVE:
    case INSN_JUMP:
    case INSN_BRANCH_IF:
    case INSN_BRANCH_IFNOT:
    case INSN_VIEW:
    case INSN_INVOKE: return IN_CODE | IN_SHAPE | IN_RUN;
    case INSN_COPY:
    case INSN_KILL:
    case INSN_EPOCH_END: /* ends the run section */ return IN_CODE | IN_RUN;
    case INSN_CALL:
    case INSN_CALL_CLOSURE:
    case INSN_RETURN:
    case INSN_FAIL:
    case INSN_ADT_MAKE:
    case INSN_ADT_GET:
    case INSN_ADT_TAG:
    case INSN_CLOSURE_MAKE:
    case INSN_SEQ_MAKE:
    case INSN_SEQ_PUSH:
    case INSN_SEQ_GET:
    case INSN_SEQ_LENGTH:
    case INSN_SEQ_STACK:
    case INSN_SEQ_JOIN:
    case INSN_OPT_NONE:
    case INSN_OPT_HAS:
    case INSN_OPT_GET:
    case INSN_ALLOC:
    case INSN_EPOCH_ENTER:
    case INSN_READBACK:
    case INSN_EXTENT:
    case INSN_SYNC: return IN_CODE;
    case INSN_COUNT: break;
  }
  return 0;
}

/* Follows epoch.enter, plan and end through the code; *place is that of the instruction, and then of the next one. */
static reed_status check_place(verifier *v, const insn *in, uint32_t *place) {
  uint32_t now = *place;
  v->places[in->pc] = now;
  int here = now == PLACE_OUTSIDE ? IN_CODE : place_is_shape(now) ? IN_SHAPE : IN_RUN;
  if (!(allowed_in(in->id) & here))
    FAIL(RULE_EPOCH_SECTION, -1, -1, "not allowed in %s",
         here == IN_CODE    ? "code outside of epochs"
         : here == IN_SHAPE ? "a shape section"
                            : "a run section");
  if (in->id != INSN_EPOCH_ENTER && in->id != INSN_EPOCH_PLAN && in->id != INSN_EPOCH_END) return REED_OK;
  uint32_t e = in->operands[0].words[0];
  if (e >= v->m->n_epochs) FAIL(RULE_INDEX, 0, -1, "epoch %u of %zu", e, v->m->n_epochs);
  const module_epoch *epoch = &v->m->epochs[e];
  uint32_t listed = in->id == INSN_EPOCH_ENTER ? epoch->enter : in->id == INSN_EPOCH_PLAN ? epoch->plan : epoch->end;
  if (epoch->function != v->number || listed != in->pc)
    FAIL(RULE_EPOCH_TABLE, 0, -1, "the epoch section puts this of epoch %u at word %u of function %u", e, listed,
         epoch->function);
  uint32_t before = in->id == INSN_EPOCH_ENTER ? PLACE_OUTSIDE : in->id == INSN_EPOCH_PLAN ? 2 * e + 1 : 2 * e + 2;
  if (now != before) FAIL(RULE_EPOCH_SECTION, 0, -1, "epoch %u is not open here, or not at this step", e);
  if (in->id == INSN_EPOCH_ENTER && in->operands[1].words[0] != epoch->plan)
    FAIL(RULE_EPOCH_TABLE, 1, -1, "leads to word %u, the epoch is planned at word %u", in->operands[1].words[0],
         epoch->plan);
  v->n_epochs_seen += in->id == INSN_EPOCH_ENTER;
  *place = in->id == INSN_EPOCH_END ? PLACE_OUTSIDE : before == PLACE_OUTSIDE ? 2 * e + 1 : 2 * e + 2;
  return REED_OK;
}

/* ---- operands ---- */

static reed_status check_register(const verifier *v, const insn *in, int operand, int64_t item, uint32_t word,
                                  uint32_t n, bool may_be_absent) {
  if (word < n || (may_be_absent && word == MODULE_ABSENT)) return REED_OK;
  if (word == MODULE_ABSENT) FAIL(RULE_REGISTER, operand, item, "a register must be given");
  FAIL(RULE_REGISTER, operand, item, "the function has %u such registers", n);
}

static reed_status check_index(const verifier *v, const insn *in, int operand, int64_t item, const char *what,
                               uint32_t word, size_t n) {
  if (word < n) return REED_OK;
  FAIL(RULE_INDEX, operand, item, "%s %u of %zu", what, word, n);
}

static reed_status check_target(const verifier *v, const insn *in, int operand, int64_t item, uint32_t target) {
  if (target >= v->f->n_code || !(v->marks[target] & MARK_START))
    FAIL(RULE_TARGET, operand, item, "no instruction begins at word %u", target);
  v->marks[target] |= MARK_LEADER;
  if (in->id == INSN_EPOCH_ENTER) return REED_OK; /* check_place has seen it */
  uint32_t from = v->places[in->pc], to = v->places[target];
  if (from != to) FAIL(RULE_EPOCH_JUMP, operand, item, "a jump into or out of a section of an epoch");
  if (from != PLACE_OUTSIDE && target <= in->pc)
    FAIL(RULE_EPOCH_JUMP, operand, item, "a jump backwards inside of an epoch");
  return REED_OK;
}

/* One word of one operand. No default: a role without a check does not compile. */
static reed_status check_item(const verifier *v, const insn *in, int operand, int64_t item, uint32_t word) {
  const module *m = v->m;
  switch (insn_table[in->id].roles[operand]) {
    case INSN_ROLE_RD_SHAPED:
    case INSN_ROLE_RD_STORED:
    case INSN_ROLE_RD_OBJECT:
    case INSN_ROLE_RD_ANY:
    case INSN_ROLE_RD_NONE:
    case INSN_ROLE_RD_FETCH:
    case INSN_ROLE_RX_ALLOC:
    case INSN_ROLE_RX_FILL:
    case INSN_ROLE_RX_EXTENT:
    case INSN_ROLE_RX_KILL:
    case INSN_ROLE_RX_PUSH:
    case INSN_ROLE_RU_ANY:
    case INSN_ROLE_RU_SHAPE:
    case INSN_ROLE_RU_TENSOR:
    case INSN_ROLE_RU_HOST:
    case INSN_ROLE_RU_OBJECT:
    case INSN_ROLE_RU_MAYBE:
    case INSN_ROLE_RDS_ANY:
    case INSN_ROLE_RUS_ANY: return check_register(v, in, operand, item, word, v->f->n_r, false);
    case INSN_ROLE_RDS_SHAPED:
    case INSN_ROLE_RUS_KERNEL:
    case INSN_ROLE_RXS_KERNEL: return check_register(v, in, operand, item, word, v->f->n_r, true);
    case INSN_ROLE_RFS_IN:
      if (INSN_READS(word) > REED_READS_BOTH) FAIL(RULE_INDEX, operand, item, "flags %u", INSN_READS(word));
      return check_register(v, in, operand, item, INSN_REGISTER(word), v->f->n_r, in->id == INSN_SHAPE);
    case INSN_ROLE_SD:
    case INSN_ROLE_SU:
    case INSN_ROLE_SDS:
    case INSN_ROLE_SUS: return check_register(v, in, operand, item, word, v->f->n_s, false);
    case INSN_ROLE_IMM: return REED_OK;
    case INSN_ROLE_INDEX: /* all of them count axes, fields, tags or inputs: 24 bits, so that no reader's signed
                             arithmetic overflows */
      return check_index(v, in, operand, item, "index", word, MODULE_ABSENT);
    case INSN_ROLE_DTYPE:
      if (word == REED_NONE) FAIL(RULE_INDEX, operand, item, "dtype 0 is none");
      return check_index(v, in, operand, item, "dtype", word, REED_DTYPE_COUNT);
    case INSN_ROLE_LABEL:
    case INSN_ROLE_LABELS: return check_target(v, in, operand, item, word);
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

/* ---- what is called ---- */

/* `shape` and `invoke`: SITE, DEV, outputs, inputs. */
static reed_status check_operator(const verifier *v, const insn *in) {
  const module_site *site = &v->m->sites[in->operands[0].words[0]];
  const reed_op *op = verify_operator(v, in);
  const insn_operand *outputs = &in->operands[2], *inputs = &in->operands[3];
  if (op_is_control(op)) FAIL(RULE_OPERANDS, 0, -1, "%s is control flow: nothing calls it", op->name);
  if (outputs->n != (uint32_t)site->n_outputs)
    FAIL(RULE_OPERANDS, 2, -1, "%u outputs, the call site of %s has %d", outputs->n, op->name, site->n_outputs);
  if (inputs->n != (uint32_t)site->n_inputs)
    FAIL(RULE_OPERANDS, 3, -1, "%u inputs, the call site of %s has %d", inputs->n, op->name, site->n_inputs);
  for (uint32_t i = 0; i < outputs->n; i++) {
    uint32_t word = outputs->words[i];
    if (word == MODULE_ABSENT && !reed_op_output_at(op, (int32_t)i)->optional)
      FAIL(RULE_REGISTER, 2, i, "output '%s' of %s must be given", reed_op_output_at(op, (int32_t)i)->name, op->name);
    for (uint32_t k = 0; word != MODULE_ABSENT && k < i; k++)
      if (outputs->words[k] == word) FAIL(RULE_OPERANDS, 2, i, "output %u is the same register", k);
  }
  for (uint32_t i = 0; i < inputs->n; i++) {
    const reed_op_input *row = reed_op_input_at(op, (int32_t)i);
    bool flagged = in->id == INSN_SHAPE;
    if (INSN_REGISTER(inputs->words[i]) == MODULE_ABSENT && !row->optional)
      FAIL(RULE_REGISTER, 3, i, "input '%s' of %s must be given", row->name, op->name);
    if (flagged && INSN_REGISTER(inputs->words[i]) != MODULE_ABSENT &&
        INSN_READS(inputs->words[i]) != (uint32_t)row->reads)
      FAIL(RULE_FLAGS, 3, i, "flags %u, input '%s' of %s has %d", INSN_READS(inputs->words[i]), row->name, op->name,
           row->reads);
  }
  return REED_OK;
}

static reed_status check_call(const verifier *v, const insn *in) {
  const module_function *f = &v->m->functions[in->operands[0].words[0]];
  const char *name = v->m->strings[f->name];
  const uint32_t want[] = {f->n_r_results, f->n_s_results, f->n_r_params, f->n_s_params};
  for (int i = 0; i < 4; i++)
    if (in->operands[i + 1].n != want[i])
      FAIL(RULE_CALL, i + 1, -1, "%u of them, the signature of '%.100s' has %u", in->operands[i + 1].n, name, want[i]);
  return REED_OK;
}

static reed_status check_return(const verifier *v, const insn *in) {
  const uint32_t want[] = {v->f->n_r_results, v->f->n_s_results};
  for (int i = 0; i < 2; i++)
    if (in->operands[i].n != want[i])
      FAIL(RULE_RETURN, i, -1, "%u of them, the signature has %u", in->operands[i].n, want[i]);
  return REED_OK;
}

static reed_status check_closure(const verifier *v, const insn *in) {
  const module_function *f = &v->m->functions[in->operands[1].words[0]];
  if (f->n_s_params || f->n_s_results)
    FAIL(RULE_CLOSURE, 1, -1, "'%.100s' takes or gives scalars", v->m->strings[f->name]);
  if (in->operands[2].n > f->n_r_params)
    FAIL(RULE_CLOSURE, 2, -1, "%u captured, '%.100s' has %u parameters", in->operands[2].n, v->m->strings[f->name],
         f->n_r_params);
  return REED_OK;
}

/* A stacked sequence has the elements' type and one axis more; a joined one has as many axes, one at least. */
static reed_status check_stack(const verifier *v, const insn *in) {
  const module_type *t = &v->m->types[in->operands[2].words[0]];
  if (in->id == INSN_SEQ_JOIN && t->rank < 1) FAIL(RULE_INDEX, 2, -1, "elements that are joined need an axis");
  if (t->object || t->dtype == REED_NONE || t->rank >= REED_MAX_RANK)
    FAIL(RULE_INDEX, 2, -1, "elements need a dtype and a rank below %d, not %s and %d", REED_MAX_RANK,
         reed_dtype_name(t->dtype), t->rank);
  return REED_OK;
}

static reed_status check_insn(const verifier *v, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int i = 0; i < info->n_operands; i++) {
    bool list = insn_role_form(info->roles[i]) == INSN_FORM_LIST;
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

/* Finds the instructions, and the stretches that begin behind jumps. */
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
    FAIL(RULE_EPOCH_TABLE, -1, -1, "the function ends inside of epoch %u", place_stamp(place) - 1);
  v->marks[0] |= MARK_LEADER;
  return REED_OK;
}

reed_status verify_code(verifier *v) {
  reed_status status = find_instructions(v);
  insn in;
  for (uint32_t pc = 0; status == REED_OK && pc < v->f->n_code; pc += in.n_words) {
    if (!insn_decode(v->code, v->f->n_code, pc, &in)) break; /* has passed */
    status = check_insn(v, &in);
  }
  return status;
}
