/* The verifier: every rule of docs/verify.md over the code of a module. */
#ifndef LOADER_VERIFY_H_
#define LOADER_VERIFY_H_

#include "bytecode/module.h"
#include "ops/op.h"

/* For a module whose sections have been read: every rule of docs/verify.md over all code. */
reed_status verify_module(const module *m, const reed_registry *registry, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
