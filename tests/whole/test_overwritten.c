/* TensorScatter in memory that the caller binds: new rows take the place of rows of the past, in a line and in a
 * circle, with a place for each batch, and the scatters that become TensorScatter. Every run is compared bit for bit
 * with a session that binds nothing. */
#include <stdio.h>

#include "tests/devices.h"
#include "tests/whole/model.h"

static const char *const devices[] = {"host",
                                      "sim",
                                      "sim:1?poison=1&late=1",
                                      "cuda-emulated",
                                      "cuda-emulated?late=1&poison=1&seed=3&order=7",
                                      "cuda-emulated?values=1"};
enum { N_DEVICES = sizeof devices / sizeof *devices, FIRST_CUDA = 3, B = 2, H = 3, D = 4 };

static bool is_there(const char *device) { return !strstr(device, "cuda") || device_is_present("cuda-emulated"); }

/* The caches: [B, H, rows, D] scattered along axis 2, [B, rows, H, D] along axis 1, and [B * H, rows, D] viewed so.
 * Others: [B, rows, D] viewed as [B, 1, rows, D]. */
typedef enum form { HEADS_FIRST, ROWS_FIRST, VIEWED, N_FORMS, ONE_HEAD } form;

typedef struct cache {
  model m;
  reed_session *plain;
  const char *device;
  form form;
  int64_t rows;
  reed_tensor *memory;
} cache;

static onnx_build *scattered(form f, bool circular) {
  onnx_build *b = build_open(24);
  build_input(b, "p", f == ROWS_FIRST ? "f32[2,s,3,4]" : f == VIEWED ? "f32[6,s,4]" : "f32[2,3,s,4]");
  build_input(b, "n", f == ROWS_FIRST ? "f32[2,t,3,4]" : "f32[2,3,t,4]");
  build_input(b, "at", "i64[2]");
  const char *past = "p";
  if (f == VIEWED) {
    build_i64(b, "four", "4", (int64_t[]){B, H, -1, D});
    build_node(b, "Reshape", "p,four", "p4");
    past = "p4";
  }
  char operands[32];
  sprintf(operands, "%s,n,at", past);
  build_node_t *scatter = build_node(b, "TensorScatter", operands, "all");
  build_int(b, scatter, "axis", f == ROWS_FIRST ? 1 : -2);
  if (circular) build_string(b, scatter, "mode", "circular");
  build_node(b, "Neg", "all", "less");
  if (f == VIEWED) {
    build_i64(b, "three", "3", (int64_t[]){B * H, -1, D});
    build_node(b, "Reshape", "all,three", "out");
  }
  build_output(b, f == VIEWED ? "out" : "all",
               f == ROWS_FIRST ? "f32[2,s,3,4]"
               : f == VIEWED   ? "f32[6,s,4]"
                               : "f32[2,3,s,4]");
  build_output(b, "less", f == ROWS_FIRST ? "f32[2,s,3,4]" : "f32[2,3,s,4]");
  return b;
}

static int32_t axis_of(form f) { return f == HEADS_FIRST ? 2 : 1; }

static reed_tensor *rows_of(const cache *c, int64_t n, bool update, float first) {
  int64_t dims[4] = {B, H, n, D};
  if (c->form == ROWS_FIRST) dims[1] = n, dims[2] = H;
  if (c->form == ONE_HEAD) dims[1] = update ? 1 : n, dims[2] = update ? n : D;
  if (c->form == VIEWED && !update) dims[0] = B * H, dims[1] = n, dims[2] = D;
  return floats((c->form == VIEWED || c->form == ONE_HEAD) && !update ? 3 : 4, dims, first);
}

