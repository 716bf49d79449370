/* A miss that starts from the epoch's last entry: which calls are made again and which are not, and when the states of
 * kernels that entries share are freed. Random epochs: test_random.c. The table of kernels: ../test_site.c. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/pool.h"
#include "ops/kernel.h"
#include "tests/vm/hand.h"

static reed_registry *registry;
static int n_shaped, n_prepared, n_freed, n_ran;

/* test.Step: y = x + 1, with counts of all calls. A state knows its number of elements and is spoiled when it is freed.
 */
static reed_status step_shape(reed_shape_call *call) {
  n_shaped++;
  call->outputs[0].rank = call->inputs[0].rank;
  memcpy(call->outputs[0].dims, call->inputs[0].dims, sizeof(reed_dim) * (size_t)call->inputs[0].rank);
  return call->status;
}

typedef struct step_state {
  int64_t n;
  bool freed;
  kernel_cache *cache;
  void *value; /* of the program's cache; NULL: none */
} step_state;

static bool with_values; /* a Step holds a value of the program's cache */
static int n_values, n_values_freed;

static void value_free(void *data) {
  n_values_freed++;
  free(data);
}

static reed_status value_build(void *context, kernel_cache_value *out_value) {
  n_values++;
  *out_value = (kernel_cache_value){malloc(8), value_free, 8};
  return REED_OK;
}

static reed_status step_run(const void *state, const reed_kernel_buffers *buffers) {
  const step_state *s = state;
  if (s->freed) return REED_ERROR_DEVICE;
  n_ran++;
  for (int64_t i = 0; i < s->n; i++) ((float *)buffers->outputs[0])[i] = ((const float *)buffers->inputs[0])[i] + 1;
  return REED_OK;
}

static void step_free(void *state) {
  n_freed++;
  step_state *s = state;
  s->freed = true;
  if (s->value) kernel_cache_release(s->cache, s->value);
  free(state);
}

static reed_status step_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  n_prepared++;
  step_state *s = calloc(1, sizeof *s);
  s->n = 1;
  for (int32_t i = 0; i < call->outputs[0].rank; i++) s->n *= call->outputs[0].dims[i];
  s->cache = call->env->cache;
  if (with_values) {
    reed_status status = kernel_cache_get(s->cache, &s->n, sizeof s->n, value_build, NULL, &s->value);
    ck_assert_int_eq(status, REED_OK);
  }
  *out_kernel = (reed_kernel){.run = step_run, .state = s, .free = step_free, .state_bytes = 1 << 16};
  return REED_OK;
}

static const reed_op_input step_inputs[] = {{.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
static const reed_op_output step_outputs[] = {{.name = "y", .type_rule = REED_TYPE_LIKE}};
static const reed_attr first_layer = {.name = "layer", .type = REED_ATTR_INT, .i = 0};
static const reed_op_attr step_attrs[] = {{.name = "layer", .type = REED_ATTR_INT, .otherwise = &first_layer}};
static const reed_op step = {.domain = "test",
                             .name = "Step",
                             .inputs = step_inputs,
                             .n_inputs = 1,
                             .outputs = step_outputs,
                             .n_outputs = 1,
                             .attrs = step_attrs,
                             .n_attrs = 1,
                             .shape = step_shape,
                             .light = true,
                             .cpu = step_prepare};

static reed_session *session_of(const char *text, const reed_session_options *options) {
  void *bytes;
  size_t n;
  reed_status status = reed_module_assemble(text, registry, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_program *program;
  reed_session *session;
  status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  ck_assert_int_eq(reed_session_open(program, options, &session, diagnosis), REED_OK);
  reed_program_close(&program);
  reed_text_free(bytes);
  return session;
}

static reed_tensor *input_of(int64_t n, float first) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &t), REED_OK);
  for (int64_t i = 0; i < n; i++) ((float *)reed_tensor_data(t))[i] = first + (float)i;
  return t;
}

