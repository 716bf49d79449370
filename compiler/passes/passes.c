/* The table of passes and their order. pass_run_all runs dce; the CLEAN passes in turn until none changes anything; the
 * ONCE and REPEATED passes and the CLEAN ones again; the REPEATED and the CLEAN ones until the REPEATED ones change
 * nothing; the LATE passes and the CLEAN ones again. pass_run_placed runs the PLACED passes after placement has given
 * every value its device; after them only lowering reads the graph. The passes themselves are in clean/, rewrite/,
 * layout/ and fuse/. */
#include <string.h>

#include "base/diag.h"
#include "compiler/passes/passes.h"

#define PASS(name, phase, required, about) reed_status pass_##name(ir_module *m, pass_report *report);
#include "compiler/passes/passes.def"

const pass_info pass_table[] = {
#define PASS(name, phase, required, about) {#name, about, pass_##name, required},
#include "compiler/passes/passes.def"
};
const int pass_count = sizeof pass_table / sizeof *pass_table;
_Static_assert(sizeof pass_table / sizeof *pass_table <= PASS_MOST, "room for the totals of all passes");

typedef enum phase { PHASE_CLEAN, PHASE_ONCE, PHASE_REPEATED, PHASE_LATE, PHASE_PLACED } phase;
static const phase phases[] = {
#define PASS(name, phase, required, about) PHASE_##phase,
#include "compiler/passes/passes.def"
};

/* The limit of rounds of the CLEAN passes, of which models need three to six, and of the REPEATED ones. */
#define MOST_ROUNDS 64

int pass_find(const char *name) {
  for (int i = 0; i < pass_count; i++)
    if (strcmp(pass_table[i].name, name) == 0) return i;
  return -1;
}

static void add_report(pass_total *total, const pass_report *report, int64_t *changes) {
  total->n_runs++;
  total->sum.describes = report->describes;
  for (int k = 0; k < PASS_COUNTS; k++) {
    const struct pass_count *count = &report->counts[k];
    total->sum.counts[k] =
        (struct pass_count){count->what, count->n + (report->describes ? 0 : total->sum.counts[k].n)};
    if (report->describes) continue;
    total->n_changes += count->n;
    *changes += count->n;
  }
}

static reed_status run_pass(pass_run *run, int i, int64_t *changes) {
  pass_total *total = &run->totals[i];
  if (total->disabled) return REED_OK;
  if (run->before) run->before(run->context, pass_table[i].name);
  pass_report report = {0};
  reed_status status = ir_check_cancel(run->m);
  if (status == REED_OK) status = pass_table[i].run(run->m, &report);
  if (status == REED_OK) add_report(total, &report, changes);
  return status;
}

static reed_status clean_round(pass_run *run, int64_t *changes) {
  reed_status status = REED_OK;
  *changes = 0;
  for (int i = 0; i < pass_count && status == REED_OK; i++)
    if (phases[i] == PHASE_CLEAN) status = run_pass(run, i, changes);
  return status;
}

/* The REPEATED passes are passes of the phase ONCE, too. Dead nodes are removed after every pass that changed
 * something, because later passes count uses. */
static reed_status run_phase(pass_run *run, phase which, int64_t *changes) {
  reed_status status = REED_OK;
  *changes = 0;
  for (int i = 0; i < pass_count && status == REED_OK; i++) {
    if (phases[i] != which && (which != PHASE_ONCE || phases[i] != PHASE_REPEATED)) continue;
    int64_t own = 0;
    status = run_pass(run, i, &own);
    if (status == REED_OK && own) status = run_pass(run, pass_find("dce"), changes);
    *changes += own;
  }
  return status;
}

static reed_status clean(pass_run *run) {
  reed_status status = REED_OK;
  int64_t changes = 1;
  for (int round = 0; round < MOST_ROUNDS && changes && status == REED_OK; round++) {
    const uint32_t rules = symbols_rules(run->m->symbols);
    status = clean_round(run, &changes);
    changes += symbols_rules(run->m->symbols) != rules; /* extents found before the rules may be others now */
  }
  return status;
}

/* A phase, and the CLEAN passes if it changed something; *out_changed: it did. */
static reed_status run_and_clean(pass_run *run, phase which, bool *out_changed) {
  int64_t changes = 0;
  reed_status status = run_phase(run, which, &changes);
  *out_changed = changes > 0;
  return status == REED_OK && changes ? clean(run) : status;
}

/* ---- the whole ---- */

static reed_status count_node(void *context, ir_node *n) {
  ++*(int64_t *)context;
  return REED_OK;
}

reed_status pass_run_placed(pass_run *run) {
  int64_t changes = 0;
  reed_status status = REED_OK;
  for (int i = 0; i < pass_count && status == REED_OK; i++)
    if (phases[i] == PHASE_PLACED) status = run_pass(run, i, &changes);
  return status;
}

reed_status pass_run_all(pass_run *run) {
  int64_t changes = 0;
  reed_status status = ir_walk(run->m->main, true, count_node, &run->nodes_before);
  /* first dce, because inference would check the types and shapes of unused nodes too */
  if (status == REED_OK) status = run_pass(run, pass_find("dce"), &changes);
  if (status == REED_OK) status = clean(run);
  bool changed = false;
  if (status == REED_OK) status = run_and_clean(run, PHASE_ONCE, &changed);
  for (int round = 0; round < MOST_ROUNDS && changed && status == REED_OK; round++)
    status = run_and_clean(run, PHASE_REPEATED, &changed);
  if (status == REED_OK) status = run_and_clean(run, PHASE_LATE, &changed);
  if (status == REED_OK) status = ir_walk(run->m->main, true, count_node, &run->nodes_after);
  return status;
}
