/* Loops of general products (general_loops.h) for the element type T, whose vector has VECTOR_LANES elements; NAME(x)
 * is the name of a function for T at this CPU level. Every sum is computed by the vectors' multiply and add, also in
 * columns that are left over, so that its bits follow from the depth alone. */

typedef T NAME(vector) __attribute__((vector_size(sizeof(T) * VECTOR_LANES), aligned(sizeof(T)), may_alias));
#define VECTOR NAME(vector)

INLINE VECTOR NAME(load)(const T *p) { return *(const VECTOR *)p; }
INLINE void NAME(store)(T *p, VECTOR x) { *(VECTOR *)p = x; }

/* The first n elements, at most a vector of them; the others are 0. */
INLINE VECTOR NAME(load_first)(const T *p, int64_t n) {
  if (n >= VECTOR_LANES) return NAME(load)(p);
  return LOAD_FIRST(p, n);
}

/* Stores the first n elements, at most a vector of them. */
INLINE void NAME(store_some)(T *p, VECTOR x, int64_t n) {
  if (!STORES_MASKED && n >= VECTOR_LANES) NAME(store)(p, x);
  else STORE_FIRST(p, x, n);
}

/* ---- tiles ---- */

/* Stores the sums of a tile, or adds them to Y. */
CPU_UNCHECKED static __attribute__((noinline)) void NAME(end_tile)(const general_tile *t, T *y, int64_t n, int rows,
                                                                   int vectors, const VECTOR *sums) {
  for (int i = 0; i < rows; i++, y += t->y_row)
    for (int j = 0; j < vectors; j++) {
      T *to = y + j * VECTOR_LANES;
      const int64_t left = n - j * VECTOR_LANES;
      VECTOR x = sums[i * vectors + j];
      if (!t->first) x += NAME(load_first)(to, left);
      if (t->bias && !t->first) x += NAME(load_first)((const T *)t->bias + j * VECTOR_LANES, left);
      NAME(store_some)(to, x, left);
    }
}

/* A tile of `rows` by `vectors` of columns (constants after inlining), of which Y has the first n columns. */
INLINE void NAME(tile)(const general_tile *t, const T *a, const T *b, T *y, int64_t n, int rows, int vectors) {
  const int rows_near = rows > ROWS ? ROWS_NEAR : rows;
  const int64_t a_row = t->a_row, a_column = t->a_column, b_row = t->b_row, y_row = t->y_row;
  VECTOR sum[SUMS];
  const char *next = (const char *)(a + rows * a_row);
  const int64_t next_step = t->lines_ahead * CACHE_LINE;
#pragma GCC unroll 32
  for (int i = 0; i < rows * vectors; i++) sum[i] = (VECTOR){0};
  for (int64_t k = t->depth; k > 0; k--, a += a_column, b += b_row, next += next_step) {
    if (rows > ROWS) {
      __builtin_prefetch(next);
      if (sizeof(T) * (size_t)rows > CACHE_LINE) __builtin_prefetch(next + CACHE_LINE);
    }
    VECTOR column[VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) column[j] = NAME(load)(b + j * VECTOR_LANES);
    const T *near = a;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      if (i > 0 && i % rows_near == 0) {
        near = a + i * a_row;
        __asm__("" : "+r"(near)); /* keeps gcc from holding a distance for each row, in memory */
      }
      const T x = near[i % rows_near * a_row];
#pragma GCC unroll 4
      for (int j = 0; j < vectors; j++) sum[i * vectors + j] += x * column[j];
    }
  }
  const int last = vectors - 1;
  if (t->first && t->bias) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++) {
      const T *from = (const T *)t->bias + j * VECTOR_LANES;
      const VECTOR bias = j < last ? NAME(load)(from) : NAME(load_first)(from, n - j * VECTOR_LANES);
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++) sum[i * vectors + j] += bias;
    }
  }
  if (!t->first || (!STORES_MASKED && n < vectors * VECTOR_LANES)) {
    VECTOR sums[SUMS]; /* in memory, while `sum` is in registers */
#pragma GCC unroll 32
    for (int i = 0; i < rows * vectors; i++) sums[i] = sum[i];
    NAME(end_tile)(t, y, n, rows, vectors, sums);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++, y += y_row) {
    __asm__("" : "+r"(y)); /* likewise */
#pragma GCC unroll 4
    for (int j = 0; j < vectors - STORES_MASKED; j++) NAME(store)(y + j * VECTOR_LANES, sum[i * vectors + j]);
    if (STORES_MASKED) NAME(store_some)(y + last * VECTOR_LANES, sum[i * vectors + last], n - last * VECTOR_LANES);
  }
}

#define TILE_CASE(count) \
  case count: NAME(tile)(t, a, b, y, n, count, vectors); break;

