/* The module's own declarations of cuBLASLt's binary interface against NVIDIA's cublasLt.h, where that is: numbers, the
 * structs of the heuristics, and every function of cublas.def. */
#include <cublasLt.h>

#include "device/cuda/cublas/cublas.h"

#define SAME(ours, theirs, value) _Static_assert((int)(theirs) == (value), #theirs);
CUBLAS_NUMBERS(SAME)
_Static_assert(sizeof(cublasLtMatmulDescAttributes_t) == sizeof(int) && sizeof(cublasStatus_t) == sizeof(int) &&
                   sizeof(cudaDataType) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int),
               "enums are ints");
_Static_assert(sizeof(cublas_algorithm) == sizeof(cublasLtMatmulAlgo_t) &&
                   sizeof(cublas_result) == sizeof(cublasLtMatmulHeuristicResult_t) &&
                   offsetof(cublas_result, workspace_bytes) ==
                       offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
                   offsetof(cublas_result, state) == offsetof(cublasLtMatmulHeuristicResult_t, state) &&
                   offsetof(cublas_result, waves) == offsetof(cublasLtMatmulHeuristicResult_t, wavesCount),
               "structs are the library's");

/* cublasLt.h declares each symbol of the table. */
int main(void) {
  static const size_t sizes[] = {
#define CUBLAS(result, name, symbol, parameters) sizeof(&symbol),
#include "device/cuda/cublas/cublas.def"
  };
  return sizes[0] != sizeof(void *);
}
