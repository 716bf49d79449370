/* Calls of operators (vm/call.c), in an epoch and outside of epochs, on the host and on an accelerator: absent
 * operands, one tensor given twice, workspace, kernels that fail while they are prepared or run, calls that do not fit
 * their row or their registers. The operator is a custom one whose result shows its operands. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/vm/hand.h"

/* test.Probe(x, y?, z?) -> (sum, wide?): sum = x + y + z, wide = sum joined to itself; 100 is added if wide is wanted.
 * Attribute `fails`: prepare, run; `workspace`: bytes that the kernel asks for and writes. */
typedef struct probe {
  int64_t n, workspace;
  int32_t n_inputs, n_outputs;
  bool fails;
} probe;

static int n_prepared, n_freed;

static reed_status probe_shape(reed_shape_call *call) {
  reed_dim rows = call->inputs[0].dims[0];
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = rows;
  if (call->n_outputs > 1) {
    call->outputs[1].rank = 1;
    call->outputs[1].dims[0] = reed_dim_mul(call, rows, 2);
  }
  return call->status;
}

static reed_status probe_run(const void *state, const reed_kernel_buffers *buffers) {
  const probe *p = state;
  float *sum = buffers->outputs[0], *wide = p->n_outputs > 1 ? buffers->outputs[1] : NULL;
  if (p->fails) return REED_ERROR_VALUE;
  if (p->workspace) {
    if (!buffers->workspace || (uintptr_t)buffers->workspace % 64 != 0) return REED_ERROR_ARGUMENT;
    memset(buffers->workspace, 0x5a, (size_t)p->workspace);
  }
  for (int64_t i = 0; i < p->n; i++) {
    float x = wide ? 100 : 0;
    for (int k = 0; k < p->n_inputs; k++)
      if (buffers->inputs[k]) x += ((const float *)buffers->inputs[k])[i];
    if (sum) sum[i] = x;
    if (wide) wide[i] = wide[p->n + i] = x;
  }
  return REED_OK;
}

static void probe_free(void *state) {
  n_freed++;
  free(state);
}

static reed_status probe_prepare(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const char *fails = reed_attrs_string(call->attrs, "fails", "");
  if (strcmp(fails, "prepare") == 0) return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "told to fail");
  probe *p = malloc(sizeof *p);
  *p = (probe){.n = call->inputs[0].dims[0],
               .n_inputs = call->n_inputs,
               .n_outputs = call->n_outputs,
               .workspace = reed_attrs_int(call->attrs, "workspace", 0),
               .fails = strcmp(fails, "run") == 0};
  n_prepared++;
  *out_kernel = (reed_kernel){.run = probe_run, .state = p, .free = probe_free, .workspace_bytes = p->workspace};
  for (int32_t i = 1; i < call->n_inputs; i++)
    if (call->inputs[i].dtype != REED_NONE && call->inputs[i].dims[0] != p->n)
      return reed_kernel_fail(call, REED_ERROR_SHAPE, "input %d has other rows", i);
  return REED_OK;
}

static const reed_op_input probe_inputs[] = {
    {.name = "x", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32},
    {.name = "y", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32, .optional = true},
    {.name = "z", .reads = REED_READS_SHAPE, .dtypes = 1u << REED_F32, .optional = true},
};
static const reed_op_output probe_outputs[] = {{.name = "sum", .optional = true, .type_rule = REED_TYPE_LIKE},
                                               {.name = "wide", .optional = true, .type_rule = REED_TYPE_LIKE}};
static const reed_op_attr probe_attrs[] = {{.name = "fails", .type = REED_ATTR_STRING},
                                           {.name = "mode", .type = REED_ATTR_STRING, .words = "even odd"},
                                           {.name = "workspace", .type = REED_ATTR_INT}};
static const reed_op probe_op = {.domain = "test",
                                 .name = "Probe",
                                 .inputs = probe_inputs,
                                 .n_inputs = 3,
                                 .outputs = probe_outputs,
                                 .n_outputs = 2,
                                 .attrs = probe_attrs,
                                 .n_attrs = 3,
                                 .shape = probe_shape,
                                 .alias = REED_ALIAS_INPLACE,
                                 .cpu = probe_prepare};

static reed_registry *registry;

/* main(x) -> the register `result` of one call "[outputs], [inputs]" of Probe: in an epoch, or outside of epochs. */
typedef struct called {
  const char *attrs, *outputs, *inputs, *shaped;
  const char *result;
  int n_inputs, n_outputs;
} called;

