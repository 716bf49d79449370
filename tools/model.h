/* A model opened for a subcommand: a module file or an ONNX file (first compiled in memory), its program, its session,
 * and inputs. */
#ifndef TOOLS_MODEL_H_
#define TOOLS_MODEL_H_

#include "reed/compiler.h"
#include "tools/command.h"
#include "tools/files.h"

typedef struct model {
  reed_registry *registry; /* NULL: no plugins */
  reed_diagnosis *diagnosis;
  void *bytes; /* the module, compiled or read; NULL: the file was opened in place */
  size_t n_bytes;
  target_file *target;   /* the file of a module being compiled; NULL: it goes to bytes */
  bool quiet;            /* no progress of passes */
  reed_program *program; /* NULL until model_open */
  reed_session *session; /* NULL until model_open_session */
  reed_value_info *inputs, *outputs;
  const char **input_names, **output_names;
  size_t n_inputs, n_outputs;
  double compile_us, open_us, session_us;
} model;

/* Opens the diagnosis, and the registry if o names plugins. The functions below call this function themselves. */
int model_load_plugins(const options *o, model *m, complaint *c);
/* Gets the module's bytes: reads a module file or compiles an ONNX file. */
int model_read(const options *o, const char *path, model *m, complaint *c);
/* Compiles an ONNX file into m->bytes (aligned, so that a program can borrow them); *out_report (may be NULL) is
 * released with reed_text_free. Wrong pass names are MISUSE. Reed's own status is also returned, for callers that treat
 * unsupported models differently. */
int model_compile(const options *o, const char *path, model *m, char **out_report, reed_status *out_status,
                  complaint *c);
/* Compiles an ONNX file straight into a file; m->n_bytes is the module's size. */
int model_compile_to(const options *o, const char *path, const char *target, model *m, char **out_report, complaint *c);
/* Opens the program. */
int model_open(const options *o, const char *path, model *m, complaint *c);
/* Opens the program from m->bytes, which model_compile made. */
int model_open_compiled(const options *o, const char *path, model *m, complaint *c);
/* Opens the session on o's device. */
int model_open_session(const options *o, bool profile, model *m, complaint *c);
void model_fini(model *m);

/* Splits "NAME=REST" by the model's names, of which the longest that fits counts; plain "REST" is allowed if there is
 * only one name. Returns the name's index and *out_rest; -1: complained. `what` ("input", "output") is for the message;
 * value_may_follow: REST is a VALUE, which has an '=' of its own. */
int model_split_name(const char *text, const char *const *names, size_t n, const char *what, bool value_may_follow,
                     const char **out_rest, complaint *c);
/* Makes one tensor per input of the model from the flags -i and -s; inputs without a flag get random floats and ones if
 * `random` is set. *out_tensors has m->n_inputs tensors, which tensors_close closes and frees. */
int model_make_inputs(const options *o, const model *m, bool random, reed_tensor ***out_tensors, complaint *c);
void tensors_close(reed_tensor **tensors, size_t n);
/* Runs once; outputs has room for m->n_outputs, which the caller closes. A signal cancels the run: INTERRUPTED. */
int model_run(model *m, reed_tensor *const *inputs, reed_tensor **outputs, complaint *c);
/* Gets one of the session's JSON texts; `what` names it in messages. The text is released with reed_text_free. */
typedef reed_status (*session_json_fn)(reed_session *, char **, reed_diagnosis *);
int model_json(model *m, session_json_fn get, const char *what, char **out_text, complaint *c);
/* Gets one of the session's JSON texts and writes it to a file. */
int model_write_json(model *m, session_json_fn get, const char *what, const char *path, complaint *c);

#endif
