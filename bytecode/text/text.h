/* The text form of modules (.rasm). docs/module.md describes it; a disassembled module assembles to the same bytes. */
#ifndef BYTECODE_TEXT_TEXT_H_
#define BYTECODE_TEXT_TEXT_H_

#include "bytecode/module.h"

/* Text -> module bytes (mem_free'd by the caller), not verified. ERROR_FORMAT names line and column. */
reed_status text_assemble(const char *text, void **out_bytes, size_t *out_n_bytes,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* A verified module as text, NUL terminated (mem_free'd by the caller). */
reed_status text_disassemble(const module *m, char **out_text, reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* How devices and flags are written. */
#define TEXT_DEVICE_BYTES 24
/* "host", "device", "device2", ..; returns `out`. */
const char *text_device(int32_t device, char out[TEXT_DEVICE_BYTES]);
#define TEXT_READS \
  { "none", "shape", "value", "both" }

/* A double that reads back as the same bits: "0.5", "1e+300", "inf", "nan:7ff8000000000000". Always tells a float from
 * an integer. Independent of the locale. `digits`: significant ones that are enough for the dtype at hand, at most 17.
 */
#define TEXT_NUMBER_BYTES 40
char *text_from_f64(double value, int digits, char out[TEXT_NUMBER_BYTES]);
/* Reads one that begins at `text`; returns where it ends, NULL when there is none. */
const char *text_to_f64(const char *text, double *out_value);
/* Significant digits that are enough for a float dtype; 0 for other dtypes. */
int text_digits(reed_dtype dtype);
/* True for [A-Za-z_][A-Za-z0-9_.]* that is no word the assembler reads otherwise: may stand without quotes. */
bool text_is_name(const char *text);

#endif
