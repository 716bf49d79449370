/* The walk over function main that gives shapes without a run (query.h), and reed_session_shapes. An epoch's shape
 * section is walked, or recalled from the memo; of its run section only moves between registers count. If a branch
 * depends on something unknown, the walk stops: registers that the rest of the code may define are then unknown, and
 * the model's declared types answer for them. */
#include "vm/query.h"

#include <string.h>

#include "base/mem.h"
#include "vm/check.h"
#include "vm/query_walk.h"
#include "vm/residence.h"

enum {
  POLL_STEPS = 1024,   /* between two looks at the cancel flag */
  MAX_STEPS = 1 << 26, /* of a walk without a budget: then it stops as at an unknown branch */
};

/* ---- registers ---- */

/* The register as instructions of a run see it; false: its extents are not all known. */
static bool as_ref(const query_ref *r, ref *out_ref) {
  *out_ref = (ref){.kind = r->data ? REF_STORED : REF_SHAPED, .bounded_axis = -1};
  if (!query_desc(r, &out_ref->t.desc)) return false;
  out_ref->t.data = (void *)r->data;
  out_ref->bytes = desc_bytes(&out_ref->t.desc);
  return true;
}

/* Makes every register that the instruction defines or changes unknown. */
static void forget_defined(query *q, const insn *in) {
  const insn_info *info = &insn_table[in->id];
  for (int k = 0; k < info->n_operands; k++) {
    switch (info->roles[k]) {
      INSN_DEFINING_ROLES(INSN_ROLE_CASE)
      case INSN_ROLE_RX_PUSH:
        break;
        INSN_READING_ROLES(INSN_ROLE_CASE)
        INSN_NAMING_ROLES(INSN_ROLE_CASE)
      case INSN_ROLE_RX_ALLOC: /* extents stay as the walk knows them */
      case INSN_ROLE_RX_FILL:
      case INSN_ROLE_RX_EXTENT:
      case INSN_ROLE_RX_KILL:
      case INSN_ROLE_RX_KERNEL:
      case INSN_ROLE_COUNT: continue;
    }
    bool scalar = insn_roles[info->roles[k]].bank == INSN_BANK_S;
    for (uint32_t i = 0; i < in->operands[k].n; i++) {
      uint32_t number = in->operands[k].words[i];
      if (number == MODULE_ABSENT) continue;
      if (scalar) q->scalars[number].known = false;
      else q->r[number] = (query_ref){0};
    }
  }
}

/* ---- instructions ---- */

static reed_status assert_shape(query *q, const insn_assert_shape *i) {
  const module_type *type = &q->s->program->module->types[i->type];
  query_ref *r = &q->r[i->src];
  if (type->object || r->kind != QUERY_TENSOR || r->dtype == REED_NONE) return REED_OK;
  if (r->rank < 0 && type->rank >= 0) { /* a run that goes on has the type's rank */
    r->rank = type->rank;
    for (int32_t k = 0; k < r->rank; k++) r->dims[k] = symbols_fresh_extent(q->symbols);
  }
  for (int32_t k = 0; k < r->rank && r->rank == type->rank; k++)
    if (symbol_is(r->dims[k]) && type->dims[k] >= 0) r->dims[k] = type->dims[k];
  ref seen;
  query_ref numbers = *r;
  for (int32_t k = 0; k < numbers.rank; k++)
    if (symbol_is(numbers.dims[k])) numbers.dims[k] = 0; /* of the type's symbolic extents, any will do */
  return as_ref(&numbers, &seen) ? exec_assert_shape(&q->s->run, &seen, type) : REED_OK;
}

static reed_status assert_dim(query *q, const insn_assert_dim *i) {
  query_ref *r = &q->r[i->src];
  if (!q->scalars[i->extent].known || r->kind != QUERY_TENSOR || (int32_t)i->axis >= r->rank) return REED_OK;
  int64_t extent = q->scalars[i->extent].value;
  if (symbol_is(r->dims[i->axis])) r->dims[i->axis] = extent;
  ref seen;
  if (!as_ref(r, &seen)) return REED_OK;
  return exec_assert_dim(&q->s->run, &seen, i->axis, extent, &q->s->program->module->types[i->type]);
}

