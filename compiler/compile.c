/* The compiler's public functions (reed/compiler.h): reading, passes, lowering, report. The parts themselves are in
 * compiler/onnx, compiler/passes and compiler/lower. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/text.h"
#include "bytecode/module.h"
#include "compiler/lower/lower.h"
#include "compiler/onnx/onnx.h"
#include "compiler/ir/pass.h"
#include "compiler/passes/passes.h"
#include "reed/compiler.h"

bool reed_compile_pass(size_t i, reed_pass_info *out_info) {
  if (i >= (size_t)pass_count || !out_info) return false;
  *out_info = (reed_pass_info){pass_table[i].name, pass_table[i].about, pass_table[i].required};
  return true;
}

/* ---- one compilation ---- */

typedef struct compilation {
  const reed_compile_options *options;
  reed_diagnosis *diagnosis;
  pass_run passes;
  int64_t n_steps;
  double said;        /* the share done that was reported last */
  const void *mapped; /* the mapped file of the model; NULL: the caller has the model in memory */
  size_t n_mapped, n_written;
  capability *targets;
  const reed_module_sink *sink;
} compilation;

/* Releases the memory of the model's mapped file; pages are read again on their next use. Few passes read the weights,
 * and after them only the writing of the module. */
static void leave_pages(const compilation *c) {
  if (c->mapped) (void)madvise((void *)(uintptr_t)c->mapped, c->n_mapped, MADV_DONTNEED); /* only advice */
}

#define LEAVE_EVERY_BYTES ((size_t)32 << 20)

static reed_status sink_begin(void *context, size_t n_bytes) {
  const compilation *c = context;
  leave_pages(c);
  return c->sink->begin(c->sink->context, n_bytes);
}

static reed_status sink_write(void *context, const void *bytes, size_t n) {
  compilation *c = context;
  reed_status status = ir_check_cancel(c->passes.m);
  if (status != REED_OK) return status;
  if (c->n_written / LEAVE_EVERY_BYTES != (c->n_written + n) / LEAVE_EVERY_BYTES) leave_pages(c);
  c->n_written += n;
  return c->sink->write(c->sink->context, bytes, n);
}

/* Reports progress. The share never decreases, although passes run during lowering too. */
static void say(compilation *c, const char *what, double done) {
  if (c->said < done) c->said = done;
  done = c->said;
  if (c->options && c->options->progress) c->options->progress(c->options->progress_context, what, done);
}

/* Reports a pass as a step. The share approaches 0.8, because the number of steps is not known. */
static void say_pass(void *context, const char *pass) {
  compilation *c = context;
  c->n_steps++;
  leave_pages(c);
  say(c, pass, 0.1 + 0.7 * (1 - 8.0 / (double)(8 + c->n_steps)));
}

/* ---- options ---- */

static reed_status take_options(compilation *c) {
  const reed_compile_options *o = c->options;
  if (o && (o->precision < REED_PRECISION_F32 || o->precision > REED_PRECISION_F16))
    return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "%d is no precision", (int)o->precision);
  if (o && o->n_dims && !o->dims)
    return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "%zu ranges of dims are announced, but dims is NULL",
                     o->n_dims);
  if (!c->sink->begin || !c->sink->write)
    return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "the sink lacks its function '%s'",
                     c->sink->begin ? "write" : "begin");
  for (const char *const *name = o ? o->disabled_passes : NULL; name && *name; name++) {
    int i = pass_find(*name);
    if (i < 0) return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "there is no pass '%s'", *name);
    if (pass_table[i].required)
      return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "pass '%s' cannot be disabled", *name);
    c->passes.totals[i].disabled = true;
  }
  if (o && o->precision != REED_PRECISION_F32 && c->passes.totals[pass_find("pack")].disabled)
    return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "precision bf16 and f16 need the pass 'pack'");
  if (o && (o->counts < REED_COUNTS_BY_TARGET || o->counts > REED_COUNTS_DEVICE))
    return diag_fail(c->diagnosis, REED_ERROR_ARGUMENT, "%d is no place of counts", (int)o->counts);
  return capability_open(o ? o->target : NULL, o ? o->registry : NULL, &c->targets, c->diagnosis);
}

