/* Convolutions and products of f32 on one thread: Reed's kernel beside oneDNN's primitive for exactly the same shape,
 * in the same order of axes. Prints the least CPU time of interleaved runs, because other programs hardly disturb it. A
 * ratio above 1: oneDNN takes longer. Rates are also shown as shares of the core's peak of multiply-adds. Weights are
 * constant and packed where the compiler packs them, except those of products of two plain matrices.
 *
 * Then the 3x3 convolutions of known nets, and windows along one axis, direct and by Winograd, beside the core's peak
 * (layers.h).
 *
 *     bench_conv [RUNS [WORD]]           default 5; only the rows whose text has the word
 *     bench_conv --table [RUNS [WORD]]   all convolutions at AVX2, AVX-512 and with weights of bf16, as Markdown
 *
 * With weights of bf16 Reed reads X in f32 and rounds it, while oneDNN is given an X in bf16; both write f32. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/call.h"
#include "bench/arguments.h"
#include "bench/conv_table.h"
#include "bench/layers.h"
#include "bench/limits.h"
#include "bench/onednn.h"
#include "ops/packed.h"

#define AXES 3

/* X is [images, channels, extents], W [outputs, channels / groups, taps]; a tap of 0 ends the axes. Dilation 0 is 1.
 * first: Reed reads an X with channels first (the picture that a net begins with), oneDNN one with channels last. */
typedef struct row {
  const char *what;
  int64_t images, channels, extents[AXES], outputs, taps[AXES], stride, pad, groups;
  bool residual;
  int64_t dilation;
  bool first;
} row;

