/* Chunks of long kernels: with several threads a call's work is cut so that no chunk is long, and its bits are the same
 * for any number of threads. The number of chunks stands for their length, because a time would depend on the machine:
 * a row's least is the number of chunks of some 50 us on a CPU at level avx512. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/team.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct row {
  op_id op;
  int64_t inputs[5][5]; /* rank and extents; rank 0: absent */
  int32_t n_inputs, n_outputs;
  int64_t hidden; /* attribute hidden_size, 0: none */
  const char *direction;
  int64_t stride;   /* 0: not given */
  int64_t pads[4];  /* 0 at the first place: none */
  int least;        /* chunks with two threads */
  reed_dtype dtype; /* 0: f32 */
  bool transposed;  /* attribute transB */
} row;

static const row rows[] = {
    /* a block of queries by many keys, with a mask, with few queries in a block, with heads so large that blocks are
     * small */
    {OP_Attention, {{4, 1, 2, 128, 64}, {4, 1, 2, 1300, 64}, {4, 1, 2, 1300, 64}}, 3, 1, .least = 40},
    {OP_Attention, {{4, 1, 1, 70, 64}, {4, 1, 1, 900, 64}, {4, 1, 1, 900, 64}, {2, 70, 900}}, 4, 1, .least = 10},
    {OP_Attention, {{4, 1, 2, 20, 32}, {4, 1, 1, 3000, 32}, {4, 1, 1, 3000, 32}}, 3, 1, .least = 4},
    {OP_Attention, {{4, 1, 1, 64, 256}, {4, 1, 1, 512, 256}, {4, 1, 1, 512, 256}}, 3, 1, .least = 12},
    /* a panel of few windows by a long depth */
    {OP_Conv, {{4, 1, 256, 8, 8}, {4, 256, 256, 3, 3}}, 2, 1, .pads = {1, 1, 1, 1}, .least = 24},
    /* few outputs; very few of a long depth; a copy of two large channels with stride 3; a copy of one long row */
    {OP_Conv, {{4, 1, 40, 40, 40}, {4, 24, 40, 3, 3}}, 2, 1, .pads = {1, 1, 1, 1}, .least = 12},
    {OP_Conv, {{4, 1, 200, 30, 30}, {4, 3, 200, 3, 3}}, 2, 1, .pads = {1, 1, 1, 1}, .least = 6},
    {OP_Conv, {{4, 1, 2, 300, 302}, {4, 2, 2, 3, 3}}, 2, 1, .pads = {1, 1, 1, 1}, .stride = 3, .least = 5},
    {OP_Conv, {{4, 1, 1, 1, 200000}, {4, 2, 1, 1, 25}}, 2, 1, .stride = 5, .least = 20},
    /* a few rows of weights by a long depth, whose panels take longest to fill */
    {OP_Conv, {{4, 1, 1280, 1, 700}, {4, 8, 1280, 1, 1}}, 2, 1, .least = 24},
    /* products of short depth, whose time is that of their memory; one window of many outputs */
    {OP_MatMul, {{2, 60000, 2}, {2, 2, 3}}, 2, 1, .least = 4},
    {OP_MatMul, {{2, 700, 1}, {2, 1, 900}}, 2, 1, .least = 10},
    {OP_Conv, {{4, 1, 2048, 1, 1}, {4, 600, 2048, 1, 1}}, 2, 1, .least = 8},
    /* few results of a long depth: few rows, panels, dots, one column; rows of other types, long or wide */
    {OP_MatMul, {{2, 2, 300000}, {2, 300000, 2}}, 2, 1, .least = 12},
    {OP_MatMul, {{2, 9, 50000}, {2, 50000, 9}}, 2, 1, .least = 8},
    {OP_Gemm, {{2, 17, 20000}, {2, 33, 20000}}, 2, 1, .least = 12, .transposed = true},
    {OP_Gemm, {{2, 3, 100000}, {2, 20, 100000}}, 2, 1, .least = 6, .transposed = true},
    {OP_Gemm, {{2, 4, 300000}, {2, 1, 300000}}, 2, 1, .least = 4, .transposed = true},
    {OP_MatMul, {{2, 2, 50000}, {2, 50000, 7}}, 2, 1, .least = 12, .dtype = REED_F64},
    {OP_MatMul, {{2, 2, 8}, {2, 8, 50001}}, 2, 1, .least = 20, .dtype = REED_I64},
    {OP_MatMul, {{2, 8, 8}, {2, 8, 150001}}, 2, 1, .least = 10, .dtype = REED_I32},
    {OP_MatMul, {{2, 30000, 1}, {2, 1, 3}}, 2, 1, .least = 6, .dtype = REED_I32},
    {OP_MatMul, {{2, 20000, 1}, {2, 1, 3}}, 2, 1, .least = 8, .dtype = REED_F64},
    /* rows of three elements, which take as long as rows of some twenty */
    {OP_Equal, {{2, 100000, 1}, {2, 1, 3}}, 2, 1, .least = 40},
    /* functions of f64; pieces of a sum of integers */
    {OP_Acos, {{1, 100000}}, 1, 1, .least = 160, .dtype = REED_F64},
    {OP_Asin, {{1, 100000}}, 1, 1, .least = 160, .dtype = REED_F64},
    {OP_Asinh, {{1, 100000}}, 1, 1, .least = 300, .dtype = REED_F64},
    {OP_Atanh, {{1, 100000}}, 1, 1, .least = 300, .dtype = REED_F64},
    {OP_Cosh, {{1, 100000}}, 1, 1, .least = 140, .dtype = REED_F64},
    {OP_Sinh, {{1, 100000}}, 1, 1, .least = 160, .dtype = REED_F64},
    {OP_ReduceSumSquare, {{1, 600000}}, 1, 1, .least = 60, .dtype = REED_I32},
    /* short elements one by one */
    {OP_Transpose, {{2, 800, 803}}, 1, 1, .least = 48, .dtype = REED_F16},
    /* a long row */
    {OP_Trilu, {{2, 1, 300000}}, 1, 1, .least = 16},
    /* blocks of deformed samples by many outputs */
    {OP_DeformConv,
     {{4, 1, 128, 20, 20}, {4, 200, 128, 3, 3}, {4, 1, 18, 20, 20}},
     3,
     1,
     .pads = {1, 1, 1, 1},
     .least = 40},
    /* gradients that take blocks of pixels in their order */
    {OP_deform_conv2d_backward,
     {{4, 1, 32, 38, 38}, {4, 1, 32, 40, 40}, {4, 32, 32, 3, 3}, {4, 1, 18, 38, 38}, {4, 1, 9, 38, 38}},
     5,
     5,
     .least = 130},
    /* directions of one sequence, whose steps are long; some sequences; blocks of a step */
    {OP_LSTM, {{3, 12, 1, 32}, {3, 2, 2048, 32}, {3, 2, 2048, 512}}, 3, 1, 512, "bidirectional", .least = 250},
    {OP_GRU, {{3, 2, 40, 16}, {3, 1, 768, 16}, {3, 1, 768, 256}}, 3, 1, 256, "forward", .least = 12},
    {OP_LSTM, {{3, 2, 1, 16}, {3, 1, 2560, 16}, {3, 1, 2560, 640}}, 3, 1, 640, "forward", .least = 24},
};
#define N_ROWS ROWS(rows)

