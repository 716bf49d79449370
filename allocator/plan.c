/* Offsets for intervals. Three ways to order the same greedy placement are tried until one meets the lower bound; the best is kept:
 *
 *   by size     largest first, best fit among the gaps between placed blocks that live at the same time (Pisarchyk and Lee, 2020, "greedy by size")
 *   by breadth  blocks that live at the fullest step first (ibid., "greedy by breadth", with the breadth in place of the operator's number)
 *   by time     in order of definition: then exactly the blocks that still live are in the way, and a list of these will do
 *
 * The first two compare each block with all placed ones: n * n / 2 cheap tests, which is why very many intervals get the third alone. */
#include "allocator/plan.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum {
  TRY_ALL_BELOW = 1200,  /* 1200: about half a millisecond each for the quadratic ways */
  TRY_SIZE_BELOW = 3000, /* 3000: about three milliseconds */
};

/* An interval and what it is sorted by: ascending keys, then ascending index (the sort is stable). */
typedef struct entry {
  int64_t key, second;
  int32_t index;
} entry;

/* A stretch of the arena in use. */
typedef struct span {
  int64_t offset, end;
} span;

typedef struct planner {
  plan_interval *intervals; /* not owned; the result's offsets are written here */
  int64_t *bytes;           /* rounded to the alignment */
  int32_t n;                /* of them that have bytes: the others lie at offset 0 and are in nobody's way */
  entry *order, *scratch;   /* n each */
  int32_t *first, *last;    /* of the placed blocks, in the order of their offsets */
  span *placed;
  span *conflicts;          /* those in the way of the block to be placed */
  int64_t *trial;           /* offsets of the way being tried, per interval */
  int64_t *breadth;         /* per interval, in order of definition: live bytes at the step that defines it */
  int32_t *kept;            /* indices of intervals that have bytes, in order of definition */
  int64_t lower_bound, best_bytes;
} planner;

static int64_t round_up(int64_t bytes) { return (bytes + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT; }

static bool in_order(const entry *a, const entry *b) { return a->key < b->key || (a->key == b->key && a->second <= b->second); }

/* Stable merge sort, bottom up; a run that is already in order (definitions mostly are) costs one comparison. */
static void sort(entry *items, entry *scratch, int32_t n) {
  for (int32_t width = 1; width < n; width *= 2)
    for (int32_t low = 0; low + width < n; low += 2 * width) {
      int32_t middle = low + width, high = middle + width < n ? middle + width : n;
      if (in_order(&items[middle - 1], &items[middle])) continue;
      memcpy(scratch, items + low, (size_t)width * sizeof *items);
      int32_t i = 0, j = middle, out = low;
      while (i < width && j < high) items[out++] = in_order(&scratch[i], &items[j]) ? scratch[i++] : items[j++];
      memcpy(items + out, scratch + i, (size_t)(width - i) * sizeof *items);
    }
}

/* The lowest place in the smallest gap that `bytes` fit in, else behind everything. `spans` by offset. */
static int64_t best_gap(const span *spans, int32_t n, int64_t bytes) {
  int64_t end = 0, best = -1, best_gap_bytes = INT64_MAX;
  for (int32_t i = 0; i < n; i++) {
    int64_t gap = spans[i].offset - end;
    if (gap >= bytes && gap < best_gap_bytes) {
      best = end;
      best_gap_bytes = gap;
    }
    if (spans[i].end > end) end = spans[i].end;
  }
  return best >= 0 ? best : end;
}

/* Keeps the trial's offsets if its arena is the smallest so far. */
static void keep_if_better(planner *p, int64_t arena_bytes) {
  if (arena_bytes >= p->best_bytes) return;
  p->best_bytes = arena_bytes;
  for (int32_t i = 0; i < p->n; i++) p->intervals[p->kept[i]].offset = p->trial[p->kept[i]];
}

/* Places the blocks in p->order. */
static void place_in_order(planner *p) {
  int64_t arena_bytes = 0;
  for (int32_t k = 0; k < p->n; k++) {
    int32_t index = p->order[k].index;
    int32_t first = p->intervals[index].first, last = p->intervals[index].last;
    int32_t n_conflicts = 0;
    for (int32_t j = 0; j < k; j++) { /* no branch: which ones conflict is not to be guessed */
      p->conflicts[n_conflicts] = p->placed[j];
      n_conflicts += (p->first[j] <= last) & (p->last[j] >= first);
    }
    int64_t offset = best_gap(p->conflicts, n_conflicts, p->bytes[index]);
    int64_t end = offset + p->bytes[index];
    p->trial[index] = offset;
    if (end > arena_bytes) arena_bytes = end;
    int32_t at = k;
    while (at > 0 && p->placed[at - 1].offset > offset) at--;
    size_t behind = (size_t)(k - at);
    memmove(p->placed + at + 1, p->placed + at, behind * sizeof *p->placed);
    memmove(p->first + at + 1, p->first + at, behind * sizeof *p->first);
    memmove(p->last + at + 1, p->last + at, behind * sizeof *p->last);
    p->placed[at] = (span){offset, end};
    p->first[at] = first;
    p->last[at] = last;
  }
  keep_if_better(p, arena_bytes);
}

static void place_by_size(planner *p) {
  for (int32_t i = 0; i < p->n; i++) {
    const plan_interval *v = &p->intervals[p->kept[i]];
    p->order[i] = (entry){-p->bytes[p->kept[i]], (int64_t)v->first - v->last, p->kept[i]};
  }
  sort(p->order, p->scratch, p->n);
  place_in_order(p);
}

/* The breadth of a block is the largest number of live bytes at a step it lives through; between two definitions nothing grows, so the steps
 * that define are enough. */
static void place_by_breadth(planner *p) {
  for (int32_t i = 0; i < p->n; i++) {
    int64_t breadth = 0;
    int32_t last = p->intervals[p->kept[i]].last;
    for (int32_t j = i; j < p->n && p->intervals[p->kept[j]].first <= last; j++)
      if (p->breadth[j] > breadth) breadth = p->breadth[j];
    p->order[i] = (entry){-breadth, -p->bytes[p->kept[i]], p->kept[i]};
  }
  sort(p->order, p->scratch, p->n);
  place_in_order(p);
}

/* In order of definition, with a list of the live blocks only. */
static void place_by_time(planner *p) {
  int64_t arena_bytes = 0;
  int32_t n_live = 0;
  for (int32_t i = 0; i < p->n; i++) {
    int32_t index = p->kept[i], first = p->intervals[index].first;
    int32_t n = 0;
    for (int32_t j = 0; j < n_live; j++) {
      p->placed[n] = p->placed[j];
      p->last[n] = p->last[j];
      n += p->last[j] >= first;
    }
    int64_t offset = best_gap(p->placed, n, p->bytes[index]);
    int32_t at = n;
    while (at > 0 && p->placed[at - 1].offset > offset) {
      p->placed[at] = p->placed[at - 1];
      p->last[at] = p->last[at - 1];
      at--;
    }
    p->placed[at] = (span){offset, offset + p->bytes[index]};
    p->last[at] = p->intervals[index].last;
    p->trial[index] = offset;
    if (p->placed[at].end > arena_bytes) arena_bytes = p->placed[at].end;
    n_live = n + 1;
  }
  keep_if_better(p, arena_bytes);
}

/* Orders the intervals by definition and walks along: live bytes at each definition, and the largest of them, which no arena can be below. */
static void sweep(planner *p, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    p->intervals[i].offset = 0;
    if (p->bytes[i] > 0) p->order[p->n++] = (entry){p->intervals[i].first, 0, i};
  }
  sort(p->order, p->scratch, p->n);
  for (int32_t i = 0; i < p->n; i++) p->kept[i] = p->order[i].index;
  for (int32_t i = 0; i < p->n; i++) p->order[i] = (entry){p->intervals[p->kept[i]].last, 0, p->kept[i]};
  sort(p->order, p->scratch, p->n); /* now by last step */
  int64_t live = 0;
  for (int32_t begin = 0, ended = 0, end; begin < p->n; begin = end) {
    int32_t step = p->intervals[p->kept[begin]].first;
    for (; ended < p->n && p->order[ended].key < step; ended++) live -= p->bytes[p->order[ended].index];
    for (end = begin; end < p->n && p->intervals[p->kept[end]].first == step; end++) live += p->bytes[p->kept[end]];
    for (int32_t i = begin; i < end; i++) p->breadth[i] = live;
    if (live > p->lower_bound) p->lower_bound = live;
  }
}

