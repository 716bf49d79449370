/* Graphs of accelerators in sessions: a stretch of launches is recorded at the first hit of its memo entry and replayed
 * later. Every model here runs with graphs and without, on devices that work late and in seeded orders; the bits must
 * be equal, and the figures must count recorded, replayed and left out stretches. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/alloc_hook.h"
#include "tests/devices.h"
#include "tests/whole/looped_model.h"

/* The last ones are absent where there is no C++ compiler. */
static const char *const devices[] = {"sim",
                                      "sim:1?poison=1&late=1",
                                      "sim:2?seed=5&delay_us=60&poison=1",
                                      "sim:3?seed=9&late=1&poison=1",
                                      "cuda-emulated",
                                      "cuda-emulated?late=1&poison=1&seed=3",
                                      "cuda-emulated:1?late=1&poison=1&seed=8&order=5"};
enum { N_SIMS = 4, N_DEVICES = sizeof devices / sizeof *devices };

static int n_devices(void) { return device_is_present("cuda-emulated") ? N_DEVICES : N_SIMS; }

/* ---- two sessions of a model ---- */

typedef struct pair {
  model m;
  reed_session *with, *without;
} pair;

static reed_session *session_with(model *m, const char *device, reed_graphs graphs) {
  reed_session *session = NULL;
  reed_session_options options = {.device = device, .n_threads = 1, .graphs = graphs};
  reed_status status = reed_session_open(m->program, &options, &session, m->said);
  ck_assert_msg(status == REED_OK, "%s: %s", device, reed_diagnosis_message(m->said));
  return session;
}

/* Closes the builder. */
static pair pair_open(onnx_build *b, const char *device) {
  pair p = {.m = model_open(b, "host", REED_COUNTS_HOST)};
  p.with = session_with(&p.m, device, REED_GRAPHS_AUTO);
  p.without = session_with(&p.m, device, REED_GRAPHS_OFF);
  return p;
}

static void pair_close(pair *p) {
  for (int i = 0; i < 3; i++) ck_assert_int_eq(statistic_of(p->without, "captured"), 0);
  reed_session_close(&p->with);
  reed_session_close(&p->without);
  model_close(&p->m);
}

static void assert_equal(const reed_tensor *a, const reed_tensor *b, const char *where) {
  ck_assert_int_eq(reed_tensor_rank(a), reed_tensor_rank(b));
  for (int32_t i = 0; i < reed_tensor_rank(a); i++)
    ck_assert_msg(reed_tensor_dims(a)[i] == reed_tensor_dims(b)[i], "%s: extents", where);
  ck_assert_msg(memcmp(reed_tensor_data(a), reed_tensor_data(b), (size_t)reed_tensor_bytes(a)) == 0, "%s: bits", where);
}

/* Runs both and the host, and compares all outputs. */
static void run_pair(pair *p, reed_tensor *const *in) {
  enum { MOST = 4 };
  reed_tensor *of[3][MOST];
  size_t n = reed_program_output_count(p->m.program);
  ck_assert_uint_le(n, MOST);
  run_session(&p->m, p->with, in, of[0]);
  run_session(&p->m, p->without, in, of[1]);
  run_session(&p->m, p->m.session, in, of[2]);
  for (size_t i = 0; i < n; i++) {
    assert_equal(of[0][i], of[1][i], "with and without graphs");
    for (int k = 0; k < 3; k++) reed_tensor_close(&of[k][i]);
  }
}

/* ---- models ---- */

/* Two epochs: the first computes c and, from z, a number of elements, which the host reads; the second takes so many
 * elements of c, and c dies in the middle of it. */
static onnx_build *two_epochs(void) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_input(b, "y", "f32[n]");
  build_input(b, "z", "f32[1]");
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_node(b, "Neg", "x", "a");
  build_node(b, "Mul", "a,y", "b");
  build_node(b, "Sub", "b,x", "c");
  build_node(b, "Add", "z,z", "z2");
  build_int(b, build_node(b, "Cast", "z2", "count"), "to", 7);
  build_node(b, "Slice", "c,zero,count", "s");
  build_node(b, "Mul", "s,z", "t");
  build_node(b, "Abs", "t", "u");
  build_node(b, "Sub", "u,s", "v");
  build_output(b, "v", "f32[k]");
  build_output(b, "b", "f32[n]");
  return b;
}

