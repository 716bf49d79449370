/* Finding the machine's CPU level and the kind of its units, and reading REED_CPU and REED_CPU_UNITS (cpu.h). */
#include "ops/cpu/common/cpu.h"

#include <cpuid.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define TEXT_OF(name, text, what) text,
static const char *const level_texts[CPU_LEVEL_COUNT] = {CPU_LEVEL_LIST(TEXT_OF)};
static const char *const units_texts[CPU_UNITS_COUNT] = {CPU_UNITS_LIST(TEXT_OF)};

const char *cpu_level_name(cpu_level level) { return level < CPU_LEVEL_COUNT ? level_texts[level] : "?"; }
const char *cpu_units_name(cpu_units units) { return units < CPU_UNITS_COUNT ? units_texts[units] : "?"; }

/* The place of `wanted` (NULL: none) among n texts; n if it is not there. */
static int place_of(const char *wanted, const char *const *texts, int n) {
  int i = 0;
  while (i < n && (!wanted || strcmp(wanted, texts[i]) != 0)) i++;
  return i;
}

static bool has_f16c(void) {
#if defined(__clang__) && __clang_major__ < 15 /* knows the name since 15 */
  unsigned eax, ebx, ecx, edx;                 /* CPUID leaf 1, ECX bit 29 (Intel SDM) */
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx >> 29 & 1);
#else
  return __builtin_cpu_supports("f16c");
#endif
}

/* The compiler knows AVX512-BF16 and AVX512-VNNI (ops/cpu/meson.build). */
#ifdef CPU_HAS_BF16_LOOPS
static const bool has_bf16_loops = true;
#else
static const bool has_bf16_loops = false;
#endif

/* AVX512-BF16: CPUID leaf 7, subleaf 1, EAX bit 5 (Intel SDM). */
static bool has_avx512_bf16(void) {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 5 & 1);
}

#ifndef CPU_HAS_AMX_LOOPS /* the compiler does not know AMX-BF16 (ops/cpu/meson.build) */
static bool has_amx_bf16(void) { return false; }
#elif defined(AMX_EMULATED)
static bool has_amx_bf16(void) { return true; }
#else
/* AMX-TILE and AMX-BF16: CPUID leaf 7, EDX bits 24 and 22; the system keeps the registers: XCR0 bits 17 and 18 (Intel
 * SDM). Linux lets a process use them on request. */
static bool has_amx_bf16(void) {
#ifdef __linux__
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx >> 24 & 1) || !(edx >> 22 & 1)) return false;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx >> 27 & 1)) return false; /* XGETBV */
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  if ((eax >> 17 & 3) != 3) return false;
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
  return false;
#endif
}
#endif

static cpu_level find_best(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c() ||
      !__builtin_cpu_supports("bmi2"))
    return CPU_BASE;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return CPU_AVX2;
  if (!has_bf16_loops || !has_avx512_bf16() || !__builtin_cpu_supports("avx512vnni")) return CPU_AVX512;
  return has_amx_bf16() ? CPU_AMX : CPU_AVX512_BF16;
}

/* The level is kept, because preparing any kernel asks for it and a virtual machine traps each CPUID instruction (a
 * microsecond or more). */
cpu_level cpu_level_best(void) {
  static atomic_int known = -1;
  int best = atomic_load_explicit(&known, memory_order_relaxed);
  if (best < 0) {
    best = (int)find_best();
    atomic_store_explicit(&known, best, memory_order_relaxed);
  }
  return (cpu_level)best;
}

static atomic_int level_now = -1; /* -1: REED_CPU has not been read */

cpu_level cpu_level_use(const char *wanted) {
  const int used = place_of(wanted, level_texts, (int)cpu_level_best());
  atomic_store_explicit(&level_now, used, memory_order_relaxed);
  return (cpu_level)used;
}

cpu_level cpu_level_now(void) {
  int now = atomic_load_explicit(&level_now, memory_order_relaxed);
  return now < 0 ? cpu_level_use(getenv("REED_CPU")) : (cpu_level)now;
}

/* CPUID leaf 0x8000001A, EAX (AMD64 Architecture Programmer's Manual, volume 3): bit 1 MOVU, of every CPU that has the
 * leaf and AVX; bit 2 FP256, units of 256 bits; bit 3 FP512, which KVM does not pass on to virtual machines. Other
 * makers have no such leaf. Of Intel's, those with AVX512-FP16 (leaf 7, EDX bit 23; Intel SDM) have two units of 512
 * bits; of older ones some have one. */
static cpu_units units_of_machine(void) {
  enum { MOVU = 1 << 1, FP256 = 1 << 2, FP16 = 1 << 23 };
  unsigned eax, ebx, ecx, edx;
  if (cpu_level_best() < CPU_AVX512) return CPU_UNITS_HALF;
  if (__builtin_cpu_is("intel"))
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & FP16) ? CPU_UNITS_INTEL : CPU_UNITS_HALF;
  return __get_cpuid(0x8000001a, &eax, &ebx, &ecx, &edx) && (eax & MOVU) && !(eax & FP256) ? CPU_UNITS_WHOLE
                                                                                           : CPU_UNITS_HALF;
}

static atomic_int units_now = -1; /* -1: REED_CPU_UNITS has not been read */

void cpu_units_use(const char *wanted) {
  const int named = place_of(wanted, units_texts, CPU_UNITS_COUNT);
  atomic_store_explicit(&units_now, named < CPU_UNITS_COUNT ? named : (int)units_of_machine(), memory_order_relaxed);
}

cpu_units cpu_units_now(void) {
  if (atomic_load_explicit(&units_now, memory_order_relaxed) < 0) cpu_units_use(getenv("REED_CPU_UNITS"));
  return (cpu_units)atomic_load_explicit(&units_now, memory_order_relaxed);
}
