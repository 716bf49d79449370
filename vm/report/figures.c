/* The profiler's JSON: figures of the last run (stats, plan), spans as a Chrome trace, tables per operator and node.
 * The one door to cJSON in vm/. Keys are a contract: README and `vm help` list them. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "vm/session.h"

/* cJSON's add functions return NULL without memory and accept NULL parents, so that a whole tree is built and checked
 * once, by printing it with every item counted in. */
typedef struct json_tree {
  cJSON *root;
  bool failed;
} json_tree;

static cJSON *keep(json_tree *t, cJSON *item) {
  if (!item) t->failed = true;
  return item;
}

static void number(json_tree *t, cJSON *object, const char *key, double value) {
  keep(t, cJSON_AddNumberToObject(object, key, value));
}
static void text(json_tree *t, cJSON *object, const char *key, const char *value) {
  keep(t, cJSON_AddStringToObject(object, key, value));
}
static cJSON *array(json_tree *t, cJSON *object, const char *key) {
  return keep(t, cJSON_AddArrayToObject(object, key));
}
static cJSON *child(json_tree *t, cJSON *object, const char *key) {
  return keep(t, cJSON_AddObjectToObject(object, key));
}
static cJSON *append(json_tree *t, cJSON *list) {
  cJSON *item = keep(t, cJSON_CreateObject());
  if (!list || !cJSON_AddItemToArray(list, item)) {
    t->failed = true;
    cJSON_Delete(item);
    return NULL;
  }
  return item;
}

/* The tree as text of our own memory; the tree is gone afterwards. */
static reed_status finish(json_tree *t, char **out_json, reed_diagnosis *diagnosis) {
  char *printed = t->failed ? NULL : cJSON_PrintUnformatted(t->root);
  char *copy = printed ? mem_copy_text(printed) : NULL;
  cJSON_free(printed);
  cJSON_Delete(t->root);
  if (!copy) return diag_no_memory(diagnosis, "figures as JSON");
  *out_json = copy;
  return REED_OK;
}

static const char *const reason_texts[] = {
#define REASON_TEXT(name, reason_text) reason_text,
    COPY_REASON_LIST(REASON_TEXT)
#undef REASON_TEXT
};
static const char *const direction_texts[] = {"none", "device-to-host", "host-to-device", "device-to-device"};

static const char *device_name(const reed_session *s, int32_t device) { return s->devices.items[device].device->name; }

/* operator, node and input that a copy is for. */
static void add_cause(json_tree *t, const reed_session *s, cJSON *item, const profile_copy *copy) {
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
  } else if (copy->reason == COPY_REASON_INPUT && copy->input < m->functions[0].n_r_params) {
    input = m->strings[m->types[m->inputs[copy->input]].name];
  } else if (copy->reason == COPY_REASON_CONSTANT && copy->input < m->n_constants) {
    input = m->strings[m->constants[copy->input].name];
  }
  text(t, item, "operator", op);
  text(t, item, "node", node);
  text(t, item, "input", input);
}

static double us(int64_t ns) { return (double)ns / 1000.0; }

static void add_memory(json_tree *t, const reed_session *s, cJSON *memory) {
  for (int32_t d = 0; d < s->devices.n; d++) {
    cJSON *of_device = child(t, memory, device_name(s, d));
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
    number(t, of_device, "live_bytes", (double)figures.live_bytes);
    number(t, of_device, "reserved_bytes", (double)figures.reserved_bytes);
    number(t, of_device, "peak_bytes", (double)figures.peak_live_bytes);
    number(t, of_device, "fragmentation", figures.fragmentation);
    number(t, of_device, "arena_bytes", (double)bytes);
    number(t, of_device, "arena_bytes_without_reuse", (double)without_reuse);
    number(t, of_device, "arena_lower_bound", (double)lower_bound);
  }
}

static reed_status stats_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  json_tree t = {0};
  t.root = keep(&t, cJSON_CreateObject());
  const profile *p = &s->run.profile;
  number(&t, t.root, "wall_us", us(p->wall_ns));
  cJSON *epochs = array(&t, t.root, "epochs");
  for (size_t i = 0; i < p->epochs.n; i++) {
    const profile_epoch *e = &p->epochs.items[i];
    cJSON *item = append(&t, epochs);
    number(&t, item, "id", e->epoch);
    text(&t, item, "memo", e->hit ? "hit" : "miss");
    number(&t, item, "shape_functions", e->n_shape_functions);
    number(&t, item, "kernels", e->n_kernels);
    number(&t, item, "enter_us", us(e->enter_ns));
    number(&t, item, "shape_us", us(e->shape_ns));
    number(&t, item, "plan_us", us(e->plan_ns));
    number(&t, item, "run_us", us(e->run_ns));
  }
  cJSON *copies = array(&t, t.root, "copies");
  for (size_t i = 0; i < p->copies.n; i++) {
    const profile_copy *c = &p->copies.items[i];
    if (c->direction == PROFILE_NO_COPY) continue;
    cJSON *item = append(&t, copies);
    text(&t, item, "direction", direction_texts[c->direction]);
    number(&t, item, "bytes", (double)c->bytes);
    text(&t, item, "reason", reason_texts[c->reason]);
    add_cause(&t, s, item, c);
  }
  add_memory(&t, s, child(&t, t.root, "memory"));
  cJSON *memo = child(&t, t.root, "memo");
  number(&t, memo, "hits", (double)s->memo.figures.hits);
  number(&t, memo, "misses", (double)s->memo.figures.misses);
  number(&t, memo, "evictions", (double)s->memo.figures.evictions);
  number(&t, memo, "entries", (double)s->memo.figures.entries);
  number(&t, memo, "bytes", (double)s->memo.figures.bytes);
  number(&t, memo, "plans_reused", (double)s->memo.figures.layouts_reused);
  number(&t, t.root, "synchronisations", (double)p->n_syncs);
  number(&t, t.root, "kernels", (double)p->n_kernels);
  number(&t, t.root, "dropped", (double)p->n_notes_dropped);
  return finish(&t, out_json, diagnosis);
}

