/* Einsum becomes products, sums and transpositions: the nodes and types of many equations, and refused ones. The ONNX
 * node cases and tests/random compare the results. */
#include "tests/compiler/front.h"
#include "tests/suite.h"

/* y = Einsum(x0, x1, ...) of operands with these types, separated by ';'. */
static void read_einsum(front *f, const char *equation, const char *types, const char *between) {
  onnx_build *b = build_open(17);
  char text[160], names[160] = "", *rest = text, *type;
  snprintf(text, sizeof text, "%s", types);
  for (int k = 0; (type = strsep(&rest, ";")); k++) {
    char in[16], made[16];
    snprintf(in, sizeof in, "x%d", k);
    snprintf(made, sizeof made, "a%d", k);
    build_input(b, in, type);
    if (between) build_node(b, between, in, made);
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? "," : "", between ? made : in);
  }
  build_node_t *n = build_node(b, "Einsum", names, "y");
  if (equation) build_string(b, n, "equation", equation);
  build_output(b, "y", "f32");
  front_read(f, &b);
}

typedef struct equation_case {
  const char *equation, *types, *result;
  int products, multiplications, transposes, sums; /* after all passes */
} equation_case;

static const equation_case cases[] = {
    {"i,j->ij", "f32[n];f32[m]", "f32[n,m]", 0, 1, 0, 0},
    {" i, j -> i j ", "f32[n];f32[m]", "f32[n,m]", 0, 1, 0, 0},
    {"bhid,bhjd->bhij", "f32[b,4,n,8];f32[b,4,m,8]", "f32[b,4,n,m]", 1, 0, 1, 0},
    {"bthd,bshd->bhts", "f32[b,n,4,8];f32[b,m,4,8]", "f32[b,4,n,m]", 1, 0, 2, 0},
    {"bhts,bshd->bthd", "f32[b,4,n,m];f32[b,m,4,8]", "f32[b,n,4,8]", 1, 0, 2, 0},
    {"bqc,bchw->bqhw", "f32[b,q,8];f32[b,8,h,w]", "f32[b,q,h,w]", 1, 0, 0, 0},
    {"bthc,cd->bthd", "f32[b,t,4,8];f32[8,5]", "f32[b,t,4,5]", 1, 0, 0, 0},
    {"ij,jk,kl->il", "f32[n,3];f32[3,m];f32[m,2]", "f32[n,2]", 2, 0, 0, 0},
    {"ij,jk", "f32[n,3];f32[3,m]", "f32[n,m]", 1, 0, 0, 0},
    {"ba", "f32[n,m]", "f32[m,n]", 0, 0, 1, 0},
    {"Ab,bA->A", "f32[n,m];f32[m,n]", "f32[n]", 1, 0, 1, 0},
    {"ij->i", "f32[n,m]", "f32[n]", 0, 0, 0, 1},
    {"ij,k->i", "f32[n,m];f32[k]", "f32[n]", 0, 1, 0, 2},
    {"ij->ij", "f32[n,m]", "f32[n,m]", 0, 0, 0, 0},
    {"i,i", "f32[n];f32[n]", "f32[]", 1, 0, 0, 0},
    {"...ij,...jk->...ik", "f32[b,4,n,3];f32[b,4,3,m]", "f32[b,4,n,m]", 1, 0, 0, 0},
    {"...,...->...", "f32[b,n];f32[n]", "f32[b,n]", 0, 1, 0, 0},
    {"...hd,...kd->...hk", "f32[b,1,n,3];f32[4,m,3]", "f32[b,4,n,m]", 1, 0, 2, 0},
    {"i...,i...->...", "f32[5,b,n];f32[5,n]", "f32[b,n]", 1, 0, 3, 0},
};

START_TEST(equations_are_products_and_sums) {
  const equation_case *c = &cases[_i];
  for (int between = 0; between < 2; between++) {
    front f;
    const bool has_dots = strchr(c->equation, '.') != NULL; /* the rank of a value between is not declared */
    if (between && has_dots && c->equation[0] != '.') continue;
    read_einsum(&f, c->equation, c->types, between ? "Sin" : NULL);
    front_ok(&f);
    front_passes(&f, "chains,attention");
    front_ok(&f);
    ck_assert_str_eq(front_type(&f, f.m->main->results[0]), c->result);
    ck_assert_int_eq(front_count(&f, OP_MatMul), c->products);
    if (!between || !has_dots) {
      ck_assert_int_eq(front_count(&f, OP_Mul), c->multiplications);
      ck_assert_int_eq(front_count(&f, OP_Transpose), c->transposes);
    }
    ck_assert_int_eq(front_count(&f, OP_ReduceSum), c->sums);
    front_fini(&f);
  }
}
END_TEST

START_TEST(a_diagonal_is_a_slice) {
  static const char *const equations[] = {"ii->i", "ii", "iji->ij"};
  for (size_t i = 0; i < sizeof equations / sizeof *equations; i++) {
    front f;
    read_einsum(&f, equations[i], i == 2 ? "f32[n,m,n]" : "f32[n,n]", NULL);
    front_ok(&f);
    ck_assert_int_gt(front_count(&f, OP_Slice), 0);
    ck_assert_int_eq(front_count(&f, OP_ReduceSum), i == 1);
    front_fini(&f);
  }
}
END_TEST

