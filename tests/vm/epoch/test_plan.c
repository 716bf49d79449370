/* epoch.plan: the number of calls of shape functions, the comparisons of planning, and the host's memory beside an
 * accelerator's. Shared memory (in place, parts, joins): test_share.c. Layouts that are used again: test_memo.c. */
#include <check.h>
#include <cjson/cJSON.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/mem.h"
#include "bytecode/format.h"
#include "bytecode/text/text.h"
#include "reed/reed.h"
#include "tests/suite.h"

static reed_diagnosis *diagnosis;
static reed_registry *registry;
static int n_calls; /* of Counted's shape function */

/* test.Counted: y = x, its shape function's calls counted. */
static reed_status counted_shape(reed_shape_call *call) {
  n_calls++;
  call->outputs[0].rank = call->inputs[0].rank;
  memcpy(call->outputs[0].dims, call->inputs[0].dims, sizeof call->outputs[0].dims[0] * (size_t)call->inputs[0].rank);
  return call->status;
}

typedef struct counted_state {
  size_t bytes;
} counted_state;

static reed_status counted_run(const void *state, const reed_kernel_buffers *buffers) {
  memcpy(buffers->outputs[0], buffers->inputs[0], ((const counted_state *)state)->bytes);
  return REED_OK;
}

static reed_status counted_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  static counted_state state; /* one state, because a test uses one shape at a time */
  state.bytes = reed_dtype_bytes(call->outputs[0].dtype);
  for (int32_t i = 0; i < call->outputs[0].rank; i++) state.bytes *= (size_t)call->outputs[0].dims[i];
  *out_kernel = (reed_kernel){.run = counted_run, .state = &state};
  return REED_OK;
}

static const reed_op_input counted_inputs[] = {{.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
static const reed_op_output counted_outputs[] = {{.name = "y", .type_rule = REED_TYPE_LIKE}};
static const reed_op counted = {.domain = "test",
                                .name = "Counted",
                                .inputs = counted_inputs,
                                .n_inputs = 1,
                                .outputs = counted_outputs,
                                .n_outputs = 1,
                                .shape = counted_shape,
                                .cpu = counted_prepare};

#define HEAD \
  ".module \"m\" devices 2\n.type x = f32[?] \"x\"\n" \
  ".const n = f32[2] {0, 0}\n.site k = Counted in \"test\" (1 -> 1) \"k\"\n.site h = Counted in \"test\" (1 -> 1) " \
  "\"h\"\n.site add = Add (2 -> 1) \"add\"\n"

static reed_session *opened(const void *bytes, size_t n, const char *device) {
  reed_program *program;
  reed_session *session;
  reed_program_options options = {.registry = registry};
  reed_status status = reed_program_open_bytes(bytes, n, &options, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  status = reed_session_open(program, &(reed_session_options){.device = device}, &session, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_program_close(&program);
  return session;
}

static reed_session *assembled(const char *text, const char *device) {
  void *bytes;
  size_t n;
  reed_status status = reed_module_assemble(text, registry, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_session *session = opened(bytes, n, device);
  reed_text_free(bytes);
  return session;
}

/* As a module of format 2.0, which may break rule V56. */
static reed_session *older(const char *text, const char *device) {
  void *bytes;
  size_t n;
  ck_assert_int_eq(text_assemble(text, &bytes, &n, NULL), REED_OK);
  reed_status status = reed_module_verify(bytes, n, &(reed_program_options){.registry = registry}, diagnosis);
  ck_assert_int_eq(status, REED_ERROR_FORMAT);
  ck_assert_int_eq(strncmp(reed_diagnosis_message(diagnosis), "V56", 3), 0);
  ((format_header *)bytes)->minor = 0;
  format_trailer checksum = hash_bytes(bytes, n - sizeof checksum, 0); /* the module is one block */
  memcpy((char *)bytes + n - sizeof checksum, &checksum, sizeof checksum);
  reed_session *session = opened(bytes, n, device);
  mem_free(bytes);
  return session;
}

/* One run with x = first, first + 1, ..., n of them; the output's elements where it is well. */
static reed_status run(reed_session *session, int64_t n, float first, float *out_values) {
  reed_tensor *input, *output;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){n}, &input), REED_OK);
  for (int i = 0; i < n; i++) ((float *)reed_tensor_data(input))[i] = first + (float)i;
  reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
  if (status == REED_OK) {
    memcpy(out_values, reed_tensor_data(output), (size_t)n * sizeof *out_values);
    reed_tensor_close(&output);
  }
  reed_tensor_close(&input);
  return status;
}

static void runs_well(reed_session *session, float first, float scale) {
  float values[4];
  reed_status status = run(session, 4, first, values);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  for (int i = 0; i < 4; i++) ck_assert_float_eq(values[i], scale * (first + (float)i));
}

static cJSON *json_of(reed_session *session, reed_status (*get)(reed_session *, char **, reed_diagnosis *)) {
  char *text;
  ck_assert_int_eq(get(session, &text, NULL), REED_OK);
  cJSON *root = cJSON_Parse(text);
  reed_text_free(text);
  return root;
}

static double shape_functions(reed_session *session) {
  cJSON *root = json_of(session, reed_session_stats_json);
  double n = cJSON_GetNumberValue(
      cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(root, "epochs"), 0), "shape_functions"));
  cJSON_Delete(root);
  return n;
}

