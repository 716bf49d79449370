/* Launches of RNN, GRU and LSTM: the product of all steps of X with W, then the walk over the steps. */
#include "ops/cpu/calls/recurrent.h"

#include "base/desc.h"
#include "device/cuda/kernels/product.h"

enum { STATE_SHARED_BYTES = 32 * 1024, VECTORS = 4 }; /* recurrent.cu: of `hidden` elements, besides the gates */

static recurrent_function function_of(const recurrent_activation *given, reed_dtype compute) {
  const int formula = given->formula == OP_COUNT ? (int)OP_Identity : given->formula;
  return (recurrent_function){.step = {.formula = (uint16_t)formula,
                                       .from = (uint8_t)compute,
                                       .alpha = given->parameters.alpha,
                                       .beta = given->parameters.beta},
                              .slope = given->slope,
                              .scale = given->scale,
                              .shift = given->shift};
}

/* W x of all steps into the workspace: a batch of matrices, one a direction. */
static void add_products(cuda_plan *plan, const recurrent *r, reed_dtype compute, int64_t bytes) {
  const int64_t rows = r->steps * r->sequences, n = r->n_gates * r->hidden;
  const product_args made = {.m = rows,
                             .k = r->features,
                             .n = n,
                             .tiles_m = (rows + CUDA_TILE_EXTENT - 1) / CUDA_TILE_EXTENT,
                             .tiles_n = (n + CUDA_TILE_EXTENT - 1) / CUDA_TILE_EXTENT,
                             .batch_dims = {r->n_directions},
                             .b_batch = {n * r->features},
                             .a_row = r->features,
                             .a_column = 1,
                             .b_row = 1,
                             .b_column = r->features,
                             .alpha = 1,
                             .activation = {.formula = OP_Identity},
                             .batch_rank = 1,
                             .dtype = r->dtype,
                             .y_dtype = compute};
  cuda_plan_launch(plan, compute == REED_F64 ? CUDA_product_f64 : CUDA_product_f32,
                   r->n_directions * made.tiles_m * made.tiles_n, 0, &made);
  CUDA_INPUT(plan, product_args, a, RECURRENT_X);
  CUDA_INPUT(plan, product_args, b, RECURRENT_W);
  CUDA_PART(plan, product_args, y, CUDA_FROM_WORKSPACE, 0, 0, bytes, true);
}

static recurrent_args args_of(const recurrent *r, reed_dtype compute) {
  recurrent_args made = {.directions = r->n_directions,
                         .steps = r->steps,
                         .sequences = r->sequences,
                         .hidden = r->hidden,
                         .row_step = r->batch_first ? 1 : r->sequences,
                         .row_sequence = r->batch_first ? r->steps : 1,
                         .y_step = r->y_step,
                         .y_direction = r->y_direction,
                         .y_sequence = r->y_sequence,
                         .state_direction = r->state_direction,
                         .state_sequence = r->state_sequence,
                         .clip = r->clip,
                         .cell = r->id == OP_LSTM  ? CELL_LSTM
                                 : r->id == OP_GRU ? CELL_GRU
                                                   : CELL_RNN,
                         .gates = (int32_t)r->n_gates,
                         .dtype = r->dtype,
                         .linear_before_reset = r->linear_before_reset,
                         .input_forget = r->input_forget};
  for (int32_t d = 0; d < r->n_directions; d++) {
    made.backward[d] = r->backward[d];
    for (int32_t k = 0; k < 3; k++) made.functions[d][k] = function_of(&r->activations[d][k], compute);
  }
  return made;
}

static void add_input(cuda_plan *plan, size_t field, recurrent_input i) {
  const reed_kernel_call *call = plan->call;
  if ((int32_t)i < call->n_inputs && call->inputs[i].dtype != REED_NONE)
    cuda_plan_pointer(plan, field, CUDA_FROM_INPUT, (int32_t)i, 0, -1, false);
}
static void add_output(cuda_plan *plan, size_t field, recurrent_output i) {
  if ((int32_t)i < plan->call->n_outputs) cuda_plan_pointer(plan, field, CUDA_FROM_OUTPUT, (int32_t)i, 0, -1, true);
}

reed_status cuda_prepare_recurrent(const reed_kernel_call *call, reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  recurrent r;
  const reed_status status = recurrent_read(call, &r);
  if (status) return status;
  const reed_dtype compute = r.dtype == REED_F64 ? REED_F64 : REED_F32;
  const int64_t size = (int64_t)reed_dtype_bytes(compute), blocks = r.n_directions * r.sequences,
                products = r.n_directions * r.steps * r.sequences * r.n_gates * r.hidden * size,
                state = (VECTORS + r.n_gates) * r.hidden * size, begin = cuda_round_up(products);
  if (!blocks || !r.hidden) return cuda_plan_close(&plan, 0, out_kernel);
  if (products) add_products(&plan, &r, compute, products);
  recurrent_args made = args_of(&r, compute);
  made.in_shared = state <= STATE_SHARED_BYTES;
  cuda_plan_launch(&plan, compute == REED_F64 ? CUDA_recurrent_f64 : CUDA_recurrent_f32, blocks,
                   made.in_shared ? state : 0, &made);
  add_input(&plan, offsetof(recurrent_args, r), RECURRENT_R);
  add_input(&plan, offsetof(recurrent_args, bias), RECURRENT_B);
  add_input(&plan, offsetof(recurrent_args, lengths), RECURRENT_LENGTHS);
  add_input(&plan, offsetof(recurrent_args, initial_h), RECURRENT_INITIAL_H);
  add_input(&plan, offsetof(recurrent_args, initial_c), RECURRENT_INITIAL_C);
  add_input(&plan, offsetof(recurrent_args, peephole), RECURRENT_P);
  add_output(&plan, offsetof(recurrent_args, y), RECURRENT_Y);
  add_output(&plan, offsetof(recurrent_args, y_h), RECURRENT_Y_H);
  add_output(&plan, offsetof(recurrent_args, y_c), RECURRENT_Y_C);
  CUDA_PART(&plan, recurrent_args, products, CUDA_FROM_WORKSPACE, 0, 0, products, false);
  if (!made.in_shared) CUDA_PART(&plan, recurrent_args, state, CUDA_FROM_WORKSPACE, 0, begin, blocks * state, true);
  CUDA_FAULT(&plan, recurrent_args, fault, launch);
  return cuda_plan_close(&plan, made.in_shared ? products : begin + blocks * state, out_kernel);
}
