/* Caches that grow in place: inputs that leave as outputs with new rows joined to them, in memory that the caller
 * binds. Every step is compared bit for bit with a session that binds nothing; the emulated GPU, whose kernels round in
 * another order, with one on that device without graphs, and with the host within a tolerance. */
#include <stdio.h>

#include "tests/devices.h"
#include "tests/whole/cached_model.h"

/* The last one is absent where there is no C++ compiler. */
static const char *const devices[] = {"host", "sim", "sim:1?poison=1&late=1", "cuda-emulated?poison=1&late=1&seed=3"};
enum { N_DEVICES = sizeof devices / sizeof *devices, EMULATED = N_DEVICES - 1 };

static int n_devices(void) { return device_is_present("cuda-emulated") ? N_DEVICES : EMULATED; }

typedef struct cache {
  model m;
  reed_session *plain;      /* a session on the host that binds nothing */
  reed_session *unrecorded; /* a session on the emulated GPU that binds nothing, without graphs */
  const char *device;
  spelling spelling;
  int64_t batch, heads;
  reed_tensor *memory[2]; /* bound for K and V */
} cache;

static void dims_of(const cache *c, int which, int64_t length, int64_t *dims) {
  spelling s = which == 2 || (which == 1 && c->spelling == TRANSPOSED) ? JOINED : c->spelling;
  int64_t all[4] = {c->batch, c->heads, length, D};
  if (s == TRANSPOSED) all[2] = D, all[3] = length;
  if (s == LENGTH_FIRST) all[1] = length, all[2] = c->heads;
  memcpy(dims, all, sizeof all);
}

/* which: 0 keys, 1 values, 2 queries. */
static reed_tensor *rows(const cache *c, int which, int64_t length, int seed) {
  int64_t dims[4];
  dims_of(c, which, length, dims);
  reed_tensor *t = floats(4, dims, 0);
  float *x = reed_tensor_data(t);
  uint32_t state = (uint32_t)(seed * 3 + which) * 2654435761u + 1;
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) / 8388608 - 1;
  }
  return t;
}

static int32_t axis_in(const cache *c, int which) {
  return which == 1 && c->spelling == TRANSPOSED ? 2 : axis_of(c->spelling);
}

static void bind_memory(cache *c, int64_t capacity) {
  for (int i = 0; i < 2; i++) {
    int64_t dims[4];
    dims_of(c, i, capacity, dims);
    reed_tensor_close(&c->memory[i]);
    ck_assert_int_eq(reed_tensor_open_on(c->device, REED_F32, 4, dims, &c->memory[i], c->m.said), REED_OK);
    ck_assert_int_eq(reed_session_bind_output(c->m.session, (size_t)i + 1, c->memory[i], axis_in(c, i), c->m.said),
                     REED_OK);
  }
}

static cache cache_open(spelling s, const char *device, int64_t batch, int64_t heads, int64_t capacity) {
  cache c = {.m = model_open(cached(s), device, REED_COUNTS_HOST),
             .device = device,
             .spelling = s,
             .batch = batch,
             .heads = heads};
  c.plain = session_of(&c.m, "host");
  reed_session_options options = {.device = device, .n_threads = 1, .graphs = REED_GRAPHS_OFF};
  if (device == devices[EMULATED])
    ck_assert_int_eq(reed_session_open(c.m.program, &options, &c.unrecorded, c.m.said), REED_OK);
  if (capacity) bind_memory(&c, capacity);
  return c;
}

static void cache_close(cache *c) {
  for (int i = 0; i < 2; i++) reed_tensor_close(&c->memory[i]);
  reed_session_close(&c->plain);
  reed_session_close(&c->unrecorded);
  model_close(&c->m);
}

/* A past and the same on the host, made by the session that binds nothing. */
typedef struct past {
  reed_tensor *grown[2], *plain[2];
} past;

static void past_close(past *p) {
  for (int i = 0; i < 2; i++) {
    reed_tensor_close(&p->grown[i]);
    reed_tensor_close(&p->plain[i]);
  }
}

