/* Programs of element-wise formulas as map.cu has them, where every value has at most 32 bits: floats, halves held as
 * f32, truth values. A thread computes WORDS_PART neighbours of the output side by side: it splits one index, in 32
 * bits, reads a step once for all of them, and loads and stores them at once where their address allows it. */
#include "device/cuda/kernels/formulas.cuh"

struct alignas(16) words {
  uint32_t of[WORDS_PART];
};

#define COST(op, cost) \
  case OP_##op: return cost;
/* The cost of an element, as the host has it. */
static __device__ constexpr int formula_cost(int formula) {
  switch (formula) {
#include "ops/cpu/formulas/formulas.def"
    default: return 1;
  }
}

enum { WORDS_COST = 14 /* dearer formulas are computed one element after the other */ };

#define IF_BOOL(...)
#define IF_FLOAT(...) __VA_ARGS__
#define IF_SIGNED(...)
#define IF_UNSIGNED(...)
#define IF_INT(...)
#define T float
#define TAG f32
#define FN(f) f##_f32
#include "device/cuda/kernels/formula_words.cuh"
#undef IF_BOOL
#undef IF_FLOAT
#define IF_BOOL(...) __VA_ARGS__
#define IF_FLOAT(...)
#define T uint8_t
#define TAG truth
#define FN(f) f##_f64
#include "device/cuda/kernels/formula_words.cuh"

/* Not inlined, because a step rarely ends in it. */
static __device__ __noinline__ uint32_t word_of_formula(const map_step &step, uint32_t a, uint32_t b, uint32_t c) {
  int fault = 0;
  return static_cast<uint32_t>(step.from == REED_BOOL ? formula_truth(step, a, b, c, &fault)
                                                      : formula_f32(step, a, b, c, &fault));
}

static __device__ inline uint32_t load_word(int bytes, const void *data, uint32_t place) {
  switch (bytes) {
    case 1: return static_cast<const uint8_t *>(data)[place];
    case 2: return static_cast<const uint16_t *>(data)[place];
    default: return static_cast<const uint32_t *>(data)[place];
  }
}

/* The address of n elements, if they are loaded or stored at once; else NULL. */
static __device__ inline const char *vector_of(int bytes, uint32_t n, const void *data, uint32_t first) {
  const char *const from =
      static_cast<const char *>(data) + static_cast<uint64_t>(first) * static_cast<uint32_t>(bytes);
  return n == WORDS_PART && (reinterpret_cast<uintptr_t>(from) & static_cast<uintptr_t>(WORDS_PART * bytes - 1)) == 0
             ? from
             : nullptr;
}

static __device__ inline void load_words(words *to, int bytes, uint32_t n, const void *data, uint32_t first) {
  const char *const from = vector_of(bytes, n, data, first);
  if (!from) {
    UNROLL for (uint32_t e = 0; e < WORDS_PART; e++) to->of[e] = e < n ? load_word(bytes, data, first + e) : 0;
  } else if (bytes == 4) {
    const uint4 four = *reinterpret_cast<const uint4 *>(from);
    to->of[0] = four.x, to->of[1] = four.y, to->of[2] = four.z, to->of[3] = four.w;
  } else if (bytes == 2) {
    const uint2 two = *reinterpret_cast<const uint2 *>(from);
    to->of[0] = two.x & 0xffff, to->of[1] = two.x >> 16, to->of[2] = two.y & 0xffff, to->of[3] = two.y >> 16;
  } else {
    const uint32_t one = *reinterpret_cast<const uint32_t *>(from);
    UNROLL for (int e = 0; e < WORDS_PART; e++) to->of[e] = one >> 8 * e & 0xff;
  }
}

static __device__ inline void store_words(const words &from, int bytes, uint32_t n, void *data, uint32_t first) {
  char *const to = const_cast<char *>(vector_of(bytes, n, data, first));
  const uint32_t *const of = from.of;
  if (to && bytes == 4) {
    *reinterpret_cast<uint4 *>(to) = make_uint4(of[0], of[1], of[2], of[3]);
  } else if (to && bytes == 2) {
    *reinterpret_cast<uint2 *>(to) = make_uint2(of[0] | of[1] << 16, of[2] | of[3] << 16);
  } else if (to) {
    *reinterpret_cast<uint32_t *>(to) = of[0] | of[1] << 8 | of[2] << 16 | of[3] << 24;
  } else {
    UNROLL for (uint32_t e = 0; e < WORDS_PART; e++) {
      if (e >= n) break;
      switch (bytes) {
        case 1: static_cast<uint8_t *>(data)[first + e] = static_cast<uint8_t>(of[e]); break;
        case 2: static_cast<uint16_t *>(data)[first + e] = static_cast<uint16_t>(of[e]); break;
        default: static_cast<uint32_t *>(data)[first + e] = of[e]; break;
      }
    }
  }
}