/* spare: rows of the memory beyond those of the cache; -1: no axis with room. */
static cache cache_of(onnx_build *b, form f, const char *device, int64_t rows, int64_t spare) {
  cache c = {.m = model_open(b, device, REED_COUNTS_HOST), .device = device, .form = f, .rows = rows};
  c.plain = session_of(&c.m, "host");
  reed_tensor *host = rows_of(&c, rows + (spare > 0 ? spare : 0), false, -1000);
  c.memory = on_device(host, device);
  reed_tensor_close(&host);
  ck_assert_int_eq(reed_session_bind_output(c.m.session, 0, c.memory, spare < 0 ? -1 : axis_of(f), c.m.said), REED_OK);
  return c;
}

static cache cache_open(form f, bool circular, const char *device, int64_t rows, int64_t spare) {
  return cache_of(scattered(f, circular), f, device, rows, spare);
}

static void cache_close(cache *c) {
  reed_tensor_close(&c->memory);
  reed_session_close(&c->plain);
  model_close(&c->m);
}

/* A cache in bound memory, and the same one of a session that binds nothing. */
typedef struct past {
  reed_tensor *grown, *plain;
} past;

static void past_close(past *p) {
  reed_tensor_close(&p->grown);
  reed_tensor_close(&p->plain);
}

/* A past in memory of its own. */
static past fresh(const cache *c) {
  past p = {.plain = rows_of(c, c->rows, false, 0)};
  p.grown = on_device(p.plain, c->device);
  return p;
}

static reed_status try_step(cache *c, const past *p, int64_t n, int64_t at, int64_t at_second, float first, past *out) {
  reed_tensor *update = rows_of(c, n, true, first), *places = NULL, *got[2] = {0}, *expected[2] = {0};
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){B}, &places), REED_OK);
  ((int64_t *)reed_tensor_data(places))[0] = at;
  ((int64_t *)reed_tensor_data(places))[1] = at_second;
  reed_status status =
      reed_session_run(c->m.session, (reed_tensor *[]){p->grown, update, places}, 3, got, 2, c->m.said);
  if (status == REED_OK) {
    run_session(&c->m, c->plain, (reed_tensor *[]){p->plain, update, places}, expected);
    assert_same(got[0], expected[0], "the cache");
    assert_same(got[1], expected[1], "the other output");
    *out = (past){got[0], expected[0]};
  }
  reed_tensor_close(&got[1]), reed_tensor_close(&expected[1]), reed_tensor_close(&update), reed_tensor_close(&places);
  return status;
}

static past step(cache *c, const past *p, int64_t n, int64_t at, int64_t at_second, float first) {
  past made = {0};
  reed_status status = try_step(c, p, n, at, at_second, first, &made);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(c->m.said));
  return made;
}

static bool lies_there(const cache *c, const past *p) {
  return reed_tensor_address(p->grown) == reed_tensor_address(c->memory);
}

static void assert_counts(cache *c, int64_t in_place, int64_t copied) {
  ck_assert_int_eq(statistic_of(c->m.session, "in_place"), in_place);
  ck_assert_int_eq(statistic_of(c->m.session, "copied"), copied);
}

#define EACH \
  const char *device = devices[_i % N_DEVICES]; \
  form f = (form)(_i / N_DEVICES % N_FORMS); \
  int64_t spare = _i / N_DEVICES / N_FORMS % 3 - 1; \
  bool circular = _i / N_DEVICES / N_FORMS / 3; \
  if (!is_there(device)) return
enum { N_EACH = N_DEVICES * N_FORMS * 3 * 2 };

START_TEST(only_new_rows_are_written) {
  EACH;
  cache c = cache_open(f, circular, device, 7, spare);
  past p = fresh(&c), next = step(&c, &p, 2, 0, 1, 100); /* the past lies elsewhere, so the whole cache is written */
  ck_assert(lies_there(&c, &next));
  assert_counts(&c, 0, 1);
  for (int i = 0; i < 12; i++) {
    past_close(&p);
    p = next;
    int64_t n = i % 3 + 1, at = circular ? 2 + i : i % 4, second = circular ? 5 + 3 * i : 4 - i % 4;
    next = step(&c, &p, n, at, second, 200.0F * (float)i);
    ck_assert(lies_there(&c, &next));
    assert_counts(&c, 1, 0);
    const char *copies = copies_of(c.m.session);
    ck_assert_msg(!strstr(copies, "host-to-host") && !strstr(copies, "device-to-device"), "%s", copies);
  }
  past_close(&p), past_close(&next);
  cache_close(&c);
}
END_TEST

