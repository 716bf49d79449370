/* The trained detector of examples/shapes, end to end: equal to PyTorch on every scene, on the host and on the
 * simulated accelerator; few epochs; nothing read back but flagged values, counts and outputs; nothing taken from the
 * heap once a shape has been seen; shared by threads. */
#include <check.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/alloc_hook.h"
#include "tests/suite.h"
#include "tests/whole/scenes.h"

static double element(const reed_tensor *t, int64_t i) {
  return reed_dtype_read(reed_tensor_dtype(t),
                         (const char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(reed_tensor_dtype(t)));
}

/* Same shape, every element within `tolerance`. Prints the largest difference. */
static double largest_difference(const reed_tensor *got, const reed_tensor *want) {
  ck_assert_int_eq(reed_tensor_rank(got), reed_tensor_rank(want));
  for (int32_t i = 0; i < reed_tensor_rank(got); i++)
    ck_assert_int_eq(reed_tensor_dims(got)[i], reed_tensor_dims(want)[i]);
  double largest = 0;
  for (int64_t i = 0; i < reed_tensor_elements(got); i++)
    largest = fmax(largest, fabs(element(got, i) - element(want, i)));
  return largest;
}

static void check_scene(reed_session *session, const scene *s, const char *device) {
  static const struct {
    const char *what;
    double tolerance;
  } parts[4] = {{"boxes", 0.05}, {"labels", 0}, {"scores", 1e-4}, {"masks", 1e-3}};
  reed_tensor *outputs[4];
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_status status = scene_run(session, s, outputs, d);
  ck_assert_msg(status == REED_OK, "%s on %s: %s", s->prefix, device, reed_diagnosis_message(d));
  printf("%s on %s: %lld detections, largest differences", s->prefix, device,
         (long long)reed_tensor_dims(outputs[0])[0]);
  for (int i = 0; i < 4; i++) {
    reed_tensor *want = scene_reference(s, parts[i].what);
    double largest = largest_difference(outputs[i], want);
    printf(" %s %.2g", parts[i].what, largest);
    ck_assert_msg(largest <= parts[i].tolerance, "%s %s differ by %g", s->prefix, parts[i].what, largest);
    reed_tensor_close(&want);
  }
  printf("\n");
  scene_close(outputs);
  reed_diagnosis_close(&d);
}

static void check_all(const char *device) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, &(reed_session_options){.device = device});
  for (int round = 0; round < 2; round++)
    for (size_t i = 0; i < n_scenes; i++) check_scene(session, &scenes[i], device);
  reed_session_close(&session);
  reed_program_close(&program);
}

START_TEST(every_scene_equals_pytorch_on_the_host) { check_all("host"); }
END_TEST
START_TEST(every_scene_equals_pytorch_on_the_simulated_accelerator) { check_all("sim"); }
END_TEST

static cJSON *parsed(reed_session *session, reed_status (*figures)(reed_session *, char **, reed_diagnosis *)) {
  char *json;
  ck_assert_int_eq(figures(session, &json, NULL), REED_OK);
  cJSON *root = cJSON_Parse(json);
  ck_assert_ptr_nonnull(root);
  reed_text_free(json);
  return root;
}

static const char *string_of(const cJSON *item, const char *key) {
  return cJSON_GetStringValue(cJSON_GetObjectItem(item, key));
}
static double number_of(const cJSON *item, const char *key) {
  return cJSON_GetNumberValue(cJSON_GetObjectItem(item, key));
}

/* Every scene four times: the first run of a size enqueues launches, the second records graphs, later ones replay them.
 * A session without graphs gives the same bits. */
START_TEST(graphs_change_no_result) {
  static const char device[] = "sim?poison=1&late=1&seed=6";
  reed_program *program = scenes_program();
  reed_session *with = scene_session(program, &(reed_session_options){.device = device}),
               *without = scene_session(program, &(reed_session_options){.device = device, .graphs = REED_GRAPHS_OFF});
  for (size_t i = 0; i < n_scenes; i++) {
    reed_tensor *a[4], *b[4];
    ck_assert_int_eq(scene_run(without, &scenes[i], b, NULL), REED_OK);
    for (int round = 0; round < 4; round++) {
      ck_assert_int_eq(scene_run(with, &scenes[i], a, NULL), REED_OK);
      for (int k = 0; k < 4; k++) ck_assert_double_eq(largest_difference(a[k], b[k]), 0);
      scene_close(a);
    }
    scene_close(b);
  }
  cJSON *stats = parsed(with, reed_session_stats_json), *graphs = cJSON_GetObjectItem(stats, "graphs");
  printf("%s: %g graphs captured, %g replayed, %g moved\n", device, number_of(graphs, "captured"),
         number_of(graphs, "replayed"), number_of(graphs, "moved"));
  ck_assert_double_ge(number_of(graphs, "captured"), 5);
  ck_assert_double_ge(number_of(graphs, "replayed"), 5);
  ck_assert_double_eq(number_of(graphs, "refused"), 0);
  cJSON_Delete(stats);
  reed_session_close(&with);
  reed_session_close(&without);
  reed_program_close(&program);
}
END_TEST

