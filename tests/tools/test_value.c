/* VALUE and flags: accepted words, refused words, and the texts of refusals. */
#include "tools/value.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/flags.h"
#include "tests/suite.h"

static reed_tensor *parsed(const char *text) {
  complaint c = {0};
  reed_tensor *tensor = NULL;
  ck_assert_msg(value_parse(text, NULL, NULL, &tensor, &c) == DONE, "%s: %s", text, c.text);
  return tensor;
}

static void refused(const char *text, int exit_status, const char *words) {
  complaint c = {0};
  reed_tensor *tensor = NULL;
  int status = value_parse(text, NULL, NULL, &tensor, &c);
  ck_assert_msg(status == exit_status, "%s gave %d: %s", text, status, c.text);
  ck_assert_msg(strstr(c.text, words) != NULL, "%s: '%s' does not say '%s'", text, c.text, words);
  ck_assert_ptr_null(tensor);
}

static double at(const reed_tensor *t, int64_t i) {
  return reed_dtype_read(reed_tensor_dtype(t),
                         (const char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(reed_tensor_dtype(t)));
}

START_TEST(elements_splats_and_scalars) {
  reed_tensor *t = parsed("2x3xf32=1,2.5,-3,4e1,inf,nan");
  ck_assert_int_eq(reed_tensor_rank(t), 2);
  ck_assert_int_eq(reed_tensor_dims(t)[0], 2);
  ck_assert_int_eq(reed_tensor_dims(t)[1], 3);
  ck_assert(at(t, 1) == 2.5 && at(t, 2) == -3 && at(t, 3) == 40 && isinf(at(t, 4)) && isnan(at(t, 5)));
  reed_tensor_close(&t);
  t = parsed("2x3xf16=0.5");
  for (int i = 0; i < 6; i++) ck_assert(at(t, i) == 0.5);
  reed_tensor_close(&t);
  t = parsed("f32=1");
  ck_assert_int_eq(reed_tensor_rank(t), 0);
  ck_assert(at(t, 0) == 1);
  reed_tensor_close(&t);
  t = parsed("0x4xi64=");
  ck_assert_int_eq(reed_tensor_elements(t), 0);
  ck_assert_int_eq(reed_tensor_dims(t)[1], 4);
  reed_tensor_close(&t);
}
END_TEST

START_TEST(integers_reach_the_ends_of_their_dtype) {
  reed_tensor *t = parsed("2xi64=-9223372036854775808,9223372036854775807");
  ck_assert(((int64_t *)reed_tensor_data(t))[0] == INT64_MIN && ((int64_t *)reed_tensor_data(t))[1] == INT64_MAX);
  reed_tensor_close(&t);
  t = parsed("u64=18446744073709551615");
  ck_assert(*(uint64_t *)reed_tensor_data(t) == UINT64_MAX);
  reed_tensor_close(&t);
  t = parsed("2xi8=-128,127");
  ck_assert(at(t, 0) == -128 && at(t, 1) == 127);
  reed_tensor_close(&t);
  t = parsed("4xbool=0,1,true,false");
  ck_assert(at(t, 0) == 0 && at(t, 1) == 1 && at(t, 2) == 1 && at(t, 3) == 0);
  reed_tensor_close(&t);
}
END_TEST

START_TEST(random_elements_are_the_same_for_the_same_seed) {
  reed_tensor *a = parsed("3x5xf32=rand:7"), *b = parsed("3x5xf32=rand:7"), *c = parsed("3x5xf32=rand:8"),
              *d = parsed("100xi64=rand:1");
  ck_assert_mem_eq(reed_tensor_data(a), reed_tensor_data(b), 60);
  ck_assert(memcmp(reed_tensor_data(a), reed_tensor_data(c), 60) != 0);
  for (int i = 0; i < 15; i++) ck_assert(at(a, i) >= 0 && at(a, i) < 1);
  for (int i = 0; i < 100; i++) ck_assert(at(d, i) >= 0 && at(d, i) <= 9);
  reed_tensor_close(&a);
  reed_tensor_close(&b);
  reed_tensor_close(&c);
  reed_tensor_close(&d);
}
END_TEST

START_TEST(what_is_left_over_is_an_error) {
  refused("", MISUSE, "expected @FILE");
  refused("2x3xf32", MISUSE, "expected @FILE");
  refused("2x3x=1", MISUSE, "expected @FILE");
  refused("2xx3xf32=1", MISUSE, "expected @FILE");
  refused("-2xf32=1", MISUSE, "expected @FILE");
  refused("2xf33=1", MISUSE, "expected @FILE");
  refused("2x3=1", MISUSE, "expected @FILE");
  refused("1x1x1x1x1x1x1x1x1xf32=1", MISUSE, "expected @FILE");
  refused("99999999999999999999xf32=1", MISUSE, "expected @FILE");
  refused("2x3xf32=1,2,3", MISUSE, "6 elements expected (or one for all), 3 given");
  refused("2xf32=1,2,3", MISUSE, "2 elements expected (or one for all), 3 given");
  refused("2xf32=1,2x", MISUSE, "element 1, '2x', is no f32");
  refused("2xf32=1,", MISUSE, "element 1, '', is no f32");
  refused("2xf32= 1,2", MISUSE, "element 0, ' 1', is no f32");
  refused("f32=", MISUSE, "1 element expected");
  refused("u8=256", MISUSE, "is no u8");
  refused("u8=-1", MISUSE, "is no u8");
  refused("i8=128", MISUSE, "is no i8");
  refused("i64=9223372036854775808", MISUSE, "is no i64");
  refused("i64=1.5", MISUSE, "is no i64");
  refused("bool=2", MISUSE, "is no bool");
  refused("f32=rand:", MISUSE, "seed");
  refused("f32=rand:7x", MISUSE, "seed");
  refused("9223372036854775807x9223372036854775807xf32=1", MISUSE, "shapes");
  refused("@/nowhere/x.npy", BAD_FILE, "cannot open");
  refused("@/dev/null", BAD_FILE, "is no regular file");
  refused("@/proc/self/status", BAD_FILE, "only .npy, .png and .jpg");
}
END_TEST

/* ---- flags ---- */

static const char *const colours[] = {"red", "green", NULL, NULL};
static const flag rows[] = {
    {"--number", "-n", FLAG_INT, offsetof(options, runs), "N", "a number", NULL, 1, 4096},
    {"--bytes", NULL, FLAG_BYTES, offsetof(options, memory_cap), "BYTES", "bytes"},
    {"--input", "-i", FLAG_WORDS, offsetof(options, inputs), "NAME=VALUE", "words"},
    {"--device", NULL, FLAG_CHOICE, offsetof(options, device), "D", "a choice", colours},
    {"--ignore-checksum", NULL, FLAG_SWITCH, offsetof(options, ignore_checksum), NULL, "a switch"},
    {"--mean", NULL, FLAG_TRIPLE, offsetof(options, picture.mean), "A,B,C", "three"},
    {"--std", NULL, FLAG_DIVISORS, offsetof(options, picture.std), "A,B,C", "three divisors"},
    {"--min-score", NULL, FLAG_REAL, offsetof(options, min_score), "R", "a real"},
    {0},
};

static int parse(options *o, complaint *c, int n, const char *const *words) {
  *o = (options){0};
  c->text[0] = 0;
  return flags_parse(rows, n, words, o, &o->arguments, c);
}
#define PARSE(o, c, ...) \
  parse(o, c, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})

