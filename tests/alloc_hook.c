/* The counting heap of alloc_hook.h. */
#include "tests/alloc_hook.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "reed/memory.h"

/* A test helper may have state of its own: the heap it stands for is one per process too. */
static atomic_int_fast64_t requests, live, fail_request, raise_request, largest;
static int *raised;
static atomic_bool failed;

static bool refused(size_t bytes) {
  int64_t most = atomic_load(&largest);
  while ((int64_t)bytes > most && !atomic_compare_exchange_weak(&largest, &most, (int64_t)bytes)) continue;
  int64_t n = atomic_fetch_add(&requests, 1) + 1;
  if (n == atomic_load(&raise_request)) __atomic_store_n(raised, 1, __ATOMIC_SEQ_CST);
  if (n != atomic_load(&fail_request)) return false;
  atomic_store(&failed, true);
  return true;
}

static void *allocate(void *context, size_t bytes) {
  (void)context;
  void *block = refused(bytes) ? NULL : malloc(bytes);
  if (block) atomic_fetch_add(&live, 1);
  return block;
}

static void *resize(void *context, void *block, size_t bytes) {
  if (!block) return allocate(context, bytes);
  return refused(bytes) ? NULL : realloc(block, bytes);
}

static void release(void *context, void *block) {
  (void)context;
  if (block) atomic_fetch_sub(&live, 1);
  free(block);
}

void alloc_hook_begin(void) {
  atomic_store(&requests, 0);
  atomic_store(&live, 0);
  atomic_store(&largest, 0);
  alloc_hook_fail_at(0);
  alloc_hook_raise_at(0, NULL);
  reed_set_allocator(&(reed_allocator){allocate, resize, release, NULL});
}

int64_t alloc_hook_end(void) {
  reed_set_allocator(NULL);
  return atomic_load(&live);
}

void alloc_hook_fail_at(int64_t n) {
  atomic_store(&failed, false);
  atomic_store(&fail_request, n > 0 ? atomic_load(&requests) + n : 0);
}

void alloc_hook_raise_at(int64_t n, int *flag) {
  raised = flag;
  atomic_store(&raise_request, flag ? atomic_load(&requests) + n : 0);
}

bool alloc_hook_failed(void) { return atomic_load(&failed); }

int64_t alloc_hook_requests(void) { return atomic_load(&requests); }

int64_t alloc_hook_largest(void) { return atomic_load(&largest); }

int64_t alloc_hook_live(void) { return atomic_load(&live); }
