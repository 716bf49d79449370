/* Opening models for the subcommands (model.h). */
#include "tools/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/interrupt.h"
#include "tools/plain.h"
#include "tools/print.h"
#include "tools/value.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

const char *const counts_names[] = {"host", "device", NULL, NULL};
const char *const layout_names[] = {"chw", "nchw", "hwc", "nhwc", NULL, NULL};
const char *device_names[MOST_DEVICES + 2];

void device_names_read(void) {
  reed_device_info kind;
  size_t n = 0;
  for (int hidden = 0; hidden < 2; hidden++, n++)
    for (size_t i = 0; reed_device_kind(i, &kind) && n < MOST_DEVICES; i++)
      if (kind.present == !hidden) device_names[n++] = kind.name;
}

int model_load_plugins(const options *o, model *m, complaint *c) {
  if (!m->diagnosis) m->diagnosis = need_diagnosis();
  if (o->plugins.n == 0 || m->registry) return DONE;
  reed_status status = reed_registry_open(&m->registry);
  for (size_t i = 0; i < o->plugins.n && !status; i++)
    status = reed_registry_load(m->registry, o->plugins.items[i], m->diagnosis);
  return status ? complain_diagnosis(c, BAD_FILE, "plugin", status, m->diagnosis) : DONE;
}

static bool is_onnx(const char *path) { return has_extension(path, "onnx") || has_extension(path, "pb"); }

/* Checks the names after --disable: each must be a pass that may be left out. */
static int check_pass_names(const words *disabled, complaint *c) {
  words names = {0};
  reed_pass_info pass;
  int status = DONE;
  for (size_t i = 0; reed_compile_pass(i, &pass); i++)
    if (!pass.required) words_add(&names, pass.name);
  for (size_t i = 0; i < disabled->n && !status; i++) {
    size_t k = 0;
    while (k < names.n && strcmp(names.items[k], disabled->items[i])) k++;
    if (k < names.n) continue;
    char near[200];
    suggestion(disabled->items[i], names.items, names.n, near, sizeof near);
    status =
        complain(c, MISUSE, "no pass '%s' can be left out%s The passes are", disabled->items[i], near[0] ? near : ".");
    for (k = 0; k < names.n; k++) complain_more(c, "%s %s", k ? "," : "", names.items[k]);
  }
  free(names.items);
  return status;
}

/* Reads "NAME=4", "NAME=0..4096", "NAME=1.." or "NAME=..512". The name may have an '=' of its own. */
static int read_dim(const char *text, reed_dim_range *out_range, complaint *c) {
  const char *value = strrchr(text, '=');
  if (!value || value == text)
    return complain(c, MISUSE, "--dim takes NAME=RANGE (batch=4, past=0..4096, n=1..), not '%s'", text);
  char *name = need_text(text), *low = name + (value - text) + 1, *dots = strstr(low, "..");
  *out_range = (reed_dim_range){.name = name, .low = 0, .high = REED_UNBOUNDED};
  low[-1] = 0;
  if (dots) *dots = 0;
  const char *high = dots ? dots + 2 : low;
  bool ok = *low ? parse_int(low, &out_range->low) : dots && *high;
  if (ok && *high) ok = parse_int(high, &out_range->high);
  if (ok && out_range->low >= 0 && out_range->low <= out_range->high) return DONE;
  return complain(c, MISUSE, "'%s' is no range of extents for dim '%s': 4, 0..4096, 1.. and ..512 are", value + 1,
                  name);
}

static void dims_free(reed_dim_range *dims, size_t n) {
  for (size_t i = 0; i < n; i++) free((char *)(uintptr_t)dims[i].name);
  free(dims);
}

static void show_pass(void *context, const char *what, double done) {
  (void)context;
  progress(what, done);
}

/* Allocates aligned memory, which a program can borrow, in huge pages if they are large enough: a product of one row
 * reads weights for which the CPU would look up a small page every 64 lines. */
