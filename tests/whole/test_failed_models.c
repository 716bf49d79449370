/* Every call of the driver, every entering of the card's context and every request for the card's memory failed once,
 * for models of several kinds, as test_failed_calls.c does it for one: a loop with a branch, a recurrent layer, a small
 * detector, tensors that cross the API by DLPack on the caller's stream; with graphs and without. Every run of a
 * session is repeated once if it fails, and has the bits of a session without a failure. Every few calls; with
 * REED_ALL_EMULATED in the environment each one. */
#include "reed/device.h"
#include "tests/whole/failed.h"
#include "tests/whole/looped_model.h"

enum { MOST_IN = 4, MOST_OUT = 4, RUNS = 3, SETS = 2 };

/* The inputs of a model: SETS of them, which take turns. */
typedef struct subject {
  model m;
  reed_tensor *in[SETS][MOST_IN];
  size_t n_in, n_out;
  reed_tensor *wanted[SETS][MOST_OUT];
} subject;

/* ---- models ---- */

static void loop_inputs(int set, reed_tensor **in) {
  in[0] = floats(1, (int64_t[]){5 + set}, -3);
  ck_assert_int_eq(reed_tensor_open(REED_I64, 0, NULL, &in[1]), REED_OK);
  *(int64_t *)reed_tensor_data(in[1]) = 5 - set;
}

static onnx_build *recurrent(void) {
  onnx_build *b = build_open(17);
  float w[4 * 3 * 2], r[4 * 3 * 3];
  for (int i = 0; i < 24; i++) w[i] = (float)((i * 7 + 3) % 11) / 8 - 0.5f;
  for (int i = 0; i < 36; i++) r[i] = (float)((i * 5 + 1) % 13) / 8 - 0.75f;
  build_input(b, "x", "f32[t,2,2]");
  build_f32(b, "w", "1,12,2", w);
  build_f32(b, "r", "1,12,3", r);
  build_int(b, build_node(b, "LSTM", "x,w,r", "y,h,c"), "hidden_size", 3);
  build_output(b, "y", "f32[t,1,2,3]");
  build_output(b, "c", "f32[1,2,3]");
  return b;
}
static void recurrent_inputs(int set, reed_tensor **in) { in[0] = floats(3, (int64_t[]){3 + set, 2, 2}, -4); }

/* A map, the best boxes of two classes, and the pixels of their regions. */
static onnx_build *detector(void) {
  onnx_build *b = build_open(17);
  float w[2 * 2 * 9];
  for (int i = 0; i < 36; i++) w[i] = (float)((i * 7 + 3) % 11) / 32 - 0.125f;
  build_input(b, "picture", "f32[1,2,h,v]");
  build_input(b, "boxes", "f32[1,n,4]");
  build_input(b, "scores", "f32[1,2,n]");
  build_f32(b, "w", "2,2,3,3", w);
  build_i64(b, "most", "1", (int64_t[]){3});
  build_f32(b, "overlap", "1", (float[]){0.5f});
  build_i64(b, "box", "1", (int64_t[]){2});
  build_i64(b, "first", "1", (int64_t[]){0});
  build_ints(b, build_node(b, "Conv", "picture,w", "map"), "pads", "1,1,1,1");
  build_node(b, "Relu", "map", "features");
  build_node(b, "NonMaxSuppression", "boxes,scores,most,overlap", "chosen");
  build_int(b, build_node(b, "Gather", "chosen,box", "numbers"), "axis", 1);
  build_i64(b, "axis1", "1", (int64_t[]){1});
  build_node(b, "Squeeze", "numbers,axis1", "flat");
  build_node(b, "Squeeze", "boxes,first", "list");
  build_int(b, build_node(b, "Gather", "list,flat", "regions"), "axis", 0);
  build_i64(b, "zero", "", (int64_t[]){0});
  build_int(b, build_node(b, "Gather", "chosen,zero", "images"), "axis", 1);
  build_node_t *align = build_node(b, "RoiAlign", "features,regions,images", "pooled");
  build_int(b, align, "output_height", 2);
  build_int(b, align, "output_width", 2);
  build_output(b, "regions", "f32[k,4]");
  build_output(b, "pooled", "f32[k,2,2,2]");
  return b;
}
static void detector_inputs(int set, reed_tensor **in) {
  const int64_t n = 4 + set;
  in[0] = floats(4, (int64_t[]){1, 2, 6, 7 + set}, -9);
  in[1] = floats(3, (int64_t[]){1, n, 4}, 0);
  in[2] = floats(3, (int64_t[]){1, 2, n}, 0.5f);
  float *box = reed_tensor_data(in[1]);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < 4; k++) box[4 * i + k] = (float)(i % 3 + (k > 1 ? 3 : 0));
}

