/* Entering and leaving epochs: epoch.enter, epoch.end, failed runs. epoch.plan: plan.c; memory: place.c. */
#include "vm/epoch/epoch.h"

#include <string.h>

#include "base/team.h"
#include "vm/epoch/key.h"
#include "vm/epoch/place.h"
#include "vm/epoch/replay.h"
#include "vm/epoch/replay_list.h"
#include "vm/epoch/variant.h"

/* Begins the shape section of a new entry, from the base if that tells of every register one content. */
static reed_status start_entry(reed_session *s, const insn_epoch_enter *enter, const variant_base *from, uint64_t hash,
                               bool memoizable) {
  uint32_t epoch = enter->epoch;
  epoch_active *active = &s->epoch;
  epoch_entry *e = mem_calloc(1, sizeof *e);
  int64_t *key = e ? mem_copy(active->key.items, active->key.n * sizeof(int64_t)) : NULL;
  if (!key) {
    mem_free(e);
    return diag_no_memory(s->run.diagnosis, "memo entry of an epoch");
  }
  *e = (epoch_entry){.epoch = epoch, .hash = hash, .key = key, .n_key = active->key.n, .remembered = memoizable};
  bool starts = from->entry && s->run.program->module->epochs_shaped[epoch];
  const epoch_entry *base = starts ? variant_use(from->entry) : NULL;
  if (base && base->rewritten) base = NULL;
  reed_status status = active_begin(active, e, base, NULL, &s->run);
  if (status != REED_OK) memo_free_entry(&s->memo, e);
  else if (base) key_note_changes(active, enter, from->entry);
  if (status == REED_OK && base && from->comparable) memcpy(e->changed_keys, from->changed, sizeof e->changed_keys);
  return status;
}

reed_status epoch_enter(reed_session *s, const uint32_t *w, uint32_t *pc) {
  const insn_epoch_enter enter = insn_epoch_enter_at(w);
  const uint32_t *code = w - *pc;
  uint32_t epoch = enter.epoch;
  bool memoizable = false;
  const struct replay *list = s->epoch.list = NULL;
  profile_epoch *note = profile_note_epoch(&s->run.profile, epoch);
  int64_t begin = clock_now_ns();
  if (note) note->begin_ns = begin;
  reed_status status = key_form(&s->run, &s->epoch, &enter, &memoizable);
  if (status != REED_OK) return status;
  uint64_t hash = key_hash(s->epoch.key.items, s->epoch.key.n);
  epoch_entry *e = memoizable ? memo_find(&s->memo, epoch, hash, s->epoch.key.items, s->epoch.key.n) : NULL;
  uint32_t next = *pc + insn_length_at(w);
  memo_miss why = MEMO_MISSES;
  variant_base base = {0};
  if (e) s->memo.figures.hits++;
  else if (memoizable) base = variant_find_base(s, &enter);
  if (!e) e = variant_renew(s, &enter, &base, hash, note);
  bool hit = e != NULL;
  if (!hit) why = memo_count_miss(&s->memo, epoch, hash, memoizable, base.lengths);
  if (!hit && memo_latest(&s->memo, epoch)) devices_meet_sizes(&s->devices);
  /* Helpers would fall asleep while the epoch is planned, and be missed by its first kernels. */
  if (!hit && s->memo.epochs[epoch].has_jobs) team_wake(s->devices.env.n_threads);
  if (!hit && memoizable) e = variant_make(s, &enter, &base, next, hash, note);
  if (!e) {
    status = start_entry(s, &enter, &base, hash, memoizable);
  } else {
    s->epoch.entry = s->run.profile.spans ? variant_use(e) : variant_use_for_run(e);
    s->epoch.in_shape_section = false;
    next = enter.plan + insn_length_at(code + enter.plan);
    place_scalars(s);
    list = s->epoch.list = replay_of(s, next);
    status = list ? replay_place(s) : epoch_place(s, true);
    if (!list) devices_begin_graphs(&s->devices, &e->graphs);
  }
  int64_t end = clock_now_ns();
  if (note) {
    note->enter_ns = end - begin - note->shape_ns - note->plan_ns;
    note->hit = hit;
    note->why = (int32_t)why;
  }
  profile_event *event = profile_note(&s->run.profile, PROFILE_ENTER, epoch, 0);
  if (event) event->span = (device_span){begin, end};
  if (status != REED_OK) return status;
  *pc = next;
  s->epoch.n_jobs = team_n_jobs();
  if (!list) return REED_OK;
  s->memo.figures.replays += hit;
  return replay_run(s, pc);
}

