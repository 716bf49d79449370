/* mma.sync on one tile, its fragments filled element by element from the tables of the PTX ISA manual ("Matrix
 * Fragments for mma.m16n8k8", "mma.m16n8k16"). `x` has A [16, n] and B [n, 8], `y` C and D [16, 8]. fault 1: the lane's
 * a1 and a2 are swapped. 2: lane 5 has left. 3: half of the lanes are at another mma.sync. Also ldmatrix. */
#include "device/cuda/kernels/ptx.cuh"
#undef KERNEL
#include "tests/device/cuda/simt/kernels.h"

#define KERNEL(name, bounds) \
  static void run_##name(const test_args &a); \
  static void start_##name(const void *args) { run_##name(*static_cast<const test_args *>(args)); } \
  const simt_kernel kernel_##name = {#name, sizeof(test_args), alignof(test_args), bounds, start_##name}; \
  static void run_##name(const test_args &a)

typedef uint32_t from_float(float);
typedef void multiply(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2], const char *, int);

static uint32_t f16_bits(float f) { return f16_of_f32(f); }
static uint32_t bf16_bits(float f) { return bf16_of_f32(f); }

/* in_word: elements in a register. */
static void one_tile(const test_args &args, int in_word, from_float *bits, multiply *mma) {
  const int lane = static_cast<int>(threadIdx.x), group = lane >> 2, in_group = lane % 4, depth = 8 * in_word;
  const float *left = args.x, *right = args.x + 16 * depth;
  uint32_t a[4] = {}, b[2] = {};
  float c[4];
  for (int i = 0; i < 4 * in_word; i++) {
    /* m16n8k8: a0..a3; m16n8k16: a0..a7 */
    const bool below = in_word == 1 ? i == 1 || i == 3 : i == 2 || i == 3 || i == 6 || i == 7;
    const int row = below ? group + 8 : group,
              column = in_word == 1 ? (i < 2 ? in_group : in_group + 4) : in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a[i / in_word] |= bits(left[row * depth + column]) << (i % in_word * 16);
  }
  for (int i = 0; i < 2 * in_word; i++) {
    const int row = in_word == 1 ? (i < 1 ? in_group : in_group + 4) : in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0);
    b[i / in_word] |= bits(right[row * 8 + group]) << (i % in_word * 16);
  }
  for (int i = 0; i < 4; i++) c[i] = args.y[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  if (args.fault == 1) {
    const uint32_t kept = a[1];
    a[1] = a[2];
    a[2] = kept;
  }
  if (args.fault == 2 && lane == 5) return;
  if (args.fault == 3 && lane % 2) mma(c, a, b, "elsewhere", 1);
  else mma(c, a, b, "here", 2);
  for (int i = 0; i < 4; i++) args.y[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = c[i];
}

KERNEL(mma_tf32, 32) { one_tile(a, 1, tf32_of_f32, mma_tf32); }
KERNEL(mma_f16, 32) { one_tile(a, 2, f16_bits, mma_f16); }
KERNEL(mma_bf16, 32) { one_tile(a, 2, bf16_bits, mma_bf16); }

/* Four matrices whose elements are their numbers: `y` gets a lane's eight elements. fault 1: lane 3's row does not
 * begin at a multiple of 16 bytes. 2: lane 5 has left. */
typedef void load_matrices(uint32_t (&)[4], const uint32_t *, const char *, int);
static void four_matrices(const test_args &a, load_matrices *load) {
  SHARED_ARRAY(uint32_t, rows, [32][8]); /* a row has four words */
  const unsigned lane = threadIdx.x;
  for (unsigned w = 0; w < 4; w++) rows[lane][w] = (lane * 8 + 2 * w) | (lane * 8 + 2 * w + 1) << 16;
  __syncwarp();
  if (a.fault == 2 && lane == 5) return;
  uint32_t words[4];
  load(words, &rows[lane][a.fault == 1 && lane == 3], "here", 2);
  for (unsigned i = 0; i < 8; i++) a.y[lane * 8 + i] = static_cast<float>(words[i / 2] >> i % 2 * 16 & 0xffffu);
}
KERNEL(transposed, 32) { four_matrices(a, load_transposed); }
KERNEL(in_rows, 32) { four_matrices(a, load_rows); }
