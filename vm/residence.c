/* Follows registers of function main through its code (residence.h): from a definition along every path, until the
 * register is defined anew or killed. */
#include "vm/residence.h"

#include "base/mem.h"
#include "bytecode/operands.h"
#include "ops/op.h"

typedef struct tracer {
  const module *m;
  uint32_t reg;
  residence_reader reader;
  VEC_OF(uint32_t) outputs; /* of the returns that were met */
  bool failed;
} tracer;

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
static bool step(void *context, const insn *in) {
  tracer *t = context;
  const insn_info *info = &insn_table[in->id];
  bool defined = false;
  for (int k = 0; k < info->n_operands; k++) {
    insn_role role = info->roles[k];
    if (insn_roles[role].bank != INSN_BANK_R) continue;
    mentions_of named = mentions_in(in, k, t->reg);
    if (!named.n) continue;
    switch (role) {
      INSN_DEFINING_ROLES(INSN_ROLE_CASE)
      defined = true;
      break;
      case INSN_ROLE_RX_KILL: return false;
      case INSN_ROLE_RU_SHAPE: break;
      case INSN_ROLE_RF_INPUT:
      case INSN_ROLE_RF_KEY:
        if (named.reads & REED_READS_VALUE) note_reader(t, COPY_REASON_VALUE, in);
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
static void follow(tracer *t, mentions *found, uint32_t pc, uint32_t reg) {
  t->reader = (residence_reader){0};
  t->outputs.n = 0;
  t->reg = reg;
  if (!mentions_walk(found, reg, pc, step, t)) t->failed = true;
}

bool residence_find(mentions *found, residence *out) {
  uint32_t n_inputs = found->m->functions[0].n_r_params;
  tracer t = {.m = found->m};
  out->inputs = mem_calloc(n_inputs, sizeof *out->inputs);
  t.failed = !out->inputs;
  for (uint32_t i = 0; i < n_inputs && !t.failed; i++) {
    follow(&t, found, 0, i);
    out->inputs[i] = t.reader;
    if (t.reader.reads && t.reader.site == UINT32_MAX) out->inputs[i].input = i;
  }
  for (size_t r = 0; r < found->readbacks.n && !t.failed; r++) {
    uint32_t pc = found->readbacks.items[r];
    const uint32_t *w = found->code + pc;
    follow(&t, found, pc + insn_length_at(w), insn_readback_at(w).dst);
    for (size_t i = 0; i < t.outputs.n && !t.failed; i++)
      t.failed = !VEC_PUSH(&out->results, ((residence_result){pc, t.outputs.items[i], t.reader.reads}));
  }
  VEC_FREE(&t.outputs);
  return !t.failed;
}

void residence_fini(residence *found) {
  mem_free(found->inputs);
  VEC_FREE(&found->results);
}
