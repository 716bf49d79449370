/* RNN, GRU and LSTM against their reference: directions, lengths, layouts, absent operands, activations; and small
 * cases by hand. */
#include <math.h>
#include <stdlib.h>

#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

typedef struct recurrent_row {
  int64_t steps, sequences, features, hidden;
} recurrent_row;

static const recurrent_row rows[] = {
    {1, 1, 1, 1}, {3, 1, 2, 7}, {5, 2, 3, 8}, {4, 3, 1, 9},   {2, 7, 5, 16},  {6, 13, 4, 17}, {3, 4, 33, 40},
    {0, 3, 2, 5}, {3, 0, 2, 5}, {3, 2, 2, 0}, {300, 2, 2, 3}, {3, 300, 2, 3}, {2, 1, 8, 256}, {40, 9, 3, 20},
};
static const op_id ops[] = {OP_RNN, OP_GRU, OP_LSTM};
static const char *const directions[] = {"forward", "reverse", "bidirectional"};

typedef struct recurrent_form {
  op_id op;
  reed_dtype dtype;
  const char *direction;
  bool layout, bias, lengths, initial, peepholes, constant;
} recurrent_form;

/* Which of a form's booleans are true, by the bits of a number. */
static recurrent_form form_of(op_id op, reed_dtype dtype, const char *direction, int bits) {
  return (recurrent_form){op, dtype, direction, bits & 1, bits & 2, bits & 4, bits & 8, bits & 16, bits & 32};
}

static void state_input(kernel_case *c, const recurrent_form *f, const recurrent_row *row, int64_t n_directions) {
  if (!f->initial) case_absent(c);
  else if (f->layout) case_input(c, f->dtype, DIMS(row->sequences, n_directions, row->hidden), 1);
  else case_input(c, f->dtype, DIMS(n_directions, row->sequences, row->hidden), 1);
}

static void recurrent_case(kernel_case *c, const recurrent_form *f, const recurrent_row *row) {
  const int64_t d = strcmp(f->direction, "bidirectional") == 0 ? 2 : 1, gates = (f->op == OP_RNN   ? 1
                                                                                 : f->op == OP_GRU ? 3
                                                                                                   : 4) *
                                                                                row->hidden;
  case_init(c, f->op);
  c->hide_values = !f->constant;
  c->n_outputs = f->op == OP_LSTM ? 3 : 2;
  if (f->layout) case_input(c, f->dtype, DIMS(row->sequences, row->steps, row->features), 1);
  else case_input(c, f->dtype, DIMS(row->steps, row->sequences, row->features), 1);
  case_input(c, f->dtype, DIMS(d, gates, row->features), 0.7);
  case_input(c, f->dtype, DIMS(d, gates, row->hidden), row->hidden ? 1 / sqrt((double)row->hidden) : 1);
  if (f->bias) case_input(c, f->dtype, DIMS(d, 2 * gates), 0.5);
  else case_absent(c);
  if (f->lengths) {
    value *lengths = case_input(c, REED_I32, 1, &row->sequences, 0);
    for (int64_t k = 0; k < row->sequences; k++) case_set(lengths, k, (double)(k * 5 % (row->steps + 1)));
  } else {
    case_absent(c);
  }
  state_input(c, f, row, d);
  if (f->op == OP_LSTM) {
    state_input(c, f, row, d);
    if (f->peepholes) case_input(c, f->dtype, DIMS(d, 3 * row->hidden), 0.5);
  }
  case_attr_string(c, "direction", f->direction);
  case_attr_int(c, "hidden_size", row->hidden);
  case_attr_int(c, "layout", f->layout);
}

static double tolerance(reed_dtype dtype) { return dtype == REED_F32 ? 1e-5 : 4 * case_tolerance(dtype); }

START_TEST(cells_equal_the_reference) {
  for (int bits = 0; bits < 64; bits++)
    for (int op = 0; op < 3; op++) {
      if (bits & 16 && ops[op] != OP_LSTM) continue;
      kernel_case c;
      recurrent_form f = form_of(ops[op], REED_F32, directions[(bits + op + _i) % 3], bits);
      recurrent_case(&c, &f, &rows[_i]);
      if (ops[op] == OP_GRU && bits & 32) case_attr_int(&c, "linear_before_reset", 1);
      if (ops[op] == OP_LSTM && bits % 5 == 0) case_attr_int(&c, "input_forget", 1);
      case_parity(&c, tolerance(REED_F32), tolerance(REED_F32));
    }
}
END_TEST

