/* Operators of quantised numbers become arithmetic: the numbers of folded nodes, signs, axes and ties, and refused
 * nodes. The ONNX node cases and tests/random compare more results. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* A tensor of a case: its dtype, extents and elements, all written as doubles; dims NULL: the operand is absent. */
typedef struct operand {
  reed_dtype dtype;
  const char *dims;
  double elements[8];
} operand;

typedef struct number_case {
  const char *op, *attribute;
  int64_t value;
  operand inputs[9], result;
} number_case;

static void add_operand(onnx_build *b, const char *name, const operand *o) {
  uint64_t room[8];
  for (int i = 0; i < 8; i++) {
    switch (o->dtype) {
      case REED_F32: ((float *)room)[i] = (float)o->elements[i]; break;
      case REED_I32: ((int32_t *)room)[i] = (int32_t)o->elements[i]; break;
      case REED_U8: ((uint8_t *)room)[i] = (uint8_t)o->elements[i]; break;
      case REED_I16: ((int16_t *)room)[i] = (int16_t)o->elements[i]; break;
      default: ((int8_t *)room)[i] = (int8_t)o->elements[i]; break;
    }
  }
  build_tensor(b, name, o->dtype, o->dims, room, true);
}

static double element(const void *data, reed_dtype dtype, int64_t i) {
  switch (dtype) {
    case REED_F32: return ((const float *)data)[i];
    case REED_I32: return ((const int32_t *)data)[i];
    case REED_U8: return ((const uint8_t *)data)[i];
    case REED_I16: return ((const int16_t *)data)[i];
    default: return ((const int8_t *)data)[i];
  }
}

#define TENSOR(dtype, dims, ...) \
  { \
    REED_##dtype, dims, { __VA_ARGS__ } \
  }
#define F(dims, ...) TENSOR(F32, dims, __VA_ARGS__)
#define U(dims, ...) TENSOR(U8, dims, __VA_ARGS__)
#define I(dims, ...) TENSOR(I8, dims, __VA_ARGS__)
#define W(dims, ...) TENSOR(I32, dims, __VA_ARGS__)
#define ABSENT \
  { \
    REED_F32, NULL, { 0 } \
  }

