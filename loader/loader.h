/* Loads a module from bytes: reads, checks, verifies. A module that passes cannot make the interpreter read or write
 * outside its own memory. Running a module: vm/. */
#ifndef LOADER_LOADER_H_
#define LOADER_LOADER_H_

#include "bytecode/module.h"
#include "ops/op.h"
#include "reed/reed.h"

typedef struct load_options {
  const reed_registry *registry;
  bool ignore_checksum, borrow; /* borrow: loader_open_bytes does not copy */
} load_options;

/* options NULL: the defaults. */
load_options load_options_of(const reed_program_options *options);
/* Maps the file (constants are used in place). */
reed_status loader_open_file(const char *path, const load_options *options, module **out_module,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Copies the bytes to aligned memory, or borrows them: aligned to FORMAT_ALIGNMENT (else ERROR_ARGUMENT) until the
 * module is closed. */
reed_status loader_open_bytes(const void *bytes, size_t n_bytes, const load_options *options, module **out_module,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Closes and nulls, either a loaded or a built module. */
void module_close(module **m);
/* Tells the system that these bytes of the module will hardly be read again, so that pages of a mapped file that lie
 * wholly inside need not stay in memory. The bytes stay readable and come back from the file. Does nothing for other
 * memory. Any thread. */
void module_forget(const module *m, const void *data, int64_t n_bytes);

#endif
