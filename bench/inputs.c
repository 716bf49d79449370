/* Random tensors for the benchmarks of whole models (inputs.h). */
#include "bench/inputs.h"

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

reed_status input_open(const reed_value_info *info, input_extent_fn *extent, void *context, reed_tensor **out_tensor) {
  int64_t dims[REED_MAX_RANK];
  for (int32_t i = 0; i < info->rank; i++)
    dims[i] = info->dims[i] >= 0 ? info->dims[i] : extent(context, info->symbols[i]);
  reed_status status = reed_tensor_open(info->dtype, info->rank, dims, out_tensor);
  if (status != REED_OK) return status;
  char *element = reed_tensor_data(*out_tensor);
  for (int64_t n = reed_tensor_elements(*out_tensor); n > 0; n--, element += reed_dtype_bytes(info->dtype))
    reed_dtype_write(info->dtype, element, is_float(info->dtype) ? random_part() : 1);
  return REED_OK;
}
