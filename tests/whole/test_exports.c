/* The small versions of the models that users export (bench/small_models.py), end to end: equal to PyTorch in float64
 * on the host and on the simulated accelerator, with the compiler's optional passes and without; and the rewrites that
 * are made for such graphs fire on them, so that few epochs and transposes are left. */
#include <cjson/cJSON.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tools/files.h"
#include "tools/npy.h"
#include "tests/devices.h"
#include "tests/suite.h"

/* The fewest changes that each of the passes must report. */
typedef struct firing {
  const char *pass;
  int changes;
} firing;

#define MOST_FIRINGS 12
#define SUPPRESSIONS(n) \
  {"nms_guard", n}, {"nms_classes", n}, { "nms_limit", n }
#define PROPOSALS {"filter_chain", 2}, {"nms_filter", 2}, SUPPRESSIONS(2)
static const struct {
  const char *name;
  int epochs, at_bound;       /* the most epochs outside loops; with counts on the device */
  int transposes;             /* the most Transposes that may be left, such as one of an output or of scores */
  firing fires[MOST_FIRINGS]; /* ends with NULL */
} exports[] = {
    {"mask",
     3,
     1,
     0,
     {PROPOSALS,
      {"roi_levels", 10},
      {"paste_masks", 1},
      {"chosen_class", 1},
      {"bn_fold", 17},
      {"layout", 1},
      {"fusion", 44}}},
    {"faster", 3, 1, 0, {PROPOSALS, {"roi_levels", 5}, {"bn_fold", 17}, {"layout", 1}, {"fusion", 41}}},
    {"keypoint",
     3,
     1,
     0,
     {PROPOSALS,
      {"roi_levels", 10},
      {"accumulate", 2},
      {"keypoints", 1},
      {"bn_fold", 17},
      {"layout", 1},
      {"fusion", 43}}},
    {"faster_mobile", 3, 1, 0, {PROPOSALS, {"roi_levels", 3}, {"layout", 1}, {"fusion", 54}}},
    {"retinanet", 3, 1, 0, {SUPPRESSIONS(1), {"bn_fold", 17}, {"layout", 1}, {"fusion", 74}}},
    {"fcos", 3, 1, 0, {SUPPRESSIONS(1), {"group_norm", 20}, {"bn_fold", 17}, {"layout", 1}, {"fusion", 59}}},
    {"ssd300", 3, 1, 1, {SUPPRESSIONS(1), {"class_candidates", 1}, {"layout", 1}, {"fusion", 10}}},
    {"ssdlite", 3, 1, 1, {SUPPRESSIONS(1), {"class_candidates", 1}, {"layout", 1}, {"fusion", 73}}},
    {"bert", 1, 1, 0, {{"activations", 2}, {"chains", 1}}},
    {"lstm", 1, 1, 4, {{NULL}}},
    {"gru", 1, 1, 4, {{NULL}}},
    {"subpixel", 1, 1, 1, {{"layout", 1}, {"fusion", 4}}},
    {"subpixel_f16", 1, 1, 1, {{"layout", 1}, {"fusion", 2}}},
};
enum { N_EXPORTS = sizeof exports / sizeof *exports };

/* The allowed difference of an element, by the output's name. In the cases that bench/export_torchvision.py picks peers
 * differ by at most a quarter of it. */
static const struct {
  const char *output;
  double error, error_f16;
} allowed[] = {{"boxes", 0.02, 0},  {"labels", 0, 0},        {"scores", 2e-3, 0},
               {"masks", 1e-2, 0},  {"keypoints", 0.02, 0},  {"keypoints_scores", 1e-2, 0},
               {"states", 1e-4, 0}, {"enlarged", 1e-4, 1e-2}};

static double allowed_error(const char *output, reed_dtype dtype) {
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    if (strcmp(allowed[i].output, output) == 0) return dtype == REED_F16 ? allowed[i].error_f16 : allowed[i].error;
  ck_abort_msg("no bar for an output '%s'", output);
}

static char *read_export(const char *name, const char *suffix, size_t *out_n) {
  const char *folder = getenv("REED_EXPORTS");
  ck_assert_msg(folder != NULL, "REED_EXPORTS names the folder of the unpacked exports");
  char path[1024], *bytes;
  complaint c;
  snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
  ck_assert_msg(file_read(path, &bytes, out_n, &c) == DONE, "%s", c.text);
  return bytes;
}

