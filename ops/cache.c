/* kernel_cache: packed weights and other values that are built once per program and shared by its
 * sessions (ops/kernel.h). The cache does not know what the values are.
 *
 * A value is referenced while a prepared kernel holds it. Unreferenced values stay within three limits, IDLE_MAX
 * values, IDLE_BYTES_MAX bytes and IDLE_WINDOWS windows of runs; beyond them the least recently used value is freed. A
 * value is built outside the lock; other threads that want it wait, so nothing is built twice. A builder may get other
 * values (an engine, say) from the same cache. */
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/rows.h"
#include "base/table.h"
#include "base/vec.h"
#include "ops/facts.h"
#include "ops/kernel.h"

#define IDLE_BYTES_MAX ((int64_t)256 << 20)
#define IDLE_MAX 512   /* the weights of most models; primitives of sizes that do not come back are many and small */
#define IDLE_WINDOWS 4 /* of a session; with several sessions the windows of all count */
#define ENTRY_BYTES ((int64_t)256) /* approximate cost of an entry besides its value */

typedef struct entry {
  struct entry *older, *newer; /* neighbours among idle values; `newer` also chains values about to be freed */
  uint64_t hash;
  uint32_t number; /* index in the cache's entries */
  kernel_cache_value value;
  int64_t n_references;
  int64_t idle_since; /* the cache's window in which the last reference went */
  bool ready;         /* false: a thread is building the value, and the entry is in by_key only */
  size_t key_bytes;
  unsigned char key[];
} entry;

struct kernel_cache {
  pthread_mutex_t lock;
  pthread_cond_t built;
  VEC_OF(entry *) entries; /* NULL: the number is free */
  VEC_OF(uint32_t) free_numbers;
  table by_key, by_data;  /* of entry numbers; by_data has the ready entries only */
  entry *oldest, *newest; /* ends of the list of idle values */
  int64_t idle_bytes, n_idle;
  int64_t bytes, n_ready;     /* of all values that are built */
  int64_t window;             /* number of the window of runs */
  const op_facts_list *facts; /* of the program's sites; borrowed; NULL: none */
};

void kernel_cache_set_facts(kernel_cache *cache, const op_facts_list *list) { cache->facts = list; }
const op_facts_list *kernel_cache_facts(const kernel_cache *cache) { return cache->facts; }

static uint64_t hash_pointer(const void *p) { return hash_bytes(&p, sizeof p, 0); }

typedef struct wanted_key {
  const void *key;
  size_t key_bytes;
} wanted_key;

static bool same_key(const void *context, uint32_t number, const void *wanted) {
  const kernel_cache *cache = context;
  const entry *e = cache->entries.items[number];
  const wanted_key *w = wanted;
  return e->key_bytes == w->key_bytes && memcmp(e->key, w->key, w->key_bytes) == 0;
}

static bool same_data(const void *context, uint32_t number, const void *wanted) {
  const kernel_cache *cache = context;
  return cache->entries.items[number]->value.data == wanted;
}

static entry *find_key(const kernel_cache *cache, uint64_t hash, const void *key, size_t key_bytes) {
  uint32_t number = table_find(&cache->by_key, hash, same_key, cache, &(wanted_key){key, key_bytes});
  return number == TABLE_NONE ? NULL : cache->entries.items[number];
}

static entry *find_data(const kernel_cache *cache, const void *data) {
  uint32_t number = table_find(&cache->by_data, hash_pointer(data), same_data, cache, data);
  return number == TABLE_NONE ? NULL : cache->entries.items[number];
}

/* Reserves room in both tables, so that entering the built value cannot fail. */
static bool link_key(kernel_cache *cache, entry *e) {
  if (!cache->free_numbers.n) { /* one more number, and room to give all numbers back */
    if (!VEC_ROOM(&cache->entries)) return false;
    if (!VEC_RESERVE(&cache->free_numbers, cache->entries.capacity)) return false;
    cache->free_numbers.items[cache->free_numbers.n++] = (uint32_t)cache->entries.n;
    cache->entries.items[cache->entries.n++] = NULL;
  }
  size_t n = cache->by_key.n + 1;
  if (!table_reserve(&cache->by_data, n) ||
      !table_add(&cache->by_key, e->hash, cache->free_numbers.items[cache->free_numbers.n - 1]))
    return false;
  e->number = cache->free_numbers.items[--cache->free_numbers.n];
  cache->entries.items[e->number] = e;
  return true;
}

