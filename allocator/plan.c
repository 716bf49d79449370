/* Offsets in an arena for intervals of time. One greedy placement is tried with four orders of the blocks, until one
 * meets the lower bound; the best is kept, or a fifth one. The check of the result: plan_check.c.
 *
 * - By size: largest first, best fit among the gaps between placed blocks that live at the same time (Pisarchyk and
 * Lee, 2020, "greedy by size").
 * - By breadth: blocks that live at the fullest step first (ibid., "greedy by breadth", with the breadth in place of
 * the operator's number).
 * - By time: in order of definition. Only blocks still alive are in the way, so a list of the live blocks is enough.
 *
 * - By area: the largest product of bytes and steps first, in gaps below the lower bound, and at the end of a gap where
 * the neighbour lives on. Values of a chain then lie at the two ends of the gap in turn, and leave one stretch between
 * them for blocks of a single step (workspaces). Tried where much is lost.
 *
 * - Apart: blocks of a single step at the arena's end, the others from its begin on, largest first. Threads read what
 * others wrote in workspaces, and lines of the cache that another CPU has read are slow to overwrite; so a workspace
 * lies where workspaces were before rather than tensors (docs/measurements.md). Kept although the arena may be a little
 * larger, where the caller allows it.
 *
 * The orders but the one by time compare each block with all placed ones, n * n / 2 cheap tests; so very many intervals
 * are placed by time only. */
#include "allocator/plan.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum {
  TRY_ALL = 1500,       /* most intervals for which all orders are tried */
  AREA_FROM = 1 << 20,  /* least bytes above the lower bound for which the order by area is tried */
  APART_SHARE = 16,     /* the arena may be larger by this share of the smallest one found, */
  APART_MOST = 1 << 20, /* and so many bytes at most, if workspaces lie apart */
  TRY_SIZE = 4000, /* most intervals for the order by size; below 2^15, because definitions are numbered in 16 bits */
};

/* An interval and its sort key. Order: ascending keys, then ascending index (the sort is stable). */
typedef struct entry {
  int64_t key, second;
  int32_t index;
} entry;

/* A stretch of the arena in use. */
typedef struct span {
  int64_t offset, end;
} span;

typedef struct planner {
  plan_interval *intervals;                /* not owned; the result's offsets are written here */
  int64_t *bytes;                          /* rounded to the alignment */
  int32_t n;                               /* intervals with bytes; empty ones lie at offset 0 */
  entry *order, *scratch;                  /* n each */
  span *placed;                            /* in the order of their offsets */
  int16_t *first, *last;                   /* of the placed blocks, as definitions' numbers */
  uint8_t *conflict;                       /* per placed block: 1 if it lives together with the block to be placed */
  span *conflicts;                         /* the blocks marked in `conflict` */
  int16_t *conflict_first, *conflict_last; /* of them */
  int32_t *until;                          /* by time: last steps of the live blocks */
  int32_t *birth,
      *death;       /* per interval: number of the definition it begins with, and of the last one it lives through */
  int64_t *trial;   /* offsets of the order being tried, per interval */
  int64_t *breadth; /* per definition: live bytes at its step */
  int32_t *kept;    /* indices of intervals that have bytes, in order of definition */
  int64_t lower_bound, best_bytes;
  int32_t fullest; /* the step of the lower bound */
} planner;

static bool in_order(const entry *a, const entry *b) {
  return a->key < b->key || (a->key == b->key && a->second <= b->second);
}

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

/* The lowest offset of the smallest gap that holds `bytes`, else the end of the last span. `spans` in order of offset.
 */
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

/* The number of definitions at which block i of the conflicts and one that lives through birth..death both live. */
static int32_t meets(const planner *p, int32_t i, int16_t birth, int16_t death) {
  int16_t first = p->conflict_first[i], last = p->conflict_last[i];
  return (last < death ? last : death) - (first > birth ? first : birth);
}

/* As best_gap, among the gaps below `ceiling` first. The block lies at that end of the gap whose neighbour lives for
 * more of its life; the arena's two ends live for ever. */
