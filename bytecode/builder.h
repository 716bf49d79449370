/* The struct of the module builder, which builder.c fills and finish.c lays out. The builder's functions: module.h. */
#ifndef BYTECODE_BUILDER_H_
#define BYTECODE_BUILDER_H_

#include "base/table.h"
#include "base/vec.h"
#include "bytecode/module.h"

typedef struct built_function {
  module_function f; /* the builder owns its lists */
  VEC_OF(uint32_t) code;
  VEC_OF(module_debug) debug;
  bool begun, ended;
} built_function;

typedef struct label {
  uint32_t function, pc;
  bool bound;
} label;
typedef struct fixup {
  uint32_t label, word;
} fixup;

#define NO_FUNCTION UINT32_MAX
struct module_builder {
  reed_status status;
  char message[256];
  table string_table, type_table, constant_table;
  VEC_OF(const char *) strings; /* owned */
  VEC_OF(module_type) types;
  VEC_OF(module_constant) constants;
  VEC_OF(bool) owned; /* per constant: the builder owns its data */
  VEC_OF(module_site) sites;
  VEC_OF(built_function) functions;
  VEC_OF(label) labels;
  VEC_OF(fixup) fixups; /* of the function in progress */
  uint32_t *inputs, *outputs;
  VEC_OF(module_range) ranges;
  uint32_t n_inputs, n_outputs;
  uint32_t model_name, producer, producer_version, target;
  int32_t n_devices;
  uint32_t function; /* the function in progress, or NO_FUNCTION */
  /* the instruction in progress (-1: none), and the number of its operands so far */
  int insn, operand;
  uint32_t insn_pc;
};

/* Keeps the first failure, a misuse or no memory; module_builder_finish returns it. */
void builder_misuse(module_builder *b, const char *format, ...) REED_PRINTF(2, 3);
void builder_no_memory(module_builder *b);

#endif
