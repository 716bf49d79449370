/* The memory cap of a session: loops whose tensors become outputs, sequences of many small tensors, and a series of
 * caps. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reed/reed.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"

/* y = x doubled along axis 0, so many times. */
static const char doubling[] = ".module \"m\" producer \"test\" \"1\" devices 1\n"
                               ".type t0 = f32[n, 4] \"x\"\n"
                               ".type t1 = f32[?, 4] \"y\"\n"
                               ".inputs t0\n"
                               ".outputs t1\n"
                               ".site join = Concat (2 -> 1) \"join\" {axis = 0}\n"
                               ".function main (t0) -> (t1) registers 2 4\n"
                               "  assert.shape r0, t0\n"
                               "  s.const s0, %d\n"
                               "  s.const s1, 0\n"
                               "  s.const s2, 1\n"
                               "again:\n"
                               "  s.lt s3, s1, s0\n"
                               "  branch.ifnot s3, done\n"
                               "  epoch.enter 0, plan, [r0:shape], []\n"
                               "  shape join, host, [r1], [r0:shape, r0:shape]\n"
                               "plan:\n"
                               "  epoch.plan 0\n"
                               "  invoke join, host, [r1], [r0, r0]\n"
                               "  epoch.end 0\n"
                               "  kill r0\n"
                               "  r.move r0, r1\n"
                               "  kill r1\n"
                               "  s.add s1, s1, s2\n"
                               "  jump again\n"
                               "done:\n"
                               "  return [r0], []\n";

/* y = so many tensors x + x, stacked. */
static const char stacking[] = ".module \"m\" producer \"test\" \"1\" devices 1\n"
                               ".type t0 = f32[n, 4] \"x\"\n"
                               ".type t1 = f32[?, n, 4] \"y\"\n"
                               ".type t2 = f32[n, 4] \"item\"\n"
                               ".inputs t0\n"
                               ".outputs t1\n"
                               ".site add = Add (2 -> 1) \"add\"\n"
                               ".function main (t0) -> (t1) registers 4 4\n"
                               "  assert.shape r0, t0\n"
                               "  s.const s0, %d\n"
                               "  s.const s1, 0\n"
                               "  s.const s2, 1\n"
                               "  seq.make r1\n"
                               "again:\n"
                               "  s.lt s3, s1, s0\n"
                               "  branch.ifnot s3, done\n"
                               "  epoch.enter 0, plan, [r0:shape], []\n"
                               "  shape add, host, [r2], [r0:shape, r0:shape]\n"
                               "plan:\n"
                               "  epoch.plan 0\n"
                               "  invoke add, host, [r2], [r0, r0]\n"
                               "  epoch.end 0\n"
                               "  seq.push r1, r2\n"
                               "  kill r2\n"
                               "  s.add s1, s1, s2\n"
                               "  jump again\n"
                               "done:\n"
                               "  kill r0\n"
                               "  seq.stack r3, r1, t2, host\n"
                               "  kill r1\n"
                               "  return [r3], []\n";

/* y = 4 x, by two additions with a tensor between them. */
static const char fourfold[] = ".module \"m\" producer \"test\" \"1\" devices 1\n"
                               ".type t0 = f32[n, 4] \"x\"\n"
                               ".type t1 = f32[n, 4] \"y\"\n"
                               ".inputs t0\n"
                               ".outputs t1\n"
                               ".site add = Add (2 -> 1) \"add\"\n"
                               ".function main (t0) -> (t1) registers 3 0\n"
                               "  assert.shape r0, t0\n"
                               "  epoch.enter 0, plan, [r0:shape], []\n"
                               "  shape add, host, [r1], [r0:shape, r0:shape]\n"
                               "  shape add, host, [r2], [r1:shape, r1:shape]\n"
                               "plan:\n"
                               "  epoch.plan 0\n"
                               "  invoke add, host, [r1], [r0, r0]\n"
                               "  invoke add, host, [r2], [r1, r1]\n"
                               "  epoch.end 0\n"
                               "  kill r0\n"
                               "  kill r1\n"
                               "  return [r2], []\n";

static reed_status run_rounds(const char *text, int n_rounds, int64_t cap_bytes, int64_t rows, int64_t *out_bytes) {
  char module[sizeof stacking + sizeof doubling];
  snprintf(module, sizeof module, text, n_rounds);
  reed_session *session = opened(module, &(reed_session_options){.memory_cap_bytes = cap_bytes});
  reed_status first = REED_OK;
  for (int i = 0; i < 2; i++) { /* a run over the cap leaves the session as it was */
    reed_tensor *output = NULL;
    reed_status status = run_floats(session, rows, 1, &output);
    if (i == 0) first = status;
    ck_assert_msg(status == first, "run %d at cap %lld: %s", i, (long long)cap_bytes,
                  reed_diagnosis_message(diagnosis));
    if (status == REED_OK) *out_bytes = reed_tensor_bytes(output);
    reed_tensor_close(&output);
  }
  reed_session_close(&session);
  return first;
}

