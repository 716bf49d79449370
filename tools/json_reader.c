/* Access to parsed JSON with defaults (json_reader.h). */
#include "tools/json_reader.h"

cJSON *json_parse(const char *text, complaint *c) {
  cJSON *root = cJSON_Parse(text);
  if (!root) complain(c, FAILED_RUN, "the library's JSON can not be read");
  return root;
}

double json_number_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

const char *json_text_of(const cJSON *object, const char *key) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return cJSON_IsString(item) ? item->valuestring : "";
}
