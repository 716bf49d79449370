/* Floats as text, bit for bit and independent of the locale. */
#ifndef BASE_NUMBER_H_
#define BASE_NUMBER_H_

#include "reed/dtype.h"

/* Writes a double as text that reads back as the same bits: "0.5", "1e+300", "inf", "nan:7ff8000000000000". The text
 * never looks like an integer. digits: the significant digits that the dtype needs (number_digits), at most 17. */
#define NUMBER_BYTES 40
char *number_text(double value, int digits, char out[NUMBER_BYTES]);
/* Reads the number at the beginning of `text`; returns the end of the number, or NULL if there is no number. */
const char *number_read(const char *text, double *out_value);
/* The number of significant digits that tells all values of a float dtype apart; 0 for other dtypes. */
int number_digits(reed_dtype dtype);

#endif
