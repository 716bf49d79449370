/* Caches whose past or whose grown tensor has several outputs of the model, or whose output has several pasts: the
 * output that is bound grows in place, whichever it is (vm/growth.h, vm/append.h). */
#include "tests/devices.h"
#include "tests/whole/model.h"

/* The last one is absent where there is no C++ compiler. */
static const char *const devices[] = {"host", "sim:1?poison=1&late=1", "cuda-emulated?poison=1&late=1&seed=3"};
enum { N_DEVICES = sizeof devices / sizeof *devices, ROOM = 9 };

static int n_devices(void) { return device_is_present("cuda-emulated") ? N_DEVICES : N_DEVICES - 1; }

/* A session whose memory of [2, heads, ROOM, 4] is bound to one output, beside one on the host that binds nothing. */
typedef struct bound {
  model m;
  reed_session *plain;
  reed_tensor *memory;
  int64_t heads;
} bound;

static bound bound_open(onnx_build *b, const char *device, size_t output, int64_t heads) {
  bound c = {.m = model_open(b, device, REED_COUNTS_HOST), .heads = heads};
  c.plain = session_of(&c.m, "host");
  ck_assert_int_eq(reed_tensor_open_on(device, REED_F32, 4, (int64_t[]){2, heads, ROOM, 4}, &c.memory, c.m.said),
                   REED_OK);
  ck_assert_int_eq(reed_session_bind_output(c.m.session, output, c.memory, 2, c.m.said), REED_OK);
  return c;
}

static void bound_close(bound *c) {
  reed_tensor_close(&c->memory);
  reed_session_close(&c->plain);
  model_close(&c->m);
}

static reed_tensor *rows(const bound *c, int64_t n, float first) {
  return floats(4, (int64_t[]){2, c->heads, n, 4}, first);
}

/* Runs both sessions on a past and new rows, and compares all outputs. */
static void step(bound *c, reed_tensor *past, reed_tensor *plain_past, reed_tensor *more, reed_tensor **out,
                 reed_tensor **plain, size_t n) {
  run_model(&c->m, (reed_tensor *[]){past, more}, out);
  run_session(&c->m, c->plain, (reed_tensor *[]){plain_past, more}, plain);
  for (size_t i = 0; i < n; i++) assert_same(out[i], plain[i], "an output");
}

/* Steps of one row from an empty past, by output `output` of two: all but the first grow in place, and tensors of
 * earlier steps stay as they were. */
static void assert_grows(bound *c, size_t output) {
  reed_tensor *past[4] = {rows(c, 0, 0)}, *plain[4] = {reed_tensor_retain(past[0])};
  for (int i = 0; i < 3; i++) {
    reed_tensor *more = rows(c, 1, (float)(100 * i + 1)), *out[2], *expected[2];
    step(c, past[i], plain[i], more, out, expected, 2);
    ck_assert_ptr_eq(reed_tensor_address(out[output]), reed_tensor_address(c->memory));
    ck_assert_int_eq(statistic_of(c->m.session, "in_place_bytes"), (int64_t)i * 2 * c->heads * 4 * 4);
    for (int k = 0; k <= i; k++) assert_same(past[k], plain[k], "an earlier past");
    past[i + 1] = out[output], plain[i + 1] = expected[output];
    reed_tensor_close(&out[!output]), reed_tensor_close(&expected[!output]), reed_tensor_close(&more);
  }
  /* A past that lies elsewhere: the memory keeps its open tensors. */
  reed_tensor *more = rows(c, 2, 900), *out[2], *expected[2];
  step(c, past[0], plain[0], more, out, expected, 2);
  ck_assert_ptr_ne(reed_tensor_address(out[output]), reed_tensor_address(c->memory));
  for (int k = 0; k < 4; k++) assert_same(past[k], plain[k], "an earlier past");
  for (int k = 0; k < 4; k++) reed_tensor_close(&past[k]), reed_tensor_close(&plain[k]);
  for (int k = 0; k < 2; k++) reed_tensor_close(&out[k]), reed_tensor_close(&expected[k]);
  reed_tensor_close(&more);
}

/* The grown tensor leaves as two outputs. */
START_TEST(either_output_of_a_grown_tensor_grows_in_place) {
  for (size_t output = 0; output < 2; output++)
    for (int64_t heads = 1; heads < 4; heads += 2) {
      onnx_build *b = build_open(17);
      build_input(b, "p", "f32[2,h,p,4]");
      build_input(b, "n", "f32[2,h,t,4]");
      build_int(b, build_node(b, "Concat", "p,n", "all"), "axis", 2);
      build_node(b, "Identity", "all", "same");
      build_output(b, "all", "f32[2,h,a,4]");
      build_output(b, "same", "f32[2,h,a,4]");
      bound c = bound_open(b, devices[_i], output, heads);
      assert_grows(&c, output);
      ck_assert_int_eq(statistic_of(c.m.session, "copied"), 1);
      bound_close(&c);
    }
}
END_TEST

/* Two calls join rows to one past. */
START_TEST(either_of_two_continuations_in_a_run_grows_in_place) {
  for (size_t output = 0; output < 2; output++)
    for (int64_t heads = 1; heads < 4; heads += 2) {
      onnx_build *b = build_open(17);
      build_input(b, "p", "f32[2,h,p,4]");
      build_input(b, "n", "f32[2,h,t,4]");
      build_node(b, "Neg", "n", "less");
      build_int(b, build_node(b, "Concat", "p,n", "a"), "axis", 2);
      build_int(b, build_node(b, "Concat", "p,less", "b"), "axis", 2);
      build_output(b, "a", "f32[2,h,a,4]");
      build_output(b, "b", "f32[2,h,a,4]");
      bound c = bound_open(b, devices[_i], output, heads);
      assert_grows(&c, output);
      bound_close(&c);
    }
}
END_TEST

