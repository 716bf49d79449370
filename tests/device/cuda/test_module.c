/* The CUDA module over the fake driver, through the device contract: order by events alone, memory that grows, spans,
 * refusals, and every call and every request for memory failed once. Graphs: test_graph.c. The fake driver:
 * test_fake.c.
 */
#include <unistd.h>

#include "base/diag.h"
#include "tests/alloc_hook.h"
#include "tests/device/cuda/cuda_test.h"

static const char *const names[] = {"cuda-emulated",
                                    "cuda-emulated?late=1",
                                    "cuda-emulated?seed=1",
                                    "cuda-emulated?seed=2&late=1",
                                    "cuda-emulated:1?seed=3&late=1&order=1&check=1",
                                    "cuda-emulated?seed=4&late=1&order=9&poison=1"};
enum { N_NAMES = sizeof names / sizeof *names, N = 300 };

/* Rounds of copy in, kernel, copy out on two queues, each step after the event of the step before it. */
START_TEST(events_order_the_queues) {
  both_queues q = open_both(names[_i]);
  device_event *copied = NULL, *computed = NULL;
  reed_kernel add = {0};
  MUST(q.on->event_open(q.dev, &copied, q.said));
  MUST(q.on->event_open(q.dev, &computed, q.said));
  ck_assert(q.on->event_done(q.dev, copied)); /* an event that was never recorded is done */
  MUST(q.on->event_wait(q.compute, copied, q.said));
  MUST(prepare_add(q.dev, N, &add, q.said));
  float *in = floats_of(&q, 8 * N), *out = floats_of(&q, 8 * N);
  void *a = memory_of(&q, N * 4), *b = memory_of(&q, N * 4);
  for (int k = 0; k < 8; k++) {
    for (int i = 0; i < N; i++) in[k * N + i] = (float)(k * 1000 + i);
    MUST(q.on->event_wait(q.copies, computed, q.said));
    MUST(q.on->copy_in(q.copies, a, in + k * N, N * 4, NULL, q.said));
    MUST(q.on->event_record(q.copies, copied, q.said));
    MUST(q.on->event_wait(q.compute, copied, q.said));
    MUST(launch_add(&q, q.compute, &add, a, a, b, NULL));
    MUST(q.on->event_record(q.compute, computed, q.said));
    MUST(q.on->event_wait(q.copies, computed, q.said));
    MUST(q.on->copy_out(q.copies, out + k * N, b, N * 4, NULL, q.said));
  }
  device_error error;
  MUST(wait_both(&q, &error));
  ck_assert(q.on->event_done(q.dev, copied) && q.on->event_done(q.dev, computed));
  for (int i = 0; i < 8 * N; i++) ck_assert_float_eq(out[i], 2 * in[i]);
  q.on->event_close(q.dev, copied);
  q.on->event_close(q.dev, computed);
  q.on->release(q.dev, a, q.copies);
  q.on->release(q.dev, b, NULL);
  q.on->release_pinned(q.dev, in);
  q.on->release_pinned(q.dev, out);
  add.free(add.state);
  close_both(&q);
}
END_TEST

/* Without an event some seed runs the kernel before the copy that it needs. */
START_TEST(a_forgotten_event_shows) {
  int wrong = 0;
  for (int seed = 1; seed <= 16; seed++) {
    char name[64];
    snprintf(name, sizeof name, "cuda-emulated?late=1&seed=%d", seed);
    both_queues q = open_both(name);
    reed_kernel add = {0};
    float *slot = floats_of(&q, 2);
    void *a = memory_of(&q, 4), *b = memory_of(&q, 4);
    device_error error;
    MUST(prepare_add(q.dev, 1, &add, q.said));
    slot[0] = 5;
    MUST(q.on->copy_in(q.copies, a, slot, 4, NULL, q.said));
    MUST(launch_add(&q, q.compute, &add, a, a, b, NULL));
    MUST(q.on->copy_out(q.compute, slot + 1, b, 4, NULL, q.said));
    MUST(wait_both(&q, &error));
    ck_assert(slot[1] == 10 || slot[1] != slot[1]); /* from poison: NaN */
    wrong += slot[1] != 10;
    q.on->release_pinned(q.dev, slot);
    add.free(add.state);
    close_both(&q);
  }
  ck_assert_int_gt(wrong, 0);
  ck_assert_int_lt(wrong, 16); /* and the order does depend on the seed */
}
END_TEST

