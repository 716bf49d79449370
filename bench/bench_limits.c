/* Limits of the machine, multiply-adds in registers and sums over memory on all threads at once, as one line: the CPU
 * level, GFLOP/s, GB/s, and the nanoseconds in which a cache line goes from the first thread to the second and back (0
 * with one thread). A virtual machine's CPUs may be near each other now (50 ns) and far a minute later (150 to 500 ns).
 *
 *     bench_limits [THREADS]      default 1 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/arguments.h"
#include "bench/limits.h"
#include "ops/cpu/common/cpu.h"

enum { MOST_THREADS = 64 };

typedef struct worker {
  pthread_t thread;
  pthread_barrier_t *together;
  _Atomic int *line; /* of the first two; else NULL */
  int number;
  double flops, bytes, round_trip;
} worker;

static void *work(void *given) {
  worker *w = given;
  pthread_barrier_wait(w->together);
  w->flops = measure_peak();
  pthread_barrier_wait(w->together);
  w->bytes = measure_memory();
  pthread_barrier_wait(w->together);
  if (w->line) w->round_trip = measure_round_trip(w->line, w->number);
  return NULL;
}

int main(int argc, char **argv) {
  const int n = argc > 1 ? (int)argument_integer("THREADS", argv[1], 1, MOST_THREADS) : 1;
  pthread_barrier_t together;
  worker workers[MOST_THREADS];
  _Alignas(128) _Atomic int line = 0;
  double gflops = 0, bytes = 0;
  pthread_barrier_init(&together, NULL, (unsigned)n);
  for (int i = 0; i < n; i++) {
    workers[i] = (worker){.together = &together, .line = n > 1 && i < 2 ? &line : NULL, .number = i};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) return 1;
  }
  for (int i = 0; i < n; i++) {
    pthread_join(workers[i].thread, NULL);
    gflops += workers[i].flops;
    bytes += workers[i].bytes;
  }
  printf("%s %.1f %.1f %.0f\n", cpu_level_name(cpu_level_now()), gflops, bytes * 1e-9, workers[0].round_trip);
  return 0;
}
