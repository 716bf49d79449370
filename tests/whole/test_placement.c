/* Operators that a device lacks run on the host, between kernels: the bits are those of the host alone, second runs are
 * memo hits, copies say `placement`, data of chains stays on the host, independent operators share a synchronisation.
 * Custom operators with a kernel for one device and not for another. A device that lacks operators of a module lists
 * all of them. */
#include <check.h>
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tools/files.h"
#include "tools/npy.h"

enum { MOST = 8 };

typedef struct runner {
  reed_program *program;
  reed_session *session;
  cJSON *report;
} runner;

static runner runner_open(const void *onnx, size_t n_onnx, const char *target, const char *device,
                          const reed_registry *registry) {
  runner r = {0};
  void *bytes;
  size_t n;
  char *report;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_compile_bytes(onnx, n_onnx, &(reed_compile_options){.target = target, .registry = registry},
                                          &bytes, &n, &report, d);
  ck_assert_msg(status == REED_OK, "%s: %s", target ? target : "", reed_diagnosis_message(d));
  status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &r.program, d);
  if (status == REED_OK)
    status = reed_session_open(r.program, &(reed_session_options){.device = device}, &r.session, d);
  ck_assert_msg(status == REED_OK, "%s on %s: %s", target ? target : "", device, reed_diagnosis_message(d));
  r.report = cJSON_Parse(report);
  reed_text_free(report);
  reed_text_free(bytes);
  reed_diagnosis_close(&d);
  return r;
}

static void runner_close(runner *r) {
  reed_session_close(&r->session);
  reed_program_close(&r->program);
  cJSON_Delete(r->report);
}

static void run(runner *r, reed_tensor *const *inputs, reed_tensor **outputs, const char *what) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_session_run(r->session, inputs, reed_program_input_count(r->program), outputs,
                                        reed_program_output_count(r->program), d);
  ck_assert_msg(status == REED_OK, "%s: %s", what, reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
}

static void same_bits(const reed_tensor *a, const reed_tensor *b, const char *what) {
  ck_assert_msg(reed_tensor_dtype(a) == reed_tensor_dtype(b) && reed_tensor_rank(a) == reed_tensor_rank(b), "%s", what);
  for (int32_t i = 0; i < reed_tensor_rank(a); i++)
    ck_assert_msg(reed_tensor_dims(a)[i] == reed_tensor_dims(b)[i], "%s", what);
  ck_assert_msg(memcmp(reed_tensor_data(a), reed_tensor_data(b), reed_tensor_bytes(a)) == 0, "%s", what);
}

static cJSON *stats_of(runner *r) {
  char *text;
  ck_assert_int_eq(reed_session_stats_json(r->session, &text, NULL), REED_OK);
  cJSON *stats = cJSON_Parse(text);
  reed_text_free(text);
  return stats;
}

/* Copies of the last run, of one direction and for that operator (NULL: any), by reason of placement. */
static int n_copies(runner *r, const char *direction, const char *op) {
  cJSON *stats = stats_of(r), *copy;
  int n = 0;
  cJSON_ArrayForEach(copy, cJSON_GetObjectItem(stats, "copies")) {
    n += strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(copy, "direction")), direction) == 0 &&
         strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(copy, "reason")), "placement") == 0 &&
         (!op || strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(copy, "operator")), op) == 0);
  }
  cJSON_Delete(stats);
  return n;
}

static void all_hits(runner *r, const char *what) {
  cJSON *stats = stats_of(r), *epoch;
  cJSON_ArrayForEach(epoch, cJSON_GetObjectItem(stats, "epochs")) {
    ck_assert_msg(strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(epoch, "memo")), "hit") == 0, "%s", what);
  }
  cJSON_Delete(stats);
}

static int placed(const runner *r, const char *key) {
  const cJSON *lowering = cJSON_GetObjectItem(r->report, "lowering");
  const cJSON *found = cJSON_GetObjectItem(cJSON_GetObjectItem(lowering, "placement"), key);
  if (!found) found = cJSON_GetObjectItem(lowering, key);
  ck_assert_msg(found != NULL, "the report has no '%s'", key);
  return (int)cJSON_GetNumberValue(found);
}

/* ---- whole models ---- */