static char *text_of(const called *c, bool epoch) {
  static char text[4096];
  snprintf(text, sizeof text,
           ".module \"m\" devices 2\n.type x = f32[n] \"x\"\n.type y = f32[m] \"y\"\n.inputs x\n.outputs y\n"
           ".site k = Probe in \"test\" (%d -> %d) \"the call\" {%s}\n"
           ".site add = Add (2 -> 1) \"add\"\n.function main (x) -> (y) registers 7 0\n  assert.shape r0, x\n",
           c->n_inputs, c->n_outputs, c->attrs);
  size_t n = strlen(text);
  if (epoch) {
    snprintf(text + n, sizeof text - n,
             "  epoch.enter 0, plan, [r0:shape], []\n  shape.like r1, r0, device\n"
             "  shape add, device, [r2], [r1:shape, r1:shape]\n  shape k, device, %s, %s\nplan: epoch.plan 0\n"
             "  copy r1, r0, input, add, 0\n  invoke add, device, [r2], [r1, r1]\n  invoke k, device, %s, %s\n"
             "  kill r1\n  kill r2\n  epoch.end 0\n  readback r6, %s, output, k, 0\n  sync\n  return [r6], []\n",
             c->outputs, c->shaped, c->outputs, c->inputs, c->result);
  } else {
    snprintf(text + n, sizeof text - n,
             "  shape.like r1, r0, device\n  alloc r1\n  copy r1, r0, input, add, 0\n"
             "  shape add, device, [r2], [r1:shape, r1:shape]\n  alloc r2\n  invoke add, device, [r2], [r1, r1]\n"
             "  shape k, device, %s, %s\n  invoke k, device, %s, %s\n"
             "  readback r6, %s, output, k, 0\n  sync\n  return [r6], []\n",
             c->outputs, c->shaped, c->outputs, c->inputs, c->result);
  }
  return text;
}

static reed_session *session_of(const called *c, bool epoch, const char *device) {
  void *bytes;
  size_t n;
  reed_program *program;
  reed_session *session;
  const char *text = text_of(c, epoch);
  reed_status status = reed_module_assemble(text, registry, &bytes, &n, diagnosis);
  ck_assert_msg(status == REED_OK, "%s\n%s", reed_diagnosis_message(diagnosis), text);
  status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &program, diagnosis);
  ck_assert_msg(status == REED_OK, "%s\n%s", reed_diagnosis_message(diagnosis), text);
  reed_text_free(bytes);
  status = reed_session_open(program, &(reed_session_options){.device = device}, &session, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  reed_program_close(&program);
  return session;
}

/* x = 1, 2, 3: result[i] is scale * x[i] + plus. */
static void check_run(reed_session *session, float scale, float plus, int64_t n_results) {
  reed_tensor *input, *output;
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){3}, &input), REED_OK);
  for (int i = 0; i < 3; i++) ((float *)reed_tensor_data(input))[i] = (float)(i + 1);
  reed_status status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(diagnosis));
  ck_assert_int_eq(reed_tensor_elements(output), n_results);
  for (int i = 0; i < n_results; i++)
    ck_assert_float_eq(((float *)reed_tensor_data(output))[i], scale * (float)(i % 3 + 1) + plus);
  reed_tensor_close(&output);
  reed_tensor_close(&input);
}

static const char *const devices[] = {"host", "sim", "sim?late=1&poison=1"};
enum { N_DEVICES = sizeof devices / sizeof *devices };

/* _i: device, and whether in an epoch. */
static bool in_epoch(int i) { return i >= N_DEVICES; }

/* r1 = x, r2 = 2x. */
START_TEST(a_call_gets_its_operands) {
  static const struct {
    called call;
    float scale, plus;
    int64_t n_results;
  } cases[] = {
      {{"", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, 1, 0, 3},
      {{"", "[r3]", "[r1, r2, r2]", "[r1:shape, r2:shape, r2:shape]", "r3", 3, 1}, 5, 0, 3},
      {{"", "[r3]", "[r2, _, r1]", "[r2:shape, _, r1:shape]", "r3", 3, 1}, 3, 0, 3},
      {{"", "[r3]", "[r2, r2, r2]", "[r2:shape, r2:shape, r2:shape]", "r3", 3, 1}, 6, 0, 3},
      {{"", "[r3, r4]", "[r1, r2]", "[r1:shape, r2:shape]", "r3", 2, 2}, 3, 100, 3},
      {{"", "[r3, r4]", "[r1, r2]", "[r1:shape, r2:shape]", "r4", 2, 2}, 3, 100, 6},
      {{"", "[_, r4]", "[r1]", "[r1:shape]", "r4", 1, 2}, 1, 100, 6},
      {{"workspace = 1000", "[r3]", "[r1, r2]", "[r1:shape, r2:shape]", "r3", 2, 1}, 3, 0, 3},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    reed_session *session = session_of(&cases[i].call, in_epoch(_i), devices[_i % N_DEVICES]);
    n_prepared = n_freed = 0;
    for (int run = 0; run < 3; run++) check_run(session, cases[i].scale, cases[i].plus, cases[i].n_results);
    ck_assert_int_eq(n_prepared, 1); /* a hit prepares nothing, and outside of epochs the site finds its last call */
    reed_session_close(&session);
    ck_assert_int_eq(n_freed, n_prepared);
  }
}
END_TEST

START_TEST(a_kernel_that_fails_ends_its_run_and_no_more) {
  static const struct {
    called call;
    reed_status status;
    const char *says;
  } cases[] = {
      {{"fails = \"prepare\"", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, REED_ERROR_UNSUPPORTED, "told to fail"},
      {{"fails = \"run\"", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, REED_ERROR_VALUE, ""},
      {{"fails = \"run\", workspace = 64", "[r3]", "[r1, r2]", "[r1:shape, r2:shape]", "r3", 2, 1},
       REED_ERROR_VALUE,
       ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    reed_session *session = session_of(&cases[i].call, in_epoch(_i), devices[_i % N_DEVICES]);
    n_prepared = n_freed = 0;
    for (int run = 0; run < 3; run++) {
      reed_tensor *input, *output = NULL;
      ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){3 + run / 2}, &input), REED_OK);
      ck_assert_int_eq(reed_session_run(session, &input, 1, &output, 1, diagnosis), cases[i].status);
      ck_assert_ptr_null(output);
      ck_assert_msg(strcmp(reed_diagnosis_operator(diagnosis), "Probe") == 0, "case %zu: '%s' of '%s'", i,
                    reed_diagnosis_message(diagnosis), reed_diagnosis_operator(diagnosis));
      ck_assert_str_eq(reed_diagnosis_node(diagnosis), "the call");
      ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(diagnosis), cases[i].says));
      reed_tensor_close(&input);
    }
    reed_session_close(&session);
    ck_assert_int_eq(n_freed, n_prepared);
  }
}
END_TEST

