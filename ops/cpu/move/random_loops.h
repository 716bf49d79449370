/* The loop of random numbers: Philox 4x32 with 10 rounds (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw 2011,
 * "Parallel random numbers: as easy as 1, 2, 3"), a function of a key and a counter that gives four words; normal
 * numbers by Box and Muller 1958, "A note on the generation of random normal deviates". */
#ifndef OPS_CPU_MOVE_RANDOM_LOOPS_H_
#define OPS_CPU_MOVE_RANDOM_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>

#include "ops/cpu/common/cpu.h"

/* Counters of a group, and the numbers of f32 and of f64 that their words give. Word w of counter c becomes number
 * 64 w + c of f32; words 2 w and 2 w + 1 become number 64 w + c of f64. */
#define RANDOM_COUNTERS 64
#define RANDOM_FLOATS (4 * RANDOM_COUNTERS)
#define RANDOM_DOUBLES (2 * RANDOM_COUNTERS)

/* Some of a series' numbers: offset + factor * x, where x is of the normal distribution with mean 0 and deviation 1, or
 * in [0, 1). With the same bits at every CPU level; normal numbers of f64 have those of the C library's functions. */
typedef struct random_group {
  uint64_t key, series, group; /* group: the index of the first number / numbers of a group */
  double offset, factor;
  double most; /* uniform: larger numbers, which are there by rounding, become this one */
  int bits;    /* uniform, of f32: of x; so many as the mantissa of the output's dtype has */
  bool normal;
} random_group;

/* The numbers of a whole group. */
CPU_LOOP(void, random_floats, (const random_group *g, float *out));
CPU_LOOP(void, random_doubles, (const random_group *g, double *out));

#endif
