/* Variants (vm/epoch/variant.h) and parts of a key that are no extents: a scalar, and the room of a cache. A key that
 * differs in such a part is planned, however many variants were made before, and a run's results equal those of a new
 * session. Extents: test_variant.c. */
#include <stdlib.h>
#include <string.h>

#include "reed/dlpack.h"
#include "tests/vm/hand.h"

/* Of x [n, 4] and a scalar, the rows of z: x's rows go through two kernels, and the scalar makes as many numbers. A row
 * of kernels depends on neither. */
static const char scalar_text[] =
    ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n, 4] \"x\"\n.type z = f32[m] \"z\"\n"
    ".type y = f32[n, 4] \"y\"\n.type w = i64[m] \"w\"\n.type v = f32[4] \"v\"\n.inputs x, z\n.outputs y, w, v\n"
    ".const few = f32[4] {1, 2, 3, 4}\n.const zero = i64[] {0}\n.const one = i64[] {1}\n"
    ".site a = Neg (1 -> 1) \"a\"\n.site b = Exp (1 -> 1) \"b\"\n.site c = Tanh (1 -> 1) \"c\"\n"
    ".site r = Range (3 -> 1) \"r\"\n"
    ".function main (x, z) -> (y, w, v) registers 30 1\n"
    "  s.dim s0, r1, 0\n"
    "  epoch.enter 0, plan, [r0:shape], [s0]\n"
    "  const r2, few, device\n  const r3, zero, 0\n  const r4, one, 0\n  r.scalar r5, s0, i64\n"
    "  shape.like r6, r0, device\n  shape a, device, [r7], [r6:shape]\n  shape b, device, [r8], [r7:shape]\n"
    "  shape r, device, [r9], [r3:value, r5:value, r4:value]\n"
    "  shape c, device, [r10], [r2:shape]\n  shape c, device, [r11], [r10:shape]\n"
    "  shape c, device, [r12], [r11:shape]\n  shape c, device, [r13], [r12:shape]\n"
    "  shape c, device, [r14], [r13:shape]\n  shape c, device, [r15], [r14:shape]\n"
    "plan: epoch.plan 0\n  copy r6, r0, input, a, 0\n"
    "  invoke c, device, [r10], [r2]\n  invoke c, device, [r11], [r10]\n  kill r10\n"
    "  invoke c, device, [r12], [r11]\n  kill r11\n  invoke c, device, [r13], [r12]\n  kill r12\n"
    "  invoke c, device, [r14], [r13]\n  kill r13\n  invoke c, device, [r15], [r14]\n  kill r14\n"
    "  invoke a, device, [r7], [r6]\n  kill r6\n  invoke b, device, [r8], [r7]\n  kill r7\n"
    "  invoke r, device, [r9], [r3, r5, r4]\n"
    "  epoch.end 0\n  readback r16, r8, output, b, 0\n  readback r17, r9, output, r, 0\n"
    "  readback r18, r15, output, c, 0\n  sync\n  kill r8\n  kill r9\n  kill r15\n  kill r2\n  kill r3\n  kill r4\n"
    "  kill r5\n  return [r16, r17, r18], []\n";

/* Of past [2, n, 4], whose rows may lie apart: past with one new row, and a view of the two halves; a row of kernels
 * depends on neither. */
static const char room_text[] =
    ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[2, n, 4] \"x\"\n.type z = f32[2, m, 4] \"z\"\n"
    ".type y = f32[2, k, 4] \"y\"\n.type w = f32[2, k, 4] \"w\"\n.type v = f32[4] \"v\"\n.inputs x, z\n"
    ".outputs y, w, v\n.const few = f32[4] {1, 2, 3, 4}\n"
    ".site a = Concat (2 -> 1) \"a\" {axis = 1}\n.site b = Exp (1 -> 1) \"b\"\n.site c = Tanh (1 -> 1) \"c\"\n"
    ".function main (x, z) -> (y, w, v) registers 30 0\n"
    "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
    "  const r2, few, device\n"
    "  shape.like r6, r0, device\n  shape.like r5, r1, device\n"
    "  shape a, device, [r7], [r6:shape, r5:shape]\n  shape b, device, [r8], [r7:shape]\n"
    "  shape c, device, [r10], [r2:shape]\n  shape c, device, [r11], [r10:shape]\n"
    "  shape c, device, [r12], [r11:shape]\n  shape c, device, [r13], [r12:shape]\n"
    "  shape c, device, [r14], [r13:shape]\n  shape c, device, [r15], [r14:shape]\n"
    "plan: epoch.plan 0\n  copy r6, r0, input, a, 0\n  copy r5, r1, input, a, 0\n"
    "  invoke c, device, [r10], [r2]\n  invoke c, device, [r11], [r10]\n  kill r10\n"
    "  invoke c, device, [r12], [r11]\n  kill r11\n  invoke c, device, [r13], [r12]\n  kill r12\n"
    "  invoke c, device, [r14], [r13]\n  kill r13\n  invoke c, device, [r15], [r14]\n  kill r14\n"
    "  invoke a, device, [r7], [r6, r5]\n  kill r6\n  kill r5\n  invoke b, device, [r8], [r7]\n"
    "  epoch.end 0\n  readback r16, r7, output, a, 0\n  readback r17, r8, output, b, 0\n"
    "  readback r18, r15, output, c, 0\n  sync\n  kill r7\n  kill r8\n  kill r15\n  kill r2\n"
    "  return [r16, r17, r18], []\n";