/* Notes the live bytes of each device for the trace. */
static void note_memory(vm_run *run, const vm_devices *devices, int64_t now) {
  for (int32_t d = 0; run->profile.spans && d < devices->n; d++) {
    pool_figures figures;
    pool_read_figures(devices->items[d].memory, &figures);
    profile_event *event = profile_note(&run->profile, PROFILE_MEMORY, UINT32_MAX, (int8_t)d);
    if (event) event->span = (device_span){now, now}, event->bytes = figures.live_bytes;
  }
}

/* Enqueues the launches that wait for their graphs, and counts the memory of new graphs. */
static reed_status end_graphs(reed_session *s, epoch_entry *e) {
  if (!s->devices.graphs.graphs) return REED_OK;
  int64_t before = e->graphs.bytes;
  reed_status status = devices_end_graphs(&s->devices);
  if (e->graphs.bytes != before) memo_add_bytes(&s->memo, e, e->graphs.bytes - before, true);
  return status;
}

reed_status epoch_end(reed_session *s, uint32_t *pc) {
  epoch_entry *e = s->epoch.entry;
  reed_status status = end_graphs(s, e);
  if (status != REED_OK) return status;
  if (s->epoch.list) *pc = s->epoch.list->next;
  s->epoch.entry = NULL;
  s->memo.epochs[e->epoch].has_jobs = team_n_jobs() != s->epoch.n_jobs;
  profile *p = &s->run.profile;
  p->caches.n_dense += e->n_dense;
  p->caches.dense_bytes += e->dense_bytes;
  if (p->epochs.n) {
    profile_epoch *note = &p->epochs.items[p->epochs.n - 1];
    int64_t now = clock_now_ns(), run_begin = note->begin_ns + note->enter_ns + note->shape_ns + note->plan_ns;
    note->run_ns = now - run_begin;
    note->n_shape_functions = e->n_shape_functions;
    note->n_kernels = e->n_kernels;
    if (!note->hit) {
      note->n_repeated = e->n_repeated;
      note->n_shared = e->n_shared;
      note->shared_bytes = e->shared_bytes;
    }
    for (int32_t d = 0; d < s->devices.n; d++) {
      note->arenas[d].bytes = e->arenas[d].bytes;
      note->arenas[d].without_reuse = e->arenas[d].bytes_without_reuse;
      note->arenas[d].lower_bound = e->arenas[d].lower_bound;
    }
    profile_event *event = profile_note(p, PROFILE_LAUNCH, e->epoch, 0);
    if (event) event->span = (device_span){run_begin, now};
    event = profile_note(p, PROFILE_EPOCH, e->epoch, 0);
    if (event) event->span = (device_span){note->begin_ns, now};
    note_memory(&s->run, &s->devices, now);
  }
  if (!e->remembered) {
    memo_keep_unremembered(&s->memo, e);
    if (!devices_busy(&s->devices)) memo_free_retired(&s->memo);
  }
  return REED_OK;
}

void epoch_abandon(reed_session *s) {
  epoch_entry *e = s->epoch.entry;
  s->epoch.entry = NULL;
  if (!e) return;
  bool planned = !s->epoch.in_shape_section;
  active_end_shapes(&s->epoch);
  if (planned && e->remembered) return; /* the entry is complete, because only this run failed */
  memo_retire(&s->memo, e);
}
