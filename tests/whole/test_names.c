/* Dims with one name in a model but different extents in a run: the run goes on as long as no operator needs the dims
 * equal; otherwise an error names both. With every optional pass and without. Also names without meaning. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/compiler/onnx_build.h"
#include "tests/suite.h"
#include "tests/whole/runner.h"

/* The passes that a test leaves out: none, or passes that may replace the operator that a message names. */
static const char *const disabled[][8] = {
    {NULL}, {"chains", NULL}, {"simplify", "fusion", "chains", "norms", "attention", "activations", "cse", NULL}};
enum { N_WAYS = sizeof disabled / sizeof *disabled };

typedef struct given {
  int32_t rank;
  int64_t dims[4];
} given;

typedef struct result {
  reed_status status;
  char message[1024];
  int32_t rank;
  int64_t dims[8];
  double sum;
} result;

static reed_tensor *tensor_of(const reed_value_info *info, const given *g, int k) {
  reed_tensor *t;
  ck_assert_int_eq(reed_tensor_open(info->dtype, g->rank, g->dims, &t), REED_OK);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    reed_dtype_write(info->dtype, (char *)reed_tensor_data(t) + (size_t)i * reed_dtype_bytes(info->dtype), k + 1);
  return t;
}

/* Compiles and runs; inputs hold the number of the input, counted from 1. The result is that of output 0. */
static result run(onnx_build *b, int way, size_t n_inputs, const given *inputs) {
  reed_diagnosis *d;
  result r = {0};
  runner model = runner_open(b, &(reed_compile_options){.disabled_passes = disabled[way]}, NULL, "names");
  reed_program *program = model.program;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  reed_tensor *in[4] = {NULL}, *out[4] = {NULL};
  ck_assert_uint_eq(reed_program_input_count(program), n_inputs);
  for (size_t i = 0; i < n_inputs; i++) {
    reed_value_info info;
    ck_assert_int_eq(reed_program_input(program, i, &info), REED_OK);
    in[i] = tensor_of(&info, &inputs[i], (int)i);
  }
  size_t n_outputs = reed_program_output_count(program);
  r.status = reed_session_run(model.session, in, n_inputs, out, n_outputs, d);
  snprintf(r.message, sizeof r.message, "%s", reed_diagnosis_message(d));
  if (r.status == REED_OK) {
    r.rank = reed_tensor_rank(out[0]);
    for (int32_t i = 0; i < r.rank; i++) r.dims[i] = reed_tensor_dims(out[0])[i];
    for (int64_t i = 0; i < reed_tensor_elements(out[0]); i++)
      r.sum += reed_dtype_read(reed_tensor_dtype(out[0]), (const char *)reed_tensor_data(out[0]) +
                                                              (size_t)i * reed_dtype_bytes(reed_tensor_dtype(out[0])));
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&in[i]);
  for (size_t i = 0; i < n_outputs; i++)
    if (out[i]) reed_tensor_close(&out[i]);
  runner_close(&model);
  reed_diagnosis_close(&d);
  return r;
}

/* ---- models ---- */

static onnx_build *two_inputs(const char *x, const char *y) {
  onnx_build *b = build_open(17);
  build_input(b, "x", x);
  build_input(b, "y", y);
  return b;
}

static onnx_build *apart(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "Relu", "x", "a");
  build_node(b, "Neg", "y", "c");
  build_output(b, "a", "f32");
  build_output(b, "c", "f32");
  return b;
}

static onnx_build *joined(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_int(b, build_node(b, "Concat", "x,y", "a"), "axis", 0);
  build_output(b, "a", "f32");
  return b;
}

static onnx_build *added(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "Add", "x,y", "s");
  build_node(b, "Relu", "s", "r");
  build_node(b, "Mul", "r,x", "a");
  build_output(b, "a", "f32");
  return b;
}

static onnx_build *product(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "MatMul", "x,y", "a");
  build_output(b, "a", "f32");
  return b;
}

/* x is viewed with the extents of y: x itself if the names are true. */
static onnx_build *viewed(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "Shape", "y", "to");
  build_node(b, "Reshape", "x,to", "a");
  build_output(b, "a", "f32");
  return b;
}

/* x is viewed with y's rows: the length of a row is x's if the names are true. */
static onnx_build *viewed_in_rows(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_i64(b, "zero", "1", (int64_t[]){0});
  build_i64(b, "rest", "1", (int64_t[]){-1});
  build_node(b, "Shape", "y", "s");
  build_node(b, "Gather", "s,zero", "rows");
  build_int(b, build_node(b, "Concat", "rows,rest", "to"), "axis", 0);
  build_node(b, "Reshape", "x,to", "a");
  build_output(b, "a", "f32");
  return b;
}

