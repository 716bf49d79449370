/* Items of several steps (ops/cpu/common/relay.h): every step once and in order, one place for an item's steps, a
 * thread in the middle of a step that nobody waits for, cancellation. */
#include "ops/cpu/common/relay.h"

#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/suite.h"

#define ITEMS 300
#define STEPS_MOST 7
#define THREADS_MOST 4
#define PATIENCE_S 60 /* of a loaded machine */

typedef struct counts {
  _Atomic int steps[ITEMS], places[ITEMS]; /* places: with 1 added */
  _Atomic int busy[THREADS_MOST];          /* a place has an item, with 1 added */
  atomic_bool inside[ITEMS];               /* a thread is in the middle of a step of the item */
  _Atomic int n_steps, n_wrong;
  int n_items;
  int stop_at;   /* the step that cancels, -1: none */
  int *cancel;   /* the flag */
  int held_item; /* its first step waits until the steps of all other items have run; -1: none */
  atomic_bool waited_in_vain;
} counts;

static int steps_of(int64_t item) { return (int)(item % STEPS_MOST) + 1; }

static int all_steps(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += steps_of(i);
  return sum;
}

static bool count_step(void *context, int64_t item, int64_t step, int32_t place) {
  counts *c = context;
  int before = 0;
  if (step == 0) atomic_compare_exchange_strong(&c->busy[place], &before, (int)item + 1);
  bool right = atomic_load(&c->busy[place]) == (int)item + 1 && atomic_fetch_add(&c->steps[item], 1) == step &&
               (step == 0 || atomic_load(&c->places[item]) == place + 1);
  atomic_store(&c->places[item], place + 1);
  if (!right || atomic_exchange(&c->inside[item], true)) atomic_fetch_add(&c->n_wrong, 1);
  if (item == c->held_item && step == 0) {
    const time_t end = time(NULL) + PATIENCE_S;
    while (atomic_load(&c->n_steps) < all_steps(c->n_items) - steps_of(item) && time(NULL) < end) sched_yield();
    atomic_store(&c->waited_in_vain, time(NULL) >= end);
  }
  if (atomic_fetch_add(&c->n_steps, 1) == c->stop_at) __atomic_store_n(c->cancel, 1, __ATOMIC_RELAXED);
  atomic_store(&c->inside[item], false);
  if (step + 1 < steps_of(item)) return true;
  atomic_store(&c->busy[place], 0);
  return false;
}

static void clear(counts *c, int n) {
  memset(c, 0, sizeof *c);
  c->n_items = n;
  c->stop_at = c->held_item = -1;
}

START_TEST(every_step_runs_once_and_in_order) {
  static const int sizes[] = {0, 1, 2, 3, 17, ITEMS};
  static counts c;
  for (int threads = 1; threads <= THREADS_MOST; threads++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int off = -9; off <= 9; off += 9) { /* the number of steps is a hint for their sharing out */
        clear(&c, sizes[i]);
        const cpu_team team = {.threads = threads, .chunks = threads, .brief = i % 2};
        ck_assert_int_eq(cpu_relay(team, sizes[i], all_steps(sizes[i]) + off, count_step, &c), REED_OK);
        ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
        for (int item = 0; item < sizes[i]; item++) ck_assert_int_eq(atomic_load(&c.steps[item]), steps_of(item));
      }
}
END_TEST

/* A thread that the system does not let run in the middle of a step holds up its own item only: all other items end
 * meanwhile, one of several steps too that the thread itself has not begun. */
START_TEST(nobody_waits_for_the_step_of_another_thread) {
  static counts c;
  for (int held = 6; held < 40; held += 28) { /* items of seven steps: the caller's, a helper's */
    clear(&c, 40);
    c.held_item = held;
    ck_assert_int_eq(cpu_relay((cpu_team){.threads = 2}, 40, all_steps(40), count_step, &c), REED_OK);
    ck_assert(!atomic_load(&c.waited_in_vain));
    ck_assert_int_eq(atomic_load(&c.n_wrong), 0);
    ck_assert_int_eq(atomic_load(&c.n_steps), all_steps(40));
  }
}
END_TEST

START_TEST(cancellation_is_asked_for_at_every_step) {
  static counts c;
  for (int threads = 1; threads <= 3; threads++) {
    int flag = 0;
    clear(&c, ITEMS);
    c.stop_at = 20;
    c.cancel = &flag;
    const cpu_team team = {.threads = threads, .cancel = &flag};
    ck_assert_int_eq(cpu_relay(team, ITEMS, all_steps(ITEMS), count_step, &c), REED_ERROR_CANCELLED);
    ck_assert_int_le(atomic_load(&c.n_steps), 20 + threads); /* those that others were in the middle of */
  }
}
END_TEST

int main(void) {
  TCase *tc = tcase_create("relay");
  tcase_set_timeout(tc, 4 * PATIENCE_S);
  tcase_add_test(tc, every_step_runs_once_and_in_order);
  tcase_add_test(tc, nobody_waits_for_the_step_of_another_thread);
  tcase_add_test(tc, cancellation_is_asked_for_at_every_step);
  Suite *suite = suite_create("items of several steps");
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
