/* MatMul (ONNX opset 13, with Reed's bias) and Gemm (opset 13): choosing the implementation. A packed B is one
 * tall product over panels (ops/cpu/product/panels.h). Products of plain matrices (ops/cpu/product/matrix.h): one B for
 * all of A's matrices makes one tall product, otherwise each matrix of the batch is a part. Products of f64, and of f32
 * with few columns: product/general.h; of i32: product/integers.h. The reference: reference/matmul.c. */
#include "ops/cpu/calls/product.h"
#include "ops/cpu/common/strided.h"
#include "ops/cpu/product/general.h"
#include "ops/cpu/product/integers.h"
#include "ops/cpu/product/matrix.h"
#include "ops/cpu/product/panels.h"
#include "ops/cpu/product/pieces.h"
#include "ops/cpu/product/rates.h"
#include "ops/cpu/product/whole.h"
#include "ops/cpu/views/view.h"
#include "ops/cpu/views/widen.h"

/* ---- f32 ---- */

#define PIECE_GRAIN 16 /* of the depth: whole vectors */

typedef struct fast_product {
  product p;
  panel_plan *plan; /* B is packed; or */
  matrix_plan matrix;
  int64_t
      n_pieces; /* of the depth (pieces.h): `matrix` has one of them as a part, `rest` what is left over; 1: whole */
  matrix_plan rest;       /* depth 0: nothing is left over */
  strided_copy transpose; /* of an A whose columns' elements are adjacent, into the workspace */
  bool transposed;
  int64_t matrix_offset, sums_offset; /* into the workspace */
  bool bias_inside, residual_inside;  /* C is a row, or like Y; else it is added afterwards */
  bool activation_inside;             /* else it is applied afterwards */
  activation ends;                    /* after the pieces */
} fast_product;

static void fast_free(void *state) {
  fast_product *f = state;
  panel_plan_close(f->plan);
  mem_free(f);
}

typedef struct finish_job {
  const product *p;
  const float *c;
  float *y;
} finish_job;

/* y += beta * c for rows begin..end of the stacked result. */
static void add_c(void *context, int64_t begin, int64_t end) {
  const finish_job *job = context;
  const product *p = job->p;
  float beta = (float)p->beta;
  for (int64_t i = begin; i < end; i++) {
    const float *c = job->c + product_place_of(p, i / p->m).c + i % p->m * p->c_row;
    float *y = job->y + i * p->n;
    if (p->c_column == 1)
      for (int64_t j = 0; j < p->n; j++) y[j] += beta * c[j];
    else
      for (int64_t j = 0; j < p->n; j++) y[j] += beta * c[0];
  }
}

static void place_part(const void *context, int64_t part, int64_t *out_a, int64_t *out_b) {
  product_place at = product_place_of(context, part);
  *out_a = at.a;
  *out_b = at.b;
}

static void place_piece(const void *context, int64_t piece, int64_t *out_a, int64_t *out_b) {
  const matrix_plan *m = context;
  *out_a = piece * m->depth;
  *out_b = piece * m->depth * m->b_row;
}

/* A long depth: the sums of all pieces, then Y. */
static reed_status run_pieces(const fast_product *f, const matrix_operands *operands, void *workspace) {
  const matrix_plan *m = &f->matrix, *rest = &f->rest;
  float *sums = (float *)((char *)workspace + f->sums_offset);
  matrix_operands pieces = {.a = operands->a, .b = operands->b, .y = sums, .place = place_piece, .context = m};
  reed_status status = matrix_plan_run(m, &pieces, (char *)workspace + f->matrix_offset);
  if (status != REED_OK) return status;
  if (rest->depth > 0) {
    matrix_operands left = {.a = operands->a + f->n_pieces * m->depth,
                            .b = operands->b + f->n_pieces * m->depth * m->b_row,
                            .y = sums + f->n_pieces * m->rows * m->columns};
    status = matrix_plan_run(rest, &left, (char *)workspace + f->matrix_offset);
    if (status != REED_OK) return status;
  }
  const piece_sums all = {.n_pieces = f->n_pieces + (rest->depth > 0),
                          .rows = m->rows,
                          .columns = m->columns,
                          .sums = sums,
                          .bias = operands->bias,
                          .residual = operands->residual,
                          .y = operands->y,
                          .activation = &f->ends};
  return piece_sums_add(&all, f->p.team);
}

