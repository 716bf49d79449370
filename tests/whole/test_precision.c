/* The shapes example with weights of bf16 and f16, and with products in them: half the bytes, at least 95 % of
 * PyTorch's detections found again with their labels at an IoU of 0.5, scores near, and the same results with weights
 * that were widened before. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite.h"
#include "tests/whole/scenes.h"

static const float *floats(const reed_tensor *t) { return reed_tensor_data(t); }

static double iou(const float *a, const float *b) {
  double width = fmin(a[2], b[2]) - fmax(a[0], b[0]), height = fmin(a[3], b[3]) - fmax(a[1], b[1]);
  double inner = fmax(width, 0) * fmax(height, 0);
  return inner / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inner);
}

typedef struct found {
  int64_t n, matched;
  double scores; /* the largest difference */
} found;

static void match(const scene *s, reed_tensor *const outputs[4], found *f) {
  reed_tensor *boxes = scene_reference(s, "boxes"), *labels = scene_reference(s, "labels"),
              *scores = scene_reference(s, "scores");
  const int64_t n = reed_tensor_dims(boxes)[0], m = reed_tensor_dims(outputs[0])[0];
  const int64_t *want = reed_tensor_data(labels), *got = reed_tensor_data(outputs[1]);
  f->n += n > m ? n : m;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < m; k++) {
      if (want[i] != got[k] || iou(floats(boxes) + 4 * i, floats(outputs[0]) + 4 * k) < 0.5) continue;
      f->matched++;
      f->scores = fmax(f->scores, fabs((double)(floats(scores)[i] - floats(outputs[2])[k])));
      break;
    }
  reed_tensor_close(&boxes);
  reed_tensor_close(&labels);
  reed_tensor_close(&scores);
}

static size_t module_bytes(const reed_compile_options *options) {
  size_t n_bytes;
  void *bytes;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  const char *folder = getenv("REED_EXAMPLES");
  char path[1024];
  snprintf(path, sizeof path, "%s/shapes.onnx", folder);
  reed_status status = reed_compile_file(path, options, &bytes, &n_bytes, NULL, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_text_free(bytes);
  reed_diagnosis_close(&d);
  return n_bytes;
}

/* _i: a precision. */
/* The devices, which are targets too: the host rounds weights alone; products of sim, without kernels for weights in
 * pairs, are computed in halves. */
static const char *const devices[] = {
    "host", "sim?lacks=Conv@packed_pairs=1+ConvTranspose@packed_pairs=1+Gemm@packed_pairs=1+MatMul@packed_pairs=1"};
enum { N_PRECISIONS = 2, N_CASES = N_PRECISIONS * sizeof devices / sizeof *devices };

/* _i: a device and a precision. */
START_TEST(detections_are_found_in_half_the_bytes) {
  const char *device = devices[_i / N_PRECISIONS];
  const reed_precision precision = (reed_precision)(REED_PRECISION_BF16 + _i % N_PRECISIONS);
  const reed_compile_options options = {.precision = precision, .target = device};
  ck_assert_uint_le(module_bytes(&options), module_bytes(NULL) * 6 / 10);
  reed_program *program = scenes_program_with(&options);
  found f = {0};
  for (int round = 0; round < 2; round++) { /* two sessions: the second finds the weights that the first has widened */
    reed_session *session = scene_session(program, &(reed_session_options){.device = device});
    for (size_t i = 0; i < n_scenes; i++) {
      reed_tensor *outputs[4];
      ck_assert_int_eq(scene_run(session, &scenes[i], outputs, NULL), REED_OK);
      match(&scenes[i], outputs, &f);
      scene_close(outputs);
    }
    reed_session_close(&session);
  }
  char *info, member[32];
  ck_assert_int_eq(reed_program_info_json(program, &info, NULL), REED_OK);
  const char *bytes = strstr(info, "\"constant_bytes\":{"); /* the object by dtype, after the sum among the counts */
  snprintf(member, sizeof member, "\"%s\":", precision == REED_PRECISION_BF16 ? "bf16" : "f16");
  ck_assert_msg(bytes && strstr(bytes, member) && strstr(bytes, member) < strchr(bytes, '}'), "%s", info);
  reed_text_free(info);
  printf("%.4s, precision %d: %lld of %lld detections, scores differ by %.2g at most\n", device, (int)precision,
         (long long)f.matched, (long long)f.n, f.scores);
  ck_assert_int_gt(f.n, 0);
  ck_assert_int_ge(f.matched * 100, f.n * 95);
  ck_assert_double_le(f.scores, 0.02);
  reed_program_close(&program);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("precision");
  TCase *t = tcase_create("precision");
  tcase_set_timeout(t, 300);
  suite_add_tcase(suite, t);
  tcase_add_loop_test(t, detections_are_found_in_half_the_bytes, 0, N_CASES);
  return suite_run(suite);
}