static reed_status bytes_begin(void *context, size_t n_bytes) {
  model *m = context;
  const size_t page = n_bytes < HUGE_PAGE_BYTES ? 64 : HUGE_PAGE_BYTES;
  m->bytes = aligned_alloc(page, (n_bytes + page - 1) / page * page);
  m->n_bytes = 0;
#ifdef MADV_HUGEPAGE
  if (m->bytes && page > 64) (void)madvise(m->bytes, n_bytes / page * page, MADV_HUGEPAGE); /* only advice */
#endif
  return m->bytes ? REED_OK : REED_ERROR_MEMORY;
}

static reed_status bytes_write(void *context, const void *bytes, size_t n) {
  model *m = context;
  memcpy((char *)m->bytes + m->n_bytes, bytes, n);
  m->n_bytes += n;
  return REED_OK;
}

/* Protects a file that the model reads: the module must not replace it. */
static void protect(void *context, const char *path) {
  (void)context;
  target_protect(path);
}

static reed_status file_begin(void *context, size_t n_bytes) {
  (void)context;
  (void)n_bytes;
  return REED_OK;
}

static reed_status file_continue(void *context, const void *bytes, size_t n) {
  model *m = context;
  m->n_bytes += n;
  return target_write(m->target, bytes, n) ? REED_OK : REED_ERROR_IO;
}

int model_compile(const options *o, const char *path, model *m, char **out_report, reed_status *out_status,
                  complaint *c) {
  int status = model_load_plugins(o, m, c);
  target_protect(path);
  if (!status) status = check_pass_names(&o->disabled, c);
  if (status) return status;
  const char **disabled = need(o->disabled.n + 1, sizeof *disabled);
  for (size_t i = 0; i < o->disabled.n; i++) disabled[i] = o->disabled.items[i];
  reed_dim_range *dims = need(o->dims.n + 1, sizeof *dims);
  for (size_t i = 0; i < o->dims.n && !status; i++) status = read_dim(o->dims.items[i], &dims[i], c);
  if (status) {
    dims_free(dims, o->dims.n);
    free(disabled);
    return status;
  }
  reed_module_sink sink = {m, m->target ? file_begin : bytes_begin, m->target ? file_continue : bytes_write};
  /* A module that runs at once is compiled for the device that it runs on, unless the user names a target */
  bool told = o->device && !strchr(o->device, '/'); /* the path of a device module does not tell its capabilities */
  const char *target = o->target ? o->target : told ? o->device : NULL;
  reed_compile_options settings = {.registry = m->registry,
                                   .external_anywhere = o->external_anywhere,
                                   .reading = protect,
                                   .disabled_passes = disabled,
                                   .target = target,
                                   .progress = m->quiet ? NULL : show_pass,
                                   .sink = &sink,
                                   .cancel = interrupt_flag(),
                                   .dims = dims,
                                   .n_dims = o->dims.n};
  if (o->precision && strcmp(o->precision, "f32"))
    settings.precision = strcmp(o->precision, "f16") ? REED_PRECISION_BF16 : REED_PRECISION_F16;
  if (o->counts) settings.counts = strcmp(o->counts, "host") ? REED_COUNTS_DEVICE : REED_COUNTS_HOST;
  double begin = now_us();
  interrupt_polled_begin();
  reed_status compiled = reed_compile_file(path, &settings, NULL, NULL, out_report, m->diagnosis);
  interrupt_polled_end();
  if (!m->quiet) progress_end();
  m->compile_us = now_us() - begin;
  dims_free(dims, o->dims.n);
  free(disabled);
  if (out_status) *out_status = compiled;
  if (interrupted()) return complain(c, INTERRUPTED, "interrupted");
  if (compiled == REED_ERROR_ARGUMENT && (target || o->dims.n)) /* a word of the target's list, or a dim */
    return complain_diagnosis(c, MISUSE,
                              o->dims.n   ? "--dim"
                              : o->device ? "--device"
                                          : "--target",
                              compiled, m->diagnosis);
  return compiled ? complain_diagnosis(c, BAD_FILE, plain(path), compiled, m->diagnosis) : DONE;
}

int model_compile_to(const options *o, const char *path, const char *target, model *m, char **out_report,
                     complaint *c) {
  target_file file;
  target_protect(path);
  int status = target_open(&file, target, c);
  if (status) return status;
  m->target = &file;
  status = model_compile(o, path, m, out_report, NULL, c);
  m->target = NULL;
  bool unwritten = file.failed; /* then the failed write is the reason */
  int closed = target_close(&file, !status, !status || unwritten ? c : &(complaint){0});
  return status && !unwritten ? status : closed;
}

