/* The list of all unsupported properties of a model, reported together: each property with all its places. The checks
 * that find problems: graph.c, tensor.c, upgrade.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compiler/onnx/reader.h"

/* Appends a name to a line of the list; its control characters are escaped, so that a name with line breaks does not
 * look like more lines. */
static void append_name(text_buffer *out, const char *name) {
  for (; *name; name++) {
    if ((unsigned char)*name < 0x20) text_append(out, *name == '\n' ? "\\n" : "\\u%04x", (unsigned char)*name);
    else text_append_bytes(out, name, 1);
  }
}

reed_status onnx_unsupported(onnx_reader *r, const char *where, const char *format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  onnx_problem *p = NULL;
  for (size_t i = 0; i < r->problems.n && !p; i++)
    if (strcmp(r->problems.items[i].what, what) == 0) p = &r->problems.items[i];
  if (!p) {
    char *copy = mem_copy_text(what);
    if (!copy || !VEC_PUSH(&r->problems, ((onnx_problem){.what = copy}))) {
      mem_free(copy);
      return diag_no_memory(r->diagnosis, "the list of what is not supported");
    }
    p = &r->problems.items[r->problems.n - 1];
  }
  text_append(&p->where, "%s'", p->where.n ? ", " : "");
  append_name(&p->where, where);
  text_append(&p->where, "'");
  return p->where.failed ? diag_no_memory(r->diagnosis, "the list of what is not supported") : REED_OK;
}

reed_status onnx_report_problems(onnx_reader *r) {
  if (!r->problems.n) return REED_OK;
  text_buffer list = {0};
  for (size_t i = 0; i < r->problems.n; i++) {
    text_append(&list, "\n  ");
    append_name(&list, r->problems.items[i].what);
    text_append(&list, ": %s", r->problems.items[i].where.data);
  }
  reed_status status = list.failed ? diag_no_memory(r->diagnosis, "the list of what is not supported")
                                   : diag_fail(r->diagnosis, REED_ERROR_UNSUPPORTED, "not supported:%s", list.data);
  text_fini(&list);
  return status;
}

void onnx_forget_problems(onnx_reader *r) {
  for (size_t i = 0; i < r->problems.n; i++) {
    mem_free(r->problems.items[i].what);
    text_fini(&r->problems.items[i].where);
  }
  VEC_FREE(&r->problems);
}
