/* Programs: a verified module, its operators resolved, and the packed weights that all sessions share. Immutable after
 * opening. */
#include <string.h>

#include "bytecode/operands.h"
#include "base/mem.h"
#include "bytecode/insn.h"
#include "loader/loader.h"
#include "shapefuncs/shapefn.h"
#include "vm/family.h"
#include "vm/program.h"

const char *reed_version(void) { return REED_VERSION_TEXT; }
void reed_text_free(char *text) { mem_free(text); }

void program_release(reed_program *p) {
  if (!p || atomic_fetch_sub(&p->n_references, 1) != 1) return;
  kernel_cache_close(&p->cache);
  module_close(&p->module);
  op_facts_list_close(&p->facts);
  mem_free(p->sites);
  mem_free(p->site_attrs);
  mem_free(p->attrs);
  mem_free(p->families);
  mem_free(p->values_fit);
  mem_free(p->returned);
  residence_fini(&p->residence);
  model_caches_fini(&p->caches);
  uv_mutex_destroy(&p->constants_lock);
  mem_free(p);
}

/* Marks a register; true if the mark is new. A register that may become several outputs keeps the first. */
static bool mark_returned(reed_program *p, uint32_t reg, uint32_t mark) {
  bool is_new = !p->returned[reg];
  if (is_new) p->returned[reg] = mark;
  return is_new;
}

/* Marks the registers that main returns, and those whose memory a marked register shares. A few passes find every chain
 * that compilers make; a register that stays unmarked is copied when it is returned. */
static reed_status find_returned(reed_program *p, reed_diagnosis *diagnosis) {
  const module_function *main = &p->module->functions[0];
  const uint32_t *code = p->module->code + main->code_offset, *end = code + main->n_code;
  p->returned = mem_calloc(main->n_r, sizeof *p->returned);
  if (!p->returned) return diag_no_memory(diagnosis, "a program's registers");
  bool changed = true;
  for (int pass = 0; pass < 8 && changed; pass++) {
    changed = false;
    for (const uint32_t *w = code; w < end; w = insn_next(w)) {
      if (insn_id_at(w) == INSN_RETURN) {
        const insn_return r = insn_return_at(w);
        for (uint32_t i = 0; i < r.n_results; i++) changed |= mark_returned(p, r.results[i], i + 1);
      } else if (insn_shares_src(insn_id_at(w)) && p->returned[insn_sharing_at(w).dst]) {
        changed |= mark_returned(p, insn_sharing_at(w).src, p->returned[insn_sharing_at(w).dst]);
      }
    }
  }
  return REED_OK;
}

/* Completes the attributes of every site, in one block for all sites. */
static reed_status complete_sites(reed_program *p, size_t *out_n_attrs, reed_diagnosis *diagnosis) {
  const module *m = p->module;
  size_t n_attrs = 0;
  p->site_ops = m->site_ops;
  p->site_attrs = mem_calloc(m->n_sites, sizeof *p->site_attrs);
  if (!p->site_attrs) return diag_no_memory(diagnosis, "a program's attributes");
  for (size_t i = 0; i < m->n_sites; i++) n_attrs += (size_t)op_attrs_completed(p->site_ops[i], &m->sites[i].attrs);
  reed_attr *items = p->attrs = mem_calloc(n_attrs, sizeof *items);
  if (!items) return diag_no_memory(diagnosis, "a program's attributes");
  for (size_t i = 0; i < m->n_sites; i++) {
    p->site_attrs[i] = op_attrs_complete(p->site_ops[i], &m->sites[i].attrs, items);
    items += p->site_attrs[i].n;
  }
  *out_n_attrs = n_attrs;
  return REED_OK;
}

/* Gives the sites of a family one list of attributes, which a run then reads from memory that the CPU's caches have. */
static void share_attrs(reed_program *p) {
  for (size_t i = 0; i < p->module->n_sites; i++) p->site_attrs[i] = p->site_attrs[p->families[i] & ~FAMILY_OF_ONE];
}

