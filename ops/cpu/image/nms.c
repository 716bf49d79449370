/* NonMaxSuppression (ONNX opset 11) and torchvision's nms, f32. Per row of scores (batch and class): candidates over
 * the score threshold are sorted once (score descending, equal scores by lower index), their corners laid out as arrays
 * in that order, class id by class id; each survivor then clears the later boxes of its class id that it overlaps by
 * more than the threshold, a vector at a time. Rows run in parallel, each in steps of some boxes, or the class ids of
 * one row; the kept boxes are written one row after the other at the end.
 *
 * Boxes of one class id are suppressed in blocks of the order: a block first within itself, then later boxes by the
 * block's survivors, shared out among the threads; only as many later boxes as the limit is likely to need. Whether a
 * box stays depends on no number of threads.
 *
 * With an infinite threshold no box is suppressed: each row is sorted only.
 *
 * A zero area never suppresses (0 / 0 compares false). Corners may come in any order. Without score_threshold every
 * score counts; a NaN score is last and passes no threshold.
 *
 * The reference: reference/nms.c. The order: nms_order.c. The innermost loop: nms_loops.c. */
#include <math.h>

#include "base/team.h"
#include "ops/cpu/calls/nms.h"
#include "ops/cpu/common/relay.h"
#include "ops/cpu/image/nms_loops.h"
#include "ops/cpu/image/nms_order.h"

#define ALIGNMENT 64

/* ---- one row of scores ---- */

#define BRIEF_ROW 1024            /* boxes of a row whose order and corners take no steps of their own */
#define STEP_PAIRS 49152          /* pairs of boxes that a step compares, about */
#define KEEP_PART ((int64_t)4096) /* of the order, whose kept boxes are listed at a time */
#define KEPT_WORK 16              /* of a box of the order */
#define GIVEN_WORK 36             /* of a kept box */
#define SLOT_PAIRS 8              /* so many take as long as a look at a box that has been suppressed */

/* How far a row has come: the number of its candidates, the next one, and the number of those kept; the end of the
 * block, and its next survivor that is to be compared with later boxes, up to box `reach`. */
typedef struct progress {
  _Alignas(64) int64_t count;
  int64_t next, n_kept, block_end, compared, reach;
} progress;

typedef struct nms_job {
  const nms *n;
  const reed_kernel_buffers *buffers;
  const float *boxes, *scores;
  const int64_t *class_ids; /* NULL: all boxes of a row are of one class */
  const bool *candidates;   /* NULL: all boxes are candidates */
  float iou, least_score;
  int32_t *kept;     /* per row: n->limit indices */
  int64_t *n_kept;   /* per row; at last those of all rows up to it */
  char *scratch;     /* per worker */
  progress *places;  /* of many rows: per worker */
  cpu_team row_team; /* for the classes of one row */
} nms_job;

/* The row of scores; team: the threads that share it out. */
static nms_row row_of(const nms_job *job, int64_t row, cpu_team team) {
  const nms *n = job->n;
  const int64_t image = row / n->classes;
  return (nms_row){.n = n,
                   .scores = job->scores + row * n->boxes,
                   .candidates = job->candidates ? job->candidates + image * n->boxes : NULL,
                   .ids = job->class_ids ? job->class_ids + image * n->boxes : NULL,
                   .least_score = job->least_score,
                   .team = team};
}

static void suppress(const nms_job *job, const nms_scratch *s, int64_t slot, int64_t end) {
  CPU_PICK(job->n->level, nms_suppress)(s->corners, s->padded, slot, slot + 1, end, job->iou, s->alive);
}

/* ---- one group, in blocks ---- */

#define BLOCK ((int64_t)224)
#define FEW_KEPT ((int64_t)128) /* with a lower limit the first few boxes suffice */
#define BLOCK_OF_FEW ((int64_t)32)
#define SPAN ((int64_t)128) /* of later boxes, shared out */

static int64_t block_of(const nms *n) { return n->limit < FEW_KEPT ? BLOCK_OF_FEW : BLOCK; }

/* The boxes that are compared first of so many: where few are suppressed, more than the limit keeps. If they keep
 * fewer, as many again follow, which all those kept are compared with first. */
static int64_t first_reach(const nms *n, int64_t count) {
  return n->limit < count / 2 ? cpu_clamp(n->limit + n->limit / 2 + block_of(n), 0, count) : count;
}

