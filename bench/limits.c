/* Peaks of multiply-adds, the memory's rate, and the distance of two CPUs (limits.h). */
#include "bench/limits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/cpu/common/cpu.h"

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* GFLOP/s of chains of independent multiply-adds in registers. */
#define PEAK(name, lanes_, target_) \
  __attribute__((target(target_))) static double name(void) { \
    typedef float vector __attribute__((vector_size(4 * lanes_))); \
    vector sum[12] = {{0}}, factor = {0.5f}; \
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; \
                                  i++) __asm__ volatile("" : "+x"(sum[i])); /* chains of their own */ \
    enum { TURNS = 2000000 }; \
    double begin = cpu_s(); \
    for (int turn = 0; turn < TURNS; turn++) { \
      _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) sum[i] = sum[i] * factor + factor; \
      __asm__ volatile(""); \
    } \
    double seconds = cpu_s() - begin; \
    _Pragma("GCC unroll 12") for (int i = 1; i < 12; i++) sum[0] += sum[i]; \
    __asm__ volatile("" ::"x"(sum[0])); \
    return 2.0 * 12 * lanes_ * TURNS / seconds * 1e-9; \
  }
PEAK(peak_base, 4, "sse2")
PEAK(peak_avx2, 8, "avx2,fma")
PEAK(peak_avx512, 16, "avx512f")

/* The same chains of dot products of pairs of bf16. */
#ifdef CPU_HAS_BF16_LOOPS
__attribute__((target("avx512f"))) static double peak_pairs(void) {
  typedef float vector __attribute__((vector_size(64)));
  vector sum[12] = {{0}}, factor = {0};
  enum { TURNS = 2000000 };
  double begin = cpu_s();
  for (int turn = 0; turn < TURNS; turn++)
    _Pragma("GCC unroll 12") for (int i = 0; i < 12;
                                  i++) __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(sum[i]) : "v"(factor));
  double seconds = cpu_s() - begin;
  return 2.0 * 12 * 32 * TURNS / seconds * 1e-9;
}
#else
static double peak_pairs(void) { return 0; }
#endif

double measure_peak_pairs(void) {
  double best = 0;
  for (int i = 0; i < 4 && cpu_level_now() >= CPU_AVX512_BF16; i++) {
    double now = peak_pairs();
    if (now > best) best = now;
  }
  return best;
}

double measure_peak(void) {
  cpu_level level = cpu_level_now();
  double best = 0;
  for (int i = 0; i < 4 && level != CPU_REFERENCE; i++) {
    double now = CPU_PICK(level, peak)();
    if (now > best) best = now;
  }
  return best;
}

double measure_memory(void) {
  typedef float vector __attribute__((vector_size(16), may_alias));
  const int64_t n = (int64_t)128 << 20;
  float *x = aligned_alloc(64, (size_t)n);
  if (!x) exit(1);
  memset(x, 0, (size_t)n);
  double best = 0;
  for (int run = 0; run < 8; run++) {
    vector sum[8] = {{0}};
    double begin = cpu_s();
    for (const float *p = x; p < x + n / 4; p += 32)
#pragma GCC unroll 8
      for (int i = 0; i < 8; i++) sum[i] += *(const vector *)(p + 4 * i);
    double seconds = cpu_s() - begin;
    for (int i = 1; i < 8; i++) sum[0] += sum[i];
    __asm__ volatile("" ::"x"(sum[0]));
    if ((double)n / seconds > best) best = (double)n / seconds;
  }
  free(x);
  return best;
}

double measure_round_trip(_Atomic int *line, int second) {
  enum { TRIES = 20, TURNS = 1000 };
  double best = 1e9;
  for (int i = 0, at = second; i < TRIES; i++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int turn = 0; turn < TURNS; turn++, at += 2) {
      while (atomic_load_explicit(line, memory_order_acquire) != at) continue;
      atomic_store_explicit(line, at + 1, memory_order_release);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    if (ns / TURNS < best) best = ns / TURNS;
  }
  return best;
}
