/* Running products over packed panels (panels.h): copies of X at the image's edges, and the order of tiles and panels.
 * The plan is made in panels.c, the loop over one tile is in panel_loops.c. */
#include "base/team.h"
#include "ops/cpu/formulas/activation_loops.h"
#include "ops/cpu/product/panel_plan.h"
#include "ops/cpu/product/panel_problem.h"
#include "ops/cpu/product/pieces.h"
#include "ops/cpu/views/half.h"

#define LINE_BYTES 64
#define LINE_FLOATS 16
#define TILES_WIDENED 3 /* that pass a panel of f16, at least: the first one then leaves it widened for the others */

/* A strip of neighbouring tiles of as many rows each; one tile if it is copied, several only to be rounded. */
typedef struct placed_strip {
  const float *a; /* in X, or the copy */
  const float *x; /* if X is rounded: in X, whose first pixels may lie before it */
  int64_t y;      /* offset of its first pixel in Y */
  int64_t pixel;  /* pixels of the piece before */
  int64_t tile;   /* tiles of the chunk before */
  int64_t image, slab, row, column, rows, count;
  bool copied;
  int64_t tap_begin, tap_end;       /* tap rows; those before and after lie beyond the image's edge */
  int64_t column_begin, column_end; /* tap columns, likewise for all pixels of the tile */
} placed_strip;

/* The copies of X in a thread's scratch: those of a chunk, by piece. */
typedef struct held_copies {
  int64_t chunk;   /* of a group of channels and a block of depth; -1: none */
  uint64_t pieces; /* a bit each */
} held_copies;

