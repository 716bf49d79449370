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

/* A zeroed writer is empty. */
typedef struct json_writer {
  text_buffer text;
  int depth; /* objects and arrays that are open */
  bool more; /* the open object or array has a member, so the next one needs a comma */
  bool in_one_line;
} json_writer;

void json_begin_object(json_writer *json, const char *key);
void json_end_object(json_writer *json);
void json_begin_array(json_writer *json, const char *key);
void json_end_array(json_writer *json);
/* Writes a string. Bytes that are no valid UTF-8 become U+FFFD. Control characters are escaped, so that a terminal
 * shows them instead of obeying them. */
void json_string(json_writer *json, const char *key, const char *value);
void json_integer(json_writer *json, const char *key, int64_t value);
/* Writes the shortest decimal that reads back as the same double, or float. Infinities and NaN, which JSON lacks,
 * become null. */
void json_number(json_writer *json, const char *key, double value);
void json_float(json_writer *json, const char *key, float value);
void json_bool(json_writer *json, const char *key, bool value);
void json_null(json_writer *json, const char *key);
/* Gives the document to the caller, who frees it with mem_free. ERROR_MEMORY: "out of memory: <what>". Afterwards the
 * writer is empty, also on failure. */
reed_status json_finish(json_writer *json, char **out_json, reed_diagnosis *diagnosis,
                        const char *what) REED_MUST_CHECK;
/* Frees the text written so far. */
void json_fini(json_writer *json);

#endif