static reed_status plan_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  json_tree t = {0};
  t.root = keep(&t, cJSON_CreateObject());
  const profile *p = &s->run.profile;
  const module *m = s->run.program->module;
  cJSON *epochs = array(&t, t.root, "epochs");
  for (size_t i = 0; i < p->epochs.n; i++) {
    const profile_epoch *e = &p->epochs.items[i];
    cJSON *item = append(&t, epochs);
    number(&t, item, "id", e->epoch);
    text(&t, item, "function", m->strings[m->functions[m->epochs[e->epoch].function].name]);
    number(&t, item, "shape_functions", e->n_shape_functions);
    number(&t, item, "kernels", e->n_kernels);
    cJSON *readbacks = array(&t, item, "readbacks");
    for (size_t k = 0; k < p->copies.n; k++) {
      const profile_copy *c = &p->copies.items[k];
      if (!c->readback || c->after_epoch != i) continue;
      cJSON *back = append(&t, readbacks);
      text(&t, back, "reason", reason_texts[c->reason]);
      add_cause(&t, s, back, c);
      number(&t, back, "bytes", (double)c->bytes);
    }
    cJSON *arena = child(&t, item, "arena");
    for (int32_t d = 0; d < s->devices.n; d++) {
      cJSON *of_device = child(&t, arena, device_name(s, d));
      number(&t, of_device, "bytes", (double)e->arenas[d].bytes);
      number(&t, of_device, "without_reuse", (double)e->arenas[d].without_reuse);
      number(&t, of_device, "lower_bound", (double)e->arenas[d].lower_bound);
    }
  }
  return finish(&t, out_json, diagnosis);
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
  } else {
    snprintf(out, capacity, "%s", kind_texts[e->kind]);
  }
}

static void add_metadata(json_tree *t, cJSON *events, int pid, int tid, const char *what, const char *name) {
  cJSON *item = append(t, events);
  text(t, item, "name", what);
  text(t, item, "ph", "M");
  number(t, item, "pid", pid);
  number(t, item, "tid", tid);
  text(t, child(t, item, "args"), "name", name);
}

/* One process a device; on the host a thread for the interpreter and one for its kernels, on an accelerator one for its
 * stream. */
static int thread_of(const profile_event *e) { return e->kind == PROFILE_KERNEL || e->kind == PROFILE_COPY ? 2 : 1; }

static reed_status trace_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  if (!s->run.profile.spans)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the session was opened without `profile`");
  json_tree t = {0};
  t.root = keep(&t, cJSON_CreateObject());
  text(&t, t.root, "displayTimeUnit", "ns");
  cJSON *events = array(&t, t.root, "traceEvents");
  for (int32_t d = 0; d < s->devices.n; d++) {
    add_metadata(&t, events, d, 0, "process_name", device_name(s, d));
    if (d == 0) add_metadata(&t, events, d, 1, "thread_name", "interpreter");
    add_metadata(&t, events, d, 2, "thread_name", d == 0 ? "kernels" : "stream");
  }
  int64_t origin = INT64_MAX;
  for (const profile_block *b = s->run.profile.first; b; b = b->next)
    for (size_t i = 0; i < b->n; i++)
      if (b->events[i].span.begin_ns && b->events[i].span.begin_ns < origin) origin = b->events[i].span.begin_ns;
  for (const profile_block *b = s->run.profile.first; b; b = b->next)
    for (size_t i = 0; i < b->n; i++) {
      const profile_event *e = &b->events[i];
      if (!e->span.begin_ns || e->span.end_ns < e->span.begin_ns) continue; /* its run failed before it ended */
      cJSON *item = append(&t, events);
      char name[320];
      event_name(s, e, name, sizeof name);
      if (e->kind == PROFILE_MEMORY) {
        text(&t, item, "name", "memory");
        text(&t, item, "ph", "C");
        number(&t, item, "pid", e->device);
        number(&t, item, "tid", 0);
        number(&t, item, "ts", us(e->span.begin_ns - origin));
        number(&t, child(&t, item, "args"), "live_bytes", (double)e->bytes);
        continue;
      }
      text(&t, item, "name", name);
      text(&t, item, "cat", kind_texts[e->kind]);
      text(&t, item, "ph", "X");
      number(&t, item, "pid", e->device);
      number(&t, item, "tid", thread_of(e));
      number(&t, item, "ts", us(e->span.begin_ns - origin));
      number(&t, item, "dur", us(e->span.end_ns - e->span.begin_ns));
      cJSON *args = child(&t, item, "args");
      if (e->kind != PROFILE_COPY) continue;
      number(&t, args, "bytes", (double)e->bytes);
      text(&t, args, "direction",
           e->source_device == 0 ? "host-to-device"
           : e->device == 0      ? "device-to-host"
                                 : "device-to-device");
      text(&t, args, "reason", reason_texts[e->reason]);
    }
  number(&t, child(&t, t.root, "otherData"), "dropped_events", (double)s->run.profile.n_dropped);
  reed_status status = finish(&t, out_json, diagnosis);
  if (status == REED_OK) profile_forget_spans(&s->run.profile);
  return status;
}

