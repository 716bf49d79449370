/* Checks a module's calls against the accelerator's list of capabilities before the first run. The list's contents and
 * text form: ops/capability.h. */
#include "vm/target.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "bytecode/insn.h"

#define SAID_BYTES 1500 /* of a diagnosis: room to name every operator; nodes that do not fit are only counted */

static capability_call call_of(const reed_program *p, uint32_t site, reed_dtype *dtypes) {
  const module_site *s = &p->module->sites[site];
  int32_t n = s->dtypes ? s->n_inputs + s->n_outputs : 0;
  for (int32_t i = 0; i < n; i++) dtypes[i] = (reed_dtype)s->dtypes[i];
  return (capability_call){
      .op = p->site_ops[site], .attrs = &s->attrs, .dtypes = dtypes, .n_inputs = s->n_inputs, .n_dtypes = n};
}

/* Marks the sites whose kernels run on that module device. */
static void find_sites(const module *m, uint32_t module_device, bool *on_accelerator) {
  insn in;
  for (size_t i = 0; i < m->n_functions; i++) {
    const module_function *f = &m->functions[i];
    for (uint32_t pc = 0; insn_decode(m->code + f->code_offset, f->n_code, pc, &in); pc += in.n_words)
      if (in.id == INSN_INVOKE && in.operands[1].words[0] == module_device)
        on_accelerator[in.operands[0].words[0]] = true;
  }
}

/* Appends "Conv with f64 (nodes 'a', 'b')": the lack of site `first`, with the nodes of all later sites that lack the
 * same, which are unmarked. */
static void say_lack(const reed_program *p, const capability *c, size_t first, size_t n_said, bool *lacking,
                     text_buffer *out) {
  const module *m = p->module;
  reed_dtype dtypes[2 * REED_MAX_OPERANDS];
  text_buffer words = {0}, other = {0};
  capability_call call = call_of(p, (uint32_t)first, dtypes);
  capability_say_lack(c, &call, &words);
  text_append(out, "%s", words.n ? words.data : "");
  size_t n = 0;
  for (size_t i = first; i < m->n_sites; i++) {
    if (!lacking[i]) continue;
    call = call_of(p, (uint32_t)i, dtypes);
    other.n = 0;
    capability_say_lack(c, &call, &other);
    if (other.n != words.n || (words.n && memcmp(other.data, words.data, words.n) != 0)) continue;
    lacking[i] = false;
    if (n++ < n_said) text_append(out, "%s'%s'", n > 1 ? ", " : " (node ", m->strings[m->sites[i].node]);
  }
  if (!n_said) text_append(out, " (%zu nodes", n);
  else if (n > n_said) text_append(out, " and %zu more", n - n_said);
  text_append(out, ")");
  text_fini(&words);
  text_fini(&other);
}

/* Marks the sites for which the accelerator has no kernel. Returns their number. */
static size_t find_lacking(const reed_program *p, int32_t module_device, const capability *c, bool *lacking) {
  const module *m = p->module;
  memset(lacking, 0, m->n_sites * sizeof *lacking);
  find_sites(m, (uint32_t)module_device, lacking);
  size_t n = 0;
  for (size_t i = 0; i < m->n_sites; i++) {
    reed_dtype dtypes[2 * REED_MAX_OPERANDS];
    capability_call call = call_of(p, (uint32_t)i, dtypes);
    lacking[i] = lacking[i] && !capability_has(c, &call);
    n += lacking[i];
  }
  return n;
}

reed_status target_check(const reed_program *p, int32_t module_device, const capability *c, reed_diagnosis *diagnosis) {
  static const size_t nodes_said[] = {16, 4, 1, 0};
  const module *m = p->module;
  bool *lacking = mem_calloc(m->n_sites, sizeof *lacking);
  if (!lacking) return diag_no_memory(diagnosis, "the check of a module's operators");
  text_buffer text = {0};
  size_t n = 0;
  for (size_t k = 0; k < sizeof nodes_said / sizeof *nodes_said && (k == 0 || text.n > SAID_BYTES); k++) {
    n = find_lacking(p, module_device, c, lacking);
    text.n = 0;
    for (size_t i = 0; i < m->n_sites; i++) {
      if (!lacking[i]) continue;
      if (text.n) text_append(&text, "; ");
      say_lack(p, c, i, nodes_said[k], lacking, &text);
    }
  }
  reed_status status = REED_OK;
  if (text.failed) status = diag_no_memory(diagnosis, "the check of a module's operators");
  else if (n)
    status = diag_fail(diagnosis, REED_ERROR_UNSUPPORTED,
                       "device '%s' has no kernel for %zu of this module's operators, which was compiled for '%s': %s. "
                       "Compile it for '%s'",
                       capability_text(c), n, *m->target ? m->target : "any", text.data, capability_text(c));
  text_fini(&text);
  mem_free(lacking);
  return status;
}
