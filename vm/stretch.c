/* Launches that wait for the end of their stretch, and the graphs that are made of stretches (stretch.h). */
#include "vm/stretch.h"

#include <string.h>

#include "vm/devices.h"

/* ---- waiting ---- */

static bool add_words(stretch *w, const void *const *words, int32_t n) {
  if (!VEC_RESERVE(&w->words, w->words.n + (size_t)n)) return false;
  if (n) memcpy(w->words.items + w->words.n, words, (size_t)n * sizeof *words);
  w->words.n += (size_t)n;
  return true;
}

static bool hold(stretch *w, storage *const *held, int32_t n) {
  if (!VEC_RESERVE(&w->held, w->held.n + (size_t)n)) return false;
  for (int32_t i = 0; i < n; i++) {
    if (!held[i]) continue;
    storage_retain(held[i]);
    w->held.items[w->held.n++] = held[i];
  }
  return true;
}

reed_status stretch_add(vm_device *d, const reed_kernel *kernel, const reed_kernel_buffers *buffers, int32_t n_inputs,
                        int32_t n_outputs, uint32_t number, storage *const *held, int32_t n_held,
                        reed_diagnosis *diagnosis) {
  stretch *w = &d->stretch;
  stretch_launch launch = {kernel, number, n_inputs, n_outputs, buffers->input_extents != NULL, w->words.n};
  const void *first = kernel, *last[] = {buffers->workspace, buffers->extents};
  bool ok = add_words(w, &first, 1) && add_words(w, buffers->inputs, n_inputs) &&
            add_words(w, (const void *const *)buffers->outputs, n_outputs) && add_words(w, last, 2) &&
            (!launch.counted || add_words(w, (const void *const *)buffers->input_extents, n_inputs)) &&
            hold(w, held, n_held) && VEC_PUSH(&w->launches, launch);
  return ok ? REED_OK : diag_no_memory(diagnosis, "launches that wait for their graph");
}

void stretch_forget(vm_device *d) {
  stretch *w = &d->stretch;
  for (size_t i = 0; i < w->held.n; i++) storage_release(w->held.items[i]);
  w->held.n = w->launches.n = w->words.n = 0;
}

void stretch_drop_replaced(vm_device *d) {
  for (size_t i = 0; i < d->stretch.replaced.n; i++) d->on->drop(d->device, d->stretch.replaced.items[i]);
  d->stretch.replaced.n = 0;
}

void stretch_fini(vm_device *d) {
  stretch_forget(d);
  stretch_drop_replaced(d);
  VEC_FREE(&d->stretch.launches);
  VEC_FREE(&d->stretch.words);
  VEC_FREE(&d->stretch.held);
  VEC_FREE(&d->stretch.replaced);
}

/* ---- enqueuing ---- */

static reed_status enqueue(const vm_device *d, const stretch_launch *launch, reed_diagnosis *diagnosis) {
  const void **words = d->stretch.words.items + launch->word + 1;
  void **outputs = (void **)(words + launch->n_inputs), **rest = outputs + launch->n_outputs;
  reed_kernel_buffers buffers = {.inputs = words,
                                 .outputs = outputs,
                                 .workspace = rest[0],
                                 .extents = rest[1],
                                 .diagnosis = diagnosis,
                                 .input_extents = launch->counted ? (const int64_t *const *)(rest + 2) : NULL};
  return d->on->launch(d->compute, launch->kernel, &buffers, launch->n_inputs, launch->n_outputs, launch->number, NULL,
                       diagnosis);
}

/* Enqueues the launches one by one. */
static reed_status enqueue_all(const vm_device *d, vm_run *run) {
  const stretch *w = &d->stretch;
  for (size_t i = 0; i < w->launches.n; i++) {
    reed_status status = enqueue(d, &w->launches.items[i], run->diagnosis);
    if (status != REED_OK) return at_launch(run, w->launches.items[i].number, status);
  }
  return REED_OK;
}

/* The launches as a graph; NULL: the device refuses. */
static device_graph *record(const vm_device *d) {
  const stretch *w = &d->stretch;
  device_graph *graph = NULL;
  if (d->on->record(d->compute, NULL) != REED_OK) return NULL;
  reed_status status = REED_OK;
  for (size_t i = 0; i < w->launches.n && status == REED_OK; i++) status = enqueue(d, &w->launches.items[i], NULL);
  if (d->on->end_record(d->compute, &graph, NULL) != REED_OK) return NULL;
  if (status == REED_OK) return graph;
  d->on->drop(d->device, graph);
  return NULL;
}

