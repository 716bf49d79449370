/* A module's lists from the sections of its file. */
#ifndef LOADER_SECTIONS_H_
#define LOADER_SECTIONS_H_

#include "loader/file.h"
#include "ops/op.h"

/* Rules V05 to V12 and V50's ranges: fills the module's lists from the file, whose text, code, signatures and
 * data stay where they are. On failure the module holds what had been made and is closed as usual. Operators are looked
 * up in the registry. */
reed_status sections_read(const module_file *file, const reed_registry *registry, module *m,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
