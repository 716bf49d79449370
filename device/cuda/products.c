/* Products by cuBLASLt (products.h): which launches the library takes, their plans and their weights. */
#include "device/cuda/products.h"

#include <string.h>

#include "base/mem.h"
#include "device/cuda/cublas/cublas.h"
#include "device/cuda/library_call.h"
#include "ops/op.h"
#include "ops/packed.h"

/* A product with all its extents. */
typedef struct product_plan {
  remembered head;
  cublas_product product;
  cublas_plan plan;
} product_plan;

/* Products whose extents have as many binary digits: the choice. */
typedef struct product_habit {
  remembered head;
  cublas_product kind;
} product_habit;

_Static_assert(offsetof(product_plan, product) == sizeof(remembered) &&
                   offsetof(product_habit, kind) == sizeof(remembered),
               "the key is right behind the head");

struct products {
  library_memory memory;
  cublas_calls calls;
  cublas_handle handle;
};

/* ---- the product ---- */

/* The distance between the rows of a matrix whose rows are dense, or (*out_by_column) between dense columns. False:
 * neither are. */
static bool read_matrix(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t *out_apart,
                        uint8_t *out_by_column) {
  *out_by_column = 0;
  *out_apart = rows == 1 ? columns : row;
  if ((column == 1 || columns == 1) && *out_apart >= columns) return true;
  *out_by_column = 1;
  *out_apart = columns == 1 ? rows : column;
  return (row == 1 || rows == 1) && *out_apart >= rows;
}

/* The distance between the matrices of a batch, whose axes are seen as one. False: there is no such distance. */
static bool read_batch(const product_args *a, const int64_t *strides, int64_t *out_stride) {
  int64_t n = 1;
  *out_stride = 0;
  for (int32_t d = a->batch_rank; d-- > 0;) {
    if (a->batch_dims[d] == 1) continue;
    if (n == 1) *out_stride = strides[d];
    else if (strides[d] != *out_stride * n) return false;
    n *= a->batch_dims[d];
  }
  return *out_stride >= 0;
}

static bool is_panels(const product_args *a) {
  const panels_args *p = &a->panels;
  return p->width == PACKED_WIDTH && p->channel_rows == 1 && p->depth == a->k && p->columns == a->n;
}

/* The bias is one row of y for all rows. */
static bool is_bias(const product_args *a) {
  bool every = a->beta == 1 && a->c_row == 0 && (a->c_column == 1 || a->n == 1);
  for (int32_t d = 0; d < a->batch_rank; d++) every = every && (a->c_batch[d] == 0 || a->batch_dims[d] == 1);
  return every;
}

/* False: a product that the library is not asked for. */
static bool read_product(const product_args *a, cuda_kernel_id kernel, cublas_product *out) {
  const bool relu = a->activation.formula == OP_Relu, packed = a->panels.width != 0;
  const void *const pointers[] = {a->a, a->b, a->c, a->y};
  if (library_is_unaligned(pointers, sizeof pointers / sizeof *pointers) || a->counted.capacity || a->k < 1 ||
      a->dtype != a->y_dtype || (kernel == CUDA_product_f32 && a->dtype != REED_F32) || (packed && !is_panels(a)) ||
      (!relu && a->activation.formula != OP_Identity) || (a->c && !is_bias(a)) || a->residual)
    return false;
  memset(out, 0, sizeof *out);
  out->m = a->m;
  out->k = a->k;
  out->n = a->n;
  out->batch = 1;
  for (int32_t d = 0; d < a->batch_rank; d++) out->batch *= a->batch_dims[d];
  out->dtype = a->dtype == REED_F16 ? LT_F16 : a->dtype == REED_BF16 ? LT_BF16 : LT_F32;
  out->alpha = (float)a->alpha;
  out->bias = a->c != NULL;
  out->relu = relu;
  out->tensor_cores = kernel != CUDA_product_f32;
  out->b_apart = a->n; /* of the copy of packed weights */
  return out->m <= INT32_MAX && out->k <= INT32_MAX && out->n <= INT32_MAX && out->batch <= INT32_MAX &&
         read_matrix(a->m, a->k, a->a_row, a->a_column, &out->a_apart, &out->a_by_column) &&
         read_batch(a, a->a_batch, &out->a_stride) &&
         (packed || (read_matrix(a->k, a->n, a->b_row, a->b_column, &out->b_apart, &out->b_by_column) &&
                     read_batch(a, a->b_batch, &out->b_stride)));
}

static int64_t digits(int64_t n) {
  int64_t found = 0;
  for (; n; n >>= 1) found++;
  return found;
}

static cublas_product kind_of(const cublas_product *product) {
  cublas_product kind = *product;
  kind.m = digits(kind.m);
  kind.k = digits(kind.k);
  kind.n = digits(kind.n);
  kind.batch = digits(kind.batch);
  kind.a_apart = kind.b_apart = kind.a_stride = kind.b_stride = 0;
  kind.alpha = 0;
  return kind;
}

/* ---- opening and closing ---- */

static void drop_plan(void *context, remembered *item) {
  cublas_plan_close(&((products *)context)->calls, &((product_plan *)item)->plan);
}

