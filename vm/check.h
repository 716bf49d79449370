/* Checks of registers against declared types at function borders, and single elements read on the host. */
#ifndef VM_CHECK_H_
#define VM_CHECK_H_

#include "vm/run.h"

reed_status exec_assert_shape(vm_run *run, const ref *r, const module_type *type) REED_MUST_CHECK;
reed_status exec_assert_dim(vm_run *run, const ref *r, uint32_t axis, int64_t extent,
                            const module_type *type) REED_MUST_CHECK;
/* s.add to s.or. Overflow and division by zero fail. */
reed_status scalar_arithmetic(reed_diagnosis *diagnosis, insn_id id, int64_t a, int64_t b,
                              int64_t *out) REED_MUST_CHECK;
reed_status exec_item(vm_run *run, const ref *r, int64_t *out_value) REED_MUST_CHECK;

/* Checks an input's extents against the ranges declared for it. dims: of the given rank; extents below 0 are not known.
 * An input of another rank is left to the checks of the program's code. */
reed_status check_ranges(const module *m, size_t input, int32_t rank, const int64_t *dims,
                         reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