/* Packed weights, channels last. */
static const row last[] = {
    {"ResNet layer 1, 3x3", 1, 64, {200, 267}, 64, {3, 3}, 1, 1, 1},
    {"ResNet layer 1, 1x1 out", 1, 64, {200, 267}, 256, {1, 1}, 1, 0, 1},
    {"ResNet layer 1, 1x1 out, residual", 1, 64, {200, 267}, 256, {1, 1}, 1, 0, 1, true},
    {"ResNet layer 1, 1x1 in", 1, 256, {200, 267}, 64, {1, 1}, 1, 0, 1},
    {"ResNet layer 2, 3x3", 1, 128, {100, 134}, 128, {3, 3}, 1, 1, 1},
    {"ResNet layer 2, 3x3 stride 2", 1, 128, {200, 267}, 128, {3, 3}, 2, 1, 1},
    {"ResNet layer 2, 1x1 out", 1, 128, {100, 134}, 512, {1, 1}, 1, 0, 1},
    {"ResNet layer 3, 3x3", 1, 256, {50, 67}, 256, {3, 3}, 1, 1, 1},
    {"ResNet layer 3, 1x1 out", 1, 256, {50, 67}, 1024, {1, 1}, 1, 0, 1},
    {"ResNet layer 3, 1x1 in", 1, 1024, {50, 67}, 256, {1, 1}, 1, 0, 1},
    {"ResNet layer 3, 1x1 stride 2", 1, 512, {100, 134}, 1024, {1, 1}, 2, 0, 1},
    {"ResNet layer 4, 3x3 stride 2", 1, 512, {50, 67}, 512, {3, 3}, 2, 1, 1},
    {"ResNet layer 4, 3x3", 1, 512, {25, 34}, 512, {3, 3}, 1, 1, 1},
    {"ResNet layer 4, 1x1 out", 1, 512, {25, 34}, 2048, {1, 1}, 1, 0, 1},
    {"ResNet layer 4, 1x1 in", 1, 2048, {25, 34}, 512, {1, 1}, 1, 0, 1},
    {"FPN, 3x3", 1, 256, {200, 267}, 256, {3, 3}, 1, 1, 1},
    {"mask head, 3x3", 100, 256, {14, 14}, 256, {3, 3}, 1, 1, 1},
    {"PP-OCR, 3x3 to 24", 1, 96, {80, 120}, 24, {3, 3}, 1, 1, 1},
    {"PP-OCR, stem stride 2", 1, 3, {320, 480}, 16, {3, 3}, 2, 1, 1},
    {"PP-OCR, 1x1, 16 to 32", 1, 16, {160, 240}, 32, {1, 1}, 1, 0, 1},
    {"PP-OCR, 1x1, 48 to 48", 1, 48, {80, 120}, 48, {1, 1}, 1, 0, 1},
    {"PP-OCR, 1x1, 384 on 10x15", 1, 384, {10, 15}, 384, {1, 1}, 1, 0, 1},
    {"PP-OCR, 1x1, 480 on 3x80", 1, 480, {3, 80}, 480, {1, 1}, 1, 0, 1},
    {"PP-OCR, depthwise 5x5", 1, 192, {20, 30}, 192, {5, 5}, 1, 2, 192},
    {"PP-OCR, depthwise 3x3 stride 2", 1, 32, {160, 240}, 32, {3, 3}, 2, 1, 32},
    {"NudeNet, 3x3 stride 2", 1, 16, {160, 160}, 32, {3, 3}, 2, 1, 1},
    {"NudeNet, 1x1", 1, 384, {10, 10}, 256, {1, 1}, 1, 0, 1},
    {"NudeNet, 3x3 on 10x10", 1, 128, {10, 10}, 128, {3, 3}, 1, 1, 1},
    {"RPN, 1x1", 1, 256, {200, 267}, 12, {1, 1}, 1, 0, 1},
    {"VGG, 3x3", 1, 64, {300, 300}, 64, {3, 3}, 1, 1, 1},
    {"SSDLite, 1x1", 1, 480, {20, 20}, 80, {1, 1}, 1, 0, 1},
    {"SSDLite, 1x1 small", 1, 16, {160, 160}, 64, {1, 1}, 1, 0, 1},
    {"fully connected, 1000 boxes", 1, 12544, {1, 1000}, 1024, {1, 1}, 1, 0, 1},
    {"BERT, 768 to 3072", 1, 768, {1, 128}, 3072, {1, 1}, 1, 0, 1},
    {"BERT, 3072 to 768", 1, 3072, {1, 128}, 768, {1, 1}, 1, 0, 1},
    {"one row, 1024 to 1024", 1, 1024, {1, 1}, 1024, {1, 1}, 1, 0, 1},
    {"sub-pixel, 3x3", 1, 64, {120, 160}, 64, {3, 3}, 1, 1, 1},
    {"1-D, 5 taps", 4, 512, {512}, 512, {5}, 1, 2, 1},
    {"magika, a column of 5 taps", 4, 256, {512, 1}, 512, {5, 1}, 1, 0, 1},
    {"1-D, 512 to 128", 1, 512, {300}, 128, {3}, 1, 1, 1},
    {"ResNeXt, 32 groups of 4", 1, 128, {56, 56}, 128, {3, 3}, 1, 1, 32},
    {"ResNeXt, 32 groups of 8", 1, 256, {28, 28}, 256, {3, 3}, 1, 1, 32},
    {"ResNeXt, 32 groups of 16", 1, 512, {14, 14}, 512, {3, 3}, 1, 1, 32},
    {"ResNeXt, 32 groups of 32", 1, 1024, {7, 7}, 1024, {3, 3}, 1, 1, 32},
    {"RegNet, 8 groups of 48", 1, 384, {14, 14}, 384, {3, 3}, 1, 1, 8},
    {"2 groups of 64, stride 2", 1, 128, {56, 56}, 128, {3, 3}, 2, 1, 2},
    {"R(2+1)D, 1x3x3", 1, 64, {8, 56, 56}, 144, {1, 3, 3}, 1, 0, 1},
    {"C3D, 3x3x3", 1, 64, {8, 56, 56}, 128, {3, 3, 3}, 1, 1, 1},
    {"C3D, 3x3x3 small", 1, 256, {4, 14, 14}, 256, {3, 3, 3}, 1, 1, 1},
    {"R(2+1)D, 3x1x1", 1, 144, {8, 56, 56}, 64, {3, 1, 1}, 1, 1, 1},
    {"MobileNetV3, depthwise 3x3", 1, 16, {112, 112}, 16, {3, 3}, 1, 1, 16},
    {"MobileNetV3, depthwise 3x3 stride 2", 1, 64, {112, 112}, 64, {3, 3}, 2, 1, 64},
    {"MobileNetV3, depthwise 5x5 stride 2", 1, 72, {56, 56}, 72, {5, 5}, 2, 2, 72},
    {"MobileNetV3, depthwise 5x5", 1, 120, {28, 28}, 120, {5, 5}, 1, 2, 120},
    {"MobileNetV3, depthwise 5x5 on 7x7", 1, 960, {7, 7}, 960, {5, 5}, 1, 2, 960},
    {"SSDLite, depthwise 3x3 stride 2", 1, 256, {10, 10}, 256, {3, 3}, 2, 1, 256},
    {"EfficientNet, depthwise 3x3", 1, 32, {112, 112}, 32, {3, 3}, 1, 1, 32},
    {"EfficientNet, depthwise 3x3 stride 2", 1, 96, {112, 112}, 96, {3, 3}, 2, 1, 96},
    {"EfficientNet, depthwise 5x5 stride 2", 1, 672, {14, 14}, 672, {5, 5}, 2, 2, 672},
    {"ConvNeXt, depthwise 7x7", 1, 96, {56, 56}, 96, {7, 7}, 1, 3, 96},
    {"ConvNeXt, depthwise 7x7 on 14x14", 1, 384, {14, 14}, 384, {7, 7}, 1, 3, 384},
    {"depthwise 3x3, dilation 2", 1, 256, {33, 33}, 256, {3, 3}, 1, 2, 256, .dilation = 2},
    {"depthwise 1-D, 31 taps", 1, 256, {500}, 256, {31}, 1, 15, 256},
    {"ResNeXt, 32 groups of 8, stride 2", 1, 256, {56, 56}, 256, {3, 3}, 2, 1, 32},
    {"DeepLab, 3x3, dilation 12", 1, 256, {33, 33}, 256, {3, 3}, 1, 12, 1, .dilation = 12},
    {"DeepLab, 3x3, dilation 2", 1, 512, {33, 33}, 512, {3, 3}, 1, 2, 1, .dilation = 2},
    {"WaveNet, 1-D, 3 taps, dilation 8", 1, 64, {2000}, 128, {3}, 1, 8, 1, .dilation = 8},
    {"silero, 1-D, 256 taps, stride 128", 1, 1, {16000}, 258, {256}, 128, 0, 1},
    {"silero, 1-D, 129 to 128", 1, 129, {126}, 128, {3}, 1, 1, 1},
    {"silero, 1-D, 128 to 64, stride 2", 1, 128, {126}, 64, {3}, 2, 1, 1},
    {"stem, 7x7 stride 2", 1, 3, {224, 224}, 64, {7, 7}, 2, 3, 1},
    {"stem, 3x3 stride 2", 1, 3, {224, 224}, 32, {3, 3}, 2, 1, 1},
    {"stem, 7x7 stride 2, a picture", 1, 3, {224, 224}, 64, {7, 7}, 2, 3, 1, .first = true},
    {"stem, 3x3 stride 2, a picture", 1, 3, {224, 224}, 32, {3, 3}, 2, 1, 1, .first = true},
    {"VGG, 3x3, a picture", 1, 3, {224, 224}, 64, {3, 3}, 1, 1, 1, .first = true},
    {"ConvNeXt, 4x4 stride 4, a picture", 1, 3, {224, 224}, 96, {4, 4}, 4, 0, 1, .first = true},
};

