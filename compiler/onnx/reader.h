/* Declarations that the files of the ONNX reader share. Only the sources of compiler/onnx/ include this file; the
 * reader's interface is onnx.h. */
#ifndef COMPILER_ONNX_READER_H_
#define COMPILER_ONNX_READER_H_

#include "base/table.h"
#include "base/text.h"
#include "base/vec.h"
#include "compiler/onnx/onnx.h"
#include "onnx.pb-c.h"

#define ONNX_MAX_GRAPH_DEPTH 48 /* the depth of nested bodies and functions, which the reader walks by recursion */
#define ONNX_MAX_NODES ((int64_t)1 << 22) /* after inlining */

typedef struct onnx_name {
  const char *name; /* borrowed */
  ir_value *value;
} onnx_name;

/* The names defined in one graph; names of the graphs around it are found through `parent`. */
typedef struct onnx_scope {
  struct onnx_scope *parent;
  VEC_OF(onnx_name) names;
  table table; /* of names */
} onnx_scope;

/* The value of that name in this scope or the nearest one around it; NULL: none. */
ir_value *onnx_scope_find(const onnx_scope *s, const char *name);
/* Defines a name in this scope. ERROR_FORMAT (without a diagnosis): the scope already has the name. ERROR_MEMORY. */
reed_status onnx_scope_define(onnx_scope *s, const char *name, ir_value *value) REED_MUST_CHECK;
/* Frees the scope's table; the values belong to the module. */
void onnx_scope_fini(onnx_scope *s);

/* One unsupported property of the model, with all places that have it. */
typedef struct onnx_problem {
  char *what;
  text_buffer where; /* "'a', 'b'" */
} onnx_problem;

/* A sequence of tensors while the model is read: a list of values, or the parts of a tensor along an axis. */
typedef struct onnx_sequence {
  ir_value **items; /* n_items values; of parts: unused */
  int32_t n_items;
  ir_value *x;        /* the tensor with the parts; NULL: a list */
  int32_t rank;       /* of x; -1: not known */
  int64_t axis;       /* of x; may be negative */
  ir_value *extent;   /* of each part, a single number; the last one may have less */
  ir_value *extents;  /* NULL, or a vector of i64 with the extent of each part */
  ir_value *joined;   /* the parts joined along their first axis, of a Loop's output; otherwise NULL */
  ir_value *numbered; /* a vector with an element for each of these parts */
  bool keeps_axis;    /* false: parts of extent 1, as items without the axis */
} onnx_sequence;

typedef struct onnx_reader {
  ir_module *m;
  const Onnx__ModelProto *model;
  const uint8_t *outlined; /* the model's bytes, which the outline's raw data refer to; NULL: there is no outline */
  reed_diagnosis *diagnosis;
  const onnx_external *external; /* NULL: no external file may be read */
  VEC_OF(onnx_problem) problems;
  VEC_OF(onnx_sequence) sequences;
  int64_t n_nodes;    /* nodes read so far, nodes of inlined functions included */
  int64_t most_nodes; /* the limit of n_nodes, set by onnx_check_growth */
} onnx_reader;

/* The place of a tensor's raw data in the model's bytes. In an outline the field raw_data holds such a place. */
typedef struct onnx_place {
  uint64_t offset, n_bytes;
} onnx_place;
/* Appends the outline of a model. False: the bytes are not a model, or are damaged. */
bool onnx_outline(const void *bytes, size_t n_bytes, text_buffer *out);

/* Notes an unsupported property (the formatted text) of the node or tensor `where`; reading goes on. Fails only without
 * memory. */
reed_status onnx_unsupported(onnx_reader *r, const char *where, const char *format, ...)
    REED_PRINTF(3, 4) REED_MUST_CHECK;
/* REED_OK when no problem was noted, otherwise ERROR_UNSUPPORTED with the list of problems. */
reed_status onnx_report_problems(onnx_reader *r) REED_MUST_CHECK;
/* Frees the list of problems. */
void onnx_forget_problems(onnx_reader *r);

/* An optional text of protobuf: "" for NULL. */
static inline const char *onnx_text(const char *text) { return text ? text : ""; }

/* The dtype of an ONNX TensorProto.DataType number (REED_NONE: Reed has no such dtype), and its name for messages. */
reed_dtype onnx_dtype(int32_t number);
const char *onnx_dtype_text(int32_t number);