static void idle_add(kernel_cache *cache, entry *e) {
  e->older = cache->newest;
  e->newer = NULL;
  *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
  cache->newest = e;
  e->idle_since = cache->window;
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

static void unlink_entry(kernel_cache *cache, entry *e) {
  table_remove(&cache->by_key, e->hash, e->number);
  if (e->ready) {
    table_remove(&cache->by_data, hash_pointer(e->value.data), e->number);
    cache->bytes -= e->value.bytes;
    cache->n_ready--;
  }
  cache->entries.items[e->number] = NULL;
  cache->free_numbers.items[cache->free_numbers.n++] = e->number; /* there is room for all numbers */
}

/* Takes the oldest idle values beyond the limits out of the tables and returns them as a chain (`newer`). The caller
 * frees the chain outside the lock, because freeing a value may release another value of this cache. */
static entry *take_excess(kernel_cache *cache) {
  entry *taken = NULL;
  while (cache->oldest && (cache->idle_bytes > IDLE_BYTES_MAX || cache->n_idle > IDLE_MAX ||
                           cache->window - cache->oldest->idle_since >= IDLE_WINDOWS)) {
    entry *e = cache->oldest;
    idle_remove(cache, e);
    unlink_entry(cache, e);
    e->newer = taken;
    taken = e;
  }
  return taken;
}

reed_status kernel_cache_open(kernel_cache **out_cache) {
  kernel_cache *cache = mem_calloc(1, sizeof *cache);
  if (!cache) return REED_ERROR_MEMORY;
  pthread_mutex_init(&cache->lock, NULL);
  pthread_cond_init(&cache->built, NULL);
  *out_cache = cache;
  return REED_OK;
}

/* Closes the cache and sets the pointer to NULL. Every value must have been released. A freed value may release other
 * values, which then become idle and are freed too. */
void kernel_cache_close(kernel_cache **cache) {
  kernel_cache *c = *cache;
  if (!c) return;
  for (entry *e; (e = c->oldest) != NULL;) {
    idle_remove(c, e);
    unlink_entry(c, e);
    entry_free(e);
  }
  pthread_cond_destroy(&c->built);
  pthread_mutex_destroy(&c->lock);
  VEC_FREE(&c->entries);
  VEC_FREE(&c->free_numbers);
  table_fini(&c->by_key);
  table_fini(&c->by_data);
  mem_free(c);
  *cache = NULL;
}

static reed_status get(kernel_cache *cache, const void *key, size_t key_bytes,
                       reed_status (*build)(void *context, kernel_cache_value *out_value), void *context,
                       void **out_data) {
  uint64_t hash = hash_bytes(key, key_bytes, 0);
  pthread_mutex_lock(&cache->lock);
  entry *e;
  while ((e = find_key(cache, hash, key, key_bytes)) != NULL && !e->ready)
    pthread_cond_wait(&cache->built, &cache->lock);
  if (e) {
    if (e->n_references++ == 0) idle_remove(cache, e);
    *out_data = e->value.data;
    pthread_mutex_unlock(&cache->lock);
    return REED_OK;
  }
  e = mem_calloc(1, sizeof *e + key_bytes);
  if (e) {
    e->hash = hash;
    e->key_bytes = key_bytes;
    memcpy(e->key, key, key_bytes);
  }
  if (!e || !link_key(cache, e)) {
    pthread_mutex_unlock(&cache->lock);
    mem_free(e);
    return REED_ERROR_MEMORY;
  }
  pthread_mutex_unlock(&cache->lock);

  kernel_cache_value value = {0};
  reed_status status = build(context, &value);

  pthread_mutex_lock(&cache->lock);
  if (status == REED_OK) {
    e->value = value;
    e->ready = true;
    e->n_references = 1;
    cache->bytes += value.bytes;
    cache->n_ready++;
    (void)table_add(&cache->by_data, hash_pointer(value.data), e->number); /* link_key has reserved the room */
    *out_data = value.data;
  } else {
    unlink_entry(cache, e);
  }
  pthread_cond_broadcast(&cache->built);
  pthread_mutex_unlock(&cache->lock);
  if (status != REED_OK) mem_free(e);
  return status;
}

/* A value may outlive the state of the kernel that is being prepared: it is no neighbour of it in memory. */
reed_status kernel_cache_get(kernel_cache *cache, const void *key, size_t key_bytes,
                             reed_status (*build)(void *context, kernel_cache_value *out_value), void *context,
                             void **out_data) {
  mem_row *before = rows_use(NULL);
  const reed_status status = get(cache, key, key_bytes, build, context, out_data);
  (void)rows_use(before);
  return status;
}

/* Frees the chain and returns the bytes of its values. */
static int64_t free_chain(entry *e) {
  int64_t bytes = 0;
  while (e) {
    entry *next = e->newer;
    bytes += e->value.bytes;
    entry_free(e);
    e = next;
  }
  return bytes;
}

void kernel_cache_release(kernel_cache *cache, void *data) {
  if (!data) return;
  pthread_mutex_lock(&cache->lock);
  entry *e = find_data(cache, data), *excess = NULL;
  if (e && --e->n_references == 0) {
    idle_add(cache, e);
    excess = take_excess(cache);
  }
  pthread_mutex_unlock(&cache->lock);
  (void)free_chain(excess);
}

int64_t kernel_cache_end_window(kernel_cache *cache) {
  pthread_mutex_lock(&cache->lock);
  cache->window++;
  entry *excess = take_excess(cache);
  pthread_mutex_unlock(&cache->lock);
  return free_chain(excess);
}

void kernel_cache_count(kernel_cache *cache, int64_t *out_values, int64_t *out_bytes) {
  pthread_mutex_lock(&cache->lock);
  *out_values = cache->n_ready;
  *out_bytes = cache->bytes;
  pthread_mutex_unlock(&cache->lock);
}
