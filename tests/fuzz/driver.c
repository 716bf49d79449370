/* The main function of a fuzz target: mutates the target's seeds, without knowledge of their format, and adds inputs
 * with a new result to them.
 *
 *   fuzz_X [--runs N] [--seconds S] [--seed K] [--crashes DIR]
 *   fuzz_X --replay FILE|DIR...
 *   fuzz_X --write-seeds DIR
 *
 * The first form fuzzes; the same numbers give the same inputs until the first crash. The second runs the given inputs
 * in this process. The third writes the seeds for libFuzzer.
 *
 * Fuzzing runs in a child process, which shares its present input with the parent. If a child crashes or hangs, the
 * parent saves the input, and the next child continues with the next one. Crashes with the same summary are saved once.
 * Exit status 1: there were crashes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MOST ((size_t)16 << 20)
#define HANG_SECONDS 60      /* the limit for one input, generous for busy machines */
#define LIBFUZZER_MOST 65536 /* libFuzzer makes inputs up to the size of the largest seed */
#define CORPUS_MOST 4000
#define SUMMARIES_MOST 200

/* Every fault ends the process, because nobody reads a report that scrolls by. */
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
  return "abort_on_error=0:exitcode=99:allocator_may_return_null=1:detect_leaks=0:handle_abort=1";
}
__attribute__((visibility("default"))) const char *__ubsan_default_options(void) {
  return "halt_on_error=1:print_stacktrace=1:exitcode=99";
}

typedef struct shared {
  fuzz_figures figures;
  uint64_t iteration, n_corpus;
  size_t n;
  uint8_t input[INPUT_MOST];
} shared;

typedef struct settings {
  uint64_t n_runs, seed;
  double seconds;
  const char *crashes;
} settings;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- mutations ---- */

static uint64_t state;

static uint64_t pick(uint64_t n) { /* splitmix64 (Steele, Lea, Flood 2014) */
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return n ? (z ^ z >> 31) % n : 0;
}

static int64_t odd_number(void) {
  static const int64_t odd[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                4,
                                8,
                                9,
                                16,
                                64,
                                127,
                                128,
                                255,
                                256,
                                512,
                                513,
                                65535,
                                65536,
                                0xffffff,
                                1 << 20,
                                INT32_MAX,
                                INT32_MIN,
                                UINT32_MAX,
                                INT64_MAX,
                                INT64_MIN,
                                (int64_t)1 << 32,
                                (int64_t)1 << 62};
  return pick(2) ? odd[pick(sizeof odd / sizeof *odd)] : (int64_t)pick(12);
}

/* A random offset, mostly among the hot bytes, a multiple of `width` and at least `width` before the end. */
static size_t place(const fuzz_input *in, size_t width) {
  size_t n = pick(20) ? in->n_hot : in->n;
  return n < width ? 0 : (size_t)pick(n - width + 1) / width * width;
}

static void overwrite_word(fuzz_input *in) {
  size_t width = pick(3) ? 4 : 8;
  if (in->n < width) return;
  uint8_t *at = in->bytes + place(in, width);
  int64_t value = 0;
  memcpy(&value, at, width);
  switch (pick(4)) {
    case 0: value = odd_number(); break;
    case 1: value = (int64_t)((uint64_t)value + pick(7) - 3); break;
    default: memcpy(&value, in->bytes + place(in, width), width); break; /* a number of the file's own */
  }
  memcpy(at, &value, width);
}

static void overwrite_byte(fuzz_input *in) {
  if (!in->n) return;
  uint8_t *at = in->bytes + place(in, 1);
  *at = pick(2) ? *at ^ (uint8_t)(1u << pick(8)) : (uint8_t)pick(256);
}

/* Room for `n` bytes at `at`; false: too large. */
static bool make_room(fuzz_input *in, size_t at, size_t n) {
  if (in->n + n > INPUT_MOST) return false;
  memmove(in->bytes + at + n, in->bytes + at, in->n - at);
  in->n += n;
  in->n_hot += n;
  return true;
}

