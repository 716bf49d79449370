/* Words of a benchmark's command line that are numbers. A word that is none ends the program with status 2 and a
 * sentence: a benchmark that took `200..800` for 200 would print figures of something else. */
#ifndef BENCH_ARGUMENTS_H_
#define BENCH_ARGUMENTS_H_

#include <stdbool.h>
#include <stdint.h>

/* Reads the digits at the beginning of `text` as an integer; *out_end: the first character after them. False: there is
 * none, or it exceeds an int64_t; then nothing is written. */
bool argument_digits(const char *text, const char **out_end, int64_t *out_value);
/* The integer of least..most (least >= 0) that `text` is. Otherwise ends the program; `name`, for example "--threads",
 * is in its sentence. */
int64_t argument_integer(const char *name, const char *text, int64_t least, int64_t most);
/* The number of 0 or more that `text` is. Otherwise ends the program. */
double argument_number(const char *name, const char *text);

#endif