/* Finds the sites whose attributes have values that no shape function needs to check. Other sites' calls fail in a run.
 */
static reed_status check_values(reed_program *p, reed_diagnosis *diagnosis) {
  p->values_fit = mem_calloc(p->module->n_sites, sizeof *p->values_fit);
  if (!p->values_fit) return diag_no_memory(diagnosis, "a program's call sites");
  for (size_t i = 0; i < p->module->n_sites; i++) {
    const size_t first = p->families[i] & ~FAMILY_OF_ONE;
    p->values_fit[i] = first < i ? p->values_fit[first] : shapefn_values_fit(p->site_ops[i], &p->site_attrs[i]);
  }
  return REED_OK;
}

/* Reads the attributes that calls read. */
static reed_status read_facts(reed_program *p, size_t n_attrs, reed_diagnosis *diagnosis) {
  bool ok = op_facts_list_open(p->attrs, n_attrs, &p->facts);
  for (size_t i = 0; ok && i < p->module->n_sites; i++)
    if (p->values_fit[i]) ok = op_facts_list_add(&p->facts, p->site_ops[i], &p->site_attrs[i]);
  return ok ? REED_OK : diag_no_memory(diagnosis, "a program's call sites");
}

/* Gathers what calls read. */
static reed_status gather_sites(reed_program *p, reed_diagnosis *diagnosis) {
  const module *m = p->module;
  p->sites = mem_calloc(m->n_sites, sizeof *p->sites);
  if (!p->sites) return diag_no_memory(diagnosis, "a program's call sites");
  for (size_t i = 0; i < m->n_sites; i++) {
    const reed_attrs *attrs = &p->site_attrs[i];
    const op_facts *facts = op_facts_find(&p->facts, attrs);
    p->sites[i] = (program_site){.op = p->site_ops[i],
                                 .attrs = *attrs,
                                 .node = m->strings[m->sites[i].node],
                                 .facts = facts,
                                 .read = facts ? (const void *)facts : attrs->items,
                                 .n_read = (uint32_t)(facts ? facts->bytes : (size_t)attrs->n * sizeof *attrs->items),
                                 .values_fit = p->values_fit[i]};
  }
  return REED_OK;
}

/* Finds the uses of the model's inputs and outputs. */
static reed_status find_uses(reed_program *p, reed_diagnosis *diagnosis) {
  mentions found;
  bool ok = mentions_find(p->module, &found) && residence_find(&found, &p->residence) &&
            model_caches_find(&found, p->site_ops, p->site_attrs, &p->caches);
  mentions_fini(&found);
  return ok ? REED_OK : diag_no_memory(diagnosis, "a program's inputs and results");
}

/* Takes the module, also on failure. */
static reed_status open_module(module *m, const load_options *options, reed_program **out_program,
                               reed_diagnosis *diagnosis) {
  reed_program *p = mem_calloc(1, sizeof *p);
  if (!p || uv_mutex_init(&p->constants_lock) != 0) {
    mem_free(p);
    module_close(&m);
    return diag_no_memory(diagnosis, "a program");
  }
  atomic_init(&p->n_references, 1);
  p->module = m;
  p->registry = options->registry;
  size_t n_attrs = 0;
  reed_status status = complete_sites(p, &n_attrs, diagnosis);
  if (status == REED_OK && !families_find(m->site_ops, p->site_attrs, m->n_sites, &p->families))
    status = diag_no_memory(diagnosis, "a program's call sites");
  if (status == REED_OK) share_attrs(p);
  if (status == REED_OK) status = check_values(p, diagnosis);
  if (status == REED_OK) status = read_facts(p, n_attrs, diagnosis);
  if (status == REED_OK) status = gather_sites(p, diagnosis);
  if (status == REED_OK) status = find_returned(p, diagnosis);
  if (status == REED_OK) status = diag_check_cancel(diagnosis, options->cancel);
  if (status == REED_OK) status = find_uses(p, diagnosis);
  if (status == REED_OK && kernel_cache_open(&p->cache) != REED_OK)
    status = diag_no_memory(diagnosis, "a program's kernel cache");
  if (status == REED_OK) kernel_cache_set_facts(p->cache, &p->facts);
  if (status == REED_OK) status = diag_check_cancel(diagnosis, options->cancel);
  if (status != REED_OK) {
    program_release(p);
    return status;
  }
  *out_program = p;
  return REED_OK;
}

