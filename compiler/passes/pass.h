/* A pass: a named change of the whole module, one file each, listed once in passes.def in the order they run. */
#ifndef COMPILER_PASSES_PASS_H_
#define COMPILER_PASSES_PASS_H_

#include "base/json.h"
#include "compiler/ir/ir.h"
#include "reed/compiler.h"

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

typedef struct pass_info {
  const char *name;  /* as --disable takes it */
  const char *about; /* one line for help */
  pass_fn run;
  bool required; /* can not be disabled */
} pass_info;

extern const pass_info pass_table[];
extern const int pass_count;
#define PASS_MOST 32 /* room for totals; pass_count is less */
/* NULL-terminated names; the index of one, -1: none. */
const char *const *pass_names(void);
int pass_find(const char *name);

/* What all runs of a pass came to. */
typedef struct pass_total {
  bool disabled; /* set by the caller: the pass is left out */
  int64_t n_runs, n_changes;
  pass_report sum; /* counts over all runs; of the last one where they describe */
} pass_total;

/* One run of the whole table over m. */
typedef struct pass_run {
  ir_module *m;
  pass_total totals[PASS_MOST];
  void (*before)(void *context, const char *pass); /* called before each pass; NULL: nobody */
  void *context;
  int64_t nodes_before, nodes_after; /* regions' nodes included */
} pass_run;

/* Errors are the model's (dtypes and shapes that do not agree, said in m->diagnosis) or want of memory. */
reed_status pass_run_all(pass_run *run) REED_MUST_CHECK;

/* For passes that rely on extents being equal. Calls visit for every live node in order, as a deep ir_walk does; what a
 * visit has assumed of declared names is taken back where it changed nothing: *n_changes, which the pass counts, is as
 * before. */
typedef reed_status (*pass_visit)(void *context, ir_node *n);
reed_status pass_try_each(ir_module *m, pass_visit visit, void *context, const int64_t *n_changes) REED_MUST_CHECK;
/* The same for these nodes, from the last one back; dead ones are left out. */
reed_status pass_try_back(ir_module *m, ir_node *const *nodes, size_t n, pass_visit visit, void *context,
                          const int64_t *n_changes) REED_MUST_CHECK;

/* The PLACED passes, when every value has its device. */
reed_status pass_run_placed(pass_run *run) REED_MUST_CHECK;

/* compiler/lower/lower.c: placement decided for m->targets, `passes`' PLACED ones run (NULL: none), epochs cut, code
 * emitted. Of m, values get new ids and devices. The module goes into the sink; `report` NULL or a writer whose open
 * object gets members that describe placement and epochs. */
reed_status lower_module(ir_module *m, pass_run *passes, const reed_module_sink *sink, json_writer *report,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
