/* MatMul and Gemm of f64, and of f32 with few columns, against the reference: tiles of every height and width, ragged
 * columns, blocks of the depth, few rows, one column, turned and batched matrices, the ends of a product; and the same
 * bits with any number of threads. */
#include <stdlib.h>
#include <string.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const reed_dtype dtypes[] = {REED_F32, REED_F64};
#define N_DTYPES ((int)(sizeof dtypes / sizeof *dtypes))

static double relative_of(reed_dtype dtype) { return dtype == REED_F64 ? 1e-13 : 1e-5; }
static double absolute_of(reed_dtype dtype) { return dtype == REED_F64 ? 1e-12 : 1e-4; }

static void matrix(kernel_case *c, reed_dtype dtype, int64_t rows, int64_t columns, bool turned) {
  case_input(c, dtype, 2, (int64_t[]){turned ? columns : rows, turned ? rows : columns}, 1);
}

/* Gemm's transA is 1 bit of `turned`, transB the next. */
static void gemm(kernel_case *c, reed_dtype dtype, const int64_t *extents, int turned) {
  case_init(c, OP_Gemm);
  matrix(c, dtype, extents[0], extents[1], turned & 1);
  matrix(c, dtype, extents[1], extents[2], turned & 2);
  case_attr_int(c, "transA", turned & 1);
  case_attr_int(c, "transB", turned >> 1);
}

/* Rows: 1 to 30, or so many that products of f32 with few columns come here. */
START_TEST(tiles_of_every_height_and_width) {
  static const int64_t columns[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 41, 65};
  for (int row = 0; row < ROWS(columns); row++)
    for (int d = 0; d < N_DTYPES; d++) {
      const int64_t extents[] = {_i + (dtypes[d] == REED_F32 ? 64 : 1), 5 + _i % 3, columns[row]};
      if (dtypes[d] == REED_F32 && (columns[row] > 17 || _i > 14)) continue;
      kernel_case c;
      gemm(&c, dtypes[d], extents, (_i + row) % 4);
      if (row % 2) case_input(&c, dtypes[d], DIMS(extents[2]), 1);
      case_parity(&c, relative_of(dtypes[d]), absolute_of(dtypes[d]));
    }
}
END_TEST

/* Few rows, one column, blocks of the depth, several items; each with both matrices as they are and turned. */
static const int64_t shapes[][3] = {
    {1, 1, 1},      {1, 33, 1},     {1, 1000, 3}, {3, 1001, 2},   {4, 9000, 1},   {1, 9000, 1},  {2, 40, 700},
    {4, 37, 1501},  {1, 300, 4099}, {300, 5, 1},  {77, 40, 1},    {301, 4100, 1}, {15, 600, 40}, {130, 530, 70},
    {300, 258, 33}, {1000, 8, 3},   {5003, 3, 8}, {2000, 16, 16}, {6, 8, 3001},   {64, 700, 15}, {3, 31, 9},
    {90, 7, 1},     {80, 16, 1},    {8, 8, 300},  {8, 31, 70},
};

START_TEST(products_equal_the_reference) {
  for (int turned = 0; turned < 4; turned++)
    for (int d = 0; d < N_DTYPES; d++) {
      kernel_case c;
      gemm(&c, dtypes[d], shapes[_i], turned);
      case_parity(&c, relative_of(dtypes[d]), absolute_of(dtypes[d]));
    }
}
END_TEST

/* C in every form, with scales and an activation after it. */
START_TEST(the_ends_of_products_equal_the_reference) {
  static const int64_t ends[][3] = {{70, 9, 5},  {3, 40, 130}, {3, 300, 3}, {90, 300, 40},
                                    {90, 64, 1}, {1, 64, 90},  {2101, 7, 1}};
  const int64_t *e = ends[_i], forms[][2] = {{1, 1}, {1, e[2]}, {e[0], 1}, {e[0], e[2]}};
  for (int turned = 0; turned < 4; turned++)
    for (int form = 0; form < ROWS(forms); form++)
      for (int scaled = 0; scaled < 2; scaled++)
        for (int d = 0; d < N_DTYPES; d++) {
          kernel_case c;
          gemm(&c, dtypes[d], e, turned);
          case_input(&c, dtypes[d], 2, forms[form], 1);
          if (scaled) case_attr_float(&c, "alpha", -1.5);
          if (scaled) case_attr_float(&c, "beta", 0.25);
          case_attr_activation(&c, form % 2 ? "relu" : form ? "sigmoid" : NULL);
          case_parity(&c, relative_of(dtypes[d]), absolute_of(dtypes[d]));
        }
}
END_TEST