/* Steps so large that threads meet after a few of them. */
START_TEST(long_walks_equal_the_reference) {
  static const recurrent_row walks[] = {{17, 3, 8, 200}, {23, 1, 8, 256}, {7, 8, 4, 300}};
  for (int op = 0; op < 3; op++)
    for (int layout = 0; layout < 2; layout++) {
      kernel_case c;
      recurrent_form f = form_of(ops[op], REED_F32, directions[(op + _i) % 3], 14 + layout);
      recurrent_case(&c, &f, &walks[_i]);
      case_parity(&c, tolerance(REED_F32), tolerance(REED_F32));
    }
}
END_TEST

/* Every set of outputs that a node may leave out. */
START_TEST(outputs_may_be_absent) {
  for (int wanted = 1; wanted < 8; wanted++)
    for (int op = 0; op < 3; op++) {
      kernel_case c;
      recurrent_form f = form_of(ops[op], REED_F32, "bidirectional", 63);
      recurrent_case(&c, &f, &rows[4]);
      for (int i = 0; i < c.n_outputs; i++) c.unwanted[i] = !(wanted >> i & 1);
      case_parity(&c, tolerance(REED_F32), tolerance(REED_F32));
    }
}
END_TEST

START_TEST(other_dtypes_equal_the_reference) {
  static const reed_dtype dtypes[] = {REED_F64, REED_F16, REED_BF16};
  for (int op = 0; op < 3; op++) {
    kernel_case c;
    recurrent_form f = form_of(ops[op], dtypes[_i], "bidirectional", 62);
    recurrent_case(&c, &f, &rows[2]);
    case_parity(&c, tolerance(dtypes[_i]), tolerance(dtypes[_i]));
  }
}
END_TEST

static const char *const activations[] = {"Affine,Relu,Tanh", "elu,LEAKYRELU,HardSigmoid",
                                          "ScaledTanh,Softplus,Softsign", "ThresholdedRelu,Elu,Affine",
                                          "Sigmoid,ScaledTanh,Relu"};

/* With and without given alpha and beta, which go, in order, to the activations that take one. */
START_TEST(activations_equal_the_reference) {
  static const double alphas[] = {0.6, 0.3, 0.5}, betas[] = {0.4, 0.7};
  for (int numbers = 0; numbers < 2; numbers++)
    for (int clip = 0; clip < 2; clip++) {
      kernel_case c;
      recurrent_form f = form_of(OP_LSTM, REED_F32, "reverse", 62);
      recurrent_case(&c, &f, &rows[5]);
      case_attr_string(&c, "activations", activations[_i]);
      if (numbers) case_attr_floats(&c, "activation_alpha", alphas, 3);
      if (numbers) case_attr_floats(&c, "activation_beta", betas, 2);
      if (clip) case_attr_float(&c, "clip", 0.4);
      case_parity(&c, 1e-5, 1e-5);
    }
}
END_TEST

/* An RNN that sums: W and R are 1, the activation changes nothing. */
static void summing_case(kernel_case *c, const char *direction, int64_t n_directions, int length) {
  case_init(c, OP_RNN);
  value *x = case_input(c, REED_F32, DIMS(3, 1, 1), 0);
  for (int i = 0; i < 3; i++) case_set(x, i, i + 1);
  for (int i = 0; i < 2; i++) {
    value *weights = case_input(c, REED_F32, DIMS(n_directions, 1, 1), 0);
    for (int64_t d = 0; d < n_directions; d++) case_set(weights, d, 1);
  }
  case_absent(c);
  case_set(case_input(c, REED_I32, DIMS(1), 0), 0, length);
  value *initial = case_input(c, REED_F32, DIMS(n_directions, 1, 1), 0);
  for (int64_t d = 0; d < n_directions; d++) case_set(initial, d, 10);
  case_attr_string(c, "direction", direction);
  case_attr_string(c, "activations", n_directions == 2 ? "Affine,Affine" : "Affine");
}

START_TEST(sums_by_hand) {
  kernel_case c;
  summing_case(&c, "forward", 1, 3);
  case_expect(&c, (double[]){11, 13, 16}, 3);
  summing_case(&c, "reverse", 1, 3);
  case_expect(&c, (double[]){16, 15, 13}, 3);
  summing_case(&c, "reverse", 1, 2);
  case_expect(&c, (double[]){13, 12, 0}, 3);
  summing_case(&c, "bidirectional", 2, 2);
  case_expect(&c, (double[]){11, 13, 13, 12, 0, 0}, 6);
}
END_TEST