/* Gives the tensor's elements, dense and aligned as ir_value.data requires, in the module's memory or in the model's
 * bytes. `where` names the tensor or its node in messages. An unsupported dtype, rank or storage is noted as a problem;
 * *out_data is then NULL and the status REED_OK. */
reed_status onnx_read_tensor(onnx_reader *r, const Onnx__TensorProto *t, const char *where, reed_desc *out_desc,
                             const void **out_data) REED_MUST_CHECK;

/* The place where nodes are read: a graph, or a function's body inside a graph. */
typedef struct onnx_frame {
  ir_graph *graph;
  onnx_scope scope;
  Onnx__OperatorSetIdProto *const *opsets;
  size_t n_opsets;
  const Onnx__NodeProto *call; /* the function call whose body is read (for attributes by reference); NULL for graphs */
  const struct onnx_frame *caller; /* the frame of that call */
  const Onnx__FunctionProto *function;
  const char *prefix; /* prefix of names: "" or "<call>/" */
  int depth;
} onnx_frame;

/* The version of ONNX's own operators that the frame's nodes have; 0: none is given. */
int64_t onnx_opset(const onnx_frame *f);

/* A tensor's bytes in an open external file. */
typedef struct onnx_external_data {
  int file;
  int64_t offset;
} onnx_external_data;
/* Opens the external file of a tensor of `bytes` bytes, if the file may be read and has these bytes. */
reed_status onnx_open_external(onnx_reader *r, const Onnx__TensorProto *t, const char *where, int64_t bytes,
                               onnx_external_data *out_data) REED_MUST_CHECK;
/* Reads the `bytes` bytes of an opened tensor to `elements`. */
reed_status onnx_read_external(onnx_reader *r, const onnx_external_data *data, const char *where, int64_t bytes,
                               void *elements) REED_MUST_CHECK;
/* Closes the file; a file that is not open (-1) is allowed. */
void onnx_close_external(onnx_external_data *data);

/* The attribute that `a` refers to: `a` itself, or, inside a function, the attribute of the call; NULL: the call does
 * not give it. */
const Onnx__AttributeProto *onnx_dereferenced(const onnx_frame *f, const Onnx__AttributeProto *a);
/* The node's attribute of that name; NULL: it has none, or the call of the function does not give it. */
const Onnx__AttributeProto *onnx_find_attribute(const onnx_frame *f, const Onnx__NodeProto *node, const char *name);
/* Gives n the attributes of the ONNX node, except the graphs of If, Loop and Scan, which graph.c reads. */
reed_status onnx_read_attrs(onnx_reader *r, const onnx_frame *f, ir_node *n,
                            const Onnx__NodeProto *node) REED_MUST_CHECK;
/* Checks n's attributes after the upgrade: the operator's row has every one of them, and every required one is given.
 */
reed_status onnx_check_attrs(onnx_reader *r, const ir_node *n) REED_MUST_CHECK;

/* The order in which the nodes of a list can be read, each after the nodes whose results it uses: n indices, which the
 * caller mem_free()s, or NULL if the list is in order. The frame's scope has the names defined before the list.
 * ERROR_FORMAT: nodes wait for each other; the message names them. */
reed_status onnx_order_nodes(onnx_reader *r, const onnx_frame *f, Onnx__NodeProto *const *nodes, size_t n,
                             size_t **out_order) REED_MUST_CHECK;

/* The domain, with "" for every name of ONNX's own domain. */
const char *onnx_plain_domain(const char *domain);
/* The model's function of this (plain) domain and name; NULL: none. */
const Onnx__FunctionProto *onnx_find_function(const onnx_reader *r, const char *domain, const char *name);
/* Counts the nodes of the model with its functions inlined and sets the limit of nodes. ERROR_LIMIT: far more nodes
 * than the file has; ERROR_FORMAT: functions call themselves. */
reed_status onnx_check_growth(onnx_reader *r) REED_MUST_CHECK;