typedef struct batch_row {
  int32_t rank_a, rank_b, rank_c; /* rank_c 0: no bias */
  int64_t a[4], b[4], c[4];
  bool residual;
} batch_row;

static const batch_row batches[] = {
    {3, 3, 0, {5, 3, 4}, {5, 4, 6}, {0}, false},        {3, 3, 0, {40, 1, 64}, {40, 64, 1}, {0}, false},
    {3, 3, 0, {40, 9, 1}, {40, 1, 5}, {0}, false},      {3, 2, 1, {30, 5, 7}, {7, 6}, {6}, false},
    {3, 2, 2, {30, 5, 7}, {7, 6}, {5, 1}, false},       {3, 2, 3, {30, 5, 7}, {7, 6}, {30, 5, 6}, false},
    {3, 2, 3, {30, 5, 7}, {7, 6}, {30, 1, 6}, false},   {3, 2, 3, {70, 1, 7}, {7, 6}, {70, 1, 6}, false},
    {3, 2, 1, {70, 1, 7}, {7, 6}, {6}, true},           {4, 3, 3, {2, 3, 5, 6}, {3, 6, 4}, {3, 1, 4}, true},
    {4, 4, 0, {2, 1, 5, 40}, {1, 3, 40, 4}, {0}, true}, {1, 3, 0, {7}, {3, 7, 4}, {0}, false},
    {3, 1, 0, {3, 50, 40}, {40}, {0}, false},           {1, 1, 0, {300}, {300}, {0}, false},
    {3, 3, 0, {0, 5, 7}, {0, 7, 4}, {0}, false},
};

START_TEST(batches_equal_the_reference) {
  const batch_row *b = &batches[_i];
  for (int d = 0; d < N_DTYPES; d++)
    for (int constant = 0; constant < 2; constant++) {
      kernel_case c;
      case_init(&c, OP_MatMul);
      c.hide_values = !constant;
      case_input(&c, dtypes[d], b->rank_a, b->a, 1);
      case_input(&c, dtypes[d], b->rank_b, b->b, 1);
      if (b->rank_c) case_input(&c, dtypes[d], b->rank_c, b->c, 1);
      else if (b->residual) case_absent(&c);
      int64_t y[4];
      memcpy(y, b->a, sizeof y);
      if (b->rank_a == 4 && y[1] == 1) y[1] = b->b[1];
      y[b->rank_a - 1] = b->b[b->rank_b - 1];
      if (b->residual) case_input(&c, dtypes[d], b->rank_a, y, 1);
      case_parity(&c, relative_of(dtypes[d]), absolute_of(dtypes[d]));
    }
}
END_TEST

/* The bits of a level's results with one thread and with more. */
START_TEST(bits_do_not_depend_on_threads) {
  static const int64_t large[][3] = {{300, 530, 70}, {4, 3000, 2500}, {1, 5000, 900}, {5, 70000, 7},   {700, 5000, 1},
                                     {50021, 8, 3},  {3, 200000, 2},  {37, 700, 301}, {20011, 16, 16}, {700, 5003, 1},
                                     {83, 4103, 1},  {4, 3001, 523},  {3, 3001, 528}, {4, 50021, 33},  {65, 9001, 15}};
  static const int32_t threads[] = {1, 2, 3, 4, 5, 16, 64};
  for (int turned = 0; turned < 4; turned++)
    for (int d = 0; d < N_DTYPES; d++)
      for (cpu_level level = CPU_BASE; level <= cpu_level_best() && level <= CPU_AVX512; level++) {
        kernel_case c;
        gemm(&c, dtypes[d], large[_i], turned);
        void *bits = NULL;
        for (int i = 0; i < ROWS(threads) && !c.skipped; i++) {
          c.n_threads = threads[i];
          ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
          const size_t bytes = (size_t)desc_bytes(&c.outputs[0].desc);
          if (!bits) bits = memcpy(malloc(bytes), c.outputs[0].data, bytes);
          ck_assert_msg(memcmp(bits, c.outputs[0].data, bytes) == 0, "%s differs", case_where(&c));
        }
        free(bits);
        case_close(&c);
      }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("general");
  TCase *t = tcase_create("general");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, tiles_of_every_height_and_width, 0, 30);
  tcase_add_loop_test(t, products_equal_the_reference, 0, ROWS(shapes));
  tcase_add_loop_test(t, the_ends_of_products_equal_the_reference, 0, 7);
  tcase_add_loop_test(t, batches_equal_the_reference, 0, ROWS(batches));
  tcase_add_host_loop_test(t, bits_do_not_depend_on_threads, 0, 15);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
