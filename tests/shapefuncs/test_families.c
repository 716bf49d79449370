/* Every shape function on numbers, on symbols and on operands that do not fit, with the expected texts of diagnoses. */
#include <check.h>

#include "tests/shapefuncs/infer.h"
#include "tests/suite.h"

typedef struct sample {
  const char *op, *attrs, *inputs, *expected;
} sample;

#define TEST_OF(name, ...) \
  START_TEST(name) { \
    static const sample samples[] = {__VA_ARGS__}; \
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) { \
      const sample *s = &samples[i]; \
      const char *got = infer(s->op, s->attrs, s->inputs); \
      ck_assert_msg(strcmp(got, s->expected) == 0, "%s {%s} %s\n  gave     %s\n  expected %s", s->op, s->attrs, \
                    s->inputs, got, s->expected); \
    } \
  } \
  END_TEST

/* clang-format off */
TEST_OF(elementwise_keeps_the_shape,
  {"Abs", "", "f32[2,0,3]", "[2,0,3]"},
  {"Relu", "", "f32[]", "[]"},
  {"Clip", "", "f32[n,4] - f32[]", "[n,4]"},
  {"Cast", "to=8", "f32[2,h]", "[2,h]"},
  {"Cast", "to=99", "f32[2]", "Cast node 'n': attribute to: 99 is no dtype (input f32[2])"},
  {"Dropout/2", "", "f32[5,h]", "[5,h] [5,h]"},
  {"CumSum", "", "f32[5] i64[]", "[5]"},
  {"CumSum", "", "f32[] i64[]", "CumSum node 'n': x: wants rank 1 or more, not 0 (x f32[])"},
  {"Identity", "", "f32[...]", "[...]"})

TEST_OF(broadcasting_joins_extents,
  {"Add", "", "f32[2,3] f32[3]", "[2,3]"},
  {"Add", "", "f32[2,1] f32[1,5]", "[2,5]"},
  {"Add", "", "f32[] f32[4]", "[4]"},
  {"Add", "", "f32[0,3] f32[1,3]", "[0,3]"},
  {"Add", "", "f32[1] f32[0]", "[0]"},
  {"Add", "", "f32[0] f32[2]", "Add node 'n': B: cannot broadcast [0] with [2] (A f32[0], B f32[2])"},
  {"Mul", "", "f32[2,3,4] f32[2,4]", "Mul node 'n': B: cannot broadcast [2,3,4] with [2,4] (A f32[2,3,4], B f32[2,4])"},
  {"Add", "", "f32[n,3] f32[n,1]", "[n,3]"},
  {"Add", "", "f32[n] f32[1]", "[n]"},
  {"Add", "", "f32[n] f32[7]", "[7]"},
  {"Add", "", "f32[n] f32[m]", "[broadcast(n, m)]"},
  {"Sum", "", "f32[n] f32[m] f32[n] f32[1]", "[broadcast(n, m)]"},
  {"Max", "", "f32[3]", "[3]"},
  {"Max", "", "f32[3] f32[2,1] f32[4,1,1]", "[4,2,3]"},
  {"Min", "", "f32[2] f32[2] f32[3]", "Min node 'n': data[2]: cannot broadcast [2] with [3] (data[0] f32[2], data[1] f32[2], data[2] f32[3])"},
  {"Where", "", "bool[2,1] f32[3] f32[]", "[2,3]"},
  {"Where", "", "bool[2,1] f32[3] f64[]", "Where node 'n': Y: is f64 where X is f32 (condition bool[2,1], X f32[3], Y f64[])"},
  {"Less", "", "f32[h] f32[1]", "[h]"},
  {"PRelu", "", "f32[2,3,4] f32[3,1]", "[2,3,4]"},
  {"PRelu", "", "f32[3] f32[2,3]", "PRelu node 'n': slope: cannot broadcast [2,3] to [3] (X f32[3], slope f32[2,3])"},
  {"Add", "", "f32[...] f32[3]", "[...]"})

TEST_OF(generators_make_shapes_from_numbers,
  {"Shape", "", "f32[2,h,4]", "[3]"},
  {"Shape", "start=1 end=-1", "f32[2,3,4,5]", "[2]"},
  {"Shape", "start=-9 end=9", "f32[2,3]", "[2]"},
  {"Shape", "start=2 end=1", "f32[2,3]", "[0]"},
  {"Shape", "", "f32[...]", "[?]"},
  {"Size", "", "f32[2,3]", "[]"},
  {"ConstantOfShape", "", "i64{2,0,3}", "[2,0,3]"},
  {"ConstantOfShape", "value=tensor:i64", "i64{}", "[]"},
  {"ConstantOfShape", "", "i64{2,h}", "[2,h]"},
  {"ConstantOfShape", "", "i64[?]", "[...]"},
  {"ConstantOfShape", "", "i64{2,-1}", "ConstantOfShape node 'n': output output would have the negative extents [2,-1] (input i64[2]={2,-1})"},
  {"ConstantOfShape", "", "i64{1,1,1,1,1,1,1,1,1}", "ConstantOfShape node 'n': gives rank 9; the largest is 8 (input i64[9]={1,1,1,1,1,1,1,1,1})"},
  {"ConstantOfShape", "", "i64{4000000000,4000000000}", "ConstantOfShape node 'n': output output of [4000000000,4000000000] is too large (input i64[2]={4000000000,4000000000})"},
  {"ConstantOfShape", "", "i64{1048576,67108864}", "[1048576,67108864]"},
  {"ConstantOfShape", "", "i64{1048576,67108865}", "ConstantOfShape node 'n': output output of [1048576,67108865] is too large (input i64[2]={1048576,67108865})"},
  {"Range", "", "i64[]{1} i64[]{10} i64[]{3}", "[3]"},
  {"Range", "", "i64[]{10} i64[]{1} i64[]{-3}", "[3]"},
  {"Range", "", "i64[]{5} i64[]{1} i64[]{3}", "[0]"},
  {"Range", "", "f32[]{1} f32[]{2.5} f32[]{0.5}", "[3]"},
  {"Range", "", "f32[]{0} f32[]{1} f32[]{0.1}", "[10]"},
  {"Range", "", "i64[]{0} i64[]{n} i64[]{1}", "[n]"},
  {"Range", "", "i64[]{0} i64[]{n} i64[]{2}", "[floor((n + 1)/2)]"},
  {"Range", "", "i64[]{0} i64[]{n} i64[]{?}", "[?]"},
  {"Range", "", "i64[]{0} i64[]{1} i64[]{0}", "Range node 'n': delta: the step is 0 (start i64[]={0}, limit i64[]={1}, delta i64[]={0})"},
  {"Range", "", "i64{0,1} i64[]{1} i64[]{0}", "Range node 'n': start: wants one number, not 2 (start i64[2]={0,1}, limit i64[]={1}, delta i64[]={0})"},
  {"Range", "", "i64[]{-9223372036854775808} i64[]{9223372036854775807} i64[]{4611686018427387904}", "[4]"},
  {"Range", "", "f32[]{-3e38} f32[]{3e38} f32[]{3e38}", "[2]"},
  {"Range", "", "f64[]{1.5e308} f64[]{-1.5e308} f64[]{-1e308}", "[3]"},
  {"Range", "", "i64[]{-9223372036854775807} i64[]{9223372036854775807} i64[]{1}",
   "Range node 'n': delta: no count of steps from -9223372036854775807 to 9223372036854775807 by 1 (start i64[]={-9223372036854775807}, limit i64[]={9223372036854775807}, delta i64[]={1})"},
  {"Range", "", "f32[]{0} f32[]{1} f32[]{0}", "Range node 'n': delta: no count of steps from 0 to 1 by 0 (start f32[]={0}, limit f32[]={1}, delta f32[]={0})"})

