/* Random numbers that repeat from a seed: for delays and orders of simulated devices, and for made inputs. Not for
 * secrets. */
#ifndef BASE_RANDOM_H_
#define BASE_RANDOM_H_

#include <stdint.h>

/* The next number of the sequence in *state: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014; constants by Vigna). Any state is a valid seed. */
static inline uint64_t random_next(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

#endif