/* Elements that may lie in two or more rows of the output's last dim. */
static __device__ inline void load_crossing(words *to, const map_words_args &a, const words_leaf &leaf, uint32_t n,
                                            const uint32_t (&first)[WORDS_DIMS], uint32_t place) {
  uint32_t at[WORDS_DIMS];
  UNROLL for (int d = 0; d < WORDS_DIMS; d++) at[d] = first[d];
  UNROLL for (uint32_t e = 0; e < WORDS_PART; e++) {
    to->of[e] = e < n ? load_word(leaf.bytes, leaf.data, place) : 0;
    place += leaf.strides[WORDS_DIMS - 1];
    UNROLL for (int d = WORDS_DIMS - 1; d > 0; d--) {
      if (++at[d] < a.extents[d]) break;
      at[d] = 0;
      place += leaf.strides[d - 1] - leaf.strides[d] * a.extents[d];
    }
  }
}

/* The leaf's values for n elements of the output from i on, which is at `at`. */
static __device__ inline void load_leaf(words *to, const map_words_args &a, const words_leaf &leaf, uint32_t i,
                                        uint32_t n, const uint32_t (&at)[WORDS_DIMS]) {
  uint32_t place = 0;
  bool one = leaf.walk == WORDS_ONE;
  if (leaf.walk == WORDS_PLACES) {
    UNROLL for (int d = 0; d < WORDS_DIMS; d++) place += at[d] * leaf.strides[d];
    one = !a.crosses && leaf.strides[WORDS_DIMS - 1] == 0;
  }
  if (one) {
    const uint32_t word = leaf.data ? load_word(leaf.bytes, leaf.data, place) : leaf.constant;
    UNROLL for (int e = 0; e < WORDS_PART; e++) to->of[e] = word;
  } else if (leaf.walk == WORDS_PLACES && a.crosses) {
    load_crossing(to, a, leaf, n, at, place);
  } else {
    load_words(to, leaf.bytes, n, leaf.data, leaf.walk == WORDS_DENSE ? i : place);
  }
  if (leaf.dtype == REED_F16 || leaf.dtype == REED_BF16)
    UNROLL for (int e = 0; e < WORDS_PART; e++) to->of[e] = static_cast<uint32_t>(value_held(leaf.dtype, to->of[e]));
}

static __device__ inline void apply_step(words *made, const map_step &step, const words &first, const words &second,
                                         const words &third) {
  if (step.formula == OP_Where) {
    UNROLL for (int e = 0; e < WORDS_PART; e++) made->of[e] = first.of[e] & 0xff ? second.of[e] : third.of[e];
  } else if (step.formula == OP_Cast) {
    UNROLL for (int e = 0; e < WORDS_PART; e++) made->of[e] =
        static_cast<uint32_t>(value_convert(step.from, step.to, first.of[e]));
  } else if (!(step.from == REED_BOOL ? words_truth(step, first, second, third, made)
                                      : words_f32(step, first, second, third, made))) {
    UNROLL for (int e = 0; e < WORDS_PART; e++) made->of[e] =
        word_of_formula(step, first.of[e], second.of[e], third.of[e]);
  }
}

KERNEL(map_words) {
  const uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) * WORDS_PART,
                 n = a.counted.count ? a.n * static_cast<uint32_t>(true_count(a.counted)) : a.n;
  if (i >= n) return;
  const uint32_t part = WORDS_PART, elements = n - i < part ? n - i : part;
  uint32_t at[WORDS_DIMS] = {0, 0, 0, i};
  UNROLL for (int d = WORDS_DIMS - 1; d > 0; d--) {
    if (WORDS_DIMS - d > a.splits) break;
    at[d - 1] = at[d] / a.extents[d];
    at[d] -= at[d - 1] * a.extents[d];
  }
  words values[WORDS_LEAVES + WORDS_STEPS], operands[4] = {}, made;
  for (int32_t k = 0; k < a.n_leaves; k += 4) {
    UNROLL for (int32_t l = 0; l < 4; l++) if (k + l < a.n_leaves)
        load_leaf(&operands[l], a, a.leaves[k + l], i, elements, at);
    if (a.in_order) break;
    UNROLL for (int32_t l = 0; l < 4; l++) if (k + l < a.n_leaves) values[k + l] = operands[l];
  }
  for (int32_t j = 0;; j++) {
    const map_step &step = a.steps[j];
    if (!a.in_order) UNROLL for (int k = 0; k < MAP_OPERANDS; k++) operands[k] = values[step.operands[k]];
    apply_step(&made, step, operands[0], operands[1], operands[2]);
    if (j + 1 == a.n_steps) break;
    values[a.n_leaves + j] = made;
  }
  if (a.y_dtype == REED_F16 || a.y_dtype == REED_BF16)
    UNROLL for (int e = 0; e < WORDS_PART; e++) made.of[e] = static_cast<uint32_t>(value_bits(a.y_dtype, made.of[e]));
  store_words(made, a.y_bytes, elements, a.y, i);
}