TEST_OF(views_keep_the_number_of_elements,
  {"Flatten", "", "f32[2,3,4]", "[2,12]"},
  {"Flatten", "axis=0", "f32[2,3,4]", "[1,24]"},
  {"Flatten", "axis=-1", "f32[2,h,4]", "[h*2,4]"},
  {"Flatten", "axis=3", "f32[2,3,0]", "[0,1]"},
  {"Flatten", "axis=4", "f32[2,3,4]", "Flatten node 'n': axis 4 is out of range for rank 3 (input f32[2,3,4])"},
  {"Reshape", "", "f32[2,3,4] i64{4,-1}", "[4,6]"},
  {"Reshape", "", "f32[2,3,4] i64{0,-1}", "[2,12]"},
  {"Reshape", "", "f32[2,3,4] i64{-1,0}", "[8,3]"},
  {"Reshape", "", "f32[1] i64{}", "[]"},
  {"Reshape", "", "f32[0,3] i64{0,-1}", "[0,3]"},
  {"Reshape", "", "f32[0,12] i64{0,-1,4}", "[0,3,4]"},
  {"Reshape", "", "f32[0,12] i64{3,-1}", "[3,0]"},
  {"Reshape", "allowzero=1", "f32[3,0] i64{0,7}", "[0,7]"},
  {"Reshape", "allowzero=1", "f32[3,0] i64{0,-1}", "Reshape node 'n': shape: 0 and -1 together with allowzero (data f32[3,0], shape i64[2]={0,-1})"},
  {"Reshape", "", "f32[1,3,200,272] i64{1,-1,7}", "Reshape node 'n': shape: cannot view [1,3,200,272] as [1,-1,7] (data f32[1,3,200,272], shape i64[3]={1,-1,7})"},
  {"Reshape", "", "f32[2,3] i64{4,2}", "Reshape node 'n': shape: cannot view [2,3] (6 elements) as [4,2] (8 elements) (data f32[2,3], shape i64[2]={4,2})"},
  {"Reshape", "", "f32[2] i64{-1,-1}", "Reshape node 'n': shape: more than one extent is -1 (data f32[2], shape i64[2]={-1,-1})"},
  {"Reshape", "", "f32[2] i64{2,-2}", "Reshape node 'n': shape: extent -2 (data f32[2], shape i64[2]={2,-2})"},
  {"Reshape", "", "f32[2] i64{2,0}", "Reshape node 'n': shape: 0 at 1 copies an extent that the data does not have (data f32[2], shape i64[2]={2,0})"},
  {"Reshape", "", "f32[4] i64[1,1]{4}", "Reshape node 'n': shape: wants a list of numbers, not a tensor of rank 2 (data f32[4], shape i64[1,1]={4})"},
  {"Reshape", "", "f32[n,12,h,w] i64{n,-1,4,h,w}", "[n,3,4,h,w]"},
  {"Reshape", "", "f32[n,h,w,3,4] i64{n,-1,4}", "[n,h*w*3,4]"},
  {"Reshape", "", "f32[n,364] i64{n,-1,4}", "[n,91,4]"},
  {"Reshape", "", "f32[n,h] i64{-1}", "[n*h]"},
  {"Reshape", "", "f32[n,h] i64{?,4}", "[?,4]"},
  {"Reshape", "", "f32[...] i64{0,-1,4}", "[?,?,4]"},
  {"Reshape", "", "f32[n] i64[?]", "[...]"},
  {"Squeeze", "", "f32[1,3,1]", "[3]"},
  {"Squeeze", "", "f32[1,0,1] i64{0,-1}", "[0]"},
  {"Squeeze", "", "f32[1,h] i64{0}", "[h]"},
  {"Squeeze", "", "f32[1,h]", "[...]"},
  {"Squeeze", "", "f32[1,h,1] i64{?}", "[?,?]"},
  {"Squeeze", "", "f32[1,h,1] i64[?]", "[...]"},
  {"Squeeze", "", "f32[1,3] i64{1}", "Squeeze node 'n': axes: axis 1 cannot go: its extent is not 1 (data f32[1,3], axes i64[1]={1})"},
  {"Squeeze", "", "f32[1,1] i64{0,-2}", "Squeeze node 'n': axes: axis 0 is named twice (data f32[1,1], axes i64[2]={0,-2})"},
  {"Unsqueeze", "", "f32[2,h] i64{0,-1}", "[1,2,h,1]"},
  {"Unsqueeze", "", "f32[2,3] i64{2,0}", "[1,2,1,3]"},
  {"Unsqueeze", "", "f32[2] i64{?}", "[?,?]"},
  {"Unsqueeze", "", "f32[2] i64{1}", "[2,1]"},
  {"Unsqueeze", "", "f32[2] i64{2}", "Unsqueeze node 'n': axis 2 is out of range for rank 2 (data f32[2], axes i64[1]={2})"},
  {"Unsqueeze", "", "f32[1,1,1,1,1,1,1,1] i64{0}", "Unsqueeze node 'n': gives rank 9; the largest is 8 (data f32[1,1,1,1,1,1,1,1], axes i64[1]={0})"})

TEST_OF(data_movement,
  {"Concat", "axis=1", "f32[2,3] f32[2,0] f32[2,4]", "[2,7]"},
  {"Concat", "axis=-1", "f32[2,n] f32[2,m] f32[2,n]", "[2,n*2 + m]"},
  {"Concat", "axis=0", "f32[n,?] f32[4,7]", "[n + 4,7]"},
  {"Concat", "axis=1", "f32[2,3] f32[4,3]", "Concat node 'n': inputs[1]: extents beside the axis must agree: 2 and 4 (inputs[0] f32[2,3], inputs[1] f32[4,3])"},
  {"Concat", "axis=0", "f32[2,3] f32[4]", "Concat node 'n': inputs[1]: wants rank 2, not 1 (inputs[0] f32[2,3], inputs[1] f32[4])"},
  {"Concat", "axis=2", "f32[2,3]", "Concat node 'n': axis 2 is out of range for rank 2 (inputs[0] f32[2,3])"},
  {"DepthToSpace", "blocksize=2", "f32[1,8,h,3]", "[1,2,h*2,6]"},
  {"DepthToSpace", "blocksize=2", "f32[1,6,2,3]", "DepthToSpace node 'n': input: the number of channels 6 does not divide by 4 (input f32[1,6,2,3])"},
  {"DepthToSpace", "blocksize=2 mode=XYZ", "f32[1,8,2,3]", "DepthToSpace node 'n': attribute mode has no meaning 'XYZ' (input f32[1,8,2,3])"},
  {"SpaceToDepth", "blocksize=2", "f32[1,2,h,6]", "[1,8,floor(h/2),3]"},
  {"SpaceToDepth", "blocksize=0", "f32[1,2,4,6]", "SpaceToDepth node 'n': attribute blocksize is 0 (input f32[1,2,4,6])"},
  {"SpaceToDepth", "blocksize=4", "f32[1,2,4,6]", "SpaceToDepth node 'n': input: the width 6 does not divide by 4 (input f32[1,2,4,6])"},
  {"Expand", "", "f32[3,1] i64{2,1,6}", "[2,3,6]"},
  {"Expand", "", "f32[3,4] i64{1}", "[3,4]"},
  {"Expand", "", "f32[1,4] i64{0,1}", "[0,4]"},
  {"Expand", "", "f32[1,4] i64{n,1}", "[n,4]"},
  {"Expand", "", "f32[h,4] i64[?]", "[...]"},
  {"Expand", "", "f32[3] i64{2}", "Expand node 'n': shape: cannot broadcast [3] with [2] (input f32[3], shape i64[1]={2})"},
  {"Expand", "", "f32[3] i64{-1}", "Expand node 'n': shape: extent -1 (input f32[3], shape i64[1]={-1})"},
  {"Tile", "", "f32[2,3] i64{2,0}", "[4,0]"},
  {"Tile", "", "f32[h,3] i64{2,n}", "[h*2,n*3]"},
  {"Tile", "", "f32[2] i64{2,0}", "Tile node 'n': repeats: 2 repeats for rank 1 (input f32[2], repeats i64[2]={2,0})"},
  {"Tile", "", "f32[2] i64{-1}", "Tile node 'n': repeats: repeats of -1 (input f32[2], repeats i64[1]={-1})"},
  {"Transpose", "", "f32[2,3,h]", "[h,3,2]"},
  {"Transpose", "perm=(0,2,1)", "f32[2,3,h]", "[2,h,3]"},
  {"Transpose", "perm=(1,0)", "f32[...]", "[?,?]"},
  {"Transpose", "", "f32[]", "[]"},
  {"Transpose", "perm=(0,0)", "f32[2,3]", "Transpose node 'n': attribute perm: 0 is out of range or there twice (data f32[2,3])"},
  {"Transpose", "perm=(0,1,2)", "f32[2,3]", "Transpose node 'n': attribute perm has 3 axes for rank 2 (data f32[2,3])"},
  {"Pad", "", "f32[2,3] i64{0,1,2,3}", "[4,7]"},
  {"Pad", "", "f32[2,5] i64{0,-1,0,-2}", "[2,2]"},
  {"Pad", "", "f32[2,5] i64{1,1} - i64{-1}", "[2,7]"},
  {"Pad", "", "f32[0,2] i64{1,0,1,0}", "[2,2]"},
  {"Pad", "mode=edge", "f32[0,2] i64{1,0,1,0}", "Pad node 'n': pads: cannot pad an extent of 0 by 1 and 1 (data f32[0,2], pads i64[4]={1,0,1,0})"},
  {"Pad", "", "f32[2] i64{-3,2}", "[1]"},
  {"Pad", "mode=edge", "f32[2] i64{-3,2}", "Pad node 'n': pads: cannot pad an extent of 2 by -3 and 2 (data f32[2], pads i64[2]={-3,2})"},
  {"Pad", "", "f32[2] i64{-3,0}", "Pad node 'n': pads: cannot pad an extent of 2 by -3 and 0 (data f32[2], pads i64[2]={-3,0})"},
  {"Pad", "", "f32[2,5] i64{1,1}", "Pad node 'n': pads: 2 pads for 2 axes (data f32[2,5], pads i64[2]={1,1})"},
  {"Pad", "", "f32[h,5] i64{1,0,n,0}", "[h + n + 1,5]"},
  {"Pad", "", "f32[h,5] i64{1,1} - i64{?}", "[?,?]"},
  {"Split/2", "axis=1", "f32[2,6] i64{2,4}", "[2,2] [2,4]"},
  {"Split/2", "", "f32[6,2] i64{2,3}", "Split node 'n': split: the sum of the sizes and the extent must agree: 5 and 6 (input f32[6,2], split i64[2]={2,3})"},
  {"Split/2", "", "f32[6] i64{7,-1}", "Split node 'n': split: size -1 (input f32[6], split i64[2]={7,-1})"},
  {"Split/2", "", "f32[6] i64{6}", "Split node 'n': split: 1 sizes for 2 outputs (input f32[6], split i64[1]={6})"},
  {"Split/3", "num_outputs=3", "f32[7]", "[3] [3] [1]"},
  {"Split/4", "", "f32[5]", "[2] [2] [1] [0]"},
  {"Split/2", "", "f32[0]", "[0] [0]"},
  {"Split/3", "num_outputs=2", "f32[7]", "Split node 'n': num_outputs is 2, there are 3 (input f32[7])"},
  {"Split/2", "", "f32[h] i64{n,m}", "[n] [m]"})

