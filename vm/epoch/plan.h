/* Planning of an epoch's run section. */
#ifndef VM_EPOCH_PLAN_H_
#define VM_EPOCH_PLAN_H_

#include "bytecode/operands.h"
#include "vm/state.h"

/* epoch.plan: plans the run section that begins at pc_after_plan, remembers the entry, gives out memory. */
reed_status epoch_plan(reed_session *s, uint32_t pc_after_plan) REED_MUST_CHECK;
/* The cache that output k grows out of, in the memory of its past (vm/append.h), by the registers' extents; NULL: none.
 */
const model_cache *plan_grown_cache(const vm_run *run, const insn_invoke *i, uint32_t k);

#endif
