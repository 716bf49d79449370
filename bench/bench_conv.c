/* Convolutions with channels last on one thread: Reed's kernel over packed weights beside oneDNN's primitive for
 * exactly the same shape. Prints the least CPU time of interleaved runs, which other programs disturb little. A ratio
 * above 1: oneDNN takes longer.
 *
 *     bench_conv [RUNS]       default 5 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ops/cpu/onednn/onednn.h"
#include "ops/call.h"
#include "ops/packed.h"

typedef struct row {
  const char *what;
  int64_t images, height, width, channels, outputs, taps, stride, pad;
} row;

static const row rows[] = {
    {"ResNet layer 1, 3x3", 1, 200, 267, 64, 64, 3, 1, 1},
    {"ResNet layer 1, 1x1 out", 1, 200, 267, 64, 256, 1, 1, 0},
    {"ResNet layer 1, 1x1 in", 1, 200, 267, 256, 64, 1, 1, 0},
    {"ResNet layer 2, 3x3", 1, 100, 134, 128, 128, 3, 1, 1},
    {"ResNet layer 2, 3x3 stride 2", 1, 200, 267, 128, 128, 3, 2, 1},
    {"ResNet layer 2, 1x1 out", 1, 100, 134, 128, 512, 1, 1, 0},
    {"ResNet layer 3, 3x3", 1, 50, 67, 256, 256, 3, 1, 1},
    {"ResNet layer 3, 1x1 out", 1, 50, 67, 256, 1024, 1, 1, 0},
    {"ResNet layer 3, 1x1 in", 1, 50, 67, 1024, 256, 1, 1, 0},
    {"ResNet layer 3, 1x1 stride 2", 1, 100, 134, 512, 1024, 1, 2, 0},
    {"ResNet layer 4, 3x3", 1, 25, 34, 512, 512, 3, 1, 1},
    {"ResNet layer 4, 1x1 out", 1, 25, 34, 512, 2048, 1, 1, 0},
    {"ResNet layer 4, 1x1 in", 1, 25, 34, 2048, 512, 1, 1, 0},
    {"FPN, 3x3", 1, 200, 267, 256, 256, 3, 1, 1},
    {"mask head, 3x3", 100, 14, 14, 256, 256, 3, 1, 1},
    {"RPN, 1x1", 1, 200, 267, 256, 12, 1, 1, 0},
    {"VGG, 3x3", 1, 300, 300, 64, 64, 3, 1, 1},
    {"SSDLite, 1x1", 1, 20, 20, 480, 80, 1, 1, 0},
    {"SSDLite, 1x1 small", 1, 160, 160, 16, 64, 1, 1, 0},
    {"fully connected, 1000 boxes", 1, 1, 1000, 12544, 1024, 1, 1, 0},
    {"BERT, 768 to 3072", 1, 1, 128, 768, 3072, 1, 1, 0},
    {"BERT, 3072 to 768", 1, 1, 128, 3072, 768, 1, 1, 0},
    {"one row, 1024 to 1024", 1, 1, 1, 1024, 1024, 1, 1, 0},
    {"sub-pixel, 3x3", 1, 120, 160, 64, 64, 3, 1, 1},
};

static double cpu_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static float *numbers(int64_t n) {
  float *x = aligned_alloc(64, (size_t)(n * 4 + 127) / 64 * 64);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
  return x;
}

static onednn_problem problem_of(const row *r, int64_t rows_out, int64_t columns_out) {
  onednn_problem p = {
      .kind = ONEDNN_CONV, .rank = 4, .weights_rank = 4, .scale = 1, .src_plain = 1, .dst_plain = 1, .with_bias = 1};
  int64_t src[] = {r->images, r->channels, r->height, r->width}, dst[] = {r->images, r->outputs, rows_out, columns_out};
  int64_t weights[] = {r->outputs, r->channels, r->taps, r->taps};
  for (int i = 0; i < 4; i++) {
    p.src[i] = src[i];
    p.dst[i] = dst[i];
    p.weights[i] = weights[i];
  }
  int64_t src_strides[] = {r->height * r->width * r->channels, 1, r->width * r->channels, r->channels};
  int64_t dst_strides[] = {rows_out * columns_out * r->outputs, 1, columns_out * r->outputs, r->outputs};
  int64_t weights_strides[] = {r->channels * r->taps * r->taps, r->taps * r->taps, r->taps, 1};
  for (int i = 0; i < 4; i++) {
    p.src_strides[i] = src_strides[i];
    p.dst_strides[i] = dst_strides[i];
    p.weights_strides[i] = weights_strides[i];
  }
  int64_t in[] = {r->height, r->width}, out[] = {rows_out, columns_out};
  for (int i = 0; i < 2; i++) {
    p.strides[i] = r->stride;
    p.pads_begin[i] = r->pad;
    p.pads_end[i] = (out[i] - 1) * r->stride + r->taps - r->pad - in[i];
  }
  p.products = r->outputs * r->channels * r->taps * r->taps * rows_out * columns_out;
  return p;
}

static void measure(const row *r, int runs) {
  int64_t h = (r->height + 2 * r->pad - r->taps) / r->stride + 1, w = (r->width + 2 * r->pad - r->taps) / r->stride + 1;
  float *x = numbers(r->images * r->height * r->width * r->channels),
        *weights = numbers(r->outputs * r->channels * r->taps * r->taps);
  float *bias = numbers(r->outputs), *y = numbers(r->images * h * w * r->outputs);
  kernel_cache *cache;
  if (kernel_cache_open(&cache) != REED_OK) exit(1);
  reed_kernel_env env = {.n_threads = 1, .cache = cache};
  reed_desc inputs[] = {{REED_F32, 4, {r->images, r->height, r->width, r->channels}},
                        {REED_F32, 4, {r->outputs, r->channels, r->taps, r->taps}},
                        {REED_F32, 1, {r->outputs}}};
  reed_desc outputs[] = {{REED_F32, 4, {r->images, h, w, r->outputs}}};
  int64_t strides[] = {r->stride, r->stride}, pads[] = {r->pad, r->pad, r->pad, r->pad};
  reed_desc plain = inputs[1];
  reed_attr items[] = {{.name = "activation", .type = REED_ATTR_STRING, .s = "relu", .n = 4},
                       {.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
                       {.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = plain.dims, .n = 4},
                       {.name = "pads", .type = REED_ATTR_INTS, .ints = pads, .n = 4},
                       {.name = "strides", .type = REED_ATTR_INTS, .ints = strides, .n = 2}};
  reed_attr completed[32];
  const reed_attrs given = {items, 5}, attrs = op_attrs_complete(op_builtin(OP_Conv), &given, completed);
  packed_order order;
  if (!packed_order_of(op_builtin(OP_Conv), &attrs, &plain, &order)) exit(1);
  inputs[1] = packed_desc(&order);
  float *packed = aligned_alloc(64, (size_t)inputs[1].dims[0] * sizeof(float));
  packed_pack(&order, weights, packed);
  const op_call_input given_inputs[] = {
      {&inputs[0], NULL, false}, {&inputs[1], packed, true}, {&inputs[2], bias, true}};
  op_call call = {.op = op_builtin(OP_Conv),
                  .attrs = &attrs,
                  .node = "bench",
                  .n_inputs = 3,
                  .n_outputs = 1,
                  .inputs = given_inputs,
                  .outputs = outputs,
                  .env = &env,
                  .prepare = kernel_cpu(op_builtin(OP_Conv))};
  reed_kernel ours;
  double t0 = cpu_ms();
  if (op_call_prepare(&call, &ours) != REED_OK) exit(1);
  double t1 = cpu_ms();
  kernel_cache *their_cache;
  if (kernel_cache_open(&their_cache) != REED_OK) exit(1);
  reed_kernel_env their_env = {.n_threads = 1, .cache = their_cache};
  const reed_kernel_call theirs_call = {.op = call.op, .node = call.node, .env = &their_env};
  onednn_problem problem = problem_of(r, h, w);
  onednn_runner *theirs = NULL;
  if (onednn_open(&theirs_call, &problem, r->images, 32, weights, &theirs) != REED_OK || !theirs) exit(1);
  double t2 = cpu_ms();
  void *workspace = aligned_alloc(64, (size_t)(ours.workspace_bytes + onednn_workspace_bytes(theirs) + 127) / 64 * 64);
  const void *in[] = {x, packed, bias};
  void *out[] = {y};
  reed_kernel_buffers buffers = {.inputs = in, .outputs = out, .workspace = workspace};
  double our_ms = 1e30, their_ms = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = cpu_ms();
    if (ours.run(ours.state, &buffers) != REED_OK) exit(1);
    double middle = cpu_ms();
    if (onednn_run(theirs, x, weights, bias, NULL, y, workspace) != REED_OK) exit(1);
    double end = cpu_ms();
    if (middle - begin < our_ms) our_ms = middle - begin;
    if (end - middle < their_ms) their_ms = end - middle;
  }
  double flop = 2.0 * (double)(r->images * h * w * r->outputs) * (double)(r->channels * r->taps * r->taps);
  printf("%-30s %9.3f %8.1f %9.3f %8.2f %10.2f %10.2f\n", r->what, our_ms, flop / our_ms * 1e-6, their_ms,
         their_ms / our_ms, t1 - t0, t2 - t1);
  fflush(stdout);
  ours.free(ours.state);
  onednn_close(theirs);
  kernel_cache_close(&cache);
  kernel_cache_close(&their_cache);
  free(x);
  free(weights);
  free(packed);
  free(bias);
  free(y);
  free(workspace);
}

int main(int argc, char **argv) {
  int runs = argc > 1 ? atoi(argv[1]) : 5;
  omp_set_num_threads(1);
  printf("%-30s %9s %8s %9s %8s %10s %10s\n", "", "Reed, ms", "GFLOP/s", "oneDNN", "ratio", "prepare", "oneDNN's");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) measure(&rows[i], runs);
}