TEST_OF(slices_follow_python,
  {"Slice", "", "f32[10,5] i64{1} i64{9} i64{0} i64{3}", "[3,5]"},
  {"Slice", "", "f32[10] i64{-3} i64{9223372036854775807}", "[3]"},
  {"Slice", "", "f32[10] i64{0} i64{-1}", "[9]"},
  {"Slice", "", "f32[10] i64{8} i64{2}", "[0]"},
  {"Slice", "", "f32[10] i64{-1} i64{-9223372036854775807} i64{0} i64{-1}", "[10]"},
  {"Slice", "", "f32[10] i64{20} i64{3} i64{0} i64{-4}", "[2]"},
  {"Slice", "", "f32[10] i64{0} i64{10} i64{0} i64{9223372036854775807}", "[1]"},
  {"Slice", "", "f32[0,4] i64{0} i64{5}", "[0,4]"},
  {"Slice", "", "f32[0] i64{-1} i64{-9223372036854775807} i64{0} i64{-1}", "[0]"},
  {"Slice", "", "f32[2,h,4] i64{0,1} i64{9223372036854775807,3} i64{1,2}", "[2,h,2]"},
  {"Slice", "", "f32[h] i64{1} i64{9223372036854775807}", "[max(h - 1, 0)]"},
  {"Slice", "", "f32[h] i64{1} i64{-1}", "[max(h - 2, 0)]"},
  {"Slice", "", "f32[h] i64{-3} i64{9223372036854775807}", "[min(h, 3)]"},
  {"Slice", "", "f32[h] i64{0} i64{9223372036854775807} i64{0} i64{2}", "[floor((h + 1)/2)]"},
  {"Slice", "", "f32[10] i64{-20} i64{-30} i64{0} i64{-1}", "[1]"},
  {"Slice", "", "f32[h] i64{0} i64{n}", "[min(h, n)]"},
  {"Slice", "", "f32[h] i64{0} i64{?}", "[?]"},
  {"Slice", "", "f32[h,4] i64{0} i64{1} i64{?}", "[?,?]"},
  {"Slice", "", "f32[h,4] i64[?] i64[?]", "[?,?]"},
  {"Slice", "", "f32[h] i64{-1} i64{-9223372036854775807} i64{0} i64{-1}", "[h]"},
  {"Slice", "", "f32[4] i64{0} i64{1} i64{0} i64{0}", "Slice node 'n': steps: the step of axis 0 is 0 (data f32[4], starts i64[1]={0}, ends i64[1]={1}, axes i64[1]={0}, steps i64[1]={0})"},
  {"Slice", "", "f32[4] i64{0} i64{1,2}", "Slice node 'n': ends: has 2 elements where starts has 1 (data f32[4], starts i64[1]={0}, ends i64[2]={1,2})"},
  {"Slice", "", "f32[4] i64{0} i64{1} i64{1}", "Slice node 'n': axis 1 is out of range for rank 1 (data f32[4], starts i64[1]={0}, ends i64[1]={1}, axes i64[1]={1})"},
  {"Slice", "", "f32[4] i64{0,0} i64{1,1}", "Slice node 'n': starts: 2 axes for rank 1 (data f32[4], starts i64[2]={0,0}, ends i64[2]={1,1})"})

TEST_OF(indexing,
  {"Gather", "", "f32[5,h] i64[2,3]", "[2,3,h]"},
  {"Gather", "axis=-1", "f32[5,h] i64[]", "[5]"},
  {"Gather", "axis=1", "f32[0,4] i64[0]", "[0,0]"},
  {"Gather", "", "f32[] i64[1]", "Gather node 'n': axis 0 is out of range for rank 0 (data f32[], indices i64[1])"},
  {"Gather", "", "f32[1,1,1,1,1] i64[1,1,1,1,1]", "Gather node 'n': gives rank 9; the largest is 8 (data f32[1,1,1,1,1], indices i64[1,1,1,1,1])"},
  {"GatherElements", "axis=1", "f32[3,4] i64[2,9]", "[2,9]"},
  {"GatherElements", "axis=1", "f32[3,4] i64[4,9]", "GatherElements node 'n': indices: extent 4 of axis 0 is beyond the data's 3 (data f32[3,4], indices i64[4,9])"},
  {"GatherElements", "", "f32[3,4] i64[4]", "GatherElements node 'n': indices: wants rank 2, not 1 (data f32[3,4], indices i64[4])"},
  {"GatherND", "", "f32[2,3,4] i64[5,2]", "[5,4]"},
  {"GatherND", "batch_dims=1", "f32[2,3,4] i64[2,1]", "[2,4]"},
  {"GatherND", "batch_dims=1", "f32[n,3,4] i64[n,7,2]", "[n,7]"},
  {"GatherND", "", "f32[2,3] i64[5,?]", "[...]"},
  {"GatherND", "", "f32[2,3] i64[5,3]", "GatherND node 'n': indices: indices of 3 numbers for 2 axes (data f32[2,3], indices i64[5,3])"},
  {"GatherND", "batch_dims=1", "f32[2,3] i64[5,1]", "GatherND node 'n': indices: the batches of data and indices must agree: 2 and 5 (data f32[2,3], indices i64[5,1])"},
  {"ScatterElements", "axis=1", "f32[3,h] i64[2,2] f32[2,2]", "[3,h]"},
  {"ScatterElements", "", "f32[3] i64[2] f32[1]", "ScatterElements node 'n': updates: the extents of indices and updates must agree: 2 and 1 (data f32[3], indices i64[2], updates f32[1])"},
  {"ScatterElements", "reduction=xor", "f32[3] i64[2] f32[2]", "ScatterElements node 'n': attribute reduction has no meaning 'xor' (data f32[3], indices i64[2], updates f32[2])"},
  {"ScatterND", "", "f32[4,5] i64[3,1] f32[3,5]", "[4,5]"},
  {"ScatterND", "", "f32[4,5] i64[3,1] f32[3,4]", "ScatterND node 'n': updates: the extents of what is indexed and of updates must agree: 5 and 4 (data f32[4,5], indices i64[3,1], updates f32[3,4])"})

