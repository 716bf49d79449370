/* Levels of the machine's CPU, for which the kernels' loops are compiled, the kind of its units, by which choices
 * between forms of a product differ, and the environment variables REED_CPU and REED_CPU_UNITS, which choose a lower
 * level and another kind so that one machine can test several. The machine's properties are found and the variables
 * are read once in a process. */
#ifndef OPS_CPU_COMMON_CPU_H_
#define OPS_CPU_COMMON_CPU_H_

#include <stdbool.h>

#include "reed/operator.h"

/* Levels in ascending order: each includes those below it. The text is the word for REED_CPU. */
#define CPU_LEVEL_LIST(X) \
  X(REFERENCE, "reference", "the plain references instead of the kernels") \
  X(BASE, "base", "what every x86-64 has (SSE2)") \
  X(AVX2, "avx2", "AVX2, FMA, F16C, BMI2") \
  X(AVX512, "avx512", "AVX-512 F, BW, DQ, VL, on top of avx2") \
  X(AVX512_BF16, "avx512-bf16", "AVX512-BF16 and AVX512-VNNI on top of avx512, for products with weights of bf16") \
  X(AMX, "amx", "AMX-BF16 on top of avx512-bf16, for the same products")

typedef enum cpu_level {
#define CPU_LEVEL_ENUM_(name, text, what) CPU_##name,
  CPU_LEVEL_LIST(CPU_LEVEL_ENUM_)
#undef CPU_LEVEL_ENUM_
      CPU_LEVEL_COUNT
} cpu_level;

/* The level to prepare kernels for: the machine's best, or a lower one that REED_CPU names. Other words in REED_CPU are
 * ignored. */
cpu_level cpu_level_now(void);
/* Kernels are prepared for the level with this text from now on, in the whole process; for the best one if the text is
 * NULL or no level of this machine. Returns the level. */
cpu_level cpu_level_use(const char *wanted);
/* The best level this machine has. */
cpu_level cpu_level_best(void);
/* The level's text, such as "avx2". Static storage. */
const char *cpu_level_name(cpu_level level);

/* Kinds of units that compute vectors of AVX-512. No loop depends on them. The text is the word for REED_CPU_UNITS. */
#define CPU_UNITS_LIST(X) \
  X(HALF, "half", "a vector in two halves, as Zen 4, or unknown") \
  X(WHOLE, "whole", "whole vectors, as Zen 5") \
  X(INTEL, "intel", "whole vectors, of Intel's servers from Sapphire Rapids on, which multiply pairs of bf16 slowly")

typedef enum cpu_units {
#define CPU_UNITS_ENUM_(name, text, what) CPU_UNITS_##name,
  CPU_UNITS_LIST(CPU_UNITS_ENUM_)
#undef CPU_UNITS_ENUM_
      CPU_UNITS_COUNT
} cpu_units;

/* The kind that REED_CPU_UNITS names; other words are ignored, and then it is the machine's own. */
cpu_units cpu_units_now(void);
/* Choices are made for this kind from now on, in the whole process; for the machine's own if the text is NULL or
 * another word. */
void cpu_units_use(const char *wanted);
/* The kind's text, such as "half". Static storage. */
const char *cpu_units_name(cpu_units units);

/* Loop files are compiled once per level with CPU_LEVEL_SUFFIX defined. CPU_LEVELED(name) is the name of a function of
 * this level; CPU_PICK gives the function of a level at run time. */
#define CPU_CONCAT_(a, b) a##_##b
#define CPU_CONCAT(a, b) CPU_CONCAT_(a, b)
#define CPU_LEVELED(name) CPU_CONCAT(name, CPU_LEVEL_SUFFIX)
/* Marks functions that are unrolled in many forms, where the sanitizers' checks take minutes to compile and to run. At
 * the lowest level everything is checked, at AVX2 addresses (the indices are the same), at the highest nothing. */
#ifdef __AVX512F__
#define CPU_UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#elif defined __AVX2__
#define CPU_UNCHECKED __attribute__((no_sanitize("undefined")))
#else
#define CPU_UNCHECKED
#endif
/* Declares a loop function of every level. Loops of f32 are the same from AVX512 on. */
#define CPU_LOOP(type, name, arguments) \
  type name##_base arguments; \
  type name##_avx2 arguments; \
  type name##_avx512 arguments
#define CPU_PICK(level, name) ((level) >= CPU_AVX512 ? name##_avx512 : (level) == CPU_AVX2 ? name##_avx2 : name##_base)

#endif
