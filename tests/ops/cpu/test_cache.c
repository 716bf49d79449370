/* The kernel cache: values are built once, shared, waited for and bounded; and the values that convolutions keep in it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "base/mem.h"
#include "ops/call.h"
#include "tests/suite.h"

typedef struct counts {
  int n_built, n_freed;
  int64_t bytes;
  reed_status status;
} counts;

typedef struct thing {
  counts *counts;
} thing;

static void thing_free(void *data) {
  thing *t = data;
  __atomic_add_fetch(&t->counts->n_freed, 1, __ATOMIC_RELAXED);
  mem_free(t);
}

static reed_status thing_build(void *context, kernel_cache_value *out_value) {
  counts *c = context;
  __atomic_add_fetch(&c->n_built, 1, __ATOMIC_RELAXED);
  if (c->status != REED_OK) return c->status;
  thing *t = mem_alloc(sizeof *t);
  if (!t) return REED_ERROR_MEMORY;
  t->counts = c;
  *out_value = (kernel_cache_value){t, thing_free, c->bytes};
  return REED_OK;
}

static void *get(kernel_cache *cache, int key, counts *c) {
  void *data = NULL;
  ck_assert_int_eq(kernel_cache_get(cache, &key, sizeof key, thing_build, c, &data), REED_OK);
  return data;
}

/* Values without a holder go after four windows of runs; a value that is used again stays for four more windows. */
START_TEST(cache_frees_values_that_windows_have_not_used) {
  kernel_cache *cache;
  counts c = {.bytes = 1 << 20};
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  void *held = get(cache, 1, &c);
  kernel_cache_release(cache, get(cache, 2, &c));
  kernel_cache_release(cache, get(cache, 3, &c));
  for (int window = 0; window < 3; window++) ck_assert_int_eq(kernel_cache_end_window(cache), 0);
  kernel_cache_release(cache, get(cache, 3, &c));
  ck_assert_int_eq(c.n_freed, 0);
  ck_assert_int_eq(kernel_cache_end_window(cache), 1 << 20);
  ck_assert_int_eq(c.n_freed, 1);
  for (int window = 0; window < 2; window++) ck_assert_int_eq(kernel_cache_end_window(cache), 0);
  ck_assert_int_eq(c.n_freed, 1);
  ck_assert_int_eq(kernel_cache_end_window(cache), 1 << 20);
  ck_assert_int_eq(c.n_freed, 2);
  ck_assert_ptr_eq(get(cache, 1, &c), held);
  int64_t values, bytes;
  kernel_cache_count(cache, &values, &bytes);
  ck_assert_int_eq(values, 1);
  ck_assert_int_eq(bytes, 1 << 20);
  kernel_cache_release(cache, held);
  kernel_cache_release(cache, held);
  kernel_cache_close(&cache);
  ck_assert_int_eq(c.n_freed, 3);
}
END_TEST

START_TEST(cache_builds_once_and_frees_at_close) {
  kernel_cache *cache;
  counts c = {.bytes = 100};
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  void *a = get(cache, 1, &c), *b = get(cache, 1, &c), *other = get(cache, 2, &c);
  ck_assert_ptr_eq(a, b);
  ck_assert_ptr_ne(a, other);
  int64_t values, bytes;
  kernel_cache_count(cache, &values, &bytes);
  ck_assert_int_eq(values, 2);
  ck_assert_int_eq(bytes, 200);
  kernel_cache_release(cache, a);
  kernel_cache_release(cache, b);
  kernel_cache_release(cache, other);
  ck_assert_ptr_eq(get(cache, 1, &c), a);
  kernel_cache_release(cache, a);
  ck_assert_int_eq(c.n_built, 2);
  ck_assert_int_eq(c.n_freed, 0);
  kernel_cache_close(&cache);
  ck_assert_ptr_null(cache);
  ck_assert_int_eq(c.n_freed, 2);
}
END_TEST

START_TEST(cache_drops_the_oldest_idle_values_over_its_limit) {
  kernel_cache *cache;
  counts c = {.bytes = (int64_t)100 << 20};
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  void *held = get(cache, 0, &c);
  for (int key = 1; key <= 3; key++) kernel_cache_release(cache, get(cache, key, &c));
  ck_assert_int_eq(c.n_freed, 1);
  int64_t values, bytes;
  kernel_cache_count(cache, &values, &bytes);
  ck_assert_int_eq(values, 3);
  ck_assert_int_eq(bytes, 3 * c.bytes);
  kernel_cache_release(cache, get(cache, 2, &c)); /* value 2 was kept */
  ck_assert_int_eq(c.n_built, 4);
  kernel_cache_release(cache, get(cache, 1, &c)); /* value 1 was the oldest, so it was freed */
  ck_assert_int_eq(c.n_built, 5);
  kernel_cache_release(cache, held);
  kernel_cache_close(&cache);
  ck_assert_int_eq(c.n_freed, c.n_built);
}
END_TEST

