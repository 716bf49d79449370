/* Planning and running products over packed panels (panels.h): tiles, blocks of depth, copies of X at the image's
 * edges. The loop over one tile is in panel_loops.c. */
#include "ops/cpu/product/panels.h"

#include <assert.h>

#include "ops/cpu/common/convert.h"
#include "ops/cpu/formulas/activation_loops.h"
#include "ops/cpu/product/panel_loops.h"
#include "ops/cpu/product/panel_problem.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/views/half.h"

#define ALIGNMENT 64
#define ROWS_MOST 16   /* of a tile, at any level */
#define TILES_MOST 128 /* of a chunk */
#define TILES_SHARED \
  8                   /* of a chunk, at least, where a thread would have none otherwise: the weights pass the cache \
                       */
#define TILES_LEAST 2 /* of a chunk, at least, where panels alone are too few */
#define TILES_FEW 8   /* of a chunk if all weights are at most FEW_BYTES, about the second-level cache */
#define FEW_BYTES (1 << 20)
#define TILES_STREAMED 16 /* of a chunk, at least, if all weights are more than FEW_BYTES */
#define PANELS_STREAMED 4 /* of a group, at least, if a chunk's X is more than FEW_BYTES */
#define DEPTH_MOST \
  1024 /* of a block of several taps: 256 KB of a panel, which stay in the second-level cache while a chunk's tiles \
          pass */
#define CHANNELS_MOST 512       /* of a block of one tap, whose X has no overlap between taps to live on */
#define CHUNK_BYTES (576 << 10) /* of X that a chunk reads, about: passes the second-level cache once a panel */
#define STRIP_BYTES (16 << 10)  /* of X that a strip's tiles multiply, about: half of the first-level cache */
#define STAGE_BYTES (128 << 10) /* of the sums of a chunk that are rounded together: in the second-level cache */
#define LINE_BYTES 64
#define LINE_FLOATS 16
#define ALIASED_BYTES 4096 /* rows at multiples of this share the same few lines of the first-level cache */

/* ---- plans ---- */

/* The depth of a panel runs over tap rows, tap columns, channels. If X has channels first, each channel counts as
 * further tap rows of one channel. */
typedef struct depth_order {
  int64_t tap_rows, tap_columns, channels;
} depth_order;

/* A part of the depth: taps first..first + n of all channels, or part of the channels of one tap. */
typedef struct block {
  int64_t first_tap, n_taps, channel, n_channels;
} block;

/* The offsets of a block's runs, in X itself or in a tile's copy. */
typedef struct run_table {
  bool joined;         /* a row's taps lie one after the other: one run a tap row */
  int64_t row;         /* distance of neighbouring pixels of a tile */
  const int64_t *runs; /* joined: one for each tap row; else one for each tap */
} run_table;

struct panel_plan {
  panel_problem p;
  depth_order order;
  int level_rows, level_lanes;
  cpu_team team;
  void (*multiply)(const panel_tile *tile);
  void (*release)(void); /* ends a thread's use of `multiply`; or NULL */
  int64_t n_blocks, tiles_per_row, n_tiles, tiles_per_chunk, n_chunks, n_groups; /* groups: of panels */
  int64_t rows_least, n_larger; /* rows of a tile; the first n_larger tiles of an image's row have one more */
  int64_t strip_most;           /* tiles */
  int64_t last_whole;           /* the last column of Y whose windows all lie within X's row */
  bool all_copied, some_copied; /* all: X is rounded to pairs as it is copied */
  bool halves;                  /* tiles write bf16, and add a residual of bf16 */
  bool staged;                  /* sums of a chunk stay in f32 in its scratch, other calls with bf16 need it */
  int64_t stage_panels;         /* the panels of a chunk whose sums are staged together; all if none are */
  convert_fn widen, narrow;
  run_table in_place, copied;
  int64_t copy_pixel, copy_span, copy_elements; /* a copy: [tap rows of a block][span][pixel] */
  int64_t bias_elements;
  int64_t taps_per_block, channels_per_block;
  int64_t offsets[]; /* of the run tables */
};

