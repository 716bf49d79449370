/* The fake driver's streams and events: calls that enqueue work, and calls that wait for it. Captures and graphs:
 * capture.c. The thread that runs the work: perform.c. */
#include <string.h>

#include "base/mem.h"
#include "device/cuda/fake/state.h"

/* ---- work ---- */

uint64_t fake_checksum(const void *data, size_t bytes) {
  const unsigned char *at = data;
  uint64_t sum = 0xcbf29ce484222325ull; /* FNV-1a, by words where there are any */
  for (; bytes >= 8; at += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    sum = (sum ^ word) * 0x100000001b3ull;
    sum ^= sum >> 29;
  }
  for (; bytes; at++, bytes--) sum = (sum ^ *at) * 0x100000001b3ull;
  return sum;
}

void fake_work_free(fake_world *world, fake_work *work) {
  if (work->event && --work->event->n_pending == 0 && work->event->destroyed) mem_free(work->event);
  if (work->kind == FAKE_REPLAY) fake_graph_release(world, work->graph);
  mem_free(work->staged);
  mem_free(work->args);
  mem_free(work);
}

/* Puts the work at the end of the stream, or into the graph that the stream captures. */
static void enqueue(cu_stream stream, fake_work *work) {
  fake_world *world = stream->world;
  if (stream->capture) {
    *stream->capture->last = work;
    stream->capture->last = &work->next;
    return;
  }
  work->order = world->n_order++;
  if (stream->head) stream->tail->next = work;
  else stream->head = work;
  stream->tail = work;
  stream->n_pending++;
  uv_cond_broadcast(&world->ready);
}

void fake_drain(cu_stream stream) {
  fake_world *world = stream->world;
  world->n_waiting++;
  uv_cond_broadcast(&world->ready);
  while (stream->n_pending) uv_cond_wait(&world->idle, &world->lock);
  world->n_waiting--;
}

/* True if some of the work has yet to use some of the bytes of pinned memory. */
static bool uses(const fake_work *first, const char *data, size_t bytes) {
  const char *const end = data + bytes;
  for (const fake_work *work = first; work; work = work->next) {
    const char *const of_copy = work->kind == FAKE_COPY_IN ? work->source : work->target;
    if (work->range && of_copy && of_copy < end && of_copy + work->bytes > data) return true;
    if (work->kind == FAKE_REPLAY && uses(work->graph->first, data, bytes)) return true;
    for (int32_t i = 0; i < work->n_operands; i++) {
      const char *const at = work->operands[i].data;
      if (at < end && at + work->operands[i].bytes > data) return true;
    }
  }
  return false;
}

/* The same of all enqueued work. */
static bool is_taken(const fake_world *world, const char *data, size_t bytes) {
  for (const struct CUstream_st *stream = world->streams; stream; stream = stream->next)
    if (uses(stream->head, data, bytes)) return true;
  return false;
}

bool fake_is_used(const fake_world *world, const fake_range *pinned) {
  return is_taken(world, pinned->data, pinned->bytes);
}

/* ---- default streams ---- */

cu_result fake_find_stream(fake_world *world, const char *function, cu_stream *stream) {
  const uintptr_t number = (uintptr_t)*stream;
  const uv_thread_t here = uv_thread_self();
  if (!number) return fake_say(world, CU_INVALID_HANDLE, "%s: the default stream has number 1 here, not 0", function);
  if (number > 2)
    return (*stream)->world == world
               ? CU_SUCCESS
               : fake_say(world, CU_INVALID_HANDLE, "%s: the stream is of another context", function);
  const fake_stream_kind kind = number == 1 ? FAKE_LEGACY : FAKE_PER_THREAD;
  for (cu_stream known = world->streams; known; known = known->next)
    if (known->kind == kind && known->card == fake_current()->card &&
        (kind == FAKE_LEGACY || uv_thread_equal(&known->owner, &here)))
      return *stream = known, CU_SUCCESS;
  cu_stream made = mem_calloc(1, sizeof *made);
  if (!made) return fake_say(world, CU_OUT_OF_MEMORY, "%s: no memory for a default stream", function);
  *made = (struct CUstream_st){
      .next = world->streams, .world = world, .kind = kind, .card = fake_current()->card, .owner = here};
  return *stream = world->streams = made, CU_SUCCESS;
}

