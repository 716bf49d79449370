/* Launches of `map` (map.h): the element-wise operators, Cast, Fused and FusedColumns. */
#include "device/cuda/kernels/map.h"

#include <math.h>

#include "base/desc.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "ops/cpu/calls/elementwise.h"
#include "ops/cpu/calls/fused.h"

/* ---- programs ---- */

int32_t map_leaf_of(map_program *p, map_operand operand, reed_dtype held) {
  const int32_t k = p->args.n_leaves++;
  p->leaves[k] = operand;
  p->args.dtypes[k] = (uint8_t)operand.dtype;
  p->args.held[k] = (uint8_t)held;
  p->args.bytes[k] = (uint8_t)reed_dtype_bytes(operand.dtype);
  return k;
}

int32_t map_input(map_program *p, const reed_kernel_call *call, int32_t input, reed_dtype held) {
  const reed_desc *desc = &call->inputs[input];
  return map_leaf_of(p, (map_operand){CUDA_FROM_INPUT, input, desc->dtype, desc}, held);
}

int32_t map_constant(map_program *p, reed_dtype dtype, double value) {
  const int32_t k = map_leaf_of(p, (map_operand){.index = -1, .dtype = dtype}, dtype);
  reed_dtype_write(dtype, &p->args.leaves[k].constant, value);
  return k;
}

int32_t map_add(map_program *p, map_step step) {
  p->args.steps[p->args.n_steps] = step;
  return p->args.n_leaves + p->args.n_steps++;
}

/* Joins the output's dims: dims of extent 1 are dropped, and neighbours that every leaf walks as one dim are joined.
 * The counted axis (-1: none) is joined with dims behind it only, and only if no dim is before it. */
static void join_dims(map_args *a, const reed_desc *out, int32_t counted) {
  for (int32_t d = 0; d < out->rank; d++) {
    if (out->dims[d] == 1) continue;
    bool joins = a->rank > 0 && d != counted && (!a->counted_dim || a->counted_dim != a->rank - 1);
    if (d == counted) a->counted_dim = a->rank;
    for (int32_t k = 0; k < a->n_leaves && joins; k++)
      joins = a->leaves[k].strides[a->rank - 1] == a->leaves[k].strides[d] * out->dims[d];
    const int32_t to = joins ? a->rank - 1 : a->rank;
    a->extents[to] = joins ? a->extents[to] * out->dims[d] : out->dims[d];
    for (int32_t k = 0; k < a->n_leaves; k++) a->leaves[k].strides[to] = a->leaves[k].strides[d];
    a->rank = to + 1;
  }
}

/* Neighbours of the output that a thread computes: as many as 16 bytes have of the largest elements, if they do not
 * cross a dim whose begin is another place of the leaves. */
static int32_t part_of(const map_args *a) {
  int32_t part = 16 / a->y_bytes;
  for (int32_t k = 0; k < a->n_leaves; k++)
    if (part > 16 / a->bytes[k]) part = 16 / a->bytes[k];
  if (a->rank < 2) return part;
  if (a->counted_dim == a->rank - 1) return 1;
  while (a->extents[a->rank - 1] % part) part /= 2;
  return part;
}

/* The addresses of the leaves and of y. leaf_at: the offset in the args struct of the first leaf's address, and
 * leaf_bytes from one to the next. */
static void add_operands(const map_program *p, cuda_plan *plan, map_operand y, size_t leaf_at, size_t leaf_bytes,
                         size_t y_at) {
  const int64_t n = p->args.n;
  for (int32_t k = 0; k < p->args.n_leaves; k++) {
    const map_operand *leaf = &p->leaves[k];
    if (leaf->index >= 0)
      cuda_plan_pointer(plan, leaf_at + (size_t)k * leaf_bytes, leaf->source, leaf->index, 0,
                        (leaf->desc ? desc_elements(leaf->desc) : n) * (int64_t)reed_dtype_bytes(leaf->dtype), false);
  }
  cuda_plan_pointer(plan, y_at, y.source, y.index, 0, n * (int64_t)reed_dtype_bytes(y.dtype), true);
}

/* Joins the dims of `walked`, over which the leaves have strides, and notes the count that the call's output has. */
static void walk(map_args *a, const reed_kernel_call *call, const reed_desc *walked) {
  const int32_t counted = cuda_counted_input(call) < 0 ? -1 : call->output_rooms[0].axis;
  a->n = desc_elements(walked);
  a->counted = cuda_counted(call);
  join_dims(a, walked, counted);
  for (int32_t k = 0; a->counted_dim && k < a->n_leaves; k++) {
    if (!a->leaves[k].strides[a->counted_dim]) continue;
    a->scaled |= 1u << k;
    for (int32_t d = 0; d < a->counted_dim; d++) a->leaves[k].strides[d] /= a->counted.capacity;
  }
}

