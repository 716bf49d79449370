/* kernel_cache: packed weights, primitives and what else is built once per program and shared by its sessions
 * (ops/kernel.h).
 *
 * A value is referenced while a prepared kernel holds it. Values nobody holds stay, least recently used first out,
 * while their bytes together are within IDLE_BYTES_MAX and they are no more than IDLE_MAX. A value is built outside the
 * lock; whoever else wants it meanwhile waits for it, so nothing is built twice. Builders may get other values (an
 * engine, say) from the same cache. */
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "ops/kernel.h"

#define IDLE_BYTES_MAX ((int64_t)256 << 20)
#define IDLE_MAX 512 /* weights of most models; primitives of sizes that do not come back are many and small */
#define ENTRY_BYTES ((int64_t)256) /* what an entry costs besides its value, about */
#define BUCKETS_FIRST 64

typedef struct entry {
  struct entry *next_by_key, *next_by_data;
  struct entry *older, *newer; /* idle values only */
  uint64_t hash;
  kernel_cache_value value;
  int64_t n_references;
  bool ready; /* else somebody is building it: in the by-key table only */
  size_t key_bytes;
  unsigned char key[];
} entry;

struct kernel_cache {
  pthread_mutex_t lock;
  pthread_cond_t built;
  entry **by_key, **by_data; /* n_buckets chains each; n_buckets a power of two */
  size_t n_buckets, n_entries;
  entry *oldest, *newest; /* idle */
  int64_t idle_bytes, n_idle;
};

/* FNV-1a, 64 bits (Fowler, Noll, Vo). */
static uint64_t hash_bytes(const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  uint64_t h = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3ull;
  return h ^ h >> 29;
}

static uint64_t hash_pointer(const void *p) { return hash_bytes(&p, sizeof p); }

static entry **key_slot(kernel_cache *cache, uint64_t hash, const void *key, size_t key_bytes) {
  entry **slot = &cache->by_key[hash & (cache->n_buckets - 1)];
  while (*slot &&
         ((*slot)->hash != hash || (*slot)->key_bytes != key_bytes || memcmp((*slot)->key, key, key_bytes) != 0))
    slot = &(*slot)->next_by_key;
  return slot;
}

static entry **data_slot(kernel_cache *cache, const void *data) {
  entry **slot = &cache->by_data[hash_pointer(data) & (cache->n_buckets - 1)];
  while (*slot && (*slot)->value.data != data) slot = &(*slot)->next_by_data;
  return slot;
}

/* Twice the buckets; where there is no memory for them chains grow longer instead. */
static void grow(kernel_cache *cache) {
  size_t n = cache->n_buckets * 2;
  entry **by_key = mem_calloc(n, sizeof *by_key), **by_data = mem_calloc(n, sizeof *by_data);
  if (!by_key || !by_data) {
    mem_free(by_key);
    mem_free(by_data);
    return;
  }
  for (size_t i = 0; i < cache->n_buckets; i++)
    for (entry *e = cache->by_key[i], *next; e; e = next) {
      next = e->next_by_key;
      e->next_by_key = by_key[e->hash & (n - 1)];
      by_key[e->hash & (n - 1)] = e;
      if (!e->ready) continue;
      size_t k = hash_pointer(e->value.data) & (n - 1);
      e->next_by_data = by_data[k];
      by_data[k] = e;
    }
  mem_free(cache->by_key);
  mem_free(cache->by_data);
  cache->by_key = by_key;
  cache->by_data = by_data;
  cache->n_buckets = n;
}

static void idle_add(kernel_cache *cache, entry *e) {
  e->older = cache->newest;
  e->newer = NULL;
  *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
  cache->newest = e;
  cache->idle_bytes += e->value.bytes + ENTRY_BYTES;
  cache->n_idle++;
}

static void idle_remove(kernel_cache *cache, entry *e) {
  *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
  *(e->newer ? &e->newer->older : &cache->newest) = e->older;
  e->older = e->newer = NULL;
  cache->idle_bytes -= e->value.bytes + ENTRY_BYTES;
  cache->n_idle--;
}

static void entry_free(entry *e) {
  if (e->value.free) e->value.free(e->value.data);
  mem_free(e);
}

static void unlink_key(kernel_cache *cache, entry *e) {
  *key_slot(cache, e->hash, e->key, e->key_bytes) = e->next_by_key;
  cache->n_entries--;
}