static past nothing(const cache *c) {
  past p;
  for (int i = 0; i < 2; i++) {
    p.grown[i] = rows(c, i, 0, 0);
    p.plain[i] = reed_tensor_retain(p.grown[i]);
  }
  return p;
}

static void assert_past(const past *p) {
  for (int i = 0; i < 2; i++) assert_same(p->grown[i], p->plain[i], i ? "v" : "k");
}

/* Bits; within a tolerance on the emulated GPU, and with REED_CPU=reference, where an Attention whose outputs have room
 * runs its kernel. */
static void assert_y(reed_tensor *got, reed_tensor *expected, bool on_gpu) {
  if (!on_gpu && !suite_runs_references()) return assert_same(got, expected, "y");
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(got, &host, NULL), REED_OK);
  ck_assert_int_eq(reed_tensor_bytes(host), reed_tensor_bytes(expected));
  for (int64_t i = 0; i < reed_tensor_elements(host); i++)
    ck_assert_float_eq_tol(((float *)reed_tensor_data(host))[i], ((float *)reed_tensor_data(expected))[i], 1e-5f);
  reed_tensor_close(&host);
}

/* The bits of the session without graphs. */
static void assert_unrecorded(cache *c, reed_tensor *got, reed_tensor *const *in) {
  reed_tensor *other[3];
  run_session(&c->m, c->unrecorded, in, other);
  assert_same(got, other[0], "y without graphs");
  for (int i = 0; i < 3; i++) reed_tensor_close(&other[i]);
}

/* Joins n rows to the past. */
static reed_status try_step(cache *c, const past *p, int64_t n, int seed, past *out) {
  reed_tensor *new_k = rows(c, 0, n, seed), *new_v = rows(c, 1, n, seed), *q = rows(c, 2, n, seed);
  reed_tensor *const plain_in[] = {q, p->plain[0], p->plain[1], new_k, new_v};
  reed_tensor *const in[] = {q, p->grown[0], p->grown[1], new_k, new_v};
  reed_tensor *plain_out[3] = {0}, *got[3] = {0};
  reed_status status = reed_session_run(c->m.session, in, 5, got, 3, c->m.said);
  if (status == REED_OK) {
    run_session(&c->m, c->plain, plain_in, plain_out);
    assert_y(got[0], plain_out[0], c->unrecorded != NULL);
    if (c->unrecorded) assert_unrecorded(c, got[0], plain_in);
    *out = (past){{got[1], got[2]}, {plain_out[1], plain_out[2]}};
    assert_past(out);
  }
  reed_tensor_close(&got[0]);
  reed_tensor_close(&plain_out[0]);
  reed_tensor_close(&new_k);
  reed_tensor_close(&new_v);
  reed_tensor_close(&q);
  return status;
}

static past step(cache *c, const past *p, int64_t n, int seed) {
  past made = {0};
  reed_status status = try_step(c, p, n, seed, &made);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(c->m.said));
  return made;
}

static void assert_counts(cache *c, int64_t in_place, int64_t copied) {
  ck_assert_int_eq(statistic_of(c->m.session, "in_place"), in_place);
  ck_assert_int_eq(statistic_of(c->m.session, "copied"), copied);
}

static bool lies_there(const cache *c, const past *p) {
  bool there[2];
  for (int i = 0; i < 2; i++) there[i] = reed_tensor_address(p->grown[i]) == reed_tensor_address(c->memory[i]);
  ck_assert_int_eq(there[0], there[1]);
  return there[0];
}

#define EACH_DEVICE_AND_SPELLING \
  const char *device = devices[_i / N_SPELLINGS]; \
  spelling s = (spelling)(_i % N_SPELLINGS)

