/* ONNX test cases on simulated accelerators that lack operators: lists that are chosen by hand, all element-wise
 * operators, single dtypes, everything, and random parts of the operator table.
 *
 *     test_lacking FOLDER [--lists N] [--seed S] [--case NAME] [--verbose]
 *
 * Every case below the folder is compiled for a target that lacks a list and runs on that device. It must give the
 * host's bits, and fail if the host fails, with the host's sentence; a second run with other data under the same
 * extents must miss the memo no more often than on an accelerator that lacks nothing, because placement makes no keys;
 * a third run must hit everywhere; and each copy for a lacking operator has the reason `placement`. --lists: how many
 * lists each case draws (0: all). Exit status 77 without the folder. */
#include <cjson/cJSON.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tools/files.h"
#include "tools/tool.h"

enum { MOST = 64, N_RANDOM = 6, N_TURNS = 3 };

/* ---- lists ---- */

typedef struct row {
  const char *name, *class, *properties;
} row;
static const row rows[] = {
#define OP(name, shape, kernel, class, alias, properties, ...) {#name, #class, #properties},
#include "ops/op.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static const char *const chosen[] = {"lacks=Conv+TopK+NonMaxSuppression",
                                     "lacks=*",
                                     "lacks=*.f32",
                                     "lacks=*.f64",
                                     "lacks=*.f16+*.bf16",
                                     "lacks=*.i64",
                                     "lacks=*.i32+*.i8+*.u8+*.u16+*.u32",
                                     "lacks=*.bool",
                                     "only=Conv+MatMul+Gemm+Add+Relu",
                                     "only=*.f32&lacks=Reshape+Concat+Gather+Slice"};
enum { N_CHOSEN = sizeof chosen / sizeof *chosen, N_LISTS = N_CHOSEN + 1 + N_RANDOM };

static uint64_t next_random(uint64_t *state) { /* splitmix64 (Steele, Lea, Flood 2014) */
  uint64_t z = *state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

/* List number i into out. */
static const char *list_text(int i, uint64_t seed, char *out, size_t capacity) {
  if (i < N_CHOSEN) return chosen[i];
  uint64_t state = seed * 1000 + (uint64_t)i;
  size_t n = (size_t)snprintf(out, capacity, "lacks=");
  for (int r = 0; r < N_ROWS; r++) {
    if (strcmp(rows[r].class, "CONTROL") == 0) continue; /* refused in a list */
    bool lacks = i == N_CHOSEN ? strstr(rows[r].properties, "FUSABLE") != NULL : next_random(&state) & 1;
    if (lacks) n += (size_t)snprintf(out + n, capacity - n, "%s%s", out[n - 1] == '=' ? "" : "+", rows[r].name);
  }
  return out;
}

/* ---- one case ---- */

typedef struct runner {
  reed_program *program;
  reed_session *session;
} runner;

typedef struct figures {
  int64_t misses;
  int n_hits, n_placed,
      n_other; /* epochs of the last run; copies of the last run for placement, for values and counts */
} figures;

static reed_diagnosis *said;
static int n_cases, n_runs, n_failures, n_refused;
static bool verbose;

static bool failed(const char *name, const char *list, const char *what) {
  printf("failed: %s with %s: %s\n", name, list, what);
  n_failures++;
  return false;
}

static void runner_close(runner *r) {
  reed_session_close(&r->session);
  reed_program_close(&r->program);
}

static reed_status runner_open(runner *r, const char *path, const char *target, const char *device) {
  void *bytes = NULL;
  size_t n;
  *r = (runner){0};
  reed_status status = reed_compile_file(path, &(reed_compile_options){.target = target}, &bytes, &n, NULL, said);
  if (status == REED_OK) status = reed_program_open_bytes(bytes, n, NULL, &r->program, said);
  if (status == REED_OK)
    status =
        reed_session_open(r->program, &(reed_session_options){.device = device, .n_threads = 1}, &r->session, said);
  reed_text_free(bytes);
  return status;
}

/* The case's first data set, in the program's order. */
static bool read_inputs(const char *folder, const runner *r, reed_tensor **inputs) {
  size_t n = reed_program_input_count(r->program), n_read = 0;
  if (n > MOST) return false;
  memset(inputs, 0, sizeof *inputs * MOST);
  for (int i = 0;; i++) {
    char path[4096], *bytes, *name;
    size_t n_bytes, k = n;
    complaint c;
    reed_tensor *tensor;
    snprintf(path, sizeof path, "%s/test_data_set_0/input_%d.pb", folder, i);
    if (access(path, R_OK) || file_read(path, &bytes, &n_bytes, &c)) break;
    reed_status status = reed_onnx_read_tensor(bytes, n_bytes, &name, &tensor, said);
    free(bytes);
    if (status != REED_OK) return false;
    reed_value_info info;
    for (size_t j = 0; j < n; j++)
      if (reed_program_input(r->program, j, &info) == REED_OK && strcmp(info.name, name) == 0) k = j;
    if (k == n && (size_t)i < n) k = (size_t)i;
    reed_text_free(name);
    if (k == n || inputs[k] || reed_program_input(r->program, k, &info) != REED_OK) {
      reed_tensor_close(&tensor);
      continue;
    }
    if (info.dtype == REED_BF16 && reed_tensor_dtype(tensor) == REED_U16) { /* NumPy has no bf16 */
      reed_tensor *turned;
      if (reed_tensor_open(REED_BF16, reed_tensor_rank(tensor), reed_tensor_dims(tensor), &turned)) return false;
      memcpy(reed_tensor_data(turned), reed_tensor_data(tensor), (size_t)reed_tensor_bytes(tensor));
      reed_tensor_close(&tensor);
      tensor = turned;
    }
    inputs[k] = tensor;
    n_read++;
  }
  return n_read == n;
}

/* Other data under the same extents: floats as they are, but halved. */
static void change(reed_tensor *const *inputs, size_t n) {
  for (size_t k = 0; k < n; k++)
    for (int64_t i = 0; i < reed_tensor_elements(inputs[k]); i++) {
      if (reed_tensor_dtype(inputs[k]) == REED_F32) ((float *)reed_tensor_data(inputs[k]))[i] *= 0.5f;
      if (reed_tensor_dtype(inputs[k]) == REED_F64) ((double *)reed_tensor_data(inputs[k]))[i] *= 0.5;
    }
}

typedef struct outcome {
  reed_status status;
  char message[2048];
  reed_tensor *outputs[MOST];
  size_t n;
  figures figures;
} outcome;

static int number_of(const cJSON *object, const char *key) {
  return (int)cJSON_GetNumberValue(cJSON_GetObjectItem(object, key));
}

static figures figures_of(const runner *r) {
  figures f = {0};
  char *text;
  if (reed_session_stats_json(r->session, &text, NULL) != REED_OK) return f;
  cJSON *stats = cJSON_Parse(text), *item;
  reed_text_free(text);
  f.misses = number_of(cJSON_GetObjectItem(stats, "memo"), "misses");
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(stats, "epochs")) f.n_hits +=
      strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(item, "memo")), "hit") == 0;
  cJSON_ArrayForEach(item, cJSON_GetObjectItem(stats, "copies")) {
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(item, "reason"));
    f.n_placed += strcmp(reason, "placement") == 0;
    f.n_other += strcmp(reason, "value") == 0 || strcmp(reason, "extent") == 0;
  }
  cJSON_Delete(stats);
  return f;
}

