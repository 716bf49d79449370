/* Sessions on devices: shared devices and weights, memory that a copy in flight keeps, and results that do not depend
 * on the time and order of a device's work. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "tests/compiler/lower/graph.h"
#include "tests/suite.h"

#define N ANY_DIM

enum { WIDTH = 512 };

/* relu(x * W) with constant weights W[WIDTH,WIDTH] = 2 I. */
static lowered with_weights(void) {
  static float weights[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH; i++) weights[i * WIDTH + i] = 2;
  ir_module *m = graph_open();
  reed_desc desc = {.dtype = REED_F32, .rank = 2, .dims = {WIDTH, WIDTH}};
  ir_value *x = graph_param(m->main, "x", REED_F32, 2, (int64_t[]){N, WIDTH});
  ir_value *w = ir_constant(m, &desc, weights, false, NULL);
  ck_assert_ptr_nonnull(w);
  ir_value *y = graph_op(m->main, OP_MatMul, REED_F32, 2, (int64_t[]){N, WIDTH}, x, w, GRAPH_END);
  graph_result(m->main, graph_op(m->main, OP_Relu, REED_F32, 2, (int64_t[]){N, WIDTH}, y, GRAPH_END));
  return graph_lower(m);
}

static reed_diagnosis *said;

static reed_program *program_of(const lowered *l) {
  reed_program *program = NULL;
  ck_assert_int_eq(reed_program_open_bytes(l->bytes, l->n_bytes, NULL, &program, said), REED_OK);
  return program;
}

static reed_session *session_on(reed_program *program, const char *name) {
  reed_session *session = NULL;
  reed_status status =
      reed_session_open(program, &(reed_session_options){.device = name, .n_threads = 1}, &session, said);
  ck_assert_msg(status == REED_OK, "%s: %s", name, reed_diagnosis_message(said));
  return session;
}

/* One run on `rows` rows of `value`; each element comes back doubled. */
static void run(reed_session *session, int64_t rows, float value) {
  reed_tensor *in = NULL, *out = NULL;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 2, (int64_t[]){rows, WIDTH}, &in), REED_OK);
  float *x = reed_tensor_data(in);
  for (int64_t i = 0; i < rows * WIDTH; i++) x[i] = value + (float)(i % 7);
  reed_diagnosis *d = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_session_run(session, &in, 1, &out, 1, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  const float *y = reed_tensor_data(out);
  for (int64_t i = 0; i < rows * WIDTH; i++) ck_assert_float_eq(y[i], 2 * x[i]);
  reed_tensor_close(&out);
  reed_tensor_close(&in);
  reed_diagnosis_close(&d);
}

static int64_t live_bytes(const char *name) {
  device *d = NULL;
  device_memory memory;
  ck_assert_int_eq(device_open(name, &d, said), REED_OK);
  d->interface->memory(d, &memory);
  device_close(&d);
  return memory.live_bytes;
}

/* A figure of the accelerator, which stands behind that of the host. */
static int64_t statistic_of_sim(reed_session *session, const char *key) {
  char *stats = NULL, quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  ck_assert_int_eq(reed_session_stats_json(session, &stats, said), REED_OK);
  const char *at = strstr(stats, "\"sim\":");
  at = at ? strstr(at, quoted) : NULL;
  ck_assert_msg(at != NULL, "no %s in %s", key, stats);
  const int64_t value = strtoll(at + strlen(quoted), NULL, 10);
  reed_text_free(stats);
  return value;
}

/* The weights are on the device once however many sessions of the program run there; another device and another program
 * have their own. */