/* A block and later boxes. Its survivors are known: they are compared with the next block, which is then decided
 * itself, while other threads compare them with the boxes after that. */
typedef struct block_job {
  const nms_job *job;
  const nms_scratch *s;
  int64_t begin, end, next_end, count; /* slots */
  int64_t n_kept, next_kept;           /* survivors so far; result: those of the next block */
} block_job;

/* Decides the boxes of a block that all earlier boxes have been compared with. Returns how many stay. */
static int64_t decide_block(const nms_job *job, const nms_scratch *s, int64_t begin, int64_t end) {
  int64_t n_kept = 0;
  for (int64_t slot = begin; slot < end; slot++) {
    if (!s->alive[slot]) continue;
    n_kept++;
    suppress(job, s, slot, end);
  }
  return n_kept;
}

static void suppress_range(const block_job *b, int64_t first, int64_t after) {
  for (int64_t slot = b->begin; slot < b->end && first < after && !cpu_cancelled(&b->job->n->team); slot++)
    if (b->s->alive[slot]) CPU_PICK(b->job->n->level, nms_suppress)
  (b->s->corners, b->s->padded, slot, first, after, b->job->iou, b->s->alive);
}

/* Item 0 is the next block; the others are spans of the boxes after it. */
static void suppress_later(void *context, int64_t begin, int64_t end) {
  block_job *b = context;
  if (begin == 0) {
    suppress_range(b, b->end, b->next_end);
    b->next_kept = decide_block(b->job, b->s, b->end, b->next_end);
    if (b->n_kept + b->next_kept >= b->job->n->limit) return; /* nobody reads the boxes after it */
    begin = 1;
  }
  suppress_range(b, b->next_end + (begin - 1) * SPAN, cpu_clamp(b->next_end + (end - 1) * SPAN, 0, b->count));
}

/* Suppresses in a row of one group, until the limit is reached. Before the first block there is an empty one. */
static reed_status suppress_row(const nms_job *job, const nms_scratch *s, int64_t count) {
  reed_status status = REED_OK;
  int64_t reach = first_reach(job->n, count), block = block_of(job->n), begin = 0, end = 0, kept = 0, n_kept = 0;
  while (end < count && n_kept < job->n->limit && status == REED_OK) {
    if (end == reach) {
      reach = 2 * reach < count ? 2 * reach : count;
      begin = 0;
      kept = n_kept;
    }
    block_job b = {job, s, begin, end, end + block < reach ? end + block : reach, reach, n_kept, 0};
    int64_t items = 1 + (kept > 0 ? (reach - b.next_end + SPAN - 1) / SPAN : 0);
    status = cpu_parallel(cpu_team_for(job->row_team, (reach - end) * kept * 4), items, 1, suppress_later, &b);
    begin = b.end;
    end = b.next_end;
    kept = b.next_kept;
    n_kept += kept;
  }
  return status;
}

typedef struct group_job {
  const nms_job *job;
  const nms_scratch *s;
} group_job;

/* Suppresses in groups begin..end-1 independently: no group can keep more boxes than its row may. */
static void suppress_groups(void *context, int64_t begin, int64_t end) {
  const group_job *g = context;
  for (int64_t k = begin; k < end; k++) {
    int64_t n_kept = 0;
    for (int64_t slot = k ? g->s->end[k - 1] : 0; slot < g->s->end[k] && n_kept < g->job->n->limit; slot++) {
      if (!g->s->alive[slot]) continue;
      if (cpu_cancelled(&g->job->n->team)) return;
      n_kept++;
      suppress(g->job, g->s, slot, g->s->end[k]);
    }
  }
}

/* The team for suppressing group by group, each group to its end. A team of 1 means: one pass over all candidates in
 * order, which stops at the limit, costs less. A box is compared with half of the later boxes of its group, at about 8
 * bytes' worth each. */
static cpu_team team_for_groups(const nms_job *job, const nms_scratch *s, int64_t n_groups, int64_t count) {
  int64_t limit = job->n->limit, all = 0, pairs = 0;
  cpu_team alone = {.threads = 1, .chunks = 1, .cancel = job->row_team.cancel};
  if (job->row_team.threads < 2 || n_groups < 2) return alone;
  for (int64_t k = 0; k < n_groups; k++) {
    int64_t size = s->end[k] - (int64_t)(k ? s->end[k - 1] : 0);
    pairs += size * size / 2;
    all += size * (size < limit ? size : limit) / 2;
  }
  cpu_team team = cpu_team_for(job->row_team, all < INT64_MAX / 8 ? all * 8 : INT64_MAX);
  if (team.threads > n_groups) team.threads = (int32_t)n_groups;
  int64_t in_order = limit < count ? pairs / count * limit : pairs;
  return all / team.threads < in_order ? team : alone;
}

