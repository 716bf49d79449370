/* The checksum of a module's bytes, computed by several threads. Its definition: bytecode/format.h. */
#ifndef LOADER_CHECKSUM_H_
#define LOADER_CHECKSUM_H_

#include <stddef.h>
#include <stdint.h>

/* The checksum of n_bytes, which are the file's bytes without the trailer. */
uint64_t module_file_checksum(const uint8_t *bytes, size_t n_bytes);

#endif