static reed_status item(query *q, const insn_s_item *i) {
  ref seen;
  query_scalar *to = &q->scalars[i->dst];
  to->known = as_ref(&q->r[i->src], &seen) && q->r[i->src].data;
  return to->known ? exec_item(&q->s->run, &seen, &to->value) : REED_OK;
}

static reed_status arithmetic(query *q, const insn_s_add *i, insn_id id) {
  const query_scalar *a = &q->scalars[i->a], *b = &q->scalars[i->b];
  int64_t value = 0;
  bool known = a->known && b->known;
  reed_status status = known ? scalar_arithmetic(q->s->run.diagnosis, id, a->value, b->value, &value) : REED_OK;
  q->scalars[i->dst] = (query_scalar){known, value};
  return status;
}

static reed_status scalar_tensor(query *q, const insn_r_scalar *i) {
  query_ref made = {.kind = QUERY_TENSOR, .dtype = (reed_dtype)i->dtype, .section = q->section};
  if (q->scalars[i->src].known) {
    void *data = query_memory(q, 8);
    if (!data) return diag_no_memory(q->s->run.diagnosis, "shapes without a run");
    if (made.dtype == REED_I64) memcpy(data, &q->scalars[i->src].value, 8);
    else reed_dtype_write(made.dtype, data, (double)q->scalars[i->src].value);
    made.data = data;
  }
  q->r[i->dst] = made;
  return REED_OK;
}

static void constant(query *q, const insn_const *i) {
  const module_constant *c = &q->s->program->module->constants[i->constant];
  query_ref *r = &q->r[i->dst];
  *r = (query_ref){.kind = QUERY_TENSOR,
                   .dtype = c->desc.dtype,
                   .rank = c->desc.rank,
                   .data = c->data,
                   .device = q->s->devices.bind[i->device],
                   .constant = (int32_t)i->constant + 1,
                   .section = q->section};
  memcpy(r->dims, c->desc.dims, sizeof r->dims);
}

static void push(query *q, const insn_seq_push *i) {
  query_ref *sequence = &q->r[i->sequence];
  const query_ref *part = &q->r[i->item];
  if (sequence->kind != QUERY_SEQUENCE) return;
  if (part->kind != QUERY_TENSOR || part->rank < 0) {
    *sequence = (query_ref){0};
    return;
  }
  reed_dim rows = part->rank > 0 ? part->dims[0] : 1;
  if (sequence->n_items == 0) {
    sequence->dtype = part->dtype;
    sequence->rank = part->rank;
    sequence->rows = rows;
    memcpy(sequence->dims, part->dims, sizeof sequence->dims);
  } else {
    for (int32_t k = 1; k < part->rank; k++)
      if (sequence->rank != part->rank || !symbols_equal(q->symbols, sequence->dims[k], part->dims[k]))
        sequence->rank = -1;
    if (part->rank > 0 && sequence->rank > 0 && !symbols_equal(q->symbols, sequence->dims[0], part->dims[0]))
      sequence->dims[0] = symbols_fresh_extent(q->symbols); /* may still be joined */
    sequence->rows = symbols_add(q->symbols, sequence->rows, rows);
  }
  sequence->n_items++;
}

/* seq.stack, seq.join. */
static void together(query *q, uint32_t dst, uint32_t src, const module_type *type, uint32_t device, bool join) {
  query_ref parts = q->r[src], made = {.kind = QUERY_TENSOR, .device = q->s->devices.bind[device]};
  q->r[dst] = (query_ref){0};
  if (parts.kind != QUERY_SEQUENCE) return;
  if (parts.n_items == 0) {
    parts.dtype = type->dtype;
    parts.rank = type->rank < 0 ? 0 : type->rank;
    for (int32_t k = 0; k < parts.rank; k++) parts.dims[k] = type->dims[k] < 0 ? 0 : type->dims[k];
    parts.rows = 0;
  }
  made.dtype = parts.dtype;
  made.rank = parts.rank < 0 || (!join && parts.rank == REED_MAX_RANK) ? -1 : parts.rank + !join;
  if (made.rank > 0) {
    memcpy(made.dims + !join, parts.dims, sizeof(reed_dim) * (size_t)parts.rank);
    made.dims[0] = join ? parts.rows : parts.n_items;
  }
  q->r[dst] = made;
}