static reed_status run_plain(const fast_product *f, const reed_kernel_buffers *buffers, const float *bias,
                             const float *residual) {
  matrix_operands operands = {.a = buffers->inputs[0],
                              .b = buffers->inputs[1],
                              .bias = bias,
                              .residual = residual,
                              .y = buffers->outputs[0],
                              .place = f->matrix.parts > 1 ? place_part : NULL,
                              .context = &f->p};
  if (f->transposed) {
    reed_status status = strided_run(&f->transpose, operands.a, buffers->workspace);
    if (status != REED_OK) return status;
    operands.a = buffers->workspace;
  }
  if (f->n_pieces > 1) return run_pieces(f, &operands, buffers->workspace);
  return matrix_plan_run(&f->matrix, &operands, (char *)buffers->workspace + f->matrix_offset);
}

static reed_status run_fast(const void *state, const reed_kernel_buffers *buffers) {
  const fast_product *f = state;
  const product *p = &f->p;
  const float *c = p->has_c ? buffers->inputs[2] : NULL, *bias = f->bias_inside ? c : NULL,
              *residual = f->residual_inside ? c
                          : p->has_residual  ? buffers->inputs[3]
                                             : NULL;
  float *y = buffers->outputs[0];
  reed_status status =
      f->plan ? panel_plan_run(f->plan, buffers->inputs[0], buffers->inputs[1], bias, residual, y, buffers->workspace)
              : run_plain(f, buffers, bias, residual);
  if (status != REED_OK) return status;
  if (c && !f->bias_inside && !f->residual_inside) {
    finish_job job = {p, c, y};
    status = cpu_parallel(cpu_team_for(p->team, p->batch * p->m * p->n * 4), p->batch * p->m, 1, add_c, &job);
    if (status != REED_OK) return status;
  }
  if (f->activation_inside) return REED_OK;
  return activation_apply(&p->activation, p->team, y, p->batch * p->m * p->n);
}

/* A product over packed weights is one image of one row; its pixels are the rows of A. */
static reed_status prepare_panels(const reed_kernel_call *call, fast_product *f, const packed_order *order,
                                  reed_kernel *out_kernel) {
  const product *p = &f->p;
  int64_t rows = p->batch * p->m;
  panel_problem problem = {
      .images = 1,
      .groups = 1,
      .channels = p->k,
      .outputs = p->n,
      .in = {1, 1, rows},
      .out = {1, 1, rows},
      .taps = {1, 1, 1},
      .stride = {1, 1, 1},
      .dilation = {1, 1, 1},
      .x_image = rows * p->a_row,
      .x_slab = rows * p->a_row,
      .x_row = rows * p->a_row,
      .x_pixel = p->a_row,
      .x_channel = 1,
      .y_image = rows * p->n,
      .y_slab = rows * p->n,
      .y_row = rows * p->n,
      .y_pixel = p->n,
      .weights_f16 = order->plain.dtype == REED_F16,
  };
  if (f->activation_inside) problem.activation = p->activation;
  if (order->pairs) panel_problem_pair(&problem, (packed_halves){0});
  reed_status status = panel_plan_open(call, &problem, &f->plan);
  if (status != REED_OK) return status;
  *out_kernel = (reed_kernel){run_fast, f, fast_free, panel_plan_workspace_bytes(f->plan),
                              (int64_t)sizeof *f + panel_plan_state_bytes(f->plan)};
  if (panel_plan_is_strassen(f->plan)) out_kernel->variant = problem.weights_f16 ? "Strassen, W f16" : "Strassen";
  return REED_OK;
}

/* Chooses the rest of the plans, the depth in pieces if that pays. Returns the bytes of the workspace. */
static int64_t cut_depth(const reed_kernel_call *call, fast_product *f) {
  matrix_plan *m = &f->matrix;
  matrix_plan_init(m, cpu_env_team(call));
  const int64_t pieces = m->parts == 1 ? matrix_plan_pieces(m) : 1;
  if (pieces == 1) return matrix_plan_workspace_bytes(m);
  f->n_pieces = pieces;
  f->ends = m->activation;
  m->activation = (activation){.level = f->ends.level};
  f->rest = *m;
  m->parts = pieces;
  m->depth = m->depth / pieces & ~(int64_t)(PIECE_GRAIN - 1);
  f->rest.depth -= pieces * m->depth;
  matrix_plan_init(m, cpu_env_team(call));
  matrix_plan_init(&f->rest, cpu_env_team(call));
  int64_t bytes = round_up(larger(matrix_plan_workspace_bytes(m), matrix_plan_workspace_bytes(&f->rest)), 64);
  f->sums_offset = f->matrix_offset + bytes;
  return bytes + (pieces + 1) * m->rows * m->columns * (int64_t)sizeof(float);
}