/* The rows from the first of the places on, for all batches, by ScatterND or ScatterElements. */
static onnx_build *stretch(bool elements) {
  onnx_build *b = build_open(18);
  build_input(b, "p", "f32[2,3,s,4]");
  build_input(b, "n", "f32[2,3,t,4]");
  build_input(b, "at", "i64[2]");
  build_i64(b, "zero", "", (int64_t[]){0});
  build_i64(b, "one", "", (int64_t[]){1});
  build_i64(b, "two", "", (int64_t[]){2});
  build_i64(b, "last", "1", (int64_t[]){-1});
  build_i64(b, "others", "3", (int64_t[]){0, 1, 3});
  build_node(b, "Shape", "n", "shape");
  build_node(b, "Gather", "shape,two", "t");
  build_node(b, "Gather", "at,zero", "first");
  build_node(b, "Range", "zero,t,one", "range");
  build_node(b, "Add", "first,range", "places");
  if (elements) {
    build_node(b, "Unsqueeze", "places,others", "narrow");
    build_node(b, "Expand", "narrow,shape", "wide");
    build_int(b, build_node(b, "ScatterElements", "p,wide,n", "all"), "axis", 2);
  } else {
    build_node(b, "Unsqueeze", "places,last", "list");
    build_ints(b, build_node(b, "Transpose", "p", "turned"), "perm", "2,0,1,3");
    build_ints(b, build_node(b, "Transpose", "n", "rows"), "perm", "2,0,1,3");
    build_node(b, "ScatterND", "turned,list,rows", "scattered");
    build_ints(b, build_node(b, "Transpose", "scattered", "all"), "perm", "1,2,0,3");
  }
  build_node(b, "Neg", "all", "less");
  build_output(b, "all", "f32[2,3,s,4]");
  build_output(b, "less", "f32[2,3,s,4]");
  return b;
}

START_TEST(rows_of_other_scatters_are_written_alone) {
  if (!is_there(devices[_i % N_DEVICES])) return;
  cache c = cache_of(stretch(_i / N_DEVICES), HEADS_FIRST, devices[_i % N_DEVICES], 7, -1);
  past p = fresh(&c), next = step(&c, &p, 2, 0, 0, 100), made;
  for (int i = 0; i < 6; i++) {
    past_close(&p);
    p = next;
    next = step(&c, &p, i % 3 + 1, i % 2 ? i - 5 : i, 0, 200.0F * (float)i); /* a place from the end, too */
    ck_assert(lies_there(&c, &next));
    assert_counts(&c, 1, 0);
  }
  ck_assert_int_eq(try_step(&c, &next, 2, 6, 0, 300, &made), REED_ERROR_VALUE);
  ck_assert_int_eq(try_step(&c, &next, 1, -8, 0, 300, &made), REED_ERROR_VALUE);
  assert_same(next.grown, next.plain, "the past");
  past_close(&p), past_close(&next);
  cache_close(&c);
}
END_TEST