reed_status reed_program_open(const char *path, const reed_program_options *options, reed_program **out_program,
                              reed_diagnosis *diagnosis) {
  if (!path || !out_program)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_program_open: a path and a place for the program are needed");
  load_options load = load_options_of(options);
  module *m;
  reed_status status = loader_open_file(path, &load, &m, diagnosis);
  return status == REED_OK ? open_module(m, &load, out_program, diagnosis) : status;
}

reed_status reed_program_open_bytes(const void *bytes, size_t n_bytes, const reed_program_options *options,
                                    reed_program **out_program, reed_diagnosis *diagnosis) {
  if (!bytes || !out_program)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                     "reed_program_open_bytes: bytes and a place for the program are needed");
  load_options load = load_options_of(options);
  module *m;
  reed_status status = loader_open_bytes(bytes, n_bytes, &load, &m, diagnosis);
  return status == REED_OK ? open_module(m, &load, out_program, diagnosis) : status;
}

void reed_program_close(reed_program **program) {
  if (!program) return;
  program_release(*program);
  *program = NULL;
}

size_t reed_program_input_count(const reed_program *p) { return p ? p->module->functions[0].n_r_params : 0; }
size_t reed_program_output_count(const reed_program *p) { return p ? p->module->functions[0].n_r_results : 0; }

static reed_status value_info(const module *m, uint32_t type_index, reed_value_info *out_info) {
  if (!out_info) return REED_ERROR_ARGUMENT;
  const module_type *type = &m->types[type_index];
  *out_info = (reed_value_info){.name = m->strings[type->name], .dtype = type->dtype, .rank = type->rank};
  for (int32_t i = 0; i < type->rank; i++) {
    out_info->dims[i] = type->dims[i] >= 0 ? type->dims[i] : -1;
    if (type->dims[i] < 0 && m->strings[~type->dims[i]][0]) out_info->symbols[i] = m->strings[~type->dims[i]];
  }
  return REED_OK;
}

reed_status reed_program_input(const reed_program *p, size_t i, reed_value_info *out_info) {
  return i < reed_program_input_count(p) ? value_info(p->module, p->module->inputs[i], out_info) : REED_ERROR_ARGUMENT;
}

const module_range *program_range(const reed_program *p, size_t i, int32_t axis) {
  for (size_t k = 0; k < p->module->n_ranges; k++)
    if (p->module->ranges[k].input == i && (int32_t)p->module->ranges[k].axis == axis) return &p->module->ranges[k];
  return NULL;
}

bool reed_program_input_range(const reed_program *p, size_t i, int32_t axis, reed_dim_range *out_range) {
  const module_range *r = p && out_range ? program_range(p, i, axis) : NULL;
  if (r) *out_range = (reed_dim_range){p->module->strings[r->name], r->low, r->high};
  return r;
}

bool reed_program_is_impure(const reed_program *p) {
  bool found = false;
  for (size_t i = 0; p && i < p->module->n_sites && !found; i++) found = p->site_ops[i]->impure;
  return found;
}

reed_status reed_program_output(const reed_program *p, size_t i, reed_value_info *out_info) {
  return i < reed_program_output_count(p) ? value_info(p->module, p->module->outputs[i], out_info)
                                          : REED_ERROR_ARGUMENT;
}
