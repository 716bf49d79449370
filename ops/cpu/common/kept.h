/* Floats that are made of a constant operand once a program and shared by its sessions, such as packed weights. */
#ifndef OPS_CPU_COMMON_KEPT_H_
#define OPS_CPU_COMMON_KEPT_H_

#include "ops/cpu/common/common.h"

/* Writes the floats; called on one thread. ERROR_MEMORY. */
typedef reed_status (*cpu_keep_fn)(const void *context, float *to);

/* Gives the n floats that the program's cache has under `key` (kernel_cache_get), or that fn makes, and gives up the
 * elements of the constant, operand `input`. call->env has a cache. The kernel releases *out_kept there. ERROR_MEMORY.
 */
reed_status cpu_keep(const reed_kernel_call *call, int32_t input, const void *key, size_t key_bytes, int64_t n,
                     cpu_keep_fn fn, const void *context, float **out_kept) REED_MUST_CHECK;

#endif