/* ---- the walk ---- */

typedef struct walk {
  uint32_t pc;
  bool in_shape_section, in_run_section;
  bool stopped;            /* at pc, because something is unknown */
  const uint32_t *results; /* of the return that was met; NULL: none */
} walk;

/* The register of r.move and opt.get. In a shape section a key is copied, so that it is no constant afterwards. */
static void move(query *q, const walk *at, uint32_t dst, uint32_t src) {
  query_ref made = q->r[src];
  if (at->in_shape_section && made.section != q->section) made.constant = made.resident = 0;
  made.section = q->section;
  q->r[dst] = made;
}

static void go(walk *at, const query_scalar *condition, bool wanted, uint32_t target, uint32_t next) {
  if (!condition->known) at->stopped = true;
  else at->pc = (condition->value != 0) == wanted ? target : next;
}

/* One instruction that is neither control nor a border of an epoch. */
static reed_status step(query *q, walk *at, const insn *in) {
  const uint32_t *w = in->code;
  const module *m = q->s->program->module;
  switch (in->id) {
    case INSN_S_CONST: {
      const insn_s_const i = insn_s_const_at(w);
      q->scalars[i.dst] = (query_scalar){true, i.value};
      return REED_OK;
    }
    case INSN_S_MOVE: {
      const insn_s_move i = insn_s_move_at(w);
      q->scalars[i.dst] = q->scalars[i.src];
      return REED_OK;
    }
    case INSN_S_ITEM: {
      const insn_s_item i = insn_s_item_at(w);
      return item(q, &i);
    }
    case INSN_S_DIM: {
      const insn_s_dim i = insn_s_dim_at(w);
      const query_ref *r = &q->r[i.src];
      bool known = r->kind == QUERY_TENSOR && (int32_t)i.axis < r->rank && !symbol_is(r->dims[i.axis]);
      q->scalars[i.dst] = (query_scalar){known, known ? r->dims[i.axis] : 0};
      return REED_OK;
    }
      INSN_ARITHMETIC(INSN_CASE) {
        const insn_s_add i = insn_s_add_at(w); /* all these instructions have the operands of s.add */
        return arithmetic(q, &i, in->id);
      }
    case INSN_S_NOT: {
      const insn_s_not i = insn_s_not_at(w);
      q->scalars[i.dst] = (query_scalar){q->scalars[i.a].known, !q->scalars[i.a].value};
      return REED_OK;
    }
    case INSN_R_SCALAR: {
      const insn_r_scalar i = insn_r_scalar_at(w);
      return scalar_tensor(q, &i);
    }
    case INSN_CONST: {
      const insn_const i = insn_const_at(w);
      constant(q, &i);
      return REED_OK;
    }
    case INSN_R_MOVE: {
      const insn_r_move i = insn_r_move_at(w);
      move(q, at, i.dst, i.src);
      return REED_OK;
    }
    case INSN_OPT_GET: {
      const insn_opt_get i = insn_opt_get_at(w);
      move(q, at, i.dst, i.src);
      return REED_OK;
    }
    case INSN_OPT_NONE: {
      const insn_opt_none i = insn_opt_none_at(w);
      q->r[i.dst] = (query_ref){.kind = QUERY_NONE};
      return REED_OK;
    }
    case INSN_OPT_HAS: {
      const insn_opt_has i = insn_opt_has_at(w);
      query_kind kind = q->r[i.src].kind;
      q->scalars[i.dst] = (query_scalar){kind != QUERY_NOTHING, kind != QUERY_NONE};
      return REED_OK;
    }
    case INSN_SHAPE: {
      const insn_shape i = insn_shape_at(w);
      return query_shape(q, &i);
    }
    case INSN_SHAPE_LIKE: {
      const insn_shape_like i = insn_shape_like_at(w);
      query_ref made = q->r[i.src];
      made.data = NULL;
      made.constant = made.resident = 0;
      made.device = q->s->devices.bind[i.device];
      made.section = q->section;
      q->r[i.dst] = made;
      return REED_OK;
    }
    case INSN_INVOKE: {
      const insn_invoke i = insn_invoke_at(w);
      return query_invoke(q, &i, at->in_shape_section);
    }
    case INSN_ASSERT_SHAPE: {
      const insn_assert_shape i = insn_assert_shape_at(w);
      return assert_shape(q, &i);
    }
    case INSN_ASSERT_DIM: {
      const insn_assert_dim i = insn_assert_dim_at(w);
      return assert_dim(q, &i);
    }
    case INSN_VIEW: {
      const insn_view i = insn_view_at(w);
      q->r[i.dst].data = q->r[i.src].data;
      return REED_OK;
    }
    case INSN_COPY: {
      const insn_copy i = insn_copy_at(w);
      q->r[i.dst].data = NULL;
      return REED_OK;
    }
    case INSN_READBACK: {
      const insn_readback i = insn_readback_at(w);
      query_ref made = q->r[i.src];
      if (made.device != 0) made.data = NULL;
      made.device = made.constant = made.resident = 0;
      q->r[i.dst] = made;
      return REED_OK;
    }
    case INSN_SEQ_MAKE: {
      const insn_seq_make i = insn_seq_make_at(w);
      q->r[i.dst] = (query_ref){.kind = QUERY_SEQUENCE};
      return REED_OK;
    }
    case INSN_SEQ_PUSH: {
      const insn_seq_push i = insn_seq_push_at(w);
      push(q, &i);
      return REED_OK;
    }
    case INSN_SEQ_LENGTH: {
      const insn_seq_length i = insn_seq_length_at(w);
      q->scalars[i.dst] = (query_scalar){q->r[i.src].kind == QUERY_SEQUENCE, q->r[i.src].n_items};
      return REED_OK;
    }
    case INSN_SEQ_STACK: {
      const insn_seq_stack i = insn_seq_stack_at(w);
      together(q, i.dst, i.src, &m->types[i.element], i.device, false);
      return REED_OK;
    }
    case INSN_SEQ_JOIN: {
      const insn_seq_join i = insn_seq_join_at(w);
      together(q, i.dst, i.src, &m->types[i.element], i.device, true);
      return REED_OK;
    }
    case INSN_FAIL: return diag_fail(q->s->run.diagnosis, REED_ERROR_FAILED, "%s", m->strings[insn_fail_at(w).message]);
    default: forget_defined(q, in); return REED_OK;
  }
}

