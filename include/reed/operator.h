/* The description of an operator: its inputs with the parts that its shape function reads, its outputs, its attributes,
 * its shape function, and its kernels. Reed's own operators (ops/op.def) and a program's custom operators are the same
 * struct; a custom operator is registered in a `reed_registry`, and the program gives this registry to the compiler and
 * to reed_program_open. */
#ifndef REED_OPERATOR_H_
#define REED_OPERATOR_H_

#include <stdbool.h>

#include "reed/dtype.h"
#include "reed/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define REED_MAX_RANK 8
#define REED_MAX_OPERANDS 512 /* inputs or outputs of one operator call */

/* ---- tensors ----
 * The dtype and extents of an operand, for shape functions and kernels. */

/* Dtype and extents of a dense row-major tensor. dtype REED_NONE: the optional operand is absent. */
typedef struct reed_desc {
  reed_dtype dtype;
  int32_t rank;
  int64_t dims[REED_MAX_RANK];
} reed_desc;

/* ---- extents ----
 * Numbers while a program runs, numbers or symbols while a model is compiled. */

/* An extent or an integer value. While a program runs a reed_dim is a plain int64. While a model is compiled a reed_dim
 * may also name a symbol (an expression over the model's symbolic dims). A shape function computes with the functions
 * below, so that the same code serves both. These functions are checked: overflow and a negative extent are diagnosed,
 * never wrapped. */
typedef int64_t reed_dim;

typedef struct reed_shape_call reed_shape_call;

/* In the functions below `call` may be NULL: the dims are then plain numbers, and overflow gives 0 without a diagnosis.
 */
/* True for a number, false for a symbol. At run time always true. */
REED_API bool reed_dim_known(const reed_shape_call *call, reed_dim a);
/* A new symbol, equal to no other: "some extent". Compile time only: at run time the function fails the call, because a
 * correct shape function never asks for an unknown extent then. */
REED_API reed_dim reed_dim_fresh(reed_shape_call *call);
REED_API reed_dim reed_dim_add(reed_shape_call *call, reed_dim a, reed_dim b);
REED_API reed_dim reed_dim_sub(reed_shape_call *call, reed_dim a, reed_dim b);
REED_API reed_dim reed_dim_mul(reed_shape_call *call, reed_dim a, reed_dim b);
REED_API reed_dim reed_dim_floordiv(reed_shape_call *call, reed_dim a, reed_dim b); /* towards minus infinity; b > 0 */
REED_API reed_dim reed_dim_ceildiv(reed_shape_call *call, reed_dim a, reed_dim b);
REED_API reed_dim reed_dim_min(reed_shape_call *call, reed_dim a, reed_dim b);
REED_API reed_dim reed_dim_max(reed_shape_call *call, reed_dim a, reed_dim b);
/* True for dims that are provably equal: the same number or the same normal form. */
REED_API bool reed_dim_equal(const reed_shape_call *call, reed_dim a, reed_dim b);

/* ---- attributes ----
 * The attributes of one call of an operator. */

typedef enum reed_attr_type {
  REED_ATTR_INT = 1,
  REED_ATTR_FLOAT,
  REED_ATTR_STRING, /* a list of strings in ONNX is one string, joined by commas */
  REED_ATTR_INTS,
  REED_ATTR_FLOATS,
  REED_ATTR_TENSOR /* `n` elements described by `desc` at `data` */
} reed_attr_type;

/* One attribute of a kernel's or shape function's call; strings and arrays are borrowed and live as long as the call
 * site. */
typedef struct reed_attr {
  const char *name;
  reed_attr_type type;
  int64_t i;
  double f;
  const char *s;        /* NUL terminated */
  const int64_t *ints;  /* n of them */
  const double *floats; /* n of them */
  int64_t n;
  reed_desc desc;
  const void *data;
} reed_attr;

typedef struct reed_attrs {
  const reed_attr *items; /* sorted by name */
  int32_t n;
} reed_attrs;

/* The attribute with this name; NULL for an attribute that neither the call site nor the operator's row gives. Calls of
 * shape functions and kernels get their attributes completed from the row (reed_op_attr.otherwise), so the argument
 * `otherwise` of the functions below is for attributes whose row has no value. */
