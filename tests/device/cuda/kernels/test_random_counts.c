/* Random calls of operators that move, choose and reduce elements, for the devices with counted extents
 * (counted_case.h): the other kernel cases seldom have extents of 1 before an axis, which many rules of ops/bound.def
 * want. */
#include "base/random.h"
#include "tests/ops/cpu/kernel_case.h"
#include "tests/suite.h"

enum { ROUNDS = 200, MOST_RANK = 3, MOST_EXTENT = 7 };

static uint64_t noise;
static int64_t below(int64_t n) { return (int64_t)(random_next(&noise) % (uint64_t)n); }
static int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }

/* Random extents, of which those before a random axis are 1. */
static int32_t random_dims(int64_t *out_dims) {
  const int32_t rank = (int32_t)between(1, MOST_RANK), ones = (int32_t)below(rank);
  for (int32_t d = 0; d < rank; d++) out_dims[d] = d < ones ? 1 : between(1, MOST_EXTENT);
  return rank;
}

static void fill(kernel_case *c, value *v, int64_t least, int64_t most) {
  for (int64_t i = 0; !c->skipped && i < desc_elements(&v->desc); i++) case_set(v, i, (double)between(least, most));
}

/* The rest of a call whose input 0 has these extents. */
static void gather(kernel_case *c, int32_t rank, const int64_t *dims) {
  int64_t places[MOST_RANK];
  const int64_t axis = below(rank);
  fill(c, case_input(c, REED_I64, random_dims(places), places, 0), 0, dims[axis] - 1);
  case_attr_int(c, "axis", below(2) ? axis : axis - rank);
}
static void slice(kernel_case *c, int32_t rank, const int64_t *dims) {
  const int axis = (int)below(rank), n = (int)dims[axis];
  case_ints(c, 1, (int)between(0, n));
  case_ints(c, 1, (int)between(-n - 2, n + 4));
  case_ints(c, 1, below(2) ? axis : axis - (int)rank);
  if (below(2)) case_ints(c, 1, (int)between(1, 3));
}
static void concat(kernel_case *c, int32_t rank, const int64_t *dims) {
  const int64_t axis = below(rank);
  for (int64_t i = below(3); i > 0; i--) {
    int64_t other[MOST_RANK];
    memcpy(other, dims, sizeof other);
    other[axis] = between(0, MOST_EXTENT);
    case_input(c, REED_F32, rank, other, 50);
  }
  case_attr_int(c, "axis", axis);
}
static void transpose(kernel_case *c, int32_t rank, const int64_t *dims) {
  static int64_t perm[MOST_RANK];
  for (int32_t d = 0; d < rank; d++) {
    const int64_t k = below(d + 1);
    perm[d] = perm[k];
    perm[k] = d;
  }
  case_attr_ints(c, "perm", perm, rank);
}
static void split(kernel_case *c, int32_t rank, const int64_t *dims) {
  const int64_t axis = below(rank), first = between(0, dims[axis]);
  case_ints(c, 2, (int)first, (int)(dims[axis] - first));
  case_attr_int(c, "axis", axis);
  c->n_outputs = 2;
}
static void reduce(kernel_case *c, int32_t rank, const int64_t *dims) {
  case_ints(c, 1, (int)below(rank));
  case_attr_int(c, "keepdims", below(2));
}
static void expand(kernel_case *c, int32_t rank, const int64_t *dims) {
  value *shape = case_ints(c, rank + 1, 2, 1, 1, 1);
  for (int32_t d = 0; !c->skipped && d < rank; d++)
    if (dims[d] == 1 && below(2)) case_set(shape, d + 1, (double)between(1, 3));
}
static void tile(kernel_case *c, int32_t rank, const int64_t *dims) {
  fill(c, case_input(c, REED_I64, DIMS(rank), 0), 1, 2);
}
static void pad(kernel_case *c, int32_t rank, const int64_t *dims) {
  fill(c, case_input(c, REED_I64, DIMS(2 * rank), 0), 0, 2);
}
static void topk(kernel_case *c, int32_t rank, const int64_t *dims) {
  case_ints(c, 1, (int)between(0, MOST_EXTENT + 2));
  case_attr_int(c, "axis", below(rank));
  case_attr_int(c, "at_most", 1);
  c->n_outputs = 2;
}
static void one_hot(kernel_case *c, int32_t rank, const int64_t *dims) {
  case_scalar(c, REED_I64, (double)between(1, 9));
  case_input(c, REED_F32, DIMS(2), 9);
  case_attr_int(c, "axis", between(-1, rank));
}
static void softmax(kernel_case *c, int32_t rank, const int64_t *dims) { case_attr_int(c, "axis", below(rank)); }
static void matmul(kernel_case *c, int32_t rank, const int64_t *dims) {
  case_input(c, REED_F32, DIMS(dims[rank - 1], between(1, MOST_EXTENT)), 2);
}
static void trilu(kernel_case *c, int32_t rank, const int64_t *dims) { case_attr_int(c, "upper", below(2)); }

static const struct {
  op_id op;
  reed_dtype dtype;
  int32_t least_rank;
  void (*rest)(kernel_case *c, int32_t rank, const int64_t *dims);
} made[] = {
    {OP_Gather, REED_F32, 1, gather},       {OP_Slice, REED_F32, 1, slice},    {OP_Concat, REED_F32, 1, concat},
    {OP_Transpose, REED_F32, 1, transpose}, {OP_Split, REED_F32, 1, split},    {OP_ReduceMax, REED_F32, 1, reduce},
    {OP_Expand, REED_F32, 1, expand},       {OP_Tile, REED_F32, 1, tile},      {OP_Pad, REED_F32, 1, pad},
    {OP_TopK, REED_F32, 1, topk},           {OP_OneHot, REED_I64, 1, one_hot}, {OP_Softmax, REED_F32, 1, softmax},
    {OP_MatMul, REED_F32, 1, matmul},       {OP_Trilu, REED_F32, 2, trilu}};

START_TEST(random_calls_with_counted_axes) {
  for (int round = 0; round < ROUNDS; round++) {
    kernel_case c;
    int64_t dims[MOST_RANK];
    int32_t rank;
    noise = (uint64_t)(_i * ROUNDS + round) * 0x9e3779b97f4a7c15u + 1;
    case_init(&c, made[_i].op);
    do rank = random_dims(dims);
    while (rank < made[_i].least_rank);
    case_input(&c, made[_i].dtype, rank, dims, 9);
    made[_i].rest(&c, rank, dims);
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
