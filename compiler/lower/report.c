/* What lowering tells the compile report: where operators run, the epochs, and why each boundary is one. */
#include "compiler/lower/emit.h"

static const char *const reason_names[] = {
#define REASON_NAME(name, text) text,
    COPY_REASON_LIST(REASON_NAME)
#undef REASON_NAME
};

static void quoted(text_buffer *out, const char *text) {
  text_append(out, "\"");
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\') text_append(out, "\\%c", *c);
    else if (*c < 0x20) text_append(out, "\\u%04x", *c);
    else text_append_bytes(out, c, 1);
  }
  text_append(out, "\"");
}

static void report_fetch(const lower_fetch *fetch, text_buffer *out) {
  const flow_item *item = fetch->item;
  bool extent = item->kind == FLOW_EXTENT;
  const ir_value *v = item->target->value;
  text_append(
      out, "{\"reason\":\"%s\",\"operator\":", extent ? reason_names[COPY_REASON_EXTENT] : reason_names[item->reason]);
  quoted(out, item->node->op->name);
  text_append(out, ",\"node\":");
  quoted(out, item->node->name);
  text_append(out, ",\"input\":%d,\"value\":", extent ? -1 : item->input);
  quoted(out, v ? v->name : "");
  text_append(out, "}");
}

/* The Loop whose body an epoch is in; "" for main. */
static const char *loop_name(const flow_block *root) { return root->owner ? root->owner->node->name : ""; }

void lower_report(const lower *l, text_buffer *out) {
  int32_t n_copies = 0, n_main = 0;
  for (size_t i = 0; i < l->notes.n; i++) {
    n_copies += l->notes.items[i].n_copies;
    n_main += l->notes.items[i].root == l->f.main;
  }
  text_append(out,
              "{\"placement\":{\"host_operators\":%d,\"device_operators\":%d,\"host_loop_values\":%d,\"copies_to_"
              "device\":%d,\"fetches\":%zu},",
              l->f.placed.host_operators, l->f.placed.device_operators, l->f.placed.host_loop_values, n_copies,
              l->fetches.n);
  text_append(out, "\"registers\":%u,\"epochs_outside_loops\":%d,\"epochs\":[", l->n_r, n_main);
  size_t next = 0;
  for (size_t i = 0; i < l->notes.n; i++) {
    const lower_note *note = &l->notes.items[i];
    text_append(out, "%s{\"id\":%d,\"loop\":", i ? "," : "", note->epoch);
    quoted(out, loop_name(note->root));
    text_append(out, ",\"keys\":%d,\"shape_functions\":%d,\"host_kernels\":%d,", note->n_keys, note->n_shapes,
                note->n_host_kernels);
    text_append(out, "\"kernels\":%d,\"views\":%d,\"copies\":%d,\"fetched_after\":[", note->n_kernels, note->n_views,
                note->n_copies);
    while (next < l->fetches.n && l->fetches.items[next].epoch < note->epoch) next++;
    for (bool first = true; next < l->fetches.n && l->fetches.items[next].epoch == note->epoch; next++, first = false) {
      if (!first) text_append(out, ",");
      report_fetch(&l->fetches.items[next], out);
    }
    text_append(out, "]}");
  }
  text_append(out, "]}");
}
