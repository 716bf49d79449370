/* The order of a row of boxes (nms_order.h). One thread sorts a row by digits. Several threads share a
 * long row out by parts: each counts what it will write, the counts of the parts before it are summed, and each part
 * writes from there on. Both orders are the same: by score, equal scores by lower index. */
#include "ops/cpu/image/nms_order.h"

#define ALIGNMENT 64
#define PART ((int64_t)4096) /* boxes or candidates; a row of fewer than two parts is not shared out */
#define CANDIDATE_WORK 16    /* of one in a step of the sort, in cpu_team_for's count */
#define GROUPED_WORK 64      /* of one whose class id is looked up */

nms_scratch nms_scratch_at(char *memory, int64_t boxes) {
  nms_scratch s = {.padded = nms_vector_end(boxes) + NMS_VECTOR};
  s.order = (nms_candidate *)memory;
  s.spare = s.order + s.padded;
  s.corners = (float *)(s.spare + s.padded);
  s.group = (uint32_t *)(s.corners + 5 * s.padded);
  s.slot = s.group + s.padded;
  s.end = s.slot + s.padded;
  s.alive = (uint8_t *)(s.end + s.padded);
  return s;
}

int64_t nms_scratch_bytes(int64_t boxes) {
  int64_t padded = nms_vector_end(boxes) + NMS_VECTOR,
          each = 2 * sizeof(nms_candidate) + 5 * sizeof(float) + 3 * sizeof(uint32_t) + 1;
  return (padded * each + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
}

/* ---- order ---- */

/* Maps floats to integers in descending order: a float's bits with those of negatives inverted, then all inverted, so
 * that high scores come first. NaN is last (first for torchvision); the two zeros are equal. */
static uint32_t rank_of(const nms *n, float score) {
  uint32_t bits;
  score += 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &score, 4);
  if (score != score) return n->as_given ? 0 : UINT32_MAX;
  return ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
}

/* Boxes looked at together: one of them that is over the threshold is rare. */
#define LOOK 16

static bool any_over(const float *scores, float least) {
  int over = 0;
  for (int k = 0; k < LOOK; k++) over |= scores[k] > least;
  return over;
}

/* Writes the candidates among boxes begin..end-1 and returns their number. */
static int64_t collect(const nms_row *r, int64_t begin, int64_t end, nms_candidate *to) {
  const nms *n = r->n;
  int64_t count = 0;
  for (int64_t i = begin; i < end; i += LOOK) {
    const int64_t after = i + LOOK < end ? i + LOOK : end;
    if (n->has_score && after - i == LOOK && !any_over(r->scores + i, r->least_score)) continue;
    for (int64_t k = i; k < after; k++)
      if ((!r->candidates || r->candidates[k]) && (!n->has_score || r->scores[k] > r->least_score))
        to[count++] = (nms_candidate){rank_of(n, r->scores[k]), (uint32_t)k};
  }
  return count;
}

enum { FEW = 32, SOME = 2048 }; /* candidates, which are sorted by insertion, or by digits of 8 bits */

/* Sorts by rank, keeping the order of equals: least significant digit first (radix sort), of 8 bits, or of 11 where the
 * counters of more digits cost less than another pass; `spare` has room for n. The result is in `items`. */