/* Tensors of several versions stay valid as inputs, also in another order, and after other lengths. */
START_TEST(continuations_of_one_past_do_not_meet) {
  EACH;
  cache c = cache_open(f, circular, device, 7, spare);
  past none = fresh(&c), p = step(&c, &none, 3, 0, 2, 100), a = step(&c, &p, 3, 3, 4, 300);
  ck_assert(lies_there(&c, &a));
  past b = step(&c, &p, 1, 4, 3, 500); /* b overwrites fewer rows than `a`, whose rows must not appear in b */
  ck_assert(!lies_there(&c, &b));
  assert_counts(&c, 0, 1);
  past a2 = step(&c, &a, 2, 1, 0, 700); /* overwrites rows that `a` has written */
  ck_assert(lies_there(&c, &a2));
  assert_counts(&c, 1, 0);
  past more[] = {step(&c, &p, 2, 2, 2, 900), step(&c, &a, 1, 6, 5, 1100), step(&c, &b, 2, 0, 0, 1300),
                 step(&c, &a2, 1, 6, 6, 1500), step(&c, &p, 1, 6, 0, 1700)};
  for (int i = 0; i < 5; i++) ck_assert(lies_there(&c, &more[i]) == (i == 3));
  for (int i = 0; i < 5; i++) past_close(&more[i]);
  past_close(&a), past_close(&p);
  past again = step(&c, &a2, 1, 5, 5, 1900); /* `a2` is older than a version whose tensor is closed */
  ck_assert(!lies_there(&c, &again));
  past_close(&none), past_close(&a2), past_close(&b), past_close(&again);
  cache_close(&c);
}
END_TEST

/* A run that is cancelled at any kernel leaves every row of the past as it was. */
START_TEST(a_cancelled_run_leaves_the_past) {
  EACH;
  cache c = cache_open(f, circular, device, 7, spare);
  past none = fresh(&c), p = step(&c, &none, 3, 0, 2, 100);
  int64_t kernels = reed_session_kernel_count(c.m.session);
  ck_assert_int_gt(kernels, 1); /* a cancellation at the last kernel comes too late */
  reed_session *first = c.m.session;
  for (int64_t at = 1; at < kernels; at++) {
    reed_session_options options = {.device = device, .n_threads = 1, .cancel_at_kernel = at};
    ck_assert_int_eq(reed_session_open(c.m.program, &options, &c.m.session, c.m.said), REED_OK);
    ck_assert_int_eq(reed_session_bind_output(c.m.session, 0, c.memory, spare < 0 ? -1 : axis_of(f), c.m.said),
                     REED_OK);
    past made = {0};
    ck_assert_int_eq(try_step(&c, &p, 3, 1, 4, 300, &made), REED_ERROR_CANCELLED);
    assert_same(p.grown, p.plain, "the past");
    made = step(&c, &p, 1, 2, 5, 500);
    ck_assert(lies_there(&c, &made));
    past_close(&p);
    p = made;
    reed_session_close(&c.m.session);
  }
  c.m.session = first;
  past_close(&none), past_close(&p);
  cache_close(&c);
}
END_TEST

/* A run fails because a place does not fit, before any row is written. The next run writes in place again. */
START_TEST(a_place_that_does_not_fit_leaves_the_past) {
  EACH;
  cache c = cache_open(f, circular, device, 7, spare);
  past none = fresh(&c), p = step(&c, &none, 3, 0, 2, 100), made;
  ck_assert_int_eq(try_step(&c, &p, 2, 1, -1, 300, &made), REED_ERROR_VALUE);
  assert_same(p.grown, p.plain, "the past");
  made = step(&c, &p, 2, 1, 1, 300);
  ck_assert(lies_there(&c, &made));
  past_close(&none), past_close(&p), past_close(&made);
  cache_close(&c);
}
END_TEST

/* The memory itself may be the past, with the elements that it has now. A tensor that comes back by DLPack is
 * recognised. */
