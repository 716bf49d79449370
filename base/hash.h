/* The one hash of Reed: of keys in tables (table.h) and of the blocks of a module file's checksum (bytecode/format.h).
 */
#ifndef BASE_HASH_H_
#define BASE_HASH_H_

#include <stddef.h>
#include <stdint.h>

/* 64-bit xxHash (XXH64; Y. Collet, "xxHash fast digest algorithm", version 0.1.1, doc/xxhash_spec.md of
 * github.com/Cyan4973/xxHash). The hash of several pieces takes the hash of the pieces before as its seed. */
uint64_t hash_bytes(const void *bytes, size_t n, uint64_t seed);

/* The sum (modulo 2^64) of hash_bytes of all blocks of block_bytes each, the last block with the rest of n bytes; block
 * i has seed + i. Several blocks at a time take less time than one after the other. */
uint64_t hash_sum(const void *bytes, size_t n, size_t block_bytes, uint64_t seed);
/* The number of blocks that hash_sum takes at a time on this machine: fewer in one call are slower per block. */
int hash_blocks_at_once(void);

#endif