/* Three calls: a host kernel in the shape section, a kernel in the run section, and a call outside of epochs. */
static const char three_calls[] =
    HEAD ".function main (x) -> (x)\n"
         "  epoch.enter 0, plan, [r0:value], []\n  shape h, host, [r1], [r0:shape]\n  invoke h, host, [r1], [r0]\n"
         "  shape.like r2, r1, device\n  shape k, device, [r3], [r2:shape]\nplan: epoch.plan 0\n"
         "  copy r2, r1, placement, k, 0\n  invoke k, device, [r3], [r2]\n  kill r2\n  epoch.end 0\n"
         "  readback r4, r3, output, k, 0\n  kill r3\n  sync\n"
         "  shape h, host, [r5], [r4:shape]\n  invoke h, host, [r5], [r4]\n  return [r5], []\n";

START_TEST(a_miss_calls_each_shape_function_once) {
  static const char *const devices[] = {"host", "sim"};
  reed_session *session = assembled(three_calls, devices[_i]);
  n_calls = 0;
  runs_well(session, 1, 1);
  ck_assert_int_eq(n_calls, 2 + 2); /* once for each call of the epoch; outside of epochs `invoke` asks again */
  ck_assert_double_eq(shape_functions(session), 2);
  n_calls = 0;
  runs_well(session, 1, 1); /* a hit */
  ck_assert_int_eq(n_calls, 2);
  reed_session_close(&session);
}
END_TEST

#define AGAIN(shape_section) \
  HEAD ".function main (x) -> (x)\n  epoch.enter 0, plan, [r0:value], []\n  r.move r2, r0\n" \
       "  shape h, host, [r1], [r2:shape]\n" shape_section "plan: epoch.plan 0\n" \
       "  invoke h, host, [r1], [r2]\n  epoch.end 0\n  return [r1], []\n"
#define SHAPE_AGAIN "  shape h, host, [r1], [r2:shape]\n"

/* An equal `shape` replaces the earlier one, on every path or on one; an operand may be defined between the two. */
START_TEST(a_shape_may_be_repeated) {
  static const struct {
    const char *text;
    int n_calls;
  } fine[] = {
      {AGAIN(SHAPE_AGAIN), 1},
      {AGAIN("  r.move r2, r0\n" SHAPE_AGAIN), 2},
      {AGAIN("  shape.like r1, r0, host\n" SHAPE_AGAIN), 2},
      {AGAIN("  s.dim s0, r0, 0\n  branch.if s0, out\n  r.move r2, r0\n" SHAPE_AGAIN "out:\n"), 1},
      {AGAIN("  s.dim s0, r0, 0\n  branch.ifnot s0, out\n  r.move r2, r0\n" SHAPE_AGAIN "out:\n"), 2},
  };
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    reed_session *session = assembled(fine[i].text, "host");
    n_calls = 0;
    runs_well(session, 1, 1);
    ck_assert_int_eq(n_calls, fine[i].n_calls); /* planning calls none */
    reed_session_close(&session);
  }
  static const char *const broken[] = {
      AGAIN(SHAPE_AGAIN "  r.move r2, r0\n"),
      AGAIN(SHAPE_AGAIN "  shape.like r1, r0, host\n"),
      AGAIN("  s.dim s0, r0, 0\n  branch.if s0, out\n  r.move r2, r0\nout:\n"),
      AGAIN("  s.dim s0, r0, 0\n" SHAPE_AGAIN "  branch.if s0, out\n  r.move r2, r0\nout:\n"),
      AGAIN("  s.dim s0, r0, 0\n  branch.if s0, other\n" SHAPE_AGAIN "  jump out\nother:\n  r.move r2, r0\nout:\n"),
  };
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    void *bytes;
    size_t n;
    ck_assert_int_eq(reed_module_assemble(broken[i], registry, &bytes, &n, diagnosis), REED_ERROR_FORMAT);
    ck_assert_msg(strncmp(reed_diagnosis_message(diagnosis), "V56", 3) == 0, "%zu: %s", i,
                  reed_diagnosis_message(diagnosis));
  }
}
END_TEST

