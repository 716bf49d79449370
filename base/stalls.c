/* The sum of recent stalls (stalls.h), which is forgotten evenly. */
#include "base/stalls.h"

void stalls_note(stalls *s, int64_t before_ns, int64_t now_ns) {
  int64_t stall = now_ns - before_ns, steps = 100;
  if (stall <= STALLS_LEAST_NS) return;
  int64_t since = now_ns - atomic_exchange_explicit(&s->at, now_ns, memory_order_relaxed);
  int64_t left = since < 0 ? steps : since < STALLS_KEPT_NS ? steps - since / (STALLS_KEPT_NS / steps) : 0;
  int64_t sum = atomic_load_explicit(&s->sum, memory_order_relaxed) * left / steps + stall;
  if (sum > 4 * (int64_t)STALLS_ENOUGH_NS) sum = 4 * (int64_t)STALLS_ENOUGH_NS; /* forgotten in time, however long */
  atomic_store_explicit(&s->sum, sum, memory_order_relaxed);
  if (sum > STALLS_ENOUGH_NS)
    atomic_store_explicit(&s->crowded_until, now_ns + STALLS_CROWDED_NS, memory_order_relaxed);
}
