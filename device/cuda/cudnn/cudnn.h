/* NVIDIA's cuDNN 9 as a table of functions, opened at run time, and plans of convolutions made with it. Numbers below
 * are facts of the library's binary interface; their source is cudnn_graph.h of cuDNN 9.19 (a test compares them where
 * that file is). When a plan is used instead of Reed's own kernel: device/cuda/library_call.c. */
#ifndef DEVICE_CUDA_CUDNN_CUDNN_H_
#define DEVICE_CUDA_CUDNN_CUDNN_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

typedef int cudnn_status;
typedef struct cudnnContext *cudnn_handle;
typedef void *cudnn_descriptor;
struct CUstream_st;

typedef struct cudnn_calls {
#define CUDNN(result, name, symbol, parameters) result(*name) parameters;
#include "device/cuda/cudnn/cudnn.def"
} cudnn_calls;

/* Numbers of cudnn_graph.h; a test compares each with the header. CUDNN_NUMBERS(X): X(ours, theirs, value). */
#define CUDNN_NUMBERS(X) \
  X(DN_SUCCESS, CUDNN_STATUS_SUCCESS, 0) \
  X(DN_BAD_PARAM, CUDNN_STATUS_BAD_PARAM, 2000) \
  X(DN_FLOAT, CUDNN_DATA_FLOAT, 0) \
  X(DN_HALF, CUDNN_DATA_HALF, 2) \
  X(DN_BFLOAT16, CUDNN_DATA_BFLOAT16, 9) \
  X(DN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION, 1) \
  X(DN_ADD, CUDNN_POINTWISE_ADD, 0) \
  X(DN_RELU, CUDNN_POINTWISE_RELU_FWD, 100) \
  X(DN_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MODE, 0) \
  X(DN_POINTWISE_PRECISION, CUDNN_ATTR_POINTWISE_MATH_PREC, 1) \
  X(DN_CONV_PRECISION, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100) \
  X(DN_CONV_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101) \
  X(DN_CONV_DILATIONS, CUDNN_ATTR_CONVOLUTION_DILATIONS, 102) \
  X(DN_CONV_STRIDES, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103) \
  X(DN_CONV_PAD_END, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104) \
  X(DN_CONV_PAD_BEGIN, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105) \
  X(DN_CONV_AXES, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106) \
  X(DN_HEURISTIC_MODE, CUDNN_ATTR_ENGINEHEUR_MODE, 200) \
  X(DN_HEURISTIC_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201) \
  X(DN_HEURISTIC_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS, 202) \
  X(DN_HEURISTIC_CARD, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204) \
  X(DN_CONFIG_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE, 300) \
  X(DN_CONFIG_KNOBS, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, 302) \
  X(DN_PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401) \
  X(DN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402) \
  X(DN_PLAN_CARD, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407) \
  X(DN_KNOB_KIND, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 600) \
  X(DN_KNOB_VALUE, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 601) \
  X(DN_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700) \
  X(DN_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701) \
  X(DN_FORWARD_CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702) \
  X(DN_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703) \
  X(DN_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704) \
  X(DN_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705) \
  X(DN_STEP_FORMULA, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 750) \
  X(DN_STEP_X, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 751) \
  X(DN_STEP_B, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 752) \
  X(DN_STEP_Y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 753) \
  X(DN_GRAPH_STEPS, CUDNN_ATTR_OPERATIONGRAPH_OPS, 801) \
  X(DN_TENSOR_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900) \
  X(DN_TENSOR_DTYPE, CUDNN_ATTR_TENSOR_DATA_TYPE, 901) \
  X(DN_TENSOR_EXTENTS, CUDNN_ATTR_TENSOR_DIMENSIONS, 902) \
  X(DN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES, 903) \
  X(DN_TENSOR_NAME, CUDNN_ATTR_TENSOR_UNIQUE_ID, 906) \
  X(DN_TENSOR_VIRTUAL, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 907) \
  X(DN_PACK_NAMES, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000) \
  X(DN_PACK_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001) \
  X(DN_PACK_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003) \
  X(DN_ENGINE_GRAPH, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 1300) \
  X(DN_ENGINE_NUMBER, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301) \
  X(DN_ENGINE_NUMERICS, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303) \
  X(DN_ENGINE_BEHAVIOUR, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, 1305) \
  X(DN_ENGINE_CARD, CUDNN_ATTR_ENGINE_DEVICEPROP, 1307) \
  X(DN_CARD_HANDLE, CUDNN_ATTR_DEVICEPROP_HANDLE, 2701) \
  X(DN_CARD_JSON, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702) \
  X(DN_OF_HANDLE, CUDNN_TYPE_HANDLE, 0) \
  X(DN_OF_DTYPE, CUDNN_TYPE_DATA_TYPE, 1) \
  X(DN_OF_BOOL, CUDNN_TYPE_BOOLEAN, 2) \
  X(DN_OF_INT, CUDNN_TYPE_INT64, 3) \
  X(DN_OF_FLOAT, CUDNN_TYPE_FLOAT, 4) \
  X(DN_OF_POINTER, CUDNN_TYPE_VOID_PTR, 6) \
  X(DN_OF_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 7) \
  X(DN_OF_HEURISTIC, CUDNN_TYPE_HEUR_MODE, 8) \
  X(DN_OF_KNOB, CUDNN_TYPE_KNOB_TYPE, 9) \
  X(DN_OF_NUMERICS, CUDNN_TYPE_NUMERICAL_NOTE, 11) \
  X(DN_OF_FORMULA, CUDNN_TYPE_POINTWISE_MODE, 14) \
  X(DN_OF_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 15) \
  X(DN_OF_BEHAVIOUR, CUDNN_TYPE_BEHAVIOR_NOTE, 19) \
  X(DN_OF_CHAR, CUDNN_TYPE_CHAR, 24) \
  X(DN_FORMULA, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, 0) \
  X(DN_CONV, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1) \
  X(DN_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2) \
  X(DN_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3) \
  X(DN_HEURISTIC, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4) \
  X(DN_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5) \
  X(DN_KNOB, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, 7) \
  X(DN_FORWARD, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10) \
  X(DN_STEP, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, 13) \
  X(DN_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15) \
  X(DN_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16) \
  X(DN_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17) \
  X(DN_CARD, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38) \
  X(DN_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0) \
  X(DN_NOTE_DOWN_CONVERT, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1) \
  X(DN_NOTE_REDUCED_SUMS, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2) \
  X(DN_NOTE_RANDOM_ORDER, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4) \
  X(DN_NOTE_WINOGRAD_13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, 8) \
  X(DN_NOTE_COMPILES, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, 0) \
  X(DN_BY_FALLBACK, CUDNN_HEUR_MODE_FALLBACK, 2) \
  X(DN_BY_MODEL, CUDNN_HEUR_MODE_A, 3)