static void open_row(kernel_case *c, const row *r) {
  case_init(c, r->op);
  for (int i = 0; i < r->n_inputs; i++)
    if (r->inputs[i][0]) case_input(c, r->dtype ? r->dtype : REED_F32, (int32_t)r->inputs[i][0], r->inputs[i] + 1, 1);
    else case_absent(c);
  if (r->hidden) case_attr_int(c, "hidden_size", r->hidden);
  if (r->transposed) case_attr_int(c, "transB", 1);
  if (r->direction) case_attr_string(c, "direction", r->direction);
  if (r->pads[0]) case_attr_ints(c, "pads", r->pads, 4);
  static int64_t strides[2];
  strides[0] = r->inputs[0][3] > 1 ? r->stride : 1;
  strides[1] = r->stride;
  if (r->stride) case_attr_ints(c, "strides", strides, 2);
  c->n_outputs = r->n_outputs;
  c->hide_values = true; /* operands that are no constants, each with the general kernel */
}

/* The numbers of output 0 of a run of the reference. */
static double *reference_of(kernel_case *c) {
  ck_assert_int_eq(case_run(c, "reference"), REED_OK);
  const int64_t n = desc_elements(&c->outputs[0].desc);
  double *numbers = malloc((size_t)(n + 1) * sizeof *numbers);
  ck_assert(numbers);
  for (int64_t i = 0; i < n; i++) numbers[i] = case_get(&c->outputs[0], i);
  return numbers;
}