static int64_t best_gap_end(const planner *p, int32_t n, int64_t bytes, int16_t birth, int16_t death, int64_t ceiling) {
  int64_t end = 0, best = -1, best_gap_bytes = INT64_MAX;
  int32_t below = death - birth;
  for (int32_t i = 0; i <= n; i++) {
    int64_t gap_end = i < n ? p->conflicts[i].offset : ceiling, gap = gap_end - end;
    int32_t above = i < n ? meets(p, i, birth, death) : death - birth;
    if (gap >= bytes && gap < best_gap_bytes) {
      best = above > below ? gap_end - bytes : end;
      best_gap_bytes = gap;
    }
    if (i < n && p->conflicts[i].end > end) {
      end = p->conflicts[i].end;
      below = above;
    }
  }
  return best >= 0 ? best : end;
}

/* The place of a block: in the best gap; at that of its ends whose neighbour lives longer; in the best gap, but for a
 * block of a single step as near as possible to the end of the best arena. */
typedef enum way { IN_GAPS, AT_ENDS, APART } way;

/* Keeps the trial's offsets if its arena is the smallest so far, or with workspaces apart little larger. */
static void keep_if_better(planner *p, int64_t arena_bytes, way way) {
  const int64_t share = p->best_bytes / APART_SHARE, more = share < APART_MOST ? share : APART_MOST;
  if (way == APART ? arena_bytes > p->best_bytes + more : arena_bytes >= p->best_bytes) return;
  p->best_bytes = arena_bytes;
  for (int32_t i = 0; i < p->n; i++) p->intervals[p->kept[i]].offset = p->trial[p->kept[i]];
}

/* Number of placed blocks at or below the offset. */
static int32_t placed_below(const span *placed, int32_t n, int64_t offset) {
  int32_t low = 0;
  while (low < n) {
    int32_t middle = low + (n - low) / 2;
    if (placed[middle].offset <= offset) low = middle + 1;
    else n = middle;
  }
  return low;
}

/* The placed blocks that live together with birth..death, in the order of their offsets. Marked in a loop that
 * compilers vectorise, then gathered eight marks at a time: most are zero. */
static int32_t gather_conflicts(planner *p, int32_t n_placed, int16_t birth, int16_t death) {
  const int16_t *restrict first = p->first, *restrict last = p->last;
  uint8_t *restrict conflict = p->conflict;
  for (int32_t j = 0; j < n_placed; j++) conflict[j] = (first[j] <= death) & (last[j] >= birth);
  memset(conflict + n_placed, 0, 8);
  int32_t n = 0;
  for (int32_t j = 0; j < n_placed; j += 8) {
    uint64_t marks;
    memcpy(&marks, conflict + j, 8);
    for (; marks; marks &= marks - 1) {
      int32_t at = j + (__builtin_ctzll(marks) >> 3);
      p->conflict_first[n] = first[at];
      p->conflict_last[n] = last[at];
      p->conflicts[n++] = p->placed[at];
    }
  }
  return n;
}

/* The offset of a block of a single step below those of the same step. They fit, because the arena holds each step. */
static int64_t offset_apart(const planner *p, int32_t n_conflicts, int64_t bytes) {
  return (n_conflicts ? p->conflicts[0].offset : p->best_bytes) - bytes;
}

