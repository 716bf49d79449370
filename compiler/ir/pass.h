/* A pass: a named change of the whole module, in one file. The table and the order of passes are in
 * compiler/passes/passes.h. */
#ifndef COMPILER_IR_PASS_H_
#define COMPILER_IR_PASS_H_

#include "compiler/ir/ir.h"

/* The counts of one run of a pass, each with its words ("operators folded"). */
#define PASS_COUNTS 3
typedef struct pass_report {
  struct pass_count {
    const char *what; /* NULL: none */
    int64_t n;
  } counts[PASS_COUNTS];
  bool describes; /* the counts describe the module, they are not changes */
} pass_report;

typedef reed_status (*pass_fn)(ir_module *m, pass_report *report);

#endif