static void two_epochs_inputs(int64_t n, int64_t count, int round, reed_tensor **in) {
  in[0] = floats(1, (int64_t[]){n}, (float)round);
  in[1] = floats(1, (int64_t[]){n}, 0.5f);
  in[2] = floats(1, (int64_t[]){1}, (float)count / 2);
}

static void close_all(reed_tensor **in, int n) {
  for (int i = 0; i < n; i++) reed_tensor_close(&in[i]);
}

/* y = 2x + 1 and z = |y|: two launches, because y is an output. */
static onnx_build *two_kernels(void) {
  onnx_build *b = affine("f32[n,3]");
  build_node(b, "Abs", "y", "z");
  build_output(b, "z", "f32[n,3]");
  return b;
}

/* ---- what is recorded ---- */

START_TEST(the_second_run_records_and_the_third_replays) {
  pair p = pair_open(two_epochs(), devices[_i]);
  reed_tensor *in[3];
  int64_t replayed = 0;
  for (int round = 0; round < 7; round++) {
    two_epochs_inputs(100, 40, round, in);
    run_pair(&p, in);
    close_all(in, 3);
    int64_t captured = statistic_of(p.with, "captured");
    replayed = statistic_of(p.with, "replayed");
    if (round == 0) ck_assert_int_eq(captured, 0);
    if (round == 1) ck_assert_int_eq(captured, 2); /* a stretch of each epoch */
    if (round < 2) ck_assert_int_eq(replayed, 0);
  }
  ck_assert_int_ge(replayed, 6);
  ck_assert_int_eq(statistic_of(p.with, "refused"), 0);
  pair_close(&p);
}
END_TEST

/* Sizes and counts that take turns, in a memo that keeps all or evicts each other's entries while work is queued. */
START_TEST(entries_that_are_evicted_take_their_graphs_along) {
  static const int64_t sizes[][2] = {{50, 7}, {700, 300}, {50, 7}, {50, 9}, {3, 1}, {700, 300}, {50, 7}, {3, 0}};
  pair p = pair_open(two_epochs(), devices[_i]);
  reed_session *small = NULL;
  reed_session_options options = {.device = devices[_i], .n_threads = 1, .memo_entries = 1};
  ck_assert_int_eq(reed_session_open(p.m.program, &options, &small, p.m.said), REED_OK);
  reed_tensor *in[3], *a[2], *b[2];
  for (int round = 0; round < 6; round++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      two_epochs_inputs(sizes[i][0], sizes[i][1], round, in);
      run_pair(&p, in);
      for (int again = 0; again < 3; again++) {
        run_session(&p.m, small, in, a);
        run_session(&p.m, p.without, in, b);
        for (int k = 0; k < 2; k++) {
          assert_equal(a[k], b[k], "a memo of one entry");
          reed_tensor_close(&a[k]);
          reed_tensor_close(&b[k]);
        }
      }
      close_all(in, 3);
    }
  ck_assert_int_gt(statistic_of(small, "captured"), 8);
  ck_assert_int_gt(statistic_of(small, "evictions"), 8);
  ck_assert_int_gt(statistic_of(p.with, "replayed"), 8);
  reed_session_close(&small);
  pair_close(&p);
}
END_TEST

/* A Loop with an If in its body: the body's epochs hit within one run, so that graphs are recorded and replayed between
 * two synchronisations; the state takes turns between two blocks. */
START_TEST(bodies_of_loops_are_replayed_within_a_run) {
  pair p = pair_open(looped_model(), devices[_i]);
  reed_tensor *in[2];
  ck_assert_int_eq(reed_tensor_open(REED_I64, 0, NULL, &in[1]), REED_OK);
  for (int64_t n = 0; n < 14; n++) {
    in[0] = floats(1, (int64_t[]){5 + n % 3}, (float)n - 3);
    *(int64_t *)reed_tensor_data(in[1]) = n;
    run_pair(&p, in);
    reed_tensor_close(&in[0]);
  }
  ck_assert_int_gt(statistic_of(p.with, "replayed"), 5);
  reed_tensor_close(&in[1]);
  pair_close(&p);
}
END_TEST