enum {
#define CUDNN_NUMBER(ours, theirs, value) ours = (value),
  CUDNN_NUMBERS(CUDNN_NUMBER)
#undef CUDNN_NUMBER
};

/* Names of a plan's tensors in its variant pack. */
enum { CUDNN_X = 1, CUDNN_W, CUDNN_BIAS, CUDNN_RESIDUAL, CUDNN_Y };

/* A convolution of two axes, channels last: y = relu(conv(x, w) + residual + bias). x, residual and y are
 * [images, rows, columns, channels] in memory, w is [outputs, rows, columns, channels of a group], bias [outputs]; all
 * dense. The struct is the key of tables: it is zeroed before its fields are set. */
typedef struct cudnn_convolution {
  int64_t images, groups, channels, outputs; /* channels, outputs: of all groups */
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
  int32_t dtype; /* DN_FLOAT, DN_HALF, DN_BFLOAT16: of all tensors; sums are f32 */
  uint8_t bias, residual, relu;
  uint8_t tensor_cores; /* 1: engines may use them, and round operands for them */
} cudnn_convolution;

enum { CUDNN_MOST_DESCRIPTORS = 64, CUDNN_MOST_KNOBS = 16 };

/* An engine of the library and its settings. n_knobs -1: not known. */
typedef struct cudnn_engine {
  int64_t number;
  int32_t n_knobs, knobs[CUDNN_MOST_KNOBS];
  int64_t values[CUDNN_MOST_KNOBS];
} cudnn_engine;

/* A finished plan, and the descriptors that it was made of. */
typedef struct cudnn_plan {
  cudnn_descriptor plan;
  int64_t workspace_bytes;
  cudnn_engine engine;
  cudnn_descriptor made[CUDNN_MOST_DESCRIPTORS];
  int32_t n_made;
} cudnn_plan;

/* Finds every function of libcudnn.so.9; the emulated device links a stand-in (device/cuda/fake/cudnn.c). ERROR_DEVICE:
 * not there, too old, or a function is missing. */
reed_status cudnn_find(cudnn_calls *out_calls, reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Describes a card to the planner: that of the handle, or one described by JSON (handle NULL), for which neither a card
 * nor a driver is needed. */
reed_status cudnn_card_open(const cudnn_calls *calls, cudnn_handle handle, const char *json, cudnn_descriptor *out_card,
                            reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Plans a convolution on a card with a precompiled engine whose workspace has at most so many bytes, and whose sums and
 * operands are as exact as the convolution asks. `known`: the engine of a convolution that differs in the images'
 * extents only; it is tried before the heuristics are asked, which take most of a plan's time. NULL: none.
 * ERROR_UNSUPPORTED: there is no such engine. */
reed_status cudnn_plan_open(const cudnn_calls *calls, cudnn_descriptor card, const cudnn_convolution *conv,
                            int64_t most_workspace_bytes, const cudnn_engine *known, cudnn_plan *out_plan,
                            reed_diagnosis *diagnosis) REED_MUST_CHECK;
void cudnn_plan_close(const cudnn_calls *calls, cudnn_plan *plan);
/* Enqueues the convolution on the handle's stream. bias and residual are NULL where the plan has none; every pointer is
 * a multiple of 16. */
reed_status cudnn_plan_run(const cudnn_calls *calls, cudnn_handle handle, const cudnn_plan *plan, const void *x,
                           const void *w, const void *bias, const void *residual, void *y, void *workspace,
                           reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