START_TEST(rewrites_change_no_result) {
  static const char *const rewrites[] = {"filter_chain", "nms_filter",  "roi_levels", "paste_masks",
                                         "nms_guard",    "nms_classes", "nms_limit",  NULL};
  reed_program *with = scenes_program(),
               *without = scenes_program_with(&(reed_compile_options){.disabled_passes = rewrites});
  reed_session *a = scene_session(with, NULL), *b = scene_session(without, NULL);
  for (size_t i = 0; i < n_scenes; i++) {
    reed_tensor *of_a[4], *of_b[4];
    ck_assert_int_eq(scene_run(a, &scenes[i], of_a, NULL), REED_OK);
    ck_assert_int_eq(scene_run(b, &scenes[i], of_b, NULL), REED_OK);
    for (int k = 0; k < 4; k++) ck_assert_double_eq(largest_difference(of_a[k], of_b[k]), 0);
    scene_close(of_a);
    scene_close(of_b);
  }
  reed_session_close(&a);
  reed_session_close(&b);
  reed_program_close(&with);
  reed_program_close(&without);
}
END_TEST

START_TEST(only_flagged_values_counts_and_outputs_come_back_from_the_device) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, &(reed_session_options){.device = "sim"});
  reed_tensor *outputs[4];
  ck_assert_int_eq(scene_run(session, &scenes[0], outputs, NULL), REED_OK);
  double output_bytes = 0, returned_bytes = 0, value_bytes = 0;
  for (int i = 0; i < 4; i++) returned_bytes += (double)reed_tensor_bytes(outputs[i]);
  cJSON *stats = parsed(session, reed_session_stats_json), *copy;
  int n_back = 0;
  cJSON_ArrayForEach(copy, cJSON_GetObjectItem(stats, "copies")) {
    if (strcmp(string_of(copy, "direction"), "device-to-host") != 0) continue;
    const char *reason = string_of(copy, "reason");
    n_back++;
    if (strcmp(reason, "output") == 0) {
      output_bytes += number_of(copy, "bytes");
    } else {
      ck_assert_msg(strcmp(reason, "value") == 0 || strcmp(reason, "extent") == 0, "a copy to the host because of '%s'",
                    reason);
      ck_assert_msg(string_of(copy, "operator")[0] != 0, "a read-back that names no operator");
      value_bytes += number_of(copy, "bytes");
    }
  }
  printf("read back: %d copies, %g bytes of values and counts, %g bytes of outputs\n", n_back, value_bytes,
         output_bytes);
  ck_assert_int_gt(n_back, 0);
  ck_assert_double_le(output_bytes, returned_bytes);
  ck_assert_double_le(value_bytes, 65536);
  cJSON_Delete(stats);
  scene_close(outputs);
  reed_session_close(&session);
  reed_program_close(&program);
}
END_TEST

START_TEST(at_most_ten_epochs_outside_the_mask_loop) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, NULL);
  reed_tensor *outputs[4];
  ck_assert_int_eq(scene_run(session, &scenes[0], outputs, NULL), REED_OK);
  int64_t detections = reed_tensor_dims(outputs[0])[0];
  cJSON *plan = parsed(session, reed_session_plan_json), *epoch;
  int runs[256] = {0}, outside = 0;
  cJSON_ArrayForEach(epoch, cJSON_GetObjectItem(plan, "epochs")) runs[(int)number_of(epoch, "id")]++;
  ck_assert_int_gt(detections, 1);
  for (int i = 0; i < 256; i++) outside += runs[i] == 1; /* an epoch of the loop's body runs once a detection */
  printf("epochs outside the loop: %d\n", outside);
  ck_assert_int_gt(outside, 0);
  ck_assert_int_le(outside, 10);
  cJSON_Delete(plan);
  scene_close(outputs);
  reed_session_close(&session);
  reed_program_close(&program);
}
END_TEST

