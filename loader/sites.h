/* Call sites and the rows of their operators. */
#ifndef LOADER_SITES_H_
#define LOADER_SITES_H_

#include "bytecode/module.h"
#include "ops/op.h"

/* Finds the operator of every site (m->site_ops) and checks operand counts and attributes against its row (V09, V10).
 */
reed_status sites_resolve(module *m, const reed_registry *registry, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
