/* The thread of a fake driver's world: chooses the stream whose work runs next, and runs that work. Work runs with the
 * card's memory closed but for its own operands. After an error nothing more runs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "device/cuda/fake/state.h"

cu_result fake_break(fake_world *world, cu_result error, const char *format, ...) {
  if (world->sticky) return world->sticky;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(world->sentence, sizeof world->sentence, format, arguments);
  va_end(arguments);
  return world->sticky = error;
}

/* ---- one piece of work ---- */

static void perform_copy(fake_world *world, const fake_work *work) {
  static const char *const names[] = {"a copy in", "a copy out", "a copy within", "a fill"};
  const char *wrong = NULL, *side = "target";
  const bool in = work->kind == FAKE_COPY_IN, out = work->kind == FAKE_COPY_OUT, fills = work->kind == FAKE_FILL;
  if (!out) wrong = fake_usable(world, work->target, work->bytes, false);
  if (!wrong && !in && !fills) {
    side = "source";
    wrong = fake_usable(world, work->source, work->bytes, false);
  }
  if (wrong) {
    (void)fake_break(world, CU_ILLEGAL_ADDRESS, "the %s of %s %s", side, names[work->kind], wrong);
    return;
  }
  if (work->guards && fake_checksum(in ? work->source : work->target, work->bytes) != work->checksum) {
    (void)fake_break(world, CU_UNKNOWN, "pinned memory was changed before the copy that %s it has run (%zu bytes)",
                     in ? "reads" : "writes", work->bytes);
    return;
  }
  if (!out) fake_open(world, work->target, work->bytes, true);
  if (!in && !fills) fake_open(world, work->source, work->bytes, true);
  if (fills) memset(work->target, FAKE_POISON, work->bytes);
  else memmove(work->target, work->staged ? work->staged : work->source, work->bytes);
  if (!out) fake_open(world, work->target, work->bytes, false);
  if (!in && !fills) fake_open(world, work->source, work->bytes, false);
}

/* Called under the lock, which is given up while the kernel runs. A launch of a cancelled run leaves its results
 * undefined: the run ends at its next synchronisation, and nothing reads them. */
static void perform_launch(fake_world *world, const fake_work *work) {
  char error[448];
  const simt_kernel *kernel = work->function->kernel;
  for (int32_t i = 0; i < work->n_operands; i++) {
    const char *wrong = fake_usable(world, work->operands[i].data, (size_t)work->operands[i].bytes, true);
    if (wrong) {
      (void)fake_break(world, CU_ILLEGAL_ADDRESS, "%s: operand %d %s", kernel->name, (int)i, wrong);
      return;
    }
  }
  const simt_launch launch = {.kernel = kernel,
                              .grid = {work->grid[0], work->grid[1], work->grid[2]},
                              .block = {work->block[0], work->block[1], work->block[2]},
                              .shared_bytes = work->shared_bytes,
                              .shared_limit = work->shared_limit,
                              .args = work->args,
                              .operands = work->operands,
                              .n_operands = work->n_operands,
                              .order = (uint64_t)world->options.order,
                              .warpgroups = world->options.card->major == 9,
                              .cancel = work->cancel};
  for (int32_t i = 0; i < work->n_operands; i++)
    fake_open(world, work->operands[i].data, (size_t)work->operands[i].bytes, true);
  uv_mutex_unlock(&world->lock);
  bool ran = simt_run(&launch, error, sizeof error);
  uv_mutex_lock(&world->lock);
  for (int32_t i = 0; i < work->n_operands; i++)
    fake_open(world, work->operands[i].data, (size_t)work->operands[i].bytes, false);
  if (!ran) (void)fake_break(world, CU_LAUNCH_FAILED, "%s", error);
}

static void perform(fake_world *world, const fake_work *work) {
  if (world->sticky) return;
  if (++world->n_work == world->options.fail_work) {
    (void)fake_break(world, CU_LAUNCH_FAILED, "launch or copy %lld was told to fail", (long long)world->n_work);
    return;
  }
  if (work->kind == FAKE_LAUNCH) perform_launch(world, work);
  else perform_copy(world, work);
}

/* Notes that a record of an event has run. */
static void record(const fake_work *work) {
  cu_event event = work->event;
  fake_work **at = &event->records;
  while (*at != work) at = &(*at)->next_record;
  *at = work->next_record;
  if (work->number > event->n_done) event->n_done = work->number;
}

/* True if the record for which the work waits has not run. */
static bool is_held_up(const fake_work *work) {
  const fake_work *one = work->kind == FAKE_WAIT ? work->event->records : NULL;
  while (one && one->number != work->number) one = one->next_record;
  return one;
}

/* Runs the first piece of a stream's work. Under the lock. */
static void run(fake_world *world, cu_stream stream) {
  const fake_work *const work = stream->head;
  if (work->kind == FAKE_LAUNCH) stream->clock_ns += work->of_library ? world->options.clock * 1000 : 1000000;
  switch (work->kind) {
    case FAKE_RECORD:
      record(work);
      work->event->done_ns = world->options.clock ? stream->clock_ns : (int64_t)uv_hrtime();
      break;
    case FAKE_WAIT: break;
    case FAKE_ALLOCATE: work->range->open = true; break;
    case FAKE_FREE: fake_block_free(world, work->range); break;
    case FAKE_REPLAY:
      for (const fake_work *one = work->graph->first; one; one = one->next) perform(world, one);
      break;
    case FAKE_COPY_IN:
    case FAKE_COPY_OUT:
    case FAKE_COPY_WITHIN:
    case FAKE_FILL:
    case FAKE_LAUNCH: perform(world, work); break;
  }
}

/* ---- the thread ---- */

/* The stream whose first work runs next; NULL: none may run. Under the lock. */
static cu_stream choose(fake_world *world) {
  cu_stream chosen = NULL;
  uint64_t n = 0;
  if (world->options.late && !world->n_waiting && !world->closing) return NULL;
  for (cu_stream stream = world->streams; stream; stream = stream->next) {
    const fake_work *work = stream->head;
    if (!work || is_held_up(work) || fake_is_held(world, stream)) continue;
    n++;
    if (!chosen || (world->options.seed ? random_next(&world->random) % n == 0 : work->order < chosen->head->order))
      chosen = stream;
  }
  return chosen;
}

void fake_thread(void *context) {
  fake_world *world = context;
  uv_mutex_lock(&world->lock);
  for (;;) {
    cu_stream stream = choose(world);
    if (!stream) {
      if (world->closing) break;
      uv_cond_wait(&world->ready, &world->lock);
      continue;
    }
    run(world, stream);
    fake_work *work = stream->head;
    stream->head = work->next;
    fake_work_free(world, work);
    stream->n_pending--;
    uv_cond_broadcast(&world->idle);
  }
  uv_mutex_unlock(&world->lock);
}