/* Counts and registers that do not fit: refused when the module is opened, or by the run. */
START_TEST(a_call_that_does_not_fit_is_refused) {
  static const struct {
    called call;
    const char *says;
  } cases[] = {
      {{"", "[r3]", "[r1, r1, r1, r1]", "[r1:shape, r1:shape, r1:shape, r1:shape]", "r3", 4, 1},
       "has 4 inputs, Probe takes 1 to 3"},
      {{"", "[r3, r4, r5]", "[r1]", "[r1:shape]", "r3", 1, 3}, "has 3 outputs, Probe"},
      {{"", "[r3]", "[_, r1]", "[_, r1:shape]", "r3", 2, 1}, "input 'x' of Probe must be given"},
      {{"loud = 1", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, "Probe has no attribute 'loud'"},
      {{"", "[r3]", "[r1, r2]", "[r1:shape]", "r3", 1, 1}, "operand"},
      {{"mode = \"ev\"", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, "attribute mode has no meaning 'ev'"},
      {{"mode = \"even odd\"", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, "mode has no meaning 'even odd'"},
      {{"mode = \"odder\"", "[r3]", "[r1]", "[r1:shape]", "r3", 1, 1}, "attribute mode has no meaning 'odder'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    void *bytes = NULL;
    size_t n;
    reed_program *program = NULL;
    reed_status status = reed_module_assemble(text_of(&cases[i].call, in_epoch(_i)), registry, &bytes, &n, diagnosis);
    if (status == REED_OK)
      status = reed_program_open_bytes(bytes, n, &(reed_program_options){.registry = registry}, &program, diagnosis);
    if (status == REED_OK) {
      reed_session *session;
      reed_tensor *input, *output = NULL;
      ck_assert_int_eq(reed_session_open(program, NULL, &session, diagnosis), REED_OK);
      ck_assert_int_eq(reed_tensor_open(REED_F32, 1, (int64_t[]){3}, &input), REED_OK);
      status = reed_session_run(session, &input, 1, &output, 1, diagnosis);
      reed_tensor_close(&input);
      reed_session_close(&session);
    }
    ck_assert_msg(status != REED_OK, "case %zu is accepted", i);
    ck_assert_msg(strstr(reed_diagnosis_message(diagnosis), cases[i].says) != NULL, "case %zu: %s", i,
                  reed_diagnosis_message(diagnosis));
    if (program) reed_program_close(&program);
    if (bytes) reed_text_free(bytes);
  }
}
END_TEST

static void open_registry(void) {
  open_diagnosis();
  ck_assert_int_eq(reed_registry_open(&registry), REED_OK);
  ck_assert_int_eq(reed_registry_add(registry, &probe_op, diagnosis), REED_OK);
}

static void close_registry(void) {
  reed_registry_close(&registry);
  close_diagnosis();
}

int main(void) {
  Suite *suite = suite_create("calls");
  TCase *t = tcase_create("calls");
  tcase_add_checked_fixture(t, open_registry, close_registry);
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, a_call_gets_its_operands, 0, 2 * N_DEVICES);
  tcase_add_loop_test(t, a_kernel_that_fails_ends_its_run_and_no_more, 0, 2 * N_DEVICES);
  tcase_add_loop_test(t, a_call_that_does_not_fit_is_refused, 0, 2 * N_DEVICES);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