/* Steps of one and several rows: nothing of the past is copied, at misses and hits. */
START_TEST(a_cache_grows_in_place) {
  EACH_DEVICE_AND_SPELLING;
  cache c = cache_open(s, device, 2, 3, 12);
  for (int round = 0; round < 3; round++) { /* from the second round on the memo has all lengths */
    past p = nothing(&c);
    int64_t length = 0;
    for (int i = 0; i < 6; i++) {
      int64_t n = i % 3 + 1;
      past next = step(&c, &p, n, 10 * round + i);
      ck_assert(lies_there(&c, &next));
      assert_counts(&c, 2, 0);
      ck_assert_int_eq(statistic_of(c.m.session, "in_place_bytes"), 2 * length * 6 * D * 4);
      const char *copies = copies_of(c.m.session);
      ck_assert_msg(!strstr(copies, "host-to-host") && !strstr(copies, "device-to-device"), "%s", copies);
      ck_assert_int_eq(statistic_of(c.m.session, "dense_copies"), 0);
      assert_past(&p);
      past_close(&p);
      p = next;
      length += n;
    }
    past_close(&p);
  }
  ck_assert_int_eq(statistic_of(c.m.session, "hits"), 12);
  cache_close(&c);
}
END_TEST

/* One head and one row: several axes of extent 1 lie side by side. The rows of each batch go to their places, and rows
 * that do not fit are not written. */
START_TEST(a_cache_of_one_row_and_one_head_grows_in_place) {
  EACH_DEVICE_AND_SPELLING;
  if (s == FLAT) return; /* has six heads */
  for (int64_t batch = 1; batch < 4; batch++) {
    cache c = cache_open(s, device, batch, 1, 4);
    past none = nothing(&c), p = step(&c, &none, 1, 0), made;
    ck_assert_int_eq(try_step(&c, &p, 60, 1, &made), REED_ERROR_SHAPE);
    assert_past(&p);
    for (int i = 2; i < 4; i++) {
      made = step(&c, &p, i - 1, i);
      ck_assert(lies_there(&c, &made));
      assert_counts(&c, 2, 0);
      assert_past(&p);
      past_close(&p);
      p = made;
    }
    past_close(&none), past_close(&p);
    cache_close(&c);
  }
}
END_TEST

/* The second of two continuations is computed elsewhere, and so are its own continuations while the first is open. */
START_TEST(two_continuations_of_a_past_do_not_meet) {
  EACH_DEVICE_AND_SPELLING;
  cache c = cache_open(s, device, 2, 3, 12);
  past none = nothing(&c), p = step(&c, &none, 3, 0), a = step(&c, &p, 1, 1);
  ck_assert(lies_there(&c, &a));
  past b = step(&c, &p, 2, 2);
  ck_assert(!lies_there(&c, &b));
  assert_counts(&c, 0, 2);
  ck_assert_int_eq(statistic_of(c.m.session, "copied_bytes"), 2 * 3 * 6 * D * 4);
  past b2 = step(&c, &b, 1, 3), a2 = step(&c, &a, 1, 4);
  ck_assert(!lies_there(&c, &b2) && lies_there(&c, &a2));
  assert_counts(&c, 2, 0);
  past again = step(&c, &p, 1, 1); /* a third continuation of p */
  ck_assert(!lies_there(&c, &again));
  assert_past(&p), assert_past(&a), assert_past(&b), assert_past(&a2), assert_past(&b2), assert_past(&again);
  /* When no tensor lies in the memory any more, the other branch moves there, and grows in place. */
  past_close(&p), past_close(&a), past_close(&a2);
  past b3 = step(&c, &b2, 1, 5);
  ck_assert(lies_there(&c, &b3));
  assert_counts(&c, 0, 2);
  past b4 = step(&c, &b3, 1, 6);
  ck_assert(lies_there(&c, &b4));
  assert_counts(&c, 2, 0);
  assert_past(&b), assert_past(&b2), assert_past(&b3);
  past_close(&none), past_close(&b), past_close(&b2), past_close(&b3), past_close(&b4), past_close(&again);
  cache_close(&c);
}
END_TEST

