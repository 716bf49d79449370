/* The least times of planned launches on an H100 (device/cuda/fake/floors.c), which bench/gpu_floors.py prints: bytes
 * and operations of products, convolutions and attention are those of their extents, on the emulated GPU and where the
 * host's kernels compute the values. */
#include <dlfcn.h>

#include "tests/whole/model.h"

typedef struct floor_row {
  const char *kernel;
  int64_t launches;
  double read_bytes, written_bytes, operations, seconds, seconds_of_bytes;
} floor_row;

enum { MOST = 128 };

static int floors_now(floor_row *rows) {
  void *module = dlopen("libreed-cuda-emulated.so", RTLD_NOW | RTLD_NOLOAD);
  ck_assert_ptr_nonnull(module);
  int (*floors)(floor_row *, int) = (int (*)(floor_row *, int))dlsym(module, "reed_fake_floors");
  ck_assert_ptr_nonnull(floors);
  const int n = floors(rows, MOST);
  dlclose(module);
  return n;
}

static const floor_row *row_of(const floor_row *rows, int n, const char *kernel) {
  for (int i = 0; i < n; i++)
    if (strcmp(rows[i].kernel, kernel) == 0) return &rows[i];
  ck_abort_msg("no launch of %s", kernel);
}

static void assert_near(double got, double expected) {
  ck_assert_msg(got >= expected * (1 - 1e-12) && got <= expected * (1 + 1e-12), "%.17g, not %.17g", got, expected);
}

START_TEST(floors_follow_from_extents) {
  static const char *const devices[] = {"cuda-emulated", "cuda-emulated?card=H100&values=1",
                                        "cuda-emulated?values=1&tf32=1"};
  static float weights[4 * 3 * 9];
  onnx_build *b = build_open(23);
  build_input(b, "x", "f32[n,3,h,w]");
  build_input(b, "a", "f32[p,48]");
  build_input(b, "b", "f32[48,q]");
  build_f32(b, "k", "4,3,3,3", weights);
  build_ints(b, build_node(b, "Conv", "x,k", "y"), "pads", "1,1,1,1");
  build_node(b, "MatMul", "a,b", "z");
  build_input(b, "moved", "f32[n,18,h,w]");
  build_ints(b, build_node(b, "DeformConv", "x,k,moved", "d"), "pads", "1,1,1,1");
  build_input(b, "heads", "f32[s,2,l,16]");
  build_node(b, "Attention", "heads,heads,heads", "t");
  build_output(b, "y", "f32[n,4,h,w]");
  build_output(b, "z", "f32[p,q]");
  build_output(b, "d", "f32[n,4,h,w]");
  build_output(b, "t", "f32[s,2,l,16]");
  size_t n_onnx, n_module;
  const void *onnx = build_pack(b, &n_onnx);
  void *bytes;
  model m = {0};
  ck_assert_int_eq(reed_diagnosis_open(&m.said), REED_OK);
  ck_assert_int_eq(reed_compile_bytes(onnx, n_onnx, &(reed_compile_options){.target = "cuda-emulated"}, &bytes,
                                      &n_module, NULL, m.said),
                   REED_OK);
  ck_assert_int_eq(reed_program_open_bytes(bytes, n_module, NULL, &m.program, m.said), REED_OK);
  reed_text_free(bytes);
  build_close(&b);
  m.session = session_of(&m, devices[_i]);
  reed_tensor *in[] = {floats(4, (int64_t[]){1, 3, 8, 10}, 0), floats(2, (int64_t[]){20, 48}, 0),
                       floats(2, (int64_t[]){48, 30}, 0), floats(4, (int64_t[]){1, 18, 8, 10}, 0),
                       floats(4, (int64_t[]){70, 2, 17, 16}, 0)},
              *out[4];
  floor_row rows[MOST];
  for (int run = 0; run < 2; run++) {
    floors_now(rows);
    run_model(&m, in, out);
    for (int i = 0; i < 4; i++) reed_tensor_close(&out[i]);
  }
  const int n = floors_now(rows);
  const bool tf32 = _i == 2;
  const floor_row *product = row_of(rows, n, tf32 ? "reed_product_tf32" : "reed_product_f32"),
                  *conv = row_of(rows, n, tf32 ? "reed_conv_tf32" : "reed_conv_f32"),
                  *attention = row_of(rows, n, tf32 ? "reed_attention_narrow_tf32" : "reed_attention_tiled_f32");
  const double product_bytes = 4.0 * (20 * 48 + 48 * 30 + 20 * 30);
  ck_assert_int_eq(product->launches, 1);
  assert_near(product->operations, 2.0 * 20 * 48 * 30);
  assert_near(product->read_bytes + product->written_bytes, product_bytes);
  assert_near(product->seconds, product_bytes / 3.35e12); /* more than the operations take */
  assert_near(product->seconds_of_bytes, product->seconds);
  ck_assert_int_eq(conv->launches, 1);
  assert_near(conv->operations, 2.0 * 80 * 4 * 3 * 9);
  assert_near(conv->written_bytes, 4.0 * 4 * 80);
  assert_near(row_of(rows, n, "reed_deform")->operations, conv->operations);
  assert_near(attention->operations, 2.0 * 70 * 2 * 17 * 17 * (16 + 16));
  ck_assert_int_eq(floors_now(rows), 0);
  for (int i = 0; i < 5; i++) reed_tensor_close(&in[i]);
  model_close(&m);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("floors");
  TCase *cases = tcase_create("floors");
  tcase_add_loop_test(cases, floors_follow_from_extents, 0, 3);
  suite_add_tcase(suite, cases);
  return suite_run(suite);
}