/* Refuses words for the compiler with a file that is no ONNX model. */
static int check_compiled(const options *o, const char *path, complaint *c) {
  const char *word = o->counts ? "--counts" : o->disabled.n ? "--disable" : NULL;
  return word ? complain(c, MISUSE, "%s is for ONNX models, '%s' is compiled already", word, plain(path)) : DONE;
}

int model_read(const options *o, const char *path, model *m, complaint *c) {
  if (is_onnx(path)) return model_compile(o, path, m, NULL, NULL, c);
  int status = check_compiled(o, path, c);
  if (!status) status = model_load_plugins(o, m, c);
  char *bytes;
  target_protect(path);
  if (status || (status = file_read(path, &bytes, &m->n_bytes, c))) return status;
  m->bytes = bytes;
  return DONE;
}

static int describe(model *m) {
  m->n_inputs = reed_program_input_count(m->program);
  m->n_outputs = reed_program_output_count(m->program);
  m->inputs = need(m->n_inputs, sizeof *m->inputs);
  m->outputs = need(m->n_outputs, sizeof *m->outputs);
  m->input_names = need(m->n_inputs, sizeof *m->input_names);
  m->output_names = need(m->n_outputs, sizeof *m->output_names);
  for (size_t i = 0; i < m->n_inputs; i++)
    if (reed_program_input(m->program, i, &m->inputs[i]) == REED_OK) m->input_names[i] = m->inputs[i].name;
  for (size_t i = 0; i < m->n_outputs; i++)
    if (reed_program_output(m->program, i, &m->outputs[i]) == REED_OK) m->output_names[i] = m->outputs[i].name;
  return DONE;
}

static int finish_opening(reed_status opened, const char *path, model *m, complaint *c) {
  if (interrupted()) return complain(c, INTERRUPTED, "interrupted");
  if (!opened) return describe(m);
  int status = complain_diagnosis(c, BAD_FILE, plain(path), opened, m->diagnosis);
  if (opened == REED_ERROR_FORMAT && !has_extension(path, "reed") && !is_onnx(path))
    complain_more(c, "; only files whose names end with .onnx or .pb are opened as ONNX models");
  return status;
}

int model_open_compiled(const options *o, const char *path, model *m, complaint *c) {
  reed_program_options settings = {
      .registry = m->registry, .ignore_checksum = o->ignore_checksum, .borrow_bytes = true, .cancel = interrupt_flag()};
  double begin = now_us();
  interrupt_polled_begin();
  reed_status opened = reed_program_open_bytes(m->bytes, m->n_bytes, &settings, &m->program, m->diagnosis);
  interrupt_polled_end();
  m->open_us = now_us() - begin;
  return finish_opening(opened, path, m, c);
}

int model_open(const options *o, const char *path, model *m, complaint *c) {
  if (is_onnx(path)) {
    int status = model_compile(o, path, m, NULL, NULL, c);
    return status ? status : model_open_compiled(o, path, m, c);
  }
  int status = check_compiled(o, path, c);
  if (!status) status = model_load_plugins(o, m, c);
  if (status) return status;
  target_protect(path);
  reed_program_options settings = {
      .registry = m->registry, .ignore_checksum = o->ignore_checksum, .cancel = interrupt_flag()};
  double begin = now_us();
  interrupt_polled_begin();
  reed_status opened = reed_program_open(path, &settings, &m->program, m->diagnosis);
  interrupt_polled_end();
  m->open_us = now_us() - begin;
  return finish_opening(opened, path, m, c);
}

/* ---- session ---- */

const char *const graphs_names[] = {"on", "off", NULL, NULL};

