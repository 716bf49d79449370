/* Reads a module's lists from the sections of its file. */
#ifndef LOADER_SECTIONS_H_
#define LOADER_SECTIONS_H_

#include "loader/file.h"
#include "ops/op.h"

/* Rules V05 to V12 and V50's ranges: fills the module's lists from the file; text, code, signatures and data are
 * borrowed from the file's bytes. On failure the module is partly filled, and is closed with module_close. Operators
 * are looked up in the registry. */
reed_status sections_read(const module_file *file, const reed_registry *registry, module *m,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
