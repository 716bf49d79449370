/* Suggestions, figures, progress (tool.h). */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tools/plain.h"

/* Optimal string alignment distance: insert, remove, replace, swap neighbours. Words longer than the table count as
 * far. */
static size_t distance(const char *a, const char *b) {
  enum { LONGEST = 64 };
  size_t n = strlen(a), m = strlen(b);
  if (n >= LONGEST || m >= LONGEST) return LONGEST;
  unsigned char d[LONGEST][LONGEST];
  for (size_t i = 0; i <= n; i++) d[i][0] = (unsigned char)i;
  for (size_t j = 0; j <= m; j++) d[0][j] = (unsigned char)j;
  for (size_t i = 1; i <= n; i++)
    for (size_t j = 1; j <= m; j++) {
      unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      if (d[i - 1][j] + 1u < best) best = d[i - 1][j] + 1u;
      if (d[i][j - 1] + 1u < best) best = d[i][j - 1] + 1u;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1u < best)
        best = d[i - 2][j - 2] + 1u;
      d[i][j] = (unsigned char)best;
    }
  return d[n][m];
}

char *suggestion(const char *word, const char *const *candidates, size_t n, char *out, size_t capacity) {
  size_t nearest = (size_t)-1, best = 0, longest = strlen(word);
  for (size_t i = 0; i < n; i++) {
    size_t d = distance(word, candidates[i]);
    /* a prefix of at least three letters counts as near: "prof" for "profile" */
    if (longest >= 3 && strncmp(word, candidates[i], longest) == 0) d = 1;
    if (d < nearest) nearest = d, best = i;
  }
  out[0] = 0;
  if (n && nearest <= 1 + longest / 3) snprintf(out, capacity, ", did you mean '%s'?", candidates[best]);
  return out;
}

double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* (ru_maxrss keeps the peak of the process that has started the program, so it serves only without /proc.) */
int64_t peak_resident_bytes(void) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  long long kib = 0;
  while (status && !kib && fgets(line, sizeof line, status)) (void)!sscanf(line, "VmHWM: %lld kB", &kib);
  if (status) fclose(status);
  struct rusage used;
  if (!kib && getrusage(RUSAGE_SELF, &used) == 0) kib = used.ru_maxrss;
  return kib * 1024;
}

int64_t page_faults_now(void) {
  struct rusage used;
  return getrusage(RUSAGE_SELF, &used) ? 0 : used.ru_minflt;
}

char *text_us(double us, char *out, size_t capacity) {
  if (us < 1000) snprintf(out, capacity, "%.0f us", us);
  else if (us < 1e6) snprintf(out, capacity, us < 1e5 ? "%.2f ms" : "%.0f ms", us / 1e3);
  else snprintf(out, capacity, "%.2f s", us / 1e6);
  return out;
}

char *text_bytes(double bytes, char *out, size_t capacity) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) bytes /= 1024, unit++;
  snprintf(out, capacity, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return out;
}

void progress(const char *what, double done) {
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%3.0f%% %.100s", 100 * done, plain(what));
}

void progress_end(void) {
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
}

void words_add(words *w, const char *word) {
  const char **items = realloc(w->items, (w->n + 1) * sizeof *items);
  if (!items) no_memory();
  w->items = items;
  w->items[w->n++] = word;
}

void words_fini(words *w) {
  free(w->items);
  *w = (words){0};
}
