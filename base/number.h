/* Floats as text, bit for bit and independent of the locale. */
#ifndef BASE_NUMBER_H_
#define BASE_NUMBER_H_

#include "reed/dtype.h"

/* A double as text that reads back as the same bits: "0.5", "1e+300", "inf", "nan:7ff8000000000000". The text always
 * tells a float from an integer. `digits`: significant ones that are enough for the dtype at hand, at most 17. */
#define NUMBER_BYTES 40
char *number_text(double value, int digits, char out[NUMBER_BYTES]);
/* Reads the number that begins at `text`; returns where it ends, NULL when there is none. */
const char *number_read(const char *text, double *out_value);
/* Significant digits that are enough for a float dtype; 0 for other dtypes. */
int number_digits(reed_dtype dtype);

#endif