static void sort_candidates(nms_candidate *items, nms_candidate *spare, int64_t n) {
  if (n <= FEW) {
    for (int64_t i = 1; i < n; i++) {
      nms_candidate item = items[i];
      int64_t k = i;
      for (; k > 0 && items[k - 1].rank > item.rank; k--) items[k] = items[k - 1];
      items[k] = item;
    }
    return;
  }
  nms_candidate *from = items, *to = spare;
  const int bits = n <= SOME ? 8 : 11, digits = 1 << bits;
  for (int shift = 0; shift < 32; shift += bits) {
    uint32_t begin[2048], total = 0;
    memset(begin, 0, (size_t)digits * sizeof *begin);
    for (int64_t i = 0; i < n; i++) begin[from[i].rank >> shift & (uint32_t)(digits - 1)]++;
    for (int d = 0; d < digits; d++) {
      uint32_t count = begin[d];
      begin[d] = total;
      total += count;
    }
    for (int64_t i = 0; i < n; i++) to[begin[from[i].rank >> shift & (uint32_t)(digits - 1)]++] = from[i];
    nms_candidate *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
}

/* A row that is shared out by parts of n boxes or candidates. */
typedef struct parts_job {
  const nms_row *row;
  const nms_scratch *s;
  int64_t n;
  int shift; /* of the digit that is sorted by */
  const nms_candidate *from;
  nms_candidate *to;
  uint32_t *digits; /* [part][digit]: candidates with it, then the place of the next one */
  uint32_t *found;  /* by part: candidates among its boxes */
  /* by part and number of a group within the part, at the part's first candidate: */
  uint32_t *first, *members; /* a group's first candidate; how many it has, then the slot of the next one */
  uint32_t *group;           /* its number among the groups of all parts */
} parts_job;

static int64_t parts_of(int64_t n) { return (n + PART - 1) / PART; }
static int64_t part_end(int64_t part, int64_t n) { return (part + 1) * PART < n ? (part + 1) * PART : n; }

/* The candidates of a part's boxes begin at the part's first box. */
static void collect_parts(void *context, int64_t begin, int64_t end) {
  const parts_job *j = context;
  for (int64_t p = begin; p < end; p++)
    j->found[p] = (uint32_t)collect(j->row, p * PART, part_end(p, j->n), j->s->spare + p * PART);
}

/* Moves the candidates of parts together: of part p, to place digits[p]. */
static void join_parts(void *context, int64_t begin, int64_t end) {
  const parts_job *j = context;
  for (int64_t p = begin; p < end; p++)
    memcpy(j->s->order + j->digits[p], j->s->spare + p * PART, j->found[p] * sizeof *j->s->order);
}

static void count_digits(void *context, int64_t begin, int64_t end) {
  const parts_job *j = context;
  for (int64_t p = begin; p < end; p++) {
    uint32_t *count = j->digits + p * CPU_DIGITS;
    memset(count, 0, CPU_DIGITS * sizeof *count);
    for (int64_t i = p * PART, after = part_end(p, j->n); i < after; i++)
      count[j->from[i].rank >> j->shift & (CPU_DIGITS - 1)]++;
  }
}

static void sort_parts(void *context, int64_t begin, int64_t end) {
  const parts_job *j = context;
  for (int64_t p = begin; p < end; p++) {
    uint32_t *next = j->digits + p * CPU_DIGITS;
    for (int64_t i = p * PART, after = part_end(p, j->n); i < after; i++)
      j->to[next[j->from[i].rank >> j->shift & (CPU_DIGITS - 1)]++] = j->from[i];
  }
}

/* Collects the candidates, in the order of their indices. */
static reed_status collect_shared(parts_job *j, int64_t *out_count) {
  const cpu_team team = cpu_team_for(j->row->team, j->n * CANDIDATE_WORK);
  uint32_t at = 0;
  reed_status status = cpu_parallel(team, parts_of(j->n), 1, collect_parts, j);
  if (status != REED_OK) return status;
  for (int64_t p = 0; p < parts_of(j->n); at += j->found[p++]) j->digits[p] = at;
  *out_count = at;
  return cpu_parallel(team, parts_of(j->n), 1, join_parts, j);
}

static reed_status order_shared(const nms_row *row, const nms_scratch *s, int64_t *out_count) {
  parts_job j = {.row = row, .s = s, .n = row->n->boxes, .from = s->order, .to = s->spare};
  j.digits = (uint32_t *)s->corners;
  j.found = j.digits + parts_of(j.n) * CPU_DIGITS;
  reed_status status = collect_shared(&j, out_count);
  if (status != REED_OK) return status;
  j.n = *out_count;
  const cpu_team team = cpu_team_for(row->team, j.n * CANDIDATE_WORK);
  for (j.shift = 0; j.shift < 32 && status == REED_OK; j.shift += CPU_DIGIT_BITS) {
    status = cpu_parallel(team, parts_of(j.n), 1, count_digits, &j);
    if (status != REED_OK) return status;
    cpu_place_digits(j.digits, parts_of(j.n));
    status = cpu_parallel(team, parts_of(j.n), 1, sort_parts, &j);
    nms_candidate *sorted = j.to;
    j.to = sorted == s->spare ? s->order : s->spare;
    j.from = sorted;
  }
  return status;
}

/* A row that one thread orders and deals, each in a chunk. */
typedef struct alone_job {
  const nms_row *row;
  const nms_scratch *s;
  int64_t count, n_groups;
} alone_job;

static void order_alone(void *context, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  alone_job *j = context;
  j->count = collect(j->row, 0, j->row->n->boxes, j->s->order);
  sort_candidates(j->s->order, j->s->spare, j->count);
}

reed_status nms_order(const nms_row *row, const nms_scratch *s, int64_t *out_count) {
  if (row->team.threads > 1 && row->n->boxes >= 2 * PART) return order_shared(row, s, out_count);
  alone_job j = {row, s, 0, 0};
  reed_status status = cpu_parallel(cpu_team_for(row->team, 0), 1, 1, order_alone, &j);
  *out_count = j.count;
  return status;
}

/* ---- groups ---- */

/* A table of candidates by class id (open addressing): the number of a candidate with the id, plus 1. */
typedef struct table {
  uint32_t *at;
  uint64_t room;
} table;

/* The place of the id; *place is 0 if the table lacks it. */
static uint32_t *find_id(const table *t, const nms_row *r, const nms_scratch *s, int64_t id) {
  uint64_t at =
      ((uint64_t)id * 0x9e3779b97f4a7c15ull >> 32) * t->room >> 32; /* Fibonacci hashing: Knuth, TAOCP 3, 6.4 */
  while (t->at[at] && r->ids[s->order[t->at[at] - 1].index] != id) at = at + 1 == t->room ? 0 : at + 1;
  return &t->at[at];
}

/* Numbers the class ids of candidates begin..end-1 in order of appearance: group[i] is the number of candidate i's
 * class; first[k] is the first candidate of class k, unless `first` is NULL. Returns the number of classes. The table
 * is in the memory of the spare candidates begin..end-1. */
static int64_t find_groups(const nms_row *r, const nms_scratch *s, int64_t begin, int64_t end, uint32_t *first) {
  const table t = {(uint32_t *)(s->spare + begin), 2 * (uint64_t)(end - begin)};
  int64_t n_groups = 0;
  memset(t.at, 0, t.room * sizeof *t.at);
  for (int64_t i = begin; i < end; i++) {
    uint32_t *place = find_id(&t, r, s, r->ids[s->order[i].index]);
    if (*place) {
      s->group[i] = s->group[*place - 1];
      continue;
    }
    *place = (uint32_t)i + 1;
    if (first) first[n_groups] = (uint32_t)i;
    s->group[i] = (uint32_t)n_groups++;
  }
  return n_groups;
}

/* Turns sizes of groups into their first slots. */
static void place_groups(uint32_t *sizes, int64_t n_groups) {
  uint32_t begin = 0;
  for (int64_t g = 0; g < n_groups; g++) {
    uint32_t size = sizes[g];
    sizes[g] = begin;
    begin += size;
  }
}

static void find_parts(void *context, int64_t begin, int64_t end) {
  const parts_job *j = context;
  for (int64_t p = begin; p < end; p++) {
    const int64_t at = p * PART, after = part_end(p, j->n);
    j->found[p] = (uint32_t)find_groups(j->row, j->s, at, after, j->first + at);
    memset(j->members + at, 0, j->found[p] * sizeof *j->members);
    for (int64_t i = at; i < after; i++) j->members[at + j->s->group[i]]++;
  }
}

/* Numbers the groups of all parts in order of appearance, and turns the parts' counts of members into slots. Returns
 * the number of groups. */
static int64_t join_groups(const parts_job *j) {
  const nms_scratch *s = j->s;
  int64_t n_groups = 0, n = 0;
  for (int64_t p = 0; p < parts_of(j->n); p++) n += j->found[p];
  const table t = {(uint32_t *)s->spare, 2 * (uint64_t)n};
  memset(t.at, 0, t.room * sizeof *t.at);
  for (int64_t p = 0; p < parts_of(j->n); p++)
    for (int64_t k = p * PART, after = k + j->found[p]; k < after; k++) {
      const uint32_t candidate = j->first[k];
      uint32_t *place = find_id(&t, j->row, s, j->row->ids[s->order[candidate].index]);
      if (!*place) {
        *place = candidate + 1;
        s->slot[candidate] = (uint32_t)n_groups; /* the number of the group, until slots are assigned */
        s->end[n_groups++] = 0;
      }
      j->group[k] = s->slot[*place - 1];
      s->end[j->group[k]] += j->members[k];
    }
  place_groups(s->end, n_groups);
  for (int64_t p = 0; p < parts_of(j->n); p++)
    for (int64_t k = p * PART, after = k + j->found[p]; k < after; k++) {
      const uint32_t members = j->members[k];
      j->members[k] = s->end[j->group[k]];
      s->end[j->group[k]] += members;
    }
  return n_groups;
}

static void deal_parts(void *context, int64_t begin, int64_t end) {
  const parts_job *j = context;
  for (int64_t p = begin; p < end; p++)
    for (int64_t i = p * PART, after = part_end(p, j->n); i < after; i++) {
      const int64_t k = p * PART + j->s->group[i];
      j->s->slot[i] = j->members[k]++;
      j->s->group[i] = j->group[k];
    }
}

static reed_status deal_shared(const nms_row *row, const nms_scratch *s, int64_t count, int64_t *out_groups) {
  parts_job j = {.row = row, .s = s, .n = count};
  j.first = (uint32_t *)s->corners;
  j.members = j.first + s->padded;
  j.group = j.members + s->padded;
  j.found = j.group + s->padded;
  const cpu_team team = cpu_team_for(row->team, count * GROUPED_WORK);
  reed_status status = cpu_parallel(team, parts_of(count), 1, find_parts, &j);
  if (status != REED_OK) return status;
  *out_groups = join_groups(&j);
  return cpu_parallel(team, parts_of(count), 1, deal_parts, &j);
}

/* One group: slots begin..end-1. */
static void deal_one(void *context, int64_t begin, int64_t end) {
  const nms_scratch *s = context;
  memset(s->group + begin, 0, (size_t)(end - begin) * sizeof *s->group);
  for (int64_t i = begin; i < end; i++) s->slot[i] = (uint32_t)i;
}

static void deal_alone(void *context, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  alone_job *j = context;
  const nms_scratch *s = j->s;
  j->n_groups = find_groups(j->row, s, 0, j->count, NULL);
  memset(s->end, 0, (size_t)j->n_groups * sizeof *s->end);
  for (int64_t i = 0; i < j->count; i++) s->end[s->group[i]]++;
  place_groups(s->end, j->n_groups);
  for (int64_t i = 0; i < j->count; i++) s->slot[i] = s->end[s->group[i]]++;
}

reed_status nms_deal(const nms_row *row, const nms_scratch *s, int64_t count, int64_t *out_groups) {
  if (!row->ids) {
    *out_groups = 1;
    s->end[0] = (uint32_t)count;
    nms_scratch own = *s;
    return cpu_parallel(cpu_team_for(row->team, count * CANDIDATE_WORK), count, 64, deal_one, &own);
  }
  if (row->team.threads > 1 && count >= 2 * PART) return deal_shared(row, s, count, out_groups);
  alone_job j = {row, s, count, 0};
  reed_status status = cpu_parallel(cpu_team_for(row->team, 0), 1, 1, deal_alone, &j);
  *out_groups = j.n_groups;
  return status;
}
