/* The one writer of JSON: a stream of members and items into a text buffer. The writer adds commas and escapes; the
 * caller keeps the order of calls. Reading JSON is not here: only tools/ reads JSON, with cJSON.
 *
 * A `key` names a member of an object; NULL: an item of an array, or the document itself. Lack of memory is noted in
 * the text buffer and returned by json_finish, so that callers need not check every line. */
#ifndef BASE_JSON_H_
#define BASE_JSON_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/text.h"

/* Zeroed: nothing written yet. */
typedef struct json_writer {
  text_buffer text;
  int depth; /* objects and arrays that are open */
  bool more; /* the open object or array has a member: a comma is due */
} json_writer;

void json_begin_object(json_writer *json, const char *key);
void json_end_object(json_writer *json);
void json_begin_array(json_writer *json, const char *key);
void json_end_array(json_writer *json);
/* Bytes of `value` that are no UTF-8 become U+FFFD; control characters are escaped, so that a terminal shows but does
 * not obey them. */
void json_string(json_writer *json, const char *key, const char *value);
void json_integer(json_writer *json, const char *key, int64_t value);
/* The shortest decimal that reads back as the same double, or float; null for infinities and NaN, which JSON has not.
 */
void json_number(json_writer *json, const char *key, double value);
void json_float(json_writer *json, const char *key, float value);
void json_bool(json_writer *json, const char *key, bool value);
void json_null(json_writer *json, const char *key);
/* The document, which the caller takes (mem_free), or ERROR_MEMORY: "out of memory: <what>". The writer is empty again
 * in either case. */
reed_status json_finish(json_writer *json, char **out_json, reed_diagnosis *diagnosis,
                        const char *what) REED_MUST_CHECK;
/* Frees the text written so far. */
void json_fini(json_writer *json);

#endif
