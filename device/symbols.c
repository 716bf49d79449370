/* Shared libraries that are opened at run time (symbols.h). */
#include "device/symbols.h"

#include <string.h>
#include <uv.h>

reed_status symbols_load(const char *name, const char *file, const symbol_row *rows, const char *has, void *table,
                         reed_diagnosis *diagnosis) {
  uv_lib_t library;
  reed_status status = REED_OK;
  if (uv_dlopen(file, &library) != 0) {
    const char *words = uv_dlerror(&library);
    status = strstr(words, "No such file")
                 ? diag_fail(diagnosis, REED_ERROR_DEVICE, "%s is not on this machine (%s is not found)", name, file)
                 : diag_fail(diagnosis, REED_ERROR_DEVICE, "%s cannot be loaded: %s", name, words);
  }
  for (; status == REED_OK && rows->symbol; rows++) {
    void *address = NULL;
    if (uv_dlsym(&library, rows->symbol, &address) != 0)
      status = diag_fail(diagnosis, REED_ERROR_DEVICE, "%s has no function %s%s", name, rows->symbol, has);
    else memcpy((char *)table + rows->at, &address, sizeof address);
  }
  if (status != REED_OK) uv_dlclose(&library);
  return status;
}
