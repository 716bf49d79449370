/* Follows registers of function main through its code (residence.h): from a definition along every path, until the
 * register is defined anew or killed. */
#include "vm/residence.h"

#include <string.h>

#include "base/mem.h"
#include "bytecode/operands.h"
#include "ops/op.h"

typedef struct tracer {
  const module *m;
  const uint32_t *code;
  uint32_t n_code, reg;
  uint8_t *seen; /* per word */
  VEC_OF(uint32_t) work;
  residence_reader reader;
  VEC_OF(uint32_t) outputs; /* of the returns that were met */
  bool failed;
} tracer;

static void go_on(tracer *t, uint32_t pc) {
  if (pc >= t->n_code || t->seen[pc]) return;
  t->seen[pc] = 1;
  if (!VEC_PUSH(&t->work, pc)) t->failed = true;
}

/* True if some word of the operand names the register; *out_reads: the flags of all such words. */
static bool names(const tracer *t, const insn_operand *o, bool flagged, uint32_t *out_reads) {
  bool named = false;
  *out_reads = 0;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t number = flagged ? INSN_REGISTER(o->words[i]) : o->words[i];
    if (number != t->reg) continue;
    named = true;
    if (flagged) *out_reads |= INSN_READS(o->words[i]);
  }
  return named;
}

static void note_reader(tracer *t, copy_reason reason, const insn *in) {
  if (t->reader.reads) return;
  t->reader = (residence_reader){.reads = true, .travels = t->reader.travels, .reason = reason, .site = UINT32_MAX};
  if (in->id != INSN_SHAPE && in->id != INSN_INVOKE) return;
  t->reader.site = in->operands[0].words[0];
  const insn_operand *inputs = &in->operands[insn_table[in->id].n_operands - 1];
  bool flagged = insn_roles[insn_table[in->id].roles[insn_table[in->id].n_operands - 1]].flagged;
  for (uint32_t i = inputs->n; i-- > 0;)
    if ((flagged ? INSN_REGISTER(inputs->words[i]) : inputs->words[i]) == t->reg) t->reader.input = i;
}

/* Notes the outputs for which a return names the register, each once. */
static void note_outputs(tracer *t, const insn_operand *results) {
  for (uint32_t i = 0; i < results->n; i++) {
    size_t k = 0;
    if (results->words[i] != t->reg) continue;
    while (k < t->outputs.n && t->outputs.items[k] != i) k++;
    if (k == t->outputs.n && !VEC_PUSH(&t->outputs, i)) t->failed = true;
  }
}

/* Notes the use of the register by one instruction. Returns true if the register holds the tensor afterwards. */
static bool step(tracer *t, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  bool defined = false;
  for (int k = 0; k < info->n_operands; k++) {
    insn_role role = info->roles[k];
    uint32_t reads;
    if (insn_roles[role].bank != INSN_BANK_R || !names(t, &in->operands[k], insn_roles[role].flagged, &reads)) continue;
    switch (role) {
      INSN_DEFINING_ROLES(INSN_ROLE_CASE)
      defined = true;
      break;
      case INSN_ROLE_RX_KILL: return false;
      case INSN_ROLE_RU_SHAPE: break;
      case INSN_ROLE_RF_INPUT:
      case INSN_ROLE_RF_KEY:
        if (reads & REED_READS_VALUE) note_reader(t, COPY_REASON_VALUE, in);
        break;
      case INSN_ROLE_RU_HOST: note_reader(t, COPY_REASON_VALUE, in); break;
      case INSN_ROLE_RU_KERNEL:
        if (!op_has(t->m->site_ops[in->operands[0].words[0]], REED_OP_EXTENTS_ONLY))
          note_reader(t, COPY_REASON_PLACEMENT, in);
        break;
      case INSN_ROLE_RU_TENSOR: /* a `copy` needs the elements on whichever device they are */
        if (in->id == INSN_COPY) t->reader.travels = true;
        else note_reader(t, COPY_REASON_PLACEMENT, in);
        break;
      case INSN_ROLE_RU_ANY:
        if (in->id != INSN_RETURN) {
          note_reader(t, COPY_REASON_PLACEMENT, in);
          break;
        }
        t->reader.travels = true;
        note_outputs(t, &in->operands[k]);
        break;
      default: note_reader(t, COPY_REASON_PLACEMENT, in); break;
    }
  }
  return !defined;
}

/* Follows the register from the instruction at pc on. */
static void follow(tracer *t, uint32_t pc, uint32_t reg) {
  memset(t->seen, 0, t->n_code);
  t->reader = (residence_reader){0};
  t->outputs.n = 0;
  t->work.n = 0;
  t->reg = reg;
  go_on(t, pc);
  while (t->work.n && !t->failed) {
    insn in;
    uint32_t at = t->work.items[--t->work.n];
    if (!insn_decode(t->code, t->n_code, at, &in) || !step(t, &in)) continue;
    const insn_info *info = &insn_table[in.id];
    for (int k = 0; k < info->n_operands; k++)
      for (uint32_t i = 0; info->roles[k] == INSN_ROLE_LABEL && in.id != INSN_EPOCH_ENTER && i < in.operands[k].n; i++)
        go_on(t, in.operands[k].words[i]);
    if (info->flow != INSN_FLOW_JUMP && info->flow != INSN_FLOW_RETURN && info->flow != INSN_FLOW_FAIL)
      go_on(t, at + in.n_words);
  }
}

bool residence_find(const module *m, residence *out) {
  const module_function *main = &m->functions[0];
  tracer t = {.m = m, .code = m->code + main->code_offset, .n_code = main->n_code};
  t.seen = mem_alloc(main->n_code);
  out->inputs = mem_calloc(main->n_r_params, sizeof *out->inputs);
  t.failed = !t.seen || !out->inputs;
  for (uint32_t i = 0; i < main->n_r_params && !t.failed; i++) {
    follow(&t, 0, i);
    out->inputs[i] = t.reader;
    if (t.reader.reads && t.reader.site == UINT32_MAX) out->inputs[i].input = i;
  }
  insn in;
  for (uint32_t pc = 0; !t.failed && insn_decode(t.code, t.n_code, pc, &in); pc += in.n_words) {
    if (in.id != INSN_READBACK) continue;
    follow(&t, pc + in.n_words, in.operands[0].words[0]);
    for (size_t i = 0; i < t.outputs.n && !t.failed; i++)
      t.failed = !VEC_PUSH(&out->results, ((residence_result){pc, t.outputs.items[i], t.reader.reads}));
  }
  mem_free(t.seen);
  VEC_FREE(&t.work);
  VEC_FREE(&t.outputs);
  return !t.failed;
}

void residence_fini(residence *found) {
  mem_free(found->inputs);
  VEC_FREE(&found->results);
}
