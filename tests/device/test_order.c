/* Order between the two queues of a device: only events order them, a failure follows them, and a slot that a copy
 * reads or writes belongs to the copy until its event. The same cases on the host and on simulated accelerators that
 * are late, delayed and shuffled. */
#include "ops/kernel.h"
#include "tests/device/device_test.h"
#include "tests/suite.h"

reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return op ? NULL : NULL; } /* stands for ops/cpu */

static const char *const names[] = {"host",
                                    "sim",
                                    "sim?late=1",
                                    "sim?seed=1",
                                    "sim?seed=2&late=1",
                                    "sim?seed=3&late=1&delay_us=100",
                                    "sim?seed=4&delay_us=500"};
enum { N_NAMES = sizeof names / sizeof *names };

/* Twenty rounds of copy in, kernel, copy out. Each step waits for the event of the step before it; all share one slot.
 */
START_TEST(events_order_the_queues) {
  both_queues q = open_both(names[_i]);
  device_event *copied = NULL, *computed = NULL;
  ck_assert_int_eq(q.on->event_open(q.dev, &copied, q.said), REED_OK);
  ck_assert_int_eq(q.on->event_open(q.dev, &computed, q.said), REED_OK);
  ck_assert(q.on->event_done(q.dev, copied)); /* an event that was never recorded is done */
  ck_assert_int_eq(q.on->event_wait(q.compute, copied, q.said), REED_OK);
  int64_t *in = slot_of(&q, 20), *out = slot_of(&q, 20);
  void *a = memory_of(&q, 8), *b = memory_of(&q, 8);
  for (int64_t i = 0; i < 20; i++) {
    in[i] = i;
    ck_assert_int_eq(q.on->event_wait(q.copies, computed, q.said), REED_OK);
    ck_assert_int_eq(q.on->copy_in(q.copies, a, &in[i], 8, NULL, q.said), REED_OK);
    ck_assert_int_eq(q.on->event_record(q.copies, copied, q.said), REED_OK);
    ck_assert_int_eq(q.on->event_wait(q.compute, copied, q.said), REED_OK);
    ck_assert_int_eq(launch_step(&q, q.compute, a, b, 0), REED_OK);
    ck_assert_int_eq(q.on->event_record(q.compute, computed, q.said), REED_OK);
    ck_assert_int_eq(q.on->event_wait(q.copies, computed, q.said), REED_OK);
    ck_assert_int_eq(q.on->copy_out(q.copies, &out[i], b, 8, NULL, q.said), REED_OK);
  }
  device_error error;
  ck_assert_int_eq(wait_both(&q, &error), REED_OK);
  ck_assert(q.on->event_done(q.dev, copied) && q.on->event_done(q.dev, computed));
  for (int64_t i = 0; i < 20; i++) ck_assert_int_eq(out[i], 2 * i + 1);
  q.on->event_close(q.dev, copied);
  q.on->event_close(q.dev, computed);
  q.on->release(q.dev, a, NULL);
  q.on->release(q.dev, b, NULL);
  q.on->release_pinned(q.dev, in);
  q.on->release_pinned(q.dev, out);
  close_both(&q);
}
END_TEST

/* Without an event some seed runs the kernel before the copy that it needs: the test would notice a forgotten event. */
START_TEST(a_forgotten_event_shows) {
  int wrong = 0;
  for (int seed = 1; seed <= 16; seed++) {
    char name[64];
    snprintf(name, sizeof name, "sim?late=1&seed=%d", seed);
    both_queues q = open_both(name);
    int64_t *slot = slot_of(&q, 2);
    void *a = memory_of(&q, 8), *b = memory_of(&q, 8);
    slot[0] = 5, slot[1] = 0;
    ck_assert_int_eq(q.on->copy_in(q.copies, a, &slot[0], 8, NULL, q.said), REED_OK);
    ck_assert_int_eq(launch_step(&q, q.compute, a, b, 0), REED_OK);
    ck_assert_int_eq(q.on->copy_out(q.compute, &slot[1], b, 8, NULL, q.said), REED_OK);
    device_error error;
    ck_assert_int_eq(wait_both(&q, &error), REED_OK);
    wrong += slot[1] != 11;
    ck_assert(slot[1] == 11 || slot[1] == -1); /* from poison: -1 * 2 + 1 */
    q.on->release_pinned(q.dev, slot);
    close_both(&q);
  }
  ck_assert_int_gt(wrong, 0);
  ck_assert_int_lt(wrong, 16); /* and the order does depend on the seed */
}
END_TEST