START_TEST(cache_forgets_what_failed_to_build) {
  kernel_cache *cache;
  counts c = {.status = REED_ERROR_MEMORY};
  int key = 5;
  void *data = NULL;
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  ck_assert_int_eq(kernel_cache_get(cache, &key, sizeof key, thing_build, &c, &data), REED_ERROR_MEMORY);
  c.status = REED_OK;
  kernel_cache_release(cache, get(cache, key, &c));
  ck_assert_int_eq(c.n_built, 2);
  kernel_cache_close(&cache);
}
END_TEST

typedef struct worker {
  kernel_cache *cache;
  counts *counts;
  pthread_t thread;
} worker;

static void *work(void *context) {
  worker *w = context;
  for (int round = 0; round < 50; round++)
    for (int key = 0; key < 200; key++) kernel_cache_release(w->cache, get(w->cache, key, w->counts));
  return NULL;
}

START_TEST(cache_is_shared_by_threads) {
  kernel_cache *cache;
  counts c = {.bytes = 8};
  worker workers[4];
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){.cache = cache, .counts = &c};
    ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) pthread_join(workers[i].thread, NULL);
  ck_assert_int_eq(c.n_built, 200);
  kernel_cache_close(&cache);
  ck_assert_int_eq(c.n_freed, 200);
}
END_TEST

/* ---- convolutions and the cache ---- */

#define CHANNELS 16
#define SIDE 7
#define BOXES 100

typedef struct conv_run {
  kernel_cache *cache;
  const float *x, *w;
  float *y;
  reed_kernel kernel;
} conv_run;

static void prepare_conv(conv_run *r, int64_t n) {
  reed_desc x = {REED_F32, 4, {n, CHANNELS, SIDE, SIDE}}, w = {REED_F32, 4, {CHANNELS, CHANNELS, 1, 1}};
  const op_call_input inputs[2] = {{&x, NULL, false}, {&w, r->w, true}};
  reed_attr completed[32];
  const reed_attrs attrs = op_attrs_complete(op_builtin(OP_Conv), &(reed_attrs){0}, completed);
  reed_kernel_env env = {.n_threads = 2, .cache = r->cache};
  op_call call = {.op = op_builtin(OP_Conv),
                  .attrs = &attrs,
                  .node = "node",
                  .n_inputs = 2,
                  .n_outputs = 1,
                  .inputs = inputs,
                  .outputs = &x,
                  .env = &env,
                  .prepare = kernel_cpu(op_builtin(OP_Conv))};
  ck_assert_int_eq(op_call_prepare(&call, &r->kernel), REED_OK);
}

static void run_conv(conv_run *r) {
  const void *inputs[2] = {r->x, r->w};
  void *outputs[1] = {r->y}, *workspace = aligned_alloc(64, (size_t)(r->kernel.workspace_bytes + 64) / 64 * 64);
  reed_kernel_buffers buffers = {.inputs = inputs, .outputs = outputs, .workspace = workspace};
  ck_assert_int_eq(r->kernel.run(r->kernel.state, &buffers), REED_OK);
  r->kernel.free(r->kernel.state);
  free(workspace);
}

static void *convolve_all(void *context) {
  conv_run *r = context;
  for (int64_t n = 1; n <= BOXES; n += 9) {
    prepare_conv(r, n);
    run_conv(r);
    for (int64_t i = 0; i < n * CHANNELS * SIDE * SIDE; i++) ck_assert(r->y[i] == (float)CHANNELS);
  }
  return NULL;
}

START_TEST(conv_of_any_number_of_boxes_is_shared_by_sessions) {
  kernel_cache *cache;
  size_t n = BOXES * CHANNELS * SIDE * SIDE;
  float *ones = malloc(n * sizeof *ones);
  for (size_t i = 0; i < n; i++) ones[i] = 1;
  conv_run runs[3];
  pthread_t threads[3];
  ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
  for (int i = 0; i < 3; i++) {
    runs[i] = (conv_run){.cache = cache, .x = ones, .w = ones, .y = malloc(n * sizeof(float))};
    ck_assert_int_eq(pthread_create(&threads[i], NULL, convolve_all, &runs[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    free(runs[i].y);
  }
  kernel_cache_close(&cache);
  free(ones);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("kernel cache");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, cache_builds_once_and_frees_at_close);
  tcase_add_test(t, cache_frees_values_that_windows_have_not_used);
  tcase_add_test(t, cache_drops_the_oldest_idle_values_over_its_limit);
  tcase_add_test(t, cache_forgets_what_failed_to_build);
  tcase_add_test(t, cache_is_shared_by_threads);
  tcase_add_test(t, conv_of_any_number_of_boxes_is_shared_by_sessions);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