static onnx_build *two_steps(void) {
  onnx_build *b = affine("f32[n,3]");
  build_node(b, "Abs", "y", "z");
  build_output(b, "z", "f32[n,3]");
  return b;
}
static void two_steps_inputs(int set, reed_tensor **in) { in[0] = floats(2, (int64_t[]){4 + set, 3}, -5); }

static const struct {
  const char *name;
  onnx_build *(*build)(void);
  void (*inputs)(int set, reed_tensor **in);
  size_t n_in, n_out;
  bool dlpack; /* inputs and outputs cross on the card */
} kinds[] = {{"loop", looped_model, loop_inputs, 2, 1, false},
             {"recurrent", recurrent, recurrent_inputs, 1, 2, false},
             {"detector", detector, detector_inputs, 3, 2, false},
             {"dlpack", two_steps, two_steps_inputs, 1, 2, true}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- sweeps ---- */

/* The tensor through DLPack, there and back. */
static reed_tensor *crossed(reed_tensor *t) {
  DLManagedTensorVersioned *managed = NULL;
  reed_tensor *back = NULL;
  ck_assert_int_eq(reed_tensor_to_dlpack_versioned(t, false, &managed, NULL), REED_OK);
  reed_tensor_close(&t);
  const reed_status status = reed_tensor_from_dlpack_versioned(managed, &back, NULL);
  if (status != REED_OK) managed->deleter(managed); /* the failing call was one of the import */
  return back;
}

/* Compares an output with the wanted one, unless the copy to the host meets the failure. */
static int compare(subject *s, int set, size_t i, reed_tensor *got, const char *device) {
  reed_tensor *host = NULL;
  if (reed_tensor_to_host(got, &host, NULL) != REED_OK) return 1;
  reed_tensor **wanted = &s->wanted[set][i];
  if (!*wanted) {
    *wanted = host;
    return 0;
  }
  const int64_t bytes = reed_tensor_bytes(host);
  ck_assert_msg(bytes == reed_tensor_bytes(*wanted), "%s: output %zu has other extents", device, i);
  ck_assert_msg(memcmp(reed_tensor_data(host), reed_tensor_data(*wanted), (size_t)bytes) == 0,
                "%s: output %zu has other bits", device, i);
  reed_tensor_close(&host);
  return 0;
}

/* Opens a session, runs it, closes it. Returns the number of calls that failed. */
static int use(subject *s, const char *device, reed_graphs graphs, bool dlpack) {
  int n_failed = 0;
  reed_status status;
  reed_session *session = NULL;
  const reed_session_options options = {.device = device, .n_threads = 1, .graphs = graphs, .keep_outputs = dlpack};
  /* no second attempt, because opening the card again counts calls anew and fails again */
  status = reed_session_open(s->m.program, &options, &session, s->m.said);
  if (status != REED_OK) {
    const char *message = reed_diagnosis_message(s->m.said);
    ck_assert_msg(strstr(message, "told to fail") || strstr(message, "memory"), "%s: %s", device, message);
    return 1;
  }
  if (dlpack) TRY(&s->m, device, reed_session_set_stream(session, 2, s->m.said)); /* the thread's default stream */
  for (int run = 0; run < RUNS; run++)
    for (int set = 0; set < SETS; set++) {
      reed_tensor *out[MOST_OUT] = {NULL}, *in[MOST_IN];
      for (size_t i = 0; i < s->n_in; i++) {
        in[i] = s->in[set][i];
        if (!dlpack) continue;
        TRY(&s->m, device, reed_tensor_to_device(s->in[set][i], device, &in[i], s->m.said));
        in[i] = crossed(in[i]);
        if (!in[i]) TRY(&s->m, device, reed_tensor_to_device(s->in[set][i], device, &in[i], s->m.said));
      }
      TRY(&s->m, device, reed_session_run(session, in, s->n_in, out, s->n_out, s->m.said));
      for (size_t i = 0; i < s->n_out; i++) {
        if (dlpack) out[i] = crossed(out[i]);
        n_failed += out[i] ? compare(s, set, i, out[i], device) : 1;
        reed_tensor_close(&out[i]);
      }
      for (size_t i = 0; i < s->n_in && dlpack; i++) reed_tensor_close(&in[i]);
    }
  reed_session_close(&session);
  return n_failed;
}

/* Uses the session once for each call that may fail, until `quiet` calls in a row were not missed. */
static int sweep(subject *s, const char *option, int step, int quiet, reed_graphs graphs, bool dlpack) {
  int told = 0, last = 0;
  for (int n = 1; n < last + quiet; n += step) {
    char device[96];
    snprintf(device, sizeof device, "cuda-emulated?poison=1&%s=%d", option, n);
    if (use(s, device, graphs, dlpack) > 0) told++, last = n;
  }
  return told;
}

static void subject_close(subject *s) {
  for (int set = 0; set < SETS; set++) {
    for (int i = 0; i < MOST_IN; i++) reed_tensor_close(&s->in[set][i]);
    for (int i = 0; i < MOST_OUT; i++) reed_tensor_close(&s->wanted[set][i]);
  }
  model_close(&s->m);
}

static const struct {
  const char *option;
  int step, quiet, least; /* least: calls that are told, at the least, with this step */
} failures[] = {{"fail_call", 37, 200, 5}, {"fail_context", 41, 200, 1}, {"fail_memory", 1, 30, 0}};
enum { FAILURES = sizeof failures / sizeof *failures };

START_TEST(every_call_of_the_driver_is_failed_once) {
  const int kind = _i / 2;
  const reed_graphs graphs = _i % 2 ? REED_GRAPHS_OFF : REED_GRAPHS_AUTO;
  subject s = {.m = model_open(kinds[kind].build(), "host", REED_COUNTS_DEVICE),
               .n_in = kinds[kind].n_in,
               .n_out = kinds[kind].n_out};
  reed_session_close(&s.m.session);
  for (int set = 0; set < SETS; set++) kinds[kind].inputs(set, s.in[set]);
  ck_assert_int_eq(use(&s, "cuda-emulated?poison=1", graphs, kinds[kind].dlpack), 0);
  for (int f = 0; f < FAILURES; f++) {
    const int told = sweep(&s, failures[f].option, getenv("REED_ALL_EMULATED") ? 1 : failures[f].step,
                           failures[f].quiet, graphs, kinds[kind].dlpack);
    printf("%s, graphs %s, %s: told %d\n", kinds[kind].name, graphs == REED_GRAPHS_OFF ? "off" : "on",
           failures[f].option, told);
    ck_assert_int_ge(told, failures[f].least);
  }
  subject_close(&s);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("failed_models");
  TCase *cases = tcase_create("failed_models");
  tcase_set_timeout(cases, 200);
  tcase_add_loop_test(cases, every_call_of_the_driver_is_failed_once, 0, 2 * KINDS);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