/* Runs the case with 1 to 7 threads at every level: the same bits, so many chunks at least with several threads, and
 * the reference's numbers. */
static void expect_many_chunks(void (*open)(kernel_case *, int), int i, int least, bool with_reference) {
  for (cpu_level level = CPU_BASE; level <= cpu_level_best(); level++) {
    kernel_case c;
    open(&c, i);
    double *reference = with_reference ? reference_of(&c) : NULL;
    void *first = NULL;
    for (int threads = 1; threads <= 7; threads += 1 + threads / 3) { /* 1, 2, 3, 5, 7 */
      team_measure measure;
      c.n_threads = threads;
      team_measure_begin(&measure);
      reed_status status = case_run(&c, cpu_level_name(level));
      team_measure_end();
      ck_assert_msg(status == REED_OK, "%s", case_where(&c));
      const size_t bytes = (size_t)desc_bytes(&c.outputs[0].desc);
      if (!first) {
        first = malloc(bytes);
        ck_assert(first);
        memcpy(first, c.outputs[0].data, bytes);
      }
      ck_assert_msg(memcmp(first, c.outputs[0].data, bytes) == 0, "%s: other bits", case_where(&c));
      ck_assert_msg(threads == 1 || measure.n_chunks >= least, "%s: %lld chunks", case_where(&c),
                    (long long)measure.n_chunks);
    }
    for (int64_t k = 0; with_reference && k < desc_elements(&c.outputs[0].desc); k++) {
      const double want = reference[k], got = case_get(&c.outputs[0], k);
      ck_assert_msg(fabs(got - want) <= 1e-4 * (1 + fabs(want)), "%s: element %lld: %g, not %g", case_where(&c),
                    (long long)k, got, want);
    }
    free(reference);
    free(first);
    case_close(&c);
  }
}

static void open_row_number(kernel_case *c, int i) { open_row(c, &rows[i]); }

START_TEST(long_calls_have_many_chunks_and_the_same_bits) {
  expect_many_chunks(open_row_number, _i, rows[_i].least, false);
}
END_TEST

/* ---- calls whose work depends on their values ---- */

/* A few long copies. */
static void open_tiles(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_Tile);
  case_input(c, REED_F32, 2, (int64_t[]){1, 60001}, 10);
  int64_t *repeats = case_input(c, REED_I64, 1, (int64_t[]){2}, 0)->data;
  repeats[0] = 3;
  repeats[1] = 1;
}

/* Updates that all meet in a few elements, of few lines; lines that are long; a line whose elements all lie in one line
 * of the cache; an axis so long that each update may be in a line of its own. */
static void open_updates(kernel_case *c, int i) {
  static const struct {
    int64_t data[2], updates[2], axis;
  } forms[] = {{{200, 2}, {30000, 2}, 0},
               {{4000, 1}, {60000, 1}, 0},
               {{200, 100}, {700, 100}, 0},
               {{10, 1}, {60000, 1}, 0},
               {{150000, 2}, {30000, 2}, 0}};
  case_init(c, OP_ScatterElements);
  case_input(c, REED_F32, 2, forms[i].data, 10);
  case_input(c, REED_I64, 2, forms[i].updates, i % 2 ? 9 : 19);
  case_input(c, REED_F32, 2, forms[i].updates, 10);
  case_attr_string(c, "reduction", "add");
  case_attr_int(c, "axis", forms[i].axis);
}

