/* The conversion of a CPU level between two dtypes. The loops: convert_pairs.c and, for f32 and the half dtypes,
 * convert_loops.c. */
#include "ops/cpu/common/convert.h"

#include "ops/cpu/common/convert_loops.h"
#include "ops/cpu/common/convert_pairs.h"

convert_fn convert_between(cpu_level level, reed_dtype from, reed_dtype to) {
  if (to == REED_F32 && (from == REED_F16 || from == REED_BF16)) return CPU_PICK(level, convert_half)(from, 1);
  if (from == REED_F32 && (to == REED_F16 || to == REED_BF16)) return CPU_PICK(level, convert_half)(to, 0);
  return CPU_PICK(level, convert_pair)(from, to);
}