/* A decoder's step, run for growing pasts twice: the second sequence replays the first one's graphs. */
START_TEST(a_growing_cache_replays_when_its_lengths_come_again) {
  onnx_build *b = build_open(17);
  build_input(b, "q", "f32[1,t,4]");
  build_input(b, "past", "f32[1,p,4]");
  build_int(b, build_node(b, "Concat", "past,q", "k"), "axis", 1);
  build_ints(b, build_node(b, "Transpose", "k", "kt"), "perm", "0,2,1");
  build_node(b, "MatMul", "q,kt", "scores");
  build_node(b, "Relu", "scores", "weights");
  build_node(b, "MatMul", "weights,k", "y");
  build_output(b, "y", "f32[1,t,4]");
  build_output(b, "k", "f32[1,n,4]");
  pair p = pair_open(b, devices[_i]);
  for (int sequence = 0; sequence < 5; sequence++) {
    reed_tensor *in[2] = {NULL, floats(3, (int64_t[]){1, 0, 4}, 0)}, *out[2], *other[2];
    for (int step = 0; step < 6; step++) {
      in[0] = floats(3, (int64_t[]){1, step ? 1 : 3, 4}, (float)(step * 7 + sequence) / 16);
      run_session(&p.m, p.with, in, out);
      run_session(&p.m, p.without, in, other);
      for (int k = 0; k < 2; k++) assert_equal(out[k], other[k], "a step");
      close_all(other, 2);
      reed_tensor_close(&in[0]);
      reed_tensor_close(&in[1]);
      reed_tensor_close(&out[0]);
      in[1] = out[1];
    }
    reed_tensor_close(&in[1]);
  }
  ck_assert_int_ge(statistic_of(p.with, "captured"), 6);
  ck_assert_int_ge(statistic_of(p.with, "replayed"), 6);
  pair_close(&p);
}
END_TEST

/* Hand-written: the second epoch kills a tensor of the first one in the middle of its run section, while the launches
 * that read it still wait for their graph. Its memory must stay theirs. (No copy writes it, because the target of a
 * copy is held until the next synchronisation.) */
static const char killed_key[] = ".module \"m\" producer \"test\" \"1\" devices 2\n"
                                 ".type t0 = f32[n] \"x\"\n"
                                 ".type t1 = f32[n] \"y\"\n"
                                 ".inputs t0\n"
                                 ".outputs t1\n"
                                 ".site neg = Neg (1 -> 1) \"neg\"\n"
                                 ".site sub = Sub (2 -> 1) \"sub\"\n"
                                 ".site add = Add (2 -> 1) \"add\"\n"
                                 ".site abs = Abs (1 -> 1) \"abs\"\n"
                                 ".function main (t0) -> (t1) registers 9 0\n"
                                 "  assert.shape r0, t0\n"
                                 "  epoch.enter 0, plan, [r0:shape], []\n"
                                 "  shape.like r1, r0, device\n"
                                 "  shape neg, device, [r6], [r1:shape]\n"
                                 "  shape sub, device, [r2], [r6:shape, r1:shape]\n"
                                 "plan:\n"
                                 "  epoch.plan 0\n"
                                 "  copy r1, r0, input, neg, 0\n"
                                 "  invoke neg, device, [r6], [r1]\n"
                                 "  invoke sub, device, [r2], [r6, r1]\n"
                                 "  kill r6\n"
                                 "  kill r1\n"
                                 "  epoch.end 0\n"
                                 "  epoch.enter 1, more, [r2:shape], []\n"
                                 "  shape add, device, [r3], [r2:shape, r2:shape]\n"
                                 "  shape abs, device, [r4], [r3:shape]\n"
                                 "more:\n"
                                 "  epoch.plan 1\n"
                                 "  invoke add, device, [r3], [r2, r2]\n"
                                 "  kill r2\n"
                                 "  invoke abs, device, [r4], [r3]\n"
                                 "  kill r3\n"
                                 "  epoch.end 1\n"
                                 "  readback r5, r4, output, abs, 0\n"
                                 "  sync\n"
                                 "  kill r4\n"
                                 "  return [r5], []\n";

START_TEST(memory_of_a_killed_tensor_stays_with_the_launches_that_wait) {
  model m = {0};
  void *bytes = NULL;
  size_t n = 0;
  ck_assert_int_eq(reed_diagnosis_open(&m.said), REED_OK);
  reed_status status = reed_module_assemble(killed_key, NULL, &bytes, &n, m.said);
  if (status == REED_OK) status = reed_program_open_bytes(bytes, n, NULL, &m.program, m.said);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(m.said));
  reed_text_free(bytes);
  m.session = session_of(&m, devices[_i]);
  reed_tensor *x = floats(1, (int64_t[]){100}, 1), *out;
  for (int run = 0; run < 6; run++) {
    run_model(&m, &x, &out);
    assert_floats(out, 4, 1, 0);
    reed_tensor_close(&out);
  }
  ck_assert_int_gt(statistic_of(m.session, "replayed"), 1);
  reed_tensor_close(&x);
  model_close(&m);
}
END_TEST

