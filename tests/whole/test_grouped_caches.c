/* The caches of onnxruntime's GroupQueryAttention in memory that the caller binds: as long as the past and growing with
 * each run, or with capacity from the beginning; sequences of equal and of different lengths. Caches are compared bit
 * for bit with those of a session on the host that binds nothing. */
#include "tests/devices.h"
#include "tests/whole/model.h"

static const char *const devices[] = {"host", "sim", "sim:1?poison=1&late=1", "cuda-emulated",
                                      "cuda-emulated?late=1&poison=1&seed=3&order=7"};
enum { N_DEVICES = sizeof devices / sizeof *devices, B = 2, HEADS = 4, KEY_HEADS = 2, D = 4, CAPACITY = 12 };

static bool is_there(const char *device) { return !strstr(device, "cuda") || device_is_present("cuda-emulated"); }

static onnx_build *grouped(bool windowed) {
  onnx_build *b = build_open(20);
  build_input(b, "q", "f32[b,t,16]");
  build_input(b, "k", "f32[b,t,8]");
  build_input(b, "v", "f32[b,t,8]");
  build_input(b, "pk", "f32[b,2,p,4]");
  build_input(b, "pv", "f32[b,2,p,4]");
  build_input(b, "mask", "i64[b,all]"); /* 1 at the tokens of a sequence, as exporters for onnxruntime have it */
  build_i64(b, "one", "1", (int64_t[]){1});
  build_node(b, "ReduceSum", "mask,one", "sums");
  build_node(b, "Sub", "sums,one", "last");
  build_int(b, build_node(b, "Cast", "last", "lengths"), "to", 6);
  build_node(b, "Shape", "mask", "shape");
  build_node(b, "Gather", "shape,one", "total");
  build_int(b, build_node(b, "Cast", "total", "longest"), "to", 6);
  build_node_t *n = build_node(b, "com.microsoft.GroupQueryAttention", "q,k,v,pk,pv,lengths,longest", "y,nk,nv");
  build_int(b, n, "num_heads", HEADS);
  build_int(b, n, "kv_num_heads", KEY_HEADS);
  if (windowed) build_int(b, n, "local_window_size", 3);
  build_output(b, "y", "f32[b,t,16]");
  build_output(b, "nk", "f32[b,2,rows,4]");
  build_output(b, "nv", "f32[b,2,rows,4]");
  return b;
}

typedef struct cache {
  model m;
  reed_session *plain;
  const char *device;
  reed_tensor *memory[2];
} cache;

/* The caches of one version, in bound memory and of the session that binds nothing. */
typedef struct past {
  reed_tensor *grown[2], *plain[2];
} past;

static void past_close(past *p) {
  for (int i = 0; i < 2; i++) reed_tensor_close(&p->grown[i]), reed_tensor_close(&p->plain[i]);
}

static cache cache_open(const char *device, bool windowed, int64_t capacity) {
  cache c = {.m = model_open(grouped(windowed), device, REED_COUNTS_HOST), .device = device};
  c.plain = session_of(&c.m, "host");
  for (size_t i = 0; i < 2; i++) {
    reed_tensor *host = floats(4, (int64_t[]){B, KEY_HEADS, capacity, D}, -1000);
    c.memory[i] = on_device(host, device);
    reed_tensor_close(&host);
    ck_assert_int_eq(reed_session_bind_output(c.m.session, 1 + i, c.memory[i], 2, c.m.said), REED_OK);
  }
  return c;
}

static void cache_close(cache *c) {
  for (int i = 0; i < 2; i++) reed_tensor_close(&c->memory[i]);
  reed_session_close(&c->plain);
  model_close(&c->m);
}

static past past_of(const cache *c, int64_t rows) {
  past p;
  for (int i = 0; i < 2; i++) {
    p.plain[i] = floats(4, (int64_t[]){B, KEY_HEADS, rows, D}, (float)i);
    p.grown[i] = on_device(p.plain[i], c->device);
  }
  return p;
}

/* Numbers between -1 and 1. */
static reed_tensor *small(int64_t n, int64_t width, int seed) {
  reed_tensor *t = floats(3, (int64_t[]){B, n, width}, 0);
  float *x = reed_tensor_data(t);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) x[i] = (float)((i * 37 + seed * 101) % 41) / 20.5F - 1;
  return t;
}

