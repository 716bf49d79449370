/* The AMX instructions that amx_loops.c uses (Intel SDM, volume 2, AMX-TILE and AMX-BF16), in one of two forms: the
 * compiler's intrinsics, or, with AMX_EMULATED, plain C that does the same to a thread's registers and aborts where the
 * CPU would raise #UD or #GP. A test compiles the loops with the emulation, because few machines have AMX.
 *
 * A register holds up to 16 rows of up to 64 bytes. Register numbers must be constants. */
#ifndef OPS_CPU_PRODUCT_AMX_H_
#define OPS_CPU_PRODUCT_AMX_H_

#include <stddef.h>
#include <stdint.h>

enum { AMX_REGISTERS = 8, AMX_ROWS = 16, AMX_ROW_BYTES = 64 };

/* The operand of LDTILECFG. */
typedef struct amx_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_config;
_Static_assert(sizeof(amx_config) == 64, "LDTILECFG reads 64 bytes");

#ifndef AMX_EMULATED
#include <immintrin.h>

static inline void amx_configure(const amx_config *config) {
  __asm__ volatile(""
                   :
                   : "r"(config)
                   : "memory"); /* gcc's intrinsic reads only 8 of the bytes in the compiler's eyes */
  _tile_loadconfig(config);
}
#define amx_release() _tile_release()
#define amx_zero(to) _tile_zero(to)
#define amx_load(to, from, stride) _tile_loadd(to, from, (size_t)(stride))
#define amx_store(from, to, stride) _tile_stored(from, to, (size_t)(stride))
#define amx_multiply(sum, a, b) _tile_dpbf16ps(sum, a, b)

#else
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct amx_state {
  bool configured;
  amx_config config;
  _Alignas(AMX_ROW_BYTES) uint8_t rows[AMX_REGISTERS][AMX_ROWS][AMX_ROW_BYTES];
} amx_state;

static _Thread_local amx_state amx_emulated;

static inline void amx_require(bool holds) {
  if (!holds) abort();
}

static inline void amx_configure(const amx_config *config) {
  amx_require(config->palette == 1 && config->start_row == 0);
  for (int i = 0; i < 14; i++) amx_require(config->reserved[i] == 0);
  for (int i = 0; i < 16; i++) {
    const int rows = config->rows[i], bytes = config->row_bytes[i];
    amx_require(rows <= AMX_ROWS && bytes <= AMX_ROW_BYTES && (rows == 0) == (bytes == 0));
    amx_require(i < AMX_REGISTERS || rows == 0);
  }
  memset(&amx_emulated, 0, sizeof amx_emulated);
  amx_emulated.config = *config;
  amx_emulated.configured = true;
}

static inline void amx_release(void) { amx_emulated.configured = false; }

/* The extents of a register that an instruction names. */
static inline int amx_rows_of(int i) {
  amx_require(amx_emulated.configured && amx_emulated.config.rows[i] != 0);
  return amx_emulated.config.rows[i];
}
static inline int amx_bytes_of(int i) { return amx_emulated.config.row_bytes[i]; }

static inline void amx_zero(int to) {
  (void)amx_rows_of(to);
  memset(amx_emulated.rows[to], 0, sizeof amx_emulated.rows[to]);
}

static inline void amx_load(int to, const void *from, int64_t stride) {
  const int rows = amx_rows_of(to);
  amx_zero(to);
  for (int i = 0; i < rows; i++)
    memcpy(amx_emulated.rows[to][i], (const char *)from + i * stride, (size_t)amx_bytes_of(to));
}

static inline void amx_store(int from, void *to, int64_t stride) {
  for (int i = 0; i < amx_rows_of(from); i++)
    memcpy((char *)to + i * stride, amx_emulated.rows[from][i], (size_t)amx_bytes_of(from));
}

/* Denormal numbers count as 0. */
static inline float amx_flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

typedef struct amx_pairs {
  float even[AMX_ROWS][AMX_ROW_BYTES / 4], odd[AMX_ROWS][AMX_ROW_BYTES / 4];
} amx_pairs;

/* The pairs of bf16 that a register holds. */
static inline void amx_unpack(int i, amx_pairs *to) {
  for (int row = 0; row < AMX_ROWS; row++)
    for (int n = 0; n < AMX_ROW_BYTES / 4; n++) {
      uint32_t pair;
      memcpy(&pair, &amx_emulated.rows[i][row][4 * n], sizeof pair);
      const uint32_t bits[2] = {pair << 16, pair & 0xffff0000};
      float x[2];
      memcpy(x, bits, sizeof x);
      to->even[row][n] = amx_flushed(x[0]), to->odd[row][n] = amx_flushed(x[1]);
    }
}

/* TDPBF16PS: the products of even and those of odd elements have sums of their own, which are joined last. */
static inline void amx_multiply(int sum, int a, int b) {
  amx_require(sum != a && sum != b && a != b);
  amx_require(amx_rows_of(a) == amx_rows_of(sum) && amx_rows_of(b) * 4 == amx_bytes_of(a) &&
              amx_bytes_of(b) == amx_bytes_of(sum));
  const int columns = amx_bytes_of(sum) / 4;
  amx_pairs of_a, of_b;
  amx_unpack(a, &of_a), amx_unpack(b, &of_b);
  for (int m = 0; m < amx_rows_of(sum); m++) {
    float even[AMX_ROW_BYTES / 4] = {0}, odd[AMX_ROW_BYTES / 4] = {0}, *to = (float *)(void *)amx_emulated.rows[sum][m];
    for (int k = 0; k < amx_bytes_of(a) / 4; k++)
      for (int n = 0; n < AMX_ROW_BYTES / 4; n++) {
        even[n] = amx_flushed(fmaf(of_a.even[m][k], of_b.even[k][n], even[n]));
        odd[n] = amx_flushed(fmaf(of_a.odd[m][k], of_b.odd[k][n], odd[n]));
      }
    for (int n = 0; n < columns; n++) to[n] = amx_flushed(to[n] + amx_flushed(even[n] + odd[n]));
  }
}
#endif

#endif