static block block_at(const panel_plan *plan, int64_t i) {
  int64_t taps = plan->order.tap_rows * plan->order.tap_columns;
  if (plan->channels_per_block < plan->order.channels) {
    int64_t pieces = (plan->order.channels + plan->channels_per_block - 1) / plan->channels_per_block;
    block b = {i / pieces, 1, i % pieces * plan->channels_per_block, plan->channels_per_block};
    if (b.channel + b.n_channels > plan->order.channels) b.n_channels = plan->order.channels - b.channel;
    return b;
  }
  block b = {i * plan->taps_per_block, plan->taps_per_block, 0, plan->order.channels};
  if (b.first_tap + b.n_taps > taps) b.n_taps = taps - b.first_tap;
  return b;
}

static void choose_blocks(panel_plan *plan) {
  const depth_order *o = &plan->order;
  int64_t taps = o->tap_rows * o->tap_columns, most = taps == 1 ? CHANNELS_MOST : DEPTH_MOST;
  plan->taps_per_block = taps;
  plan->channels_per_block = o->channels;
  if (o->channels > most) {
    int64_t pieces = (o->channels + most - 1) / most;
    plan->channels_per_block = round_up((o->channels + pieces - 1) / pieces, 16);
    plan->taps_per_block = 1;
    plan->n_blocks = taps * ((o->channels + plan->channels_per_block - 1) / plan->channels_per_block);
    return;
  }
  if (taps * o->channels > most) {
    plan->taps_per_block = most / o->channels;
    if (plan->taps_per_block >= o->tap_columns)
      plan->taps_per_block -= plan->taps_per_block % o->tap_columns; /* whole tap rows */
  }
  plan->n_blocks = (taps + plan->taps_per_block - 1) / plan->taps_per_block;
}

/* Distance in X between the first elements of tap row 0 and of tap row `tap_row`. */
static int64_t tap_row_at(const panel_plan *plan, int64_t tap_row) {
  const panel_problem *p = &plan->p;
  int64_t taps = p->taps[0] * p->taps[1], tap = tap_row % taps;
  return tap_row / taps * p->x_channel + tap / p->taps[1] * p->dilation[0] * p->x_slab +
         tap % p->taps[1] * p->dilation[1] * p->x_row;
}

/* The most tap rows that a block touches. */
static int64_t block_rows(const panel_plan *plan) {
  int64_t columns = plan->order.tap_columns, n = (plan->taps_per_block + columns - 1) / columns;
  if (plan->taps_per_block % columns != 0) n++; /* it may begin within a row */
  return n < plan->order.tap_rows ? n : plan->order.tap_rows;
}

static void choose_runs(panel_plan *plan) {
  const panel_problem *p = &plan->p;
  const depth_order *o = &plan->order;
  bool whole_rows =
      plan->channels_per_block == o->channels && (plan->taps_per_block % o->tap_columns == 0) && p->dilation[2] == 1;
  plan->in_place = (run_table){whole_rows && p->x_pixel == o->channels, p->stride[2] * p->x_pixel, plan->offsets};
  plan->copied = (run_table){whole_rows && plan->copy_pixel == o->channels, p->stride[2] * plan->copy_pixel,
                             plan->offsets + o->tap_rows * o->tap_columns};
  int64_t *in_place = plan->offsets, *copied = plan->offsets + o->tap_rows * o->tap_columns;
  for (int64_t y = 0; y < o->tap_rows; y++)
    for (int64_t x = 0; x < o->tap_columns; x++) {
      if (!plan->in_place.joined || x == 0) *in_place++ = tap_row_at(plan, y) + x * p->dilation[2] * p->x_pixel;
      if (!plan->copied.joined || x == 0)
        *copied++ = y * plan->copy_span * plan->copy_pixel + x * p->dilation[2] * plan->copy_pixel;
    }
}

/* Splits the work further, up to `wanted` items: into groups of at least `panels` panels, then into chunks of at least
 * `tiles` tiles. */
static void share_further(panel_plan *plan, int64_t wanted, int64_t panels, int64_t tiles) {
  int64_t each = divided(wanted, plan->p.groups), groups = packed_panels(plan->p.outputs) / panels;
  plan->n_groups = larger(plan->n_groups, smaller(divided(each, plan->n_chunks), groups));
  each = divided(each, plan->n_groups);
  plan->n_chunks = larger(plan->n_chunks, smaller(each, plan->n_tiles / tiles));
}

