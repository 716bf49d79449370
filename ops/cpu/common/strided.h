/* A planned copy between two strided views of memory. Transposes, slices, repeats, splits, joins and pads are all
 * descriptions of such a copy. A plan is plain data (no memory of its own) and may be copied. */
#ifndef OPS_CPU_COMMON_STRIDED_H_
#define OPS_CPU_COMMON_STRIDED_H_

#include "ops/cpu/common/common.h"

#define STRIDED_MAX_RANK 16 /* Tile and DepthToSpace split each dim in two or three */

typedef struct strided_copy {
  int32_t rank; /* dims left after joining; 0: one block */
  cpu_team team;
  int32_t tile;  /* dim that is contiguous in the source (the last is in the target): copied in tiles; -1: none */
  int64_t parts; /* records of so many blocks are taken apart, or put together; 0: none are. The last dims are
                    then [parts, records] */
  bool joins;
  cpu_level level;
  int64_t n;                      /* blocks: product of extents */
  int64_t block_bytes;            /* contiguous on both sides */
  int64_t from_offset, to_offset; /* bytes */
  int64_t extents[STRIDED_MAX_RANK];
  int64_t from[STRIDED_MAX_RANK],
      to[STRIDED_MAX_RANK]; /* strides in bytes; from may be 0 (repeat) or negative (reversed) */
} strided_copy;

/* Describes to[to_offset + sum(i_d to_strides[d])] = from[from_offset + sum(i_d from_strides[d])] for all coordinates i
 * below extents. Strides and offsets in elements of element_bytes (1, 2, 4 or 8). Targets of different coordinates must
 * not overlap. Drops and joins dims if the copy stays the same. */
void strided_plan(strided_copy *out_plan, int32_t rank, const int64_t *extents, const int64_t *from_strides,
                  int64_t from_offset, const int64_t *to_strides, int64_t to_offset, int64_t element_bytes,
                  cpu_team team);
/* As strided_plan, for a copy of n contiguous bytes. */
void strided_plan_bytes(strided_copy *out_plan, int64_t bytes, cpu_team team);
/* Runs the copy. Source and target must not overlap; equal addresses with equal strides are allowed and copy
 * nothing. Pointers may be NULL if there is nothing to copy. */
reed_status strided_run(const strided_copy *plan, const void *from, void *to) REED_MUST_CHECK;

/* Writes n copies of the element at `element` (size 1, 2, 4 or 8 bytes) to `to`. */
void strided_fill(void *to, const void *element, int64_t size, int64_t n);

#endif