REED_API const reed_attr *reed_attrs_find(const reed_attrs *attrs, const char *name);
REED_API int64_t reed_attrs_int(const reed_attrs *attrs, const char *name, int64_t otherwise);
REED_API double reed_attrs_float(const reed_attrs *attrs, const char *name, double otherwise);
REED_API const char *reed_attrs_string(const reed_attrs *attrs, const char *name, const char *otherwise);
/* The integers and their number; NULL and 0 for an absent attribute. */
REED_API const int64_t *reed_attrs_ints(const reed_attrs *attrs, const char *name, int64_t *out_n);

/* ---- shape functions ----
 * The call of a shape function, and helpers for its author. */

/* The part of an input that a shape function reads. */
typedef enum reed_reads {
  REED_READS_NONE = 0,  /* the dtype only */
  REED_READS_SHAPE = 1, /* rank and extents */
  REED_READS_VALUE = 2, /* rank, extents and elements: the elements are on the host before the shape function runs */
  REED_READS_BOTH = 3   /* the same as REED_READS_VALUE, because elements have no meaning without their extents: custom
                           operators may use it, Reed's own rows do not */
} reed_reads;

typedef struct reed_shape_input {
  reed_dtype dtype;     /* REED_NONE: absent */
  int32_t rank;         /* valid unless dtype is REED_NONE */
  const reed_dim *dims; /* `rank` extents */
  const void *data; /* a `value` input whose elements are all known numbers: n_values elements of dtype, on the host;
                       NULL for any other input */
  const reed_dim
      *values;      /* compile time only: n_values integer elements, numbers or symbols; NULL if `data` is not NULL */
  int64_t n_values; /* number of elements; 0 for an input whose value the row does not declare as read */
} reed_shape_input;

typedef struct reed_shape_output {
  reed_dtype dtype; /* set by the output's type_rule before the call; a shape function may overwrite it */
  int32_t rank;
  reed_dim dims[REED_MAX_RANK];
  int32_t bounded_axis; /* -1: all extents are exact. Otherwise dims[bounded_axis] is an upper bound, and the kernel
                           reports the true extent */
} reed_shape_output;

struct reed_op;
struct reed_symbols;

struct reed_shape_call {
  const struct reed_op *op;
  const reed_attrs *attrs;
  const char *node; /* ONNX node name, for messages; never NULL */
  int32_t n_inputs, n_outputs;
  const reed_shape_input *inputs;
  reed_shape_output *outputs;
  struct reed_symbols *symbols; /* NULL at run time */
  reed_diagnosis *diagnosis;
  reed_status status; /* the first arithmetic failure; the library checks it after the shape function has returned */
};

/* Reads the call's inputs (only the parts that the operator's row declares) and fills rank, dims and bounded_axis of
 * every output. On failure returns the status of reed_shape_fail. */
typedef reed_status (*reed_shape_fn)(reed_shape_call *call);

/* Element k of a `value` input as an integer (any integer dtype or bool), number or symbol. */
REED_API reed_dim reed_shape_value(reed_shape_call *call, int32_t input, int64_t k);
/* Element k of a `value` input as a double; false for an unknown element (compile time only). */
REED_API bool reed_shape_value_f64(reed_shape_call *call, int32_t input, int64_t k, double *out_value);
/* Diagnoses "<Op> node '<node>': <text>" with all shapes; sets and returns call->status. input: at fault; -1: none. */
REED_API reed_status reed_shape_fail(reed_shape_call *call, reed_status status, int32_t input, const char *format, ...)
    REED_PRINTF(4, 5);

/* ---- kernels ----
 * Preparing a kernel for a call, and running it. */

struct reed_kernel_env; /* threads, CPU features, cache of packed weights: private to the devices (ops/kernel.h) */

/* Room: the extent and the capacity of a tensor along one axis. The memory may hold more elements along this axis than
 * the extent, as for a cache that grows in place. The extent itself may be known on the device only, as for a bounded
 * result whose count the host has not read back.
 *
 *   counted      the extent is on the device: the number in reed_kernel_buffers.input_extents times `factor`. The
 *                descriptor has the bound, the memory holds as many elements as the bound, and the elements lie dense
 *                for the true extent
 *   not counted  the descriptor has the extent; the strides of the axes before `axis` are computed with `capacity`. A
 *                tensor [2,3,5,8] with room for 64 along axis 2 has the strides 1536, 512, 8, 1
 *
 * Operands of a call with equal numbers in `counted` have one extent. If no input has an output's number, the kernel
 * reports the output's extent (reed_kernel_buffers.extents). */
