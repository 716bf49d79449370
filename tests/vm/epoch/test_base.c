/* The base of a miss, by hand: epochs in which only one check notices that a call, a root or the whole plan of the base
 * does not fit. Each entry must equal the entry that a new session makes. Random epochs: test_random.c. The number of
 * calls: test_miss.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "tests/vm/epoch/same_entry.h"
#include "tests/vm/hand.h"
#include "vm/epoch/variant.h"

static reed_registry *registry;

/* ---- operators ---- */

/* test.Both: the outputs y, as long as x, and z, one element longer, are x + 1; either may be absent. */
static reed_status both_shape(reed_shape_call *call) {
  for (int32_t k = 0; k < call->n_outputs; k++) {
    call->outputs[k].rank = 1;
    call->outputs[k].dims[0] = reed_dim_add(call, call->inputs[0].dims[0], k);
  }
  return call->status;
}

typedef struct lengths {
  int64_t n[2];
} lengths;

static reed_status both_run(const void *state, const reed_kernel_buffers *buffers) {
  const lengths *s = state;
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < s->n[k]; i++)
      ((float *)buffers->outputs[k])[i] = i < s->n[0] || !s->n[0] ? ((const float *)buffers->inputs[0])[0] : 0;
  return REED_OK;
}

static reed_status both_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  lengths *s = calloc(1, sizeof *s);
  for (int32_t k = 0; k < call->n_outputs; k++)
    if (call->outputs[k].dtype != REED_NONE) s->n[k] = call->outputs[k].dims[0];
  *out_kernel = (reed_kernel){.run = both_run, .state = s, .free = free};
  return REED_OK;
}

/* test.Pick: y = z + x[0], as long as z, perhaps in the place of an input. A long x takes workspace. */
static reed_status pick_shape(reed_shape_call *call) {
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = call->inputs[1].dims[0];
  return call->status;
}

static reed_status pick_run(const void *state, const reed_kernel_buffers *buffers) {
  const lengths *s = state;
  float first = ((const float *)buffers->inputs[0])[0];
  for (int64_t i = 0; i < s->n[0]; i++)
    ((float *)buffers->outputs[0])[i] = ((const float *)buffers->inputs[1])[i] + first;
  return REED_OK;
}

static reed_status pick_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  lengths *s = calloc(1, sizeof *s);
  s->n[0] = call->outputs[0].dims[0];
  *out_kernel = (reed_kernel){
      .run = pick_run, .state = s, .free = free, .workspace_bytes = call->inputs[0].dims[0] > 1 ? 4 * s->n[0] : 0};
  return REED_OK;
}

/* test.Find: two results as long as x at most; each is the elements of x up to its last element but one or two. */
static reed_status find_shape(reed_shape_call *call) {
  for (int32_t k = 0; k < call->n_outputs; k++) {
    call->outputs[k].rank = 1;
    call->outputs[k].dims[0] = call->inputs[0].dims[0];
    call->outputs[k].bounded_axis = 0;
  }
  return call->status;
}

static reed_status find_run(const void *state, const reed_kernel_buffers *buffers) {
  const lengths *s = state;
  for (int k = 0; k < 2; k++) {
    if (!s->n[k]) continue;
    buffers->extents[k] = s->n[k] > k ? s->n[k] - 1 - k : 0;
    memcpy(buffers->outputs[k], buffers->inputs[0], (size_t)buffers->extents[k] * sizeof(float));
  }
  return REED_OK;
}

static reed_status find_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  reed_status status = both_prepare(call, out_kernel);
  out_kernel->run = find_run;
  return status;
}

