/* Opens cuDNN at run time. The emulated device links a stand-in of this file (device/cuda/fake/cudnn.c). */
#include <string.h>
#include <uv.h>

#include "device/cuda/cudnn/cudnn.h"

#define LIBRARY "libcudnn.so.9"

/* Plans for described cards, without a handle, came with 9.8. */
enum { LEAST_VERSION = 90800 };

reed_status cudnn_find(cudnn_calls *out_calls, reed_diagnosis *diagnosis) {
  uv_lib_t library; /* stays open, because the library loses memory when it is closed */
  static const struct {
    const char *symbol;
    size_t at;
  } rows[] = {
#define CUDNN(result, name, symbol, parameters) {#symbol, offsetof(cudnn_calls, name)},
#include "device/cuda/cudnn/cudnn.def"
  };
  cudnn_calls calls;
  if (uv_dlopen(LIBRARY, &library) != 0) {
    uv_dlclose(&library);
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN is not on this machine (" LIBRARY " is not found)");
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    void *address = NULL;
    if (uv_dlsym(&library, rows[i].symbol, &address) != 0) {
      uv_dlclose(&library);
      return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN has no function %s, which version 9.8 has", rows[i].symbol);
    }
    memcpy((char *)&calls + rows[i].at, &address, sizeof address);
  }
  const size_t version = calls.version();
  if (version < LEAST_VERSION)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN is too old: version %zu.%zu, 9.8 is needed", version / 10000,
                     version / 100 % 100);
  *out_calls = calls;
  return REED_OK;
}
