/* Conv and ConvTranspose over weights packed in panels, which need no preparation per shape. The call is seen with
 * channels second (ops/cpu/views/channels.h) and plain weights (ops/cpu/views/unpack.h). In memory Y has channels last;
 * X too, unless x_last is false. */
#ifndef OPS_CPU_PRODUCT_CONV_PANELS_H_
#define OPS_CPU_PRODUCT_CONV_PANELS_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/packed.h"

/* Which operands of a Conv are of half precision in memory. */
packed_halves conv_halves(const reed_kernel_call *call);
static inline bool conv_has_halves(const reed_kernel_call *call) {
  const packed_halves halves = conv_halves(call);
  return halves.x || halves.residual || halves.y;
}
/* "direct, X bf16": the form of a kernel, and the images of half precision that it reads and writes. */
void conv_variant(const char *form, const reed_kernel_call *call, char *out, size_t capacity);
/* x_last: X has channels last in memory. The parts of `order` are the groups. */
reed_status conv_panels_prepare(const reed_kernel_call *call, const packed_order *order, const window *w, bool x_last,
                                const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;
reed_status conv_panels_prepare_transposed(const reed_kernel_call *call, const packed_order *order, const window *w,
                                           const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;

#endif