/* The corners of candidates, by slot. */
typedef struct corner_job {
  const nms_job *job;
  const nms_scratch *s;
  const float *boxes;
} corner_job;

static void lay_corners(void *context, int64_t begin, int64_t end) {
  const corner_job *c = context;
  const nms_scratch *s = c->s;
  for (int64_t i = begin; i < end; i++) {
    float *at = s->corners + s->slot[i];
    nms_corners(c->job->n, c->boxes + 4 * (int64_t)s->order[i].index, at, at + s->padded, at + 2 * s->padded,
                at + 3 * s->padded);
    at[4 * s->padded] = (at[2 * s->padded] - at[0]) * (at[3 * s->padded] - at[s->padded]);
    s->alive[s->slot[i]] = 1;
  }
}

/* Lays the candidates' corners; gives the number of groups. */
static reed_status lay_row(const nms_job *job, int64_t row, const nms_scratch *s, int64_t count, int64_t *out_groups) {
  const nms *n = job->n;
  const nms_row of = row_of(job, row, job->row_team);
  reed_status status = nms_deal(&of, s, count, out_groups);
  if (status != REED_OK) return status;
  for (int k = 0; k < 5; k++) /* zero boxes, which touch none */
    memset(s->corners + k * s->padded + count, 0, NMS_VECTOR * sizeof *s->corners);
  corner_job corners = {job, s, job->boxes + row / n->classes * n->boxes * 4};
  return cpu_parallel(cpu_team_for(job->row_team, count * 64), count, 16, lay_corners, &corners);
}

/* Lists the boxes that stay, by parts of the order. */
typedef struct keep_job {
  const nms_job *job;
  const nms_scratch *s;
  int64_t count, part;
  int64_t *before; /* by part: boxes that stay, then those of the parts before it, at last those up to its end */
} keep_job;

static void count_kept(void *context, int64_t begin, int64_t end) {
  const keep_job *k = context;
  for (int64_t p = begin; p < end; p++) {
    int64_t n = 0;
    for (int64_t i = p * k->part, after = cpu_clamp(i + k->part, 0, k->count); i < after; i++)
      n += k->s->alive[k->s->slot[i]] != 0;
    k->before[p] = n;
  }
}

static void list_kept(void *context, int64_t begin, int64_t end) {
  const keep_job *k = context;
  const int64_t limit = k->job->n->limit;
  for (int64_t p = begin; p < end; p++) {
    int64_t n = k->before[p];
    for (int64_t i = p * k->part, after = cpu_clamp(i + k->part, 0, k->count); i < after && n < limit; i++) {
      if (cpu_cancelled_at(&k->job->n->team, i)) return;
      if (k->s->alive[k->s->slot[i]]) k->job->kept[n++] = (int32_t)k->s->order[i].index;
    }
    k->before[p] = n;
  }
}

/* Lists the boxes of the only row that stay; those that are not decided lie behind the limit. Gives their number, 0 for
 * a cancelled run. */
static int64_t keep_alive(const nms_job *job, const nms_scratch *s, int64_t count) {
  const bool shared = job->row_team.threads > 1 && count >= 2 * KEEP_PART;
  const cpu_team team = cpu_team_for(job->row_team, shared ? count * KEPT_WORK : 0);
  keep_job k = {job, s, count, shared ? KEEP_PART : count, (int64_t *)s->corners}; /* corners are not read any more */
  const int64_t parts = (count + k.part - 1) / k.part, limit = job->n->limit;
  k.before[0] = 0;
  if (shared && cpu_parallel(team, parts, 1, count_kept, &k) != REED_OK) return 0;
  if (shared) (void)cpu_sum_before(k.before, parts, 0);
  if (cpu_parallel(team, parts, 1, list_kept, &k) != REED_OK) return 0;
  return cpu_clamp(k.before[parts - 1], 0, limit);
}