/* Registers know which of up to 512 outputs they are: planning asks the shape function no second time. */
START_TEST(every_output_of_a_call_of_500_is_known) {
  enum { N = 500 };
  text_buffer text = {0};
  text_append(&text,
              ".module \"m\" devices 2\n.type x = f32[?] \"x\"\n.site cut = Split (1 -> %d) \"cut\" {axis = 0, "
              "num_outputs = %d}\n.function main (x) -> (x, x, x)\n  epoch.enter 0, plan, [r0:shape], []\n",
              N, N);
  for (int invoke = 0; invoke < 2; invoke++) {
    text_append(&text, invoke ? "plan: epoch.plan 0\n  invoke cut, host, [" : "  shape cut, host, [");
    for (int i = 1; i <= N; i++) text_append(&text, "%sr%d", i > 1 ? ", " : "", i);
    text_append(&text, invoke ? "], [r0]\n" : "], [r0:shape]\n");
  }
  text_append(&text, "  epoch.end 0\n  return [r1, r257, r500], []\n");
  reed_session *session = assembled(text.data, "host");
  reed_tensor *input, *outputs[3];
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){N}, &input), REED_OK);
  for (int i = 0; i < N; i++) ((float *)reed_tensor_data(input))[i] = (float)i;
  reed_status status = reed_session_run(session, &input, 1, outputs, 3, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(reed_tensor_elements(outputs[i]), 1);
    ck_assert_float_eq(*(float *)reed_tensor_data(outputs[i]), i == 0 ? 0 : i == 1 ? 256 : N - 1);
    reed_tensor_close(&outputs[i]);
  }
  ck_assert_double_eq(shape_functions(session), 1);
  reed_tensor_close(&input);
  reed_session_close(&session);
  text_fini(&text);
}
END_TEST

/* The extents of r1 and r3 come from shape.like, so that only a second call can tell that they fit. */
#define UNSHAPED(source) \
  HEAD ".function main (x) -> (x)\n" \
       "  epoch.enter 0, plan, [r0:value], []\n  const r6, n, host\n  shape.like r1, r0, host\n" \
       "  invoke h, host, [r1], [r0]\n  shape.like r2, r1, device\n  shape.like r3, " source \
       ", device\nplan: epoch.plan " \
       "0\n  copy r2, r1, placement, k, 0\n  invoke k, device, [r3], [r2]\n  kill r2\n  epoch.end 0\n" \
       "  readback r4, r3, output, k, 0\n  kill r3\n  sync\n  return [r4], []\n"

START_TEST(an_older_module_without_proof_is_planned_with_second_calls) {
  static const char *const devices[] = {"host", "sim"};
  reed_session *session = older(UNSHAPED("r2"), devices[_i]);
  n_calls = 0;
  runs_well(session, 1, 1);
  ck_assert_int_eq(n_calls, 2);
  ck_assert_double_eq(shape_functions(session), 2);
  runs_well(session, 1, 1);
  ck_assert_int_eq(n_calls, 2); /* a hit */
  reed_session_close(&session);
  float values[4];
  session = older(UNSHAPED("r6"), devices[_i]);
  ck_assert_int_eq(run(session, 4, 1, values), REED_ERROR_SHAPE);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), "output 0 in r3 was not shaped for this call"));
  reed_session_close(&session);
}
END_TEST