static void prepare_plain(const reed_kernel_call *call, fast_product *f, reed_kernel *out_kernel) {
  product *p = &f->p;
  bool tall = product_only_one(p, p->b_batch) && product_one_each(p, p->a_batch, p->m * p->a_row);
  if (p->a_column != 1) { /* of Gemm, which has no batch */
    int64_t extents[] = {p->m, p->k}, from[] = {p->a_row, p->a_column}, to[] = {p->k, 1};
    strided_plan(&f->transpose, 2, extents, from, 0, to, 0, sizeof(float), cpu_env_team(call));
    f->transposed = true;
    f->matrix_offset = (p->m * p->k * (int64_t)sizeof(float) + 63) & ~(int64_t)63;
  }
  f->matrix = (matrix_plan){.parts = tall ? 1 : p->batch,
                            .rows = tall ? p->batch * p->m : p->m,
                            .depth = p->k,
                            .columns = p->n,
                            .a_row = f->transposed ? p->k : p->a_row,
                            .b_row = p->b_row,
                            .b_column = p->b_column,
                            .scale = (float)p->alpha,
                            .activation = {.level = p->activation.level}};
  if (f->activation_inside) f->matrix.activation = p->activation;
  f->n_pieces = 1;
  int64_t bytes = f->matrix_offset + cut_depth(call, f);
  *out_kernel = (reed_kernel){run_fast, f, fast_free, bytes, (int64_t)sizeof *f};
  out_kernel->reads_rooms = cpu_rooms_only(call, 1u << 0 | 1u << 1); /* both matrices are read with their strides */
  out_kernel->apart = f->p.has_residual;                             /* which is added to whole rows of Y */
}

/* True if a constant B in pairs takes less time than the same B in f32, widened once. */
static bool pairs_are_faster(const cpu_view *view, const product *p) {
  const direct_product d = {
      .pixels = 1, .outputs = (double)p->n, .depth = (double)p->k, .rounded_pixels = 1, .channels = (double)p->k};
  return !widen_once(view->call, view->unpack.constant) || direct_pairs_are_faster(&d, cpu_level_now());
}

/* Few columns of packed weights are one panel of whole vectors. */
static bool is_general(const cpu_view *view, product *p) {
  if (view->order && (view->order->pairs || view->order->plain.dtype != REED_F32 || p->n > PACKED_STEP)) return false;
  product plain = *p;
  if (view->order) plain.b_row = PACKED_STEP, plain.b_column = 1;
  if (!general_product_suits(&plain)) return false;
  *p = plain;
  return true;
}

static reed_status prepare(const cpu_view *view, bool gemm, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  product p;
  reed_status status = product_read(call, gemm, &p);
  if (status == REED_OK && p.dtype == REED_I32 && !gemm) return integer_product_prepare(call, &p, out_kernel);
  const bool empty = p.k == 0 || p.batch * p.m * p.n == 0;
  if (status == REED_OK && p.dtype == REED_F64 && !empty && !p.has_residual)
    return general_product_prepare(call, &p, false, out_kernel);
  if (status != REED_OK || p.dtype != REED_F32 || p.k == 0 || !packed_computes(view->order, call->inputs[1].dtype))
    return status;
  if (view->order && view->order->pairs && !pairs_are_faster(view, &p)) return REED_OK; /* B is widened (table.c) */
  if (!empty && is_general(view, &p)) return general_product_prepare(call, &p, view->order != NULL, out_kernel);
  fast_product *f = mem_calloc(1, sizeof *f);
  if (!f) return cpu_no_memory(call);
  f->p = p;
  f->bias_inside = p.has_c && p.beta == 1 && product_only_one(&p, p.c_batch) && (p.c_row == 0 || p.m == 1) &&
                   (p.c_column == 1 || p.n == 1);
  f->residual_inside = p.has_c && !f->bias_inside && !p.has_residual && p.beta == 1 && p.c_row == p.n &&
                       p.c_column == 1 && product_one_each(&p, p.c_batch, p.m * p.n);
  f->activation_inside = !p.has_c || f->bias_inside || f->residual_inside;
  if (!view->order) {
    prepare_plain(call, f, out_kernel);
    return REED_OK;
  }
  status = prepare_panels(call, f, view->order, out_kernel);
  if (status != REED_OK) mem_free(f);
  return status;
}

reed_status cpu_prepare_matmul(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, false, out_kernel);
}

reed_status cpu_prepare_gemm(const cpu_view *view, reed_kernel *out_kernel) { return prepare(view, true, out_kernel); }
