/* Makers of graphs and the text of lowered modules (graph.h). */
#include "tests/compiler/lower/graph.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytecode/insn.h"
#include "compiler/lower/lower.h"
#include "loader/loader.h"
#include "reed/device.h"

ir_module *graph_open(void) {
  ir_module *m = NULL;
  ck_assert_int_eq(ir_module_open(NULL, NULL, &m), REED_OK);
  m->name = "test";
  return m;
}

void graph_type(ir_value *v, reed_dtype dtype, int32_t rank, const int64_t *dims) {
  v->type.dtype = dtype;
  v->type.rank = rank;
  for (int32_t i = 0; i < rank; i++)
    v->type.dims[i] = dims[i] == ANY_DIM ? symbols_fresh_extent(v->graph->module->symbols) : dims[i];
}

ir_value *graph_param(ir_graph *g, const char *name, reed_dtype dtype, int32_t rank, const int64_t *dims) {
  ir_value *v = ir_value_new(g, name);
  ck_assert_ptr_nonnull(v);
  graph_type(v, dtype, rank, dims);
  ck_assert(ir_add_param(g, v));
  return v;
}

void graph_result(ir_graph *g, ir_value *v) { ck_assert(ir_add_result(g, v)); }

static ir_value *constant(ir_module *m, reed_dtype dtype, int64_t n, const void *elements) {
  reed_desc desc = {.dtype = dtype, .rank = n < 0 ? 0 : 1, .dims = {n < 0 ? 0 : n}};
  ir_value *v = ir_constant(m, &desc, elements, false, NULL);
  ck_assert_ptr_nonnull(v);
  return v;
}

ir_value *graph_i64(ir_module *m, int64_t n, const int64_t *elements) { return constant(m, REED_I64, n, elements); }
ir_value *graph_f32(ir_module *m, int64_t n, const float *elements) { return constant(m, REED_F32, n, elements); }
ir_value *graph_bool(ir_module *m, bool element) { return constant(m, REED_BOOL, -1, &element); }

static ir_node *node(ir_graph *g, op_id op, int32_t n_outputs, va_list inputs) {
  ir_value *in[16];
  int32_t n = 0;
  for (ir_value *v = va_arg(inputs, ir_value *); v != GRAPH_END; v = va_arg(inputs, ir_value *)) in[n++] = v;
  ir_node *made = ir_node_new(g, NULL, op_builtin(op), NULL, in, n, NULL, n_outputs);
  ck_assert_ptr_nonnull(made);
  return made;
}

ir_node *graph_node(ir_graph *g, op_id op, int32_t n_outputs, ...) {
  va_list inputs;
  va_start(inputs, n_outputs);
  ir_node *made = node(g, op, n_outputs, inputs);
  va_end(inputs);
  return made;
}

ir_value *graph_op(ir_graph *g, op_id op, reed_dtype dtype, int32_t rank, const int64_t *dims, ...) {
  va_list inputs;
  va_start(inputs, dims);
  ir_node *made = node(g, op, 1, inputs);
  va_end(inputs);
  graph_type(made->outputs[0], dtype, rank, dims);
  return made->outputs[0];
}

static void write_register(text_buffer *out, const module *m, insn_role role, uint32_t word) {
  switch (role) {
    case INSN_ROLE_SITE:
      text_append(out, "%s'%s'", m->strings[m->sites[word].op], m->strings[m->sites[word].node]);
      break;
    case INSN_ROLE_RF_INPUT:
    case INSN_ROLE_RF_KEY:
    case INSN_ROLE_RU_KERNEL:
    case INSN_ROLE_RD_OUTPUT:
    case INSN_ROLE_RX_KERNEL:
      if (INSN_REGISTER(word) == MODULE_ABSENT) text_append(out, "-");
      else
        text_append(out, "r%u%s", INSN_REGISTER(word), INSN_READS(word) == 2 ? "v" : INSN_READS(word) == 3 ? "b" : "");
      break;
    case INSN_ROLE_SD:
    case INSN_ROLE_SU: text_append(out, "s%u", word); break;
    case INSN_ROLE_LABEL: text_append(out, "@%u", word); break;
    case INSN_ROLE_REASON: text_append(out, "reason%u", word); break;
    default: text_append(out, insn_roles[role].bank == INSN_BANK_R ? "r%u" : "%u", word); break;
  }
}

