/* Reading the library's JSON with cJSON: short access with defaults, since keys that are absent mean nothing to show.
 * JSON is written with base/json.h. */
#ifndef TOOLS_JSON_READER_H_
#define TOOLS_JSON_READER_H_

#include <cjson/cJSON.h>

#include "tools/tool.h"

/* The parsed text, to be cJSON_Delete()d; NULL and a complaint where it is no JSON. */
cJSON *json_parse(const char *text, complaint *c);
double json_number_of(const cJSON *object, const char *key);    /* 0 where absent */
const char *json_text_of(const cJSON *object, const char *key); /* "" where absent */

#endif