START_TEST(the_memory_and_dlpack_are_pasts) {
  const char *device = devices[_i];
  if (!is_there(device)) return;
  cache c = cache_open(HEADS_FIRST, false, device, 7, 0);
  past p = {.grown = reed_tensor_retain(c.memory), .plain = rows_of(&c, 7, false, -1000)};
  past a = step(&c, &p, 2, 0, 1, 100);
  ck_assert(lies_there(&c, &a));
  assert_counts(&c, 1, 0);
  for (int i = 0; i < 4; i++) {
    past back = {.plain = reed_tensor_retain(a.plain)};
    if (i % 2) {
      DLManagedTensor *view;
      ck_assert_int_eq(reed_tensor_to_dlpack(a.grown, &view), REED_OK);
      ck_assert_int_eq(reed_tensor_from_dlpack(view, &back.grown), REED_OK);
    } else {
      DLManagedTensorVersioned *view;
      ck_assert_int_eq(reed_tensor_to_dlpack_versioned(a.grown, false, &view, NULL), REED_OK);
      ck_assert_int_eq(reed_tensor_from_dlpack_versioned(view, &back.grown, NULL), REED_OK);
    }
    past next = step(&c, &back, 1, i, 6 - i, 200.0F * (float)i), other = step(&c, &back, 2, 5, 0, 5);
    ck_assert(lies_there(&c, &next) && !lies_there(&c, &other));
    past_close(&back), past_close(&a), past_close(&other);
    a = next;
  }
  past present = {.grown = reed_tensor_retain(c.memory), .plain = reed_tensor_retain(a.plain)};
  past beside = step(&c, &present, 1, 3, 3, 3); /* `a` is an open tensor of the same memory */
  ck_assert(!lies_there(&c, &beside));
  assert_same(a.grown, a.plain, "the tensor in the memory");
  past_close(&present), past_close(&beside);
  past_close(&p), past_close(&a);
  cache_close(&c);
}
END_TEST

/* The runs of one key on a GPU: launches, a recording, replays. A past that stays open keeps the memory of its rows, so
 * the next run saves rows in other memory, and no graph writes the kept ones. */
START_TEST(graphs_save_rows) {
  const char *device = devices[FIRST_CUDA + _i % 2];
  if (!is_there(device)) return;
  cache c = cache_open(HEADS_FIRST, _i / 2, device, 7, 0);
  past p = fresh(&c), kept[3] = {{0}};
  for (int i = 0; i < 14; i++) {
    past next = step(&c, &p, 2, i % 5, (i + 2) % 5, 100.0F * (float)i);
    assert_counts(&c, i > 0, i == 0);
    if (i >= 7 && i < 10) kept[i - 7] = p;
    else past_close(&p);
    p = next;
  }
  ck_assert_int_gt(statistic_of(c.m.session, "replayed"), 2);
  for (int i = 0; i < 3; i++) {
    past again = step(&c, &kept[i], 1, i, 6 - i, 3.0F);
    ck_assert(!lies_there(&c, &again));
    past_close(&again), past_close(&kept[i]);
  }
  past_close(&p);
  cache_close(&c);
}
END_TEST

/* A session that has replayed its graph is cancelled at any kernel, or a place does not fit: the past stays. */
START_TEST(a_replayed_graph_leaves_the_past) {
  const char *device = devices[FIRST_CUDA + _i % 2];
  if (!is_there(device)) return;
  for (int64_t at = 1; at <= 2; at++) {
    cache c = cache_open(ROWS_FIRST, false, device, 7, _i / 2);
    past none = fresh(&c), p = step(&c, &none, 3, 0, 2, 100), made = {0};
    reed_session *first = c.m.session;
    reed_session_options options = {.device = device, .n_threads = 1, .cancel_at_kernel = 2 * 5 + at};
    ck_assert_int_eq(reed_session_open(c.m.program, &options, &c.m.session, c.m.said), REED_OK);
    ck_assert_int_eq(reed_session_bind_output(c.m.session, 0, c.memory, 1, c.m.said), REED_OK);
    for (int i = 0; i < 5; i++) {
      made = step(&c, &p, 2, i, 4 - i, 7.0F * (float)i);
      past_close(&p);
      p = made;
    }
    ck_assert_int_gt(statistic_of(c.m.session, "replayed"), 0);
    ck_assert_int_eq(try_step(&c, &p, 2, 1, 4, 300, &made), REED_ERROR_CANCELLED);
    assert_same(p.grown, p.plain, "the past");
    ck_assert_int_eq(try_step(&c, &p, 2, 1, -1, 300, &made), REED_ERROR_VALUE);
    assert_same(p.grown, p.plain, "the past");
    ck_assert_int_eq(try_step(&c, &p, 2, 6, 1, 300, &made), REED_ERROR_VALUE);
    assert_same(p.grown, p.plain, "the past");
    made = step(&c, &p, 2, 1, 4, 900);
    ck_assert(lies_there(&c, &made));
    reed_session_close(&c.m.session);
    c.m.session = first;
    past_close(&none), past_close(&p), past_close(&made);
    cache_close(&c);
  }
}
END_TEST

