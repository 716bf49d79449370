/* Convolutions of f32 with 3x3 windows, stride 1 or 2, or dilated, of images or of the slices of volumes, and those
 * with several taps along one axis only, over packed weights (ops/packed.h), by Winograd's minimal filtering (Lavin and
 * Gray 2015, arXiv 1509.09308): a tile of 2x2, 4x4 or 6x6 pixels of Y takes 16, 36 or 64 products for each channel and
 * output instead of 36, 144 or 324. An axis is cut into pieces of several sizes where that saves products: 14 = 6 + 4
 * + 4.
 *
 * Along an axis of stride 2 the even pixels of X meet taps 0 and 2, the odd ones tap 1: two *phases*, convolutions of
 * stride 1 with two taps and one, of which a Y is the sum. Both are transformed at the same points, so that their
 * products are one sum over phases and channels, the *depth*; at infinity the odd phase has no part. The points of 2x2
 * and 4x4 give tiles of 3x3 and 5x5 pixels with 49 and 121 products instead of 81 and 225.
 *
 * With dilation d every d-th pixel of Y along an axis sees every d-th pixel of X: the pixels of Y are d *lattices* for
 * an axis, each of which is an image of its own with dilation 1. All of them are cut as the largest one, so that the
 * last tiles of others may have no pixels.
 *
 * Windows with taps along one axis only, as those of a sequence, have tiles of 2, 4 or 6 pixels of a *line*; the pixels
 * of Y that lie beside each other across it are lines, too. Each three taps of a longer window are a phase; the last of
 * them may have one or two taps, and then no part at infinity. A tile of 6 takes 8 products for 18 with 3 taps, 23 for
 * 42 with 7 and 31 for 66 with 11.
 *
 * Of a volume each slice of Y is an image, whose taps along the slices are phases too: each of them has a slice of X of
 * its own, or none at the ends.
 *
 * A plan is arithmetic on extents. Transformed weights live in the workspace of a run, or the caller keeps them (a
 * stored form), because on a small map their transform takes as long as the products.
 *
 * A result depends on extents and tiles, never on the number of threads: sums run over all channels in order. An
 * infinite value or NaN of X reaches all pixels of the tiles that see it. */
#ifndef OPS_CPU_PRODUCT_WINOGRAD_H_
#define OPS_CPU_PRODUCT_WINOGRAD_H_

#include "ops/cpu/formulas/activation.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/product/winograd_loops.h"
#include "ops/packed.h"

/* Distances are in elements; the outputs of a pixel of Y lie side by side. */

/* The slices of a volume; of an image there is one, with one tap. */
typedef struct winograd_slices {
  int64_t in, out, taps, stride, dilation, pad, x, y; /* x, y: distances of neighbours */
} winograd_slices;
static const winograd_slices winograd_one_slice = {.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};

typedef struct winograd_problem {
  int64_t images, channels, outputs;
  int64_t in[2], out[2], pad[2]; /* pad: before; negative: X is cropped */
  int64_t line_taps;             /* of lines, which are the rows: 3 or more along a row; 0: windows are 3x3 */
  int32_t stride[2];             /* 1 or 2 each; 1 of lines of more than 3 taps */
  int64_t dilation[2];           /* 1 along an axis of stride 2 */
  winograd_slices slices;
  int64_t x_image, x_row, x_pixel, x_channel;
  int64_t y_image, y_row, y_pixel;
  activation activation;
  packed_halves halves; /* X, residual and Y of bf16; a Y of bf16 has no activation but Relu */
  bool direct_pairs;    /* the weights are pairs of bf16, for panels.h or fixed point; other forms take them in f32 */
} winograd_problem;

/* Sizes of the pieces of an axis, the largest first: pixels of Y with stride 1. A piece has two positions more. */
enum { WINOGRAD_SIZES = 3 };
static const int32_t winograd_sizes[WINOGRAD_SIZES] = {6, 4, 2};

