/* Signals (interrupt.h): one handler, the word that it writes, and the temporary files that it removes. */
#include "tools/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/exit_status.h"

enum { MOST_FILES = 8 }; /* temporary files at one time */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
/* Signals that end a process by their default action and that the command does not answer. Faults are not among them,
 * because their reports (a core, a sanitizer's text) need the state of the fault. */
static const int fatal[] = {SIGQUIT, SIGABRT, SIGPIPE, SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM, SIGPROF};
enum { N_ENDING = sizeof ending / sizeof *ending, N_FATAL = sizeof fatal / sizeof *fatal };

static int came, n_polled; /* n_polled: how many stretches of work that poll have begun and not ended */
static int placed;         /* a finished file is in its place */
static reed_session *in_flight;
static const char *files[MOST_FILES]; /* temporary; changed only with the signals blocked */
static timer_t again;
static bool has_timer;
static pthread_t first_thread;

static bool has_temporary_files(void) {
  for (int i = 0; i < MOST_FILES; i++)
    if (files[i]) return true;
  return false;
}

static void remove_temporary_files(void) {
  for (int i = 0; i < MOST_FILES; i++)
    if (files[i]) unlink(files[i]);
}

static _Noreturn void end_at_once(void) {
  remove_temporary_files();
  _exit(INTERRUPTED);
}

/* Passes a signal of the process on to the first thread, where hold_signals blocks the signals. True: it was passed. */
static bool pass_on(int number) {
  return !pthread_equal(pthread_self(), first_thread) && pthread_kill(first_thread, number) == 0;
}

/* Cancels the run, again every 20 ms: a cancellation just before a run begins is lost, because it applies to the
 * current run only. The timer's signal also ends a read that began just after the flag was looked at. */
static void cancel_run(int number) {
  (void)number;
  reed_session *session = __atomic_load_n(&in_flight, __ATOMIC_SEQ_CST);
  if (session) reed_session_cancel(session);
  if (has_timer) (void)timer_settime(again, 0, &(struct itimerspec){.it_value.tv_nsec = 20000000}, NULL);
}

/* Ends the process by the signal's default action. abort() may have been called by any thread. */
static void take_fatal(int number) {
  if (number != SIGABRT && pass_on(number)) return;
  remove_temporary_files();
  (void)signal(number, SIG_DFL);
  (void)raise(number); /* arrives when the handler returns */
}

static void take_signal(int number) {
  int error = errno;
  if (pass_on(number)) {
    errno = error;
    return;
  }
  bool polled = __atomic_load_n(&n_polled, __ATOMIC_SEQ_CST);
  if (!polled && placed && !has_temporary_files() && !interrupted()) { /* all is done but for leaving */
    placed = 0;                                                        /* the second signal counts */
    errno = error;
    return;
  }
  if (__atomic_exchange_n(&came, 1, __ATOMIC_SEQ_CST)) end_at_once(); /* the second signal */
  if (!polled) {
    static const char text[] = "vm: interrupted\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    end_at_once();
  }
  cancel_run(number);
  errno = error;
}

static void install(const int *signals, int n, void (*handler)(int)) {
  for (int i = 0; i < n; i++) {
    /* no SA_RESTART, so that a waiting read ends too */
    struct sigaction before, action = {.sa_handler = handler};
    if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN)
      continue; /* ignored on purpose, as by nohup */
    (void)sigaction(signals[i], &action, NULL);
  }
}

void interrupt_begin(void) {
  first_thread = pthread_self();
  install(ending, N_ENDING, take_signal);
  install(fatal, N_FATAL, take_fatal);
  signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then returns an error */
  (void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = cancel_run}, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
  has_timer = timer_create(CLOCK_MONOTONIC, &event, &again) == 0;
}

void interrupt_polled_begin(void) { __atomic_add_fetch(&n_polled, 1, __ATOMIC_SEQ_CST); }

void interrupt_polled_end(void) { __atomic_sub_fetch(&n_polled, 1, __ATOMIC_SEQ_CST); }

bool interrupted(void) { return __atomic_load_n(&came, __ATOMIC_SEQ_CST); }

const int *interrupt_flag(void) { return &came; }

void interrupt_session(reed_session *session) { __atomic_store_n(&in_flight, session, __ATOMIC_SEQ_CST); }

/* ---- temporary files ---- */

static void hold_signals(sigset_t *out_before) {
  sigset_t held;
  sigemptyset(&held);
  for (int i = 0; i < N_ENDING; i++) sigaddset(&held, ending[i]);
  for (int i = 0; i < N_FATAL; i++) sigaddset(&held, fatal[i]);
  sigprocmask(SIG_BLOCK, &held, out_before);
}

int interrupt_make_file(char *path_template) {
  sigset_t before;
  int slot = 0;
  while (slot < MOST_FILES && files[slot]) slot++;
  if (slot == MOST_FILES) return errno = EMFILE, -1;
  hold_signals(&before);
  int file = mkstemp(path_template);
  if (file >= 0) files[slot] = path_template;
  sigprocmask(SIG_SETMASK, &before, NULL);
  return file;
}

bool interrupt_settle_file(char *temporary, const char *path) {
  sigset_t before;
  hold_signals(&before);
  bool renamed = false;
  if (path && interrupted()) errno = EINTR;
  else renamed = path && rename(temporary, path) == 0;
  int error = errno;
  if (renamed) placed = 1;
  else unlink(temporary);
  for (int i = 0; i < MOST_FILES; i++)
    if (files[i] == temporary) files[i] = NULL;
  sigprocmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return renamed || !path;
}
