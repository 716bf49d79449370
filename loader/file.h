/* A module file in memory, with its header and table of contents checked. Its sections are arrays inside the file's
 * bytes; reading their items: sections.h. */
#ifndef LOADER_FILE_H_
#define LOADER_FILE_H_

#include "bytecode/format.h"
#include "loader/checksum.h"

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

/* Checks the header (rules V01 and V02). out_file borrows the bytes and has no sections yet. */
reed_status module_file_read_header(const uint8_t *bytes, size_t n_bytes, module_file *out_file,
                                    reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Checks the checksum (V03) while beside->run is called once (checksum.h). A wrong checksum takes the place of the
 * diagnosis that this call has left. Polls `cancel` (base/cancel.h). */
reed_status module_file_check(const module_file *file, const checksum_beside *beside, const int *cancel,
                              reed_diagnosis *diagnosis) REED_MUST_CHECK;
/* Checks the table of contents (V04) and sets the sections. */
reed_status module_file_read_sections(module_file *file, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