static const reed_op_input operands[] = {{.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32},
                                         {.name = "z", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
static const reed_op_output results[] = {{.name = "y", .type_rule = REED_TYPE_LIKE, .optional = true},
                                         {.name = "z", .type_rule = REED_TYPE_LIKE, .optional = true}};
static const reed_op_output found[] = {{.name = "y", .type_rule = REED_TYPE_LIKE, .optional = true, .bounded = true},
                                       {.name = "z", .type_rule = REED_TYPE_LIKE, .optional = true, .bounded = true}};
static const reed_op operators[] = {{.domain = "test",
                                     .name = "Both",
                                     .inputs = operands,
                                     .n_inputs = 1,
                                     .outputs = results,
                                     .n_outputs = 2,
                                     .shape = both_shape,
                                     .cpu = both_prepare},
                                    {.domain = "test",
                                     .name = "Pick",
                                     .inputs = operands,
                                     .n_inputs = 2,
                                     .outputs = results,
                                     .n_outputs = 1,
                                     .shape = pick_shape,
                                     .alias = REED_ALIAS_INPLACE,
                                     .cpu = pick_prepare},
                                    {.domain = "test",
                                     .name = "Find",
                                     .inputs = operands,
                                     .n_inputs = 1,
                                     .outputs = found,
                                     .n_outputs = 2,
                                     .shape = find_shape,
                                     .cpu = find_prepare}};
enum { N_OPERATORS = sizeof operators / sizeof *operators };

/* ---- runs ---- */

static reed_program *program_of(const char *text) {
  void *bytes;
  size_t n;
  reed_status status = reed_module_assemble(text, registry, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_program *program;
  status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_text_free(bytes);
  return program;
}

static reed_session *session_of(reed_program *program, const char *device) {
  reed_session *session;
  ck_assert_int_eq(reed_session_open(program, &(reed_session_options){.device = device}, &session, diagnosis), REED_OK);
  return session;
}

/* One run; returns the output, which the caller closes. */
static reed_tensor *run(reed_session *session, int rank, const int64_t *x, const int64_t *z) {
  reed_tensor *inputs[2], *output = NULL;
  for (int k = 0; k < 2; k++) {
    ck_assert_int_eq(reed_tensor_open(REED_F32, rank, k ? z : x, &inputs[k]), REED_OK);
    for (int64_t i = 0; i < reed_tensor_elements(inputs[k]); i++)
      ((float *)reed_tensor_data(inputs[k]))[i] = (float)(i * 7 % 5 - 2 + k);
  }
  reed_status status = reed_session_run(session, inputs, 2, &output, 1, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  for (int k = 0; k < 2; k++) reed_tensor_close(&inputs[k]);
  return output;
}

/* Runs the sizes one after the other; each entry and each output must equal those of a new session. */
static void compare(const char *text, int rank, int n, const int64_t (*sizes)[2][2]) {
  static const char *const devices[] = {"host", "sim", "sim?late=1&poison=1"};
  reed_program *program = program_of(text); /* one program for all sessions, so that constants have one address */
  for (int d = 0; d < 3; d++) {
    reed_session *session = session_of(program, devices[d]);
    for (int i = 0; i < n; i++) {
      reed_session *fresh = session_of(program, devices[d]);
      reed_tensor *a = run(session, rank, sizes[i][0], sizes[i][1]), *b = run(fresh, rank, sizes[i][0], sizes[i][1]);
      check_same_entry(variant_use(session->memo.newest), fresh->memo.newest);
      ck_assert_int_eq(reed_tensor_bytes(a), reed_tensor_bytes(b));
      ck_assert_int_eq(memcmp(reed_tensor_data(a), reed_tensor_data(b), (size_t)reed_tensor_bytes(b)), 0);
      reed_tensor_close(&a);
      reed_tensor_close(&b);
      reed_session_close(&fresh);
    }
    reed_session_close(&session);
  }
  reed_program_close(&program);
}

/* ---- cases ---- */

#define VECTORS \
  ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n] \"x\"\n.type z = f32[m] \"z\"\n" \
  ".type y = f32[k] \"y\"\n.inputs x, z\n.outputs y\n"

/* Two paths write one register at one place, by calls with the same inputs: b and c are of other operators, and the
 * two calls of b of other outputs. Which path is taken depends on x, the calls read z. */
START_TEST(results_of_another_call_are_not_taken) {
  static const char *const calls[][2] = {
      {"b, device, [r6, _]", "c, device, [r6]"},
      {"b, device, [_, r6]", "c, device, [r6]"},
      {"b, device, [r6, _]", "b, device, [_, r6]"},
  };
  static const int64_t sizes[][2][2] = {{{3}, {4}}, {{7}, {4}}, {{4}, {4}}, {{8}, {4}}, {{8}, {6}}};
  for (int i = 0; i < 3; i++) {
    char text[2048];
    snprintf(text, sizeof text,
             VECTORS ".site b = Both in \"test\" (1 -> 2) \"b\"\n.site c = Relu (1 -> 1) \"c\"\n"
                     ".function main (x, z) -> (y) registers 12 2\n"
                     "  s.dim s0, r0, 0\n  s.const s1, 5\n  s.lt s0, s0, s1\n"
                     "  epoch.enter 0, plan, [r1:shape], [s0]\n  shape.like r3, r1, device\n"
                     "  branch.ifnot s0, long\n  shape %s, [r3:shape]\n  jump plan\nlong: shape %s, [r3:shape]\n"
                     "plan: epoch.plan 0\n  copy r3, r1, input, b, 0\n  branch.ifnot s0, run_long\n"
                     "  invoke %s, [r3]\n  jump done\nrun_long: invoke %s, [r3]\ndone: kill r3\n  epoch.end 0\n"
                     "  readback r8, r6, output, b, 0\n  sync\n  kill r6\n  return [r8], []\n",
             calls[i][0], calls[i][1], calls[i][0], calls[i][1]);
    compare(text, 1, 5, sizes);
  }
}
END_TEST

/* The Slice's eight elements are the whole source or a part of it. Only if they are the whole source may the Relu take
 * the source's place. The Relu's operand is the same both times. */
START_TEST(a_root_of_another_size_is_seen_by_calls_that_read_a_part_of_it) {
  static const char text[] =
      VECTORS ".const from = i64[1] {0}\n.const to = i64[1] {8}\n.site a = Neg (1 -> 1) \"a\"\n"
              ".site b = Slice (3 -> 1) \"b\"\n.site c = Relu (1 -> 1) \"c\"\n.site d = Add (2 -> 1) \"d\"\n"
              ".function main (x, z) -> (y) registers 12 0\n"
              "  const r9, from, 0\n  const r10, to, 0\n"
              "  epoch.enter 0, plan, [r0:shape, r1:shape, r9:value, r10:value], []\n"
              "  shape.like r2, r0, device\n  shape.like r3, r1, device\n  shape a, device, [r4], [r2:shape]\n"
              "  shape b, device, [r5], [r4:shape, r9:value, r10:value]\n  shape c, device, [r6], [r5:shape]\n"
              "  shape d, device, [r7], [r6:shape, r3:shape]\n"
              "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, d, 0\n"
              "  invoke a, device, [r4], [r2]\n  kill r2\n  invoke b, device, [r5], [r4, r9, r10]\n  kill r4\n"
              "  invoke c, device, [r6], [r5]\n  kill r5\n  invoke d, device, [r7], [r6, r3]\n  kill r6\n  kill r3\n"
              "  epoch.end 0\n  readback r8, r7, output, d, 0\n  sync\n  kill r7\n  return [r8], []\n";
  static const int64_t sizes[][2][2] = {{{8}, {8}}, {{12}, {8}}, {{8}, {1}}, {{40}, {1}}, {{10}, {8}}};
  compare(text, 1, 5, sizes);
}
END_TEST

/* The result of Pick takes the place of its first operand, or of its second one if the first is shorter. Neither the
 * result's shape nor the number of roots shows the difference. The Relu has an operand of the same shape both times,
 * but on another root. */
START_TEST(a_base_whose_results_lie_on_other_roots_is_dropped) {
  static const char text[] =
      VECTORS ".site a = Neg (1 -> 1) \"a\"\n.site b = Pick in \"test\" (2 -> 1) \"b\"\n"
              ".site c = Relu (1 -> 1) \"c\"\n.site d = Neg (1 -> 1) \"d\"\n"
              ".function main (x, z) -> (y) registers 12 0\n"
              "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
              "  shape.like r2, r0, device\n  shape.like r3, r1, device\n  shape a, device, [r4], [r2:shape]\n"
              "  shape a, device, [r5], [r3:shape]\n  shape b, device, [r6], [r4:shape, r5:shape]\n"
              "  shape c, device, [r7], [r6:shape]\n  shape d, device, [r9], [r7:shape]\n"
              "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, a, 0\n"
              "  invoke a, device, [r4], [r2]\n  kill r2\n  invoke a, device, [r5], [r3]\n  kill r3\n"
              "  invoke b, device, [r6], [r4, r5]\n  kill r4\n  kill r5\n  invoke c, device, [r7], [r6]\n  kill r6\n"
              "  invoke d, device, [r9], [r7]\n  kill r7\n"
              "  epoch.end 0\n  readback r8, r9, output, d, 0\n  sync\n  kill r9\n  return [r8], []\n";
  static const int64_t sizes[][2][2] = {{{64}, {64}}, {{63}, {64}}, {{64}, {64}}, {{32}, {64}}, {{32}, {32}}};
  compare(text, 1, 5, sizes);
}
END_TEST

/* The result of Pick takes its first operand's place beside a workspace, or has a root of its own in the workspace's
 * place. The number of roots and the bytes of this root are the same. The Relu has the same operand both times. */
START_TEST(a_base_with_as_many_other_roots_is_dropped) {
  static const char text[] =
      VECTORS ".site a = Neg (1 -> 1) \"a\"\n.site b = Pick in \"test\" (2 -> 1) \"b\"\n"
              ".site c = Relu (1 -> 1) \"c\"\n.site d = Add (2 -> 1) \"d\"\n"
              ".function main (x, z) -> (y) registers 12 0\n"
              "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
              "  shape.like r2, r0, device\n  shape.like r3, r1, device\n  shape a, device, [r4], [r2:shape]\n"
              "  shape a, device, [r5], [r3:shape]\n  shape b, device, [r6], [r4:shape, r5:shape]\n"
              "  shape c, device, [r7], [r6:shape]\n  shape d, device, [r9], [r7:shape, r5:shape]\n"
              "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, a, 0\n"
              "  invoke a, device, [r4], [r2]\n  kill r2\n  invoke a, device, [r5], [r3]\n  kill r3\n"
              "  invoke b, device, [r6], [r4, r5]\n  kill r4\n  invoke c, device, [r7], [r6]\n  kill r6\n"
              "  invoke d, device, [r9], [r7, r5]\n  kill r5\n  kill r7\n"
              "  epoch.end 0\n  readback r8, r9, output, d, 0\n  sync\n  kill r9\n  return [r8], []\n";
  static const int64_t sizes[][2][2] = {{{64}, {64}}, {{1}, {64}}, {{64}, {64}}, {{9}, {64}}, {{1}, {32}}};
  compare(text, 1, 5, sizes);
}
END_TEST

/* On an accelerator, a copy reads the first operand of a Concat until the epoch's end. With one row the operand lies
 * inside the result, which therefore must not be overwritten; with more rows it does not lie there. The view of the
 * result is the same. */
START_TEST(a_base_with_other_parts_is_dropped) {
  static const char text[] =
      ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n, k] \"x\"\n.type z = f32[n, k] \"z\"\n"
      ".type y = f32[m] \"y\"\n.inputs x, z\n.outputs y\n.const all = i64[1] {-1}\n"
      ".site a = Neg (1 -> 1) \"a\"\n.site b = Concat (2 -> 1) \"b\" {axis = 1}\n.site c = Reshape (2 -> 1) \"c\"\n"
      ".site d = Relu (1 -> 1) \"d\"\n.site e = Concat (3 -> 1) \"e\" {axis = 0}\n"
      ".function main (x, z) -> (y) registers 16 0\n  const r2, all, 0\n"
      "  epoch.enter 0, plan, [r0:shape, r1:shape, r2:value], []\n"
      "  shape a, host, [r4], [r0:shape]\n  shape a, host, [r5], [r1:shape]\n"
      "  shape b, host, [r6], [r4:shape, r5:shape]\n  shape c, host, [r7], [r6:shape, r2:value]\n"
      "  shape d, host, [r8], [r7:shape]\n  shape a, host, [r9], [r8:shape]\n"
      "  shape.like r10, r4, device\n  shape.like r11, r9, device\n  shape c, device, [r12], [r10:shape, r2:value]\n"
      "  shape e, device, [r13], [r12:shape, r11:shape, r11:shape]\n"
      "plan: epoch.plan 0\n  invoke a, host, [r4], [r0]\n  copy r10, r4, placement, e, 0\n"
      "  invoke a, host, [r5], [r1]\n  invoke b, host, [r6], [r4, r5]\n  kill r4\n  kill r5\n"
      "  view r7, r6\n  kill r6\n  invoke d, host, [r8], [r7]\n  kill r7\n  invoke a, host, [r9], [r8]\n"
      "  kill r8\n  copy r11, r9, placement, e, 0\n  kill r9\n  view r12, r10\n  kill r10\n"
      "  invoke e, device, [r13], [r12, r11, r11]\n  kill r12\n  kill r11\n"
      "  epoch.end 0\n  readback r14, r13, output, e, 0\n  sync\n  kill r13\n  return [r14], []\n";
  static const int64_t sizes[][2][2] = {
      {{2, 32}, {2, 32}}, {{1, 64}, {1, 64}}, {{4, 16}, {4, 16}}, {{1, 64}, {1, 64}}, {{1, 8}, {1, 8}}};
  compare(text, 2, 5, sizes);
}
END_TEST

/* Eight elements of x from the number of elements of z on, then the first six of them: the cut changes its place and
 * not its size, and the part of the cut moves with the cut. */
START_TEST(parts_of_a_part_move_with_it) {
  static const char text[] =
      VECTORS ".const eight = i64[1] {8}\n.const six = i64[2] {6, 2}\n.site f = Shape (1 -> 1) \"f\"\n"
              ".site g = Add (2 -> 1) \"g\"\n.site a = Neg (1 -> 1) \"a\"\n.site b = Slice (3 -> 1) \"b\"\n"
              ".site c = Split (2 -> 2) \"c\" {axis = 0}\n"
              ".function main (x, z) -> (y) registers 14 0\n  const r9, eight, 0\n  const r12, six, 0\n"
              "  epoch.enter 0, plan, [r0:shape, r1:shape, r9:value, r12:value], []\n"
              "  shape f, host, [r10], [r1:shape]\n  invoke f, host, [r10], [r1]\n"
              "  shape g, host, [r11], [r10:shape, r9:shape]\n  invoke g, host, [r11], [r10, r9]\n"
              "  shape.like r2, r0, device\n  shape a, device, [r3], [r2:shape]\n"
              "  shape b, device, [r4], [r3:shape, r10:value, r11:value]\n"
              "  shape c, device, [r5, r6], [r4:shape, r12:value]\n  shape a, device, [r7], [r5:shape]\n"
              "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  invoke a, device, [r3], [r2]\n  kill r2\n"
              "  invoke b, device, [r4], [r3, r10, r11]\n  kill r3\n  invoke c, device, [r5, r6], [r4, r12]\n"
              "  kill r4\n  kill r6\n  invoke a, device, [r7], [r5]\n  kill r5\n"
              "  epoch.end 0\n  readback r8, r7, output, a, 0\n  sync\n  kill r7\n  return [r8], []\n";
  static const int64_t sizes[][2][2] = {{{12}, {0}}, {{12}, {4}}, {{12}, {2}}, {{11}, {2}}, {{11}, {3}}};
  compare(text, 1, 5, sizes);
}
END_TEST

/* The call has its second result only, whose count is the second count that the kernel reports. */
START_TEST(a_repeated_call_reports_its_own_count) {
  static const char text[] =
      VECTORS ".site a = Find in \"test\" (1 -> 2) \"a\"\n.site b = Neg (1 -> 1) \"b\"\n"
              ".function main (x, z) -> (y) registers 12 0\n  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
              "  shape.like r2, r0, device\n  shape.like r3, r1, device\n  shape a, device, [_, r4], [r2:shape]\n"
              "  shape b, device, [r5], [r3:shape]\nplan: epoch.plan 0\n  copy r2, r0, input, a, 0\n"
              "  copy r3, r1, input, b, 0\n  invoke a, device, [_, r4], [r2]\n  kill r2\n"
              "  invoke b, device, [r5], [r3]\n  kill r3\n  epoch.end 0\n  extent r4\n  sync\n"
              "  readback r8, r4, output, a, 0\n  sync\n  kill r4\n  kill r5\n  return [r8], []\n";
  static const int64_t sizes[][2][2] = {{{9}, {4}}, {{9}, {6}}, {{9}, {7}}, {{5}, {7}}, {{5}, {2}}};
  compare(text, 1, 5, sizes);
}
END_TEST

static void open_all(void) {
  open_diagnosis();
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  for (int i = 0; i < N_OPERATORS; i++)
    ck_assert_int_eq(reed_registry_add(registry, &operators[i], diagnosis), REED_OK);
}

static void close_all(void) {
  reed_registry_close(&registry);
  close_diagnosis();
}

int main(void) {
  Suite *suite = suite_create("bases");
  TCase *t = tcase_create("base");
  tcase_add_checked_fixture(t, open_all, close_all);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, results_of_another_call_are_not_taken);
  tcase_add_test(t, a_root_of_another_size_is_seen_by_calls_that_read_a_part_of_it);
  tcase_add_test(t, a_base_whose_results_lie_on_other_roots_is_dropped);
  tcase_add_test(t, a_base_with_as_many_other_roots_is_dropped);
  tcase_add_test(t, a_base_with_other_parts_is_dropped);
  tcase_add_test(t, parts_of_a_part_move_with_it);
  tcase_add_test(t, a_repeated_call_reports_its_own_count);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