/* Takes the oldest idle values over the limit out of the tables and gives them as a chain (next_by_key), to be freed
 * outside the lock: freeing one may release another value of this cache. */
static entry *take_excess(kernel_cache *cache) {
  entry *taken = NULL;
  while ((cache->idle_bytes > IDLE_BYTES_MAX || cache->n_idle > IDLE_MAX) && cache->oldest) {
    entry *e = cache->oldest;
    idle_remove(cache, e);
    unlink_key(cache, e);
    *data_slot(cache, e->value.data) = e->next_by_data;
    e->next_by_key = taken;
    taken = e;
  }
  return taken;
}

reed_status kernel_cache_open(kernel_cache **out_cache) {
  kernel_cache *cache = mem_calloc(1, sizeof *cache);
  if (!cache) return REED_ERROR_MEMORY;
  cache->n_buckets = BUCKETS_FIRST;
  cache->by_key = mem_calloc(cache->n_buckets, sizeof *cache->by_key);
  cache->by_data = mem_calloc(cache->n_buckets, sizeof *cache->by_data);
  if (!cache->by_key || !cache->by_data) {
    mem_free(cache->by_key);
    mem_free(cache->by_data);
    mem_free(cache);
    return REED_ERROR_MEMORY;
  }
  pthread_mutex_init(&cache->lock, NULL);
  pthread_cond_init(&cache->built, NULL);
  *out_cache = cache;
  return REED_OK;
}

/* Closes and nulls. Every value must have been released. A value that holds others releases them as it goes: they turn
 * idle and are freed in turn. */
void kernel_cache_close(kernel_cache **cache) {
  kernel_cache *c = *cache;
  if (!c) return;
  for (entry *e; (e = c->oldest) != NULL;) {
    idle_remove(c, e);
    unlink_key(c, e);
    *data_slot(c, e->value.data) = e->next_by_data;
    entry_free(e);
  }
  pthread_cond_destroy(&c->built);
  pthread_mutex_destroy(&c->lock);
  mem_free(c->by_key);
  mem_free(c->by_data);
  mem_free(c);
  *cache = NULL;
}

reed_status kernel_cache_get(kernel_cache *cache, const void *key, size_t key_bytes,
                             reed_status (*build)(void *context, kernel_cache_value *out_value), void *context,
                             void **out_data) {
  uint64_t hash = hash_bytes(key, key_bytes);
  pthread_mutex_lock(&cache->lock);
  entry *e;
  while ((e = *key_slot(cache, hash, key, key_bytes)) != NULL && !e->ready)
    pthread_cond_wait(&cache->built, &cache->lock);
  if (e) {
    if (e->n_references++ == 0) idle_remove(cache, e);
    *out_data = e->value.data;
    pthread_mutex_unlock(&cache->lock);
    return REED_OK;
  }
  e = mem_calloc(1, sizeof *e + key_bytes);
  if (!e) {
    pthread_mutex_unlock(&cache->lock);
    return REED_ERROR_MEMORY;
  }
  e->hash = hash;
  e->key_bytes = key_bytes;
  memcpy(e->key, key, key_bytes);
  if (cache->n_entries >= cache->n_buckets) grow(cache);
  *key_slot(cache, hash, key, key_bytes) = e;
  cache->n_entries++;
  pthread_mutex_unlock(&cache->lock);

  kernel_cache_value value = {0};
  reed_status status = build(context, &value);

  pthread_mutex_lock(&cache->lock);
  if (status == REED_OK) {
    e->value = value;
    e->ready = true;
    e->n_references = 1;
    entry **slot = data_slot(cache, value.data);
    e->next_by_data = *slot;
    *slot = e;
    *out_data = value.data;
  } else {
    unlink_key(cache, e);
  }
  pthread_cond_broadcast(&cache->built);
  pthread_mutex_unlock(&cache->lock);
  if (status != REED_OK) mem_free(e);
  return status;
}

void kernel_cache_release(kernel_cache *cache, void *data) {
  if (!data) return;
  pthread_mutex_lock(&cache->lock);
  entry *e = *data_slot(cache, data), *excess = NULL;
  if (e && --e->n_references == 0) {
    idle_add(cache, e);
    excess = take_excess(cache);
  }
  pthread_mutex_unlock(&cache->lock);
  while (excess) {
    entry *next = excess->next_by_key;
    entry_free(excess);
    excess = next;
  }
}