bool fake_is_held(const fake_world *world, const struct CUstream_st *stream) {
  for (const struct CUstream_st *other = world->streams; other && !stream->non_blocking; other = other->next)
    if (other != stream && other->card == stream->card && !other->non_blocking && other->head &&
        other->head->order < stream->head->order && (other->kind == FAKE_LEGACY || stream->kind == FAKE_LEGACY))
      return true;
  return false;
}

/* Enters a call that enqueues work on the stream, and opens the record of the work. */
static cu_result begin(cu_stream *stream, const char *function, fake_work_kind kind, fake_world **out_world,
                       fake_work **out_work) {
  cu_result result = fake_enter(out_world, function);
  if (result) return result;
  result = fake_find_stream(*out_world, function, stream);
  if (!result && (*stream)->kind == FAKE_LEGACY) result = fake_legacy_work(*out_world, *stream, function);
  fake_work *work = result ? NULL : mem_calloc(1, sizeof *work);
  if (work) {
    work->kind = kind;
    *out_work = work;
    return CU_SUCCESS;
  }
  fake_leave(*out_world);
  return result ? result : CU_OUT_OF_MEMORY;
}

static cu_result end(cu_stream stream, fake_work *work, cu_result result) {
  fake_world *world = stream->world;
  if (result) fake_work_free(world, work);
  else enqueue(stream, work);
  fake_leave(world);
  return result;
}

/* ---- streams ---- */

/* Frees destroyed streams without work, unless a thread waits for streams. */
static void free_destroyed(fake_world *world) {
  for (cu_stream *at = &world->streams, stream; !world->n_waiting && (stream = *at);) {
    if (!stream->destroyed || stream->n_pending) {
      at = &stream->next;
      continue;
    }
    *at = stream->next;
    mem_free(stream);
  }
}

cu_result fake_stream_create(cu_stream *out_stream, unsigned flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuStreamCreate");
  if (result) return result;
  free_destroyed(world);
  cu_stream made = mem_calloc(1, sizeof *made);
  if (made) {
    made->world = world;
    made->card = fake_current()->card;
    made->non_blocking = flags == CU_NON_BLOCKING;
    made->next = world->streams;
    world->streams = made;
    world->n_live[FAKE_STREAM]++;
    *out_stream = made;
  }
  fake_leave(world);
  return made ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

cu_result fake_stream_destroy(cu_stream stream) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuStreamDestroy", &told);
  if (result) return result;
  if (stream->capture) fake_graph_release(world, stream->capture);
  stream->capture = NULL;
  stream->destroyed = true; /* its work runs all the same, as late as other work */
  world->n_live[FAKE_STREAM]--;
  free_destroyed(world);
  fake_leave(world);
  return told;
}

cu_result fake_stream_synchronize(cu_stream stream) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuStreamSynchronize");
  if (result) return result;
  result = fake_find_stream(world, "cuStreamSynchronize", &stream);
  if (!result && !stream->capture) result = fake_unsafe(world, "cuStreamSynchronize");
  if (result) {
    fake_leave(world);
    return result;
  }
  if (stream->capture) {
    stream->invalidated = true;
    result = fake_say(world, CU_CAPTURE_UNSUPPORTED, "cuStreamSynchronize: the stream is captured");
  } else {
    fake_drain(stream);
    result = fake_say_sticky(world);
  }
  fake_leave(world);
  return result;
}

cu_result fake_stream_wait(cu_stream stream, cu_event event, unsigned flags) {
  fake_world *world;
  fake_work *work;
  cu_result result = begin(&stream, "cuStreamWaitEvent", FAKE_WAIT, &world, &work);
  if (result) return result;
  if (flags) result = CU_INVALID_VALUE;
  else if (stream->capture)
    result = fake_say(world, CU_CAPTURE_ISOLATION, "cuStreamWaitEvent: the event was not recorded in the capture");
  if (!result && event->n_recorded == 0) { /* holds up nobody */
    fake_work_free(world, work);
    fake_leave(world);
    return CU_SUCCESS;
  }
  work->event = event;
  work->event->n_pending++;
  work->number = event->n_recorded;
  return end(stream, work, result);
}

