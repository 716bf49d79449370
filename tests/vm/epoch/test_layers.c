/* Variants of a model with equal layers (vm/epoch/variant.h): while the parts of the key are alike, the calls of one
 * layer stand for those of the others. Entries and results must equal those of a new session, also when the parts come
 * to differ, and when they become alike again. */
#include <check.h>
#include <string.h>

#include "tests/vm/epoch/same_entry.h"
#include "tests/vm/hand.h"
#include "vm/epoch/variant.h"

enum { N_OUTPUTS = 4 };

static reed_program *program;

/* Of the pasts x [n, 4, 2] and z [m, 4, 2], two equal layers: a past with one row more, through two kernels; and a
 * kernel that reads the result of one. A row of kernels depends on neither. */
static const char text[] =
    ".module \"m\" producer \"test\" \"1\" devices 2\n.type x = f32[n, 4, 2] \"x\"\n.type z = f32[m, 4, 2] \"z\"\n"
    ".type y = f32[a, 4, 2] \"y\"\n.type w = f32[b, 4, 2] \"w\"\n.type v = f32[1, 4, 2] \"v\"\n.type u = f32[c, 4, 2] "
    "\"u\"\n.inputs x, z\n"
    ".outputs y, w, v, u\n.const few = f32[1, 4, 2] {1, 2, 3, 4, 5, 6, 7, 8}\n"
    ".site a = Concat (2 -> 1) \"a\" {axis = 0}\n.site b = Neg (1 -> 1) \"b\"\n.site c = Tanh (1 -> 1) \"c\"\n"
    ".site d = Concat (2 -> 1) \"d\" {axis = 0}\n.site e = Neg (1 -> 1) \"e\"\n.site f = Tanh (1 -> 1) \"f\"\n"
    ".site i = Abs (1 -> 1) \"i\"\n.site g = Exp (1 -> 1) \"g\"\n"
    ".function main (x, z) -> (y, w, v, u) registers 40 0\n"
    "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
    "  const r9, few, device\n  shape.like r2, r0, device\n  shape.like r3, r1, device\n"
    "  shape a, device, [r4], [r2:shape, r9:shape]\n  shape b, device, [r5], [r4:shape]\n"
    "  shape c, device, [r6], [r5:shape]\n"
    "  shape d, device, [r14], [r3:shape, r9:shape]\n  shape e, device, [r15], [r14:shape]\n"
    "  shape f, device, [r16], [r15:shape]\n"
    "  shape g, device, [r17], [r16:shape]\n"
    "  shape i, device, [r20], [r9:shape]\n  shape i, device, [r21], [r20:shape]\n"
    "  shape i, device, [r22], [r21:shape]\n  shape i, device, [r23], [r22:shape]\n"
    "  shape i, device, [r24], [r23:shape]\n  shape i, device, [r25], [r24:shape]\n"
    "  shape i, device, [r26], [r25:shape]\n  shape i, device, [r27], [r26:shape]\n"
    "  shape i, device, [r28], [r27:shape]\n"
    "plan: epoch.plan 0\n  copy r2, r0, input, a, 0\n  copy r3, r1, input, d, 0\n"
    "  invoke a, device, [r4], [r2, r9]\n  kill r2\n  invoke b, device, [r5], [r4]\n  kill r4\n"
    "  invoke c, device, [r6], [r5]\n  kill r5\n"
    "  invoke d, device, [r14], [r3, r9]\n  kill r3\n  invoke e, device, [r15], [r14]\n  kill r14\n"
    "  invoke f, device, [r16], [r15]\n  kill r15\n"
    "  invoke g, device, [r17], [r16]\n"
    "  invoke i, device, [r20], [r9]\n  invoke i, device, [r21], [r20]\n  kill r20\n"
    "  invoke i, device, [r22], [r21]\n  kill r21\n  invoke i, device, [r23], [r22]\n  kill r22\n"
    "  invoke i, device, [r24], [r23]\n  kill r23\n  invoke i, device, [r25], [r24]\n  kill r24\n"
    "  invoke i, device, [r26], [r25]\n  kill r25\n  invoke i, device, [r27], [r26]\n  kill r26\n"
    "  invoke i, device, [r28], [r27]\n  kill r27\n"
    "  epoch.end 0\n  readback r10, r6, output, c, 0\n  readback r11, r16, output, f, 0\n"
    "  readback r12, r28, output, i, 0\n  readback r13, r17, output, g, 0\n  sync\n  kill r6\n  kill r16\n  kill r28\n "
    " kill r17\n  kill r9\n"
    "  return [r10, r11, r12, r13], []\n";

static reed_session *new_session(void) {
  reed_session *session;
  ck_assert_int_eq(reed_session_open(program, NULL, &session, diagnosis), REED_OK);
  return session;
}

