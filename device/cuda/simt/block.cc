/* Running the blocks of a launch (simt.h): the order of their threads, barriers, faults. Shuffles and votes: warp.cc;
 * accesses: memory.cc. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <numeric>

#include "base/cancel.h"
#include "device/cuda/simt/state.hpp"

__thread simt_block *simt_now;
__thread dim3 simt_thread_idx, simt_block_idx, simt_block_dim, simt_grid_dim;

#if SIMT_TSAN
extern "C" {
void __tsan_acquire(void *address);
void __tsan_release(void *address);
}
static void order_before(char *place) { __tsan_release(place); }
static void order_after(char *place) { __tsan_acquire(place); }
#else
static void order_before(char *) {}
static void order_after(char *) {}
#endif
/* Addresses by which the thread sanitizer knows the order that a block's begin and end make. */
static char begin_place, end_place;

/* ---- faults ---- */

static void note(simt_block *block, const simt_thread *thread, const char *format, va_list arguments) {
  if (block->failed) return;
  block->failed = true;
  int n = snprintf(block->error, sizeof block->error, "kernel %s, block (%u,%u,%u)", block->launch->kernel->name,
                   block->index.x, block->index.y, block->index.z);
  if (thread)
    n += snprintf(block->error + n, sizeof block->error - static_cast<size_t>(n), ", thread (%u,%u,%u)",
                  thread->index.x, thread->index.y, thread->index.z);
  n += snprintf(block->error + n, sizeof block->error - static_cast<size_t>(n), ": ");
  vsnprintf(block->error + n, sizeof block->error - static_cast<size_t>(n), format, arguments);
}

void simt_note(simt_block *block, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  note(block, nullptr, format, arguments);
  va_end(arguments);
}

void simt_fail(const char *format, ...) {
  simt_block *block = simt_now;
  va_list arguments;
  va_start(arguments, format);
  if (!block) { /* the sanitizer's finding lies in the module's own code */
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    abort();
  }
  note(block, &block->threads[block->current], format, arguments);
  va_end(arguments);
  order_before(&end_place);
  fiber_switch(block->threads[block->current].fiber, &block->scheduler);
  abort(); /* a thread at fault does not go on */
}

/* ---- threads ---- */

static void enter(simt_block *block, uint32_t i) {
  block->current = i;
  simt_thread_idx = block->threads[i].index;
}

/* The next thread of the running warp that has not begun; false: none is left. */
static bool next_new(simt_block *block, uint32_t *out_i) {
  for (; block->warp_next < block->warp_end; block->warp_next++) {
    *out_i = block->thread_order[block->warp_next];
    if (block->threads[*out_i].state == THREAD_NEW) return true;
  }
  return false;
}

/* A fiber runs thread after thread, so that threads that never wait cost no switch. */
static void run_threads() {
  for (;;) {
    simt_block *block = simt_now;
    const uint32_t fiber = static_cast<uint32_t>(block->threads[block->current].fiber - block->fibers);
    for (;;) {
      order_after(&begin_place);
      block->launch->kernel->run(block->launch->args);
      order_before(&end_place);
      block = simt_now;
      simt_thread *thread = &block->threads[block->current];
      thread->state = THREAD_LEFT;
      thread->fiber = nullptr;
      block->n_left++;
      uint32_t next;
      if (SIMT_TSAN || !next_new(block, &next)) break;
      block->threads[next].state = THREAD_READY;
      block->threads[next].fiber = &block->fibers[fiber];
      enter(block, next);
    }
    if (!SIMT_TSAN) block->idle[block->n_idle++] = fiber; /* that sanitizer wants one a thread: see run_block */
    fiber_switch(&block->fibers[fiber], &block->scheduler);
  }
}

void simt_wait(simt_block *block, char *place) {
  const uint32_t me = block->current;
  order_before(place);
  fiber_switch(block->threads[me].fiber, &block->scheduler);
  order_after(place);
}

/* Lets a thread that is new or ready run until it waits or leaves. False: no memory for a fiber. */
static bool run_one(simt_block *block, uint32_t i) {
  simt_thread *thread = &block->threads[i];
  if (thread->state == THREAD_NEW) {
    if (!block->n_idle) {
      simt_fiber *fiber = &block->fibers[block->n_fibers];
      if (!fiber_open(fiber)) return simt_note(block, "no memory for the stacks of threads"), false;
      fiber_begin(fiber, run_threads);
      block->idle[block->n_idle++] = block->n_fibers++;
    }
    thread->fiber = &block->fibers[block->idle[--block->n_idle]];
    thread->state = THREAD_READY;
  }
  enter(block, i);
  fiber_switch(&block->scheduler, thread->fiber);
  return !block->failed;
}

/* ---- barriers ---- */

int simt_barrier(simt_barrier_kind kind, int predicate, const char *file, int line) {
  simt_block *block = simt_now;
  simt_thread *me = &block->threads[block->current];
  me->state = THREAD_AT_BARRIER;
  me->kind = kind;
  me->value = predicate != 0;
  me->file = file;
  me->line = line;
  simt_wait(block, &block->barrier_places[block->interval % 2]);
  return static_cast<int>(me->result);
}