/* One instruction; *at is where the walk goes on. */
static reed_status advance(query *q, walk *at, const insn *in) {
  const uint32_t *w = in->code;
  uint32_t next = at->pc + in->n_words;
  at->pc = next;
  switch (in->id) {
    case INSN_JUMP: at->pc = insn_jump_at(w).target; return REED_OK;
    case INSN_BRANCH_IF:
    case INSN_BRANCH_IFNOT: {
      const insn_branch_if i = insn_branch_if_at(w);
      go(at, &q->scalars[i.condition], in->id == INSN_BRANCH_IF, i.target, next);
      return REED_OK;
    }
    case INSN_SWITCH: {
      const insn_switch i = insn_switch_at(w);
      const query_scalar *selector = &q->scalars[i.selector];
      if (!selector->known) at->stopped = true;
      else if (selector->value >= 0 && selector->value < (int64_t)i.n_targets) at->pc = i.targets[selector->value];
      return REED_OK;
    }
    case INSN_RETURN: at->results = insn_return_at(w).results; return REED_OK;
    case INSN_EPOCH_ENTER: {
      const insn_epoch_enter i = insn_epoch_enter_at(w);
      q->section++;
      at->in_shape_section = !query_recall(q, &i);
      at->in_run_section = !at->in_shape_section;
      if (at->in_run_section) at->pc = i.plan + insn_length_at(w - (next - in->n_words) + i.plan);
      return REED_OK;
    }
    case INSN_EPOCH_PLAN:
      at->in_shape_section = false;
      at->in_run_section = true;
      return REED_OK;
    case INSN_EPOCH_END: at->in_run_section = false; return REED_OK;
    default: return step(q, at, in);
  }
}

