/* Memory that tensors of an epoch share: inputs of a join computed in its place, parts that stay in their source, and
 * outputs over an operator's last input. */
#include <check.h>
#include <stdlib.h>

#include "reed/operator.h"
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

/* ---- over the last input ---- */

/* test.Mix: y = 2 a, in reverse, + b, which y may overwrite; its kernel does not allow it if `apart` is 1, or 2 and the
 * number of rows odd. */
enum { N_MIXES = 6 };
static int over[N_MIXES], n_mixes; /* the input over which each call wrote: 0, 1; -1: neither */

static reed_status mix_shape(reed_shape_call *call) {
  call->outputs[0].rank = call->inputs[0].rank;
  for (int32_t k = 0; k < call->inputs[0].rank; k++) call->outputs[0].dims[k] = call->inputs[0].dims[k];
  return call->status;
}

static reed_status mix_run(const void *state, const reed_kernel_buffers *buffers) {
  const int64_t n = *(const int64_t *)state;
  const float *a = buffers->inputs[0], *b = buffers->inputs[1];
  float *y = buffers->outputs[0];
  if (n_mixes < N_MIXES) over[n_mixes++] = y == a ? 0 : y == b ? 1 : -1;
  for (int64_t i = 0; i < n; i++) y[i] = 2 * a[n - 1 - i] + b[i];
  return REED_OK;
}

static reed_status mix_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t *n = malloc(sizeof *n);
  *n = call->outputs[0].dims[0] * call->outputs[0].dims[1];
  const int64_t apart = reed_attrs_int(call->attrs, "apart", 0);
  *out_kernel = (reed_kernel){
      .run = mix_run, .state = n, .free = free, .apart = apart == 1 || (apart == 2 && call->outputs[0].dims[0] % 2)};
  return REED_OK;
}

