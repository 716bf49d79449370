/* Finds the operators of call sites and checks the sites against the operator table: operand counts, attribute names
 * and types. Operands' states:
 * verify_flow.c. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "loader/rules.h"
#include "loader/sites.h"

/* The least number of operands of a call: the operands up to the last one that is neither optional nor variadic. */
#define LEAST_OPERANDS(list, n) \
  ({ \
    int32_t least_ = 0; \
    for (int32_t i_ = 0; i_ < (n); i_++) \
      if (!(list)[i_].optional) least_ = i_ + 1; \
    least_; \
  })
#define MOST_OPERANDS(list, n) ((n) > 0 && (list)[(n)-1].variadic ? REED_MAX_OPERANDS : (n))

/* A call site of a module, and its name in messages. */
typedef struct place {
  const module *m;
  size_t number;
} place;

static const module_site *site_at(const place *at) { return &at->m->sites[at->number]; }

static const char *place_text(const place *at, char *text, size_t n_bytes) {
  snprintf(text, n_bytes, "call site %zu (node '%.200s')", at->number, at->m->strings[site_at(at)->node]);
  return text;
}
#define WHAT(at) place_text(at, (char[256]){0}, 256)

static reed_status check_counts(const place *at, const reed_op *op, reed_diagnosis *diagnosis) {
  const module_site *s = site_at(at);
  int32_t least_in = LEAST_OPERANDS(op->inputs, op->n_inputs), most_in = MOST_OPERANDS(op->inputs, op->n_inputs);
  int32_t least_out = LEAST_OPERANDS(op->outputs, op->n_outputs), most_out = MOST_OPERANDS(op->outputs, op->n_outputs);
  if (s->n_inputs < least_in || s->n_inputs > most_in)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SITES, "%s has %d inputs, %s takes %d to %d", WHAT(at),
                         s->n_inputs, op->name, least_in, most_in);
  if (s->n_outputs < least_out || s->n_outputs > most_out)
    return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_SITES, "%s has %d outputs, %s gives %d to %d", WHAT(at),
                         s->n_outputs, op->name, least_out, most_out);
  return REED_OK;
}

static reed_status check_attributes(const place *at, const reed_op *op, reed_diagnosis *diagnosis) {
  const module_site *s = site_at(at);
  for (int32_t i = 0; i < s->attrs.n; i++) {
    const reed_attr *a = &s->attrs.items[i];
    const reed_op_attr *row = op_attr_row(op, a->name);
    if (!row)
      return verify_reject(diagnosis, REED_ERROR_UNSUPPORTED, RULE_ATTRIBUTES, "%s: %s has no attribute '%s'", WHAT(at),
                           op->name, a->name);
    if (row->type != a->type)
      return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_ATTRIBUTES,
                           "%s: attribute '%s' is of type %d, %s wants %d", WHAT(at), a->name, a->type, op->name,
                           row->type);
  }
  for (int32_t i = 0; i < op->n_attrs; i++)
    if (op->attrs[i].required && !reed_attrs_find(&s->attrs, op->attrs[i].name))
      return verify_reject(diagnosis, REED_ERROR_FORMAT, RULE_ATTRIBUTES, "%s: %s needs the attribute '%s'", WHAT(at),
                           op->name, op->attrs[i].name);
  return REED_OK;
}

static reed_status resolve_site(const place *at, const reed_registry *registry, const reed_op **out_op,
                                reed_diagnosis *diagnosis) {
  const module_site *s = site_at(at);
  const char *domain = at->m->strings[s->domain], *name = at->m->strings[s->op];
  const reed_op *op = *out_op = op_find(registry, domain, name);
  if (!op)
    return verify_reject(diagnosis, REED_ERROR_UNSUPPORTED, RULE_SITES, "%s: there is no operator '%.200s'%s%.200s",
                         WHAT(at), name, *domain ? " in domain " : "", domain);
  reed_status status = check_counts(at, op, diagnosis);
  return status == REED_OK ? check_attributes(at, op, diagnosis) : status;
}

reed_status sites_resolve(module *m, const reed_registry *registry, reed_diagnosis *diagnosis) {
  m->site_ops = mem_calloc(m->n_sites, sizeof *m->site_ops);
  if (!m->site_ops) return diag_no_memory(diagnosis, "a module's operators");
  for (size_t i = 0; i < m->n_sites; i++) {
    reed_status status = resolve_site(&(place){m, i}, registry, &m->site_ops[i], diagnosis);
    if (status != REED_OK) {
      diag_place_node(diagnosis, m->strings[m->sites[i].op], m->strings[m->sites[i].node], NULL);
      return status;
    }
  }
  return REED_OK;
}
