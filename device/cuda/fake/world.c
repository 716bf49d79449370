/* The fake driver's worlds: contexts of threads, cards, sentences, and the failures that options tell. Opening and
 * closing a world: open.c. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "device/cuda/fake/state.h"

fake_world *fake_worlds[FAKE_WORLDS];
fake_world *fake_opening;

/* ---- contexts of the calling thread ---- */

static _Thread_local struct {
  cu_context items[8];
  int n;
} stack;

cu_context fake_current(void) { return stack.n ? stack.items[stack.n - 1] : NULL; }

/* Counts an entering or leaving. */
static cu_result told_of_context(fake_world *world, const char *function) {
  cu_result result = CU_SUCCESS;
  uv_mutex_lock(&world->lock);
  const int64_t call = ++world->n_context_calls;
  if (call == world->options.fail_context)
    result = fake_say(world, CU_UNKNOWN, "call %lld for a context, %s, was told to fail", (long long)call, function);
  uv_mutex_unlock(&world->lock);
  return result;
}

cu_result fake_context_push(cu_context context) {
  if (!context || stack.n == (int)(sizeof stack.items / sizeof *stack.items)) return CU_INVALID_CONTEXT;
  const cu_result told = told_of_context(context->world, "cuCtxPushCurrent");
  if (!told) stack.items[stack.n++] = context;
  return told;
}

cu_result fake_context_pop(cu_context *out_context) {
  if (!stack.n) return CU_INVALID_CONTEXT;
  *out_context = stack.items[--stack.n];
  return told_of_context((*out_context)->world, "cuCtxPopCurrent");
}

cu_result fake_context_current(cu_context *out_context) {
  *out_context = fake_current();
  return CU_SUCCESS;
}

/* ---- calls ---- */

/* The process that first started the driver; 0: none has. A driver that was started before a fork does not work in the
 * child, even if every device had been closed: cuInit returns CUDA_ERROR_NOT_INITIALIZED. */
static _Atomic pid_t starter;

static bool is_forked(void) {
  pid_t none = 0;
  return !atomic_compare_exchange_strong(&starter, &none, getpid()) && none != getpid();
}

cu_result fake_say(fake_world *world, cu_result error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(world->said, sizeof world->said, format, arguments);
  va_end(arguments);
  return error;
}

cu_result fake_say_sticky(fake_world *world) {
  if (world->sticky) memcpy(world->said, world->sentence, sizeof world->said);
  return world->sticky;
}

static cu_result told_to_fail(fake_world *world, const char *function) {
  int64_t call = ++world->n_calls;
  if (call != world->options.fail_call) return CU_SUCCESS;
  return fake_say(world, CU_UNKNOWN, "call %lld of the driver, %s, was told to fail", (long long)call, function);
}

cu_result fake_enter_undo(fake_world **out_world, const char *function, cu_result *out_told) {
  cu_context context = fake_current();
  if (!context) return CU_INVALID_CONTEXT;
  if (is_forked()) return CU_NOT_INITIALIZED;
  *out_world = context->world;
  uv_mutex_lock(&context->world->lock);
  *out_told = told_to_fail(context->world, function);
  return CU_SUCCESS;
}

cu_result fake_enter(fake_world **out_world, const char *function) {
  cu_result told = CU_SUCCESS, result = fake_enter_undo(out_world, function, &told);
  if (result) return result;
  if (!told) told = fake_say_sticky(*out_world);
  if (told) fake_leave(*out_world);
  return told;
}

void fake_leave(fake_world *world) { uv_mutex_unlock(&world->lock); }

static size_t card_bytes(const fake_world *world) {
  int64_t bytes = world->options.memory ? world->options.memory : world->options.card->memory;
  return bytes ? (size_t)bytes : (size_t)uv_get_total_memory();
}