/* Across lines a piece is one pixel, which has one position, itself. */
static inline bool winograd_is_across(const winograd_problem *p, int axis) { return p->line_taps > 0 && axis == 0; }
static inline int32_t winograd_size(const winograd_problem *p, int axis, int i) {
  return winograd_is_across(p, axis) ? WINOGRAD_ACROSS : winograd_sizes[i];
}

/* The taps of a window along an axis, and in a slice. */
static inline int64_t winograd_axis_taps(const winograd_problem *p, int axis) {
  return p->line_taps == 0 ? 3 : axis == 0 ? 1 : p->line_taps;
}
static inline int64_t winograd_taps(const winograd_problem *p) {
  return winograd_axis_taps(p, 0) * winograd_axis_taps(p, 1);
}

/* The phases of the rows' and columns' axes, and those of all axes. */
static inline int32_t winograd_strided_phases(const winograd_problem *p) {
  return p->line_taps > 3 ? (int32_t)divided(p->line_taps, 3) : p->stride[0] * p->stride[1];
}
static inline int64_t winograd_phases(const winograd_problem *p) { return winograd_strided_phases(p) * p->slices.taps; }

/* The lattices of both axes, and the pixels of the largest one along an axis. */
static inline int64_t winograd_lattices(const winograd_problem *p) { return p->dilation[0] * p->dilation[1]; }
static inline int64_t winograd_extent(const winograd_problem *p, int axis) {
  return divided(p->out[axis], p->dilation[axis]);
}

/* The largest size of an axis, and the number of those that it may have. */
static inline int winograd_largest(const winograd_problem *p, int axis) { return p->stride[axis] - 1; }
static inline int winograd_sizes_end(const winograd_problem *p, int axis) {
  return winograd_is_across(p, axis) ? 1 : WINOGRAD_SIZES;
}

/* The pixels of Y of a piece of size `i` along an axis. */
static inline int32_t winograd_pixels(const winograd_problem *p, int axis, int i) {
  return winograd_is_across(p, axis) ? 1 : winograd_sizes[i] + p->stride[axis] - 1;
}

/* The products of a piece of size `i` along an axis, for each channel and output: positions by phases. */
static inline int32_t winograd_products(const winograd_problem *p, int axis, int i) {
  if (winograd_is_across(p, axis)) return 1;
  if (p->line_taps > 3) return winograd_strided_phases(p) * (winograd_sizes[i] + 1) + (int32_t)(p->line_taps / 3);
  return p->stride[axis] * (winograd_sizes[i] + 1) + 1;
}

/* The number of pieces of each size, rows then columns. The pieces cover the extent of a lattice, the last may reach
 * beyond it. */
typedef struct winograd_form {
  int64_t n[2][WINOGRAD_SIZES];
  bool stored; /* the caller keeps the transformed weights; only for tiles of one size */
  bool fixed;  /* products in fixed point (winograd_loops.h), of weights that are pairs of bf16; not if stored */
} winograd_form;

/* The rectangle of tiles of one size. */
typedef struct winograd_section {
  int32_t size[2], pixels[2];
  int64_t first[2], n[2]; /* the first pixel of each lattice; tiles along the axis in it */
  int64_t positions, tiles, n_blocks, v_position, m_position, m_row, u_position;
  int64_t n_halves;       /* of the tiles, 1 or 2; a block has some of each */
  int64_t v_half, m_half; /* from V and M of a block's tiles of the first half to those of the second */
  int64_t k_width, n_ks;  /* outputs whose weights are transformed together */
  bool narrow;            /* a thread takes all work on a panel after the transform of X, with M and U of its own */
  int64_t depth_step; /* of a narrow section: channels whose weights are transformed and multiplied together; 0: all,
                       * because they are stored or have a scale */
  bool past;          /* transformed weights are written past the caches */
  bool own;           /* a thread takes all work on a block, after the transform of the weights (several threads) */
} winograd_section;

enum { WINOGRAD_SECTIONS = WINOGRAD_SIZES * WINOGRAD_SIZES, WINOGRAD_PHASES = 4 };

