/* Graphs by hand, for tests of lowering: short makers over compiler/ir/ir.h, and a lowered module as lines of text. */
#ifndef TESTS_COMPILER_LOWER_GRAPH_H_
#define TESTS_COMPILER_LOWER_GRAPH_H_

#include "bytecode/module.h"
#include "compiler/ir/ir.h"
#include "reed/reed.h"

#define ANY_DIM (-1) /* an extent of its own */

ir_module *graph_open(void);
/* A parameter or an output's type; dims: numbers or ANY_DIM. */
void graph_type(ir_value *v, reed_dtype dtype, int32_t rank, const int64_t *dims);
ir_value *graph_param(ir_graph *g, const char *name, reed_dtype dtype, int32_t rank, const int64_t *dims);
void graph_result(ir_graph *g, ir_value *v);
ir_value *graph_i64(ir_module *m, int64_t n, const int64_t *elements); /* n -1: a scalar */
ir_value *graph_f32(ir_module *m, int64_t n, const float *elements);
ir_value *graph_bool(ir_module *m, bool element);
ir_value *graph_to_i64(ir_graph *g, ir_value *v); /* a Cast */
/* A node of the built-in operator with n_outputs outputs; its first output. inputs: until GRAPH_END; NULL: absent. */
#define GRAPH_END ((ir_value *)-1)
ir_node *graph_node(ir_graph *g, op_id op, int32_t n_outputs, ...);
/* The same with one output of that type, which is returned. */
ir_value *graph_op(ir_graph *g, op_id op, reed_dtype dtype, int32_t rank, const int64_t *dims, ...);

typedef struct lowered {
  void *bytes;
  size_t n_bytes;
  char *text; /* the code, one instruction a line */
  char *report;
  int32_t n_epochs;
  module *m;
  reed_program *program;
  reed_session *sessions[4]; /* host, sim, sim with late work, the emulated GPU */
} lowered;
/* Lowers, loads (which verifies) and writes the code down; closes the graph. Fails the test when one of them fails. */
lowered graph_lower(ir_module *m);
void lowered_close(lowered *l);
/* A tensor of few elements. */
typedef struct spec {
  reed_dtype dtype;
  int32_t rank;
  int64_t dims[4];
  double elements[16];
} spec;
/* Runs twice (a miss, then a hit) on the host and four times on sim (which records a graph at the first hit and
 * replays it later), in sessions that stay open, and compares all outputs. */
void lowered_expect(lowered *l, const spec *inputs, size_t n_inputs, const spec *outputs, size_t n_outputs);
/* Runs on every device; each run fails with that status, node, input and message, and a kernel of device 1 ran. */
void lowered_fails(lowered *l, const spec *inputs, size_t n_inputs, reed_status status, const char *node,
                   const char *input, const char *message);
#define RUN(l, inputs, outputs) \
  lowered_expect(&(l), inputs, sizeof(inputs) / sizeof(spec), outputs, sizeof(outputs) / sizeof(spec))
/* A list of specs as one argument. */
#define SPECS(...) ((const spec[]){__VA_ARGS__})
#define F32(n, ...) \
  { \
    REED_F32, 1, {n}, { __VA_ARGS__ } \
  }
#define I64(n, ...) \
  { \
    REED_I64, 1, {n}, { __VA_ARGS__ } \
  }
#define I64_SCALAR(x) \
  { \
    REED_I64, 0, {0}, { x } \
  }
#define BOOL_SCALAR(x) \
  { \
    REED_BOOL, 0, {0}, { x } \
  }
/* How often `fragment` is in `text`. */
int occurrences(const char *text, const char *fragment);

#endif