/* Regions as large as the map, few and with as many samples as pixels. */
static void open_regions(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_RoiAlign);
  case_input(c, REED_F32, 4, (int64_t[]){1, 2, 120, 130}, 2);
  value *regions = case_input(c, REED_F32, 2, (int64_t[]){2, 4}, 0);
  case_input(c, REED_I64, 1, (int64_t[]){2}, 0);
  for (int k = 0; k < 8; k++) case_set(regions, k, k % 4 < 2 ? 1 : 115);
  case_attr_int(c, "output_height", 2);
  case_attr_int(c, "output_width", 2);
  case_attr_string(c, "mode", "max");
}

/* Many boxes of two classes; boxes few of which stay. One class of so many boxes that their order is shared out, with
 * ties; likewise with class ids. One class whose order takes one chunk, as do its first block and its list. */
static void open_boxes(kernel_case *c, int i) {
  const int64_t n = i > 3 ? 3000 : i > 1 ? 9001 : i ? 700 : 2000, rows = i > 1 ? 1 : 2;
  case_init(c, OP_NonMaxSuppression);
  value *boxes = case_input(c, REED_F32, 3, (int64_t[]){1, n, 4}, 1000);
  for (int64_t k = 0; k < n && i == 4; k++) { /* none touches another one: their number decides */
    case_set(boxes, 4 * k, (double)(k / 60 * 20));
    case_set(boxes, 4 * k + 1, (double)(k % 60 * 20));
  }
  for (int64_t k = 0; k < n; k++)
    for (int corner = 0; corner < 2; corner++)
      case_set(boxes, 4 * k + 2 + corner, case_get(boxes, 4 * k + corner) + (i == 1 ? 90 : 15));
  value *scores = case_input(c, REED_F32, 3, (int64_t[]){1, rows, n}, 1);
  for (int64_t k = 0; k < n && i > 1 && i < 4; k += 3) case_set(scores, k, k % 2 ? .5 : -.25);
  *(int64_t *)case_input(c, REED_I64, 1, (int64_t[]){1}, 0)->data = n;
  case_set(case_input(c, REED_F32, 1, (int64_t[]){1}, 0), 0, .5);
  if (i < 2 || i > 3) return;
  case_set(case_input(c, REED_F32, 1, (int64_t[]){1}, 0), 0, -.75);
  if (i < 3) return;
  value *ids = case_input(c, REED_I64, 2, (int64_t[]){1, n}, 0);
  for (int64_t k = 0; k < n; k++) ((int64_t *)ids->data)[k] = k * k % 1000 - 77;
}

/* A long row whose windows overlap, with padding; a row of many columns under few rows; large planes; a few windows of
 * squares, each almost a plane, and windows of cubes; one window, which is the plane. */
static void open_pool(kernel_case *c, int i) {
  static const int64_t long_row[] = {101}, long_pads[] = {50, 30}, kernel[] = {3, 5}, pads[] = {1, 2, 0, 3},
                       dilations[] = {1, 2}, strides[] = {3, 2};
  static const op_id ops[] = {OP_AveragePool, OP_MaxPool, OP_GlobalAveragePool, OP_GlobalMaxPool, OP_GlobalLpPool,
                              OP_LpPool,      OP_LpPool,  OP_AveragePool,       OP_MaxPool};
  case_init(c, ops[i]);
  if (i == 0) {
    case_input(c, REED_F32, 3, (int64_t[]){1, 1, 90001}, 3);
    case_attr_ints(c, "kernel_shape", long_row, 1);
    case_attr_ints(c, "pads", long_pads, 2);
  } else if (i == 1) {
    case_input(c, REED_F32, 4, (int64_t[]){1, 1, 4, 200003}, 3);
    case_attr_ints(c, "kernel_shape", kernel, 2);
    case_attr_ints(c, "pads", pads, 4);
    case_attr_ints(c, "dilations", dilations, 2);
    case_attr_ints(c, "strides", strides, 2);
  } else {
    case_input(c, REED_F32, 4, (int64_t[]){1, 1, 401, 703}, 3);
    if (i < 5) return;
    static const int64_t windows[][2] = {{400, 700}, {40, 30}, {401, 703}}, steps[][2] = {{1, 1}, {40, 30}, {1, 1}};
    const int form = i < 7 ? i - 5 : 2;
    case_attr_ints(c, "kernel_shape", windows[form], 2);
    case_attr_ints(c, "strides", steps[form], 2);
    if (i < 7) case_attr_int(c, "p", i == 5 ? 2 : 3);
  }
}

