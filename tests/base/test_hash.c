/* Hashes of several blocks in one call. Known hashes of XXH64: tests/bytecode/test_builder.c. */
#include <check.h>
#include <stdlib.h>

#include "base/hash.h"
#include "tests/suite.h"

/* The sum by its definition (hash.h). */
static uint64_t sum_of_blocks(const uint8_t *data, size_t n, size_t block, uint64_t seed) {
  uint64_t sum = 0;
  for (size_t at = 0; at < n; at += block, seed++) sum += hash_bytes(data + at, n - at < block ? n - at : block, seed);
  return sum;
}

/* One to nine blocks and no bytes at all, with last blocks of every length, also below the 32 bytes of a lane's step.
 * Each size has bytes of its own, so that the sanitizer sees a read past them. */
START_TEST(a_sum_of_blocks_is_that_of_their_hashes) {
  static const size_t blocks[] = {7, 31, 32, 33, 64, 100, 160};
  for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
    for (size_t n = 0; n <= 9 * blocks[b]; n++) {
      uint8_t *data = malloc(n + !n);
      for (size_t i = 0; i < n; i++) data[i] = (uint8_t)((i + 1) * 2654435761u >> 13);
      uint64_t sum = sum_of_blocks(data, n, blocks[b], 3);
      ck_assert_msg(hash_sum(data, n, blocks[b], 3) == sum, "%zu bytes in blocks of %zu", n, blocks[b]);
      free(data);
    }
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("hash");
  TCase *c = tcase_create("hash");
  tcase_add_test(c, a_sum_of_blocks_is_that_of_their_hashes);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
