/* .npy files: round trips of every dtype, byte orders, Fortran order, and damaged files of every kind, cut and flipped.
 */
#include "tools/npy.h"
#include "tests/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file of that version with that dict and data; its size. */
static size_t build(char *out, int version, const char *dict, const void *data, size_t n_data) {
  size_t begin = version == 1 ? 10 : 12, n = strlen(dict);
  memcpy(out, "\x93NUMPY", 6);
  out[6] = (char)version, out[7] = 0;
  out[8] = (char)(n & 0xff), out[9] = (char)(n >> 8);
  if (version > 1) out[10] = out[11] = 0;
  memcpy(out + begin, dict, n);
  if (n_data) memcpy(out + begin + n, data, n_data);
  return begin + n + n_data;
}

static reed_tensor *read_ok(const char *bytes, size_t n) {
  complaint c = {0};
  reed_tensor *t = NULL;
  ck_assert_msg(npy_read("x.npy", bytes, n, &t, &c) == DONE, "%s", c.text);
  return t;
}

static void refused(const char *bytes, size_t n, const char *words) {
  complaint c = {0};
  reed_tensor *t = NULL;
  ck_assert_int_eq(npy_read("x.npy", bytes, n, &t, &c), BAD_FILE);
  ck_assert_msg(strstr(c.text, words) != NULL, "'%s' does not say '%s'", c.text, words);
}

START_TEST(every_dtype_comes_back) {
  for (int d = REED_NONE + 1; d < REED_DTYPE_COUNT; d++) {
    reed_tensor *t, *back;
    ck_assert_int_eq(reed_tensor_open((reed_dtype)d, 2, (int64_t[]){2, 3}, &t), REED_OK);
    size_t size = reed_dtype_bytes((reed_dtype)d);
    for (int i = 0; i < 6; i++)
      reed_dtype_write((reed_dtype)d, (char *)reed_tensor_data(t) + (size_t)i * size, d == REED_BOOL ? i % 2 : i + 0.5);
    char *bytes;
    size_t n;
    npy_write(t, &bytes, &n);
    back = read_ok(bytes, n);
    ck_assert_int_eq(reed_tensor_dtype(back), d == REED_BF16 ? REED_F32 : (reed_dtype)d);
    ck_assert_int_eq(reed_tensor_dims(back)[1], 3);
    for (int i = 0; i < 6; i++)
      ck_assert(reed_dtype_read((reed_dtype)d, (char *)reed_tensor_data(t) + (size_t)i * size) ==
                reed_dtype_read(reed_tensor_dtype(back), (char *)reed_tensor_data(back) +
                                                             (size_t)i * reed_dtype_bytes(reed_tensor_dtype(back))));
    /* cut anywhere, it is refused */
    for (size_t k = 0; k < n; k++) {
      complaint c;
      reed_tensor *none = NULL;
      ck_assert_int_eq(npy_read("x", bytes, k, &none, &c), BAD_FILE);
    }
    free(bytes);
    reed_tensor_close(&t);
    reed_tensor_close(&back);
  }
}
END_TEST

START_TEST(scalars_vectors_and_empty_arrays_come_back) {
  static const int64_t dims[][3] = {{0}, {5}, {0, 3}, {2, 0, 2}};
  static const int32_t ranks[] = {0, 1, 2, 3};
  for (int i = 0; i < 4; i++) {
    reed_tensor *t, *back;
    char *bytes;
    size_t n;
    ck_assert_int_eq(reed_tensor_open(REED_I64, ranks[i], dims[i], &t), REED_OK);
    npy_write(t, &bytes, &n);
    ck_assert_uint_eq((n - (size_t)reed_tensor_bytes(t)) % 64, 0);
    back = read_ok(bytes, n);
    ck_assert_int_eq(reed_tensor_rank(back), ranks[i]);
    ck_assert_int_eq(reed_tensor_elements(back), reed_tensor_elements(t));
    free(bytes);
    reed_tensor_close(&t);
    reed_tensor_close(&back);
  }
}
END_TEST

START_TEST(byte_and_fortran_order_are_turned) {
  char file[300];
  const unsigned char big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
  for (int version = 1; version <= 3; version++) {
    size_t n = build(file, version, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", big, sizeof big);
    reed_tensor *t = read_ok(file, n);
    const int16_t want[] = {1, 3, 5, 2, 4, 6};
    ck_assert_mem_eq(reed_tensor_data(t), want, sizeof want);
    reed_tensor_close(&t);
  }
}
END_TEST

START_TEST(damaged_and_foreign_files_are_refused_by_name) {
  char file[600];
  const char zeros[64] = {0};
#define REFUSED(dict, n_data, words) refused(file, build(file, 1, dict, zeros, n_data), words)
  refused("PK\3\4 not an array", 17, "no .npy file");
  refused(file, build(file, 9, "{}", zeros, 0), "version 9.0");
  REFUSED("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, "'<c8' are not supported");
  REFUSED("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8, "'|O' are not supported");
  REFUSED("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4, "structured");
  REFUSED("{'descr': '<f4', 'shape': (1,), }", 4, "lacks");
  REFUSED("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", 4, "neither True nor False");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1, -1), }", 4, "no extent");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': 4, }", 16, "not a tuple");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (2 2), }", 16, "not a tuple");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, "more than 8 dimensions");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4, "no extent");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2), }", 4, "promises");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", 4, "overflows");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 16, "promises 3 elements");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8, "promises 3 elements");
  REFUSED("{'descr': '<f4', 'colour': 'red', 'fortran_order': False, 'shape': (1,), }", 4,
          "unknown header key 'colour'");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,), }", 4, "two shapes");
  REFUSED("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", 4, "garbage");
  REFUSED("", 0, "not a dict");
#undef REFUSED
}
END_TEST

/* Every single byte of a small file set to every value: never a crash, and an accepted file gives a tensor of 8 bytes.
 */
START_TEST(flipped_bytes_never_crash) {
  char file[300], copy[300];
  const char zeros[8] = {0};
  size_t n = build(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", zeros, 8);
  for (size_t i = 0; i < n; i++)
    for (int v = 0; v < 256; v++) {
      complaint c;
      reed_tensor *t = NULL;
      memcpy(copy, file, n);
      copy[i] = (char)v;
      if (npy_read("x", copy, n, &t, &c) == DONE) ck_assert_int_eq(reed_tensor_bytes(t), 8);
      reed_tensor_close(&t);
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("npy");
  TCase *all = tcase_create("npy");
  tcase_add_test(all, every_dtype_comes_back);
  tcase_add_test(all, scalars_vectors_and_empty_arrays_come_back);
  tcase_add_test(all, byte_and_fortran_order_are_turned);
  tcase_add_test(all, damaged_and_foreign_files_are_refused_by_name);
  tcase_add_test(all, flipped_bytes_never_crash);
  suite_add_tcase(suite, all);
  return suite_run(suite);
}
