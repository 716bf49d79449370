/* The profiler's JSON: figures of the last run (stats, plan), spans as a Chrome trace, tables by operator and node.
 * Scripts rely on the keys. The notes that become figures: profile.c. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "vm/state.h"

static const char *const reason_texts[] = {
#define REASON_TEXT(name, reason_text) reason_text,
    COPY_REASON_LIST(REASON_TEXT)
#undef REASON_TEXT
};
static const char *const miss_texts[] = {
#define MISS_TEXT(name, text) text,
    MEMO_MISS_LIST(MISS_TEXT)
#undef MISS_TEXT
};
static const char *const direction_texts[] = {"none", "device-to-host", "host-to-device", "device-to-device",
                                              "host-to-host"};

static const char *device_name(const reed_session *s, int32_t device) { return s->devices.items[device].device->name; }

/* The operator, node and input for which a copy is made. */
static void add_cause(json_writer *json, const reed_session *s, const profile_copy *copy) {
  const module *m = s->run.program->module;
  const char *op = "", *node = "", *input = "";
  if (copy->site != UINT32_MAX) {
    const module_site *site = &m->sites[copy->site];
    op = m->strings[site->op];
    node = m->strings[site->node];
    const reed_op_input *declared =
        copy->input == UINT32_MAX ? NULL : reed_op_input_at(s->run.program->site_ops[copy->site], (int32_t)copy->input);
    if (declared) input = declared->name;
  } else if (copy->reason == COPY_REASON_OUTPUT && copy->input < m->functions[0].n_r_results) {
    input = m->strings[m->types[m->outputs[copy->input]].name];
  } else if (copy->reason != COPY_REASON_CONSTANT && copy->input < m->functions[0].n_r_params) {
    input = m->strings[m->types[m->inputs[copy->input]].name];
  } else if (copy->reason == COPY_REASON_CONSTANT && copy->input < m->n_constants) {
    input = m->strings[m->constants[copy->input].name];
  }
  json_string(json, "operator", op);
  json_string(json, "node", node);
  json_string(json, "input", input);
  if (copy->reason == COPY_REASON_EXTENT && copy->why != PROFILE_NO_REASON)
    json_string(json, "why", m->strings[copy->why]);
}

static double us(int64_t ns) { return (double)ns / 1000.0; }

static void add_memory(json_writer *json, const reed_session *s) {
  for (int32_t d = 0; d < s->devices.n; d++) {
    pool_figures figures;
    pool_read_figures(s->devices.items[d].memory, &figures);
    int64_t bytes = 0, without_reuse = 0, lower_bound = 0;
    for (size_t i = 0; i < s->run.profile.epochs.n; i++) {
      const profile_epoch *e = &s->run.profile.epochs.items[i];
      if (e->arenas[d].bytes <= bytes) continue;
      bytes = e->arenas[d].bytes;
      without_reuse = e->arenas[d].without_reuse;
      lower_bound = e->arenas[d].lower_bound;
    }
    json_begin_object(json, device_name(s, d));
    output_figures outputs = output_store_figures(s->devices.items[d].outputs),
                   counted = d ? outputs : (output_figures){0};
    json_integer(json, "live_bytes", figures.live_bytes + counted.live_bytes);
    json_integer(json, "reserved_bytes", figures.reserved_bytes + counted.reserved_bytes);
    json_integer(json, "output_live_bytes", outputs.live_bytes);
    json_integer(json, "output_reserved_bytes", outputs.reserved_bytes);
    json_integer(json, "arena_held_bytes", s->devices.items[d].arena ? pool_capacity(s->devices.items[d].arena) : 0);
    json_integer(json, "peak_bytes", figures.peak_live_bytes);
    json_number(json, "fragmentation", figures.fragmentation);
    json_integer(json, "arena_bytes", bytes);
    json_integer(json, "arena_bytes_without_reuse", without_reuse);
    json_integer(json, "arena_lower_bound", lower_bound);
    device_memory all;
    s->devices.items[d].device->interface->memory(s->devices.items[d].device, &all);
    json_integer(json, "device_live_bytes", all.live_bytes);
    json_integer(json, "device_peak_bytes", all.peak_bytes);
    json_end_object(json);
  }
}

static void add_graphs(json_writer *json, const reed_session *s) {
  const stretch_figures *figures = &s->devices.graphs.figures;
  json_begin_object(json, "graphs");
  json_integer(json, "captured", figures->captured);
  json_integer(json, "replayed", figures->replayed);
  json_integer(json, "moved", figures->moved);
  json_integer(json, "refused", figures->refused);
  json_end_object(json);
}

