/* The emulation of a GPU's threads: kernels' results in every order of threads, and each kind of fault, planted into a
 * kernel, is found and named. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/cuda/simt/kernels.h"
#include "tests/suite.h"

static const uint64_t orders[] = {SIMT_FORWARD, SIMT_REVERSE, 7, 8, 9};
enum { ORDERS = sizeof orders / sizeof *orders };

static char error[512];

/* A launch of `kernel` over x and y. */
static bool run(const simt_kernel *kernel, const uint32_t grid[3], const uint32_t block[3], const test_args *args,
                int64_t x_bytes, int64_t y_bytes, uint64_t order) {
  const simt_operand operands[] = {{args->x, x_bytes, false}, {args->y, y_bytes, true}};
  const simt_launch launch = {.kernel = kernel,
                              .grid = {grid[0], grid[1], grid[2]},
                              .block = {block[0], block[1], block[2]},
                              .shared_bytes = 512,
                              .args = args,
                              .operands = operands,
                              .n_operands = 2,
                              .order = order};
  error[0] = 0;
  return simt_run(&launch, error, sizeof error);
}

#define GRID(...) ((const uint32_t[3]){__VA_ARGS__})

START_TEST(a_block_sums_by_shuffles_and_shared_memory) {
  static float x[10000], y[7];
  for (int i = 0; i < 10000; i++) x[i] = (float)(i % 9);
  for (int o = 0; o < ORDERS; o++) {
    const test_args args = {x, y, 10000, 0};
    ck_assert_msg(run(&kernel_sum, GRID(7, 1, 1), GRID(256, 1, 1), &args, sizeof x, sizeof y, orders[o]), "%s", error);
    float sum = 0;
    for (int i = 0; i < 7; i++) sum += y[i];
    ck_assert_float_eq(sum, 39996);
  }
}
END_TEST

START_TEST(barriers_count_and_vote) {
  float x[96] = {0}, y[3];
  x[3] = x[40] = x[95] = 1;
  for (int o = 0; o < ORDERS; o++) {
    const test_args args = {x, y, 96, 0};
    ck_assert_msg(run(&kernel_barriers, GRID(1, 1, 1), GRID(96, 1, 1), &args, sizeof x, sizeof y, orders[o]), "%s",
                  error);
    ck_assert(y[0] == 3 && y[1] == 0 && y[2] == 1);
  }
}
END_TEST

START_TEST(lanes_vote_and_shuffle) {
  float x[32], y[7 * 32];
  for (int i = 0; i < 32; i++) x[i] = (float)(i % 4);
  for (int o = 0; o < ORDERS; o++) {
    const test_args args = {x, y, 32, 0};
    ck_assert_msg(run(&kernel_votes, GRID(1, 1, 1), GRID(32, 1, 1), &args, sizeof x, sizeof y, orders[o]), "%s", error);
    for (int i = 0; i < 32; i++) {
      ck_assert_float_eq(y[i], 24);
      ck_assert_float_eq(y[32 + i], 1);
      ck_assert_float_eq(y[64 + i], x[i / 8 * 8 + (i + 1) % 8]);
      ck_assert_float_eq(y[96 + i], x[i < 3 ? i : i - 3]);
      ck_assert_float_eq(y[128 + i], x[i ^ 5]);
      ck_assert_float_eq(y[160 + i], 0xeeee);
      ck_assert_float_eq(y[192 + i], 8);
    }
  }
}
END_TEST

START_TEST(grids_and_blocks_have_three_dims) {
  enum { N = 2 * 3 * 4 * 4 * 2 * 3 };
  float y[N];
  for (int o = 0; o < ORDERS; o++) {
    const test_args args = {NULL, y, N, 0};
    memset(y, 0, sizeof y);
    ck_assert_msg(run(&kernel_places, GRID(2, 3, 4), GRID(4, 2, 3), &args, 0, sizeof y, orders[o]), "%s", error);
    for (int i = 0; i < N; i++) ck_assert_float_eq(y[i], (float)i);
  }
}
END_TEST

