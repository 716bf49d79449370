/* The checksum of a module's bytes. */
#ifndef LOADER_CHECKSUM_H_
#define LOADER_CHECKSUM_H_

#include <stddef.h>
#include <stdint.h>

/* The checksum (bytecode/format.h) by several threads, for large files. */
uint64_t module_file_checksum(const uint8_t *bytes, size_t n_bytes);

#endif
