/* Shared libraries that are opened at run time (symbols.h). */
#include "device/symbols.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

const char *symbols_find(const char *file, const symbol_row *rows, void *table, symbols_words *out_words) {
  uv_lib_t library;
  const char *missing = uv_dlopen(file, &library) == 0 ? NULL : file;
  out_words->text[0] = 0;
  if (missing && !strstr(uv_dlerror(&library), "No such file"))
    snprintf(out_words->text, sizeof out_words->text, "%s", uv_dlerror(&library));
  for (; !missing && rows->symbol; rows++) {
    void *address = NULL;
    if (uv_dlsym(&library, rows->symbol, &address) != 0) missing = rows->symbol;
    else memcpy((char *)table + rows->at, &address, sizeof address);
  }
  if (missing) uv_dlclose(&library);
  return missing;
}

reed_status symbols_load(const char *name, const char *file, const symbol_row *rows, const char *has, void *table,
                         reed_diagnosis *diagnosis) {
  symbols_words words;
  const char *missing = symbols_find(file, rows, table, &words);
  if (missing && words.text[0])
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "%s cannot be loaded: %s", name, words.text);
  if (missing == file)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "%s is not on this machine (%s is not found)", name, file);
  if (missing) return diag_fail(diagnosis, REED_ERROR_DEVICE, "%s has no function %s%s", name, missing, has);
  return REED_OK;
}
