/* The facts of a site: the attributes that its calls read, read once when a program is opened. To read an attribute is
 * a search in a list that the CPU's caches do not have when a size is new. A call without facts reads its attributes;
 * the results are the same. */
#ifndef OPS_FACTS_H_
#define OPS_FACTS_H_

#include "ops/fused.h"
#include "ops/kernel.h"
#include "ops/packed.h"

#define FACTS_AXES (REED_MAX_RANK - 2)

/* The places of auto_pad's words in the operators' rows. */
enum { FACTS_PAD_NOTSET, FACTS_PAD_SAME_UPPER, FACTS_PAD_SAME_LOWER, FACTS_PAD_VALID };

/* A Conv with packed weights, whose images have their channels last. */
typedef struct op_conv_facts {
  packed_order order; /* of weights of f32, of bf16 if in pairs (op_conv_order) */
  int64_t n_packed;   /* elements of the packed weights */
  bool first_input;   /* but X has them second */
  bool shared;        /* the weights are read at several extents (SHARED_WEIGHTS_ATTR) */
  int32_t n_axes, auto_pad;
  int32_t activation; /* the place of its word + 1; 0: none */
  int64_t group, strides[FACTS_AXES], dilations[FACTS_AXES], pads[2 * FACTS_AXES];
  double alpha, beta;
  reed_attrs seen; /* the attributes of the call that ONNX defines: plain weights, channels second */
} op_conv_facts;

typedef struct op_facts {
  const reed_op *ops;  /* the first built-in operator of the copy of ops/ whose operators these facts name */
  size_t bytes;        /* of the block that has all of the facts */
  reed_dtype output;   /* of output 0, if an attribute gives it; else REED_NONE */
  op_conv_facts *conv; /* NULL: no Conv with packed weights */
  fused_program
      *program; /* of a Fused or FusedColumns call of 1 to FUSED_INPUTS inputs (op_facts_program); NULL: none */
} op_facts;

/* The facts of a program's sites: those of the list of attributes that begins with items[k] are of[k], which may be
 * NULL. */
typedef struct op_facts_list {
  const reed_attr *items; /* of all sites, n of them; borrowed */
  size_t n;
  op_facts **of;
} op_facts_list;

/* Reads the facts of a site whose completed attributes are in the list, and have values that fit the operator's row.
 * False: no memory. An operator without facts, or attributes that give none, is no error. */
bool op_facts_list_open(const reed_attr *items, size_t n, op_facts_list *out_list) REED_MUST_CHECK;
bool op_facts_list_add(op_facts_list *list, const reed_op *op, const reed_attrs *attrs) REED_MUST_CHECK;
void op_facts_list_close(op_facts_list *list);
/* The list's facts of a site with these attributes; NULL: none. */
static inline const op_facts *op_facts_find(const op_facts_list *list, const reed_attrs *attrs) {
  if (!list || !attrs->n || attrs->items < list->items || attrs->items >= list->items + list->n) return NULL;
  return list->of[attrs->items - list->items];
}

/* As op_output_dtype for output 0. */
static inline reed_dtype op_facts_dtype(const op_facts *f, const reed_op *op, int32_t n_inputs,
                                        const reed_dtype *inputs) {
  const int32_t like = op->outputs[0].type_arg;
  return f->output != REED_NONE ? f->output : like < n_inputs ? inputs[like] : REED_NONE;
}

/* A program's facts are found by its kernels through the cache, which borrows the list. */
void kernel_cache_set_facts(kernel_cache *cache, const op_facts_list *list);
const op_facts_list *kernel_cache_facts(const kernel_cache *cache);
/* The facts of a kernel's call; NULL: none, or those of another copy of ops/: a device's module has its own. */
static inline const op_facts *op_facts_of(const reed_kernel_call *call) {
  const op_facts *f =
      call->env && call->env->cache ? op_facts_find(kernel_cache_facts(call->env->cache), call->attrs) : NULL;
  return f && f->ops == op_builtin((op_id)0) ? f : NULL;
}

/* The order of packed weights, as packed_order_read; false if they are not of this order. */
bool op_conv_order(const op_conv_facts *facts, const reed_desc *packed, packed_order *out_order);
/* The program, if a call of n_inputs may have it: its operands are inputs or results of earlier steps; else NULL. */
const fused_program *op_facts_program(const op_facts *facts, int32_t n_inputs);

#endif
