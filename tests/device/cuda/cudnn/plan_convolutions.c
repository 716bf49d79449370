/* Real cuDNN on a machine without a card: every convolution of the exported models (convolutions.tsv) at random sizes,
 * planned for the described cards: a compiled engine within the cap of the workspace, strict in f32 and on tensor cores
 * in f16. Prints the time of a plan. usage: plan_convolutions CONVOLUTIONS.tsv [SIZES]; 77 where the library is absent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/cudnn/cudnn.h"

enum { MOST_WORKSPACE = 64 << 20 };

/* From NVIDIA's data sheets and the table of compute capabilities in the "CUDA C++ Programming Guide"; to be replaced
 * by the properties that such a card reports. */
#define PROPERTIES(version, processors, shared_block, opt_in, threads, blocks, clock, memory_clock, l2, memory, name) \
  "{\"deviceVer\":" version ",\"driverVer\":13000,\"cudaDeviceId\":0,\"maxGridSize\":[2147483647,65535,65535]," \
  "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":" processors \
  ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":" shared_block ",\"maxSharedMemoryPerBlockOptin\":" opt_in \
  ",\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":" blocks \
  ",\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":" threads ",\"pciDeviceId\":0,\"isTccDriver\":0," \
  "\"supportCoopLaunch\":1,\"smClockRateKHz\":" clock ",\"memClockRateKHz\":" memory_clock ",\"l2CacheSize\":" l2 \
  ",\"totalGlobalMem\":" memory ",\"deviceName\":\"" name "\"}"
static const struct {
  const char *name, *json;
} cards[] = {{"H100", PROPERTIES("900", "132", "49152", "232448", "2048", "32", "1980000", "2619000", "52428800",
                                 "85029158912", "NVIDIA H100 80GB HBM3")},
             {"A100", PROPERTIES("800", "108", "49152", "166912", "2048", "32", "1410000", "1593000", "41943040",
                                 "85024112640", "NVIDIA A100-SXM4-80GB")},
             {"T4", PROPERTIES("750", "40", "49152", "65536", "1024", "16", "1590000", "5001000", "4194304",
                               "15835660288", "Tesla T4")}};

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint32_t noise = 1;
static int64_t random_below(int64_t n) { return (int64_t)((noise = noise * 1664525u + 1013904223u) >> 8) % n; }

typedef struct row {
  int64_t kernel[2], stride[2], dilation[2], pad[4], groups, channels, outputs;
} row;

/* Row k of the file; returns the number of rows. */
static int read_rows(const char *path, row *rows, int most) {
  char line[512];
  int n = 0;
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  while (n < most && fgets(line, sizeof line, f)) {
    row *r = &rows[n];
    long long v[13];
    if (sscanf(line, "%lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2], &v[3],
               &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10], &v[11], &v[12]) != 13)
      continue;
    *r = (row){{v[0], v[1]}, {v[2], v[3]}, {v[4], v[5]}, {v[6], v[7], v[8], v[9]}, v[10], v[11], v[12]};
    n++;
  }
  fclose(f);
  return n;
}

/* The convolution of a picture of random extents; `kind`: 0 with bias, 1 and relu, 2 and the sum with a third tensor.
 */
static cudnn_convolution at_random_size(const row *r, int kind, bool half) {
  cudnn_convolution c;
  memset(&c, 0, sizeof c);
  c.images = 1 + random_below(2);
  c.groups = r->groups;
  c.channels = r->channels;
  c.outputs = r->outputs;
  for (int d = 0; d < 2; d++) {
    const int64_t window = (r->kernel[d] - 1) * r->dilation[d] + 1, pads = r->pad[d] + r->pad[2 + d];
    c.kernel[d] = r->kernel[d];
    c.stride[d] = r->stride[d];
    c.dilation[d] = r->dilation[d];
    c.pad[d] = r->pad[d];
    c.in[d] = (window > pads ? window - pads : 1) + random_below(r->channels > 256 ? 60 : 220);
    c.out[d] = (c.in[d] + pads - window) / c.stride[d] + 1;
  }
  c.dtype = half ? DN_HALF : DN_FLOAT;
  c.bias = 1;
  c.relu = kind > 0;
  c.residual = kind == 2;
  c.tensor_cores = half;
  return c;
}