/* Both outputs of a grown tensor are bound: the one in whose memory the past lies grows, the other one is a copy. */
START_TEST(both_outputs_of_a_grown_tensor_are_bound) {
  onnx_build *b = build_open(17);
  build_input(b, "p", "f32[2,h,p,4]");
  build_input(b, "n", "f32[2,h,t,4]");
  build_int(b, build_node(b, "Concat", "p,n", "all"), "axis", 2);
  build_node(b, "Identity", "all", "same");
  build_output(b, "all", "f32[2,h,a,4]");
  build_output(b, "same", "f32[2,h,a,4]");
  bound c = bound_open(b, devices[_i], 0, 3);
  reed_tensor *second = NULL;
  ck_assert_int_eq(reed_tensor_open_on(devices[_i], REED_F32, 4, (int64_t[]){2, 3, ROOM, 4}, &second, c.m.said),
                   REED_OK);
  ck_assert_int_eq(reed_session_bind_output(c.m.session, 1, second, 2, c.m.said), REED_OK);
  reed_tensor *memory[] = {c.memory, second};
  for (int from = 0; from < 2; from++) { /* the output that goes on */
    reed_tensor *none = rows(&c, 0, 0), *more = rows(&c, 2, 5), *first[2], *plain[2], *out[2], *expected[2];
    step(&c, none, none, more, first, plain, 2);
    for (int k = 0; k < 2; k++) ck_assert_ptr_eq(reed_tensor_address(first[k]), reed_tensor_address(memory[k]));
    reed_tensor_close(&first[!from]);
    step(&c, first[from], plain[from], more, out, expected, 2);
    for (int k = 0; k < 2; k++) ck_assert_ptr_eq(reed_tensor_address(out[k]), reed_tensor_address(memory[k]));
    ck_assert_int_eq(statistic_of(c.m.session, "in_place"), 1);
    ck_assert_int_eq(statistic_of(c.m.session, "copied"), 0);
    assert_same(first[from], plain[from], "the past");
    reed_tensor *all[] = {none, more, first[from], plain[0], plain[1], out[0], out[1], expected[0], expected[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) reed_tensor_close(&all[i]);
  }
  reed_tensor_close(&second);
  bound_close(&c);
}
END_TEST

/* An output of two branches, which join rows to a past each, or rows of their own to one past: it is one cache in the
 * figures. _i: devices, then what the other branch joins. */
START_TEST(an_output_of_two_branches_is_counted_once) {
  static const char *const joins[] = {"q,n", "p,q"};
  const int n_there = n_devices();
  onnx_build *b = build_open(17), *one = build_subgraph(b), *other = build_subgraph(b);
  build_input(b, "c", "bool[]");
  build_input(b, "p", "f32[2,h,p,4]");
  build_input(b, "q", "f32[2,h,q,4]");
  build_input(b, "n", "f32[2,h,t,4]");
  build_int(one, build_node(one, "Concat", "p,n", "a"), "axis", 2);
  build_output(one, "a", "f32");
  build_int(other, build_node(other, "Concat", joins[_i / n_there], "b"), "axis", 2);
  build_output(other, "b", "f32");
  build_node_t *choice = build_node(b, "If", "c", "all");
  build_graph_attr(b, choice, "then_branch", one);
  build_graph_attr(b, choice, "else_branch", other);
  build_output(b, "all", "f32[2,h,a,4]");
  bound c = bound_open(b, devices[_i % n_there], 0, 3);
  reed_tensor *flag = NULL, *p = rows(&c, 0, 0), *q = rows(&c, 1, 70), *n = rows(&c, 1, 7), *y[2], *z;
  ck_assert_int_eq(reed_tensor_open(REED_BOOL, 0, NULL, &flag), REED_OK);
  *(bool *)reed_tensor_data(flag) = true;
  run_model(&c.m, (reed_tensor *[]){flag, p, q, n}, &y[0]);
  run_model(&c.m, (reed_tensor *[]){flag, y[0], q, n}, &y[1]);
  ck_assert_ptr_eq(reed_tensor_address(y[1]), reed_tensor_address(c.memory));
  ck_assert_int_eq(statistic_of(c.m.session, "in_place"), 1);
  ck_assert_int_eq(statistic_of(c.m.session, "in_place_bytes"), 2 * 3 * 4 * 4);
  ck_assert_int_eq(statistic_of(c.m.session, "copied"), 0);
  run_session(&c.m, c.plain, (reed_tensor *[]){flag, y[0], q, n}, &z);
  assert_same(y[1], z, "the output");
  reed_tensor *all[] = {flag, p, q, n, y[0], y[1], z};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) reed_tensor_close(&all[i]);
  bound_close(&c);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("cache outputs");
  TCase *cases = tcase_create("cache outputs");
  int n = n_devices();
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, either_output_of_a_grown_tensor_grows_in_place, 0, n);
  tcase_add_loop_test(cases, either_of_two_continuations_in_a_run_grows_in_place, 0, n);
  tcase_add_loop_test(cases, both_outputs_of_a_grown_tensor_are_bound, 0, n);
  tcase_add_loop_test(cases, an_output_of_two_branches_is_counted_once, 0, 2 * n);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
