/* The pass pack: the weights that it packs, and the weights that it leaves alone. */
#include "ops/packed.h"
#include "tests/compiler/front.h"
#include "tests/suite.h"

typedef struct product {
  const char *what, *op, *x, *dims; /* of the weights */
  const char *ints, *numbers;       /* an attribute */
  const char *scale;                /* a float attribute, 0.5 */
  bool turned, packs; /* turned: the images have channels last, by the layout pass; packs: the weights are packed */
} product;

static const product products[] = {
    {"a matrix", "MatMul", "f32[n,4]", "4,3", .packs = true},
    {"a matrix for a batch", "MatMul", "f32[b,n,4]", "4,3", .packs = true},
    {"a matrix for a vector", "MatMul", "f32[4]", "4,3", .packs = true},
    {"a column", "MatMul", "f32[n,4]", "4"},
    {"a matrix of one column", "MatMul", "f32[n,4]", "4,1"},
    {"a matrix each", "MatMul", "f32[2,n,4]", "2,4,3"},
    {"Gemm", "Gemm", "f32[n,4]", "4,3", .packs = true},
    {"Gemm, transposed", "Gemm", "f32[n,4]", "3,4", "transB", "1", .packs = true},
    {"Gemm, one column", "Gemm", "f32[n,4]", "1,4", "transB", "1"},
    {"Gemm of a transposed A", "Gemm", "f32[4,n]", "4,3", "transA", "1"},
    {"Gemm, scaled", "Gemm", "f32[n,4]", "4,3", .scale = "alpha"},
    {"no elements", "MatMul", "f32[n,0]", "0,3"},
    {"a convolution by itself", "Conv", "f32[n,4,h,w]", "3,4,1,1"},
    {"a convolution between others", "Conv", "f32[n,4,h,w]", "4,4,3,3", "strides", "2,1", .turned = true,
     .packs = true},
    {"a depthwise one", "Conv", "f32[n,4,h,w]", "4,1,3,3", "group", "4", .turned = true, .packs = true},
    {"one of two small groups", "Conv", "f32[n,4,h,w]", "4,2,3,3", "group", "2", .turned = true, .packs = true},
    {"one that reaches far", "Conv", "f32[n,4,h,w]", "4,4,1,2", "dilations", "1,4194304", .turned = true},
    {"a transposed one, windows side by side", "ConvTranspose", "f32[n,4,h,w]", "4,4,2,2", "strides", "2,2",
     .turned = true, .packs = true},
    {"a transposed one, windows that overlap", "ConvTranspose", "f32[n,4,h,w]", "4,4,3,3", "strides", "2,2",
     .turned = true},
    {"a transposed one, apart by default", "ConvTranspose", "f32[n,4,h,w]", "4,4,2,2", .turned = true},
};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static const float numbers[5 * 4 * 3 * 3] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* x -> [Conv 1x1 ->] the product named "it" [-> Conv 1x1] -> y */
static onnx_build *build(const product *p) {
  onnx_build *b = build_open(18);
  build_input(b, "x", p->x);
  build_f32(b, "w", p->dims, numbers);
  build_f32(b, "v", "4,4,1,1", numbers);
  if (p->turned) build_node(b, "Conv", "x,v", "before");
  build_node_t *n = build_node(b, p->op, p->turned ? "before,w" : "x,w", "it");
  bool list = p->ints && p->ints[strlen(p->ints) - 1] == 's';
  if (list) build_ints(b, n, p->ints, p->numbers);
  else if (p->ints) build_int(b, n, p->ints, atoi(p->numbers));
  if (p->scale) build_float(b, n, p->scale, 0.5F);
  if (p->turned) build_node(b, "Conv", "it,v", "y");
  build_output(b, p->turned ? "y" : "it", "f32");
  return b;
}

static const ir_node *node_of_weights(const front *f, const product *p) {
  for (size_t i = 0; i < f->m->main->nodes.n; i++) {
    const ir_node *n = f->m->main->nodes.items[i];
    if (n->n_inputs > 1 && n->inputs[1] && strcmp(n->inputs[1]->name, "w") == 0) return n;
  }
  ck_abort_msg("%s: nobody reads the weights", p->what);
}