static const char *const lists[] = {"Conv",
                                    "TopK",
                                    "NonMaxSuppression",
                                    "Conv+TopK+NonMaxSuppression",
                                    "*.f64+Conv.f32+Gather.f32",
                                    "Resize@mode=linear+MatMul+Softmax"};
enum { N_LISTS = sizeof lists / sizeof *lists };
static const char *const models[] = {"bert", "faster_mobile", "fcos",    "gru",      "keypoint",
                                     "lstm", "mask",          "ssdlite", "subpixel", "subpixel_f16"};
enum { N_MODELS = sizeof models / sizeof *models };

static char *read_export(const char *name, const char *suffix, size_t *out_n) {
  char path[1024], *bytes;
  complaint c;
  snprintf(path, sizeof path, "%s/%s%s", getenv("REED_EXPORTS"), name, suffix);
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

/* On the host as compiled by default; then for a sim that lacks the list: on it, and on the host. */
static void check_model(const char *what, const void *onnx, size_t n_onnx, const char *list,
                        reed_tensor *const *inputs) {
  /* Work that runs late and in another order than it was enqueued, and memory overwritten when it changes hands */
  static int n_checked;
  char device[200];
  snprintf(device, sizeof device, "sim?lacks=%s%s", list, n_checked++ & 1 ? "&seed=5&delay_us=20&poison=1" : "");
  reed_tensor *want[MOST], *got[MOST];
  runner host = runner_open(onnx, n_onnx, NULL, "host", NULL);
  run(&host, inputs, want, what);
  size_t n_outputs = reed_program_output_count(host.program);
  for (int bound = 0; bound < 2; bound++) {
    runner lacking = runner_open(onnx, n_onnx, device, bound ? "host" : device, NULL);
    for (int turn = 0; turn < 2; turn++) {
      run(&lacking, inputs, got, what);
      for (size_t i = 0; i < n_outputs; i++) {
        same_bits(got[i], want[i], what);
        reed_tensor_close(&got[i]);
      }
    }
    all_hits(&lacking, what);
    if (!bound && placed(&lacking, "late_operators") > 0 && placed(&lacking, "device_operators") > 0)
      ck_assert_msg(n_copies(&lacking, "device-to-host", NULL) + n_copies(&lacking, "host-to-device", NULL) > 0, "%s",
                    what);
    runner_close(&lacking);
  }
  for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&want[i]);
  runner_close(&host);
}

START_TEST(every_export_gives_the_same_bits) {
  const char *name = models[_i];
  size_t n_onnx, n;
  char *onnx = read_export(name, ".onnx", &n_onnx), *arrays = read_export(name, ".npy", &n), what[128];
  const char *at = arrays;
  reed_tensor *inputs[MOST];
  runner r = runner_open(onnx, n_onnx, NULL, "host", NULL);
  size_t n_inputs = reed_program_input_count(r.program);
  runner_close(&r);
  for (size_t i = 0; i < n_inputs; i++) inputs[i] = next_array(name, &at, arrays + n);
  for (size_t k = 0; k < N_LISTS; k++) {
    snprintf(what, sizeof what, "%s without %s", name, lists[k]);
    check_model(what, onnx, n_onnx, lists[k], inputs);
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&inputs[i]);
  free(onnx);
  free(arrays);
}
END_TEST

START_TEST(the_shapes_model_gives_the_same_bits) {
  char path[1024], *onnx, *array, what[128];
  size_t n_onnx, n;
  complaint c;
  snprintf(path, sizeof path, "%s/shapes.onnx", getenv("REED_EXAMPLES"));
  ck_assert_msg(file_read(path, &onnx, &n_onnx, &c) == DONE, "%s", c.text);
  snprintf(path, sizeof path, "%s/scene1_image.npy", getenv("REED_EXAMPLES"));
  ck_assert_msg(file_read(path, &array, &n, &c) == DONE, "%s", c.text);
  const char *at = array;
  reed_tensor *image = next_array("scene1", &at, array + n);
  for (size_t k = 0; k < N_LISTS; k++) {
    snprintf(what, sizeof what, "shapes without %s", lists[k]);
    check_model(what, onnx, n_onnx, lists[k], &image);
  }
  reed_tensor_close(&image);
  free(onnx);
  free(array);
}
END_TEST