/* Places the blocks in p->order. */
static void place_in_order(planner *p, way way) {
  int64_t arena_bytes = 0;
  for (int32_t k = 0; k < p->n; k++) {
    int32_t index = p->order[k].index;
    int16_t birth = (int16_t)p->birth[index], death = (int16_t)p->death[index];
    int32_t n_conflicts = gather_conflicts(p, k, birth, death);
    int64_t offset = way == APART && birth == death ? offset_apart(p, n_conflicts, p->bytes[index])
                     : way == AT_ENDS ? best_gap_end(p, n_conflicts, p->bytes[index], birth, death, p->lower_bound)
                                      : best_gap(p->conflicts, n_conflicts, p->bytes[index]);
    int64_t end = offset + p->bytes[index];
    p->trial[index] = offset;
    if (end > arena_bytes) arena_bytes = end;
    int32_t at = placed_below(p->placed, k, offset);
    size_t behind = (size_t)(k - at);
    memmove(p->placed + at + 1, p->placed + at, behind * sizeof *p->placed);
    memmove(p->first + at + 1, p->first + at, behind * sizeof *p->first);
    memmove(p->last + at + 1, p->last + at, behind * sizeof *p->last);
    p->placed[at] = (span){offset, end};
    p->first[at] = birth;
    p->last[at] = death;
  }
  keep_if_better(p, arena_bytes, way);
}

static void place_by_size(planner *p) {
  for (int32_t i = 0; i < p->n; i++) {
    const plan_interval *v = &p->intervals[p->kept[i]];
    p->order[i] = (entry){-p->bytes[p->kept[i]], (int64_t)v->first - v->last, p->kept[i]};
  }
  sort(p->order, p->scratch, p->n);
  place_in_order(p, IN_GAPS);
}

/* The breadth of a block is the largest number of live bytes at any step of its life. Only the steps of definitions are
 * looked at, because live bytes do not grow between two definitions. */
static void place_by_breadth(planner *p) {
  for (int32_t i = 0; i < p->n; i++) {
    int32_t index = p->kept[i];
    int64_t breadth = 0;
    for (int32_t d = p->birth[index]; d <= p->death[index]; d++)
      breadth = p->breadth[d] > breadth ? p->breadth[d] : breadth;
    p->order[i] = (entry){-breadth, -p->bytes[index], index};
  }
  sort(p->order, p->scratch, p->n);
  place_in_order(p, IN_GAPS);
}

static void place_by_area(planner *p) {
  for (int32_t i = 0; i < p->n; i++) {
    int32_t index = p->kept[i];
    double area = (double)p->bytes[index] * (p->death[index] - p->birth[index] + 1);
    p->order[p->n - 1 - i] = (entry){area < 0x1p62 ? -(int64_t)area : INT64_MIN / 2, -p->bytes[index], index};
  }
  sort(p->order, p->scratch, p->n);
  place_in_order(p, AT_ENDS);
}

static void place_apart(planner *p) {
  int32_t n = 0;
  for (int32_t i = 0; i < p->n; i++) {
    int32_t index = p->kept[i];
    const bool single = p->birth[index] == p->death[index];
    n += single;
    p->order[i] = (entry){single ? INT64_MIN : -p->bytes[index], -p->bytes[index], index};
  }
  if (n == 0) return;
  sort(p->order, p->scratch, p->n);
  place_in_order(p, APART);
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
      p->until[n] = p->until[j];
      n += p->until[j] >= first;
    }
    int64_t offset = best_gap(p->placed, n, p->bytes[index]);
    int32_t at = n;
    while (at > 0 && p->placed[at - 1].offset > offset) {
      p->placed[at] = p->placed[at - 1];
      p->until[at] = p->until[at - 1];
      at--;
    }
    p->placed[at] = (span){offset, offset + p->bytes[index]};
    p->until[at] = p->intervals[index].last;
    p->trial[index] = offset;
    if (p->placed[at].end > arena_bytes) arena_bytes = p->placed[at].end;
    n_live = n + 1;
  }
  keep_if_better(p, arena_bytes, IN_GAPS);
}

/* Walks the intervals in order of definition. Computes the live bytes at each definition; the largest is the lower
 * bound of any arena. Numbers the definitions, so that two intervals live together exactly if their ranges birth..death
 * overlap. */
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
  int32_t definition = 0, ended = 0;
  for (int32_t begin = 0, end; begin < p->n; begin = end, definition++) {
    int32_t step = p->intervals[p->kept[begin]].first;
    for (; ended < p->n && p->order[ended].key < step; ended++) {
      live -= p->bytes[p->order[ended].index];
      p->death[p->order[ended].index] = definition - 1;
    }
    for (end = begin; end < p->n && p->intervals[p->kept[end]].first == step; end++) {
      live += p->bytes[p->kept[end]];
      p->birth[p->kept[end]] = definition;
    }
    p->breadth[definition] = live;
    if (live > p->lower_bound) p->lower_bound = live, p->fullest = step;
  }
  for (; ended < p->n; ended++) p->death[p->order[ended].index] = definition - 1;
}

