/* Detectors that find nothing: the small exports (tests/whole/exports) with thresholds above all scores. Outputs have
 * no rows, and their other extents are the usual ones, on the host and on the simulated accelerator. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/suite.h"

static const struct {
  const char *name;
  int thresholds; /* the number of thresholds in the graph */
} detectors[] = {{"mask", 1},      {"faster", 1}, {"keypoint", 1}, {"faster_mobile", 1},
                 {"retinanet", 2}, {"fcos", 2},   {"ssd300", 2},   {"ssdlite", 2}};

enum { HEIGHT = 90, WIDTH = 116 };

/* Extents of outputs without detections, by the output's name. */
static const struct {
  const char *output;
  int32_t rank;
  int64_t dims[4];
} expected[] = {{"boxes", 2, {0, 4}},        {"labels", 1, {0}},
                {"scores", 1, {0}},          {"masks", 4, {0, 1, HEIGHT, WIDTH}},
                {"keypoints", 3, {0, 5, 3}}, {"keypoints_scores", 2, {0, 5}}};

static Onnx__ModelProto *read_model(const char *name) {
  char path[1024];
  const char *folder = getenv("REED_EXPORTS");
  ck_assert_msg(folder != NULL, "REED_EXPORTS names the folder of the unpacked exports");
  snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
  FILE *file = fopen(path, "rb");
  ck_assert_msg(file != NULL, "%s", path);
  fseek(file, 0, SEEK_END);
  size_t n = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(n);
  ck_assert_int_eq(fread(bytes, 1, n, file), n);
  fclose(file);
  Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, n, bytes);
  ck_assert_ptr_nonnull(model);
  free(bytes);
  return model;
}

/* Replaces the second operand of each Greater (the threshold of scores) by 2. Returns the number of replaced operands.
 */
static int raise_thresholds(Onnx__ModelProto *model) {
  Onnx__GraphProto *graph = model->graph;
  Onnx__TensorProto *high = malloc(sizeof *high);
  onnx__tensor_proto__init(high);
  high->name = strdup("out_of_reach");
  high->has_data_type = true;
  high->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  high->n_float_data = 1;
  high->float_data = malloc(sizeof *high->float_data);
  high->float_data[0] = 2;
  graph->initializer = realloc(graph->initializer, (graph->n_initializer + 1) * sizeof *graph->initializer);
  graph->initializer[graph->n_initializer++] = high;
  int n = 0;
  for (size_t i = 0; i < graph->n_node; i++) {
    if (strcmp(graph->node[i]->op_type, "Greater") != 0) continue;
    free(graph->node[i]->input[1]);
    graph->node[i]->input[1] = strdup(high->name);
    n++;
  }
  return n;
}

static reed_program *compile(Onnx__ModelProto *model, reed_diagnosis *d) {
  size_t n = onnx__model_proto__get_packed_size(model), n_module;
  uint8_t *onnx = malloc(n);
  void *module;
  reed_program *program;
  onnx__model_proto__pack(model, onnx);
  reed_status status = reed_compile_bytes(onnx, n, NULL, &module, &n_module, NULL, d);
  if (status == REED_OK) status = reed_program_open_bytes(module, n_module, NULL, &program, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_text_free(module);
  free(onnx);
  return program;
}

static reed_tensor *picture(void) {
  reed_tensor *t;
  uint32_t seed = 7;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 3, (int64_t[]){3, HEIGHT, WIDTH}, &t), REED_OK);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++) {
    seed = seed * 1664525u + 1013904223u;
    ((float *)reed_tensor_data(t))[i] = (float)(seed >> 8) / (1 << 24);
  }
  return t;
}

static void check_output(const char *where, const char *name, const reed_tensor *t) {
  for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
    if (strcmp(expected[k].output, name) != 0) continue;
    ck_assert_msg(reed_tensor_rank(t) == expected[k].rank, "%s: %s is of rank %d", where, name, reed_tensor_rank(t));
    for (int32_t i = 0; i < expected[k].rank; i++)
      ck_assert_msg(reed_tensor_dims(t)[i] == expected[k].dims[i], "%s: %s has extent %lld in dimension %d", where,
                    name, (long long)reed_tensor_dims(t)[i], i);
    return;
  }
  ck_abort_msg("%s: nothing is known of an output '%s'", where, name);
}

START_TEST(a_detector_that_finds_nothing_gives_no_rows) {
  enum { MOST = 8 };
  Onnx__ModelProto *model = read_model(detectors[_i].name);
  ck_assert_int_ge(raise_thresholds(model), detectors[_i].thresholds);
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_program *program = compile(model, d);
  onnx__model_proto__free_unpacked(model, NULL);
  static const char *const devices[] = {"host", "sim"};
  size_t n = reed_program_output_count(program);
  ck_assert_uint_le(n, MOST);
  for (int k = 0; k < 2; k++) {
    reed_tensor *input = picture(), *outputs[MOST];
    reed_session *session;
    char where[64];
    snprintf(where, sizeof where, "%s on %s", detectors[_i].name, devices[k]);
    ck_assert_int_eq(reed_session_open(program, &(reed_session_options){.device = devices[k]}, &session, d), REED_OK);
    reed_status status = reed_session_run(session, &input, 1, outputs, n, d);
    ck_assert_msg(status == REED_OK, "%s: %s", where, reed_diagnosis_message(d));
    for (size_t i = 0; i < n; i++) {
      reed_value_info info;
      ck_assert_int_eq(reed_program_output(program, i, &info), REED_OK);
      check_output(where, info.name, outputs[i]);
      reed_tensor_close(&outputs[i]);
    }
    reed_tensor_close(&input);
    reed_session_close(&session);
  }
  reed_program_close(&program);
  reed_diagnosis_close(&d);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("nothing found");
  TCase *t = tcase_create("nothing found");
  tcase_add_loop_test(t, a_detector_that_finds_nothing_gives_no_rows, 0, sizeof detectors / sizeof *detectors);
  tcase_set_timeout(t, 120);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