static void place_counts(ir_module *m, reed_counts asked) {
  m->counts_on_device =
      asked == REED_COUNTS_DEVICE || (asked == REED_COUNTS_BY_TARGET && capability_keeps_counts(m->targets));
  m->why_fetched = asked == REED_COUNTS_HOST
                       ? "all counts are fetched (compiled with --counts host)"
                       : "all counts are fetched, because the host is among the targets (--counts "
                         "device leaves them on the device)";
}

/* Adds the declared ranges to the message of extents that do not fit each other, because a range may be the reason. */
static void tell_ranges(const compilation *c, reed_status status) {
  const ir_module *m = c->passes.m;
  text_buffer all = {0};
  char text[64];
  for (size_t i = 0; status == REED_ERROR_SHAPE && m && i < m->declared.n; i++)
    text_append(&all, "%s%s=%s", i ? ", " : "; declared for the compilation: ", m->declared.items[i].name,
                range_text(m->declared.items[i].low, m->declared.items[i].high, text, sizeof text));
  size_t n = strlen(c->diagnosis->message);
  if (all.data) snprintf(c->diagnosis->message + n, sizeof c->diagnosis->message - n, "%s", all.data);
  text_fini(&all);
}

/* ---- report ---- */

typedef struct listing {
  json_writer *json;
  const ir_module *m;
  const ir_value *sought; /* the value whose reader is sought */
  const ir_node *reader;
} listing;

/* False when the Transpose only moves axes of extent 1, so that the elements keep their order. */
static bool moves_elements(const ir_node *n) {
  reed_attrs attrs = ir_attrs(n);
  const ir_type *t = &n->inputs[0]->type;
  int64_t n_perm, last = -1;
  const int64_t *perm = reed_attrs_ints(&attrs, "perm", &n_perm);
  for (int32_t i = 0; i < t->rank; i++) {
    int64_t axis = perm ? perm[i] : t->rank - 1 - i;
    if (t->dims[axis] == 1) continue;
    if (axis < last) return true;
    last = axis;
  }
  return t->rank < 0;
}

static reed_status find_reader(void *context, ir_node *n) {
  listing *l = context;
  for (int32_t i = 0; i < n->n_inputs && !l->reader; i++)
    if (n->inputs[i] == l->sought) l->reader = n;
  return REED_OK;
}

/* Lists a Transpose that is left in the module, with its producer and reader. Transposes of shape arithmetic are not
 * listed. */
static reed_status list_transpose(void *context, ir_node *n) {
  listing *l = context;
  if (n->op != op_builtin(OP_Transpose) || n->outputs[0]->elements || !moves_elements(n)) return REED_OK;
  char dim[256];
  const ir_type *t = &n->outputs[0]->type;
  l->sought = n->outputs[0];
  l->reader = NULL;
  reed_status status = ir_walk(l->m->main, true, find_reader, l);
  const ir_node *from = n->inputs[0]->producer, *to = l->reader;
  json_begin_object(l->json, NULL);
  json_string(l->json, "value", n->outputs[0]->name);
  json_string(l->json, "dtype", reed_dtype_name(t->dtype));
  json_begin_array(l->json, "dims");
  for (int32_t i = 0; i < t->rank; i++)
    json_string(l->json, NULL, symbols_text(l->m->symbols, t->dims[i], dim, sizeof dim));
  json_end_array(l->json);
  json_string(l->json, "from", from ? from->op->name : "");
  json_string(l->json, "from_node", from ? from->name : "");
  json_string(l->json, "to", to ? to->op->name : "");
  json_string(l->json, "to_node", to ? to->name : "");
  json_end_object(l->json);
  return status;
}