/* x is expanded to the extents of y: x itself if the names are true. */
static onnx_build *expanded(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "Shape", "y", "to");
  build_node(b, "Expand", "x,to", "a");
  build_output(b, "a", "f32");
  return b;
}

/* A convolution of x and, of the same extents if the names are true, y. */
static onnx_build *convolved_and_added(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_f32(b, "w", "1,1,1,1", (float[]){3});
  build_node(b, "Conv", "x,w", "c");
  build_node(b, "Add", "c,y", "a");
  build_output(b, "a", "f32");
  return b;
}

/* x normalized along its rows and scaled by y: one operator if the names are true. */
static onnx_build *normalized(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_f32(b, "epsilon", "", (float[]){1e-5f});
  build_f32(b, "two", "", (float[]){2});
  build_ints(b, build_node(b, "ReduceMean", "x", "mean"), "axes", "-1");
  build_node(b, "Sub", "x,mean", "d");
  build_node(b, "Pow", "d,two", "squares");
  build_ints(b, build_node(b, "ReduceMean", "squares", "variance"), "axes", "-1");
  build_node(b, "Add", "variance,epsilon", "v");
  build_node(b, "Sqrt", "v", "root");
  build_node(b, "Div", "d,root", "n");
  build_node(b, "Mul", "n,y", "a");
  build_output(b, "a", "f32");
  return b;
}

static onnx_build *compared(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "Shape", "x", "s");
  build_node(b, "Shape", "y", "t");
  build_node(b, "Equal", "s,t", "a");
  build_output(b, "a", "bool");
  return b;
}

/* a = If(x has an element above 100) { x * y^T } else { Relu(x) } */
static onnx_build *branch(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_f32(b, "limit", "", (float[]){100});
  build_int(b, build_node(b, "ReduceMax", "x", "most"), "keepdims", 0);
  build_node(b, "Greater", "most,limit", "c");
  build_node(then, "MatMul", "x,y", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Relu", "x", "e");
  build_output(otherwise, "e", "f32");
  build_node_t *n = build_node(b, "If", "c", "a");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_output(b, "a", "f32");
  return b;
}

/* The product does not reach an output. */
static onnx_build *unused(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_node(b, "MatMul", "x,y", "dead");
  build_node(b, "Relu", "x", "a");
  build_output(b, "a", "f32");
  return b;
}

/* A third input of the name takes no part. */
static onnx_build *beside(const char *x, const char *y) {
  onnx_build *b = product(x, y);
  build_input(b, "z", "f32[n]");
  build_node(b, "Relu", "z", "c");
  build_output(b, "c", "f32");
  return b;
}

/* Both branches give x or y, by their names; the result is added to x. */
static onnx_build *either(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y), *then = build_subgraph(b), *otherwise = build_subgraph(b);
  build_input(b, "c", "bool[]");
  build_node(then, "Relu", "y", "t");
  build_output(then, "t", "f32");
  build_node(otherwise, "Abs", "x", "e");
  build_output(otherwise, "e", "f32");
  build_node_t *n = build_node(b, "If", "c", "j");
  build_graph_attr(b, n, "then_branch", then);
  build_graph_attr(b, n, "else_branch", otherwise);
  build_node(b, "Add", "j,x", "s");
  build_node(b, "Relu", "s", "a");
  build_output(b, "a", "f32");
  return b;
}

/* x and its number of last rows of y. */
static onnx_build *last_rows_added(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_i64(b, "far", "1", (int64_t[]){INT64_MAX});
  build_node(b, "Shape", "x", "n");
  build_node(b, "Neg", "n", "from");
  build_node(b, "Slice", "y,from,far", "last");
  build_node(b, "Add", "x,last", "s");
  build_node(b, "Relu", "s", "r");
  build_node(b, "Mul", "r,x", "a");
  build_output(b, "a", "f32");
  return b;
}

/* x and the rows of a table of six fives from the extent of y on. */
static onnx_build *table_rows_added(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_f32(b, "table", "6", (float[]){5, 5, 5, 5, 5, 5});
  build_node(b, "Shape", "x", "n");
  build_node(b, "Shape", "y", "from");
  build_node(b, "Add", "from,n", "to");
  build_node(b, "Slice", "table,from,to", "rows");
  build_node(b, "Add", "x,rows", "s");
  build_node(b, "Relu", "s", "r");
  build_node(b, "Mul", "r,x", "a");
  build_output(b, "a", "f32");
  return b;
}