static reed_status stats_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  json_writer writer = {0}, *json = &writer;
  json_begin_object(json, NULL);
  const profile *p = &s->run.profile;
  json_number(json, "wall_us", us(p->wall_ns));
  json_begin_array(json, "epochs");
  for (size_t i = 0; i < p->epochs.n; i++) {
    const profile_epoch *e = &p->epochs.items[i];
    json_begin_object(json, NULL);
    json_integer(json, "id", e->epoch);
    json_string(json, "memo", e->hit ? "hit" : "miss");
    json_integer(json, "shape_functions", e->n_shape_functions);
    json_integer(json, "kernels", e->n_kernels);
    if (!e->hit) {
      json_string(json, "why", miss_texts[e->why]);
      json_integer(json, "shapes_repeated", e->n_repeated);
      json_integer(json, "kernels_shared", e->n_shared);
      json_integer(json, "shared_bytes", e->shared_bytes);
    }
    json_number(json, "enter_us", us(e->enter_ns));
    json_number(json, "shape_us", us(e->shape_ns));
    json_number(json, "plan_us", us(e->plan_ns));
    json_number(json, "run_us", us(e->run_ns));
    json_end_object(json);
  }
  json_end_array(json);
  json_begin_array(json, "copies");
  for (size_t i = 0; i < p->copies.n; i++) {
    const profile_copy *c = &p->copies.items[i];
    if (c->direction == PROFILE_NO_COPY) continue;
    json_begin_object(json, NULL);
    json_string(json, "direction", direction_texts[c->direction]);
    json_integer(json, "bytes", c->bytes);
    json_string(json, "reason", reason_texts[c->reason]);
    add_cause(json, s, c);
    json_end_object(json);
  }
  json_end_array(json);
  json_begin_object(json, "memory");
  add_memory(json, s);
  json_end_object(json);
  json_begin_object(json, "memo");
  json_integer(json, "hits", s->memo.figures.hits);
  json_integer(json, "replays", s->memo.figures.replays);
  json_integer(json, "misses", s->memo.figures.misses);
  json_integer(json, "missed_sizes", s->memo.figures.missed[MEMO_MISS_SIZE]);
  json_integer(json, "missed_counts", s->memo.figures.missed[MEMO_MISS_COUNT]);
  json_integer(json, "missed_evicted", s->memo.figures.missed[MEMO_MISS_EVICTED]);
  json_integer(json, "missed_not_admitted", s->memo.figures.missed[MEMO_MISS_TRIAL]);
  json_integer(json, "missed_too_large", s->memo.figures.missed[MEMO_MISS_LARGE]);
  json_integer(json, "missed_lengths", s->memo.figures.missed[MEMO_MISS_LENGTH]);
  json_integer(json, "evictions", s->memo.figures.evictions);
  json_integer(json, "entries", s->memo.figures.entries);
  json_integer(json, "bytes", s->memo.figures.bytes);
  json_integer(json, "trials", s->memo.figures.trials);
  json_integer(json, "admitted", s->memo.figures.admitted);
  json_integer(json, "plans_reused", s->memo.figures.layouts_reused);
  json_integer(json, "variants", s->memo.figures.variants);
  json_integer(json, "renewed", s->memo.figures.renewed);
  json_integer(json, "kernels_found", s->kernels.figures.found);
  json_integer(json, "kernels_made", s->kernels.figures.made);
  json_integer(json, "kernels_held", s->kernels.figures.live);
  json_end_object(json);
  add_graphs(json, s);
  json_begin_object(json, "caches");
  json_integer(json, "in_place", p->caches.n_in_place);
  json_integer(json, "in_place_bytes", p->caches.in_place_bytes);
  json_integer(json, "copied", p->caches.n_copied);
  json_integer(json, "copied_bytes", p->caches.copied_bytes);
  json_integer(json, "dense_copies", p->caches.n_dense);
  json_integer(json, "dense_bytes", p->caches.dense_bytes);
  json_end_object(json);
  int64_t n_stored, stored_bytes;
  kernel_cache_count(s->program->cache, &n_stored, &stored_bytes);
  json_integer(json, "stored_values", n_stored);
  json_integer(json, "stored_bytes", stored_bytes);
  json_integer(json, "synchronisations", p->n_syncs);
  json_integer(json, "kernels", p->n_kernels);
  json_integer(json, "dropped", p->n_notes_dropped);
  json_end_object(json);
  return json_finish(json, out_json, diagnosis, "figures as JSON");
}

/* The algorithm of the kernel that the site used last; NULL: the operator's usual one. */
static const char *variant_of(const reed_session *s, size_t site) {
  const site_kernel *last = s->kernels.last ? site_last_kernel(&s->kernels, site) : NULL;
  return last ? last->kernel.variant : NULL;
}

