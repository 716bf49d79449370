/* vm run: runs a model once and prints, writes, compares and draws its outputs. Drawing itself: draw.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/compare.h"
#include "tools/draw.h"
#include "tools/files.h"
#include "tools/model.h"
#include "tools/npy.h"
#include "tools/plain.h"
#include "tools/print.h"
#include "tools/value.h"

static const flag flags[] = {
    FLAG_OF_INPUTS,
    {"--output", "-o", FLAG_WORDS, offsetof(options, outputs), "NAME=FILE",
     "write an output as .npy, or as .png if it is a picture"},
    {"--expect", NULL, FLAG_WORDS, offsetof(options, expected), "NAME=FILE",
     "compare an output with a .npy file (or a VALUE)"},
    FLAG_OF_TOLERANCES,
    FLAG_OF_DEVICE,
    FLAG_OF_GRAPHS,
    FLAG_OF_SEED,
    FLAG_OF_THREADS,
    {"--draw", NULL, FLAG_TARGET, offsetof(options, draw), "FILE.png",
     "draw boxes, masks, labels and scores into the input picture"},
    {"--labels", NULL, FLAG_TEXT, offsetof(options, labels), "FILE",
     "names of the labels, one a line, the first for label 0"},
    {"--draw-scale", NULL, FLAG_INT, offsetof(options, draw_scale), "N",
     "enlarge the picture that is drawn (default 1)", NULL, 1, 100},
    {"--min-score", NULL, FLAG_REAL, offsetof(options, min_score), "S",
     "draw detections from this score up (default 0)"},
    {"--trace", NULL, FLAG_TARGET, offsetof(options, trace), "FILE.json",
     "spans of the run, for Perfetto or chrome://tracing ('-': standard output)"},
    {"--stats", NULL, FLAG_TARGET, offsetof(options, stats), "FILE.json",
     "epochs, copies, memory and memo figures ('-': standard output)"},
    FLAG_OF_MEMORY_CAP,
    FLAG_OF_PICTURES,
    FLAG_OF_COUNTS,
    FLAG_OF_DISABLED,
    FLAG_OF_EXTERNAL,
    FLAG_OF_CHECKSUM,
    FLAG_OF_PLUGINS,
    FLAG_END,
};

/* The outputs that -o and --expect name, resolved before the run so that a wrong name costs no time. */
typedef struct destination {
  int output;
  const char *rest;
} destination;

static int find_outputs(const words *w, const model *m, bool values, destination **out_list, complaint *c) {
  destination *list = need(w->n, sizeof *list);
  for (size_t i = 0; i < w->n; i++) {
    list[i].output = model_split_name(w->items[i], m->output_names, m->n_outputs, "output", values, &list[i].rest, c);
    if (list[i].output < 0) {
      free(list);
      return c->exit_status;
    }
  }
  *out_list = list;
  return DONE;
}

static int write_output(const char *name, const char *path, const reed_tensor *tensor, complaint *c) {
  char *bytes = NULL, type[200], size[32];
  size_t n;
  int status = DONE;
  if (has_extension(path, "png")) {
    rgb_picture picture;
    status = picture_from_tensor(tensor, &picture, c);
    if (status) return status;
    status = picture_write_png(&picture, &bytes, &n, c);
    picture_fini(&picture);
  } else {
    npy_write(tensor, &bytes, &n);
  }
  if (!status) status = file_write(path, bytes, n, c);
  if (!status && !target_is_printed())
    printf("wrote %s to %s, %s, %s%s\n", plain(name), plain(path), tensor_type_text(tensor, type, sizeof type),
           text_bytes((double)n, size, sizeof size),
           reed_tensor_dtype(tensor) == REED_BF16 && !has_extension(path, "png") ? " (as f32: NumPy has no bf16)" : "");
  free(bytes);
  return status;
}

/* A reference: a VALUE, or a file with or without the @. */
static int read_reference(const char *text, reed_tensor **out_tensor, complaint *c) {
  return value_looks_like(text) ? value_parse(text, NULL, NULL, out_tensor, c)
                                : value_read_file(text, NULL, NULL, out_tensor, c);
}

/* ---- drawing ---- */

