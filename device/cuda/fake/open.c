/* Opens and closes worlds of the fake driver: their options, their threads, the table of functions. At the end of a
 * world every handle must have been given back. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/fake/state.h"
#include "ops/device_options.h"

static const fake_card any_card = {"", "card", 0, 132, SIMT_SHARED_MOST, 9, 0}, cards[] = {
#define CARD(name, full_name, gib, multiprocessors, shared_kib, major, minor) \
  {#name, full_name, (int64_t)(gib) << 30, multiprocessors, (shared_kib)*1024, major, minor},
#include "device/cuda/fake/cards.def"
};
static_assert(SIMT_SHARED_MOST == 227 * 1024, "the emulation has the shared memory of the largest card");

static reed_status find_card(const char *name, size_t n, const fake_card **out_card, reed_diagnosis *diagnosis) {
  char known[256] = "";
  for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
    if (strlen(cards[i].name) == n && memcmp(cards[i].name, name, n) == 0) return *out_card = &cards[i], REED_OK;
    size_t at = strlen(known);
    snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", cards[i].name);
  }
  return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                   "device 'cuda-emulated': there is no description of a card '%.*s'; "
                   "known: %s",
                   (int)n, name, known);
}

static reed_status read_options(const char *text, fake_options *out, reed_diagnosis *diagnosis) {
  static const device_option_place places[] = {
#define EMULATED_OPTION(key, most) {#key, offsetof(fake_options, key)},
#include "ops/device_options.def"
  };
  *out = (fake_options){.card = &any_card};
  const reed_status status =
      device_options_read("cuda-emulated", text, places, sizeof places / sizeof *places, out, diagnosis);
  size_t n;
  const char *card = device_option_word(text, "card", &n);
  return status == REED_OK && card ? find_card(card, n, &out->card, diagnosis) : status;
}

/* A build without a C++ compiler has no kernels for the emulation (no_threads.c). */
static reed_status need_threads(const char *options, reed_diagnosis *diagnosis) {
  const fake_image *kernels = fake_images[0];
  size_t n = 0;
  const char *values = device_option_word(options, "values", &n);
  if (kernels->kernels->run || (values && n == 1 && *values == '1')) return REED_OK;
  return diag_fail(diagnosis, REED_ERROR_DEVICE,
                   "device 'cuda-emulated': this build emulates no threads, because it had no C++ compiler; with "
                   "values=1 the host computes the results");
}

void cuda_driver_describe(json_writer *json) { (void)json; }

static bool make_locks(fake_world *world) {
  if (uv_mutex_init(&world->lock) != 0) return false;
  if (uv_cond_init(&world->ready) != 0) goto no_ready;
  if (uv_cond_init(&world->idle) == 0) return true;
  uv_cond_destroy(&world->ready);
no_ready:
  uv_mutex_destroy(&world->lock);
  return false;
}

reed_status cuda_driver_open(const char *options, cuda_driver *out_driver, reed_diagnosis *diagnosis) {
  int number = 0;
  fake_options read;
  reed_status status = read_options(options, &read, diagnosis);
  if (status == REED_OK) status = need_threads(options, diagnosis);
  if (status != REED_OK) return status;
  while (number < FAKE_WORLDS && fake_worlds[number]) number++;
  fake_world *world = number < FAKE_WORLDS ? mem_calloc(1, sizeof *world) : NULL;
  if (!world) return diag_no_memory(diagnosis, "a fake driver");
  world->number = number;
  world->options = read;
  world->random = (uint64_t)world->options.seed;
  if (!make_locks(world)) {
    mem_free(world);
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'cuda-emulated': the system gave no lock");
  }
  fake_opening = fake_worlds[number] = world;
  *out_driver = (cuda_driver){
#define DRIVER(name, symbol, parameters) .name = fake_##name,
#include "device/cuda/driver/driver.def"
      .operands = fake_operands, .count = fake_count, .first_ordinal = number * FAKE_CARDS, .images = fake_images};
  /* The thread comes last: a forked child is refused, and a start of a thread may wait there for locks of a sanitizer.
   */
  if (out_driver->init(0) != CU_SUCCESS)
    status =
        diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'cuda-emulated': the driver cannot start: %s", world->said);
  else if (uv_thread_create(&world->thread, fake_thread, world) != 0)
    status = diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'cuda-emulated': the system gave no thread");
  else world->has_thread = true;
  if (status == REED_OK) return REED_OK;
  cuda_driver_close(out_driver);
  return status;
}

/* For tests: the functions of the driver that was opened last, as another user of the driver in this process calls
 * them. */
REED_API void reed_fake_driver(cuda_driver *out_driver);
void reed_fake_driver(cuda_driver *out_driver) {
  *out_driver = (cuda_driver){
#define DRIVER(name, symbol, parameters) .name = fake_##name,
#include "device/cuda/driver/driver.def"
      .first_ordinal = fake_opening ? fake_opening->number * FAKE_CARDS : 0};
}

void cuda_driver_close(cuda_driver *driver) {
  static const char *const names[] = {
#define X(kind, text) text,
      FAKE_HANDLES(X)
#undef X
  };
  fake_world *world = fake_world_of(driver->first_ordinal);
  uv_mutex_lock(&world->lock);
  world->closing = true;
  uv_cond_broadcast(&world->ready);
  uv_mutex_unlock(&world->lock);
  if (world->has_thread) uv_thread_join(&world->thread);
  for (int k = 0; k < FAKE_KINDS; k++) {
    if (!world->n_live[k]) continue;
    fprintf(stderr, "fake driver: %lld %s were not given back\n", (long long)world->n_live[k], names[k]);
    abort();
  }
  if (fake_current() && fake_current()->world == world) {
    fprintf(stderr, "fake driver: the closing thread still has a context of the driver\n");
    abort();
  }
  for (cu_stream stream = world->streams, next; stream; stream = next) { /* default streams, destroyed ones */
    next = stream->next;
    mem_free(stream);
  }
  VEC_FREE(&world->ranges);
  uv_cond_destroy(&world->idle);
  uv_cond_destroy(&world->ready);
  uv_mutex_destroy(&world->lock);
  fake_worlds[world->number] = NULL;
  if (fake_opening == world) fake_opening = NULL;
  mem_free(world);
  *driver = (cuda_driver){0};
}