enum { N_OUTPUTS = 3, ROOM = 40 };

static void run(reed_session *session, reed_tensor **inputs, reed_tensor **outputs) {
  reed_status status = reed_session_run(session, inputs, 2, outputs, N_OUTPUTS, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
}

static void fill(reed_tensor *t) {
  float *data = reed_tensor_data(t);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) data[i] = (float)(i * 7919 % 31 - 15) / 8;
}

static reed_tensor *opened_tensor(int32_t rank, const int64_t *dims) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(REED_F32, rank, dims, &t), REED_OK);
  fill(t);
  return t;
}

/* The session's results for `inputs` must equal those of a new session for `others`, which has the same elements. */
static void compare(reed_session *session, const char *text, reed_tensor **inputs, reed_tensor **others) {
  reed_tensor *a[N_OUTPUTS], *b[N_OUTPUTS];
  reed_session *fresh = opened(text, NULL);
  run(session, inputs, a);
  run(fresh, others, b);
  for (int k = 0; k < N_OUTPUTS; k++) {
    ck_assert_int_eq(reed_tensor_bytes(a[k]), reed_tensor_bytes(b[k]));
    ck_assert(memcmp(reed_tensor_data(a[k]), reed_tensor_data(b[k]), (size_t)reed_tensor_bytes(b[k])) == 0);
    reed_tensor_close(&a[k]);
    reed_tensor_close(&b[k]);
  }
  reed_session_close(&fresh);
}

/* n changes in every step, the scalar in some: such a step makes no variant. */
START_TEST(a_scalar_that_changes_is_planned) {
  reed_session *session = opened(scalar_text, NULL);
  static const int64_t scalars[] = {5, 5, 5, 5, 7, 7, 7, 3, 3, 3};
  for (int i = 0; i < 10; i++) {
    reed_tensor *inputs[] = {opened_tensor(2, (int64_t[]){20 + i, 4}), opened_tensor(1, &scalars[i])};
    compare(session, scalar_text, inputs, inputs);
    for (int k = 0; k < 2; k++) reed_tensor_close(&inputs[k]);
    if (i == 3) ck_assert_double_ge(memo_figure(session, "variants"), 2);
  }
  ck_assert_double_ge(memo_figure(session, "variants"), 3);
  reed_session_close(&session);
}
END_TEST

/* n rows of each half of `memory` [2, ROOM, 4]. */
static reed_tensor *view_of(reed_tensor *memory, int64_t n) {
  static const int64_t strides[] = {ROOM * 4, 4, 1};
  DLManagedTensorVersioned *view;
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(memory, false, &view, NULL), REED_OK);
  view->dl_tensor.shape = (int64_t[]){2, n, 4};
  view->dl_tensor.strides = (int64_t *)strides;
  ck_assert_int_eq(reed_tensor_from_dlpack_versioned(view, &t, diagnosis), REED_OK);
  return t;
}

static reed_tensor *dense_copy(const reed_tensor *memory, int64_t n) {
  reed_tensor *t = opened_tensor(3, (int64_t[]){2, n, 4});
  for (int64_t k = 0; k < 2; k++)
    memcpy((float *)reed_tensor_data(t) + k * n * 4, (const float *)reed_tensor_data(memory) + k * ROOM * 4,
           (size_t)n * 4 * sizeof(float));
  return t;
}

/* A past whose rows lie apart grows in every step; dense ones come between, and are planned. */
START_TEST(steps_of_a_cache_with_room_are_variants) {
  reed_session *session = opened(room_text, NULL);
  reed_tensor *memory = opened_tensor(3, (int64_t[]){2, ROOM, 4}), *rows = opened_tensor(3, (int64_t[]){2, 1, 4});
  for (int64_t n = 4; n < 20; n++) {
    reed_tensor *dense[] = {dense_copy(memory, n), rows},
                *apart[] = {_i && n % 5 == 0 ? reed_tensor_retain(dense[0]) : view_of(memory, n), rows};
    compare(session, room_text, apart, dense);
    reed_tensor_close(&dense[0]);
    reed_tensor_close(&apart[0]);
  }
  ck_assert_double_ge(memo_figure(session, "variants"), _i ? 4 : 12);
  reed_tensor_close(&memory);
  reed_tensor_close(&rows);
  reed_session_close(&session);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("variants and keys");
  TCase *t = tcase_create("keys");
  tcase_add_checked_fixture(t, open_diagnosis, close_diagnosis);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, a_scalar_that_changes_is_planned);
  tcase_add_loop_test(t, steps_of_a_cache_with_room_are_variants, 0, 2);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