START_TEST(sessions_share_the_weights_on_a_device) {
  enum { BYTES = WIDTH * WIDTH * 4 };
  lowered l = with_weights();
  reed_program *program = program_of(&l), *other = program_of(&l);
  reed_session *sessions[3];
  for (int i = 0; i < 3; i++) sessions[i] = session_on(program, "sim");
  run(sessions[0], 2, 1);
  int64_t one = live_bytes("sim");
  run(sessions[1], 2, 1);
  run(sessions[2], 3, 1);
  char *stats = NULL;
  ck_assert_int_eq(reed_session_stats_json(sessions[1], &stats, said), REED_OK);
  ck_assert_msg(!strstr(stats, "\"constant\""), "the second session copied constants: %s", stats);
  reed_text_free(stats);
  int64_t three = live_bytes("sim");
  ck_assert_int_ge(statistic_of_sim(sessions[0], "device_live_bytes"), three);
  ck_assert_int_ge(statistic_of_sim(sessions[0], "device_peak_bytes"), three);
  ck_assert_int_ge(one, BYTES);
  reed_session *second = session_on(program, "sim:1"), *apart = session_on(other, "sim");
  run(second, 2, 1);
  ck_assert_int_ge(live_bytes("sim:1"), BYTES);
  run(apart, 2, 1);
  int64_t four = live_bytes("sim"), session_bytes = (three - one) / 2;
  ck_assert_msg(three - one < 2 * (one - BYTES / 2), "three sessions: %lld after %lld", (long long)three,
                (long long)one);
  ck_assert_int_ge(four - three, session_bytes + BYTES);
  /* The weights stay when the first session closes, and go with the last session. */
  for (int i = 0; i < 3; i++) {
    reed_session_close(&sessions[i]);
    if (i < 2) run(sessions[2], 2, 5);
  }
  reed_session_close(&apart);
  ck_assert_int_eq(live_bytes("sim"), 0);
  reed_session_close(&second);
  reed_program_close(&program);
  reed_program_close(&other);
  lowered_close(&l);
}
END_TEST

/* Every copy between host and device uses pinned memory. */
START_TEST(copies_of_a_session_are_pinned) {
  lowered l = with_weights();
  reed_program *program = program_of(&l);
  reed_session *session = session_on(program, "sim:2");
  for (int i = 0; i < 4; i++) run(session, 1 + i, (float)i);
  device *d = NULL;
  device_memory memory;
  ck_assert_int_eq(device_open("sim:2", &d, said), REED_OK);
  d->interface->memory(d, &memory);
  ck_assert_int_gt(memory.pinned_bytes, 0);
  ck_assert_int_eq(memory.n_unpinned_copies, 0);
  device_close(&d);
  reed_session_close(&session);
  reed_program_close(&program);
  lowered_close(&l);
}
END_TEST

typedef struct worker {
  reed_program *program;
  const char *name;
  int rounds;
} worker;

static void *work(void *context) {
  const worker *w = context;
  reed_session *session = session_on(w->program, w->name);
  for (int i = 0; i < w->rounds; i++) run(session, 1 + i % 5, (float)i);
  reed_session_close(&session);
  return NULL;
}

/* Threads with sessions of one program on one device, first use of the weights included. */
START_TEST(threads_share_a_device) {
  lowered l = with_weights();
  reed_program *program = program_of(&l);
  pthread_t threads[4];
  worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){program, i % 2 ? "sim?seed=9&delay_us=50" : "sim", 12};
    ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  reed_program_close(&program);
  lowered_close(&l);
}
END_TEST

static const char *const orders[] = {"sim?poison=1",
                                     "sim?late=1&poison=1",
                                     "sim?seed=1&late=1&poison=1",
                                     "sim?seed=2&late=1&poison=1",
                                     "sim?seed=3&late=1&poison=1",
                                     "sim?seed=4&delay_us=200&poison=1",
                                     "sim?seed=5&delay_us=1000"};

/* An epoch whose kernels alternate with copies from the host, a read-back that the next epoch needs, and outputs that
 * are killed while they are read. */
static lowered with_copies(void) {
  ir_module *m = graph_open();
  ir_value *x = graph_param(m->main, "x", REED_F32, 1, (int64_t[]){N});
  ir_value *y = graph_param(m->main, "y", REED_F32, 1, (int64_t[]){N});
  ir_value *z = graph_param(m->main, "z", REED_F32, 1, (int64_t[]){N});
  ir_value *a = graph_op(m->main, OP_Neg, REED_F32, 1, (int64_t[]){N}, x, GRAPH_END);
  ir_value *b = graph_op(m->main, OP_Exp, REED_F32, 1, (int64_t[]){N}, a, GRAPH_END);
  ir_value *c = graph_op(m->main, OP_Mul, REED_F32, 1, (int64_t[]){N}, b, y, GRAPH_END);
  ir_value *where = graph_op(m->main, OP_NonZero, REED_I64, 2, (int64_t[]){1, N}, c, GRAPH_END);
  ir_value *rows = graph_op(m->main, OP_Gather, REED_F32, 2, (int64_t[]){1, N}, c, where, GRAPH_END);
  ir_value *sum = graph_op(m->main, OP_Add, REED_F32, 2, (int64_t[]){1, N}, rows, z, GRAPH_END);
  graph_result(m->main, graph_op(m->main, OP_Neg, REED_F32, 2, (int64_t[]){1, N}, sum, GRAPH_END));
  graph_result(m->main, graph_op(m->main, OP_Abs, REED_F32, 1, (int64_t[]){N}, c, GRAPH_END));
  return graph_lower(m);
}