/* Runs with n and m elements; the outputs are x + add_x and z + add_z. */
static void run(reed_session *session, int64_t n, int64_t m, float first, float add_x, float add_z) {
  reed_tensor *inputs[2] = {input_of(n, first), input_of(m, -first)}, *outputs[2];
  reed_status status = reed_session_run(session, inputs, 2, outputs, 2, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  const float adds[2] = {add_x, add_z};
  for (int k = 0; k < 2; k++) {
    ck_assert_int_eq(reed_tensor_elements(outputs[k]), k ? m : n);
    for (int64_t i = 0; i < (k ? m : n); i++)
      ck_assert_float_eq(((float *)reed_tensor_data(outputs[k]))[i],
                         ((float *)reed_tensor_data(inputs[k]))[i] + adds[k]);
    reed_tensor_close(&inputs[k]);
    reed_tensor_close(&outputs[k]);
  }
}

static const char *const devices[] = {"host", "sim", "sim?late=1&poison=1"};
enum { N_DEVICES = sizeof devices / sizeof *devices };

#define HEAD \
  ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n] \"x\"\n.type z = f32[m] \"z\"\n" \
  ".site a = Step in \"test\" (1 -> 1) \"a\"\n.site b = Step in \"test\" (1 -> 1) \"b\" {layer = 1}\n" \
  ".site c = Step in \"test\" (1 -> 1) \"c\" {layer = 2}\n.site d = Step in \"test\" (1 -> 1) \"d\"\n" \
  ".site e = Step in \"test\" (1 -> 1) \"e\"\n.inputs x, z\n.outputs x, z\n" \
  ".function main (x, z) -> (x, z) registers 12 2\n"
#define TAIL \
  "  epoch.end 0\n  readback r8, r5, output, a, 0\n  readback r9, r7, output, c, 0\n  sync\n" \
  "  kill r5\n  kill r7\n  return [r8, r9], []\n"

/* Outputs: a(x) and c(b(z)). */
static const char two_inputs[] =
    HEAD "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
         "  shape.like r2, r0, device\n  shape.like r3, r1, device\n"
         "  shape a, device, [r5], [r2:shape]\n  shape b, device, [r6], [r3:shape]\n"
         "  shape c, device, [r7], [r6:shape]\nplan: epoch.plan 0\n"
         "  copy r2, r0, input, a, 0\n  copy r3, r1, input, b, 0\n"
         "  invoke a, device, [r5], [r2]\n  kill r2\n  invoke b, device, [r6], [r3]\n  kill r3\n"
         "  invoke c, device, [r7], [r6]\n  kill r6\n" TAIL;

static void counts(int shaped, int prepared, int freed) {
  ck_assert_int_eq(n_shaped, shaped);
  ck_assert_int_eq(n_prepared, prepared);
  ck_assert_int_eq(n_freed, freed);
}

START_TEST(a_miss_makes_the_calls_whose_operands_changed) {
  reed_session *session = session_of(two_inputs, &(reed_session_options){.device = devices[_i]});
  run(session, 3, 4, 1, 1, 2);
  counts(3, 3, 0);
  run(session, 3, 5, 2, 1, 2); /* b and c change */
  counts(5, 5, 0);
  ck_assert_double_eq(figure(session, "memo", NULL, "kernels_held"), 5);
  run(session, 6, 5, 3, 1, 2); /* a changes */
  counts(6, 6, 0);
  run(session, 6, 4, 4, 1, 2); /* b and c as two runs before: shape functions run, kernels are found */
  counts(8, 6, 0);
  run(session, 3, 4, 5, 1, 2); /* a hit */
  counts(8, 6, 0);
  run(session, 0, 4, 6, 1, 2); /* without elements the call gets a kernel that does nothing, not a Step */
  counts(9, 6, 0);
  ck_assert_double_eq(memo_figure(session, "misses"), 5);
  ck_assert_double_eq(memo_figure(session, "hits"), 1);
  reed_session_close(&session);
  counts(9, 6, 6);
}
END_TEST

/* A figure of the last run's first epoch. */
static double epoch_figure(reed_session *session, const char *name) {
  char *text;
  ck_assert_int_eq(reed_session_stats_json(session, &text, NULL), REED_OK);
  cJSON *root = cJSON_Parse(text), *e = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "epochs"), 0);
  double value = cJSON_GetNumberValue(cJSON_GetObjectItem(e, name));
  cJSON_Delete(root);
  reed_text_free(text);
  return value;
}

START_TEST(a_miss_says_how_much_it_shared) {
  reed_session *session = session_of(two_inputs, &(reed_session_options){.device = devices[_i]});
  static const struct {
    int64_t n, m;
    double repeated, shared;
  } runs[] = {{3, 4, 0, 0}, {3, 5, 1, 1}, {6, 5, 2, 2}, {6, 4, 1, 3}};
  for (int i = 0; i < 4; i++) {
    run(session, runs[i].n, runs[i].m, 1, 1, 2);
    ck_assert_double_eq(epoch_figure(session, "shapes_repeated"), runs[i].repeated);
    ck_assert_double_eq(epoch_figure(session, "kernels_shared"), runs[i].shared);
    double bytes = epoch_figure(session, "shared_bytes");
    ck_assert(bytes >= runs[i].shared * (1 << 16) && bytes < (runs[i].shared + 0.5) * (1 << 16));
  }
  double bytes = memo_figure(session, "bytes"); /* six states, each counted once, though ten places use them */
  ck_assert(bytes >= 6 * (1 << 16) && bytes < 7 * (1 << 16));
  reed_session_close(&session);
}
END_TEST