static void add_variants(json_writer *json, const reed_session *s) {
  const module *m = s->run.program->module;
  json_begin_array(json, "variants");
  for (size_t i = 0; i < m->n_sites; i++) {
    const char *variant = variant_of(s, i);
    if (!variant) continue;
    json_begin_object(json, NULL);
    json_string(json, "operator", m->strings[m->sites[i].op]);
    json_string(json, "node", m->strings[m->sites[i].node]);
    json_string(json, "variant", variant);
    json_end_object(json);
  }
  json_end_array(json);
}

static reed_status plan_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  json_writer writer = {0}, *json = &writer;
  json_begin_object(json, NULL);
  const profile *p = &s->run.profile;
  const module *m = s->run.program->module;
  json_begin_array(json, "epochs");
  for (size_t i = 0; i < p->epochs.n; i++) {
    const profile_epoch *e = &p->epochs.items[i];
    json_begin_object(json, NULL);
    json_integer(json, "id", e->epoch);
    json_string(json, "function", m->strings[m->functions[m->epochs[e->epoch].function].name]);
    json_integer(json, "shape_functions", e->n_shape_functions);
    json_integer(json, "kernels", e->n_kernels);
    json_begin_array(json, "readbacks");
    for (size_t k = 0; k < p->copies.n; k++) {
      const profile_copy *c = &p->copies.items[k];
      if (!c->readback || c->after_epoch != i) continue;
      json_begin_object(json, NULL);
      json_string(json, "reason", reason_texts[c->reason]);
      add_cause(json, s, c);
      json_integer(json, "bytes", c->bytes);
      json_end_object(json);
    }
    json_end_array(json);
    json_begin_object(json, "arena");
    for (int32_t d = 0; d < s->devices.n; d++) {
      json_begin_object(json, device_name(s, d));
      json_integer(json, "bytes", e->arenas[d].bytes);
      json_integer(json, "without_reuse", e->arenas[d].without_reuse);
      json_integer(json, "lower_bound", e->arenas[d].lower_bound);
      json_end_object(json);
    }
    json_end_object(json);
    json_end_object(json);
  }
  json_end_array(json);
  add_variants(json, s);
  json_end_object(json);
  return json_finish(json, out_json, diagnosis, "figures as JSON");
}

/* ---- spans ---- */

static const char *const kind_texts[] = {
#define KIND_TEXT(name, kind_text) kind_text,
    PROFILE_KIND_LIST(KIND_TEXT)
#undef KIND_TEXT
};

static bool about_site(uint8_t kind) {
  return kind == PROFILE_SHAPE_FUNCTION || kind == PROFILE_HOST_KERNEL || kind == PROFILE_PREPARE ||
         kind == PROFILE_KERNEL || kind == PROFILE_COPY;
}

/* "Conv backbone/conv1", "epoch 3", "sync" */
static void event_name(const reed_session *s, const profile_event *e, char *out, size_t capacity) {
  const module *m = s->run.program->module;
  if (about_site(e->kind) && e->index != UINT32_MAX) {
    const module_site *site = &m->sites[e->index];
    snprintf(out, capacity, "%s%s %s", e->kind == PROFILE_COPY ? "copy for " : "", m->strings[site->op],
             m->strings[site->node]);
  } else if (e->index != UINT32_MAX && e->kind == PROFILE_EPOCH) {
    snprintf(out, capacity, "epoch %u", e->index);
  } else if (e->kind == PROFILE_GRAPH) {
    snprintf(out, capacity, "graph of %lld launches", (long long)e->bytes);
  } else {
    snprintf(out, capacity, "%s", kind_texts[e->kind]);
  }
}

static void add_metadata(json_writer *json, int pid, int tid, const char *what, const char *name) {
  json_begin_object(json, NULL);
  json_string(json, "name", what);
  json_string(json, "ph", "M");
  json_integer(json, "pid", pid);
  json_integer(json, "tid", tid);
  json_begin_object(json, "args");
  json_string(json, "name", name);
  json_end_object(json);
  json_end_object(json);
}

/* The trace's process is the device. Its thread: 2 for kernels, graphs and copies, 1 for the interpreter's own work. */
static int thread_of(const profile_event *e) {
  return e->kind == PROFILE_KERNEL || e->kind == PROFILE_GRAPH || e->kind == PROFILE_COPY ? 2 : 1;
}