typedef struct reed_room {
  int32_t axis;     /* -1: the tensor is dense and has no such axis */
  uint32_t factor;  /* counted: of the extent; 0 means 1 */
  int64_t capacity; /* elements along `axis` that fit in the memory: at least the descriptor's extent */
  uint16_t counted; /* 0: not counted; else the number of the count in this call, from 1 on */
} reed_room;

typedef struct reed_kernel_call {
  const struct reed_op *op;
  const reed_attrs *attrs;
  const char *node;
  int32_t n_inputs, n_outputs;
  const reed_desc *inputs;  /* dtype REED_NONE: absent */
  const reed_desc *outputs; /* a bounded output has its bound */
  const void *const
      *host_values;     /* per input: its elements on the host for `value` inputs and for constants; NULL for others */
  const bool *constant; /* per input: host_values are a constant of the module and outlive the prepared kernel */
  struct reed_kernel_env *env;
  reed_diagnosis *diagnosis;
  /* Per operand; NULL: no operand has room. The host's kernels get no counted rooms, because they are prepared for the
   * true extents. A kernel that reads and writes all operands with the strides of their rooms says so
   * (reed_kernel.reads_rooms); for any other kernel the inputs with room are copied first. Only operators that join new
   * rows to a cache get output_rooms. */
  const reed_room *input_rooms, *output_rooms;
} reed_kernel_call;

/* A fault that shows only in the data, as numbers, because a kernel on an accelerator can write no text. The host makes
 * the sentence from the record, the operator and the node after the launch (ops/fault.def: one sentence a code), so the
 * sentence is the same on every device. */
typedef struct reed_fault {
  int32_t code;    /* reed_fault_code; 0: none */
  int32_t operand; /* the input at fault; -1: no particular input */
  int64_t element; /* index of the element in this input, or of the sequence, region or map that the code names */
  int64_t value;   /* the offending number; a real number as the bits of a double */
  int64_t limit;   /* the number that `value` was compared with, in the same form unless the code says another */
} reed_fault;

/* The numbers are part of the device contract, so new codes go to the end. */
typedef enum reed_fault_code {
  REED_FAULT_NONE = 0,
  REED_FAULT_INDEX,            /* value is outside -limit..limit-1 */
  REED_FAULT_INDEX_OF_NOTHING, /* value indexes an axis of extent 0 */
  REED_FAULT_AXIS,             /* value is outside -limit..limit-1 */
  REED_FAULT_DIVISION,         /* integer division by 0; `element` is the divisor's, -1: not known */
  REED_FAULT_LENGTH,           /* sequence `element` has length `value`, outside 0..limit */
  REED_FAULT_IMAGE,            /* region `element` is of image `value`, but there are only `limit` images */
  REED_FAULT_MAP_SIZE,  /* map `element` cannot be resized to `value` rows and `limit` columns (both real numbers) */
  REED_FAULT_TRAINING,  /* a dropout ratio `value` above 0 (a real number) while training */
  REED_FAULT_FORMULA,   /* no formula for dtype `value` */
  REED_FAULT_LIBRARY,   /* a library that the kernel calls failed; value: the reed_status */
  REED_FAULT_ROW,       /* batch `element` names row `value`, outside 0..limit-1 */
  REED_FAULT_NEGATIVE,  /* value is below 0, where any other number would do */
  REED_FAULT_IMAGE_REAL /* as IMAGE, where `value` is a real number and `limit` a whole one */
} reed_fault_code;

typedef struct reed_kernel_buffers {
  const void *const *inputs; /* device memory; NULL for absent inputs; zero-size tensors may be NULL */
  void *const *outputs;
  void *workspace;  /* workspace_bytes, 64-byte aligned; contents undefined */
  int64_t *extents; /* per output that is bounded or whose extent the kernel reports: the kernel writes the true extent
                       here */
  reed_diagnosis
      *diagnosis;    /* for host kernels of custom operators, which may build a sentence of their own. NULL allowed */
  reed_fault *fault; /* code 0 before the launch; reed_kernel_fault fills it. NULL allowed */
  const int64_t *const
      *input_extents; /* per input with a counted room: a factor of its true extent, in device memory; NULL for
                         other inputs. The array itself is NULL if no input has a counted room */
} reed_kernel_buffers;