/* All scratch is one block: offsets of the arrays in it, most strictly aligned first. */
static bool scratch_open(planner *p, int32_t n, void **out_block) {
  size_t count = (size_t)n + 1; /* one more: the branch-free filters write one past what they keep */
  size_t each = sizeof *p->bytes + 2 * sizeof(entry) + 2 * sizeof(span) + 2 * sizeof(int64_t) + 3 * sizeof(int32_t);
  char *block = mem_calloc(count, each);
  if (!block) return false;
  *out_block = block;
#define TAKE(field) (p->field = (void *)block, block += count * sizeof *p->field)
  TAKE(bytes), TAKE(order), TAKE(scratch), TAKE(placed), TAKE(conflicts), TAKE(trial), TAKE(breadth), TAKE(first), TAKE(last), TAKE(kept);
#undef TAKE
  return true;
}

reed_status plan_offsets(plan_interval *intervals, int32_t n, plan_figures *out_figures, reed_diagnosis *diagnosis) {
  void *block = NULL;
  planner p = {.intervals = intervals, .best_bytes = INT64_MAX};
  if (!scratch_open(&p, n, &block)) return diag_no_memory(diagnosis, "arena plan");
  reed_status status = REED_OK;
  int64_t without_reuse = 0;
  for (int32_t i = 0; i < n && status == REED_OK; i++) {
    const plan_interval *v = &intervals[i];
    if (v->bytes < 0 || v->first > v->last)
      status = diag_fail(diagnosis, REED_ERROR_ARGUMENT, "block %d has %lld bytes and lives from step %d to %d", i, (long long)v->bytes, v->first, v->last);
    else if (v->bytes > INT64_MAX - PLAN_ALIGNMENT || __builtin_add_overflow(without_reuse, round_up(v->bytes), &without_reuse))
      status = diag_fail(diagnosis, REED_ERROR_MEMORY, "%d blocks of together more than %lld bytes", n, (long long)INT64_MAX);
    else
      p.bytes[i] = round_up(v->bytes);
  }
  if (status == REED_OK) {
    sweep(&p, n);
    if (p.n <= TRY_SIZE_BELOW) place_by_size(&p);
    if (p.best_bytes > p.lower_bound) place_by_time(&p);
    if (p.best_bytes > p.lower_bound && p.n <= TRY_ALL_BELOW) place_by_breadth(&p);
    *out_figures = (plan_figures){.bytes = p.best_bytes, .bytes_without_reuse = without_reuse, .lower_bound = p.lower_bound};
  }
  mem_free(block);
  return status;
}
