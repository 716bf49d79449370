/* One handler and two words that it writes; see interrupt.h. */
#include "tools/interrupt.h"

#include <signal.h>
#include <unistd.h>

static int came;
static reed_session *in_flight;

/* A run that was about to begin has missed the cancellation, which belongs to runs in flight: again every second. */
static void cancel_run(int number) {
  (void)number;
  reed_session *session = __atomic_load_n(&in_flight, __ATOMIC_SEQ_CST);
  if (session) reed_session_cancel(session);
  alarm(1);
}

static void take_signal(int number) {
  if (__atomic_exchange_n(&came, 1, __ATOMIC_SEQ_CST)) { /* the second one: as if none were taken */
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  cancel_run(number);
}

void interrupt_begin(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction before, action = {.sa_handler = take_signal}; /* no SA_RESTART: a read that waits ends, too */
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue; /* nohup */
    (void)sigaction(numbers[i], &action, NULL);
  }
  (void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = cancel_run}, NULL);
}

bool interrupted(void) { return __atomic_load_n(&came, __ATOMIC_SEQ_CST); }

const int *interrupt_flag(void) { return &came; }

void interrupt_session(reed_session *session) { __atomic_store_n(&in_flight, session, __ATOMIC_SEQ_CST); }
