/* The shapes example for tests: its model compiled, its pictures and reference outputs read. */
#ifndef TESTS_WHOLE_SCENES_H_
#define TESTS_WHOLE_SCENES_H_

#include "reed/compiler.h"
#include "reed/reed.h"

typedef struct scene {
  const char *picture, *prefix; /* files of examples/shapes: <picture>.png, <prefix>_{boxes,labels,scores,masks}.npy */
} scene;
extern const scene scenes[];
extern const size_t n_scenes;

/* The example model's bytes, compiled; fails the test otherwise. Released with reed_text_free. */
void *scenes_compile(size_t *out_n);
reed_program *scenes_program(void);
reed_program *scenes_program_with(const reed_compile_options *options);
reed_tensor *scene_image(const scene *s);
/* "boxes", "labels", "scores", "masks" as PyTorch gave them. */
reed_tensor *scene_reference(const scene *s, const char *what);
reed_session *scene_session(reed_program *program, const reed_session_options *options);
/* Runs one picture; outputs[4] in the model's order: boxes, labels, scores, masks. */
reed_status scene_run(reed_session *session, const scene *s, reed_tensor *outputs[4], reed_diagnosis *diagnosis);
void scene_close(reed_tensor *outputs[4]);

#endif