START_TEST(weights_are_packed_where_a_kernel_reads_them_so) {
  const product *p = &products[_i];
  front f;
  onnx_build *b = build(p);
  front_optimize(&f, &b);
  const ir_node *n = node_of_weights(&f, p);
  reed_attrs attrs = ir_attrs(n);
  ck_assert_msg(packed_is(n->op, &attrs) == p->packs, "%s", p->what);
  ck_assert_msg((n->inputs[1]->packed != NULL) == p->packs, "%s", p->what);
  ck_assert_int_eq(front_changes(&f, "pack") > 0, p->packs || p->turned);
  if (p->packs) {
    reed_desc desc;
    packed_order order;
    ck_assert(ir_desc(n->inputs[1], &desc) && packed_order_read(n->op, &attrs, &desc, &order));
    char text[64];
    dims_text(order.plain.rank, order.plain.dims, text, sizeof text);
    ck_assert_msg(strncmp(text + 1, p->dims, strlen(p->dims)) == 0, "%s: %s", p->what, text);
  }
  front_fini(&f);
}
END_TEST

START_TEST(weights_of_several_products_are_packed_once) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,4]");
  build_f32(b, "w", "4,4", numbers);
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "Gemm", "a,w", "b");                            /* reads the weights in MatMul's order */
  build_int(b, build_node(b, "Gemm", "b,w", "c"), "transB", 1); /* reads the weights transposed */
  build_node(b, "Mul", "c,w", "y");                             /* reads the weights unpacked */
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  const ir_node *nodes[4];
  ck_assert_uint_eq(f.m->main->nodes.n, 4);
  for (int i = 0; i < 4; i++) nodes[i] = f.m->main->nodes.items[i];
  ck_assert_ptr_eq(nodes[0]->inputs[1], nodes[1]->inputs[1]);
  ck_assert_ptr_ne(nodes[0]->inputs[1], nodes[2]->inputs[1]);
  ck_assert_ptr_nonnull(nodes[2]->inputs[1]->packed);
  ck_assert_ptr_null(nodes[3]->inputs[1]->packed);
  ck_assert_int_eq(front_changes(&f, "pack"), 3 + 2);
  front_fini(&f);
}
END_TEST

static int64_t shared_weights(const ir_node *n) {
  const reed_attrs attrs = ir_attrs(n);
  return reed_attrs_int(&attrs, SHARED_WEIGHTS_ATTR, 0);
}

/* Three times x -> Conv 1x1 -> Conv 3x3 -> Conv 1x1 with the same weights. All are marked where one x has other
 * extents, as readers of shared weights; a convolution with weights of its own and products never are. */
