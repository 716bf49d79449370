/* The compiler's back half: from a graph to bytecode. */
#ifndef COMPILER_LOWER_LOWER_H_
#define COMPILER_LOWER_LOWER_H_

#include "base/json.h"
#include "compiler/passes/passes.h"
#include "reed/compiler.h"

/* Placement decided for m->targets, the PLACED passes of `passes` run (NULL: none), epochs cut, code emitted. Of m,
 * values get new ids and devices. The module goes into the sink; `report` NULL or a writer whose open object gets
 * members that describe placement and epochs. */
reed_status lower_module(ir_module *m, pass_run *passes, const reed_module_sink *sink, json_writer *report,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