/* The declared name of a dim; "": the dim is a number, or has no name of meaning ("?", "unk__7"). */
const char *onnx_dim_name(const Onnx__TensorShapeProto__Dimension *d);
/* Lists the declared ranges of the module's dims (ir_module.dims, ir_module.declared), those of dims whose names are
 * computed from declared ones, and those of names in a declared one, and gives them to the symbols. A range is listed
 * as narrow as the others make it. ERROR_ARGUMENT: a range is empty, given twice, of a name that no input of the main
 * graph has, or contradicts the ranges of the names in its own. */
reed_status onnx_declare_ranges(onnx_reader *r, const Onnx__GraphProto *g) REED_MUST_CHECK;
/* Notes the dims of an input, parameter `param` of the main graph, that have a declared range. */
reed_status onnx_note_ranges(onnx_reader *r, const Onnx__ValueInfoProto *input, int32_t param) REED_MUST_CHECK;

/* A name of dims of the model's inputs and the extents that they may have. */
typedef struct onnx_named_range {
  const char *name;
  int64_t low, high;
  bool given; /* the caller has declared a range */
  bool tied;  /* the name is computed from given ones */
} onnx_named_range;

typedef enum onnx_tie {
  ONNX_TIE_NONE,       /* nothing is known more: the name is no sum or product of names and integers, or adds nothing */
  ONNX_TIE_NARROWER,   /* a range has become narrower */
  ONNX_TIE_EMPTY,      /* the name's range has no extent in common with *out_computed, which its parts give */
  ONNX_TIE_EMPTY_PART, /* the name's range leaves no extent to *out_computed, one of its parts */
} onnx_tie;

/* Narrows the range of names[i] to what the names in it allow, and, if it is given, their ranges to what it allows.
 * out_parts[k] of n_names: 1 if name k is in it. */
onnx_tie onnx_tie_range(onnx_named_range *names, size_t n_names, size_t i, onnx_named_range *out_computed,
                        uint8_t *out_parts);

/* Gives the frame's graph a value of that name. ERROR_FORMAT: it has one; NULL for `value` is ERROR_MEMORY. */
reed_status onnx_define(onnx_reader *r, onnx_frame *f, const char *name, ir_value *value) REED_MUST_CHECK;
/* Finds the value of that name; NULL for an absent optional input. ERROR_FORMAT: there is none. */
reed_status onnx_find_input(onnx_reader *r, const onnx_frame *f, const char *node_name, const char *op,
                            const char *name, ir_value **out_value) REED_MUST_CHECK;
/* ERROR_FORMAT where a graph in the node would be nested too deep. */
reed_status onnx_check_depth(onnx_reader *r, const onnx_frame *f, const char *node_name) REED_MUST_CHECK;
/* Fails, as a Loop's operands do not fit those of its body. */
reed_status onnx_fail_body(onnx_reader *r, const char *node_name, size_t n_inputs, size_t n_outputs, size_t n_params,
                           size_t n_results) REED_MUST_CHECK;
/* Reads the graph's initializers and nodes into the frame's graph. */
reed_status onnx_read_body(onnx_reader *r, onnx_frame *f, const Onnx__GraphProto *g) REED_MUST_CHECK;
/* Reads the main graph with its bodies and functions. */
reed_status onnx_read_graph(onnx_reader *r, const Onnx__GraphProto *g) REED_MUST_CHECK;

/* The operator's name in the newest opset ("Scatter" became "ScatterElements", "Upsample" Resize). Static or borrowed.
 */
const char *onnx_modern_name(const char *name);
/* Rewrites the node, which has the form of `opset` of ai.onnx and the model's name `name`, to op.def's form: attributes
 * that became inputs, changed defaults, numbers of dtypes. Dtypes of its inputs are set where the model determines
 * them. */
reed_status onnx_upgrade(onnx_reader *r, ir_node *n, const char *name, int64_t opset) REED_MUST_CHECK;

/* Makers of nodes, appended to g. They return NULL without memory, or where an operand is NULL, so that only the last
 * one of a chain needs a check. */
/* The output of a new node, put before `before` unless that is NULL: `result`, or a new value where `result` is NULL.
 * attr: an int attribute; NULL: none. */
ir_value *onnx_made(ir_graph *g, ir_node *before, op_id op, ir_value *const *inputs, int32_t n_inputs, const char *attr,
                    int64_t value, ir_value *result);