/* With room for two entries: the third evicts the one used least recently, and only the states that no other entry
 * uses go. The runs that follow use the states that stayed. */
START_TEST(a_state_goes_with_the_last_entry_that_uses_it) {
  bool second_first = _i >= N_DEVICES;
  reed_session *session =
      session_of(two_inputs, &(reed_session_options){.device = devices[_i % N_DEVICES], .memo_entries = 2});
  run(session, 3, 4, 1, 1, 2);
  run(session, 3, 5, 1, 1, 2); /* shares a */
  counts(5, 5, 0);
  if (second_first) run(session, 3, 4, 2, 1, 2);
  run(session, 8, 9, 1, 1, 2); /* shares nothing */
  counts(8, 8, 2);             /* b and c of the evicted entry were freed; a stays for the other entry */
  run(session, 3, second_first ? 4 : 5, 3, 1, 2);
  counts(8, 8, 2);
  run(session, 7, 7, 1, 1, 2); /* the entry of 8 and 9 goes */
  counts(11, 11, 5);
  run(session, 7, 7, 1, 1, 2);
  run(session, 6, 6, 1, 1, 2); /* evicts the last entry with the shared state */
  counts(14, 14, 8);
  reed_session_close(&session);
  counts(14, 14, 14);
}
END_TEST

/* Two epochs in one run with room for one entry each: while the second is planned, work of the first is queued. In the
 * second half of the cases both epochs have a kernel of one site, so that entries of one size share it, and the one or
 * the other goes first. */
START_TEST(queued_work_keeps_its_state) {
  bool shared = _i >= N_DEVICES;
  static const char form[] =
      HEAD "  epoch.enter 0, plan0, [r0:shape], []\n  shape.like r2, r0, device\n  shape a, device, [r5], [r2:shape]\n"
           "plan0: epoch.plan 0\n  copy r2, r0, input, a, 0\n  invoke a, device, [r5], [r2]\n  kill r2\n  epoch.end 0\n"
           "  epoch.enter 1, plan1, [r1:shape], []\n  shape.like r3, r1, device\n  shape %s, device, [r6], [r3:shape]\n"
           "  shape c, device, [r7], [r6:shape]\nplan1: epoch.plan 1\n  copy r3, r1, input, b, 0\n"
           "  invoke %s, device, [r6], [r3]\n  kill r3\n  invoke c, device, [r7], [r6]\n  kill r6\n  epoch.end 1\n"
           "  readback r8, r5, output, a, 0\n  readback r9, r7, output, c, 0\n  sync\n  kill r5\n  kill r7\n"
           "  return [r8, r9], []\n";
  char text[2048];
  snprintf(text, sizeof text, form, shared ? "a" : "b", shared ? "a" : "b");
  reed_session *session = session_of(
      text, &(reed_session_options){.device = devices[_i % N_DEVICES], .memo_entries = 1, .memo_bytes = 2 * (1 << 16)});
  for (int64_t i = 0; i < 40; i++) {
    run(session, 2 + i % 3, (shared ? 2 : 5) + i / 2 % 4, (float)i, 1, 2);
    ck_assert_int_le(n_prepared - n_freed, 6);
  }
  ck_assert_int_gt(n_freed, 20);
  ck_assert((memo_figure(session, "kernels_found") > 0) == shared);
  reed_session_close(&session);
  ck_assert_int_eq(n_freed, n_prepared);
}
END_TEST

/* A host kernel of a shape section runs again if elements that it reads changed, and otherwise its result is kept. */
START_TEST(a_shape_section_repeats_its_host_kernels) {
  static const char text[] =
      HEAD "  epoch.enter 0, plan, [r1:shape, r1:value, r0:shape], []\n"
           "  shape b, host, [r3], [r1:shape]\n  invoke b, host, [r3], [r1]\n"
           "  shape c, host, [r4], [r3:shape]\n  invoke c, host, [r4], [r3]\n"
           "  shape.like r7, r4, device\n  shape.like r2, r0, device\n  shape a, device, [r5], [r2:shape]\n"
           "plan: epoch.plan 0\n  copy r7, r4, placement, c, 0\n  copy r2, r0, input, a, 0\n"
           "  invoke a, device, [r5], [r2]\n  kill r2\n" TAIL;
  reed_session *session = session_of(text, &(reed_session_options){.device = devices[_i]});
  run(session, 3, 4, 1, 1, 2);
  counts(3, 3, 0);
  ck_assert_int_eq(n_ran, 3);
  run(session, 5, 4, 1, 1, 2); /* x has another size, z the same elements */
  counts(4, 4, 0);
  ck_assert_int_eq(n_ran, 4);
  run(session, 5, 4, 9, 1, 2); /* z has other elements: b and c run again, but are not prepared again */
  counts(6, 4, 0);
  ck_assert_int_eq(n_ran, 7);
  run(session, 5, 2, 9, 1, 2);
  counts(8, 6, 0);
  ck_assert_int_eq(n_ran, 10);
  reed_session_close(&session);
  ck_assert_int_eq(n_freed, n_prepared);
}
END_TEST

