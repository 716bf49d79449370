/* The fake driver's worlds: opening and closing, contexts of threads, cards, and the failures that options tell. At the
 * end of a world every handle must have been given back. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/cuda/fake/state.h"

static fake_world *worlds[FAKE_WORLDS];
static fake_world *opening; /* the latest opened; device_open opens one device at a time */

/* ---- contexts of the calling thread ---- */

static _Thread_local struct {
  cu_context items[8];
  int n;
} stack;

cu_context fake_current(void) { return stack.n ? stack.items[stack.n - 1] : NULL; }

cu_result fake_context_push(cu_context context) {
  if (!context || stack.n == (int)(sizeof stack.items / sizeof *stack.items)) return CU_INVALID_CONTEXT;
  stack.items[stack.n++] = context;
  return CU_SUCCESS;
}

cu_result fake_context_pop(cu_context *out_context) {
  if (!stack.n) return CU_INVALID_CONTEXT;
  *out_context = stack.items[--stack.n];
  return CU_SUCCESS;
}

cu_result fake_context_current(cu_context *out_context) {
  *out_context = fake_current();
  return CU_SUCCESS;
}

/* ---- calls ---- */

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
  return world->options.memory ? (size_t)world->options.memory : (size_t)uv_get_total_memory();
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
  const fake_world *world = fake_current() ? fake_current()->world : opening;
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
  return ordinal >= 0 && number < FAKE_WORLDS ? worlds[number] : NULL;
}

/* Functions without a context: those of a world are counted, too. */
static cu_result begin(fake_world *world, const char *function) {
  if (!world) return CU_INVALID_DEVICE;
  uv_mutex_lock(&world->lock);
  cu_result told = told_to_fail(world, function);
  uv_mutex_unlock(&world->lock);
  return told;
}

cu_result fake_init(unsigned flags) { return flags ? CU_INVALID_VALUE : begin(opening, "cuInit"); }

cu_result fake_driver_version(int *out_version) {
  *out_version = opening->options.version ? (int)opening->options.version : 13000;
  return begin(opening, "cuDriverGetVersion");
}

cu_result fake_device_count(int *out_count) {
  *out_count = FAKE_CARDS;
  return begin(opening, "cuDeviceGetCount");
}

cu_result fake_device_get(cu_device *out_device, int ordinal) {
  *out_device = ordinal;
  return begin(fake_world_of(ordinal), "cuDeviceGet");
}

cu_result fake_device_name(char *out_name, int capacity, cu_device device) {
  snprintf(out_name, (size_t)capacity, "emulated card %d", device % FAKE_CARDS);
  return begin(fake_world_of(device), "cuDeviceGetName");
}

cu_result fake_device_attribute(int *out_value, int attribute, cu_device device) {
  switch (attribute) {
    case CU_MULTIPROCESSORS: *out_value = 132; break;
    case CU_CAPABILITY_MAJOR: *out_value = 9; break;
    case CU_CAPABILITY_MINOR: *out_value = 0; break;
    case CU_SHARED_BYTES: *out_value = SIMT_SHARED_DEFAULT; break;
    case CU_SHARED_BYTES_OPT_IN: *out_value = SIMT_SHARED_MOST; break;
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

/* ---- opening and closing ---- */

const char *const cuda_driver_options = "fail_call, fail_memory, fail_work, seed, late, order, memory, version";

static void read_options(const char *text, fake_options *out) {
  static const struct {
    const char *key;
    size_t at;
  } keys[] = {
#define KEY(name) {#name, offsetof(fake_options, name)}
      KEY(fail_call), KEY(fail_memory), KEY(fail_work), KEY(seed), KEY(late), KEY(order), KEY(memory), KEY(version),
#undef KEY
  };
  *out = (fake_options){0};
  while (*text) {
    size_t n = strcspn(text, "&"), n_key = strcspn(text, "=&");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
      if (strlen(keys[i].key) == n_key && memcmp(keys[i].key, text, n_key) == 0)
        *(int64_t *)((char *)out + keys[i].at) = strtoll(text + n_key + 1, NULL, 10); /* the module has checked it */
    text += n;
    text += *text == '&';
  }
}

static bool start(fake_world *world) {
  if (uv_mutex_init(&world->lock) != 0) return false;
  if (uv_cond_init(&world->ready) != 0) goto no_ready;
  if (uv_cond_init(&world->idle) != 0) goto no_idle;
  if (uv_thread_create(&world->thread, fake_thread, world) == 0) return true;
  uv_cond_destroy(&world->idle);
no_idle:
  uv_cond_destroy(&world->ready);
no_ready:
  uv_mutex_destroy(&world->lock);
  return false;
}

reed_status cuda_driver_open(const char *options, cuda_driver *out_driver, reed_diagnosis *diagnosis) {
  int number = 0;
  while (number < FAKE_WORLDS && worlds[number]) number++;
  fake_world *world = number < FAKE_WORLDS ? mem_calloc(1, sizeof *world) : NULL;
  if (!world) return diag_no_memory(diagnosis, "a fake driver");
  world->number = number;
  read_options(options, &world->options);
  world->random = (uint64_t)world->options.seed;
  if (!start(world)) {
    mem_free(world);
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'cuda-emulated': the system gave no thread");
  }
  opening = worlds[number] = world;
  *out_driver = (cuda_driver){
#define DRIVER(name, symbol, parameters) .name = fake_##name,
#include "device/cuda/driver/driver.def"
      .operands = fake_operands, .first_ordinal = number * FAKE_CARDS, .image = &fake_kernels};
  if (out_driver->init(0) == CU_SUCCESS) return REED_OK;
  reed_status status =
      diag_fail(diagnosis, REED_ERROR_DEVICE, "device 'cuda-emulated': the driver cannot start: %s", world->said);
  cuda_driver_close(out_driver);
  return status;
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
  uv_thread_join(&world->thread);
  for (int k = 0; k < FAKE_KINDS; k++) {
    if (!world->n_live[k]) continue;
    fprintf(stderr, "fake driver: %lld %s were not given back\n", (long long)world->n_live[k], names[k]);
    abort();
  }
  if (stack.n && stack.items[stack.n - 1]->world == world) {
    fprintf(stderr, "fake driver: the closing thread still has a context of the driver\n");
    abort();
  }
  VEC_FREE(&world->ranges);
  uv_cond_destroy(&world->idle);
  uv_cond_destroy(&world->ready);
  uv_mutex_destroy(&world->lock);
  worlds[world->number] = NULL;
  if (opening == world) opening = NULL;
  mem_free(world);
  *driver = (cuda_driver){0};
}
