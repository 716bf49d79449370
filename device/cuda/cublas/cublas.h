/* NVIDIA's cuBLASLt as a table of functions, opened at run time, and plans of products made with it. Numbers below are
 * facts of the library's binary interface; their source is cublasLt.h of CUDA 13.0 (a test compares them where that
 * file is). When a plan is used instead of Reed's own kernel: device/cuda/products.c. */
#ifndef DEVICE_CUDA_CUBLAS_CUBLAS_H_
#define DEVICE_CUDA_CUBLAS_CUBLAS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

typedef int cublas_status;
typedef struct cublasLtContext *cublas_handle;
struct CUstream_st;

/* cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t. */
typedef struct cublas_algorithm {
  uint64_t data[8];
} cublas_algorithm;
typedef struct cublas_result {
  cublas_algorithm algorithm;
  size_t workspace_bytes;
  cublas_status state;
  float waves;
  int reserved[4];
} cublas_result;

typedef struct cublas_calls {
#define CUBLAS(result, name, symbol, parameters) result(*name) parameters;
#include "device/cuda/cublas/cublas.def"
} cublas_calls;

/* Numbers of cublasLt.h; a test compares each with the header. CUBLAS_NUMBERS(X): X(ours, theirs, value). */
#define CUBLAS_NUMBERS(X) \
  X(LT_SUCCESS, CUBLAS_STATUS_SUCCESS, 0) \
  X(LT_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED, 1) \
  X(LT_BAD_VALUE, CUBLAS_STATUS_INVALID_VALUE, 7) \
  X(LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED, 15) \
  X(LT_F32, CUDA_R_32F, 0) \
  X(LT_F16, CUDA_R_16F, 2) \
  X(LT_BF16, CUDA_R_16BF, 14) \
  X(LT_SUMS_F32, CUBLAS_COMPUTE_32F, 68) \
  X(LT_SUMS_TF32, CUBLAS_COMPUTE_32F_FAST_TF32, 77) \
  X(LT_AS_IT_IS, CUBLAS_OP_N, 0) \
  X(LT_TRANSPOSED, CUBLAS_OP_T, 1) \
  X(LT_PRODUCT_A, CUBLASLT_MATMUL_DESC_TRANSA, 3) \
  X(LT_PRODUCT_B, CUBLASLT_MATMUL_DESC_TRANSB, 4) \
  X(LT_PRODUCT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE, 7) \
  X(LT_PRODUCT_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8) \
  X(LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT, 1) \
  X(LT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU, 2) \
  X(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS, 4) \
  X(LT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS, 6) \
  X(LT_LAYOUT_BATCH, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5) \
  X(LT_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
  X(LT_WISH_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1) \
  X(LT_WISH_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3) \
  X(LT_WISH_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5) \
  X(LT_WISH_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6) \
  X(LT_WISH_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7) \
  X(LT_WISH_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8) \
  X(LT_REDUCTION_IN_PLACE, CUBLASLT_REDUCTION_SCHEME_INPLACE, 1) \
  X(LT_REDUCTION_OF_SUMS, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)
enum {
#define CUBLAS_NUMBER(ours, theirs, value) ours = (value),
  CUBLAS_NUMBERS(CUBLAS_NUMBER)
#undef CUBLAS_NUMBER
};

enum { CUBLAS_ALIGNMENT = 16 /* of every pointer of a plan */ };

/* A batch of products y = relu(alpha a b + bias): a is [m, k], b [k, n], y [m, n] and dense, bias [n]. The elements of
 * a's rows are neighbours, or (a_by_column) those of its columns; a_apart elements lie from one row (column) to the
 * next, a_stride from one matrix to the next; b likewise. The struct is the key of tables: it is zeroed before its
 * fields are set. */
typedef struct cublas_product {
  int64_t m, k, n, batch, a_apart, b_apart, a_stride, b_stride;
  int32_t dtype; /* LT_F32, LT_F16, LT_BF16: of all tensors; sums are f32 */
  float alpha;
  uint8_t a_by_column, b_by_column, bias, relu;
  uint8_t tensor_cores; /* 1: f32 may be rounded to TF32 */
} cublas_product;

/* The library's descriptors of a product, and the algorithm for it. */
typedef struct cublas_plan {
  void *product, *layouts[3]; /* of b, a, y */
  cublas_algorithm algorithm;
  int64_t workspace_bytes;
} cublas_plan;

/* Finds every function of libcublasLt.so; the emulated device links a stand-in (device/cuda/fake/cublas.c).
 * ERROR_DEVICE: not there, or a function is missing. */
reed_status cublas_find(cublas_calls *out_calls, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Plans a product on the handle's card with an algorithm whose workspace has at most so many bytes, and whose sums have
 * a fixed order and are f32. ERROR_UNSUPPORTED: the heuristics know none; ERROR_DEVICE: they refuse. */
reed_status cublas_plan_open(const cublas_calls *calls, cublas_handle handle, const cublas_product *product,
                             int64_t most_workspace_bytes, cublas_plan *out_plan,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;
void cublas_plan_close(const cublas_calls *calls, cublas_plan *plan);
/* Enqueues the product on the stream. bias is NULL where the plan has none; every pointer is a multiple of
 * CUBLAS_ALIGNMENT. */
reed_status cublas_plan_run(const cublas_calls *calls, cublas_handle handle, const cublas_plan *plan,
                            const cublas_product *product, const void *a, const void *b, const void *bias, void *y,
                            void *workspace, struct CUstream_st *stream, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