START_TEST(flags_in_both_forms_and_repeated) {
  options o;
  complaint c;
  ck_assert_int_eq(PARSE(&o, &c, "m.reed", "-n", "5", "-i", "a=1", "--input=b=2", "--ignore-checksum", "--mean",
                         "1,2,3", "--min-score=0.5", "--", "-x"),
                   DONE);
  ck_assert_int_eq(o.runs, 5);
  ck_assert_uint_eq(o.inputs.n, 2);
  ck_assert_str_eq(o.inputs.items[1], "b=2");
  ck_assert(o.ignore_checksum && o.picture.mean[2] == 3 && o.min_score == 0.5);
  ck_assert_uint_eq(o.arguments.n, 2);
  ck_assert_str_eq(o.arguments.items[1], "-x");
  free(o.inputs.items);
  free(o.arguments.items);
  ck_assert_int_eq(PARSE(&o, &c, "--mean", "0.5"), DONE);
  ck_assert(o.picture.mean[0] == 0.5 && o.picture.mean[2] == 0.5);
  ck_assert_int_eq(PARSE(&o, &c, "-n", "4096", "--bytes", "2k"), DONE);
  ck_assert_int_eq(o.runs, 4096);
  ck_assert_int_eq(o.memory_cap, 2048);
}
END_TEST