static reed_status trace_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  if (!s->run.profile.spans)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the session was opened without `profile`");
  json_writer writer = {0}, *json = &writer;
  json_begin_object(json, NULL);
  json_string(json, "displayTimeUnit", "ns");
  json_begin_array(json, "traceEvents");
  for (int32_t d = 0; d < s->devices.n; d++) {
    add_metadata(json, d, 0, "process_name", device_name(s, d));
    if (d == 0) add_metadata(json, d, 1, "thread_name", "interpreter");
    add_metadata(json, d, 2, "thread_name", d == 0 ? "kernels" : "stream");
  }
  int64_t origin = INT64_MAX;
  for (const profile_block *b = s->run.profile.first; b; b = b->next)
    for (size_t i = 0; i < b->n; i++)
      if (b->events[i].span.begin_ns && b->events[i].span.begin_ns < origin) origin = b->events[i].span.begin_ns;
  for (const profile_block *b = s->run.profile.first; b; b = b->next)
    for (size_t i = 0; i < b->n; i++) {
      const profile_event *e = &b->events[i];
      if (!e->span.begin_ns || e->span.end_ns < e->span.begin_ns) continue; /* the run failed before the event ended */
      json_begin_object(json, NULL);
      char name[320];
      event_name(s, e, name, sizeof name);
      if (e->kind == PROFILE_MEMORY) {
        json_string(json, "name", "memory");
        json_string(json, "ph", "C");
        json_integer(json, "pid", e->device);
        json_integer(json, "tid", 0);
        json_number(json, "ts", us(e->span.begin_ns - origin));
        json_begin_object(json, "args");
        json_integer(json, "live_bytes", e->bytes);
        json_end_object(json);
        json_end_object(json);
        continue;
      }
      json_string(json, "name", name);
      json_string(json, "cat", kind_texts[e->kind]);
      json_string(json, "ph", "X");
      json_integer(json, "pid", e->device);
      json_integer(json, "tid", thread_of(e));
      json_number(json, "ts", us(e->span.begin_ns - origin));
      json_number(json, "dur", us(e->span.end_ns - e->span.begin_ns));
      json_begin_object(json, "args");
      if (e->kind == PROFILE_COPY) {
        json_integer(json, "bytes", e->bytes);
        json_string(json, "direction",
                    e->source_device == 0 ? "host-to-device"
                    : e->device == 0      ? "device-to-host"
                                          : "device-to-device");
        json_string(json, "reason", reason_texts[e->reason]);
      }
      json_end_object(json);
      json_end_object(json);
    }
  json_end_array(json);
  json_begin_object(json, "otherData");
  json_integer(json, "dropped_events", s->run.profile.n_dropped);
  json_end_object(json);
  json_end_object(json);
  reed_status status = json_finish(json, out_json, diagnosis, "the trace");
  if (status == REED_OK) profile_forget_spans(&s->run.profile);
  return status;
}

/* ---- tables ---- */

typedef struct site_totals {
  int64_t calls, kernel_ns, shape_ns, prepare_ns, copy_bytes, operand_bytes;
  int64_t n_chunks, longest_ns, alone_ns; /* longest_ns and alone_ns: means of a node's calls, the most of its nodes */
  double operations;
  const char *kind; /* of the operations; NULL: none */
} site_totals;

static void add_totals(json_writer *json, const site_totals *totals) {
  json_integer(json, "calls", totals->calls);
  json_number(json, "total_us", us(totals->kernel_ns));
  json_number(json, "shape_us", us(totals->shape_ns));
  json_number(json, "prepare_us", us(totals->prepare_ns));
  json_integer(json, "bytes", totals->copy_bytes);
  json_integer(json, "chunks", totals->n_chunks);
  json_number(json, "longest_chunk_us", us(totals->longest_ns));
  json_number(json, "alone_us", us(totals->alone_ns));
}

static void add_kernel(site_totals *site, const profile_event *e, int64_t ns) {
  site->calls++;
  site->kernel_ns += ns;
  site->n_chunks += e->n_chunks;
  site->longest_ns += e->longest_ns;
  site->alone_ns += e->alone_ns;
  site->operations += e->operations;
  site->operand_bytes += e->bytes;
  site->kind = e->what;
}

static void sum_events(const profile *p, site_totals *sites, size_t n_sites) {
  for (const profile_block *b = p->first; b; b = b->next)
    for (size_t i = 0; i < b->n; i++) {
      const profile_event *e = &b->events[i];
      if (!about_site(e->kind) || e->index == UINT32_MAX) continue;
      site_totals *site = &sites[e->index];
      int64_t ns = e->span.end_ns > e->span.begin_ns ? e->span.end_ns - e->span.begin_ns : 0;
      switch ((profile_kind)e->kind) {
        case PROFILE_KERNEL:
        case PROFILE_HOST_KERNEL: add_kernel(site, e, ns); break;
        case PROFILE_SHAPE_FUNCTION: site->shape_ns += ns; break;
        case PROFILE_PREPARE: site->prepare_ns += ns; break;
        default: site->copy_bytes += e->bytes;
      }
    }
  for (size_t i = 0; i < n_sites; i++) {
    int64_t calls = sites[i].calls ? sites[i].calls : 1;
    sites[i].longest_ns /= calls;
    sites[i].alone_ns /= calls;
  }
}