/* Both paths of a branch write the same registers in the same order, by calls of other sites. */
START_TEST(a_miss_on_the_other_path_makes_its_own_calls) {
  static const char text[] = HEAD
      "  s.dim s0, r1, 0\n  s.const s1, 5\n  s.lt s0, s0, s1\n"
      "  epoch.enter 0, plan, [r0:shape, r1:shape], [s0]\n  shape.like r2, r0, device\n  shape.like r3, r1, device\n"
      "  shape a, device, [r5], [r2:shape]\n  branch.ifnot s0, long\n  shape b, device, [r6], [r3:shape]\n"
      "  shape.like r7, r6, device\n  jump plan\n"
      "long: shape c, device, [r6], [r3:shape]\n  shape.like r7, r6, device\n"
      "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, b, 0\n"
      "  invoke a, device, [r5], [r2]\n  kill r2\n  branch.ifnot s0, run_long\n  invoke b, device, [r6], [r3]\n"
      "  jump done\nrun_long: invoke c, device, [r6], [r3]\ndone: kill r3\n  view r7, r6\n  kill r6\n" TAIL;
  reed_session *session = session_of(text, &(reed_session_options){.device = devices[_i]});
  run(session, 3, 4, 1, 1, 1);
  counts(2, 2, 0);
  run(session, 3, 7, 1, 1, 1); /* the other path: c instead of b */
  counts(3, 3, 0);
  run(session, 4, 7, 1, 1, 1);
  counts(4, 4, 0);
  run(session, 4, 4, 1, 1, 1);
  counts(5, 4, 0);
  reed_session_close(&session);
  ck_assert_int_eq(n_freed, n_prepared);
}
END_TEST

/* Outputs: a(x) and e(d(z)); three calls with equal attributes. */
START_TEST(equal_layers_share_shapes_and_kernels) {
  static const char text[] =
      HEAD "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
           "  shape.like r2, r0, device\n  shape.like r3, r1, device\n"
           "  shape a, device, [r5], [r2:shape]\n  shape d, device, [r6], [r3:shape]\n"
           "  shape e, device, [r7], [r6:shape]\nplan: epoch.plan 0\n"
           "  copy r2, r0, input, a, 0\n  copy r3, r1, input, d, 0\n"
           "  invoke a, device, [r5], [r2]\n  kill r2\n  invoke d, device, [r6], [r3]\n  kill r3\n"
           "  invoke e, device, [r7], [r6]\n  kill r6\n" TAIL;
  reed_session *session = session_of(text, &(reed_session_options){.device = devices[_i]});
  run(session, 3, 4, 1, 1, 2);
  counts(2, 2, 0);
  run(session, 5, 5, 1, 1, 2); /* all three calls are equal */
  counts(3, 3, 0);
  run(session, 4, 3, 1, 1, 2); /* the kernels of the first run, at other sites */
  counts(5, 3, 0);
  run(session, 4, 5, 1, 1, 2); /* the base has a; the shapes of d and e are new */
  counts(6, 3, 0);
  run(session, 0, 1, 1, 1, 2);
  counts(8, 4, 0);
  reed_session_close(&session);
  counts(8, 4, 4);
}
END_TEST

/* Values of the program's cache that only an evicted entry's kernels have held go after four windows of runs.
 */
START_TEST(values_of_old_entries_are_freed) {
  with_values = true;
  reed_session *session = session_of(two_inputs, &(reed_session_options){.device = devices[_i], .memo_entries = 1});
  run(session, 3, 4, 1, 1, 2);
  for (int i = 0; i < 4 * POOL_WINDOW - 2; i++) run(session, 5, 6, 1, 1, 2);
  ck_assert_int_eq(n_values, 4);
  ck_assert_int_eq(n_values_freed, 0);
  run(session, 5, 6, 1, 1, 2); /* the end of the fourth window */
  ck_assert_int_eq(n_values_freed, 2);
  run(session, 3, 6, 1, 1, 2);
  ck_assert_int_eq(n_values, 5);
  reed_session_close(&session);
  ck_assert_int_eq(n_values_freed, 5);
  with_values = false;
}
END_TEST