/* Keys that are turned by y, and values, behind one past z: their product needs as many keys as values. */
static onnx_build *turned(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_input(b, "z", "f32[past,2]");
  build_node(b, "Mul", "x,y", "m");
  build_int(b, build_node(b, "Concat", "z,m", "k"), "axis", 0);
  build_int(b, build_node(b, "Concat", "z,x", "v"), "axis", 0);
  build_node(b, "Transpose", "k", "t");
  build_node(b, "MatMul", "t,v", "a");
  build_output(b, "a", "f32");
  return b;
}

/* Scores of tokens with places beside a mask of one row, for all keys. */
static onnx_build *placed(const char *x, const char *y) {
  onnx_build *b = two_inputs(x, y);
  build_input(b, "z", "f32[past]");
  build_node(b, "Add", "x,y", "m");
  build_int(b, build_node(b, "Concat", "z,m", "k"), "axis", 0);
  build_int(b, build_node(b, "Concat", "z,x", "mask"), "axis", 0);
  build_node(b, "Add", "k,mask", "a");
  build_output(b, "a", "f32");
  return b;
}

static onnx_build *square(const char *x, const char *y) {
  onnx_build *b = build_open(17);
  build_input(b, "x", x);
  build_node(b, y ? "MatMul" : "Relu", y ? "x,x" : "x", "a");
  build_output(b, "a", "f32");
  return b;
}

/* ---- expectations ---- */

typedef struct expectation {
  onnx_build *(*model)(const char *x, const char *y);
  const char *x, *y;
  size_t n;
  given inputs[3];
  double sum;          /* of output 0's elements */
  const char *says[3]; /* words of the failure's message; NULL first: the run succeeds */
} expectation;

