/* Opens cuBLASLt at run time. The emulated device links a stand-in of this file (device/cuda/fake/cublas.c). */
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
  reed_status status = symbols_load("cuBLASLt", LIBRARY, rows, "", &calls, diagnosis);
  if (status != REED_OK) return status;
  *out_calls = calls;
  return REED_OK;
}