#define ELEMENTS(code) \
  ".module \"m\" producer \"test\" \"1\" devices 2\n.type n = i64[1] \"n\"\n.type m = i64[1] \"m\"\n" \
  ".type y = f32[a] \"y\"\n.type z = f32[b] \"z\"\n.site a = ConstantOfShape (1 -> 1) \"a\"\n" \
  ".site b = ConstantOfShape (1 -> 1) \"b\"\n.site c = ConstantOfShape (1 -> 1) \"c\"\n.inputs n, m\n" \
  ".outputs y, z\n.function main (n, m) -> (y, z) registers 6 0\n" \
  "  epoch.enter 0, plan, [r0:value, r1:value], []\n" code "  epoch.end 0\n  return [r2, r3], []\n"

/* Calls with equal extents, whose shape function reads elements. */
START_TEST(twins_have_equal_elements) {
  static const char *const texts[] = {
      ELEMENTS("  shape a, host, [r2], [r0:value]\n  shape b, host, [r3], [r1:value]\nplan: epoch.plan 0\n"
               "  invoke a, host, [r2], [r0]\n  invoke b, host, [r3], [r1]\n"),
      /* r0 is another tensor when b reads it */
      ELEMENTS("  r.move r4, r0\n  shape a, host, [r5], [r0:value]\n  r.move r0, r1\n"
               "  shape b, host, [r3], [r0:value]\n  shape c, host, [r2], [r4:value]\nplan: epoch.plan 0\n"
               "  invoke b, host, [r3], [r0]\n  invoke c, host, [r2], [r4]\n  kill r0\n  kill r4\n  kill r5\n")};
  static const struct { int64_t n, m, shaped; } runs[] = {{3, 4, 2}, {5, 5, 1}, {5, 6, 1}, {3, 3, 1}, {2, 7, 2}};
  reed_session *session = session_of(texts[_i / N_DEVICES], &(reed_session_options){.device = devices[_i % N_DEVICES]});
  for (int i = 0; i < 5; i++) {
    const int64_t extents[] = {runs[i].n, runs[i].m}, one = 1;
    reed_tensor *inputs[2], *outputs[2];
    for (int k = 0; k < 2; k++) {
      ck_assert_int_eq(reed_tensor_open(REED_I64, 1, &one, &inputs[k]), REED_OK);
      *(int64_t *)reed_tensor_data(inputs[k]) = extents[k];
    }
    reed_status status = reed_session_run(session, inputs, 2, outputs, 2, diagnosis);
    ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
    for (int k = 0; k < 2; k++) {
      ck_assert_int_eq(reed_tensor_elements(outputs[k]), extents[k]);
      reed_tensor_close(&inputs[k]);
      reed_tensor_close(&outputs[k]);
    }
    if (_i < N_DEVICES) ck_assert_double_eq(epoch_figure(session, "shape_functions"), (double)runs[i].shaped);
  }
  reed_session_close(&session);
}
END_TEST

static void open_all(void) {
  open_diagnosis();
  n_shaped = n_prepared = n_freed = n_ran = n_values = n_values_freed = 0;
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &step, diagnosis), REED_OK);
}

static void close_all(void) {
  reed_registry_close(&registry);
  close_diagnosis();
}

int main(void) {
  Suite *suite = suite_create("misses");
  TCase *t = tcase_create("miss");
  tcase_add_checked_fixture(t, open_all, close_all);
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, a_miss_makes_the_calls_whose_operands_changed, 0, N_DEVICES);
  tcase_add_loop_test(t, a_miss_says_how_much_it_shared, 0, N_DEVICES);
  tcase_add_loop_test(t, a_state_goes_with_the_last_entry_that_uses_it, 0, 2 * N_DEVICES);
  tcase_add_loop_test(t, queued_work_keeps_its_state, 0, 2 * N_DEVICES);
  tcase_add_loop_test(t, a_shape_section_repeats_its_host_kernels, 0, N_DEVICES);
  tcase_add_loop_test(t, a_miss_on_the_other_path_makes_its_own_calls, 0, N_DEVICES);
  tcase_add_loop_test(t, values_of_old_entries_are_freed, 0, N_DEVICES);
  tcase_add_loop_test(t, equal_layers_share_shapes_and_kernels, 0, N_DEVICES);
  tcase_add_loop_test(t, twins_have_equal_elements, 0, 2 * N_DEVICES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