int model_open_session(const options *o, bool profile, model *m, complaint *c) {
  reed_session_options settings = {.device = o->device,
                                   .n_threads = (int)o->threads,
                                   .seed = (uint64_t)o->seed,
                                   .memory_cap_bytes = o->memory_cap,
                                   .profile = profile,
                                   .keep_outputs = o->keep_outputs};
  if (o->graphs) settings.graphs = strcmp(o->graphs, "on") == 0 ? REED_GRAPHS_ON : REED_GRAPHS_OFF;
  double begin = now_us();
  reed_status opened = reed_session_open(m->program, &settings, &m->session, m->diagnosis);
  m->session_us = now_us() - begin;
  if (opened == REED_ERROR_ARGUMENT && o->device) /* the device's name */
    return complain_diagnosis(c, MISUSE, o->device_flags ? o->device_flags : "--device", opened, m->diagnosis);
  if (opened) return complain_diagnosis(c, FAILED_RUN, "cannot open a session", opened, m->diagnosis);
  interrupt_session(m->session);
  return DONE;
}

void model_fini(model *m) {
  interrupt_session(NULL);
  if (m->session) reed_session_close(&m->session);
  if (m->program) reed_program_close(&m->program);
  if (m->registry) reed_registry_close(&m->registry);
  free(m->bytes);
  reed_diagnosis_close(&m->diagnosis);
  free(m->inputs);
  free(m->outputs);
  free(m->input_names);
  free(m->output_names);
  *m = (model){0};
}

/* ---- inputs ---- */

int model_split_name(const char *text, const char *const *names, size_t n, const char *what, bool value_may_follow,
                     const char **out_rest, complaint *c) {
  int found = -1;
  size_t longest = 0;
  for (size_t i = 0; i < n; i++) {
    size_t length = strlen(names[i]);
    if (strncmp(text, names[i], length) == 0 && text[length] == '=' && (found < 0 || length > longest))
      found = (int)i, longest = length;
  }
  /* "f32=1" is a scalar, even with an input called f32, because no VALUE follows the name */
  if (found >= 0 && value_may_follow && value_looks_like(text) && !value_looks_like(text + longest + 1)) found = -1;
  if (found >= 0) {
    *out_rest = text + longest + 1;
    return found;
  }
  const char *equals = strchr(text, '=');
  if (!equals || (value_may_follow && value_looks_like(text))) {
    *out_rest = text;
    if (n == 1) return 0;
    complain(c, MISUSE, "'%s' does not say which %s it is for: write NAME=..., one of", text, what);
  } else {
    char word[256], near[300];
    snprintf(word, sizeof word, "%.*s", (int)(equals - text < 250 ? equals - text : 250), text);
    suggestion(word, names, n, near, sizeof near);
    complain(c, MISUSE, "the model has no %s '%s'%s It has", what, plain(word), near[0] ? plain(near) : ".");
  }
  for (size_t i = 0; i < n; i++) complain_more(c, " %s", plain(names[i]));
  if (n == 0) complain_more(c, " none");
  return -1;
}

void tensors_close(reed_tensor **tensors, size_t n) {
  for (size_t i = 0; tensors && i < n; i++) reed_tensor_close(&tensors[i]);
  free(tensors);
}

/* Random floats; ones for integers and bools, because sizes, indices and flags must make sense. */
static int default_input(const reed_value_info *info, const reed_desc *shape, uint64_t seed, reed_tensor **out_tensor,
                         complaint *c) {
  reed_dtype dtype = shape->dtype != REED_NONE ? shape->dtype : info->dtype != REED_NONE ? info->dtype : REED_F32;
  reed_status status = reed_tensor_open(dtype, shape->rank, shape->dims, out_tensor);
  if (status) return complain(c, FAILED_RUN, "input '%s': %s", plain(info->name), reed_status_text(status));
  if (dtype == REED_F32 || dtype == REED_F16 || dtype == REED_BF16 || dtype == REED_F64 || dtype == REED_U8)
    value_random(*out_tensor, seed);
  else
    for (int64_t i = 0; i < reed_tensor_elements(*out_tensor); i++)
      reed_dtype_write(dtype, (char *)reed_tensor_data(*out_tensor) + (size_t)i * reed_dtype_bytes(dtype), 1);
  return DONE;
}

/* An extent for an example of input i: the model's own, or one in the declared range. */
static int64_t example_extent(const model *m, size_t i, int32_t axis) {
  reed_dim_range range;
  if (m->inputs[i].dims[axis] >= 0) return m->inputs[i].dims[axis];
  if (!reed_program_input_range(m->program, i, axis, &range)) return 64;
  return range.low > 64 ? range.low : range.high < 64 ? range.high : 64;
}