/* Remainders of floats; quotients of integers. */
static void open_division(kernel_case *c, int i) {
  case_init(c, i ? OP_Div : OP_Mod);
  case_input(c, i ? REED_I64 : REED_F32, 1, (int64_t[]){100000}, 99);
  value *divisors = case_input(c, i ? REED_I64 : REED_F32, 1, (int64_t[]){100000}, 9);
  for (int64_t k = 0; k < 100000 && i; k++) case_set(divisors, k, (double)(k % 7 + 1));
  if (!i) case_attr_int(c, "fmod", 1);
}

/* Elements that lie far from each other. */
static void open_gather(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_GatherND);
  case_input(c, REED_F32, 2, (int64_t[]){600, 600}, 1);
  case_input(c, REED_I64, 2, (int64_t[]){50000, 2}, 599);
}

/* Results of each of many short rows; many channels of a few elements each. */
static void open_short_norms(kernel_case *c, int i) {
  static const int64_t channels = 20000;
  if (i == 0) {
    case_init(c, OP_LayerNormalization);
    case_input(c, REED_F32, 2, (int64_t[]){40000, 3}, 1);
    case_input(c, REED_F32, 1, (int64_t[]){3}, 1);
  } else {
    case_init(c, OP_BatchNormalization);
    case_input(c, REED_F32, 3, (int64_t[]){1, channels, 5}, 1);
    for (int k = 0; k < 4; k++) case_input(c, REED_F32, 1, &channels, 1);
    case_attr_int(c, "training_mode", 1);
  }
  c->n_outputs = 3;
}

/* Rows of two windows each; long windows that overlap, whose mean is wanted. */
static void open_few_windows(kernel_case *c, int i) {
  static const int64_t extents[][4] = {{1, 600, 30, 31}, {1, 1, 1, 100000}}, kernels[][2] = {{30, 14}, {1, 1001}},
                       strides[][2] = {{1, 14}, {1, 1}};
  static const op_id ops[] = {OP_LpPool, OP_AveragePool};
  case_init(c, ops[i]);
  case_input(c, REED_F32, 4, extents[i], 3);
  case_attr_ints(c, "kernel_shape", kernels[i], 2);
  case_attr_ints(c, "strides", strides[i], 2);
}

/* A few rows of elements that are read at an index each. */
static void open_nearest(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_Resize);
  case_input(c, REED_F32, 2, (int64_t[]){1200, 401}, 3);
  case_absent(c);
  value *scales = case_input(c, REED_F32, 1, (int64_t[]){2}, 0);
  case_set(scales, 0, .3);
  case_set(scales, 1, .4);
  case_attr_string(c, "mode", "nearest");
}

/* Rows of a few elements between pads. */
static void open_pad(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_Pad);
  case_input(c, REED_F32, 2, (int64_t[]){100000, 3}, 1);
  value *pads = case_input(c, REED_I64, 1, (int64_t[]){4}, 0);
  ((int64_t *)pads->data)[1] = ((int64_t *)pads->data)[3] = 1;
}

/* Columns side by side: a piece of a sum, several pieces, few columns of a long sum, many columns of an odd one. */
static void open_cumsum(kernel_case *c, int i) {
  static const int64_t extents[][2] = {{700, 701}, {16000, 8}, {33000, 40}, {70001, 3}, {20000, 100}};
  static const reed_dtype dtypes[] = {REED_F32, REED_F64, REED_F16, REED_BF16, REED_I64};
  case_init(c, OP_CumSum);
  value *x = case_input(c, dtypes[i], 2, extents[i], 1);
  for (int64_t k = 0; k < desc_elements(&x->desc) && i; k++) case_set(x, k, (double)(k * k % 17 - 8) / 8);
  case_scalar(c, REED_I64, i == 0);
  case_attr_int(c, "reverse", i % 2);
  case_attr_int(c, "exclusive", i > 2);
}

