/* The checksum of a module's bytes, computed by several threads. Its definition: bytecode/format.h. */
#ifndef LOADER_CHECKSUM_H_
#define LOADER_CHECKSUM_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Other work of opening, which is done while the checksum is computed. */
typedef struct checksum_beside {
  void (*run)(void *context);
  void *context;
} checksum_beside;

/* The checksum of n_bytes, which are the file's bytes without the trailer. beside->run (beside NULL: nothing) is called
 * once, on any thread, and has returned when this function returns. False: the flag `cancel` (base/cancel.h) was raised
 * before all blocks were read; *out_sum is then not written. */
bool module_file_checksum(const uint8_t *bytes, size_t n_bytes, const checksum_beside *beside, const int *cancel,
                          uint64_t *out_sum);

#endif