/* New rows chosen by indices, so that a run may fail in front of the kernel that overwrites rows. */
static onnx_build *chosen(void) {
  onnx_build *b = build_open(24);
  build_input(b, "p", "f32[2,3,s,4]");
  build_input(b, "n", "f32[2,3,t,4]");
  build_input(b, "at", "i64[2]");
  build_input(b, "rows", "i64[u]");
  build_int(b, build_node(b, "Gather", "n,rows", "chosen"), "axis", 2);
  build_node(b, "TensorScatter", "p,chosen,at", "all");
  build_output(b, "all", "f32[2,3,s,4]");
  return b;
}

/* The run's outputs on the cache's device and on the host, with `row` for both new rows. */
static reed_status try_chosen(cache *c, const past *p, int64_t row, past *out) {
  reed_tensor *update = rows_of(c, 3, true, 100), *places = NULL, *rows = NULL;
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){B}, &places), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){2}, &rows), REED_OK);
  ((int64_t *)reed_tensor_data(places))[0] = 1, ((int64_t *)reed_tensor_data(places))[1] = 4;
  ((int64_t *)reed_tensor_data(rows))[0] = ((int64_t *)reed_tensor_data(rows))[1] = row;
  reed_tensor *const given[] = {p->grown, update, places, rows}, *const plain[] = {p->plain, update, places, rows};
  past made = {0};
  reed_status status = reed_session_run(c->m.session, given, 4, &made.grown, 1, c->m.said);
  if (status == REED_OK) {
    run_session(&c->m, c->plain, plain, &made.plain);
    assert_same(made.grown, made.plain, "the cache");
    *out = made;
  }
  reed_tensor_close(&update), reed_tensor_close(&places), reed_tensor_close(&rows);
  return status;
}

/* In whatever order the queues' work runs. The memory in which the kernel saves rows is new, and poisoned behind the
 * fault: nobody waits for it there, and takes the fault for its own. */
START_TEST(a_fault_in_front_of_the_kernel_is_its_own_operator_s) {
  char device[64];
  snprintf(device, sizeof device, "cuda-emulated?values=%d&late=1&poison=1&seed=%d", _i % 2, _i + 1);
  if (!is_there(device)) return;
  cache c = cache_of(chosen(), HEADS_FIRST, device, 7, 0);
  past p = {.grown = reed_tensor_retain(c.memory), .plain = rows_of(&c, 7, false, -1000)}, made = {0};
  for (int run = 0; run < 3; run++) {
    ck_assert_int_eq(try_chosen(&c, &p, 99, &made), REED_ERROR_VALUE);
    ck_assert_str_eq(reed_diagnosis_operator(c.m.said), "Gather");
    assert_same(p.grown, p.plain, "the past");
    ck_assert_int_eq(try_chosen(&c, &p, run, &made), REED_OK);
    ck_assert(lies_there(&c, &made));
    past_close(&p);
    p = made;
  }
  past_close(&p);
  cache_close(&c);
}
END_TEST

