/* A pass: a named change of the whole module, one file each, listed once in passes.def in the order they run. */
#ifndef COMPILER_PASS_H_
#define COMPILER_PASS_H_

#include "compiler/ir.h"

typedef struct pass_report {
  int64_t n_changes;  /* what it counts is said by `what` */
  char what[160];     /* "folded 212 nodes" */
} pass_report;

typedef reed_status (*pass_fn)(ir_module *m, pass_report *report);

typedef struct pass_info {
  const char *name;   /* as --disable takes it */
  const char *about;  /* one line for help */
  pass_fn run;
  bool required;      /* can not be disabled */
} pass_info;

extern const pass_info pass_table[];
extern const int pass_count;

/* compiler/lower.c: placement decided, epochs cut, code emitted. Gives module file bytes; *out_report_json NULL or a JSON object describing epochs
 * and placement, merged into the compile report. */
reed_status lower_module(ir_module *m, void **out_bytes, size_t *out_n_bytes, text_buffer *report, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