static reed_status walk_main(query *q, walk *at) {
  const module_function *main = &q->s->program->module->functions[0];
  const uint32_t *code = q->s->program->module->code + main->code_offset;
  int64_t most = q->s->run.max_instructions ? q->s->run.max_instructions : MAX_STEPS;
  for (int64_t n = 0; !at->results && !at->stopped; n++) {
    insn in;
    uint32_t pc = at->pc;
    if (n == most || !insn_decode(code, main->n_code, pc, &in)) {
      at->stopped = true;
      break;
    }
    reed_status status = n % POLL_STEPS ? REED_OK : run_check_cancel(&q->s->run);
    if (status == REED_OK) status = advance(q, at, &in);
    if (status != REED_OK) {
      run_place_failure(&q->s->run, pc);
      return status;
    }
    if (at->stopped) at->pc = pc;
  }
  return REED_OK;
}

/* After a stop: the results of main's one return, and which of them the rest of the code may define. NULL: main has
 * several returns. */
static const uint32_t *results_after_stop(query *q, uint32_t stop) {
  const module_function *main = &q->s->program->module->functions[0];
  const uint32_t *code = q->s->program->module->code + main->code_offset, *results = NULL;
  uint32_t from = stop;
  insn in;
  for (bool changed = true; changed;) { /* the code that jumps back lead to may run again */
    changed = false;
    for (uint32_t pc = from; insn_decode(code, main->n_code, pc, &in); pc += in.n_words)
      for (int k = 0; k < insn_table[in.id].n_operands; k++)
        for (uint32_t i = 0; insn_table[in.id].roles[k] == INSN_ROLE_LABEL && i < in.operands[k].n; i++)
          if (in.operands[k].words[i] < from) from = in.operands[k].words[i], changed = true;
  }
  int n_returns = 0;
  for (uint32_t pc = 0; insn_decode(code, main->n_code, pc, &in); pc += in.n_words) {
    if (pc >= from) forget_defined(q, &in);
    if (in.id == INSN_RETURN) n_returns++, results = insn_return_at(in.code).results;
  }
  return n_returns == 1 ? results : NULL;
}

/* ---- the borders ---- */

static reed_status take_shape(query *q, size_t i, const reed_shape *given, query_ref *r) {
  if (reed_dtype_bytes(given->dtype) == 0 || given->rank < 0 || given->rank > REED_MAX_RANK)
    return diag_fail(q->s->run.diagnosis, REED_ERROR_ARGUMENT, "input %zu: a dtype and a rank of 0 to %d are needed", i,
                     REED_MAX_RANK);
  *r = (query_ref){.kind = QUERY_TENSOR, .dtype = given->dtype, .rank = given->rank};
  for (int32_t k = 0; k < given->rank; k++) {
    if (given->dims[k] < -1)
      return diag_fail(q->s->run.diagnosis, REED_ERROR_ARGUMENT, "input %zu: extent %lld of axis %d", i,
                       (long long)given->dims[k], k);
    r->dims[k] = given->dims[k];
    if (given->dims[k] >= 0) continue;
    r->dims[k] = symbols_fresh_extent(q->symbols);
    const module_range *declared = program_range(q->s->program, i, k);
    if (declared) r->dims[k] = symbols_max(q->symbols, r->dims[k], declared->low);
    if (declared && declared->high != REED_UNBOUNDED) r->dims[k] = symbols_min(q->symbols, r->dims[k], declared->high);
    if (given->bounds[k] > 0) r->dims[k] = symbols_min(q->symbols, r->dims[k], given->bounds[k]);
  }
  reed_desc desc;
  reed_status status = check_ranges(q->s->program->module, i, given->rank, given->dims, q->s->run.diagnosis);
  if (status != REED_OK) return status;
  if (query_desc(r, &desc) && desc_bytes(&desc) < 0)
    return diag_fail(q->s->run.diagnosis, REED_ERROR_SHAPE, "input %zu is larger than any memory", i);
  return REED_OK;
}

