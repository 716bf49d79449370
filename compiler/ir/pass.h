/* A pass: a named change of the whole module, one file each. compiler/passes/passes.h has their table and runs it. */
#ifndef COMPILER_IR_PASS_H_
#define COMPILER_IR_PASS_H_

#include "compiler/ir/ir.h"

/* What one run of a pass did: some counts, each with its words ("operators folded"). */
#define PASS_COUNTS 3
typedef struct pass_report {
  struct pass_count {
    const char *what; /* NULL: none */
    int64_t n;
  } counts[PASS_COUNTS];
  bool describes; /* the counts say how the module is now, not what has changed */
} pass_report;

typedef reed_status (*pass_fn)(ir_module *m, pass_report *report);

#endif