static outcome run(const runner *r, reed_tensor *const *inputs) {
  outcome o = {.n = reed_program_output_count(r->program)};
  o.status = reed_session_run(r->session, inputs, reed_program_input_count(r->program), o.outputs, o.n, said);
  if (o.status != REED_OK) snprintf(o.message, sizeof o.message, "%s", reed_diagnosis_message(said));
  o.figures = figures_of(r);
  return o;
}

static void outcome_close(outcome *o) {
  for (size_t i = 0; i < o->n && o->status == REED_OK; i++) reed_tensor_close(&o->outputs[i]);
}

/* NULL: the outputs are the same; otherwise the difference in words. */
static const char *difference(const outcome *want, const outcome *got) {
  if (want->status != got->status) return got->status == REED_OK ? "the host fails" : got->message;
  if (want->status != REED_OK) return strcmp(want->message, got->message) ? got->message : NULL;
  for (size_t i = 0; i < want->n; i++) {
    const reed_tensor *a = want->outputs[i], *b = got->outputs[i];
    if (reed_tensor_dtype(a) != reed_tensor_dtype(b) || reed_tensor_rank(a) != reed_tensor_rank(b))
      return "another type";
    for (int32_t d = 0; d < reed_tensor_rank(a); d++)
      if (reed_tensor_dims(a)[d] != reed_tensor_dims(b)[d]) return "other extents";
    if (memcmp(reed_tensor_data(a), reed_tensor_data(b), (size_t)reed_tensor_bytes(a))) return "other elements";
  }
  return NULL;
}

/* The results of the host and of an accelerator that lacks nothing, for the data set, for other data, and for the other
 * data once more. */
typedef struct expected {
  outcome host[N_TURNS];
  int64_t misses[N_TURNS];
  int n_other;
} expected;

static bool expect(const char *path, const char *name, reed_tensor *const *inputs, reed_tensor *const *changed,
                   const runner *host, expected *out) {
  runner sim;
  if (runner_open(&sim, path, NULL, "sim") != REED_OK) return failed(name, "sim", reed_diagnosis_message(said));
  for (int turn = 0; turn < N_TURNS; turn++) {
    out->host[turn] = run(host, turn ? changed : inputs);
    outcome got = run(&sim, turn ? changed : inputs);
    const char *differs = difference(&out->host[turn], &got);
    if (differs) failed(name, "sim", differs);
    out->misses[turn] = got.figures.misses;
    out->n_other = got.figures.n_other;
    outcome_close(&got);
  }
  runner_close(&sim);
  return true;
}

