/* The compiler's graph: values, nodes, and regions for the bodies of If and Loop. Here: the data structure and its
 * primitive edits; passes are in compiler/passes, patterns in pattern.h.
 *
 * A graph is a list of nodes in topological order. A region is a graph inside a node; its nodes may use values of the
 * graphs around it (captures are implicit). Every value has one definition: a node's output, a graph's parameter, or a
 * constant. Shapes are symbolic (shapefuncs/shapefn.h): equal dims mean provably equal extents. All memory belongs to
 * the ir_module's arena and is freed with it. */
#ifndef COMPILER_IR_IR_H_
#define COMPILER_IR_IR_H_

#include "base/desc.h"
#include "base/diag.h"
#include "base/text.h"
#include "base/vec.h"
#include "ops/capability.h"
#include "ops/op.h"
#include "reed/tensor.h"
#include "shapefuncs/shapefn.h"

typedef struct ir_value ir_value;
typedef struct ir_node ir_node;
typedef struct ir_graph ir_graph;
typedef struct ir_module ir_module;

/* The known type of a value. */
typedef struct ir_type {
  reed_dtype dtype;             /* REED_NONE: unknown */
  int32_t rank;                 /* -1: unknown */
  reed_dim dims[REED_MAX_RANK]; /* numbers or symbols */
} ir_type;

#define IR_WEIGHTS_BYTES ((int64_t)64 << 10)

struct ir_value {
  const char *name; /* ONNX name; never NULL */
  ir_type type;
  ir_node *producer; /* NULL: parameter or constant */
  int32_t producer_output;
  ir_graph *graph;  /* the graph that defines the value; constants: the main graph */
  const void *data; /* a constant's dense elements; NULL for other values (a constant without elements has a non-NULL
                       pointer too). Float weights of IR_WEIGHTS_BYTES or more may lie in the model's own bytes at any
                       address; all other elements are aligned for their dtype */
  const struct packed_order
      *packed; /* a constant's packed order (ops/packed.h), otherwise NULL: the elements of data are moved to this order
                  when the module is written. Only the last pass sets it */
  const reed_dim *elements; /* the n_elements known elements of an integer value (shape arithmetic), numbers or symbols;
                               NULL: not known */
  int64_t n_elements;
  bool bounded; /* the kernel reports the extent along bounded_axis (type.dims has a fresh symbol there) */
  int32_t bounded_axis;
  bool joined;       /* a scan output of a Loop whose parts are joined along axis 0, not stacked along a new axis */
  int32_t n_uses;    /* set by ir_count_uses, not updated by edits */
  ir_value *forward; /* the value that replaces this one since ir_forward; NULL: none */
  /* placement and scheduling results; meaning private to the passes that set them */
  int32_t device; /* 0 host, 1 accelerator; -1 not placed */
  bool late;      /* on the host, but computed in a run section: no shape section of its epoch may read its elements */
  int32_t id;     /* scratch number for passes */
};

struct ir_node {
  const reed_op *op;
  const char *name; /* ONNX node name, or "<op>_<k>" where the model gives none; never NULL or "" */
  reed_attr *attrs; /* complete: with the defaults of the operator's row (but see ir_clear_attrs) */
  int32_t n_attrs;
  ir_value **inputs; /* NULL entry: absent optional */
  int32_t n_inputs;
  ir_value **outputs; /* NULL entry: unused optional output */
  int32_t n_outputs;
  ir_graph **regions; /* If: then, else. Loop: body (parameters: iteration, condition, carried...; results: condition,
                         carried..., scan outputs...) */
  int32_t n_regions;
  ir_graph *graph;
  bool dead;  /* removed; swept by ir_sweep */
  int32_t id; /* scratch number for passes */
};

struct ir_graph {
  ir_module *module;
  ir_node *parent; /* the If or Loop node, NULL for main */
  const char *name;
  ir_value **params;
  int32_t n_params;
  ir_value **results;
  int32_t n_results;
  const char **result_names; /* model output names (main graph) */
  ir_type *result_types; /* the model's declarations of its outputs, for the names of dims (main graph; rank -1 or dtype
                            REED_NONE: no declaration) */
  VEC_OF(ir_node *) nodes;
};

/* A dim of an input of the model whose name has a declared range. */
typedef struct ir_range {
  int32_t param, axis;
  reed_dim_range declared;
} ir_range;

struct ir_module {
  ir_graph *main;
  const char *name; /* model name */
  const reed_registry *registry;
  const capability *targets;  /* the accelerator's list of capabilities; NULL: every operator */
  reed_dtype precision;       /* of the weights of products: bf16 or f16; any other dtype leaves the model's */
  bool counts_on_device;      /* operators run at the bound of inputs whose count only the device knows */
  const char *why_fetched;    /* counts_on_device false: why the host fetches all counts */
  const reed_dim_range *dims; /* reed_compile_options.dims: n_dims declared ranges */
  size_t n_dims;
  VEC_OF(reed_dim_range) declared; /* dims, and names computed from theirs ("past + 1") */
  VEC_OF(ir_range) ranges;         /* of the inputs' dims, by param and axis */
  reed_symbols *symbols;
  struct ir_arena *arena;
  VEC_OF(ir_value *) constants;
  int32_t n_names;           /* for fresh names */
  int64_t given_bytes;       /* bytes of the model's own constants; -1: not counted yet */
  int64_t folded_bytes;      /* bytes of the constants made by folding, used or not */
  const int *cancel;         /* base/cancel.h: asked by ir_check_cancel */
  reed_diagnosis *diagnosis; /* of the compilation in progress; may be NULL */
};

