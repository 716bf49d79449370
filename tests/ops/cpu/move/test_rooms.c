/* Operands with room along an axis: Concat writes new rows behind the rows of the past; a kernel that reads no strides
 * gets dense copies, which are counted. Every kernel with room in its inputs: kernel_case.c. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/strides.h"
#include "ops/call.h"
#include "tests/suite.h"

/* A call of an operator with up to two inputs, prepared on the host. */
typedef struct roomy {
  reed_attr completed[32];
  reed_attrs attrs;
  op_call_input in[2];
  reed_kernel_env env;
  reed_diagnosis said;
  reed_kernel kernel;
} roomy;

static reed_status prepare(roomy *r, op_id op, const reed_attrs *given, const reed_desc *inputs, int32_t n,
                           const reed_desc *output, const reed_room *in_rooms, const reed_room *out_rooms) {
  memset(r, 0, sizeof *r);
  r->attrs = op_attrs_complete(op_builtin(op), given, r->completed);
  r->env = (reed_kernel_env){.n_threads = 2};
  for (int32_t i = 0; i < n; i++) r->in[i] = (op_call_input){.desc = &inputs[i]};
  op_call call = {.op = op_builtin(op),
                  .attrs = &r->attrs,
                  .node = "node",
                  .n_inputs = n,
                  .n_outputs = 1,
                  .inputs = r->in,
                  .outputs = output,
                  .input_rooms = in_rooms,
                  .output_rooms = out_rooms,
                  .env = &r->env,
                  .diagnosis = &r->said,
                  .prepare = kernel_cpu(op_builtin(op))};
  return op_call_prepare(&call, &r->kernel);
}

static void run(roomy *r, const void *first, const void *second, void *output) {
  const void *inputs[2] = {first, second};
  void *workspace = aligned_alloc(64, (size_t)(r->kernel.workspace_bytes + 127) / 64 * 64);
  reed_kernel_buffers buffers = {.inputs = inputs, .outputs = &output, .workspace = workspace};
  ck_assert_int_eq(r->kernel.run(r->kernel.state, &buffers), REED_OK);
  free(workspace);
  if (r->kernel.free) r->kernel.free(r->kernel.state);
}

/* Calls fn for every element: its number in row-major order and its place. */
#define EACH_ELEMENT(desc, strides) \
  for (int64_t n_ = desc_elements(&(desc)), i = 0, at; i < n_ && (at = place(&(desc), strides, i), true); i++)

static int64_t place(const reed_desc *desc, const int64_t *strides, int64_t i) {
  int64_t at = 0;
  for (int32_t d = desc->rank - 1; d >= 0; d--) at += i % desc->dims[d] * strides[d], i /= desc->dims[d];
  return at;
}

/* Rows are joined to a cache of `past` rows along each axis: in its memory, with and without a copy of the past. */
START_TEST(concat_writes_new_rows_behind_the_past) {
  bool in_place = _i;
  for (int32_t axis = 0; axis < 4; axis++)
    for (int64_t past = 0; past < 4; past++)
      for (int64_t more = 1; more < 4; more++)
        for (int64_t spare = 0; spare < 3; spare++) {
          reed_desc in[2] = {{REED_F32, 4, {2, 3, 4, 5}}, {REED_F32, 4, {2, 3, 4, 5}}}, out = in[0], all = in[0];
          in[0].dims[axis] = past;
          in[1].dims[axis] = more;
          out.dims[axis] = past + more;
          all.dims[axis] = past + more + spare;
          const reed_room none = {.axis = -1}, room = {.axis = axis, .capacity = all.dims[axis]};
          const reed_room in_rooms[2] = {in_place ? room : none, none};
          const reed_attrs given = {&(reed_attr){.name = "axis", .type = REED_ATTR_INT, .i = axis}, 1};
          int64_t strides[4];
          strides_of(&all, -1, 0, strides);
          float *memory = calloc((size_t)desc_elements(&all), sizeof *memory),
                *old = calloc((size_t)desc_elements(&in[0]) + 1, sizeof *old),
                *rows = calloc((size_t)desc_elements(&in[1]), sizeof *rows);
          for (int64_t i = 0; i < desc_elements(&all); i++) memory[i] = -7;
          EACH_ELEMENT(in[0], strides) * (in_place ? &memory[at] : &old[i]) = (float)(1000 + i);
          for (int64_t i = 0; i < desc_elements(&in[1]); i++) rows[i] = (float)(2000 + i);
          roomy r;
          ck_assert_int_eq(prepare(&r, OP_Concat, &given, in, 2, &out, in_rooms, &room), REED_OK);
          ck_assert(r.kernel.reads_rooms && r.kernel.dense_bytes == 0);
          run(&r, in_place ? memory : old, rows, memory);
          float *expected = calloc((size_t)desc_elements(&all), sizeof *expected);
          for (int64_t i = 0; i < desc_elements(&all); i++) expected[i] = -7;
          EACH_ELEMENT(in[0], strides) expected[at] = (float)(1000 + i);
          EACH_ELEMENT(in[1], strides) expected[at + past * strides[axis]] = (float)(2000 + i);
          ck_assert_mem_eq(memory, expected, (size_t)desc_bytes(&all));
          free(expected), free(rows), free(old), free(memory);
        }
}
END_TEST

