/* Element-wise programs, pools, Resize and RoiAlign in vectors of 16 bytes under the emulation: a thread computes as
 * many neighbours as a vector has where extents allow it, and operands that begin at any element give the same bits. */
#include <stdlib.h>
#include <string.h>

#include "base/desc.h"
#include "base/dtype.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

enum { MOST_BYTES = 1 << 14, OFFSETS = 3 };

/* Elements from the begin of a vector to an operand, by kind: 0 for all; 1 for all; 1 for the first one only. */
static int64_t offset_of(int kind, int operand) { return kind == 1 || (kind == 2 && operand == 0); }

static void fill(reed_dtype dtype, void *data, int64_t n, uint32_t noise) {
  for (int64_t i = 0; i < n; i++) {
    noise = noise * 1664525u + 1013904223u;
    reed_dtype_write(dtype, (char *)data + i * (int64_t)reed_dtype_bytes(dtype), (double)(noise >> 25));
  }
}

/* Runs the call with operands that begin as `kind` says; the threads of its last launch. */
static int64_t run(emulated_call *c, int kind, void *result) {
  static char memory[4][MOST_BYTES + 64] __attribute__((aligned(64)));
  static char workspace[1 << 10] __attribute__((aligned(64)));
  for (int i = 0; i < c->n_in; i++) {
    if (c->in[i].dtype == REED_NONE) continue;
    const int64_t size = (int64_t)reed_dtype_bytes(c->in[i].dtype), n = desc_elements(&c->in[i]);
    ck_assert_int_le(n * size, MOST_BYTES);
    c->inputs[i] = memory[i] + offset_of(kind, i) * size;
    if (c->in[i].dtype == REED_I64) memset(memory[i], 0, sizeof memory[i]); /* images */
    else fill(c->in[i].dtype, memory[i] + offset_of(kind, i) * size, n, (uint32_t)i);
  }
  const int64_t size = (int64_t)reed_dtype_bytes(c->out->dtype), n = desc_elements(c->out);
  c->output = memory[3] + offset_of(kind, 0) * size;
  reed_kernel kernel = emulated_prepare(c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_int_le(kernel.workspace_bytes, sizeof workspace);
  c->workspace = workspace;
  emulated_run(c, &kernel);
  ck_assert_uint_ge(plan->n_launches, 1);
  const cuda_launch *last = &plan->launches[plan->n_launches - 1];
  const int64_t blocks = last->grid[0], threads = cuda_kernel_infos[last->kernel].threads;
  kernel.free(kernel.state);
  memcpy(result, c->output, (size_t)(n * size));
  return blocks * threads;
}

/* The same bits wherever the operands begin, in `part` elements a thread. */
static void check(emulated_call *c, int64_t part) {
  static char results[OFFSETS][MOST_BYTES];
  const int64_t n = desc_elements(c->out), threads = (n + part - 1) / part;
  for (int kind = 0; kind < OFFSETS; kind++) {
    const int64_t launched = run(c, kind, results[kind]);
    ck_assert_msg(launched >= threads && launched < threads + 256, "%lld threads for %lld elements, not %lld",
                  (long long)launched, (long long)n, (long long)threads);
    ck_assert_mem_eq(results[0], results[kind], (size_t)(n * (int64_t)reed_dtype_bytes(c->out->dtype)));
  }
}

static const struct {
  reed_dtype x, y; /* y: of the output; Cast if it is not x */
  int32_t rank, other_rank;
  int64_t dims[2], other[2];
  int64_t part;
} programs[] = {
    {REED_F32, REED_F32, 1, 1, {1003}, {1003}, 4},   {REED_F32, REED_F32, 1, 1, {1}, {1}, 4},
    {REED_F64, REED_F64, 1, 1, {777}, {777}, 2},     {REED_F16, REED_F16, 1, 1, {2049}, {2049}, 4},
    {REED_BF16, REED_BF16, 2, 1, {40, 24}, {24}, 4}, {REED_F32, REED_F32, 2, 2, {60, 12}, {60, 1}, 4},
    {REED_F16, REED_F16, 2, 1, {50, 12}, {12}, 4},   {REED_F32, REED_F32, 2, 1, {300, 3}, {3}, 4},
    {REED_I32, REED_I32, 2, 1, {30, 34}, {34}, 2},   {REED_I8, REED_I8, 1, 1, {4099}, {4099}, 16},
    {REED_F32, REED_F16, 1, 0, {1001}, {0}, 4},      {REED_F16, REED_F32, 1, 0, {1006}, {0}, 4},
    {REED_F32, REED_U8, 1, 0, {1015}, {0}, 4},       {REED_U8, REED_F64, 1, 0, {515}, {0}, 2},
    {REED_F32, REED_F32, 2, 2, {1, 900}, {1, 1}, 4},
};

START_TEST(an_element_wise_program_computes_a_vector_a_thread) {
  const reed_desc out = {programs[_i].y, programs[_i].rank, {programs[_i].dims[0], programs[_i].dims[1]}};
  reed_desc in[2] = {out, {programs[_i].x, programs[_i].other_rank, {programs[_i].other[0], programs[_i].other[1]}}};
  in[0].dtype = programs[_i].x;
  const bool casts = programs[_i].x != programs[_i].y;
  const reed_attr to = {.name = "to", .type = REED_ATTR_INT, .i = programs[_i].y};
  emulated_call c = {
      .op = casts ? OP_Cast : OP_Add, .attrs = &(reed_attrs){&to, casts}, .in = in, .n_in = casts ? 1 : 2, .out = &out};
  for (c.order = 0; c.order < 3; c.order++) check(&c, programs[_i].part);
}
END_TEST

static const struct {
  reed_dtype dtype;
  int64_t channels, last, part;
} maps[] = {{REED_F32, 8, 1, 4},  {REED_F32, 6, 1, 1}, {REED_F16, 16, 1, 8}, {REED_BF16, 8, 1, 8},
            {REED_F16, 12, 1, 1}, {REED_F64, 4, 1, 1}, {REED_F32, 8, 0, 1},  {REED_F32, 3, 1, 1}};

START_TEST(roi_align_computes_eight_channels_a_thread) {
  const int64_t channels = maps[_i / 2].channels, last = maps[_i / 2].last;
  const reed_dtype dtype = maps[_i / 2].dtype;
  const reed_desc in[] = {{dtype, 4, {1, last ? 7 : channels, last ? 9 : 7, last ? channels : 9}},
                          {dtype, 2, {3, 4}},
                          {REED_I64, 1, {3}}},
                  out = {dtype, 4, {3, last ? 3 : channels, last ? 2 : 3, last ? channels : 2}};
  const reed_attr attrs[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = last},
                             {.name = "mode", .type = REED_ATTR_STRING, .s = _i % 2 ? "max" : "avg"},
                             {.name = "output_height", .type = REED_ATTR_INT, .i = 3},
                             {.name = "output_width", .type = REED_ATTR_INT, .i = 2},
                             {.name = "spatial_scale", .type = REED_ATTR_FLOAT, .f = 0.07F}};
  emulated_call c = {.op = OP_RoiAlign, .attrs = &(reed_attrs){attrs, 5}, .in = in, .n_in = 3, .out = &out};
  check(&c, maps[_i / 2].part == 1 ? 1 : ROI_CHANNELS);
}
END_TEST