/* One head and one row: the axis with room is another one than the axis of the rows, with the same strides. */
START_TEST(a_cache_of_one_row_and_one_head_is_overwritten) {
  const char *device = devices[_i % N_DEVICES];
  const int64_t spare = _i / N_DEVICES - 1;
  if (!is_there(device)) return;
  onnx_build *b = build_open(24);
  build_input(b, "p", "f32[2,s,4]");
  build_input(b, "n", "f32[2,1,t,4]");
  build_input(b, "at", "i64[2]");
  build_i64(b, "heads", "4", (int64_t[]){B, 1, -1, D});
  build_i64(b, "none", "3", (int64_t[]){B, -1, D});
  build_node(b, "Reshape", "p,heads", "past");
  build_int(b, build_node(b, "TensorScatter", "past,n,at", "all"), "axis", 2);
  build_node(b, "Neg", "all", "less");
  build_node(b, "Reshape", "all,none", "out");
  build_output(b, "out", "f32[2,s,4]");
  build_output(b, "less", "f32[2,1,s,4]");
  cache c = cache_of(b, ONE_HEAD, device, 1, spare);
  past none = fresh(&c), p = step(&c, &none, 1, 0, 0, 100), a = step(&c, &p, 1, 0, 0, 200);
  assert_counts(&c, 1, 0);
  ck_assert(lies_there(&c, &p) && lies_there(&c, &a));
  const char *copies = copies_of(c.m.session);
  ck_assert_msg(!strstr(copies, "host-to-host") && !strstr(copies, "device-to-device"), "%s", copies);
  past made, again = step(&c, &p, 1, 0, 0, 300); /* of the older version */
  ck_assert(!lies_there(&c, &again));
  ck_assert_int_eq(try_step(&c, &a, 1, 0, 1, 400, &made), REED_ERROR_VALUE);
  assert_same(a.grown, a.plain, "the past");
  past_close(&none), past_close(&p), past_close(&a), past_close(&again);
  cache_close(&c);
}
END_TEST

/* New rows that lie with gaps, because they are a cache with room along another axis. */
START_TEST(rows_out_of_another_cache_are_saved) {
  const char *device = devices[_i % N_DEVICES];
  if (!is_there(device)) return;
  onnx_build *b = build_open(24);
  build_input(b, "p", "f32[2,3,s,4]");
  build_input(b, "q", "f32[2,r,4]");
  build_input(b, "n", "f32[2,u,4]");
  build_input(b, "at", "i64[2]");
  build_i64(b, "two", "1", (int64_t[]){2});
  build_int(b, build_node(b, "Concat", "q,n", "joined"), "axis", 1);
  build_node(b, "Unsqueeze", "joined,two", "rows");
  build_int(b, build_node(b, "TensorScatter", "p,rows,at", "all"), "axis", 2);
  build_node(b, "Neg", "all", "less");
  build_output(b, "all", "f32[2,3,s,4]");
  build_output(b, "less", "f32[2,3,s,4]");
  build_output(b, "joined", "f32[2,3,4]");
  const int64_t spare = _i / N_DEVICES * 2; /* rows of memory behind the past's, so that it has gaps, too */
  cache c = cache_of(b, HEADS_FIRST, device, 7, spare);
  reed_tensor *host = floats(3, (int64_t[]){B, 9, D}, 0), *memory = on_device(host, device),
              *q = floats(3, (int64_t[]){B, 0, D}, 0), *at = NULL;
  ck_assert_int_eq(reed_session_bind_output(c.m.session, 2, memory, 1, c.m.said), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){B}, &at), REED_OK);
  past versions[6] = {fresh(&c)};
  const int of[] = {0, 1, 1, 2, 3, 1};
  for (int i = 1; i < 6; i++) {
    const past *p = &versions[of[i - 1]];
    reed_tensor *n = floats(3, (int64_t[]){B, H, D}, 100.0F * (float)i), *got[3] = {0}, *expected[3] = {0};
    ((int64_t *)reed_tensor_data(at))[0] = i;
    ((int64_t *)reed_tensor_data(at))[1] = 6 - i;
    run_session(&c.m, c.m.session, (reed_tensor *[]){p->grown, q, n, at}, got);
    run_session(&c.m, c.plain, (reed_tensor *[]){p->plain, q, n, at}, expected);
    for (int k = 0; k < 3; k++) assert_same(got[k], expected[k], "an output");
    for (int k = 1; k < 3; k++) reed_tensor_close(&got[k]), reed_tensor_close(&expected[k]);
    versions[i] = (past){got[0], expected[0]};
    reed_tensor_close(&n);
  }
  ck_assert(lies_there(&c, &versions[1]) && lies_there(&c, &versions[2]));
  for (int i = 0; i < 6; i++) past_close(&versions[i]);
  reed_tensor_close(&host), reed_tensor_close(&memory), reed_tensor_close(&q), reed_tensor_close(&at);
  cache_close(&c);
}
END_TEST