/* Makes as many items of work as the team wants: smaller chunks if the weights stay in the cache, then groups of
 * panels, then chunks smaller still. A group reads its chunk's X anew, and a chunk its group's weights: where these
 * are larger than the cache, groups and chunks are no smaller than the memory's rate allows, unless threads would have
 * no work. */
static void share_tiles(panel_plan *plan, bool few_weights) {
  const panel_problem *p = &plan->p;
  int64_t least = 4 * plan->team.threads, wanted = larger(least, plan->team.chunks), each = divided(wanted, p->groups);
  if (few_weights) plan->n_chunks = larger(plan->n_chunks, smaller(each, divided(plan->n_tiles, TILES_SHARED)));
  int64_t x_bytes = divided(plan->n_tiles, plan->n_chunks) * plan->level_rows * p->channels * (int64_t)sizeof(float);
  share_further(plan, wanted, x_bytes > FEW_BYTES ? PANELS_STREAMED : 1, few_weights ? TILES_LEAST : TILES_STREAMED);
  share_further(plan, least, 1, TILES_LEAST);
  int64_t items = p->groups * plan->n_chunks * plan->n_groups;
  if (items < 2 * plan->team.chunks) plan->team.chunks = (int32_t)items;
}

static void choose_tiles(panel_plan *plan) {
  panel_problem *p = &plan->p;
  plan->tiles_per_row = (p->out[2] + plan->level_rows - 1) / plan->level_rows;
  plan->rows_least = p->out[2] / plan->tiles_per_row;
  plan->n_larger = p->out[2] % plan->tiles_per_row;
  plan->strip_most = larger(
      STRIP_BYTES / (plan->level_rows * plan->taps_per_block * plan->channels_per_block * (int64_t)sizeof(float)), 1);
  plan->n_tiles = p->images * p->out[0] * p->out[1] * plan->tiles_per_row;
  plan->last_whole = panel_last_whole_column(p);
  plan->all_copied = p->pairs && !p->halves.x;
  plan->some_copied = plan->all_copied;
  for (int i = 0; i < PANEL_AXES; i++)
    if (p->pad[i] > 0 || (p->out[i] - 1) * p->stride[i] - p->pad[i] + (p->taps[i] - 1) * p->dilation[i] >= p->in[i])
      plan->some_copied = true;
  plan->copy_pixel = plan->channels_per_block;
  if (plan->copy_pixel * p->stride[2] * (int64_t)sizeof(float) % (ALIASED_BYTES / 2) == 0) plan->copy_pixel += 16;
  plan->copy_span = (plan->level_rows - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1;
  plan->copy_elements = round_up(block_rows(plan) * plan->copy_span * plan->copy_pixel, 16);
  /* with one tap, tiles share no X: if the weights stay in the cache from chunk to chunk, small chunks keep X and Y
   * near */
  int64_t taps = p->taps[0] * p->taps[1] * p->taps[2];
  bool few_weights = taps * p->channels * p->outputs * (int64_t)sizeof(float) <= FEW_BYTES,
       few = taps == 1 && few_weights;
  int64_t tiles = CHUNK_BYTES / (plan->copy_elements * (int64_t)sizeof(float)), most = few ? TILES_FEW : TILES_MOST;
  tiles = tiles < 4 ? 4 : tiles > most ? most : tiles;
  plan->n_chunks = divided(plan->n_tiles, tiles);
  plan->n_groups = 1;
  if (plan->team.threads > 1) share_tiles(plan, few_weights);
  plan->tiles_per_chunk = divided(plan->n_tiles, plan->n_chunks);
}

/* Pixels of Y of a chunk, at most. */
static int64_t chunk_pixels(const panel_plan *plan) { return plan->tiles_per_chunk * plan->level_rows; }
/* Columns of a chunk's staged sums. */
static int64_t stage_row(const panel_plan *plan) { return plan->stage_panels * PACKED_WIDTH; }

static void choose_stage(panel_plan *plan, cpu_level level) {
  const packed_halves *halves = &plan->p.halves;
  const activation_kind kind = plan->p.activation.kind;
  plan->halves =
      halves->y && halves->residual && plan->n_blocks == 1 && (kind == ACTIVATION_NONE || kind == ACTIVATION_RELU);
  plan->staged = (halves->y || halves->residual) && !plan->halves;
  plan->stage_panels = packed_panels(plan->p.outputs);
  if (!plan->staged) return;
  int64_t most = STAGE_BYTES / (chunk_pixels(plan) * PACKED_WIDTH * (int64_t)sizeof(float));
  plan->stage_panels = larger(smaller(plan->stage_panels, most), 1);
  plan->widen = convert_between(level, REED_BF16, REED_F32);
  plan->narrow = convert_between(level, REED_F32, REED_BF16);
}

reed_status panel_plan_open(const reed_kernel_call *call, const panel_problem *problem, panel_plan **out_plan) {
  bool first = problem->channels_first;
  depth_order order = {problem->taps[0] * problem->taps[1] * (first ? problem->channels : 1), problem->taps[2],
                       first ? 1 : problem->channels};
  size_t taps = (size_t)(order.tap_rows * order.tap_columns);
  panel_plan *plan = mem_calloc(1, sizeof *plan + 2 * taps * sizeof *plan->offsets);
  if (!plan) return cpu_no_memory(call);
  plan->p = *problem;
  plan->order = order;
  panel_join_rows(&plan->p);
  cpu_level level = cpu_level_now();
  plan->multiply = CPU_PICK(level, panel_multiply);
#ifdef CPU_HAS_BF16_LOOPS
  if (problem->pairs) plan->multiply = panel_pairs_multiply;
#endif
  plan->level_rows = CPU_PICK(level, panel_rows)();
#ifdef CPU_HAS_AMX_LOOPS
  if (problem->pairs && level >= CPU_AMX) {
    plan->multiply = panel_amx_multiply;
    plan->release = panel_amx_release;
    plan->level_rows = panel_amx_rows();
  }
#endif
  assert(plan->level_rows <= ROWS_MOST);
  plan->level_lanes = CPU_PICK(level, panel_lanes)();
  plan->team = cpu_team_for(cpu_env_team(call), panel_work(problem));
  plan->bias_elements = round_up(problem->groups * problem->outputs, PACKED_WIDTH) + PACKED_WIDTH;
  choose_blocks(plan);
  choose_tiles(plan);
  choose_stage(plan, level);
  choose_runs(plan);
  *out_plan = plan;
  return REED_OK;
}

void panel_plan_close(panel_plan *plan) { mem_free(plan); }

int64_t panel_plan_state_bytes(const panel_plan *plan) {
  return (int64_t)sizeof *plan + 2 * plan->order.tap_rows * plan->order.tap_columns * (int64_t)sizeof *plan->offsets;
}

static int64_t depth_of(const panel_plan *plan) {
  return plan->order.tap_rows * plan->order.tap_columns * plan->order.channels;
}

static int64_t copies_elements(const panel_plan *plan) {
  return plan->some_copied ? plan->tiles_per_chunk * plan->copy_elements : 0;
}

static int64_t thread_elements(const panel_plan *plan) {
  return copies_elements(plan) + (plan->staged ? chunk_pixels(plan) * stage_row(plan) : 0);
}

int64_t panel_plan_workspace_bytes(const panel_plan *plan) {
  return (plan->bias_elements + plan->team.threads * thread_elements(plan)) * (int64_t)sizeof(float);
}

/* ---- running ---- */

/* A strip of neighbouring tiles of as many rows each; one tile if it is copied. */
typedef struct placed_strip {
  const float *a; /* in X, or the copy */
  int64_t y;      /* offset of its first pixel in Y */
  int64_t pixel;  /* pixels of the chunk before */
  int64_t image, slab, row, column, rows, count;
  bool copied;
  int64_t tap_begin, tap_end;       /* tap rows; those before and after lie beyond the image's edge */
  int64_t column_begin, column_end; /* tap columns, likewise for all pixels of the tile */
} placed_strip;

typedef struct panel_run {
  const panel_plan *plan;
  const float *x, *weights, *bias;
  const void *residual;
  void *y;
  float *copies, *stage; /* of the thread */
} panel_run;

/* Leaves out the tap rows and columns of a copied strip before the first one and after the last one that meet X. */
static void leave_out_taps(const panel_plan *plan, const int64_t *from, placed_strip *t) {
  const panel_problem *p = &plan->p;
  int64_t begin[2], end[2];
  if (p->channels_first) return; /* whose tap rows are those of each channel */
  for (int i = 0; i < 2; i++) panel_taps_inside(p, i, from[i], &begin[i], &end[i]);
  t->tap_begin = begin[0] * p->taps[1] + begin[1];
  t->tap_end = (end[0] - 1) * p->taps[1] + end[1];
  int64_t unused;
  panel_taps_inside(p, 2, from[2], &unused, &t->column_end);
  panel_taps_inside(p, 2, from[2] + (t->rows - 1) * p->stride[2], &t->column_begin, &unused);
  t->column_end = larger(t->column_end, t->column_begin + 1);
}

/* Up to `most` tiles of an image's row from tile k on, without a division, which would slow small tiles. A tile is
 * copied if one of its windows reaches over the image's edge. */
static placed_strip place(const panel_run *run, int64_t image, int64_t slab, int64_t row, int64_t k, int64_t most) {
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  bool is_larger = k < plan->n_larger;
  placed_strip t = {.image = image,
                    .slab = slab,
                    .row = row,
                    .rows = plan->rows_least + is_larger,
                    .count = 1,
                    .copied = true,
                    .tap_end = plan->order.tap_rows,
                    .column_end = plan->order.tap_columns};
  t.column = k * plan->rows_least + (is_larger ? k : plan->n_larger);
  t.y = t.image * p->y_image + t.slab * p->y_slab + t.row * p->y_row + t.column * p->y_pixel;
  int64_t from[PANEL_AXES] = {t.slab * p->stride[0] - p->pad[0], t.row * p->stride[1] - p->pad[1],
                              t.column * p->stride[2] - p->pad[2]};
  if (plan->all_copied) {
    leave_out_taps(plan, from, &t);
    return t;
  }
  for (int i = 0; i < PANEL_AXES && plan->some_copied; i++) {
    int64_t to = from[i] + (p->taps[i] - 1) * p->dilation[i] + (i == 2 ? (t.rows - 1) * p->stride[i] : 0);
    if (from[i] >= 0 && to < p->in[i]) continue;
    leave_out_taps(plan, from, &t);
    return t;
  }
  t.copied = false;
  t.a = run->x + t.image * p->x_image + from[0] * p->x_slab + from[1] * p->x_row + from[2] * p->x_pixel;
  most = smaller(smaller(most, plan->strip_most), (is_larger ? plan->n_larger : plan->tiles_per_row) - k);
  int64_t end = plan->some_copied ? plan->last_whole : p->out[2] - 1;
  while (t.count < most && t.column + (t.count + 1) * t.rows - 1 <= end) t.count++;
  return t;
}

/* Rounds so many pixels of X to pairs. */
static void copy_pairs(const float *from, int64_t from_pixel, int64_t n, int64_t pairs, float *to, int64_t to_pixel) {
#ifdef CPU_HAS_BF16_LOOPS
  for (int64_t i = 0; i < n; i++) panel_pairs_convert(from + i * from_pixel, 2 * pairs, to + i * to_pixel);
#else
  (void)from, (void)from_pixel, (void)n, (void)pairs, (void)to, (void)to_pixel;
#endif
}

/* Copies the part of X that a block needs for a tile, with zeros beyond the image's edge. */
static void copy_tile(const panel_run *run, const placed_strip *t, const block *b, float *to) {
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t columns = plan->order.tap_columns, first = b->first_tap / columns,
          end = (b->first_tap + b->n_taps + columns - 1) / columns;
  int64_t left = t->column * p->stride[2] - p->pad[2],
          n = (t->rows - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1;
  int64_t inside = left < 0 ? -left : 0, outside = p->in[2] - left; /* pixels inside..outside of n are X's */
  if (inside > n) inside = n;
  if (outside > n) outside = n;
  if (outside < inside) outside = inside;
  size_t pixel = (size_t)b->n_channels * sizeof(float);
  for (int64_t tap_row = larger(first, t->tap_begin); tap_row < smaller(end, t->tap_end); tap_row++) {
    float *row = to + (tap_row - first) * plan->copy_span * plan->copy_pixel;
    int64_t tap = tap_row % (p->taps[0] * p->taps[1]);
    int64_t z = t->slab * p->stride[0] - p->pad[0] + tap / p->taps[1] * p->dilation[0],
            y = t->row * p->stride[1] - p->pad[1] + tap % p->taps[1] * p->dilation[1];
    bool empty = z < 0 || z >= p->in[0] || y < 0 || y >= p->in[1] || inside == outside;
    if (empty) {
      memset(row, 0, (size_t)(n * plan->copy_pixel) * sizeof *row);
      continue;
    }
    const float *from = run->x + t->image * p->x_image + tap_row / (p->taps[0] * p->taps[1]) * p->x_channel +
                        z * p->x_slab + y * p->x_row + left * p->x_pixel + b->channel;
    from += plan->all_copied ? b->channel : 0; /* two floats for a pair */
    memset(row, 0, (size_t)(inside * plan->copy_pixel) * sizeof *row);
    memset(row + outside * plan->copy_pixel, 0, (size_t)((n - outside) * plan->copy_pixel) * sizeof *row);
    if (plan->all_copied)
      copy_pairs(from + inside * p->x_pixel, p->x_pixel, outside - inside, b->n_channels,
                 row + inside * plan->copy_pixel, plan->copy_pixel);
    else if (plan->copy_pixel == p->x_pixel && b->n_channels == p->x_pixel)
      memcpy(row + inside * plan->copy_pixel, from + inside * p->x_pixel, (size_t)(outside - inside) * pixel);
    else if (b->n_channels % LINE_FLOATS == 0) /* lines of constant size: no calls of memcpy */
      for (int64_t i = inside; i < outside; i++)
        for (int64_t c = 0; c < b->n_channels; c += LINE_FLOATS)
          memcpy(row + i * plan->copy_pixel + c, from + i * p->x_pixel + c, LINE_FLOATS * sizeof *row);
    else
      for (int64_t i = inside; i < outside; i++) memcpy(row + i * plan->copy_pixel, from + i * p->x_pixel, pixel);
  }
}

/* The weights of a block of depth. */
static const float *weights_at(const panel_run *run, int64_t panel, int64_t begun) {
  const panel_plan *plan = run->plan;
  return run->weights + panel * PACKED_WIDTH * depth_of(plan) + begun * packed_width(plan->p.outputs, panel);
}

/* Bytes to prefetch for each element of depth, one cache line at most. */
static int64_t fetch_step(int64_t bytes, int64_t depth) {
  int64_t step = (bytes + depth - 1) / depth;
  return step < LINE_BYTES ? step : LINE_BYTES;
}

/* Runs one block of depth. A panel stays in the cache while the chunk's tiles pass; each tile prefetches its share of
 * the next panel, or the X to its right if none of that has been read. */
static void run_block(const panel_run *run, const block *b, const placed_strip *strips, int64_t n_strips,
                      int64_t n_tiles, int64_t panel_begin, int64_t panel_end, bool first, bool last) {
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t begun = b->first_tap * plan->order.channels + b->channel, columns = plan->order.tap_columns,
          depth = b->n_taps * b->n_channels;
  int64_t right = plan->level_rows * p->stride[2] * p->x_pixel,
          lowest = (p->taps[0] - 1) * p->dilation[0] * p->x_slab + (p->taps[1] - 1) * p->dilation[1] * p->x_row;
  int64_t right_step = fetch_step(right * (int64_t)sizeof(float), depth),
          y_row = plan->staged ? stage_row(plan) : p->y_pixel;
  for (int64_t panel = panel_begin; panel < panel_end; panel++) {
    int64_t output = panel * PACKED_WIDTH, width = packed_width(p->outputs, panel), n = p->outputs - output;
    int64_t vectors = round_up(n, plan->level_lanes); /* whole ones */
    int64_t share = depth * width * (int64_t)sizeof(float) / n_tiles, share_step = fetch_step(share, depth);
    const char *next = (const char *)(panel + 1 < panel_end ? weights_at(run, panel + 1, begun)
                                                            : weights_at(run, panel_begin, last ? 0 : begun + depth));
    const float *panel_weights = weights_at(run, panel, begun);
    panel_tile kinds[2]; /* in place, and of a copy */
    for (int copied = 0; copied < 2; copied++) {
      const run_table *table = copied ? &plan->copied : &plan->in_place;
      kinds[copied] = (panel_tile){
          .runs = table->runs + (table->joined ? b->first_tap / columns : b->first_tap),
          .panel = panel_weights,
          .bias = run->bias + output,
          .n_runs = table->joined ? b->n_taps / columns : b->n_taps,
          .run_length = table->joined ? columns * b->n_channels : b->n_channels,
          .a_row = table->row,
          .panel_row = width,
          .c_row = y_row,
          .width = vectors < width ? vectors : width,
          .columns = n,
          .scale = 1,
          .first = first,
          .relu = last && p->activation.kind == ACTIVATION_RELU,
          .halves = plan->halves,
      };
    }
    for (int64_t i = 0, tile = 0; i < n_strips; tile += strips[i++].count) {
      const placed_strip *at = &strips[i];
      panel_tile *t = &kinds[at->copied];
      bool new_x = first && panel == panel_begin && !at->copied;
      t->c = plan->staged ? run->stage + at->pixel * y_row + output - panel_begin * PACKED_WIDTH
                          : half_element(run->y, plan->halves, at->y + output);
      /* a copy begins with the block's first tap row */
      t->a = at->a + (at->copied ? -(b->first_tap / columns * plan->copy_span * plan->copy_pixel) : b->channel);
      if (at->copied) { /* only the taps that meet X */
        int64_t tap_end = b->first_tap + b->n_taps, unit = plan->copied.joined ? columns : 1,
                begin = smaller(larger(b->first_tap, at->tap_begin * columns), tap_end),
                end = larger(smaller(tap_end, at->tap_end * columns), begin);
        if (unit == 1 && b->first_tap / columns == (tap_end - 1) / columns) { /* of one tap row */
          int64_t row = b->first_tap / columns * columns;
          begin = smaller(larger(begin, row + at->column_begin), tap_end);
          end = larger(smaller(end, row + at->column_end), begin);
        }
        t->runs = plan->copied.runs + begin / unit;
        t->n_runs = (end - begin) / unit;
        t->panel = panel_weights + (begin - b->first_tap) * b->n_channels * width;
      }
      t->residual = !first || !run->residual ? NULL
                    : plan->staged           ? t->c
                                             : half_element(run->residual, plan->halves, at->y + output);
      t->rows = at->rows;
      t->count = at->count;
      t->next = new_x ? (const char *)(at->a + lowest + right) : next + tile * share;
      t->next_step = new_x ? right_step : share_step;
      plan->multiply(t);
    }
  }
}

/* Applies the activation to n outputs of a strip's pixels, from `output` on. */
static void activate(const panel_run *run, const placed_strip *strip, int64_t output, int64_t n) {
  const panel_plan *plan = run->plan;
  const activation *a = &plan->p.activation;
  if (a->kind == ACTIVATION_NONE || a->kind == ACTIVATION_RELU) return;
  const int64_t row = plan->staged ? stage_row(plan) : plan->p.y_pixel, rows = strip->rows * strip->count;
  float *y = plan->staged ? run->stage + strip->pixel * row : (float *)run->y + strip->y + output;
  const bool dense = n == row;
  for (int64_t i = 0; i < (dense ? 1 : rows); i++) CPU_PICK(a->level, activate_f32)
  (a->kind, (float)a->alpha, (float)a->beta, y + i * row, dense ? n * rows : n);
}

/* Copies n outputs of a strip's pixels from `output` on between the stage and Y or the residual, which is bf16 if
 * `half`. */
static void stage_rows(const panel_run *run, const placed_strip *strip, const void *outside, bool half, bool to_stage,
                       int64_t output, int64_t n) {
  const panel_plan *plan = run->plan;
  int64_t row = stage_row(plan), pixel = plan->p.y_pixel, rows = strip->rows * strip->count;
  const bool dense = n == row && n == pixel;
  float *stage = run->stage + strip->pixel * row;
  for (int64_t i = 0; i < (dense ? 1 : rows); i++) {
    void *at = half_element(outside, half, strip->y + i * pixel + output);
    const int64_t count = dense ? n * rows : n;
    if (half && to_stage) plan->widen(stage + i * row, at, count);
    else if (half) plan->narrow(at, stage + i * row, count);
    else if (to_stage) memcpy(stage + i * row, at, (size_t)count * sizeof *stage);
    else memcpy(at, stage + i * row, (size_t)count * sizeof *stage);
  }
}

/* Panels panel..panel_end of a chunk. `copies`: the first block's copies of X are not there yet. */
static void run_panels(const panel_run *run, placed_strip *strips, int64_t n, int64_t n_tiles, int64_t panel,
                       int64_t panel_end, bool copies) {
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t output = panel * PACKED_WIDTH, outputs = smaller(panel_end * PACKED_WIDTH, p->outputs) - output;
  for (int64_t i = 0; plan->staged && run->residual && i < n; i++)
    stage_rows(run, &strips[i], run->residual, p->halves.residual, true, output, outputs);
  for (int64_t i = 0; i < plan->n_blocks; i++) {
    block b = block_at(plan, i);
    for (int64_t k = 0; k < n; k++)
      if (strips[k].copied && (i > 0 || copies)) {
        float *copy = run->copies + k * plan->copy_elements;
        copy_tile(run, &strips[k], &b, copy);
        strips[k].a = copy;
      }
    run_block(run, &b, strips, n, n_tiles, panel, panel_end, i == 0, i == plan->n_blocks - 1);
  }
  for (int64_t i = 0; i < n; i++) {
    activate(run, &strips[i], output, outputs);
    if (plan->staged) stage_rows(run, &strips[i], run->y, p->halves.y, false, output, outputs);
  }
}

static void run_chunk(const panel_run *run, int64_t chunk, int64_t group) {
  const panel_plan *plan = run->plan;
  placed_strip strips[TILES_MOST];
  int64_t begin = plan->n_tiles * chunk / plan->n_chunks, n = 0,
          n_tiles = plan->n_tiles * (chunk + 1) / plan->n_chunks - begin;
  int64_t k = begin % plan->tiles_per_row, rest = begin / plan->tiles_per_row, row = rest % plan->p.out[1],
          slab = rest / plan->p.out[1] % plan->p.out[0], image = rest / plan->p.out[1] / plan->p.out[0];
  for (int64_t left = n_tiles, pixel = 0; left > 0; left -= strips[n++].count) {
    strips[n] = place(run, image, slab, row, k, left);
    strips[n].pixel = pixel;
    pixel += strips[n].rows * strips[n].count;
    k += strips[n].count;
    if (k < plan->tiles_per_row) continue;
    k = 0;
    if (++row < plan->p.out[1]) continue;
    row = 0;
    if (++slab < plan->p.out[0]) continue;
    slab = 0;
    image++;
  }
  int64_t panels = packed_panels(plan->p.outputs), panel = panels * group / plan->n_groups,
          panel_end = panels * (group + 1) / plan->n_groups;
  for (int64_t at = panel; at < panel_end; at += plan->stage_panels)
    run_panels(run, strips, n, n_tiles, at, smaller(at + plan->stage_panels, panel_end),
               at == panel || plan->n_blocks > 1);
}

static void run_chunks(void *context, int64_t begin, int64_t end, int32_t worker) {
  const panel_run *run = context;
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t items = plan->n_chunks * plan->n_groups; /* of a group */
  for (int64_t i = begin; i < end && !cpu_cancelled(&plan->team); i++) {
    int64_t group = i / items, item = i % items;
    panel_run of_group = *run;
    of_group.x += group * p->channels * p->x_channel; /* of pairs, if X has them */
    of_group.weights += group * p->weights_group;
    of_group.bias += group * p->outputs;
    of_group.residual = half_element(run->residual, p->halves.residual, group * p->outputs);
    of_group.y = half_element(run->y, p->halves.y, group * p->outputs);
    of_group.copies += worker * thread_elements(plan);
    of_group.stage = of_group.copies + copies_elements(plan);
    run_chunk(&of_group, item / plan->n_groups, item % plan->n_groups);
  }
  if (plan->release) plan->release();
}

reed_status panel_plan_run(const panel_plan *plan, const void *x, const float *weights, const float *bias,
                           const void *residual, void *y, void *workspace) {
  float *padded = workspace;
  memset(padded, 0, (size_t)plan->bias_elements * sizeof *padded);
  if (bias) memcpy(padded, bias, (size_t)(plan->p.groups * plan->p.outputs) * sizeof *padded);
  panel_run run = {.plan = plan,
                   .x = x,
                   .weights = weights,
                   .bias = padded,
                   .residual = residual,
                   .y = y,
                   .copies = padded + plan->bias_elements};
  return cpu_parallel_scratch(plan->team, plan->p.groups * plan->n_chunks * plan->n_groups, 1, run_chunks, &run);
}
