/* Kernels of the CPU that a test prepares and runs with a cache, threads and operands of its own. */
#ifndef TESTS_OPS_CPU_PRODUCT_DIRECT_H_
#define TESTS_OPS_CPU_PRODUCT_DIRECT_H_

#include <string.h>

#include "base/desc.h"
#include "ops/call.h"
#include "ops/cpu/common/cpu.h"
#include "ops/kernel.h"
#include "tests/ops/cpu/product/drawn.h"

/* The kernel of a call with inputs x and w (data NULL: no constant) and output y. cache: NULL: none. */
static inline reed_kernel direct_prepare(op_id id, const reed_attr *items, int32_t n_items, const reed_desc *x,
                                         const reed_desc *w, const void *constant, const reed_desc *y, int32_t threads,
                                         kernel_cache *cache) {
  const reed_op *op = op_builtin(id);
  reed_attr completed[32];
  const reed_attrs given = {items, n_items}, attrs = op_attrs_complete(op, &given, completed);
  const op_call_input inputs[] = {{x, NULL, false}, {w, constant, constant != NULL}};
  reed_desc out = *y;
  reed_kernel_env env = {.n_threads = threads, .cache = cache};
  op_call call = {.op = op,
                  .attrs = &attrs,
                  .node = "node",
                  .n_inputs = 2,
                  .n_outputs = 1,
                  .inputs = inputs,
                  .outputs = &out,
                  .env = &env,
                  .prepare = kernel_cpu(op)};
  reed_kernel kernel;
  ck_assert_int_eq(op_call_prepare(&call, &kernel), REED_OK);
  return kernel;
}

/* Runs the kernel once, and frees it. */
static inline void direct_run(reed_kernel *kernel, const void *x, const void *w, void *y) {
  void *workspace = malloc((size_t)kernel->workspace_bytes + 1);
  ck_assert_ptr_nonnull(workspace);
  const reed_kernel_buffers buffers = {
      .inputs = (const void *const[]){x, w}, .outputs = (void *const[]){y}, .workspace = workspace};
  ck_assert_int_eq(kernel->run(kernel->state, &buffers), REED_OK);
  if (kernel->free) kernel->free(kernel->state);
  free(workspace);
}

/* Runs a row of a test and returns Y, of *out_n elements, which free() releases. cache: NULL: the weights are no
 * constants. */
typedef float *(*direct_runner)(const void *row, int32_t threads, kernel_cache *cache, int64_t *out_n);

/* At every CPU level the row's Y has the same bits for any number of threads and for constant weights. */
static inline void direct_expect_equal_bits(direct_runner run, const void *row, const char *what) {
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    cpu_level_use(cpu_level_name(level));
    int64_t n;
    float *alone = run(row, 1, NULL, &n);
    for (int32_t threads = 1; threads <= 7; threads += 3)
      for (int constant = threads == 1; constant < 2; constant++) {
        kernel_cache *cache = NULL;
        if (constant) ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
        float *shared = run(row, threads, cache, &n);
        ck_assert_msg(memcmp(alone, shared, (size_t)n * sizeof *alone) == 0, "%s, %d threads", what, threads);
        free(shared);
        if (constant) kernel_cache_close(&cache);
      }
    free(alone);
  }
  cpu_level_use(NULL);
}

/* n numbers of -1..1 that follow from the seed; free() releases them. */
static inline float *seeded_numbers(int64_t n, uint64_t seed) {
  drawn_state = seed;
  return numbers(n);
}

#endif
