/* The choice between the forms of a Winograd convolution and the direct one, by an estimate of time on one core: the
 * products, the transforms, and the reading of weights (ops/cpu/product/rates.h). */
#include "ops/cpu/product/winograd.h"

#include "ops/cpu/common/window.h"
#include "ops/cpu/product/rates.h"
#include "ops/cpu/product/whole.h"

#define STORED_GAIN .82 /* of the time without stored weights: at most so much, for the memory that they take */
#define PAIRS_GAIN .9   /* of the time in f32: pairs, which are less exact, take at most so much */
#define PHASES_GAIN .7  /* of the direct time, with stride 2: more is no gain for threads whose caches are far apart */
#define LINE_PHASES_GAIN .9       /* the same of lines, whose V is hardly larger than X */
#define NEAR_BYTES (1 << 20)      /* of transformed weights that stay in a core's own cache, at most */
#define READ_NEAR_BYTES (4 << 20) /* of stored weights that stay in caches from run to run, at most */
#define FAR_BYTES \
  (24 << 20)            /* of weights of several strided phases: more are read from memory for each block of tiles */
#define BLOCK_TILES 48  /* of such a block, about */
#define STAGE_PS 4e6    /* of a stage: waking threads and waiting for them */
#define OUTPUTS_LEAST 8 /* with fewer outputs or channels the transforms are most of the work */
#define TILES_LEAST 4   /* fewer take as long in the products, which then wait for their own sums */
#define FORMS 9         /* of an axis, at most */
#define MIXED_MOST 64   /* extents up to which an axis is cut into pieces of several sizes */
#define SAVED 4         /* times fewer products than of a direct convolution, about */
#define LINE_SAVED 2    /* the same of lines */

typedef struct axis_form {
  int64_t n[WINOGRAD_SIZES];
} axis_form;

/* The ways to cut an extent: into pieces of one size, or with one or two pieces of smaller sizes at the end. */
static int axis_forms(const winograd_problem *p, int axis, axis_form *forms) {
  const int64_t extent = winograd_extent(p, axis);
  int64_t sizes[WINOGRAD_SIZES];
  int n = 0;
  const int end = winograd_sizes_end(p, axis);
  for (int i = 0; i < end; i++) sizes[i] = winograd_pixels(p, axis, i);
  for (int i = winograd_largest(p, axis); i < end; i++) {
    forms[n++] = (axis_form){0};
    forms[n - 1].n[i] = divided(extent, sizes[i]);
  }
  for (int i = winograd_largest(p, axis); i < end && extent <= MIXED_MOST; i++)
    for (int j = i + 1; j < end; j++)
      for (int64_t few = 1; few <= 2; few++) {
        int64_t large = divided(extent - few * sizes[j], sizes[i]);
        if (large < 1 || few * sizes[j] >= 2 * sizes[i]) continue;
        forms[n] = (axis_form){0};
        forms[n].n[i] = large;
        forms[n++].n[j] = few;
      }
  return n;
}

/* Picoseconds of the tiles of one size: of a product of all channels and outputs, of the transforms of a tile, and of
 * the transform of the weights with the two stages, whatever the number of tiles. */
typedef struct section_cost {
  double product, tile, fixed;
} section_cost;

typedef section_cost section_costs[WINOGRAD_SIZES][WINOGRAD_SIZES];

/* Slices of all images with their lattices. */
static double images_of(const winograd_problem *p) {
  return (double)(p->images * p->slices.out) * (double)winograd_lattices(p);
}

/* The channels that a transform of X computes: whole vectors. */
static double lanes_of_channels(const winograd_problem *p) { return (double)round_up(p->channels, PACKED_STEP); }

int64_t winograd_work(const winograd_problem *p) {
  double outputs = (double)round_up(p->outputs, PACKED_STEP),
         work = (double)(p->images * p->slices.out * p->out[0] * p->out[1]) * lanes_of_channels(p) * outputs *
                (double)(winograd_taps(p) * p->slices.taps) / (p->line_taps > 0 ? LINE_SAVED : SAVED);
  return work < 1e15 ? (int64_t)work / PRODUCTS_PER_BYTE : INT64_MAX;
}

