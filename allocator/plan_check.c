/* Checks the planner's result independently of the planner's code: compares every pair of blocks. The planner: plan.c.
 */
#include <stdbool.h>

#include "allocator/plan.h"

static bool overlap(const plan_interval *a, const plan_interval *b) {
  return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

reed_status plan_check(const plan_interval *intervals, int32_t n, int64_t arena_bytes, reed_diagnosis *diagnosis) {
  for (int32_t i = 0; i < n; i++) {
    const plan_interval *a = &intervals[i];
    if (a->offset < 0 || a->offset % PLAN_ALIGNMENT != 0 || a->bytes < 0 || a->bytes > arena_bytes ||
        a->offset > arena_bytes - a->bytes)
      return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                       "block %d, %lld bytes at offset %lld, does not lie aligned in an arena of %lld bytes", i,
                       (long long)a->bytes, (long long)a->offset, (long long)arena_bytes);
    for (int32_t j = 0; j < i; j++) {
      const plan_interval *b = &intervals[j];
      if (a->bytes && b->bytes && overlap(a, b))
        return diag_fail(diagnosis, REED_ERROR_ARGUMENT,
                         "blocks %d (steps %d..%d, bytes %lld..%lld) and %d (steps %d..%d, bytes %lld..%lld) overlap",
                         j, b->first, b->last, (long long)b->offset, (long long)(b->offset + b->bytes), i, a->first,
                         a->last, (long long)a->offset, (long long)(a->offset + a->bytes));
    }
  }
  return REED_OK;
}
