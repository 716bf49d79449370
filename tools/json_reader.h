/* Reading the library's JSON with cJSON: short access with defaults, because an absent key means that there is nothing
 * to show. JSON is written with base/json.h. */
#ifndef TOOLS_JSON_READER_H_
#define TOOLS_JSON_READER_H_

#include <cjson/cJSON.h>

#include "tools/tool.h"

/* The parsed text, which the caller gives to cJSON_Delete; NULL and a complaint for a text that is no JSON. */
cJSON *json_parse(const char *text, complaint *c);
double json_number_of(const cJSON *object, const char *key);    /* 0: absent */
const char *json_text_of(const cJSON *object, const char *key); /* "": absent */

#endif