reed_status map_launch(map_program *p, cuda_plan *plan, const reed_desc *out, map_operand y, reed_dtype last) {
  map_args *a = &p->args;
  a->y_dtype = (uint8_t)y.dtype;
  a->y_bytes = (uint8_t)reed_dtype_bytes(y.dtype);
  a->last_dtype = (uint8_t)last;
  for (int32_t k = 0; k < a->n_leaves; k++) {
    const map_operand *leaf = &p->leaves[k];
    const reed_desc *desc = leaf->desc ? leaf->desc : out;
    if (leaf->index < 0 || desc_elements(desc) == 1) continue;
    if (!cpu_broadcast_strides(desc, out, a->leaves[k].strides))
      return reed_kernel_fail(plan->call, REED_ERROR_SHAPE, "the inputs do not broadcast to the output");
  }
  walk(a, plan->call, out);
  if (a->n == 0) return REED_OK;
  map_words_args words;
  if (map_words_of(a, &words)) {
    cuda_plan_each(plan, CUDA_map_words, (a->n + WORDS_PART - 1) / WORDS_PART, &words);
    cuda_plan_count(plan, offsetof(map_words_args, counted));
    add_operands(p, plan, y, offsetof(map_words_args, leaves[0].data), sizeof(words_leaf), offsetof(map_words_args, y));
    return REED_OK;
  }
  a->part = part_of(a);
  cuda_plan_each(plan, CUDA_map, (a->n + a->part - 1) / a->part, a);
  cuda_plan_count(plan, offsetof(map_args, counted));
  add_operands(p, plan, y, offsetof(map_args, leaves[0].data), sizeof(map_leaf), offsetof(map_args, y));
  CUDA_FAULT(plan, map_args, fault, launch);
  return REED_OK;
}

/* ---- operators ---- */

/* Launches the program over the call's output, alone in its plan. Takes the program. */
static reed_status close_program(map_program *p, const reed_kernel_call *call, reed_dtype last,
                                 reed_kernel *out_kernel) {
  cuda_plan plan = {.call = call};
  const reed_desc *out = &call->outputs[0];
  const reed_status status = map_launch(p, &plan, out, (map_operand){CUDA_FROM_OUTPUT, 0, out->dtype, out}, last);
  mem_free(p);
  if (status) {
    cuda_plan_drop(&plan);
    return status;
  }
  return cuda_plan_close(&plan, 0, out_kernel);
}

static map_program *open_program(void) { return mem_calloc(1, sizeof(map_program)); }

/* As the host's kernel (ops/cpu/elementwise/elementwise.c): a float base computes in its own dtype, an integer base
 * with a float exponent in f64, two integers of different dtypes in i64. */
static reed_dtype compute_dtype(const reed_kernel_call *call) {
  const reed_dtype dtype = call->inputs[0].dtype;
  if (op_id_of(call->op) != OP_Pow || dtype_is_real(dtype) || dtype == call->inputs[1].dtype) return map_held(dtype);
  return dtype_is_real(call->inputs[1].dtype) ? REED_F64 : REED_I64;
}

/* True if the formula exists for the dtype. The host's table has a loop for just these. */
static bool has_formula(reed_dtype dtype, int formula) {
  return formula < FORMULA_COUNT && elementwise_formula(CPU_BASE, dtype, formula) != NULL;
}

static reed_status no_formula(const reed_kernel_call *call, reed_dtype dtype) {
  return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "there is no such formula for %s", reed_dtype_name(dtype));
}

/* Max, Mean, Min, Sum of more inputs than a program takes: launches over a part of the inputs each, whose sum so far
 * is in the workspace. */
