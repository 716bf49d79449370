/* The guard of plans with counted operands: each launch that touches one must read the count, even if the call's other
 * launches read it. */
#include <check.h>
#include <stddef.h>
#include <string.h>

#include "base/diag.h"
#include "device/cuda/kernels/kernel.h"
#include "ops/op.h"
#include "tests/suite.h"

enum { PLAIN_OPERAND, COUNTED_INPUT, COUNTED_OUTPUT, WORKSPACE, N_OPERANDS };

/* One launch of softmax's kernel that touches one operand, with or without the count. */
static void add_launch(cuda_plan *plan, int operand, bool counts) {
  const softmax_args args = {.counted = counts ? cuda_counted(plan->call) : (counted_extent){0}};
  cuda_plan_launch(plan, CUDA_softmax, 1, 0, &args);
  if (operand == COUNTED_OUTPUT) CUDA_OUTPUT(plan, softmax_args, y, 0);
  else if (operand == WORKSPACE) CUDA_PART(plan, softmax_args, y, CUDA_FROM_WORKSPACE, 0, 0, 64, true);
  else CUDA_INPUT(plan, softmax_args, x, operand == COUNTED_INPUT);
  if (counts) cuda_plan_count(plan, offsetof(softmax_args, counted));
}

/* Input 1 and the output have a count of 9 at most. */
START_TEST(a_launch_that_touches_a_counted_operand_reads_the_count) {
  static const struct {
    int first, second;
    bool first_counts, second_counts, refused;
  } cases[] = {{COUNTED_INPUT, COUNTED_OUTPUT, true, true, false}, {COUNTED_INPUT, COUNTED_OUTPUT, true, false, true},
               {COUNTED_INPUT, COUNTED_OUTPUT, false, true, true}, {PLAIN_OPERAND, COUNTED_INPUT, false, true, false},
               {PLAIN_OPERAND, COUNTED_INPUT, true, false, true},  {WORKSPACE, COUNTED_OUTPUT, false, true, false},
               {WORKSPACE, COUNTED_OUTPUT, false, false, true},    {WORKSPACE, PLAIN_OPERAND, false, false, false}};
  const reed_desc inputs[] = {{.dtype = REED_F32, .rank = 1, .dims = {9}}, {.dtype = REED_F32, .rank = 1, .dims = {9}}};
  const reed_room none = {.axis = -1}, counted = {.axis = 0, .capacity = 9, .counted = true};
  const reed_room input_rooms[] = {none, counted}, output_rooms[] = {counted};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    reed_diagnosis *d;
    ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
    const reed_kernel_call call = {.op = op_builtin(OP_Add),
                                   .node = "node",
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .inputs = inputs,
                                   .outputs = inputs,
                                   .input_rooms = input_rooms,
                                   .output_rooms = output_rooms,
                                   .diagnosis = d};
    cuda_plan plan = {.call = &call};
    add_launch(&plan, cases[k].first, cases[k].first_counts);
    add_launch(&plan, cases[k].second, cases[k].second_counts);
    reed_kernel kernel = {0};
    const reed_status status = cuda_plan_close(&plan, 0, &kernel);
    ck_assert_msg(status == (cases[k].refused ? REED_ERROR_UNSUPPORTED : REED_OK), "case %zu: %s", k,
                  reed_diagnosis_message(d));
    if (cases[k].refused)
      ck_assert_msg(strstr(reed_diagnosis_message(d), "Add node 'node': launch reed_softmax touches"), "%s",
                    reed_diagnosis_message(d));
    if (kernel.free) kernel.free(kernel.state);
    reed_diagnosis_close(&d);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("guard");
  TCase *cases = tcase_create("guard");
  suite_add_tcase(suite, cases);
  tcase_add_test(cases, a_launch_that_touches_a_counted_operand_reads_the_count);
  return suite_run(suite);
}