/* The next of a file's arrays, which follow each other without a table. */
static reed_tensor *next_array(const char *name, const char **at, const char *end) {
  static const char magic[] = "\x93NUMPY";
  const char *next = memmem(*at + 1, (size_t)(end - *at - 1), magic, strlen(magic));
  if (!next) next = end;
  reed_tensor *tensor;
  complaint c;
  ck_assert_msg(npy_read(name, *at, (size_t)(next - *at), &tensor, &c) == DONE, "%s", c.text);
  *at = next;
  return tensor;
}

static double element(const reed_tensor *t, int64_t i) {
  return reed_dtype_read(reed_tensor_dtype(t),
                         (const char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(reed_tensor_dtype(t)));
}

static void check_output(const char *where, const char *output, const reed_tensor *got, const reed_tensor *want) {
  ck_assert_int_eq(reed_tensor_rank(got), reed_tensor_rank(want));
  for (int32_t i = 0; i < reed_tensor_rank(got); i++)
    ck_assert_msg(reed_tensor_dims(got)[i] == reed_tensor_dims(want)[i],
                  "%s: %s has extent %lld in dimension %d, not %lld", where, output,
                  (long long)reed_tensor_dims(got)[i], i, (long long)reed_tensor_dims(want)[i]);
  double bar = allowed_error(output, reed_tensor_dtype(got));
  for (int64_t i = 0; i < reed_tensor_elements(got); i++)
    ck_assert_msg(fabs(element(got, i) - element(want, i)) <= bar, "%s: %s, element %lld: %.7g, not %.7g", where,
                  output, (long long)i, element(got, i), element(want, i));
}

static reed_program *compile(const char *name, const reed_compile_options *options, char **out_report) {
  size_t n_onnx, n_module;
  char *onnx = read_export(name, ".onnx", &n_onnx);
  void *module;
  reed_program *program;
  reed_diagnosis *d = need_diagnosis();
  reed_status status = reed_compile_bytes(onnx, n_onnx, options, &module, &n_module, out_report, d);
  ck_assert_msg(status == REED_OK, "%s: %s", name, reed_diagnosis_message(d));
  status = reed_program_open_bytes(module, n_module, NULL, &program, d);
  ck_assert_msg(status == REED_OK, "%s: %s", name, reed_diagnosis_message(d));
  reed_text_free(module);
  reed_diagnosis_close(&d);
  free(onnx);
  return program;
}

/* The shapes that are found without a run are those of the outputs; an unknown extent is at most its bound, which
 * exists if `bounded`. */
static void check_shapes(const char *where, const reed_program *program, reed_session *session,
                         reed_tensor *const *inputs, reed_tensor *const *wanted, bool bounded) {
  size_t n_inputs = reed_program_input_count(program), n_outputs = reed_program_output_count(program);
  reed_shape found[8];
  reed_diagnosis *d = need_diagnosis();
  reed_status status = reed_session_shapes(session, NULL, inputs, n_inputs, found, n_outputs, d);
  ck_assert_msg(status == REED_OK, "%s: %s", where, reed_diagnosis_message(d));
  for (size_t i = 0; i < n_outputs; i++) {
    reed_value_info info;
    ck_assert_int_eq(reed_program_output(program, i, &info), REED_OK);
    ck_assert_int_eq(found[i].dtype, info.dtype);
    ck_assert_int_eq(found[i].rank, reed_tensor_rank(wanted[i]));
    for (int32_t k = 0; k < found[i].rank; k++) {
      int64_t extent = reed_tensor_dims(wanted[i])[k];
      ck_assert_msg(found[i].dims[k] == extent || (found[i].dims[k] == -1 && (found[i].bounds[k] >= extent ||
                                                                              (!bounded && found[i].bounds[k] == -1))),
                    "%s: output %zu, axis %d: %lld (at most %lld), not %lld", where, i, k, (long long)found[i].dims[k],
                    (long long)found[i].bounds[k], (long long)extent);
    }
  }
  reed_diagnosis_close(&d);
}

typedef struct graph_counts {
  int captured, replayed, moved, refused;
} graph_counts;

static graph_counts count_graphs(reed_session *session) {
  reed_diagnosis *d = need_diagnosis();
  char *text;
  ck_assert_int_eq(reed_session_stats_json(session, &text, d), REED_OK);
  cJSON *root = cJSON_Parse(text), *graphs = cJSON_GetObjectItem(root, "graphs");
  graph_counts counts = {(int)cJSON_GetNumberValue(cJSON_GetObjectItem(graphs, "captured")),
                         (int)cJSON_GetNumberValue(cJSON_GetObjectItem(graphs, "replayed")),
                         (int)cJSON_GetNumberValue(cJSON_GetObjectItem(graphs, "moved")),
                         (int)cJSON_GetNumberValue(cJSON_GetObjectItem(graphs, "refused"))};
  cJSON_Delete(root);
  reed_text_free(text);
  reed_diagnosis_close(&d);
  return counts;
}

/* The last run waited for the device at most three times, and read at most 16 bytes back besides its outputs. */
static void check_waits(const char *where, reed_session *session) {
  reed_diagnosis *d = need_diagnosis();
  char *text;
  ck_assert_int_eq(reed_session_stats_json(session, &text, d), REED_OK);
  cJSON *root = cJSON_Parse(text), *copy;
  const int waits = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(root, "synchronisations"));
  int64_t bytes = 0;
  cJSON_ArrayForEach(copy, cJSON_GetObjectItem(root, "copies")) {
    if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(copy, "direction")), "device-to-host") == 0 &&
        strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(copy, "reason")), "output") != 0)
      bytes += (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(copy, "bytes"));
  }
  ck_assert_msg(waits >= 1 && waits <= 3 && bytes <= 16, "%s: %d waits, %lld bytes read back besides the outputs",
                where, waits, (long long)bytes);
  cJSON_Delete(root);
  reed_text_free(text);
  reed_diagnosis_close(&d);
}

