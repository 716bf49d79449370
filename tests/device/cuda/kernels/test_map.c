/* Element-wise programs under the emulation: the kernel that a call gets, and the places that it reads of operands
 * that are broadcast over any dims of the output, also where only the device knows how many elements there are. */
#include "base/desc.h"
#include "tests/device/cuda/kernels/emulated_call.h"
#include "tests/suite.h"

enum { MOST = 1024, ABSENT = -1 };

static const struct {
  op_id op;
  cuda_kernel_id kernel;
  reed_dtype in, out;
  int32_t rank;
  int64_t dims[6], other[6]; /* of input 0 and the output; of input 1: the same rank, or its first is ABSENT */
} choices[] = {
    {OP_Add, CUDA_map_words, REED_F32, REED_F32, 1, {9}, {9}},
    {OP_Mul, CUDA_map_words, REED_F16, REED_F16, 2, {3, 4}, {1, 4}},
    {OP_Less, CUDA_map_words, REED_BF16, REED_BOOL, 2, {3, 4}, {3, 1}},
    {OP_And, CUDA_map_words, REED_BOOL, REED_BOOL, 1, {9}, {1}},
    {OP_Relu, CUDA_map_words, REED_F32, REED_F32, 5, {2, 3, 2, 3, 2}, {ABSENT}},
    {OP_Add, CUDA_map_words, REED_F32, REED_F32, 4, {2, 3, 2, 3}, {2, 1, 2, 1}},
    {OP_Add, CUDA_map, REED_F32, REED_F32, 5, {2, 3, 2, 3, 2}, {2, 1, 2, 1, 2}},
    {OP_Add, CUDA_map, REED_I32, REED_I32, 1, {9}, {9}},
    {OP_Sub, CUDA_map, REED_F64, REED_F64, 1, {9}, {9}},
    {OP_Greater, CUDA_map, REED_I64, REED_BOOL, 1, {9}, {9}},
    {OP_Cast, CUDA_map_words, REED_U8, REED_F32, 1, {9}, {ABSENT}},
    {OP_Cast, CUDA_map_words, REED_F32, REED_I8, 1, {9}, {ABSENT}},
    {OP_Cast, CUDA_map, REED_F32, REED_I64, 1, {9}, {ABSENT}},
    {OP_Cast, CUDA_map, REED_F64, REED_F32, 1, {9}, {ABSENT}},
    {OP_Sum, CUDA_map_words, REED_F32, REED_F32, 1, {9}, {9}},
    {OP_Sum, CUDA_map, REED_F32, REED_F32, 1, {9}, {ABSENT}}, /* no step */
};

START_TEST(values_of_at_most_32_bits_have_a_kernel_of_their_own) {
  reed_desc in[2] = {{choices[_i].in, choices[_i].rank, {0}}, {choices[_i].in, choices[_i].rank, {0}}};
  memcpy(in[0].dims, choices[_i].dims, sizeof choices->dims);
  memcpy(in[1].dims, choices[_i].other, sizeof choices->other);
  reed_desc out = in[0];
  out.dtype = choices[_i].out;
  const reed_attr to = {.name = "to", .type = REED_ATTR_INT, .i = choices[_i].out};
  const bool casts = choices[_i].op == OP_Cast;
  const emulated_call c = {.op = choices[_i].op,
                           .attrs = &(reed_attrs){&to, casts},
                           .in = in,
                           .n_in = choices[_i].other[0] == ABSENT ? 1 : 2,
                           .out = &out};
  reed_kernel kernel = emulated_prepare(&c);
  const cuda_prepared *plan = kernel.state;
  ck_assert_uint_eq(plan->n_launches, 1);
  ck_assert_str_eq(cuda_kernel_infos[plan->launches[0].kernel].name, cuda_kernel_infos[choices[_i].kernel].name);
  kernel.free(kernel.state);
}
END_TEST

