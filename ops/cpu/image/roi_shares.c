/* Who takes which part of a unit (roi_lanes_job.h): a worker goes on with the share that it has begun, whose rows it
 * holds. */
#include <stdatomic.h>

#include "ops/cpu/image/roi_lanes_job.h"

/* The share of the work that a worker takes next: one that nobody has begun, else the one that has the most left. Each
 * worker looks from its last share on, at first from another one than the others. */
static int64_t next_share(const roi_lanes_job *j, const roi_held_rows *held, int32_t number) {
  const int64_t shares = roi_lanes_shares(j->s),
                from = held->taken ? held->taken : shares * number / j->s->c.team.threads;
  int64_t most_left = 0, least = INT64_MAX;
  for (int64_t i = 0; i < shares && least > 0; i++) {
    int64_t share = from + i < shares ? from + i : from + i - shares, parts = atomic_load(&j->begun[share]);
    if (parts >= least) continue;
    least = parts;
    most_left = share;
  }
  return most_left;
}

int64_t roi_lanes_next_part(const roi_lanes_job *j, roi_held_rows *held, int32_t number, int64_t *out_part) {
  const roi_lanes_kernel *s = j->s;
  const int64_t parts = s->blocks * roi_lanes_units_of_block(s) * s->divided / roi_lanes_shares(s);
  for (;; held->taken = next_share(j, held, number) + 1) {
    if (!held->taken) continue;
    int64_t share = held->taken - 1, part = atomic_fetch_add(&j->begun[share], 1);
    if (part >= parts) continue;
    *out_part = s->banded ? share : part;
    return s->banded ? part : share;
  }
}