/* Takes the first candidates of the order, where no overlap is above the threshold. */
static int64_t keep_first(const nms_job *job, const nms_scratch *s, int64_t count, int32_t *kept) {
  const int64_t n_kept = cpu_clamp(count, 0, job->n->limit);
  for (int64_t i = 0; i < n_kept; i++) kept[i] = (int32_t)s->order[i].index;
  return n_kept;
}

/* The only row: the parts of its work are shared out. Gives the number of boxes that stay, 0 for a cancelled run. */
static int64_t select_row(const nms_job *job) {
  const nms *n = job->n;
  const nms_scratch s = nms_scratch_at(job->scratch, n->boxes);
  const nms_row row = row_of(job, 0, job->row_team);
  int64_t count, n_groups, n_kept = 0;
  if (nms_order(&row, &s, &count) != REED_OK || count == 0) return 0;
  if (job->iou == INFINITY) return keep_first(job, &s, count, job->kept);
  if (lay_row(job, 0, &s, count, &n_groups) != REED_OK) return 0;
  cpu_team team = team_for_groups(job, &s, n_groups, count);
  if (team.threads > 1 && cpu_parallel(team, n_groups, 1, suppress_groups, &(group_job){job, &s}) != REED_OK) return 0;
  if (n_groups == 1 && suppress_row(job, &s, count) != REED_OK) return 0;
  if (team.threads > 1 || n_groups == 1) return keep_alive(job, &s, count);
  for (int64_t i = 0; i < count && n_kept < n->limit && !cpu_cancelled(&n->team); i++) {
    if (!s.alive[s.slot[i]]) continue;
    job->kept[n_kept++] = (int32_t)s.order[i].index;
    if (n_kept < n->limit) suppress(job, &s, s.slot[i], s.end[s.group[i]]);
  }
  return n_kept;
}

/* Goes on with a row: block after block of its boxes. Boxes of several classes are one block. Whole
 * vectors of boxes are compared, to the end of the zero boxes, unless boxes of other classes follow. False: the row is
 * complete. */
static bool suppress_some(const nms_job *job, int64_t row, const nms_scratch *s, progress *at) {
  const nms *n = job->n;
  int32_t *kept = job->kept + row * n->limit;
  for (int64_t left = STEP_PAIRS; at->n_kept < n->limit;) {
    for (; at->next < at->block_end && at->n_kept < n->limit; at->next++, left -= SLOT_PAIRS) {
      if (left <= 0) return true;
      const int64_t slot = s->slot[at->next], first = slot + 1,
                    end = job->class_ids ? s->end[s->group[at->next]] : first + nms_vector_end(at->block_end - first);
      if (!s->alive[slot]) continue;
      kept[at->n_kept++] = (int32_t)s->order[at->next].index;
      CPU_PICK(n->level, nms_suppress)(s->corners, s->padded, slot, first, end, job->iou, s->alive);
      left -= end - first;
    }
    if (at->block_end == at->count || at->n_kept == n->limit) break;
    if (at->block_end == at->reach) {
      at->reach = cpu_clamp(2 * at->reach, 0, at->count);
      at->compared = 0;
    }
    const int64_t later = nms_vector_end(at->reach - at->block_end);
    for (; at->compared < at->block_end; at->compared++) {
      if (left <= 0) return true;
      if (!s->alive[at->compared]) continue;
      CPU_PICK(n->level, nms_suppress)
      (s->corners, s->padded, at->compared, at->block_end, at->block_end + later, job->iou, s->alive);
      left -= later;
    }
    at->block_end = cpu_clamp(at->block_end + block_of(n), 0, at->reach);
  }
  job->n_kept[row] = at->n_kept;
  return false;
}

/* A step of one row of many: the order and the corners of long rows, then some boxes. */
static bool select_some(void *context, int64_t row, int64_t step, int32_t place) {
  const nms_job *job = context;
  const nms *n = job->n;
  const nms_scratch s = nms_scratch_at(job->scratch + place * n->scratch_bytes, n->boxes);
  const bool brief = n->boxes <= BRIEF_ROW;
  progress *at = &job->places[place];
  if (step == 0) {
    const nms_row of = row_of(job, row, job->row_team);
    *at = (progress){0};
    job->n_kept[row] = 0;
    if (nms_order(&of, &s, &at->count) != REED_OK || at->count == 0) return false; /* cancelled, or nothing */
    if (job->iou == INFINITY) {
      job->n_kept[row] = keep_first(job, &s, at->count, job->kept + row * n->limit);
      return false;
    }
    if (!brief) return true;
  }
  if (step == (brief ? 0 : 1)) {
    int64_t n_groups;
    if (lay_row(job, row, &s, at->count, &n_groups) != REED_OK) return false; /* cancelled */
    at->reach = job->class_ids ? at->count : first_reach(n, at->count);
    at->block_end = job->class_ids ? at->count : cpu_clamp(block_of(n), 0, at->reach);
    if (!brief) return true;
  }
  return suppress_some(job, row, &s, at);
}