/* ---- copies ---- */

static cu_result copy(cu_stream stream, const char *function, fake_work_kind kind, void *target, const void *source,
                      size_t bytes) {
  fake_world *world;
  fake_work *work;
  cu_result result = begin(&stream, function, kind, &world, &work);
  if (result) return result;
  const void *host = kind == FAKE_COPY_IN ? source : kind == FAKE_COPY_OUT ? target : NULL;
  work->target = target;
  work->source = source;
  work->bytes = bytes;
  if (!bytes) result = fake_say(world, CU_INVALID_VALUE, "%s: no bytes", function);
  if (!result && host && stream->capture) {
    stream->invalidated = true;
    result = fake_say(world, CU_CAPTURE_UNSUPPORTED, "%s: captured streams are given no host memory here", function);
  }
  fake_range *pinned = host && !result ? fake_range_of(world, host, FAKE_PINNED) : NULL;
  if (pinned && (size_t)(pinned->data + pinned->bytes - (const char *)host) < bytes)
    result = fake_say(world, CU_INVALID_VALUE, "%s: the copy runs past its block of pinned memory", function);
  if (pinned && !result) {
    work->range = pinned;
    work->guards = kind == FAKE_COPY_IN || !is_taken(world, target, bytes);
    if (kind == FAKE_COPY_OUT && work->guards) memset(target, FAKE_POISON, bytes); /* any bytes until it has run */
    work->checksum = fake_checksum(host, bytes);
  } else if (kind == FAKE_COPY_IN && !result) { /* a real driver stages such bytes before the call returns */
    work->staged = mem_alloc(bytes);
    if (work->staged) memcpy(work->staged, source, bytes);
    else result = CU_OUT_OF_MEMORY;
  }
  const bool wait = kind == FAKE_COPY_OUT && !pinned && !result;
  result = end(stream, work, result);
  if (!wait || result) return result;
  uv_mutex_lock(&world->lock);
  fake_drain(stream);
  result = fake_say_sticky(world);
  uv_mutex_unlock(&world->lock);
  return result;
}

cu_result fake_copy_in(cu_pointer target, const void *source, size_t bytes, cu_stream stream) {
  return copy(stream, "cuMemcpyHtoDAsync", FAKE_COPY_IN, (void *)(uintptr_t)target, source, bytes);
}

cu_result fake_copy_out(void *target, cu_pointer source, size_t bytes, cu_stream stream) {
  return copy(stream, "cuMemcpyDtoHAsync", FAKE_COPY_OUT, target, (void *)(uintptr_t)source, bytes);
}

cu_result fake_copy_within(cu_pointer target, cu_pointer source, size_t bytes, cu_stream stream) {
  return copy(stream, "cuMemcpyDtoDAsync", FAKE_COPY_WITHIN, (void *)(uintptr_t)target, (void *)(uintptr_t)source,
              bytes);
}

cu_result fake_fill(cu_pointer target, unsigned char value, size_t bytes, cu_stream stream) {
  return value == FAKE_POISON ? copy(stream, "cuMemsetD8Async", FAKE_FILL, (void *)(uintptr_t)target, NULL, bytes)
                              : CU_INVALID_VALUE;
}

/* ---- memory in stream order ---- */