/* A new sequence does not overwrite a tensor of the last one that is still open. */
START_TEST(a_tensor_that_is_kept_stays_as_it_is) {
  const char *device = devices[_i];
  cache c = cache_open(JOINED, device, 2, 3, 12);
  past none = nothing(&c), kept = step(&c, &none, 4, 0), other = step(&c, &none, 2, 1);
  ck_assert(lies_there(&c, &kept) && !lies_there(&c, &other));
  past more = step(&c, &kept, 1, 2);
  assert_past(&kept);
  past_close(&kept), past_close(&more);
  past fresh = step(&c, &none, 3, 3);
  ck_assert(lies_there(&c, &fresh));
  assert_past(&other), assert_past(&fresh);
  past_close(&none), past_close(&other), past_close(&fresh);
  cache_close(&c);
}
END_TEST

/* Beyond the capacity: an error with both shapes. The past is as it was, and grows on in larger memory. */
START_TEST(a_full_cache_says_so_and_moves_to_larger_memory) {
  EACH_DEVICE_AND_SPELLING;
  cache c = cache_open(s, device, 2, 3, 5);
  past none = nothing(&c), p = step(&c, &none, 4, 0), made;
  for (int again = 0; again < 2; again++) {
    ck_assert_int_eq(try_step(&c, &p, 2, 1, &made), REED_ERROR_SHAPE);
    const char *said = reed_diagnosis_message(c.m.said);
    char have[64], need[64];
    int64_t dims[4];
    dims_of(&c, 0, 6, dims);
    sprintf(need, "f32[%d,%d,%d,%d]", (int)dims[0], (int)dims[1], (int)dims[2], (int)dims[3]);
    dims_of(&c, 0, 5, dims);
    sprintf(have, "f32[%d,%d,%d,%d]", (int)dims[0], (int)dims[1], (int)dims[2], (int)dims[3]);
    ck_assert_msg(strstr(said, "'k'") && strstr(said, need) && strstr(said, have), "%s", said);
    assert_past(&p);
  }
  past full = step(&c, &p, 1, 1);
  ck_assert(lies_there(&c, &full));
  assert_counts(&c, 2, 0);
  bind_memory(&c, 9);
  past larger = step(&c, &full, 2, 2);
  ck_assert(lies_there(&c, &larger));
  assert_counts(&c, 0, 2);
  past on = step(&c, &larger, 2, 3);
  assert_counts(&c, 2, 0);
  assert_past(&full), assert_past(&p);
  past_close(&none), past_close(&p), past_close(&full), past_close(&larger), past_close(&on);
  cache_close(&c);
}
END_TEST

/* A run that is cancelled at any kernel leaves the past as it was, and the next run grows it in place. */
START_TEST(a_cancelled_run_leaves_the_past) {
  const char *device = devices[_i];
  cache c = cache_open(JOINED, device, 2, 3, 40);
  past none = nothing(&c), p = step(&c, &none, 3, 0);
  int64_t kernels = reed_session_kernel_count(c.m.session), length = 3;
  ck_assert_int_gt(kernels, 2);
  if (device == devices[EMULATED])
    kernels--; /* a GPU's kernel does not poll the flag, so a cancellation at the last kernel comes too late */
  reed_session *plain_session = c.m.session;
  for (int64_t at = 1; at <= kernels; at++) {
    reed_session_options options = {.device = device, .n_threads = 1, .cancel_at_kernel = at};
    ck_assert_int_eq(reed_session_open(c.m.program, &options, &c.m.session, c.m.said), REED_OK);
    for (int i = 0; i < 2; i++)
      ck_assert_int_eq(reed_session_bind_output(c.m.session, (size_t)i + 1, c.memory[i], 2, c.m.said), REED_OK);
    past made = {0};
    ck_assert_int_eq(try_step(&c, &p, 2, (int)at, &made), REED_ERROR_CANCELLED);
    assert_past(&p);
    made = step(&c, &p, 1, 100 + (int)at);
    ck_assert(lies_there(&c, &made));
    assert_counts(&c, 2, 0);
    past_close(&p);
    p = made;
    length++;
    reed_session_close(&c.m.session);
  }
  c.m.session = plain_session;
  ck_assert_int_eq(reed_tensor_dims(p.grown[0])[2], length);
  past_close(&none), past_close(&p);
  cache_close(&c);
}
END_TEST