/* A past whose elements another kernel reads, or that two calls overwrite, is no cache: its memory cannot be bound. */
START_TEST(a_past_with_other_readers_is_no_cache) {
  onnx_build *b = build_open(24);
  build_input(b, "p", "f32[2,3,s,4]");
  build_input(b, "n", "f32[2,3,t,4]");
  build_input(b, "at", "i64[2]");
  build_node(b, "TensorScatter", "p,n,at", "all");
  build_node(b, _i ? "TensorScatter" : "Neg", _i ? "p,n" : "p", "less");
  build_output(b, "all", "f32[2,3,s,4]");
  build_output(b, "less", "f32[2,3,s,4]");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  reed_tensor *memory = floats(4, (int64_t[]){2, 3, 7, 4}, 0), *n = floats(4, (int64_t[]){2, 3, 1, 4}, 100), *at = NULL,
              *out[2] = {0};
  ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){2}, &at), REED_OK);
  ck_assert_int_eq(reed_session_bind_output(m.session, 0, memory, 2, m.said), REED_OK);
  ck_assert_int_eq(reed_session_run(m.session, (reed_tensor *[]){memory, n, at}, 3, out, 2, m.said),
                   REED_ERROR_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(m.said), "overlaps"));
  ck_assert_float_eq(((float *)reed_tensor_data(memory))[0], 0);
  reed_tensor_close(&memory), reed_tensor_close(&n), reed_tensor_close(&at);
  model_close(&m);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("overwritten");
  TCase *cases = tcase_create("overwritten");
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, only_new_rows_are_written, 0, N_EACH);
  tcase_add_loop_test(cases, rows_of_other_scatters_are_written_alone, 0, 2 * N_DEVICES);
  tcase_add_loop_test(cases, continuations_of_one_past_do_not_meet, 0, N_EACH);
  tcase_add_loop_test(cases, a_cancelled_run_leaves_the_past, 0, N_EACH);
  tcase_add_loop_test(cases, a_place_that_does_not_fit_leaves_the_past, 0, N_EACH);
  tcase_add_loop_test(cases, the_memory_and_dlpack_are_pasts, 0, N_DEVICES);
  tcase_add_loop_test(cases, graphs_save_rows, 0, 4);
  tcase_add_loop_test(cases, a_replayed_graph_leaves_the_past, 0, 4);
  tcase_add_loop_test(cases, a_fault_in_front_of_the_kernel_is_its_own_operator_s, 0, 12);
  tcase_add_loop_test(cases, a_cache_of_one_row_and_one_head_is_overwritten, 0, 3 * N_DEVICES);
  tcase_add_loop_test(cases, rows_out_of_another_cache_are_saved, 0, 2 * N_DEVICES);
  tcase_add_loop_test(cases, a_past_with_other_readers_is_no_cache, 0, 2);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