/* ---- pointers that move ---- */

/* A run with one of some inputs, and the session's figures after it. */
typedef struct graph_step {
  int input;
  int64_t captured, replayed, moved;
} graph_step;

static void assert_step(reed_session *session, size_t i, const graph_step *step) {
  const int64_t captured = statistic_of(session, "captured"), replayed = statistic_of(session, "replayed"),
                moved = statistic_of(session, "moved");
  ck_assert_msg(captured == step->captured && replayed == step->replayed && moved == step->moved,
                "step %zu: %lld captured, %lld replayed, %lld moved", i, (long long)captured, (long long)replayed,
                (long long)moved);
}

/* Inputs that lie on the device: a graph is replayed only for the caller's addresses with which it was recorded. */
START_TEST(a_pointer_that_moved_runs_without_the_graph) {
  pair p = pair_open(two_kernels(), devices[_i]);
  enum { INPUTS = 7 };
  reed_tensor *on[INPUTS], *out[2];
  for (int i = 0; i < INPUTS; i++) {
    reed_tensor *x = floats(2, (int64_t[]){4, 3}, (float)i);
    on[i] = on_device(x, devices[_i]);
    reed_tensor_close(&x);
  }
  static const graph_step steps[] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 1, 1, 0}, {1, 1, 1, 1}, {0, 1, 2, 1},
                                     {1, 2, 2, 1}, {1, 2, 3, 1}, {0, 2, 4, 1}, {2, 2, 4, 2}, {3, 2, 4, 3},
                                     {4, 2, 4, 4}, {5, 2, 4, 5}, /* kept are the lists of 2 to 5 */
                                     {0, 3, 4, 5}, {0, 3, 5, 5}, {1, 3, 5, 6}, {1, 4, 5, 6}, {1, 4, 6, 6}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    run_session(&p.m, p.with, &on[steps[i].input], out);
    assert_floats(out[0], 2, steps[i].input, 1);
    assert_floats(out[1], 2, steps[i].input, 1);
    close_all(out, 2);
    assert_step(p.with, i, &steps[i]);
  }
  close_all(on, INPUTS);
  pair_close(&p);
}
END_TEST

/* The same beside a count that stays on the device: another count makes no other graph, another pointer does. */
START_TEST(a_pointer_that_moved_beside_a_count_runs_without_the_graph) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_f32(b, "least", "", (float[]){6});
  build_i64(b, "line", "1", (int64_t[]){-1});
  build_node(b, "Greater", "x,least", "above");
  build_node(b, "NonZero", "above", "found");
  build_node(b, "Reshape", "found,line", "places");
  build_node(b, "Gather", "x,places", "chosen");
  build_node(b, "Abs", "chosen", "y");
  build_output(b, "y", "f32[m]");
  pair p = {.m = model_open(b, "host", REED_COUNTS_DEVICE)};
  p.with = session_with(&p.m, devices[_i], REED_GRAPHS_AUTO);
  p.without = session_with(&p.m, devices[_i], REED_GRAPHS_OFF);
  static const struct {
    float first; /* of 12 elements */
    int64_t chosen;
  } inputs[] = {{0, 5}, {4, 9}, {-8, 0}};
  static const graph_step steps[] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 1, 1, 0}, {1, 1, 1, 1}, {0, 1, 2, 1},
                                     {1, 2, 2, 1}, {1, 2, 3, 1}, {0, 2, 4, 1}, {2, 2, 4, 2}, {2, 3, 4, 2}};
  enum { INPUTS = sizeof inputs / sizeof *inputs };
  reed_tensor *on[INPUTS], *out, *other;
  for (int i = 0; i < INPUTS; i++) {
    reed_tensor *x = floats(1, (int64_t[]){12}, inputs[i].first);
    on[i] = on_device(x, devices[_i]);
    reed_tensor_close(&x);
  }
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    run_session(&p.m, p.with, &on[steps[i].input], &out);
    run_session(&p.m, p.without, &on[steps[i].input], &other);
    ck_assert_int_eq(reed_tensor_dims(out)[0], inputs[steps[i].input].chosen);
    assert_equal(out, other, "with and without graphs");
    reed_tensor_close(&out);
    reed_tensor_close(&other);
    assert_step(p.with, i, &steps[i]);
  }
  close_all(on, INPUTS);
  pair_close(&p);
}
END_TEST

