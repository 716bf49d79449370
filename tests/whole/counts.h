/* The runners of the tests of counts on the device: one model compiled with counts fetched and with counts left on the
 * device, on the host, on sim and on the emulated GPU, and the comparison of their bits. */
#ifndef TESTS_WHOLE_COUNTS_H_
#define TESTS_WHOLE_COUNTS_H_

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compiler/onnx_build.h"
#include "tests/devices.h"
#include "tests/whole/runner.h"

/* An integer figure of the last run's statistics, or of the compiler's report: the number behind the first "key":. */
static inline int64_t figure(const char *json, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(json, quoted);
  ck_assert_msg(at, "no %s in %s", key, json);
  return strtoll(at + strlen(quoted), NULL, 10);
}

static inline int64_t statistic(const runner *r, const char *key) {
  char *json;
  ck_assert_int_eq(reed_session_stats_json(r->session, &json, NULL), REED_OK);
  int64_t value = figure(json, key);
  reed_text_free(json);
  return value;
}

/* How often `word` stands in the last run's statistics. */
static inline int mentions(const runner *r, const char *word) {
  char *json;
  int n = 0;
  ck_assert_int_eq(reed_session_stats_json(r->session, &json, NULL), REED_OK);
  for (const char *at = json; (at = strstr(at, word)); at += strlen(word)) n++;
  reed_text_free(json);
  return n;
}

/* The emulated GPU comes last, because it is not in every build. With values=1 the host computes its values, so the
 * bits are the host's. Its own formulas differ from the host's in the last bits, so it has an exact runner of its own.
 */
enum {
  EXACT_HOST,
  EXACT_SIM,
  BOUND_HOST,
  BOUND_SIM,
  N_PRESENT,
  BOUND_VALUES = N_PRESENT,
  EXACT_CUDA,
  BOUND_CUDA,
  N_RUNNERS,
  MAX_OUTPUTS = 4
};

/* The same inputs through all runners: outputs of the same extents, and the bits of the exact runner. */
static inline void run_all(runner *runners, size_t n_runners, reed_tensor *const *inputs, size_t n_inputs,
                           int64_t *out_rows) {
  reed_tensor *first[MAX_OUTPUTS] = {NULL};
  size_t n_outputs = reed_program_output_count(runners[0].program);
  for (size_t k = 0; k < n_runners; k++) {
    reed_tensor *outputs[MAX_OUTPUTS];
    reed_diagnosis *d;
    ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
    reed_status status = reed_session_run(runners[k].session, inputs, n_inputs, outputs, n_outputs, d);
    ck_assert_msg(status == REED_OK, "runner %zu: %s", k, reed_diagnosis_message(d));
    reed_diagnosis_close(&d);
    for (size_t i = 0; i < n_outputs; i++) {
      if (k == 0) {
        first[i] = outputs[i];
        continue;
      }
      ck_assert_int_eq(reed_tensor_rank(outputs[i]), reed_tensor_rank(first[i]));
      for (int32_t a = 0; a < reed_tensor_rank(first[i]); a++)
        ck_assert_msg(reed_tensor_dims(outputs[i])[a] == reed_tensor_dims(first[i])[a],
                      "runner %zu, output %zu, axis %d: %lld, not %lld", k, i, a,
                      (long long)reed_tensor_dims(outputs[i])[a], (long long)reed_tensor_dims(first[i])[a]);
      if (k == EXACT_CUDA) {
        reed_tensor_close(&first[i]);
        first[i] = outputs[i];
        continue;
      }
      ck_assert_msg(!reed_tensor_bytes(first[i]) || !memcmp(reed_tensor_data(outputs[i]), reed_tensor_data(first[i]),
                                                            (size_t)reed_tensor_bytes(first[i])),
                    "runner %zu, output %zu: other bits", k, i);
      reed_tensor_close(&outputs[i]);
    }
  }
  if (out_rows) *out_rows = reed_tensor_dims(first[0])[0];
  for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&first[i]);
}