static void take_out(fuzz_input *in, size_t at, size_t n) {
  memmove(in->bytes + at, in->bytes + at + n, in->n - at - n);
  in->n -= n;
  in->n_hot = in->n_hot > n ? in->n_hot - n : 0;
}

static size_t some_length(size_t most) {
  size_t n = 1 + (size_t)pick(pick(4) ? 16 : 512);
  return n < most ? n : most;
}

static void insert_or_remove(fuzz_input *in) {
  size_t at = place(in, 1), n = some_length(in->n - at);
  if (pick(2)) {
    take_out(in, at, n);
  } else {
    uint8_t piece[512];
    memcpy(piece, in->bytes + at, n);
    size_t to = place(in, 1);
    if (make_room(in, to, n)) memcpy(in->bytes + to, piece, n);
  }
}

static void move_piece(fuzz_input *in, const fuzz_input *other, size_t align) {
  size_t from = place(other, align), to = pick(2) && from < in->n ? from : place(in, align), n = some_length(64);
  if (n > other->n - from) n = other->n - from;
  if (n > in->n - to) n = in->n - to;
  memmove(in->bytes + to, other->bytes + from, n);
}

/* Replaces the number at or after a random place by another. */
static void replace_number(fuzz_input *in) {
  size_t at = place(in, 1);
  while (at < in->n && (in->bytes[at] < '0' || in->bytes[at] > '9')) at++;
  size_t end = at;
  while (end < in->n && in->bytes[end] >= '0' && in->bytes[end] <= '9') end++;
  if (at == end) return;
  char text[32];
  size_t n = (size_t)snprintf(text, sizeof text, "%lld", (long long)odd_number());
  take_out(in, at, end - at);
  if (make_room(in, at, n)) memcpy(in->bytes + at, text, n);
}

static size_t line_at(const fuzz_input *in, size_t at, size_t *out_n) {
  while (at > 0 && in->bytes[at - 1] != '\n') at--;
  size_t end = at;
  while (end < in->n && in->bytes[end] != '\n') end++;
  *out_n = end < in->n ? end + 1 - at : end - at;
  return at;
}

/* A line of `other` goes elsewhere, or one goes. */
static void move_line(fuzz_input *in, const fuzz_input *other) {
  size_t n, from = line_at(other, place(other, 1), &n);
  uint8_t line[1024];
  if (n > sizeof line) return;
  memcpy(line, other->bytes + from, n);
  size_t n_here, to = line_at(in, place(in, 1), &n_here);
  if (pick(3)) take_out(in, to, n_here);
  if (pick(3) && make_room(in, to, n)) memcpy(in->bytes + to, line, n);
}

static void mutate(fuzz_input *in, const fuzz_input *other) {
  if (in->n == 0) return;
  switch (pick(16)) {
    case 0:
    case 1: overwrite_byte(in); return;
    case 2:
      if (pick(8) == 0) in->n = (size_t)pick(in->n);
      break;
    case 3:
      if (fuzz_this.form != FUZZ_WORDS || pick(8) == 0) insert_or_remove(in);
      break;
    case 4:
    case 5:
      if (other->n)
        move_piece(in, fuzz_this.form == FUZZ_WORDS || pick(2) ? in : other, fuzz_this.form == FUZZ_WORDS ? 4 : 1);
      break;
    default:
      if (fuzz_this.form == FUZZ_WORDS || (fuzz_this.form == FUZZ_BYTES && pick(3) == 0)) overwrite_word(in);
      else if (fuzz_this.form == FUZZ_BYTES) overwrite_byte(in);
      else if (pick(2) || !other->n) replace_number(in);
      else move_line(in, other);
  }
  if (in->n_hot > in->n) in->n_hot = in->n;
}

/* ---- the child ---- */

