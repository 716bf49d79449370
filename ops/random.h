/* The stream of a session's random numbers. A call of RandomNormal or RandomUniform takes the next series of the
 * stream; element i of series s is a function of seed, s and i alone (ops/cpu/move/random_loops.h), so that the numbers
 * depend neither on threads nor on devices nor on the CPU. */
#ifndef OPS_RANDOM_H_
#define OPS_RANDOM_H_

#include <stdint.h>

typedef struct random_stream {
  uint64_t seed, n_series; /* n_series: taken so far */
} random_stream;

#endif
