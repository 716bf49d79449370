/* The writer of JSON: cJSON reads its documents back as they were written. */
#include <check.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static char *finished(json_writer *json) {
  char *text = NULL;
  ck_assert_int_eq(json_finish(json, &text, NULL, "a document"), REED_OK);
  return text;
}

/* A document {"x": value} with that string, read back. */
static cJSON *string_read_back(const char *value, char **out_text) {
  json_writer json = {0};
  json_begin_object(&json, NULL);
  json_string(&json, "x", value);
  json_end_object(&json);
  *out_text = finished(&json);
  cJSON *root = cJSON_Parse(*out_text);
  ck_assert_msg(root != NULL, "no JSON: %s", *out_text);
  return root;
}

static const char *text_of(const cJSON *root) { return cJSON_GetObjectItemCaseSensitive(root, "x")->valuestring; }

START_TEST(nested_documents_read_back) {
  json_writer json = {0};
  json_begin_object(&json, NULL);
  json_begin_array(&json, "empty");
  json_end_array(&json);
  json_begin_array(&json, "items");
  for (int i = 0; i < 3; i++) {
    json_begin_object(&json, NULL);
    json_integer(&json, "i", i);
    json_begin_array(&json, "dims");
    for (int k = 0; k < i; k++) json_integer(&json, NULL, k);
    json_end_array(&json);
    json_end_object(&json);
  }
  json_end_array(&json);
  json_bool(&json, "yes", true);
  json_bool(&json, "no", false);
  json_null(&json, "nothing");
  json_end_object(&json);
  char *text = finished(&json);
  cJSON *root = cJSON_Parse(text);
  ck_assert_msg(root != NULL, "no JSON: %s", text);
  char *compact = cJSON_PrintUnformatted(root);
  ck_assert_str_eq(compact,
                   "{\"empty\":[],\"items\":[{\"i\":0,\"dims\":[]},{\"i\":1,\"dims\":[0]},{\"i\":2,\"dims\":[0,1]}],"
                   "\"yes\":true,\"no\":false,\"nothing\":null}");
  cJSON_free(compact);
  cJSON_Delete(root);
  mem_free(text);
}
END_TEST

START_TEST(every_character_reads_back_and_no_control_reaches_a_terminal) {
  for (uint32_t c = 1; c < 0x2100; c++) {
    char value[8] = {'a'}, *text;
    utf8_write(c, value + 1);
    cJSON *root = string_read_back(value, &text);
    ck_assert_str_eq(text_of(root), value);
    for (const char *p = text; *p; p++) ck_assert(*p == '\n' || ((unsigned char)*p >= 0x20 && *p != 0x7f));
    if (c >= 0x80 && c < 0xa0) ck_assert_ptr_null(strchr(text, '\xc2'));
    if ((c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e)) /* direction of text, separators of lines */
      ck_assert_ptr_null(strchr(text, '\xe2'));
    cJSON_Delete(root);
    mem_free(text);
  }
}
END_TEST

START_TEST(bytes_that_are_no_utf8_become_the_replacement_character) {
  static const struct {
    const char *value, *read;
  } cases[] = {{"\xff", "\xef\xbf\xbd"},
               {"a\xc3", "a\xef\xbf\xbd"},
               {"\xe2\x82z", "\xef\xbf\xbd\xef\xbf\xbdz"},
               {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
               {"\xf0\x9f\x8c\xb3", "\xf0\x9f\x8c\xb3"},
               {"", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *text;
    cJSON *root = string_read_back(cases[i].value, &text);
    ck_assert_str_eq(text_of(root), cases[i].read);
    cJSON_Delete(root);
    mem_free(text);
  }
}
END_TEST

START_TEST(numbers_read_back_as_the_same_doubles) {
  static const double values[] = {0,
                                  -0.0,
                                  1,
                                  -17,
                                  0.1,
                                  1.0 / 3,
                                  1e300,
                                  5e-324,
                                  123456789012345680.0,
                                  2.5e7,
                                  1e21,
                                  1e-7,
                                  4503599627370497.5,
                                  1.7976931348623157e308};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    json_writer json = {0};
    json_number(&json, NULL, values[i]);
    char *text = finished(&json);
    double back = strtod(text, NULL);
    ck_assert_msg(memcmp(&back, &values[i], sizeof back) == 0, "%s is not %.17g", text, values[i]);
    mem_free(text);
  }
  json_writer json = {0};
  json_begin_array(&json, NULL);
  json_number(&json, NULL, (double)NAN);
  json_number(&json, NULL, -(double)INFINITY);
  json_number(&json, NULL, 12);
  json_integer(&json, NULL, INT64_MIN);
  json_integer(&json, NULL, INT64_MAX);
  json_end_array(&json);
  char *text = finished(&json);
  ck_assert_str_eq(text, "[\nnull,\nnull,\n12,\n-9223372036854775808,\n9223372036854775807]\n");
  mem_free(text);
}
END_TEST

START_TEST(memory_that_is_short_comes_out_at_the_end) {
  bool failed = true;
  for (int64_t n = 1; failed; n++) {
    alloc_hook_begin();
    alloc_hook_fail_at(n);
    json_writer json = {0};
    char *text = NULL;
    json_begin_array(&json, NULL);
    for (int i = 0; i < 100; i++) json_string(&json, NULL, "a string of some length");
    json_end_array(&json);
    reed_status status = json_finish(&json, &text, NULL, "strings");
    failed = alloc_hook_failed();
    ck_assert_int_eq(status, failed ? REED_ERROR_MEMORY : REED_OK);
    mem_free(text);
    ck_assert_int_eq(alloc_hook_end(), 0);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("json");
  TCase *c = tcase_create("writer");
  tcase_add_test(c, nested_documents_read_back);
  tcase_add_test(c, every_character_reads_back_and_no_control_reaches_a_terminal);
  tcase_add_test(c, bytes_that_are_no_utf8_become_the_replacement_character);
  tcase_add_test(c, numbers_read_back_as_the_same_doubles);
  tcase_add_test(c, memory_that_is_short_comes_out_at_the_end);
  suite_add_tcase(suite, c);
  return suite_run(suite);
}