/* Neg reads no strides: one dense copy. Shape reads no elements: none. */
START_TEST(an_input_with_room_is_copied_for_a_kernel_that_reads_no_strides) {
  const reed_desc x = {REED_F32, 3, {2, 3, 4}}, shape = {REED_I64, 1, {3}};
  const reed_room room = {.axis = 1, .capacity = 5}, no_gap = {.axis = 0, .capacity = 9};
  float memory[40], y[24];
  int64_t extents[3];
  for (int i = 0; i < 40; i++) memory[i] = (float)i;
  roomy r;
  ck_assert_int_eq(prepare(&r, OP_Neg, &(reed_attrs){0}, &x, 1, &x, &room, NULL), REED_OK);
  ck_assert(!r.kernel.reads_rooms);
  ck_assert_int_eq(r.kernel.dense_bytes, 96);
  run(&r, memory, NULL, y);
  for (int i = 0; i < 24; i++) ck_assert_float_eq(y[i], -(float)(i / 12 * 20 + i % 12));
  ck_assert_int_eq(prepare(&r, OP_Neg, &(reed_attrs){0}, &x, 1, &x, &no_gap, NULL), REED_OK);
  ck_assert_int_eq(r.kernel.dense_bytes, 0);
  run(&r, memory, NULL, y);
  for (int i = 0; i < 24; i++) ck_assert_float_eq(y[i], -(float)i);
  ck_assert_int_eq(prepare(&r, OP_Shape, &(reed_attrs){0}, &x, 1, &shape, &room, NULL), REED_OK);
  ck_assert_int_eq(r.kernel.dense_bytes, 0);
  run(&r, NULL, NULL, extents);
  ck_assert(extents[0] == 2 && extents[1] == 3 && extents[2] == 4);
}
END_TEST

START_TEST(a_kernel_that_writes_no_strides_is_refused_an_output_with_room) {
  const reed_desc x = {REED_F32, 3, {2, 3, 4}};
  const reed_room room = {.axis = 1, .capacity = 5}, no_gap = {.axis = 0, .capacity = 9};
  roomy r;
  ck_assert_int_eq(prepare(&r, OP_Neg, &(reed_attrs){0}, &x, 1, &x, NULL, &room), REED_ERROR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(reed_diagnosis_message(&r.said), "room"));
  ck_assert_int_eq(prepare(&r, OP_Neg, &(reed_attrs){0}, &x, 1, &x, NULL, &no_gap), REED_OK);
  if (r.kernel.free) r.kernel.free(r.kernel.state);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("rooms");
  TCase *cases = tcase_create("rooms");
  tcase_add_loop_test(cases, concat_writes_new_rows_behind_the_past, 0, 2);
  tcase_add_test(cases, an_input_with_room_is_copied_for_a_kernel_that_reads_no_strides);
  tcase_add_test(cases, a_kernel_that_writes_no_strides_is_refused_an_output_with_room);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