/* ---- small graphs ---- */

static reed_tensor *f32_of(int32_t rank, const int64_t *dims) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(REED_F32, rank, dims, &t), REED_OK);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    ((float *)reed_tensor_data(t))[i] = (float)((i * 7919) % 31) / 8 - 1;
  return t;
}

/* y by `build` on x of [4,6]; lacking on a sim and on the host against the default. The runner on the sim. */
static runner small(onnx_build *b, const char *list, const reed_registry *registry) {
  char device[200];
  snprintf(device, sizeof device, "sim?lacks=%s", list);
  size_t n;
  const void *onnx = build_pack(b, &n);
  runner host = runner_open(onnx, n, NULL, "host", registry);
  runner lacking = runner_open(onnx, n, device, device, registry);
  for (int64_t rows = 4; rows < 6; rows++)
    for (int turn = 0; turn < 2; turn++) {
      reed_tensor *x = f32_of(2, (int64_t[]){rows, 6}), *want[MOST], *got[MOST];
      /* new elements under known extents: no element may be part of a key */
      if (turn) ((float *)reed_tensor_data(x))[5] = 0.375f;
      run(&host, &x, want, list);
      run(&lacking, &x, got, list);
      if (turn) all_hits(&lacking, list);
      for (size_t i = 0; i < reed_program_output_count(host.program); i++) {
        same_bits(got[i], want[i], list);
        reed_tensor_close(&want[i]);
        reed_tensor_close(&got[i]);
      }
      reed_tensor_close(&x);
    }
  runner_close(&host);
  build_close(&b);
  return lacking;
}

static onnx_build *start(void) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,6]");
  static const float weights[36] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  build_f32(b, "w", "6,6", weights);
  return b;
}

START_TEST(independent_operators_share_a_synchronisation) {
  onnx_build *b = start();
  build_node(b, "MatMul", "x,w", "a");
  build_int(b, build_node(b, "Softmax", "a", "s"), "axis", 1);
  build_int(b, build_node(b, "CumSum", "a,one", "c"), "reverse", 0);
  static const int64_t axis = 1;
  build_i64(b, "one", "", &axis);
  build_node(b, "MatMul", "s,w", "t");
  build_node(b, "MatMul", "c,w", "u");
  build_node(b, "Add", "t,u", "y");
  build_output(b, "y", "f32");
  runner r = small(b, "Softmax+CumSum", NULL);
  ck_assert_int_eq(placed(&r, "late_operators"), 2);
  ck_assert_int_eq(placed(&r, "epochs_outside_loops"), 2); /* one border between epochs, so two epochs */
  ck_assert_int_eq(n_copies(&r, "device-to-host", NULL), 1);
  ck_assert_int_eq(n_copies(&r, "host-to-device", NULL), 2);
  runner_close(&r);
}
END_TEST

START_TEST(chains_stay_on_the_host) {
  onnx_build *b = start();
  build_node(b, "MatMul", "x,w", "a");
  build_int(b, build_node(b, "Softmax", "a", "s"), "axis", 1);
  build_node(b, "Transpose", "s", "turned"); /* light: not worth two copies */
  build_int(b, build_node(b, "LogSoftmax", "turned", "l"), "axis", 0);
  build_node(b, "MatMul", "w,l", "y");
  build_output(b, "y", "f32");
  runner r = small(b, "Softmax+LogSoftmax", NULL);
  ck_assert_int_eq(placed(&r, "late_operators"), 3);
  ck_assert_int_eq(placed(&r, "epochs_outside_loops"), 2);
  ck_assert_int_eq(n_copies(&r, "device-to-host", NULL), 1);
  ck_assert_int_eq(n_copies(&r, "host-to-device", NULL), 1);
  runner_close(&r);
}
END_TEST

