/* Every call of the driver and every request for the card's memory failed once, in sessions on the emulated GPU: a
 * cache that grows in bound memory, one whose rows are overwritten there, a launch that makes it dense, counts that
 * stay on the device, products on tensor cores, graphs whose inputs move. A run fails with a sentence or goes on; the
 * next one gives the right bits from the same past; nothing is lost (the fake driver counts its handles when the card
 * closes, and ends the process if one is not given back). Every 5th call; with REED_ALL_EMULATED in the environment
 * each. */
#include "reed/device.h"
#include "tests/whole/failed.h"

enum { N_OUT = 4, STEPS = 3, ROUNDS = 3, ROWS = 9, CAPACITY = 8 };

static onnx_build *everything(void) {
  onnx_build *b = build_open(24);
  float weights[16];
  for (int i = 0; i < 16; i++) weights[i] = (float)((i * 7 + 3) % 11) / 8 - 0.5f;
  build_input(b, "p", "f32[2,3,p,4]");
  build_input(b, "n", "f32[2,3,t,4]");
  build_input(b, "x", "f32[r,4]");
  build_input(b, "c", "f32[2,3,s,4]");
  build_input(b, "at", "i64[2]");
  build_f32(b, "w", "4,4", weights);
  build_f32(b, "zero", "", (float[]){0});
  build_i64(b, "axis", "", (int64_t[]){2});
  build_int(b, build_node(b, "Concat", "p,n", "all"), "axis", 2);
  build_node(b, "CumSum", "all,axis", "sums");
  build_node(b, "MatMul", "x,w", "m");
  build_node(b, "Greater", "m,zero", "mask");
  build_node(b, "NonZero", "mask", "found");
  build_ints(b, build_node(b, "Transpose", "found", "rows"), "perm", "1,0");
  build_node(b, "GatherND", "m,rows", "values");
  build_node(b, "Exp", "values", "y");
  build_int(b, build_node(b, "TensorScatter", "c,n,at", "line"), "axis", 2);
  build_output(b, "all", "f32[2,3,a,4]");
  build_output(b, "sums", "f32[2,3,a,4]");
  build_output(b, "y", "f32[k]");
  build_output(b, "line", "f32[2,3,s,4]");
  return b;
}

/* The outputs of all steps in the use without a failure. */
typedef struct record {
  bool known;
  int n_runs;
  int64_t bytes[ROUNDS * STEPS][N_OUT];
  char data[ROUNDS * STEPS][N_OUT][2048];
} record;

/* False: the comparison itself met the failure, in its copy. */
static bool compare(record *r, int run, reed_tensor *const *out) {
  bool met = true;
  for (int i = 0; i < N_OUT; i++) {
    reed_tensor *host = NULL;
    if (reed_tensor_to_host(out[i], &host, NULL) != REED_OK) {
      met = false;
      continue;
    }
    const size_t n = (size_t)reed_tensor_bytes(host);
    ck_assert_uint_le(n, sizeof r->data[0][0]);
    if (!r->known) {
      r->bytes[run][i] = (int64_t)n;
      memcpy(r->data[run][i], reed_tensor_data(host), n);
    }
    ck_assert_int_eq(r->bytes[run][i], (int64_t)n);
    ck_assert_msg(memcmp(r->data[run][i], reed_tensor_data(host), n) == 0, "run %d, output %d: other bits", run, i);
    reed_tensor_close(&host);
  }
  return met;
}

static reed_tensor *cache_rows(int64_t n, int seed) { return floats(4, (int64_t[]){2, 3, n, 4}, (float)(10 * seed)); }

/* Opens a session, runs all steps and closes it. Returns the number of calls that failed. */
static int use_session(model *m, const char *device, record *r) {
  int n_failed = 0;
  reed_status status = REED_OK;
  reed_session *session = NULL;
  reed_tensor *memory = NULL, *line = NULL, *x[2] = {NULL}, *far[2] = {NULL};
  /* no second attempt, because opening the card again counts calls anew and fails again */
  if (reed_session_open(m->program, &(reed_session_options){.device = device, .n_threads = 1}, &session, m->said) !=
      REED_OK)
    return 1;
  TRY(m, device, reed_tensor_open_on(device, REED_F32, 4, (int64_t[]){2, 3, CAPACITY, 4}, &memory, m->said));
  TRY(m, device, reed_session_bind_output(session, 0, memory, 2, m->said));
  TRY(m, device, reed_tensor_open_on(device, REED_F32, 4, (int64_t[]){2, 3, CAPACITY, 4}, &line, m->said));
  TRY(m, device, reed_session_bind_output(session, 3, line, -1, m->said));
  /* two tensors of the same elements: a graph recorded with one is not replayed with the other */
  for (int i = 0; i < 2; i++) {
    x[i] = floats(2, (int64_t[]){ROWS, 4}, -17.25f);
    TRY(m, device, reed_tensor_to_device(x[i], device, &far[i], m->said));
  }
  for (int round = 0; round < ROUNDS; round++) {
    reed_tensor *past = cache_rows(0, 0), *lines = cache_rows(CAPACITY, 5), *at = NULL;
    ck_assert_int_eq(reed_tensor_open(REED_I64, 1, (int64_t[]){2}, &at), REED_OK);
    for (int step = 0; step < STEPS; step++) {
      reed_tensor *rows = cache_rows(step + 1, step), *in[] = {past, rows, far[(round + step) % 2], lines, at},
                  *out[N_OUT] = {NULL};
      for (int i = 0; i < 2; i++) ((int64_t *)reed_tensor_data(at))[i] = (step + 2 * i) % 4;
      TRY(m, device, reed_session_run(session, in, 5, out, N_OUT, m->said));
      n_failed += !compare(r, round * STEPS + step, out);
      ck_assert_ptr_eq(reed_tensor_address(out[0]), reed_tensor_address(memory));
      ck_assert_ptr_eq(reed_tensor_address(out[3]), reed_tensor_address(line));
      reed_tensor_close(&rows);
      reed_tensor_close(&past);
      reed_tensor_close(&lines);
      past = out[0];
      lines = out[3];
      for (int i = 1; i < 3; i++) reed_tensor_close(&out[i]);
    }
    reed_tensor_close(&past);
    reed_tensor_close(&lines);
    reed_tensor_close(&at);
  }
  for (int i = 0; i < 2; i++) reed_tensor_close(&x[i]), reed_tensor_close(&far[i]);
  reed_session_close(&session);
  reed_tensor_close(&memory);
  reed_tensor_close(&line);
  return n_failed;
}

