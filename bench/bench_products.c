/* Products of f32 on one thread beside two limits of the core, measured in the same run: its peak of multiply-adds, and
 * the rate at which it sums memory larger than its caches. A product cannot take less time than its multiply-adds do,
 * nor, if B is larger than the caches, than reading B does. A smaller B is read from a cache, so that its share of the
 * memory's rate may be above 1. Figures: the least CPU time of the runs, because other programs hardly disturb it.
 *
 *     bench_products [RUNS [WORD]]      default 20; only the rows whose text has the word */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/desc.h"
#include "bench/arguments.h"
#include "bench/limits.h"
#include "ops/call.h"
#include "ops/packed.h"

typedef enum form { PACKED, PLAIN, TURNED } form;

typedef struct row {
  const char *what;
  int64_t batch, rows, depth, columns;
  form form; /* the form of B: packed; [depth, columns]; [columns, depth] */
} row;

static const row rows[] = {
    {"square", 1, 512, 512, 512, PACKED},
    {"square", 1, 512, 512, 512, PLAIN},
    {"square, turned", 1, 512, 512, 512, TURNED},
    {"large", 1, 1024, 1024, 1024, PACKED},
    {"MiniLM, 384 to 384", 1, 64, 384, 384, PACKED},
    {"MiniLM, 384 to 1536", 1, 64, 384, 1536, PACKED},
    {"MiniLM, 1536 to 384", 1, 64, 1536, 384, PACKED},
    {"BERT, 768 to 768", 1, 128, 768, 768, PACKED},
    {"BERT, 768 to 3072", 1, 128, 768, 3072, PACKED},
    {"BERT, 3072 to 768", 1, 128, 3072, 768, PACKED},
    {"box head, 12544 to 1024", 1, 1000, 12544, 1024, PACKED},
    {"attention, scores", 12, 64, 32, 64, PLAIN},
    {"attention, sums", 12, 64, 64, 32, PLAIN},
    {"PP-OCR rec, classes", 1, 40, 120, 6625, PACKED},
    {"few rows", 1, 1, 512, 512, PACKED},
    {"few rows", 1, 1, 512, 2048, PACKED},
    {"few rows", 1, 1, 2048, 512, PACKED},
    {"few rows", 1, 1, 512, 8000, PACKED},
    {"few rows", 1, 2, 2048, 4096, PACKED},
    {"few rows", 1, 4, 2048, 4096, PACKED},
    {"few rows", 1, 8, 2048, 4096, PACKED},
    {"few rows", 1, 16, 2048, 4096, PACKED},
    {"few rows", 1, 32, 2048, 4096, PACKED},
    {"few rows", 1, 1, 2048, 4096, PACKED},
    {"few rows", 1, 1, 2048, 4096, PLAIN},
    {"few rows, turned", 1, 1, 2048, 4096, TURNED},
    {"few rows", 1, 4, 2048, 4096, PLAIN},
    {"few rows, turned", 1, 4, 2048, 4096, TURNED},
    {"few rows", 1, 8, 2048, 4096, PLAIN},
    {"few rows, turned", 1, 8, 2048, 4096, TURNED},
};

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *numbers(int64_t n) {
  float *x = aligned_alloc(64, (size_t)(n * 4 + 127) / 64 * 64);
  if (!x) exit(1);
  for (int64_t i = 0; i < n; i++) x[i] = (float)((uint64_t)i * 2654435761u % 1000) / 1000 - 0.5f;
  return x;
}

/* ---- rows ---- */

static reed_desc desc_of(int64_t batch, int64_t m, int64_t n) {
  reed_desc d = {.dtype = REED_F32, .rank = batch > 1 ? 3 : 2};
  int64_t dims[] = {batch, m, n};
  memcpy(d.dims, dims + (batch > 1 ? 0 : 1), (size_t)d.rank * sizeof *dims);
  return d;
}

typedef struct limits {
  double gflops, bytes;
} limits;

static void measure(const row *r, int runs, limits most) {
  bool turned = r->form == TURNED;
  const reed_op *op = op_builtin(turned ? OP_Gemm : OP_MatMul);
  reed_desc in[2] = {desc_of(r->batch, r->rows, r->depth),
                     desc_of(r->batch, turned ? r->columns : r->depth, turned ? r->depth : r->columns)},
            out = desc_of(r->batch, r->rows, r->columns), plain = in[1];
  float *data[2] = {numbers(desc_elements(&in[0])), numbers(desc_elements(&in[1]))}, *y = numbers(desc_elements(&out));
  reed_attr items[1] = {{.name = "transB", .type = REED_ATTR_INT, .i = 1}}, completed[32];
  reed_attrs given = {items, turned}, attrs = op_attrs_complete(op, &given, completed);
  packed_order order;
  if (r->form == PACKED && packed_order_of(op, &attrs, &plain, &order)) {
    in[1] = packed_desc(&order);
    float *packed = numbers(desc_elements(&in[1]));
    packed_pack(&order, data[1], packed);
    free(data[1]);
    data[1] = packed;
    items[0] = (reed_attr){.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = plain.dims, .n = plain.rank};
    given.n = 1;
    attrs = op_attrs_complete(op, &given, completed);
  }
  reed_kernel_env env = {.n_threads = 1};
  bool constant = r->form == PACKED;
  op_call_input inputs[] = {{.desc = &in[0]}, {&in[1], constant ? data[1] : NULL, constant}};
  op_call call = {.op = op,
                  .attrs = &attrs,
                  .node = "bench",
                  .n_inputs = 2,
                  .n_outputs = 1,
                  .inputs = inputs,
                  .outputs = &out,
                  .env = &env,
                  .prepare = kernel_cpu(op)};
  reed_kernel kernel;
  if (op_call_prepare(&call, &kernel) != REED_OK) exit(1);
  void *workspace = numbers(kernel.workspace_bytes / 4 + 16);
  reed_kernel_buffers buffers = {
      .inputs = (const void *const *)data, .outputs = (void *const[]){y}, .workspace = workspace};
  double best = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = cpu_s();
    if (kernel.run(kernel.state, &buffers) != REED_OK) exit(1);
    double seconds = cpu_s() - begin;
    if (seconds < best) best = seconds;
  }
  double products = (double)(r->batch * r->rows * r->depth) * (double)r->columns, rate = 2 * products / best,
         bytes = (double)(r->batch * r->depth * r->columns) * 4 / best;
  printf("%-22s %3lld x %4lld x %4lld x %4lld  %-7s %9.1f %8.1f %6.2f %8.1f %6.2f\n", r->what, (long long)r->batch,
         (long long)r->rows, (long long)r->depth, (long long)r->columns,
         (const char *[]){"packed", "plain", "turned"}[r->form], best * 1e6, rate * 1e-9, rate / most.gflops * 1e-9,
         bytes * 1e-9, bytes / most.bytes);
  fflush(stdout);
  kernel.free(kernel.state);
  free(data[0]);
  free(data[1]);
  free(y);
  free(workspace);
}

int main(int argc, char **argv) {
  int runs = argc > 1 ? (int)argument_integer("RUNS", argv[1], 1, INT32_MAX) : 20;
  const char *word = argc > 2 ? argv[2] : "";
  limits most = {measure_peak(), measure_memory()};
  printf("peak of a core %.0f GFLOP/s, memory %.1f GB/s\n", most.gflops, most.bytes * 1e-9);
  printf("%-46s %-7s %10s %8s %6s %8s %6s\n", "product", "B", "us", "GFLOP/s", "/ peak", "B, GB/s", "/ mem");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strstr(rows[i].what, word)) measure(&rows[i], runs, most);
  return 0;
}