static void write_pass(int i, const pass_total *t, json_writer *json) {
  text_buffer counted = {0};
  for (int k = 0; k < PASS_COUNTS && t->sum.counts[k].what; k++)
    text_append(&counted, "%s%lld %s", k ? ", " : "", (long long)t->sum.counts[k].n, t->sum.counts[k].what);
  json_begin_object(json, NULL);
  json_string(json, "name", pass_table[i].name);
  json_bool(json, "disabled", t->disabled);
  json_integer(json, "runs", t->n_runs);
  json_integer(json, "changes", t->n_changes);
  json_string(json, "what", counted.n ? counted.data : "");
  json_end_object(json);
  json->text.failed |= counted.failed;
  text_fini(&counted);
}

/* Writes the model's name and node counts, the result of every pass, and the Transposes that are left. */
static void write_passes(const compilation *c, json_writer *json) {
  json_string(json, "model", c->passes.m->name);
  json_string(json, "target", capability_text(c->targets));
  json_string(json, "counts", c->passes.m->counts_on_device ? "device" : "host");
  json_integer(json, "nodes_before", c->passes.nodes_before);
  json_integer(json, "nodes_after", c->passes.nodes_after);
  json_begin_array(json, "passes");
  for (int i = 0; i < pass_count; i++) write_pass(i, &c->passes.totals[i], json);
  json_end_array(json);
  json_begin_array(json, "transposes");
  listing l = {.json = json, .m = c->passes.m};
  if (ir_walk(l.m->main, true, list_transpose, &l) != REED_OK) json->text.failed = true;
  json_end_array(json);
}

/* ---- the public functions ---- */

static reed_dtype precision_of(const reed_compile_options *o) {
  static const reed_dtype dtypes[] = {
      [REED_PRECISION_F32] = REED_F32, [REED_PRECISION_BF16] = REED_BF16, [REED_PRECISION_F16] = REED_F16};
  return o ? dtypes[o->precision] : REED_F32;
}

static reed_status compile(const void *onnx, size_t n_onnx, bool mapped, const onnx_external *external,
                           const reed_compile_options *options, void **out_bytes, size_t *out_n_bytes,
                           char **out_report_json, reed_diagnosis *diagnosis) {
  /* passes and lowering need a diagnosis to write to */
  reed_diagnosis unread;
  reed_diagnosis_clear(diagnosis ? diagnosis : &unread);
  compilation c = {.options = options,
                   .diagnosis = diagnosis ? diagnosis : &unread,
                   .mapped = mapped ? onnx : NULL,
                   .n_mapped = n_onnx};
  c.passes.before = say_pass;
  c.passes.context = &c;
  json_writer report = {0};
  char *report_json = NULL;
  json_begin_object(&report, NULL);
  json_begin_object(&report, "lowering");
  module_memory memory;
  reed_module_sink to_memory = module_memory_sink(&memory);
  c.sink = options && options->sink ? options->sink : &to_memory;
  reed_status status = take_options(&c);
  say(&c, "reading", 0);
  if (status == REED_OK) status = ir_module_open(options ? options->registry : NULL, c.diagnosis, &c.passes.m);
  if (status == REED_OK) c.passes.m->targets = c.targets;
  if (status == REED_OK) c.passes.m->precision = precision_of(options);
  if (status == REED_OK) c.passes.m->cancel = options ? options->cancel : NULL;
  if (status == REED_OK) status = ir_check_cancel(c.passes.m);
  if (status == REED_OK) place_counts(c.passes.m, options ? options->counts : REED_COUNTS_BY_TARGET);
  if (status == REED_OK && options) c.passes.m->dims = options->dims, c.passes.m->n_dims = options->n_dims;
  if (status == REED_OK) status = onnx_read(c.passes.m, onnx, n_onnx, external);
  if (status == REED_OK) status = pass_run_all(&c.passes);
  if (status == REED_OK) say(&c, "lowering", 0.8);
  if (status == REED_OK) status = ir_check_cancel(c.passes.m);
  if (status == REED_OK)
    status = lower_module(c.passes.m, &c.passes, &(reed_module_sink){&c, sink_begin, sink_write},
                          out_report_json ? &report : NULL, c.diagnosis);
  json_end_object(&report);
  if (status == REED_OK && out_report_json) {
    write_passes(&c, &report);
    json_end_object(&report);
    status = json_finish(&report, &report_json, c.diagnosis, "the report");
  }
  if (status == REED_OK) {
    if (out_bytes) *out_bytes = memory.bytes;
    if (out_n_bytes) *out_n_bytes = memory.n;
    if (out_report_json) *out_report_json = report_json;
    say(&c, "done", 1);
  } else {
    tell_ranges(&c, status);
    mem_free(memory.bytes);
  }
  json_fini(&report);
  ir_module_close(&c.passes.m);
  capability_close(&c.targets);
  return status;
}