typedef struct panel_run {
  const panel_plan *plan;
  const float *x, *bias;
  const char *weights;
  const void *residual;
  void *y;
  float *copies, *stage, *widened; /* of the thread */
  held_copies *held;               /* of the thread; NULL: an item copies for itself */
  int64_t block, block_end;
  int64_t first_block; /* whose products begin a sum */
  /* of the item: the first panel and block of the thread's next item, and that X is not in the cache */
  int64_t next_panel, next_block;
  bool new_x;
  int64_t ahead; /* from its X to that of the thread's next item, about */
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
  panel_taps_inside(p, 2, from[2] + (t->rows * t->count - 1) * p->stride[2], &t->column_begin, &unused);
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
  const float *x = run->x + t.image * p->x_image + from[0] * p->x_slab + from[1] * p->x_row + from[2] * p->x_pixel;
  most = smaller(smaller(most, plan->all_copied ? plan->copied_most : plan->strip_most),
                 (is_larger ? plan->n_larger : plan->tiles_per_row) - k);
  if (plan->all_copied) { /* several tiles are joined where no window reaches over the end of X's row */
    t.x = x;
    while (from[2] >= 0 && t.count < most && t.column + (t.count + 1) * t.rows - 1 <= plan->last_whole) t.count++;
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
  t.a = x;
  int64_t end = plan->some_copied ? plan->last_whole : p->out[2] - 1;
  while (t.count < most && t.column + (t.count + 1) * t.rows - 1 <= end) t.count++;
  return t;
}

/* Rounds so many pixels of X to pairs. */
static void copy_pairs(const float *from, int64_t from_pixel, int64_t n, int64_t pairs, float *to, int64_t to_pixel) {
#ifdef CPU_HAS_BF16_LOOPS
  if (from_pixel == 2 * pairs && to_pixel == pairs) return panel_pairs_convert(from, 2 * pairs * n, to);
  for (int64_t i = 0; i < n; i++) panel_pairs_convert(from + i * from_pixel, 2 * pairs, to + i * to_pixel);
#else
  (void)from, (void)from_pixel, (void)n, (void)pairs, (void)to, (void)to_pixel;
#endif
}

/* Copies the part of X that a block needs for a strip, with zeros beyond the image's edge. */
static void copy_tile(const panel_run *run, const placed_strip *t, const block *b, float *to) {
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t columns = plan->order.tap_columns, first = b->first_tap / columns,
          end = (b->first_tap + b->n_taps + columns - 1) / columns;
  int64_t left = t->column * p->stride[2] - p->pad[2],
          n = (t->rows * t->count - 1) * p->stride[2] + (p->taps[2] - 1) * p->dilation[2] + 1;
  int64_t inside = left < 0 ? -left : 0, outside = p->in[2] - left; /* pixels inside..outside of n are X's */
  if (inside > n) inside = n;
  if (outside > n) outside = n;
  if (outside < inside) outside = inside;
  size_t pixel = (size_t)b->n_channels * sizeof(float);
  for (int64_t tap_row = larger(first, t->tap_begin); tap_row < smaller(end, t->tap_end); tap_row++) {
    float *row = to + (tap_row - first) * copy_span(plan, t->count) * plan->copy_pixel;
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
static const char *weights_at(const panel_run *run, int64_t panel, int64_t begun) {
  const panel_plan *plan = run->plan;
  return run->weights +
         (panel * PACKED_WIDTH * depth_of(plan) + begun * packed_width(plan->p.outputs, panel)) * weight_bytes(plan);
}

/* Bytes to prefetch for each element of depth, one cache line at most. */
static int64_t fetch_step(int64_t bytes, int64_t depth) {
  int64_t step = (bytes + depth - 1) / depth;
  return step < LINE_BYTES ? step : LINE_BYTES;
}

/* The weights that are read after those of the item's last panel in block i of the depth. */
static const char *weights_after(const panel_run *run, int64_t i, int64_t panel_begin) {
  const panel_plan *plan = run->plan;
  /* the same panels, deeper, by this item or by the next one */
  bool again = i + 1 < (plan->n_parts > 1 ? plan->n_blocks : run->block_end);
  block b = block_at(plan, again ? i + 1 : run->next_block);
  return weights_at(run, again ? panel_begin : run->next_panel, b.first_tap * plan->order.channels + b.channel);
}

/* A panel's weights of a block for the tiles of an item. If so many tiles read weights of f16 that widening them once
 * pays (`pending`), the first tile leaves them in the thread's scratch. */
typedef struct item_weights {
  const char *at;
  int64_t bytes; /* of one */
  bool pending;
} item_weights;

static item_weights weights_for(const panel_run *run, int64_t panel, int64_t begun, const placed_strip *strips,
                                int64_t n_strips, int64_t depth, int64_t width) {
  const panel_plan *plan = run->plan;
  item_weights w = {.at = weights_at(run, panel, begun), .bytes = weight_bytes(plan)};
  if (!plan->p.weights_f16) return w;
  int64_t n_tiles = 0;
  for (int64_t i = 0; i < n_strips; i++) n_tiles += strips[i].count;
  w.pending = n_tiles >= TILES_WIDENED && !strips->copied;
  if (n_tiles < TILES_WIDENED || w.pending) return w;
  plan->widen_weights(run->widened, w.at, depth * width); /* because a copied tile may leave out taps */
  return (item_weights){(const char *)run->widened, sizeof(float), false};
}

/* Multiplies a strip, whose weights begin `from` weights after the block's. */
static void multiply_strip(const panel_run *run, item_weights *w, int64_t from, panel_tile *t) {
  const panel_plan *plan = run->plan;
  if (w->pending) {
    panel_tile tile = *t;
    tile.panel = w->at;
    tile.widened = run->widened;
    tile.count = 1;
    plan->multiply(&tile);
    *w = (item_weights){(const char *)run->widened, sizeof(float), false};
    if (--t->count == 0) return;
    t->a += t->rows * t->a_row;
    t->c = (float *)t->c + t->rows * t->c_row;
    if (t->residual) t->residual = (const float *)t->residual + t->rows * t->c_row;
  }
  t->panel = w->at + from * w->bytes;
  (plan->p.weights_f16 && w->bytes == sizeof(float) ? plan->multiply_f32 : plan->multiply)(t);
}

/* Runs block i of the depth. A panel stays in the cache while the chunk's tiles pass, n_tiles of all its pieces; each
 * tile prefetches its share of the next panel, or the X to its right if none of that has been read, or, where X has
 * been rounded, that of the next item. */
static void run_block(const panel_run *run, int64_t i_block, const block *b, const placed_strip *strips,
                      int64_t n_strips, int64_t n_tiles, int64_t panel_begin, int64_t panel_end) {
  const panel_plan *plan = run->plan;
  const bool first = i_block == run->first_block, last = i_block == plan->n_blocks - 1;
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
    int64_t share = depth * width * weight_bytes(plan) / n_tiles, share_step = fetch_step(share, depth);
    const char *next =
        panel + 1 < panel_end ? weights_at(run, panel + 1, begun) : weights_after(run, i_block, panel_begin);
    item_weights weights = weights_for(run, panel, begun, strips, n_strips, depth, width);
    panel_tile kinds[2]; /* in place, and of a copy */
    for (int copied = 0; copied < 2; copied++) {
      const run_table *table = copied ? &plan->copied : &plan->in_place;
      kinds[copied] = (panel_tile){
          .runs = table->runs + (table->joined ? b->first_tap / columns : b->first_tap),
          .bias = run->bias + output,
          .n_runs = table->joined ? b->n_taps / columns : b->n_taps,
          .run_length = table->joined ? columns * b->n_channels : b->n_channels,
          .a_row = table->row,
          .panel_row = width,
          .c_row = y_row,
          .width = vectors < width ? vectors : width,
          .columns = smaller(n, width),
          .scale = 1,
          .first = first,
          .relu = last && p->activation.kind == ACTIVATION_RELU,
          .halves = plan->halves,
          .shallow = plan->shallow,
          .far_y = plan->far_y,
      };
    }
    for (int64_t i = 0; i < n_strips; i++) {
      const placed_strip *at = &strips[i];
      panel_tile *t = &kinds[at->copied];
      bool new_x = first && run->new_x && panel == panel_begin && (!at->copied || at->x);
      int64_t from = 0; /* the strip's first weight */
      t->c = plan->staged ? run->stage + at->pixel * y_row + output - panel_begin * PACKED_WIDTH
                          : half_element(run->y, plan->halves, at->y + output);
      /* a copy begins with the block's first tap row */
      t->a =
          at->a + (at->copied ? -(b->first_tap / columns * copy_span(plan, at->count) * plan->copy_pixel) : b->channel);
      if (at->copied) { /* only the taps that meet X */
        int64_t tap_end = b->first_tap + b->n_taps, unit = plan->copied.joined ? columns : 1,
                begin = smaller(larger(b->first_tap, at->tap_begin * columns), tap_end),
                end = larger(smaller(tap_end, at->tap_end * columns), begin);
        if (unit == 1 && b->first_tap / columns == (tap_end - 1) / columns) { /* of one tap row */
          int64_t row = b->first_tap / columns * columns;
          begin = smaller(larger(begin, row + at->column_begin), tap_end);
          end = larger(smaller(end, row + at->column_end), begin);
        }
        t->runs = plan->copied.runs + (at->count - 1) * taps_of(plan) + begin / unit;
        t->n_runs = (end - begin) / unit;
        from = (begin - b->first_tap) * b->n_channels * width;
      }
      t->residual = !first || !run->residual ? NULL
                    : plan->staged           ? t->c
                                             : half_element(run->residual, plan->halves, at->y + output);
      t->rows = at->rows;
      t->count = at->count;
      t->next =
          new_x ? (const char *)((at->copied ? at->x + run->ahead : at->a + right) + lowest) : next + at->tile * share;
      t->next_step = new_x ? right_step : share_step;
      t->next_bytes = new_x && at->copied ? at->rows * p->stride[2] * p->x_pixel * (int64_t)sizeof(float) : 0;
      multiply_strip(run, &weights, from, t);
    }
  }
}

/* Applies the activation to n outputs of a strip's pixels, from `output` on. */
static void activate(const panel_run *run, const placed_strip *strip, int64_t output, int64_t n) {
  const panel_plan *plan = run->plan;
  const activation *a = &plan->p.activation;
  if (activation_ends_tiles(a)) return;
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

/* The copies of X that a block needs for the strips, unless the thread's scratch has them. */
static void copy_tiles(const panel_run *run, placed_strip *strips, int64_t n, const block *b, bool held) {
  for (int64_t k = 0; k < n; k++) {
    if (!strips[k].copied) continue;
    float *copy = run->copies + strips[k].tile * run->plan->copy_elements;
    if (!held) copy_tile(run, &strips[k], b, copy);
    strips[k].a = copy;
  }
}

/* Panels panel..panel_end of a piece, whose chunk has n_tiles. held: the first block's copies of X are there. */
static void run_panels(const panel_run *run, placed_strip *strips, int64_t n, int64_t n_tiles, int64_t panel,
                       int64_t panel_end, bool held) {
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t output = panel * PACKED_WIDTH, outputs = smaller(panel_end * PACKED_WIDTH, p->outputs) - output;
  for (int64_t i = 0; plan->staged && run->residual && i < n; i++)
    stage_rows(run, &strips[i], run->residual, p->halves.residual, true, output, outputs);
  for (int64_t i = run->block; i < run->block_end; i++) {
    block b = block_at(plan, i);
    copy_tiles(run, strips, n, &b, held && i == run->block);
    run_block(run, i, &b, strips, n, n_tiles, panel, panel_end);
  }
  for (int64_t i = 0; run->block_end == plan->n_blocks && i < n; i++) {
    activate(run, &strips[i], output, outputs);
    if (plan->staged) stage_rows(run, &strips[i], run->y, p->halves.y, false, output, outputs);
  }
}

/* Strips of tiles begin..end of the plan; the chunk's first tile is chunk_begin. Returns their number. */
static int64_t place_strips(const panel_run *run, int64_t chunk_begin, int64_t begin, int64_t end,
                            placed_strip *out_strips) {
  const panel_plan *plan = run->plan;
  int64_t k = begin % plan->tiles_per_row, rest = begin / plan->tiles_per_row, row = rest % plan->p.out[1],
          slab = rest / plan->p.out[1] % plan->p.out[0], image = rest / plan->p.out[1] / plan->p.out[0], n = 0;
  for (int64_t at = begin, pixel = 0; at < end; at += out_strips[n++].count) {
    out_strips[n] = place(run, image, slab, row, k, end - at);
    out_strips[n].pixel = pixel;
    out_strips[n].tile = at - chunk_begin;
    pixel += out_strips[n].rows * out_strips[n].count;
    k += out_strips[n].count;
    if (k < plan->tiles_per_row) continue;
    k = 0;
    if (++row < plan->p.out[1]) continue;
    row = 0;
    if (++slab < plan->p.out[0]) continue;
    slab = 0;
    image++;
  }
  return n;
}

/* True if the thread's scratch has the copies of this piece already; from now on it has. */
static bool are_held(held_copies *held, int64_t chunk, int64_t piece) {
  if (!held) return false;
  if (held->chunk != chunk) *held = (held_copies){chunk, 0};
  uint64_t bit = UINT64_C(1) << piece;
  bool had = held->pieces & bit;
  held->pieces |= bit;
  return had;
}

/* About the distance in X of windows that are so many tiles apart. */
static int64_t x_between(const panel_plan *plan, int64_t tiles) {
  const panel_problem *p = &plan->p;
  if (p->out[1] == 1) return tiles * plan->level_rows * p->stride[2] * p->x_pixel;
  return tiles * p->stride[1] * p->x_row / plan->tiles_per_row;
}

/* True if the item is about the last of a thread's share of a job for a block of depth. */
static bool ends_job(const panel_plan *plan, int64_t item, bool backward) {
  const int64_t share = plan->n_chunks * plan->n_groups * plan->n_pieces / plan->team.threads;
  return plan->by_depth && (backward ? item <= share : item + 1 >= share);
}

/* The item of a group of channels. backward: the thread comes from the next item. */
static void run_item(panel_run *run, int64_t group_of_channels, int64_t item, bool backward) {
  const panel_plan *plan = run->plan;
  placed_strip strips[TILES_MOST];
  int64_t piece = item % plan->n_pieces, group = item / plan->n_pieces % plan->n_groups,
          chunk = item / plan->n_pieces / plan->n_groups;
  int64_t begin = plan->n_tiles * chunk / plan->n_chunks,
          n_tiles = plan->n_tiles * (chunk + 1) / plan->n_chunks - begin;
  int64_t n = place_strips(run, begin, begin + n_tiles * piece / plan->n_pieces,
                           begin + n_tiles * (piece + 1) / plan->n_pieces, strips);
  int64_t panels = packed_panels(plan->p.outputs), panel = panels * group / plan->n_groups,
          panel_end = panels * (group + 1) / plan->n_groups;
  int64_t last_group = plan->n_groups - 1,
          next = backward ? (group > 0 ? group - 1 : last_group) : (group < last_group ? group + 1 : 0);
  run->next_panel = panels * next / plan->n_groups;
  run->next_block = run->block;
  if (ends_job(plan, item, backward) && run->block_end < plan->n_blocks) { /* the thread begins the next job */
    run->next_panel = backward ? panels * last_group / plan->n_groups : 0;
    run->next_block = run->block_end;
  }
  run->new_x = group == (backward ? last_group : 0);
  run->ahead = x_between(plan, n_tiles * (piece + 1) / plan->n_pieces - n_tiles * piece / plan->n_pieces);
  if (backward) run->ahead = -run->ahead;
  bool held = are_held(run->held, group_of_channels * plan->n_chunks + chunk, piece);
  for (int64_t at = panel; at < panel_end; at += plan->stage_panels)
    run_panels(run, strips, n, n_tiles, at, smaller(at + plan->stage_panels, panel_end),
               held || (at > panel && plan->n_blocks == 1));
}

/* The item is one of a part of the depth, whose sums it begins. */
static void take_part(panel_run *run, int64_t part) {
  const panel_plan *plan = run->plan;
  run->block = run->first_block = plan->n_blocks * part / plan->n_parts;
  run->block_end = plan->n_blocks * (part + 1) / plan->n_parts;
  run->y = (float *)run->y + part * plan->p.out[2] * plan->p.outputs;
}

static void run_items(void *context, int64_t begin, int64_t end, int32_t worker) {
  const panel_run *run = context;
  const panel_plan *plan = run->plan;
  const panel_problem *p = &plan->p;
  int64_t items = plan->n_chunks * plan->n_groups * plan->n_pieces * plan->n_parts; /* of a group of channels */
  for (int64_t i = begin; i < end && !cpu_cancelled(&plan->team); i++) {
    int64_t group = i / items;
    panel_run of_group = *run;
    of_group.x += group * p->channels * p->x_channel; /* of pairs, if X has them */
    of_group.weights += group * p->weights_group * weight_bytes(plan);
    of_group.bias += group * p->outputs;
    of_group.residual = half_element(run->residual, p->halves.residual, group * p->outputs);
    of_group.y = half_element(run->y, p->halves.y, group * p->outputs);
    if (plan->n_parts > 1) take_part(&of_group, i % plan->n_parts);
    of_group.copies += worker * thread_elements(plan);
    of_group.stage = of_group.copies + copies_elements(plan);
    of_group.widened = of_group.stage + stage_elements(plan);
    of_group.held = run->held ? &run->held[worker] : NULL;
    run_item(&of_group, group, i % items / plan->n_parts, worker > 0); /* helpers take the last items first */
  }
  if (plan->release) plan->release();
}

/* A job: blocks of depth run->block..run->block_end of all items. */
static reed_status run_job(panel_run *run) {
  const panel_plan *plan = run->plan;
  held_copies held[TEAM_MAX_WORKERS];
  bool holds = plan->some_copied && run->block + 1 == run->block_end && plan->n_groups > 1;
  for (int32_t i = 0; holds && i < TEAM_MAX_WORKERS && i < plan->team.threads; i++) held[i].chunk = -1;
  run->held = holds ? held : NULL;
  return cpu_parallel_scratch(
      plan->team, plan->p.groups * plan->n_parts * plan->n_chunks * plan->n_groups * plan->n_pieces, 1, run_items, run);
}

/* All parts of the depth, and their sum. */
static reed_status run_parts(panel_run *run, const float *bias, const float *residual, float *y) {
  const panel_plan *plan = run->plan;
  float *sums = run->copies + plan->team.threads * thread_elements(plan);
  run->y = sums;
  run->block_end = plan->n_blocks;
  reed_status status = run_job(run);
  if (status != REED_OK) return status;
  const piece_sums all = {.n_pieces = plan->n_parts,
                          .rows = plan->p.out[2],
                          .columns = plan->p.outputs,
                          .sums = sums,
                          .bias = bias,
                          .residual = residual,
                          .y = y,
                          .activation = &plan->ends};
  return piece_sums_add(&all, plan->team);
}

reed_status panel_plan_run(const panel_plan *plan, const void *x, const void *weights, const float *bias,
                           const void *residual, void *y, void *workspace) {
  float *padded = workspace;
  memset(padded, 0, (size_t)plan->bias_elements * sizeof *padded);
  const bool in_parts = !plan->by_strassen && plan->n_parts > 1;
  if (bias && !in_parts) memcpy(padded, bias, (size_t)(plan->p.groups * plan->p.outputs) * sizeof *padded);
  if (plan->by_strassen)
    return strassen_plan_run(&plan->strassen, x, weights, padded, residual, y, padded + plan->bias_elements);
  panel_run run = {.plan = plan,
                   .x = x,
                   .weights = weights,
                   .bias = padded,
                   .residual = residual,
                   .y = y,
                   .copies = padded + plan->bias_elements};
  if (in_parts) {
    run.residual = NULL;
    return run_parts(&run, bias, residual, y);
  }
  const int64_t blocks = plan->by_depth ? 1 : plan->n_blocks; /* of a job */
  reed_status status = REED_OK;
  for (; run.block < plan->n_blocks && status == REED_OK; run.block = run.block_end) {
    run.block_end = run.block + blocks;
    status = run_job(&run);
  }
  return status;
}