TEST_OF(reductions,
  {"ReduceSum", "", "f32[2,3,4] i64{1}", "[2,1,4]"},
  {"ReduceSum", "keepdims=0", "f32[2,3,4] i64{1,-1}", "[2]"},
  {"ReduceMax", "", "f32[2,h]", "[1,1]"},
  {"ReduceMax", "keepdims=0", "f32[2,h]", "[]"},
  {"ReduceMean", "noop_with_empty_axes=1", "f32[2,h] i64{}", "[2,h]"},
  {"ReduceMean", "", "f32[2,h] i64{}", "[1,1]"},
  {"ReduceProd", "", "f32[0,2] i64{0}", "[1,2]"},
  {"ReduceL1", "keepdims=0", "f32[2,h] i64{?}", "[?]"},
  {"ReduceL2", "", "f32[2,h] i64[?]", "[?,?]"},
  {"ReduceMin", "keepdims=0", "f32[2,h] i64[?]", "[...]"},
  {"ReduceSum", "", "f32[2] i64{1}", "ReduceSum node 'n': axis 1 is out of range for rank 1 (data f32[2], axes i64[1]={1})"},
  {"ReduceSum", "", "f32[2] i64{0,0}", "ReduceSum node 'n': axes: 2 axes for rank 1 (data f32[2], axes i64[2]={0,0})"},
  {"ArgMax", "axis=-1 keepdims=0", "f32[2,h]", "[2]"},
  {"ArgMin", "", "f32[2,h]", "[1,h]"},
  {"ArgMax", "", "f32[0,3]", "ArgMax node 'n': data: axis 0 has no elements (data f32[0,3])"},
  {"ArgMax", "", "f32[0,0]", "[1,0]"})

TEST_OF(extents_that_depend_on_data_are_bounded,
  {"NonZero", "", "f32[2,3]", "[2,<=6]"},
  {"NonZero", "", "f32[]", "[0,<=1]"},
  {"NonZero", "", "f32[2,h]", "[2,<=h*2]"},
  {"NonZero", "", "f32[...]", "[?,<=?]"},
  {"Compress", "axis=1", "f32[2,5] bool[3]", "[2,<=3]"},
  {"Compress", "", "f32[2,5] bool[30]", "[<=10]"},
  {"Compress", "axis=0", "f32[n,5] bool[n]", "[<=n,5]"},
  {"Compress", "axis=0", "f32[3,5] bool[3,1]", "Compress node 'n': condition: wants rank 1, not 2 (input f32[3,5], condition bool[3,1])"},
  {"Unique/4", "", "f32[2,h]", "[<=h*2] [<=h*2] [h*2] [<=h*2]"},
  {"Unique/4", "", "f32[...]", "[<=?] [<=?] [?] [<=?]"},
  {"Unique/4", "axis=-1", "i32[2,5]", "[2,<=5] [<=5] [5] [<=5]"},
  {"Unique/4", "axis=0", "i32[n,0]", "[<=n,0] [<=n] [n] [<=n]"},
  {"Unique/4", "axis=2", "f32[3,5]", "Unique node 'n': axis 2 is out of range for rank 2 (X f32[3,5])"},
  {"NonMaxSuppression", "", "f32[2,50,4] f32[2,3,50] i64[]{10}", "[<=60,3]"},
  {"NonMaxSuppression", "", "f32[2,5,4] f32[2,3,5] i64{10}", "[<=30,3]"},
  {"NonMaxSuppression", "", "f32[2,5,4] f32[2,3,5]", "[<=0,3]"},
  {"NonMaxSuppression", "", "f32[2,5,4] f32[2,3,5] i64[]{-1}", "[<=0,3]"},
  {"NonMaxSuppression", "", "f32[1,0,4] f32[1,1,0] i64[]{100}", "[<=0,3]"},
  {"NonMaxSuppression", "", "f32[1,s,4] f32[1,c,s] i64[]{7}", "[<=c*min(s, 7),3]"},
  {"NonMaxSuppression", "", "f32[1,5,4] f32[1,1,6] i64[]{7}", "NonMaxSuppression node 'n': scores: the numbers of boxes and of scores must agree: 5 and 6 (boxes f32[1,5,4], scores f32[1,1,6], max_output_boxes_per_class i64[]={7})"},
  {"NonMaxSuppression", "", "f32[1,5,5] f32[1,1,5]", "NonMaxSuppression node 'n': boxes: the last extent and 4 must agree: 5 and 4 (boxes f32[1,5,5], scores f32[1,1,5])"},
  {"TopK/2", "axis=0", "f32[5,h] i64{2}", "[2,h] [2,h]"},
  {"TopK/2", "", "f32[5,0] i64{0}", "[5,0] [5,0]"},
  {"TopK/2", "", "f32[h] i64{k}", "[k] [k]"},
  {"TopK/2", "at_most=1", "f32[5] i64{6}", "[5] [5]"},
  {"TopK/2", "at_most=1", "f32[2,5] i64{3}", "[2,3] [2,3]"},
  {"TopK/2", "", "f32[5] i64{6}", "TopK node 'n': K: k is 6, axis 0 has 5 elements (X f32[5], K i64[1]={6})"},
  {"TopK/2", "", "f32[5] i64{-1}", "TopK node 'n': K: k is -1 (X f32[5], K i64[1]={-1})"},
  {"TopK/2", "", "f32[] i64{1}", "TopK node 'n': axis -1 is out of range for rank 0 (X f32[], K i64[1]={1})"})

TEST_OF(matrix_products,
  {"MatMul", "", "f32[2,3] f32[3,4]", "[2,4]"},
  {"MatMul", "", "f32[3] f32[3,4]", "[4]"},
  {"MatMul", "", "f32[2,3] f32[3]", "[2]"},
  {"MatMul", "", "f32[3] f32[3]", "[]"},
  {"MatMul", "", "f32[5,1,2,3] f32[7,3,4]", "[5,7,2,4]"},
  {"MatMul", "", "f32[5,2,3] f32[3]", "[5,2]"},
  {"MatMul", "", "f32[n,0] f32[0,4] f32[4]", "[n,4]"},
  {"MatMul", "", "f32[n,h] f32[h,m]", "[n,m]"},
  {"MatMul", "", "f32[2,3] f32[4,5]", "MatMul node 'n': B: the inner extents must agree: 3 and 4 (A f32[2,3], B f32[4,5])"},
  {"MatMul", "", "f32[2,3] f32[]", "MatMul node 'n': B: wants rank 1 or more, not 0 (A f32[2,3], B f32[])"},
  {"MatMul", "", "f32[2,2,3] f32[3,3,4]", "MatMul node 'n': B: cannot broadcast [2] with [3] (A f32[2,2,3], B f32[3,3,4])"},
  {"MatMul", "", "f32[2,3] f32[3,4] f32[5]", "MatMul node 'n': bias: cannot broadcast [5] to [2,4] (A f32[2,3], B f32[3,4], bias f32[5])"},
  {"MatMul", "packed=(3,4)", "f32[n,2,3] f32[48]", "[n,2,4]"},
  {"MatMul", "packed=(4,3)", "f32[n,2,3] f32[64]", "MatMul node 'n': B: the inner extents must agree: 3 and 4 (A f32[n,2,3], B f32[4,3])"},
  {"MatMul", "packed=(3,4)", "f32[n,2,3] f32[3,16]", "MatMul node 'n': B: weights are not packed as attribute packed says (A f32[n,2,3], B f32[3,16])"},
  {"Gemm", "transB=1 packed=(91,1024)", "f32[n,1024] f32[98304] f32[91]", "[n,91]"},
  {"Gemm", "transB=1", "f32[n,1024] f32[91,1024] f32[91]", "[n,91]"},
  {"Gemm", "transA=1", "f32[3,2] f32[3,4]", "[2,4]"},
  {"Gemm", "", "f32[2,3] f32[3,4] f32[2,1]", "[2,4]"},
  {"Gemm", "", "f32[2,3] f32[4,5]", "Gemm node 'n': B: the inner extents must agree: 3 and 4 (A f32[2,3], B f32[4,5])"},
  {"Gemm", "", "f32[2,3] f32[3,4] f32[3]", "Gemm node 'n': C: cannot broadcast [3] to [2,4] (A f32[2,3], B f32[3,4], C f32[3])"},
  {"Gemm", "", "f32[2,3,4] f32[4,5]", "Gemm node 'n': A: wants rank 2, not 3 (A f32[2,3,4], B f32[4,5])"})