/* The picture to draw on: that of the first -i @picture, else the first input tensor that is a picture. */
static int input_picture(const options *o, const model *m, reed_tensor *const *inputs, rgb_picture *out_picture,
                         complaint *c) {
  for (size_t i = 0; i < o->inputs.n; i++) {
    const char *at = strstr(o->inputs.items[i], "@");
    if (!at || !(has_extension(at, "png") || has_extension(at, "jpg") || has_extension(at, "jpeg"))) continue;
    char *bytes;
    size_t n;
    int status = file_read(at + 1, &bytes, &n, c);
    if (status) return status;
    status = picture_read(at + 1, bytes, n, out_picture, c);
    free(bytes);
    return status;
  }
  complaint ignored;
  for (size_t i = 0; i < m->n_inputs; i++)
    if (reed_tensor_rank(inputs[i]) >= 3 && picture_from_tensor(inputs[i], out_picture, &ignored) == DONE) return DONE;
  return complain(c, MISUSE, "cannot draw: no input is a picture");
}

/* Reads the file's lines, in one block that the caller frees after the names. */
static int read_labels(const char *path, char **out_text, words *out_names, complaint *c) {
  size_t n;
  int status = file_read(path, out_text, &n, c);
  if (status) return status;
  for (char *rest = *out_text, *line; (line = strsep(&rest, "\n")) != NULL;) {
    line[strcspn(line, "\r")] = 0;
    if (rest || *line) words_add(out_names, line);
  }
  return DONE;
}

static int draw(const options *o, const model *m, reed_tensor *const *inputs, reed_tensor *const *outputs,
                const words *names, complaint *c) {
  rgb_picture picture = {0};
  detections found;
  char *bytes = NULL;
  size_t n;
  int status = input_picture(o, m, inputs, &picture, c);
  if (!status && o->draw_scale * (picture.width > picture.height ? picture.width : picture.height) > 16384)
    status = complain(c, MISUSE, "--draw-scale %lld would make a picture of more than 16384 pixels a side",
                      (long long)o->draw_scale);
  if (!status) status = detections_find(m->output_names, outputs, m->n_outputs, &picture, &found, c);
  if (!status) {
    draw_detections(&picture, &found, names->items, names->n, (int)o->draw_scale, o->min_score);
    status = picture_write_png(&picture, &bytes, &n, c);
  }
  if (!status) status = file_write(o->draw, bytes, n, c);
  if (!status && !target_is_printed())
    printf("drew %lld detection%s into %s, %dx%d\n", (long long)reed_tensor_dims(found.boxes)[0],
           reed_tensor_dims(found.boxes)[0] == 1 ? "" : "s", plain(o->draw), picture.width, picture.height);
  picture_fini(&picture);
  free(bytes);
  return status;
}

/* ---- the run ---- */

typedef struct job {
  model m;
  reed_tensor **inputs, **outputs, **references;
  destination *written, *expected;
  tolerance *tolerances;
  char *labels; /* the memory of the names */
  words names;
  double inputs_us, session_us, run_us, results_us;
} job;

/* Complains of a tolerance for an output that is not compared. */
static int check_names(const words *tolerances, const char *flag, const options *o, const job *j, complaint *c) {
  for (size_t i = 0; i < tolerances->n; i++) {
    const char *word = tolerances->items[i], *number = strrchr(word, '=');
    if (!number) continue;
    size_t n = (size_t)(number - word);
    bool found = false;
    for (size_t k = 0; k < o->expected.n && !found; k++) {
      const char *name = j->m.output_names[j->expected[k].output];
      found = strlen(name) == n && strncmp(word, name, n) == 0;
    }
    if (!found)
      return complain(c, MISUSE, "%s %s: output '%.*s' is not compared, for lack of --expect %.*s=FILE", flag, word,
                      (int)n, word, (int)n, word);
  }
  return DONE;
}

static int prepare(const options *o, job *j, complaint *c) {
  tolerance any;
  int status = tolerance_find(&o->rtol, &o->atol, "", &any, c); /* wrong numbers are always reported */
  if (!status && o->labels && !o->draw)
    status = complain(c, MISUSE, "--labels needs --draw FILE.png, which writes the names into the picture");
  if (!status && o->labels) status = read_labels(o->labels, &j->labels, &j->names, c);
  if (!status) status = model_open(o, o->arguments.items[0], &j->m, c);
  if (!status) status = find_outputs(&o->outputs, &j->m, false, &j->written, c);
  for (size_t i = 0; i < o->outputs.n && !status; i++)
    status = target_announce(j->written[i].rest, o->outputs.items[i], c);
  if (!status) status = find_outputs(&o->expected, &j->m, true, &j->expected, c);
  if (!status) status = check_names(&o->rtol, "--rtol", o, j, c);
  if (!status) status = check_names(&o->atol, "--atol", o, j, c);
  double begin = now_us();
  if (!status) status = model_make_inputs(o, &j->m, false, &j->inputs, c);
  j->references = need(o->expected.n, sizeof *j->references);
  j->tolerances = need(o->expected.n, sizeof *j->tolerances);
  for (size_t i = 0; i < o->expected.n && !status; i++) {
    status = tolerance_find(&o->rtol, &o->atol, j->m.output_names[j->expected[i].output], &j->tolerances[i], c);
    if (!status) status = read_reference(j->expected[i].rest, &j->references[i], c);
  }
  j->inputs_us = now_us() - begin;
  return status;
}