static int fuzz_from(const settings *set, shared *sh, fuzz_corpus *corpus, uint64_t first, double deadline) {
  size_t n_seeds = corpus->n;
  for (uint64_t i = first; i < set->n_runs && now() < deadline; i++) {
    state = set->seed * 0x2545f4914f6cdd1dull + i;
    const fuzz_input *seed = &corpus->items[i < n_seeds ? i : pick(pick(2) ? n_seeds : corpus->n)],
                     *other = &corpus->items[pick(corpus->n)];
    fuzz_input in = {sh->input, seed->n, seed->n_hot};
    memcpy(in.bytes, seed->bytes, seed->n);
    for (uint64_t k = i < n_seeds ? 0 : 1 + pick(1ull << pick(5)); k > 0; k--) mutate(&in, other);
    sh->n = in.n;
    sh->iteration = i;
    sh->figures.is_new = false;
    uint8_t *exact = malloc(in.n ? in.n : 1); /* reading past the end is a fault */
    memcpy(exact, in.bytes, in.n);
    (void)LLVMFuzzerTestOneInput(exact, in.n);
    free(exact);
    if (sh->figures.is_new && corpus->n < CORPUS_MOST) fuzz_seed(corpus, in.bytes, in.n, in.n_hot);
    sh->n_corpus = corpus->n;
  }
  sh->iteration++;
  return 0;
}

/* ---- the parent ---- */

typedef struct summaries {
  char text[SUMMARIES_MOST][256];
  int n;
} summaries;

/* The report's first line; "": there is none. */
static void read_summary(FILE *report, char out[256]) {
  char line[1024];
  out[0] = 0;
  rewind(report);
  while (fgets(line, sizeof line, report)) {
    const char *found = strstr(line, "SUMMARY:");
    if (!found && strstr(line, "runtime error:")) found = line;
    if (!found) continue;
    snprintf(out, 256, "%.250s", found);
    out[strcspn(out, "\n")] = 0;
    return;
  }
}

static void print_report(FILE *report) {
  char line[1024];
  rewind(report);
  for (int i = 0; i < 40 && fgets(line, sizeof line, report); i++) fputs(line, stdout);
}

static void save(const settings *set, const shared *sh, const char *what, FILE *report, summaries *known) {
  char summary[256], path[4096];
  read_summary(report, summary);
  if (!summary[0]) snprintf(summary, sizeof summary, "%s", what);
  for (int i = 0; i < known->n; i++)
    if (strcmp(known->text[i], summary) == 0) return;
  if (known->n < SUMMARIES_MOST) memcpy(known->text[known->n++], summary, sizeof summary);
  snprintf(path, sizeof path, "%s/%s-%llu-%llu.bin", set->crashes, fuzz_this.name, (unsigned long long)set->seed,
           (unsigned long long)sh->iteration);
  FILE *file = fopen(path, "wb");
  bool saved = file && fwrite(sh->input, 1, sh->n, file) == sh->n;
  if (file && fclose(file) != 0) saved = false;
  print_report(report);
  printf("%s: iteration %llu: %s; %s to %s\n", fuzz_this.name, (unsigned long long)sh->iteration, what,
         saved ? "saved" : "COULD NOT BE SAVED", path);
  fflush(stdout);
}

/* Waits for the child; *out_what says how a child ended that did not end well. */
static bool ended_well(pid_t child, const shared *sh, char out_what[64]) {
  uint64_t last = sh->iteration;
  double since = now();
  for (int status;;) {
    pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
      snprintf(out_what, 64, WIFEXITED(status) ? "ended with status %d" : "killed by signal %d",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
      return false;
    }
    if (sh->iteration != last) last = sh->iteration, since = now();
    if (now() - since > HANG_SECONDS) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      snprintf(out_what, 64, "more than %d s for one input", HANG_SECONDS);
      return false;
    }
    usleep(5000);
  }
}

static void corpus_free(fuzz_corpus *corpus) {
  for (size_t i = 0; i < corpus->n; i++) free(corpus->items[i].bytes);
  free(corpus->items);
}

