/* A module file in memory whose header and table of contents have been checked: sections are arrays that lie inside of
 * it. */
#ifndef LOADER_IMAGE_H_
#define LOADER_IMAGE_H_

#include "bytecode/format.h"
#include "loader/loader.h"

typedef struct image_section {
  const void *items; /* aligned to 64 bytes */
  size_t n;
} image_section;

typedef struct image {
  const uint8_t *bytes; /* aligned to 64 */
  size_t n_bytes;
  uint16_t minor; /* version */
  image_section sections[FORMAT_SECTION_END];
} image;

/* The checksum (bytecode/format.h) by several threads, for large files. */
uint64_t image_checksum(const uint8_t *bytes, size_t n_bytes);

/* Rules V01 to V04. */
reed_status image_read(const uint8_t *bytes, size_t n_bytes, bool ignore_checksum, image *out_image,
                       reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* Rules V05 to V12 and V50's ranges: fills the module's lists from the image, whose text, code, signatures and data
 * stay where they are. On failure the module holds what had been made and is closed as usual. Operators are looked up
 * in the registry. */
reed_status sections_read(const image *im, const reed_registry *registry, module *m,
                          reed_diagnosis *diagnosis) REED_MUST_CHECK;

/* The operator of a site, with operand counts and attributes checked against its row (V09, V10). */
reed_status sites_check(const module *m, const reed_registry *registry, reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