START_TEST(attention_written_as_einsum_is_found) {
  onnx_build *b = build_open(17);
  build_input(b, "q", "f32[b,4,n,8]");
  build_input(b, "k", "f32[b,4,m,8]");
  build_input(b, "v", "f32[b,4,m,8]");
  build_string(b, build_node(b, "Einsum", "q,k", "scores"), "equation", "bhid, bhjd -> bhij");
  build_int(b, build_node(b, "Softmax", "scores", "weights"), "axis", -1);
  build_string(b, build_node(b, "Einsum", "weights,v", "y"), "equation", "bhij,bhjd->bhid");
  build_output(b, "y", "f32");
  front f;
  front_read(&f, &b);
  front_ok(&f);
  front_passes(&f, NULL);
  front_ok(&f);
  ck_assert_int_eq(front_count(&f, OP_Attention), 1);
  ck_assert_int_eq(front_count(&f, OP_MatMul), 0);
  front_fini(&f);
}
END_TEST

START_TEST(equations_that_do_not_fit_are_refused) {
  static const struct {
    const char *equation, *types, *text;
    reed_status status;
  } refused[] = {
      {NULL, "f32[n]", "node 'y_node' (Einsum) has no text 'equation'", REED_ERROR_FORMAT},
      {"ij,jk->ik", "f32[n,m]", "equation 'ij,jk->ik': more terms than operands", REED_ERROR_FORMAT},
      {"ij->ij", "f32[n,m];f32[n]", "fewer terms than operands", REED_ERROR_FORMAT},
      {"ijk->i", "f32[n,m]", "names 3 axes of operand 0 'x0', which has rank 2", REED_ERROR_FORMAT},
      {"...ijk", "f32[n,m]", "names 3 axes or more of operand 0 'x0', which has rank 2", REED_ERROR_FORMAT},
      {"ij->ik", "f32[n,m]", "the output has a letter that no operand has", REED_ERROR_FORMAT},
      {"ij->jj", "f32[n,m]", "the output has a letter twice", REED_ERROR_FORMAT},
      {"ij->i->j", "f32[n,m]", "something follows the output", REED_ERROR_FORMAT},
      {"ij-i", "f32[n,m]", "'-' is no part of '->'", REED_ERROR_FORMAT},
      {"i.j", "f32[n,m]", "'.' is no part of '...'", REED_ERROR_FORMAT},
      {"......", "f32[n,m]", "'...' stands twice in a term", REED_ERROR_FORMAT},
      {"...->", "f32[n,m]", "the output lacks '...'", REED_ERROR_FORMAT},
      {"i1", "f32[n,m]", "neither a letter nor", REED_ERROR_FORMAT},
      {"abcdefghi", "f32[n,m]", "more letters than a tensor can have axes", REED_ERROR_FORMAT},
      {"abcde,fghij->a", "f32[1,1,1,1,1];f32[1,1,1,1,1]", NULL, REED_OK},
      {"abcde,fghij,aj->", "f32[1,1,1,1,1];f32[1,1,1,1,1];f32[1,1]", NULL, REED_OK},
      {"abcde,fghij,abcdefghij->", "f32[1,1,1,1,1];f32[1,1,1,1,1];f32[1]",
       "a term has more letters than a tensor can have axes", REED_ERROR_FORMAT},
      {"abcde,fghij,abcde,fghij->", "f32[1,1,1,1,1];f32[1,1,1,1,1];f32[1,1,1,1,1];f32[1,1,1,1,1]",
       "Einsum with more than 8 axes between two operands: 'y_node'", REED_ERROR_UNSUPPORTED},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    front f;
    read_einsum(&f, refused[i].equation, refused[i].types, NULL);
    if (refused[i].text) front_says(&f, refused[i].status, refused[i].text);
    else front_ok(&f);
    front_fini(&f);
  }
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,m]");
  build_node(b, "Sin", "x", "s");
  build_string(b, build_node(b, "Einsum", "s,s", "y"), "equation", "i...,i...->...");
  build_string(b, build_node(b, "Einsum", "y", "z"), "equation", "...i->i...");
  build_output(b, "z", "f32");
  front_refuses(&b, REED_ERROR_UNSUPPORTED,
                "Einsum with '...' behind letters or not in the output, of an operand whose rank is not declared: "
                "'y_node', 'z_node'");
}
END_TEST

static uint32_t next_number(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u; /* Numerical Recipes */
  return *state >> 8;
}

START_TEST(any_text_is_read_or_refused) {
  static const char alphabet[] = "aaabbcZ...,,-> ";
  uint32_t state = 7;
  int n_read = 0;
  for (int round = 0; round < 600; round++) {
    char equation[16];
    const int n = 1 + (int)(next_number(&state) % (sizeof equation - 1));
    for (int i = 0; i < n; i++) equation[i] = alphabet[next_number(&state) % (sizeof alphabet - 1)];
    equation[n] = 0;
    front f;
    read_einsum(&f, equation, "f32[n,m];f32[n]", round % 2 ? "Sin" : NULL);
    n_read += f.status == REED_OK;
    ck_assert_msg(f.status == REED_OK || f.status == REED_ERROR_FORMAT || f.status == REED_ERROR_UNSUPPORTED, "%s: %s",
                  equation, reed_status_name(f.status));
    front_fini(&f);
  }
  ck_assert_int_gt(n_read, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_einsum");
  TCase *t = tcase_create("onnx_einsum");
  tcase_add_loop_test(t, equations_are_products_and_sums, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(t, a_diagonal_is_a_slice);
  tcase_add_test(t, attention_written_as_einsum_is_found);
  tcase_add_test(t, any_text_is_read_or_refused);
  tcase_add_test(t, equations_that_do_not_fit_are_refused);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