/* The same seed runs the same work in the same order. */
START_TEST(an_order_is_repeated_by_its_seed) {
  for (int seed = 1; seed <= 8; seed++) {
    int64_t seen[2] = {0};
    for (int again = 0; again < 2; again++) {
      char name[64];
      snprintf(name, sizeof name, "sim?late=1&seed=%d", seed);
      both_queues q = open_both(name);
      int64_t *slot = slot_of(&q, 1);
      void *a = memory_of(&q, 8);
      slot[0] = 1;
      ck_assert_int_eq(q.on->copy_in(q.compute, a, slot, 8, NULL, q.said), REED_OK);
      device_error error;
      ck_assert_int_eq(wait_both(&q, &error), REED_OK);
      for (int i = 0; i < 12; i++) { /* x * 2 + 1 on one queue, x = -3 on the other */
        ck_assert_int_eq(launch_step(&q, q.compute, a, a, 0), REED_OK);
        if (i % 4 == 0) {
          static const int64_t minus_three = -3;
          ck_assert_int_eq(q.on->copy_in(q.copies, a, &minus_three, 8, NULL, q.said), REED_OK);
        }
      }
      ck_assert_int_eq(wait_both(&q, &error), REED_OK);
      ck_assert_int_eq(q.on->copy_out(q.compute, slot, a, 8, NULL, q.said), REED_OK);
      ck_assert_int_eq(wait_both(&q, &error), REED_OK);
      seen[again] = slot[0];
      q.on->release_pinned(q.dev, slot);
      close_both(&q);
    }
    ck_assert_int_eq(seen[0], seen[1]);
  }
}
END_TEST

/* A copy from a slot reads it when it runs, not when it is enqueued: the slot is the copy's until its event is done. */
START_TEST(a_slot_belongs_to_its_copy_until_the_event) {
  both_queues q = open_both("sim?late=1");
  device_event *copied = NULL;
  ck_assert_int_eq(q.on->event_open(q.dev, &copied, q.said), REED_OK);
  int64_t *slot = slot_of(&q, 2);
  void *a = memory_of(&q, 8);
  slot[0] = 1;
  ck_assert_int_eq(q.on->copy_in(q.copies, a, &slot[0], 8, NULL, q.said), REED_OK);
  ck_assert_int_eq(q.on->event_record(q.copies, copied, q.said), REED_OK);
  ck_assert(!q.on->event_done(q.dev, copied));
  slot[0] = 2; /* too early: the copy reads this value */
  device_error error;
  ck_assert_int_eq(wait_both(&q, &error), REED_OK);
  ck_assert(q.on->event_done(q.dev, copied));
  slot[0] = 3; /* the slot is free */
  ck_assert_int_eq(q.on->copy_out(q.copies, &slot[1], a, 8, NULL, q.said), REED_OK);
  slot[1] = 0;
  ck_assert_int_eq(wait_both(&q, &error), REED_OK);
  ck_assert_int_eq(slot[1], 2);
  q.on->event_close(q.dev, copied);
  q.on->release_pinned(q.dev, slot);
  close_both(&q);
}
END_TEST

static reed_status run_fault(const void *state, const reed_kernel_buffers *buffers) {
  (void)state;
  return reed_kernel_fault(buffers, REED_FAULT_AXIS, 1, 0, 7, 2);
}

/* Work that waits for an event after a failure is left out. The failure is reported once, and both queues work again
 * afterwards. */