/* Records the fault unless an earlier one is recorded, and returns the code's status; `run` returns this status. Not
 * thread-safe: one thread at a time. */
REED_API reed_status reed_kernel_fault(const reed_kernel_buffers *buffers, reed_fault_code code, int32_t operand,
                                       int64_t element, int64_t value, int64_t limit);

/* Computes the outputs. A run allocates nothing and chooses no algorithm: `prepare` has done both. Data of a bounded
 * output is written dense for its true extent. */
typedef reed_status (*reed_kernel_run_fn)(const void *state, const reed_kernel_buffers *buffers);

/* A kernel prepared for one key: exact dtypes, extents and host values. */
typedef struct reed_kernel {
  reed_kernel_run_fn run;
  void *state;               /* owned; NULL allowed */
  void (*free)(void *state); /* NULL: the state needs no release */
  int64_t workspace_bytes;
  int64_t state_bytes; /* approximate memory that the prepared kernel holds; 0: little. Sessions keep prepared kernels
                          up to a limit of bytes */
  const int64_t *part_at; /* REED_ALIAS_PART: per output the byte offset in input 0 at which the output's elements lie
                             contiguously, or -1 for an output that is no contiguous part. Lives as long as `state`;
                             NULL: no output is such a part */
  bool reads_rooms;       /* the kernel uses the strides of the call's rooms that are not counted. false: it takes every
                             operand for dense */
  int64_t dense_bytes;    /* of the copies that the library makes in each run, because reads_rooms is false; set by the
                             library */
  const char *variant;    /* the algorithm, for reports, such as "winograd 4x4"; lives as long as `state`. NULL: the
                             operator's usual one */
  bool apart;             /* output 0 must not lie over an input, although the operator's REED_ALIAS_INPLACE... allows
                             it */
} reed_kernel;

/* Picks the algorithm and builds the state for `run`. On failure *out_kernel stays zero. Callable from any thread. */
typedef reed_status (*reed_kernel_prepare_fn)(const reed_kernel_call *call, reed_kernel *out_kernel);

/* Diagnoses "<Op> node '<node>': <text>" and returns status. For `prepare` functions. */
REED_API reed_status reed_kernel_fail(const reed_kernel_call *call, reed_status status, const char *format, ...)
    REED_PRINTF(3, 4);

/* ---- the operator ----
 * Its declaration: inputs, outputs, attributes, properties, functions. */

/* Sets of dtypes, one bit each: 1u << REED_F32 ... */
typedef uint32_t reed_dtype_set;

typedef struct reed_op_input {
  const char *name;
  reed_reads reads;
  reed_dtype_set dtypes;
  bool optional;                       /* may be absent */
  bool variadic;                       /* last input only: any number of inputs, at least one unless optional */
  bool same_type;                      /* must have the dtype of input 0 */
  const char *reads_attr, *reads_word; /* not NULL: `reads` holds only for calls whose string attribute `reads_attr` has
                                          the value `reads_word`; other calls have REED_READS_NONE */
} reed_op_input;

/* The rule that gives an output's dtype. */
typedef enum reed_type_rule {
  REED_TYPE_LIKE,   /* the dtype of input `type_arg` */
  REED_TYPE_FIXED,  /* dtype number `type_arg` */
  REED_TYPE_CUSTOM, /* the shape function sets it */
  REED_TYPE_ATTR    /* attribute `type_attr`: a dtype number (an int), or the dtype of a tensor; a call without this
                       attribute has the dtype of input `type_arg` */
} reed_type_rule;

typedef struct reed_op_output {
  const char *name;
  bool bounded; /* one extent may be an upper bound; false: all extents are exact */
  bool variadic;
  bool optional;
  reed_type_rule type_rule;
  int32_t type_arg;
  const char *type_attr; /* REED_TYPE_ATTR */
} reed_op_output;

typedef struct reed_op_attr {
  const char *name;
  reed_attr_type type;
  bool required;
  const reed_attr
      *otherwise; /* the value for a call site that does not give the attribute (name and type are the row's, the other
                     fields count); NULL: the attribute is then absent. A required attribute has none */
  /* Valid values, checked before every call of the shape function. Zeros: any value is valid. */
  const char *words;   /* STRING: the valid words, with blanks between them */
  int64_t least, most; /* INT, INTS, FLOAT: the valid numbers; most INT64_MAX: no upper limit */
  /* INTS with a number for each axis, such as strides: an absent list means this number for each axis. The compiler
   * drops a list of nothing else once the shape function has accepted it. NULL: absence means something else. */
  const int64_t *each;
} reed_op_attr;

