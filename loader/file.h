/* A module file in memory, with its header and table of contents checked. Its sections are arrays inside the file's
 * bytes; reading their items: sections.h. */
#ifndef LOADER_FILE_H_
#define LOADER_FILE_H_

#include "bytecode/format.h"

typedef struct module_file_section {
  const void *items; /* aligned to 64 bytes */
  size_t n;
} module_file_section;

typedef struct module_file {
  const uint8_t *bytes; /* aligned to 64 */
  size_t n_bytes;
  uint16_t minor; /* version */
  module_file_section sections[FORMAT_SECTION_END];
} module_file;

/* Checks header, table of contents and checksum (rules V01 to V04). out_file borrows the bytes. Polls `cancel`
 * (base/cancel.h). */
reed_status module_file_read(const uint8_t *bytes, size_t n_bytes, bool ignore_checksum, const int *cancel,
                             module_file *out_file, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