START_TEST(a_pool_computes_a_vector_of_channels_a_thread) {
  const int64_t channels = maps[_i / 2].channels, last = maps[_i / 2].last;
  const reed_dtype dtype = maps[_i / 2].dtype;
  const reed_desc in = {dtype, 4, {2, last ? 7 : channels, last ? 9 : 7, last ? channels : 9}},
                  out = {dtype, 4, {2, last ? 4 : channels, last ? 3 : 4, last ? channels : 3}};
  const reed_attr attrs[] = {{.name = "channels_last", .type = REED_ATTR_INT, .i = last},
                             {.name = "kernel_shape", .type = REED_ATTR_INTS, .ints = (int64_t[]){3, 5}, .n = 2},
                             {.name = "pads", .type = REED_ATTR_INTS, .ints = (int64_t[]){1, 1, 1, 2}, .n = 4},
                             {.name = "strides", .type = REED_ATTR_INTS, .ints = (int64_t[]){2, 3}, .n = 2}};
  emulated_call c = {
      .op = _i % 2 ? OP_MaxPool : OP_AveragePool, .attrs = &(reed_attrs){attrs, 4}, .in = &in, .n_in = 1, .out = &out};
  check(&c, maps[_i / 2].part);
}
END_TEST

START_TEST(resize_computes_a_vector_of_channels_of_some_rows_a_thread) {
  const int64_t channels = maps[_i / 2].channels, last = maps[_i / 2].last;
  const reed_dtype dtype = maps[_i / 2].dtype;
  const float scales[] = {1, last ? 2 : 1, last ? 1.5F : 2, last ? 1 : 1.5F};
  const reed_desc in[] = {{dtype, 4, {2, last ? 3 : channels, last ? 4 : 3, last ? channels : 4}},
                          {.dtype = REED_NONE},
                          {REED_F32, 1, {4}}},
                  out = {dtype, 4, {2, last ? 6 : channels, 6, last ? channels : 6}};
  const reed_attr mode = {.name = "mode", .type = REED_ATTR_STRING, .s = _i % 2 ? "linear" : "nearest"};
  emulated_call c = {.op = OP_Resize,
                     .attrs = &(reed_attrs){&mode, 1},
                     .in = in,
                     .n_in = 3,
                     .out = &out,
                     .host = (const void *const[]){NULL, NULL, scales}};
  check(&c, maps[_i / 2].part * (dtype == REED_F64 && _i % 2 ? 1 : RESIZE_ROWS));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("vectors");
  TCase *t = tcase_create("vectors");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, an_element_wise_program_computes_a_vector_a_thread, 0, sizeof programs / sizeof *programs);
  tcase_add_loop_test(t, roi_align_computes_eight_channels_a_thread, 0, 2 * sizeof maps / sizeof *maps);
  tcase_add_loop_test(t, a_pool_computes_a_vector_of_channels_a_thread, 0, 2 * sizeof maps / sizeof *maps);
  tcase_add_loop_test(t, resize_computes_a_vector_of_channels_of_some_rows_a_thread, 0, 2 * sizeof maps / sizeof *maps);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
