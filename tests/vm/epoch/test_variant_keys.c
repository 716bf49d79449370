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
#define ROOM_TEXT(site_b) \
  ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[2, n, 4] \"x\"\n.type z = f32[2, m, 4] \"z\"\n" \
  ".type y = f32[2, k, 4] \"y\"\n.type w = f32[2, p, q] \"w\"\n.type v = f32[4] \"v\"\n.inputs x, z\n" \
  ".outputs y, w, v\n.const few = f32[4] {1, 2, 3, 4}\n" \
  ".site a = Concat (2 -> 1) \"a\" {axis = 1}\n" site_b ".site c = Tanh (1 -> 1) \"c\"\n" \
  ".function main (x, z) -> (y, w, v) registers 30 0\n" \
  "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n" \
  "  const r2, few, device\n" \
  "  shape.like r6, r0, device\n  shape.like r5, r1, device\n" \
  "  shape a, device, [r7], [r6:shape, r5:shape]\n  shape b, device, [r8], [r7:shape]\n" \
  "  shape c, device, [r10], [r2:shape]\n  shape c, device, [r11], [r10:shape]\n" \
  "  shape c, device, [r12], [r11:shape]\n  shape c, device, [r13], [r12:shape]\n" \
  "  shape c, device, [r14], [r13:shape]\n  shape c, device, [r15], [r14:shape]\n" \
  "plan: epoch.plan 0\n  copy r6, r0, input, a, 0\n  copy r5, r1, input, a, 0\n" \
  "  invoke c, device, [r10], [r2]\n  invoke c, device, [r11], [r10]\n  kill r10\n" \
  "  invoke c, device, [r12], [r11]\n  kill r11\n  invoke c, device, [r13], [r12]\n  kill r12\n" \
  "  invoke c, device, [r14], [r13]\n  kill r13\n  invoke c, device, [r15], [r14]\n  kill r14\n" \
  "  invoke a, device, [r7], [r6, r5]\n  kill r6\n  kill r5\n  invoke b, device, [r8], [r7]\n" \
  "  epoch.end 0\n  readback r16, r7, output, a, 0\n  readback r17, r8, output, b, 0\n" \
  "  readback r18, r15, output, c, 0\n  sync\n  kill r7\n  kill r8\n  kill r15\n  kill r2\n" \
  "  return [r16, r17, r18], []\n"
static const char room_text[] = ROOM_TEXT(".site b = Exp (1 -> 1) \"b\"\n");
/* All kernels read strides. */
static const char grow_text[] = ROOM_TEXT(".site b = Transpose (1 -> 1) \"b\" {perm = [0, 2, 1]}\n");

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

/* A decoder's past that grows in place in bound memory [2, ROOM, 4] by one row a step. */
typedef struct grown {
  const char *text;
  reed_session *session;
  reed_tensor *memory, *rows, *past;
} grown;

/* cancel_at: the kernel since opening that cancels its run; 0: none. */
static grown begin_growing(const char *text, int64_t cancel_at) {
  grown g = {.text = text,
             .session = opened(text, &(reed_session_options){.cancel_at_kernel = cancel_at}),
             .memory = opened_tensor(3, (int64_t[]){2, ROOM, 4})};
  g.rows = opened_tensor(3, (int64_t[]){2, 1, 4});
  g.past = opened_tensor(3, (int64_t[]){2, 0, 4});
  ck_assert_int_eq(reed_session_bind_output(g.session, 0, g.memory, 1, diagnosis), REED_OK);
  return g;
}

static void end_growing(grown *g) {
  reed_tensor_close(&g->past);
  reed_session_close(&g->session);
  reed_tensor_close(&g->rows);
  reed_tensor_close(&g->memory);
}

/* The elements of a tensor over the memory, or of a dense one, in memory of their own. */
static reed_tensor *dense_of(const reed_tensor *t) {
  const int64_t n = reed_tensor_dims(t)[1];
  reed_tensor *dense = opened_tensor(3, (int64_t[]){2, n, 4});
  for (int64_t k = 0; k < 2; k++)
    memcpy((float *)reed_tensor_data(dense) + k * n * 4,
           (const float *)reed_tensor_data(t) + k * reed_tensor_strides(t)[0], (size_t)n * 4 * sizeof(float));
  return dense;
}

/* One step from `past`; the results must equal those of a new session that binds nothing. Returns the longer past. */
static reed_tensor *grow(grown *g, reed_tensor *past) {
  reed_tensor *a[N_OUTPUTS], *b[N_OUTPUTS], *others[] = {dense_of(past), g->rows};
  reed_session *fresh = opened(g->text, NULL);
  float *row = reed_tensor_data(g->rows);
  for (int k = 0; k < 8; k++) row[k] = (float)(reed_tensor_dims(past)[1] * 8 + k) / 64;
  run(g->session, (reed_tensor *[]){past, g->rows}, a);
  run(fresh, others, b);
  for (int k = 0; k < N_OUTPUTS; k++) {
    reed_tensor *dense = k == 0 ? dense_of(a[k]) : reed_tensor_retain(a[k]);
    ck_assert_int_eq(reed_tensor_bytes(dense), reed_tensor_bytes(b[k]));
    ck_assert(memcmp(reed_tensor_data(dense), reed_tensor_data(b[k]), (size_t)reed_tensor_bytes(b[k])) == 0);
    reed_tensor_close(&dense);
    reed_tensor_close(&b[k]);
    if (k) reed_tensor_close(&a[k]);
  }
  reed_session_close(&fresh);
  reed_tensor_close(&others[0]);
  return a[0];
}

