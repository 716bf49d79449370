/* The interface between fuzz targets and their driver. A target is one file with the three functions of the first
 * section, in the form of libFuzzer (https://llvm.org/docs/LibFuzzer.html). It is built twice: with driver.c, for every
 * test run, and by scripts/fuzz.sh with clang -fsanitize=fuzzer, for long runs. */
#ifndef TESTS_FUZZ_FUZZ_H_
#define TESTS_FUZZ_FUZZ_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reed/reed.h"

/* ---- the target's functions ---- */

/* WORDS: structs of 4 and 8 byte numbers. BYTES: everything counts. TEXT: lines. Decides which mutations are made most.
 */
typedef enum fuzz_form { FUZZ_WORDS, FUZZ_BYTES, FUZZ_TEXT } fuzz_form;
typedef struct fuzz_target {
  const char *name;
  fuzz_form form;
} fuzz_target;
extern const fuzz_target fuzz_this;

typedef struct fuzz_corpus fuzz_corpus;
/* Adds valid inputs to start from. */
void fuzz_seeds(fuzz_corpus *corpus);
/* Must return for any bytes. A fault is a crash: of the sanitizers, or fuzz_fail. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* ---- for targets (fuzz.c) ---- */

/* Adds a copy. Mutations mostly change its first n_hot bytes; the rest is payload. */
void fuzz_seed(fuzz_corpus *corpus, const void *bytes, size_t n, size_t n_hot);
/* The same with the bytes of a file, and of every file below the folder with that ending and at most `most` bytes.
 * Files that cannot be read are left out. */
void fuzz_seed_file(fuzz_corpus *corpus, const char *path);
void fuzz_seed_folder(fuzz_corpus *corpus, const char *folder, const char *ending, size_t most);
/* The folder of this source tree (REED_SOURCE) with `path` below it. Static storage. */
const char *fuzz_source(const char *path);
/* The whole file, malloc'd, with a NUL at the end; NULL: no such file. */
char *fuzz_read(const char *path, size_t *out_n);

/* The target took the input for valid; for the driver's figures. */
void fuzz_accepted(void);
/* Reports the result of an input in words. Inputs with a new result are mutated further. Digits and quoted texts are
 * ignored. */
void fuzz_seen(reed_status status, const char *words);
/* Reports and aborts. */
void fuzz_fail(const char *format, ...) REED_PRINTF(1, 2) __attribute__((noreturn));

/* Between begin and end Reed's heap holds at most 512 MiB, and every block must have been released. */
void fuzz_heap_begin(void);
void fuzz_heap_end(void);

/* The input as a stream of choices, with zeros after its end. */
typedef struct fuzz_choices {
  const uint8_t *at, *end;
} fuzz_choices;
uint64_t fuzz_bytes(fuzz_choices *c, int n);
/* 0 .. n-1 */
uint64_t fuzz_pick(fuzz_choices *c, uint64_t n);
/* A number at a limit of a type, or a small number: such numbers often show faults. */
int64_t fuzz_number(fuzz_choices *c);

/* ---- for drivers ---- */

typedef struct fuzz_input {
  uint8_t *bytes;
  size_t n, n_hot;
} fuzz_input;
struct fuzz_corpus {
  fuzz_input *items;
  size_t n, capacity;
};
/* Counters, in memory that the driver's processes share; NULL under libFuzzer. */
typedef struct fuzz_figures {
  uint64_t n_accepted;
  bool is_new;
  uint8_t seen[65536];
} fuzz_figures;
extern fuzz_figures *fuzz_counted;

#endif