START_TEST(chosen_blocks_run_alone) {
  float y[64] = {0};
  const test_args args = {NULL, y, 64, 0};
  const simt_operand operand = {y, sizeof y, true};
  const uint64_t blocks[] = {0, 0x7ffffffe};
  const simt_launch launch = {.kernel = &kernel_places,
                              .grid = {0x7fffffff, 1, 1},
                              .block = {64, 1, 1},
                              .args = &args,
                              .operands = &operand,
                              .n_operands = 1,
                              .blocks = blocks,
                              .n_blocks = 2};
  ck_assert_msg(simt_run(&launch, error, sizeof error), "%s", error);
  for (int i = 0; i < 64; i++) ck_assert(y[i] == (float)i || i == 0);
}
END_TEST

/* 12 bytes of the kernel's shared memory are not dynamic. */
START_TEST(a_launch_may_use_all_shared_memory) {
  float x[128] = {0}, y[130];
  const test_args args = {x, y, 128, 0};
  const simt_operand operands[] = {{x, sizeof x, false}, {y, sizeof y, true}};
  simt_launch launch = {.kernel = &kernel_atomics,
                        .grid = {1, 1, 1},
                        .block = {128, 1, 1},
                        .shared_bytes = 49152 - 12,
                        .args = &args,
                        .operands = operands,
                        .n_operands = 2};
  ck_assert_msg(simt_run(&launch, error, sizeof error), "%s", error);
  launch.shared_bytes++;
  ck_assert(!simt_run(&launch, error, sizeof error));
  ck_assert_msg(strstr(error, "49153 bytes of shared memory, but"), "%s", error);
}
END_TEST

/* The flag is raised before the launch: no block of 2^31 runs, and that is no fault. */
START_TEST(a_cancelled_launch_begins_no_block) {
  float y[64];
  for (int i = 0; i < 64; i++) y[i] = -1;
  const int cancel = 1;
  const test_args args = {NULL, y, 64, 0};
  const simt_operand operand = {y, sizeof y, true};
  const simt_launch launch = {.kernel = &kernel_places,
                              .grid = {0x7fffffff, 1, 1},
                              .block = {64, 1, 1},
                              .args = &args,
                              .operands = &operand,
                              .n_operands = 1,
                              .cancel = &cancel};
  ck_assert_msg(simt_run(&launch, error, sizeof error), "%s", error);
  for (int i = 0; i < 64; i++) ck_assert_float_eq(y[i], -1);
}
END_TEST

START_TEST(atomics_and_the_order_of_threads) {
  float x[128], y[130], first[130];
  for (int i = 0; i < 128; i++) x[i] = (float)(i * 37 % 128);
  bool differs = false;
  for (int o = 0; o < ORDERS; o++) {
    const test_args args = {x, y, 128, 0};
    ck_assert_msg(run(&kernel_atomics, GRID(1, 1, 1), GRID(128, 1, 1), &args, sizeof x, sizeof y, orders[o]), "%s",
                  error);
    ck_assert(y[0] == 127 * 64 && y[1] == 127);
    if (o == 0) memcpy(first, y, sizeof y);
    for (int i = 2; i < 130; i++) {
      if (orders[o] == SIMT_FORWARD) ck_assert_float_eq(y[i], (float)(i - 2));
      if (orders[o] == SIMT_REVERSE) ck_assert_float_eq(y[i], (float)(129 - i));
    }
    differs = differs || (orders[o] > SIMT_REVERSE && memcmp(first, y, sizeof y) != 0);
  }
  ck_assert(differs);
}
END_TEST

typedef struct planted {
  const simt_kernel *kernel;
  int32_t fault;
  uint32_t threads;
  const char *says;
  bool of_memory; /* found by the checks of accesses, which the thread sanitizer's builds leave out */
} planted;