/* Of a case's rounds the second records graphs, and the third replays each of them, because no pointer has moved. An
 * epoch that an earlier case has run is replayed, too. */
static void check_replays(const char *where, const graph_counts after[3]) {
  int captured = after[1].captured - after[0].captured;
  ck_assert_msg(after[2].refused == 0 && after[2].moved == after[1].moved && after[2].captured == after[1].captured &&
                    after[2].replayed - after[1].replayed >= captured,
                "%s: of %d graphs %d were replayed, %d were recorded again, %d pointers moved, %d refused", where,
                captured, after[2].replayed - after[1].replayed, after[2].captured - after[1].captured,
                after[2].moved - after[1].moved, after[2].refused);
}

/* Runs every case of the model `rounds` times: a shape seen before runs by other code than a new shape. bounded: counts
 * of boxes are bounded in all outputs. resident: every kernel runs on the device, and counts stay there. */
static void run_cases(const char *name, reed_program *program, const char *device, int rounds, bool bounded,
                      bool resident, reed_graphs graphs) {
  enum { MOST = 8 };
  size_t n, n_inputs = reed_program_input_count(program), n_outputs = reed_program_output_count(program);
  ck_assert(n_inputs <= MOST && n_outputs <= MOST);
  char *bytes = read_export(name, ".npy", &n), where[128];
  reed_session *session;
  reed_diagnosis *d = need_diagnosis();
  ck_assert_int_eq(reed_session_open(program, &(reed_session_options){.device = device, .graphs = graphs}, &session, d),
                   REED_OK);
  int n_cases = 0;
  for (const char *at = bytes; at < bytes + n; n_cases++) {
    reed_tensor *inputs[MOST], *wanted[MOST], *outputs[MOST];
    for (size_t i = 0; i < n_inputs; i++) inputs[i] = next_array(name, &at, bytes + n);
    for (size_t i = 0; i < n_outputs; i++) wanted[i] = next_array(name, &at, bytes + n);
    graph_counts counts[3] = {0};
    for (int round = 0; round < rounds; round++) {
      snprintf(where, sizeof where, "%s, case %d, round %d, on %s", name, n_cases, round, device);
      check_shapes(where, program, session, inputs, wanted, bounded); /* before and after the first run */
      reed_status status = reed_session_run(session, inputs, n_inputs, outputs, n_outputs, d);
      ck_assert_msg(status == REED_OK, "%s: %s", where, reed_diagnosis_message(d));
      for (size_t i = 0; i < n_outputs; i++) {
        reed_value_info info;
        ck_assert_int_eq(reed_program_output(program, i, &info), REED_OK);
        check_output(where, info.name, outputs[i], wanted[i]);
        reed_tensor_close(&outputs[i]);
      }
      if (round < 3) counts[round] = count_graphs(session);
      if (resident) check_waits(where, session);
    }
    if (rounds >= 3) check_replays(where, counts);
    for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
    for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&wanted[i]);
  }
  ck_assert_int_ge(n_cases, 2);
  reed_session_close(&session);
  reed_diagnosis_close(&d);
  free(bytes);
}

