/* Functions for all fuzz targets (fuzz.h): corpora, numbers drawn from bytes. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- seeds ---- */

static void *must(void *block) {
  if (block) return block;
  fprintf(stderr, "no memory\n");
  exit(2);
}

void fuzz_seed(fuzz_corpus *corpus, const void *bytes, size_t n, size_t n_hot) {
  if (corpus->n == corpus->capacity) {
    corpus->capacity = corpus->capacity ? 2 * corpus->capacity : 64;
    corpus->items = must(realloc(corpus->items, corpus->capacity * sizeof *corpus->items));
  }
  uint8_t *copy = must(malloc(n + 1));
  memcpy(copy, bytes, n);
  corpus->items[corpus->n++] = (fuzz_input){copy, n, n_hot < n ? n_hot : n};
}

char *fuzz_read(const char *path, size_t *out_n) {
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t n = 0, capacity = 4096;
  char *bytes = must(malloc(capacity));
  for (size_t got; (got = fread(bytes + n, 1, capacity - n - 1, file)) > 0;) {
    n += got;
    if (capacity - n < 4096) bytes = must(realloc(bytes, capacity *= 2));
  }
  fclose(file);
  bytes[n] = 0;
  *out_n = n;
  return bytes;
}

void fuzz_seed_file(fuzz_corpus *corpus, const char *path) {
  size_t n;
  char *bytes = fuzz_read(path, &n);
  if (bytes) fuzz_seed(corpus, bytes, n, n);
  free(bytes);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void fuzz_seed_folder(fuzz_corpus *corpus, const char *folder, const char *ending, size_t most) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  char **names = NULL;
  size_t n = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    names = must(realloc(names, (n + 1) * sizeof *names));
    names[n++] = must(strdup(entry->d_name));
  }
  closedir(dir);
  if (n) qsort(names, n, sizeof *names, by_name); /* the same order on every machine */
  for (size_t i = 0; i < n; i++) {
    char path[4096];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    size_t length = strlen(names[i]), ending_length = strlen(ending);
    if (stat(path, &about) == 0) {
      if (S_ISDIR(about.st_mode)) fuzz_seed_folder(corpus, path, ending, most);
      else if ((size_t)about.st_size <= most && length >= ending_length &&
               strcmp(names[i] + length - ending_length, ending) == 0)
        fuzz_seed_file(corpus, path);
    }
    free(names[i]);
  }
  free(names);
}

const char *fuzz_source(const char *path) {
  static char text[4096];
  const char *root = getenv("REED_SOURCE");
  snprintf(text, sizeof text, "%s/%s", root ? root : ".", path);
  return text;
}

/* ---- what happened ---- */

fuzz_figures *fuzz_counted;

void fuzz_accepted(void) {
  if (fuzz_counted) fuzz_counted->n_accepted++;
}

void fuzz_seen(reed_status status, const char *words) {
  if (!fuzz_counted) return;
  uint32_t h = 2166136261u ^ (uint32_t)status; /* FNV-1a */
  bool quoted = false;
  for (; *words; words++) {
    if (*words == '\'') quoted = !quoted;
    if (!quoted && (*words < '0' || *words > '9')) h = (h ^ (uint8_t)*words) * 16777619u;
  }
  h ^= h >> 16;
  if (!fuzz_counted->seen[h & 65535]) fuzz_counted->is_new = true;
  fuzz_counted->seen[h & 65535] = 1;
}

void fuzz_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "SUMMARY: %s: ", fuzz_this.name);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  abort();
}

/* ---- heap ---- */

#define HEAP_MOST ((int64_t)512 << 20)
static atomic_int_fast64_t heap_bytes, heap_blocks;

static void *heap_resize(void *context, void *block, size_t bytes) {
  int64_t before = block ? (int64_t)malloc_usable_size(block) : 0;
  if (bytes > (size_t)HEAP_MOST || atomic_load(&heap_bytes) + (int64_t)bytes - before > HEAP_MOST) return NULL;
  void *made = realloc(block, bytes ? bytes : 1);
  if (!made) return NULL;
  atomic_fetch_add(&heap_bytes, (int64_t)malloc_usable_size(made) - before);
  if (!block) atomic_fetch_add(&heap_blocks, 1);
  return made;
}

static void *heap_allocate(void *context, size_t bytes) { return heap_resize(context, NULL, bytes); }

static void heap_release(void *context, void *block) {
  if (!block) return;
  atomic_fetch_sub(&heap_bytes, (int64_t)malloc_usable_size(block));
  atomic_fetch_sub(&heap_blocks, 1);
  free(block);
}

void fuzz_heap_begin(void) {
  atomic_store(&heap_bytes, 0);
  atomic_store(&heap_blocks, 0);
  reed_set_allocator(&(reed_allocator){heap_allocate, heap_resize, heap_release, NULL});
}

void fuzz_heap_end(void) {
  reed_set_allocator(NULL);
  if (atomic_load(&heap_blocks)) fuzz_fail("%lld blocks were not released", (long long)atomic_load(&heap_blocks));
}

/* ---- choices ---- */

uint64_t fuzz_bytes(fuzz_choices *c, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n && c->at < c->end; i++) value |= (uint64_t)*c->at++ << (8 * i);
  return value;
}

uint64_t fuzz_pick(fuzz_choices *c, uint64_t n) { return fuzz_bytes(c, n > 256 ? 4 : 1) % n; }

int64_t fuzz_number(fuzz_choices *c) {
  static const int64_t special[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    64,
                                    255,
                                    1 << 16,
                                    INT32_MAX,
                                    INT32_MIN,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MAX / 2,
                                    (int64_t)1 << 32};
  switch (fuzz_pick(c, 8)) {
    case 0: return special[fuzz_pick(c, 16)];
    case 1: return (int8_t)fuzz_bytes(c, 1);
    default: return (int64_t)fuzz_pick(c, 10) - 3;
  }
}