/* x as that dtype; x itself if it has it. */
ir_value *onnx_cast(ir_graph *g, ir_value *x, reed_dtype to);
/* The output of a new node with one input, or two, and default attributes. */
ir_value *onnx_unary(ir_graph *g, op_id op, ir_value *x);
ir_value *onnx_binary(ir_graph *g, op_id op, ir_value *a, ir_value *b);
/* The parts, one after the other along the axis. */
ir_value *onnx_joined(ir_graph *g, ir_value *const *parts, int32_t n, int64_t axis);
/* `yes` where the condition is true, otherwise `no`, which has its dtype. */
ir_value *onnx_chosen(ir_graph *g, ir_value *condition, ir_value *yes, ir_value *no);
/* Constant scalars: of i64; of the dtype; of x's dtype, f32 where that is not known. */
ir_value *onnx_integer(ir_graph *g, int64_t n);
ir_value *onnx_number(ir_graph *g, double x, reed_dtype dtype);
ir_value *onnx_number_like(ir_graph *g, const ir_value *x, double number);
/* Names g's nodes from number `first` on after the model's node for which they stand. False: no memory. */
bool onnx_name_made(ir_graph *g, size_t first, const char *node_name);
/* The constant vector first, first + 1, ... of n numbers, at most REED_MAX_RANK. */
ir_value *onnx_vector(ir_module *m, int64_t first, int64_t n);
/* x[begin:end] of a vector. */
ir_value *onnx_part(ir_graph *g, ir_value *x, int64_t begin, int64_t end);
/* x, a single number, as one of i64 of rank 0 or 1. */
ir_value *onnx_single(ir_graph *g, ir_value *x, int64_t rank);
/* The scalar extent of an axis, which may be negative. */
ir_value *onnx_extent(ir_graph *g, ir_value *x, int64_t axis);
/* 0, 1, ... n - 1 of i64; n: a scalar. */
ir_value *onnx_range(ir_graph *g, ir_value *n);
/* x[begin:end] along the axis, which may be negative; begin and end: vectors of one. */
ir_value *onnx_slice(ir_graph *g, ir_value *x, ir_value *begin, ir_value *end, int64_t axis);
ir_value *onnx_transposed(ir_graph *g, ir_value *x, const int64_t *perm, int32_t rank, ir_value *result);
/* x with the extents of the vector `shape`, in which 0 is an extent. */
ir_value *onnx_shaped(ir_graph *g, ir_value *x, ir_value *shape, ir_value *result);
/* The product of a vector's elements, a vector of one. */
ir_value *onnx_product(ir_graph *g, ir_value *x);
/* x with the extents of the vectors a, b and c. */
ir_value *onnx_reshaped(ir_graph *g, ir_value *x, ir_value *a, ir_value *b, ir_value *c, ir_value *result);

/* Reads an Einsum: appends nodes that compute it from the operands, of which `ranks` are -1 if not known. *out_value is
 * NULL where a rank that it needs is not known, or the equation has too many letters: that is noted as unsupported.
 * ERROR_FORMAT: the equation is malformed, or does not fit the operands. */
reed_status onnx_einsum(onnx_reader *r, ir_graph *g, const char *node_name, const char *equation,
                        ir_value *const *operands, const int32_t *ranks, int32_t n_operands,
                        ir_value **out_value) REED_MUST_CHECK;

/* The reading of a node for which other nodes are appended that compute its outputs. */
typedef struct onnx_reading {
  onnx_reader *r;
  const onnx_frame *f;
  const Onnx__NodeProto *node;
  const char *name; /* of the node */
  ir_graph *g;
  ir_value **inputs;  /* n_inputs, then NULL up to REED_MAX_OPERANDS; NULL: absent */
  int32_t *ranks;     /* of the inputs; -1: not known */
  ir_value **outputs; /* to be filled; without meaning where the node is unsupported */
  int32_t n_inputs;
  reed_status status; /* the first failure; REED_OK with outputs of NULL: `unsupported`, or no memory */
  bool unsupported;
} onnx_reading;
/* Notes an unsupported property of the node. Returns NULL. */
ir_value *onnx_refuse(onnx_reading *z, const char *what);
/* The dtype of input 0. If it is no float, or not known, `what` is noted as unsupported. */
reed_dtype onnx_float_of_x(onnx_reading *z, const char *what);
/* The node's integer attribute of that name, or `absent`. */
int64_t onnx_int(const onnx_reading *z, const char *name, int64_t absent);
/* The node's number of that name, or `absent`. */
float onnx_float(const onnx_reading *z, const char *name, float absent);
/* Names the nodes appended from number `first` on, and gives the reading's status: ERROR_MEMORY if an output that the
 * model names is missing without a reason. */
