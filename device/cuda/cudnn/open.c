/* Opens cuDNN at run time. The emulated device links a stand-in of this file (device/cuda/fake/cudnn.c). */
#include <string.h>

#include "device/symbols.h"
#include "device/cuda/cudnn/cudnn.h"

#define LIBRARY "libcudnn.so.9"

/* Plans for described cards, without a handle, came with 9.8. */
enum { LEAST_VERSION = 90800 };

reed_status cudnn_find(cudnn_calls *out_calls, reed_diagnosis *diagnosis) {
  static const symbol_row rows[] = {
#define CUDNN(result, name, symbol, parameters) {#symbol, offsetof(cudnn_calls, name)},
#include "device/cuda/cudnn/cudnn.def"
      {NULL, 0}};
  cudnn_calls calls;
  symbols_words words;
  const char *missing = symbols_find(LIBRARY, rows, &calls, &words);
  if (missing && words.text[0])
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN cannot be loaded: %s", words.text);
  if (missing && strcmp(missing, LIBRARY) == 0)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN is not on this machine (" LIBRARY " is not found)");
  if (missing)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN has no function %s, which version 9.8 has", missing);
  const size_t version = calls.version();
  if (version < LEAST_VERSION)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN is too old: version %zu.%zu, 9.8 is needed", version / 10000,
                     version / 100 % 100);
  *out_calls = calls;
  return REED_OK;
}