/* A tensor as the register that a run would have; *out_host (NULL: none) keeps its elements on the host. */
static reed_status take_tensor(query *q, size_t i, reed_tensor *given, query_ref *r, reed_tensor **out_host) {
  const residence_reader *reader = &q->s->program->residence.inputs[i];
  reed_status status = check_ranges(q->s->program->module, i, given->desc.rank, given->desc.dims, q->s->run.diagnosis);
  if (status != REED_OK) return status;
  int32_t device = devices_find(&q->s->devices, given->on);
  *r = (query_ref){.kind = QUERY_TENSOR, .dtype = given->desc.dtype, .rank = given->desc.rank};
  memcpy(r->dims, given->desc.dims, sizeof r->dims);
  r->device = device < 0 || reader->reads ? 0 : device;
  r->resident = device > 0 && reader->reads ? (uint8_t)device : 0;
  if (!reader->reads) return REED_OK;
  status = reed_tensor_to_host(given, out_host, q->s->run.diagnosis);
  if (status == REED_OK) r->data = (*out_host)->elements ? (*out_host)->data : "";
  return status;
}

/* The output's shape as the walk found it, else as the model declares it. */
static void give_shape(query *q, size_t i, const query_ref *r, reed_shape *out) {
  const module *m = q->s->program->module;
  const module_type *type = &m->types[m->outputs[i]];
  bool known = r && r->kind == QUERY_TENSOR, ranked = known && r->rank >= 0;
  *out = (reed_shape){.dtype = known && r->dtype != REED_NONE ? r->dtype : type->dtype,
                      .rank = ranked ? r->rank : type->rank};
  for (int32_t k = 0; k < out->rank; k++) {
    int64_t low = 0, high = INT64_MAX;
    if (ranked && symbol_is(r->dims[k])) symbols_range(q->symbols, r->dims[k], &low, &high);
    else if (ranked) low = high = r->dims[k];
    if (low != high && out->rank == type->rank && type->dims[k] >= 0) low = high = type->dims[k];
    out->dims[k] = low == high ? low : -1;
    out->bounds[k] = high == INT64_MAX ? -1 : high;
  }
}

static reed_status find_shapes(query *q, const reed_shape *shapes, reed_tensor *const *values, size_t n_inputs,
                               reed_tensor **hosts, reed_shape *outputs, size_t n_outputs) {
  reed_status status = REED_OK;
  for (size_t i = 0; i < n_inputs && status == REED_OK; i++) {
    if (values && values[i]) status = take_tensor(q, i, values[i], &q->r[i], &hosts[i]);
    else if (shapes) status = take_shape(q, i, &shapes[i], &q->r[i]);
    else status = diag_fail(q->s->run.diagnosis, REED_ERROR_ARGUMENT, "input %zu has neither shape nor tensor", i);
    ref *seen = reg_r(&q->s->run, (uint32_t)i); /* for messages that compare inputs */
    if (status == REED_OK && !as_ref(&q->r[i], seen)) *seen = (ref){0};
  }
  if (status != REED_OK) return status;
  walk at = {0};
  status = walk_main(q, &at);
  if (status == REED_OK && symbols_status(q->symbols) != REED_OK)
    status = diag_no_memory(q->s->run.diagnosis, "shapes without a run");
  if (status != REED_OK) return status;
  const uint32_t *results = at.stopped ? results_after_stop(q, at.pc) : at.results;
  for (size_t i = 0; i < n_outputs; i++) give_shape(q, i, results ? &q->r[results[i]] : NULL, &outputs[i]);
  return REED_OK;
}

