/* Copies that take records of a few elements apart or put them together (ops/cpu/common/parts_loops.h). */
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

static const reed_dtype widths[] = {REED_U8, REED_BF16, REED_F32, REED_I64}; /* movement knows sizes only */
#define EACH_WIDTH(dtype) \
  for (int w_ = 0; w_ < 4; w_++) \
    for (reed_dtype dtype = widths[w_], once_ = 1; once_; once_ = 0)

/* Pixels of 2 to 5 channels taken apart and put together, with a piece of pixels left over, and pixels whose channels
 * are pairs of elements. */
START_TEST(transpose_of_pixels) {
  static const int64_t numbers[] = {15, 16, 37, 4100};
  EACH_WIDTH(dtype)
  for (int64_t channels = 2; channels <= 5; channels++)
    for (int k = 0; k < ROWS(numbers); k++)
      for (int form = 0; form < 3; form++) {
        const int64_t n = numbers[k],
                      *dims[] = {(int64_t[]){3, n, channels}, (int64_t[]){3, channels, n}, (int64_t[]){n, channels, 2}};
        static const int64_t perms[][3] = {{0, 2, 1}, {0, 2, 1}, {1, 0, 2}};
        kernel_case c;
        case_init(&c, OP_Transpose);
        case_input(&c, dtype, 3, dims[form], 100);
        case_attr_ints(&c, "perm", perms[form], 3);
        c.n_threads = 1 + k % 2;
        case_parity(&c, 0, 0);
      }
}
END_TEST

START_TEST(depth_and_space_of_wide_maps) {
  EACH_WIDTH(dtype)
  for (int64_t block = 2; block <= 4; block++)
    for (int mode = 0; mode < 3; mode++) {
      kernel_case c;
      case_init(&c, mode == 2 ? OP_SpaceToDepth : OP_DepthToSpace);
      if (mode == 2) case_input(&c, dtype, DIMS(1, 3, 2 * block, 35 * block), 50);
      else case_input(&c, dtype, DIMS(1, 3 * block * block, 2, 35), 50);
      case_attr_int(&c, "blocksize", block);
      if (mode < 2) case_attr_string(&c, "mode", mode ? "CRD" : "DCR");
      case_parity_orders(&c, 1u << 0, 0, 0);
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("records");
  TCase *tc = tcase_create("records");
  tcase_set_timeout(tc, 240);
  tcase_add_test(tc, transpose_of_pixels);
  tcase_add_test(tc, depth_and_space_of_wide_maps);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