/* Pinned memory belongs to a copy from it or into it until the copy has run. */
START_TEST(an_early_reuse_of_pinned_memory_is_caught) {
  both_queues q = open_both("cuda-emulated?late=1");
  device_error error;
  float *slot = floats_of(&q, 1);
  void *a = memory_of(&q, 4);
  const bool out = _i >= 2, released = _i % 2 == 1;
  slot[0] = 1;
  if (out) MUST(q.on->copy_out(q.copies, slot, a, 4, NULL, q.said));
  else MUST(q.on->copy_in(q.copies, a, slot, 4, NULL, q.said));
  if (released) q.on->release_pinned(q.dev, slot);
  else slot[0] = 2;
  ck_assert_int_eq(wait_both(&q, &error), REED_ERROR_DEVICE);
  ck_assert_int_eq(error.launch, DEVICE_NO_LAUNCH);
  const char *said = reed_diagnosis_message(q.said);
  ck_assert_msg(strstr(said, released ? "released before work"
                             : out    ? "was changed before the copy that writes it"
                                      : "was changed before the copy that reads it") != NULL,
                "%s", said);
  if (!released) q.on->release_pinned(q.dev, slot);
  q.on->release(q.dev, a, q.compute);
  close_both(&q); /* the card is lost, as it is after a real fault, and can still be closed */
}
END_TEST

/* A result that is read before its copy has run is poison, and not the result of the run before. */
START_TEST(an_early_read_of_a_result_shows) {
  both_queues q = open_both("cuda-emulated?late=1");
  device_error error;
  int64_t *slot = slot_of(&q, 1);
  void *a = memory_of(&q, 8);
  for (int round = 0; round < 2; round++) {
    slot[0] = 77;
    MUST(q.on->copy_in(q.copies, a, slot, 8, NULL, q.said));
    MUST(wait_both(&q, &error));
    MUST(q.on->copy_out(q.copies, slot, a, 8, NULL, q.said));
    ck_assert_int_eq(slot[0], -1);
    MUST(wait_both(&q, &error));
    ck_assert_int_eq(slot[0], 77);
  }
  q.on->release(q.dev, a, q.copies);
  q.on->release_pinned(q.dev, slot);
  close_both(&q);
}
END_TEST

/* Host memory that is not pinned may be reused at once, and is complete when copy_out returns. */
START_TEST(memory_that_is_not_pinned_is_staged) {
  both_queues q = open_both(names[_i]);
  device_memory figures;
  device_error error;
  int64_t x[4] = {1, 2, 3, 4}, y[4] = {0};
  void *a = memory_of(&q, sizeof x);
  MUST(q.on->copy_in(q.compute, a, x, sizeof x, NULL, q.said));
  memset(x, 0, sizeof x);
  MUST(q.on->copy_out(q.compute, y, a, sizeof y, NULL, q.said));
  MUST(wait_both(&q, &error));
  for (int i = 0; i < 4; i++) ck_assert_int_eq(y[i], i + 1);
  q.on->memory(q.dev, &figures);
  ck_assert_int_eq(figures.n_unpinned_copies, 2);
  ck_assert_int_eq(figures.live_bytes, sizeof x);
  q.on->release(q.dev, a, q.compute);
  q.on->memory(q.dev, &figures);
  ck_assert_int_eq(figures.live_bytes, 0);
  ck_assert_int_eq(figures.n_allocations, 1);
  close_both(&q);
}
END_TEST

