/* Verification of code: see docs/verify.md. */
#include "loader/loader.h"

reed_status verify_module(const module *m, const reed_registry *registry, reed_diagnosis *diagnosis) { return REED_OK; }