/* A model with inputs `mask` [p,q] and `table` of the given type, which has 16 rows. `rows`: for each element of the
 * mask above 0, with row number r in the mask, row r of the table. One Gather at the bound takes the rows. */
enum { COUNTED_ROWS_AT_BOUND = 2 }; /* number of the model's operators that run at the bound */
static inline onnx_build *counted_rows_open(const char *table, const char *type, const char *rows) {
  onnx_build *b = build_open(23);
  char inputs[64];
  build_input(b, "mask", "f32[p,q]");
  build_input(b, table, type);
  build_f32(b, "nothing", "", (float[]){0});
  build_i64(b, "column", "", (int64_t[]){0});
  build_node(b, "Greater", "mask,nothing", "above");
  build_node(b, "NonZero", "above", "found");
  build_ints(b, build_node(b, "Transpose", "found", "places"), "perm", "1,0");
  build_int(b, build_node(b, "Gather", "places,column", "ids"), "axis", 1);
  snprintf(inputs, sizeof inputs, "%s,ids", table);
  build_node(b, "Gather", inputs, rows);
  return b;
}

static inline reed_tensor *tensor_of(int32_t rank, const int64_t *dims) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(REED_F32, rank, dims, &t), REED_OK);
  return t;
}

/* n boxes of [1,n,4], of which about `share` of a hundred score above the threshold; x of [1,3,h,w]. */
static inline void scene(int64_t n, int share, uint32_t seed, reed_tensor **out_inputs) {
  out_inputs[0] = tensor_of(3, (int64_t[]){1, n, 4});
  out_inputs[1] = tensor_of(3, (int64_t[]){1, 1, n});
  out_inputs[2] = tensor_of(4, (int64_t[]){1, 3, 16, 20});
  float *boxes = reed_tensor_data(out_inputs[0]), *scores = reed_tensor_data(out_inputs[1]),
        *x = reed_tensor_data(out_inputs[2]);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    for (int k = 0; k < 2; k++) {
      boxes[4 * i + k] = (float)(seed >> (8 + 4 * k) & 31);
      boxes[4 * i + 2 + k] = boxes[4 * i + k] + 2 + (float)(seed >> (16 + 4 * k) & 7);
    }
    scores[i] = (seed >> 16) % 100 < (uint32_t)share ? 0.5f + (float)(i % 40) / 100 : 0.1f;
  }
  for (int i = 0; i < 3 * 16 * 20; i++) x[i] = (float)(i * 7 % 31) - 15;
}

/* A model with the inputs of scene(): `parts` are bins of x in the boxes that NonMaxSuppression keeps, `regions` these
 * boxes. */
static inline onnx_build *kept_regions_open(int64_t opset, int64_t height, int64_t width) {
  onnx_build *b = build_open(opset);
  build_input(b, "boxes", "f32[1,n,4]");
  build_input(b, "scores", "f32[1,1,n]");
  build_input(b, "x", "f32[1,3,h,w]");
  build_i64(b, "most", "", (int64_t[]){50});
  build_f32(b, "iou", "", (float[]){0.3f});
  build_f32(b, "least", "", (float[]){0.2f});
  build_i64(b, "two", "", (int64_t[]){2});
  build_i64(b, "zero", "", (int64_t[]){0});
  build_i64(b, "axis0", "1", (int64_t[]){0});
  build_node(b, "NonMaxSuppression", "boxes,scores,most,iou,least", "kept");
  build_int(b, build_node(b, "Gather", "kept,two", "index"), "axis", 1);
  build_node(b, "Squeeze", "boxes,axis0", "all");
  build_node(b, "Gather", "all,index", "regions");
  build_node(b, "Mul", "index,zero", "batch");
  build_node_t *align = build_node(b, "RoiAlign", "x,regions,batch", "parts");
  build_int(b, align, "output_height", height);
  build_int(b, align, "output_width", width);
  build_int(b, align, "sampling_ratio", 2);
  return b;
}

static inline bool cuda_is_present(void) { return device_is_present("cuda-emulated"); }

