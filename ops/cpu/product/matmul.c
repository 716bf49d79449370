/* MatMul (ONNX opset 13, with Reed's bias) and Gemm (opset 13) for f32: choosing the implementation. A packed B is one
 * tall product over panels (ops/cpu/product/panels.h). oneDNN computes the rest: one B for all of A's matrices is one
 * tall product, cut into chunks of rows; one B for each A is one batched product; anything between is a loop over the
 * batch. The reference: reference/matmul.c. */
#include "ops/cpu/calls/product.h"
#include "ops/cpu/onednn/onednn.h"
#include "ops/cpu/product/panels.h"
#include "ops/cpu/views/view.h"

#define ROWS_MAX 512
#define MATRICES_MAX 64

/* ---- f32 ---- */

typedef enum product_form { FORM_TALL, FORM_BATCHED, FORM_LOOP } product_form;

typedef struct fast_product {
  product p;
  panel_plan *plan; /* or */
  onednn_runner *runner;
  product_form form;
  bool bias_inside, residual_inside; /* C is a row, or like Y (a plan's only); else it is added afterwards */
  bool activation_inside;            /* else it is applied afterwards */
} fast_product;

static void fast_free(void *state) {
  fast_product *f = state;
  panel_plan_close(f->plan);
  onednn_close(f->runner);
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

static reed_status run_fast(const void *state, const reed_kernel_buffers *buffers) {
  const fast_product *f = state;
  const product *p = &f->p;
  const float *a = buffers->inputs[0], *b = buffers->inputs[1], *c = p->has_c ? buffers->inputs[2] : NULL;
  const float *bias = f->bias_inside ? c : NULL;
  float *y = buffers->outputs[0];
  reed_status status = REED_OK;
  if (f->plan) status = panel_plan_run(f->plan, a, b, bias, f->residual_inside ? c : NULL, y, buffers->workspace);
  if (status != REED_OK) return status;
  int64_t n_runs = f->plan ? 0 : f->form == FORM_LOOP ? p->batch : 1;
  for (int64_t i = 0; i < n_runs && status == REED_OK; i++) {
    product_place at = product_place_of(p, i);
    status = onednn_run(f->runner, a + at.a, b + at.b, bias, NULL, y + i * p->m * p->n, buffers->workspace);
  }
  if (status != REED_OK) return reed_kernel_fault(buffers, REED_FAULT_LIBRARY, -1, -1, status, 0);
  if (c && !f->bias_inside && !f->residual_inside) {
    finish_job job = {p, c, y};
    status = cpu_parallel(cpu_team_for(p->team, p->batch * p->m * p->n * 4), p->batch * p->m, 1, add_c, &job);
    if (status != REED_OK) return status;
  }
  if (f->activation_inside) return REED_OK;
  return activation_apply(&p->activation, p->team, y, p->batch * p->m * p->n);
}

/* True if the operand has one matrix for each of the batch, `matrix` elements apart. */
static bool one_each(const product *p, const int64_t *strides, int64_t matrix) {
  for (int32_t i = p->batch_rank - 1; i >= 0; i--) {
    if (p->batch_dims[i] != 1 && strides[i] != matrix) return false;
    matrix *= p->batch_dims[i];
  }
  return true;
}

/* Elements from one matrix of B to the next: those of a matrix, or more if B has room. */
static int64_t b_step(const product *p) {
  for (int32_t i = p->batch_rank - 1; i >= 0; i--)
    if (p->batch_dims[i] != 1) return p->b_batch[i];
  return p->k * p->n;
}

static bool only_one(const product *p, const int64_t *strides) {
  for (int32_t i = 0; i < p->batch_rank; i++)
    if (strides[i] != 0 && p->batch_dims[i] != 1) return false;
  return true;
}

static void set_matrix(int64_t *dims, int64_t *strides, int64_t first, int64_t rows, int64_t row, int64_t columns,
                       int64_t column) {
  dims[first] = rows;
  strides[first] = row;
  dims[first + 1] = columns;
  strides[first + 1] = column;
}

static void describe(const fast_product *f, bool constant, onednn_problem *out) {
  const product *p = &f->p;
  bool batched = f->form == FORM_BATCHED;
  int64_t first = batched ? 1 : 0;
  *out = (onednn_problem){.kind = ONEDNN_MATMUL,
                          .rank = 2 + first,
                          .weights_rank = 2 + first,
                          .weights_follow = batched,
                          .weights_plain = !constant,
                          .with_bias = f->bias_inside,
                          .scale = p->alpha};
  set_matrix(out->src, out->src_strides, first, p->m, p->a_row, p->k, p->a_column);
  set_matrix(out->weights, out->weights_strides, first, p->k, p->b_row, p->n, p->b_column);
  set_matrix(out->dst, out->dst_strides, first, p->m, p->n, p->n, 1);
  if (batched) {
    out->src_strides[0] = p->m * p->k;
    out->weights_strides[0] = b_step(p);
    out->dst_strides[0] = p->m * p->n;
  }
  out->products = p->k * p->n * (batched ? p->m : 1);
}

/* A product over packed weights is one image of one row; its pixels are the rows of A. */
static reed_status prepare_panels(const reed_kernel_call *call, fast_product *f, reed_kernel *out_kernel) {
  const product *p = &f->p;
  int64_t rows = p->batch * p->m;
  panel_problem problem = {
      .images = 1,
      .channels = p->k,
      .outputs = p->n,
      .in = {1, rows},
      .out = {1, rows},
      .taps = {1, 1},
      .stride = {1, 1},
      .dilation = {1, 1},
      .x_image = rows * p->a_row,
      .x_row = rows * p->a_row,
      .x_pixel = p->a_row,
      .x_channel = 1,
      .y_image = rows * p->n,
      .y_row = rows * p->n,
      .y_pixel = p->n,
  };
  f->residual_inside = p->has_c && !f->bias_inside && p->beta == 1 && p->c_row == p->n && p->c_column == 1 &&
                       one_each(p, p->c_batch, p->m * p->n);
  f->activation_inside = !p->has_c || f->bias_inside || f->residual_inside;
  if (f->activation_inside) problem.activation = p->activation;
  reed_status status = panel_plan_open(call, &problem, &f->plan);
  if (status != REED_OK) return status;
  *out_kernel = (reed_kernel){run_fast, f, fast_free, panel_plan_workspace_bytes(f->plan),
                              (int64_t)sizeof *f + panel_plan_state_bytes(f->plan)};
  return REED_OK;
}

static reed_status prepare(const cpu_view *view, bool gemm, reed_kernel *out_kernel) {
  const reed_kernel_call *call = view->call;
  product p;
  reed_status status = product_read(call, gemm, &p);
  if (status != REED_OK || p.dtype != REED_F32 || p.k == 0) return status;
  fast_product *f = mem_calloc(1, sizeof *f);
  if (!f) return cpu_no_memory(call);
  f->p = p;
  f->form = only_one(&p, p.b_batch)                                                     ? FORM_TALL
            : one_each(&p, p.a_batch, p.m * p.k) && one_each(&p, p.b_batch, b_step(&p)) ? FORM_BATCHED
                                                                                        : FORM_LOOP;
  f->bias_inside = p.has_c && p.alpha == 1 && p.beta == 1 && only_one(&p, p.c_batch) && (p.c_row == 0 || p.m == 1) &&
                   (p.c_column == 1 || p.n == 1);
  if (view->order) {
    status = prepare_panels(call, f, out_kernel);
    if (status != REED_OK) mem_free(f);
    return status;
  }
  bool constant = f->form == FORM_TALL && call->constant[1];
  onednn_problem problem;
  describe(f, constant, &problem);
  int64_t extent = f->form == FORM_TALL ? p.batch * p.m : f->form == FORM_BATCHED ? p.batch : p.m;
  status = onednn_open(call, &problem, extent, f->form == FORM_BATCHED ? MATRICES_MAX : ROWS_MAX,
                       constant ? call->host_values[1] : NULL, &f->runner);
  if (status != REED_OK || !f->runner) {
    mem_free(f);
    return status;
  }
  *out_kernel = (reed_kernel){run_fast, f, fast_free, onednn_workspace_bytes(f->runner), onednn_state_bytes(f->runner)};
  out_kernel->reads_rooms = cpu_rooms_only(call, 1u << 1); /* B is read with its strides */
  return REED_OK;
}

reed_status cpu_prepare_matmul(const cpu_view *view, reed_kernel *out_kernel) {
  return prepare(view, false, out_kernel);
}

reed_status cpu_prepare_gemm(const cpu_view *view, reed_kernel *out_kernel) { return prepare(view, true, out_kernel); }