static void check_cases(const char *name, reed_program *program, const char *device, int rounds, bool bounded,
                        reed_graphs graphs) {
  run_cases(name, program, device, rounds, bounded, false, graphs);
}

START_TEST(every_export_equals_pytorch) {
  reed_program *program = compile(exports[_i].name, &(reed_compile_options){0}, NULL);
  check_cases(exports[_i].name, program, "host", 2, true, REED_GRAPHS_AUTO);
  check_cases(exports[_i].name, program, "sim", 3, true, REED_GRAPHS_AUTO); /* the third run replays graphs */
  reed_program_close(&program);
}
END_TEST

START_TEST(every_export_equals_pytorch_without_the_optional_passes) {
  const char *disabled[64] = {NULL};
  size_t n = 0;
  reed_pass_info pass;
  for (size_t i = 0; reed_compile_pass(i, &pass); i++)
    if (!pass.required) disabled[n++] = pass.name;
  ck_assert_uint_lt(n, 64);
  reed_program *program = compile(exports[_i].name, &(reed_compile_options){.disabled_passes = disabled}, NULL);
  check_cases(exports[_i].name, program, "host", 1, false, REED_GRAPHS_AUTO);
  reed_program_close(&program);
}
END_TEST

/* Compiled for a GPU, with graphs and without: operators without a kernel there run on the host, between kernels.
 * Convolutions and products of all models but BERT are left to the host unless REED_ALL_EMULATED is set, because the
 * emulation computes them in minutes. */
START_TEST(every_export_equals_pytorch_on_the_emulated_gpu) {
  const char *target = getenv("REED_ALL_EMULATED") || strcmp(exports[_i].name, "bert") == 0
                           ? "cuda-emulated"
                           : "cuda-emulated?lacks=Conv+ConvTranspose+Gemm+MatMul";
  reed_program *program = compile(exports[_i].name, &(reed_compile_options){.target = target}, NULL);
  check_cases(exports[_i].name, program, "cuda-emulated?late=1&seed=5&order=11", 3, false, REED_GRAPHS_ON);
  check_cases(exports[_i].name, program, "cuda-emulated?poison=1&seed=2&order=1", 1, false, REED_GRAPHS_OFF);
  reed_program_close(&program);
  /* all operators planned for the card, and computed by the host's kernels; every count is fetched */
  program =
      compile(exports[_i].name, &(reed_compile_options){.target = "cuda-emulated", .counts = REED_COUNTS_HOST}, NULL);
  check_cases(exports[_i].name, program, "cuda-emulated?card=H100&values=1", 2, false, REED_GRAPHS_AUTO);
  reed_program_close(&program);
}
END_TEST

static int epochs_outside_loops(const char *report) {
  cJSON *root = cJSON_Parse(report);
  const double n =
      cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "lowering"), "epochs_outside_loops"));
  cJSON_Delete(root);
  return (int)n;
}

/* Counts stay on the device: sim launches every kernel of a detector, the pasting of masks included, before the host
 * knows a count. So few waits and bytes cross back that no epoch fetches one but for the outputs. */
START_TEST(every_export_equals_pytorch_with_counts_on_the_device) {
  const char *name = exports[_i].name;
  char *report;
  reed_program *program = compile(name, &(reed_compile_options){.counts = REED_COUNTS_DEVICE}, &report);
  ck_assert_int_le(epochs_outside_loops(report), exports[_i].at_bound);
  reed_text_free(report);
  run_cases(name, program, "sim", 3, false, true, REED_GRAPHS_AUTO);
  reed_program_close(&program);
}
END_TEST