static void assert_near(reed_tensor *got, reed_tensor *expected) {
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(got, &host, NULL), REED_OK);
  const float *x = reed_tensor_data(host), *y = reed_tensor_data(expected);
  for (int64_t i = 0; i < reed_tensor_elements(expected); i++)
    ck_assert_float_eq_tol(x[i], y[i], 1e-5F); /* the elements are at most 1 */
  reed_tensor_close(&host);
}

/* A run over n new tokens; `second` of the mask's `all` tokens are of the second sequence. */
static reed_status try_step(cache *c, const past *p, int64_t n, int64_t all, int64_t second, past *out) {
  reed_tensor *mask = NULL, *got[3] = {0}, *expected[3] = {0};
  reed_tensor *q = small(n, HEADS * D, (int)all), *k = small(n, KEY_HEADS * D, (int)all + 1),
              *v = small(n, KEY_HEADS * D, (int)all + 2);
  ck_assert_int_eq(reed_tensor_open(REED_I64, 2, (int64_t[]){B, all}, &mask), REED_OK);
  for (int64_t i = 0; i < all; i++) {
    int64_t *at = reed_tensor_data(mask);
    at[i] = 1, at[all + i] = i < second;
  }
  reed_tensor *const given[] = {q, k, v, p->grown[0], p->grown[1], mask}, *const plain[] = {
                                                                              q, k, v, p->plain[0], p->plain[1], mask};
  reed_status status = reed_session_run(c->m.session, given, 6, got, 3, c->m.said);
  if (status == REED_OK) {
    run_session(&c->m, c->plain, plain, expected);
    assert_near(got[0], expected[0]);
    assert_same(got[1], expected[1], "the keys");
    assert_same(got[2], expected[2], "the values");
    *out = (past){{got[1], got[2]}, {expected[1], expected[2]}};
  }
  reed_tensor_close(&got[0]), reed_tensor_close(&expected[0]);
  reed_tensor_close(&q), reed_tensor_close(&k), reed_tensor_close(&v), reed_tensor_close(&mask);
  return status;
}

static past step(cache *c, const past *p, int64_t n, int64_t all, int64_t second) {
  past made = {0};
  reed_status status = try_step(c, p, n, all, second, &made);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(c->m.said));
  return made;
}

static bool lies_there(const cache *c, const past *p) {
  return reed_tensor_address(p->grown[0]) == reed_tensor_address(c->memory[0]) &&
         reed_tensor_address(p->grown[1]) == reed_tensor_address(c->memory[1]);
}

static void assert_counts(cache *c, int64_t in_place, int64_t copied) {
  ck_assert_int_eq(statistic_of(c->m.session, "in_place"), in_place);
  ck_assert_int_eq(statistic_of(c->m.session, "copied"), copied);
}

/* The cache after steps up to its capacity, from a past of that many rows; each step writes in place. */
static past filled(cache *c, int64_t rows, int64_t shorter) {
  past p = past_of(c, rows), next = step(c, &p, 4, 4, 4 - shorter);
  ck_assert(lies_there(c, &next));
  for (int64_t all = 5; all <= CAPACITY; all++) {
    past_close(&p);
    p = next;
    next = step(c, &p, 1, all, all - shorter);
    ck_assert(lies_there(c, &next));
    assert_counts(c, 2, 0);
    ck_assert_int_eq(statistic_of(c->m.session, "dense_copies"), 0);
    const char *copies = copies_of(c->m.session);
    ck_assert_msg(!strstr(copies, "host-to-host") && !strstr(copies, "device-to-device"), "%s", copies);
  }
  past_close(&p);
  return next;
}

/* shorter: of how many tokens the second sequence has fewer; its rows lie before rows of the past. */
#define EACH \
  const char *device = devices[_i % N_DEVICES]; \
  const int64_t shorter = _i / N_DEVICES % 2 * 2; \
  const bool windowed = _i / N_DEVICES / 2; \
  if (!is_there(device)) return
enum { N_EACH = N_DEVICES * 2 * 2 };

START_TEST(a_cache_of_the_past_s_length_grows) {
  EACH;
  cache c = cache_open(device, windowed, CAPACITY);
  past next = filled(&c, 0, shorter), too_long = {0};
  ck_assert_int_eq(try_step(&c, &next, 1, CAPACITY + 1, CAPACITY + 1 - shorter, &too_long), REED_ERROR_SHAPE);
  assert_same(next.grown[0], next.plain[0], "the past");
  past_close(&next);
  cache_close(&c);
}
END_TEST

