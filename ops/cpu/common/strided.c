/* Planned copies between strided views (strided.h): joining dims, choosing rows, tiles or records, copying. Operators
 * describe their copies in ops/cpu/move/. */
#include "ops/cpu/common/strided.h"

#include "ops/cpu/common/common.h"
#include "ops/cpu/common/parts_loops.h"

/* ---- planning ---- */

/* Makes dim `which` the innermost one. */
static void turn_in(strided_copy *p, int32_t which) {
  const int32_t inner = p->rank - 1;
  const int64_t extent = p->extents[which], from = p->from[which], to = p->to[which];
  for (int32_t d = which; d < inner; d++) {
    p->extents[d] = p->extents[d + 1];
    p->from[d] = p->from[d + 1];
    p->to[d] = p->to[d + 1];
  }
  p->extents[inner] = extent;
  p->from[inner] = from;
  p->to[inner] = to;
}

/* Makes the longest dim with short steps in the target the innermost one, because a loop over a few elements costs more
 * to start than to run. */
static void turn_longest_in(strided_copy *p) {
  int32_t inner = p->rank - 1, longest = inner;
  for (int32_t d = 0; d < inner; d++)
    if (p->to[d] <= 64 && p->extents[d] > p->extents[longest]) longest = d;
  turn_in(p, longest);
}

#define RECORDS_LEAST 16

/* True if dim `records` counts records of a few blocks and dim `parts` the blocks of one, side by side in memory with
 * the strides given. */
static bool are_records(const strided_copy *p, const int64_t *strides, int32_t records, int32_t parts) {
  const int64_t n = p->extents[parts];
  return n >= 2 && n <= PARTS_MOST && p->extents[records] >= RECORDS_LEAST && strides[parts] == p->block_bytes &&
         strides[records] == n * p->block_bytes;
}

/* Finds records in the source whose parts are dense in the target, or the other way round, and sets p->parts. */
static void find_records(strided_copy *p) {
  const int32_t inner = p->rank - 1;
  if (inner < 1 || p->block_bytes > 8 || (p->block_bytes & (p->block_bytes - 1)) || p->to[inner] != p->block_bytes)
    return;
  for (int32_t d = 0; d < inner && !p->parts; d++) {
    if (are_records(p, p->from, inner, d) && p->to[d] % p->block_bytes == 0) { /* d counts the parts */
      p->parts = p->extents[d];
      turn_in(p, d);
      turn_in(p, inner - 1);
    } else if (p->from[d] == p->block_bytes && are_records(p, p->to, d, inner) &&
               p->from[inner] % p->block_bytes == 0) {
      p->parts = p->extents[inner];
      p->joins = true;
      turn_in(p, d);
    }
  }
  if (p->parts) p->level = cpu_level_now();
}

void strided_plan(strided_copy *out_plan, int32_t rank, const int64_t *extents, const int64_t *from_strides,
                  int64_t from_offset, const int64_t *to_strides, int64_t to_offset, int64_t element_bytes,
                  cpu_team team) {
  strided_copy *p = out_plan;
  *p = (strided_copy){.tile = -1, .n = 1, .block_bytes = element_bytes};
  p->from_offset = from_offset * element_bytes;
  p->to_offset = to_offset * element_bytes;
  for (int32_t d = 0; d < rank; d++) p->n *= extents[d];
  if (p->n == 0) return;
  for (int32_t d = 0; d < rank; d++) {
    if (extents[d] == 1) continue;
    int64_t from = from_strides[d] * element_bytes, to = to_strides[d] * element_bytes;
    int32_t last = p->rank - 1;
    if (p->rank && p->from[last] == from * extents[d] && p->to[last] == to * extents[d]) {
      p->extents[last] *= extents[d];
    } else {
      last = p->rank++;
      p->extents[last] = extents[d];
    }
    p->from[last] = from;
    p->to[last] = to;
  }
  if (p->rank && p->from[p->rank - 1] == element_bytes && p->to[p->rank - 1] == element_bytes) {
    p->rank--;
    p->block_bytes *= p->extents[p->rank];
    p->n /= p->extents[p->rank];
  }
  find_records(p);
  /* A dim that steps by one block in the source, while the last dim steps by one block in the target, is a transpose:
   * it is copied in tiles. Short dims gain nothing from tiles. */
  int32_t inner = p->rank - 1;
  if (!p->parts && p->block_bytes <= 16 && inner > 0 && p->to[inner] == p->block_bytes && p->extents[inner] >= 4)
    for (int32_t d = 0; d < inner; d++)
      if (p->from[d] == p->block_bytes && p->extents[d] >= 4) p->tile = d;
  if (p->block_bytes & (p->block_bytes - 1)) p->tile = -1;
  if (!p->parts && p->tile < 0 && p->block_bytes <= 16 && inner > 0 && p->extents[inner] < 8) turn_longest_in(p);
  /* a short element takes as long as one of 4 bytes, unless the copy is of one piece or of records */
  const int64_t counted = p->rank > 0 && !p->parts && p->block_bytes < 4 ? 4 : p->block_bytes;
  p->team = cpu_team_for(team, 2 * p->n * counted);
}