/* All threads wait at barriers or have left: lets them go on if they wait at one barrier. */
static bool release_barrier(simt_block *block) {
  const simt_thread *first = nullptr;
  uint64_t count = 0;
  for (uint32_t i = 0; i < block->n_threads; i++) {
    const simt_thread *t = &block->threads[i];
    if (t->state == THREAD_LEFT) continue;
    if (first && (t->line != first->line || t->kind != first->kind || !same_file(t->file, first->file)))
      return simt_note(block,
                       "thread (%u,%u,%u) waits at __syncthreads of %s:%d while thread (%u,%u,%u) waits at %s:%d",
                       first->index.x, first->index.y, first->index.z, first->file, first->line, t->index.x, t->index.y,
                       t->index.z, t->file, t->line),
             false;
    if (!first) first = t;
    count += t->value;
  }
  if (block->n_left) {
    uint32_t left = 0;
    while (block->threads[left].state != THREAD_LEFT) left++;
    const dim3 gone = block->threads[left].index;
    return simt_note(block, "thread (%u,%u,%u) waits at __syncthreads of %s:%d, but thread (%u,%u,%u) has left",
                     first->index.x, first->index.y, first->index.z, first->file, first->line, gone.x, gone.y, gone.z),
           false;
  }
  uint64_t result = 0;
  if (first->kind == SIMT_COUNT) result = count;
  if (first->kind == SIMT_AND) result = count == block->n_threads;
  if (first->kind == SIMT_OR) result = count > 0;
  for (uint32_t i = 0; i < block->n_threads; i++) {
    block->threads[i].result = result;
    block->threads[i].state = THREAD_READY;
  }
  block->interval++;
  return true;
}

/* ---- blocks ---- */

/* Runs the warp until all its lanes wait at a barrier of the block or have left. */
static bool run_warp(simt_block *block, uint32_t first, uint32_t end) {
  for (;;) {
    bool waits = false;
    block->warp_next = first;
    block->warp_end = end;
    for (uint32_t k = first; k < end; k++) {
      const uint32_t i = block->thread_order[k];
      const thread_state state = block->threads[i].state;
      if (state != THREAD_NEW && state != THREAD_READY) continue;
      if (!run_one(block, i)) return false;
    }
    for (uint32_t k = first; k < end && !waits; k++)
      waits = block->threads[block->thread_order[k]].state == THREAD_AT_WARP;
    if (!waits) return true;
    if (!warp_resolve(block, first, end)) return false;
  }
}

/* xorshift64 */
static uint64_t next_random(simt_block *block) {
  block->random ^= block->random << 13;
  block->random ^= block->random >> 7;
  block->random ^= block->random << 17;
  return block->random;
}

static void shuffle(simt_block *block, uint32_t *items, uint32_t n) {
  for (uint32_t i = n; i > 1; i--) std::swap(items[i - 1], items[next_random(block) % i]);
}

/* The order of the block's threads: warps in order, and lanes in order within them. Returns the number of warps, and
 * in `ends` the end of each. */
static uint32_t order_threads(simt_block *block, uint32_t *ends) {
  const uint64_t order = block->launch->order;
  const uint32_t n = block->n_threads, n_warps = (n + SIMT_LANES - 1) / SIMT_LANES;
  uint32_t warps[SIMT_THREADS / SIMT_LANES], at = 0;
  for (uint32_t w = 0; w < n_warps; w++) warps[w] = order == SIMT_REVERSE ? n_warps - 1 - w : w;
  if (order > SIMT_REVERSE) shuffle(block, warps, n_warps);
  for (uint32_t w = 0; w < n_warps; w++) {
    const uint32_t first = warps[w] * SIMT_LANES, lanes = std::min<uint32_t>(SIMT_LANES, n - first);
    for (uint32_t j = 0; j < lanes; j++)
      block->thread_order[at + j] = first + (order == SIMT_REVERSE ? lanes - 1 - j : j);
    if (order > SIMT_REVERSE) shuffle(block, block->thread_order + at, lanes);
    ends[w] = at += lanes;
  }
  return n_warps;
}

static bool run_block(simt_block *block, uint64_t number) {
  const simt_launch *l = block->launch;
  uint32_t ends[SIMT_THREADS / SIMT_LANES];
  block->index = {static_cast<unsigned>(number % l->grid[0]), static_cast<unsigned>(number / l->grid[0] % l->grid[1]),
                  static_cast<unsigned>(number / l->grid[0] / l->grid[1])};
  simt_block_idx = block->index;
  block->n_left = 0;
  for (uint32_t i = 0; i < block->n_threads; i++) block->threads[i].state = THREAD_NEW;
  for (uint32_t i = 0; SIMT_TSAN && i < block->n_fibers; i++) block->idle[i] = i;
  if (SIMT_TSAN) block->n_idle = block->n_fibers;
  shared_begin(block);
  const uint32_t n_warps = order_threads(block, ends);
  order_before(&begin_place);
  while (block->n_left < block->n_threads) {
    for (uint32_t w = 0; w < n_warps; w++)
      if (!run_warp(block, w ? ends[w - 1] : 0, ends[w])) return false;
    if (block->n_left < block->n_threads && !release_barrier(block)) return false;
  }
  order_after(&end_place);
  return true;
}