/* Plain weights, channels second. */
static const row second[] = {
    {"3x3", 1, 64, {56, 56}, 64, {3, 3}, 1, 1, 1},
    {"3x3, 128", 1, 128, {28, 28}, 128, {3, 3}, 1, 1, 1},
    {"3x3, 256", 1, 256, {14, 14}, 256, {3, 3}, 1, 1, 1},
    {"3x3, 512", 1, 512, {7, 7}, 512, {3, 3}, 1, 1, 1},
    {"3x3 stride 2", 1, 64, {112, 112}, 128, {3, 3}, 2, 1, 1},
    {"1x1", 1, 256, {56, 56}, 64, {1, 1}, 1, 0, 1},
    {"1x1 stride 2", 1, 256, {56, 56}, 512, {1, 1}, 2, 0, 1},
    {"stem, 7x7 stride 2", 1, 3, {224, 224}, 64, {7, 7}, 2, 3, 1},
    {"to 3 channels, 3x3", 1, 64, {120, 160}, 3, {3, 3}, 1, 1, 1},
    {"8 images, 3x3", 8, 128, {14, 14}, 128, {3, 3}, 1, 1, 1},
    {"1-D, 5 taps", 4, 512, {512}, 512, {5}, 1, 2, 1},
    {"1-D, 1 channel, 25 taps", 1, 1, {16000}, 64, {25}, 1, 12, 1},
    {"ResNeXt, 32 groups of 4", 1, 128, {56, 56}, 128, {3, 3}, 1, 1, 32},
    {"ResNeXt, 32 groups of 16", 1, 512, {14, 14}, 512, {3, 3}, 1, 1, 32},
    {"depthwise 3x3", 1, 96, {56, 56}, 96, {3, 3}, 1, 1, 96},
    {"depthwise 3x3, 7x7", 1, 576, {7, 7}, 576, {3, 3}, 1, 1, 576},
    {"depthwise 3x3 stride 2", 1, 96, {112, 112}, 96, {3, 3}, 2, 1, 96},
    {"depthwise, multiplier 2", 1, 64, {56, 56}, 128, {3, 3}, 1, 1, 64},
    {"C3D, 3x3x3", 1, 64, {8, 56, 56}, 128, {3, 3, 3}, 1, 1, 1},
    {"stem, 3x7x7", 1, 3, {8, 112, 112}, 64, {3, 7, 7}, 1, 3, 1},
    {"depthwise 5x5", 1, 120, {28, 28}, 120, {5, 5}, 1, 2, 120},
    {"depthwise 5x5 stride 2", 1, 72, {56, 56}, 72, {5, 5}, 2, 2, 72},
    {"ConvNeXt, depthwise 7x7", 1, 96, {56, 56}, 96, {7, 7}, 1, 3, 96},
    {"ConvNeXt, depthwise 7x7 on 14x14", 1, 384, {14, 14}, 384, {7, 7}, 1, 3, 384},
    {"depthwise 3x3, dilation 2", 1, 256, {33, 33}, 256, {3, 3}, 1, 2, 256, .dilation = 2},
    {"ResNeXt, 32 groups of 8", 1, 256, {28, 28}, 256, {3, 3}, 1, 1, 32},
    {"ResNeXt, 32 groups of 8, stride 2", 1, 256, {56, 56}, 256, {3, 3}, 2, 1, 32},
    {"DeepLab, 3x3, dilation 12", 1, 256, {33, 33}, 256, {3, 3}, 1, 12, 1, .dilation = 12},
};

