/* Conversions between all pairs of dtypes, one set of loops a CPU level. */
#ifndef OPS_CPU_COMMON_CONVERT_PAIRS_H_
#define OPS_CPU_COMMON_CONVERT_PAIRS_H_

#include "ops/cpu/common/convert.h"

CPU_LOOP(convert_fn, convert_pair, (reed_dtype from, reed_dtype to));

#endif
