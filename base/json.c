/* The writer of JSON (json.h). Each member of the outermost object and each item of its arrays has a line of its own;
 * objects and arrays further in share the line. */
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/number.h"

#define DEPTH_OF_LINES 2

/* Appends a string literal. */
static void quote(text_buffer *out, const char *text) {
  text_append_bytes(out, "\"", 1);
  for (size_t n = strlen(text), length; n; text += length, n -= length) {
    length = utf8_length(text, n);
    const uint32_t c = length ? utf8_read(text, length) : 0;
    if (!length) {
      length = 1;
      text_append_bytes(out, "\\ufffd", 6);
    } else if (c == '"' || c == '\\') {
      text_append(out, "\\%c", (int)c);
    } else if (utf8_is_obeyed(c)) {
      text_append(out, "\\u%04x", c);
    } else {
      text_append_bytes(out, text, length);
    }
  }
  text_append_bytes(out, "\"", 1);
}

/* The comma, the line and the key that go before a value. */
static void begin_value(json_writer *json, const char *key) {
  if (json->more) text_append_bytes(&json->text, ",", 1);
  if (json->depth && json->depth <= DEPTH_OF_LINES && !json->in_one_line) text_append_bytes(&json->text, "\n", 1);
  if (key) {
    quote(&json->text, key);
    text_append_bytes(&json->text, ":", 1);
  }
  json->more = true;
}

static void begin_scope(json_writer *json, const char *key, const char *bracket) {
  begin_value(json, key);
  text_append_bytes(&json->text, bracket, 1);
  json->depth++;
  json->more = false;
}

static void end_scope(json_writer *json, const char *bracket) {
  assert(json->depth > 0);
  text_append_bytes(&json->text, bracket, 1);
  json->depth--;
  json->more = true;
}

void json_begin_object(json_writer *json, const char *key) { begin_scope(json, key, "{"); }
void json_end_object(json_writer *json) { end_scope(json, "}"); }
void json_begin_array(json_writer *json, const char *key) { begin_scope(json, key, "["); }
void json_end_array(json_writer *json) { end_scope(json, "]"); }

void json_string(json_writer *json, const char *key, const char *value) {
  begin_value(json, key);
  quote(&json->text, value);
}

void json_integer(json_writer *json, const char *key, int64_t value) {
  begin_value(json, key);
  text_append(&json->text, "%lld", (long long)value);
}

static void number(json_writer *json, const char *key, double value, int n_digits) {
  if (!isfinite(value)) {
    json_null(json, key);
    return;
  }
  char digits[NUMBER_BYTES];
  size_t n = strlen(number_text(value, n_digits, digits));
  if (n > 2 && strcmp(digits + n - 2, ".0") == 0) digits[n - 2] = 0;
  begin_value(json, key);
  text_append(&json->text, "%s", digits);
}

void json_number(json_writer *json, const char *key, double value) {
  number(json, key, value, number_digits(REED_F64));
}

void json_float(json_writer *json, const char *key, float value) { number(json, key, value, number_digits(REED_F32)); }

void json_bool(json_writer *json, const char *key, bool value) {
  begin_value(json, key);
  text_append(&json->text, "%s", value ? "true" : "false");
}

void json_null(json_writer *json, const char *key) {
  begin_value(json, key);
  text_append(&json->text, "null");
}

reed_status json_finish(json_writer *json, char **out_json, reed_diagnosis *diagnosis, const char *what) {
  assert(json->depth == 0);
  text_append_bytes(&json->text, "\n", 1);
  if (json->text.failed) {
    json_fini(json);
    return diag_no_memory(diagnosis, what);
  }
  *out_json = json->text.data;
  *json = (json_writer){0};
  return REED_OK;
}

void json_fini(json_writer *json) {
  text_fini(&json->text);
  *json = (json_writer){0};
}