static void run(reed_session *session, int64_t n, int64_t m, reed_tensor **outputs) {
  reed_tensor *inputs[2];
  for (int k = 0; k < 2; k++) {
    const int64_t dims[] = {k ? m : n, 4, 2};
    ck_assert_int_eq(reed_tensor_open(REED_F32, 3, dims, &inputs[k]), REED_OK);
    for (int64_t i = 0; i < reed_tensor_elements(inputs[k]); i++)
      ((float *)reed_tensor_data(inputs[k]))[i] = (float)((i * 7919 + n + k) % 31 - 15) / 8;
  }
  ck_assert_msg(reed_session_run(session, inputs, 2, outputs, N_OUTPUTS, diagnosis) == REED_OK, "%s",
                reed_diagnosis_message(diagnosis));
  for (int k = 0; k < 2; k++) reed_tensor_close(&inputs[k]);
}

/* One run; entry and results must equal those of a new session. */
static void compare(reed_session *session, int64_t n, int64_t m) {
  reed_tensor *a[N_OUTPUTS], *b[N_OUTPUTS];
  reed_session *fresh = new_session();
  run(session, n, m, a);
  run(fresh, n, m, b);
  for (int k = 0; k < N_OUTPUTS; k++) {
    ck_assert_int_eq(reed_tensor_bytes(a[k]), reed_tensor_bytes(b[k]));
    if (memcmp(reed_tensor_data(a[k]), reed_tensor_data(b[k]), (size_t)reed_tensor_bytes(b[k])) != 0)
      ck_abort_msg("output %d of %lld and %lld rows differs", k, (long long)n, (long long)m);
    reed_tensor_close(&a[k]);
    reed_tensor_close(&b[k]);
  }
  check_same_entry(variant_use(session->memo.newest), fresh->memo.newest);
  reed_session_close(&fresh);
}

/* Of each kind of place, half stands for the other half. */
START_TEST(a_layer_stands_for_its_equals) {
  reed_session *session = new_session();
  for (int64_t n = 40; n < 50; n++) compare(session, n, n);
  ck_assert_double_ge(memo_figure(session, "variants"), 6);
  const variant_places *p = session->memo.newest->whole->places;
  size_t n_shapes = 0, n_writes = 0, n_calls = 0, n_views = 0;
  for (size_t i = 0; i < p->shapes.n; i++) n_shapes += p->shapes.items[i].n_silent;
  for (size_t i = 0; i < p->writes.n; i++) n_writes += p->writes.items[i].twin >= 0;
  for (size_t i = 0; i < p->calls.n; i++) n_calls += p->calls.items[i].stays_twin;
  for (size_t i = 0; i < p->views.n; i++) n_views += p->views.items[i].twin;
  ck_assert_uint_eq(p->shapes.n, 9);
  ck_assert_uint_eq(n_shapes, 3); /* not that of r16, which a kernel reads */
  ck_assert_uint_eq(n_writes, 3);
  ck_assert_uint_eq(p->calls.n, 7);
  ck_assert_uint_eq(n_calls, 3);
  ck_assert_uint_eq(n_views, 1);
  reed_session_close(&session);
}
END_TEST

/* A layer whose part has not changed stands for none whose part has. */
START_TEST(a_part_becomes_alike) {
  reed_session *session = new_session();
  for (int64_t n = 40; n < 46; n++) compare(session, n, n);
  double variants = memo_figure(session, "variants");
  compare(session, 46, 45);
  compare(session, 46, 46);
  ck_assert_double_eq(memo_figure(session, "variants"), variants + 2);
  reed_session_close(&session);
}
END_TEST

/* Hits between the misses use registers that a run by the list leaves out. */
START_TEST(layers_may_come_to_differ) {
  reed_session *session = new_session();
  uint64_t random = (uint64_t)_i * 0x9e3779b97f4a7c15u + 5;
  int64_t n = 60, m = 60, seen[8][2];
  for (int k = 0; k < 8; k++) seen[k][0] = seen[k][1] = 60;
  for (int step = 0; step < 120; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    int kind = (int)(random >> 40) % 8;
    if (kind < 4) n++, m++;
    else if (kind == 4) n++;
    else if (kind == 5) m = n;
    else if (kind == 6) n++, m += 2;
    else n = seen[random >> 61][0], m = seen[random >> 61][1];
    seen[step % 8][0] = n;
    seen[step % 8][1] = m;
    compare(session, n, m);
  }
  ck_assert_double_ge(memo_figure(session, "variants"), 20);
  reed_session_close(&session);
}
END_TEST

static void open_all(void) {
  open_diagnosis();
  program = assembled(text);
}

static void close_all(void) {
  reed_program_close(&program);
  close_diagnosis();
}

int main(void) {
  Suite *suite = suite_create("layers");
  TCase *t = tcase_create("layers");
  tcase_add_checked_fixture(t, open_all, close_all);
  tcase_set_timeout(t, 60);
  tcase_add_test(t, a_layer_stands_for_its_equals);
  tcase_add_test(t, a_part_becomes_alike);
  tcase_add_loop_test(t, layers_may_come_to_differ, 0, 8);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
