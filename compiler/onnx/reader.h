/* Inside the ONNX reader: what its files share. Only compiler/onnx_*.c include this. */
#ifndef COMPILER_ONNX_READER_H_
#define COMPILER_ONNX_READER_H_

#include "base/table.h"
#include "base/text.h"
#include "base/vec.h"
#include "compiler/onnx/onnx.h"
#include "onnx.pb-c.h"

#define ONNX_MAX_GRAPH_DEPTH 48           /* bodies in bodies, functions in functions: walked by recursion everywhere */
#define ONNX_MAX_NODES ((int64_t)1 << 22) /* after inlining */

typedef struct onnx_name {
  const char *name; /* borrowed */
  ir_value *value;
} onnx_name;

/* Names visible in one graph; those of the graphs around it are reached through parent. */
typedef struct onnx_scope {
  struct onnx_scope *parent;
  VEC_OF(onnx_name) names;
  table table; /* of names */
} onnx_scope;

/* The value of that name here or further out; NULL: none. */
ir_value *onnx_scope_find(const onnx_scope *s, const char *name);
/* Defines a name in this scope. ERROR_FORMAT (no diagnosis) when it already is, ERROR_MEMORY. */
reed_status onnx_scope_define(onnx_scope *s, const char *name, ir_value *value) REED_MUST_CHECK;
void onnx_scope_fini(onnx_scope *s);

/* One kind of thing that is not supported, and where it was met. */
typedef struct onnx_problem {
  char *what;
  text_buffer where; /* "'a', 'b'" */
} onnx_problem;

typedef struct onnx_reader {
  ir_module *m;
  const Onnx__ModelProto *model;
  const uint8_t *outlined; /* what the outline was made of, where raw data lie; NULL: tensors have their own */
  reed_diagnosis *diagnosis;
  const onnx_external *external; /* NULL: none may be read */
  VEC_OF(onnx_problem) problems;
  int64_t n_nodes;    /* read so far, inlined functions' included: a limit on what a small file can grow to */
  int64_t most_nodes; /* that limit: set by onnx_check_growth */
} onnx_reader;

/* Where a tensor's raw data are in the model's bytes: what its raw_data field is in an outline. */
typedef struct onnx_place {
  uint64_t offset, n_bytes;
} onnx_place;
/* Appends the outline of a model. False: the bytes are no model, or damaged. */
bool onnx_outline(const void *bytes, size_t n_bytes, text_buffer *out);

/* Notes that `what` at node (or tensor) `where` is not supported; reading goes on. Fails only for want of memory. */
reed_status onnx_unsupported(onnx_reader *r, const char *where, const char *format, ...)
    REED_PRINTF(3, 4) REED_MUST_CHECK;
/* OK when nothing was noted, else ERROR_UNSUPPORTED with the list. */
reed_status onnx_report_problems(onnx_reader *r) REED_MUST_CHECK;
/* Frees the list. */
void onnx_forget_problems(onnx_reader *r);

/* protobuf's optional texts: "" for NULL. */
static inline const char *onnx_text(const char *text) { return text ? text : ""; }

/* The dtype of an ONNX TensorProto.DataType number, REED_NONE where there is none; its name for people. */
reed_dtype onnx_dtype(int32_t number);
const char *onnx_dtype_text(int32_t number);

/* The tensor's elements, dense, as ir_value's data are to be: in the module's memory, or where they lie in the model.
 * `where` names the tensor or its node in messages. An unsupported dtype, rank or storage is noted as a problem and
 * gives *out_data NULL with REED_OK. */
reed_status onnx_read_tensor(onnx_reader *r, const Onnx__TensorProto *t, const char *where, reed_desc *out_desc,
                             const void **out_data) REED_MUST_CHECK;

/* Where nodes are being read: a graph, or a function's body within a graph. */
typedef struct onnx_frame {
  ir_graph *graph;
  onnx_scope scope;
  Onnx__OperatorSetIdProto *const *opsets;
  size_t n_opsets;
  const Onnx__NodeProto *call;     /* the function call whose body this is (for attributes by reference), else NULL */
  const struct onnx_frame *caller; /* the frame of that call */
  const Onnx__FunctionProto *function;
  const char *prefix; /* of names: "" or "<call>/" */
  int depth;
} onnx_frame;

/* A tensor's part of an open external file. */
typedef struct onnx_external_data {
  int file;
  int64_t offset;
} onnx_external_data;
/* Opens the external file of a tensor of that many bytes, where it may be read and has these bytes. */
reed_status onnx_open_external(onnx_reader *r, const Onnx__TensorProto *t, const char *where, int64_t bytes,
                               onnx_external_data *out_data) REED_MUST_CHECK;
reed_status onnx_read_external(onnx_reader *r, const onnx_external_data *data, const char *where, int64_t bytes,
                               void *elements) REED_MUST_CHECK;
void onnx_close_external(onnx_external_data *data);

/* The attribute that `a` stands for: itself, or, inside a function, the calling node's; NULL: the caller gives none. */
const Onnx__AttributeProto *onnx_dereferenced(const onnx_frame *f, const Onnx__AttributeProto *a);
/* Gives n the attributes of the ONNX node; graphs of control flow are left to the reader of bodies. */
reed_status onnx_read_attrs(onnx_reader *r, const onnx_frame *f, ir_node *n,
                            const Onnx__NodeProto *node) REED_MUST_CHECK;
/* After the upgrade: every attribute must be in the operator's row, and all that the row requires must be there. */
reed_status onnx_check_attrs(onnx_reader *r, const ir_node *n) REED_MUST_CHECK;

/* The order in which the nodes of a list can be read, each after those whose results it uses: n indices to be
 * mem_free()d, NULL where the list is in order already. The frame's scope holds what is defined before the list.
 * ERROR_FORMAT where nodes wait for each other, with their names. */
reed_status onnx_order_nodes(onnx_reader *r, const onnx_frame *f, Onnx__NodeProto *const *nodes, size_t n,
                             size_t **out_order) REED_MUST_CHECK;

/* "" for ONNX's own domain under any of its names. */
const char *onnx_plain_domain(const char *domain);
/* The model's function of that (plain) domain and name; NULL: none. */
const Onnx__FunctionProto *onnx_find_function(const onnx_reader *r, const char *domain, const char *name);
/* Counts the nodes that the model will have with its functions inlined, and sets how many may be read. ERROR_LIMIT
 * where they would be out of all proportion to the file, ERROR_FORMAT where functions call themselves. */
reed_status onnx_check_growth(onnx_reader *r) REED_MUST_CHECK;

/* Reads the main graph and everything in it. */
reed_status onnx_read_graph(onnx_reader *r, const Onnx__GraphProto *g) REED_MUST_CHECK;

/* The operator's name in the newest opset ("Scatter" became "ScatterElements", "Upsample" Resize). Static or borrowed.
 */
const char *onnx_modern_name(const char *name);
/* Rewrites the node, read as the model has it in `opset` of the ai.onnx domain under `name`, to op.def's form:
 * attributes that became inputs, changed defaults, numbers of dtypes. The dtypes of its inputs are known where the
 * model lets them be. */
reed_status onnx_upgrade(onnx_reader *r, ir_node *n, const char *name, int64_t opset) REED_MUST_CHECK;

/* Rewrites a Scan with its body, the last node of its graph, to a Loop, with nodes before and after it. Its outputs'
 * values stay those they were. */
reed_status onnx_scan_to_loop(onnx_reader *r, ir_node *n, int64_t opset) REED_MUST_CHECK;

#endif