static bool is_zero(const site_totals *t) {
  return !t->calls && !t->kernel_ns && !t->shape_ns && !t->prepare_ns && !t->copy_bytes;
}

static void add_to(site_totals *sum, const site_totals *t) {
  sum->calls += t->calls;
  sum->kernel_ns += t->kernel_ns;
  sum->shape_ns += t->shape_ns;
  sum->prepare_ns += t->prepare_ns;
  sum->copy_bytes += t->copy_bytes;
  sum->n_chunks += t->n_chunks;
  if (sum->longest_ns < t->longest_ns) sum->longest_ns = t->longest_ns;
  if (sum->alone_ns < t->alone_ns) sum->alone_ns = t->alone_ns;
}

static reed_status profile_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  if (!s->run.profile.spans)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the session was opened without `profile`");
  const module *m = s->run.program->module;
  site_totals *sites = mem_calloc(m->n_sites, sizeof *sites);
  if (!sites) return diag_no_memory(diagnosis, "the profile");
  sum_events(&s->run.profile, sites, m->n_sites);
  json_writer writer = {0}, *json = &writer;
  json_begin_object(json, NULL);
  json_begin_array(json, "operators");
  for (size_t i = 0; i < m->n_sites; i++) {
    site_totals sum = {0};
    bool first = true; /* strings are interned: an operator has one index */
    for (size_t k = 0; k < i && first; k++)
      first = m->sites[k].op != m->sites[i].op || m->sites[k].domain != m->sites[i].domain;
    if (!first) continue;
    for (size_t k = i; k < m->n_sites; k++)
      if (m->sites[k].op == m->sites[i].op && m->sites[k].domain == m->sites[i].domain) add_to(&sum, &sites[k]);
    if (is_zero(&sum)) continue;
    json_begin_object(json, NULL);
    json_string(json, "operator", m->strings[m->sites[i].op]);
    add_totals(json, &sum);
    json_end_object(json);
  }
  json_end_array(json);
  json_begin_array(json, "nodes");
  for (size_t i = 0; i < m->n_sites; i++) {
    if (is_zero(&sites[i])) continue;
    json_begin_object(json, NULL);
    json_string(json, "node", m->strings[m->sites[i].node]);
    json_string(json, "operator", m->strings[m->sites[i].op]);
    const char *variant = variant_of(s, i);
    if (variant) json_string(json, "variant", variant);
    if (sites[i].kind) json_string(json, "kind", sites[i].kind);
    json_number(json, "operations", sites[i].operations);
    json_integer(json, "operand_bytes", sites[i].operand_bytes);
    add_totals(json, &sites[i]);
    json_end_object(json);
  }
  json_end_array(json);
  add_graphs(json, s);
  json_integer(json, "dropped_events", s->run.profile.n_dropped);
  mem_free(sites);
  json_end_object(json);
  return json_finish(json, out_json, diagnosis, "figures as JSON");
}

/* ---- the public functions ---- */

/* Makes a report. A report claims the session as a run does, so it is made between runs. */
typedef reed_status (*question_fn)(reed_session *s, char **out_json, reed_diagnosis *diagnosis);

static reed_status answer(question_fn question, reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  if (!s || !out_json)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "a session and a place for its figures are needed");
  if (!claim_take(&s->claim, NULL)) return claim_refuse(diagnosis);
  reed_status status = question(s, out_json, diagnosis);
  claim_release(&s->claim);
  return status;
}

reed_status reed_session_stats_json(reed_session *session, char **out_json, reed_diagnosis *diagnosis) {
  return answer(stats_json, session, out_json, diagnosis);
}

reed_status reed_session_plan_json(reed_session *session, char **out_json, reed_diagnosis *diagnosis) {
  return answer(plan_json, session, out_json, diagnosis);
}

reed_status reed_session_trace_json(reed_session *session, char **out_json, reed_diagnosis *diagnosis) {
  return answer(trace_json, session, out_json, diagnosis);
}

reed_status reed_session_profile_json(reed_session *session, char **out_json, reed_diagnosis *diagnosis) {
  return answer(profile_json, session, out_json, diagnosis);
}
