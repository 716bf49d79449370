/* Loads a module from bytes: reads, checks, verifies. A module that passes cannot make the interpreter read or write
 * outside its own memory. Running a module: vm/. */
#ifndef LOADER_LOADER_H_
#define LOADER_LOADER_H_

#include "bytecode/module.h"
#include "ops/op.h"
#include "reed/reed.h"

typedef struct load_options {
  const reed_registry *registry;
  bool ignore_checksum;
  bool borrow;       /* loader_open_bytes borrows the bytes instead of copying them */
  const int *cancel; /* base/cancel.h */
} load_options;

/* The load options of a program's options; NULL: the defaults. */
load_options load_options_of(const reed_program_options *options);
/* Opens a module file. Maps the file, so that constants are used in place. */
reed_status loader_open_file(const char *path, const load_options *options, module **out_module,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Opens a module from bytes. Copies the bytes to aligned memory; with options->borrow keeps them in place until the
 * module is closed, and they must be aligned to FORMAT_ALIGNMENT (else ERROR_ARGUMENT). */
reed_status loader_open_bytes(const void *bytes, size_t n_bytes, const load_options *options, module **out_module,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Closes and nulls, either a loaded or a built module. */
void module_close(module **m);
/* Lets the system drop these bytes of a mapped module file from memory, because they will hardly be read again. Pages
 * that lie wholly inside are dropped; a later read takes them from the file. Does nothing for a module that is not
 * mapped. Any thread. */
void module_forget(const module *m, const void *data, int64_t n_bytes);

#endif