/* All scratch is one block: offsets of the arrays in it, most strictly aligned first. */
static bool scratch_open(planner *p, int32_t n, void **out_block) {
  size_t count = (size_t)n + 8; /* marks are read eight at a time */
  size_t each = 3 * sizeof(int64_t) + 2 * sizeof(entry) + 2 * sizeof(span) + 4 * sizeof(int32_t) + 4 * sizeof(int16_t) +
                sizeof(uint8_t);
  char *block = mem_alloc(count * each);
  if (!block) return false;
  *out_block = block;
#define TAKE(field) (p->field = (void *)block, block += count * sizeof *p->field)
  TAKE(bytes), TAKE(order), TAKE(scratch), TAKE(placed), TAKE(conflicts), TAKE(trial), TAKE(breadth);
  TAKE(kept), TAKE(birth), TAKE(death), TAKE(until), TAKE(first), TAKE(last), TAKE(conflict_first), TAKE(conflict_last),
      TAKE(conflict);
#undef TAKE
  return true;
}

static reed_status plan(plan_interval *intervals, int32_t n, bool place, bool apart, plan_figures *out_figures,
                        reed_diagnosis *diagnosis) {
  void *block = NULL;
  planner p = {.intervals = intervals, .best_bytes = INT64_MAX};
  if (!scratch_open(&p, n, &block)) return diag_no_memory(diagnosis, "arena plan");
  reed_status status = REED_OK;
  int64_t without_reuse = 0;
  for (int32_t i = 0; i < n && status == REED_OK; i++) {
    const plan_interval *v = &intervals[i];
    if (v->bytes < 0 || v->first > v->last)
      status = diag_fail(diagnosis, REED_ERROR_ARGUMENT, "block %d has %lld bytes and lives from step %d to %d", i,
                         (long long)v->bytes, v->first, v->last);
    else if (v->bytes > INT64_MAX - PLAN_ALIGNMENT ||
             __builtin_add_overflow(without_reuse, plan_round_up(v->bytes), &without_reuse))
      status = diag_fail(diagnosis, REED_ERROR_MEMORY, "%d blocks of together more than %lld bytes", n,
                         (long long)INT64_MAX);
    else p.bytes[i] = plan_round_up(v->bytes);
  }
  if (status == REED_OK) {
    sweep(&p, n);
    if (place && p.n <= TRY_SIZE) place_by_size(&p);
    if (place && p.best_bytes > p.lower_bound) place_by_time(&p);
    if (place && p.best_bytes > p.lower_bound && p.n <= TRY_ALL) place_by_breadth(&p);
    if (place && p.best_bytes - p.lower_bound >= AREA_FROM && p.n <= TRY_ALL) place_by_area(&p);
    if (place && apart && p.n <= TRY_ALL) place_apart(&p);
    *out_figures = (plan_figures){.bytes = place ? p.best_bytes : p.lower_bound,
                                  .bytes_without_reuse = without_reuse,
                                  .lower_bound = p.lower_bound,
                                  .fullest = p.fullest};
  }
  mem_free(block);
  return status;
}

reed_status plan_offsets(plan_interval *intervals, int32_t n, bool apart, plan_figures *out_figures,
                         reed_diagnosis *diagnosis) {
  return plan(intervals, n, true, apart, out_figures, diagnosis);
}

reed_status plan_bound(plan_interval *intervals, int32_t n, plan_figures *out_figures, reed_diagnosis *diagnosis) {
  return plan(intervals, n, false, false, out_figures, diagnosis);
}