/* Bits of reed_op.properties. */
typedef enum reed_op_property {
  REED_OP_EXTENTS_ONLY = 1, /* the kernel reads its inputs' extents and none of their elements: the inputs may lie on
                               any device and need no memory */
  REED_OP_ANY_RANK =
      2 /* the shape function accepts inputs of unknown rank (-1), which occur while a model is compiled. For an
           operator without this bit all outputs are unknown then, and the shape function is not called */
} reed_op_property;

/* How outputs may share storage with inputs. */
typedef enum reed_alias {
  REED_ALIAS_NONE,
  REED_ALIAS_INPLACE,       /* the kernel may write output 0 over any input of its dtype and number of elements */
  REED_ALIAS_INPLACE_FIRST, /* the kernel may write output 0 over input 0, but over no other input */
  REED_ALIAS_VIEW,          /* output 0 is input 0 with other extents: no kernel runs */
  REED_ALIAS_JOIN, /* output 0 is the concatenation of the inputs along attribute `axis`. If all extents before the axis
                      are 1, an input may already lie at its place in the output; the kernel does not copy such an input
                    */
  REED_ALIAS_PART, /* the outputs are parts of input 0. An output that is a contiguous part (reed_kernel.part_at) may
                      lie inside input 0; the kernel does not copy such an output */
  REED_ALIAS_INPLACE_LAST /* the kernel may write output 0 over the last input that the operator declares, but over no
                             other input */
} reed_alias;

/* A custom operator's kernel for devices of one name ("sim", "cuda"). prepare NULL: the operator has no kernel on these
 * devices, even if they could run its host kernel `cpu`. */
typedef struct reed_op_kernel {
  const char *device;
  reed_kernel_prepare_fn prepare;
} reed_op_kernel;

typedef struct reed_op {
  const char *domain; /* "" for ai.onnx */
  const char *name;
  const reed_op_input *inputs;
  int32_t n_inputs;
  const reed_op_output *outputs;
  int32_t n_outputs;
  const reed_op_attr *attrs;
  int32_t n_attrs;
  reed_shape_fn shape; /* NULL in Reed's own rows: their shape functions are in a table of shapefuncs/ */
  reed_alias alias;
  bool light;  /* cheap per element: the compiler may place it on the host if only shapes need its result */
  bool impure; /* never folded, shared or removed, but with a whole If or Loop none of whose results is used */
  reed_kernel_prepare_fn cpu; /* the host's kernel; NULL: none */
  uint32_t properties;        /* of reed_op_property */
  /* Kernels for other devices, n_kernels of them (0 and NULL: none). A device that is not named here runs `cpu` if it
   * can run host code (sim); otherwise it has no kernel for the operator, and the compiler places the operator on the
   * host. */
  const reed_op_kernel *kernels;
  int32_t n_kernels;
} reed_op;

/* The declaration of input or output i; the last declaration, if variadic, serves all operands from its place on. NULL
 * past the end. */
REED_API const reed_op_input *reed_op_input_at(const reed_op *op, int32_t i);
REED_API const reed_op_output *reed_op_output_at(const reed_op *op, int32_t i);

/* ---- the registry ----
 * The custom operators of a program. */

typedef struct reed_registry reed_registry;

REED_API REED_MUST_CHECK reed_status reed_registry_open(reed_registry **out_registry);
REED_API void reed_registry_close(reed_registry **registry);
/* Borrows `op` (it must outlive the registry). ERROR_ARGUMENT for an incomplete struct or a name already taken. */
REED_API REED_MUST_CHECK reed_status reed_registry_add(reed_registry *registry, const reed_op *op,
                                                       reed_diagnosis *diagnosis);
/* Loads a shared object and calls its `reed_status reed_plugin_register(reed_registry *, reed_diagnosis *)`. */
REED_API REED_MUST_CHECK reed_status reed_registry_load(reed_registry *registry, const char *path,
                                                        reed_diagnosis *diagnosis);

#ifdef __cplusplus
}
#endif
#endif
