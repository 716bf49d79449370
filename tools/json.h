/* Reading the library's JSON: short access with defaults, since keys that are absent mean nothing to show. cJSON's door
 * in tools/. */
#ifndef TOOLS_JSON_H_
#define TOOLS_JSON_H_

#include <cjson/cJSON.h>

#include "tools/tool.h"

/* The parsed text, to be cJSON_Delete()d; NULL and a complaint where it is no JSON. */
cJSON *json_parse(const char *text, complaint *c);
double json_number(const cJSON *object, const char *key);    /* 0 where absent */
const char *json_text(const cJSON *object, const char *key); /* "" where absent */
/* Prints the tree to a file ('-': standard output). */
int json_write(const cJSON *root, const char *path, complaint *c);

#endif