static const planted faults[] = {
    {&kernel_reverse, 0, 256, "", false},
    {&kernel_reverse, 1, 256, "a race at byte", true},
    {&kernel_reverse, 2, 256, "waits at __syncthreads of", false},
    {&kernel_reverse, 3, 256, "waits at __syncthreads of", false},
    {&kernel_reverse, 4, 256, "but thread (5,0,0) has left", false},
    {&kernel_reverse, 5, 256, "81536 bytes of shared memory, but the launch may use only 49152", false},
    {&kernel_reverse, 6, 256, "a race at byte", true},
    {&kernel_reverse, 7, 256, "an index outside of an array", true},
    {&kernel_reverse, 9, 256, "writes 4 bytes at byte 1024 of a shared array of 1024 bytes", true},
    {&kernel_lanes, 0, 32, "", false},
    {&kernel_lanes, 1, 32, "has left", false},
    {&kernel_lanes, 2, 32, "waits at __shfl_sync of", false},
    {&kernel_lanes, 3, 32, "waits at __syncthreads of", false},
    {&kernel_lanes, 4, 32, "does not name the caller", false},
    {&kernel_lanes, 5, 32, "which the mask 0xffff does not name", false},
    {&kernel_lanes, 6, 24, "lane 24 is not there", false},
    {&kernel_lanes, 7, 32, "with another mask", false},
    {&kernel_lanes, 8, 32, "has left", false},
    {&kernel_lanes, 9, 32, "has left", false},
    {&kernel_lanes, 10, 32, "waits at __syncthreads of", false},
    {&kernel_lanes, 11, 32, "waits at __syncthreads of", false},
    {&kernel_lanes, 12, 32, "a width of 5", false},
    {&kernel_memory, 0, 32, "", false},
    {&kernel_memory, 1, 32, "reads 4 bytes at byte 12 of operand 0, which has 12 bytes", true},
    {&kernel_memory, 2, 32, "reads 4 bytes at byte -4 of operand 0", true},
    {&kernel_memory, 3, 32, "writes 4 bytes at byte 12 of operand 1, which has 12 bytes", true},
    {&kernel_memory, 4, 32, "of operand 0, which has 12 bytes and is not writable", true},
    {&kernel_memory, 5, 32, "its type demands an alignment of 16 bytes", true},
    {&kernel_memory, 6, 32, "reads 4 bytes at byte 9 of operand 0", true},
    {&kernel_memory, 7, 32, "overflow of a sum", true},
    {&kernel_memory, 8, 32, "an index outside of an array", true},
    {&kernel_memory, 9, 32, "a number that does not fit an integer", true},
    {&kernel_memory, 10, 32, "writes 4 bytes", true},
    {&kernel_memory, 11, 32, "an atomic of 4 bytes at an address that is not aligned", true},
    {&kernel_memory, 12, 32, "a null pointer", true},
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* The operands are parts of a larger arena, of which every other byte is live for another kernel. */
START_TEST(planted_faults_are_found_in_every_order) {
  const planted *f = &faults[_i];
  static _Alignas(64) float arena[4096];
  if (SIMT_TSAN && f->of_memory) return;
  for (int o = 0; o < ORDERS; o++) {
    const int32_t n = f->kernel == &kernel_memory ? (f->fault == 7 ? 32 : f->fault == 8 ? 4 : 3) : (int32_t)f->threads;
    for (int i = 0; i < 4096; i++) arena[i] = (float)(i + 1);
    const test_args args = {arena + 512, arena + 2049, n, f->fault};
    const int64_t bytes = f->kernel == &kernel_memory && f->fault == 5 ? 64 : 4 * n;
    const bool done = run(f->kernel, GRID(1, 1, 1), GRID(f->threads, 1, 1), &args, bytes, bytes, orders[o]);
    ck_assert_msg(done == !f->fault, "fault %d in order %d: '%s'", f->fault, o, error);
    ck_assert_msg(strstr(error, f->says) != NULL, "'%s' in place of '%s'", error, f->says);
    /* the next launch is as any other */
    const test_args sound = {arena + 512, arena + 2049, 256, 0};
    ck_assert_msg(run(&kernel_reverse, GRID(1, 1, 1), GRID(256, 1, 1), &sound, 1024, 1024, orders[o]), "%s", error);
    for (int i = 0; i < 256; i++) ck_assert_float_eq(arena[2049 + i], arena[512 + 255 - i]);
  }
}
END_TEST

/* An element of shared memory that nobody has written is no number, also after a launch that has written it. */
START_TEST(shared_memory_is_poisoned) {
  static float x[256], y[256];
  for (int o = 0; o < ORDERS; o++)
    for (int fault = 0; fault <= 8; fault += 8) {
      const test_args args = {x, y, 256, fault};
      ck_assert_msg(run(&kernel_reverse, GRID(1, 1, 1), GRID(256, 1, 1), &args, sizeof x, sizeof y, orders[o]), "%s",
                    error);
      for (int t = 0; t < 256; t++) ck_assert(isnan(y[t]) == (fault && t == 252));
    }
}
END_TEST

#if SIMT_TSAN
/* The thread sanitizer prints the race and makes the process end with status 66. */
START_TEST(the_thread_sanitizer_finds_a_removed_barrier) {
  static float x[256], y[256];
  const test_args args = {x, y, 256, _i};
  ck_assert_msg(run(&kernel_reverse, GRID(1, 1, 1), GRID(256, 1, 1), &args, sizeof x, sizeof y, 0), "%s", error);
}
END_TEST
#endif

START_TEST(launches_beyond_the_limits_are_refused) {
  float x[4] = {0}, y[4];
  const test_args args = {x, y, 4, 0};
  ck_assert(!run(&kernel_memory, GRID(1, 65536, 1), GRID(32, 1, 1), &args, 16, 16, 0));
  ck_assert_msg(strstr(error, "a grid beyond the limits") != NULL, "%s", error);
  ck_assert(!run(&kernel_memory, GRID(1, 0, 1), GRID(32, 1, 1), &args, 16, 16, 0));
  ck_assert(!run(&kernel_memory, GRID(1, 1, 1), GRID(33, 1, 1), &args, 16, 16, 0));
  ck_assert_msg(strstr(error, "launch bounds") != NULL, "%s", error);
  ck_assert(!run(&kernel_memory, GRID(1, 1, 1), GRID(0, 1, 1), &args, 16, 16, 0));
  const simt_launch launch = {
      .kernel = &kernel_memory, .grid = {1, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 49153, .args = &args};
  ck_assert(!simt_run(&launch, error, sizeof error));
  ck_assert_msg(strstr(error, "shared memory") != NULL, "%s", error);
}
END_TEST

/* x rounded to `bits` bits after the point, to the nearest, ties away from 0: the numbers below are no ties. */
static double rounded(double x, int bits) {
  int exponent;
  const double part = frexp(x, &exponent);
  return ldexp(round(ldexp(part, bits + 1)), exponent - bits - 1);
}

/* f32 as the unit reads it: scaled, then cut off (tf32_of_f32). */
static double tf32_of(float x) {
  const float scaled = x * (1 + 0x1p-10f / 3);
  uint32_t word;
  memcpy(&word, &scaled, sizeof word);
  word &= ~0x1fffu;
  float cut;
  memcpy(&cut, &word, sizeof cut);
  return cut;
}

static const struct {
  const simt_kernel *kernel;
  int depth, bits; /* bits 0: tf32 */
} units[] = {{&kernel_mma_tf32, 8, 0}, {&kernel_mma_f16, 16, 10}, {&kernel_mma_bf16, 16, 7}};

/* A product of matrices of random numbers, of which a number of the unit's kind has too few bits. The products are
 * exact, the sums of f32: an error of 16 roundings. */
START_TEST(tensor_cores_multiply_fragments) {
  const int k = units[_i].depth;
  float x[16 * 16 + 16 * 8], y[16 * 8], c[16 * 8];
  uint32_t random = 12345;
  for (int i = 0; i < 24 * k; i++) x[i] = (float)((random = random * 1664525u + 1013904223u) >> 8) / 0x1p23f - 1;
  for (int i = 0; i < 128; i++) c[i] = (float)(i - 60) / 8;
  for (int o = 0; o < ORDERS; o++)
    for (int fault = 0; fault < 4; fault++) {
      const test_args args = {x, y, k, fault};
      memcpy(y, c, sizeof y);
      const bool done =
          run(units[_i].kernel, GRID(1, 1, 1), GRID(32, 1, 1), &args, 24 * k * (int64_t)sizeof *x, sizeof y, orders[o]);
      ck_assert_msg(done == (fault < 2), "fault %d: %s", fault, error);
      if (fault == 2) ck_assert_msg(strstr(error, "but lane 5 has left") != NULL, "%s", error);
      if (fault == 3) ck_assert_msg(strstr(error, "waits at mma.sync of") != NULL, "%s", error);
      if (fault >= 2) continue;
      int wrong = 0;
      for (int i = 0; i < 128; i++) {
        double sum = c[i];
        for (int l = 0; l < k; l++) {
          const float left = x[i / 8 * k + l], right = x[16 * k + l * 8 + i % 8];
          const int bits = units[_i].bits;
          sum += bits ? rounded(left, bits) * rounded(right, bits) : tf32_of(left) * tf32_of(right);
        }
        wrong += !(fabs(y[i] - sum) <= 16 * 8 * 0x1p-24);
      }
      ck_assert_msg(fault ? wrong > 100 : !wrong, "fault %d: %d elements differ", fault, wrong);
    }
}
END_TEST

/* ldmatrix (PTX ISA): lane 4 g + p gets columns 2 p and 2 p + 1 of row g of each matrix; with .trans, rows 2 p and 2 p
 * + 1 of column g. */
START_TEST(matrices_are_loaded) {
  float y[32 * 8];
  for (int o = 0; o < ORDERS; o++)
    for (int fault = 0; fault < 3; fault++) {
      const test_args args = {NULL, y, 0, fault};
      if (SIMT_TSAN && fault == 1) continue;
      const bool done =
          run(_i ? &kernel_transposed : &kernel_in_rows, GRID(1, 1, 1), GRID(32, 1, 1), &args, 0, sizeof y, orders[o]);
      ck_assert_msg(done == !fault, "fault %d: %s", fault, error);
      if (fault == 1) ck_assert_msg(strstr(error, "its type demands an alignment of 16 bytes") != NULL, "%s", error);
      if (fault == 2) ck_assert_msg(strstr(error, "but lane 5 has left") != NULL, "%s", error);
      for (int i = 0; i < 32 * 8 && !fault; i++) {
        const int g = i / 8 / 4, p = i / 8 % 4, matrix = i % 8 / 2, pair = 2 * p + i % 2;
        ck_assert_float_eq(y[i], (float)(matrix * 64 + (_i ? pair * 8 + g : g * 8 + pair)));
      }
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("simt");
  TCase *t = tcase_create("simt");
  tcase_add_test(t, a_block_sums_by_shuffles_and_shared_memory);
  tcase_add_test(t, barriers_count_and_vote);
  tcase_add_test(t, lanes_vote_and_shuffle);
  tcase_add_test(t, grids_and_blocks_have_three_dims);
  tcase_add_test(t, chosen_blocks_run_alone);
  tcase_add_test(t, a_launch_may_use_all_shared_memory);
  tcase_add_test(t, a_cancelled_launch_begins_no_block);
  tcase_add_test(t, atomics_and_the_order_of_threads);
  tcase_add_loop_test(t, planted_faults_are_found_in_every_order, 0, FAULTS);
  tcase_add_test(t, shared_memory_is_poisoned);
  tcase_add_loop_test(t, tensor_cores_multiply_fragments, 0, sizeof units / sizeof *units);
  tcase_add_loop_test(t, matrices_are_loaded, 0, 2);
  tcase_add_test(t, launches_beyond_the_limits_are_refused);
#if SIMT_TSAN
  tcase_add_loop_exit_test(t, the_thread_sanitizer_finds_a_removed_barrier, 66, 1, 2);
  tcase_add_loop_exit_test(t, the_thread_sanitizer_finds_a_removed_barrier, 0, 0, 1);
#endif
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