TEST_OF(windows,
  {"Conv", "pads=(3,3,3,3) strides=(2,2)", "f32[1,3,224,225] f32[64,3,7,7]", "[1,64,112,113]"},
  {"Conv", "", "f32[2,4,9] f32[6,2,3]", "Conv node 'n': W: the channels of X and of W times group must agree: 4 and 2 (X f32[2,4,9], W f32[6,2,3])"},
  {"Conv", "group=2 dilations=(2)", "f32[2,4,9] f32[6,2,3]", "[2,6,5]"},
  {"Conv", "group=4", "f32[2,4,9] f32[6,1,3]", "Conv node 'n': W: 6 output channels in 4 groups (X f32[2,4,9], W f32[6,1,3])"},
  {"Conv", "auto_pad=SAME_UPPER strides=(2,3)", "f32[1,1,5,7] f32[1,1,3,3]", "[1,1,3,3]"},
  {"Conv", "auto_pad=VALID", "f32[1,1,5,7] f32[1,1,3,3]", "[1,1,3,5]"},
  {"Conv", "", "f32[0,1,5,7] f32[1,1,3,3]", "[0,1,3,5]"},
  {"Conv", "", "f32[1,1,0,7] f32[1,1,3,3]", "[1,1,0,5]"},
  {"Conv", "", "f32[1,1,2,7] f32[1,1,3,3]", "Conv node 'n': X: no window fits extent 2 of axis 2 (X f32[1,1,2,7], W f32[1,1,3,3])"},
  {"Conv", "kernel_shape=(3,2)", "f32[1,1,5,7] f32[1,1,3,3]", "Conv node 'n': W: the extents of W and kernel_shape must agree: 3 and 2 (X f32[1,1,5,7], W f32[1,1,3,3])"},
  {"Conv", "strides=(0,1)", "f32[1,1,5,7] f32[1,1,3,3]", "Conv node 'n': attribute strides has the number 0 (X f32[1,1,5,7], W f32[1,1,3,3])"},
  {"Conv", "pads=(1,1)", "f32[1,1,5,7] f32[1,1,3,3]", "Conv node 'n': attribute pads has 2 numbers where 4 are wanted (X f32[1,1,5,7], W f32[1,1,3,3])"},
  {"Conv", "", "f32[1,1,5,7] f32[1,1,3]", "Conv node 'n': W: wants rank 4, not 3 (X f32[1,1,5,7], W f32[1,1,3])"},
  {"Conv", "", "f32[5,7] f32[1,1]", "Conv node 'n': X: wants rank 3 or more, not 2 (X f32[5,7], W f32[1,1])"},
  {"Conv", "pads=(3,3,3,3) strides=(2,2)", "f32[n,3,h,w] f32[64,3,7,7]", "[n,64,floor((h + 1)/2),floor((w + 1)/2)]"},
  {"Conv", "pads=(1,1,1,1)", "f32[n,?,h,w] f32[8,3,3,3] - f32[n,8,h,w]", "[n,8,h,w]"},
  {"Conv", "pads=(-1,0,1,-2)", "f32[1,3,8,9] f32[8,3,3,3]", "[1,8,6,5]"},
  {"Conv", "pads=(-1,-1,-1,-1)", "f32[n,3,h,w] f32[8,3,1,1]", "[n,8,max(h - 2, 0),max(w - 2, 0)]"},
  {"Conv", "", "f32[1,1,h] f32[1,1,3]", "[1,1,max(h - 2, 0)]"},
  {"Conv", "pads=(3,3,3,3) strides=(2,2) channels_last=1 packed=(60,3,7,7)", "f32[n,h,224,3] f32[9408]", "[n,floor((h + 1)/2),112,60]"},
  {"Conv", "group=8 channels_last=1 packed=(8,1,3,3)", "f32[1,5,7,8] f32[72]", "[1,3,5,8]"},
  {"Conv", "channels_last=1 packed=(8,4,3,3)", "f32[1,5,7,4] f32[288]", "Conv node 'n': W: weights are not packed as attribute packed says (X f32[1,5,7,4], W f32[288])"},
  {"Conv", "packed=(16,4,3,3)", "f32[1,4,5,7] f32[576]", "Conv node 'n': W: weights are not packed as attribute packed says (X f32[1,4,5,7], W f32[576])"},
  {"Conv", "channels_last=1 packed=(16,4,3)", "f32[1,5,7,4] f32[192]", "Conv node 'n': W: wants rank 4, not 3 (X f32[1,5,7,4], W f32[16,4,3])"},
  {"Conv", "channels_last=1 packed=(9223372036854775807,4,1,1)", "f32[1,5,7,4] f32[192]", "Conv node 'n': W: weights are not packed as attribute packed says (X f32[1,5,7,4], W f32[192])"},
  {"ConvTranspose", "strides=(2,2) channels_last=1 packed=(4,8,2,2)", "f32[n,h,14,4] f32[256]", "[n,h*2,28,8]"},
  {"ConvTranspose", "strides=(2,2)", "f32[n,4,h,14] f32[4,8,2,2]", "[n,8,h*2,28]"},
  {"ConvTranspose", "strides=(3,2) output_padding=(1,1) pads=(1,0,1,0) group=2", "f32[1,4,5,5] f32[4,2,3,3]", "[1,4,14,12]"},
  {"ConvTranspose", "auto_pad=SAME_LOWER strides=(2,2)", "f32[1,1,3,3] f32[1,2,3,3]", "[1,2,6,6]"},
  {"ConvTranspose", "output_shape=(10,8) strides=(3,2)", "f32[1,1,3,3] f32[1,2,3,3]", "[1,2,10,8]"},
  {"ConvTranspose", "pads=(-1,-2)", "f32[1,1,3] f32[1,2,3]", "[1,2,8]"},
  {"ConvTranspose", "pads=(9,9)", "f32[1,1,3] f32[1,2,3]", "ConvTranspose node 'n': X: pads leave nothing of axis 2: -13 (X f32[1,1,3], W f32[1,2,3])"},
  {"ConvTranspose", "", "f32[1,3,3] f32[1,2,3]", "ConvTranspose node 'n': W: the channels of X and of W must agree: 3 and 1 (X f32[1,3,3], W f32[1,2,3])"},
  {"MaxPool", "kernel_shape=(3,3) strides=(2,2) pads=(1,1,1,1)", "f32[1,4,h,7]", "[1,4,floor((h + 1)/2),4]"},
  {"MaxPool", "kernel_shape=(3,3) strides=(2,2) ceil_mode=1", "f32[1,1,4,4]", "[1,1,2,2]"},
  {"MaxPool", "kernel_shape=(1,1) strides=(2,2) ceil_mode=1", "f32[1,1,2,2]", "[1,1,1,1]"},
  {"MaxPool/2", "kernel_shape=(2)", "f32[1,1,8]", "[1,1,7] [1,1,7]"},
  {"MaxPool", "kernel_shape=(3,3) pads=(0,0,-1,0)", "f32[1,4,9,7]", "MaxPool node 'n': attribute pads has the number -1 (X f32[1,4,9,7])"},
  {"AveragePool", "kernel_shape=(3) strides=(3) ceil_mode=1 pads=(1,1)", "f32[1,1,8]", "[1,1,3]"},
  {"AveragePool", "kernel_shape=(2) auto_pad=SAME_UPPER", "f32[1,1,8]", "[1,1,8]"},
  {"AveragePool", "kernel_shape=(2) dilations=(3)", "f32[1,1,8]", "[1,1,5]"},
  {"AveragePool", "kernel_shape=(9)", "f32[1,1,8]", "[1,1,0]"},
  {"AveragePool", "kernel_shape=(4) strides=(2) auto_pad=VALID ceil_mode=1", "f32[1,1,5]", "[1,1,2]"},
  {"AveragePool", "kernel_shape=(10)", "f32[1,1,8]", "AveragePool node 'n': X: no window fits extent 8 of axis 2 (X f32[1,1,8])"},
  {"AveragePool", "kernel_shape=(2) auto_pad=SAME", "f32[1,1,8]", "AveragePool node 'n': attribute auto_pad has no meaning 'SAME' (X f32[1,1,8])"},
  {"GlobalAveragePool", "", "f32[n,256,h,w]", "[n,256,1,1]"},
  {"GlobalMaxPool", "", "f32[3]", "GlobalMaxPool node 'n': X: wants rank 2 or more, not 1 (X f32[3])"})