/* ---- tables ---- */

typedef struct site_totals {
  int64_t calls, kernel_ns, shape_ns, prepare_ns, copy_bytes;
} site_totals;

static void add_totals(json_tree *t, cJSON *item, const site_totals *totals) {
  number(t, item, "calls", (double)totals->calls);
  number(t, item, "total_us", us(totals->kernel_ns));
  number(t, item, "shape_us", us(totals->shape_ns));
  number(t, item, "prepare_us", us(totals->prepare_ns));
  number(t, item, "bytes", (double)totals->copy_bytes);
}

static void sum_events(const profile *p, site_totals *sites) {
  for (const profile_block *b = p->first; b; b = b->next)
    for (size_t i = 0; i < b->n; i++) {
      const profile_event *e = &b->events[i];
      if (!about_site(e->kind) || e->index == UINT32_MAX) continue;
      site_totals *site = &sites[e->index];
      int64_t ns = e->span.end_ns > e->span.begin_ns ? e->span.end_ns - e->span.begin_ns : 0;
      switch ((profile_kind)e->kind) {
        case PROFILE_KERNEL:
        case PROFILE_HOST_KERNEL: site->calls++, site->kernel_ns += ns; break;
        case PROFILE_SHAPE_FUNCTION: site->shape_ns += ns; break;
        case PROFILE_PREPARE: site->prepare_ns += ns; break;
        default: site->copy_bytes += e->bytes;
      }
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
}

static reed_status profile_json(reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  if (!s->run.profile.spans)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "the session was opened without `profile`");
  const module *m = s->run.program->module;
  site_totals *sites = mem_calloc(m->n_sites, sizeof *sites);
  if (!sites) return diag_no_memory(diagnosis, "the profile");
  sum_events(&s->run.profile, sites);
  json_tree t = {0};
  t.root = keep(&t, cJSON_CreateObject());
  cJSON *operators = array(&t, t.root, "operators");
  for (size_t i = 0; i < m->n_sites; i++) {
    site_totals sum = {0};
    bool first = true; /* strings are interned: one index an operator */
    for (size_t k = 0; k < i && first; k++)
      first = m->sites[k].op != m->sites[i].op || m->sites[k].domain != m->sites[i].domain;
    if (!first) continue;
    for (size_t k = i; k < m->n_sites; k++)
      if (m->sites[k].op == m->sites[i].op && m->sites[k].domain == m->sites[i].domain) add_to(&sum, &sites[k]);
    if (is_zero(&sum)) continue;
    cJSON *item = append(&t, operators);
    text(&t, item, "operator", m->strings[m->sites[i].op]);
    add_totals(&t, item, &sum);
  }
  cJSON *nodes = array(&t, t.root, "nodes");
  for (size_t i = 0; i < m->n_sites; i++) {
    if (is_zero(&sites[i])) continue;
    cJSON *item = append(&t, nodes);
    text(&t, item, "node", m->strings[m->sites[i].node]);
    text(&t, item, "operator", m->strings[m->sites[i].op]);
    add_totals(&t, item, &sites[i]);
  }
  number(&t, t.root, "dropped_events", (double)s->run.profile.n_dropped);
  mem_free(sites);
  return finish(&t, out_json, diagnosis);
}

/* ---- the public questions ---- */

/* Questions are answered between runs, and claim the session as a run does. */
typedef reed_status (*question_fn)(reed_session *s, char **out_json, reed_diagnosis *diagnosis);

static reed_status answer(question_fn question, reed_session *s, char **out_json, reed_diagnosis *diagnosis) {
  if (!s || !out_json)
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "a session and a place for its figures are needed");
  if (!claim_take(&s->claim, NULL)) return session_in_use(diagnosis);
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
