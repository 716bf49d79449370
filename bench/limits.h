/* Limits of the calling thread's core, and the distance of two of them, which benchmarks print beside their figures. */
#ifndef BENCH_LIMITS_H_
#define BENCH_LIMITS_H_

/* GFLOP/s of chains of independent multiply-adds in the registers of a core; 0 without a CPU level. */
double measure_peak(void);
/* The same of products of pairs of bf16; 0 below level AVX512_BF16. */
double measure_peak_pairs(void);
/* Bytes a second of a sum over more memory than the caches hold. */
double measure_memory(void);
/* Nanoseconds in which a cache line goes from one CPU to another and back, the least of several tries; both threads
 * call it at once with the same line. */
double measure_round_trip(_Atomic int *line, int second);

#endif
