/* Conv with 3x3 windows, stride 1 or 2, or dilated, of images or of the slices of volumes, one group, or with three
 * taps or more along one axis only, over packed weights with channels last, as a plan of winograd.h where that is
 * estimated faster than the direct convolution. */
#ifndef OPS_CPU_PRODUCT_CONV_WINOGRAD_H_
#define OPS_CPU_PRODUCT_CONV_WINOGRAD_H_

#include "ops/cpu/common/window.h"
#include "ops/cpu/formulas/activation.h"
#include "ops/packed.h"

/* Leaves *out_kernel alone for any other convolution. The call is seen with channels second and plain weights.
 * constant: the packed weights, if they outlive the kernel and may be kept transformed; else NULL. Weights of half
 * precision are taken for a form that stores its transformed weights, or for fixed point of pairs, if it is estimated
 * faster than the direct convolution over them. */
reed_status conv_winograd_prepare(const reed_kernel_call *call, const packed_order *order, const void *constant,
                                  const window *w, const activation *act, reed_kernel *out_kernel) REED_MUST_CHECK;
/* True if a Winograd form is estimated faster than the direct convolution over these weights, which may be pairs of
 * bf16. constant: as above. */
bool conv_winograd_is_faster(const reed_kernel_call *call, const packed_order *order, const void *constant,
                             const window *w, const activation *act);
/* The estimated time of the Winograd form that such a call has if its weights are no constants, in picoseconds on one
 * core; 0 if the direct convolution is estimated faster. */
double conv_winograd_time(const reed_kernel_call *call, const packed_order *order, const window *w,
                          const activation *act);

#endif