/* A run that fails after the rows were joined (an index out of range) leaves the past, too. */
START_TEST(a_failed_run_leaves_the_past) {
  onnx_build *b = build_open(17);
  build_input(b, "p", "f32[2,3,p,4]");
  build_input(b, "n", "f32[2,3,t,4]");
  build_input(b, "i", "i64[1]");
  build_int(b, build_node(b, "Concat", "p,n", "all"), "axis", 2);
  build_int(b, build_node(b, "Gather", "all,i", "row"), "axis", 2);
  build_output(b, "all", "f32[2,3,a,4]");
  build_output(b, "row", "f32[2,3,1,4]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_tensor *memory = NULL, *first = floats(4, (int64_t[]){2, 3, 2, 4}, 0),
              *none = floats(4, (int64_t[]){2, 3, 0, 4}, 0), *more = floats(4, (int64_t[]){2, 3, 1, 4}, 500),
              *at = NULL, *out[2], *next[2], *host = NULL;
  ck_assert_int_eq(reed_tensor_open_on(devices[_i], REED_F32, 4, (int64_t[]){2, 3, 9, 4}, &memory, m.said), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){1}, &at), REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, 2, m.said), REED_OK);
  run_model(&m, (reed_tensor *[]){none, first, at}, out);
  for (int round = 0; round < 2; round++) {
    *(int64_t *)reed_tensor_data(at) = 7;
    ck_assert_int_eq(reed_session_run(m.session, (reed_tensor *[]){out[0], more, at}, 3, next, 2, m.said),
                     REED_ERROR_VALUE);
    assert_same(out[0], first, "the past");
    *(int64_t *)reed_tensor_data(at) = 2;
  }
  run_model(&m, (reed_tensor *[]){out[0], more, at}, next);
  ck_assert_int_eq(statistic_of(m.session, "in_place"), 1);
  ck_assert_int_eq(reed_tensor_to_host(next[1], &host, NULL), REED_OK);
  for (int i = 0; i < 24; i++) ck_assert_float_eq(((float *)reed_tensor_data(host))[i], 500 + (float)i);
  assert_same(out[0], first, "the past");
  reed_tensor *all[] = {memory, first, none, more, at, out[0], out[1], next[0], next[1], host};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) reed_tensor_close(&all[i]);
  model_close(&m);
}
END_TEST

