/* Complaints, files, suggestions, progress: see tool.h. */
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int complain(complaint *c, int exit_status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->text, sizeof c->text, format, arguments);
  va_end(arguments);
  return c->exit_status = exit_status;
}

void complain_more(complaint *c, const char *format, ...) {
  size_t n = strlen(c->text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(c->text + n, sizeof c->text - n, format, arguments);
  va_end(arguments);
}

int complain_diagnosis(complaint *c, int exit_status, const char *what, reed_status status,
                       const reed_diagnosis *diagnosis) {
  const char *message = reed_diagnosis_message(diagnosis);
  if (status == REED_ERROR_MEMORY || status == REED_ERROR_DEVICE) exit_status = FAILED_RUN;
  complain(c, exit_status, "%s: %s", what, *message ? message : reed_status_text(status));
  const char *function = reed_diagnosis_function(diagnosis), *node = reed_diagnosis_node(diagnosis),
             *op = reed_diagnosis_operator(diagnosis), *input = reed_diagnosis_input(diagnosis);
  if (!*function && !*node && !*op && !*input) return exit_status;
  const char *comma = "\n  at ";
  if (*op) complain_more(c, "%soperator %s", comma, op), comma = ", ";
  if (*node) complain_more(c, "%snode '%s'", comma, node), comma = ", ";
  if (*input) complain_more(c, "%sinput '%s'", comma, input), comma = ", ";
  if (*function) complain_more(c, "%sfunction '%s'", comma, function), comma = ", ";
  if (reed_diagnosis_pc(diagnosis) >= 0) complain_more(c, "%spc %lld", comma, (long long)reed_diagnosis_pc(diagnosis));
  return exit_status;
}

static _Noreturn void no_memory(void) {
  fputs("vm: out of memory\n", stderr);
  exit(FAILED_RUN);
}

void *need(size_t n, size_t bytes) {
  void *block = calloc(n ? n : 1, bytes ? bytes : 1);
  if (!block) no_memory();
  return block;
}

char *need_text(const char *text) {
  size_t n = strlen(text) + 1;
  return memcpy(need(n, 1), text, n);
}

reed_diagnosis *need_diagnosis(void) {
  reed_diagnosis *diagnosis;
  if (reed_diagnosis_open(&diagnosis)) no_memory();
  return diagnosis;
}

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

int file_read(const char *path, char **out_bytes, size_t *out_n, complaint *c) {
  bool standard = strcmp(path, "-") == 0;
  FILE *f = standard ? stdin : fopen(path, "rb");
  if (!f) return complain(c, BAD_FILE, "cannot open '%s': %s", path, strerror(errno));
  struct stat s;
  bool regular = fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode);
  size_t capacity = regular ? (size_t)s.st_size + 1 : 1 << 16, n = 0;
  char *bytes = need(capacity, 1);
  errno = 0;
  for (;;) {
    n += fread(bytes + n, 1, capacity - n, f);
    if (n < capacity) break;
    char *more = realloc(bytes, capacity *= 2);
    if (!more) no_memory();
    bytes = more;
  }
  bool failed = ferror(f);
  int reason = errno;
  if (!standard) fclose(f);
  if (failed) {
    free(bytes);
    return complain(c, BAD_FILE, "cannot read '%s': %s", path, strerror(reason));
  }
  bytes[n] = 0;
  *out_bytes = bytes;
  *out_n = n;
  return DONE;
}

static bool write_all(int fd, const char *bytes, size_t n) {
  while (n) {
    ssize_t done = write(fd, bytes, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

int target_open(target_file *t, const char *path, complaint *c) {
  struct stat s;
  *t = (target_file){.path = path, .fd = -1};
  if (strcmp(path, "-") == 0) {
    fflush(stdout);
    t->fd = STDOUT_FILENO;
  } else if (stat(path, &s) == 0 && !S_ISREG(s.st_mode) &&
             !S_ISDIR(s.st_mode)) { /* can not be replaced: a terminal, a pipe, /dev/null */
    t->fd = open(path, O_WRONLY | O_CLOEXEC);
  } else {
    size_t length = strlen(path);
    t->temporary = need(length + 12, 1);
    snprintf(t->temporary, length + 12, "%s.tmpXXXXXX", path);
    t->fd = mkstemp(t->temporary);
    mode_t mask = umask(0);
    umask(mask);
    if (t->fd >= 0 && fchmod(t->fd, 0666 & ~mask)) t->failed = errno;
  }
  if (t->fd < 0) t->failed = errno;
  if (!t->failed) return DONE;
  return target_close(t, false, c);
}

bool target_write(target_file *t, const void *bytes, size_t n) {
  if (!t->failed && !write_all(t->fd, bytes, n)) t->failed = errno;
  return !t->failed;
}

int target_close(target_file *t, bool keep, complaint *c) {
  if (t->fd >= 0 && t->fd != STDOUT_FILENO && close(t->fd) && !t->failed) t->failed = errno;
  if (t->temporary && t->fd >= 0) {
    if (keep && !t->failed && rename(t->temporary, t->path)) t->failed = errno;
    if (!keep || t->failed) unlink(t->temporary);
  }
  free(t->temporary);
  t->temporary = NULL;
  t->fd = -1;
  return t->failed ? complain(c, BAD_FILE, "cannot write '%s': %s", t->path, strerror(t->failed)) : DONE;
}

int file_write(const char *path, const void *bytes, size_t n, complaint *c) {
  target_file t;
  int status = target_open(&t, path, c);
  if (status) return status;
  (void)target_write(&t, bytes, n);
  return target_close(&t, true, c);
}

int file_write_json(const char *path, json_writer *json, complaint *c) {
  char *text;
  if (json_finish(json, &text, NULL, "JSON") != REED_OK) return complain(c, FAILED_RUN, "out of memory");
  int status = file_write(path, text, strlen(text), c);
  reed_text_free(text);
  return status;
}

bool has_extension(const char *path, const char *extension) {
  const char *dot = strrchr(path, '.');
  return dot && strcasecmp(dot + 1, extension) == 0;
}

double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

usage usage_now(void) {
  struct rusage used;
  if (getrusage(RUSAGE_SELF, &used)) return (usage){0};
  return (usage){(int64_t)used.ru_maxrss * 1024, used.ru_minflt};
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
  if (isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K%3.0f%% %.100s", 100 * done, what);
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