/* Both branches lead to the invoke, and for four elements the second branch shapes its output otherwise, which the
 * verifier does not notice. Planning compares the site in the register, and calls the shape function again only if it
 * differs. */
#define BRANCHED(other) \
  HEAD ".function main (x) -> (x)\n  s.dim s0, r0, 0\n  s.const s1, 4\n  s.eq s0, s0, s1\n" \
       "  epoch.enter 0, plan, [r0:shape], [s0]\n  shape.like r2, r0, device\n  branch.if s0, other\n" \
       "  shape k, device, [r3], [r2:shape]\n  jump plan\nother:\n  " other "\nplan: epoch.plan 0\n" \
       "  copy r2, r0, input, k, 0\n  invoke k, device, [r3], [r2]\n  kill r2\n  epoch.end 0\n" \
       "  readback r4, r3, output, k, 0\n  kill r3\n  sync\n  return [r4], []\n"

START_TEST(planning_compares_the_call_site_that_shaped_an_output) {
  static const struct {
    const char *text;
    int n_calls; /* calls in a run with four elements; -1: the run is refused */
  } cases[] = {{BRANCHED("shape.like r3, r2, device"), 1},
               {BRANCHED("shape h, device, [r3], [r2:shape]"), 2},
               {BRANCHED("const r6, n, host\n  shape.like r3, r6, device"), -1}};
  reed_session *session = assembled(cases[_i].text, "host");
  float values[4];
  n_calls = 0;
  ck_assert_int_eq(run(session, 3, 1, values), REED_OK);
  ck_assert_int_eq(n_calls, 1);
  n_calls = 0;
  reed_status status = run(session, 4, 1, values);
  ck_assert_int_eq(status, cases[_i].n_calls < 0 ? REED_ERROR_SHAPE : REED_OK);
  if (status == REED_OK) ck_assert_int_eq(n_calls, cases[_i].n_calls);
  else ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), "output 0 in r3 was not shaped for this call"));
  ck_assert_int_eq(run(session, 2, 1, values), REED_OK);
  reed_session_close(&session);
}
END_TEST

/* Kernels on the host in a run section, whose results r2 and r6 are copied to the device as r3 and r7. r6 must not be
 * computed in the place of r2, which the first copy may still read. */
static const char host_kernels[] = HEAD
    ".function main (x) -> (x)\n"
    "  epoch.enter 0, plan, [r0:shape], []\n  shape add, host, [r1], [r0:shape, r0:shape]\n"
    "  shape k, host, [r2], [r1:shape]\n  shape.like r3, r2, device\n  shape add, device, [r4], [r3:shape, "
    "r3:shape]\n  shape add, host, [r6], [r2:shape, r2:shape]\n  shape.like r7, r6, device\n"
    "  shape add, device, [r8], [r4:shape, r7:shape]\nplan: epoch.plan 0\n"
    "  invoke add, host, [r1], [r0, r0]\n  invoke k, host, [r2], [r1]\n  kill r1\n  copy r3, r2, placement, add, "
    "0\n  invoke add, device, [r4], [r3, r3]\n  kill r3\n"
    "  invoke add, host, [r6], [r2, r2]\n  kill r2\n  copy r7, r6, placement, add, 1\n  kill r6\n  invoke add, device, "
    "[r8], [r4, r7]\n  kill r4\n  kill r7\n  epoch.end 0\n  readback r9, r8, output, add, 0\n  kill r8\n  sync\n"
    "  return [r9], []\n";

static double arena_bytes(reed_session *session, const char *device, const char *key) {
  cJSON *root = json_of(session, reed_session_plan_json);
  cJSON *epoch = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "epochs"), 0);
  double n =
      cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetObjectItem(epoch, "arena"), device), key));
  cJSON_Delete(root);
  return n;
}

static double memo_figure(reed_session *session, const char *key) {
  cJSON *root = json_of(session, reed_session_stats_json);
  double n = cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "memo"), key));
  cJSON_Delete(root);
  return n;
}

/* With option `late` the device's work runs when the host waits, so that a copy reads the bytes that its source has at
 * that time. */