/* ---- launches ---- */

bool simt_has_warpgroups(void) { return simt_now->launch->warpgroups; }

static bool check_limits(simt_block *block, const simt_launch *l) {
  const uint64_t threads = static_cast<uint64_t>(l->block[0]) * l->block[1] * l->block[2];
  const uint32_t limit = l->shared_limit ? l->shared_limit : static_cast<uint32_t>(SIMT_SHARED_DEFAULT);
  const char *wrong = nullptr;
  if (!l->grid[0] || !l->grid[1] || !l->grid[2]) wrong = "a grid without blocks";
  else if (l->grid[0] > 0x7fffffff || l->grid[1] > 65535 || l->grid[2] > 65535) wrong = "a grid beyond the limits";
  else if (!threads) wrong = "a block without threads";
  else if (l->block[0] > 1024 || l->block[1] > 1024 || l->block[2] > 64 || threads > l->kernel->threads)
    wrong = "more threads a block than the kernel's launch bounds";
  else if (limit > SIMT_SHARED_MOST || l->shared_bytes > limit) wrong = "more shared memory than it may use";
  if (wrong) snprintf(block->error, sizeof block->error, "kernel %s was launched with %s", l->kernel->name, wrong);
  block->n_threads = static_cast<uint32_t>(threads);
  return !wrong;
}

/* Blocks that no host thread uses; a block keeps its fibers' stacks. */
static std::mutex free_lock;
static struct free_blocks {
  simt_block *first;
  ~free_blocks() {
    while (simt_block *block = first) {
      first = block->next;
      for (simt_fiber &fiber : block->fibers) fiber_close(&fiber);
      free(block->shared);
      free(block->uses);
      free(block->words);
      delete block;
    }
  }
} free_list;

static simt_block *take_block() {
  std::lock_guard<std::mutex> guard(free_lock);
  simt_block *block = free_list.first;
  if (block) {
    free_list.first = block->next;
    return block;
  }
  block = new (std::nothrow) simt_block();
  if (block && !shared_open(block)) {
    delete block;
    return nullptr;
  }
  return block;
}

static void give_block(simt_block *block) {
  std::lock_guard<std::mutex> guard(free_lock);
  block->next = free_list.first;
  free_list.first = block;
}

/* Number k of the blocks in the launch's order. A random order is an affine permutation. */
static uint64_t block_number(const simt_launch *l, uint64_t k, uint64_t n, uint64_t step, uint64_t from) {
  if (l->order == SIMT_REVERSE) k = n - 1 - k;
  if (l->order > SIMT_REVERSE) k = static_cast<uint64_t>((static_cast<unsigned __int128>(k) * step + from) % n);
  return l->blocks ? l->blocks[k] : k;
}

static bool run_blocks(simt_block *block) {
  const simt_launch *l = block->launch;
  const uint64_t all = static_cast<uint64_t>(l->grid[0]) * l->grid[1] * l->grid[2],
                 n = l->blocks ? static_cast<uint64_t>(l->n_blocks) : all;
  uint64_t step = n ? next_random(block) % n : 0;
  const uint64_t from = n ? next_random(block) % n : 0;
  while (n && std::gcd(step, n) != 1) step++;
  for (uint32_t i = 0; i < block->n_threads; i++)
    block->threads[i].index = {i % l->block[0], i / l->block[0] % l->block[1], i / l->block[0] / l->block[1]};
  for (uint64_t k = 0; k < n && !cancel_asked(l->cancel); k++)
    if (!run_block(block, block_number(l, k, n, step, from))) return false;
  return true;
}

static const simt_operand no_operand = {};

bool simt_run(const simt_launch *launch, char *out_error, size_t capacity) {
  simt_block *block = take_block(), *outer = simt_now;
  if (!block) {
    snprintf(out_error, capacity, "no memory for the emulation of a block");
    return false;
  }
  block->launch = launch;
  block->failed = false;
  block->error[0] = 0;
  block->last = launch->n_operands ? launch->operands : &no_operand;
  block->n_idle = block->n_fibers = 0; /* a fault leaves fibers in the middle of their work: all begin anew */
  block->random = launch->order * 0x9e3779b97f4a7c15u + 1;
  bool done = check_limits(block, launch);
  if (done) {
    simt_now = block;
    simt_block_dim = {launch->block[0], launch->block[1], launch->block[2]};
    simt_grid_dim = {launch->grid[0], launch->grid[1], launch->grid[2]};
    done = run_blocks(block);
    simt_now = outer;
  }
  order_after(&end_place);
  for (char &place : block->barrier_places) order_after(&place); /* of threads that a fault leaves waiting */
  for (auto &warp : block->warp_places)
    for (char &place : warp) order_after(&place);
  if (!done) snprintf(out_error, capacity, "%s", block->error);
  give_block(block);
  return done;
}