static bool has_target(const reed_compile_options *options, void **out_bytes, size_t *out_n_bytes) {
  return (options && options->sink) || (out_bytes && out_n_bytes);
}

static onnx_external external_of(const reed_compile_options *options, const char *folder, const char *model) {
  onnx_external external = {.folder = folder, .model = model};
  if (!options) return external;
  external.anywhere = options->external_anywhere;
  external.reading = options->reading;
  external.reading_context = options->reading_context;
  return external;
}

reed_status reed_compile_bytes(const void *onnx, size_t n_onnx, const reed_compile_options *options, void **out_bytes,
                               size_t *out_n_bytes, char **out_report_json, reed_diagnosis *diagnosis) {
  if (!onnx || !has_target(options, out_bytes, out_n_bytes))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_compile_bytes: a pointer is missing");
  onnx_external external = external_of(options, options ? options->external_folder : NULL, NULL);
  return compile(onnx, n_onnx, false, &external, options, out_bytes, out_n_bytes, out_report_json, diagnosis);
}

/* The folder part of a path; "." for a path without one; NULL: no memory. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return mem_copy_text(".");
  char *folder = mem_copy(path, (size_t)(slash - path) + 2);
  if (folder) folder[slash - path + (slash == path)] = 0;
  return folder;
}

static reed_status map_file(const char *path, const void **out_bytes, size_t *out_n, reed_diagnosis *diagnosis) {
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: a pipe without a writer does not block */
  void *bytes = MAP_FAILED;
  const char *why = "it is not a file";
  if (file < 0 || fstat(file, &info) != 0) {
    why = strerror(errno);
  } else if (S_ISREG(info.st_mode)) {
    /* an empty file cannot be mapped; the reader refuses an empty model by its size */
    bytes = info.st_size ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0) : (void *)"";
    why = strerror(errno);
  }
  if (file >= 0) close(file);
  if (bytes == MAP_FAILED) return diag_fail(diagnosis, REED_ERROR_IO, "'%s' cannot be read: %s", path, why);
  *out_bytes = bytes;
  *out_n = (size_t)info.st_size;
  return REED_OK;
}

reed_status reed_compile_file(const char *onnx_path, const reed_compile_options *options, void **out_bytes,
                              size_t *out_n_bytes, char **out_report_json, reed_diagnosis *diagnosis) {
  if (!onnx_path || !has_target(options, out_bytes, out_n_bytes))
    return diag_fail(diagnosis, REED_ERROR_ARGUMENT, "reed_compile_file: a pointer is missing");
  const void *bytes = NULL;
  size_t n = 0;
  reed_status status = map_file(onnx_path, &bytes, &n, diagnosis);
  if (status != REED_OK) return status;
  const char *given = options ? options->external_folder : NULL;
  char *folder = given ? mem_copy_text(given) : folder_of(onnx_path);
  onnx_external external = external_of(options, folder, onnx_path);
  status = folder ? compile(bytes, n, n > 0, &external, options, out_bytes, out_n_bytes, out_report_json, diagnosis)
                  : diag_no_memory(diagnosis, "a path");
  mem_free(folder);
  if (n) munmap((void *)bytes, n);
  return status;
}