static void price_sections(const winograd_problem *p, const product_rates *r, bool fixed, section_costs costs) {
  const double rate = fixed ? r->fixed_product : r->product, input = fixed ? r->fixed_input : r->input,
               bytes = (double)(fixed ? sizeof(uint16_t) : sizeof(float));
  double channels = (double)p->channels, lanes = lanes_of_channels(p),
         outputs = (double)round_up(p->outputs, PACKED_STEP);
  for (int i = 0; i < WINOGRAD_SIZES; i++)
    for (int j = 0; j < WINOGRAD_SIZES; j++) {
      double positions = (winograd_size(p, 0, i) + 2) * (winograd_size(p, 1, j) + 2),
             products = (double)(winograd_products(p, 0, i) * winograd_products(p, 1, j) * p->slices.taps),
             weights = products * channels * outputs,
             weight = fixed                           ? r->fixed_weight
                      : weights * bytes <= NEAR_BYTES ? r->weight
                                                      : r->far_weight;
      const bool far = winograd_strided_phases(p) > 1 && weights * bytes > FAR_BYTES;
      costs[i][j] = (section_cost){.product = weights * (rate + (far ? r->far_read / BLOCK_TILES : 0)),
                                   .tile = products * lanes * input + positions * outputs * r->output,
                                   .fixed = weights * weight + 2 * STAGE_PS};
    }
}

static double form_time(const winograd_problem *p, section_costs costs, const axis_form *rows,
                        const axis_form *columns) {
  double time = 0;
  for (int i = 0; i < WINOGRAD_SIZES; i++)
    for (int j = 0; rows->n[i] && j < WINOGRAD_SIZES; j++) {
      if (!columns->n[j]) continue;
      double n = images_of(p) * (double)rows->n[i] * (double)columns->n[j];
      time += (n < TILES_LEAST ? TILES_LEAST : n) * costs[i][j].product + n * costs[i][j].tile + costs[i][j].fixed;
    }
  return time;
}

static double smaller_time(double a, double b) { return a < b ? a : b; }

/* The share of the taps that a direct convolution computes, which leaves out those outside of X. Without dilation these
 * are few, and the rates were measured with them. */
static double seen_pixels(const winograd_problem *p, int axis) {
  const int64_t dilation = p->dilation[axis];
  return dilation == 1
             ? 1
             : window_share_inside(p->in[axis], p->out[axis], winograd_axis_taps(p, axis), 1, dilation, p->pad[axis]);
}

static double seen_slices(const winograd_problem *p) {
  const winograd_slices *s = &p->slices;
  return window_share_inside(s->in, s->out, s->taps, s->stride, s->dilation, s->pad);
}

static double time_of_direct(const winograd_problem *p, bool pairs) {
  const double taps =
      (double)(winograd_taps(p) * p->slices.taps) * seen_slices(p) * seen_pixels(p, 0) * seen_pixels(p, 1);
  const direct_product d = {.pixels = (double)(p->images * p->slices.out) * (double)p->out[0] * (double)p->out[1],
                            .outputs = (double)p->outputs,
                            .depth = taps * (double)p->channels,
                            .rounded_pixels =
                                rounded_pixels((double)(winograd_axis_taps(p, 0) * p->slices.taps),
                                               (double)winograd_axis_taps(p, 1), p->stride[1], (double)p->dilation[1]),
                            .channels = (double)p->channels};
  return direct_time(&d, p->activation.level, pairs);
}