cu_result fake_pool_allocate(cu_pointer *out_data, size_t bytes, cu_pool pool, cu_stream stream) {
  fake_world *world;
  fake_work *work;
  cu_result result = begin(&stream, "cuMemAllocFromPoolAsync", FAKE_ALLOCATE, &world, &work);
  if (result) return result;
  if (!bytes) result = fake_say(world, CU_INVALID_VALUE, "cuMemAllocFromPoolAsync: no bytes");
  if (!result) result = fake_take_memory(world, pool->card, bytes, "cuMemAllocFromPoolAsync");
  if (!result && !(work->range = fake_block_open(world, bytes))) {
    world->used_bytes[pool->card] -= bytes;
    result = fake_say(world, CU_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
  }
  if (!result) *out_data = (cu_pointer)(uintptr_t)work->range->data;
  return end(stream, work, result);
}

cu_result fake_pool_free(cu_pointer data, cu_stream stream) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuMemFreeAsync", &told);
  if (result) return result;
  fake_range *block = fake_range_of(world, (void *)(uintptr_t)data, FAKE_BLOCK);
  const bool begins = block && (uintptr_t)block->data == data;
  fake_work *work = begins ? mem_calloc(1, sizeof *work) : NULL;
  if (begins && !work) { /* without memory for a record, the call itself waits */
    fake_drain(stream);
    fake_block_free(world, block);
  } else if (work) {
    work->kind = FAKE_FREE;
    work->range = block;
    enqueue(stream, work);
  } else {
    result = fake_say(world, CU_INVALID_VALUE, "cuMemFreeAsync: not the beginning of a block");
  }
  fake_leave(world);
  return result ? result : told;
}

/* ---- events ---- */

cu_result fake_event_create(cu_event *out_event, unsigned flags) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuEventCreate");
  if (result) return result;
  cu_event made = mem_calloc(1, sizeof *made);
  if (made) {
    made->timing = flags != CU_EVENT_NO_TIMING;
    made->card = fake_current()->card;
    world->n_live[FAKE_EVENT]++;
    *out_event = made;
  }
  fake_leave(world);
  return made ? CU_SUCCESS : CU_OUT_OF_MEMORY;
}

cu_result fake_event_destroy(cu_event event) {
  fake_world *world;
  cu_result told, result = fake_enter_undo(&world, "cuEventDestroy", &told);
  if (result) return result;
  world->n_live[FAKE_EVENT]--;
  event->destroyed = true;
  if (!event->n_pending) mem_free(event);
  fake_leave(world);
  return told;
}

cu_result fake_event_record(cu_event event, cu_stream stream) {
  fake_world *world;
  fake_work *work;
  cu_result result = begin(&stream, "cuEventRecord", FAKE_RECORD, &world, &work);
  if (result) return result;
  if (stream->capture) result = fake_say(world, CU_CAPTURE_UNSUPPORTED, "cuEventRecord: the stream is captured");
  if (stream->card != event->card)
    result = fake_say(world, CU_INVALID_HANDLE, "cuEventRecord: event and stream are of two contexts");
  work->event = event;
  event->n_pending++;
  if (!result) {
    work->number = ++event->n_recorded;
    work->next_record = event->records;
    event->records = work;
  }
  return end(stream, work, result);
}

cu_result fake_event_query(cu_event event) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuEventQuery");
  if (result) return result;
  result = fake_unsafe(world, "cuEventQuery");
  if (!result && event->n_done != event->n_recorded) result = CU_NOT_READY;
  fake_leave(world);
  return result;
}

cu_result fake_event_synchronize(cu_event event) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuEventSynchronize");
  if (result) return result;
  result = fake_unsafe(world, "cuEventSynchronize");
  world->n_waiting++;
  uv_cond_broadcast(&world->ready);
  while (!result && event->n_done != event->n_recorded) uv_cond_wait(&world->idle, &world->lock);
  world->n_waiting--;
  if (!result) result = fake_say_sticky(world);
  fake_leave(world);
  return result;
}

cu_result fake_event_elapsed(float *out_ms, cu_event begin_event, cu_event end_event) {
  fake_world *world;
  cu_result result = fake_enter(&world, "cuEventElapsedTime");
  if (result) return result;
  if (!begin_event->timing || !end_event->timing || !begin_event->n_done || !end_event->n_done)
    result = fake_say(world, CU_INVALID_HANDLE, "cuEventElapsedTime: an event without time");
  else *out_ms = (float)((double)(end_event->done_ns - begin_event->done_ns) / 1e6);
  fake_leave(world);
  return result;
}

