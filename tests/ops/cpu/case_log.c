/* Kernel cases that fail (kernel_case.h). A test makes many cases; a failed case is noted and the next case runs, so
 * that no case hides another. A test runs in a process of its own (beside Check's, which waits for it): where a case
 * crashes, the test is run again without the cases up to that one. At the end Check is told of all failures. A process
 * a case would cost more than the cases do. */
#include "tests/ops/cpu/case_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* TOLD_BYTES: Check ends the program at a longer message, and a higher limit of its own costs each assertion of every
 * test a copy of as many bytes. */
enum { LOG_BYTES = 1 << 16, TOLD_BYTES = 3000, MOST_CRASHES = 20 };

/* Shared with the test's process. */
typedef struct case_log {
  int n_begun; /* cases of the test, skipped cases included */
  int n_failed;
  size_t n_text;
  char current[2048], text[LOG_BYTES];
} case_log;

typedef struct listed {
  const TTest *test;
  int i; /* the index of the test's own loop (_i) */
} listed;

static listed *list;
static int n_listed;

static case_log *noted;
static int n_made, resume_at; /* cases made by this process; number of the first case that is to run */
static uint64_t first_seed;
static jmp_buf *next_case; /* NULL: the test checks the case itself, so a failure ends the test */

/* FNV-1a (Fowler, Noll, Vo), so that a case's elements do not depend on the other tests of its file. */
static uint64_t hash(uint64_t h, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
  return h;
}

void case_begin(kernel_case *c) {
  int number = n_made++;
  const char *given = getenv("REED_CASE_SEED");
  c->seed = given ? strtoull(given, NULL, 0) : hash(first_seed, &number, sizeof number);
  if (!c->seed) c->seed = 1; /* the generator's state must not be zero */
  c->skipped = number < resume_at;
  if (!noted || c->skipped) return;
  noted->n_begun = n_made;
  snprintf(noted->current, sizeof noted->current, "case %d", number);
}

void case_note(const kernel_case *c) {
  if (noted) snprintf(noted->current, sizeof noted->current, "%s", case_where(c));
}

static void append(const char *where, const char *text) {
  noted->n_failed++;
  int n = snprintf(noted->text + noted->n_text, LOG_BYTES - noted->n_text, "\n  %s: %s", where, text);
  noted->n_text += (size_t)n < LOG_BYTES - noted->n_text ? (size_t)n : LOG_BYTES - noted->n_text - 1;
}

void case_fail(const kernel_case *c, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!noted || !next_case) ck_abort_msg("%s: %s", case_where(c), text);
  append(case_where(c), text);
  longjmp(*next_case, 1);
}

void case_guard(kernel_case *c, void (*run)(kernel_case *c, const void *argument), const void *argument) {
  jmp_buf here;
  if (!c->skipped) {
    next_case = &here;
    if (setjmp(here) == 0) run(c, argument);
    next_case = NULL;
  }
  case_close(c);
}

static void run_body(const listed *one) {
  n_made = 0;
  first_seed = hash(hash(0xcbf29ce484222325u, one->test->name, strlen(one->test->name)), &one->i, sizeof one->i);
  one->test->fn(one->i);
}

/* Runs the test in a process of its own; true: the process crashed. */
static bool run_apart(const listed *one) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    run_body(one);
    exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    exit(WEXITSTATUS(status)); /* Check or a sanitizer has reported the failure */
  if (!WIFSIGNALED(status)) return false;
  char text[64];
  snprintf(text, sizeof text, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  append(noted->current, text);
  return true;
}

static void run_listed(int k) {
  const char *fork_status = getenv("CK_FORK");
  noted = mmap(NULL, sizeof *noted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(noted, MAP_FAILED);
  resume_at = 0;
  if (fork_status && strcmp(fork_status, "no") == 0) run_body(&list[k]);
  else
    for (int n = 0; n < MOST_CRASHES && run_apart(&list[k]); n++) resume_at = noted->n_begun;
  if (noted->n_text > TOLD_BYTES) fprintf(stderr, "%s\n", noted->text);
  if (noted->n_failed)
    ck_abort_msg("%d of %d cases failed:%.*s%s", noted->n_failed, noted->n_begun, TOLD_BYTES, noted->text,
                 noted->n_text > TOLD_BYTES ? "\n  and so on: all are on the standard error stream" : "");
  munmap(noted, sizeof *noted);
  noted = NULL;
}

/* The tests that Check was given: it keeps their addresses and does not release them. */
typedef struct given {
  TTest test;
  struct given *before;
} given;
static given *all_given;

void case_add_tests(TCase *cases, const TTest *test, int from, int to) {
  int first = n_listed;
  if (from >= to) return;
  case_devices(); /* the devices are looked up once for all processes */
  for (int i = from; i < to; i++) {
    if ((n_listed & (n_listed - 1)) == 0) {
      list = realloc(list, (size_t)(n_listed ? 2 * n_listed : 1) * sizeof *list);
      if (!list) abort();
    }
    list[n_listed++] = (listed){test, i};
  }
  given *made = malloc(sizeof *made);
  if (!made) abort();
  *made = (given){{test->name, run_listed, test->file, test->line}, all_given};
  all_given = made;
  _tcase_add_test(cases, &made->test, 0, 0, first, n_listed);
}
