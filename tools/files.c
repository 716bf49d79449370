/* Reading whole files, and replacing files in one step (tool.h). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/interrupt.h"
#include "tools/plain.h"
#include "tools/tool.h"

/* ---- reading ---- */

#define MOST_STANDARD_INPUT ((size_t)1 << 30)

static size_t memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes : SIZE_MAX;
}

/* Reads the whole file, up to `most` bytes; false and errno (EFBIG: the file is larger). */
static bool read_all(int file, size_t capacity, size_t most, char **out_bytes, size_t *out_n) {
  char *bytes = need(capacity + 1, 1);
  size_t n = 0;
  for (;;) {
    ssize_t got = read(file, bytes + n, capacity + 1 - n);
    if (got < 0 && errno == EINTR && !interrupted()) continue;
    if (got <= 0 || (n += (size_t)got) > most) {
      int reason = got < 0 ? errno : EFBIG;
      if (got == 0) break;
      free(bytes);
      errno = reason;
      return false;
    }
    if (n <= capacity) continue;
    capacity = 2 * capacity + 4096; /* files in /proc say that they have no bytes */
    char *more = realloc(bytes, capacity + 1);
    if (!more) no_memory();
    bytes = more;
  }
  bytes[n] = 0;
  *out_bytes = bytes;
  *out_n = n;
  return true;
}

static int read_standard_input(char **out_bytes, size_t *out_n, complaint *c) {
  if (read_all(STDIN_FILENO, 1 << 16, MOST_STANDARD_INPUT, out_bytes, out_n)) return DONE;
  if (errno == EFBIG)
    return complain(c, BAD_FILE, "standard input has more than %zu bytes: give a file", MOST_STANDARD_INPUT);
  return complain(c, BAD_FILE, "cannot read standard input: %s", strerror(errno));
}

int file_read(const char *path, char **out_bytes, size_t *out_n, complaint *c) {
  if (strcmp(path, "-") == 0) return read_standard_input(out_bytes, out_n, c);
  struct stat s;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: does not wait for a pipe's writer */
  if (file < 0 || fstat(file, &s)) {
    complain(c, BAD_FILE, "cannot open '%s': %s", plain(path), strerror(errno));
    if (file >= 0) close(file);
    return c->exit_status;
  }
  if (!S_ISREG(s.st_mode))
    complain(c, BAD_FILE, "'%s' is no regular file%s", plain(path),
             S_ISDIR(s.st_mode) ? " but a folder" : " ('-' reads standard input)");
  else if ((size_t)s.st_size >= memory_bytes())
    complain(c, BAD_FILE, "'%s' has %lld bytes, more than this machine has memory", plain(path), (long long)s.st_size);
  else if (!read_all(file, (size_t)s.st_size, memory_bytes(), out_bytes, out_n))
    complain(c, BAD_FILE, "cannot read '%s': %s", plain(path), strerror(errno));
  else target_protect(path), c->exit_status = DONE;
  close(file);
  return c->exit_status;
}

/* ---- writing ---- */

/* Files that must not be replaced (target_protect). */
static struct {
  struct stat *items;
  size_t n;
} sources;
static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER; /* several threads may read files */

static bool is_listed(const struct stat *s) {
  bool found = false;
  for (size_t i = 0; i < sources.n; i++)
    found |= sources.items[i].st_dev == s->st_dev && sources.items[i].st_ino == s->st_ino;
  return found;
}

void target_protect(const char *source) {
  struct stat s;
  if (stat(source, &s) || !S_ISREG(s.st_mode)) return;
  pthread_mutex_lock(&sources_lock);
  if (!is_listed(&s)) {
    struct stat *items = realloc(sources.items, (sources.n + 1) * sizeof *items);
    if (!items) no_memory();
    sources.items = items;
    sources.items[sources.n++] = s;
  }
  pthread_mutex_unlock(&sources_lock);
}

static bool is_source(const char *path) {
  struct stat s;
  if (stat(path, &s)) return false;
  pthread_mutex_lock(&sources_lock);
  bool found = is_listed(&s);
  pthread_mutex_unlock(&sources_lock);
  return found;
}

static bool write_all(int fd, const char *bytes, size_t n) {
  while (n) {
    ssize_t done = write(fd, bytes, n);
    if (done < 0 && errno == EINTR && !interrupted()) continue;
    if (done < 0) return false;
    bytes += done;
    n -= (size_t)done;
  }
  return true;
}

/* Syncs the folder of the path to the disk. A file system that cannot do so has made no such promise. */
static void sync_folder(const char *path) {
  char *folder = need_text(path), *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    (void)fsync(fd);
    close(fd);
  }
  free(folder);
}

static int is_its_own_source(const char *path, complaint *c) {
  return complain(c, MISUSE, "'%s' would be replaced by what is made of it: give another file", plain(path));
}

int target_open(target_file *t, const char *path, complaint *c) {
  struct stat s;
  *t = (target_file){.path = path, .fd = -1};
  if (strcmp(path, "-") == 0) {
    fflush(stdout);
    t->fd = STDOUT_FILENO;
  } else if (is_source(path)) {
    return is_its_own_source(path, c);
  } else if (stat(path, &s) == 0 && !S_ISREG(s.st_mode) &&
             !S_ISDIR(s.st_mode)) { /* can not be replaced: a terminal, a pipe, /dev/null */
    t->fd = open(path, O_WRONLY | O_CLOEXEC);
  } else {
    size_t length = strlen(path);
    t->temporary = need(length + 12, 1);
    snprintf(t->temporary, length + 12, "%s.tmpXXXXXX", path);
    t->fd = interrupt_make_file(t->temporary);
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
  bool made = t->temporary && t->fd >= 0, is_own = made && keep && is_source(t->path);
  if (made && keep && !is_own && !t->failed && fsync(t->fd) && errno != EINVAL) t->failed = errno;
  if (t->fd >= 0 && t->fd != STDOUT_FILENO && close(t->fd) && !t->failed) t->failed = errno;
  bool replace = keep && !is_own && !t->failed;
  if (made && !interrupt_settle_file(t->temporary, replace ? t->path : NULL)) t->failed = errno;
  if (made && replace && !t->failed) sync_folder(t->path);
  free(t->temporary);
  t->temporary = NULL;
  t->fd = -1;
  if (is_own) return is_its_own_source(t->path, c);
  return t->failed ? complain(c, BAD_FILE, "cannot write '%s': %s", plain(t->path), strerror(t->failed)) : DONE;
}

int file_write(const char *path, const void *bytes, size_t n, complaint *c) {
  target_file t;
  int status = target_open(&t, path, c);
  if (status) return status;
  if (t.fd == STDOUT_FILENO && isatty(STDOUT_FILENO) && n && !memchr(bytes, 0, n)) { /* text on a terminal */
    char *text = memcpy(need(n + 1, 1), bytes, n);
    const char *shown = plain_lines(text);
    (void)target_write(&t, shown, strlen(shown));
    free(text);
  } else {
    (void)target_write(&t, bytes, n);
  }
  return target_close(&t, true, c);
}
