/* Tiles of a product with packed weights (ops/packed.h), and the loop that computes them. */
#ifndef OPS_CPU_PRODUCT_PANEL_LOOPS_H_
#define OPS_CPU_PRODUCT_PANEL_LOOPS_H_

#include <stdbool.h>
#include <stdint.h>
#include "ops/cpu/common/cpu.h"

/* A strip of `count` tiles of `rows` rows each: neighbouring rows of X and of Y. */
typedef struct panel_tile {
  void *c;             /* count * rows x width of Y: f32, or bf16 if `halves` */
  const float *a;      /* X at the first row */
  const int64_t *runs; /* offsets from `a` of runs of run_length elements; each run is multiplied by the next weights */
  const void *panel;   /* [n_runs * run_length][width], rows panel_row apart: packed ones, or those of a matrix; f32, or
                          as   the loop below says */
  const float *bias;   /* [width]; or NULL */
  const float *row_bias; /* [count * rows]; or NULL */
  float *widened;        /* only of f16: the panel is written there as f32, columns padded alike; or NULL */
  const void *residual;  /* like c, may be c; or NULL */
  int64_t n_runs, run_length, a_row, panel_row, c_row, width, rows, count;
  int64_t columns;  /* of c and residual; at most width, whose further columns are computed and dropped */
  float scale;      /* of the sums */
  const char *next; /* to fetch into a near cache meanwhile: next_step bytes for each element of depth; any address */
  int64_t next_step;
  int64_t next_bytes; /* of shallow tiles: to fetch for each from `next` on; 0: none */
  bool far_y;         /* of shallow tiles: Y comes from memory, so that the next tile's part of it is fetched */
  bool first;         /* c = biases + residual + scaled sums; else c += scaled sums */
  bool relu;          /* afterwards c = max(c, 0); NaN stays */
  bool halves;        /* only of pairs, and `first` */
  bool shallow;       /* so few products that prefetches and the end of a large tile would take longer than they do */
} panel_tile;

/* Most rows of a tile of a product with so many columns, and the width of its vectors: width is a multiple. */
CPU_LOOP(int, panel_rows, (int64_t columns));
CPU_LOOP(int, panel_rows_shallow, (int64_t columns)); /* the same of shallow tiles */
CPU_LOOP(int, panel_lanes, (void));
CPU_LOOP(void, panel_multiply, (const panel_tile *tile));

/* The same on packed weights of f16, which are widened in registers. Level BASE cannot. */
void panel_f16_multiply_avx2(const panel_tile *tile);
void panel_f16_multiply_avx512(const panel_tile *tile);
#define PANEL_F16_PICK(level) ((level) >= CPU_AVX512 ? panel_f16_multiply_avx512 : panel_f16_multiply_avx2)

/* The same at level AVX512_BF16 on pairs: an element of X and of the panel is two neighbouring bf16 numbers, in the
 * place of a float, and gives the sum of two products in f32. */
void panel_pairs_multiply(const panel_tile *tile);
/* Rounds n values, an even number, to n / 2 such elements. */
void panel_pairs_convert(const float *from, int64_t n, float *to);
/* The same of n values of each of so many pixels, from_pixel apart; the elements lie side by side. */
void panel_pairs_convert_pixels(const float *from, int64_t from_pixel, int64_t pixels, int64_t n, float *to);

/* The same at level AMX, for tiles of up to panel_amx_rows rows (amx_loops.c). A thread that has multiplied calls
 * panel_amx_release, so that it does not keep the tile registers. */
int panel_amx_rows(void);
void panel_amx_multiply(const panel_tile *tile);
void panel_amx_release(void);

#endif