START_TEST(a_cache_with_capacity_is_written_in_place) {
  EACH;
  cache c = cache_open(device, windowed, CAPACITY);
  past last = filled(&c, CAPACITY, shorter);
  past_close(&last);
  cache_close(&c);
}
END_TEST

START_TEST(several_tokens_follow_a_past) {
  EACH;
  cache c = cache_open(device, windowed, CAPACITY);
  past p = past_of(&c, 0), next = step(&c, &p, 4, 4, 4 - shorter);
  past_close(&p);
  p = next;
  next = step(&c, &p, 3, 7, 7 - shorter);
  ck_assert(lies_there(&c, &next));
  assert_counts(&c, 2, 0);
  past_close(&p), past_close(&next);
  cache_close(&c);
}
END_TEST

/* Older pasts stay valid, with fewer rows than the memory has meanwhile. */
START_TEST(continuations_of_one_past_do_not_meet) {
  EACH;
  cache c = cache_open(device, windowed, CAPACITY);
  past none = past_of(&c, 0), p = step(&c, &none, 3, 3, 3 - shorter), a = step(&c, &p, 1, 4, 4 - shorter);
  ck_assert(lies_there(&c, &a));
  past b = step(&c, &p, 2, 5, 5 - shorter); /* from a past that is older than the memory's rows */
  ck_assert(!lies_there(&c, &b));
  assert_counts(&c, 0, 2);
  past a2 = step(&c, &a, 3, 7, 7 - shorter), b2 = step(&c, &b, 1, 6, 6 - shorter);
  ck_assert(lies_there(&c, &a2) && !lies_there(&c, &b2));
  past more[] = {step(&c, &p, 1, 4, 4 - shorter), step(&c, &a, 2, 6, 6 - shorter), step(&c, &a2, 1, 8, 8 - shorter)};
  for (int i = 0; i < 3; i++) ck_assert(lies_there(&c, &more[i]) == (i == 2));
  for (int i = 0; i < 3; i++) past_close(&more[i]);
  past_close(&none), past_close(&p), past_close(&a), past_close(&b), past_close(&a2), past_close(&b2);
  cache_close(&c);
}
END_TEST

START_TEST(a_cancelled_run_leaves_the_past) {
  EACH;
  cache c = cache_open(device, windowed, CAPACITY);
  past none = past_of(&c, 0), p = step(&c, &none, 5, 5, 5 - shorter);
  const int64_t kernels = reed_session_kernel_count(c.m.session);
  reed_session *first = c.m.session;
  for (int64_t at = 1; at < kernels; at++) {
    reed_session_options options = {.device = device, .n_threads = 1, .cancel_at_kernel = at};
    ck_assert_int_eq(reed_session_open(c.m.program, &options, &c.m.session, c.m.said), REED_OK);
    for (size_t i = 0; i < 2; i++)
      ck_assert_int_eq(reed_session_bind_output(c.m.session, 1 + i, c.memory[i], 2, c.m.said), REED_OK);
    past made = {0};
    ck_assert_int_eq(try_step(&c, &p, 1, 6, 6 - shorter, &made), REED_ERROR_CANCELLED);
    for (int i = 0; i < 2; i++) assert_same(p.grown[i], p.plain[i], "the past");
    reed_session_close(&c.m.session);
  }
  c.m.session = first;
  past made = step(&c, &p, 1, 6, 6 - shorter);
  ck_assert(lies_there(&c, &made));
  past_close(&none), past_close(&p), past_close(&made);
  cache_close(&c);
}
END_TEST

int main(void) {
  TCase *c = tcase_create("grouped caches");
  tcase_add_loop_test(c, a_cache_of_the_past_s_length_grows, 0, N_EACH);
  tcase_add_loop_test(c, a_cache_with_capacity_is_written_in_place, 0, N_EACH);
  tcase_add_loop_test(c, several_tokens_follow_a_past, 0, N_EACH);
  tcase_add_loop_test(c, continuations_of_one_past_do_not_meet, 0, N_EACH);
  tcase_add_loop_test(c, a_cancelled_run_leaves_the_past, 0, N_EACH);
  return run_suite(c, "grouped_caches");
}