int main(int argc, char **argv) {
  static row rows[1024];
  reed_diagnosis *said = NULL;
  cudnn_calls calls;
  int n_without = 0;
  const int n_rows = argc > 1 ? read_rows(argv[1], rows, 1024) : 0, n_sizes = argc > 2 ? atoi(argv[2]) : 20;
  if (!n_rows || reed_diagnosis_open(&said) != REED_OK) return fprintf(stderr, "no convolutions\n"), 2;
  if (cudnn_find(&calls, said) != REED_OK) {
    printf("skipped: %s\n", reed_diagnosis_message(said));
    reed_diagnosis_close(&said);
    return 77;
  }
  printf("cuDNN %zu, %d convolutions, %d sizes of each\n", calls.version(), n_rows, n_sizes);
  for (size_t k = 0; k < sizeof cards / sizeof *cards; k++) {
    for (int half = 0; half < 2; half++) {
      cudnn_descriptor card;
      double sum = 0, known_sum = 0, most = 0, first = 0;
      int n = 0, n_asked = 0, without = 0;
      int64_t workspace = 0;
      bool engines[512] = {false};
      noise = 1;
      if (cudnn_card_open(&calls, NULL, cards[k].json, &card, said) != REED_OK)
        return fprintf(stderr, "%s: %s\n", cards[k].name, reed_diagnosis_message(said)), 1;
      for (int i = 0; i < n_rows; i++)
        for (int size = 0; size < n_sizes; size++) {
          static cudnn_engine known[3]; /* by kind: of the size before */
          if (size < 3) known[size].n_knobs = -1;
          const cudnn_convolution c = at_random_size(&rows[i], size % 3, half);
          cudnn_plan plan;
          const double begin = now_ms();
          const reed_status status = cudnn_plan_open(&calls, card, &c, MOST_WORKSPACE, &known[size % 3], &plan, said);
          const double took = now_ms() - begin;
          const bool asked = status != REED_OK || memcmp(&known[size % 3], &plan.engine, sizeof plan.engine) != 0;
          if (n++ == 0) first = took;
          else most = took > most ? took : most;
          if (asked) sum += took, n_asked++;
          else known_sum += took;
          if (status != REED_OK) {
            if (without++ < 4)
              printf(
                  "  %s %s: %lldx%lld stride %lld dilation %lld group %lld, %lld to %lld at %lldx%lld, kind %d: %s\n",
                  cards[k].name, half ? "f16" : "f32", (long long)c.kernel[0], (long long)c.kernel[1],
                  (long long)c.stride[0], (long long)c.dilation[0], (long long)c.groups, (long long)c.channels,
                  (long long)c.outputs, (long long)c.in[0], (long long)c.in[1], size % 3, reed_diagnosis_message(said));
            continue;
          }
          if (plan.workspace_bytes > workspace) workspace = plan.workspace_bytes;
          if (plan.engine.number >= 0 && plan.engine.number < 512) engines[plan.engine.number] = true;
          known[size % 3] = plan.engine;
          cudnn_plan_close(&calls, &plan);
        }
      (void)calls.drop(card);
      printf("%s %s: %d plans by the heuristics, %.2f ms each (the first %.0f ms); %d by the engine of another size, "
             "%.2f ms each; the slowest %.1f ms; workspace up to %.1f MiB; without an engine %d; engines",
             cards[k].name, half ? "f16" : "f32", n_asked, n_asked > 1 ? (sum - first) / (n_asked - 1) : 0, first,
             n - n_asked, n > n_asked ? known_sum / (n - n_asked) : 0, most, (double)workspace / (1 << 20), without);
      for (int e = 0; e < 512; e++)
        if (engines[e]) printf(" %d", e);
      printf("\n");
      fflush(stdout);
      n_without += without;
    }
  }
  reed_diagnosis_close(&said);
  return n_without > 0;
}