static void run_copies(reed_session *session, int64_t n, reed_tensor **outputs) {
  reed_tensor *in[3];
  for (int k = 0; k < 3; k++) {
    int64_t extent = k == 2 ? 1 : n;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &extent, &in[k]), REED_OK);
    for (int64_t i = 0; i < extent; i++)
      ((float *)reed_tensor_data(in[k]))[i] = k == 1 && i % 3 == 0 ? 0 : (float)(i % 11) / 4 + (float)k;
  }
  reed_status status = reed_session_run(session, in, 3, outputs, 2, said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(said));
  for (int k = 0; k < 3; k++) {
    memset(reed_tensor_data(in[k]), 0x7f, (size_t)reed_tensor_bytes(in[k]));
    reed_tensor_close(&in[k]);
  }
}

/* The bits of the host in every order of work; poison shows reads that are too early or after a release. */
START_TEST(results_do_not_depend_on_the_order_of_work) {
  lowered l = with_copies();
  reed_program *program = program_of(&l);
  reed_session *host = session_on(program, "host"), *sim = session_on(program, orders[_i]);
  static const int64_t sizes[] = {100, 7, 3000, 100, 7, 64, 3000, 1, 100};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    reed_tensor *want[2], *got[2];
    run_copies(host, sizes[i], want);
    run_copies(sim, sizes[i], got);
    for (int o = 0; o < 2; o++) {
      ck_assert_int_eq(reed_tensor_bytes(want[o]), reed_tensor_bytes(got[o]));
      ck_assert_msg(memcmp(reed_tensor_data(want[o]), reed_tensor_data(got[o]), (size_t)reed_tensor_bytes(got[o])) == 0,
                    "%s: output %d of %lld elements differs", orders[_i], o, (long long)sizes[i]);
      reed_tensor_close(&want[o]);
      reed_tensor_close(&got[o]);
    }
  }
  reed_session_close(&host);
  reed_session_close(&sim);
  reed_program_close(&program);
  lowered_close(&l);
}
END_TEST

/* A graph on a device works with pointers as they were: the arena does not move while it grows. */
START_TEST(an_arena_grows_in_place) {
  lowered l = with_weights();
  reed_program *program = program_of(&l);
  reed_session *session = session_on(program, "sim:3");
  device *d = NULL;
  device_memory before, after;
  ck_assert_int_eq(device_open("sim:3", &d, said), REED_OK);
  run(session, 8, 1);
  d->interface->memory(d, &before);
  for (int64_t rows = 16; rows < 2000; rows *= 2) run(session, rows, 1);
  for (int64_t rows = 2000; rows > 8; rows /= 2) run(session, rows, 1);
  d->interface->memory(d, &after);
  /* One arena: no block for each earlier size. */
  ck_assert_int_le(after.n_allocations - before.n_allocations, 2);
  device_close(&d);
  reed_session_close(&session);
  reed_program_close(&program);
  lowered_close(&l);
}
END_TEST

