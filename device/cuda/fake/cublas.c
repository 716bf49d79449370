/* A stand-in for cuBLASLt over the fake driver: it keeps the descriptors that the module makes, refuses those that
 * break a rule of the library's manual, and carries a product out by Reed's own kernels on the stream, from nothing but
 * the descriptors and the pointers. Its heuristics offer algorithms of every kind that the module must pass over. */
#include <string.h>

#include "base/mem.h"
#include "device/cuda/cublas/cublas.h"
#include "device/cuda/fake/state.h"
#include "device/cuda/kernels/product.h"
#include "ops/op.h"

enum { FAILED = 14, TILE = 64, WORKSPACE_BYTES = 1 << 10 };

/* The algorithms in the order of the heuristics, which leave out those that the wish excludes. */
typedef enum algorithm { REFUSED, LARGE, IN_PLACE, ALIGNED, GOOD, ALGORITHMS } algorithm;

typedef enum part_kind { PRODUCT, LAYOUT, WISH } part_kind;

/* Any descriptor; fields of the other kinds are 0. */
typedef struct part {
  fake_world *world;
  part_kind kind;
  int32_t sums, transposed[2], epilogue;
  const void *bias;
  int32_t dtype, batch;
  int64_t rows, columns, apart, stride;
  uint64_t most_workspace_bytes;
  uint32_t reductions, alignment[4];
} part;

struct cublasLtContext {
  fake_world *world;
  cu_module module;
};

static _Atomic int64_t n_runs;

static bool told_to_fail(fake_world *world) {
  return fake_library_fails(world, &world->n_cublas_calls, world->options.fail_cublas);
}

/* ---- descriptors ---- */

static cublas_status make(const part *of, void **out) {
  const cu_context context = fake_current();
  if (!context) return LT_NOT_INITIALIZED;
  if (told_to_fail(context->world)) return FAILED;
  part *made = mem_copy(of, sizeof *of);
  if (!made) return FAILED;
  made->world = context->world;
  fake_library_count(made->world, FAKE_CUBLAS, 1);
  *out = made;
  return LT_SUCCESS;
}

static cublas_status drop(void *of, part_kind kind) {
  part *p = of;
  if (p->kind != kind) return LT_BAD_VALUE;
  fake_library_count(p->world, FAKE_CUBLAS, -1);
  mem_free(p);
  return LT_SUCCESS;
}

/* Sets a field of so many bytes; NULL: there is no such attribute. */
static cublas_status set(part *p, part_kind kind, void *field, size_t field_bytes, const void *value, size_t bytes) {
  if (told_to_fail(p->world)) return FAILED;
  if (p->kind != kind || !field || bytes != field_bytes) return LT_BAD_VALUE;
  memcpy(field, value, bytes);
  return LT_SUCCESS;
}

static cublas_status stand_in_product_create(void **out, int sums, int scale) {
  if (scale != LT_F32) return LT_NOT_SUPPORTED;
  return make(&(part){.kind = PRODUCT, .sums = sums, .epilogue = LT_EPILOGUE_NONE}, out);
}
static cublas_status stand_in_product_destroy(void *of) { return drop(of, PRODUCT); }
static cublas_status stand_in_product_set(void *of, int attribute, const void *value, size_t bytes) {
  part *p = of;
  switch (attribute) {
    case LT_PRODUCT_A: return set(p, PRODUCT, &p->transposed[0], 4, value, bytes);
    case LT_PRODUCT_B: return set(p, PRODUCT, &p->transposed[1], 4, value, bytes);
    case LT_PRODUCT_EPILOGUE: return set(p, PRODUCT, &p->epilogue, 4, value, bytes);
    case LT_PRODUCT_BIAS: return set(p, PRODUCT, &p->bias, sizeof p->bias, value, bytes);
    default: return LT_BAD_VALUE;
  }
}

static cublas_status stand_in_layout_create(void **out, int dtype, uint64_t rows, uint64_t columns, int64_t apart) {
  const part of = {
      .kind = LAYOUT, .dtype = dtype, .rows = (int64_t)rows, .columns = (int64_t)columns, .apart = apart, .batch = 1};
  return rows && columns && apart >= of.rows ? make(&of, out) : LT_BAD_VALUE;
}
static cublas_status stand_in_layout_destroy(void *of) { return drop(of, LAYOUT); }
static cublas_status stand_in_layout_set(void *of, int attribute, const void *value, size_t bytes) {
  part *p = of;
  switch (attribute) {
    case LT_LAYOUT_BATCH: return set(p, LAYOUT, &p->batch, 4, value, bytes);
    case LT_LAYOUT_BATCH_STRIDE: return set(p, LAYOUT, &p->stride, 8, value, bytes);
    default: return LT_BAD_VALUE;
  }
}

