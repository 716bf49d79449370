/* See json.h. */
#include "tools/json.h"

#include <string.h>

cJSON *json_parse(const char *text, complaint *c) {
  cJSON *root = cJSON_Parse(text);
  if (!root) complain(c, FAILED_RUN, "the library's JSON can not be read");
  return root;
}

double json_number(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

const char *json_text(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}

int json_write(const cJSON *root, const char *path, complaint *c) {
  char *text = cJSON_Print(root);
  if (!text) return complain(c, FAILED_RUN, "out of memory");
  size_t n = strlen(text);
  text[n] = '\n'; /* in place of the terminator */
  int status = file_write(path, text, n + 1, c);
  cJSON_free(text);
  return status;
}