/* Writes, compares, draws and prints. A difference is reported after all of these are done. */
static int finish(const options *o, job *j, complaint *c) {
  int status = DONE;
  bool differ = false;
  for (size_t i = 0; i < o->outputs.n && !status; i++)
    status =
        write_output(j->m.output_names[j->written[i].output], j->written[i].rest, j->outputs[j->written[i].output], c);
  for (size_t i = 0; i < o->expected.n && !status; i++) {
    int k = j->expected[i].output;
    if (!compare_tensors(j->m.output_names[k], j->outputs[k], j->references[i], j->tolerances[i],
                         target_is_printed() ? stderr : stdout))
      differ = true;
  }
  if (!status && o->draw) status = draw(o, &j->m, j->inputs, j->outputs, &j->names, c);
  if (!status && o->stats) status = model_write_json(&j->m, reed_session_stats_json, "--stats", o->stats, c);
  if (!status && o->trace) status = model_write_json(&j->m, reed_session_trace_json, "--trace", o->trace, c);
  return status ? status : differ ? DIFFERENT : DONE;
}

static void print_times(const job *j) {
  const struct {
    const char *what;
    double us;
  } parts[] = {{"compile", j->m.compile_us}, {"load", j->m.open_us}, {"inputs", j->inputs_us},
               {"session", j->session_us},   {"run", j->run_us},     {"results", j->results_us}};
  char text[32];
  printf("time:");
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i].us > 0) printf(" %s %s,", parts[i].what, text_us(parts[i].us, text, sizeof text));
  double total = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) total += parts[i].us;
  char peak[32];
  printf(" all %s; peak memory %s\n", text_us(total, text, sizeof text),
         text_bytes((double)peak_resident_bytes(), peak, sizeof peak));
}

static int run(const options *o, complaint *c) {
  job j = {0};
  int status = prepare(o, &j, c);
  double begin = now_us();
  if (!status) status = model_open_session(o, o->trace != NULL, &j.m, c);
  j.session_us = now_us() - begin;
  if (!status) {
    reed_tensor **outputs = need(j.m.n_outputs, sizeof *outputs);
    progress("running", 0.5);
    begin = now_us();
    status = model_run(&j.m, j.inputs, outputs, c);
    j.run_us = now_us() - begin;
    progress_end();
    j.outputs = outputs;
    /* a run that failed or was interrupted has its spans, too; the first complaint stays */
    if (status && o->trace) (void)model_write_json(&j.m, reed_session_trace_json, "--trace", o->trace, &(complaint){0});
  }
  if (!status) {
    for (size_t i = 0; !o->outputs.n && !target_is_printed() && i < j.m.n_outputs; i++)
      print_tensor(stdout, j.m.output_names[i], j.outputs[i]);
    begin = now_us();
    status = finish(o, &j, c);
    j.results_us = now_us() - begin;
    if (status <= DIFFERENT && !target_is_printed()) {
      if (o->stats) printf("wrote figures to %s\n", plain(o->stats));
      if (o->trace) printf("wrote a trace to %s\n", plain(o->trace));
      print_times(&j);
    }
  }
  tensors_close(j.inputs, j.m.n_inputs);
  tensors_close(j.outputs, j.m.n_outputs);
  tensors_close(j.references, o->expected.n);
  free(j.written);
  free(j.expected);
  free(j.tolerances);
  free(j.labels);
  free(j.names.items);
  model_fini(&j.m);
  return status;
}

static const char notes[] =
    "Without -o the outputs are printed short. A FILE '-' is standard output, for one result, and nothing else is "
    "printed there. NAME= may be left out if the model has one input or output. A float "
    "agrees "
    "with its reference if\n"
    "|got - want| <= atol + rtol * |want|; a reference saved as f16 is compared by value with an f32 output.\n"
    "Detections are drawn from the outputs for boxes, labels, scores and masks, which are found by their names or "
    "shapes.";

const command command_run = {
    "run",
    "M [-i NAME=VALUE]... [-o NAME=FILE]... [--expect NAME=FILE]... [--rtol R] [--atol A] [--device D] "
    "[--threads N]\n"
    "       [--draw FILE.png] [--labels FILE] [--trace FILE.json] [--stats FILE.json] [--memory-cap BYTES]",
    "runs a model once; prints, writes, compares and draws its outputs",
    notes,
    flags,
    1,
    1,
    run};