START_TEST(bounded_results_and_branches) {
  onnx_build *b = start(), *yes = build_subgraph(b), *no = build_subgraph(b);
  static const float level = 0.5f;
  static const int64_t axes[] = {0, 1};
  build_f32(b, "level", "", &level);
  build_i64(b, "axes", "2", axes);
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "Greater", "a,level", "mask");
  build_node(b, "NonZero", "mask", "places");
  build_node(b, "Transpose", "places", "rows");
  build_node(b, "GatherND", "a,rows", "kept");
  build_int(b, build_node(b, "ReduceMax", "x,axes", "top"), "keepdims", 0);
  build_node(b, "Greater", "top,level", "any");
  build_int(yes, build_node(yes, "Softmax", "a", "s"), "axis", 1);
  build_node(yes, "MatMul", "s,w", "p");
  build_output(yes, "p", "f32");
  build_int(no, build_node(no, "Softmax", "a", "q"), "axis", 0);
  build_output(no, "q", "f32");
  build_node_t *n = build_node(b, "If", "any", "chosen");
  build_graph_attr(b, n, "then_branch", yes);
  build_graph_attr(b, n, "else_branch", no);
  build_node(b, "MatMul", "chosen,w", "y");
  build_output(b, "kept", "f32");
  build_output(b, "y", "f32");
  runner r = small(b, _i ? "*" : "NonZero+Softmax+ReduceMax", NULL);
  ck_assert_int_ge(placed(&r, "late_operators"), 3);
  runner_close(&r);
}
END_TEST

/* Results of late host operators that are outputs of the model: their extents are fetched, too. */
START_TEST(bounded_results_are_outputs) {
  onnx_build *b = start();
  static const float level = 0.5f;
  build_f32(b, "level", "", &level);
  build_node(b, "Greater", "x,level", "mask");
  build_node(b, "NonZero", "mask", "places");
  build_node(b, "Compress", "x,flat", "kept");
  static const int64_t all = -1;
  build_i64(b, "all", "1", &all);
  build_node(b, "Reshape", "mask,all", "flat");
  build_output(b, "places", "i64");
  build_output(b, "kept", "f32");
  static const char *const without[] = {"NonZero", "Compress", "NonZero+Compress", "*"};
  runner r = small(b, without[_i], NULL);
  ck_assert_int_ge(placed(&r, "late_operators"), 1);
  runner_close(&r);
}
END_TEST

START_TEST(constants_are_packed_where_packed_weights_are_read) {
  static const struct {
    const char *list;
    int packed;
  } forms[] = {{"Relu", 2}, {"*@packed", 0}, {"*@packed+Gemm", 1}, {"Gemm+MatMul", 2}};
  for (int i = 0; i < 4; i++) {
    onnx_build *b = start();
    build_node(b, "MatMul", "x,w", "a");
    build_int(b, build_node(b, "Gemm", "a,w", "g"), "transB", 1);
    build_node(b, "Sin", "g", "y");
    build_output(b, "y", "f32");
    runner r = small(b, forms[i].list, NULL);
    const cJSON *pass;
    int changes = 0;
    cJSON_ArrayForEach(pass, cJSON_GetObjectItem(r.report, "passes")) {
      if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(pass, "name")), "pack") == 0)
        changes = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(pass, "changes"));
    }
    ck_assert_msg(changes == 2 * forms[i].packed, "%s: %d", forms[i].list, changes);
    runner_close(&r);
  }
}
END_TEST

/* ---- custom operators ---- */

static reed_status like_input(reed_shape_call *call) {
  call->outputs[0].rank = call->inputs[0].rank;
  memcpy(call->outputs[0].dims, call->inputs[0].dims, sizeof(reed_dim) * (size_t)call->inputs[0].rank);
  return REED_OK;
}

static int n_own; /* preparations of the sim's own kernel */

static reed_status run_twice(const void *state, const reed_kernel_buffers *buffers) {
  int64_t n = (int64_t)(intptr_t)state;
  for (int64_t i = 0; i < n; i++) ((float *)buffers->outputs[0])[i] = 2 * ((const float *)buffers->inputs[0])[i];
  return REED_OK;
}

static reed_status prepare_twice(const reed_kernel_call *call, reed_kernel *out_kernel) {
  int64_t n = 1;
  for (int32_t i = 0; i < call->inputs[0].rank; i++) n *= call->inputs[0].dims[i];
  *out_kernel = (reed_kernel){.run = run_twice, .state = (void *)(intptr_t)n};
  return REED_OK;
}

static reed_status prepare_own(const reed_kernel_call *call, reed_kernel *out_kernel) {
  n_own++;
  return prepare_twice(call, out_kernel);
}

