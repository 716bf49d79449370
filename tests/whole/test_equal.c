/* A pass does not change results: each subgraph of tests/compiler/passes/rewrite/spelled.h and
 * tests/compiler/passes/layout/pictures.h, compiled with the passes and without them, runs on the same inputs at
 * several sizes. */
#include <check.h>
#include <math.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/passes/rewrite/appending.h"
#include "tests/compiler/passes/rewrite/candidates.h"
#include "tests/compiler/passes/rewrite/choices.h"
#include "tests/compiler/passes/rewrite/columns.h"
#include "tests/compiler/passes/rewrite/forms.h"
#include "tests/compiler/passes/rewrite/heatmaps.h"
#include "tests/compiler/passes/fuse/boxes.h"
#include "tests/compiler/passes/layout/pictures.h"
#include "tests/compiler/passes/rewrite/decoders.h"
#include "tests/compiler/passes/rewrite/spelled.h"
#include "tests/compiler/passes/rewrite/whole.h"
#include "tests/suite.h"
#include "tests/whole/runner.h"

/* Input i of the program, symbolic extents being `extent`: elements over -4..4 in a fixed sequence. */
static reed_tensor *input_of(const reed_program *program, size_t i, int64_t extent) {
  reed_value_info info;
  reed_tensor *t;
  uint32_t seed = 12345u + (uint32_t)i;
  ck_assert_int_eq(reed_program_input(program, i, &info), REED_OK);
  for (int32_t k = 0; k < info.rank; k++)
    if (info.dims[k] < 0) info.dims[k] = extent;
  ck_assert_int_eq(reed_tensor_open(info.dtype, info.rank, info.dims, &t), REED_OK);
  size_t bytes = reed_dtype_bytes(info.dtype);
  for (int64_t k = 0; k < reed_tensor_elements(t); k++) {
    seed = seed * 1664525u + 1013904223u;
    reed_dtype_write(info.dtype, (char *)reed_tensor_data(t) + (size_t)k * bytes,
                     (double)(seed >> 8) / (1 << 24) * 8 - 4);
  }
  return t;
}

static double element_of(const reed_tensor *t, int64_t i) {
  size_t bytes = reed_dtype_bytes(reed_tensor_dtype(t));
  return reed_dtype_read(reed_tensor_dtype(t), (const char *)reed_tensor_data(t) + (size_t)i * bytes);
}

/* The largest finite element's size. */
static double largest_of(const reed_tensor *t) {
  double largest = 0;
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    if (isfinite(element_of(t, i))) largest = fmax(largest, fabs(element_of(t, i)));
  return largest;
}

/* How far elements may differ. */
typedef struct bar {
  double of_element; /* times max(1, |element|) */
  /* times the tensor's largest element, for sums of products that cancel, as in Winograd's convolutions */
  double of_largest;
} bar;

static void equal(const reed_tensor *a, const reed_tensor *b, bar most, const char *what) {
  ck_assert_int_eq(reed_tensor_dtype(a), reed_tensor_dtype(b));
  ck_assert_int_eq(reed_tensor_rank(a), reed_tensor_rank(b));
  for (int32_t i = 0; i < reed_tensor_rank(a); i++) ck_assert_int_eq(reed_tensor_dims(a)[i], reed_tensor_dims(b)[i]);
  double of_largest = most.of_largest ? most.of_largest * largest_of(b) : 0;
  for (int64_t i = 0; i < reed_tensor_elements(a); i++) {
    double x = element_of(a, i), y = element_of(b, i);
    bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= most.of_element * fmax(1, fabs(y)) + of_largest;
    ck_assert_msg(same, "%s: element %lld is %.9g, not %.9g", what, (long long)i, x, y);
  }
}

#define INPUTS_MOST 16 /* of a case's model */

static void check_within(onnx_build *b, const char *pass, bool empty, bar most, const char *what) {
  static const int64_t extents[] = {1, 3, 17, 0}; /* extent 0 only if `empty` */
  const char *const disabled[] = {pass, NULL};
  runner with = runner_open(b, &(reed_compile_options){0}, NULL, what),
         without = runner_open(b, &(reed_compile_options){.disabled_passes = disabled}, NULL, what);
  size_t n = reed_program_input_count(with.program);
  ck_assert_uint_le(n, INPUTS_MOST);
  for (size_t k = 0; k < sizeof extents / sizeof *extents - !empty; k++) {
    reed_tensor *inputs[INPUTS_MOST];
    for (size_t i = 0; i < n; i++) inputs[i] = input_of(with.program, i, extents[k]);
    reed_tensor *x, *y;
    runner_run(&with, inputs, n, &x, 1, what);
    runner_run(&without, inputs, n, &y, 1, what);
    equal(x, y, most, what);
    reed_tensor_close(&x);
    reed_tensor_close(&y);
    for (size_t i = 0; i < n; i++) reed_tensor_close(&inputs[i]);
  }
  runner_close(&with);
  runner_close(&without);
  build_close(&b);
}

