/* Markdown tables over rows and CPU levels (conv_table.h). */
#include "bench/conv_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/limits.h"
#include "ops/cpu/common/cpu.h"

static const struct {
  const char *what, *level;
  cpu_level needs;
  bool bf16;
} columns[] = {{"AVX2", "avx2", CPU_AVX2, false},
               {"AVX-512", "avx512", CPU_AVX512, false},
               {"bf16", "avx512-bf16", CPU_AVX512_BF16, true}};

enum { COLUMNS = sizeof columns / sizeof *columns };

/* The figures that a process measures at one level. */
typedef struct column {
  double peak;
  conv_figure *figures;
} column;

static bool all(int file, void *data, size_t bytes, bool out) {
  for (char *at = data; bytes > 0;) {
    ssize_t n = out ? write(file, at, bytes) : read(file, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= (size_t)n;
  }
  return true;
}

static void measure_column(int c, const conv_row *rows, int32_t n, conv_measure measure, int file) {
  (void)cpu_level_use(columns[c].level);
  double peak = columns[c].bf16 ? measure_peak_pairs() : measure_peak();
  if (!all(file, &peak, sizeof peak, true)) _exit(1);
  for (int32_t i = 0; i < n; i++) {
    conv_figure f = {0};
    measure(&rows[i], i, columns[c].bf16, &f);
    if (!all(file, &f, sizeof f, true)) _exit(1);
  }
  _exit(0);
}

static bool read_column(int c, const conv_row *rows, int32_t n, conv_measure measure, column *out) {
  int ends[2], status = 0;
  if (pipe(ends) != 0) return false;
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    close(ends[0]);
    measure_column(c, rows, n, measure, ends[1]);
  }
  close(ends[1]);
  bool good = all(ends[0], &out->peak, sizeof out->peak, false) &&
              all(ends[0], out->figures, (size_t)n * sizeof *out->figures, false);
  close(ends[0]);
  return waitpid(child, &status, 0) == child && status == 0 && good;
}

static void print_head(const column *measured, int runs) {
  char text[256], cpu[256] = "unknown CPU", date[64];
  FILE *info = fopen("/proc/cpuinfo", "r");
  while (info && fgets(text, sizeof text, info))
    if (sscanf(text, "model name : %255[^\n]", cpu) == 1) break;
  if (info) fclose(info);
  time_t now = time(NULL);
  struct tm day;
  strftime(date, sizeof date, "%d %B %Y", localtime_r(&now, &day));
  printf("%s, %s, one thread, least CPU time of %d interleaved runs. Peak of a core in the same run, GFLOP/s:", cpu,
         date, runs);
  for (int c = 0; c < COLUMNS; c++)
    if (measured[c].figures) printf(" %s %.0f%s", columns[c].what, measured[c].peak, c < COLUMNS - 1 ? "," : ".");
  printf("\nA field: GFLOP/s of the direct arithmetic · share of the peak · oneDNN's time over Reed's.\n");
}

static void print_section(const conv_row *rows, int32_t n, int32_t begin, const column *measured) {
  printf("\n| %s |", rows[begin].section);
  for (int c = 0; c < COLUMNS; c++) printf(" %s | by |", columns[c].what);
  printf("\n|---|");
  for (int c = 0; c < COLUMNS; c++) printf("---|---|");
  printf("\n");
  for (int32_t i = begin; i < n && strcmp(rows[i].section, rows[begin].section) == 0; i++) {
    printf("| %s: %s |", rows[i].what, rows[i].shape);
    for (int c = 0; c < COLUMNS; c++) {
      const conv_figure *f = measured[c].figures ? &measured[c].figures[i] : NULL;
      if (!f || !f->there) {
        printf(" | |");
        continue;
      }
      printf(" %.0f · %.2f", f->rate, f->rate / measured[c].peak);
      if (f->theirs > 0) printf(" · %.2f", f->theirs / f->ours);
      printf(" | %s |", f->variant);
    }
    printf("\n");
  }
}

int conv_tables(const conv_row *rows, int32_t n, int runs, conv_measure measure) {
  column measured[COLUMNS] = {{0}};
  int status = 0;
  for (int c = 0; c < COLUMNS && status == 0; c++) {
    if (columns[c].needs > cpu_level_best()) continue;
    measured[c].figures = calloc((size_t)n, sizeof *measured[c].figures);
    if (!measured[c].figures || !read_column(c, rows, n, measure, &measured[c])) status = 1;
  }
  if (status) fprintf(stderr, "bench_conv: a level's process failed\n");
  else print_head(measured, runs);
  for (int32_t i = 0; i < n && !status; i++)
    if (i == 0 || strcmp(rows[i].section, rows[i - 1].section) != 0) print_section(rows, n, i, measured);
  for (int c = 0; c < COLUMNS; c++) free(measured[c].figures);
  return status;
}
