/* A module file in memory whose header and table of contents have been checked: sections are arrays that lie inside of
 * it. */
#ifndef LOADER_IMAGE_H_
#define LOADER_IMAGE_H_

#include "bytecode/format.h"

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

/* Rules V01 to V04. */
reed_status image_read(const uint8_t *bytes, size_t n_bytes, bool ignore_checksum, image *out_image,
                       reed_diagnosis *diagnosis) REED_MUST_CHECK;

#endif