/* Values that no shape function reads: the operator's row alone says which are valid. */
TEST_OF(values_of_attributes,
  {"MaxPool", "kernel_shape=()", "f32[1,1,8,8]", "MaxPool node 'n': attribute kernel_shape has 0 numbers where 2 are wanted (X f32[1,1,8,8])"},
  {"LpPool", "kernel_shape=(2) p=0", "f32[1,1,8]", "LpPool node 'n': attribute p is 0 (X f32[1,1,8])"},
  {"GlobalLpPool", "p=-1", "f32[1,1,8]", "GlobalLpPool node 'n': attribute p is -1 (X f32[1,1,8])"},
  {"LpNormalization", "p=3", "f32[2,3]", "LpNormalization node 'n': attribute p is 3 (input f32[2,3])"},
  {"GroupNormalization", "num_groups=0", "f32[1,4,3] f32[4] f32[4]", "GroupNormalization node 'n': attribute num_groups is 0 (X f32[1,4,3])"},
  {"GroupNormalization", "num_groups=3", "f32[1,4,3] f32[4] f32[4]", "GroupNormalization node 'n': X: 4 channels in 3 groups (X f32[1,4,3])"},
  {"Gelu", "approximate=erf", "f32[2]", "Gelu node 'n': attribute approximate has no meaning 'erf' (X f32[2])"},
  {"BitShift", "direction=UP", "u8[2] u8[2]", "BitShift node 'n': attribute direction has no meaning 'UP' (X u8[2], Y u8[2])"},
  {"MatMul", "activation=softrelu", "f32[2,3] f32[3,4]", "MatMul node 'n': attribute activation has no meaning 'softrelu' (A f32[2,3], B f32[3,4])"},
  {"Attention", "", "f32[1,1,2,3] f32[1,1,2,3] f64[1,1,2,3] - f32[1,1,4,3] f32[1,1,4,3]", "Attention node 'n': past_value: is f32 where V is f64 (Q f32[1,1,2,3], K f32[1,1,2,3], V f64[1,1,2,3], past_key f32[1,1,4,3], past_value f32[1,1,4,3])"},
  {"Attention", "qk_matmul_output_mode=4", "f32[1,1,2,3] f32[1,1,2,3] f32[1,1,2,3]", "Attention node 'n': attribute qk_matmul_output_mode is 4 (Q f32[1,1,2,3], K f32[1,1,2,3], V f32[1,1,2,3])"},
  {"RoiAlign", "mode=min", "f32[1,2,3,4] f32[6,4] i64[6]", "RoiAlign node 'n': attribute mode has no meaning 'min' (X f32[1,2,3,4], rois f32[6,4])"},
  {"Resize", "mode=bicubic", "f32[1] - - i64{7}", "Resize node 'n': attribute mode has no meaning 'bicubic' (X f32[1], sizes i64[1]={7})"},
  {"Resize", "nearest_mode=round", "f32[1] - - i64{7}", "Resize node 'n': attribute nearest_mode has no meaning 'round' (X f32[1], sizes i64[1]={7})"},
  {"Resize", "coordinate_transformation_mode=half", "f32[1] - - i64{7}", "Resize node 'n': attribute coordinate_transformation_mode has no meaning 'half' (X f32[1], sizes i64[1]={7})"},
  {"Conv", "strides=(2147483648)", "f32[1,1,8] f32[1,1,3]", "Conv node 'n': attribute strides has the number 2147483648 (X f32[1,1,8], W f32[1,1,3])"})

TEST_OF(normalisations,
  {"BatchNormalization", "", "f32[n,8,h,w] f32[8] f32[8] f32[8] f32[8]", "[n,8,h,w]"},
  {"BatchNormalization/3", "training_mode=1", "f32[2,8,3] f32[8] f32[8] f64[8] f64[8]", "[2,8,3] [8] [8]"},
  {"BatchNormalization", "", "f32[2,8,3] f32[7] f32[8] f32[8] f32[8]", "BatchNormalization node 'n': scale: the numbers of channels must agree: 8 and 7 (X f32[2,8,3], scale f32[7], input_mean f32[8])"},
  {"BatchNormalization", "", "f32[2,8,3] f32[8] f64[8] f32[8] f32[8]", "BatchNormalization node 'n': B: is f64, not f32 (X f32[2,8,3], scale f32[8], input_mean f32[8])"},
  {"InstanceNormalization", "", "f32[2,8,h] f32[8] f32[8]", "[2,8,h]"},
  {"LayerNormalization/3", "", "f32[2,n,768] f32[768]", "[2,n,768] [2,n,1] [2,n,1]"},
  {"LayerNormalization/3", "axis=1 stash_type=2", "f32[2,3,4] f32[12]", "[2,3,4] [2,1,1] [2,1,1]"},
  {"LayerNormalization", "axis=3", "f32[2,3,4] f32[12]", "LayerNormalization node 'n': axis 3 is out of range for rank 3 (X f32[2,3,4])"},
  {"Softmax", "", "f32[2,h]", "[2,h]"},
  {"Softmax", "axis=2", "f32[2,3]", "Softmax node 'n': axis 2 is out of range for rank 2 (input f32[2,3])"},
  {"LogSoftmax", "axis=-2", "f32[2,3]", "[2,3]"})

TEST_OF(recurrent_cells,
  {"RNN/2", "", "f32[t,n,3] f32[1,5,3] f32[1,5,5]", "[t,1,n,5] [1,n,5]"},
  {"RNN/2", "layout=1", "f32[n,t,3] f32[1,5,3] f32[1,5,5]", "[n,t,1,5] [n,1,5]"},
  {"GRU/2", "direction=bidirectional hidden_size=5", "f32[t,?,3] f32[2,15,3] f32[2,15,5] f32[2,30] i32[n] f32[2,n,5]", "[t,2,n,5] [2,n,5]"},
  {"GRU/2", "", "f32[t,?,3] f32[1,15,3] f32[1,15,5] - i32[4]", "[t,1,4,5] [1,4,5]"},
  {"LSTM/3", "direction=reverse", "f32[0,0,3] f32[1,h,3] f32[1,h,5] - - f32[1,0,5] - f32[1,15]", "[0,1,0,5] [1,0,5] [1,0,5]"},
  {"LSTM/3", "layout=1 direction=bidirectional", "f32[n,t,3] f32[2,20,3] f32[2,20,5] - - f32[n,2,5] f32[n,2,5]", "[n,t,2,5] [n,2,5] [n,2,5]"},
  {"LSTM", "", "f32[4,n,3] f32[...] f32[1,8,2]", "[...]"},
  {"LSTM", "", "f32[4,2,3] f32[1,8,4] f32[1,8,2]", "LSTM node 'n': W: the features must agree: 3 and 4 (X f32[4,2,3], W f32[1,8,4], R f32[1,8,2])"},
  {"LSTM", "", "f32[4,2,3] f32[1,6,3] f32[1,8,2]", "LSTM node 'n': W: the gates times hidden_size must agree: 8 and 6 (X f32[4,2,3], W f32[1,6,3], R f32[1,8,2])"},
  {"LSTM", "", "f32[4,2,3] f32[2,8,3] f32[2,8,2]", "LSTM node 'n': W: the directions must agree: 1 and 2 (X f32[4,2,3], W f32[2,8,3], R f32[2,8,2])"},
  {"GRU", "hidden_size=3", "f32[4,2,3] f32[1,6,3] f32[1,6,2]", "GRU node 'n': R: the extents of R and hidden_size must agree: 2 and 3 (X f32[4,2,3], W f32[1,6,3], R f32[1,6,2])"},
  {"GRU", "", "f32[4,2,3] f32[1,6,3] f32[1,6,2] f32[1,6]", "GRU node 'n': B: twice the gates times hidden_size must agree: 12 and 6 (X f32[4,2,3], W f32[1,6,3], R f32[1,6,2], B f32[1,6])"},
  {"RNN", "", "f32[4,2,3] f32[1,2,3] f32[1,2,2] - i32[3]", "RNN node 'n': sequence_lens: the numbers of sequences must agree: 2 and 3 (X f32[4,2,3], W f32[1,2,3], R f32[1,2,2], sequence_lens i32[3])"},
  {"RNN", "", "f32[4,2,3] f32[1,2,3] f32[1,2,2] - - f32[1,3,2]", "RNN node 'n': initial_h: the numbers of sequences must agree: 2 and 3 (X f32[4,2,3], W f32[1,2,3], R f32[1,2,2], initial_h f32[1,3,2])"},
  {"RNN", "", "f32[4,2,0] f32[1,2,0] f32[1,2,2]", "RNN node 'n': X: has no features (X f32[4,2,0], W f32[1,2,0], R f32[1,2,2])"},
  {"RNN", "direction=sideways", "f32[4,2,3] f32[1,2,3] f32[1,2,2]", "RNN node 'n': attribute direction has no meaning 'sideways' (X f32[4,2,3], W f32[1,2,3], R f32[1,2,2])"},
  {"RNN", "layout=2", "f32[4,2,3] f32[1,2,3] f32[1,2,2]", "RNN node 'n': attribute layout is 2 (X f32[4,2,3], W f32[1,2,3], R f32[1,2,2])"})