START_TEST(a_seen_shape_takes_nothing_from_the_heap) {
  alloc_hook_begin();
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, NULL);
  reed_tensor *input = scene_image(&scenes[0]), *outputs[4];
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(reed_session_run(session, &input, 1, outputs, 4, NULL), REED_OK);
    scene_close(outputs);
  }
  int64_t before = alloc_hook_requests();
  ck_assert_int_eq(reed_session_run(session, &input, 1, outputs, 4, NULL), REED_OK);
  ck_assert_int_eq(alloc_hook_requests(), before);
  scene_close(outputs);
  cJSON *stats = parsed(session, reed_session_stats_json), *epoch;
  cJSON_ArrayForEach(epoch, cJSON_GetObjectItem(stats, "epochs")) ck_assert_str_eq(string_of(epoch, "memo"), "hit");
  cJSON_Delete(stats);
  reed_tensor_close(&input);
  reed_session_close(&session);
  reed_program_close(&program);
  ck_assert_int_eq(alloc_hook_end(), 0);
}
END_TEST

START_TEST(a_small_memo_evicts_and_stays_right) {
  reed_program *program = scenes_program();
  reed_session *session =
      scene_session(program, &(reed_session_options){.device = "sim", .memo_entries = 1, .memo_bytes = 4096});
  for (int round = 0; round < 2; round++)
    for (size_t i = 0; i < 3; i++) check_scene(session, &scenes[i], "sim with a small memo");
  cJSON *stats = parsed(session, reed_session_stats_json), *memo = cJSON_GetObjectItem(stats, "memo");
  ck_assert_double_gt(number_of(memo, "evictions"), 0);
  cJSON_Delete(stats);
  reed_session_close(&session);
  reed_program_close(&program);
}
END_TEST

START_TEST(too_little_memory_is_an_error_and_the_session_lives_on) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, &(reed_session_options){.memory_cap_bytes = 1 << 20});
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_tensor *outputs[4];
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(scene_run(session, &scenes[3], outputs, d), REED_ERROR_MEMORY);
    ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(d), "cap"));
  }
  reed_diagnosis_close(&d);
  reed_session_close(&session);
  reed_program_close(&program);
}
END_TEST

START_TEST(every_device_failure_is_reported_and_survived) {
  reed_program *program = scenes_program();
  for (int kind = 0; kind < 3; kind++)
    for (int64_t n = 1; n < 4000; n = n * 2 + 1) {
      static const char *const kinds[] = {"allocation", "copy", "launch"};
      char name[64];
      snprintf(name, sizeof name, "sim?fail_%s=%lld", kinds[kind], (long long)n);
      reed_session_options options = {.device = name};
      reed_session *session = scene_session(program, &options);
      reed_tensor *outputs[4];
      reed_diagnosis *d;
      ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
      reed_status status = scene_run(session, &scenes[1], outputs, d);
      if (status == REED_OK) {
        scene_close(outputs);
        n = 4000; /* until the run makes fewer calls than n */
      } else {
        ck_assert(status == REED_ERROR_DEVICE || status == REED_ERROR_MEMORY);
        ck_assert_str_ne(reed_diagnosis_message(d), "");
        check_scene(session, &scenes[1], "sim after a failure");
      }
      reed_diagnosis_close(&d);
      reed_session_close(&session);
    }
  reed_program_close(&program);
}
END_TEST

static void *run_scenes(void *program) {
  reed_session *session = scene_session(program, &(reed_session_options){.n_threads = 1});
  for (size_t i = 0; i < 3; i++) {
    reed_tensor *outputs[4];
    ck_assert_int_eq(scene_run(session, &scenes[i], outputs, NULL), REED_OK);
    reed_tensor *want = scene_reference(&scenes[i], "boxes");
    ck_assert_double_le(largest_difference(outputs[0], want), 0.05);
    reed_tensor_close(&want);
    scene_close(outputs);
  }
  reed_session_close(&session);
  return NULL;
}

START_TEST(threads_share_a_program) {
  reed_program *program = scenes_program();
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, run_scenes, program), 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  reed_program_close(&program);
}
END_TEST