/* Defaults of the manual: no workspace, every reduction, pointers aligned to 256 bytes. */
static cublas_status stand_in_wish_create(void **out) {
  return make(&(part){.kind = WISH, .reductions = 7, .alignment = {256, 256, 256, 256}}, out);
}
static cublas_status stand_in_wish_destroy(void *of) { return drop(of, WISH); }
static cublas_status stand_in_wish_set(void *of, int attribute, const void *value, size_t bytes) {
  part *p = of;
  switch (attribute) {
    case LT_WISH_WORKSPACE: return set(p, WISH, &p->most_workspace_bytes, 8, value, bytes);
    case LT_WISH_REDUCTIONS: return set(p, WISH, &p->reductions, 4, value, bytes);
    case LT_WISH_ALIGNMENT_A:
    case LT_WISH_ALIGNMENT_B:
    case LT_WISH_ALIGNMENT_C:
    case LT_WISH_ALIGNMENT_D: return set(p, WISH, &p->alignment[attribute - LT_WISH_ALIGNMENT_A], 4, value, bytes);
    default: return LT_BAD_VALUE;
  }
}

/* ---- handles ---- */

static cublas_status stand_in_create(cublas_handle *out_handle) {
  const cu_context context = fake_current();
  if (!context) return LT_NOT_INITIALIZED;
  if (told_to_fail(context->world)) return FAILED;
  cublas_handle made = mem_calloc(1, sizeof *made);
  if (!made) return FAILED;
  made->world = context->world;
  if (fake_module_load(&made->module, fake_images[0])) {
    mem_free(made);
    return FAILED;
  }
  fake_library_count(made->world, FAKE_CUBLAS, 1);
  *out_handle = made;
  return LT_SUCCESS;
}

static cublas_status stand_in_destroy(cublas_handle handle) {
  fake_library_count(handle->world, FAKE_CUBLAS, -1);
  (void)fake_module_unload(handle->module);
  mem_free(handle);
  return LT_SUCCESS;
}

/* ---- products ---- */

static int64_t size_of(const part *layout) { return layout->dtype == LT_F32 ? 4 : 2; }

/* The bytes from a matrix's first element to its batch's last one. */
static int64_t bytes_of(const part *l) {
  return ((l->batch - 1) * l->stride + (l->columns - 1) * l->apart + l->rows) * size_of(l);
}

/* The rows and columns of the library's product, which is the transposed y; the rows of the sum are `depth`. False: the
 * layouts do not fit each other. */
static bool read_layouts(const part *product, const part *a, const part *b, const part *c, const part *d,
                         product_args *out) {
  const int64_t rows = product->transposed[0] ? a->columns : a->rows,
                depth = product->transposed[0] ? a->rows : a->columns,
                columns = product->transposed[1] ? b->rows : b->columns,
                other = product->transposed[1] ? b->columns : b->rows;
  if (depth != other || d->rows != rows || d->columns != columns || d->apart != rows || c != d ||
      a->batch != d->batch || b->batch != d->batch || (d->batch > 1 && d->stride != rows * columns) ||
      a->dtype != d->dtype || b->dtype != d->dtype)
    return false;
  *out = (product_args){
      .m = columns,
      .k = depth,
      .n = rows,
      .tiles_m = (columns + TILE - 1) / TILE,
      .tiles_n = (rows + TILE - 1) / TILE,
      .batch_dims = {d->batch},
      .a_batch = {b->stride},
      .b_batch = {a->stride},
      .a_row = product->transposed[1] ? 1 : b->apart,
      .a_column = product->transposed[1] ? b->apart : 1,
      .b_row = product->transposed[0] ? 1 : a->apart,
      .b_column = product->transposed[0] ? a->apart : 1,
      .c_column = 1,
      .beta = 1,
      .activation = {.formula = product->epilogue & LT_EPILOGUE_RELU ? OP_Relu : OP_Identity, .from = REED_F32},
      .batch_rank = 1,
      .dtype = d->dtype == LT_F32   ? REED_F32
               : d->dtype == LT_F16 ? REED_F16
                                    : REED_BF16};
  out->y_dtype = out->dtype;
  return true;
}