/* A branch that computes the output from the past in another way: a new tensor, and the past stays as it is. */
START_TEST(an_output_that_does_not_grow_leaves_its_past) {
  bool one = _i / N_DEVICES; /* with one head the memory's rows are dense */
  int64_t b = one ? 1 : 2, h = one ? 1 : 3;
  onnx_build *m_build = build_open(17), *joined = build_subgraph(m_build), *other = build_subgraph(m_build);
  build_input(m_build, "c", "bool[]");
  build_input(m_build, "p", "f32[b,h,p,4]");
  build_input(m_build, "n", "f32[b,h,t,4]");
  build_int(joined, build_node(joined, "Concat", "p,n", "a"), "axis", 2);
  build_output(joined, "a", "f32");
  build_node(other, "Neg", "p", "less");
  build_int(other, build_node(other, "Concat", "n,less", "d"), "axis", 2);
  build_output(other, "d", "f32");
  build_node_t *choice = build_node(m_build, "If", "c", "all");
  build_graph_attr(m_build, choice, "then_branch", joined);
  build_graph_attr(m_build, choice, "else_branch", other);
  build_output(m_build, "all", "f32[b,h,a,4]");
  model m = model_open(m_build, devices[_i % N_DEVICES], REED_COUNTS_HOST);
  reed_session *plain = session_of(&m, "host");
  reed_tensor *memory = NULL, *p = floats(4, (int64_t[]){b, h, 0, 4}, 0), *plain_p = reed_tensor_retain(p);
  ck_assert_int_eq(reed_tensor_open_on(devices[_i % N_DEVICES], REED_F32, 4, (int64_t[]){b, h, 30, 4}, &memory, m.said),
                   REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, 2, m.said), REED_OK);
  for (int round = 0; round < 8; round++) {
    reed_tensor *c = NULL, *n = floats(4, (int64_t[]){b, h, 2, 4}, (float)(100 * round)), *y = NULL, *expected = NULL;
    ck_assert_int_eq(reed_tensor_open(REED_BOOL, 0, NULL, &c), REED_OK);
    for (int joins = 0; joins < 2; joins++) {
      *(bool *)reed_tensor_data(c) = joins;
      run_model(&m, (reed_tensor *[]){c, p, n}, &y);
      run_session(&m, plain, (reed_tensor *[]){c, plain_p, n}, &expected);
      assert_same(y, expected, "the output");
      assert_same(p, plain_p, "the past");
      ck_assert_int_eq(reed_tensor_address(y) == reed_tensor_address(memory), joins || round == 0);
      if (joins) break;
      reed_tensor_close(&y), reed_tensor_close(&expected);
    }
    reed_tensor_close(&p), reed_tensor_close(&plain_p), reed_tensor_close(&n), reed_tensor_close(&c);
    p = y, plain_p = expected;
  }
  reed_tensor_close(&p), reed_tensor_close(&plain_p), reed_tensor_close(&memory);
  reed_session_close(&plain);
  model_close(&m);
}
END_TEST

/* An operator that reads no strides, and a view that only a copy can be, get dense copies that are counted. */
START_TEST(other_readers_get_dense_copies) {
  onnx_build *b = build_open(17);
  build_input(b, "p", "f32[2,3,p,4]");
  build_input(b, "n", "f32[2,3,t,4]");
  build_i64(b, "rows", "2", (int64_t[]){2, -1});
  build_i64(b, "six", "3", (int64_t[]){6, -1, 4});
  build_int(b, build_node(b, "Concat", "p,n", "all"), "axis", 2);
  build_int(b, build_node(b, "CumSum", "all,axis", "sums"), "reverse", 0);
  build_i64(b, "axis", "", (int64_t[]){2});
  build_node(b, "Reshape", "all,rows", "wide");
  build_int(b, build_node(b, "CumSum", "wide,one", "wide_sums"), "reverse", 0);
  build_i64(b, "one", "", (int64_t[]){1});
  build_node(b, "Reshape", "all,six", "flat");
  build_output(b, "all", "f32[2,3,a,4]");
  build_output(b, "sums", "f32[2,3,a,4]");
  build_output(b, "wide_sums", "f32[2,w]");
  build_output(b, "flat", "f32[6,a,4]");
  build_output(b, "wide", "f32[2,w]");
  model m = model_open(b, devices[_i], REED_COUNTS_HOST);
  reed_session *plain = session_of(&m, "host");
  reed_tensor *memory = NULL, *p = floats(4, (int64_t[]){2, 3, 0, 4}, 0), *plain_p = reed_tensor_retain(p);
  ck_assert_int_eq(reed_tensor_open_on(devices[_i], REED_F32, 4, (int64_t[]){2, 3, 9, 4}, &memory, m.said), REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, 2, m.said), REED_OK);
  for (int round = 0; round < 4; round++) {
    reed_tensor *n = floats(4, (int64_t[]){2, 3, 2, 4}, (float)(100 * round)), *out[5], *expected[5];
    run_model(&m, (reed_tensor *[]){p, n}, out);
    int64_t bytes = 2 * 3 * 4 * 4 * 2 * (round + 1);
    ck_assert_int_eq(statistic_of(m.session, "in_place"), 1);
    ck_assert_int_eq(statistic_of(m.session, "dense_bytes") >= 2 * bytes, 1);
    ck_assert_int_eq(statistic_of(m.session, "dense_copies") >= 2, 1);
    run_session(&m, plain, (reed_tensor *[]){plain_p, n}, expected);
    for (int i = 0; i < 5; i++) assert_same(out[i], expected[i], "an output");
    reed_tensor_close(&p), reed_tensor_close(&plain_p), reed_tensor_close(&n);
    p = out[0], plain_p = expected[0];
    for (int i = 1; i < 5; i++) reed_tensor_close(&out[i]), reed_tensor_close(&expected[i]);
  }
  reed_tensor_close(&p), reed_tensor_close(&plain_p), reed_tensor_close(&memory);
  reed_session_close(&plain);
  model_close(&m);
}
END_TEST