static void check(onnx_build *b, const char *pass, bool empty, double tolerance, const char *what) {
  check_within(b, pass, empty, (bar){.of_element = tolerance}, what);
}

/* Winograd's tiles of 6x6 pixels differ by 9e-6 of the largest element, direct convolutions by 1e-6. */
static void check_picture(const picture *p, const char *pass) {
  check_within(picture_open(p), pass, !p->not_empty, (bar){.of_largest = 2e-5}, p->what);
}

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))
static void check_spelled(const spelled *s, const char *pass, double tolerance) {
  check(spelled_open(s), pass, true, tolerance, s->what);
}

START_TEST(recognised_activations_compute_the_same) { check_spelled(&spelled_activations[_i], "activations", 2e-6); }
END_TEST
START_TEST(recognised_attentions_compute_the_same) {
  const spelled *s = &spelled_attentions[_i];
  check(spelled_attention_open(s), "attention", true, 1e-5, s->what);
  check(spelled_attention_open(s), "batch_axes", true, 1e-5, s->what);
}
END_TEST

START_TEST(folded_masks_compute_the_same) {
  const spelled_mask *s = &spelled_masks[_i];
  check(spelled_mask_open(s), "attention_masks", true, 1e-5, s->what);
  check(spelled_mask_open(s), "attention", true, 1e-5, s->what);
}
END_TEST

/* More keys than the table of a folded mask has columns: refused at the program's entry, as the mask's operators
 * refused them. 40 keys fit. */
START_TEST(more_keys_than_a_table_has_are_refused) {
  const spelled_mask *s = spelled_masks;
  while (strcmp(s->what, "rows of a table")) s++;
  onnx_build *b = spelled_mask_open(s);
  runner r = runner_open(b, &(reed_compile_options){0}, NULL, s->what);
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  for (int64_t extent = 20; extent < 22; extent++) { /* of tokens and of the past */
    reed_tensor *inputs[5], *y = NULL;
    for (size_t i = 0; i < 5; i++) inputs[i] = input_of(r.program, i, extent);
    reed_status status = reed_session_run(r.session, inputs, 5, &y, 1, d);
    ck_assert_int_eq(status, extent == 20 ? REED_OK : REED_ERROR_SHAPE);
    reed_tensor_close(&y);
    for (size_t i = 0; i < 5; i++) reed_tensor_close(&inputs[i]);
  }
  reed_diagnosis_close(&d);
  runner_close(&r);
  build_close(&b);
}
END_TEST

/* The tokens of two inputs, 1 and n, n and 1, or 0 beside 1: n or 0 of them and the past fit to 40 rows of the table.
 */
START_TEST(more_broadcast_tokens_than_a_table_has_are_refused) {
  static const struct {
    int64_t t, m, past;
    reed_status status;
  } runs[] = {{1, 9, 31, REED_OK},          {9, 1, 31, REED_OK}, {9, 9, 31, REED_OK}, {1, 9, 32, REED_ERROR_SHAPE},
              {9, 1, 32, REED_ERROR_SHAPE}, {0, 1, 40, REED_OK}, {1, 1, 39, REED_OK}, {1, 1, 40, REED_ERROR_SHAPE}};
  int k = 0;
  while (!strstr(layers_of_tables[k], "tokens")) k++;
  onnx_build *b = decoder_open(layers_of_tables[k]);
  runner r = runner_open(b, &(reed_compile_options){0}, NULL, "broadcast tokens");
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  for (size_t run = 0; run < sizeof runs / sizeof *runs; run++) {
    reed_tensor *inputs[6], *y = NULL;
    for (size_t i = 0; i < 6; i++) {
      reed_value_info info;
      ck_assert_int_eq(reed_program_input(r.program, i, &info), REED_OK);
      bool past = info.name[0] == 'p', further = strcmp(info.name, "tokens") == 0;
      int64_t dims[] = {further ? 1 : 2, further ? 1 : 3,
                        past      ? runs[run].past
                        : further ? runs[run].m
                                  : runs[run].t,
                        8};
      ck_assert_int_eq(reed_tensor_open(REED_F32, 4, dims, &inputs[i]), REED_OK);
      memset(reed_tensor_data(inputs[i]), 0, (size_t)reed_tensor_bytes(inputs[i]));
    }
    reed_status status = reed_session_run(r.session, inputs, 6, &y, 1, d);
    ck_assert_msg(status == runs[run].status, "run %zu: %d, %s", run, status, reed_diagnosis_message(d));
    if (y)
      ck_assert_int_eq(reed_tensor_dims(y)[2],
                       runs[run].t && runs[run].m ? (runs[run].t > runs[run].m ? runs[run].t : runs[run].m) : 0);
    reed_tensor_close(&y);
    for (size_t i = 0; i < 6; i++) reed_tensor_close(&inputs[i]);
  }
  reed_diagnosis_close(&d);
  runner_close(&r);
  build_close(&b);
}
END_TEST