START_TEST(wrong_flags_are_named_with_what_was_meant) {
  static const struct {
    const char *words[2], *said;
  } wrong[] = {{{"--devise", "red"}, "did you mean '--device'?"},
               {{"--numbr=1", ""}, "did you mean '--number'?"},
               {{"-n", "0"}, "from 1 to 4096, not '0'"},
               {{"-n", "4097"}, "from 1 to 4096, not '4097'"},
               {{"-n", "2k"}, "from 1 to 4096, not '2k'"},
               {{"-n", "5x"}, "from 1 to 4096, not '5x'"},
               {{"--bytes", "-1"}, "from 0 up, perhaps with k, M or G behind it, not '-1'"},
               {{"--device", "grene"}, "did you mean 'green'?"},
               {{"--ignore-checksum=1", ""}, "takes no value"},
               {{"--mean", "1,2"}, "three with commas"},
               {{"--mean", "1,2,3,4"}, "three with commas"},
               {{"--mean", "nan"}, "three with commas"},
               {{"--std", "0"}, "none of them 0"},
               {{"--std", "1,0,1"}, "none of them 0"},
               {{"--std", "1,inf,1"}, "three with commas"},
               {{"--min-score", "-1"}, "from 0 up"},
               {{"--min-score", "nan"}, "from 0 up"},
               {{"--min-score", "inf"}, "from 0 up"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    options o;
    complaint c;
    ck_assert_int_eq(PARSE(&o, &c, wrong[i].words[0], wrong[i].words[1]), MISUSE);
    ck_assert_msg(strstr(c.text, wrong[i].said) != NULL, "%s: %s", wrong[i].words[0], c.text);
    free(o.arguments.items);
  }
  options o;
  complaint c;
  ck_assert_int_eq(PARSE(&o, &c, "m", "-n"), MISUSE);
  ck_assert(strstr(c.text, "needs a value") != NULL);
  free(o.arguments.items);
}
END_TEST

START_TEST(suggestions_come_for_near_words_only) {
  static const char *const words[] = {"run", "bench", "profile", "compile"};
  char near[100];
  ck_assert_str_eq(suggestion("rnu", words, 4, near, sizeof near), ", did you mean 'run'?");
  ck_assert_str_eq(suggestion("prof", words, 4, near, sizeof near), ", did you mean 'profile'?");
  ck_assert_str_eq(suggestion("complie", words, 4, near, sizeof near), ", did you mean 'compile'?");
  ck_assert_str_eq(suggestion("zebra", words, 4, near, sizeof near), "");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("values and flags");
  TCase *values = tcase_create("values"), *of_flags = tcase_create("flags");
  tcase_add_test(values, elements_splats_and_scalars);
  tcase_add_test(values, integers_reach_the_ends_of_their_dtype);
  tcase_add_test(values, random_elements_are_the_same_for_the_same_seed);
  tcase_add_test(values, what_is_left_over_is_an_error);
  tcase_add_test(of_flags, flags_in_both_forms_and_repeated);
  tcase_add_test(of_flags, wrong_flags_are_named_with_what_was_meant);
  tcase_add_test(of_flags, suggestions_come_for_near_words_only);
  suite_add_tcase(suite, values);
  suite_add_tcase(suite, of_flags);
  return suite_run(suite);
}