static int missing_input(const model *m, size_t i, bool random, complaint *c) {
  const reed_value_info *info = &m->inputs[i];
  char type[300];
  complain(c, MISUSE, "input '%s' %s is missing: give -i %s=VALUE", plain(info->name),
           info_type_text(info, type, sizeof type), plain(info->name));
  if (random) complain_more(c, ", such as -i %s=", plain(info->name));
  for (int32_t k = 0; random && k < info->rank; k++) complain_more(c, "%lldx", (long long)example_extent(m, i, k));
  if (random) complain_more(c, "%s=rand:1", info->dtype == REED_NONE ? "f32" : reed_dtype_name(info->dtype));
  return c->exit_status;
}

int model_make_inputs(const options *o, const model *m, bool random, reed_tensor ***out_tensors, complaint *c) {
  reed_tensor **tensors = need(m->n_inputs, sizeof *tensors);
  int status = DONE;
  for (size_t i = 0; i < o->inputs.n && !status; i++) {
    const char *rest;
    int k = model_split_name(o->inputs.items[i], m->input_names, m->n_inputs, "input", true, &rest, c);
    if (k < 0) status = c->exit_status;
    else if (tensors[k]) status = complain(c, MISUSE, "input '%s' is given twice", plain(m->input_names[k]));
    else status = value_parse(rest, &o->picture, &m->inputs[k], &tensors[k], c);
  }
  for (size_t i = 0; i < o->shapes.n && !status; i++) {
    const char *rest;
    reed_desc shape;
    int k = model_split_name(o->shapes.items[i], m->input_names, m->n_inputs, "input", false, &rest, c);
    if (k < 0) status = c->exit_status;
    else if (tensors[k]) status = complain(c, MISUSE, "input '%s' is given twice", plain(m->input_names[k]));
    else if (!value_parse_extents(rest, &shape))
      status = complain(c, MISUSE, "'%s': expected extents such as 3x256x320, not '%s'", o->shapes.items[i], rest);
    else status = default_input(&m->inputs[k], &shape, (uint64_t)k, &tensors[k], c);
  }
  for (size_t k = 0; k < m->n_inputs && !status; k++) {
    const reed_value_info *info = &m->inputs[k];
    bool fixed = random && info->rank >= 0;
    for (int32_t d = 0; d < info->rank; d++) fixed = fixed && info->dims[d] >= 0;
    if (tensors[k]) continue;
    if (!fixed) {
      status = missing_input(m, k, random, c);
      break;
    }
    reed_desc shape = {.dtype = info->dtype, .rank = info->rank};
    memcpy(shape.dims, info->dims, sizeof shape.dims);
    status = default_input(info, &shape, k, &tensors[k], c);
  }
  if (status) {
    tensors_close(tensors, m->n_inputs);
    return status;
  }
  *out_tensors = tensors;
  return DONE;
}

/* ---- running ---- */

int model_run(model *m, reed_tensor *const *inputs, reed_tensor **outputs, complaint *c) {
  if (interrupted()) return complain(c, INTERRUPTED, "interrupted");
  interrupt_polled_begin();
  reed_status status = reed_session_run(m->session, inputs, m->n_inputs, outputs, m->n_outputs, m->diagnosis);
  interrupt_polled_end();
  if (interrupted()) {
    for (size_t i = 0; i < m->n_outputs && !status; i++) reed_tensor_close(&outputs[i]);
    return complain(c, INTERRUPTED, "interrupted");
  }
  return status ? complain_diagnosis(c, FAILED_RUN, "the run failed", status, m->diagnosis) : DONE;
}

int model_json(model *m, session_json_fn get, const char *what, char **out_text, complaint *c) {
  reed_status status = get(m->session, out_text, m->diagnosis);
  return status ? complain_diagnosis(c, FAILED_RUN, what, status, m->diagnosis) : DONE;
}

int model_write_json(model *m, session_json_fn get, const char *what, const char *path, complaint *c) {
  char *text;
  int status = model_json(m, get, what, &text, c);
  if (status) return status;
  status = file_write(path, text, strlen(text), c);
  reed_text_free(text);
  return status;
}