/* The stored form, which has tiles of 4x4, and its time; false: its weights would take too much memory. */
static bool stored_form(const winograd_problem *p, const product_rates *r, winograd_form *out_form, double *out_time) {
  enum { FOUR = 1 };
  const int size[2] = {winograd_sizes_end(p, 0) > FOUR ? FOUR : 0, FOUR};
  double positions = (winograd_size(p, 0, size[0]) + 2) * (winograd_size(p, 1, size[1]) + 2),
         channels = (double)p->channels,
         values =
             (double)(winograd_products(p, 0, size[0]) * winograd_products(p, 1, size[1]) * p->slices.taps) * channels,
         outputs = (double)round_up(p->outputs, PACKED_STEP), n = images_of(p),
         kept = positions * channels * (double)winograd_phases(p) * outputs;
  if (kept * (double)sizeof(float) > (double)WINOGRAD_STORED_MOST) return false;
  *out_form = (winograd_form){.stored = true};
  for (int axis = 0; axis < 2; axis++) {
    out_form->n[axis][size[axis]] = divided(winograd_extent(p, axis), winograd_pixels(p, axis, size[axis]));
    n *= (double)out_form->n[axis][size[axis]];
  }
  const double product = (n < TILES_LEAST ? TILES_LEAST : n) * r->product,
               read = kept * (double)sizeof(float) <= READ_NEAR_BYTES ? r->read : r->far_read;
  *out_time = values * outputs * (product < read ? read : product) +
              n * (values / channels * lanes_of_channels(p) * r->input + positions * outputs * r->output) +
              2 * STAGE_PS;
  return true;
}

double winograd_time(const winograd_problem *p, const winograd_form *form) {
  section_costs costs;
  axis_form axes[2];
  price_sections(p, product_rates_of(p->activation.level), form->fixed, costs);
  for (int axis = 0; axis < 2; axis++) memcpy(axes[axis].n, form->n[axis], sizeof axes[axis].n);
  return form_time(p, costs, &axes[0], &axes[1]);
}

/* The fastest cut of both axes with products in f32 or in fixed point, if it takes less than *best, which becomes its
 * time. */
static bool fastest_cut(const winograd_problem *p, bool fixed, winograd_form *out_form, double *best) {
  axis_form forms[2][FORMS];
  section_costs costs;
  int n[2];
  bool found = false;
  price_sections(p, product_rates_of(p->activation.level), fixed, costs);
  for (int axis = 0; axis < 2; axis++) n[axis] = axis_forms(p, axis, forms[axis]);
  for (int i = 0; i < n[0]; i++)
    for (int j = 0; j < n[1]; j++) {
      double time = form_time(p, costs, &forms[0][i], &forms[1][j]);
      if (time >= *best) continue;
      *best = time;
      found = true;
      *out_form = (winograd_form){.fixed = fixed};
      memcpy(out_form->n[0], forms[0][i].n, sizeof out_form->n[0]);
      memcpy(out_form->n[1], forms[1][j].n, sizeof out_form->n[1]);
    }
  return found;
}

static bool takes_fixed(const winograd_problem *p) {
  return p->direct_pairs && p->line_taps == 0 && p->activation.level >= CPU_AVX512_BF16 && p->channels % 2 == 0 &&
         winograd_phases(p) * p->channels <= WINOGRAD_FIXED_DEPTH;
}

bool winograd_choose(const winograd_problem *p, bool may_store, winograd_form *out_form) {
  if (p->outputs < OUTPUTS_LEAST || p->channels < OUTPUTS_LEAST) return false;
  const product_rates *r = product_rates_of(p->activation.level);
  const bool steps = p->stride[0] > 1 || p->stride[1] > 1;
  const double gain = !steps ? 1 : p->line_taps > 0 ? LINE_PHASES_GAIN : PHASES_GAIN;
  double best = time_of_direct(p, false) * gain;
  bool found = fastest_cut(p, false, out_form, &best);
  winograd_form stored;
  double time;
  if (may_store && stored_form(p, r, &stored, &time) && time < best * STORED_GAIN) {
    *out_form = stored;
    best = time;
    found = true;
  }
  if (!p->direct_pairs) return found;
  /* direct pairs and fixed point are about as exact as each other */
  best *= PAIRS_GAIN;
  const double pairs = time_of_direct(p, true);
  found = found && pairs > best;
  best = smaller_time(best, pairs * gain);
  return (takes_fixed(p) && fastest_cut(p, true, out_form, &best)) || found;
}