START_TEST(results_of_the_host_in_a_run_section_live_in_its_arena) {
  static const char *const devices[] = {"sim", "sim?late=1&poison=1", "sim?seed=3&late=1&poison=1"};
  reed_session *session = assembled(host_kernels, devices[_i]);
  for (int i = 0; i < 5; i++) runs_well(session, (float)i, 8);
  ck_assert_double_eq(memo_figure(session, "misses"), 1);
  ck_assert_double_eq(memo_figure(session, "hits"), 4);
  /* r2, and r6 in the place of r1; on the device r7: r3, r4 and r8 are one block that outlives the epoch */
  ck_assert_double_eq(arena_bytes(session, "host", "bytes"), 2 * 64);
  ck_assert_double_eq(arena_bytes(session, "host", "without_reuse"), 3 * 64);
  ck_assert_double_eq(arena_bytes(session, "sim", "bytes"), 64);
  reed_session_close(&session);
}
END_TEST

/* The same kernels in two epochs without a wait in between; r0 is copied, too. The second epoch's host results must not
 * lie where the first epoch's copies still read. r4 = 2 r0 + r0, r9 = 2 r4 + r0 by way of the host. */
static const char two_epochs[] = HEAD
    ".function main (x) -> (x)\n"
    "  epoch.enter 0, p0, [r0:shape], []\n  shape add, host, [r1], [r0:shape, r0:shape]\n  shape.like r2, r1, device\n"
    "  shape.like r3, r0, device\n  shape add, device, [r4], [r2:shape, r3:shape]\np0: epoch.plan 0\n"
    "  invoke add, host, [r1], [r0, r0]\n  copy r2, r1, placement, add, 0\n  kill r1\n  copy r3, r0, input, add, 1\n"
    "  invoke add, device, [r4], [r2, r3]\n  kill r2\n  kill r3\n  epoch.end 0\n"
    "  epoch.enter 1, p1, [r0:shape, r4:shape], []\n  shape k, host, [r5], [r0:shape]\n  shape.like r6, r5, device\n"
    "  shape add, device, [r7], [r4:shape, r4:shape]\n  shape add, device, [r8], [r7:shape, r6:shape]\np1: epoch.plan "
    "1\n  invoke k, host, [r5], [r0]\n  copy r6, r5, placement, add, 1\n  kill r5\n  invoke add, device, [r7], [r4, "
    "r4]\n  invoke add, device, [r8], [r7, r6]\n  kill r6\n  kill r7\n  epoch.end 1\n  kill r4\n"
    "  readback r9, r8, output, add, 0\n  kill r8\n  sync\n  return [r9], []\n";

START_TEST(a_copy_reads_its_bytes_before_a_later_epoch_has_the_arena) {
  static const char *const devices[] = {"host", "sim", "sim?late=1&poison=1", "sim?seed=3&late=1&poison=1"};
  reed_session *session = assembled(two_epochs, devices[_i]);
  for (int i = 0; i < 5; i++) runs_well(session, (float)i, 7);
  if (_i) { /* r1, and a slot for the copy of r0, which is the caller's */
    ck_assert_double_eq(arena_bytes(session, "host", "bytes"), 2 * 64);
    ck_assert_double_eq(arena_bytes(session, "sim", "bytes"),
                        64); /* r3; r2 and r4 are one block that outlives the epoch */
  }
  ck_assert_double_eq(memo_figure(session, "misses"), 2);
  reed_session_close(&session);
}
END_TEST

static void setup(void) {
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &counted, diagnosis), REED_OK);
}

static void teardown(void) {
  reed_registry_close(&registry);
  reed_diagnosis_close(&diagnosis);
}

int main(void) {
  Suite *suite = suite_create("plan");
  TCase *c = tcase_create("plan");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_set_timeout(c, 60);
  suite_add_tcase(suite, c);
  tcase_add_loop_test(c, a_miss_calls_each_shape_function_once, 0, 2);
  tcase_add_test(c, a_shape_may_be_repeated);
  tcase_add_test(c, every_output_of_a_call_of_500_is_known);
  tcase_add_loop_test(c, an_older_module_without_proof_is_planned_with_second_calls, 0, 2);
  tcase_add_loop_test(c, planning_compares_the_call_site_that_shaped_an_output, 0, 3);
  tcase_add_loop_test(c, results_of_the_host_in_a_run_section_live_in_its_arena, 0, 3);
  tcase_add_loop_test(c, a_copy_reads_its_bytes_before_a_later_epoch_has_the_arena, 0, 4);
  return suite_run(suite);
}
