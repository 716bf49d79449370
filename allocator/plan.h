/* The arena planner: offsets for an epoch's tensors and workspaces by liveness, and a checker that proves no two live
 * ones overlap. Takes no memory from a device: pool.h gives the arenas. */
#ifndef ALLOCATOR_PLAN_H_
#define ALLOCATOR_PLAN_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"

#define PLAN_ALIGNMENT 64

/* The bytes that a block takes in an arena. bytes: 0 to INT64_MAX - PLAN_ALIGNMENT. */
static inline int64_t plan_round_up(int64_t bytes) {
  return (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
}

/* One block, live from step `first` to step `last` inclusive. For in-place reuse the caller passes one interval for
 * both tensors. */
typedef struct plan_interval {
  int32_t first, last;
  int64_t bytes;
  int64_t offset; /* result; multiple of PLAN_ALIGNMENT */
} plan_interval;

typedef struct plan_figures {
  int64_t bytes; /* arena size */
  int64_t bytes_without_reuse;
  int64_t lower_bound; /* the largest sum of live bytes (rounded to the alignment) over all steps */
  int32_t fullest;     /* a step with that sum */
} plan_figures;

/* Sets every interval's offset: the best of several greedy placements (plan.c), after Pisarchyk and Lee, "Efficient
 * Memory Management for Deep Neural Net Inference", 2020. apart: the arena may be larger than the smallest one found by
 * a sixteenth, 1 MiB at most, if intervals of one step then lie at its end, all over each other. Scratch comes from
 * the heap. On error the offsets are unspecified. */
reed_status plan_offsets(plan_interval *intervals, int32_t n, bool apart, plan_figures *out_figures,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* The figures without a placement: `bytes` is the lower bound. The offsets are unspecified afterwards. */
reed_status plan_bound(plan_interval *intervals, int32_t n, plan_figures *out_figures,
                       reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* REED_OK if all intervals are aligned and inside arena_bytes, and no two intervals that are live at one step overlap;
 * else ERROR_ARGUMENT, whose diagnosis names the interval or the two. */
reed_status plan_check(const plan_interval *intervals, int32_t n, int64_t arena_bytes,
                       reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