void strided_plan_bytes(strided_copy *out_plan, int64_t bytes, cpu_team team) {
  strided_plan(out_plan, 1, &bytes, &(int64_t){1}, 0, &(int64_t){1}, 0, 1, team);
}

/* ---- copying ---- */

typedef struct copying {
  const strided_copy *plan;
  const char *from;
  char *to;
} copying;

static void copy_bytes_range(void *context, int64_t begin, int64_t end) {
  const copying *c = context;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* Blocks of a joined shape may be aligned to their element only: memcpy of a constant size is the unaligned load and
 * store. */
#define ROW_OF(N) \
  case N: \
    if (to_stride == N && from_stride == 0) \
      for (int64_t i = 0; i < n; i++) memcpy(to + i * N, from, N); \
    else if (to_stride == N) \
      for (int64_t i = 0; i < n; i++) memcpy(to + i * N, from + i * from_stride, N); \
    else \
      for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, N); \
    break

/* n blocks along one dim. */
static void copy_row(char *restrict to, int64_t to_stride, const char *restrict from, int64_t from_stride, int64_t n,
                     int64_t bytes) {
  switch (bytes) {
    ROW_OF(1);
    ROW_OF(2);
    ROW_OF(4);
    ROW_OF(8);
    ROW_OF(16);
    default:
      for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, (size_t)bytes);
  }
}

/* Sets *offsets to the coordinates of linear index `index` over the first `rank` dims, without dim `skip`. */
static void seek(const strided_copy *p, int32_t rank, int32_t skip, int64_t index, int64_t *coordinates,
                 const char **from, char **to) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (d == skip) continue;
    coordinates[d] = index % p->extents[d];
    index /= p->extents[d];
    *from += coordinates[d] * p->from[d];
    *to += coordinates[d] * p->to[d];
  }
}

/* Steps the coordinates of dims rank-1 .. 0, without `skip`, by one. */
static void step(const strided_copy *p, int32_t rank, int32_t skip, int64_t *coordinates, const char **from,
                 char **to) {
  for (int32_t d = rank - 1; d >= 0; d--) {
    if (d == skip) continue;
    *from += p->from[d];
    *to += p->to[d];
    if (++coordinates[d] < p->extents[d]) return;
    *from -= p->extents[d] * p->from[d];
    *to -= p->extents[d] * p->to[d];
    coordinates[d] = 0;
  }
}

static void copy_blocks_range(void *context, int64_t begin, int64_t end) {
  const copying *c = context;
  const strided_copy *p = c->plan;
  int32_t inner = p->rank - 1;
  int64_t coordinates[STRIDED_MAX_RANK], extent = p->extents[inner];
  const char *from = c->from;
  char *to = c->to;
  int64_t first = begin % extent;
  seek(p, inner, -1, begin / extent, coordinates, &from, &to);
  while (begin < end) {
    int64_t n = extent - first < end - begin ? extent - first : end - begin;
    copy_row(to + first * p->to[inner], p->to[inner], from + first * p->from[inner], p->from[inner], n, p->block_bytes);
    step(p, inner, -1, coordinates, &from, &to);
    begin += n;
    first = 0;
  }
}

/* Ranges count pieces of long blocks. */
static void copy_pieces_range(void *context, int64_t begin, int64_t end) {
  const copying *c = context;
  const strided_copy *p = c->plan;
  const int64_t pieces = cpu_pieces(p->block_bytes);
  for (int64_t i = begin, n; i < end; i += n) { /* the n pieces of one block that the range has */
    int64_t coordinates[STRIDED_MAX_RANK];
    const int64_t first = i % pieces, at = first * CPU_PIECE_BYTES;
    const char *from = c->from;
    char *to = c->to;
    n = pieces - first < end - i ? pieces - first : end - i;
    seek(p, p->rank, -1, i / pieces, coordinates, &from, &to);
    memcpy(to + at, from + at, (size_t)((first + n == pieces ? p->block_bytes : at + n * CPU_PIECE_BYTES) - at));
  }
}

/* Size of a tile, small enough that the cache lines of both sides stay in the first-level cache. The source runs along
 * j, the target along i. */
#define TILE 32
#define TILE_OF(N) \
  case N: \
    for (int64_t j = 0; j < nj; j++) \
      for (int64_t i = 0; i < ni; i++) memcpy(to + j * to_j + i * N, from + i * from_i + j * N, N); \
    break

typedef uint32_t u32x4 __attribute__((vector_size(16), aligned(4), may_alias));