START_TEST(convolutions_of_several_extents_share_weights) {
  static const struct {
    const char *x[3];
    bool several;
  } cases[] = {{{"f32[1,4,h,w]", "f32[1,4,h,w]", "f32[1,4,h,w]"}, false},
               {{"f32[1,4,h,w]", "f32[1,4,h,w]", "f32[1,4,u,w]"}, true},
               {{"f32[1,4,h,w]", "f32[1,4,u,v]", "f32[1,4,h,w]"}, true},
               {{"f32[1,4,9,8]", "f32[1,4,9,8]", "f32[2,4,9,8]"}, true},
               {{"f32[1,4,9,8]", "f32[1,4,9,8]", "f32[1,4,9,8]"}, false}};
  onnx_build *b = build_open(18);
  build_f32(b, "v", "4,4,1,1", numbers);
  build_f32(b, "w", "4,4,3,3", numbers);
  build_f32(b, "own", "3,4,1,1", numbers);
  build_f32(b, "m", "9,9", numbers);
  for (int i = 0; i < 3; i++) {
    char names[4][8], words[4][8];
    for (int j = 0; j < 4; j++) {
      snprintf(names[j], sizeof names[j], "%c%d", "xabc"[j], i);
      snprintf(words[j], sizeof words[j], "%c%d,%c", "xabc"[j], i, j == 1 ? 'w' : 'v');
    }
    build_input(b, names[0], cases[_i].x[i]);
    build_node(b, "Conv", words[0], names[1]);
    build_ints(b, build_node(b, "Conv", words[1], names[2]), "pads", "1,1,1,1");
    build_node(b, "Conv", words[2], names[3]);
    build_output(b, names[3], "f32");
  }
  build_node(b, "Conv", "c0,own", "alone");
  build_output(b, "alone", "f32");
  build_input(b, "p", "f32[n,9]");
  build_node(b, "MatMul", "p,m", "q");
  build_node(b, "Add", "q,q", "r");
  build_node(b, "MatMul", "r,m", "s");
  build_output(b, "s", "f32");
  front f;
  front_optimize(&f, &b);
  int n_readers = 0;
  for (size_t i = 0; i < f.m->main->nodes.n; i++) {
    const ir_node *n = f.m->main->nodes.items[i];
    const bool of_several = n->op == op_builtin(OP_Conv) && strcmp(n->inputs[1]->name, "own") != 0;
    ck_assert_int_eq(shared_weights(n), of_several && cases[_i].several);
    n_readers += of_several;
  }
  ck_assert_int_eq(n_readers, 9);
  front_fini(&f);
}
END_TEST

/* Images whose number is a count, as a detector's boxes have them, have as many extents as there are counts. A number
 * that the model declares is one extent for all runs of a size. */
START_TEST(convolutions_of_counted_images_have_several_extents) {
  onnx_build *b = build_open(18);
  build_f32(b, "all1", "4,4,1,1", numbers);
  build_f32(b, "all2", "4,4,3,3", numbers);
  build_f32(b, "some1", "5,4,3,3", numbers);
  build_f32(b, "some2", "3,5,1,1", numbers);
  build_input(b, "x", "f32[n,4,9,8]");
  build_input(b, "chosen", "bool[n]");
  build_node(b, "Conv", "x,all1", "a");
  build_node(b, "Conv", "a,all2", "b");
  build_int(b, build_node(b, "Compress", "b,chosen", "c"), "axis", 0);
  build_node(b, "Conv", "c,some1", "d");
  build_node(b, "Conv", "d,some2", "y");
  build_output(b, "y", "f32");
  front f;
  front_optimize(&f, &b);
  int n_convolutions = 0;
  for (size_t i = 0; i < f.m->main->nodes.n; i++) {
    const ir_node *n = f.m->main->nodes.items[i];
    if (n->op != op_builtin(OP_Conv)) continue;
    ck_assert_int_eq(shared_weights(n), n->inputs[1]->name[0] == 's');
    n_convolutions++;
  }
  ck_assert_int_eq(n_convolutions, 4);
  front_fini(&f);
}
END_TEST

START_TEST(weights_that_are_no_constant_or_wide_stay) {
  onnx_build *b = build_open(18);
  build_input(b, "x", "f32[n,4]");
  build_input(b, "w", "f32[4,4]");
  build_input(b, "z", "f64[n,2]");
  build_tensor(b, "d", REED_F64, "2,2", (double[]){1, 2, 3, 4}, true);
  build_node(b, "MatMul", "x,w", "a");
  build_node(b, "MatMul", "z,d", "c");
  build_output(b, "a", "f32");
  build_output(b, "c", "f64");
  front f;
  front_optimize(&f, &b);
  ck_assert_int_eq(front_changes(&f, "pack"), 0);
  front_fini(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("pack");
  TCase *t = tcase_create("pack");
  tcase_add_loop_test(t, weights_are_packed_where_a_kernel_reads_them_so, 0, N_PRODUCTS);
  tcase_add_test(t, weights_of_several_products_are_packed_once);
  tcase_add_loop_test(t, convolutions_of_several_extents_share_weights, 0, 5);
  tcase_add_test(t, convolutions_of_counted_images_have_several_extents);
  tcase_add_test(t, weights_that_are_no_constant_or_wide_stay);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