static const expectation cases[] = {
    {apart, "f32[n]", "f32[n]", 2, {{1, {2}}, {1, {3}}}, 2, {NULL}},
    {joined, "f32[n]", "f32[n]", 2, {{1, {2}}, {1, {3}}}, 8, {NULL}},
    {joined, "f32[?,3]", "f32[?,3]", 2, {{2, {2, 3}}, {2, {1, 3}}}, 12, {NULL}},
    {product, "f32[m,k]", "f32[k,p]", 2, {{2, {2, 3}}, {2, {3, 4}}}, 48, {NULL}},
    {product,
     "f32[m,k]",
     "f32[k,p]",
     2,
     {{2, {2, 3}}, {2, {4, 1}}},
     0,
     {"input 'y': dim 0 ('k') is 4", "3 in dim 1 of input 'x'"}},
    /* the product needs only the inner dims equal */
    {product, "f32[n,n]", "f32[n,n]", 2, {{2, {2, 3}}, {2, {3, 4}}}, 48, {NULL}},
    {product, "f32[?,?]", "f32[?,?]", 2, {{2, {2, 3}}, {2, {3, 4}}}, 48, {NULL}},
    {product, "f32[unk__1,unk__2]", "f32[unk__2,unk__1]", 2, {{2, {2, 3}}, {2, {3, 4}}}, 48, {NULL}},
    {product, "f32[?,?]", "f32[?,?]", 2, {{2, {2, 3}}, {2, {4, 1}}}, 0, {"MatMul node 'a_node'", "3 and 4"}},
    {added, "f32[n]", "f32[n]", 2, {{1, {3}}, {1, {3}}}, 9, {NULL}},
    {added, "f32[n]", "f32[n]", 2, {{1, {1}}, {1, {3}}}, 9, {NULL}}, /* onnxruntime broadcasts, too */
    {added, "f32[n]", "f32[n]", 2, {{1, {3}}, {1, {1}}}, 9, {NULL}},
    {added, "f32[n]", "f32[n]", 2, {{1, {2}}, {1, {3}}}, 0, {"input 'y': dim 0 ('n') is 3", "2 in dim 0 of input 'x'"}},
    {added, "f32[unk__1]", "f32[unk__1]", 2, {{1, {1}}, {1, {3}}}, 9, {NULL}},
    {viewed, "f32[n,m]", "f32[n,m]", 2, {{2, {2, 3}}, {2, {2, 3}}}, 6, {NULL}},
    {viewed, "f32[n,m]", "f32[n,m]", 2, {{2, {2, 6}}, {2, {3, 4}}}, 12, {NULL}},
    {viewed, "f32[?,?]", "f32[?,?]", 2, {{2, {2, 6}}, {2, {3, 4}}}, 12, {NULL}},
    {viewed_in_rows, "f32[n,4]", "f32[n,3]", 2, {{2, {6, 4}}, {2, {2, 3}}}, 24, {NULL}},
    {viewed_in_rows, "f32[n,4]", "f32[n,3]", 2, {{2, {6, 4}}, {2, {6, 3}}}, 24, {NULL}},
    {expanded, "f32[n,m]", "f32[n,m]", 2, {{2, {1, 3}}, {2, {4, 1}}}, 12, {NULL}},
    {convolved_and_added, "f32[n,1,h,w]", "f32[n,1,h,w]", 2, {{4, {2, 1, 3, 3}}, {4, {1, 1, 3, 1}}}, 90, {NULL}},
    {convolved_and_added, "f32[n,1,h,w]", "f32[n,1,h,w]", 2, {{4, {1, 1, 1, 1}}, {4, {2, 1, 2, 2}}}, 40, {NULL}},
    {compared, "f32[n]", "f32[n]", 2, {{1, {2}}, {1, {3}}}, 0, {NULL}},
    {compared, "f32[n]", "f32[n]", 2, {{1, {3}}, {1, {3}}}, 1, {NULL}},
    {branch, "f32[m,k]", "f32[k,p]", 2, {{2, {2, 3}}, {2, {4, 1}}}, 6, {NULL}},
    {unused, "f32[m,k]", "f32[k,p]", 2, {{2, {2, 3}}, {2, {4, 1}}}, 6, {NULL}},
    {beside, "f32[m,n]", "f32[n,p]", 3, {{2, {2, 3}}, {2, {3, 4}}, {1, {7}}}, 48, {NULL}},
    {beside,
     "f32[m,n]",
     "f32[n,p]",
     3,
     {{2, {2, 3}}, {2, {7, 4}}, {1, {7}}},
     0,
     {"input 'y': dim 0 ('n') is 7", "3 in dim 1 of input 'x'"}},
    {turned, "f32[t,2]", "f32[p,2]", 3, {{2, {3, 2}}, {2, {3, 2}}, {2, {2, 2}}}, 96, {NULL}},
    {turned, "f32[t,2]", "f32[p,2]", 3, {{2, {3, 2}}, {2, {1, 2}}, {2, {2, 2}}}, 96, {NULL}}, /* broadcast */
    {turned, "f32[t,2]", "f32[p,2]", 3, {{2, {1, 2}}, {2, {1, 2}}, {2, {2, 2}}}, 80, {NULL}},
    {turned, "f32[t,2]", "f32[p,2]", 3, {{2, {3, 2}}, {2, {1, 2}}, {2, {0, 2}}}, 24, {NULL}},
    {turned,
     "f32[t,2]",
     "f32[p,2]",
     3,
     {{2, {1, 2}}, {2, {3, 2}}, {2, {2, 2}}},
     0,
     {"input 'y': dim 0 ('p') is 3", "1 in dim 0 of input 'x'"}},
    {turned,
     "f32[t,2]",
     "f32[p,2]",
     3,
     {{2, {3, 2}}, {2, {2, 2}}, {2, {2, 2}}},
     0,
     {"input 'y': dim 0 ('p') is 2", "3 in dim 0 of input 'x'"}},
    {placed, "f32[t]", "f32[p]", 3, {{1, {3}}, {1, {3}}, {1, {2}}}, 24, {NULL}},
    {placed, "f32[t]", "f32[p]", 3, {{1, {3}}, {1, {1}}, {1, {2}}}, 24, {NULL}},
    {placed,
     "f32[t]",
     "f32[p]",
     3,
     {{1, {1}}, {1, {3}}, {1, {2}}},
     0,
     {"input 'y': dim 0 ('p') is 3", "1 in dim 0 of input 'x'"}},
    {product, "f32[m,k]", "f32[l,p]", 2, {{2, {2, 3}}, {2, {3, 4}}}, 48, {NULL}}, /* names that count as one */
    {product, "f32[m,k]", "f32[l,p]", 2, {{2, {2, 3}}, {2, {4, 1}}}, 0, {"is 4", "3 in dim 1 of input 'x'"}},
    {either, "f32[n]", "f32[n]", 3, {{1, {1}}, {1, {4}}, {0}}, 12, {NULL}},
    {either, "f32[n]", "f32[n]", 3, {{1, {4}}, {1, {1}}, {0}}, 12, {NULL}},
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {3}}, {1, {5}}}, 9, {NULL}},
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {3}}, {1, {3}}}, 9, {NULL}},
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {3}}, {1, {1}}}, 9, {NULL}}, /* broadcast */
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {1}}, {1, {7}}}, 3, {NULL}},
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {0}}, {1, {1}}}, 0, {NULL}}, /* -0: all rows */
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {0}}, {1, {0}}}, 0, {NULL}},
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {3}}, {1, {2}}}, 0, {"cannot broadcast [3] with [2]"}},
    {last_rows_added, "f32[n]", "f32[m]", 2, {{1, {1}}, {1, {0}}}, 0, {"input 'y': dim 0 ('m') is 0"}},
    {table_rows_added, "f32[n]", "f32[p]", 2, {{1, {3}}, {1, {2}}}, 18, {NULL}},
    {table_rows_added, "f32[n]", "f32[p]", 2, {{1, {3}}, {1, {5}}}, 18, {NULL}}, /* broadcast */
    {table_rows_added, "f32[n]", "f32[p]", 2, {{1, {1}}, {1, {5}}}, 6, {NULL}},
    {table_rows_added, "f32[n]", "f32[p]", 2, {{1, {0}}, {1, {8}}}, 0, {NULL}},
    {table_rows_added, "f32[n]", "f32[p]", 2, {{1, {2}}, {1, {6}}}, 0, {"cannot broadcast [2] with [0]"}},
    {table_rows_added, "f32[n]", "f32[p]", 2, {{1, {1}}, {1, {6}}}, 0, {"input 'x': dim 0 ('n') is 1 here, 0"}},
    {square, "f32[n,n]", NULL, 1, {{2, {2, 3}}}, 6, {NULL}},
    {square, "f32[n,n]", "", 1, {{2, {2, 2}}}, 8, {NULL}},
    {square, "f32[n,n]", "", 1, {{2, {2, 3}}}, 0, {"input 'x': dim 1 ('n') is 3", "2 in its dim 0"}},
};