static reed_status prepare_fold(const reed_kernel_call *call, int formula, reed_dtype compute,
                                reed_kernel *out_kernel) {
  const reed_desc *out = &call->outputs[0];
  const bool mean = op_id_of(call->op) == OP_Mean;
  const map_operand y = {CUDA_FROM_OUTPUT, 0, out->dtype, out}, sum = {CUDA_FROM_WORKSPACE, 0, compute, out};
  cuda_plan plan = {.call = call};
  reed_status status = REED_OK;
  int64_t workspace = 0;
  for (int32_t k = 0; k < call->n_inputs && status == REED_OK;) {
    map_program *p = open_program();
    if (!p) {
      cuda_plan_drop(&plan);
      return cpu_no_memory(call);
    }
    if (k) map_leaf_of(p, sum, compute);
    /* the last step of Mean needs a place, too */
    while (k < call->n_inputs && p->args.n_leaves < MAP_LEAVES - 1) map_input(p, call, k++, compute);
    int32_t value = 0;
    const int32_t n = p->args.n_leaves;
    for (int32_t i = 1; i < n; i++)
      value = map_add(
          p,
          (map_step){.formula = (uint16_t)formula, .from = (uint8_t)compute, .operands = {(uint8_t)value, (uint8_t)i}});
    const bool last = k == call->n_inputs;
    if (last && mean)
      map_add(p,
              (map_step){
                  .formula = OP_Mean, .from = (uint8_t)compute, .alpha = call->n_inputs, .operands = {(uint8_t)value}});
    if (!last) workspace = desc_elements(out) * (int64_t)reed_dtype_bytes(compute);
    status = map_launch(p, &plan, out, last ? y : sum, compute);
    mem_free(p);
  }
  if (status == REED_OK) return cuda_plan_close(&plan, workspace, out_kernel);
  cuda_plan_drop(&plan);
  return status;
}

reed_status cuda_prepare_elementwise(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const op_id id = op_id_of(call->op);
  const int formula = elementwise_choice(call->op, call->attrs);
  const reed_dtype compute = compute_dtype(call);
  if (!has_formula(compute, formula)) return no_formula(call, call->inputs[0].dtype);
  if (id == OP_Max || id == OP_Min || id == OP_Sum || id == OP_Mean)
    return prepare_fold(call, formula, compute, out_kernel);
  map_program *p = open_program();
  if (!p) return cpu_no_memory(call);
  const elementwise_parameters parameters = elementwise_parameters_of(formula, call->attrs);
  map_step step = {
      .formula = (uint16_t)formula, .from = (uint8_t)compute, .alpha = parameters.alpha, .beta = parameters.beta};
  for (int32_t k = 0; k < call->n_inputs && k < MAP_OPERANDS; k++)
    step.operands[k] = (uint8_t)map_input(p, call, k, compute);
  p->args.divisor = 1;
  map_add(p, step);
  return close_program(p, call, call->outputs[0].dtype == REED_BOOL ? REED_BOOL : compute, out_kernel);
}

reed_status cuda_prepare_clip(const reed_kernel_call *call, reed_kernel *out_kernel) {
  const reed_status status = elementwise_check(call);
  if (status) return status;
  const reed_dtype compute = map_held(call->inputs[0].dtype);
  if (!has_formula(compute, OP_Clip)) return no_formula(call, call->inputs[0].dtype);
  map_program *p = open_program();
  if (!p) return cpu_no_memory(call);
  map_step step = {.formula = OP_Clip, .from = (uint8_t)compute};
  for (int32_t k = 0; k < 3; k++)
    step.operands[k] = (uint8_t)(cpu_present(call, k) ? map_input(p, call, k, compute)
                                                      : map_constant(p, compute, k == 1 ? -INFINITY : INFINITY));
  map_add(p, step);
  return close_program(p, call, compute, out_kernel);
}

/* Elements are moved as unsigned integers of their size, so that every bit stays. */
reed_status cuda_prepare_where(const reed_kernel_call *call, reed_kernel *out_kernel) {
  map_program *p = open_program();
  if (!p) return cpu_no_memory(call);
  const reed_dtype carrier = elementwise_carrier(call->outputs[0].dtype);
  map_step step = {.formula = OP_Where};
  for (int32_t k = 0; k < 3; k++)
    step.operands[k] = (uint8_t)map_leaf_of(
        p, (map_operand){CUDA_FROM_INPUT, k, k ? carrier : REED_BOOL, &call->inputs[k]}, k ? carrier : REED_BOOL);
  map_add(p, step);
  cuda_plan plan = {.call = call};
  const reed_status status =
      map_launch(p, &plan, &call->outputs[0], (map_operand){CUDA_FROM_OUTPUT, 0, carrier, &call->outputs[0]}, carrier);
  mem_free(p);
  if (status == REED_OK) return cuda_plan_close(&plan, 0, out_kernel);
  cuda_plan_drop(&plan);
  return status;
}

reed_status cuda_prepare_cast(const reed_kernel_call *call, reed_kernel *out_kernel) {
  map_program *p = open_program();
  if (!p) return cpu_no_memory(call);
  const reed_dtype from = map_held(call->inputs[0].dtype), to = call->outputs[0].dtype;
  map_input(p, call, 0, from);
  map_add(p, (map_step){.formula = OP_Cast, .from = (uint8_t)from, .to = (uint8_t)to});
  return close_program(p, call, map_held(to), out_kernel);
}

