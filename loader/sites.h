/* Call sites against the operators they name. */
#ifndef LOADER_SITES_H_
#define LOADER_SITES_H_

#include "bytecode/module.h"
#include "ops/op.h"

/* The operator of a site, with operand counts and attributes checked against its row (V09, V10). */
reed_status sites_check(const module *m, const reed_registry *registry, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