START_TEST(heads_joined_with_the_batch_compute_the_same) {
  check(decoder_open(joined_heads), "batch_axes", false, 1e-5, "heads joined with the batch");
  for (int i = 0; i < COUNT(unproven_biases); i++)
    check(decoder_open(unproven_biases[i]), "attention", false, 1e-5, "a bias of unproven extents");
  for (int i = 0; i < COUNT(layers_of_tables); i++)
    check(decoder_open(layers_of_tables[i]), "attention", false, 1e-5, "as many queries as a table has rows");
}
END_TEST
START_TEST(shared_heads_compute_the_same) {
  check(spelled_heads_open(&spelled_heads[_i]), "attention_heads", true, 1e-5, spelled_heads[_i].what);
}
END_TEST
START_TEST(recognised_rotary_embeddings_compute_the_same) {
  check(spelled_rotary_open(&spelled_rotaries[_i]), "rotary", true, 2e-6, spelled_rotaries[_i].what);
}
END_TEST

START_TEST(rows_of_caches_are_the_same) {
  const spelled_rows *s = &spelled_rows_of_caches[_i];
  check(spelled_rows_open(s), "cache_rows", true, 0, s->what);
}
END_TEST

START_TEST(caches_of_the_last_places_compute_the_same) {
  const spelled *s = &spelled_last_places[_i];
  if (s->made) check(spelled_last_places_open(s), "rotary", true, 2e-6, s->what);
}
END_TEST

/* Loops over elements are the same, so bits must be equal. */
START_TEST(columns_compute_the_same) { check(box_open(&box_cases[_i], false), "columns", true, 0, box_cases[_i].what); }
END_TEST

START_TEST(chains_compute_the_same) {
  static const char *const texts[] = {"a=Add x,y;s=Sigmoid a;m=Mul a,s;o=Sub m,rows",
                                      "e=Exp z;m=Mul x,e;k=Mul m,rows;o=Add k,y",
                                      "c=Less x,y;n=Not c;w=Where n,x,z;t=Tanh w;o=Mul t,y",
                                      "c=Clip x,,three;d=Div c,six;g=Greater d,zero;f=Cast g;o=Mul f,x",
                                      "s=Sum x,y,z;m=Max s,x,y;q=Pow x,two;o=Sub m,q",
                                      "p=Transpose[0,2,1] x;a=Add p,y2;o=Erf a"};
  onnx_build *b = build_open(18);
  build_input(b, "x", _i % 2 ? "f32[n,n,n]" : "f32[n,6,8]");
  build_input(b, "y", _i % 2 ? "f32[n,n,n]" : "f32[n,6,8]");
  build_input(b, "z", _i % 2 ? "f32[n,n,1]" : "f32[n,1,1]");
  build_input(b, "y2", _i % 2 ? "f32[n,n,n]" : "f32[n,8,6]");
  spelled_constants(b);
  const char *text = texts[_i / 2];
  if (_i % 2 && strstr(text, "rows")) text = texts[1 + 1]; /* rows has 8 elements */
  build_output(b, spelled_nodes(b, text), "f32");
  check(b, "chains", true, 0, text);
}
END_TEST
START_TEST(recognised_norms_compute_the_same) {
  check_spelled(&spelled_norms[_i], "norms", spelled_norms[_i].half ? 2e-2 : 2e-5);
}
END_TEST
START_TEST(recognised_group_norms_compute_the_same) { check_spelled(&spelled_groups[_i], "group_norm", 2e-5); }
END_TEST
START_TEST(norms_with_activations_compute_the_same) { check_spelled(&spelled_norm_ends[_i], "fusion", 2e-6); }
END_TEST
START_TEST(pictures_with_channels_last_compute_the_same) { check_picture(&pictures[_i], "layout"); }
END_TEST
START_TEST(packed_weights_compute_the_same) { check_picture(&pictures[_i], "pack"); }
END_TEST
START_TEST(matrices_read_whole_are_the_same) {
  if (whole_cases[_i].reads_whole) check(whole_open(&whole_cases[_i]), "whole_index", true, 0, whole_cases[_i].what);
}
END_TEST