/* All rows, by so many vectors of columns. */
INLINE void NAME(tile_rows)(const general_tile *t, const T *b, T *y, int64_t n, int vectors) {
  const T *a = t->a;
  int64_t left = t->rows;
  for (; vectors <= VECTORS_TALL && left >= ROWS_TALL;
       left -= ROWS_TALL, a += ROWS_TALL * t->a_row, y += ROWS_TALL * t->y_row)
    NAME(tile)(t, a, b, y, n, ROWS_TALL, vectors);
  for (; left >= ROWS; left -= ROWS, a += ROWS * t->a_row, y += ROWS * t->y_row)
    NAME(tile)(t, a, b, y, n, ROWS, vectors);
  switch (left) {
    TILE_CASE(1)
    TILE_CASE(2)
    TILE_CASE(3)
#if ROWS > 4
    TILE_CASE(4)
    TILE_CASE(5)
#endif
#if ROWS > 6
    TILE_CASE(6)
#endif
  }
}
#undef TILE_CASE

CPU_UNCHECKED void NAME(general_multiply)(const general_tile *t) {
  const T *b = t->b;
  T *y = t->y;
  switch ((t->columns + VECTOR_LANES - 1) / VECTOR_LANES) {
    case 1: NAME(tile_rows)(t, b, y, t->columns, 1); break;
    case 2: NAME(tile_rows)(t, b, y, t->columns, 2); break;
#if PANEL_VECTORS > 2
    case 3: NAME(tile_rows)(t, b, y, t->columns, 3); break;
    case 4: NAME(tile_rows)(t, b, y, t->columns, 4); break;
#endif
  }
}

/* ---- few rows ---- */

/* Columns of Y from `y` on, at most a vector of them, (+)= `steps` steps of the depth. */
INLINE void NAME(add_to_vector)(const general_tile *t, T factors[][STEPS], const T *b, T *y, int64_t n, int rows,
                                int steps, bool first) {
  VECTOR sum[GENERAL_FEW_ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++) sum[r] = first ? (VECTOR){0} : NAME(load_first)(y + r * t->y_row, n);
#pragma GCC unroll 8
  for (int s = 0; s < steps; s++) {
    const VECTOR v = NAME(load_first)(b + s * t->b_row, n);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sum[r] += factors[r][s] * v;
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
    if (n == VECTOR_LANES) NAME(store)(y + r * t->y_row, sum[r]);
    else NAME(store_some)(y + r * t->y_row, sum[r], n);
}

/* Rows, steps and first are constants after inlining. first: y is not read. */
INLINE void NAME(add_steps)(const general_tile *tile, int64_t k, int rows, int steps, bool first) {
  const general_tile t = *tile; /* which no store changes */
  const T *a = (const T *)t.a + k * t.a_column, *b = (const T *)t.b + k * t.b_row;
  T *y = t.y, factors[GENERAL_FEW_ROWS][STEPS];
#pragma GCC unroll 4
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
    for (int s = 0; s < steps; s++) factors[r][s] = a[r * t.a_row + s * t.a_column];
  int64_t j = 0;
  for (; j + VECTOR_LANES <= t.columns; j += VECTOR_LANES)
    NAME(add_to_vector)(&t, factors, b + j, y + j, VECTOR_LANES, rows, steps, first);
  if (j < t.columns) NAME(add_to_vector)(&t, factors, b + j, y + j, t.columns - j, rows, steps, first);
}

INLINE void NAME(few_rows)(const general_tile *t, int rows) {
  int64_t k = 0;
  for (; k + STEPS <= t->depth; k += STEPS)
    if (k == 0 && t->first) NAME(add_steps)(t, k, rows, STEPS, true);
    else NAME(add_steps)(t, k, rows, STEPS, false);
  for (; k < t->depth; k++)
    if (k == 0 && t->first) NAME(add_steps)(t, k, rows, 1, true);
    else NAME(add_steps)(t, k, rows, 1, false);
}

CPU_UNCHECKED void NAME(general_few)(const general_tile *t) {
  switch (t->rows) {
    case 1: NAME(few_rows)(t, 1); break;
    case 2: NAME(few_rows)(t, 2); break;
    case 3: NAME(few_rows)(t, 3); break;
    case 4: NAME(few_rows)(t, 4); break;
  }
}

/* ---- the end ---- */

CPU_UNCHECKED void NAME(general_finish)(const general_end *end) {
  const general_end e = *end; /* which no store changes */
  const T scale = (T)e.scale, c_scale = (T)e.c_scale;
  for (int64_t i = 0; i < e.rows; i++) {
    T *y = (T *)e.y + i * e.y_row;
    const T *c = e.c ? (const T *)e.c + i * e.c_row : NULL;
    for (int64_t j = 0; j < e.columns; j += VECTOR_LANES) {
      const int64_t n = e.columns - j;
      VECTOR x = scale * NAME(load_first)(y + j, n);
      if (c && e.c_column) x += c_scale * NAME(load_first)(c + j, n);
      else if (c) x += c_scale * c[0];
      NAME(store_some)(y + j, x, n);
    }
  }
}

#undef VECTOR
