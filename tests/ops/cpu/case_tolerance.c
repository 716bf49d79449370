/* Tolerances of kernel cases (kernel_case.h): of a dtype, and of a device that computes products in TF32. */
#include "tests/ops/cpu/case_parts.h"

#include <math.h>

#include "ops/packed.h"

double case_tolerance(reed_dtype dtype) {
  switch ((int)dtype) {
    case REED_F32: return 1e-6;
    case REED_F64: return 1e-13;
    case REED_F16: return 2e-3;
    case REED_BF16: return 1.6e-2;
    default: return 0;
  }
}

static const reed_attr *attr_of(const kernel_case *c, const char *name) {
  for (int32_t i = 0; i < c->n_attrs; i++)
    if (strcmp(c->attrs[i].name, name) == 0) return &c->attrs[i];
  return NULL;
}

/* The number of products in an element of the result. */
static int64_t depth_of(const kernel_case *c) {
  const reed_desc *a = &c->inputs[0].desc, *w = &c->inputs[1].desc;
  if (c->op == OP_MatMul) return a->dims[a->rank - 1];
  if (c->op == OP_Gemm) {
    const reed_attr *turned = attr_of(c, "transA");
    return a->dims[turned && turned->i ? 0 : 1];
  }
  const reed_attr *packed = attr_of(c, PACKED_ATTR); /* the extents of weights that are packed */
  const int64_t *dims = packed ? packed->ints : w->dims, rank = packed ? packed->n : w->rank;
  const bool transposed = c->op == OP_ConvTranspose; /* weights of all groups' inputs; each output has a group's */
  const reed_attr *groups = attr_of(c, "group");
  int64_t n = transposed ? dims[0] / (groups ? groups->i : 1) : 1;
  for (int64_t d = transposed ? 2 : 1; d < rank; d++) n *= dims[d];
  return n;
}

/* The least power of 2 that no finite number exceeds in magnitude. */
static double size_of(const value *v) {
  double most = 0;
  for (int64_t i = 0; i < desc_elements(&v->desc); i++) {
    const double x = fabs(case_get(v, i));
    if (isfinite(x) && x > most) most = x;
  }
  return most > 0 ? exp2(ceil(log2(most))) : 0;
}

/* How far TF32 moves an element of a product, at most. Two causes add up, for operands of -1 to 1 and a depth of n
 * (others in proportion):
 * - Operands keep 10 bits after the point: where there are warpgroups the rows of A are cut off and the columns of B
 * are scaled and cut off (tf32_of_f32), else both are scaled. The deviations from 0 of the two errors are at most 2^-11
 * root(4/21) and 1 / root(3) of it; they are independent, so that a product's deviation is at most 2^-11 root(4/21)
 *   root(4/3) root(1/3), and a sum is off by less than root(n) 2^-10, which is 6.9 deviations.
 * - Tensor cores cut the sum after each step of 8 products instead of rounding it: half a unit in the last place, 2^-24
 *   of the sum, is lost in the mean, always toward zero. Three deviations of the sum are root(n); n / 8 steps lose less
 *   than root(n) n 2^-27.
 * Gemm's alpha and the activation multiply the error; no activation is steeper than HardSwish, 3/2. */
static double tf32_error(const kernel_case *c) {
  const double depth = (double)depth_of(c);
  const reed_attr *alpha = c->op == OP_Gemm ? attr_of(c, "alpha") : NULL;
  return sqrt(depth) * (0x1p-10 + depth * 0x1p-27) * size_of(&c->inputs[0]) * size_of(&c->inputs[1]) *
         (alpha ? fabs(alpha->f) : 1) * (attr_of(c, "activation") ? 1.5 : 1);
}

void case_tolerances_on(const kernel_case *c, const char *device, double *relative, double *absolute) {
  if (!strstr(device, "tf32=1") || c->inputs[0].desc.dtype != REED_F32) return;
  if (c->op == OP_Conv || c->op == OP_ConvTranspose || c->op == OP_MatMul || c->op == OP_Gemm)
    *absolute += tf32_error(c);
  if (c->op == OP_Attention) { /* a row's weights add up to 1 */
    if (*relative < 1e-2) *relative = 1e-2;
    if (*absolute < 1e-2) *absolute = 1e-2;
  }
}
