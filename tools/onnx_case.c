/* Finding and running ONNX test cases (onnx_case.h). */
#include "tools/onnx_case.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/compare.h"
#include "tools/files.h"

/* ---- finding ---- */

static char *join(const char *folder, const char *name) {
  size_t n = strlen(folder) + strlen(name) + 2;
  char *path = need(n, 1);
  snprintf(path, n, "%s/%s", folder, name);
  return path;
}

static bool is_file(const char *folder, const char *name) {
  struct stat s;
  char *path = join(folder, name);
  bool yes = stat(path, &s) == 0 && S_ISREG(s.st_mode);
  free(path);
  return yes;
}

static int no_dots(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int case_find(const char *root, words *found, complaint *c) {
  if (is_file(root, "model.onnx")) {
    words_add(found, need_text(root));
    return DONE;
  }
  struct dirent **entries;
  int n = scandir(root, &entries, no_dots, versionsort), status = DONE;
  if (n < 0) return complain(c, BAD_FILE, "cannot read folder '%s': %s", root, strerror(errno));
  for (int i = 0; i < n; i++) {
    char *path = join(root, entries[i]->d_name);
    struct stat s;
    /* links are not followed, so that a folder can not contain itself */
    if (!status && lstat(path, &s) == 0 && S_ISDIR(s.st_mode)) status = case_find(path, found, c);
    free(path);
    free(entries[i]);
  }
  free(entries);
  return status;
}

/* ---- one data set ---- */

typedef struct data_set {
  reed_tensor **inputs, **outputs, **wanted; /* of the model's numbers of inputs and outputs */
} data_set;

/* Turns u16 bits back into bf16 if the model declares bf16: the test data has them so, because NumPy has no bf16. */
static void as_declared(reed_tensor **tensor, const reed_value_info *info) {
  reed_tensor *t = *tensor, *turned;
  if (info->dtype != REED_BF16 || reed_tensor_dtype(t) != REED_U16) return;
  if (reed_tensor_open(REED_BF16, reed_tensor_rank(t), reed_tensor_dims(t), &turned)) return;
  memcpy(reed_tensor_data(turned), reed_tensor_data(t), (size_t)reed_tensor_bytes(t));
  reed_tensor_close(tensor);
  *tensor = turned;
}

/* Reads input_0.pb, input_1.pb, ... into the slots with their names, or with their numbers if the files have no names.
 */
static int read_tensors(const model *m, const char *folder, const char *kind, const char *const *names,
                        const reed_value_info *infos, size_t n, reed_tensor **slots, complaint *c) {
  for (size_t i = 0;; i++) {
    char file[64], *bytes, *name;
    size_t n_bytes;
    snprintf(file, sizeof file, "%s_%zu.pb", kind, i);
    if (!is_file(folder, file)) return DONE;
    char *path = join(folder, file);
    reed_tensor *tensor;
    int status = file_read(path, &bytes, &n_bytes, c);
    if (!status) {
      reed_status got = reed_onnx_read_tensor(bytes, n_bytes, &name, &tensor, m->diagnosis);
      free(bytes);
      if (got) status = complain_diagnosis(c, BAD_FILE, path, got, m->diagnosis);
    }
    free(path);
    if (status) return status;
    size_t k = n;
    for (size_t j = 0; j < n; j++)
      if (strcmp(names[j], name) == 0) k = j;
    if (k == n && i < n) k = i;
    reed_text_free(name);
    if (k < n && !slots[k]) slots[k] = tensor, as_declared(&slots[k], &infos[k]);
    else reed_tensor_close(&tensor); /* a file for an initializer, which the model keeps as a constant */
  }
}

/* The number of outputs that differ; the comparisons' reports go to `report`. */
static int compare_all(const options *o, const model *m, const data_set *d, FILE *report) {
  int n_wrong = 0;
  const bool any_elements = reed_program_is_impure(m->program); /* only dtypes and extents are known */
  for (size_t i = 0; i < m->n_outputs; i++) {
    complaint c;
    tolerance t;
    if (tolerance_find(&o->rtol, &o->atol, m->output_names[i], &t, &c)) {
      n_wrong++, fprintf(report, "%s\n", c.text);
      continue;
    }
    /* two units of the last place, as ONNX's own runner allows: its references round bf16 after every operator */
    if (o->rtol.n == 0 && reed_tensor_dtype(d->outputs[i]) == REED_BF16) t.rtol = 0x1p-6;
    if (any_elements) t = (tolerance){.atol = INFINITY};
    if (!d->wanted[i]) n_wrong++, fprintf(report, "%s: no output_%zu.pb to compare with\n", m->output_names[i], i);
    else if (!compare_tensors(m->output_names[i], d->outputs[i], d->wanted[i], t, NULL))
      n_wrong++, compare_tensors(m->output_names[i], d->outputs[i], d->wanted[i], t, report);
  }
  return n_wrong;
}

static case_result run_data_set(const options *o, model *m, const char *folder, FILE *report) {
  complaint c = {0};
  data_set d = {need(m->n_inputs, sizeof(reed_tensor *)), need(m->n_outputs, sizeof(reed_tensor *)),
                need(m->n_outputs, sizeof(reed_tensor *))};
  case_result result = CASE_FAILED;
  int status = read_tensors(m, folder, "input", m->input_names, m->inputs, m->n_inputs, d.inputs, &c);
  if (!status) status = read_tensors(m, folder, "output", m->output_names, m->outputs, m->n_outputs, d.wanted, &c);
  for (size_t i = 0; i < m->n_inputs && !status; i++)
    if (!d.inputs[i]) status = complain(&c, BAD_FILE, "no file for input '%s'", m->input_names[i]);
  int n_wrong = 0;
  for (int64_t i = 0; i < (o->runs < 0 ? 1 : o->runs) && !status && !n_wrong; i++) {
    status = model_run(m, d.inputs, d.outputs, &c);
    if (!status) n_wrong = compare_all(o, m, &d, report);
    for (size_t k = 0; k < m->n_outputs; k++) reed_tensor_close(&d.outputs[k]);
  }
  if (status) fprintf(report, "%s\n", c.text);
  else if (n_wrong == 0) result = CASE_PASSED;
  tensors_close(d.inputs, m->n_inputs);
  tensors_close(d.outputs, m->n_outputs);
  tensors_close(d.wanted, m->n_outputs);
  return result;
}

/* ---- one case ---- */

static int only_data_sets(const struct dirent *entry) { return strncmp(entry->d_name, "test_data_set_", 14) == 0; }

static case_result run_data_sets(const options *o, model *m, const char *folder, FILE *report) {
  struct dirent **sets;
  int n = scandir(folder, &sets, only_data_sets, versionsort);
  case_result result = n > 0 ? CASE_PASSED : CASE_FAILED;
  if (n <= 0) fprintf(report, "no test_data_set_* beside the model\n");
  for (int i = 0; i < n; i++) {
    char *path = join(folder, sets[i]->d_name);
    if (result == CASE_PASSED) result = run_data_set(o, m, path, report);
    free(path);
    free(sets[i]);
  }
  if (n >= 0) free(sets);
  return result;
}

case_result case_run(const options *o, const char *folder, char **out_detail) {
  model m = {.quiet = true};
  complaint c = {0};
  size_t n;
  reed_status compiled = REED_OK;
  case_result result = CASE_FAILED;
  FILE *report = open_memstream(out_detail, &n);
  char *path = join(folder, "model.onnx");
  int status = model_compile(o, path, &m, NULL, &compiled, &c);
  if (!status) status = model_open_compiled(o, path, &m, &c);
  if (!status) status = model_open_session(o, false, &m, &c);
  if (status && compiled == REED_ERROR_UNSUPPORTED) {
    result = CASE_UNSUPPORTED;
    fputs(reed_diagnosis_message(m.diagnosis), report);
  } else if (status) {
    fputs(c.text, report);
  } else {
    result = run_data_sets(o, &m, folder, report);
  }
  fclose(report);
  for (size_t end = strlen(*out_detail); end > 0 && (*out_detail)[end - 1] == '\n';) (*out_detail)[--end] = 0;
  model_fini(&m);
  free(path);
  return result;
}
