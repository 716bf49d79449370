/* Products of a warpgroup (wgmma, on cards of compute capability 9.0 alone), each function beside its emulation. Four
 * warps that are side by side multiply A, 64 x K, with B, K x N, and add to D in f32; K as in ptx.cuh, N is 64 or 128.
 * The unit reads shared memory itself: a line of 32 words, of a row of A or a column of B along K, or of K a row of 64
 * elements of A. Vector v of line l lies at vector v ^ l % 8, and the lines begin at a multiple of 1,024 bytes. Of the
 * low 13 bits of a word it knows nothing (tf32), so that an operand that it reads there is cut off.
 *
 * Lane 4 g + p of warp w holds of D
 *   d[4 j + i]  row 16 w + g + 8 (i / 2), column 8 j + 2 p + i % 2
 * and of an A in registers what it holds of rows 16 w to 16 w + 15 for mma.sync.
 *
 * A product runs on while the threads do; after `wait` it has been added, and only then its registers and its shared
 * memory may be used for anything else. The emulation computes as late as that. */
#ifndef DEVICE_CUDA_KERNELS_WGMMA_CUH_
#define DEVICE_CUDA_KERNELS_WGMMA_CUH_

#include "device/cuda/kernels/ptx.cuh"

enum { WGMMA_ROWS = 64, WGMMA_LINE = 32 /* words */, WGMMA_ALIGNMENT = 1024 };

#ifdef __CUDACC__
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WGMMA_ASM(...) asm volatile(__VA_ARGS__)
static __device__ inline constexpr bool has_warpgroups() { return true; }
#else
#define WGMMA_ASM(...) asm volatile("trap;")
static __device__ inline constexpr bool has_warpgroups() { return false; }
#endif

/* The next address of shared memory that is a multiple of WGMMA_ALIGNMENT. */
static __device__ inline uint32_t *wgmma_aligned(uint32_t *at) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
  return at + (~address + 1) % WGMMA_ALIGNMENT / 4;
}

/* The matrix descriptor (PTX ISA, "Matrix descriptor"): lines of 128 bytes, swizzled over groups of eight. */
static __device__ inline uint64_t wgmma_lines(const uint32_t *lines) {
  return (static_cast<uint32_t>(__cvta_generic_to_shared(lines)) >> 4 & 0x3fffu) | uint64_t{1024 >> 4} << 32 |
         uint64_t{1} << 62;
}

#define SUMS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_16(d, i) SUMS_4(d, i), SUMS_4(d, i + 4), SUMS_4(d, i + 8), SUMS_4(d, i + 12)
#define SUMS_32(d, i) SUMS_16(d, i), SUMS_16(d, i + 16)
#define SUMS_64(d, i) SUMS_32(d, i), SUMS_32(d, i + 32)
#define REGISTERS_32 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30," \
  "%31"
#define REGISTERS_64 \
  REGISTERS_32 \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
  "%60,%61,%62,%63"

struct warpgroup {
  /* All threads, after their last writes to the operands in shared memory and before a barrier. */
  static __device__ inline void publish() { WGMMA_ASM("fence.proxy.async.shared::cta;" ::: "memory"); }
  /* Before the products of which the first one's registers have been written. */
  __device__ inline void begin() { WGMMA_ASM("wgmma.fence.sync.aligned;" ::: "memory"); }
  /* After the products. */
  __device__ inline void commit() { WGMMA_ASM("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  __device__ inline void wait() { WGMMA_ASM("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

/* Step number `step` along K, of MMA_WORDS words; B: the lines `b`. tf32: A in registers. */
#define MULTIPLY_TF32(n, registers, sums, a0, a1, a2, a3, lines, one) \
  __device__ inline void multiply_tf32(float(&d)[n / 2], const uint32_t(&a)[4], const uint32_t *b, int step) { \
    WGMMA_ASM("{.reg .pred add;\n\tsetp.ne.b32 add, " one ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n \
              "k8.f32.tf32.tf32 {" registers "}, {" a0 "," a1 "," a2 "," a3 "}, " lines ", add, 1, 1;}" \
              : sums \
              : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_lines(b + step * MMA_WORDS)), "r"(1)); \
  }
  MULTIPLY_TF32(64, REGISTERS_32, SUMS_32(d, 0), "%32", "%33", "%34", "%35", "%36", "%37")
  MULTIPLY_TF32(128, REGISTERS_64, SUMS_64(d, 0), "%64", "%65", "%66", "%67", "%68", "%69")
#undef MULTIPLY_TF32

/* f16, bf16: A the lines `a`; IN_ROWS: rows of K. */
#define MULTIPLY_HALVES(name, n, registers, sums, lines_a, lines_b, one, in_rows) \
  template <bool IN_ROWS> \
  __device__ inline void multiply_##name(float(&d)[n / 2], const uint32_t *a, const uint32_t *b, int step) { \
    WGMMA_ASM("{.reg .pred add;\n\tsetp.ne.b32 add, " one ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n \
              "k16.f32." #name "." #name " {" registers "}, " lines_a ", " lines_b ", add, 1, 1, " in_rows ", 0;}" \
              : sums \
              : "l"(wgmma_lines(a + step * (IN_ROWS ? 2 * MMA_WORDS * WGMMA_LINE : MMA_WORDS))), \
                "l"(wgmma_lines(b + step * MMA_WORDS)), "r"(1), "n"(IN_ROWS)); \
  }
  MULTIPLY_HALVES(f16, 64, REGISTERS_32, SUMS_32(d, 0), "%32", "%33", "%34", "%35")
  MULTIPLY_HALVES(f16, 128, REGISTERS_64, SUMS_64(d, 0), "%64", "%65", "%66", "%67")
  MULTIPLY_HALVES(bf16, 64, REGISTERS_32, SUMS_32(d, 0), "%32", "%33", "%34", "%35")
  MULTIPLY_HALVES(bf16, 128, REGISTERS_64, SUMS_64(d, 0), "%64", "%65", "%66", "%67")
#undef MULTIPLY_HALVES
};
#undef SUMS_4
#undef SUMS_16
#undef SUMS_32
#undef SUMS_64
#undef REGISTERS_32
#undef REGISTERS_64
#undef WGMMA_ASM