static void write_code(text_buffer *out, const module *m) {
  const module_function *f = &m->functions[0];
  insn in;
  for (uint32_t pc = 0; insn_decode(m->code + f->code_offset, f->n_code, pc, &in); pc += in.n_words) {
    const insn_info *info = &insn_table[in.id];
    text_append(out, "%s", info->mnemonic);
    for (int i = 0; i < info->n_operands; i++) {
      const insn_operand *o = &in.operands[i];
      text_append(out, "%s", i ? ", " : " ");
      if (info->forms[i] == INSN_FORM_LONG) {
        text_append(out, "%lld", (long long)insn_long(o));
        continue;
      }
      bool list = info->forms[i] == INSN_FORM_LIST;
      if (list) text_append(out, "(");
      for (uint32_t k = 0; k < o->n; k++) {
        if (k) text_append(out, " ");
        write_register(out, m, info->roles[i], o->words[k]);
      }
      if (list) text_append(out, ")");
    }
    text_append(out, "\n");
  }
}

lowered graph_lower(ir_module *m) {
  lowered l = {0};
  json_writer report = {0};
  text_buffer text = {0};
  reed_diagnosis *diagnosis = NULL;
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  module_memory memory;
  reed_module_sink sink = module_memory_sink(&memory);
  json_begin_object(&report, NULL);
  reed_status status = lower_module(m, NULL, &sink, &report, diagnosis);
  json_end_object(&report);
  ck_assert_msg(status == REED_OK, "lowering: %s", reed_diagnosis_message(diagnosis));
  ir_module_close(&m);
  l.bytes = memory.bytes;
  l.n_bytes = memory.n;
  status = loader_open_bytes(l.bytes, l.n_bytes, &(load_options){0}, &l.m, diagnosis);
  ck_assert_msg(status == REED_OK, "loading: %s", reed_diagnosis_message(diagnosis));
  reed_diagnosis_close(&diagnosis);
  write_code(&text, l.m);
  l.text = text.data;
  ck_assert_int_eq(json_finish(&report, &l.report, NULL, "report"), REED_OK);
  l.n_epochs = (int32_t)l.m->n_epochs;
  if (getenv("SHOW")) printf("%s%s\n", l.text, l.report);
  return l;
}

/* ---- running ---- */

static reed_tensor *tensor_of(const spec *s) {
  reed_tensor *t = NULL;
  ck_assert_int_eq(reed_tensor_open(s->dtype, s->rank, s->dims, &t), REED_OK);
  size_t bytes = reed_dtype_bytes(s->dtype);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    reed_dtype_write(s->dtype, (char *)reed_tensor_data(t) + (size_t)i * bytes, s->elements[i]);
  return t;
}

static void compare(const spec *want, const reed_tensor *got, size_t output) {
  ck_assert_msg(reed_tensor_dtype(got) == want->dtype, "output %zu: dtype %s", output,
                reed_dtype_name(reed_tensor_dtype(got)));
  ck_assert_msg(reed_tensor_rank(got) == want->rank, "output %zu: rank %d", output, reed_tensor_rank(got));
  for (int32_t i = 0; i < want->rank; i++)
    ck_assert_msg(reed_tensor_dims(got)[i] == want->dims[i], "output %zu: extent %d is %lld", output, i,
                  (long long)reed_tensor_dims(got)[i]);
  size_t bytes = reed_dtype_bytes(want->dtype);
  for (int64_t i = 0; i < reed_tensor_elements(got); i++) {
    double element = reed_dtype_read(want->dtype, (char *)reed_tensor_data(got) + (size_t)i * bytes);
    ck_assert_msg(fabs(element - want->elements[i]) < 1e-5, "output %zu: element %lld is %g, not %g", output,
                  (long long)i, element, want->elements[i]);
  }
}

static const char *const devices[] = {"host", "sim", "sim:1?late=1", "cuda-emulated"};
enum { N_DEVICES = sizeof devices / sizeof *devices, EMULATED = N_DEVICES - 1 };
_Static_assert(sizeof((lowered *)NULL)->sessions / sizeof(reed_session *) == N_DEVICES, "a session for each device");

