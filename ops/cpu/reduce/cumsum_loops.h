/* The loops of CumSum, one set a CPU level. */
#ifndef OPS_CPU_REDUCE_CUMSUM_LOOPS_H_
#define OPS_CPU_REDUCE_CUMSUM_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>

#include "ops/cpu/common/cpu.h"

/* The longest line that is added together with its neighbours in memory. */
#define CUMSUM_SHORT 32

/* The most columns that are added together. */
#define CUMSUM_COLUMNS 512

/* Rows of which all parts of a piece but the last one have a multiple; so few are added with sums in registers. */
#define CUMSUM_GRAIN 32

/* A part of a piece of `count` columns (1..CUMSUM_COLUMNS) that lie side by side: n elements along the axis. The sums
 * within a piece are added from its begin on, whatever its parts are, and then to the sums before the piece. */
typedef struct cumsum_part {
  const void *in;
  void *out;    /* NULL: only the sums are wanted */
  void *before; /* [count] sums of the elements before the piece */
  void *own;    /* [count] sums of the piece's elements before the part; they become the sums with the part's */
  bool first;   /* the piece begins its lines: `before` holds nothing yet */
  bool begins,
      ends;         /* the part begins its piece: `own` holds nothing yet; ends it: `before` becomes the sums with it */
  bool exclusive;   /* an element's result leaves the element out */
  int64_t n, count; /* n: 1 or more */
  int64_t stride;   /* elements from one to the next along the axis; negative: from the lines' ends */
} cumsum_part;

typedef struct cumsum_loops {
  int64_t sum_bytes; /* of a sum: 8 at most */
  /* Adds a part. Integers wrap. The sums of a piece are the same bits with `out` and without. */
  void (*add)(const cumsum_part *part);
  /* Whole lines of n elements each, one after the other in memory, for n up to CUMSUM_SHORT. NULL: none. */
  void (*lines)(void *out, const void *in, int64_t lines, int64_t n, bool reverse, bool exclusive);
  /* sums: [n][lines], of n successive parts of some lines; each becomes the sum of the parts before it. */
  void (*chain)(void *sums, int64_t n, int64_t lines);
} cumsum_loops;

/* NULL: no numeric dtype. */
CPU_LOOP(const cumsum_loops *, cumsum_loops_of, (reed_dtype dtype));

#endif
