/* The scratch of epoch.plan, from one plan to the next. The plan: plan.c. */
#include "vm/epoch/planner.h"

#include <string.h>

#include "vm/state.h"

void epoch_planner_close(epoch_planner **planner) {
  epoch_planner *p = *planner;
  if (!p) return;
  mem_free(p->registers);
  VEC_FREE(&p->alive);
  VEC_FREE(&p->dying);
  VEC_FREE(&p->intervals);
  tail_close(&p->tail);
  mem_free(p);
  *planner = NULL;
}

/* Reserves as many roots, kernels and copies as the base's plan has, so that each array grows once. False: no memory.
 */
static bool reserve_as(epoch_entry *e, const epoch_entry *base) {
  return VEC_RESERVE(&e->roots, base->roots.n) && VEC_RESERVE(&e->kernels, base->kernels.n) &&
         VEC_RESERVE(&e->copies, base->copies.n);
}

reed_status epoch_planner_begin(reed_session *s, epoch_planner **out_planner) {
  if (!s->planner && !(s->planner = mem_calloc(1, sizeof *s->planner)))
    return diag_no_memory(s->run.diagnosis, "epoch planner");
  epoch_planner *p = s->planner;
  size_t n_r = frame_top(&s->run)->function->n_r;
  if (p->n_registers < n_r) {
    register_note *grown = mem_resize(p->registers, n_r, sizeof *grown);
    if (!grown) return diag_no_memory(s->run.diagnosis, "epoch planner");
    memset(grown + p->n_registers, 0, (n_r - p->n_registers) * sizeof *grown);
    p->registers = grown;
    p->n_registers = n_r;
  }
  p->run = &s->run;
  p->devices = &s->devices;
  p->kernels = &s->kernels;
  p->active = &s->epoch;
  p->has_jobs = s->memo.epochs[s->epoch.entry->epoch].has_jobs;
  p->entry = s->epoch.entry;
  p->base = s->epoch.base;
  p->r = &s->run.r.items[frame_top(&s->run)->r_base];
  p->returned = frame_top(&s->run)->function_index == 0 ? s->run.program->returned : NULL;
  p->rooms = p->entry->rooms = s->run.rooms;
  if (p->base) p->rooms |= p->base->rooms;
  if (p->base && p->base->writes.n != p->entry->writes.n) p->base = NULL;
  if (p->base && !reserve_as(p->entry, p->base)) return diag_no_memory(s->run.diagnosis, "epoch plan");
  p->stamp++;
  p->alive.n = p->dying.n = 0;
  ahead_begin(p);
  *out_planner = p;
  return REED_OK;
}

void epoch_planner_rest(epoch_planner *p) {
  if (p) tail_rest(p->tail);
}