/* The trace-event format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
START_TEST(the_trace_is_a_trace_event_file) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, &(reed_session_options){.device = "sim", .profile = true});
  reed_tensor *outputs[4];
  ck_assert_int_eq(scene_run(session, &scenes[0], outputs, NULL), REED_OK);
  scene_close(outputs);
  cJSON *tables = parsed(session, reed_session_profile_json), *trace = parsed(session, reed_session_trace_json), *event;
  int n_complete = 0, n_counters = 0, n_kernels = 0, n_copies = 0;
  cJSON_ArrayForEach(event, cJSON_GetObjectItem(trace, "traceEvents")) {
    const char *phase = string_of(event, "ph");
    ck_assert_ptr_nonnull(phase);
    ck_assert_ptr_nonnull(string_of(event, "name"));
    ck_assert(cJSON_IsNumber(cJSON_GetObjectItem(event, "pid")) && cJSON_IsNumber(cJSON_GetObjectItem(event, "tid")));
    if (strcmp(phase, "M") == 0) continue;
    ck_assert_double_ge(number_of(event, "ts"), 0);
    if (strcmp(phase, "C") == 0) {
      n_counters++;
      ck_assert(cJSON_IsNumber(cJSON_GetObjectItem(cJSON_GetObjectItem(event, "args"), "live_bytes")));
      continue;
    }
    ck_assert_str_eq(phase, "X");
    ck_assert_double_ge(number_of(event, "dur"), 0);
    n_complete++;
    n_kernels += strcmp(string_of(event, "cat"), "kernel") == 0;
    if (strcmp(string_of(event, "cat"), "copy") == 0) {
      n_copies++;
      ck_assert_ptr_nonnull(string_of(cJSON_GetObjectItem(event, "args"), "reason"));
      ck_assert_ptr_nonnull(string_of(cJSON_GetObjectItem(event, "args"), "direction"));
    }
  }
  printf("trace: %d spans, %d kernels, %d copies, %d counters\n", n_complete, n_kernels, n_copies, n_counters);
  ck_assert(n_complete > n_kernels && n_kernels > 100 && n_copies > 10 && n_counters > 0);
  ck_assert_int_eq(n_kernels, (int)reed_session_kernel_count(session));
  ck_assert_int_gt(cJSON_GetArraySize(cJSON_GetObjectItem(tables, "operators")), 20);
  ck_assert_int_gt(cJSON_GetArraySize(cJSON_GetObjectItem(tables, "nodes")), 100);
  cJSON_Delete(tables);
  cJSON_Delete(trace);
  reed_session_close(&session);
  reed_program_close(&program);
}
END_TEST

START_TEST(threads_change_no_bits) {
  static const int more[] = {2, 3, 7};
  reed_program *program = scenes_program();
  reed_session *one = scene_session(program, &(reed_session_options){.n_threads = 1});
  for (int k = 0; k < 3; k++) {
    reed_session *session = scene_session(program, &(reed_session_options){.n_threads = more[k]});
    for (size_t i = 0; i < n_scenes; i += 3) {
      reed_tensor *a[4], *b[4];
      ck_assert_int_eq(scene_run(one, &scenes[i], a, NULL), REED_OK);
      ck_assert_int_eq(scene_run(session, &scenes[i], b, NULL), REED_OK);
      for (int output = 0; output < 4; output++)
        ck_assert_msg(largest_difference(a[output], b[output]) == 0, "%s, %s, %d threads", scenes[i].prefix,
                      (const char *[]){"boxes", "labels", "scores", "masks"}[output], more[k]);
      scene_close(a);
      scene_close(b);
    }
    reed_session_close(&session);
  }
  reed_session_close(&one);
  reed_program_close(&program);
}
END_TEST

START_TEST(the_profile_tells_of_chunks) {
  reed_program *program = scenes_program();
  reed_session *session = scene_session(program, &(reed_session_options){.profile = true, .n_threads = 2});
  reed_tensor *outputs[4];
  ck_assert_int_eq(scene_run(session, &scenes[0], outputs, NULL), REED_OK);
  scene_close(outputs);
  cJSON *tables = parsed(session, reed_session_profile_json), *node;
  int n_shared = 0;
  cJSON_ArrayForEach(node, cJSON_GetObjectItem(tables, "nodes")) {
    double chunks = number_of(node, "chunks"), longest = number_of(node, "longest_chunk_us");
    ck_assert((chunks > 0) == (longest > 0));
    ck_assert_double_ge(number_of(node, "alone_us"), 0);
    n_shared += chunks > number_of(node, "calls");
  }
  ck_assert_int_gt(n_shared, 20);
  cJSON_Delete(tables);
  reed_session_close(&session);
  reed_program_close(&program);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("shapes");
  TCase *cases = tcase_create("shapes");
  tcase_set_timeout(cases, 600);
  tcase_add_test(cases, every_scene_equals_pytorch_on_the_host);
  tcase_add_test(cases, every_scene_equals_pytorch_on_the_simulated_accelerator);
  tcase_add_test(cases, graphs_change_no_result);
  tcase_add_test(cases, rewrites_change_no_result);
  tcase_add_test(cases, only_flagged_values_counts_and_outputs_come_back_from_the_device);
  tcase_add_test(cases, at_most_ten_epochs_outside_the_mask_loop);
  tcase_add_test(cases, a_seen_shape_takes_nothing_from_the_heap);
  tcase_add_test(cases, a_small_memo_evicts_and_stays_right);
  tcase_add_test(cases, too_little_memory_is_an_error_and_the_session_lives_on);
  tcase_add_test(cases, every_device_failure_is_reported_and_survived);
  tcase_add_test(cases, threads_share_a_program);
  tcase_add_test(cases, the_trace_is_a_trace_event_file);
  tcase_add_test(cases, threads_change_no_bits);
  tcase_add_test(cases, the_profile_tells_of_chunks);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