static bool replay(const vm_device *d, device_graph *graph) {
  profile_event *event = profile_note(&d->graphs->run->profile, PROFILE_GRAPH, UINT32_MAX, d->number);
  if (event) event->bytes = (int64_t)d->stretch.launches.n;
  return d->on->replay(d->compute, graph, event ? &event->span : NULL, NULL) == REED_OK;
}

/* ---- graphs ---- */

/* The graphs of the stretch; NULL: no memory. */
static stretch_graphs *graphs_of(const vm_device *d) {
  stretch_state *state = d->graphs;
  graph_list *list = state->graphs;
  size_t number = state->next++;
  if (number == list->stretches.n) {
    if (!VEC_PUSH(&list->stretches, ((stretch_graphs){.device = d->device}))) return NULL;
    list->bytes += (int64_t)sizeof(stretch_graphs);
  }
  return &list->stretches.items[number];
}

/* The place of these words; NULL: none. */
static stretch_graph *find(stretch_graphs *graphs, const stretch *w) {
  for (int i = 0; i < STRETCH_GRAPHS; i++) {
    stretch_graph *g = &graphs->items[i];
    if (g->words && g->n_words == w->words.n && memcmp(g->words, w->words.items, g->n_words * sizeof *g->words) == 0)
      return g;
  }
  return NULL;
}

static bool any_recorded(const stretch_graphs *graphs) {
  bool any = false;
  for (int i = 0; i < STRETCH_GRAPHS; i++) any |= graphs->items[i].graph != NULL;
  return any;
}

/* Takes the graph off its place; it is dropped after the next synchronisation. False: no memory to note it. */
static bool replace(vm_device *d, stretch_graph *g) {
  if (g->graph && !VEC_PUSH(&d->stretch.replaced, g->graph)) return false;
  g->graph = NULL;
  return true;
}

/* Notes the words in a free place, or in the one used least recently. NULL: no memory. */
static stretch_graph *note(vm_device *d, stretch_graphs *graphs) {
  const stretch *w = &d->stretch;
  stretch_graph *oldest = &graphs->items[0];
  for (int i = 1; i < STRETCH_GRAPHS; i++)
    if (graphs->items[i].used < oldest->used) oldest = &graphs->items[i];
  const void **words = mem_copy(w->words.items, w->words.n * sizeof *words);
  if (!words || !replace(d, oldest)) {
    mem_free(words);
    return NULL;
  }
  d->graphs->graphs->bytes += ((int64_t)w->words.n - (int64_t)oldest->n_words) * (int64_t)sizeof *words;
  mem_free(oldest->words);
  *oldest = (stretch_graph){.words = words, .n_words = w->words.n};
  return oldest;
}

/* The graph to replay; NULL: none, and the launches are to be enqueued. *out_made: it was recorded just now. */
static stretch_graph *choose(vm_device *d, stretch_graphs *graphs, bool *out_made) {
  stretch_figures *figures = &d->graphs->figures;
  stretch_graph *g = find(graphs, &d->stretch);
  bool moved = !g && any_recorded(graphs);
  figures->moved += moved;
  if (!g) g = note(d, graphs);
  if (!g) return NULL;
  g->used = ++d->graphs->graphs->n_uses;
  if (g->graph) return g;
  if (moved || g->refused) return NULL;
  g->graph = record(d);
  g->refused = !g->graph;
  figures->captured += !g->refused;
  figures->refused += g->refused;
  *out_made = true;
  return g->graph ? g : NULL;
}

static reed_status run_stretch(vm_device *d) {
  vm_run *run = d->graphs->run;
  reed_status status = device_order_launches(d, run->diagnosis);
  if (status != REED_OK) return status;
  stretch_graphs *graphs = d->stretch.launches.n >= STRETCH_LEAST_LAUNCHES ? graphs_of(d) : NULL;
  bool made = false;
  stretch_graph *g = graphs ? choose(d, graphs, &made) : NULL;
  if (!g) return enqueue_all(d, run);
  if (replay(d, g->graph)) {
    d->graphs->figures.replayed += !made;
    return REED_OK;
  }
  d->graphs->figures.refused++;
  g->refused = made;
  (void)!replace(d, g);
  return enqueue_all(d, run);
}

reed_status stretch_end(vm_device *d) {
  if (!d->stretch.launches.n) return REED_OK;
  reed_status status = run_stretch(d);
  stretch_forget(d);
  return status;
}

void graph_list_fini(graph_list *list) {
  for (size_t i = 0; i < list->stretches.n; i++) {
    stretch_graphs *graphs = &list->stretches.items[i];
    for (int k = 0; k < STRETCH_GRAPHS; k++) {
      if (graphs->items[k].graph) graphs->device->interface->drop(graphs->device, graphs->items[k].graph);
      mem_free(graphs->items[k].words);
    }
  }
  VEC_FREE(&list->stretches);
}
