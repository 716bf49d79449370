/* A module in memory: built by the assembler and the compiler, written by the writer, opened by the loader.
 * Instructions: insn.h.
 *
 * A loaded module borrows strings, code and constants from the file's bytes and is closed with module_close
 * (loader/loader.h). The struct is read-only to the rest of Reed. The file format is described in docs/module.md. */
#ifndef BYTECODE_MODULE_H_
#define BYTECODE_MODULE_H_

#include <stdbool.h>

#include "base/desc.h"
#include "base/diag.h"
#include "reed/compiler.h" /* reed_module_sink */
#include "reed/operator.h"

#define MODULE_MAX_DEVICES 16

/* Register and index limits of the encoding. */
#define MODULE_MAX_REGISTERS (1 << 20)
#define MODULE_ABSENT 0xffffffu /* register number of an absent optional operand */

/* The type of a parameter, result or assertion. object: ADT, closure, sequence, or a value of any kind. */
typedef struct module_type {
  bool object;
  reed_dtype dtype;            /* REED_NONE: any */
  int32_t rank;                /* -1: any */
  int64_t dims[REED_MAX_RANK]; /* >= 0 fixed; < 0: symbol, string index ~dims[i] (an empty string: unknown) */
  uint32_t name;               /* string: a name for messages, such as the name of the model's input */
  int32_t device;              /* module device of a parameter of this type */
} module_type;

typedef struct module_function {
  uint32_t name;                /* string */
  uint32_t code_offset, n_code; /* words in the code section */
  uint32_t n_r, n_s;            /* registers */
  uint32_t n_r_params, n_s_params, n_r_results, n_s_results;
  const uint32_t *param_types;  /* n_r_params type indices */
  const uint32_t *result_types; /* n_r_results type indices */
} module_function;

/* A call site, named by `shape` and `invoke`: an operator with its attributes and node name. */
typedef struct module_site {
  uint32_t domain, op; /* strings */
  uint32_t node;       /* string: the ONNX node's name */
  reed_attrs attrs;
  int32_t n_inputs, n_outputs;
  const uint8_t *dtypes; /* of its inputs, then its outputs; REED_NONE: absent or not known. NULL: none is known */
} module_site;

/* Makes the part of a constant's elements that begins at byte `at`, and returns its number of bytes, which is more than
 * 0. elements NULL: only returns the number. Parts are some megabytes at most where the order of the elements allows.
 */
typedef size_t module_make(const void *data, size_t at, void *elements);

typedef struct module_constant {
  reed_desc desc;
  const void *data;  /* 64-byte aligned, desc_bytes long */
  uint32_t name;     /* string */
  module_make *make; /* in the builder: makes the elements from `data`, part by part, when the module is written; NULL:
                        `data` holds the elements */
} module_constant;

/* A declared range of a dim of an input, checked when a run begins; in the file's layout. Sorted by input and axis;
 * dims of one name have one range. */
typedef struct module_range {
  uint32_t input, axis;
  uint32_t name; /* string: the dim's name in the model */
  uint32_t reserved;
  int64_t low, high; /* both included; high REED_UNBOUNDED: no upper bound */
} module_range;

typedef struct module_epoch {
  uint32_t function;
  uint32_t enter, plan, end; /* word offsets in the function's code */
} module_epoch;

/* The ONNX node from which the instruction at `pc` of `function` came. Sorted by function and pc. */
typedef struct module_debug {
  uint32_t function, pc, node; /* node: string */
} module_debug;

typedef struct module {
  uint16_t minor;       /* version of the format */
  const char **strings; /* n_strings texts */
  size_t n_strings;
  module_type *types;
  size_t n_types;
  module_function *functions; /* function 0 is main */
  size_t n_functions;
  const uint32_t *code;
  size_t n_code;
  module_site *sites;
  size_t n_sites;
  const reed_op **site_ops; /* loaded modules, per site: the declaration of its operator */
  module_constant *constants;
  size_t n_constants;
  module_epoch *epochs;
  size_t n_epochs;
  bool *epochs_shaped; /* loaded modules, per epoch: the verifier has proved rule V56 */
  module_debug *debug;
  size_t n_debug;
  /* Numbers of the types of the model's inputs and outputs, which hold their names; as many as main's parameters and
   * results. */
  uint32_t *inputs, *outputs;
  const module_range *ranges; /* borrowed */
  size_t n_ranges;
  const char *model_name, *producer, *producer_version;
  const char *target; /* the list of capabilities for which the module was compiled (ops/capability.h); "": not known */
  int32_t n_devices;  /* 1: host only; n: n - 1 accelerators, at most MODULE_MAX_DEVICES */
  void *owner;        /* the memory of strings, code and constants; released by module_close */
} module;