/* 4x4 elements of 4 bytes: rows of the source come as vectors, are interleaved in pairs, then pairs of pairs. */
static inline void copy_4x4(char *to, int64_t to_j, const char *from, int64_t from_i) {
  u32x4 r0 = *(const u32x4 *)from, r1 = *(const u32x4 *)(from + from_i);
  u32x4 r2 = *(const u32x4 *)(from + 2 * from_i), r3 = *(const u32x4 *)(from + 3 * from_i);
  u32x4 low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  u32x4 low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5), high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  *(u32x4 *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  *(u32x4 *)(to + to_j) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  *(u32x4 *)(to + 2 * to_j) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  *(u32x4 *)(to + 3 * to_j) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

typedef uint16_t u16x8 __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint64_t u64x2 __attribute__((vector_size(16), aligned(2), may_alias));

/* Four rows of eight elements of 2 bytes, of which the pairs of rows 0 and 1, 2 and 3, 4 and 5, 6 and 7 are
 * interleaved. */
static inline void store_4x8(char *to, int64_t to_j, u32x4 r01, u32x4 r23, u32x4 r45, u32x4 r67) {
  u64x2 low03 = (u64x2)__builtin_shufflevector(r01, r23, 0, 4, 1, 5);
  u64x2 high03 = (u64x2)__builtin_shufflevector(r01, r23, 2, 6, 3, 7);
  u64x2 low47 = (u64x2)__builtin_shufflevector(r45, r67, 0, 4, 1, 5);
  u64x2 high47 = (u64x2)__builtin_shufflevector(r45, r67, 2, 6, 3, 7);
  *(u64x2 *)to = __builtin_shufflevector(low03, low47, 0, 2);
  *(u64x2 *)(to + to_j) = __builtin_shufflevector(low03, low47, 1, 3);
  *(u64x2 *)(to + 2 * to_j) = __builtin_shufflevector(high03, high47, 0, 2);
  *(u64x2 *)(to + 3 * to_j) = __builtin_shufflevector(high03, high47, 1, 3);
}

/* 8x8 elements of 2 bytes, as copy_4x4. */
static inline void copy_8x8(char *to, int64_t to_j, const char *from, int64_t from_i) {
  u32x4 low[4], high[4];
  for (int k = 0; k < 4; k++) {
    u16x8 even = *(const u16x8 *)(from + 2 * k * from_i), odd = *(const u16x8 *)(from + (2 * k + 1) * from_i);
    low[k] = (u32x4)__builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11);
    high[k] = (u32x4)__builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
  }
  store_4x8(to, to_j, low[0], low[1], low[2], low[3]);
  store_4x8(to + 4 * to_j, to_j, high[0], high[1], high[2], high[3]);
}

static void copy_tile_plain(char *restrict to, int64_t to_j, const char *restrict from, int64_t from_i, int64_t nj,
                            int64_t ni, int64_t bytes) {
  switch (bytes) {
    TILE_OF(1);
    TILE_OF(2);
    TILE_OF(4);
    TILE_OF(8);
    TILE_OF(16);
  }
}

/* Squares of 4x4 elements of 4 bytes, or 8x8 of 2 bytes, by vectors; the rest one by one. */
static void copy_tile(char *to, int64_t to_j, const char *from, int64_t from_i, int64_t nj, int64_t ni, int64_t bytes) {
  const int64_t side = bytes == 4   ? 4
                       : bytes == 2 ? 8
                                    : 0,
                whole_j = side ? nj & -side : 0, whole_i = side ? ni & -side : 0;
  for (int64_t j = 0; j < whole_j; j += side)
    for (int64_t i = 0; i < whole_i; i += side)
      (bytes == 4 ? copy_4x4 : copy_8x8)(to + j * to_j + i * bytes, to_j, from + i * from_i + j * bytes, from_i);
  if (whole_i < ni)
    copy_tile_plain(to + whole_i * bytes, to_j, from + whole_i * from_i, from_i, whole_j, ni - whole_i, bytes);
  if (whole_j < nj) copy_tile_plain(to + whole_j * to_j, to_j, from + whole_j * bytes, from_i, nj - whole_j, ni, bytes);
}

/* True if strips of tiles run along the inner dim: strips run across the shorter of the two dims. The lines that a
 * strip touches of the longer dim's memory then stay in the cache, and the shorter dim's memory is read in order. */
static bool strips_along_inner(const strided_copy *p) { return p->extents[p->rank - 1] > p->extents[p->tile]; }

static int64_t strip_count(const strided_copy *p) {
  int64_t extent = strips_along_inner(p) ? p->extents[p->rank - 1] : p->extents[p->tile];
  return (extent + TILE - 1) / TILE;
}