/* Columns of few long lines, and of many; one row of lines. */
static void open_norm(kernel_case *c, int i) {
  static const int64_t extents[][2] = {{62500, 8}, {20000, 70}, {1, 250001}};
  case_init(c, OP_LpNormalization);
  case_input(c, REED_F32, 2, extents[i], 1);
  case_attr_int(c, "axis", 0);
  case_attr_int(c, "p", 2 - i % 2);
}

/* Planes that come from memory, each by a window of its own. */
static void open_depthwise(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_Conv);
  case_input(c, REED_F32, 4, (int64_t[]){1, 8, 400, 400}, 1);
  case_input(c, REED_F32, 4, (int64_t[]){8, 1, 3, 3}, 1);
  static const int64_t strides[] = {2, 2};
  case_attr_ints(c, "strides", strides, 2);
  case_attr_int(c, "group", 8);
}

/* Long columns side by side, all elements of which are wanted, or a few; short ones, whose elements are inserted. */
static void open_topk(kernel_case *c, int i) {
  static const int64_t extents[][2] = {{16384, 2}, {40000, 8}, {8, 62500}}, wanted[] = {16384, 500, 3};
  case_init(c, OP_TopK);
  case_input(c, i ? REED_F64 : REED_F32, 2, extents[i], 1000);
  *(int64_t *)case_input(c, REED_I64, 1, (int64_t[]){1}, 0)->data = wanted[i];
  case_attr_int(c, "axis", 0);
  c->n_outputs = 2;
}

/* Rows for most of a cache. */
static void open_cache(kernel_case *c, int i) {
  (void)i;
  case_init(c, OP_TensorScatter);
  case_input(c, REED_F32, 4, (int64_t[]){1, 2, 2100, 64}, 1);
  case_input(c, REED_F32, 4, (int64_t[]){1, 2, 2000, 64}, 1);
  *(int64_t *)case_input(c, REED_I64, 1, (int64_t[]){1}, 0)->data = 150;
  case_attr_string(c, "mode", "circular");
}

static const struct {
  void (*open)(kernel_case *, int);
  int i, least;
} calls[] = {
    {open_tiles, 0, 9},        {open_updates, 0, 25},      {open_updates, 1, 25},      {open_updates, 2, 30},
    {open_updates, 3, 25},     {open_updates, 4, 56},      {open_regions, 0, 60},      {open_boxes, 0, 20},
    {open_boxes, 1, 4},        {open_pool, 0, 10},         {open_pool, 1, 5},          {open_pool, 2, 8},
    {open_pool, 3, 8},         {open_pool, 4, 8},          {open_pool, 5, 100},        {open_pool, 6, 300},
    {open_boxes, 2, 60},       {open_boxes, 3, 30},        {open_pool, 7, 8},          {open_pool, 8, 8},
    {open_pad, 0, 140},        {open_cumsum, 0, 12},       {open_cumsum, 1, 2},        {open_cumsum, 2, 60},
    {open_cumsum, 3, 20},      {open_cumsum, 4, 20},       {open_norm, 0, 20},         {open_norm, 1, 20},
    {open_norm, 2, 200},       {open_depthwise, 0, 30},    {open_topk, 0, 20},         {open_topk, 1, 20},
    {open_cache, 0, 45},       {open_division, 0, 250},    {open_division, 1, 40},     {open_gather, 0, 60},
    {open_boxes, 4, 132},      {open_short_norms, 0, 130}, {open_short_norms, 1, 170}, {open_few_windows, 0, 80},
    {open_few_windows, 1, 14}, {open_nearest, 0, 4},       {open_topk, 2, 60}};

START_TEST(calls_of_few_long_parts_have_many_chunks_and_the_same_bits) {
  expect_many_chunks(calls[_i].open, calls[_i].i, calls[_i].least, true);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("chunks");
  TCase *tc = tcase_create("chunks");
  tcase_set_timeout(tc, 240);
  tcase_add_loop_test(tc, long_calls_have_many_chunks_and_the_same_bits, 0, N_ROWS);
  tcase_add_loop_test(tc, calls_of_few_long_parts_have_many_chunks_and_the_same_bits, 0, ROWS(calls));
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