static int fuzz(const settings *set) {
  static summaries known;
  fuzz_corpus corpus = {0};
  fuzz_seeds(&corpus);
  for (size_t i = 0; i < corpus.n; i++)
    if (corpus.items[i].n > INPUT_MOST) corpus.items[i].n = corpus.items[i].n_hot = 0;
  shared *sh = mmap(NULL, sizeof *sh, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FILE *report = tmpfile();
  if (sh == MAP_FAILED || !report || corpus.n == 0) {
    fprintf(stderr, "%s: no memory, no temporary file or no seeds\n", fuzz_this.name);
    return 2;
  }
  fuzz_counted = &sh->figures;
  double begin = now();
  int n_faults = 0;
  for (bool done = false; !done && sh->iteration < set->n_runs && now() - begin < set->seconds;) {
    uint64_t first = sh->iteration;
    if (ftruncate(fileno(report), 0) != 0) return 2;
    rewind(report);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
      dup2(fileno(report), STDERR_FILENO);
      _exit(fuzz_from(set, sh, &corpus, first, begin + set->seconds));
    }
    char what[64];
    done = ended_well(child, sh, what);
    if (done) break;
    n_faults++;
    save(set, sh, what, report, &known);
    sh->iteration++;
  }
  double seconds = now() - begin;
  printf("%s: %llu inputs in %.1f s, %llu accepted, %zu seeds, %llu kept, %d faults of %d kinds\n", fuzz_this.name,
         (unsigned long long)sh->iteration, seconds, (unsigned long long)sh->figures.n_accepted, corpus.n,
         (unsigned long long)(sh->n_corpus > corpus.n ? sh->n_corpus - corpus.n : 0), n_faults, known.n);
  for (int i = 0; i < known.n; i++) printf("  %s\n", known.text[i]);
  corpus_free(&corpus);
  return n_faults != 0;
}

static int replay(int n, char **paths) {
  fuzz_corpus corpus = {0};
  for (int i = 0; i < n; i++) {
    struct stat about;
    if (stat(paths[i], &about) == 0 && S_ISDIR(about.st_mode)) fuzz_seed_folder(&corpus, paths[i], "", INPUT_MOST);
    else fuzz_seed_file(&corpus, paths[i]);
  }
  for (size_t i = 0; i < corpus.n; i++) {
    uint8_t *exact = malloc(corpus.items[i].n ? corpus.items[i].n : 1);
    memcpy(exact, corpus.items[i].bytes, corpus.items[i].n);
    (void)LLVMFuzzerTestOneInput(exact, corpus.items[i].n);
    free(exact);
  }
  printf("%s: %zu inputs replayed\n", fuzz_this.name, corpus.n);
  corpus_free(&corpus);
  return 0;
}

static int write_seeds(const char *folder) {
  fuzz_corpus corpus = {0};
  fuzz_seeds(&corpus);
  for (size_t i = 0; i < corpus.n; i++) {
    char path[4096];
    if (corpus.items[i].n > LIBFUZZER_MOST) continue;
    snprintf(path, sizeof path, "%s/seed-%04zu", folder, i);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(corpus.items[i].bytes, 1, corpus.items[i].n, file) != corpus.items[i].n || fclose(file) != 0) {
      fprintf(stderr, "%s: %s\n", path, strerror(errno));
      return 2;
    }
  }
  corpus_free(&corpus);
  return 0;
}

int main(int n, char **words) {
  settings set = {.n_runs = UINT64_MAX / 2, .seed = 1, .seconds = 1e9, .crashes = "."};
  for (int i = 1; i < n; i++) {
    const char *value = i + 1 < n ? words[i + 1] : "";
    if (strcmp(words[i], "--replay") == 0) return replay(n - i - 1, words + i + 1);
    if (strcmp(words[i], "--write-seeds") == 0) return write_seeds(value);
    if (strcmp(words[i], "--runs") == 0) set.n_runs = strtoull(value, NULL, 10);
    else if (strcmp(words[i], "--seconds") == 0) set.seconds = strtod(value, NULL);
    else if (strcmp(words[i], "--seed") == 0) set.seed = strtoull(value, NULL, 10);
    else if (strcmp(words[i], "--crashes") == 0) set.crashes = value;
    else {
      fprintf(stderr, "%s: what is '%s'?\n", words[0], words[i]);
      return 2;
    }
    i++;
  }
  return fuzz(&set);
}
