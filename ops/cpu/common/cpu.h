/* What this machine's CPU can do, as levels that the kernels' loops are compiled for, and the REED_CPU override that
 * lets one machine test several. Stateless: asked at every prepare, remembered nowhere. */
#ifndef OPS_CPU_COMMON_CPU_H_
#define OPS_CPU_COMMON_CPU_H_

#include <stdbool.h>

#include "reed/operator.h"

/* Ordered: a level includes those below it. The text is what REED_CPU takes. */
#define CPU_LEVEL_LIST(X) \
  X(REFERENCE, "reference", "the plain references instead of the kernels") \
  X(BASE, "base", "what every x86-64 has (SSE2)") \
  X(AVX2, "avx2", "AVX2, FMA, F16C, BMI2") \
  X(AVX512, "avx512", "AVX-512 F, BW, DQ, VL, on top of avx2")

typedef enum cpu_level {
#define CPU_LEVEL_ENUM_(name, text, what) CPU_##name,
  CPU_LEVEL_LIST(CPU_LEVEL_ENUM_)
#undef CPU_LEVEL_ENUM_
      CPU_LEVEL_COUNT
} cpu_level;

/* The level to prepare for: the best this machine has, or what REED_CPU says if that is less. A word in REED_CPU that
 * is no level counts as not said. */
cpu_level cpu_level_now(void);
/* The best level this machine has. */
cpu_level cpu_level_best(void);
/* "avx2". Static storage. */
const char *cpu_level_name(cpu_level level);

/* Loop files are compiled once per level with CPU_LEVEL_SUFFIX defined; CPU_LEVELED(name) is the level's own name.
 * CPU_PICK gives the symbol of a level at run time. */
#define CPU_CONCAT_(a, b) a##_##b
#define CPU_CONCAT(a, b) CPU_CONCAT_(a, b)
#define CPU_LEVELED(name) CPU_CONCAT(name, CPU_LEVEL_SUFFIX)
/* For functions whose loops are unrolled in many forms: instrumented by a sanitizer they take minutes to compile at the
 * highest level, and the levels below check the same code. */
#ifdef __AVX512F__
#define CPU_UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#else
#define CPU_UNCHECKED
#endif
/* Declares a loop of all levels. */
#define CPU_LOOP(type, name, arguments) \
  type name##_base arguments; \
  type name##_avx2 arguments; \
  type name##_avx512 arguments
#define CPU_PICK(level, name) ((level) >= CPU_AVX512 ? name##_avx512 : (level) == CPU_AVX2 ? name##_avx2 : name##_base)

#endif
