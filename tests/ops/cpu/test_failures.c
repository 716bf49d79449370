/* Every allocation of preparing a kernel fails once: each is reported and leaks nothing. Running a prepared kernel
 * takes nothing. */
#include <stdlib.h>

#include <check.h>

#include "base/desc.h"
#include "base/diag.h"
#include "ops/cpu/common/cpu.h"
#include "ops/call.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

typedef struct prepared_case {
  op_id op;
  int32_t n_inputs, n_outputs;
  reed_desc inputs[5], outputs[2];
  const void *host[5];
  reed_attr attrs[2];
  int32_t n_attrs;
} prepared_case;

static const float ones[16 * 16 * 9];
static const int64_t four[4] = {4, 4, 4, 4};
static const int64_t kernel_shape[2] = {2, 2};

#define DESC(type, n, ...) \
  { \
    REED_##type, n, { __VA_ARGS__ } \
  }
#define KERNEL_SHAPE \
  .attrs = {{.name = "kernel_shape", .type = REED_ATTR_INTS, .ints = kernel_shape, .n = 2}}, .n_attrs = 1

/* channels_last means nothing for a matrix */
#define PACKED(...) \
  .attrs = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1}, \
            {.name = "packed", \
             .type = REED_ATTR_INTS, \
             .ints = (const int64_t[]){__VA_ARGS__}, \
             .n = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)}}, \
  .n_attrs = 2

static const prepared_case cases[] = {
    {OP_LSTM,
     3,
     2,
     {DESC(F32, 3, 7, 2, 16), DESC(F32, 3, 1, 64, 16), DESC(F32, 3, 1, 64, 16)},
     {DESC(F32, 4, 7, 1, 2, 16), DESC(F32, 3, 1, 2, 16)},
     {NULL, ones, ones}},
    {OP_GRU,
     3,
     1,
     {DESC(F64, 3, 3, 2, 4), DESC(F64, 3, 1, 12, 4), DESC(F64, 3, 1, 12, 4)},
     {DESC(F64, 4, 3, 1, 2, 4)},
     {NULL}},
    {OP_Conv,
     2,
     1,
     {DESC(F32, 4, 37, 16, 7, 7), DESC(F32, 4, 16, 16, 3, 3)},
     {DESC(F32, 4, 37, 16, 5, 5)},
     {NULL, ones}},
    {OP_Conv, 2, 1, {DESC(F16, 4, 3, 16, 7, 7), DESC(F16, 4, 16, 16, 3, 3)}, {DESC(F16, 4, 3, 16, 5, 5)}, {NULL, ones}},
    {OP_Conv,
     2,
     1,
     {DESC(F32, 4, 1, 7, 7, 16), DESC(F32, 4, 16, 1, 3, 3)},
     {DESC(F32, 4, 1, 5, 5, 16)},
     {NULL, ones},
     .attrs = {{.name = "channels_last", .type = REED_ATTR_INT, .i = 1},
               {.name = "group", .type = REED_ATTR_INT, .i = 16}},
     .n_attrs = 2},
    {OP_Conv,
     2,
     1,
     {DESC(F32, 4, 2, 7, 7, 8), DESC(F32, 1, 16 * 8 * 9)},
     {DESC(F32, 4, 2, 5, 5, 10)},
     {NULL, ones},
     PACKED(10, 8, 3, 3)},
    {OP_Gemm, 2, 1, {DESC(F16, 2, 33, 16), DESC(F16, 1, 16 * 16)}, {DESC(F16, 2, 33, 9)}, {NULL, ones}, PACKED(16, 9)},
    {OP_Conv, 2, 1, {DESC(F64, 4, 1, 3, 4, 4), DESC(F64, 4, 2, 3, 3, 3)}, {DESC(F64, 4, 1, 2, 2, 2)}, {NULL}},
    {OP_ConvTranspose,
     2,
     1,
     {DESC(F32, 4, 3, 16, 7, 7), DESC(F32, 4, 16, 16, 1, 1)},
     {DESC(F32, 4, 3, 16, 7, 7)},
     {NULL, ones}},
    {OP_Gemm, 2, 1, {DESC(F32, 2, 33, 16), DESC(F32, 2, 16, 16)}, {DESC(F32, 2, 33, 16)}, {NULL, ones}},
    {OP_MatMul, 2, 1, {DESC(F32, 3, 3, 4, 5), DESC(F32, 3, 3, 5, 6)}, {DESC(F32, 3, 3, 4, 6)}, {NULL}},
    {OP_MaxPool, 1, 1, {DESC(F32, 4, 1, 2, 5, 5)}, {DESC(F32, 4, 1, 2, 4, 4)}, {NULL}, KERNEL_SHAPE},
    {OP_MaxPool,
     1,
     2,
     {DESC(F32, 4, 1, 2, 5, 5)},
     {DESC(F32, 4, 1, 2, 4, 4), DESC(I64, 4, 1, 2, 4, 4)},
     {NULL},
     KERNEL_SHAPE},
    {OP_Softmax, 1, 1, {DESC(F32, 2, 3, 4)}, {DESC(F32, 2, 3, 4)}, {NULL}},
    {OP_LayerNormalization, 2, 1, {DESC(BF16, 2, 3, 4), DESC(BF16, 1, 4)}, {DESC(BF16, 2, 3, 4)}, {NULL}},
    {OP_Resize,
     4,
     1,
     {DESC(F32, 4, 2, 2, 2, 2), {0}, {0}, DESC(I64, 1, 4)},
     {DESC(F32, 4, 4, 4, 4, 4)},
     {NULL, NULL, NULL, four},
     .attrs = {{.name = "mode", .type = REED_ATTR_STRING, .s = "linear"}},
     .n_attrs = 1},
    {OP_RoiAlign,
     3,
     1,
     {DESC(F32, 4, 1, 2, 8, 8), DESC(F32, 2, 3, 4), DESC(I64, 1, 3)},
     {DESC(F32, 4, 3, 2, 1, 1)},
     {NULL}},
    {OP_NonMaxSuppression,
     3,
     1,
     {DESC(F32, 3, 1, 6, 4), DESC(F32, 3, 1, 1, 6), DESC(I64, 1, 1)},
     {DESC(I64, 2, 4, 3)},
     {NULL, NULL, four}},
    {OP_PasteMasks,
     4,
     1,
     {DESC(F32, 4, 2, 1, 3, 3), DESC(I64, 2, 2, 4), DESC(I64, 1, 1), DESC(I64, 1, 1)},
     {DESC(F32, 3, 2, 4, 4)},
     {NULL, NULL, four, four}},
    {OP_TopK, 2, 2, {DESC(F32, 1, 9), DESC(I64, 1, 1)}, {DESC(F32, 1, 4), DESC(I64, 1, 4)}, {NULL, four}},
};