/* Transposed; outputs are channels of Y. */
static const row transposed[] = {
    {"2x2 stride 2", 1, 256, {28, 28}, 128, {2, 2}, 2, 0, 1},
    {"PP-OCR, 2x2 stride 2 to 1", 1, 24, {160, 240}, 1, {2, 2}, 2, 0, 1},
    {"PP-OCR, 2x2 stride 2 to 24", 1, 24, {80, 120}, 24, {2, 2}, 2, 0, 1},
    {"4x4 stride 2", 1, 128, {28, 28}, 64, {4, 4}, 2, 1, 1},
    {"3x3 stride 1", 1, 128, {28, 28}, 128, {3, 3}, 1, 1, 1},
    {"1-D, 16 taps, stride 8", 1, 256, {200}, 128, {16}, 8, 4, 1},
    {"DCGAN, 4x4 stride 2", 1, 512, {8, 8}, 256, {4, 4}, 2, 1, 1},
    {"DCGAN, 4x4 stride 2 to 3", 1, 64, {32, 32}, 3, {4, 4}, 2, 1, 1},
    {"U-Net, 2x2 stride 2", 1, 512, {28, 28}, 256, {2, 2}, 2, 0, 1},
};

/* Products of two plain matrices: A [batch, m, k], B [batch, k, n]; transposed: B [n, k]. */
static const struct {
  const char *what;
  int64_t batch, m, k, n;
  bool transposed;
} products[] = {
    {"square", 1, 512, 512, 512, false},
    {"square, B transposed", 1, 512, 512, 512, true},
    {"tall", 1, 1000, 256, 64, false},
    {"deep", 1, 64, 4096, 64, false},
    {"narrow", 1, 1000, 768, 2, false},
    {"one column", 1, 1000, 768, 1, false},
    {"1 row, 64 by 1000", 1, 1, 64, 1000, false},
    {"1 row, 1024 by 4096", 1, 1, 1024, 4096, false},
    {"1 row, 1024 by 4096, B transposed", 1, 1, 1024, 4096, true},
    {"4 rows, 512 by 2048", 1, 4, 512, 2048, false},
    {"8 rows, 512 by 2048", 1, 8, 512, 2048, false},
    {"8 rows, 512 by 2048, B transposed", 1, 8, 512, 2048, true},
    {"16 rows, 512 by 2048", 1, 16, 512, 2048, false},
    {"12 heads, scores of 128", 12, 128, 64, 128, false},
    {"12 heads, values of 128", 12, 128, 128, 64, false},
    {"8 heads, 1 query, 300 keys", 8, 1, 64, 300, false},
    {"8 heads, 1 query, values", 8, 1, 300, 64, false},
    {"small, 100 of 7x7x7", 100, 7, 7, 7, false},
};

static double peak; /* of a core, in GFLOP/s */

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