/* The model and the bits of the use without a failure. */
static model open_model(const char *device, record *r) {
  model m = model_open(everything(), "host", REED_COUNTS_DEVICE);
  reed_session_close(&m.session);
  ck_assert_int_eq(use_session(&m, device, r), 0);
  r->known = true;
  return m;
}

static const struct {
  const char *option;
  int least; /* the least number of failures that are reported */
  int last;  /* more calls than one use makes */
  int step;
} failures[] = {{"fail_call", 60, 1200, 5},
                {"fail_context", 20, 1200, 11},
                {"fail_memory", 1, 30, 1}}; /* a run that lacks memory is tried again */

START_TEST(every_call_of_the_driver_is_failed_once) {
  static record r;
  r.known = false;
  model m = open_model("cuda-emulated?tf32=1&poison=1", &r);
  int n_told = 0, last = 0;
  const int each = getenv("REED_ALL_EMULATED") ? 1 : failures[_i].step;
  for (int n = 1; n <= failures[_i].last; n += each) {
    char device[96];
    snprintf(device, sizeof device, "cuda-emulated?tf32=1&poison=1&%s=%d", failures[_i].option, n);
    if (use_session(&m, device, &r) > 0) n_told++, last = n;
  }
  printf("%s: told %d, the last %d\n", failures[_i].option, n_told, last);
  ck_assert_int_ge(n_told, failures[_i].least);
  model_close(&m);
}
END_TEST

/* y = 2 x + 1 of n elements; the status of the run. The output stays on the card. */
static reed_status run_of(model *m, int64_t n, reed_tensor **out) {
  reed_tensor *x = floats(1, &n, 0);
  const reed_status status = reed_session_run(m->session, &x, 1, out, 1, m->said);
  reed_tensor_close(&x);
  return status;
}

static void check_affine(reed_tensor *y, int64_t n) {
  reed_tensor *host = NULL;
  ck_assert_int_eq(reed_tensor_to_host(y, &host, NULL), REED_OK);
  ck_assert_int_eq(reed_tensor_elements(host), n);
  for (int64_t i = 0; i < n; i++) ck_assert_float_eq(((const float *)reed_tensor_data(host))[i], (float)(2 * i + 1));
  reed_tensor_close(&host);
}

/* A card of 1 MiB is full: because of one run's tensors, or of outputs that the caller keeps. Each such run fails with
 * the bytes that it asked for; smaller runs go on, also from a graph, and so does every run once the outputs are
 * closed.
 */
START_TEST(a_full_card_ends_a_run_and_the_session_runs_again) {
  enum { SMALL = 1000, HALF = 100000, LARGE = 400000, KEPT = 8 };
  model m =
      model_open(affine("f32[n]"), _i ? "cuda-emulated?memory=1048576&late=1&seed=5" : "cuda-emulated?memory=1048576",
                 REED_COUNTS_HOST);
  reed_tensor *y = NULL, *kept[KEPT] = {NULL};
  keep(&m, m.session, 0, true);
  for (int round = 0; round < 4; round++) {
    ck_assert_msg(run_of(&m, SMALL, &y) == REED_OK, "%s", reed_diagnosis_message(m.said));
    check_affine(y, SMALL);
    reed_tensor_close(&y);
    ck_assert_int_eq(run_of(&m, LARGE, &y), REED_ERROR_MEMORY);
    ck_assert_ptr_null(y);
    const char *said = reed_diagnosis_message(m.said);
    ck_assert_msg(strstr(said, "no memory for 1600000 bytes (") && strstr(said, "its outputs "), "%s", said);
    int n = 0;
    while (n < KEPT && run_of(&m, HALF, &kept[n]) == REED_OK) n++;
    ck_assert_msg(n > 0 && n < KEPT, "%d outputs of %d bytes in 1 MiB", n, 4 * HALF);
    for (int i = 0; i < n; i++) {
      check_affine(kept[i], HALF);
      reed_tensor_close(&kept[i]);
    }
  }
  model_close(&m);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("failed_calls");
  TCase *cases = tcase_create("failed_calls");
  tcase_set_timeout(cases, 200);
  tcase_add_loop_test(cases, every_call_of_the_driver_is_failed_once, 0, sizeof failures / sizeof *failures);
  tcase_add_loop_test(cases, a_full_card_ends_a_run_and_the_session_runs_again, 0, 2);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