START_TEST(dims_are_equal_only_where_something_needs_it) {
  const expectation *e = &cases[_i / N_WAYS];
  onnx_build *b = e->model(e->x, e->y);
  result r = run(b, _i % N_WAYS, e->n, e->inputs);
  build_close(&b);
  if (!e->says[0]) {
    ck_assert_msg(r.status == REED_OK, "%s", r.message);
    ck_assert_double_eq(r.sum, e->sum);
    return;
  }
  ck_assert_int_eq(r.status, REED_ERROR_SHAPE);
  for (const char *const *says = e->says; *says; says++)
    ck_assert_msg(strstr(r.message, *says) != NULL, "'%s' is not in: %s", *says, r.message);
}
END_TEST

/* A rewrite that takes two dims to be equal says so where they are not; without the rewrite the run goes on. */
START_TEST(a_rewrite_that_relies_on_a_name_is_asserted) {
  const given inputs[2] = {{2, {2, 6}}, {1, {1}}};
  onnx_build *b = normalized("f32[n,m]", "f32[m]");
  result r = run(b, 0, 2, inputs);
  ck_assert_int_eq(r.status, REED_ERROR_SHAPE);
  ck_assert_ptr_nonnull(strstr(r.message, "dim 0 ('m') is 1 here, 6 in dim 1 of input 'x'"));
  r = run(b, N_WAYS - 1, 2, inputs);
  ck_assert_msg(r.status == REED_OK, "%s", r.message);
  ck_assert_int_eq(r.dims[1], 6);
  build_close(&b);
}
END_TEST

/* Outputs keep their dims' names for people, whether or not the names are true. */
START_TEST(outputs_are_described_by_the_names) {
  onnx_build *b = added("f32[n,k]", "f32[n,k]");
  size_t n, n_module;
  void *module;
  reed_program *program;
  const void *onnx = build_pack(b, &n);
  ck_assert_int_eq(reed_compile_bytes(onnx, n, NULL, &module, &n_module, NULL, NULL), REED_OK);
  ck_assert_int_eq(reed_program_open_bytes(module, n_module, NULL, &program, NULL), REED_OK);
  reed_value_info info;
  ck_assert_int_eq(reed_program_output(program, 0, &info), REED_OK);
  ck_assert_str_eq(info.symbols[0], "n");
  ck_assert_str_eq(info.symbols[1], "k");
  reed_program_close(&program);
  reed_text_free(module);
  build_close(&b);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("names");
  TCase *t = tcase_create("names");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, dims_are_equal_only_where_something_needs_it, 0, (int)(sizeof cases / sizeof *cases) * N_WAYS);
  tcase_add_test(t, a_rewrite_that_relies_on_a_name_is_asserted);
  tcase_add_test(t, outputs_are_described_by_the_names);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