static void check_over_cap(const char *text, int n_rounds, int64_t cap_bytes, int64_t rows, const char *words) {
  int64_t bytes;
  ck_assert_int_eq(run_rounds(text, n_rounds, cap_bytes, rows, &bytes), REED_ERROR_MEMORY);
  const char *said = reed_diagnosis_message(diagnosis);
  ck_assert_msg(strstr(said, words) && strstr(said, "cap"), "%s", said);
}

/* The last output is as large as the cap, and its source has half of that beside it. */
START_TEST(outputs_of_the_host_count_towards_the_cap) {
  enum { ROWS = 1 << 12, ROUNDS = 4, CAP = ROWS * 16 << ROUNDS };
  int64_t bytes = 0;
  check_over_cap(doubling, ROUNDS, CAP, ROWS, "asked for an output");
  ck_assert_int_eq(run_rounds(doubling, ROUNDS - 1, CAP, ROWS, &bytes), REED_OK);
  ck_assert_int_eq(bytes, CAP / 2);
}
END_TEST

/* The stacked tensor has 256 KiB. Its 16,384 items and the sequence that names them take several MiB. */
START_TEST(sequences_count_towards_the_cap) {
  enum { ROUNDS = 1 << 14 };
  int64_t bytes = 0;
  check_over_cap(stacking, ROUNDS, 3 << 20, 1, "and objects ");
  ck_assert_int_eq(run_rounds(stacking, ROUNDS, 64 << 20, 1, &bytes), REED_OK);
  ck_assert_int_eq(bytes, ROUNDS * 16);
}
END_TEST

/* A pool that took the whole cap for its first tensor would leave nothing for the output. */
START_TEST(a_cap_above_one_that_is_enough_is_enough) {
  enum { ROWS = 64 };
  int64_t bytes = 0, live = 0, reserved = 0;
  for (int64_t cap = 128 << 10; cap <= 64 << 20; cap *= 2)
    for (int64_t more = 0; more <= ROWS * 16; more += ROWS * 8) {
      reed_status status = run_rounds(fourfold, 0, cap + more, ROWS, &bytes);
      ck_assert_msg(status == REED_OK, "cap %lld: %s", (long long)(cap + more), reed_diagnosis_message(diagnosis));
      ck_assert_int_eq(bytes, ROWS * 16);
    }
  check_over_cap(fourfold, 0, 64 << 10, ROWS, "asked for an output; outputs have 0, sequences and objects 0, ");
  const char *tensors = strstr(reed_diagnosis_message(diagnosis), "the session's tensors ");
  ck_assert_msg(
      tensors && sscanf(tensors, "the session's tensors %" SCNd64 " live, %" SCNd64 " reserved", &live, &reserved) == 2,
      "%s", reed_diagnosis_message(diagnosis));
  ck_assert_int_gt(live, 0);
  ck_assert_int_le(live, reserved);
}
END_TEST

static reed_status run_fourfold(reed_session *session, int64_t rows) {
  reed_tensor *output = NULL;
  reed_status status = run_floats(session, rows, 1, &output);
  reed_tensor_close(&output);
  return status;
}

static bool is_enough(int64_t cap_bytes, int64_t rows) {
  reed_session *session = opened(fourfold, &(reed_session_options){.memory_cap_bytes = cap_bytes});
  bool enough = run_fourfold(session, rows) == REED_OK && run_fourfold(session, rows) == REED_OK;
  reed_session_close(&session);
  return enough;
}

/* The least cap with which a new session runs so many rows. */
static int64_t least_cap(int64_t rows) {
  int64_t low = 0, high = 64 << 20;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (is_enough(middle, rows)) high = middle;
    else low = middle;
  }
  return high;
}

/* Of a run that failed nothing stays that a smaller run would lack, and blocks have no headroom afterwards. */
START_TEST(a_run_that_met_the_cap_takes_nothing_from_smaller_runs) {
  const int64_t small = 3000, large = 40000;
  for (int more = 0; more < 2; more++) {
    reed_session *session =
        opened(fourfold, &(reed_session_options){.memory_cap_bytes = least_cap(small) * (2 + more) / 2});
    for (int round = 0; round < 3; round++) {
      ck_assert_int_eq(run_fourfold(session, large), REED_ERROR_MEMORY);
      reed_status status = run_fourfold(session, small);
      ck_assert_msg(status == REED_OK, "round %d: %s", round, reed_diagnosis_message(diagnosis));
    }
    reed_session_close(&session);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cap");
  TCase *cases = tcase_create("cap");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, outputs_of_the_host_count_towards_the_cap);
  tcase_add_test(cases, sequences_count_towards_the_cap);
  tcase_add_test(cases, a_cap_above_one_that_is_enough_is_enough);
  tcase_add_test(cases, a_run_that_met_the_cap_takes_nothing_from_smaller_runs);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