static inline size_t n_runners(void) { return cuda_is_present() ? N_RUNNERS : N_PRESENT; }

static inline void runners_open(onnx_build *b, runner *runners) {
  static const struct {
    const char *device, *target;
    reed_counts counts;
  } made[N_RUNNERS] = {[EXACT_HOST] = {"host", NULL, REED_COUNTS_HOST},
                       [EXACT_SIM] = {"sim", NULL, REED_COUNTS_HOST},
                       [BOUND_HOST] = {"host", NULL, REED_COUNTS_DEVICE},
                       [BOUND_SIM] = {"sim", NULL, REED_COUNTS_DEVICE},
                       [BOUND_VALUES] = {"cuda-emulated?values=1", "cuda", REED_COUNTS_DEVICE},
                       [EXACT_CUDA] = {"cuda-emulated", "cuda", REED_COUNTS_HOST},
                       [BOUND_CUDA] = {"cuda-emulated?late=1&poison=1&seed=4&order=7", "cuda", REED_COUNTS_DEVICE}};
  for (size_t k = 0; k < n_runners(); k++)
    runners[k] = runner_open(b, &(reed_compile_options){.counts = made[k].counts, .target = made[k].target},
                             made[k].device, made[k].device);
}

static inline void runners_close(runner *runners) {
  for (size_t k = 0; k < n_runners(); k++) runner_close(&runners[k]);
}

/* `parts` [n,3,4] are counted rows of a table. */
static inline onnx_build *parts_open(void) { return counted_rows_open("table", "f32[16,3,4]", "parts"); }

/* Rows of `columns` neighbouring elements; columns 0: all elements in one axis. */
static inline void join_rows(onnx_build *b, const char *from, int64_t columns, const char *to) {
  char name[96], inputs[192];
  snprintf(name, sizeof name, "%s_extents", to);
  build_i64(b, name, columns ? "2" : "1", (int64_t[]){-1, columns});
  snprintf(inputs, sizeof inputs, "%s,%s", from, name);
  build_node(b, "Reshape", inputs, to);
}

/* A model whose output y is made from `parts`, with counts from 0 to the bound in turn on one session of each runner.
 * more: the operators that run at the bound besides COUNTED_ROWS_AT_BOUND; -1: some. */
static inline void expect_at_bound(const char *name, void (*add)(onnx_build *b), int more) {
  onnx_build *b = parts_open();
  add(b);
  build_output(b, "y", "f32");
  runner runners[N_RUNNERS];
  runners_open(b, runners);
  for (size_t k = BOUND_SIM; k < n_runners(); k++) {
    const int found = (int)figure(runners[k].report, "at_bound") - COUNTED_ROWS_AT_BOUND;
    if (k == EXACT_CUDA) continue;
    if (more >= 0) ck_assert_msg(found == more, "%s, runner %zu: %d at the bound", name, k, found);
    else ck_assert_msg(found > 0, "%s, runner %zu: %d at the bound", name, k, found);
  }
  reed_tensor *table = tensor_of(3, (int64_t[]){16, 3, 4});
  for (int i = 0; i < 16 * 12; i++) ((float *)reed_tensor_data(table))[i] = (float)(i * 29 % 41) * 0.0625f - 1;
  static const int64_t extents[][2] = {{3, 4}, {1, 1}, {16, 3}, {2, 1}, {0, 3}};
  for (size_t k = 0; k < sizeof extents / sizeof *extents; k++)
    for (int share = 0; share <= 4; share++) { /* of four elements */
      reed_tensor *mask = tensor_of(2, extents[k]);
      for (int64_t i = 0; i < extents[k][0] * extents[k][1]; i++)
        ((float *)reed_tensor_data(mask))[i] = i % 4 < share ? 1.0f : -1.0f;
      run_all(runners, n_runners(), (reed_tensor *[]){mask, table}, 2, NULL);
      reed_tensor_close(&mask);
    }
  reed_tensor_close(&table);
  runners_close(runners);
  build_close(&b);
}

#endif