cu_result fake_graph_launch(cu_graph_exec exec, cu_stream stream) {
  fake_world *world;
  fake_work *work;
  cu_result result = begin(&stream, "cuGraphLaunch", FAKE_REPLAY, &world, &work);
  if (result) return result;
  work->graph = exec->graph;
  exec->graph->n_references++;
  if (stream->capture) result = fake_say(world, CU_CAPTURE_UNSUPPORTED, "cuGraphLaunch: the stream is captured");
  return end(stream, work, result);
}

/* ---- launches ---- */

/* The caller's array, which lives until its launch. */
static _Thread_local struct {
  const cu_operand *items;
  size_t n;
  const int *cancel;
  bool of_library;
} told;

void fake_operands(const cu_operand *operands, size_t n, const int *cancel) {
  told.items = operands;
  told.n = n;
  told.cancel = cancel;
  told.of_library = false;
}

void fake_tell_library(void) { told.of_library = true; }

/* Copies args and operands into the work. */
static cu_result take_launch(fake_work *work, const simt_kernel *kernel, const void *args) {
  const size_t args_bytes = (kernel->args_bytes + 15u) & ~(size_t)15;
  work->args = mem_alloc(args_bytes + told.n * sizeof(simt_operand));
  if (!work->args) return CU_OUT_OF_MEMORY;
  work->operands = (simt_operand *)(work->args + args_bytes);
  memcpy(work->args, args, kernel->args_bytes);
  for (size_t i = 0; i < told.n; i++)
    work->operands[i] = (simt_operand){told.items[i].data, told.items[i].bytes, told.items[i].written};
  work->n_operands = (int32_t)told.n;
  work->cancel = told.cancel;
  work->of_library = told.of_library;
  told.n = 0;
  told.cancel = NULL;
  return CU_SUCCESS;
}

cu_result fake_launch(cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream, void **parameters,
                      void **extra) {
  fake_world *world;
  fake_work *work;
  const simt_kernel *kernel = function->kernel;
  cu_result result = begin(&stream, "cuLaunchKernel", FAKE_LAUNCH, &world, &work);
  if (result) return result;
  const uint64_t threads = (uint64_t)block_x * block_y * block_z;
  if (!grid_x || !grid_y || !grid_z || grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535)
    result =
        fake_say(world, CU_INVALID_VALUE, "%s: a grid of %u x %u x %u blocks", kernel->name, grid_x, grid_y, grid_z);
  else if (!threads || threads > kernel->threads)
    result = fake_say(world, CU_INVALID_VALUE, "%s: %u threads, launch bounds %u", kernel->name, (unsigned)threads,
                      kernel->threads);
  else if (shared_bytes > function->shared_limit)
    result = fake_say(world, CU_INVALID_VALUE, "%s: %u bytes of shared memory without the opt-in", kernel->name,
                      shared_bytes);
  else if (extra || (uintptr_t)parameters[0] % kernel->args_align)
    result =
        fake_say(world, CU_INVALID_VALUE, "%s: the args are not aligned to %u bytes", kernel->name, kernel->args_align);
  for (size_t i = 0; i < told.n && !result; i++) {
    const bool pinned = fake_range_of(world, told.items[i].data, FAKE_PINNED) != NULL;
    if (!pinned && !fake_range_of(world, told.items[i].data, FAKE_BLOCK) &&
        !fake_range_of(world, told.items[i].data, FAKE_MAPPING))
      result = fake_say(world, CU_INVALID_VALUE, "%s: operand %zu is no memory of the card", kernel->name, i);
  }
  if (!result) result = take_launch(work, kernel, parameters[0]);
  work->function = function;
  memcpy(work->grid, (uint32_t[]){grid_x, grid_y, grid_z}, sizeof work->grid);
  memcpy(work->block, (uint32_t[]){block_x, block_y, block_z}, sizeof work->block);
  work->shared_bytes = shared_bytes;
  work->shared_limit = function->shared_limit > SIMT_SHARED_DEFAULT ? (uint32_t)world->options.card->shared_bytes
                                                                    : (uint32_t)SIMT_SHARED_DEFAULT;
  return end(stream, work, result);
}