reed_status onnx_end_reading(onnx_reading *z, size_t first) REED_MUST_CHECK;

/* An operator that Reed reads as several others, which `make` appends. */
typedef struct onnx_maker {
  const char *name; /* NULL: the end of the list */
  int32_t least_inputs, most_inputs, most_outputs;
  void (*make)(onnx_reading *z);
} onnx_maker;
/* Of quantised numbers (QuantizeLinear, ConvInteger, ...), random numbers, normalisations, Fourier transforms and the
 * matrix of their mel bands, losses, and others that are compositions. */
extern const onnx_maker onnx_quantized_makers[], onnx_random_makers[], onnx_norm_makers[], onnx_fourier_makers[],
    onnx_loss_makers[], onnx_composed_makers[];
/* Of onnxruntime's optimiser: operators of the domain com.microsoft, and those that it has in ONNX's own domain. */
extern const onnx_maker onnx_contrib_makers[], onnx_attention_makers[], onnx_contrib_quantized_makers[],
    onnx_bits_makers[], onnx_simplified_makers[];
/* True for an operator of these lists; `domain` is a plain one. */
bool onnx_has_maker(const char *domain, const char *type);
/* Reads such a node. ERROR_FORMAT: a wrong number of operands. */
reed_status onnx_read_made(onnx_reading *z) REED_MUST_CHECK;

/* True for operators that make or take sequences; an Identity is one only if its operand is a sequence. */
bool onnx_is_of_sequences(const char *type);
/* The sequence for which the value stands, until another sequence is made; NULL: it is a tensor, or absent. */
const onnx_sequence *onnx_sequence_of(const onnx_reader *r, const ir_value *v);
/* Reads such a node. Its output may stand for a sequence. ERROR_FORMAT: a wrong number of operands, a place that the
 * sequence has not. */
reed_status onnx_read_sequence(onnx_reading *z) REED_MUST_CHECK;

/* A Loop that carries no sequences any more. For each one it has the scan outputs of onnx_looped_sequence. */
enum { ONNX_LOOP_ITEMS = 3 };
typedef struct onnx_loop {
  const Onnx__NodeProto *node; /* has scan outputs at its end for each sequence, the items stacked, joined, numbered;
                                  NULL: unsupported, which has been noted */
  const char **names;          /* the model's names of these sequences; "": not used */
  int32_t n_names;
} onnx_loop;
/* Gives a Loop scan outputs in place of the sequences that it carries. ERROR_FORMAT: it has no body. */
reed_status onnx_unsequenced_loop(onnx_reader *r, const onnx_frame *f, const Onnx__NodeProto *node,
                                  const char *node_name, onnx_loop *out_loop) REED_MUST_CHECK;

/* True for a Loop that carries sequences and has a number of rounds that the model has as a constant, *out_rounds, few
 * enough to read the body once for each of them. */
bool onnx_has_rounds(const onnx_frame *f, const Onnx__NodeProto *node, int64_t *out_rounds);
/* Reads such a Loop: the body's nodes for each round, in the Loop's own graph. *out_supported false: something was
 * noted as unsupported, and the Loop's outputs are not defined. ERROR_FORMAT: a wrong number of operands. */
reed_status onnx_read_rounds(onnx_reader *r, onnx_frame *f, const Onnx__NodeProto *node, const char *node_name,
                             int64_t n_rounds, bool *out_supported) REED_MUST_CHECK;

/* The value that stands for the sequence whose items are scan outputs of a Loop in g: stacked along a new axis, to be
 * joined along their first one, and numbered. NULL: no memory. */
ir_value *onnx_looped_sequence(onnx_reader *r, ir_graph *g, ir_value *const items[ONNX_LOOP_ITEMS]);

/* Rewrites a Scan with its body, the last node of its graph, to a Loop with nodes before and after it. The Scan's
 * output values are kept. */
reed_status onnx_scan_to_loop(onnx_reader *r, ir_node *n, int64_t opset) REED_MUST_CHECK;

#endif