/* One case: a call, its tensors, and oneDNN's problem. */
typedef struct bench_case {
  const char *what;
  op_id op;
  bool packs; /* weights are packed if the compiler would pack them */
  reed_desc inputs[4], output;
  int32_t n_inputs;
  reed_attr items[10];
  int32_t n_attrs;
  onednn_problem problem;
  int64_t most;        /* images or rows of a primitive */
  bool constant, bf16; /* the weights are constant; they lie in pairs of bf16 */
  double products;
} bench_case;

/* Attributes are sorted by name. */
static void add_attr(bench_case *b, reed_attr attr) {
  int32_t at = b->n_attrs++;
  for (; at > 0 && strcmp(b->items[at - 1].name, attr.name) > 0; at--) b->items[at] = b->items[at - 1];
  b->items[at] = attr;
}

/* Cuts off the lower halves of floats. */
static uint16_t *to_bf16(const float *x, int64_t n) {
  uint16_t *halves = aligned_alloc(64, (size_t)(n * 2 + 127) / 64 * 64);
  for (int64_t i = 0; i < n; i++) memcpy(&halves[i], (const char *)&x[i] + 2, 2);
  return halves;
}

static void print(const char *what, const conv_figure *f) {
  printf("%-36s %9.3f %8.1f %7.2f %9.3f %8.2f %10.3f %10.2f  %s\n", what, f->ours, f->rate, f->rate / peak, f->theirs,
         f->theirs / f->ours, f->prepare, f->their_prepare, f->variant);
  fflush(stdout);
}

/* Leaves *out as it is if the weights cannot lie in pairs of bf16. */
static void measure(bench_case *b, int runs, conv_figure *out) {
  float *data[4] = {NULL}, *y = numbers(desc_elements(&b->output));
  for (int32_t i = 0; i < b->n_inputs; i++) data[i] = numbers(desc_elements(&b->inputs[i]));
  const float *weights = data[1];
  const reed_op *op = op_builtin(b->op);
  reed_desc plain = b->inputs[1];
  if (b->bf16) {
    plain.dtype = REED_BF16;
    b->problem.bf16 = 1;
    add_attr(b, (reed_attr){.name = PACKED_PAIRS_ATTR, .type = REED_ATTR_INT, .i = 1});
  }
  reed_attr completed[32];
  reed_attrs given = {b->items, b->n_attrs}, attrs = op_attrs_complete(op, &given, completed);
  packed_order order;
  bool packs = b->packs && packed_order_of(op, &attrs, &plain, &order);
  if (b->bf16 && !packs) {
    for (int32_t i = 0; i < b->n_inputs; i++) free(data[i]);
    free(y);
    return;
  }
  void *halves = b->bf16 ? to_bf16(weights, desc_elements(&plain)) : NULL,
       *their_x = b->bf16 ? (void *)to_bf16(data[0], desc_elements(&b->inputs[0])) : data[0];
  if (packs) {
    b->inputs[1] = packed_desc(&order);
    data[1] = aligned_alloc(64, (size_t)(desc_bytes(&b->inputs[1]) + 63) / 64 * 64);
    packed_pack(&order, b->bf16 ? halves : weights, data[1]);
    add_attr(b, (reed_attr){.name = PACKED_ATTR, .type = REED_ATTR_INTS, .ints = plain.dims, .n = plain.rank});
    given.n = b->n_attrs;
    attrs = op_attrs_complete(op, &given, completed);
  }
  kernel_cache *cache, *their_cache;
  if (kernel_cache_open(&cache) != REED_OK || kernel_cache_open(&their_cache) != REED_OK) exit(1);
  reed_kernel_env env = {.n_threads = 1, .cache = cache}, their_env = {.n_threads = 1, .cache = their_cache};
  op_call_input inputs[4];
  for (int32_t i = 0; i < b->n_inputs; i++)
    inputs[i] = (op_call_input){&b->inputs[i], b->constant && i ? data[i] : NULL, b->constant && i};
  op_call call = {.op = op,
                  .attrs = &attrs,
                  .node = "bench",
                  .n_inputs = b->n_inputs,
                  .n_outputs = 1,
                  .inputs = inputs,
                  .outputs = &b->output,
                  .env = &env,
                  .prepare = kernel_cpu(op)};
  reed_kernel ours;
  double t0 = cpu_ms();
  if (op_call_prepare(&call, &ours) != REED_OK) exit(1);
  double t1 = cpu_ms();
  const reed_kernel_call theirs_call = {.op = op, .node = call.node, .env = &their_env};
  onednn_runner *theirs = NULL;
  if (onednn_open(&theirs_call, &b->problem, b->problem.src[0], b->most, b->constant ? weights : NULL, &theirs) !=
          REED_OK ||
      (!theirs && !b->bf16)) /* oneDNN may have no primitive for bf16 */
    exit(1);
  double t2 = cpu_ms();
  void *workspace =
      aligned_alloc(64, (size_t)(ours.workspace_bytes + (theirs ? onednn_workspace_bytes(theirs) : 0) + 127) / 64 * 64);
  reed_kernel_buffers buffers = {
      .inputs = (const void *const *)data, .outputs = (void *const[]){y}, .workspace = workspace};
  double our_ms = 1e30, their_ms = 1e30;
  for (int i = 0; i < runs; i++) {
    double begin = cpu_ms();
    if (ours.run(ours.state, &buffers) != REED_OK) exit(1);
    double middle = cpu_ms();
    if (theirs &&
        onednn_run(theirs, their_x, weights, b->n_inputs > 2 ? data[2] : NULL, data[3], y, workspace) != REED_OK)
      exit(1);
    double end = cpu_ms();
    if (middle - begin < our_ms) our_ms = middle - begin;
    if (end - middle < their_ms) their_ms = end - middle;
  }
  *out = (conv_figure){.there = true,
                       .ours = our_ms,
                       .theirs = theirs ? their_ms : 0,
                       .prepare = t1 - t0,
                       .their_prepare = t2 - t1,
                       .rate = 2 * b->products / our_ms * 1e-6};
  snprintf(out->variant, sizeof out->variant, "%s", ours.variant ? ours.variant : "");
  ours.free(ours.state);
  onednn_close(theirs);
  kernel_cache_close(&cache);
  kernel_cache_close(&their_cache);
  if (data[1] != weights) free((void *)(uintptr_t)weights);
  if (b->bf16) free(their_x);
  free(halves);
  for (int32_t i = 0; i < b->n_inputs; i++) free(data[i]);
  free(y);
  free(workspace);
}

