/* Args of the element-wise kernel, whose steps other kernels apply to their results, and the bounds of all args
 * (args.h). */
#ifndef DEVICE_CUDA_KERNELS_ARGS_MAP_H_
#define DEVICE_CUDA_KERNELS_ARGS_MAP_H_

#include <stdint.h>

#include "device/cuda/kernels/counted.h"
#include "device/cuda/kernels/fault.h"

enum {
  CUDA_DIMS = 8,       /* of a tensor */
  CUDA_AXES = 6,       /* of an image */
  CUDA_MERGE_WAYS = 8, /* sorted runs that a launch makes one run */
  CUDA_SORT_EACH = 8,  /* keys that a thread sorts (sort.cuh) */
  CUDA_SORT_GAP = 2,   /* keys' places that stay free behind each of those of all threads */
  MAP_LEAVES = 32,
  MAP_STEPS = 32,
  MAP_VALUES = MAP_LEAVES + MAP_STEPS,
  MAP_OPERANDS = 3
};

/* ---- map: a program of element-wise formulas (map.cu) ---- */

/* An operand of the program: an element of memory, or `constant` if data is NULL. */
typedef struct map_leaf {
  const void *data;
  int64_t strides[CUDA_DIMS];
  uint64_t constant; /* the value's bits */
} map_leaf;

/* values[leaves + j] = formula(values[operands...]). from: the dtype in which the formula computes, or that Cast reads;
 * to: the dtype that Cast writes. Halves are held as f32. */
typedef struct map_step {
  double alpha, beta;
  uint16_t formula; /* OP_... (ops/op.h) and those of ops/cpu/formulas/formula.h */
  uint8_t from, to, operands[MAP_OPERANDS];
} map_step;

typedef struct map_args {
  void *y;
  cuda_fault *fault;
  int64_t n; /* elements of the output */
  int64_t extents[CUDA_DIMS];
  uint32_t launch;
  int32_t rank, n_leaves, n_steps;
  int32_t divisor;                              /* the leaf that a division by 0 names; -1: none */
  uint8_t y_dtype, last_dtype;                  /* of the output in memory, of the last value */
  uint8_t dtypes[MAP_LEAVES], held[MAP_LEAVES]; /* of the leaves in memory, as values */
  uint8_t y_bytes, bytes[MAP_LEAVES];           /* of an element in memory */
  int32_t part; /* neighbours of the output that a thread computes: at most 16 bytes of any operand; they end with the
                   last dim, or with the tensor if it has one dim */
  counted_extent counted; /* of extents[counted_dim]; dim 0 may be joined with others */
  int32_t counted_dim;
  uint32_t scaled; /* bit k: leaf k's strides of the dims before counted_dim are for an extent of 1 */
  map_leaf leaves[MAP_LEAVES];
  map_step steps[MAP_STEPS];
} map_args;

/* ---- map_columns: several of the program's values, side by side (map.cu) ---- */

enum { MAP_RESULTS = 16 };

/* program.n: the rows; its rank and extents are theirs, and program.part is not used. Row i of y is the n_results
 * values that `results` numbers. */
typedef struct map_columns_args {
  map_args program;
  int32_t n_results;
  uint8_t results[MAP_RESULTS];
} map_columns_args;

/* ---- map_words: the same for values of at most 32 bits (map_words.cu) ---- */

enum { WORDS_LEAVES = 8, WORDS_STEPS = 8, WORDS_DIMS = 4, WORDS_PART = 4 /* neighbours of the output of a thread */ };

/* The place of output element i in a leaf. */
enum {
  WORDS_ONE,   /* 0: all elements read one */
  WORDS_DENSE, /* i */
  WORDS_PLACES /* by the strides, of which the last is 0 or 1 */
};

typedef struct words_leaf {
  const void *data;
  uint32_t strides[WORDS_DIMS]; /* of the last dims; 0 for those that the output lacks */
  uint32_t constant;            /* as in map_leaf */
  uint8_t walk, dtype, bytes;
} words_leaf;

typedef struct map_words_args {
  void *y;
  counted_extent counted;       /* of dim 0, which may be joined with others */
  uint32_t n;                   /* elements of the output; if they are counted, of one of the capacity */
  uint32_t extents[WORDS_DIMS]; /* of the last dims; 1 for those that the output lacks */
  int32_t n_leaves, n_steps;
  uint8_t y_dtype, y_bytes;
  uint8_t splits;   /* dims by which an index is split; 0: no leaf is walked by places */
  uint8_t crosses;  /* a thread's elements may cross the end of the last dim */
  uint8_t in_order; /* one step, whose operands are leaves 0, 1 and 2 */
  words_leaf leaves[WORDS_LEAVES];
  map_step steps[WORDS_STEPS];
} map_words_args;

#endif