/* Opens a module with an empty main graph. `diagnosis` (may be NULL) is borrowed for the module's life; registry NULL:
 * built-in operators only. ERROR_MEMORY. */
reed_status ir_module_open(const reed_registry *registry, reed_diagnosis *diagnosis,
                           ir_module **out_module) REED_MUST_CHECK;
void ir_module_close(ir_module **m);
/* Zeroed memory that lives as long as the module; NULL: none. */
void *ir_alloc(ir_module *m, size_t bytes);
/* Memory for a constant's elements, with the same life: not cleared, aligned for kernels; NULL: none. */
void *ir_alloc_elements(ir_module *m, size_t bytes);
char *ir_text(ir_module *m, const char *format, ...) REED_PRINTF(2, 3);

/* Makers return NULL when there is no memory. Names may be NULL: a fresh one is made. */
/* A graph; appended to the parent's regions when parent is not NULL. */
ir_graph *ir_graph_new(ir_module *m, ir_node *parent, const char *name);
ir_value *ir_value_new(ir_graph *g, const char *name);
/* A constant over `data` (copied into the module unless borrow). */
ir_value *ir_constant(ir_module *m, const reed_desc *desc, const void *data, bool borrow, const char *name);
/* A constant int64 vector, for operands like axes. */
ir_value *ir_constant_i64(ir_module *m, const int64_t *elements, int64_t n, const char *name);
/* A node appended to g, or put before `before` unless that is NULL. Arrays are copied. `outputs` NULL: the outputs are
 * new values. Attributes get the defaults of the operator's row. */
ir_node *ir_node_new(ir_graph *g, ir_node *before, const reed_op *op, const char *name, ir_value *const *inputs,
                     int32_t n_inputs, ir_value *const *outputs, int32_t n_outputs);
/* The node after n in its graph, dead or not; NULL: n is the last. */
ir_node *ir_next(const ir_node *n);
/* Attribute access: set replaces. Arrays and texts are copied. false: no memory. */
bool ir_set_attr(ir_node *n, const reed_attr *attr);
bool ir_set_attr_int(ir_node *n, const char *name, int64_t value);
bool ir_set_attr_float(ir_node *n, const char *name, double value);
bool ir_set_attr_string(ir_node *n, const char *name, const char *value);
bool ir_set_attr_ints(ir_node *n, const char *name, const int64_t *values, int64_t n_values);
reed_attrs ir_attrs(const ir_node *n);
/* Resets the attribute to the default of the operator's row; without a default the attribute is removed. False: no
 * memory. */
bool ir_drop_attr(ir_node *n, const char *name);
/* Gives the node another operator and the default attributes of its row. False: no memory. */
bool ir_set_op(ir_node *n, const reed_op *op);
/* For the importer, which upgrades older forms and must tell an omitted attribute from one with the default.
 * ir_clear_attrs removes all attributes; ir_complete_attrs adds the defaults of the row for attributes not set since.
 */
void ir_clear_attrs(ir_node *n);
bool ir_complete_attrs(ir_node *n);

/* The node as a call that a target's capability list can be asked about; `dtypes`: room for all operands. */
capability_call ir_call(const ir_node *n, const reed_attrs *attrs, reed_dtype *dtypes);

static inline bool ir_is_constant(const ir_value *v) { return v && v->data; }
/* The descriptor of a value whose dims are all numbers. False: a dim, the rank or the dtype is unknown. */
bool ir_desc(const ir_value *v, reed_desc *out_desc);

/* True when a and b have equal extents and one dtype. Declared names are believed, and the program checks them when it
 * runs: a caller that then changes nothing takes the assumptions back (pass_try_each). */
bool ir_same_type(const ir_module *m, const ir_value *a, const ir_value *b);
/* As ir_same_type, without believing names: for changes that save too little to refuse a model whose names are untrue.
 */
bool ir_proven_same_type(const ir_module *m, const ir_value *a, const ir_value *b);
/* True when a and b have equal extents if declared names are true: for choices that change no result. */
bool ir_likely_same_dims(const ir_module *m, const ir_value *a, const ir_value *b);

/* Replacement of many values: ir_forward notes one replacement (chains are allowed, cycles are not), and ir_settle
 * rewrites all uses in one walk. Between the two, ir_resolve gives the value that replaces v (v itself without a
 * replacement; NULL for NULL). */
void ir_forward(ir_value *from, ir_value *to);
ir_value *ir_resolve(ir_value *v);
void ir_settle(ir_module *m);
/* Adds a parameter or result at the end; false: no memory. */
bool ir_add_param(ir_graph *g, ir_value *v);
bool ir_add_result(ir_graph *g, ir_value *v);
/* Adds an input at the end; false: no memory. */
bool ir_add_input(ir_node *n, ir_value *v);
/* Recounts n_uses of every value. Graph results count. */
void ir_count_uses(ir_module *m);
/* Removes nodes marked dead from the lists. */
void ir_sweep(ir_module *m);
/* ERROR_CANCELLED if the compilation was asked to end. Called at every node that a walk visits, and by long work at one
 * node or tensor for every CANCEL_BYTES or CANCEL_ELEMENTS. */
reed_status ir_check_cancel(const ir_module *m) REED_MUST_CHECK;
/* Calls visit(context, node) for every live node of g in order, bodies of regions after their node when deep. Stops at
 * the first failure. */
reed_status ir_walk(ir_graph *g, bool deep, reed_status (*visit)(void *context, ir_node *n),
                    void *context) REED_MUST_CHECK;
/* The graph as readable text (for --report and tests). */
void ir_print(const ir_module *m, text_buffer *out);

#endif
