/* Helpers of the whole `vm` command: complaints and memory (complaint.h, need.h), suggestions, clocks, figures as text,
 * progress, words. tools/ uses only include/reed/ of the libraries, so that the command proves that the public API is
 * enough; JSON is written with base/json.h as everywhere. */
#ifndef TOOLS_TOOL_H_
#define TOOLS_TOOL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/complaint.h"
#include "tools/need.h"

/* ", did you mean 'x'?" into out for the candidate nearest to `word`, or "" if none is near. candidates: n of them.
 * Returns out. */
char *suggestion(const char *word, const char *const *candidates, size_t n, char *out, size_t capacity);

/* Microseconds of a clock that only runs forward. */
double now_us(void);
/* Of the process so far: the most bytes that were resident at once, and the page faults without disk. */
int64_t peak_resident_bytes(void);
int64_t page_faults_now(void);
/* "1.25 ms" */
char *text_us(double us, char *out, size_t capacity);
/* "3.4 MiB" */
char *text_bytes(double bytes, char *out, size_t capacity);

/* Shows a line on standard error, on a terminal only; the next one overwrites it. done 0..1. */
void progress(const char *what, double done);
/* Wipes the progress line. */
void progress_end(void);

/* A growing list of words, borrowed. */
typedef struct words {
  const char **items;
  size_t n;
} words;
void words_add(words *w, const char *word);
void words_fini(words *w);

#endif