TEST_OF(images_and_regions,
  {"Resize", "", "f32[1,3,4,5] - f32{1,1,2,2.5}", "[1,3,8,12]"},
  {"Resize", "", "f32[1,10] - f32{1,0.7}", "[1,7]"},
  {"Resize", "", "f32[1,3,h,w] - f32{1,1,2,0.5}", "[1,3,h*2,floor(w/2)]"},
  {"Resize", "", "f32[1,3,h,w] - f32{1,1,0.7,1}", "[1,3,?,w]"},
  {"Resize", "", "f32[1,3,4,5] - f32{} i64{1,3,7,9}", "[1,3,7,9]"},
  {"Resize", "axes=(2,3)", "f32[1,3,4,5] - - i64{7,9}", "[1,3,7,9]"},
  {"Resize", "axes=(2,3) keep_aspect_ratio_policy=not_larger", "f32[1,1,2,4] - - i64{7,8}", "[1,1,4,8]"},
  {"Resize", "axes=(2,3) keep_aspect_ratio_policy=not_smaller", "f32[1,1,2,4] - - i64{7,8}", "[1,1,7,14]"},
  {"Resize", "keep_aspect_ratio_policy=sideways", "f32[1] - - i64{7}", "Resize node 'n': attribute keep_aspect_ratio_policy has no meaning 'sideways' (X f32[1], sizes i64[1]={7})"},
  {"Resize", "coordinate_transformation_mode=tf_crop_and_resize", "f32[10,10] f32{0,0.2,1,0.7} f32{1,1}", "[10,5]"},
  {"Resize", "", "f32[1,3,h,w] - - i64{1,3,a,b}", "[1,3,a,b]"},
  {"Resize", "", "f32[1,3,h,w] - f32[?]", "[?,?,?,?]"},
  {"Resize", "", "f32[1,3] - f32{1,2} i64{1,6}", "Resize node 'n': sizes: both scales and sizes have elements (X f32[1,3], scales f32[2]={1,2}, sizes i64[2]={1,6})"},
  {"Resize", "", "f32[1,3]", "Resize node 'n': neither scales nor sizes have elements (X f32[1,3])"},
  {"Resize", "", "f32[1,3] - f32{1,0}", "Resize node 'n': scales: scale 0 (X f32[1,3], scales f32[2]={1,0})"},
  {"Resize", "", "f32[1,3] - f32{1}", "Resize node 'n': scales: has 1 elements where 2 are wanted (X f32[1,3], scales f32[1]={1})"},
  {"Resize", "", "f32[1,0] - - i64{1,6}", "Resize node 'n': X: cannot be resized: it has no elements (X f32[1,0], sizes i64[2]={1,6})"},
  {"Resize", "", "f32[0,3] - f32{1,2}", "[0,6]"},
  {"Upsample", "", "f32[1,1,2,2] - f32{1,1,2,3}", "[1,1,4,6]"},
  {"GridSample", "", "f32[n,8,h,w] f32[n,k,4,2]", "[n,8,k,4]"},
  {"GridSample", "channels_last=1", "f32[2,5,6,8] f32[2,k,4,2]", "[2,k,4,8]"},
  {"GridSample", "mode=nearest", "f32[n,c,d,h,w] f16[m,1,2,3,3]", "[n,c,1,2,3]"},
  {"GridSample", "", "f64[1,2,9] f32[1,4,1]", "[1,2,4]"},
  {"GridSample", "", "f32[1,2,3,4] f32[1,5,6,3]", "GridSample node 'n': grid: the last extent and the number of X's spatial axes must agree: 3 and 2 (X f32[1,2,3,4], grid f32[1,5,6,3])"},
  {"GridSample", "", "f32[1,2,3,4] f32[2,5,6,2]", "GridSample node 'n': grid: the batches of X and of the grid must agree: 1 and 2 (X f32[1,2,3,4], grid f32[2,5,6,2])"},
  {"GridSample", "", "f32[1,2] f32[1,0]", "GridSample node 'n': X: wants rank 3 or more, not 2 (X f32[1,2], grid f32[1,0])"},
  {"GridSample", "mode=cube", "f32[1,2,3,4] f32[1,5,6,2]", "GridSample node 'n': attribute mode has no meaning 'cube' (X f32[1,2,3,4], grid f32[1,5,6,2])"},
  {"RoiAlign", "output_height=7 output_width=5", "f32[1,256,h,w] f32[n,4] i64[n]", "[n,256,7,5]"},
  {"RoiAlign", "", "f32[1,2,3,4] f32[0,4] i64[0]", "[0,2,1,1]"},
  {"RoiAlign", "", "f32[1,2,3,4] f32[6,5] i64[6]", "RoiAlign node 'n': rois: the last extent and 4 must agree: 5 and 4 (X f32[1,2,3,4], rois f32[6,5])"},
  {"RoiAlign", "output_height=0", "f32[1,2,3,4] f32[6,4] i64[6]", "RoiAlign node 'n': attribute output_height is 0 (X f32[1,2,3,4], rois f32[6,4])"},
  {"MultiLevelRoiAlign", "output_height=7 output_width=5 spatial_scales=(1,2)", "f32[n,4] i64[n] i64[n] f32[1,8,h,w] f32[1,8,?,?]", "[n,8,7,5]"},
  {"MultiLevelRoiAlign", "spatial_scales=(1)", "f32[n,4] i64[n] i64[n] f32[1,c,h,w]", "[n,c,1,1]"},
  {"MultiLevelRoiAlign", "spatial_scales=(1)", "f32[6,4] i64[6] i64[6] f32[1,8,3,4] f32[1,8,3,4]", "MultiLevelRoiAlign node 'n': 2 feature maps with 1 scales (rois f32[6,4], X[0] f32[1,8,3,4], X[1] f32[1,8,3,4])"},
  {"MultiLevelRoiAlign", "spatial_scales=(1,1)", "f32[6,4] i64[6] i64[6] f32[1,8,3,4] f32[1,9,3,4]", "MultiLevelRoiAlign node 'n': X[1]: channels of the maps must agree: 9 and 8 (rois f32[6,4], X[0] f32[1,8,3,4], X[1] f32[1,9,3,4])"},
  {"Keypoints/2", "", "f32[k,17,56,56] f32[k] f32[k] f32[k] f32[k] f32[k] f32[k]", "[k,3,17] [k,17]"},
  {"Keypoints/2", "channels_last=1", "f32[k,56,40,17] f32[k] f32[k] f32[k] f32[k] f32[k] f32[k]", "[k,3,17] [k,17]"},
  {"Keypoints", "", "f32[17,56,56] f32[k] f32[k] f32[k] f32[k] f32[k] f32[k]", "Keypoints node 'n': maps: wants rank 4, not 3 (maps f32[17,56,56])"},
  {"RotaryEmbedding", "", "f32[b,4,t,16] f32[b,t,8] f32[b,t,8]", "[b,4,t,16]"},
  {"RotaryEmbedding", "num_heads=4", "f32[b,t,64] f32[p,8] f32[p,8] i64[b,t]", "[b,t,64]"},
  {"RotaryEmbedding", "", "f32[2,3,64] f32[5,8] f32[5,8] i64[2,3]", "RotaryEmbedding node 'n': X: of rank 3 needs its number of heads as an attribute (X f32[2,3,64], cos_cache f32[5,8], sin_cache f32[5,8], position_ids i64[2,3])"},
  {"TensorScatter", "", "f32[b,4,s,16] f32[b,4,t,16] i64[b]", "[b,4,s,16]"},
  {"TensorScatter", "axis=1 mode=circular", "i8[2,9] i8[2,3]", "[2,9]"},
  {"TensorScatter", "axis=1", "i8[2,3] i8[2,9]", "TensorScatter node 'n': update: 9 rows for a cache of 3 (past_cache i8[2,3], update i8[2,9])"},
  {"Col2Im", "", "f32[1,20,12] i64{5,5} i64{2,2}", "Col2Im node 'n': input: the columns and the windows that fit the image must agree: 12 and 16 (input f32[1,20,12], image_shape i64[2]={5,5}, block_shape i64[2]={2,2})"},
  {"Col2Im", "", "f32[1,20,16] i64{5,5} i64{2,2}", "[1,5,5,5]"},
  {"Col2Im", "strides=(2,2) pads=(0,1,1,0) dilations=(1,2)", "i8[n,12,3] i64{5,4} i64{2,3}", "[n,2,5,4]"},
  {"Col2Im", "", "f32[n,c,l] i64{h,w} i64{2,2}", "[n,floor(c/4),h,w]"},
  {"Col2Im", "", "f32[n,64,l] i64{?,w} i64{2,k}", "[n,?,?,w]"},
  {"Col2Im", "", "f32[n,64,l] i64[2]{?,?} i64{2,2}", "[n,16,?,?]"},
  {"Col2Im", "", "f32[n,64,l] i64[?] i64{4,4}", "[n,4,?,?]"},
  {"Col2Im", "", "f32[n,64,l] i64[?] i64[?]", "[...]"},
  {"Col2Im", "", "f32[0,4,1] i64{2,2} i64{2,2}", "[0,1,2,2]"},
  {"Col2Im", "", "f32[1,4,0] i64{1,1} i64{2,2}", "[1,1,1,1]"},
  {"Col2Im", "", "f32[4,1] i64{2,2} i64{2,2}", "Col2Im node 'n': input: wants rank 3, not 2 (input f32[4,1], image_shape i64[2]={2,2}, block_shape i64[2]={2,2})"},
  {"Col2Im", "", "f32[1,4,1] i64{2,2} i64{2}", "Col2Im node 'n': block_shape: has 1 numbers where image_shape has 2 (input f32[1,4,1], image_shape i64[2]={2,2}, block_shape i64[1]={2})"},
  {"Col2Im", "", "f32[1,4,1] i64{} i64{}", "Col2Im node 'n': image_shape: wants one number for each axis of an image, not none (input f32[1,4,1], image_shape i64[0], block_shape i64[0])"},
  {"Col2Im", "", "f32[1,4,1] i64{2,-2} i64{2,2}", "Col2Im node 'n': image_shape: extent -2 of axis 3 (input f32[1,4,1], image_shape i64[2]={2,-2}, block_shape i64[2]={2,2})"},
  {"Col2Im", "", "f32[1,4,1] i64{2,2} i64{0,2}", "Col2Im node 'n': block_shape: extent 0 of axis 2 (input f32[1,4,1], image_shape i64[2]={2,2}, block_shape i64[2]={0,2})"},
  {"Col2Im", "", "f32[1,6,1] i64{2,2} i64{2,2}", "Col2Im node 'n': input: 6 channels in blocks of 4 elements (input f32[1,6,1], image_shape i64[2]={2,2}, block_shape i64[2]={2,2})"},
  {"Col2Im", "pads=(1,1)", "f32[1,4,1] i64{2,2} i64{2,2}", "Col2Im node 'n': attribute pads has 2 numbers where 4 are wanted (input f32[1,4,1], image_shape i64[2]={2,2}, block_shape i64[2]={2,2})"},
  {"Col2Im", "pads=(0,0,-1,0)", "f32[1,4,1] i64{2,2} i64{2,2}", "Col2Im node 'n': attribute pads has the number -1 (input f32[1,4,1], image_shape i64[2]={2,2}, block_shape i64[2]={2,2})"},
  {"Col2Im", "", "f32[1,4,1] i64{1,1,1,1,1,1,1} i64{1,1,1,1,1,1,1}", "Col2Im node 'n': gives rank 9; the largest is 8 (input f32[1,4,1], image_shape i64[7]={1,1,1,1,1,1,1}, block_shape i64[7]={1,1,1,1,1,1,1})"},
  {"Col2Im", "", "f32[1,4,1] i64{4000000000,4000000000} i64{4000000000,4000000000}", "Col2Im node 'n': extents overflow: 4000000000 * 4000000000 (input f32[1,4,1], image_shape i64[2]={4000000000,4000000000}, block_shape i64[2]={4000000000,4000000000})"},
  {"PasteMasks", "", "f32[k,1,28,28] i64[k,4] i64[1]{h} i64[]{w}", "[k,h,w]"},
  {"PasteMasks", "", "f32[3,1,28,28] i64[3,4] i64[1]{480} i64[1]{640}", "[3,480,640]"},
  {"PasteMasks", "", "f32[3,2,28,28] i64[3,4] i64[1]{480} i64[1]{640}", "PasteMasks node 'n': masks: the channels and 1 must agree: 2 and 1 (masks f32[3,2,28,28], boxes i64[3,4], height i64[1]={480}, width i64[1]={640})"},
  {"PasteMasks", "", "f32[3,1,8,8] i64[2,4] i64[1]{4} i64[1]{6}", "PasteMasks node 'n': boxes: the numbers of masks and of boxes must agree: 3 and 2 (masks f32[3,1,8,8], boxes i64[2,4], height i64[1]={4}, width i64[1]={6})"},
  {"PasteMasks", "", "f32[3,1,8,8] i64[3,4] i64[1]{4} i64[1]{-6}", "PasteMasks node 'n': width: -6 pixels (masks f32[3,1,8,8], boxes i64[3,4], height i64[1]={4}, width i64[1]={-6})"})