/* Strides of [N,C,spatial...]. */
static void strides_of(const int64_t *dims, int64_t rank, bool last_order, int64_t *out) {
  for (int64_t i = rank - 1, stride = 1; i >= 0; stride *= dims[i--]) out[i] = stride;
  if (!last_order) return;
  for (int64_t i = 2; i < rank; i++) out[i] *= dims[1];
  out[1] = 1;
}

static reed_desc desc_of(const int64_t *dims, int64_t rank, bool last_order) {
  reed_desc d = {.dtype = REED_F32, .rank = (int32_t)rank};
  for (int64_t i = 0; i < rank; i++) d.dims[i] = dims[!last_order || i == 0 ? i : i == rank - 1 ? 1 : i + 1];
  return d;
}

static void measure_convolution(const row *r, bool last_order, bool is_transposed, bool bf16, int runs,
                                conv_figure *out) {
  const int64_t dilation = r->dilation ? r->dilation : 1;
  int64_t axes = 0, x[2 + AXES] = {r->images, r->channels}, y[2 + AXES] = {r->images, r->outputs};
  int64_t w[3 + AXES], strides[AXES], dilations[AXES], pads[2 * AXES], first = r->groups > 1, taps = 1, plane = 1;
  while (axes < AXES && r->taps[axes]) axes++;
  bench_case b = {.what = r->what,
                  .op = is_transposed ? OP_ConvTranspose : OP_Conv,
                  .packs = last_order,
                  .n_inputs = 3 + r->residual,
                  .most = 32,
                  .constant = true,
                  .bf16 = bf16,
                  .problem = {.kind = is_transposed ? ONEDNN_CONV_TRANSPOSE : ONEDNN_CONV,
                              .rank = 2 + axes,
                              .weights_rank = 2 + axes + first,
                              .scale = 1,
                              .src_plain = last_order,
                              .dst_plain = last_order,
                              .with_bias = 1,
                              .with_residual = r->residual}};
  onednn_problem *p = &b.problem;
  int64_t ours_w[] = {is_transposed ? r->channels : r->outputs, (is_transposed ? r->outputs : r->channels) / r->groups,
                      r->taps[0], r->taps[1], r->taps[2]};
  for (int64_t i = 0; i < axes; i++) {
    x[2 + i] = r->extents[i];
    strides[i] = p->strides[i] = r->stride;
    dilations[i] = dilation;
    p->dilations[i] = dilation - 1;
    const int64_t reach = (r->taps[i] - 1) * dilation + 1;
    pads[i] = pads[axes + i] = p->pads_begin[i] = p->pads_end[i] = r->taps[i] > 1 ? r->pad : 0;
    y[2 + i] = is_transposed ? (x[2 + i] - 1) * r->stride + reach - 2 * pads[i]
                             : (x[2 + i] + 2 * pads[i] - reach) / r->stride + 1;
    if (!is_transposed) p->pads_end[i] = (y[2 + i] - 1) * r->stride + reach - pads[i] - x[2 + i];
    taps *= r->taps[i];
    plane *= is_transposed ? x[2 + i] : y[2 + i];
  }
  /* oneDNN's weights: [group,] output, input, taps */
  int64_t outer = taps * ours_w[1], inner = taps;
  w[0] = r->groups;
  w[first] = r->outputs / r->groups;
  w[first + 1] = r->channels / r->groups;
  p->weights_strides[0] = outer * ours_w[0] / r->groups;
  p->weights_strides[first] = is_transposed ? inner : outer;
  p->weights_strides[first + 1] = is_transposed ? outer : inner;
  for (int64_t i = axes - 1, stride = 1; i >= 0; stride *= r->taps[i--]) {
    w[first + 2 + i] = r->taps[i];
    p->weights_strides[first + 2 + i] = stride;
  }
  memcpy(p->src, x, sizeof x);
  memcpy(p->dst, y, sizeof y);
  memcpy(p->weights, w, (size_t)p->weights_rank * sizeof *w);
  strides_of(x, p->rank, last_order, p->src_strides);
  strides_of(y, p->rank, last_order, p->dst_strides);
  p->products = r->outputs / r->groups * r->channels * taps * plane;
  b.products = (double)r->images * (double)p->products;
  b.inputs[0] = desc_of(x, p->rank, last_order && !r->first);
  b.inputs[1] = desc_of(ours_w, p->rank, false);
  b.inputs[2] = desc_of(&r->outputs, 1, false);
  b.output = desc_of(y, p->rank, last_order);
  b.inputs[3] = b.output;
  const reed_attr items[] = {{.name = "activation", .type = REED_ATTR_STRING, .s = "relu", .n = 4},
                             {.name = "channels_first_input", .type = REED_ATTR_INT, .i = r->first},
                             {.name = "channels_last", .type = REED_ATTR_INT, .i = last_order},
                             {.name = "dilations", .type = REED_ATTR_INTS, .ints = dilations, .n = axes},
                             {.name = "group", .type = REED_ATTR_INT, .i = r->groups},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = pads, .n = 2 * axes},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = strides, .n = axes}};
  memcpy(b.items, items, sizeof items);
  b.n_attrs = sizeof items / sizeof *items;
  if (is_transposed) { /* ConvTranspose has no attribute channels_first_input */
    memmove(b.items + 1, b.items + 2, (sizeof items / sizeof *items - 2) * sizeof *items);
    b.n_attrs--;
  }
  measure(&b, runs, out);
}

