/* The shapes example (scenes.h): its model, pictures and reference outputs. */
#include "tests/whole/scenes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/picture.h"
#include "tools/files.h"
#include "tools/npy.h"

const scene scenes[] = {{"scene0_256x320", "scene0"}, {"scene1_192x192", "scene1"}, {"scene2_320x208", "scene2"},
                        {"scene3_336x448", "scene3"}, {"scene4_240x400", "scene4"}, {"empty_224x256", "empty"}};
const size_t n_scenes = sizeof scenes / sizeof *scenes;

static const char *folder(void) {
  const char *given = getenv("REED_EXAMPLES");
  ck_assert_msg(given != NULL, "REED_EXAMPLES names the folder of the shapes example");
  return given;
}

static char *read_example(const char *name, const char *suffix, size_t *out_n) {
  char path[1024], *bytes;
  complaint c;
  snprintf(path, sizeof path, "%s/%s%s", folder(), name, suffix);
  ck_assert_msg(file_read(path, &bytes, out_n, &c) == DONE, "%s", c.text);
  return bytes;
}

static void *compile_with(const reed_compile_options *options, size_t *out_n) {
  char path[1024];
  snprintf(path, sizeof path, "%s/shapes.onnx", folder());
  void *bytes;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_compile_file(path, options, &bytes, out_n, NULL, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  return bytes;
}

void *scenes_compile(size_t *out_n) { return compile_with(NULL, out_n); }
reed_program *scenes_program(void) { return scenes_program_with(NULL); }

reed_program *scenes_program_with(const reed_compile_options *options) {
  size_t n;
  void *bytes = compile_with(options, &n);
  reed_program *program;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_program_open_bytes(bytes, n, NULL, &program, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  reed_text_free(bytes);
  return program;
}

reed_session *scene_session(reed_program *program, const reed_session_options *options) {
  reed_session *session;
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = reed_session_open(program, options, &session, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  return session;
}

reed_tensor *scene_image(const scene *s) {
  size_t n;
  char *bytes = read_example(s->picture, ".png", &n);
  rgb_picture picture;
  complaint c;
  reed_tensor *tensor;
  ck_assert_msg(picture_read(s->picture, bytes, n, &picture, &c) == DONE, "%s", c.text);
  ck_assert_msg(picture_to_tensor(&picture, &(picture_form){.layout = "chw"}, NULL, &tensor, &c) == DONE, "%s", c.text);
  picture_fini(&picture);
  free(bytes);
  return tensor;
}

reed_tensor *scene_reference(const scene *s, const char *what) {
  char suffix[32];
  size_t n;
  complaint c;
  reed_tensor *tensor;
  snprintf(suffix, sizeof suffix, "_%s.npy", what);
  char *bytes = read_example(s->prefix, suffix, &n);
  ck_assert_msg(npy_read(what, bytes, n, &tensor, &c) == DONE, "%s", c.text);
  free(bytes);
  return tensor;
}

reed_status scene_run(reed_session *session, const scene *s, reed_tensor *outputs[4], reed_diagnosis *diagnosis) {
  reed_tensor *input = scene_image(s);
  reed_status status = reed_session_run(session, &input, 1, outputs, 4, diagnosis);
  reed_tensor_close(&input);
  return status;
}

void scene_close(reed_tensor *outputs[4]) {
  for (int i = 0; i < 4; i++) reed_tensor_close(&outputs[i]);
}