static void step(grown *g) {
  reed_tensor *longer = grow(g, g->past);
  reed_tensor_close(&g->past);
  g->past = longer;
}

/* Steps within the capacity are hits that make no entry, until the memory is full. A longer past is refused then, and
 * the one before is still valid. */
START_TEST(a_step_within_the_capacity_is_a_hit) {
  grown g = begin_growing(grow_text, 0);
  for (int n = 0; n < 8; n++) step(&g);
  double misses = memo_figure(g.session, "misses"), entries = memo_figure(g.session, "entries");
  double bytes = memo_figure(g.session, "bytes"), renewed = memo_figure(g.session, "renewed");
  for (int n = 8; n < ROOM; n++) step(&g);
  ck_assert_double_eq(memo_figure(g.session, "misses"), misses);
  ck_assert_double_eq(memo_figure(g.session, "entries"), entries);
  ck_assert_double_eq(memo_figure(g.session, "renewed"), renewed + ROOM - 8);
  ck_assert_double_eq(memo_figure(g.session, "bytes"), bytes);
  ck_assert(reed_tensor_data(g.past) == reed_tensor_data(g.memory));
  reed_tensor *outputs[N_OUTPUTS], *kept = dense_of(g.past);
  ck_assert_int_ne(reed_session_run(g.session, (reed_tensor *[]){g.past, g.rows}, 2, outputs, N_OUTPUTS, diagnosis),
                   REED_OK);
  reed_tensor *after = dense_of(g.past);
  ck_assert(memcmp(reed_tensor_data(kept), reed_tensor_data(after), (size_t)reed_tensor_bytes(kept)) == 0);
  reed_tensor_close(&kept);
  reed_tensor_close(&after);
  /* the cache begins again: shorter lengths are hits, too */
  reed_tensor_close(&g.past);
  g.past = opened_tensor(3, (int64_t[]){2, 0, 4});
  for (int n = 0; n < 12; n++) step(&g);
  ck_assert_double_ge(memo_figure(g.session, "renewed"), renewed + ROOM);
  end_growing(&g);
}
END_TEST

/* Each step's longer dense copy fits the arena of some steps before, but not of all: the renewal fails then. Such a
 * step prepares its two kernels once for that attempt and once for the plan. */
START_TEST(a_renewal_that_fails_is_not_repeated) {
  enum { KERNELS = 2 };
  grown g = begin_growing(room_text, 0);
  int n_failed = 0;
  step(&g);
  for (int n = 1; n < ROOM; n++) {
    double renewed = memo_figure(g.session, "renewed"), made = memo_figure(g.session, "kernels_made");
    step(&g);
    bool hit = memo_figure(g.session, "renewed") > renewed;
    double prepared = memo_figure(g.session, "kernels_made") - made;
    ck_assert_double_le(prepared, hit ? KERNELS : 2 * KERNELS);
    n_failed += !hit && prepared == 2 * KERNELS;
  }
  ck_assert_int_ge(n_failed, 3);
  ck_assert_double_ge(memo_figure(g.session, "renewed"), 3);
  end_growing(&g);
}
END_TEST

/* A second continuation of a retained past gets memory of its own, which is no hit; the first one goes on. */
START_TEST(a_retained_past_is_continued_twice) {
  grown g = begin_growing(grow_text, 0);
  for (int n = 0; n < 20; n++) {
    reed_tensor *before = reed_tensor_retain(g.past);
    step(&g);
    if (n % 4 == 3) {
      reed_tensor *other = grow(&g, before);
      ck_assert(reed_tensor_data(other) != reed_tensor_data(g.memory));
      reed_tensor_close(&other);
    }
    reed_tensor_close(&before);
  }
  ck_assert_double_ge(memo_figure(g.session, "renewed"), 3);
  end_growing(&g);
}
END_TEST

/* A run that is cancelled after its entry was renewed leaves past and entry valid. */
START_TEST(a_cancelled_step_is_repeated) {
  enum { KERNELS = 8, STEP = 10 };
  grown g = begin_growing(grow_text, STEP * KERNELS + 1 + _i);
  for (int n = 0; n < 20; n++) {
    reed_tensor *outputs[N_OUTPUTS];
    if (n == STEP)
      ck_assert_int_eq(reed_session_run(g.session, (reed_tensor *[]){g.past, g.rows}, 2, outputs, N_OUTPUTS, diagnosis),
                       REED_ERROR_CANCELLED);
    step(&g);
  }
  ck_assert_double_ge(memo_figure(g.session, "renewed"), 12);
  end_growing(&g);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("variants and keys");
  TCase *t = tcase_create("keys");
  tcase_add_checked_fixture(t, open_diagnosis, close_diagnosis);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, a_scalar_that_changes_is_planned);
  tcase_add_loop_test(t, steps_of_a_cache_with_room_are_variants, 0, 2);
  tcase_add_test(t, a_step_within_the_capacity_is_a_hit);
  tcase_add_test(t, a_renewal_that_fails_is_not_repeated);
  tcase_add_test(t, a_retained_past_is_continued_twice);
  tcase_add_loop_test(t, a_cancelled_step_is_repeated, 0, 7);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