/* An arena stays where it is and keeps its contents while it grows. */
START_TEST(memory_grows_in_place) {
  both_queues q = open_both(names[_i]);
  int64_t *slot = slot_of(&q, 2);
  void *a = NULL, *small = memory_of(&q, 100);
  device_error error;
  const int64_t room = 8 << 20;
  MUST(q.on->allocate(q.dev, 100, room, &a, q.said));
  slot[0] = 77;
  MUST(q.on->copy_in(q.copies, a, slot, 8, NULL, q.said));
  for (int64_t bytes = 4096; bytes <= room; bytes *= 8) {
    ck_assert(q.on->extend(q.dev, a, bytes));
    MUST(wait_both(&q, &error));
    MUST(q.on->copy_out(q.copies, &slot[0], a, 8, NULL, q.said));
    MUST(q.on->copy_out(q.copies, &slot[1], (char *)a + bytes - 8, 8, NULL, q.said));
    MUST(wait_both(&q, &error));
    ck_assert_int_eq(slot[0], 77);
    ck_assert_int_eq(slot[1], -1); /* poison */
    ck_assert(q.on->holds(q.dev, (char *)a + 8, bytes - 8));
  }
  ck_assert(!q.on->extend(q.dev, a, room + 65537)); /* no room */
  ck_assert(!q.on->extend(q.dev, small, 200));      /* a block of the pool */
  ck_assert(!q.on->holds(q.dev, slot, 8));
  q.on->release(q.dev, a, q.copies);
  q.on->release(q.dev, small, q.compute);
  q.on->release_pinned(q.dev, slot);
  close_both(&q);
}
END_TEST

START_TEST(spans_lie_within_the_calls_and_in_order) {
  both_queues q = open_both(names[_i]);
  reed_kernel add = {0};
  device_span spans[3] = {0};
  device_error error;
  float *slot = floats_of(&q, N);
  void *a = memory_of(&q, N * 4), *b = memory_of(&q, N * 4);
  MUST(prepare_add(q.dev, N, &add, q.said));
  for (int round = 0; round < 2; round++) { /* the second round uses the events of the first */
    int64_t begin = clock_now_ns();
    for (int i = 0; i < N; i++) slot[i] = 1;
    MUST(q.on->copy_in(q.compute, a, slot, N * 4, &spans[0], q.said));
    MUST(launch_add(&q, q.compute, &add, a, a, b, &spans[1]));
    MUST(q.on->copy_out(q.compute, slot, b, N * 4, &spans[2], q.said));
    MUST(wait_both(&q, &error));
    ck_assert_int_le(begin, spans[0].begin_ns);
    for (int i = 0; i < 3; i++) {
      ck_assert_int_le(spans[i].begin_ns, spans[i].end_ns);
      if (i) ck_assert_int_le(spans[i - 1].begin_ns, spans[i].begin_ns);
    }
    ck_assert_int_le(spans[2].end_ns, clock_now_ns());
  }
  q.on->release(q.dev, a, NULL);
  q.on->release(q.dev, b, NULL);
  q.on->release_pinned(q.dev, slot);
  add.free(add.state);
  close_both(&q);
}
END_TEST