START_TEST(custom_operators_have_kernels_per_device) {
  static const reed_op_input in[] = {{.name = "X", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32}};
  static const reed_op_output out[] = {{.name = "Y", .type_rule = REED_TYPE_LIKE}};
  static const reed_op_kernel own = {"sim", prepare_own}, none = {"sim", NULL};
  const reed_op_kernel *const kernels[] = {NULL, &own, &none};
  static const char *const lacking[] = {"Sin", "Sin", "Sin", "Twice", "com.acme::Twice.f32"};
  static const int late[] = {0, 0, 1, 1, 1}, prepared[] = {0, 1, 0, 0, 0};
  for (int i = 0; i < 5; i++) {
    const reed_op_kernel *kernel = kernels[i < 3 ? i : 0];
    reed_op op = {.domain = "com.acme",
                  .name = "Twice",
                  .inputs = in,
                  .n_inputs = 1,
                  .outputs = out,
                  .n_outputs = 1,
                  .shape = like_input,
                  .cpu = prepare_twice,
                  .kernels = kernel,
                  .n_kernels = kernel != NULL};
    reed_registry *registry;
    ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
    ck_assert_int_eq(reed_registry_add(registry, &op, NULL), REED_OK);
    onnx_build *b = start();
    build_node(b, "MatMul", "x,w", "a");
    build_node(b, "Twice", "a", "t")->domain = "com.acme";
    build_node(b, "MatMul", "t,w", "y");
    build_output(b, "y", "f32");
    n_own = 0;
    runner r = small(b, lacking[i], registry);
    ck_assert_msg(placed(&r, "late_operators") == late[i], "%d", i);
    ck_assert_msg((n_own > 0) == prepared[i], "%d", i);
    ck_assert_int_eq(n_copies(&r, "device-to-host", "Twice"), late[i]);
    runner_close(&r);
    reed_registry_close(&registry);
  }
  reed_registry *registry;
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  reed_op_kernel twice[] = {{"sim", prepare_own}, {"sim", NULL}};
  reed_op op = {.domain = "com.acme",
                .name = "Twice",
                .inputs = in,
                .n_inputs = 1,
                .outputs = out,
                .n_outputs = 1,
                .shape = like_input,
                .cpu = prepare_twice,
                .kernels = twice,
                .n_kernels = 2};
  ck_assert_int_eq(reed_registry_add(registry, &op, NULL), REED_ERROR_ARGUMENT);
  reed_registry_close(&registry);
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_device_says_all_that_it_lacks) {
  onnx_build *b = start();
  build_node(b, "MatMul", "x,w", "a");
  build_int(b, build_node(b, "Softmax", "a", "s"), "axis", 1);
  build_int(b, build_node(b, "Cast", "s", "wide"), "to", 11);
  build_node(b, "Sin", "wide", "sine");
  build_int(b, build_node(b, "Cast", "sine", "y"), "to", 1);
  build_output(b, "y", "f32");
  size_t n_onnx, n;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes;
  reed_diagnosis *d;
  reed_program *program;
  reed_session *session;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  ck_assert_int_eq(reed_compile_bytes(onnx, n_onnx, NULL, &bytes, &n, NULL, d), REED_OK);
  ck_assert_int_eq(reed_program_open_bytes(bytes, n, NULL, &program, d), REED_OK);
  reed_session_options options = {.device = "sim?lacks=MatMul+Softmax+*.f64"};
  ck_assert_int_eq(reed_session_open(program, &options, &session, d), REED_ERROR_UNSUPPORTED);
  static const char *const words[] = {"MatMul", "Softmax", "f64", "a_node", "s_node", "host,sim"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    ck_assert_msg(strstr(reed_diagnosis_message(d), words[i]) != NULL, "'%s' is not in: %s", words[i],
                  reed_diagnosis_message(d));
  options.device = "sim?lacks=LSTM"; /* the module has no LSTM */
  ck_assert_int_eq(reed_session_open(program, &options, &session, d), REED_OK);
  reed_session_close(&session);
  reed_program_close(&program);
  reed_text_free(bytes);
  static const struct {
    const char *target, *word;
  } wrong[] = {{"sim?lacks=Covn", "Covn"},
               {"sin", "sin"},
               {"sim?lakcs=Conv", "lakcs"},
               {"sim?lacks=Conv.f23", "f23"},
               {"sim?lacks=+", "missing"},
               {"host,cudu", "cudu"},
               {"sim?lacks=Conv+", "missing"},
               {"host,", "no target ''"},
               {"sim?colour=1", "no option 'colour'; known: fail_allocation"},
               {"host,sim?check=1", "no option 'check'"},
               {"cuda?seed=7", "no option 'seed'; known: check"},
               {"host?seed=7", "no option 'seed'; known: lacks, only, counts"},
               {"sim?seed=7x", "option 'seed' takes a number from 0 on"},
               {"sim?seed=-1", "option 'seed' takes a number"},
               {"sim?seed=", "option 'seed' takes a number"},
               {"sim?seed", "option 'seed' takes a number"},
               {"sim?seed=9223372036854775808", "option 'seed' takes a number"},
               {"cuda?cudnn=3", "option 'cudnn' takes a number from 0 to 2"},
               {"cuda-emulated?late=1&order=1&clock=1000000001", "option 'clock' takes a number from 0 to 1000000000"},
               {"sim?lacks=", "option 'lacks' takes a list of operators"},
               {"sim?", "options are missing behind the '?'"},
               {"sim?seed=1&,host", "an option is missing behind the last '&'"},
               {"cuda:64", "'64' is no number of a device, from 0 to 63"},
               {"sim:x", "'x' is no number"},
               {"sim:", "'' is no number"},
               {"sim?lacks=Conv@", "'Conv@' ends too early"},
               {"sim?lacks=Conv@group=", "'Conv@group=' ends too early"},
               {"sim?lacks=Conv@gruop=1", "Conv has no attribute 'gruop'"},
               {"sim?lacks=*@gruop", "* has no attribute 'gruop'"},
               {"sim?lacks=Conv+MatMul@axis", "MatMul has no attribute 'axis'"},
               {"sim?lacks=com.acme::Conv", "no operator 'com.acme::Conv'"},
               {"sim?lacks=If", "If is control flow"},
               {"sim?lacks=Conv+ai.onnx::Loop", "Loop is control flow"},
               {"sim?only=::Scan.f32+Conv", "Scan is control flow"},
               {"host,sim?only=Conv&lacks=Loop@body", "Loop is control flow"},
               {"sim?lacks=com.acme::If", "no operator 'com.acme::If'"},
               {"sim?lacks=*@num_scan_inputs", "* has no attribute 'num_scan_inputs'"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    reed_compile_options o = {.target = wrong[i].target};
    ck_assert_msg(reed_compile_bytes(onnx, n_onnx, &o, &bytes, &n, NULL, d) == REED_ERROR_ARGUMENT, "%s",
                  wrong[i].target);
    ck_assert_msg(strstr(reed_diagnosis_message(d), wrong[i].word) != NULL, "%s", reed_diagnosis_message(d));
  }
  static const char *const right[] = {"sim?lacks=ai.onnx::Conv", "sim?lacks=::Conv.f16@group=2",
                                      "sim:3?only=*.f32&lacks=Conv", "host,sim?lacks=*@packed,sim:1"};
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    reed_compile_options o = {.target = right[i]};
    ck_assert_msg(reed_compile_bytes(onnx, n_onnx, &o, &bytes, &n, NULL, d) == REED_OK, "%s",
                  reed_diagnosis_message(d));
    reed_text_free(bytes);
  }
  reed_diagnosis_close(&d);
  build_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("placement");
  TCase *t = tcase_create("placement");
  tcase_set_timeout(t, 240);
  tcase_add_test(t, independent_operators_share_a_synchronisation);
  tcase_add_test(t, chains_stay_on_the_host);
  tcase_add_loop_test(t, bounded_results_and_branches, 0, 2);
  tcase_add_loop_test(t, bounded_results_are_outputs, 0, 4);
  tcase_add_test(t, constants_are_packed_where_packed_weights_are_read);
  tcase_add_test(t, custom_operators_have_kernels_per_device);
  tcase_add_test(t, a_device_says_all_that_it_lacks);
  tcase_add_test(t, the_shapes_model_gives_the_same_bits);
  tcase_add_loop_test(t, every_export_gives_the_same_bits, 0, N_MODELS);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
