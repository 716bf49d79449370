/* Shapes of recurrent cells: RNN, GRU and LSTM (ONNX opset 22). The sequences' lengths do not affect them. Common
 * helpers: call.h. */
#include "shapefuncs/call.h"

/* ERROR_SHAPE unless an input that is given has exactly these extents; what[k] is the reason for extent k in the
 * message. */
static reed_status fits(reed_shape_call *call, int32_t input, int32_t rank, const reed_dim *dims,
                        const char *const *what) {
  if (!shapecall_has(call, input)) return REED_OK;
  reed_status status = shapecall_rank(call, input, rank);
  for (int32_t k = 0; k < rank && !status; k++)
    status = shapecall_same(call, dims[k], call->inputs[input].dims[k], input, what[k], NULL);
  return status;
}

/* D directions, G gates; X [T,N,I] -> Y [T,D,N,H], Y_h and Y_c [D,N,H]. With layout 1: X [N,T,I], Y [N,T,D,H], Y_h and
 * Y_c, and the initial states, [N,D,H]. W [D,G*H,I], R [D,G*H,H], B [D,2*G*H], sequence_lens [N], P [D,3*H]. */
static reed_status recurrent(reed_shape_call *call, int64_t n_gates) {
  static const char *const weights[] = {"the directions", "the gates times hidden_size", "the features"};
  static const char *const recurrence[] = {"the directions", "the gates times hidden_size", "hidden_size"};
  static const char *const bias[] = {"the directions", "twice the gates times hidden_size"};
  static const char *const peepholes[] = {"the directions", "three times hidden_size"};
  static const char *const states[2][3] = {{"the directions", "the numbers of sequences", "hidden_size"},
                                           {"the numbers of sequences", "the directions", "hidden_size"}};
  const reed_shape_input *x = &call->inputs[0], *r = &call->inputs[2];
  int64_t layout = op_attr_int(call->attrs, "layout");
  bool both = strcmp(op_attr_string(call->attrs, "direction"), "bidirectional") == 0;
  reed_status status = shapecall_rank(call, 0, 3);
  if (!status) status = shapecall_rank(call, 2, 3);
  if (status) return status;
  if (shapecall_is(call, x->dims[2], 0)) return reed_shape_fail(call, REED_ERROR_SHAPE, 0, "has no features");
  const reed_attr *named = reed_attrs_find(call->attrs, "hidden_size");
  reed_dim n_directions = both ? 2 : 1, n = x->dims[!layout], hidden = r->dims[2];
  if (named) status = shapecall_same(call, hidden, named->i, 2, "the extents of R and hidden_size", &hidden);
  if (status) return status;
  reed_dim gates = reed_dim_mul(call, hidden, n_gates);
  status = fits(call, 1, 3, (reed_dim[]){n_directions, gates, x->dims[2]}, weights);
  if (!status) status = fits(call, 2, 3, (reed_dim[]){n_directions, gates, hidden}, recurrence);
  if (!status) status = fits(call, 3, 2, (reed_dim[]){n_directions, reed_dim_mul(call, gates, 2)}, bias);
  if (!status && shapecall_has(call, 4)) status = shapecall_rank(call, 4, 1);
  if (!status && shapecall_has(call, 4)) status = shapecall_same(call, n, call->inputs[4].dims[0], 4, states[1][0], &n);
  reed_dim state[2][3] = {{n_directions, n, hidden}, {n, n_directions, hidden}};
  for (int32_t i = 5; i <= 6 && !status; i++) status = fits(call, i, 3, state[layout], states[layout]);
  if (!status) status = fits(call, 7, 2, (reed_dim[]){n_directions, reed_dim_mul(call, hidden, 3)}, peepholes);
  if (status) return status;
  reed_dim y[2][4] = {{x->dims[0], n_directions, n, hidden}, {n, x->dims[1], n_directions, hidden}};
  shapecall_set(call, 0, 4, y[layout]);
  for (int32_t i = 1; i < call->n_outputs; i++) shapecall_set(call, i, 3, state[layout]);
  return REED_OK;
}

reed_status shapefn_rnn(reed_shape_call *call) { return recurrent(call, 1); }

reed_status shapefn_gru(reed_shape_call *call) { return recurrent(call, 3); }

reed_status shapefn_lstm(reed_shape_call *call) { return recurrent(call, 4); }