START_TEST(what_cannot_be_opened_is_refused_in_a_sentence) {
  static const struct {
    reed_status status;
    const char *name, *sentence;
  } refused[] = {
      {REED_ERROR_DEVICE, "cuda-emulated:2", "cuda-emulated has 2 GPUs, numbered from 0"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?colour=1", "no option 'colour'; known: check"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?late", "option 'late' takes a number"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?seed=-1", "option 'seed' takes a number"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?seed= 1", "option 'seed' takes a number"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?cudnn=3", "option 'cudnn' takes a number from 0 to 2"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?cublas=3&cudnn=2", "option 'cublas' takes a number from 0 to 2"},
      {REED_ERROR_DEVICE, "cuda-emulated?version=12080", "the NVIDIA driver is too old: it is for CUDA 12.8"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?card=B300",
       "no description of a card 'B300'; known: H100, A100, L4, A10, T4"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?card=H10", "no description of a card 'H10'"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?seed=1&card", "no description of a card ''"},
      {REED_ERROR_DEVICE, "cuda-emulated?card=T4&tf32=1",
       "tf32=1 needs a card of compute capability 8.0 or newer, the card emulated NVIDIA T4 16 GB has 7.5"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?profile", "option 'profile' takes the path of a file"},
      {REED_ERROR_ARGUMENT, "cuda-emulated?profile=&seed=1", "option 'profile' takes the path of a file"},
      {REED_ERROR_DEVICE, "cuda-emulated?profile=/nowhere/p",
       "the file '/nowhere/p' of option 'profile' cannot be written"},
      {REED_ERROR_DEVICE, "cuda-emulated?fail_call=1", "the driver cannot start"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    device *dev = NULL;
    reed_diagnosis said = {0};
    ck_assert_int_eq(device_open(refused[i].name, &dev, &said), refused[i].status);
    ck_assert_msg(strstr(said.message, refused[i].sentence) != NULL, "%s", said.message);
    ck_assert_ptr_null(dev);
  }
}
END_TEST

START_TEST(a_full_card_says_what_was_asked_and_what_is_live) {
  both_queues q = open_both("cuda-emulated?memory=1048576");
  void *a = memory_of(&q, 700000), *b = &b, *arena = NULL;
  ck_assert_int_eq(q.on->allocate(q.dev, 500000, 0, &b, q.said), REED_ERROR_MEMORY);
  ck_assert_ptr_eq(b, &b);
  const char *said = reed_diagnosis_message(q.said);
  ck_assert_msg(strstr(said, "no memory for 500000 bytes (700000 are in use") != NULL, "%s", said);
  ck_assert_int_eq(q.on->allocate(q.dev, INT64_MAX - 5, 0, &b, q.said), REED_ERROR_MEMORY);
  MUST(q.on->allocate(q.dev, 65536, 1048576, &arena, q.said));
  /* the arena has addresses for the extension, the card has no memory for it */
  ck_assert(!q.on->extend(q.dev, arena, 600000));
  q.on->release(q.dev, a, q.compute);
  ck_assert(q.on->extend(q.dev, arena, 600000));
  q.on->release(q.dev, arena, q.compute);
  MUST(q.on->allocate(q.dev, 1000000, 0, &b, q.said));
  q.on->release(q.dev, b, q.compute);
  close_both(&q);
}
END_TEST

/* Memory that released blocks hold until their last work is done is waited for. */
START_TEST(a_full_card_waits_for_released_memory) {
  both_queues q = open_both("cuda-emulated?late=1&memory=1048576");
  device_error error;
  void *first = NULL, *second = NULL;
  float *slot = floats_of(&q, 1);
  MUST(q.on->allocate(q.dev, 600000, _i ? 0 : 1048576, &first, q.said)); /* _i 1: of the driver's pool */
  MUST(q.on->copy_in(q.compute, first, slot, 4, NULL, q.said));
  q.on->release(q.dev, first, q.compute);
  MUST(q.on->allocate(q.dev, 600000, 1048576, &second, q.said));
  MUST(wait_both(&q, &error));
  q.on->release(q.dev, second, NULL);
  q.on->release_pinned(q.dev, slot);
  close_both(&q);
}
END_TEST

/* The work of a queue is done when the queue is closed, so another queue sees its results. */
START_TEST(a_closed_queue_has_done_its_work) {
  char name[64];
  snprintf(name, sizeof name, "cuda-emulated?late=1&seed=%d", _i);
  both_queues q = open_both(name);
  device_queue *own = NULL;
  device_error error;
  float *slots = floats_of(&q, 2);
  void *a = memory_of(&q, 4);
  MUST(q.on->queue_open(q.dev, DEVICE_COMPUTE, &own, q.said));
  slots[0] = 5;
  MUST(q.on->copy_in(own, a, slots, 4, NULL, q.said));
  q.on->queue_close(own);
  MUST(q.on->copy_out(q.copies, slots + 1, a, 4, NULL, q.said));
  MUST(wait_both(&q, &error));
  ck_assert_float_eq(slots[1], 5);
  q.on->release(q.dev, a, q.copies);
  q.on->release_pinned(q.dev, slots);
  close_both(&q);
}
END_TEST

/* The option `memory` overrides the memory of the described card. */
START_TEST(a_described_card_has_its_memory) {
  static const struct {
    const char *name;
    int64_t bytes;
  } cards[] = {{"cuda-emulated?card=H100", (int64_t)80 << 30},
               {"cuda-emulated:1?card=A100&late=1", (int64_t)80 << 30},
               {"cuda-emulated?seed=1&card=T4", (int64_t)16 << 30},
               {"cuda-emulated?card=T4&memory=1048576", 1048576}};
  for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
    both_queues q = open_both(cards[i].name);
    device_memory memory;
    void *a = NULL;
    q.on->memory(q.dev, &memory);
    ck_assert_int_eq(memory.total_bytes, cards[i].bytes);
    ck_assert_int_eq(q.on->allocate(q.dev, cards[i].bytes + 1, 0, &a, q.said), REED_ERROR_MEMORY);
    close_both(&q);
  }
}
END_TEST

/* ---- failures ---- */

/* Uses every function of a device once; the first failure ends it. Everything that was taken is given back. */
static reed_status use_everything(const char *name, reed_diagnosis *said) {
  device *dev = NULL;
  device_queue *queues[2] = {NULL};
  device_event *event = NULL;
  device_graph *graph = NULL;
  device_span span = {0};
  device_error error;
  reed_kernel add = {0};
  void *pinned = NULL, *a = NULL, *arena = NULL;
  reed_status status = device_open(name, &dev, said);
  if (status != REED_OK) return status;
  const device_interface *on = dev->interface;
#define STEP(call) \
  if (status == REED_OK) status = (call)
  STEP(on->queue_open(dev, DEVICE_COMPUTE, &queues[0], said));
  STEP(on->queue_open(dev, DEVICE_COPIES, &queues[1], said));
  STEP(on->event_open(dev, &event, said));
  STEP(on->allocate_pinned(dev, 64, &pinned, said));
  STEP(on->allocate(dev, 64, 0, &a, said));
  STEP(on->allocate(dev, 64, 1 << 20, &arena, said));
  if (status == REED_OK) (void)on->extend(dev, arena, 200000);
  STEP(prepare_add(dev, 16, &add, said));
  if (status == REED_OK) memset(pinned, 0, 64);
  STEP(on->copy_in(queues[1], a, pinned, 64, &span, said));
  STEP(on->event_record(queues[1], event, said));
  STEP(on->event_wait(queues[0], event, said));
  both_queues q = {dev, on, queues[0], queues[1], said};
  STEP(launch_add(&q, queues[0], &add, a, a, arena, &span));
  STEP(on->record(queues[0], said));
  if (status == REED_OK) {
    reed_status recorded = launch_add(&q, queues[0], &add, a, a, arena, NULL);
    if (recorded == REED_OK) recorded = on->copy_within(queues[0], a, arena, 64, NULL, said);
    status = on->end_record(queues[0], &graph, recorded == REED_OK ? said : NULL);
    if (recorded != REED_OK) status = recorded;
  }
  STEP(on->replay(queues[0], graph, NULL, said));
  STEP(on->synchronize(queues[0], &error, said));
  STEP(on->copy_out(queues[1], pinned, a, 64, NULL, said));
  STEP(on->synchronize(queues[1], &error, said));
#undef STEP
  for (int i = 0; i < 2; i++)
    if (queues[i]) (void)on->synchronize(queues[i], &error, NULL);
  if (graph) on->drop(dev, graph);
  if (event) on->event_close(dev, event);
  on->release(dev, a, queues[0]);
  on->release(dev, arena, queues[0]);
  on->release_pinned(dev, pinned);
  if (add.free) add.free(add.state);
  for (int i = 0; i < 2; i++)
    if (queues[i]) on->queue_close(queues[i]);
  device_close(&dev);
  return status;
}

/* Launches that no graph records are counted in the profile's file, one line for each device that was open. */
START_TEST(a_profile_has_a_line_for_each_kernel_that_ran) {
  char path[] = "/tmp/test_module_XXXXXX", name[96], line[128], kernel[64];
  reed_diagnosis said = {0};
  const int file = mkstemp(path);
  ck_assert_int_ge(file, 0);
  close(file);
  snprintf(name, sizeof name, "cuda-emulated?late=1&profile=%s&seed=1", path);
  for (int i = 0; i < 2; i++) ck_assert_int_eq(use_everything(name, &said), REED_OK);
  FILE *in = fopen(path, "r");
  ck_assert_ptr_nonnull(in);
  for (int i = 0; i < 2; i++) {
    int n_launches = 0;
    double us = -1;
    ck_assert_ptr_nonnull(fgets(line, sizeof line, in));
    ck_assert_int_eq(sscanf(line, "%63[a-z0-9_]\t%d\t%lf\n", kernel, &n_launches, &us), 3);
    ck_assert_str_eq(kernel, "reed_map_words");
    ck_assert_int_eq(n_launches, 1); /* the recorded one and its replay do not count */
    ck_assert_double_ge(us, 0);
  }
  ck_assert_ptr_null(fgets(line, sizeof line, in));
  fclose(in);
  unlink(path);
}
END_TEST

/* The number of the last call of the driver without which the device does not open. */
static int calls_of_opening(void) {
  int last = 0;
  for (int n = 1; n <= last + 40; n++) {
    char name[64];
    device *dev = NULL;
    snprintf(name, sizeof name, "cuda-emulated?fail_call=%d", n);
    if (device_open(name, &dev, NULL) != REED_OK) last = n;
    device_close(&dev);
  }
  return last;
}

/* Each call of the driver fails once: the failure is reported or made up for, nothing is lost (the fake driver counts),
 * and the card works again. */
START_TEST(every_call_of_the_driver_is_failed_once) {
  static const char *const options[] = {"fail_call", "fail_memory", "profile=/dev/null&fail_call", "fail_context"};
  static const int least[] = {40, 2, 40, 15}; /* most requests for memory are tried twice, most contexts only left */
  reed_diagnosis said = {0};
  int n_reported = 0, n = 1;
  const int last = calls_of_opening() + 100;
  for (bool failed = true; failed; n++) {
    char name[64];
    snprintf(name, sizeof name, "cuda-emulated?%s=%d", options[_i], n);
    said.message[0] = 0;
    reed_status status = use_everything(name, &said);
    n_reported += status != REED_OK;
    if (status != REED_OK)
      ck_assert_msg(strstr(said.message, "told to fail") != NULL || _i == 1, "%d: %s", n, said.message);
    ck_assert_int_lt(n, 500); /* without a failure to report no run fails */
    if (_i == 1) failed = status != REED_OK || n < 12;
    else failed = n < last;
  }
  ck_assert_int_ge(n_reported, least[_i]);
  ck_assert_int_eq(use_everything("cuda-emulated", &said), REED_OK);
}
END_TEST

/* A block is released after enqueued work that uses it, while another block takes its place. */
static reed_status release_behind_work(const char *name, int64_t room_bytes, reed_diagnosis *said) {
  device *dev = NULL;
  device_queue *queue = NULL;
  device_error error;
  void *slot = NULL, *block = NULL, *next = NULL;
  reed_status status = device_open(name, &dev, said);
  if (status != REED_OK) return status;
  const device_interface *on = dev->interface;
  status = on->queue_open(dev, DEVICE_COMPUTE, &queue, said);
  if (status == REED_OK) status = on->allocate_pinned(dev, 64, &slot, said);
  if (status == REED_OK) status = on->allocate(dev, 64, room_bytes, &block, said);
  if (status == REED_OK) memset(slot, 0, 64);
  if (status == REED_OK) status = on->copy_in(queue, block, slot, 64, NULL, said);
  on->release(dev, block, queue);
  if (status == REED_OK) status = on->allocate(dev, 64, room_bytes, &next, said);
  on->release(dev, next, NULL);
  const reed_status waited = queue ? on->synchronize(queue, &error, status == REED_OK ? said : NULL) : REED_OK;
  on->release_pinned(dev, slot);
  if (queue) on->queue_close(queue);
  device_close(&dev);
  return status == REED_OK ? waited : status;
}

/* A release that cannot record its event waits for the work: no work meets released memory. */
START_TEST(a_release_whose_event_fails_waits) {
  const int first = calls_of_opening();
  for (int n = first; n < first + 60; n++)
    for (int seed = 1; seed < 4; seed++) {
      reed_diagnosis said = {0};
      char name[64];
      snprintf(name, sizeof name, "cuda-emulated?late=1&seed=%d&fail_call=%d", seed, n);
      reed_status status = release_behind_work(name, _i ? 1 << 20 : 0, &said);
      ck_assert_msg(status == REED_OK || strstr(said.message, "told to fail"), "%s: %s", name, said.message);
    }
}
END_TEST

/* An event about which the driver gives no answer is waited for: its copy has run. */
START_TEST(an_event_without_an_answer_is_waited_for) {
  const int first = calls_of_opening();
  int n_done = 0;
  for (int n = first; n < first + 40; n++) {
    char name[64];
    reed_diagnosis said = {0};
    device *dev = NULL;
    device_queue *queue = NULL;
    device_event *event = NULL;
    void *slot = NULL, *block = NULL;
    snprintf(name, sizeof name, "cuda-emulated?late=1&%s=%d", _i ? "fail_context" : "fail_call",
             _i ? n - first + 1 : n);
    if (device_open(name, &dev, &said) != REED_OK) continue;
    const device_interface *on = dev->interface;
    reed_status status = on->queue_open(dev, DEVICE_COMPUTE, &queue, &said);
    if (status == REED_OK) status = on->event_open(dev, &event, &said);
    if (status == REED_OK) status = on->allocate_pinned(dev, 64, &slot, &said);
    if (status == REED_OK) status = on->allocate(dev, 64, 0, &block, &said);
    if (status == REED_OK) memset(slot, 7, 64);
    if (status == REED_OK) status = on->copy_in(queue, block, slot, 32, NULL, &said);
    if (status == REED_OK) status = on->copy_out(queue, (char *)slot + 32, block, 32, NULL, &said);
    if (status == REED_OK) status = on->event_record(queue, event, &said);
    if (status == REED_OK && on->event_done(dev, event)) {
      n_done++;
      ck_assert_msg(((char *)slot)[32] == 7, "%s: the copy has not run", name);
    }
    if (event) on->event_close(dev, event);
    if (queue) on->queue_close(queue);
    on->release(dev, block, NULL);
    on->release_pinned(dev, slot);
    device_close(&dev);
  }
  ck_assert_int_eq(n_done, _i ? 0 : 1);
}
END_TEST

START_TEST(every_request_of_host_memory_is_failed_once) {
  int64_t n = 1;
  for (bool reached = true; reached; n++) {
    reed_diagnosis said = {0};
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    reed_status status = use_everything("cuda-emulated", &said);
    reached = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    if (!reached) ck_assert_int_eq(status, REED_OK);
    else
      ck_assert_msg(status == REED_OK || status == REED_ERROR_MEMORY || strstr(said.message, "memory") != NULL,
                    "%lld: %s", (long long)n, said.message);
  }
  ck_assert_int_gt(n, 20);
}
END_TEST

/* A failure of enqueued work is reported by synchronize, with the driver's words. */
START_TEST(a_failing_launch_is_reported) {
  both_queues q = open_both("cuda-emulated?late=1&fail_work=1");
  reed_kernel add = {0};
  device_error error;
  void *a = memory_of(&q, 4), *b = memory_of(&q, 4);
  MUST(prepare_add(q.dev, 1, &add, q.said));
  MUST(launch_add(&q, q.compute, &add, a, a, b, NULL));
  ck_assert_int_eq(q.on->synchronize(q.compute, &error, q.said), REED_ERROR_DEVICE);
  ck_assert_msg(strstr(reed_diagnosis_message(q.said), "launch or copy 1 was told to fail") != NULL, "%s",
                reed_diagnosis_message(q.said));
  ck_assert_int_eq(q.on->copy_within(q.compute, a, b, 4, NULL, q.said), REED_ERROR_DEVICE); /* the card is lost */
  add.free(add.state);
  q.on->release(q.dev, a, NULL);
  q.on->release(q.dev, b, NULL);
  close_both(&q); /* and can still be closed */
}
END_TEST

/* With `check=1` a launch is waited for, so that its own call fails. */
START_TEST(a_checked_launch_fails_itself) {
  both_queues q = open_both("cuda-emulated?late=1&check=1&fail_work=1");
  reed_kernel add = {0};
  void *a = memory_of(&q, 4), *b = memory_of(&q, 4);
  MUST(prepare_add(q.dev, 1, &add, q.said));
  ck_assert_int_eq(launch_add(&q, q.compute, &add, a, a, b, NULL), REED_ERROR_DEVICE);
  add.free(add.state);
  q.on->release(q.dev, a, NULL);
  q.on->release(q.dev, b, NULL);
  close_both(&q);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cuda");
  TCase *tests = tcase_create("module");
  tcase_set_timeout(tests, 120);
  tcase_add_loop_test(tests, events_order_the_queues, 0, N_NAMES);
  tcase_add_test(tests, a_forgotten_event_shows);
  tcase_add_loop_test(tests, an_early_reuse_of_pinned_memory_is_caught, 0, 4);
  tcase_add_test(tests, an_early_read_of_a_result_shows);
  tcase_add_loop_test(tests, memory_that_is_not_pinned_is_staged, 0, N_NAMES);
  tcase_add_loop_test(tests, memory_grows_in_place, 0, N_NAMES);
  tcase_add_loop_test(tests, spans_lie_within_the_calls_and_in_order, 0, N_NAMES);
  tcase_add_test(tests, what_cannot_be_opened_is_refused_in_a_sentence);
  tcase_add_test(tests, a_profile_has_a_line_for_each_kernel_that_ran);
  tcase_add_test(tests, a_full_card_says_what_was_asked_and_what_is_live);
  tcase_add_loop_test(tests, a_full_card_waits_for_released_memory, 0, 2);
  tcase_add_loop_test(tests, a_closed_queue_has_done_its_work, 1, 17);
  tcase_add_test(tests, a_described_card_has_its_memory);
  tcase_add_loop_test(tests, every_call_of_the_driver_is_failed_once, 0, 4);
  tcase_add_loop_test(tests, a_release_whose_event_fails_waits, 0, 2);
  tcase_add_loop_test(tests, an_event_without_an_answer_is_waited_for, 0, 2);
  tcase_add_test(tests, every_request_of_host_memory_is_failed_once);
  tcase_add_test(tests, a_failing_launch_is_reported);
  tcase_add_test(tests, a_checked_launch_fails_itself);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
