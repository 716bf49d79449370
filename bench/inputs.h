/* Random inputs for the benchmarks of whole models. The extents of dims that a model leaves open come from the
 * benchmark; the elements come from one generator with a fixed seed, so that a benchmark repeats itself. */
#ifndef BENCH_INPUTS_H_
#define BENCH_INPUTS_H_

#include "reed/reed.h"

/* The next random number, 0 or more and less than 1. One thread. */
double random_part(void);
/* The extent of a dim that the model leaves open; symbol NULL: the dim has no name. */
typedef int64_t input_extent_fn(void *context, const char *symbol);
/* Opens a tensor for an input: floats from 0 to 1, ones for every other dtype, because integers are mostly lengths and
 * indices. */
reed_status input_open(const reed_value_info *info, input_extent_fn *extent, void *context, reed_tensor **out_tensor);
/* Opens a tensor from the text "EXTENTxEXTENT=VALUE": "2x1x128", or "=16000" for a scalar. VALUE is the value of all
 * elements; without it input_open's values are used. ERROR_VALUE: the text is no input. */
reed_status input_of_text(reed_dtype dtype, const char *text, reed_tensor **out_tensor);

#endif