/* Without a C++ compiler there is no emulated GPU. */
static int devices_present(void) {
  reed_device_info kind;
  for (size_t i = 0; reed_device_kind(i, &kind); i++)
    if (strcmp(kind.name, devices[EMULATED]) == 0) return kind.present ? N_DEVICES : EMULATED;
  return EMULATED;
}

static reed_session *session_of(lowered *l, int on, reed_diagnosis *diagnosis) {
  if (!l->program) {
    reed_status status = reed_program_open_bytes(l->bytes, l->n_bytes, NULL, &l->program, diagnosis);
    ck_assert_msg(status == REED_OK, "opening: %s", reed_diagnosis_message(diagnosis));
  }
  if (!l->sessions[on]) {
    reed_session_options options = {.device = devices[on], .n_threads = 1};
    reed_status status = reed_session_open(l->program, &options, &l->sessions[on], diagnosis);
    ck_assert_msg(status == REED_OK, "opening a session: %s", reed_diagnosis_message(diagnosis));
  }
  return l->sessions[on];
}

void lowered_expect(lowered *l, const spec *inputs, size_t n_inputs, const spec *outputs, size_t n_outputs) {
  reed_diagnosis *diagnosis = NULL;
  reed_tensor *in[8] = {0}, *out[8] = {0};
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  for (size_t i = 0; i < n_inputs; i++) in[i] = tensor_of(&inputs[i]);
  for (int run = 0; run < 6; run++) {
    reed_status status = reed_session_run(session_of(l, run > 1, diagnosis), in, n_inputs, out, n_outputs, diagnosis);
    ck_assert_msg(status == REED_OK, "run %d: %s in\n%s", run, reed_diagnosis_message(diagnosis), l->text);
    for (size_t i = 0; i < n_outputs; i++) {
      compare(&outputs[i], out[i], i);
      reed_tensor_close(&out[i]);
    }
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&in[i]);
  reed_diagnosis_close(&diagnosis);
}

void lowered_fails(lowered *l, const spec *inputs, size_t n_inputs, reed_status status, const char *node,
                   const char *input, const char *message) {
  reed_diagnosis *diagnosis = NULL;
  reed_tensor *in[8] = {0}, *out[8] = {0};
  ck_assert_int_eq(reed_diagnosis_open(&diagnosis), REED_OK);
  for (size_t i = 0; i < n_inputs; i++) in[i] = tensor_of(&inputs[i]);
  for (int on = 0; on < devices_present(); on++) {
    reed_session *session = session_of(l, on, diagnosis);
    ck_assert_int_eq(reed_session_run(session, in, n_inputs, out, reed_program_output_count(l->program), diagnosis),
                     status);
    ck_assert_str_eq(reed_diagnosis_message(diagnosis), message);
    ck_assert_str_eq(reed_diagnosis_node(diagnosis), node);
    ck_assert_str_eq(reed_diagnosis_input(diagnosis), input);
    ck_assert_int_ge(reed_session_kernel_count(session),
                     1); /* kernels of run sections, on the accelerator if the session has one */
  }
  for (size_t i = 0; i < n_inputs; i++) reed_tensor_close(&in[i]);
  reed_diagnosis_close(&diagnosis);
}

void lowered_close(lowered *l) {
  for (int i = 0; i < N_DEVICES; i++)
    if (l->sessions[i]) reed_session_close(&l->sessions[i]);
  if (l->program) reed_program_close(&l->program);
  module_close(&l->m);
  mem_free(l->bytes);
  mem_free(l->text);
  mem_free(l->report);
}

int occurrences(const char *text, const char *fragment) {
  int n = 0;
  for (const char *at = strstr(text, fragment); at; at = strstr(at + 1, fragment)) n++;
  return n;
}

ir_value *graph_to_i64(ir_graph *g, ir_value *v) {
  ir_value *out = graph_op(g, OP_Cast, REED_I64, v->type.rank, v->type.dims, v, GRAPH_END);
  ck_assert(ir_set_attr_int(out->producer, "to", REED_I64));
  return out;
}
