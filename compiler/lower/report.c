/* Lowering's part of the compile report: the numbers of operators by device, the epochs, and the reason for each
 * boundary. The report of the passes: compile.c. */
#include "compiler/lower/report.h"

static const char *const reason_names[] = {
#define REASON_NAME(name, text) text,
    COPY_REASON_LIST(REASON_NAME)
#undef REASON_NAME
};

static void report_fetch(const lower_fetch *fetch, json_writer *json) {
  const flow_item *item = fetch->item;
  bool extent = item->kind == FLOW_EXTENT;
  const ir_value *v = item->target->value;
  json_begin_object(json, NULL);
  json_string(json, "reason", extent ? reason_names[COPY_REASON_EXTENT] : reason_names[item->reason]);
  json_string(json, "operator", item->node->op->name);
  json_string(json, "node", item->node->name);
  json_integer(json, "input", extent ? -1 : item->input);
  json_string(json, "value", v ? v->name : "");
  if (extent) json_string(json, "why", item->why);
  json_end_object(json);
}

/* The name of the Loop whose body has the epoch; "" for main. */
static const char *loop_name(const flow_block *root) { return root->owner ? root->owner->node->name : ""; }

static void report_placement(const lower *l, json_writer *json) {
  int32_t n_copies = 0;
  for (size_t i = 0; i < l->notes.n; i++) n_copies += l->notes.items[i].n_copies;
  json_begin_object(json, "placement");
  json_integer(json, "host_operators", l->f.placed.host_operators);
  json_integer(json, "late_operators", l->f.placed.late_operators);
  json_integer(json, "device_operators", l->f.placed.device_operators);
  json_integer(json, "host_loop_values", l->f.placed.host_loop_values);
  json_integer(json, "copies_to_device", n_copies);
  json_integer(json, "fetches", (int64_t)l->fetches.n);
  json_integer(json, "at_bound", l->f.n_at_bound);
  json_end_object(json);
}

void lower_report(const lower *l, json_writer *json) {
  int32_t n_main = 0;
  for (size_t i = 0; i < l->notes.n; i++) n_main += l->notes.items[i].root == l->f.main;
  report_placement(l, json);
  json_integer(json, "registers", l->n_r);
  json_integer(json, "epochs_outside_loops", n_main);
  json_begin_array(json, "epochs");
  size_t next = 0;
  for (size_t i = 0; i < l->notes.n; i++) {
    const lower_note *note = &l->notes.items[i];
    json_begin_object(json, NULL);
    json_integer(json, "id", note->epoch);
    json_string(json, "loop", loop_name(note->root));
    json_integer(json, "keys", note->n_keys);
    json_integer(json, "shape_functions", note->n_shapes);
    json_integer(json, "host_kernels", note->n_host_kernels);
    json_integer(json, "kernels", note->n_kernels);
    json_integer(json, "late_kernels", note->n_late_kernels);
    json_integer(json, "views", note->n_views);
    json_integer(json, "copies", note->n_copies);
    json_begin_array(json, "fetched_after");
    while (next < l->fetches.n && l->fetches.items[next].epoch < note->epoch) next++;
    for (; next < l->fetches.n && l->fetches.items[next].epoch == note->epoch; next++)
      report_fetch(&l->fetches.items[next], json);
    json_end_array(json);
    json_end_object(json);
  }
  json_end_array(json);
}