static reed_status prepare(const prepared_case *c, kernel_cache *cache, reed_kernel *out_kernel) {
  op_call_input inputs[5] = {{NULL}};
  for (int32_t i = 0; i < c->n_inputs; i++)
    if (c->inputs[i].dtype != REED_NONE) inputs[i] = (op_call_input){&c->inputs[i], c->host[i], c->host[i] != NULL};
  const reed_attrs given = {c->attrs, c->n_attrs};
  reed_attr completed[32];
  const reed_attrs attrs = op_attrs_complete(op_builtin(c->op), &given, completed);
  reed_kernel_env env = {.n_threads = 2, .cache = cache};
  op_call call = {.op = op_builtin(c->op),
                  .attrs = &attrs,
                  .node = "node",
                  .n_inputs = c->n_inputs,
                  .n_outputs = c->n_outputs,
                  .inputs = inputs,
                  .outputs = c->outputs,
                  .env = &env,
                  .prepare = kernel_cpu(op_builtin(c->op))};
  return op_call_prepare(&call, out_kernel);
}

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing) {
  for (int shared = 0; shared < 2; shared++)
    for (int64_t n = 1;; n++) {
      kernel_cache *cache = NULL;
      reed_kernel kernel = {0};
      alloc_hook_begin();
      if (shared) ck_assert_int_eq(kernel_cache_open(&cache), REED_OK);
      alloc_hook_fail_at(n);
      reed_status status = prepare(&cases[_i], cache, &kernel);
      bool reached = alloc_hook_failed();
      if (kernel.free) kernel.free(kernel.state);
      kernel_cache_close(&cache);
      ck_assert_int_eq(alloc_hook_end(), 0);
      if (!reached) {
        ck_assert_int_eq(status, REED_OK);
        break;
      }
      /* a cache that cannot grow its tables goes on with longer chains */
      ck_assert(status == REED_ERROR_MEMORY || status == REED_OK);
      if (status == REED_ERROR_MEMORY) ck_assert_ptr_null(kernel.run);
    }
}
END_TEST

static void *zeros(const reed_desc *desc) {
  return desc->dtype == REED_NONE ? NULL : calloc(1, (size_t)desc_bytes(desc) + 64);
}

START_TEST(running_takes_nothing_from_the_heap) {
  const prepared_case *c = &cases[_i];
  void *inputs[5] = {NULL}, *outputs[2] = {NULL};
  int64_t extents[2] = {0};
  reed_kernel kernel = {0};
  for (int32_t i = 0; i < c->n_inputs; i++) inputs[i] = zeros(&c->inputs[i]);
  for (int32_t i = 0; i < c->n_outputs; i++) outputs[i] = zeros(&c->outputs[i]);
  alloc_hook_begin();
  ck_assert_int_eq(prepare(c, NULL, &kernel), REED_OK);
  void *workspace = aligned_alloc(64, (size_t)(kernel.workspace_bytes + 64) / 64 * 64);
  reed_kernel_buffers buffers = {(const void *const *)inputs, outputs, workspace, extents, NULL};
  int64_t before = alloc_hook_requests();
  for (int run = 0; run < 3; run++) ck_assert_int_eq(kernel.run(kernel.state, &buffers), REED_OK);
  ck_assert_int_eq(alloc_hook_requests(), before);
  if (kernel.free) kernel.free(kernel.state);
  ck_assert_int_eq(alloc_hook_end(), 0);
  for (int32_t i = 0; i < c->n_inputs; i++) free(inputs[i]);
  for (int32_t i = 0; i < c->n_outputs; i++) free(outputs[i]);
  free(workspace);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("kernels' failures");
  TCase *t = tcase_create("all");
  int n = (int)(sizeof cases / sizeof *cases);
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, every_failed_allocation_is_reported_and_leaks_nothing, 0, n);
  tcase_add_loop_test(t, running_takes_nothing_from_the_heap, 0, n);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