START_TEST(a_failure_goes_along_with_events) {
  both_queues q = open_both(names[_i]);
  if (!q.on->host_memory) {
    device_event *computed = NULL;
    ck_assert_int_eq(q.on->event_open(q.dev, &computed, q.said), REED_OK);
    int64_t *slot = slot_of(&q, 1);
    void *a = memory_of(&q, 8);
    slot[0] = 42;
    reed_kernel failing = {.run = run_fault};
    ck_assert_int_eq(q.on->launch(q.compute, &failing, &(reed_kernel_buffers){0}, 0, 0, 17, NULL, q.said), REED_OK);
    ck_assert_int_eq(q.on->event_record(q.compute, computed, q.said), REED_OK);
    ck_assert_int_eq(q.on->event_wait(q.copies, computed, q.said), REED_OK);
    ck_assert_int_eq(q.on->copy_out(q.copies, slot, a, 8, NULL, q.said), REED_OK);
    device_error error = {0};
    ck_assert_int_eq(wait_both(&q, &error), REED_ERROR_VALUE);
    ck_assert(error.launch == 17 && error.fault.code == REED_FAULT_AXIS && error.fault.value == 7);
    ck_assert_int_eq(slot[0], 42);
    slot[0] = 4;
    ck_assert_int_eq(q.on->copy_in(q.copies, a, slot, 8, NULL, q.said), REED_OK);
    ck_assert_int_eq(wait_both(&q, &error), REED_OK);
    ck_assert_int_eq(launch_step(&q, q.compute, a, a, 0), REED_OK);
    ck_assert_int_eq(wait_both(&q, &error), REED_OK);
    ck_assert_int_eq(q.on->copy_out(q.copies, slot, a, 8, NULL, q.said), REED_OK);
    ck_assert_int_eq(wait_both(&q, &error), REED_OK);
    ck_assert_int_eq(slot[0], 9);
    q.on->event_close(q.dev, computed);
    q.on->release_pinned(q.dev, slot);
  }
  close_both(&q);
}
END_TEST

/* Memory grows in place and keeps its contents; its new bytes are poisoned. */
START_TEST(memory_grows_in_place) {
  both_queues q = open_both("sim");
  int64_t *slot = slot_of(&q, 2);
  void *a = NULL;
  device_error error;
  ck_assert_int_eq(q.on->allocate(q.dev, 100, 64 << 20, &a, q.said), REED_OK);
  slot[0] = 77;
  ck_assert_int_eq(q.on->copy_in(q.copies, a, slot, 8, NULL, q.said), REED_OK);
  for (int64_t bytes = 4096; bytes <= 64 << 20; bytes *= 4) {
    ck_assert(q.on->extend(q.dev, a, bytes));
    ck_assert_int_eq(q.on->copy_out(q.copies, &slot[0], a, 8, NULL, q.said), REED_OK);
    ck_assert_int_eq(q.on->copy_out(q.copies, &slot[1], (char *)a + bytes - 8, 8, NULL, q.said), REED_OK);
    ck_assert_int_eq(wait_both(&q, &error), REED_OK);
    ck_assert_int_eq(slot[0], 77);
    ck_assert_int_eq(slot[1], -1);
  }
  ck_assert(!q.on->extend(q.dev, a, (64 << 20) + 4097)); /* no room */
  q.on->release(q.dev, a, q.compute);
  q.on->release_pinned(q.dev, slot);
  close_both(&q);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("order");
  TCase *tc = tcase_create("order");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, events_order_the_queues, 0, N_NAMES);
  tcase_add_test(tc, a_forgotten_event_shows);
  tcase_add_test(tc, an_order_is_repeated_by_its_seed);
  tcase_add_test(tc, a_slot_belongs_to_its_copy_until_the_event);
  tcase_add_loop_test(tc, a_failure_goes_along_with_events, 0, N_NAMES);
  tcase_add_test(tc, memory_grows_in_place);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