static reed_status add_step(map_program *p, const reed_kernel_call *call, const fused_typed *from, int32_t j) {
  const fused_typed_step *step = &from->steps[j];
  const reed_dtype operand = map_held(from->dtypes[step->operands[step->formula == OP_Where]]);
  map_step made = {.formula = (uint16_t)step->formula,
                   .from = (uint8_t)operand,
                   .to = (uint8_t)from->dtypes[from->n_inputs + j],
                   .alpha = step->parameters.alpha,
                   .beta = step->parameters.beta};
  for (int32_t k = 0; k < step->n_operands; k++) made.operands[k] = (uint8_t)step->operands[k];
  map_add(p, made);
  if (step->formula == OP_Cast || step->formula == OP_Where || has_formula(operand, step->formula)) return REED_OK;
  return reed_kernel_fail(call, REED_ERROR_UNSUPPORTED, "step %d: there is no such formula for %s", j,
                          reed_dtype_name(operand));
}

reed_status cuda_prepare_fused(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_typed program;
  reed_status status = fused_type(call, &program);
  if (status) return status;
  map_program *p = open_program();
  if (!p) return cpu_no_memory(call);
  for (int32_t k = 0; k < program.n_inputs; k++) map_input(p, call, k, map_held(call->inputs[k].dtype));
  for (int32_t j = 0; j < program.n_steps && status == REED_OK; j++) status = add_step(p, call, &program, j);
  p->args.divisor = -1;
  if (status == REED_OK)
    return close_program(p, call, map_held(program.dtypes[program.n_inputs + program.n_steps - 1]), out_kernel);
  mem_free(p);
  return status;
}

/* ---- columns ---- */

/* The launch of FusedColumns: the program over the rows, with the strides of the columns. */
static void launch_columns(const map_program *p, const fused_typed *from, const fused_rows *rows, cuda_plan *plan) {
  const reed_kernel_call *call = plan->call;
  const int64_t y_bytes = p->args.y_bytes, y_elements = desc_elements(&call->outputs[0]);
  map_columns_args a = {.program = p->args, .n_results = rows->columns.n_results};
  for (int32_t j = 0; j < a.n_results; j++) a.results[j] = (uint8_t)rows->columns.results[j];
  cuda_plan_each(plan, CUDA_map_columns, a.program.n, &a);
  cuda_plan_count(plan, offsetof(map_columns_args, program.counted));
  for (int32_t k = 0; k < from->n_inputs; k++) {
    const int64_t bytes = p->args.bytes[k], column = rows->columns.columns[k];
    cuda_plan_pointer(plan, offsetof(map_columns_args, program.leaves[0].data) + (size_t)k * sizeof(map_leaf),
                      CUDA_FROM_INPUT, k, column * bytes, (desc_elements(&call->inputs[k]) - column) * bytes, false);
  }
  cuda_plan_pointer(plan, offsetof(map_columns_args, program.y), CUDA_FROM_OUTPUT, 0, 0, y_elements * y_bytes, true);
  CUDA_FAULT(plan, map_columns_args, program.fault, program.launch);
}

reed_status cuda_prepare_fused_columns(const reed_kernel_call *call, reed_kernel *out_kernel) {
  fused_typed program;
  fused_rows rows;
  reed_status status = fused_type_columns(call, &program, &rows);
  if (status) return status;
  map_program *p = open_program();
  if (!p) return cpu_no_memory(call);
  cuda_plan plan = {.call = call};
  const reed_dtype dtype = call->outputs[0].dtype;
  for (int32_t k = 0; k < program.n_inputs; k++) {
    map_input(p, call, k, map_held(call->inputs[k].dtype));
    for (int32_t d = 0; d < rows.rows.rank; d++) p->args.leaves[k].strides[d] = rows.strides[k][d];
  }
  for (int32_t j = 0; j < program.n_steps && status == REED_OK; j++) status = add_step(p, call, &program, j);
  p->args.divisor = -1;
  p->args.y_dtype = (uint8_t)dtype;
  p->args.y_bytes = (uint8_t)reed_dtype_bytes(dtype);
  p->args.last_dtype = (uint8_t)map_held(dtype);
  if (status == REED_OK) {
    walk(&p->args, call, &rows.rows);
    if (p->args.n) launch_columns(p, &program, &rows, &plan);
  }
  mem_free(p);
  if (status == REED_OK) return cuda_plan_close(&plan, 0, out_kernel);
  cuda_plan_drop(&plan);
  return status;
}
