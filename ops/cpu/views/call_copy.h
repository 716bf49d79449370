/* A copy of a call's arrays, so that a view can change operands and attributes. The views are in half.h, channels.h and
 * unpack.h. */
#ifndef OPS_CPU_VIEWS_CALL_COPY_H_
#define OPS_CPU_VIEWS_CALL_COPY_H_

#include "ops/cpu/common/common.h"

#define CALL_COPY_INPUTS 24 /* no operator that is seen through a view has more (MultiLevelRoiAlign: 3 and 16 maps) */
#define CALL_COPY_OUTPUTS 8
#define CALL_COPY_ATTRS 24

/* `call` points into the copy, which must stay where it is while the call is used. */
typedef struct call_copy {
  reed_kernel_call call;
  reed_desc inputs[CALL_COPY_INPUTS], outputs[CALL_COPY_OUTPUTS];
  const void *host_values[CALL_COPY_INPUTS];
  bool constant[CALL_COPY_INPUTS];
  reed_attr items[CALL_COPY_ATTRS];
  reed_attrs attrs;
} call_copy;

/* ERROR_UNSUPPORTED for a call with more operands or attributes than a copy holds. */
reed_status call_copy_init(const reed_kernel_call *call, call_copy *out_copy) REED_MUST_CHECK;
/* As call_copy_init with attributes of another list, which the copy borrows: no attribute may be changed. */
reed_status call_copy_init_with(const reed_kernel_call *call, const reed_attrs *attrs,
                                call_copy *out_copy) REED_MUST_CHECK;
/* The copy's own attribute of that name; NULL: the call has none. */
reed_attr *call_copy_attr(call_copy *copy, const char *name);
void call_copy_drop_attr(call_copy *copy, const char *name);
/* Removes input i's values on the host. */
static inline void call_copy_hide_values(call_copy *copy, int32_t i) {
  copy->host_values[i] = NULL;
  copy->constant[i] = false;
}

/* The offset of the tensor after one of `bytes` bytes at `offset`, in a workspace. */
static inline int64_t call_copy_next(int64_t offset, int64_t bytes) { return (offset + bytes + 63) & ~(int64_t)63; }

#endif