static reed_status query_claimed(reed_session *s, const reed_shape *shapes, reed_tensor *const *values, size_t n_inputs,
                                 reed_shape *outputs, size_t n_outputs) {
  const module_function *main = &s->program->module->functions[0];
  query q = {.s = s, .n_r = main->n_r, .n_s = main->n_s};
  q.r = mem_calloc(main->n_r, sizeof *q.r);
  q.scalars = mem_calloc(main->n_s, sizeof *q.scalars);
  reed_tensor **hosts = mem_calloc(n_inputs, sizeof *hosts);
  reed_status status = q.r && q.scalars && hosts && symbols_open(&q.symbols) == REED_OK
                           ? frame_push(&s->run, 0, 0)
                           : diag_no_memory(s->run.diagnosis, "shapes without a run");
  if (status == REED_OK) {
    status = find_shapes(&q, shapes, values, n_inputs, hosts, outputs, n_outputs);
    memset(&s->run.r.items[frame_top(&s->run)->r_base], 0, sizeof(ref) * n_inputs); /* no references of its own */
    frame_pop(&s->run);
  }
  for (size_t i = 0; hosts && i < n_inputs; i++) reed_tensor_close(&hosts[i]);
  for (size_t i = 0; i < q.blocks.n; i++) mem_free_aligned(q.blocks.items[i]);
  VEC_FREE(&q.blocks);
  symbols_close(&q.symbols);
  mem_free(hosts);
  mem_free(q.scalars);
  mem_free(q.r);
  return status;
}

void query_bound_outputs(reed_session *s) {
  size_t n_inputs = reed_program_input_count(s->program), n_outputs = s->bindings.n;
  reed_shape *shapes = mem_calloc(n_inputs + n_outputs, sizeof *shapes), *outputs = shapes + n_inputs;
  bool known = shapes != NULL;
  for (size_t i = 0; i < n_inputs && known; i++) {
    reed_value_info info;
    known = reed_program_input(s->program, i, &info) == REED_OK && info.rank >= 0 && info.dtype != REED_NONE;
    if (!known) break;
    shapes[i] = (reed_shape){.dtype = info.dtype, .rank = info.rank};
    memcpy(shapes[i].dims, info.dims, sizeof info.dims);
  }
  s->run.diagnosis = &s->run.own_diagnosis;
  known = known && query_claimed(s, shapes, NULL, n_inputs, outputs, n_outputs) == REED_OK;
  reed_diagnosis_clear(s->run.diagnosis);
  s->run.diagnosis = NULL;
  for (size_t i = 0; i < n_outputs && known; i++) {
    reed_desc most = {.dtype = outputs[i].dtype, .rank = outputs[i].rank};
    bool bounded = most.rank >= 0 && most.dtype != REED_NONE;
    for (int32_t k = 0; k < most.rank; k++) bounded &= (most.dims[k] = outputs[i].bounds[k]) >= 0;
    int64_t bytes = bounded ? desc_bytes(&most) : 0;
    s->bindings.outputs[i].most_bytes = bytes > 0 && bytes <= s->devices.max_output_bytes ? bytes : 0;
  }
  mem_free(shapes);
}

reed_status reed_session_shapes(reed_session *s, const reed_shape *shapes, reed_tensor *const *values, size_t n_inputs,
                                reed_shape *outputs, size_t n_outputs, reed_diagnosis *diagnosis) {
  if (!s || (n_outputs && !outputs))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_session_shapes: a session and a place for the shapes are needed");
  size_t want_in = reed_program_input_count(s->program), want_out = reed_program_output_count(s->program);
  if (n_inputs != want_in || n_outputs != want_out)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "the model has %zu inputs and %zu outputs, the call gives %zu and takes %zu", want_in, want_out,
                     n_inputs, n_outputs);
  if (!claim_take(&s->claim, NULL)) return claim_refuse(diagnosis);
  s->run.diagnosis = diagnosis ? diagnosis : &s->run.own_diagnosis;
  reed_diagnosis_clear(s->run.diagnosis);
  reed_status status = query_claimed(s, shapes, values, n_inputs, outputs, n_outputs);
  s->run.diagnosis = NULL;
  claim_release(&s->claim);
  return status;
}
