/* One call of an operator as tests make it: inputs, the shape function for the outputs, a kernel at a CPU level, and
 * outputs with guard bands around them, which are compared with the plain reference's; then the same on every other
 * device that has the call (device_case.c). A case that fails or crashes hides no other one (case_log.c); its text
 * names operator, dtypes, shapes, attributes, device, level and seed. REED_CASE_SEED=0x12 in the environment fills
 * cases from that seed. */
#ifndef TESTS_OPS_CPU_KERNEL_CASE_H_
#define TESTS_OPS_CPU_KERNEL_CASE_H_

#include <check.h>
#include <stdarg.h>

#include "base/desc.h"
#include "base/diag.h"
#include "ops/cpu/common/cpu.h"
#include "ops/kernel.h"

#define CASE_INPUTS 8
#define CASE_OUTPUTS 5
#define ROOM_MORE 3

typedef struct value {
  reed_desc desc;
  void *block; /* the tensor's memory with its guard bands */
  void *data;  /* NULL for a tensor without elements */
} value;

#define CASE_ATTRS 14
#define CASE_ATTRS_COMPLETE 32

typedef struct kernel_case {
  op_id op;
  int32_t n_inputs, n_outputs, n_attrs;
  value inputs[CASE_INPUTS];
  value outputs[CASE_OUTPUTS];
  reed_attr attrs[CASE_ATTRS]; /* in any order: sorted before use */
  int n_threads;
  int in_place;   /* this input's memory is output 0 as well; -1: none */
  int room_input; /* this input's memory has room for ROOM_MORE elements more along room_axis; -1: none */
  int32_t room_axis;
  bool no_rooms;       /* case_parity runs without room: the test has a loop with case_rooms of its own */
  bool parts;          /* outputs that the kernel says lie in input 0 are given that memory */
  int n_parts;         /* the number of such outputs, over all runs */
  bool wants_in_place; /* case_parity fails unless the host's kernel wrote output 0 over an input in some run */
  int n_in_place;      /* such runs */
  /* false: all inputs are constants on the host, and the call has a program's cache; true: the host has only the values
   * of inputs that the operator's table flags */
  bool hide_values;
  bool unwanted[CASE_OUTPUTS]; /* optional outputs that the call leaves out */
  int64_t extents[CASE_OUTPUTS];
  reed_diagnosis diagnosis;
  uint64_t seed;      /* the seed of the elements that case_input fills in */
  bool skipped;       /* the test runs again after this case has crashed: the case is made, but not filled or run */
  const char *device; /* the device that runs or ran the case, and the CPU level of its kernel; for messages */
  const char *level;
} kernel_case;

void case_init(kernel_case *c, op_id op);
/* Appends an input; dims as int64_t[]. Elements are filled from a fixed random sequence over -range..range (floats) or
 * -range..range integers, clamped to the dtype; range 0: zeros. */
value *case_input(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims, double range);
/* Appends an input with these elements. */
value *case_filled(kernel_case *c, reed_dtype dtype, int32_t rank, const int64_t *dims, const double *elements);
/* An absent input. */
void case_absent(kernel_case *c);
/* An i64 vector with these elements. */
value *case_ints(kernel_case *c, int32_t n, ...);
/* An input of one element, rank 0. */
value *case_scalar(kernel_case *c, reed_dtype dtype, double x);
void case_attr_int(kernel_case *c, const char *name, int64_t i);
void case_attr_float(kernel_case *c, const char *name, double f);
void case_attr_string(kernel_case *c, const char *name, const char *s);
void case_attr_ints(kernel_case *c, const char *name, const int64_t *ints, int64_t n);
void case_attr_floats(kernel_case *c, const char *name, const double *floats, int64_t n);
/* The activation after a call, with an alpha and a beta of the test's; NULL: none. */
void case_attr_activation(kernel_case *c, const char *activation);
void case_set(value *v, int64_t i, double x);
double case_get(const value *v, int64_t i);
#define ROWS(table) ((int)(sizeof(table) / sizeof *(table)))
#define DIMS(...) \
  (sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) { __VA_ARGS__ }

/* "Conv(f32[1,2,3,3], f32[4,2,1,1]) on host at avx2, 2 threads, seed 0x12": which run of which case. Static storage. */
const char *case_where(const kernel_case *c);
/* Shapes, prepares and runs at that level ("reference", "base", ...); outputs of an earlier run are replaced. Checks
 * the guard bands. */
reed_status case_run(kernel_case *c, const char *level);
/* Runs the reference, then every level this machine has with 1 and 2 threads, in place and as parts where the operator
 * allows it, with room along an axis of each input in turn, and with packed weights where the compiler would pack them;
 * every element must be within relative |x| + absolute. Then the same on the other devices that have the call. Closes
 * the case. */
void case_parity(kernel_case *c, double relative, double absolute);
/* Runs the reference, then the best level with room along an axis of each input in turn. Closes the case. */
void case_rooms(kernel_case *c, double relative, double absolute);
/* The same as case_parity, and once more with channels_last: the outputs' channels and those of the inputs whose bit is
 * set in `images` moved last, at every level, the reference's too. */
void case_parity_orders(kernel_case *c, uint32_t images, double relative, double absolute);
/* Runs at the best level and compares output 0 with these elements. Closes the case. */
void case_expect(kernel_case *c, const double *expected, int64_t n);
/* Every level, and every other device that has the call, must fail with that status and say the text. Closes the case.
 */
void case_fails(kernel_case *c, reed_status status, const char *text);
void case_close(kernel_case *c);

/* Runs at the best level on that device, as the vm does: operands are copied, the kernel is launched, outputs are
 * copied back. *out_has false: the device's list of capabilities lacks the call, and the case did not run. */
reed_status case_run_on(kernel_case *c, const char *device, bool *out_has);
/* Names of the devices to run on besides the host: those of ops/targets.def whose module is there. NULL at the end. */
const char *const *case_devices(void);

/* True where only the devices of case_devices are under test: on the host the reference alone runs (device_case.c: with
 * REED_CASE_DEVICE in the environment). */
bool case_devices_only(void);

/* Instead of Check's own: the test goes on after a case that fails or crashes. */
void case_add_tests(TCase *cases, const TTest *test, int from, int to);
#undef tcase_add_test
#undef tcase_add_loop_test
#define tcase_add_test(cases, test) case_add_tests(cases, test, 0, 1)
#define tcase_add_loop_test(cases, test, from, to) case_add_tests(cases, test, from, to)
/* The same for tests that run on the host alone: left out where only devices are under test. */
#define tcase_add_host_test(cases, test) case_add_tests(cases, test, 0, !case_devices_only())
#define tcase_add_host_loop_test(cases, test, from, to) \
  case_add_tests(cases, test, from, case_devices_only() ? (from) : (to))
/* The opposite: left out where the host is under test, too. */
#define tcase_add_device_loop_test(cases, test, from, to) \
  case_add_tests(cases, test, from, case_devices_only() ? (to) : (from))

/* A tolerance for results in a dtype: the relative error of a few roundings, 0 for integers. */
double case_tolerance(reed_dtype dtype);

#endif