/* clang-format on */

START_TEST(control_flow_has_no_shape_function) {
  ck_assert_str_eq(infer("If", "", "bool[]{1}"), "If node 'n': control flow has no shape function (cond bool[]={1})");
}
END_TEST

START_TEST(dtypes_follow_the_row_or_the_function) {
  static const struct {
    const char *op, *attrs, *inputs;
    reed_dtype dtype[3];
  } cases[] = {{"Add", "", "f16[2] f16[2]", {REED_F16}},
               {"Equal", "", "i64[2] i64[2]", {REED_BOOL}},
               {"Where", "", "bool[2] i32[2] i32[2]", {REED_I32}},
               {"Cast", "to=8", "f32[2]", {REED_I64}},
               {"ConstantOfShape", "", "i64{2}", {REED_F32}},
               {"ConstantOfShape", "value=tensor:u8", "i64{2}", {REED_U8}},
               {"TopK/2", "", "f64[2] i64{1}", {REED_F64, REED_I64}},
               {"Dropout/2", "", "f16[2]", {REED_F16, REED_BOOL}},
               {"BatchNormalization/3",
                "training_mode=1",
                "f16[2,8,3] f32[8] f32[8] f64[8] f64[8]",
                {REED_F16, REED_F64, REED_F64}},
               {"LayerNormalization/3", "", "f16[2,3] f16[3]", {REED_F16, REED_F32, REED_F32}},
               {"LayerNormalization/3", "stash_type=2", "f16[2,3] f16[3]", {REED_F16, REED_F64, REED_F64}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    inference run;
    infer_begin(&run, cases[i].op, cases[i].attrs, cases[i].inputs);
    ck_assert_int_eq(run.status, REED_OK);
    for (int32_t k = 0; k < run.n_outputs; k++) ck_assert_int_eq(run.outputs[k].dtype, cases[i].dtype[k]);
    infer_end(&run);
  }
}
END_TEST

START_TEST(a_diagnosis_names_operator_node_and_input) {
  inference run;
  infer_begin(&run, "Gemm", "", "f32[2,3] f32[4,5]");
  ck_assert_int_eq(run.status, REED_ERROR_SHAPE);
  ck_assert_int_eq(reed_diagnosis_status(run.diagnosis), REED_ERROR_SHAPE);
  ck_assert_str_eq(reed_diagnosis_operator(run.diagnosis), "Gemm");
  ck_assert_str_eq(reed_diagnosis_node(run.diagnosis), "n");
  ck_assert_str_eq(reed_diagnosis_input(run.diagnosis), "B");
  infer_end(&run);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("shape functions");
  TCase *tests = tcase_create("families");
  tcase_add_test(tests, elementwise_keeps_the_shape);
  tcase_add_test(tests, broadcasting_joins_extents);
  tcase_add_test(tests, generators_make_shapes_from_numbers);
  tcase_add_test(tests, views_keep_the_number_of_elements);
  tcase_add_test(tests, data_movement);
  tcase_add_test(tests, slices_follow_python);
  tcase_add_test(tests, indexing);
  tcase_add_test(tests, reductions);
  tcase_add_test(tests, extents_that_depend_on_data_are_bounded);
  tcase_add_test(tests, matrix_products);
  tcase_add_test(tests, windows);
  tcase_add_test(tests, values_of_attributes);
  tcase_add_test(tests, normalisations);
  tcase_add_test(tests, recurrent_cells);
  tcase_add_test(tests, images_and_regions);
  tcase_add_test(tests, control_flow_has_no_shape_function);
  tcase_add_test(tests, dtypes_follow_the_row_or_the_function);
  tcase_add_test(tests, a_diagnosis_names_operator_node_and_input);
  suite_add_tcase(suite, tests);
  return suite_run(suite);
}