static void measure_product(size_t i, int runs) {
  int64_t batch = products[i].batch, m = products[i].m, k = products[i].k, n = products[i].n, first = batch > 1;
  bool turned = products[i].transposed;
  int64_t a[] = {batch, m, k}, b_dims[] = {batch, turned ? n : k, turned ? k : n}, y[] = {batch, m, n};
  bench_case b = {.what = products[i].what,
                  .op = turned ? OP_Gemm : OP_MatMul,
                  .n_inputs = 2,
                  .most = first ? 64 : 512,
                  .products = (double)batch * (double)m * (double)k * (double)n,
                  .problem = {.kind = ONEDNN_MATMUL,
                              .rank = 2 + first,
                              .weights_rank = 2 + first,
                              .weights_follow = first,
                              .weights_plain = 1,
                              .scale = 1,
                              .products = k * n * (first ? m : 1)}};
  onednn_problem *p = &b.problem;
  int64_t weights[] = {batch, k, n}, one = 1 - first;
  memcpy(p->src, a + one, (size_t)p->rank * sizeof *a);
  memcpy(p->weights, weights + one, (size_t)p->rank * sizeof *a);
  memcpy(p->dst, y + one, (size_t)p->rank * sizeof *a);
  strides_of(p->src, p->rank, false, p->src_strides);
  strides_of(p->weights, p->rank, false, p->weights_strides);
  strides_of(p->dst, p->rank, false, p->dst_strides);
  if (turned) p->weights_strides[0] = 1, p->weights_strides[1] = k;
  b.inputs[0] = desc_of(a + one, p->rank, false);
  b.inputs[1] = desc_of(b_dims + one, p->rank, false);
  b.output = desc_of(y + one, p->rank, false);
  b.items[0] = (reed_attr){.name = "transB", .type = REED_ATTR_INT, .i = 1};
  b.n_attrs = turned;
  conv_figure f;
  measure(&b, runs, &f);
  print(b.what, &f);
}

