/* The verifier: every rule of docs/verify.md over the code of a module. */
#ifndef LOADER_VERIFY_H_
#define LOADER_VERIFY_H_

#include "bytecode/module.h"
#include "base/diag.h"

/* Checks all code of a module whose sections have been read. Fills m->epochs_shaped. */
reed_status verify_module(const module *m, const int *cancel, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