cu_result fake_take_memory(fake_world *world, int card, size_t bytes, const char *function) {
  if (++world->n_memory_calls == world->options.fail_memory)
    return fake_say(world, CU_OUT_OF_MEMORY, "out of memory: call %lld for memory, %s, was told to fail",
                    (long long)world->n_memory_calls, function);
  if (card < 0) return CU_SUCCESS;
  if (bytes > card_bytes(world) - world->used_bytes[card])
    return fake_say(world, CU_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
  world->used_bytes[card] += bytes;
  return CU_SUCCESS;
}

cu_result fake_error_text(cu_result error, const char **out_text) {
  const fake_world *world = fake_current() ? fake_current()->world : fake_opening;
  *out_text = error == CU_INVALID_CONTEXT ? "the calling thread has no current context"
              : error == CU_OUT_OF_MEMORY && world && !strstr(world->said, "memory") ? "out of memory"
              : world && world->said[0]                                              ? world->said
                                                                                     : "an error of the fake driver";
  return CU_SUCCESS;
}

cu_result fake_error_name(cu_result error, const char **out_text) { return fake_error_text(error, out_text); }

/* ---- cards ---- */

fake_world *fake_world_of(int ordinal) {
  int number = ordinal / FAKE_CARDS;
  return ordinal >= 0 && number < FAKE_WORLDS ? fake_worlds[number] : NULL;
}

/* Begins a driver's function that needs no context; calls of a world's functions are counted. */
static cu_result begin(fake_world *world, const char *function) {
  if (!world) return CU_INVALID_DEVICE;
  uv_mutex_lock(&world->lock);
  cu_result told = told_to_fail(world, function);
  uv_mutex_unlock(&world->lock);
  return told;
}

cu_result fake_init(unsigned flags) {
  if (is_forked())
    return fake_say(fake_opening, CU_NOT_INITIALIZED, "it was started before this process was forked from its parent");
  return flags ? CU_INVALID_VALUE : begin(fake_opening, "cuInit");
}

cu_result fake_driver_version(int *out_version) {
  *out_version = fake_opening->options.version ? (int)fake_opening->options.version : 13000;
  return begin(fake_opening, "cuDriverGetVersion");
}

cu_result fake_device_count(int *out_count) {
  *out_count = FAKE_CARDS;
  return begin(fake_opening, "cuDeviceGetCount");
}

cu_result fake_device_get(cu_device *out_device, int ordinal) {
  *out_device = ordinal;
  return begin(fake_world_of(ordinal), "cuDeviceGet");
}

cu_result fake_device_name(char *out_name, int capacity, cu_device device) {
  const fake_world *world = fake_world_of(device);
  if (world) snprintf(out_name, (size_t)capacity, "emulated %s", world->options.card->full_name);
  return begin(fake_world_of(device), "cuDeviceGetName");
}

cu_result fake_device_attribute(int *out_value, int attribute, cu_device device) {
  const fake_world *world = fake_world_of(device);
  if (!world) return CU_INVALID_DEVICE;
  const fake_card *card = world->options.card;
  switch (attribute) {
    case CU_MULTIPROCESSORS: *out_value = card->multiprocessors; break;
    case CU_CAPABILITY_MAJOR: *out_value = card->major; break;
    case CU_CAPABILITY_MINOR: *out_value = card->minor; break;
    case CU_SHARED_BYTES: *out_value = SIMT_SHARED_DEFAULT; break;
    case CU_SHARED_BYTES_OPT_IN: *out_value = card->shared_bytes; break;
    case CU_VIRTUAL_MEMORY:
    case CU_MEMORY_POOLS: *out_value = 1; break;
    default: return CU_INVALID_VALUE;
  }
  return begin(fake_world_of(device), "cuDeviceGetAttribute");
}

cu_result fake_device_memory(size_t *out_bytes, cu_device device) {
  fake_world *world = fake_world_of(device);
  if (world) *out_bytes = card_bytes(world);
  return begin(world, "cuDeviceTotalMem");
}

cu_result fake_memory_info(size_t *out_free, size_t *out_total) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuMemGetInfo");
  if (result) return result;
  *out_total = card_bytes(world);
  *out_free = *out_total - world->used_bytes[fake_current()->card];
  fake_leave(world);
  return CU_SUCCESS;
}

cu_result fake_context_retain(cu_context *out_context, cu_device device) {
  fake_world *world = fake_world_of(device);
  cu_result result = begin(world, "cuDevicePrimaryCtxRetain");
  if (result) return result;
  cu_context context = &world->contexts[device % FAKE_CARDS];
  *context = (struct CUctx_st){world, device % FAKE_CARDS, context->n_retained + 1};
  world->n_live[FAKE_CONTEXT]++;
  *out_context = context;
  return CU_SUCCESS;
}

cu_result fake_context_release(cu_device device) {
  fake_world *world = fake_world_of(device);
  cu_result told = begin(world, "cuDevicePrimaryCtxRelease");
  if (!world || world->contexts[device % FAKE_CARDS].n_retained == 0) return CU_INVALID_CONTEXT;
  world->contexts[device % FAKE_CARDS].n_retained--;
  world->n_live[FAKE_CONTEXT]--;
  return told;
}