products *products_open(bool always) {
  products *made = mem_calloc(1, sizeof *made);
  if (!made) return NULL;
  library_memory_init(&made->memory, always, sizeof(cublas_product), sizeof(product_plan), sizeof(product_habit),
                      drop_plan, made);
  return made;
}

void products_close(products *of) {
  library_memory_fini(&of->memory);
  if (of->handle) (void)of->calls.destroy(of->handle);
  mem_free(of);
}

static bool find(void *context) { return cublas_find(&((products *)context)->calls, NULL) == REED_OK; }

static bool open_handle(products *of) {
  return library_is_there(&of->memory, find) && (of->handle || !of->calls.create(&of->handle));
}

/* ---- weights ---- */

/* Enqueues the copy of packed weights into [k][n]: whole panels, then the last one. */
static reed_status unpack(cuda_queue *queue, const void *args, void *copy, reed_diagnosis *diagnosis) {
  const product_args *a = args;
  const int32_t size = a->dtype == REED_F32 ? 4 : 2;
  const int64_t full = a->n / PACKED_WIDTH, last = a->n % PACKED_WIDTH, whole = full * PACKED_WIDTH * a->k;
  const move_args all[] = {{.x = a->b,
                            .y = copy,
                            .n = whole,
                            .rank = 3,
                            .size = size,
                            .extents = {full, a->k, PACKED_WIDTH},
                            .from = {PACKED_WIDTH * a->k, PACKED_WIDTH, 1},
                            .to = {PACKED_WIDTH, a->n, 1}},
                           {.x = a->b,
                            .y = copy,
                            .n = a->k * last,
                            .from_offset = whole,
                            .to_offset = full * PACKED_WIDTH,
                            .rank = 2,
                            .size = size,
                            .extents = {a->k, last},
                            .from = {a->panels.last_width, 1},
                            .to = {a->n, 1}}};
  const cu_operand operands[] = {{a->b, (whole + (last ? a->panels.last_width * a->k : 0)) * size, false},
                                 {copy, a->k * a->n * size, true}};
  return weights_move(queue, all, operands, diagnosis);
}

/* ---- launches ---- */

typedef struct product_call {
  library_call call;
  products *of;
  weights_copies *weights;
} product_call;

static bool enqueue(const library_call *call, cuda_queue *queue) {
  const product_call *c = (const product_call *)call;
  const product_args *a = call->own->args;
  const product_plan *plan = (product_plan *)call->plan;
  void *workspace = NULL;
  const void *b = a->b;
  if (!library_find_workspace(queue, plan->plan.workspace_bytes, &workspace)) return false;
  if (a->panels.width)
    b = weights_find(c->weights, queue, WEIGHTS_OF_PRODUCT, a->b, a->k * a->n * (a->dtype == REED_F32 ? 4 : 2), unpack,
                     a);
  if (!b) return false;
  if (queue->recording) cuda_graph_note(cuda_of(&queue->base), queue->recording, b);
  return cublas_plan_run(&c->of->calls, c->of->handle, &plan->plan, &plan->product, a->a, b, a->c, a->y, workspace,
                         queue->stream, NULL) == REED_OK;
}

bool products_take(cuda_kernel_id kernel) {
  return kernel == CUDA_product_f32 || kernel == CUDA_product_tf32 || kernel == CUDA_product_f16 ||
         kernel == CUDA_product_bf16 || kernel == CUDA_product_tall_tf32 || kernel == CUDA_product_tall_f16 ||
         kernel == CUDA_product_tall_bf16;
}

/* The plan; a new one where there is none. NULL: no memory, or a graph is recorded. */
static product_plan *find_plan(products *of, const cublas_product *product, bool may_make) {
  remembered *found = remembered_find(&of->memory.plans, product);
  if (found || !may_make) return (product_plan *)found;
  product_plan *made = (product_plan *)remembered_add(&of->memory.plans, product);
  if (made &&
      cublas_plan_open(&of->calls, of->handle, product, LIBRARY_MOST_WORKSPACE_BYTES, &made->plan, NULL) != REED_OK)
    made->head.choice = CHOICE_OWN;
  return made;
}

reed_status products_launch(products *of, weights_copies *weights, cuda_queue *queue, const cuda_ready *own,
                            bool *out_done, reed_diagnosis *diagnosis) {
  cublas_product product;
  if (!read_product(own->args, own->kernel, &product)) return REED_OK;
  if (!queue->recording && !open_handle(of)) return REED_OK;
  if (of->memory.search == LIBRARY_MISSING) return REED_OK;
  product_plan *plan = find_plan(of, &product, !queue->recording);
  if (queue->recording && (!plan || !of->handle))
    cuda_graph_spoil(queue->recording, "met a product that cuBLASLt has no plan of yet");
  if (!plan || !of->handle) return REED_OK;
  const cublas_product kind = kind_of(&product);
  const product_call call = {.call = {.spoilt = "could not multiply by cuBLASLt as before",
                                      .plan = &plan->head,
                                      .memory = &of->memory,
                                      .kind = &kind,
                                      .enqueue = enqueue,
                                      .own = own},
                             .of = of,
                             .weights = weights};
  return library_run(&call.call, queue, out_done, diagnosis);
}