static const reed_op_input mixed[] = {{.name = "a", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32},
                                      {.name = "b", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
static const reed_op_output mix_output = {.name = "y", .type_rule = REED_TYPE_LIKE};
static const reed_op_attr mix_attr = {.name = "apart", .type = REED_ATTR_INT};
static const reed_op mix = {.domain = "test",
                            .name = "Mix",
                            .inputs = mixed,
                            .n_inputs = 2,
                            .outputs = &mix_output,
                            .n_outputs = 1,
                            .attrs = &mix_attr,
                            .n_attrs = 1,
                            .alias = REED_ALIAS_INPLACE_LAST,
                            .shape = mix_shape,
                            .cpu = mix_prepare};

static const char mixes[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                            ".type t0 = f32[n, 4] \"x\"\n"
                            ".type t1 = f32[n, 4] \"y\"\n"
                            ".inputs t0\n"
                            ".outputs t1\n"
                            ".site add = Add (2 -> 1) \"add\"\n"
                            ".site mix = Mix in \"test\" (2 -> 1) \"mix\"\n"
                            ".site apart = Mix in \"test\" (2 -> 1) \"apart\" {apart = 1}\n"
                            ".site odd = Mix in \"test\" (2 -> 1) \"odd\" {apart = 2}\n"
                            ".function main (t0) -> (t1) registers 12 0\n"
                            "  assert.shape r0, t0\n"
                            "  epoch.enter 0, plan, [r0:shape], []\n"
                            "  shape.like r1, r0, device\n"
                            "  shape add, device, [r2], [r1:shape, r1:shape]\n"
                            "  shape add, device, [r3], [r2:shape, r1:shape]\n"
                            "  shape mix, device, [r4], [r2:shape, r3:shape]\n"
                            "  shape mix, device, [r5], [r2:shape, r4:shape]\n"
                            "  shape mix, device, [r6], [r5:shape, r5:shape]\n"
                            "  shape apart, device, [r7], [r6:shape, r4:shape]\n"
                            "  shape mix, device, [r8], [r7:shape, r7:shape]\n"
                            "  shape odd, device, [r9], [r7:shape, r8:shape]\n"
                            "  shape add, device, [r10], [r9:shape, r7:shape]\n"
                            "plan:\n"
                            "  epoch.plan 0\n"
                            "  copy r1, r0, input, add, 0\n"
                            "  invoke add, device, [r2], [r1, r1]\n"
                            "  invoke add, device, [r3], [r2, r1]\n"
                            "  kill r1\n"
                            "  invoke mix, device, [r4], [r2, r3]\n" /* b dies */
                            "  kill r3\n"
                            "  invoke mix, device, [r5], [r2, r4]\n" /* a dies */
                            "  kill r2\n"
                            "  invoke mix, device, [r6], [r5, r5]\n" /* b dies, which is a */
                            "  kill r5\n"
                            "  invoke apart, device, [r7], [r6, r4]\n" /* both die */
                            "  kill r4\n"
                            "  kill r6\n"
                            "  invoke mix, device, [r8], [r7, r7]\n" /* none dies */
                            "  invoke odd, device, [r9], [r7, r8]\n" /* b dies */
                            "  kill r8\n"
                            "  invoke add, device, [r10], [r9, r7]\n"
                            "  kill r7\n"
                            "  kill r9\n"
                            "  epoch.end 0\n"
                            "  readback r11, r10, output, add, 0\n"
                            "  sync\n"
                            "  kill r10\n"
                            "  return [r11], []\n";

static void mixed_expected(int64_t n, float first, float *y) {
  float *r[10];
  for (int k = 1; k < 10; k++) r[k] = malloc((size_t)n * sizeof **r);
  for (int64_t i = 0; i < n; i++) r[1][i] = first + (float)i, r[2][i] = 2 * r[1][i], r[3][i] = r[2][i] + r[1][i];
  static const int calls[N_MIXES][3] = {{4, 2, 3}, {5, 2, 4}, {6, 5, 5}, {7, 6, 4}, {8, 7, 7}, {9, 7, 8}};
  for (int c = 0; c < N_MIXES; c++)
    for (int64_t i = 0; i < n; i++) r[calls[c][0]][i] = 2 * r[calls[c][1]][n - 1 - i] + r[calls[c][2]][i];
  for (int64_t i = 0; i < n; i++) y[i] = r[9][i] + r[7][i];
  for (int k = 1; k < 10; k++) free(r[k]);
}

START_TEST(an_output_lies_over_the_last_input_where_that_dies) {
  static const char *const devices[] = {"host", "sim"};
  reed_registry *registry;
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &mix, diagnosis), REED_OK);
  void *bytes;
  size_t n_bytes;
  reed_program *program;
  ck_assert_msg(reed_module_assemble(mixes, registry, &bytes, &n_bytes, diagnosis) == REED_OK, "%s",
                reed_diagnosis_message(diagnosis));
  ck_assert_int_eq(
      reed_program_open_bytes(bytes, n_bytes, &(reed_program_options){.registry = registry}, &program, diagnosis),
      REED_OK);
  for (int d = 0; d < 2; d++) {
    reed_session *session;
    ck_assert_int_eq(reed_session_open(program, &(reed_session_options){.device = devices[d]}, &session, diagnosis),
                     REED_OK);
    static const int64_t rows[] = {1000, 1000, 999, 20, 1001, 998, 997, 995, 994, 20};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      reed_tensor *output;
      float *y = malloc((size_t)rows[i] * 4 * sizeof *y);
      n_mixes = 0;
      ck_assert_msg(run_floats(session, rows[i], -(float)i, &output) == REED_OK, "%s",
                    reed_diagnosis_message(diagnosis));
      mixed_expected(rows[i] * 4, -(float)i, y);
      ck_assert_mem_eq(reed_tensor_data(output), y, (size_t)rows[i] * 4 * sizeof *y);
      ck_assert_int_eq(n_mixes, N_MIXES);
      const int expected[N_MIXES] = {1, -1, -1, -1, -1, rows[i] % 2 ? -1 : 1};
      for (int c = 0; c < N_MIXES; c++) ck_assert_msg(over[c] == expected[c], "call %d: over %d", c, over[c]);
      reed_tensor_close(&output);
      free(y);
    }
    reed_session_close(&session);
  }
  reed_program_close(&program);
  reed_text_free(bytes);
  reed_registry_close(&registry);
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
  tcase_add_test(cases, an_output_lies_over_the_last_input_where_that_dies);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