/* A block that was released and given out again at the same address is another block: its graph is refused, and the
 * run goes on without it. */
START_TEST(a_released_block_costs_the_graph_only) {
  pair p = pair_open(two_kernels(), devices[_i]);
  for (int i = 0; i < 8; i++) {
    reed_tensor *x = floats(2, (int64_t[]){4, 3}, (float)i), *on = on_device(x, devices[_i]), *out[2];
    run_session(&p.m, p.with, &on, out);
    assert_floats(out[1], 2, i, 1);
    close_all(out, 2);
    reed_tensor_close(&on);
    reed_tensor_close(&x);
  }
  pair_close(&p);
}
END_TEST

/* ---- failures ---- */

START_TEST(a_run_cancelled_at_any_kernel_leaves_the_session_whole) {
  pair p = pair_open(two_epochs(), devices[_i]);
  reed_tensor *in[3], *out[2], *want[2];
  two_epochs_inputs(30, 12, 1, in);
  run_session(&p.m, p.without, in, want);
  int64_t kernels = reed_session_kernel_count(p.without);
  ck_assert_int_ge(kernels, 4);
  for (int64_t at = 1; at <= 4 * kernels; at += _i < 2 ? 1 : 3) {
    reed_session *session = NULL;
    reed_session_options options = {.device = devices[_i], .n_threads = 1, .cancel_at_kernel = at};
    ck_assert_int_eq(reed_session_open(p.m.program, &options, &session, p.m.said), REED_OK);
    int cancelled = 0;
    for (int run = 0; run < 9; run++) {
      reed_status status = reed_session_run(session, in, 3, out, 2, p.m.said);
      if (status == REED_OK) {
        for (int k = 0; k < 2; k++) assert_equal(out[k], want[k], "around a cancelled run");
        close_all(out, 2);
      } else {
        ck_assert_int_eq(status, REED_ERROR_CANCELLED);
        cancelled++;
      }
    }
    ck_assert_int_le(cancelled, 1); /* the flag may be raised after the run has polled it for the last time */
    ck_assert_int_gt(statistic_of(session, "replayed"), 0);
    reed_session_close(&session);
  }
  close_all(want, 2);
  close_all(in, 3);
  pair_close(&p);
}
END_TEST

/* An index out of range in a replayed launch: the same sentence as without graphs, and the session runs again. */
START_TEST(a_fault_in_a_replayed_launch_names_its_node) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_input(b, "i", "i64[k]");
  build_node(b, "Neg", "x", "a");
  build_node(b, "Gather", "a,i", "g");
  build_node(b, "Abs", "g", "y");
  build_output(b, "y", "f32[k]");
  pair p = pair_open(b, devices[_i]);
  reed_tensor *in[2] = {floats(1, (int64_t[]){5}, 1), NULL}, *out;
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){3}, &in[1]), REED_OK);
  int64_t *index = reed_tensor_data(in[1]);
  for (int round = 0; round < 8; round++) {
    index[0] = 0, index[1] = -5, index[2] = round % 3 == 2 ? 5 : 4;
    if (index[2] != 5) {
      run_pair(&p, in);
      continue;
    }
    char said[2][400];
    for (int k = 0; k < 2; k++) {
      ck_assert_int_ne(reed_session_run(k ? p.without : p.with, in, 2, &out, 1, p.m.said), REED_OK);
      snprintf(said[k], sizeof said[k], "%s", reed_diagnosis_message(p.m.said));
    }
    ck_assert_str_eq(said[0], said[1]);
    ck_assert_ptr_nonnull(strstr(said[0], "5"));
  }
  ck_assert_int_gt(statistic_of(p.with, "replayed"), 1);
  close_all(in, 2);
  pair_close(&p);
}
END_TEST

/* Every request for memory of runs that record and replay, failed once: the run fails or goes on without a graph, later
 * ones are right, and nothing is lost. */
