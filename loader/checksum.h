/* The checksum of a module's bytes, computed by several threads. Its definition: bytecode/format.h. */
#ifndef LOADER_CHECKSUM_H_
#define LOADER_CHECKSUM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The checksum of n_bytes, which are the file's bytes without the trailer. False: the flag `cancel` (base/cancel.h) was
 * raised before all blocks were read; *out_sum is then not written. */
bool module_file_checksum(const uint8_t *bytes, size_t n_bytes, const int *cancel, uint64_t *out_sum);

#endif