/* A strided cache leaves and comes back by DLPack in both forms, with its strides, and still grows in place. */
START_TEST(strided_caches_travel_by_dlpack) {
  const char *device = devices[_i];
  cache c = cache_open(JOINED, device, 2, 3, 12);
  past none = nothing(&c), p = step(&c, &none, 3, 0);
  for (int round = 0; round < 4; round++) {
    for (int i = 0; i < 2; i++) {
      reed_tensor *back = NULL;
      if (round % 2) {
        DLManagedTensor *view;
        ck_assert_int_eq(reed_tensor_to_dlpack(p.grown[i], &view), REED_OK);
        ck_assert(view->dl_tensor.strides[0] == 3 * 12 * D && view->dl_tensor.strides[1] == 12 * D &&
                  view->dl_tensor.strides[2] == D && view->dl_tensor.strides[3] == 1);
        ck_assert_int_eq(reed_tensor_from_dlpack(view, &back), REED_OK);
      } else {
        DLManagedTensorVersioned *view;
        ck_assert_int_eq(reed_tensor_to_dlpack_versioned(p.grown[i], false, &view, NULL), REED_OK);
        ck_assert_int_eq(view->dl_tensor.strides[1], 12 * D);
        ck_assert_int_eq(reed_tensor_from_dlpack_versioned(view, &back, NULL), REED_OK);
      }
      ck_assert(!reed_tensor_is_dense(back) && reed_tensor_address(back) == reed_tensor_address(c.memory[i]));
      reed_tensor_close(&p.grown[i]);
      p.grown[i] = back;
    }
    past next = step(&c, &p, 1, round);
    ck_assert(lies_there(&c, &next));
    assert_counts(&c, 2, 0);
    assert_past(&p);
    past_close(&p);
    p = next;
  }
  past_close(&none), past_close(&p);
  cache_close(&c);
}
END_TEST

/* Memory that was never bound may hold first rows that the caller wrote. Later only the memory's own mark of written
 * rows counts. */
START_TEST(memory_with_rows_of_the_caller_grows_in_place) {
  const char *device = devices[_i];
  cache c = cache_open(JOINED, device, 2, 3, 0);
  past none = nothing(&c), first = step(&c, &none, 3, 0), p = {{0}, {0}};
  int64_t capacity = 8, shape[4] = {2, 3, 3, D}, strides[4] = {3 * capacity * D, capacity * D, D, 1};
  for (int i = 0; i < 2; i++) {
    reed_tensor *host = floats(4, (int64_t[]){2, 3, capacity, D}, -1000);
    for (int64_t head = 0; head < 6; head++)
      memcpy((float *)reed_tensor_data(host) + head * capacity * D,
             (float *)reed_tensor_data(first.plain[i]) + head * 3 * D, sizeof(float) * 3 * D);
    c.memory[i] = on_device(host, device);
    reed_tensor_close(&host);
    DLManagedTensorVersioned *view;
    ck_assert_int_eq(reed_tensor_to_dlpack_versioned(c.memory[i], false, &view, NULL), REED_OK);
    view->dl_tensor.shape = shape;
    view->dl_tensor.strides = strides;
    ck_assert_int_eq(reed_tensor_from_dlpack_versioned(view, &p.grown[i], NULL), REED_OK);
    p.plain[i] = reed_tensor_retain(first.plain[i]);
    ck_assert_int_eq(reed_session_bind_output(c.m.session, (size_t)i + 1, c.memory[i], 2, c.m.said), REED_OK);
  }
  past a = step(&c, &p, 1, 1);
  ck_assert(lies_there(&c, &a));
  assert_counts(&c, 2, 0);
  past b = step(&c, &p, 1, 2);
  ck_assert(!lies_there(&c, &b));
  assert_past(&p), assert_past(&a), assert_past(&b);
  past_close(&none), past_close(&first), past_close(&p), past_close(&a), past_close(&b);
  cache_close(&c);
}
END_TEST

