/* The table of passes (passes.def) and a run of all of them, in the order of the table within each phase. A single
 * pass's interface is in compiler/ir/pass.h. */
#ifndef COMPILER_PASSES_PASSES_H_
#define COMPILER_PASSES_PASSES_H_

#include "compiler/ir/pass.h"

typedef struct pass_info {
  const char *name;  /* the word for --disable */
  const char *about; /* one line for help */
  pass_fn run;
  bool required; /* disabling the pass is refused */
} pass_info;

extern const pass_info pass_table[];
extern const int pass_count;
#define PASS_MOST 48 /* room for totals; pass_count is at most as many */
/* The index of a name in pass_table; -1: no such pass. */
int pass_find(const char *name);

/* Totals over all runs of one pass. */
typedef struct pass_total {
  bool disabled; /* set by the caller: the pass is left out */
  int64_t n_runs, n_changes;
  pass_report sum; /* counts summed over all runs; for a pass that `describes`, the counts of the last run */
} pass_total;

/* One run of the whole table over m. */
typedef struct pass_run {
  ir_module *m;
  pass_total totals[PASS_MOST];
  void (*before)(void *context, const char *pass); /* called before each pass; NULL: no call */
  void *context;
  int64_t nodes_before, nodes_after; /* regions' nodes included */
} pass_run;

/* Runs every pass that is not PLACED. Fails only on an error of the model (dtypes or shapes that contradict each other;
 * m->diagnosis names them) or without memory. */
reed_status pass_run_all(pass_run *run) REED_MUST_CHECK;
/* Runs the PLACED passes; every value must have its device. */
reed_status pass_run_placed(pass_run *run) REED_MUST_CHECK;

#endif
