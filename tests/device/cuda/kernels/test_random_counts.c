/* Random calls of operators that move, choose and reduce elements, for the devices with counted extents
 * (counted_case.h): the other kernel cases seldom have extents of 1 before an axis, which many rules of ops/bound.def
 * want. */
#include "base/random.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

enum { ROUNDS = 60, MOST_RANK = 3, MOST_EXTENT = 7 };

static uint64_t noise;
static int64_t below(int64_t n) { return (int64_t)(random_next(&noise) % (uint64_t)n); }
static int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }

/* Random extents, of which those before a random axis are 1. */
static int32_t random_dims(int64_t *out_dims) {
  const int32_t rank = (int32_t)between(1, MOST_RANK), ones = (int32_t)below(rank);
  for (int32_t d = 0; d < rank; d++) out_dims[d] = d < ones ? 1 : between(1, MOST_EXTENT);
  return rank;
}

static value *random_input(kernel_case *c, reed_dtype dtype, int32_t *out_rank, int64_t *out_dims) {
  *out_rank = random_dims(out_dims);
  return case_input(c, dtype, *out_rank, out_dims, 50);
}

static void begin(kernel_case *c, op_id op, int round) {
  noise = (uint64_t)(op * ROUNDS + round) * 0x9e3779b97f4a7c15u + 1;
  case_init(c, op);
}

static void one_gather(kernel_case *c, int round) {
  int64_t dims[MOST_RANK], places[MOST_RANK];
  int32_t rank, n;
  begin(c, OP_Gather, round);
  random_input(c, REED_F32, &rank, dims);
  const int64_t axis = below(rank);
  value *indices = random_input(c, REED_I64, &n, places);
  for (int64_t i = 0; !c->skipped && i < desc_elements(&indices->desc); i++)
    case_set(indices, i, (double)below(dims[axis]));
  case_attr_int(c, "axis", below(2) ? axis : axis - rank);
}

static void one_slice(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Slice, round);
  random_input(c, REED_F32, &rank, dims);
  const int axis = (int)below(rank), n = (int)dims[axis];
  case_ints(c, 1, (int)between(0, n));
  case_ints(c, 1, (int)between(-n - 2, n + 4));
  case_ints(c, 1, below(2) ? axis : axis - (int)rank);
  if (below(2)) case_ints(c, 1, (int)between(1, 3));
}

static void one_concat(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  begin(c, OP_Concat, round);
  const int32_t rank = random_dims(dims);
  const int64_t axis = below(rank), n = between(1, 3);
  for (int64_t i = 0; i < n; i++) {
    dims[axis] = between(0, MOST_EXTENT);
    case_input(c, REED_F32, rank, dims, 50);
  }
  case_attr_int(c, "axis", axis);
}

static void one_transpose(kernel_case *c, int round) {
  static int64_t perm[MOST_RANK];
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Transpose, round);
  random_input(c, REED_F32, &rank, dims);
  for (int32_t d = 0; d < rank; d++) {
    const int64_t k = below(d + 1);
    perm[d] = perm[k];
    perm[k] = d;
  }
  case_attr_ints(c, "perm", perm, rank);
}

static void one_split(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Split, round);
  random_input(c, REED_F32, &rank, dims);
  const int64_t axis = below(rank), first = between(0, dims[axis]);
  case_ints(c, 2, (int)first, (int)(dims[axis] - first));
  case_attr_int(c, "axis", axis);
  c->n_outputs = 2;
}

static void one_reduce(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_ReduceMax, round);
  random_input(c, REED_F32, &rank, dims);
  case_ints(c, 1, (int)below(rank));
  case_attr_int(c, "keepdims", below(2));
}

static void one_expand(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Expand, round);
  random_input(c, REED_F32, &rank, dims);
  value *shape = case_ints(c, rank + 1, 2, 1, 1, 1);
  for (int32_t d = 0; !c->skipped && d < rank; d++)
    if (dims[d] == 1 && below(2)) case_set(shape, d + 1, (double)between(1, 3));
}

static void one_tile(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Tile, round);
  random_input(c, REED_F32, &rank, dims);
  value *repeats = case_ints(c, rank, 1, 1, 1);
  for (int32_t d = 0; !c->skipped && d < rank; d++) case_set(repeats, d, (double)between(1, 2));
}

static void one_pad(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Pad, round);
  random_input(c, REED_F32, &rank, dims);
  value *pads = case_ints(c, 2 * rank, 0, 0, 0, 0, 0, 0);
  for (int32_t d = 0; !c->skipped && d < 2 * rank; d++) case_set(pads, d, (double)below(3));
}

static void one_topk(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_TopK, round);
  random_input(c, REED_F32, &rank, dims);
  case_ints(c, 1, (int)between(0, MOST_EXTENT + 2));
  case_attr_int(c, "axis", below(rank));
  case_attr_int(c, "at_most", 1);
  c->n_outputs = 2;
}

static void one_one_hot(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_OneHot, round);
  random_input(c, REED_I64, &rank, dims);
  case_scalar(c, REED_I64, (double)between(1, 9));
  value *values = case_input(c, REED_F32, DIMS(2), 0);
  case_set(values, 1, 1);
  case_attr_int(c, "axis", between(-1, rank));
}

static void one_softmax(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  int32_t rank;
  begin(c, OP_Softmax, round);
  random_input(c, REED_F32, &rank, dims);
  case_attr_int(c, "axis", below(rank));
}

static void one_matmul(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  begin(c, OP_MatMul, round);
  const int32_t rank = random_dims(dims);
  case_input(c, REED_F32, rank, dims, 2);
  case_input(c, REED_F32, DIMS(dims[rank - 1], between(1, MOST_EXTENT)), 2);
}

static void one_trilu(kernel_case *c, int round) {
  int64_t dims[MOST_RANK];
  begin(c, OP_Trilu, round);
  for (int32_t d = 0; d < MOST_RANK; d++) dims[d] = between(1, MOST_EXTENT);
  case_input(c, REED_F32, MOST_RANK, dims, 50);
}

static void (*const made[])(kernel_case *c, int round) = {
    one_gather, one_slice, one_concat, one_transpose, one_split,   one_reduce, one_expand,
    one_tile,   one_pad,   one_topk,   one_one_hot,   one_softmax, one_matmul, one_trilu};

START_TEST(random_calls_with_counted_axes) {
  for (int round = 0; round < ROUNDS; round++) {
    kernel_case c;
    made[_i](&c, round);
    case_parity(&c, 1e-5, 1e-5);
  }
}
END_TEST

int main(void) {
  TCase *tc = tcase_create("random_counts");
  Suite *suite = suite_create("random_counts");
  tcase_set_timeout(tc, 60);
  tcase_add_loop_test(tc, random_calls_with_counted_axes, 0, ROWS(made));
  suite_add_tcase(suite, tc);
  return suite_run(suite);
}
