/* The table of bench_conv: every row at every CPU level, as Markdown (docs/measurements.md). */
#ifndef BENCH_CONV_TABLE_H_
#define BENCH_CONV_TABLE_H_

#include <stdbool.h>
#include <stdint.h>

/* The figures of a row: least milliseconds of Reed and oneDNN, milliseconds of preparing both, GFLOP/s of the direct
 * arithmetic, and Reed's algorithm. */
typedef struct conv_figure {
  bool there; /* false: the row cannot be measured, for example because its weights cannot lie in pairs of bf16 */
  double ours, theirs, prepare, their_prepare, rate;
  char variant[40];
} conv_figure;

typedef struct conv_row {
  const char *section, *what;
  char shape[96];
} conv_row;

/* Measures row i of the list, with weights of bf16 or f32, at the CPU level that is set. */
typedef void (*conv_measure)(const conv_row *row, int32_t i, bool bf16, conv_figure *out);

/* Prints a table per section. Each level is measured in a process of its own, because oneDNN keeps the first level that
 * it is given. Nothing of oneDNN may have been used in this process. Returns an exit status. */
int conv_tables(const conv_row *rows, int32_t n, int runs, conv_measure measure);

#endif
