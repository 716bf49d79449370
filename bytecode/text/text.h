/* The text form of modules (.rasm). docs/module.md describes it; a disassembled module assembles to the same bytes. */
#ifndef BYTECODE_TEXT_TEXT_H_
#define BYTECODE_TEXT_TEXT_H_

#include "bytecode/module.h"

/* Makes a module's file bytes of text. The caller frees them with mem_free. The module is not verified. ERROR_FORMAT
 * names line and column. */
reed_status text_assemble(const char *text, void **out_bytes, size_t *out_n_bytes,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Writes a verified module as text, which ends with NUL and which the caller frees with mem_free. Polls `cancel`
 * (base/cancel.h). */
reed_status text_disassemble(const module *m, const int *cancel, char **out_text,
                             reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* The words for devices. */
#define TEXT_DEVICE_BYTES 24
/* "host", "device", "device2", ..; returns `out`. */
const char *text_device(int32_t device, char out[TEXT_DEVICE_BYTES]);
#define TEXT_READS \
  { "none", "shape", "value", "both" }

#endif
