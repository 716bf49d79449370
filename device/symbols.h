/* Functions of a shared library that is opened at run time, in a table of the caller. */
#ifndef DEVICE_SYMBOLS_H_
#define DEVICE_SYMBOLS_H_

#include <stddef.h>

#include "base/diag.h"

/* A function and its pointer's place in the table. A list of them ends with symbol NULL. */
typedef struct symbol_row {
  const char *symbol;
  size_t at;
} symbol_row;

/* Fills the table from the library of this file name, which then stays open for good. ERROR_DEVICE says what is
 * missing: the library, called `name` in the sentence, or its first missing function; nothing is open then. has: ends
 * the sentence of a missing function by the version that has it; may be empty. */
reed_status symbols_load(const char *name, const char *file, const symbol_row *rows, const char *has, void *table,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
