/* The compiler's back half: from a graph to bytecode. The front half, from ONNX to a graph, is compiler/onnx/onnx.h. */
#ifndef COMPILER_LOWER_LOWER_H_
#define COMPILER_LOWER_LOWER_H_

#include "base/json.h"
#include "compiler/passes/passes.h"
#include "reed/compiler.h"

/* Places m's values for m->targets, runs the PLACED passes of `passes` (NULL: none), cuts epochs and emits bytecode
 * into the sink. Values of m get new ids and devices. `report`: NULL, or a writer with an open object, which gets
 * members that describe placement and epochs. */
reed_status lower_module(ir_module *m, pass_run *passes, const reed_module_sink *sink, json_writer *report,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
