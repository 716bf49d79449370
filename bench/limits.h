/* Limits of the calling thread's core, which benchmarks print beside their figures. */
#ifndef BENCH_LIMITS_H_
#define BENCH_LIMITS_H_

/* GFLOP/s of chains of independent multiply-adds in the registers of a core; 0 without a CPU level. */
double measure_peak(void);
/* The same of products of pairs of bf16; 0 below level AVX512_BF16. */
double measure_peak_pairs(void);
/* Bytes a second of a sum over more memory than the caches hold. */
double measure_memory(void);

#endif