/* ---- building (compiler, assembler) ---- */

typedef struct module_builder module_builder;
reed_status module_builder_open(module_builder **out_builder) REED_MUST_CHECK;
void module_builder_close(module_builder **builder);
/* Each function of the form module_add_x returns the item's number. Equal strings, types and constants are added once.
 * Data and text are copied unless the function borrows them. Failures are kept in the builder until
 * module_builder_finish. */
uint32_t module_add_string(module_builder *b, const char *text);
uint32_t module_add_type(module_builder *b, const module_type *type);
/* borrow: `data` is borrowed until module_builder_finish. */
uint32_t module_add_constant(module_builder *b, const reed_desc *desc, const void *data, const char *name, bool borrow);
/* Adds a constant whose elements `make` makes from `data` when the module is written; `data` is borrowed until then. A
 * second equal constant is added as well. */
uint32_t module_add_made_constant(module_builder *b, const reed_desc *desc, module_make *make, const void *data,
                                  const char *name);
uint32_t module_add_site(module_builder *b, const char *domain, const char *op, const char *node,
                         const reed_attr *attrs, int32_t n_attrs, int32_t n_inputs, int32_t n_outputs);
/* Dtypes of the site's operands, inputs first. Opening a session compares them with the device's list of capabilities.
 */
void module_set_site_dtypes(module_builder *b, uint32_t site, const reed_dtype *dtypes);
/* A function is declared first (its signature), because calls name it; then its code is emitted between
 * module_begin_function and module_end_function. */
uint32_t module_declare_function(module_builder *b, const char *name, const uint32_t *param_types, uint32_t n_r_params,
                                 uint32_t n_s_params, const uint32_t *result_types, uint32_t n_r_results,
                                 uint32_t n_s_results);
void module_begin_function(module_builder *b, uint32_t function);
void module_end_function(module_builder *b, uint32_t n_r, uint32_t n_s);
void module_set_io(module_builder *b, const uint32_t *input_types, uint32_t n_inputs, const uint32_t *output_types,
                   uint32_t n_outputs);
void module_set_names(module_builder *b, const char *model_name, const char *producer, const char *producer_version,
                      int32_t n_devices);
void module_set_target(module_builder *b, const char *target);
/* Ranges are added in the order of input and axis. */
void module_add_range(module_builder *b, const module_range *range);

/* Emission of one instruction: emit_begin, one call per operand in the order of insn.def, emit_end. Whole instructions
 * with operands by name: bytecode/emit.h. */
void emit_begin(module_builder *b, int insn /* INSN_... */, const char *node /* debug: ONNX node name or NULL */);
void emit_u32(module_builder *b, uint32_t operand); /* register, index, label, device, reason ... */
void emit_i64(module_builder *b, int64_t operand);
void emit_list(module_builder *b, const uint32_t *items, uint32_t n);
void emit_end(module_builder *b);
uint32_t emit_new_label(module_builder *b);
void emit_bind_label(module_builder *b, uint32_t label); /* at the next instruction */

/* The finished module as the bytes of its file, which the caller frees with mem_free. All labels must be bound. Returns
 * the builder's first failure. */
reed_status module_builder_finish(module_builder *b, void **out_bytes, size_t *out_n_bytes,
                                  reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Writes the same bytes into a sink. */
reed_status module_builder_finish_to(module_builder *b, const reed_module_sink *sink,
                                     reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* A sink that keeps the bytes in memory. The caller frees `bytes` with mem_free. */
typedef struct module_memory {
  char *bytes;
  size_t n, capacity;
} module_memory;
reed_module_sink module_memory_sink(module_memory *memory);

/* The reasons of copies (role REASON). */
#define COPY_REASON_LIST(X) \
  X(VALUE, "value") \
  X(EXTENT, "extent") X(INPUT, "input") X(OUTPUT, "output") X(CONSTANT, "constant") X(PLACEMENT, "placement")
typedef enum copy_reason {
#define COPY_REASON_ENUM_(name, text) COPY_REASON_##name,
  COPY_REASON_LIST(COPY_REASON_ENUM_)
#undef COPY_REASON_ENUM_
      COPY_REASON_COUNT
} copy_reason;

#endif