static void copy_strip(const strided_copy *p, char *to, const char *from, int64_t strip) {
  int32_t inner = p->rank - 1, tile = p->tile;
  bool along_inner = strips_along_inner(p);
  int64_t begin_i = along_inner ? strip * TILE : 0, end_i = along_inner ? begin_i + TILE : p->extents[inner];
  int64_t begin_j = along_inner ? 0 : strip * TILE, end_j = along_inner ? p->extents[tile] : begin_j + TILE;
  if (end_i > p->extents[inner]) end_i = p->extents[inner];
  if (end_j > p->extents[tile]) end_j = p->extents[tile];
  for (int64_t j = begin_j; j < end_j; j += TILE)
    for (int64_t i = begin_i; i < end_i; i += TILE)
      copy_tile(to + j * p->to[tile] + i * p->block_bytes, p->to[tile], from + j * p->block_bytes + i * p->from[inner],
                p->from[inner], end_j - j < TILE ? end_j - j : TILE, end_i - i < TILE ? end_i - i : TILE,
                p->block_bytes);
}

/* Ranges count pairs of outer coordinates and strips. */
static void copy_tiles_range(void *context, int64_t begin, int64_t end) {
  const copying *c = context;
  const strided_copy *p = c->plan;
  int64_t coordinates[STRIDED_MAX_RANK], strips = strip_count(p), strip = begin % strips;
  const char *from = c->from;
  char *to = c->to;
  seek(p, p->rank - 1, p->tile, begin / strips, coordinates, &from, &to);
  for (; begin < end; begin++) {
    copy_strip(p, to, from, strip);
    if (++strip == strips) {
      strip = 0;
      step(p, p->rank - 1, p->tile, coordinates, &from, &to);
    }
  }
}

#define RECORDS_AT_ONCE 2048

static int64_t record_pieces(const strided_copy *p) {
  return (p->extents[p->rank - 1] + RECORDS_AT_ONCE - 1) / RECORDS_AT_ONCE;
}

/* Ranges count pairs of outer coordinates and pieces of the records. */
static void copy_records_range(void *context, int64_t begin, int64_t end) {
  const copying *c = context;
  const strided_copy *p = c->plan;
  const int32_t records = p->rank - 1, parts = p->rank - 2;
  const int64_t pieces = record_pieces(p);
  int64_t coordinates[STRIDED_MAX_RANK], piece = begin % pieces;
  const char *from = c->from;
  char *to = c->to;
  seek(p, parts, -1, begin / pieces, coordinates, &from, &to);
  for (; begin < end; begin++) {
    const int64_t first = piece * RECORDS_AT_ONCE, left = p->extents[records] - first,
                  n = left < RECORDS_AT_ONCE ? left : RECORDS_AT_ONCE;
    const char *x = from + first * p->from[records];
    char *y = to + first * p->to[records];
    if (p->joins) CPU_PICK(p->level, join_parts)(p->block_bytes, p->parts, x, p->from[parts] / p->block_bytes, y, n);
    else CPU_PICK(p->level, split_parts)(p->block_bytes, p->parts, x, y, p->to[parts] / p->block_bytes, n);
    if (++piece == pieces) {
      piece = 0;
      step(p, parts, -1, coordinates, &from, &to);
    }
  }
}

/* True if the plan's elements have the same places on both sides. */
static bool same_places(const strided_copy *p) {
  bool same = true;
  for (int32_t d = 0; d < p->rank; d++) same = same && p->from[d] == p->to[d];
  return same;
}

reed_status strided_run(const strided_copy *plan, const void *from, void *to) {
  if (plan->n == 0) return REED_OK;
  copying c = {plan, (const char *)from + plan->from_offset, (char *)to + plan->to_offset};
  if (c.from == c.to && same_places(plan)) return REED_OK;
  if (plan->rank == 0) {
    return cpu_parallel(plan->team, plan->block_bytes, 4096, copy_bytes_range, &c);
  } else if (plan->parts) {
    const int64_t n_outer = plan->n / plan->extents[plan->rank - 1] / plan->parts;
    return cpu_parallel(plan->team, n_outer * record_pieces(plan), 1, copy_records_range, &c);
  } else if (plan->tile >= 0) {
    int64_t n_outer = plan->n / plan->extents[plan->rank - 1] / plan->extents[plan->tile];
    return cpu_parallel(plan->team, n_outer * strip_count(plan), 1, copy_tiles_range, &c);
  }
  const int64_t pieces = cpu_pieces(plan->block_bytes);
  return pieces > 1 ? cpu_parallel(plan->team, plan->n * pieces, 1, copy_pieces_range, &c)
                    : cpu_parallel(plan->team, plan->n, 1, copy_blocks_range, &c);
}

void strided_fill(void *to, const void *element, int64_t size, int64_t n) { copy_row(to, size, element, 0, n, size); }