/* A module for the host and two accelerators: y = -((x + one) * two) on the second, z = |x + one| on the first. */
static const char two_accelerators[] = ".module \"m\" producer \"test\" \"1\" devices 3\n"
                                       ".type t0 = f32[n] \"x\"\n"
                                       ".type t1 = f32[n] \"y\"\n"
                                       ".type t2 = f32[n] \"z\"\n"
                                       ".inputs t0\n"
                                       ".outputs t1, t2\n"
                                       ".const one = f32[1] {1.0}\n"
                                       ".const two = f32[1] {2.0}\n"
                                       ".site add = Add (2 -> 1) \"add\"\n"
                                       ".site mul = Mul (2 -> 1) \"mul\"\n"
                                       ".site neg = Neg (1 -> 1) \"neg\"\n"
                                       ".site abs = Abs (1 -> 1) \"abs\"\n"
                                       ".function main (t0) -> (t1, t2) registers 12 0\n"
                                       "  assert.shape r0, t0\n"
                                       "  const r1, one, device\n"
                                       "  const r2, two, device2\n"
                                       "  epoch.enter 0, plan, [r0:shape, r1:shape, r2:shape], []\n"
                                       "  shape.like r3, r0, device\n"
                                       "  shape add, device, [r4], [r3:shape, r1:shape]\n"
                                       "  shape.like r5, r4, device2\n"
                                       "  shape mul, device2, [r6], [r5:shape, r2:shape]\n"
                                       "  shape neg, device2, [r7], [r6:shape]\n"
                                       "  shape abs, device, [r8], [r4:shape]\n"
                                       "plan:\n"
                                       "  epoch.plan 0\n"
                                       "  copy r3, r0, input, add, 0\n"
                                       "  invoke add, device, [r4], [r3, r1]\n"
                                       "  kill r3\n"
                                       "  copy r5, r4, placement, mul, 0\n"
                                       "  invoke mul, device2, [r6], [r5, r2]\n"
                                       "  kill r5\n"
                                       "  invoke neg, device2, [r7], [r6]\n"
                                       "  kill r6\n"
                                       "  invoke abs, device, [r8], [r4]\n"
                                       "  kill r4\n"
                                       "  epoch.end 0\n"
                                       "  readback r9, r7, output, neg, 0\n"
                                       "  readback r10, r8, output, abs, 1\n"
                                       "  sync\n"
                                       "  kill r7\n"
                                       "  kill r8\n"
                                       "  return [r9, r10], []\n";

static const char *const bindings[] = {"host",
                                       "sim",
                                       "sim,sim:1",
                                       "sim:1,sim",
                                       "sim,sim",
                                       "host,sim",
                                       "sim,host",
                                       "sim,sim:1,sim:2",
                                       "sim?late=1&seed=2&poison=1,sim:1?late=1&seed=5&poison=1",
                                       "sim?delay_us=300&poison=1,sim?delay_us=100"};

START_TEST(a_module_runs_on_several_accelerators) {
  void *bytes = NULL;
  size_t n_bytes = 0;
  reed_program *program = NULL;
  ck_assert_msg(reed_module_assemble(two_accelerators, NULL, &bytes, &n_bytes, said) == REED_OK, "%s",
                reed_diagnosis_message(said));
  char *text = NULL;
  ck_assert_int_eq(reed_module_disassemble(bytes, n_bytes, NULL, &text, said), REED_OK);
  ck_assert_ptr_nonnull(strstr(text, "device2"));
  ck_assert_int_eq(reed_program_open_bytes(bytes, n_bytes, NULL, &program, said), REED_OK);
  reed_session *session = session_on(program, bindings[_i]);
  for (int64_t n = 1; n < 4000; n = n * 3 + 1) {
    reed_tensor *in = NULL, *out[2];
    ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &in), REED_OK);
    float *x = reed_tensor_data(in);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 5) - 3;
    for (int again = 0; again < 4; again++) { /* a miss, a hit that records graphs, then replays */
      reed_status status = reed_session_run(session, &in, 1, out, 2, said);
      ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(said));
      const float *y = reed_tensor_data(out[0]), *z = reed_tensor_data(out[1]);
      for (int64_t i = 0; i < n; i++) {
        ck_assert_float_eq(y[i], -(x[i] + 1) * 2);
        ck_assert_float_eq(z[i], x[i] + 1 < 0 ? -(x[i] + 1) : x[i] + 1);
      }
      reed_tensor_close(&out[0]);
      reed_tensor_close(&out[1]);
    }
    reed_tensor_close(&in);
  }
  reed_session_close(&session);
  reed_program_close(&program);
  reed_text_free(bytes);
  reed_text_free(text);
}
END_TEST

/* A copy from the host in the middle of an epoch does not wait for the kernels before it: the plan must not give it
 * memory that they use. */
