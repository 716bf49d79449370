/* Devices by name: one counted object for each name, numbers, options, modules by path, and refused names, each with
 * one sentence. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "device/device.h"
#include "ops/kernel.h"
#include "reed/device.h"
#include "tests/suite.h"

reed_kernel_prepare_fn kernel_cpu(const reed_op *op) { return op ? NULL : NULL; } /* stands for ops/cpu */

static reed_diagnosis said;

static device *opened(const char *name) {
  device *d = NULL;
  ck_assert_msg(device_open(name, &d, &said) == REED_OK, "%s", said.message);
  return d;
}

START_TEST(a_device_is_opened_once_and_counted) {
  device *a = opened("sim"), *b = opened("sim:0"), *c = opened("sim"), *kept = a;
  ck_assert(a == b && a == c);
  device_close(&a);
  ck_assert_ptr_null(a);
  device_close(&a); /* NULL is allowed */
  device_close(&b);
  void *data = NULL;
  ck_assert_int_eq(kept->interface->allocate(kept, 10, 0, &data, &said), REED_OK); /* c keeps the device open */
  kept->interface->release(kept, data, NULL);
  device_retain(c);
  device *again = c;
  device_close(&c);
  ck_assert_int_eq(again->interface->allocate(again, 10, 0, &data, &said), REED_OK);
  device_memory memory;
  again->interface->memory(again, &memory);
  ck_assert_int_eq(memory.n_allocations, 2);
  device_close(&again); /* the last reference: the device's memory goes, too */
  c = opened("sim");
  c->interface->memory(c, &memory);
  ck_assert_int_eq(memory.n_allocations, 0);
  device_close(&c);
}
END_TEST

START_TEST(names_tell_devices_apart) {
  static const char *const names[] = {"host",       "sim",          "sim:1",  "sim:63",     "sim?seed=1",
                                      "sim?seed=2", "sim:1?seed=1", SIM_PATH, SIM_PATH ":2"};
  enum { N = sizeof names / sizeof *names };
  device *d[N];
  for (int i = 0; i < N; i++) d[i] = opened(names[i]);
  for (int i = 0; i < N; i++)
    for (int k = 0; k < i; k++) ck_assert_ptr_ne(d[i], d[k]);
  ck_assert_str_eq(d[1]->name, "sim");
  ck_assert_str_eq(d[2]->name, "sim:1");
  ck_assert_str_eq(d[6]->name, "sim:1");
  ck_assert_str_eq(d[8]->name, SIM_PATH ":2");
  for (int i = 0; i < N; i++) device_close(&d[i]);
}
END_TEST

START_TEST(what_is_no_device_is_refused_in_a_sentence) {
  static const struct {
    const char *name, *sentence;
    bool malformed;
  } refused[] = {
      {"tpu", "there is no device 'tpu' here: no module '"},
      {"tpu:1", "libreed-tpu.so'"},
      {"simm", "there is no device 'simm' here"},
      {"", "'' is no device name", true},
      {":1", "':1' is no device name", true},
      {"sim:", "'sim:' is no device name", true},
      {"sim:x", "'sim:x' is no device name", true},
      {"sim:64", "numbered 0..63", true},
      {"sim:99999999999999999999", "numbered 0..63", true},
      {"host:1", "there is one host", true},
      {"host?x=1", "there is one host", true},
      {"sim?colour=1", "no option 'colour'; known: fail_allocation", true},
      {"sim?seed", "option 'seed' takes a number", true},
      {"sim?seed=", "option 'seed' takes a number", true},
      {"sim?seed=-1", "option 'seed' takes a number", true},
      {"sim?seed=1x", "option 'seed' takes a number", true},
      {"sim?seed=+1", "option 'seed' takes a number", true},
      {"sim?seed=9223372036854775808", "option 'seed' takes a number", true},
      {"sim?", "options are missing behind the '?'", true},
      {"sim:1?", "options are missing behind the '?'", true},
      {"sim?seed=1&", "an option is missing behind the last '&'", true},
      {"sim?&seed=1", "no option ''", true},
      {"sim?late=2", "option 'late' takes a number from 0 to 1", true},
      {"sim?delay_us=10000001", "option 'delay_us' takes a number from 0 to 10000000", true},
      {"sim?lacks=", "option 'lacks' takes a list", true},
      {"sim?only", "option 'only' takes a list", true},
      {"sim?card=H100", "no option 'card'", true},
      {"cuda?colour=1", "no option 'colour'; known: check", true}, /* with the module or without it */
      {"sim?seed=1&late", "option 'late' takes a number", true},
      {"/nowhere/libreed-x.so", "there is no device module at '/nowhere/libreed-x.so'"},
      {OLD_PATH, "is of version 0.0.9, this library of "},
      {CONTRACT_PATH, " was built from other sources than this library (contract "},
      {NO_MODULE_PATH, "is no device module: it has no reed_device_module"},
      {TEXT_PATH, "cannot be loaded: "},
  };
  device *d = NULL;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ck_assert_int_eq(device_open(refused[i].name, &d, &said),
                     refused[i].malformed ? REED_ERROR_ARGUMENT : REED_ERROR_DEVICE);
    ck_assert_msg(strstr(said.message, refused[i].sentence) != NULL, "'%s': %s", refused[i].name, said.message);
    ck_assert_ptr_null(d);
  }
  char *long_name = malloc(10000);
  memset(long_name, 'a', 9999);
  long_name[9999] = 0;
  ck_assert_int_eq(device_open(long_name, &d, &said), REED_ERROR_ARGUMENT);
  free(long_name);
}
END_TEST

START_TEST(the_list_of_kinds_is_the_table) {
  static const char *const expected[] = {
#define TARGET(name, dlpack, host_kernels, counts, list, options, summary) #name,
#include "ops/targets.def"
  };
  enum { N = sizeof expected / sizeof *expected };
  reed_device_info info;
  for (size_t i = 0; i < N; i++) {
    ck_assert(reed_device_kind(i, &info));
    ck_assert_str_eq(info.name, expected[i]);
    ck_assert_str_ne(info.summary, "");
    if (i == 0) ck_assert(info.present); /* the host */
  }
  ck_assert(!reed_device_kind(N, &info) && !reed_device_kind(SIZE_MAX, &info) && !reed_device_kind(0, NULL));
}
END_TEST

static void *open_and_close(void *name) {
  for (int i = 0; i < 200; i++) {
    device *d = NULL;
    void *data = NULL;
    if (device_open(name, &d, NULL) != REED_OK) return name;
    if (d->interface->allocate(d, 100, 0, &data, NULL) != REED_OK) return name;
    d->interface->release(d, data, NULL);
    device_close(&d);
  }
  return NULL;
}

START_TEST(threads_open_and_close_devices) {
  static char names[4][16] = {"sim", "sim", "sim:1", "host"};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, open_and_close, names[i]), 0);
  for (int i = 0; i < 4; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    ck_assert_ptr_null(failed);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("names");
  TCase *tc = tcase_create("names");
  tcase_set_timeout(tc, 60);
  tcase_add_test(tc, a_device_is_opened_once_and_counted);
  tcase_add_test(tc, names_tell_devices_apart);
  tcase_add_test(tc, what_is_no_device_is_refused_in_a_sentence);
  tcase_add_test(tc, the_list_of_kinds_is_the_table);
  tcase_add_test(tc, threads_open_and_close_devices);
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
