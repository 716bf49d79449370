/* Programs of map.c for kernel `map_words`. */
#include "base/dtype.h"
#include "device/cuda/kernels/map.h"

enum { WORD_BYTES = 4 };

static bool is_word(int dtype) { return reed_dtype_bytes((reed_dtype)dtype) <= WORD_BYTES; }

static bool has_words(const map_args *a) {
  bool has = is_word(a->y_dtype) && (a->last_dtype == a->y_dtype || map_held((reed_dtype)a->y_dtype) == a->last_dtype);
  for (int32_t k = 0; k < a->n_leaves; k++)
    has = has && is_word(a->dtypes[k]) && map_held((reed_dtype)a->dtypes[k]) == a->held[k];
  for (int32_t j = 0; j < a->n_steps; j++) {
    const map_step *step = &a->steps[j];
    if (step->formula == OP_Where) continue;
    has = has && (step->formula == OP_Cast ? is_word(step->from) && is_word(step->to)
                                           : step->from == REED_F32 || step->from == REED_BOOL);
  }
  return has;
}

/* True if the leaf's strides are those of a dense tensor of the output's extents. */
static bool is_dense(const map_args *a, const map_leaf *leaf) {
  int64_t stride = 1;
  for (int32_t d = a->rank - 1; d >= 0; d--) {
    if (leaf->strides[d] != stride) return false;
    stride *= a->extents[d];
  }
  return true;
}

static bool is_one(const map_args *a, const map_leaf *leaf) {
  for (int32_t d = 0; d < a->rank; d++)
    if (leaf->strides[d]) return false;
  return true;
}

bool map_words_of(const map_args *a, map_words_args *out_words) {
  const bool fits =
      a->n <= INT32_MAX && a->n_leaves <= WORDS_LEAVES && a->n_steps <= WORDS_STEPS && a->rank <= WORDS_DIMS;
  if (!fits || a->n_steps == 0 || a->counted_dim || !has_words(a)) return false;
  const int32_t absent = WORDS_DIMS - a->rank;
  map_words_args words = {.counted = a->counted,
                          .n = (uint32_t)(a->counted.factor ? a->n / a->counted.capacity : a->n),
                          .n_leaves = a->n_leaves,
                          .n_steps = a->n_steps,
                          .y_dtype = a->y_dtype,
                          .y_bytes = a->y_bytes,
                          .in_order = a->n_steps == 1 && a->n_leaves <= MAP_OPERANDS};
  for (int32_t d = 0; d < WORDS_DIMS; d++) words.extents[d] = d < absent ? 1 : (uint32_t)a->extents[d - absent];
  for (int32_t k = 0; k < a->n_leaves; k++) {
    const map_leaf *from = &a->leaves[k];
    words_leaf *leaf = &words.leaves[k];
    leaf->constant = (uint32_t)from->constant;
    leaf->dtype = a->dtypes[k];
    leaf->bytes = a->bytes[k];
    leaf->walk = is_one(a, from) ? WORDS_ONE : is_dense(a, from) ? WORDS_DENSE : WORDS_PLACES;
    if (leaf->walk == WORDS_PLACES) words.splits = (uint8_t)(a->rank - 1);
    for (int32_t d = 0; d < a->rank; d++) leaf->strides[absent + d] = (uint32_t)from->strides[d];
    words.in_order = words.in_order && a->steps[0].operands[k] == k;
  }
  words.crosses = words.extents[WORDS_DIMS - 1] % WORDS_PART != 0;
  for (int32_t j = 0; j < a->n_steps; j++) words.steps[j] = a->steps[j];
  *out_words = words;
  return true;
}
