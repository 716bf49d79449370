/* Checks of call sites against the rows of their operators. */
#ifndef LOADER_SITES_H_
#define LOADER_SITES_H_

#include "bytecode/module.h"
#include "ops/op.h"

/* Checks operand counts and attributes of every site against its operator's row (V09, V10). */
reed_status sites_check(const module *m, const reed_registry *registry, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