#else

static inline bool has_warpgroups() { return simt_has_warpgroups(); }
static inline uint32_t *wgmma_aligned(uint32_t *at) {
  return at + (~reinterpret_cast<uintptr_t>(at) + 1) % WGMMA_ALIGNMENT / 4;
}

struct warpgroup {
  enum { MOST = 4 };
  struct {
    float *d;
    uint32_t in_registers[32][4];
    const uint32_t *a, *b;
    float (*part)(uint32_t, int);
    int n, in_word, step;
    bool in_rows;
  } pending[MOST];
  int products = 0;

  static void publish() {}
  void begin() {}
  void commit() {}
  template <int N> void multiply_tf32(float (&d)[N], const uint32_t (&a)[4], const uint32_t *b, int step, SIMT_SITE) {
    auto &made = pending[products++];
    simt_exchange(a, 4, made.in_registers[0], file, line);
    made.d = d, made.n = N, made.a = nullptr, made.b = b, made.step = step, made.in_word = 1, made.part = tf32_part;
  }
  template <bool IN_ROWS, int N> void multiply_f16(float (&d)[N], const uint32_t *a, const uint32_t *b, int step) {
    multiply_halves(d, N, a, b, step, IN_ROWS, f16_part);
  }
  template <bool IN_ROWS, int N> void multiply_bf16(float (&d)[N], const uint32_t *a, const uint32_t *b, int step) {
    multiply_halves(d, N, a, b, step, IN_ROWS, bf16_part);
  }
  void wait() {
    for (int i = 0; i < products; i++) add(i);
    products = 0;
  }

private:
  void multiply_halves(float *d, int n, const uint32_t *a, const uint32_t *b, int step, bool in_rows,
                       float (*part)(uint32_t, int)) {
    auto &made = pending[products++];
    made.d = d, made.n = n, made.a = a, made.b = b, made.step = step, made.in_word = 2, made.part = part;
    made.in_rows = in_rows;
  }
  /* Of a line the words of a step, as floats. */
  static void read_line(float *to, const uint32_t *lines, unsigned number, int step, int in_word,
                        float (*part)(uint32_t, int)) {
    for (unsigned v = 0; v < 2; v++) {
      const uint4 four = *reinterpret_cast<const uint4 *>(lines + number * WGMMA_LINE +
                                                          ((static_cast<unsigned>(step) * 2 + v) ^ number % 8) * 4);
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
      for (int w = 0; w < 4; w++)
        for (int e = 0; e < in_word; e++) *to++ = part(words[w], e);
    }
  }
  void add(int number) const {
    const auto &of = pending[number];
    const unsigned lane = threadIdx.x % 32, g = lane / 4, depth = static_cast<unsigned>(MMA_WORDS * of.in_word);
    float left[2][16], right[16];
    for (unsigned h = 0; h < 2; h++) {
      const unsigned row = threadIdx.x / 32 % 4 * 16 + g + h * 8;
      if (!of.a) {
        for (unsigned w = 0; w < MMA_WORDS; w++) left[h][w] = of.part(of.in_registers[g * 4 + w % 4][h + w / 4 * 2], 0);
      } else if (of.in_rows) {
        for (unsigned k = 0; k < depth; k++) {
          const unsigned at = static_cast<unsigned>(of.step) * depth + k;
          left[h][k] = of.part(of.a[at * WGMMA_LINE + (row / 8 ^ at % 8) * 4 + row % 8 / 2], static_cast<int>(row % 2));
        }
      } else {
        read_line(left[h], of.a, row, of.step, of.in_word, of.part);
      }
    }
    for (unsigned c = 0; c < static_cast<unsigned>(of.n) / 2; c++) { /* each column of the lane */
      read_line(right, of.b, c / 2 * 8 + lane % 4 * 2 + c % 2, of.step, of.in_word, of.part);
      for (unsigned h = 0; h < 2; h++) {
        float &sum = of.d[c / 2 * 4 + h * 2 + c % 2];
        for (unsigned k = 0; k < depth; k++) sum += left[h][k] * right[k];
      }
    }
  }
};

#endif
#endif