/* Two sessions share the memory and its mark. */
START_TEST(the_mark_belongs_to_the_memory) {
  const char *device = devices[_i];
  cache c = cache_open(JOINED, device, 2, 3, 9);
  reed_session *first = c.m.session, *second = session_of(&c.m, device);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(reed_session_bind_output(second, (size_t)i + 1, c.memory[i], 2, c.m.said), REED_OK);
  past none = nothing(&c), p = step(&c, &none, 3, 0);
  c.m.session = second;
  past a = step(&c, &p, 1, 1);
  assert_counts(&c, 2, 0);
  c.m.session = first;
  past b = step(&c, &p, 1, 2), a2 = step(&c, &a, 1, 3);
  ck_assert(lies_there(&c, &a) && !lies_there(&c, &b) && lies_there(&c, &a2));
  assert_past(&p), assert_past(&a), assert_past(&b), assert_past(&a2);
  reed_session_close(&second);
  past_close(&none), past_close(&p), past_close(&a), past_close(&b), past_close(&a2);
  cache_close(&c);
}
END_TEST

/* Without bound memory, or with memory of other extents along the axis only, results stay the same, and the past is
 * copied. */
START_TEST(caches_that_are_not_bound_are_copied) {
  const char *device = devices[_i];
  cache c = cache_open(JOINED, device, 2, 3, 0);
  past none = nothing(&c), p = step(&c, &none, 3, 0), q = step(&c, &p, 2, 1);
  assert_counts(&c, 0, 2);
  ck_assert_int_eq(statistic_of(c.m.session, "copied_bytes"), 2 * 3 * 6 * D * 4);
  past_close(&none), past_close(&p), past_close(&q);
  cache_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("caches");
  int n = n_devices();
  TCase *cases = tcase_create("caches");
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, a_cache_grows_in_place, 0, n * N_SPELLINGS);
  tcase_add_loop_test(cases, a_cache_of_one_row_and_one_head_grows_in_place, 0, n * N_SPELLINGS);
  tcase_add_loop_test(cases, two_continuations_of_a_past_do_not_meet, 0, n * N_SPELLINGS);
  tcase_add_loop_test(cases, a_tensor_that_is_kept_stays_as_it_is, 0, n);
  tcase_add_loop_test(cases, a_full_cache_says_so_and_moves_to_larger_memory, 0, n * N_SPELLINGS);
  tcase_add_loop_test(cases, a_cancelled_run_leaves_the_past, 0, n);
  tcase_add_loop_test(cases, a_failed_run_leaves_the_past, 0, n);
  tcase_add_loop_test(cases, an_output_that_does_not_grow_leaves_its_past, 0, 2 * n);
  tcase_add_loop_test(cases, other_readers_get_dense_copies, 0, n);
  tcase_add_loop_test(cases, strided_caches_travel_by_dlpack, 0, n);
  tcase_add_loop_test(cases, memory_with_rows_of_the_caller_grows_in_place, 0, n);
  tcase_add_loop_test(cases, the_mark_belongs_to_the_memory, 0, n);
  tcase_add_loop_test(cases, caches_that_are_not_bound_are_copied, 0, n);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
