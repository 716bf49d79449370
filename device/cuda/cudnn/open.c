/* Opens cuDNN at run time. The emulated device links a stand-in of this file (device/cuda/fake/cudnn.c). */
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
  reed_status status = symbols_load("cuDNN", LIBRARY, rows, ", which version 9.8 has", &calls, diagnosis);
  if (status != REED_OK) return status;
  const size_t version = calls.version();
  if (version < LEAST_VERSION)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuDNN is too old: version %zu.%zu, 9.8 is needed", version / 10000,
                     version / 100 % 100);
  *out_calls = calls;
  return REED_OK;
}
