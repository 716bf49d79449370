/* Valid arguments for every type of the public headers, one each, and the checks of null_arguments.py. A new type gets
 * a FIXTURE_ here. */
#ifndef TESTS_INCLUDE_REED_NULL_FIXTURE_H_
#define TESTS_INCLUDE_REED_NULL_FIXTURE_H_

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "reed/call.h"
#include "reed/compiler.h"
#include "reed/reed.h"
#include "tests/suite.h"

static const char module_text[] = ".module \"m\" producer \"test\" \"1\" devices 1\n"
                                  ".type t0 = f32[2] \"x\"\n"
                                  ".inputs t0\n"
                                  ".outputs t0\n"
                                  ".function main (t0) -> (t0) registers 1 0\n"
                                  "  return [r0], []\n";

/* The objects to which fixtures point. Every test starts with new ones. */
static struct {
  reed_program *program, *other_program;
  reed_session *session, *other_session;
  reed_tensor *tensor, *other_tensor;
  reed_registry *registry, *other_registry;
  reed_diagnosis *diagnosis, *other_diagnosis;
  reed_session_options session_options;
  reed_program_options program_options;
  reed_compile_options compile_options;
  reed_value_info value_info;
  reed_dim_range dim_range;
  reed_device_info device_info;
  reed_shape shape;
  reed_pass_info pass_info;
  reed_shape_call shape_call;
  reed_kernel_call kernel_call;
  reed_kernel_buffers buffers;
  reed_op op;
  reed_attrs attrs;
  reed_operator_call operator_call;
  reed_allocator allocator;
  uv_loop_t loop;
  DLManagedTensor managed, *out_managed;
  DLManagedTensorVersioned versioned, *out_versioned;
  void *bytes, *data;
  char *text;
  size_t n;
  int64_t number, dims[1];
  double real;
} fixtures;

static void open_fixtures(void) {
  memset(&fixtures, 0, sizeof fixtures);
  fixtures.dims[0] = 2;
  fixtures.operator_call.name = "Relu";
  fixtures.data = fixtures.dims;
  ck_assert_int_eq(reed_diagnosis_open(&fixtures.diagnosis), REED_OK);
  ck_assert_int_eq(reed_registry_open(&fixtures.registry), REED_OK);
  ck_assert_int_eq(reed_tensor_open(REED_F32, 1, fixtures.dims, &fixtures.tensor), REED_OK);
  ck_assert_int_eq(reed_module_assemble(module_text, NULL, &fixtures.bytes, &fixtures.n, NULL), REED_OK);
  ck_assert_int_eq(reed_program_open_bytes(fixtures.bytes, fixtures.n, NULL, &fixtures.program, NULL), REED_OK);
  ck_assert_int_eq(reed_session_open(fixtures.program, NULL, &fixtures.session, NULL), REED_OK);
  ck_assert_int_eq(uv_loop_init(&fixtures.loop), 0);
}

/* A test may have closed any of them. */
static void close_fixtures(void) {
  uv_run(&fixtures.loop, UV_RUN_DEFAULT);
  uv_loop_close(&fixtures.loop);
  reed_session_close(&fixtures.session);
  reed_program_close(&fixtures.program);
  reed_tensor_close(&fixtures.tensor);
  reed_registry_close(&fixtures.registry);
  reed_diagnosis_close(&fixtures.diagnosis);
  reed_text_free(fixtures.bytes);
}

static void nobody(void *context, reed_status status, reed_tensor **outputs, size_t n_outputs,
                   const reed_diagnosis *diagnosis) {
  (void)context, (void)status, (void)diagnosis;
  for (size_t i = 0; i < n_outputs; i++) reed_tensor_close(&outputs[i]);
}

static void nothing(void *context) { (void)context; }

#define FIXTURE_reed_status REED_ERROR_ARGUMENT
#define FIXTURE_reed_dtype REED_F32
#define FIXTURE_reed_fault_code REED_FAULT_INDEX
#define FIXTURE_reed_dim 1
#define FIXTURE_int32_t 1
#define FIXTURE_int64_t 0
#define FIXTURE_size_t 1
#define FIXTURE_double 0.0
#define FIXTURE_bool true

