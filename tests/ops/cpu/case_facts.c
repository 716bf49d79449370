/* Facts of a case's attributes (ops/facts.h). The reference's call has none, so that every comparison with it is one of
 * reading facts with reading attributes. */
#include "shapefuncs/shapefn.h"
#include "tests/ops/cpu/case_parts.h"

reed_status case_facts_init(kernel_case *c, case_call *made, reed_status without) {
  reed_shape_output shapes[CASE_OUTPUTS];
  op_call *call = &made->call;
  ck_assert(op_facts_list_open(made->completed, CASE_ATTRS_COMPLETE, &made->facts));
  if (!shapefn_values_fit(call->op, call->attrs)) return without;
  ck_assert(op_facts_list_add(&made->facts, call->op, call->attrs));
  call->facts = op_facts_find(&made->facts, call->attrs);
  call->values_checked = true;
  reed_diagnosis_clear(&c->diagnosis);
  const reed_status with = shapefn_call(call, shapes);
  if (with != without) case_fail(c, "with facts: %s", reed_status_name(with));
  for (int32_t i = 0; with == REED_OK && i < c->n_outputs; i++) {
    const reed_shape_output *a = &shapes[i], *b = &made->shapes[i];
    if (a->dtype != b->dtype || a->rank != b->rank || a->bounded_axis != b->bounded_axis ||
        memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
      case_fail(c, "with facts output %d has another shape", (int)i);
  }
  if (made->env.cache) kernel_cache_set_facts(made->env.cache, &made->facts);
  return with;
}

void case_call_fini(case_call *made) {
  kernel_cache_close(&made->env.cache);
  op_facts_list_close(&made->facts);
}