START_TEST(a_copy_inside_an_epoch_has_memory_of_its_own) {
  static const char text[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                             ".type t0 = f32[n] \"x\"\n"
                             ".type t1 = f32[n] \"y\"\n"
                             ".inputs t0\n"
                             ".outputs t1\n"
                             ".const zero = i64[] {0}\n"
                             ".site sum = CumSum (2 -> 1) \"sum\"\n"
                             ".site add = Add (2 -> 1) \"add\"\n"
                             ".function main (t0) -> (t1) registers 8 0\n"
                             "  assert.shape r0, t0\n"
                             "  const r1, zero, device\n"
                             "  epoch.enter 0, plan, [r0:shape, r1:shape], []\n"
                             "  shape.like r2, r0, device\n"
                             "  shape sum, device, [r3], [r2:shape, r1:shape]\n"
                             "  shape sum, device, [r4], [r3:shape, r1:shape]\n"
                             "  shape.like r5, r0, device\n"
                             "  shape add, device, [r6], [r4:shape, r5:shape]\n"
                             "plan:\n"
                             "  epoch.plan 0\n"
                             "  copy r2, r0, input, sum, 0\n"
                             "  invoke sum, device, [r3], [r2, r1]\n"
                             "  kill r2\n"
                             "  invoke sum, device, [r4], [r3, r1]\n"
                             "  kill r3\n"
                             "  copy r5, r0, input, add, 1\n"
                             "  invoke add, device, [r6], [r4, r5]\n"
                             "  kill r4\n"
                             "  kill r5\n"
                             "  epoch.end 0\n"
                             "  readback r7, r6, output, add, 0\n"
                             "  sync\n"
                             "  kill r6\n"
                             "  return [r7], []\n";
  void *bytes = NULL;
  size_t n_bytes = 0;
  reed_program *program = NULL;
  ck_assert_msg(reed_module_assemble(text, NULL, &bytes, &n_bytes, said) == REED_OK, "%s",
                reed_diagnosis_message(said));
  ck_assert_int_eq(reed_program_open_bytes(bytes, n_bytes, NULL, &program, said), REED_OK);
  reed_session *session = session_on(program, orders[_i]);
  for (int64_t n = 1; n < 2000; n = n * 4 + 3)
    for (int again = 0; again < 3; again++) {
      reed_tensor *in = NULL, *out = NULL;
      ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &in), REED_OK);
      for (int64_t i = 0; i < n; i++) ((float *)reed_tensor_data(in))[i] = 1;
      ck_assert_msg(reed_session_run(session, &in, 1, &out, 1, said) == REED_OK, "%s", reed_diagnosis_message(said));
      for (int64_t i = 0; i < n; i++) /* x is 1 everywhere: prefix sums of prefix sums, plus 1 */
        ck_assert_float_eq(((float *)reed_tensor_data(out))[i], (float)((i + 1) * (i + 2) / 2 + 1));
      reed_tensor_close(&in);
      reed_tensor_close(&out);
    }
  reed_session_close(&session);
  reed_program_close(&program);
  reed_text_free(bytes);
}
END_TEST

/* A tensor that is killed while it is read back: its memory belongs to the copy until the copy has run. */
START_TEST(the_source_of_a_copy_stays_until_it_has_run) {
  static const char text[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                             ".type t0 = f32[n] \"x\"\n"
                             ".type t1 = f32[n] \"y\"\n"
                             ".inputs t0\n"
                             ".outputs t1\n"
                             ".site neg = Neg (1 -> 1) \"neg\"\n"
                             ".function main (t0) -> (t1) registers 4 0\n"
                             "  assert.shape r0, t0\n"
                             "  shape.like r1, r0, device\n"
                             "  copy r1, r0, input, neg, 0\n"
                             "  shape neg, device, [r3], [r1:shape]\n"
                             "  invoke neg, device, [r3], [r1]\n"
                             "  kill r1\n"
                             "  readback r2, r3, output, neg, 0\n"
                             "  kill r3\n"
                             "  sync\n"
                             "  return [r2], []\n";
  void *bytes = NULL;
  size_t n_bytes = 0;
  reed_program *program = NULL;
  ck_assert_msg(reed_module_assemble(text, NULL, &bytes, &n_bytes, said) == REED_OK, "%s",
                reed_diagnosis_message(said));
  ck_assert_int_eq(reed_program_open_bytes(bytes, n_bytes, NULL, &program, said), REED_OK);
  reed_session *session = session_on(program, orders[_i]);
  for (int64_t n = 1; n < 100000; n = n * 4 + 3) {
    reed_tensor *in = NULL, *out = NULL;
    ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &in), REED_OK);
    for (int64_t i = 0; i < n; i++) ((float *)reed_tensor_data(in))[i] = (float)(i + 1);
    ck_assert_msg(reed_session_run(session, &in, 1, &out, 1, said) == REED_OK, "%s", reed_diagnosis_message(said));
    for (int64_t i = 0; i < n; i++) ck_assert_float_eq(((float *)reed_tensor_data(out))[i], -(float)(i + 1));
    reed_tensor_close(&in);
    reed_tensor_close(&out);
  }
  reed_session_close(&session);
  reed_program_close(&program);
  reed_text_free(bytes);
}
END_TEST