#define MS "com.microsoft."
static const number_case cases[] = {
    /* ties go to the even number before the zero point is added; both ends are clipped */
    {"QuantizeLinear", NULL, 0, {F("6", 1, 3, 5, -1, 600, -600), F("", 2), U("", 3)}, U("6", 3, 5, 5, 3, 255, 0)},
    {"QuantizeLinear", NULL, 0, {F("4", 1, 2.5, -9, 300), F("", 1)}, U("4", 1, 2, 0, 255)},
    {"QuantizeLinear", NULL, 0, {F("4", -128, 200, -500, 9), F("", 1), I("", 1)}, I("4", -127, 127, -128, 10)},
    {"QuantizeLinear", "axis", 0, {F("2,2", 8, 8, 8, 8), F("2", 2, 4), U("2", 1, 2)}, U("2,2", 5, 5, 4, 4)},
    {"QuantizeLinear", "axis", -1, {F("2,2", 8, 8, 8, 8), F("2", 2, 4), U("2", 1, 2)}, U("2,2", 5, 4, 5, 4)},
    {"QuantizeLinear", "output_dtype", 5, {F("2", 40000, -300), F("", 1)}, TENSOR(I16, "2", 32767, -300)},
    {"QuantizeLinear", NULL, 0, {W("2", 7, -7), F("", 2), U("", 9)}, U("2", 13, 5)},
    {"DequantizeLinear", NULL, 0, {U("3", 0, 128, 255), F("", .5), U("", 128)}, F("3", -64, 0, 63.5)},
    {"DequantizeLinear", "axis", -2, {I("2,2", 1, 2, 3, 4), F("2", 2, .5), I("2", 0, 1)}, F("2,2", 2, 4, 1, 1.5)},
    {"DequantizeLinear", NULL, 0, {W("2", 16777217, -5), F("", 1), W("", 1)}, F("2", 16777216, -6)},
    {"DequantizeLinear", NULL, 0, {I("", -3), F("1", 2)}, F("", -6)},
    {"DynamicQuantizeLinear", NULL, 0, {F("4", 0, 2, -3, 1)}, U("4", 153, 255, 0, 204)},
    {"DynamicQuantizeLinear", NULL, 0, {F("2", 255, 100)}, U("2", 255, 100)},
    {"DynamicQuantizeLinear", NULL, 0, {F("2", 0, 0)}, U("2", 0, 0)},
    {"MatMulInteger", NULL, 0, {U("2,2", 255, 255, 0, 1), I("2,1", 127, 127)}, W("2,1", 64770, 127)},
    {"MatMulInteger",
     NULL,
     0,
     {U("2,2", 3, 4, 3, 4), U("2,2", 5, 6, 7, 8), U("2", 1, 2), U("2", 5, 6)},
     W("2,2", 6, 6, 4, 4)},
    {"ConvInteger", "group", 1, {U("1,1,3", 2, 3, 4), U("1,1,2", 1, 2), U("", 2), U("", 1)}, W("1,1,2", 1, 2)},
    {"ConvInteger", NULL, 0, {U("1,1,2", 2, 4), I("2,1,1", 3, 5), ABSENT, I("2", 1, 2)}, W("1,2,2", 4, 8, 6, 12)},
    {"QLinearMatMul",
     NULL,
     0,
     {U("1,2", 3, 4), F("", .5), U("", 1), U("2,1", 9, 9), F("", 2), U("", 1), F("", 4), U("", 7)},
     U("1,1", 17)},
    {"QLinearConv",
     NULL,
     0,
     {U("1,1,2", 2, 4), F("", 1), U("", 0), I("2,1,1", 1, 1), F("2", 1, 2), I("2", 0, 0), F("", 2), U("", 1),
      W("2", 2, -1)},
     U("1,2,2", 3, 4, 2, 4)},
    {MS "QLinearAdd",
     NULL,
     0,
     {U("3", 1, 2, 250), F("", .5), U("", 0), U("3", 4, 4, 200), F("", .25), U("", 4), F("", .5), U("", 1)},
     U("3", 2, 3, 255)},
    {MS "QLinearMul",
     NULL,
     0,
     {I("2", 3, 4), F("", 1), I("", 1), I("", -2), F("", .5), I("", 0), F("", .5), I("", 1)},
     I("2", -3, -5)},
    {MS "QLinearSigmoid",
     NULL,
     0,
     {U("2", 128, 255), F("", 1), U("", 128), F("", .00390625), U("", 0)},
     U("2", 128, 255)},
    /* without a zero point y is as x */
    {MS "QLinearSigmoid", NULL, 0, {I("2", 0, 100), F("", 1), ABSENT, F("", .25)}, I("2", 2, 4)},
    {MS "QLinearLeakyRelu", NULL, 0, {I("2", -4, 4), F("", 1), ABSENT, F("", .01), I("", 0)}, I("2", -4, 127)},
    {MS "QLinearSoftmax", "opset", 13, {U("1,2", 7, 7), F("", 1), U("", 0), F("", .00390625)}, U("1,2", 128, 128)},
    /* 1 is a number more than there are */
    {MS "QLinearSoftmax", NULL, 0, {U("1,1", 7), F("", 1), U("", 0), F("", .00390625)}, U("1,1", 255)},
    {MS "QLinearGlobalAveragePool",
     NULL,
     0,
     {U("1,1,2,2", 1, 3, 5, 7), F("", 1), U("", 1), F("", .5), U("", 0)},
     U("1,1,1,1", 6)},
    {MS "QLinearConcat",
     "axis",
     0,
     {F("", .5), U("", 0), U("1", 2), F("", 1), U("", 0), U("1", 9), F("", .5), U("", 1)},
     U("2", 4, 8)},
    {MS "QGemm",
     "transB",
     1,
     {U("1,2", 3, 4), F("", .5), U("", 1), I("2,2", 1, 2, 3, 4), F("2", 1, 2), I("2", 0, 1), W("2", 1, -3)},
     F("1,2", 4.5, 10)},
    {MS "QGemm",
     NULL,
     0,
     {U("1,2", 3, 4), F("", .5), U("", 1), I("2,1", 1, 2), F("", 2), I("", 0), ABSENT, F("", .5), U("", 1)},
     U("1,1", 17)},
};

static void read_case(front *f, const number_case *c) {
  onnx_build *b = build_open(c->attribute && strcmp(c->attribute, "output_dtype") == 0 ? 21 : 17);
  char inputs[64] = "";
  for (int i = 0; i < 9; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    if (c->inputs[i].dims) add_operand(b, name, &c->inputs[i]);
    snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s", i ? "," : "",
             c->inputs[i].dims ? name : "");
  }
  for (size_t n = strlen(inputs); n && inputs[n - 1] == ','; n--) inputs[n - 1] = 0;
  build_node_t *n = build_node(b, c->op, inputs, "y");
  if (c->attribute) build_int(b, n, c->attribute, c->value);
  build_output(b, "y", reed_dtype_name(c->result.dtype));
  front_read(f, &b);
}