typedef struct winograd_plan {
  winograd_problem p;
  winograd_form form;
  cpu_team team;
  int64_t n_phases; /* phase i is tap i % slices.taps of strided phase i / slices.taps: so V and U have them */
  int32_t phases[WINOGRAD_PHASES][2]; /* the strided ones: their first row and column; not of more than 3 line taps */
  int64_t unit;                       /* channels that lie in one float of V and U: 1, or 2 in fixed point */
  int64_t depth;                      /* channels of all phases in units: floats of a row of V */
  int64_t u_depth;                    /* rows of a panel of U: the depth, and one for scales in fixed point */
  int64_t v_row, m_row, width, v_elements, m_elements, u_elements; /* elements: of the workspace */
  int64_t worker_v, worker_m, worker_u;                            /* of a thread's part of it */
  int64_t m_places;                                                /* parts of M: the most threads or panels in work */
  int64_t scratch_row, worker_scratch; /* fixed point: a position of a tile in f32, and a tile, for each thread */
  int64_t stored_elements;             /* of a stored form's weights */
  int32_t n_sections;
  winograd_section sections[WINOGRAD_SECTIONS];
  void (*transform_input)(const winograd_input *t);
  void (*transform_weights)(const winograd_weights *t);
  void (*multiply)(const winograd_product *p);
  void (*transform_output)(const winograd_output *t);
} winograd_plan;

/* A section's tiles: those of its first half, and those of a block of one half at most. */
static inline int64_t winograd_half_tiles(const winograd_section *s) { return divided(s->tiles, s->n_halves); }
static inline int64_t winograd_block_tiles(const winograd_section *s) {
  return divided(winograd_half_tiles(s), s->n_blocks);
}

#define WINOGRAD_LINE 16 /* floats of a cache line */

/* Tiles of a block that a thread works on by itself, at least: two passes of the products' loop. */
#define WINOGRAD_OWN_TILES 28

/* The cheapest form, and true if it is estimated faster than a direct convolution. Stored forms are considered if
 * may_store. All of them have tiles of 4x4, so that the same weights are kept once for all extents, and each takes at
 * most WINOGRAD_STORED_MOST bytes. */
#define WINOGRAD_STORED_MOST ((int64_t)10 << 20)
bool winograd_choose(const winograd_problem *p, bool may_store, winograd_form *out_form);
/* The estimated time of a form that is not stored, in picoseconds on one core. */
double winograd_time(const winograd_problem *p, const winograd_form *form);
/* In cpu_team_for's count. */
int64_t winograd_work(const winograd_problem *p);
/* Fills in a plan of this form for so many threads. */
void winograd_plan_init(winograd_plan *plan, const winograd_problem *p, const winograd_form *form, cpu_team team);
int64_t winograd_plan_workspace_bytes(const winograd_plan *plan);
/* Of a stored form: the bytes of the transformed weights, and their computation from the packed ones. They depend on
 * channels, outputs, the size of the tiles and the CPU level. */
int64_t winograd_plan_stored_bytes(const winograd_plan *plan);
void winograd_plan_store(const winograd_plan *plan, const float *packed, float *out_stored);
/* weights: packed, of f32 or as the form says, or those of winograd_plan_store; bias f32[outputs]; residual with y's
 * layout (or y itself). Bias and residual may be NULL. Any number of threads may run a plan, each with a workspace of
 * its own. */
REED_MUST_CHECK reed_status winograd_plan_run(const winograd_plan *plan, const void *x, const void *weights,
                                              const float *bias, const void *residual, void *y, void *workspace);
/* "winograd 4x4", "winograd 4x4, stored", "winograd 4x4, fixed point", "winograd 4x4, dilation 2x2", or the pixels of a
 * mixed form's pieces as in "winograd 6,4x4,2". */
void winograd_form_text(const winograd_problem *p, const winograd_form *form, char *out, size_t capacity);

#endif
