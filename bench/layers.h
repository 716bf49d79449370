/* The 3x3 convolutions of known nets, and windows along one axis: direct and by Winograd, beside the core's peak
 * (bench_conv). */
#ifndef BENCH_LAYERS_H_
#define BENCH_LAYERS_H_

#include <stdbool.h>

/* Prints a row for each layer whose text has the word: GFLOP/s of a direct convolution's arithmetic over CPU time on
 * one thread, the least of `runs` runs; and the largest difference from float64 over the root mean square of the
 * results. markdown: as a table for docs/measurements.md. */
void measure_layers(int runs, const char *word, bool markdown);

#endif