/* Devices with options of their own that fail: the message names the device, and the session goes on. */
START_TEST(the_failing_accelerator_is_named) {
  void *bytes = NULL;
  size_t n_bytes = 0;
  reed_program *program = NULL;
  ck_assert_int_eq(reed_module_assemble(two_accelerators, NULL, &bytes, &n_bytes, said), REED_OK);
  ck_assert_int_eq(reed_program_open_bytes(bytes, n_bytes, NULL, &program, said), REED_OK);
  reed_session *session = session_on(program, "sim,sim:7?fail_launch=2");
  int64_t n = 9;
  reed_tensor *in = NULL, *out[2];
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, &n, &in), REED_OK);
  memset(reed_tensor_data(in), 0, (size_t)reed_tensor_bytes(in));
  ck_assert_int_eq(reed_session_run(session, &in, 1, out, 2, said), REED_ERROR_DEVICE);
  ck_assert_str_eq(reed_diagnosis_message(said), "device 'sim:7': launch 2 was told to fail");
  ck_assert_int_eq(reed_session_run(session, &in, 1, out, 2, said), REED_OK);
  ck_assert_float_eq(((const float *)reed_tensor_data(out[0]))[8], -2);
  reed_tensor_close(&out[0]);
  reed_tensor_close(&out[1]);
  reed_tensor_close(&in);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_text_free(bytes);
}
END_TEST

START_TEST(the_devices_are_described) {
  char *text = NULL;
  ck_assert_int_eq(reed_devices_json(NULL, said), REED_ERROR_ARGUMENT);
  ck_assert_int_eq(reed_devices_json(&text, NULL), REED_OK);
  ck_assert_ptr_nonnull(strstr(text, "{\"name\":\"host\",\"summary\":\"the CPU\",\"ready\":true,\"cpu\":"));
  ck_assert_ptr_nonnull(strstr(text, "{\"name\":\"sim\","));
  ck_assert_ptr_nonnull(strstr(text, "\"ready\":true,\"memory_bytes\":"));
  reed_text_free(text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("devices");
  TCase *tc = tcase_create("devices");
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, sessions_share_the_weights_on_a_device);
  tcase_add_test(tc, copies_of_a_session_are_pinned);
  tcase_add_test(tc, threads_share_a_device);
  tcase_add_loop_test(tc, results_do_not_depend_on_the_order_of_work, 0, sizeof orders / sizeof *orders);
  tcase_add_test(tc, an_arena_grows_in_place);
  tcase_add_loop_test(tc, a_module_runs_on_several_accelerators, 0, sizeof bindings / sizeof *bindings);
  tcase_add_loop_test(tc, a_copy_inside_an_epoch_has_memory_of_its_own, 0, sizeof orders / sizeof *orders);
  tcase_add_loop_test(tc, the_source_of_a_copy_stays_until_it_has_run, 0, sizeof orders / sizeof *orders);
  tcase_add_test(tc, the_failing_accelerator_is_named);
  tcase_add_test(tc, the_devices_are_described);
  suite_add_tcase(suite, tc);
  if (reed_diagnosis_open(&said) != REED_OK) return 1;
  int failed = suite_run(suite);
  reed_diagnosis_close(&said);
  return failed;
}