/* Writes the kept boxes begin..end-1 of all rows. */
static void give_boxes(void *context, int64_t begin, int64_t end) {
  const nms_job *job = context;
  const nms *n = job->n;
  int64_t row = 0;
  for (int64_t least = 0, after = n->batches * n->classes - 1; least < after;) { /* the row of box `begin` */
    const int64_t middle = (least + after) / 2;
    if (job->n_kept[middle] > begin) after = middle;
    else least = middle + 1;
    row = least;
  }
  for (int64_t k = begin; k < end; k++) {
    while (k >= job->n_kept[row]) row++;
    nms_give(n, job->buffers, k, row, job->kept[row * n->limit + k - (row ? job->n_kept[row - 1] : 0)]);
  }
}

static reed_status run_nms(const void *state, const reed_kernel_buffers *buffers) {
  const nms *n = state;
  int64_t total = n->batches * n->classes;
  cpu_team team = cpu_team_for(n->team, total * n->boxes * 64);
  if (team.threads > total) team.threads = (int32_t)total;
  char *workspace = buffers->workspace;
  nms_job job = {.n = n, .buffers = buffers, .boxes = buffers->inputs[0], .scores = buffers->inputs[1]};
  job.iou = nms_threshold(n, buffers);
  if (n->has_score) job.least_score = *(const float *)buffers->inputs[4];
  if (n->has_ids) job.class_ids = buffers->inputs[n->ids_input];
  if (n->has_candidates) job.candidates = buffers->inputs[6];
  job.n_kept = (int64_t *)workspace;
  job.kept = (int32_t *)(workspace + total * 8);
  job.scratch = workspace + n->kept_bytes;
  job.row_team = n->team;
  if (team.threads > 1) job.row_team.threads = 1;
  reed_status status = REED_OK;
  progress places[TEAM_MAX_WORKERS];
  job.places = places;
  if (total > 1) status = cpu_relay(team, total, total * (n->boxes <= BRIEF_ROW ? 1 : 4), select_some, &job);
  else job.n_kept[0] = select_row(&job);
  if (status == REED_OK && cpu_cancelled(&n->team)) status = REED_ERROR_CANCELLED;
  if (status != REED_OK) return status; /* rows may have no count */
  for (int64_t i = 1; i < total; i++) job.n_kept[i] += job.n_kept[i - 1];
  buffers->extents[0] = job.n_kept[total - 1];
  const int64_t n_given = buffers->extents[0];
  return cpu_parallel(cpu_team_for(n->team, n_given * GIVEN_WORK), n_given, 1, give_boxes, &job);
}

static reed_status run_nothing(const void *state, const reed_kernel_buffers *buffers) {
  buffers->extents[0] = 0;
  return REED_OK;
}

reed_status cpu_prepare_nms(const reed_kernel_call *call, reed_kernel *out_kernel) {
  nms read, *n = &read;
  reed_status status = nms_read(call, n);
  if (status != REED_OK) return status;
  if (n->batches * n->classes * n->limit == 0) {
    *out_kernel = (reed_kernel){.run = run_nothing};
    return REED_OK;
  }
  if (n->boxes > INT32_MAX)
    return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "%lld boxes are too many", (long long)n->boxes);
  int64_t total = n->batches * n->classes;
  n->kept_bytes = (total * (8 + n->limit * 4) + ALIGNMENT - 1) & ~(int64_t)(ALIGNMENT - 1);
  n->scratch_bytes = nms_scratch_bytes(n->boxes);
  void *state = mem_copy(n, sizeof *n);
  if (!state) return cpu_no_memory(call);
  cpu_kernel_set(out_kernel, run_nms, state);
  out_kernel->workspace_bytes = n->kept_bytes + n->scratch_bytes * (n->team.threads < total ? n->team.threads : total);
  return REED_OK;
}
