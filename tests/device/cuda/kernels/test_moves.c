/* Copies side by side under the emulation: Concat and Split have one launch for MOVES_PARTS operands, also where only
 * the device knows how many rows there are; Gather copies whole vectors. */
#include "base/desc.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

enum { ROWS = 5, MOST_INPUTS = 19, MOST = 2048 };

static int64_t width_of(int32_t i) { return i % 4 + 1; }

/* Concat of n inputs, along axis 1 for `count` rows; the output's other rows keep their bits. kept: input 0 lies at its
 * place in the output's memory. */
static void check_concat(int32_t n, int32_t axis, int64_t count, bool kept) {
  static float x[MOST_INPUTS][MOST], y[MOST];
  reed_desc in[MOST_INPUTS], out = {REED_F32, 2, {0, 0}};
  reed_room rooms[MOST_INPUTS];
  const reed_room of = {.axis = 0, .capacity = ROWS, .counted = 1};
  const reed_attr attr = {.name = "axis", .type = REED_ATTR_INT, .i = axis};
  emulated_call c = {.op = OP_Concat, .attrs = &(reed_attrs){&attr, 1}, .in = in, .n_in = n, .out = &out};
  out.dims[1 - axis] = ROWS;
  for (int32_t i = 0; i < n; i++) {
    in[i] = (reed_desc){REED_F32, 2, {axis ? ROWS : width_of(i), axis ? width_of(i) : ROWS}};
    rooms[i] = of;
    for (int64_t e = 0; e < desc_elements(&in[i]); e++) x[i][e] = (float)(100 * i + e);
    c.inputs[i] = x[i];
    out.dims[axis] += in[i].dims[axis];
  }
  for (int64_t e = 0; e < MOST; e++) y[e] = -1;
  if (kept) {
    memcpy(y, x[0], (size_t)desc_bytes(&in[0]));
    c.inputs[0] = y;
  }
  c.output = y;
  c.count = count;
  if (count < ROWS) c.in_rooms = rooms, c.out_rooms = &of;
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_uint_eq(plan->n_launches, (uint32_t)(n + MOVES_PARTS - 1) / MOVES_PARTS);
  emulated_run(&c, &kernel);
  kernel.free(kernel.state);
  int64_t before = 0;
  for (int32_t i = 0; i < n; before += in[i].dims[axis], i++)
    for (int64_t e = 0; e < desc_elements(&in[i]); e++) {
      const int64_t row = e / in[i].dims[1] + (axis ? 0 : before), column = e % in[i].dims[1] + (axis ? before : 0);
      ck_assert_msg(y[row * out.dims[1] + column] == (row < count || !axis ? x[i][e] : -1),
                    "element %lld of input %d of %d", (long long)e, i, n);
    }
}

START_TEST(concat_has_one_launch_for_several_inputs) {
  for (int32_t axis = 0; axis < 2; axis++) {
    check_concat(_i + 1, axis, ROWS, false);
    if (axis == 0) check_concat(_i + 1, axis, ROWS, true);
    for (int64_t count = 0; axis == 1 && count < ROWS; count++) check_concat(_i + 1, axis, count, false);
  }
}
END_TEST

START_TEST(split_has_one_launch_for_its_outputs) {
  static float x[MOST], y[4][MOST];
  const reed_desc in = {REED_F32, 3, {3, 8, 5}}, out[] = {{REED_F32, 3, {3, 1, 5}},
                                                          {REED_F32, 3, {3, 4, 5}},
                                                          {REED_F32, 3, {3, 0, 5}},
                                                          {REED_F32, 3, {3, 3, 5}}};
  const int64_t sizes[] = {1, 4, 0, 3};
  const reed_attr attrs[] = {{.name = "axis", .type = REED_ATTR_INT, .i = 1}};
  for (int64_t e = 0; e < 120; e++) x[e] = (float)e;
  emulated_call c = {.op = OP_Split,
                     .attrs = &(reed_attrs){attrs, 1},
                     .in = (const reed_desc[]){in, {REED_I64, 1, {4}}},
                     .n_in = 2,
                     .out = out,
                     .more_out = 3,
                     .host = (const void *const[]){NULL, sizes},
                     .inputs = {x, sizes},
                     .output = y[0],
                     .more_outputs = {y[1], y[2], y[3]}};
  reed_kernel kernel = emulated_prepare(&c);
  ck_assert_uint_eq(((const cuda_prepared *)kernel.state)->n_launches, 1);
  emulated_run(&c, &kernel);
  kernel.free(kernel.state);
  int64_t before = 0;
  for (int i = 0; i < 4; before += sizes[i], i++)
    for (int64_t e = 0; e < desc_elements(&out[i]); e++) {
      const int64_t own = sizes[i] * 5;
      ck_assert_float_eq(y[i][e], x[e / own * 40 + before * 5 + e % own]);
    }
}
END_TEST

/* Rows of `width` elements of 1, 2, 4 or 8 bytes, of operands that begin at a vector or one element behind it. */
START_TEST(gather_copies_whole_vectors) {
  static char x[MOST] __attribute__((aligned(16))), y[MOST] __attribute__((aligned(16)));
  static const int64_t indices[] = {3, 0, -1, 3, 2};
  static const struct {
    reed_dtype dtype;
    int64_t width, threads;
  } rows[] = {{REED_F32, 4, 5}, {REED_F32, 6, 30}, {REED_U8, 48, 15},
              {REED_F16, 8, 5}, {REED_F64, 2, 5},  {REED_I64, 3, 15}};
  const reed_desc in[] = {{rows[_i].dtype, 2, {4, rows[_i].width}}, {REED_I64, 1, {5}}},
                  out = {rows[_i].dtype, 2, {5, rows[_i].width}};
  const int64_t size = (int64_t)reed_dtype_bytes(rows[_i].dtype), bytes = size * rows[_i].width;
  for (int off = 0; off < 4; off++) {
    char *from = x + off % 2 * size, *to = y + off / 2 * size;
    memset(y, 0, sizeof y);
    for (int64_t e = 0; e < 4 * bytes; e++) from[e] = (char)(e * 7 + 1);
    emulated_call c = {.op = OP_Gather, .in = in, .n_in = 2, .out = &out, .inputs = {from, indices}, .output = to};
    reed_kernel kernel = emulated_prepare(&c);
    const cuda_prepared *plan = kernel.state;
    ck_assert_int_eq(((const gather_args *)(plan->args + plan->launches[0].args_at))->n, rows[_i].threads);
    emulated_run(&c, &kernel);
    kernel.free(kernel.state);
    for (int64_t k = 0; k < 5; k++) ck_assert_mem_eq(to + k * bytes, from + (indices[k] & 3) * bytes, (size_t)bytes);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("moves");
  TCase *t = tcase_create("moves");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, concat_has_one_launch_for_several_inputs, 0, MOST_INPUTS);
  tcase_add_test(t, split_has_one_launch_for_its_outputs);
  tcase_add_loop_test(t, gather_copies_whole_vectors, 0, 6);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
