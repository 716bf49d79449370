/* Reads a module's lists from the sections of its file. The file's header and table of contents: file.h. */
#ifndef LOADER_SECTIONS_H_
#define LOADER_SECTIONS_H_

#include "loader/file.h"
#include "ops/op.h"

/* Fills the module's lists from the file and checks rules V05 to V13 and the ranges of V50. Text, code, signatures and
 * data are borrowed from the file's bytes. Operators are looked up in the registry. After a failure the module is
 * partly filled; module_close frees it. Polls `cancel` (base/cancel.h) between sections. */
reed_status sections_read(const module_file *file, const reed_registry *registry, const int *cancel, module *m,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