#define FIXTURE_reed_diagnosis_P fixtures.diagnosis
#define FIXTURE_const_reed_diagnosis_P fixtures.diagnosis
#define FIXTURE_reed_diagnosis_P_P &fixtures.other_diagnosis
#define FIXTURE_reed_program_P fixtures.program
#define FIXTURE_const_reed_program_P fixtures.program
#define FIXTURE_reed_program_P_P &fixtures.other_program
#define FIXTURE_const_reed_program_options_P &fixtures.program_options
#define FIXTURE_reed_session_P fixtures.session
#define FIXTURE_const_reed_session_P fixtures.session
#define FIXTURE_reed_session_P_P &fixtures.other_session
#define FIXTURE_const_reed_session_options_P &fixtures.session_options
#define FIXTURE_reed_tensor_P fixtures.tensor
#define FIXTURE_const_reed_tensor_P fixtures.tensor
#define FIXTURE_reed_tensor_P_P &fixtures.other_tensor
#define FIXTURE_reed_tensor_P_const_P &fixtures.tensor
#define FIXTURE_reed_registry_P fixtures.registry
#define FIXTURE_const_reed_registry_P fixtures.registry
#define FIXTURE_reed_registry_P_P &fixtures.other_registry
#define FIXTURE_reed_value_info_P &fixtures.value_info
#define FIXTURE_reed_dim_range_P &fixtures.dim_range
#define FIXTURE_reed_device_info_P &fixtures.device_info
#define FIXTURE_reed_shape_P &fixtures.shape
#define FIXTURE_const_reed_shape_P &fixtures.shape
#define FIXTURE_reed_pass_info_P &fixtures.pass_info
#define FIXTURE_reed_shape_call_P &fixtures.shape_call
#define FIXTURE_const_reed_shape_call_P &fixtures.shape_call
#define FIXTURE_const_reed_kernel_call_P &fixtures.kernel_call
#define FIXTURE_const_reed_kernel_buffers_P &fixtures.buffers
#define FIXTURE_const_reed_op_P &fixtures.op
#define FIXTURE_const_reed_attrs_P &fixtures.attrs
#define FIXTURE_const_reed_allocator_P &fixtures.allocator
#define FIXTURE_const_reed_compile_options_P &fixtures.compile_options
#define FIXTURE_const_reed_operator_call_P &fixtures.operator_call
#define FIXTURE_uv_loop_t_P &fixtures.loop
#define FIXTURE_reed_run_done_fn nobody
#define FIXTURE_void_P_void_P_context nothing
#define FIXTURE_DLManagedTensor_P &fixtures.managed
#define FIXTURE_DLManagedTensor_P_P &fixtures.out_managed
#define FIXTURE_struct_DLManagedTensorVersioned_P &fixtures.versioned
#define FIXTURE_struct_DLManagedTensorVersioned_P_P &fixtures.out_versioned
#define FIXTURE_const_char_P module_text
#define FIXTURE_char_P NULL
#define FIXTURE_char_P_P &fixtures.text
#define FIXTURE_const_void_P fixtures.bytes
#define FIXTURE_void_P fixtures.data
#define FIXTURE_void_P_P &fixtures.data
#define FIXTURE_size_t_P &fixtures.n
#define FIXTURE_int64_t_P &fixtures.number
#define FIXTURE_const_int64_t_P fixtures.dims
#define FIXTURE_double_P &fixtures.real

/* The expected results if a required argument was NULL. */
#define REFUSES_STATUS(call) ck_assert_int_eq(call, REED_ERROR_ARGUMENT)
#define REFUSES_NOTHING(call) call
#define REFUSES_TEXT(call) \
  do { \
    const char *text_ = call; \
    if (text_ && text_ != module_text) ck_assert_str_eq(text_, ""); /* the function's argument `otherwise` */ \
  } while (0)
#define REFUSES_POINTER(call) ck_assert_ptr_null(call)
#define REFUSES_NUMBER(call) \
  do { \
    double number_ = (double)(call); \
    ck_assert(number_ == 0 || number_ == -1); \
  } while (0)
#define FAILS_STATUS(call) ck_assert_int_ne(call, REED_OK)
/* The argument may be NULL, or no argument was: the call must return. */
#define MAY_STATUS(call) ck_assert_int_le(call, REED_OK)
#define MAY_NOTHING(call) call
#define MAY_TEXT(call) ck_assert_ptr_nonnull(call)
#define MAY_POINTER(call) (void)(call)
#define MAY_NUMBER(call) (void)(call)

static int run_fixtures(TCase *cases) {
  Suite *suite = suite_create("public headers");
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}

#endif
