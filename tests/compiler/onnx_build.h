/* Small ONNX models for tests, built over the protobuf structs:
 *
 *   onnx_build *b = build_open(13);
 *   build_input(b, "x", "f32[n,3]");
 *   build_f32(b, "w", "3,2", (float[]){1, 2, 3, 4, 5, 6});
 *   build_node(b, "MatMul", "x,w", "y");
 *   build_output(b, "y", "f32[n,2]");
 *   ... build_pack(b, &n_bytes) ...
 *   build_close(&b);
 *
 * Everything belongs to the builder and goes with it. No memory for a test is an abort. */
#ifndef TESTS_COMPILER_ONNX_BUILD_H_
#define TESTS_COMPILER_ONNX_BUILD_H_

#include <stdbool.h>

#include "onnx.pb-c.h"
#include "reed/dtype.h"

typedef struct onnx_build onnx_build;
typedef Onnx__NodeProto build_node_t;

onnx_build *build_open(int64_t opset);
void build_close(onnx_build **b);
/* A graph of its own for build_graph_attr; closed with b. */
onnx_build *build_subgraph(onnx_build *b);

/* "f32[3,h,?]": dtype, then extents: a number, a name, or ? ; "f32[]" a scalar; "f32" says no shape. */
void build_input(onnx_build *b, const char *name, const char *type);
void build_output(onnx_build *b, const char *name, const char *type);
/* Initializers; dims "3,2", "" a scalar. raw: as raw_data, else in the typed field. Give the tensor, for damage. */
Onnx__TensorProto *build_tensor(onnx_build *b, const char *name, reed_dtype dtype, const char *dims,
                                const void *elements, bool raw);
Onnx__TensorProto *build_f32(onnx_build *b, const char *name, const char *dims, const float *elements);
Onnx__TensorProto *build_i64(onnx_build *b, const char *name, const char *dims, const int64_t *elements);
/* The same as a tensor outside the graph, for attributes. */
Onnx__TensorProto *build_loose_tensor(onnx_build *b, reed_dtype dtype, const char *dims, const void *elements);

/* Names separated by commas; an empty one is an absent operand. The node's name is "<first output>_node". */
build_node_t *build_node(onnx_build *b, const char *op, const char *inputs, const char *outputs);
Onnx__AttributeProto *build_int(onnx_build *b, build_node_t *n, const char *name, int64_t value);
Onnx__AttributeProto *build_float(onnx_build *b, build_node_t *n, const char *name, float value);
Onnx__AttributeProto *build_string(onnx_build *b, build_node_t *n, const char *name, const char *value);
Onnx__AttributeProto *build_strings(onnx_build *b, build_node_t *n, const char *name, const char *values);
Onnx__AttributeProto *build_ints(onnx_build *b, build_node_t *n, const char *name, const char *numbers);
Onnx__AttributeProto *build_floats(onnx_build *b, build_node_t *n, const char *name, const char *numbers);
Onnx__AttributeProto *build_tensor_attr(onnx_build *b, build_node_t *n, const char *name, Onnx__TensorProto *t);
Onnx__AttributeProto *build_graph_attr(onnx_build *b, build_node_t *n, const char *name, onnx_build *body);
/* The attribute of that name is the calling node's `ref` (in a function). */
Onnx__AttributeProto *build_ref_attr(onnx_build *b, build_node_t *n, const char *name, const char *ref);
/* body's nodes become function `domain`.`name` of the model, with these inputs, outputs and attributes. */
void build_function(onnx_build *b, const char *domain, const char *name, const char *inputs, const char *outputs,
                    const char *attributes, onnx_build *body);

/* For damage by hand. */
Onnx__ModelProto *build_model(onnx_build *b);
Onnx__GraphProto *build_graph(onnx_build *b);
/* The model's bytes; they go with b. */
const void *build_pack(onnx_build *b, size_t *out_n);

#endif