/* The place of output element i in an operand that has extent 1 where `kept` has no bit. */
static int64_t place_of(const reed_desc *out, uint32_t kept, int64_t i) {
  int64_t place = 0, stride = 1;
  for (int32_t d = out->rank - 1; d >= 0; d--) {
    if (kept >> d & 1) {
      place += i % out->dims[d] * stride;
      stride *= out->dims[d];
    }
    i /= out->dims[d];
  }
  return place;
}

static reed_desc kept_of(const reed_desc *out, uint32_t kept) {
  reed_desc desc = *out;
  for (int32_t d = 0; d < out->rank; d++)
    if (!(kept >> d & 1)) desc.dims[d] = 1;
  return desc;
}

/* x - y for `count` of the first extent; the other elements of the output keep their bits. */
static void check_places(const reed_desc *out, uint32_t kept_x, uint32_t kept_y, int64_t count, uint64_t order) {
  static float x[MOST], y[MOST], z[MOST];
  const int64_t n = desc_elements(out), row = n / out->dims[0];
  const bool counts = count < out->dims[0];
  const reed_desc in[] = {kept_of(out, kept_x), kept_of(out, kept_y)};
  const reed_room of = {.axis = 0, .capacity = out->dims[0], .counted = 1}, none = {.axis = -1},
                  rooms[] = {kept_x & 1 ? of : none, kept_y & 1 ? of : none};
  ck_assert_int_le(n, MOST);
  for (int64_t i = 0; i < n; i++) x[i] = (float)(3 * i), y[i] = (float)(i * i), z[i] = -0.5F;
  emulated_call c = {.op = OP_Sub,
                     .in = in,
                     .n_in = 2,
                     .out = out,
                     .in_rooms = counts ? rooms : NULL,
                     .out_rooms = counts ? &of : NULL,
                     .inputs = {x, y},
                     .output = z,
                     .count = count,
                     .order = order};
  reed_kernel kernel = emulated_prepare(&c);
  emulated_run(&c, &kernel);
  kernel.free(kernel.state);
  for (int64_t i = 0; i < n; i++)
    ck_assert_msg(z[i] == (i < count * row ? x[place_of(out, kept_x, i)] - y[place_of(out, kept_y, i)] : -0.5F),
                  "element %lld of %lld, kept dims %x and %x", (long long)i, (long long)n, kept_x, kept_y);
}

static const reed_desc shapes[] = {
    {REED_F32, 1, {13}},
    {REED_F32, 2, {5, 7}},
    {REED_F32, 2, {3, 12}},
    {REED_F32, 3, {2, 3, 5}},
    {REED_F32, 3, {3, 2, 4}},
    {REED_F32, 4, {2, 3, 2, 3}},
    {REED_F32, 4, {3, 2, 3, 2}},
    {REED_F32, 4, {2, 3, 5, 8}},
    {REED_F32, 5, {2, 3, 2, 1, 2}},
    {REED_F32, 5, {2, 2, 3, 2, 3}},
};

START_TEST(an_operand_is_broadcast_over_any_dims) {
  const reed_desc *out = &shapes[_i / 3];
  const uint32_t all = (1u << out->rank) - 1;
  for (uint32_t kept_x = 0; kept_x <= all; kept_x++)
    for (uint32_t kept_y = 0; kept_y <= all; kept_y++) {
      if ((kept_x | kept_y) != all) continue;
      check_places(out, kept_x, kept_y, out->dims[0], (uint64_t)(_i % 3));
      check_places(out, kept_x, kept_y, 1, (uint64_t)(_i % 3));
      check_places(out, kept_x, kept_y, 0, (uint64_t)(_i % 3));
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("map");
  TCase *t = tcase_create("map");
  tcase_set_timeout(t, 120);
  tcase_add_loop_test(t, values_of_at_most_32_bits_have_a_kernel_of_their_own, 0, sizeof choices / sizeof *choices);
  tcase_add_loop_test(t, an_operand_is_broadcast_over_any_dims, 0, 3 * sizeof shapes / sizeof *shapes);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