static bool check_list(const char *path, const char *name, const char *list, reed_tensor *const *inputs,
                       reed_tensor *const *changed, const expected *want) {
  char device[8192];
  snprintf(device, sizeof device, "sim?%s%s", list, n_runs & 1 ? "&seed=5&poison=1" : "&late=1");
  runner r;
  if (runner_open(&r, path, device, device) != REED_OK) {
    failed(name, list, reed_diagnosis_message(said));
    runner_close(&r);
    return false;
  }
  n_runs++;
  int64_t misses = 0;
  bool good = true;
  for (int turn = 0; turn < N_TURNS && good; turn++) {
    outcome got = run(&r, turn ? changed : inputs);
    const char *differs = difference(&want->host[turn], &got);
    char text[256];
    int64_t missed = got.figures.misses - misses;
    misses = got.figures.misses;
    if (differs) good = failed(name, list, differs);
    if (good && turn == 1 && missed > want->misses[1] - want->misses[0]) {
      snprintf(text, sizeof text, "%lld epochs miss with other data, %lld without the list", (long long)missed,
               (long long)(want->misses[1] - want->misses[0]));
      good = failed(name, list, text);
    }
    if (good && turn == 2 && missed && got.status == REED_OK) good = failed(name, list, "the third run misses");
    if (good && got.figures.n_other > want->n_other) {
      snprintf(text, sizeof text, "%d values and counts are read back, %d without the list", got.figures.n_other,
               want->n_other);
      good = failed(name, list, text);
    }
    if (verbose && !turn) printf("%s with %.60s: %d copies for placement\n", name, list, got.figures.n_placed);
    outcome_close(&got);
  }
  runner_close(&r);
  return good;
}

static void check_case(const char *folder, const char *name, int n_lists, uint64_t seed) {
  static char text[4096];
  char path[4096];
  runner host;
  reed_tensor *inputs[MOST] = {0}, *changed[MOST] = {0};
  expected want = {0};
  snprintf(path, sizeof path, "%s/model.onnx", folder);
  if (runner_open(&host, path, NULL, "host") != REED_OK) { /* the case has an operator that Reed lacks */
    n_refused++;
    runner_close(&host);
    return;
  }
  size_t n_inputs = reed_program_input_count(host.program);
  if (!read_inputs(folder, &host, inputs) || !read_inputs(folder, &host, changed)) n_refused++;
  else {
    change(changed, n_inputs);
    n_cases++;
    uint64_t state = seed + (uint64_t)n_cases * 7919;
    if (expect(path, name, inputs, changed, &host, &want))
      for (int i = 0; i < (n_lists ? n_lists : N_LISTS); i++) {
        int k = n_lists ? (int)(next_random(&state) % N_LISTS) : i;
        check_list(path, name, list_text(k, seed, text, sizeof text), inputs, changed, &want);
      }
    for (int turn = 0; turn < N_TURNS; turn++) outcome_close(&want.host[turn]);
  }
  for (size_t i = 0; i < MOST; i++) {
    reed_tensor_close(&inputs[i]);
    reed_tensor_close(&changed[i]);
  }
  runner_close(&host);
}

/* ---- all cases ---- */

static words found;

static int find_model(const char *path, const struct stat *s, int kind, struct FTW *at) {
  (void)s;
  if (kind == FTW_F && strcmp(path + at->base, "model.onnx") == 0) {
    char *folder = need_text(path);
    folder[at->base - 1] = 0;
    words_add(&found, folder);
  }
  return 0;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

int main(int argc, char **argv) {
  const char *root = NULL, *only = NULL;
  int n_lists = 0;
  uint64_t seed = 1;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--verbose")) verbose = true;
    else if (i + 1 < argc && !strcmp(argv[i], "--lists")) n_lists = atoi(argv[++i]);
    else if (i + 1 < argc && !strcmp(argv[i], "--seed")) seed = strtoull(argv[++i], NULL, 10);
    else if (i + 1 < argc && !strcmp(argv[i], "--case")) only = argv[++i];
    else root = argv[i];
  }
  if (!root || access(root, R_OK)) {
    printf("skipped: no folder '%s'\n", root ? root : "");
    return 77;
  }
  if (reed_diagnosis_open(&said) != REED_OK || nftw(root, find_model, 16, FTW_PHYS)) return 1;
  qsort(found.items, found.n, sizeof *found.items, by_name);
  for (size_t i = 0; i < found.n; i++) {
    const char *name = strrchr(found.items[i], '/') + 1;
    if (!only || !strcmp(only, name)) check_case(found.items[i], name, n_lists, seed);
    free((char *)found.items[i]);
  }
  words_fini(&found);
  reed_diagnosis_close(&said);
  printf("%d cases with %d lists in all, %d failures; %d cases that Reed does not take\n", n_cases, n_runs, n_failures,
         n_refused);
  return n_failures || !n_runs;
}