START_TEST(numbers_are_those_that_onnx_defines) {
  const number_case *c = &cases[_i];
  front f;
  read_case(&f, c);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  const ir_value *y = f.m->main->results[0];
  char type[64];
  snprintf(type, sizeof type, "%s[%s]", reed_dtype_name(c->result.dtype), c->result.dims);
  ck_assert_str_eq(front_type(&f, y), type);
  ck_assert_msg(y->data != NULL, "%s is not folded", c->op);
  reed_desc desc;
  ck_assert(ir_desc(y, &desc));
  for (int64_t i = 0; i < desc_elements(&desc); i++)
    ck_assert_msg(element(y->data, desc.dtype, i) == c->result.elements[i], "%s: element %d is %g, not %g", c->op,
                  (int)i, element(y->data, desc.dtype, i), c->result.elements[i]);
  front_fini(&f);
}
END_TEST

/* Scales and zero points that only a run knows, of a tensor whose rank the reader does not know. */
START_TEST(an_axis_is_found_when_ranks_are) {
  onnx_build *b = build_open(19);
  build_input(b, "q", "u8[n,3,h,w]");
  build_input(b, "s", "f32[3]");
  build_input(b, "z", "u8[3]");
  build_node(b, "Identity", "q", "a");
  build_node(b, "Identity", "s", "t");
  build_node(b, "Identity", "z", "o");
  build_node(b, "DequantizeLinear", "a,t,o", "x");
  build_node(b, "QuantizeLinear", "x,t,o", "y");
  build_output(b, "y", "u8");
  front f;
  front_optimize(&f, &b);
  ck_assert_str_eq(front_type(&f, f.m->main->results[0]), "u8[n,3,h,w]");
  front_fini(&f);
}
END_TEST

START_TEST(nodes_that_do_not_fit_are_refused) {
  static const struct {
    const char *op, *inputs, *outputs, *attribute, *text;
    reed_status status;
  } refused[] = {
      {"QuantizeLinear", "x", "y", NULL, "node 'y_node' (QuantizeLinear): input 1 is missing", REED_ERROR_FORMAT},
      {"QuantizeLinear", "x,s,q,q", "y", NULL, "has 4 inputs and 1 outputs, at most 3 and 1 are allowed",
       REED_ERROR_FORMAT},
      {"DynamicQuantizeLinear", "x", "y,a,b,c", NULL, "1 inputs and 4 outputs", REED_ERROR_FORMAT},
      {"QuantizeLinear", "x,s,x", "y", NULL, "quantised numbers that have not 8 or 16 bits: 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {"DequantizeLinear", "q,s", "y", "block_size", "scales of blocks: 'y_node'", REED_ERROR_UNSUPPORTED},
      {"MatMulInteger", "x,q", "y", NULL, "quantised numbers that are not whole: 'y_node'", REED_ERROR_UNSUPPORTED},
      {MS "QLinearGlobalAveragePool", "q,s,q,s,q", "y", "channels_last", "attribute 'channels_last': 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {MS "QLinearSoftmax", "q,s,q,s,q", "y", "axis", "a Softmax of opset 12 over several axes: 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {MS "QLinearConcat", "s,q,q", "y", NULL, "parts that are not numbers, scales and zero points: 'y_node'",
       REED_ERROR_UNSUPPORTED},
      {MS "QLinearAdd", "q,s,q,q,s,q", "y", NULL, "numbers without a scale: 'y_node'", REED_ERROR_UNSUPPORTED},
      {MS "QLinearMul", "q,s,q", "y", NULL, "numbers without a scale: 'y_node'", REED_ERROR_UNSUPPORTED},
      {MS "QGemm", "q,s,q,q", "y", NULL, "numbers without a scale: 'y_node'", REED_ERROR_UNSUPPORTED},
      {"ConvInteger", "q,q", "y", "slope", "attribute 'slope' of Conv: 'y_node'", REED_ERROR_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    onnx_build *b = build_open(21);
    build_input(b, "x", "f32[2]");
    build_input(b, "s", "f32[]");
    build_input(b, "q", "u8[2]");
    build_node_t *n = build_node(b, refused[i].op, refused[i].inputs, refused[i].outputs);
    if (refused[i].attribute) build_int(b, n, refused[i].attribute, 2);
    build_output(b, "y", "i32");
    front_refuses(&b, refused[i].status, refused[i].text);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_quantized");
  TCase *t = tcase_create("onnx_quantized");
  tcase_add_loop_test(t, numbers_are_those_that_onnx_defines, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(t, an_axis_is_found_when_ranks_are);
  tcase_add_test(t, nodes_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
