/* Memory that tensors of an epoch share: inputs of a join computed in its place, and parts that stay in their source.
 */
#include <check.h>

#include "reed/reed.h"
#include "tests/suite.h"
#include "tests/vm/hand.h"

/* y = max over x * x | (x + x | relu(x)) | x | (x + x, which is wanted later, too), + max over x + x. */
static const char joined[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                             ".type t0 = f32[n, 4] \"x\"\n"
                             ".type t1 = f32[] \"y\"\n"
                             ".inputs t0\n"
                             ".outputs t1\n"
                             ".site add = Add (2 -> 1) \"add\"\n"
                             ".site mul = Mul (2 -> 1) \"mul\"\n"
                             ".site relu = Relu (1 -> 1) \"relu\"\n"
                             ".site two = Concat (2 -> 1) \"two\" {axis = 0}\n"
                             ".site four = Concat (4 -> 1) \"four\" {axis = -2}\n"
                             ".site max = ReduceMax (1 -> 1) \"max\" {keepdims = 0}\n"
                             ".function main (t0) -> (t1) registers 12 0\n"
                             "  assert.shape r0, t0\n"
                             "  epoch.enter 0, plan, [r0:shape], []\n"
                             "  shape.like r1, r0, device\n"
                             "  shape mul, device, [r2], [r1:shape, r1:shape]\n"
                             "  shape add, device, [r3], [r1:shape, r1:shape]\n"
                             "  shape relu, device, [r4], [r1:shape]\n"
                             "  shape two, device, [r5], [r3:shape, r4:shape]\n"
                             "  shape add, device, [r6], [r1:shape, r1:shape]\n"
                             "  shape four, device, [r7], [r2:shape, r5:shape, r1:shape, r6:shape]\n"
                             "  shape max, device, [r8], [r7:shape]\n"
                             "  shape max, device, [r9], [r6:shape]\n"
                             "  shape add, device, [r10], [r8:shape, r9:shape]\n"
                             "plan:\n"
                             "  epoch.plan 0\n"
                             "  copy r1, r0, input, add, 0\n"
                             "  invoke mul, device, [r2], [r1, r1]\n"
                             "  invoke add, device, [r3], [r1, r1]\n"
                             "  invoke relu, device, [r4], [r1]\n"
                             "  invoke two, device, [r5], [r3, r4]\n"
                             "  kill r3\n"
                             "  kill r4\n"
                             "  invoke add, device, [r6], [r1, r1]\n"
                             "  invoke four, device, [r7], [r2, r5, r1, r6]\n"
                             "  kill r2\n"
                             "  kill r5\n"
                             "  invoke max, device, [r8], [r7]\n"
                             "  kill r7\n"
                             "  invoke max, device, [r9], [r6]\n"
                             "  kill r6\n"
                             "  kill r1\n"
                             "  invoke add, device, [r10], [r8, r9]\n"
                             "  kill r8\n"
                             "  kill r9\n"
                             "  epoch.end 0\n"
                             "  readback r11, r10, output, add, 0\n"
                             "  sync\n"
                             "  kill r10\n"
                             "  return [r11], []\n";

static float joined_result(reed_session *session, int64_t rows, float first) {
  reed_tensor *output;
  reed_status status = run_floats(session, rows, first, &output);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  float value = *(float *)reed_tensor_data(output);
  reed_tensor_close(&output);
  return value;
}

static float joined_expected(int64_t rows, float first) {
  float most = -1e30f, sums = -1e30f;
  for (int64_t i = 0; i < rows * 4; i++) {
    float x = first + (float)i, values[] = {x * x, x + x, x > 0 ? x : 0, x};
    for (int k = 0; k < 4; k++) most = values[k] > most ? values[k] : most;
    sums = x + x > sums ? x + x : sums;
  }
  return most + sums;
}

START_TEST(what_is_joined_is_computed_in_its_place) {
  const char *devices[] = {"host", "sim"};
  for (int d = 0; d < 2; d++) {
    reed_session *session = opened(joined, &(reed_session_options){.device = devices[d]});
    static const struct {
      int64_t rows;
      float first;
    } runs[] = {{4099, -20000}, {4099, 3},    {17, -9}, {1, 0.25f},
                {3, -2},        {4099, -1e4f}}; /* smaller sizes use the first size's plan, with other places */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
      ck_assert_float_eq(joined_result(session, runs[i].rows, runs[i].first),
                         joined_expected(runs[i].rows, runs[i].first));
    ck_assert_double_eq(memo_figure(session, "plans_reused"), 3);
    /* the joined result of five parts and the sum that is read later, on an accelerator x, too; the rest is the
     * maxima's workspace */
    ck_assert_double_lt(figure(session, "memory", d ? "sim" : "host", "arena_bytes"), 4099 * 16 * (6.1 + d));
    reed_session_close(&session);
  }
}
END_TEST

/* w = x + x is cut in two; y = max over relu(w), which is computed before the parts are read, + max over the first +
 * first + max over second * second. */
static const char cut[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                          ".type t0 = f32[n, 4] \"x\"\n"
                          ".type t1 = f32[] \"y\"\n"
                          ".inputs t0\n"
                          ".outputs t1\n"
                          ".site add = Add (2 -> 1) \"add\"\n"
                          ".site mul = Mul (2 -> 1) \"mul\"\n"
                          ".site relu = Relu (1 -> 1) \"relu\"\n"
                          ".site halves = Split (1 -> 2) \"halves\" {axis = 0, num_outputs = 2}\n"
                          ".site max = ReduceMax (1 -> 1) \"max\" {keepdims = 0}\n"
                          ".function main (t0) -> (t1) registers 15 0\n"
                          "  assert.shape r0, t0\n"
                          "  epoch.enter 0, plan, [r0:shape], []\n"
                          "  shape.like r1, r0, device\n"
                          "  shape add, device, [r2], [r1:shape, r1:shape]\n"
                          "  shape halves, device, [r3, r4], [r2:shape]\n"
                          "  shape relu, device, [r5], [r2:shape]\n"
                          "  shape max, device, [r6], [r5:shape]\n"
                          "  shape add, device, [r7], [r3:shape, r3:shape]\n"
                          "  shape max, device, [r8], [r7:shape]\n"
                          "  shape mul, device, [r9], [r4:shape, r4:shape]\n"
                          "  shape max, device, [r10], [r9:shape]\n"
                          "  shape add, device, [r11], [r6:shape, r8:shape]\n"
                          "  shape add, device, [r12], [r11:shape, r10:shape]\n"
                          "plan:\n"
                          "  epoch.plan 0\n"
                          "  copy r1, r0, input, add, 0\n"
                          "  invoke add, device, [r2], [r1, r1]\n"
                          "  kill r1\n"
                          "  invoke halves, device, [r3, r4], [r2]\n"
                          "  invoke relu, device, [r5], [r2]\n"
                          "  invoke max, device, [r6], [r5]\n"
                          "  kill r2\n"
                          "  kill r5\n"
                          "  invoke add, device, [r7], [r3, r3]\n"
                          "  kill r3\n"
                          "  invoke max, device, [r8], [r7]\n"
                          "  kill r7\n"
                          "  invoke mul, device, [r9], [r4, r4]\n"
                          "  kill r4\n"
                          "  invoke max, device, [r10], [r9]\n"
                          "  kill r9\n"
                          "  invoke add, device, [r11], [r6, r8]\n"
                          "  kill r6\n"
                          "  kill r8\n"
                          "  invoke add, device, [r12], [r11, r10]\n"
                          "  kill r10\n"
                          "  kill r11\n"
                          "  epoch.end 0\n"
                          "  readback r13, r12, output, add, 0\n"
                          "  sync\n"
                          "  kill r12\n"
                          "  return [r13], []\n";

static float cut_expected(int64_t rows, float first) {
  float most = 0, sums = -1e30f, squares = -1e30f;
  for (int64_t i = 0; i < rows * 4; i++) {
    float w = 2 * (first + (float)i);
    most = w > most ? w : most;
    if (i < (rows + 1) / 2 * 4) sums = 2 * w > sums ? 2 * w : sums;
    else squares = w * w > squares ? w * w : squares;
  }
  return most + sums + squares;
}

START_TEST(what_is_cut_out_lies_where_it_was) {
  const char *devices[] = {"host", "sim"};
  for (int d = 0; d < 2; d++) {
    reed_session *session = opened(cut, &(reed_session_options){.device = devices[d]});
    static const struct {
      int64_t rows;
      float first;
    } runs[] = {{4098, -20000}, {4098, 3},    {17, -9}, {2, 0.25f},
                {3, -2},        {4098, -1e4f}}; /* smaller sizes use the first size's plan, with other places */
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
      ck_assert_float_eq(joined_result(session, runs[i].rows, runs[i].first),
                         cut_expected(runs[i].rows, runs[i].first));
    /* w and relu(w), but no parts of their own; references copy the parts, so that w makes room for them */
    ck_assert_double_lt(figure(session, "memory", d ? "sim" : "host", "arena_bytes"),
                        4098 * 16 * (suite_runs_references() ? 3.1 : 2.1));
    reed_session_close(&session);
  }
}
END_TEST

/* The output is the first half of x + x; the other half is not kept. */
static const char half[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                           ".type t0 = f32[n, 4] \"x\"\n"
                           ".type t1 = f32[m, 4] \"y\"\n"
                           ".inputs t0\n"
                           ".outputs t1\n"
                           ".site add = Add (2 -> 1) \"add\"\n"
                           ".site halves = Split (1 -> 2) \"halves\" {axis = 0, num_outputs = 2}\n"
                           ".function main (t0) -> (t1) registers 7 0\n"
                           "  assert.shape r0, t0\n"
                           "  epoch.enter 0, plan, [r0:shape], []\n"
                           "  shape.like r1, r0, device\n"
                           "  shape add, device, [r2], [r1:shape, r1:shape]\n"
                           "  shape halves, device, [r3, r4], [r2:shape]\n"
                           "  shape.like r5, r3, device\n"
                           "plan:\n"
                           "  epoch.plan 0\n"
                           "  copy r1, r0, input, add, 0\n"
                           "  invoke add, device, [r2], [r1, r1]\n"
                           "  kill r1\n"
                           "  invoke halves, device, [r3, r4], [r2]\n"
                           "  kill r2\n"
                           "  kill r4\n"
                           "  view r5, r3\n"
                           "  kill r3\n"
                           "  epoch.end 0\n"
                           "  readback r6, r5, output, add, 0\n"
                           "  sync\n"
                           "  kill r5\n"
                           "  return [r6], []\n";

START_TEST(a_part_that_outlives_its_epoch_has_memory_of_its_own) {
  enum { ROWS = 1 << 14 };
  reed_session *session = opened(half, NULL);
  reed_tensor *output;
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(run_floats(session, ROWS, (float)i, &output), REED_OK);
    for (int k = 0; k < ROWS * 2; k++) ck_assert_float_eq(((float *)reed_tensor_data(output))[k], 2 * (float)(i + k));
    reed_tensor_close(&output);
  }
  /* the arena has the sum; the returned half lies in the output's memory */
  ck_assert_double_ge(figure(session, "memory", "host", "arena_bytes"), ROWS * 16);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("sharing");
  TCase *cases = tcase_create("run");
  tcase_add_checked_fixture(cases, open_diagnosis, close_diagnosis);
  tcase_set_timeout(cases, 120);
  tcase_add_test(cases, what_is_joined_is_computed_in_its_place);
  tcase_add_test(cases, what_is_cut_out_lies_where_it_was);
  tcase_add_test(cases, a_part_that_outlives_its_epoch_has_memory_of_its_own);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
