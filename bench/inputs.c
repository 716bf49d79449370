/* Random tensors for the benchmarks of whole models (inputs.h). */
#include "bench/inputs.h"

#include <stdlib.h>

#include "bench/arguments.h"

/* xorshift64 (Marsaglia, "Xorshift RNGs", 2003) */
double random_part(void) {
  static uint64_t state = 88172645463325252ull;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) / 9007199254740992.0;
}

static bool is_float(reed_dtype dtype) {
  return dtype == REED_F32 || dtype == REED_F64 || dtype == REED_F16 || dtype == REED_BF16;
}

/* value NULL: random. */
static void fill(reed_tensor *t, const double *value) {
  reed_dtype dtype = reed_tensor_dtype(t);
  char *element = reed_tensor_data(t);
  for (int64_t n = reed_tensor_elements(t); n > 0; n--, element += reed_dtype_bytes(dtype))
    reed_dtype_write(dtype, element, value ? *value : is_float(dtype) ? random_part() : 1);
}

reed_status input_open(const reed_value_info *info, input_extent_fn *extent, void *context, reed_tensor **out_tensor) {
  int64_t dims[REED_MAX_RANK];
  for (int32_t i = 0; i < info->rank; i++)
    dims[i] = info->dims[i] >= 0 ? info->dims[i] : extent(context, info->symbols[i]);
  reed_status status = reed_tensor_open(info->dtype, info->rank, dims, out_tensor);
  if (status == REED_OK) fill(*out_tensor, NULL);
  return status;
}

reed_status input_of_text(reed_dtype dtype, const char *text, reed_tensor **out_tensor) {
  int64_t dims[REED_MAX_RANK];
  int32_t rank = 0;
  double value = 0;
  const char *at = text;
  for (; *at != '='; at++) {
    if (rank == REED_MAX_RANK || !argument_digits(at, &at, &dims[rank++])) return REED_ERROR_VALUE;
    if (*at != 'x') break;
  }
  if (*at == '=') {
    char *end;
    value = strtod(at + 1, &end);
    if (end == at + 1 || *end) return REED_ERROR_VALUE;
  } else if (*at) {
    return REED_ERROR_VALUE;
  }
  reed_status status = reed_tensor_open(dtype, rank, dims, out_tensor);
  if (status == REED_OK) fill(*out_tensor, *at == '=' ? &value : NULL);
  return status;
}