/* The same on the emulated GPU, for which this is the default; convolutions and products are computed by the host's
 * kernels. */
START_TEST(every_export_equals_pytorch_with_counts_on_the_emulated_gpu) {
  const char *name = exports[_i].name;
  char *report;
  reed_program *program = compile(name, &(reed_compile_options){.target = "cuda-emulated"}, &report);
  ck_assert_int_le(epochs_outside_loops(report), exports[_i].at_bound);
  reed_text_free(report);
  run_cases(name, program, "cuda-emulated?card=H100&values=1", 3, false, true, REED_GRAPHS_ON);
  run_cases(name, program, "cuda-emulated?card=H100&values=1", 1, false, true, REED_GRAPHS_OFF);
  reed_program_close(&program);
}
END_TEST

/* On the device that the environment names; no operator is left to the host. */
START_TEST(every_export_equals_pytorch_on_that_device) {
  const char *device = getenv("REED_EXPORT_DEVICE");
  reed_program *program = compile(exports[_i].name, &(reed_compile_options){.target = device}, NULL);
  check_cases(exports[_i].name, program, device, 3, false, REED_GRAPHS_AUTO);
  reed_program_close(&program);
}
END_TEST

START_TEST(rewrites_fire_and_epochs_and_transposes_are_few) {
  char *report;
  reed_program *program = compile(exports[_i].name, &(reed_compile_options){0}, &report);
  cJSON *root = cJSON_Parse(report), *passes = cJSON_GetObjectItem(root, "passes"), *pass;
  for (const firing *f = exports[_i].fires; f < exports[_i].fires + MOST_FIRINGS && f->pass; f++) {
    int changes = -1;
    cJSON_ArrayForEach(pass, passes) {
      if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(pass, "name")), f->pass) == 0)
        changes = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(pass, "changes"));
    }
    ck_assert_msg(changes >= f->changes, "%s: pass '%s' made %d changes, not %d", exports[_i].name, f->pass, changes,
                  f->changes);
  }
  ck_assert_int_le(epochs_outside_loops(report), exports[_i].epochs);
  int transposes = cJSON_GetArraySize(cJSON_GetObjectItem(root, "transposes"));
  ck_assert_msg(transposes <= exports[_i].transposes, "%s: %d transposes are left", exports[_i].name, transposes);
  cJSON_Delete(root);
  reed_text_free(report);
  reed_program_close(&program);
}
END_TEST

/* scripts/gpu_check.sh: REED_EXPORT_DEVICE names a device; REED_EXPORT names one export; without it all run. */
static int run_on_that_device(Suite *suite, TCase *cases) {
  const char *only = getenv("REED_EXPORT");
  tcase_set_timeout(cases, 600);
  for (int i = 0; i < (int)N_EXPORTS; i++)
    if (!only || strcmp(only, exports[i].name) == 0)
      tcase_add_loop_test(cases, every_export_equals_pytorch_on_that_device, i, i + 1);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}

int main(void) {
  Suite *suite = suite_create("exports");
  TCase *cases = tcase_create("exports");
  if (getenv("REED_EXPORT_DEVICE")) return run_on_that_device(suite, cases);
  tcase_set_timeout(cases, 60);
  tcase_add_loop_test(cases, every_export_equals_pytorch, 0, N_EXPORTS);
  tcase_add_loop_test(cases, every_export_equals_pytorch_without_the_optional_passes, 0, N_EXPORTS);
  tcase_add_loop_test(cases, every_export_equals_pytorch_with_counts_on_the_device, 0, N_EXPORTS);
  if (device_is_present("cuda-emulated")) {
    tcase_add_loop_test(cases, every_export_equals_pytorch_on_the_emulated_gpu, 0, N_EXPORTS);
    tcase_add_loop_test(cases, every_export_equals_pytorch_with_counts_on_the_emulated_gpu, 0, N_EXPORTS);
  }
  tcase_add_loop_test(cases, rewrites_fire_and_epochs_and_transposes_are_few, 0, N_EXPORTS);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
