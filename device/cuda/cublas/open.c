/* Opens cuBLASLt at run time. The emulated device links a stand-in of this file (device/cuda/fake/cublas.c). */
#include <string.h>

#include "device/symbols.h"
#include "device/cuda/cublas/cublas.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIBRARY "libcublasLt.so." TEXT(CUDA_BUILT_FOR)

reed_status cublas_find(cublas_calls *out_calls, reed_diagnosis *diagnosis) {
  static const symbol_row rows[] = {
#define CUBLAS(result, name, symbol, parameters) {#symbol, offsetof(cublas_calls, name)},
#include "device/cuda/cublas/cublas.def"
      {NULL, 0}};
  cublas_calls calls;
  symbols_words words;
  const char *missing = symbols_find(LIBRARY, rows, &calls, &words);
  if (missing && words.text[0])
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuBLASLt cannot be loaded: %s", words.text);
  if (missing && strcmp(missing, LIBRARY) == 0)
    return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuBLASLt is not on this machine (" LIBRARY " is not found)");
  if (missing) return diag_fail(diagnosis, REED_ERROR_DEVICE, "cuBLASLt has no function %s", missing);
  *out_calls = calls;
  return REED_OK;
}