static void title(const char *what) {
  printf("\n%-36s %9s %8s %7s %9s %8s %10s %10s\n", what, "Reed, ms", "GFLOP/s", "/ peak", "oneDNN", "ratio", "prepare",
         "oneDNN's");
}

/* The lists of convolutions. */
static const struct {
  const char *what;
  const row *rows;
  int32_t n;
  bool last, transposed;
} lists[] = {
    {"channels last", last, sizeof last / sizeof *last, true, false},
    {"channels second", second, sizeof second / sizeof *second, false, false},
    {"transposed, channels last", transposed, sizeof transposed / sizeof *transposed, true, true},
    {"transposed, channels second", transposed, sizeof transposed / sizeof *transposed, false, true},
};

enum { LISTS = sizeof lists / sizeof *lists };

typedef struct place {
  int32_t list, row;
} place;

static place *places;
static int table_runs;

static void measure_place(const conv_row *unused, int32_t i, bool bf16, conv_figure *out) {
  const int32_t list = places[i].list;
  omp_set_num_threads(1);
  measure_convolution(&lists[list].rows[places[i].row], lists[list].last, lists[list].transposed, bf16, table_runs,
                      out);
}

static void write_shape(const row *r, char *text, size_t bytes) {
  char taps[32] = "", extents[48] = "";
  for (int i = 0; i < AXES && r->taps[i]; i++) {
    snprintf(taps + strlen(taps), sizeof taps - strlen(taps), i ? "x%lld" : "%lld", (long long)r->taps[i]);
    snprintf(extents + strlen(extents), sizeof extents - strlen(extents), i ? "x%lld" : "%lld",
             (long long)r->extents[i]);
  }
  int n = snprintf(text, bytes, "%lldx%lldx%s to %lld, %s", (long long)r->images, (long long)r->channels, extents,
                   (long long)r->outputs, taps);
  if (r->stride > 1) n += snprintf(text + n, bytes - (size_t)n, ", stride %lld", (long long)r->stride);
  if (r->groups > 1) n += snprintf(text + n, bytes - (size_t)n, ", %lld groups", (long long)r->groups);
}

static int tables(int runs, const char *word) {
  int32_t n = 0, most = 0;
  for (int32_t list = 0; list < LISTS; list++) most += lists[list].n;
  conv_row *rows = calloc((size_t)most, sizeof *rows);
  places = calloc((size_t)most, sizeof *places);
  if (!rows || !places) return 1;
  for (int32_t list = 0; list < LISTS; list++)
    for (int32_t i = 0; i < lists[list].n; i++) {
      const row *r = &lists[list].rows[i];
      if (!strstr(r->what, word)) continue;
      rows[n] = (conv_row){.section = lists[list].what, .what = r->what};
      write_shape(r, rows[n].shape, sizeof rows[n].shape);
      places[n++] = (place){list, i};
    }
  table_runs = runs;
  int status = conv_tables(rows, n, runs, measure_place);
  if (status == 0) measure_layers(runs, word, true);
  free(rows);
  free(places);
  return status;
}

int main(int argc, char **argv) {
  bool as_table = argc > 1 && strcmp(argv[1], "--table") == 0;
  argc -= as_table;
  argv += as_table;
  int runs = argc > 1 ? (int)argument_integer("RUNS", argv[1], 1, INT32_MAX) : 5;
  const char *word = argc > 2 ? argv[2] : "";
  if (as_table) return tables(runs, word);
  omp_set_num_threads(1);
  peak = measure_peak();
  for (int32_t list = 0; list < LISTS; list++) {
    title(lists[list].what);
    for (int32_t i = 0; i < lists[list].n; i++) {
      const row *r = &lists[list].rows[i];
      conv_figure f;
      if (!strstr(r->what, word)) continue;
      measure_convolution(r, lists[list].last, lists[list].transposed, false, runs, &f);
      print(r->what, &f);
    }
  }
  title("products of plain matrices");
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    if (strstr(products[i].what, word)) measure_product(i, runs);
  measure_layers(runs, word, false);
  return 0;
}