/* The state after a sequence's own last step; of no steps, the initial one. */
START_TEST(last_states_by_hand) {
  static const struct {
    const char *direction;
    int length;
    double h;
  } cases[] = {{"forward", 3, 16}, {"forward", 2, 13}, {"forward", 0, 10},
               {"reverse", 3, 16}, {"reverse", 1, 11}, {"reverse", 0, 10}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (cpu_level level = CPU_REFERENCE; level <= cpu_level_best(); level++) {
      kernel_case c;
      summing_case(&c, cases[i].direction, 1, cases[i].length);
      c.n_outputs = 2;
      ck_assert_int_eq(case_run(&c, cpu_level_name(level)), REED_OK);
      ck_assert_double_eq_tol(case_get(&c.outputs[1], 0), cases[i].h, 1e-6);
      case_close(&c);
    }
}
END_TEST

START_TEST(lengths_beyond_the_steps_are_refused) {
  kernel_case c;
  summing_case(&c, "forward", 1, 4);
  case_fails(&c, REED_ERROR_VALUE, "length 4 of sequence 0 is outside 0..3");
  summing_case(&c, "forward", 1, -1);
  case_fails(&c, REED_ERROR_VALUE, "length -1 of sequence 0");
}
END_TEST

/* ONNX's default of RNN's activations has two names. A single direction uses the first. */
START_TEST(an_rnn_of_one_direction_takes_the_plain_names_of_two) {
  for (int i = 0; i < 2; i++) {
    kernel_case c;
    recurrent_form f = form_of(OP_RNN, REED_F32, i ? "reverse" : "forward", 0);
    recurrent_case(&c, &f, &rows[1]);
    case_attr_string(&c, "activations", "Tanh,Tanh");
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

START_TEST(activations_that_are_none_are_refused) {
  static const struct {
    const char *names, *text;
    reed_status status;
  } cases[] = {{"Sigmoid,Tan,Tanh", "activation 1 of 'Sigmoid,Tan,Tanh' is not known", REED_ERROR_UNSUPPORTED},
               {"Sigmoid,Tanh", "'Sigmoid,Tanh' are not 3 activations", REED_ERROR_VALUE},
               {"Sigmoid,Tanh,Tanh,Tanh", "are not 3 activations", REED_ERROR_VALUE},
               {"Sigmoid,,Tanh", "activation 1", REED_ERROR_UNSUPPORTED}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kernel_case c;
    recurrent_form f = form_of(OP_LSTM, REED_F32, "forward", 0);
    recurrent_case(&c, &f, &rows[1]);
    case_attr_string(&c, "activations", cases[i].names);
    case_fails(&c, cases[i].status, cases[i].text);
  }
}
END_TEST

START_TEST(a_clip_below_zero_is_refused) {
  static const double clips[] = {-1, NAN};
  for (int i = 0; i < 2; i++) {
    kernel_case c;
    recurrent_form f = form_of(OP_GRU, REED_F32, "forward", 0);
    recurrent_case(&c, &f, &rows[1]);
    case_attr_float(&c, "clip", clips[i]);
    case_fails(&c, REED_ERROR_VALUE, "clip is");
  }
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

int main(void) {
  Suite *suite = suite_create("recurrent kernels");
  TCase *t = tcase_create("all");
  tcase_set_timeout(t, 240);
  tcase_add_loop_test(t, cells_equal_the_reference, 0, COUNT(rows));
  tcase_add_loop_test(t, long_walks_equal_the_reference, 0, 3);
  tcase_add_test(t, outputs_may_be_absent);
  tcase_add_loop_test(t, other_dtypes_equal_the_reference, 0, 3);
  tcase_add_loop_test(t, activations_equal_the_reference, 0, COUNT(activations));
  tcase_add_test(t, sums_by_hand);
  tcase_add_test(t, last_states_by_hand);
  tcase_add_test(t, lengths_beyond_the_steps_are_refused);
  tcase_add_test(t, an_rnn_of_one_direction_takes_the_plain_names_of_two);
  tcase_add_test(t, activations_that_are_none_are_refused);
  tcase_add_test(t, a_clip_below_zero_is_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
