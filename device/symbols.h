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

/* The loader's words about a library that is there and cannot be loaded; else empty. */
typedef struct symbols_words {
  char text[256];
} symbols_words;

/* Fills the table from the library of this file name. NULL: done, and the library stays open for good. Otherwise the
 * first missing symbol, or `file` itself if the library cannot be loaded; nothing is open then. */
const char *symbols_find(const char *file, const symbol_row *rows, void *table, symbols_words *out_words);
/* The same for a library called `name`; ERROR_DEVICE says what is missing. has: ends the sentence of a missing function
 * by the version that has it; may be empty. */
reed_status symbols_load(const char *name, const char *file, const symbol_row *rows, const char *has, void *table,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
