/* Files (files.h). */
#include "tools/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/interrupt.h"
#include "tools/need.h"
#include "tools/plain.h"
#include "tools/tool.h"

/* ---- reading ---- */

#define MOST_STANDARD_INPUT ((size_t)1 << 30)
/* A read of a regular file is not interrupted: the handler of a signal waits for its end. */
#define MOST_AT_ONCE ((size_t)4 << 20)

static size_t memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes : SIZE_MAX;
}

/* Reads the whole file, up to `most` bytes; false and errno (EFBIG: the file is larger). */
static bool read_all(int file, size_t capacity, size_t most, char **out_bytes, size_t *out_n) {
  char *bytes = need(capacity + 1, 1);
  size_t n = 0;
  for (;;) {
    size_t wanted = capacity + 1 - n;
    ssize_t got = read(file, bytes + n, wanted < MOST_AT_ONCE ? wanted : MOST_AT_ONCE);
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

/* Files that must not be replaced: those that were read (target_protect) and those that this process has written. */
static struct {
  struct protected_file {
    dev_t device;
    ino_t inode;
    bool written;
  } * items;
  size_t n;
} files;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER; /* several threads may read files */

/* Keeps the file for the rest of the process. A path that leads to no regular file is ignored. */
static void keep_file(const char *path, bool written) {
  struct stat s;
  if (stat(path, &s) || !S_ISREG(s.st_mode)) return;
  pthread_mutex_lock(&files_lock);
  struct protected_file *items = realloc(files.items, (files.n + 1) * sizeof *items);
  if (!items) no_memory();
  files.items = items;
  files.items[files.n++] = (struct protected_file){s.st_dev, s.st_ino, written};
  pthread_mutex_unlock(&files_lock);
}

void target_protect(const char *source) { keep_file(source, false); }

/* A text for the reason why the path must not be written; NULL: it may be. */
static const char *obstacle(const char *path) {
  struct stat s;
  const char *found = NULL;
  if (stat(path, &s)) return NULL;
  pthread_mutex_lock(&files_lock);
  for (size_t i = 0; i < files.n; i++)
    if (files.items[i].device == s.st_dev && files.items[i].inode == s.st_ino)
      found =
          files.items[i].written ? "holds another result of this command" : "would be replaced by what is made of it";
  pthread_mutex_unlock(&files_lock);
  return found;
}

static int refuse(const char *path, const char *why, complaint *c) {
  return complain(c, MISUSE, "'%s' %s: give another file", plain(path), why);
}

/* The path without links and dots, though its last part need not exist. NULL and errno: its folder is missing or must
 * not be written. The caller frees it. */
static char *place_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *folder = need_text(slash ? path : ".");
  if (slash) folder[slash == path ? 1 : slash - path] = 0;
  char *found = realpath(folder, NULL), *place = NULL;
  free(folder);
  if (found && !access(found, W_OK | X_OK) && !(place = realpath(path, NULL))) {
    const size_t capacity = strlen(found) + strlen(name) + 2;
    place = need(capacity, 1);
    snprintf(place, capacity, "%s/%s", found, name);
  }
  const int reason = errno;
  free(found);
  errno = reason;
  return place;
}

static const char *printed; /* the flag whose result goes to standard output; NULL: none */

bool target_is_printed(void) { return printed != NULL; }

int target_announce(const char *path, const char *flag, complaint *c) {
  static words announced;
  struct stat s;
  if (strcmp(path, "-") == 0) {
    if (printed)
      return complain(c, MISUSE,
                      "standard output ('-') is named for two results, by %s and by %s: give one of them a file",
                      printed, flag);
    printed = flag;
    return DONE;
  }
  const bool there = stat(path, &s) == 0;
  if (there && S_ISDIR(s.st_mode)) return complain(c, BAD_FILE, "cannot write '%s': it is a folder", plain(path));
  if (there && !S_ISREG(s.st_mode)) return DONE; /* a terminal, a pipe, /dev/null */
  char *place = place_of(path);
  if (!place) return complain(c, BAD_FILE, "cannot write '%s': %s", plain(path), strerror(errno));
  for (size_t i = 0; i < announced.n; i++)
    if (strcmp(announced.items[i], place) == 0) {
      free(place);
      return refuse(path, "is named for two results", c);
    }
  words_add(&announced, place);
  return DONE;
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

int target_open(target_file *t, const char *path, complaint *c) {
  struct stat s;
  const char *why;
  *t = (target_file){.path = path, .fd = -1};
  if (strcmp(path, "-") == 0) {
    fflush(stdout);
    t->fd = STDOUT_FILENO;
  } else if ((why = obstacle(path))) {
    return refuse(path, why, c);
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
  bool made = t->temporary && t->fd >= 0;
  const char *why = made && keep ? obstacle(t->path) : NULL;
  if (made && keep && !why && !t->failed && fsync(t->fd) && errno != EINVAL) t->failed = errno;
  if (t->fd >= 0 && t->fd != STDOUT_FILENO && close(t->fd) && !t->failed) t->failed = errno;
  bool replace = keep && !why && !t->failed;
  if (made && !interrupt_settle_file(t->temporary, replace ? t->path : NULL)) t->failed = errno;
  if (made && replace && !t->failed) sync_folder(t->path), keep_file(t->path, true);
  free(t->temporary);
  t->temporary = NULL;
  t->fd = -1;
  if (why) return refuse(t->path, why, c);
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