START_TEST(columns_as_rows_are_the_same) {
  check(picture_open(&column_cases[_i].p), "gathered_columns", true, 0, column_cases[_i].p.what);
}
END_TEST
START_TEST(candidates_of_all_classes_are_the_same) {
  check(candidates_open((candidates)_i), "class_candidates", true, 0, "candidates of classes");
}
END_TEST
START_TEST(cheaper_forms_compute_the_same) {
  const picture *p = &form_cases[_i].p;
  check(picture_open(p), "plain_forms", true, 0, p->what);
}
END_TEST
START_TEST(maps_of_chosen_classes_are_the_same) {
  check(choice_open((choice)_i), "chosen_class", true, 1e-6, "maps of classes");
}
END_TEST
START_TEST(points_read_off_maps_are_the_same) {
  check(heatmaps_loop((heatmaps)_i), "keypoints", true, 1e-6, "heat maps");
}
END_TEST
START_TEST(loops_that_append_compute_the_same) {
  check(appending_loop((appending)_i), "accumulate", true, 0, "appending");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("equal");
  TCase *t = tcase_create("equal");
  tcase_add_loop_test(t, recognised_activations_compute_the_same, 0, COUNT(spelled_activations));
  tcase_add_loop_test(t, recognised_norms_compute_the_same, 0, COUNT(spelled_norms));
  tcase_add_loop_test(t, recognised_attentions_compute_the_same, 0, COUNT(spelled_attentions));
  tcase_add_loop_test(t, columns_compute_the_same, 0, COUNT(box_cases));
  tcase_add_loop_test(t, chains_compute_the_same, 0, 12);
  tcase_add_loop_test(t, folded_masks_compute_the_same, 0, COUNT(spelled_masks));
  tcase_add_test(t, more_keys_than_a_table_has_are_refused);
  tcase_add_test(t, more_broadcast_tokens_than_a_table_has_are_refused);
  tcase_add_test(t, heads_joined_with_the_batch_compute_the_same);
  tcase_add_loop_test(t, shared_heads_compute_the_same, 0, COUNT(spelled_heads));
  tcase_add_loop_test(t, recognised_rotary_embeddings_compute_the_same, 0, COUNT(spelled_rotaries));
  tcase_add_loop_test(t, rows_of_caches_are_the_same, 0, COUNT(spelled_rows_of_caches));
  tcase_add_loop_test(t, caches_of_the_last_places_compute_the_same, 0, COUNT(spelled_last_places));
  tcase_add_loop_test(t, recognised_group_norms_compute_the_same, 0, COUNT(spelled_groups));
  tcase_add_loop_test(t, norms_with_activations_compute_the_same, 0, COUNT(spelled_norm_ends));
  tcase_add_loop_test(t, pictures_with_channels_last_compute_the_same, 0, COUNT(pictures));
  tcase_add_loop_test(t, packed_weights_compute_the_same, 0, COUNT(pictures));
  tcase_add_loop_test(t, matrices_read_whole_are_the_same, 0, N_WHOLE_CASES);
  tcase_add_loop_test(t, columns_as_rows_are_the_same, 0, N_COLUMN_CASES);
  tcase_add_loop_test(t, candidates_of_all_classes_are_the_same, 0, CANDIDATES_ANY_COLUMNS);
  tcase_add_loop_test(t, cheaper_forms_compute_the_same, 0, N_FORM_CASES);
  tcase_add_loop_test(t, points_read_off_maps_are_the_same, 0, HEATMAPS_TAKEN);
  tcase_add_loop_test(t, maps_of_chosen_classes_are_the_same, 0, CHOICE_TAKEN);
  tcase_add_loop_test(t, loops_that_append_compute_the_same, 0, N_APPENDING);
  tcase_set_timeout(t, 120);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
