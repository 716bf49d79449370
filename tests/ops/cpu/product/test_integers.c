/* MatMul of i32 against its reference, to the last bit: tiles of every height, ragged panels, chunks, odd depths, one
 * matrix of B for all of A's, numbers of more than 16 bits in A or B alone, sums that wrap. */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct product_row {
  int32_t rank_a, rank_b;
  int64_t a[4], b[4];
} product_row;

static const product_row products[] = {
    {2, 2, {1, 1}, {1, 1}},
    {2, 2, {7, 3}, {3, 5}},
    {2, 2, {6, 2}, {2, 64}},
    {2, 2, {13, 9}, {9, 65}},
    {2, 2, {5, 301}, {301, 17}},
    {2, 2, {70, 37}, {37, 130}},
    {1, 2, {33}, {33, 16}},
    {2, 1, {9, 33}, {33}},
    {1, 1, {5}, {5}},
    {3, 2, {3, 5, 8}, {8, 20}},
    {3, 3, {3, 5, 8}, {3, 8, 20}},
    {4, 3, {2, 3, 4, 7}, {3, 7, 9}},
    {4, 4, {2, 1, 5, 6}, {1, 3, 6, 4}},
    {2, 2, {0, 4}, {4, 3}},
    {2, 2, {4, 3}, {3, 0}},
    {2, 2, {4, 0}, {0, 3}},
    {2, 2, {77, 8}, {8, 1}},
    {2, 2, {1500, 131}, {131, 1}},
    {4, 3, {2, 3, 21, 33}, {3, 33, 1}},
};

/* Bounds of the numbers in A and B: of quantised ones, and such that some or most have more than 16 bits. */
static const double ranges[][2] = {{255, 255}, {32767, 32767}, {33500, 200}, {200, 33500}, {2e9, 2e9}};

START_TEST(products_equal_the_reference) {
  const product_row *p = &products[_i];
  for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
    for (int constant = 0; constant < 2; constant++) {
      kernel_case c;
      case_init(&c, OP_MatMul);
      c.hide_values = !constant;
      case_input(&c, REED_I32, p->rank_a, p->a, ranges[r][0]);
      case_input(&c, REED_I32, p->rank_b, p->b, ranges[r][1]);
      case_parity(&c, 0, 0);
    }
}
END_TEST

START_TEST(the_least_number_of_16_bits_is_packed) {
  kernel_case c;
  case_init(&c, OP_MatMul);
  case_filled(&c, REED_I32, DIMS(1, 3), (double[]){-32768, -32768, 32767});
  case_filled(&c, REED_I32, DIMS(3, 2), (double[]){-32768, -32768, -32768, -32768, -32768, -32768});
  case_expect(&c, (double[]){2147483648.0 - 1073709056.0, 2147483648.0 - 1073709056.0}, 2);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("integers");
  TCase *t = tcase_create("integers");
  tcase_add_loop_test(t, products_equal_the_reference, 0, ROWS(products));
  tcase_add_test(t, the_least_number_of_16_bits_is_packed);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
