/* The sizes of small objects in a pool (pool.c), which come in classes, and of the slabs that are carved into them. */
#ifndef ALLOCATOR_SIZE_CLASS_H_
#define ALLOCATOR_SIZE_CLASS_H_

#include <stdint.h>

enum {
  CLASS_UNIT = 64,
  SMALL_MAX = 64 * 1024, /* larger requests are large blocks */
  /* 64, 128 .. 512 by 64, then four to each doubling up to SMALL_MAX: above 512 bytes at most a fifth of an object is
   * unused */
  N_CLASSES = 36,
  LARGE_UNIT = 4096,      /* large blocks are multiples of it */
  SLAB_BYTES = 64 * 1024, /* size of a slab; a slab of larger objects than a sixteenth of it holds four objects */
};

static inline int log2_floor(int64_t bytes) { return 63 - __builtin_clzll((unsigned long long)bytes); }

/* The bytes of an object of the class. */
static inline int64_t class_bytes(int class) {
  if (class < 8) return (class + 1) * (int64_t)CLASS_UNIT;
  int doubling = (class - 8) / 4, quarter = (class - 8) % 4;
  return (int64_t)(5 + quarter) << (7 + doubling); /* 640, 768, 896, 1024, 1280 .. */
}

/* The least class that holds 1 <= bytes <= SMALL_MAX. */
static inline int class_of(int64_t bytes) {
  if (bytes <= 512) return (int)((bytes - 1) / CLASS_UNIT);
  int doubling = log2_floor(bytes - 1) - 9;
  return 8 + 4 * doubling + (int)((bytes - 1) >> (7 + doubling)) - 4;
}

/* The bytes of a slab of such objects. */
static inline int64_t slab_bytes(int class) {
  int64_t object = class_bytes(class);
  return object * 16 <= SLAB_BYTES ? SLAB_BYTES : (object * 4 + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
}

#endif