static cublas_status stand_in_choose(cublas_handle handle, void *product, void *a, void *b, void *c, void *d,
                                     void *wish_, int capacity, cublas_result *out_results, int *out_n) {
  const part *wish = wish_;
  product_args args;
  if (told_to_fail(handle->world)) return FAILED;
  if (!read_layouts(product, a, b, c, d, &args)) return LT_BAD_VALUE;
  *out_n = 0;
  for (int i = 0; i < ALGORITHMS && *out_n < capacity; i++) {
    uint32_t alignment = 256;
    for (int k = 0; k < 4; k++) alignment = wish->alignment[k] < alignment ? wish->alignment[k] : alignment;
    if (i == IN_PLACE && !(wish->reductions & LT_REDUCTION_IN_PLACE)) continue;
    if (i == ALIGNED && alignment < 256) continue;
    out_results[(*out_n)++] = (cublas_result){.algorithm = {{(uint64_t)i}},
                                              .workspace_bytes = i == LARGE ? (size_t)1 << 40 : WORKSPACE_BYTES,
                                              .state = i == REFUSED ? LT_NOT_SUPPORTED : LT_SUCCESS};
  }
  return *out_n ? LT_SUCCESS : LT_NOT_SUPPORTED;
}

static const char *kernel_of(const part *product, const part *d) {
  if (d->dtype == LT_F16) return "reed_product_f16";
  if (d->dtype == LT_BF16) return "reed_product_bf16";
  return product->sums == LT_SUMS_TF32 ? "reed_product_tf32" : "reed_product_f32";
}

static cublas_status stand_in_multiply(cublas_handle handle, void *product_, const void *alpha, const void *a,
                                       void *a_layout, const void *b, void *b_layout, const void *beta, const void *c,
                                       void *c_layout, void *d, void *d_layout, const cublas_algorithm *algorithm,
                                       void *workspace, size_t workspace_bytes, cu_stream stream) {
  const part *product = product_, *layout_a = a_layout, *layout_b = b_layout, *layout_d = d_layout;
  product_args args;
  if (told_to_fail(handle->world)) return FAILED;
  if (algorithm->data[0] != GOOD || workspace_bytes < WORKSPACE_BYTES || !workspace) return LT_NOT_SUPPORTED;
  if (!read_layouts(product, a_layout, b_layout, c_layout, d_layout, &args) || *(const float *)beta != 0 || c != d ||
      (uintptr_t)a % CUBLAS_ALIGNMENT || (uintptr_t)b % CUBLAS_ALIGNMENT || (uintptr_t)d % CUBLAS_ALIGNMENT)
    return LT_BAD_VALUE;
  args.alpha = (double)*(const float *)alpha;
  args.a = b;
  args.b = a;
  args.y = d;
  cu_operand operands[5] = {{a, bytes_of(layout_a), false},
                            {b, bytes_of(layout_b), false},
                            {d, bytes_of(layout_d), true},
                            {workspace, WORKSPACE_BYTES, true}};
  size_t n = 4;
  if (product->epilogue & LT_EPILOGUE_BIAS) {
    if (!product->bias || (uintptr_t)product->bias % CUBLAS_ALIGNMENT) return LT_BAD_VALUE;
    args.c = product->bias;
    operands[n++] = (cu_operand){product->bias, layout_d->rows * size_of(layout_d), false};
  }
  const char *kernel = kernel_of(product, layout_d);
  const cu_result result =
      fake_library_launch(handle->module, stream, kernel, layout_d->batch * args.tiles_m * args.tiles_n,
                          strcmp(kernel, "reed_product_f32") ? CUDA_SMALL_TILE_BYTES : 0, &args, operands, n);
  n_runs += !result;
  return result ? FAILED : LT_SUCCESS;
}

static size_t stand_in_version(void) { return 130100; }
static const char *stand_in_text(cublas_status status) {
  return status == FAILED ? "CUBLAS_STATUS_INTERNAL_ERROR" : "another status";
}

reed_status cublas_find(cublas_calls *out_calls, reed_diagnosis *diagnosis) {
  (void)diagnosis;
  *out_calls = (cublas_calls){
#define CUBLAS(result, name, symbol, parameters) .name = stand_in_##name,
#include "device/cuda/cublas/cublas.def"
  };
  return REED_OK;
}

/* For tests: the number of products that plans have run. */
REED_API int64_t reed_fake_cublas_runs(void);
int64_t reed_fake_cublas_runs(void) { return n_runs; }