START_TEST(every_allocation_failed_once_costs_a_run_or_a_graph) {
  if (_i >= N_SIMS && _i != N_SIMS) return;
  int64_t without_graph = 0;
  for (int64_t n = 1;; n += _i ? 4 : 1) {
    model m = model_open(two_kernels(), "host", REED_COUNTS_HOST);
    alloc_hook_begin();
    reed_session *session = session_with(&m, devices[_i], REED_GRAPHS_AUTO);
    reed_tensor *x = floats(2, (int64_t[]){40, 3}, 0), *out[2] = {NULL, NULL};
    bool reached = false;
    for (int run = 0; run < 7; run++) {
      if (run == 1) alloc_hook_fail_at(n);
      reed_status status = reed_session_run(session, &x, 1, out, 2, m.said);
      bool failed = !reached && alloc_hook_failed();
      reached |= failed;
      ck_assert_msg(status == REED_OK || (failed && status == REED_ERROR_MEMORY), "request %lld, run %d: %s",
                    (long long)n, run, reed_diagnosis_message(m.said));
      without_graph += failed && status == REED_OK;
      if (status != REED_OK) continue;
      const float *y = reed_tensor_data(out[1]);
      for (int i = 0; i < 120; i++) ck_assert_float_eq(y[i], 2 * (float)i + 1);
      close_all(out, 2);
    }
    reed_tensor_close(&x);
    reed_session_close(&session);
    ck_assert_int_eq(alloc_hook_end(), 0);
    model_close(&m);
    if (!reached) break;
  }
  ck_assert_int_gt(without_graph, 0);
}
END_TEST

/* ---- choices ---- */

static int64_t graphs_in_trace(model *m, const char *device, reed_graphs graphs) {
  reed_session *session = NULL;
  reed_session_options options = {.device = device, .n_threads = 1, .graphs = graphs, .profile = true};
  ck_assert_int_eq(reed_session_open(m->program, &options, &session, m->said), REED_OK);
  reed_tensor *x = floats(2, (int64_t[]){4, 3}, 0), *out[2];
  for (int i = 0; i < 8; i++) {
    run_session(m, session, &x, out);
    assert_floats(out[1], 2, 0, 1);
    close_all(out, 2);
  }
  char *profile = NULL, *trace = NULL;
  ck_assert_int_eq(reed_session_profile_json(session, &profile, m->said), REED_OK);
  ck_assert_ptr_nonnull(strstr(profile, "\"graphs\":"));
  ck_assert_int_eq(reed_session_trace_json(session, &trace, m->said), REED_OK);
  int64_t n = 0;
  for (const char *at = trace; (at = strstr(at, "graph of 2 launches")); at++) n++;
  reed_text_free(profile);
  reed_text_free(trace);
  reed_tensor_close(&x);
  reed_session_close(&session);
  return n;
}

/* Spans are those of single kernels, unless graphs are asked for: then a graph has one span. */
START_TEST(the_trace_has_spans_of_graphs_if_they_are_asked_for) {
  model m = model_open(two_kernels(), "host", REED_COUNTS_HOST);
  ck_assert_int_eq(graphs_in_trace(&m, devices[_i], REED_GRAPHS_AUTO), 0);
  ck_assert_int_eq(graphs_in_trace(&m, devices[_i], REED_GRAPHS_OFF), 0);
  ck_assert_int_ge(graphs_in_trace(&m, devices[_i], REED_GRAPHS_ON), 3);
  reed_session *session = NULL;
  ck_assert_int_eq(reed_session_open(m.program, &(reed_session_options){.graphs = (reed_graphs)9}, &session, m.said),
                   REED_ERROR_ARGUMENT);
  model_close(&m);
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("graphs");
  int n = n_devices();
  tcase_add_loop_test(cases, the_second_run_records_and_the_third_replays, 0, n);
  tcase_add_loop_test(cases, entries_that_are_evicted_take_their_graphs_along, 0, n);
  tcase_add_loop_test(cases, bodies_of_loops_are_replayed_within_a_run, 0, n);
  tcase_add_loop_test(cases, a_growing_cache_replays_when_its_lengths_come_again, 0, n);
  tcase_add_loop_test(cases, memory_of_a_killed_tensor_stays_with_the_launches_that_wait, 0, n);
  tcase_add_loop_test(cases, a_pointer_that_moved_runs_without_the_graph, 0, n);
  tcase_add_loop_test(cases, a_pointer_that_moved_beside_a_count_runs_without_the_graph, 0, n);
  tcase_add_loop_test(cases, a_released_block_costs_the_graph_only, 0, n);
  tcase_add_loop_test(cases, a_run_cancelled_at_any_kernel_leaves_the_session_whole, 0, n);
  tcase_add_loop_test(cases, a_fault_in_a_replayed_launch_names_its_node, 0, n);
  tcase_add_loop_test(cases, every_allocation_failed_once_costs_a_run_or_a_graph, 0, n);
  tcase_add_loop_test(cases, the_trace_has_spans_of_graphs_if_they_are_asked_for, 0, n);
  return run_suite(cases, "graphs");
}
