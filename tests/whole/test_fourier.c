/* DFT, STFT and LRN, which the reader makes of other operators, beside their definitions in double: lengths
 * that are not a power of two, cut and padded signals, inverses, axes, extents of the run. */
#include <math.h>

#include "tests/whole/model.h"

#define TWO_PI 6.283185307179586476925

/* Numbers without a pattern. */
static reed_tensor *signal(int32_t rank, const int64_t *dims) {
  reed_tensor *t = floats(rank, dims, 0);
  for (int64_t i = 0; i < reed_tensor_elements(t); i++)
    ((float *)reed_tensor_data(t))[i] = (float)((i * 7919 + 31) % 1009) / 504 - 1;
  return t;
}

typedef struct dft_case {
  int64_t opset, axis, length; /* length 0: not given */
  int64_t dims[4];             /* of x, of which the last has the components */
  int rank;
  bool inverse, onesided;
} dft_case;

/* Component d of frequency k of the row x[at + stride n]. */
static double frequency(const dft_case *c, const float *x, int64_t at, int64_t stride, int64_t given, int64_t length,
                        int64_t k, int d) {
  const int64_t components = c->dims[c->rank - 1];
  double sum = 0;
  for (int64_t n = 0; n < given && n < length; n++) {
    const double angle = (c->inverse ? -TWO_PI : TWO_PI) * (double)(n * k % length) / (double)length;
    const double re = x[at + stride * n], im = components == 2 ? x[at + stride * n + 1] : 0;
    sum += d == 0 ? re * cos(angle) + im * sin(angle) : im * cos(angle) - re * sin(angle);
  }
  return c->inverse ? sum / (double)length : sum;
}

static const dft_case dft_cases[] = {
    {17, 1, 0, {2, 16, 1}, 3, false, false},  {17, 1, 0, {2, 15, 2}, 3, true, false},
    {17, 1, 20, {3, 7, 1}, 3, false, true},   {17, 1, 6, {3, 9, 2}, 3, false, false},
    {17, 2, 0, {2, 3, 7, 1}, 4, false, true}, {17, 0, 5, {4, 3, 2, 2}, 4, true, false},
    {20, -2, 0, {2, 9, 1}, 3, false, true},   {20, 0, 0, {4, 5, 2}, 3, false, false},
    {20, -2, 0, {2, 1, 1}, 3, false, true},
};

START_TEST(dft_is_its_definition) {
  const dft_case *c = &dft_cases[_i];
  onnx_build *b = build_open(c->opset);
  build_input(b, "x",
              c->rank == 3      ? c->dims[2] == 1 ? "f32[a,b,1]" : "f32[a,b,2]"
              : c->dims[3] == 1 ? "f32[a,b,c,1]"
                                : "f32[a,b,c,2]");
  if (c->length) build_i64(b, "length", "", &c->length);
  build_i64(b, "axis", "", &c->axis);
  char inputs[32];
  snprintf(inputs, sizeof inputs, "x%s%s",
           c->length       ? ",length"
           : c->opset < 20 ? ""
                           : ",",
           c->opset < 20 ? "" : ",axis");
  build_node_t *n = build_node(b, "DFT", inputs, "y");
  if (c->opset < 20) build_int(b, n, "axis", c->axis);
  build_int(b, n, "inverse", c->inverse);
  build_int(b, n, "onesided", c->onesided);
  build_output(b, "y", "f32");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  reed_tensor *x = signal(c->rank, c->dims), *y;
  run_model(&m, &x, &y);
  const int axis = (int)(c->axis < 0 ? c->axis + c->rank : c->axis);
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; i++) outer *= c->dims[i];
  for (int i = axis + 1; i < c->rank - 1; i++) inner *= c->dims[i];
  const int64_t components = c->dims[c->rank - 1], given = c->dims[axis], length = c->length ? c->length : given;
  const int64_t bins = c->onesided ? length / 2 + 1 : length;
  ck_assert_int_eq(reed_tensor_elements(y), outer * bins * inner * 2);
  ck_assert_int_eq(reed_tensor_dims(y)[axis], bins);
  const float *got = reed_tensor_data(y);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < bins; k++)
      for (int64_t i = 0; i < inner; i++)
        for (int d = 0; d < 2; d++) {
          const double want = frequency(c, reed_tensor_data(x), (o * given * inner + i) * components,
                                        inner * components, given, length, k, d);
          const double is = got[((o * bins + k) * inner + i) * 2 + d];
          ck_assert_msg(fabs(is - want) < 1e-5, "row %d, frequency %d: %g, not %g", (int)(o * inner + i), (int)k, is,
                        want);
        }
  reed_tensor_close(&x);
  reed_tensor_close(&y);
  model_close(&m);
}
END_TEST

/* A real signal from its frequencies up to the half; of an odd length, which is given, the last one counts twice. */
START_TEST(inverse_of_half_the_frequencies_is_the_signal) {
  const int64_t length = 8 - _i % 2, axis = -2, rank = _i < 2 ? 3 : 4;
  onnx_build *b = build_open(20);
  build_input(b, "x", rank == 3 ? "f32[n,t,1]" : "f32[n,c,t,1]");
  build_i64(b, "axis", "", &axis);
  build_i64(b, "length", "", &length);
  build_int(b, build_node(b, "DFT", "x,,axis", "half"), "onesided", 1);
  build_node_t *n = build_node(b, "DFT", length % 2 ? "half,length,axis" : "half,,axis", "y");
  build_int(b, n, "onesided", 1);
  build_int(b, n, "inverse", 1);
  build_output(b, "y", "f32");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  reed_tensor *x = rank == 3 ? signal(3, (int64_t[]){3, length, 1}) : signal(4, (int64_t[]){3, 2, length, 1}), *y;
  run_model(&m, &x, &y);
  ck_assert_int_eq(reed_tensor_rank(y), reed_tensor_rank(x));
  for (int32_t d = 0; d < reed_tensor_rank(x); d++) ck_assert_int_eq(reed_tensor_dims(y)[d], reed_tensor_dims(x)[d]);
  for (int64_t i = 0; i < reed_tensor_elements(x); i++)
    ck_assert_double_eq_tol(((float *)reed_tensor_data(y))[i], ((float *)reed_tensor_data(x))[i], 1e-6);
  reed_tensor_close(&x);
  reed_tensor_close(&y);
  model_close(&m);
}
END_TEST

/* Frames of 9 places, 4 apart, times a window; two lengths of the signal in one session. */
START_TEST(stft_is_a_dft_of_frames) {
  enum { FRAME = 9, STEP = 4 };
  static const float window[FRAME] = {.1f, .3f, .5f, .8f, 1, .9f, .6f, .2f, .05f};
  const bool onesided = _i & 1, has_window = _i & 2;
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,t,1]");
  build_i64(b, "step", "", (int64_t[]){STEP});
  build_i64(b, "length", "", (int64_t[]){FRAME});
  build_f32(b, "window", "9", window);
  build_int(b, build_node(b, "STFT", has_window ? "x,step,window" : "x,step,,length", "y"), "onesided", onesided);
  build_output(b, "y", "f32");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  for (int64_t t = 50; t > 0; t -= t == 50 ? 41 : 4) { /* ... 9, 5, 1 */
    reed_tensor *x = signal(3, (int64_t[]){2, t, 1}), *y;
    run_model(&m, &x, &y);
    const int64_t frames = t < FRAME ? 0 : (t - FRAME) / STEP + 1, bins = onesided ? FRAME / 2 + 1 : FRAME;
    ck_assert_int_eq(reed_tensor_elements(y), 2 * frames * bins * 2);
    const float *from = reed_tensor_data(x), *got = reed_tensor_data(y);
    for (int64_t f = 0; f < 2 * frames; f++)
      for (int64_t k = 0; k < bins; k++)
        for (int d = 0; d < 2; d++) {
          double want = 0;
          for (int n = 0; n < FRAME; n++) {
            const double angle = TWO_PI * (double)(n * k % FRAME) / FRAME;
            want += from[f / frames * t + f % frames * STEP + n] * (has_window ? (double)window[n] : 1) *
                    (d ? -sin(angle) : cos(angle));
          }
          ck_assert_double_eq_tol(got[(f * bins + k) * 2 + d], want, 1e-5);
        }
    reed_tensor_close(&x);
    reed_tensor_close(&y);
  }
  model_close(&m);
}
END_TEST

/* The mean square of five neighbouring channels, for two sizes of pictures. */
START_TEST(lrn_divides_by_neighbours) {
  const int64_t size = 1 + _i, channels = 6;
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,c,h,w]");
  build_node_t *n = build_node(b, "LRN", "x", "y");
  build_int(b, n, "size", size);
  build_float(b, n, "alpha", .5f);
  build_float(b, n, "beta", .6f);
  build_float(b, n, "bias", 1.5f);
  build_output(b, "y", "f32[n,c,h,w]");
  model m = model_open(b, "host", REED_COUNTS_HOST);
  for (int axis = 0; axis < 4; axis++) {
    int64_t dims[] = {2, channels, 2, 3};
    dims[axis] = 0;
    reed_tensor *x = signal(4, dims), *y;
    run_model(&m, &x, &y);
    ck_assert_mem_eq(reed_tensor_dims(y), dims, sizeof dims);
    reed_tensor_close(&x);
    reed_tensor_close(&y);
  }
  for (int64_t w = 3; w < 6; w += 2) {
    reed_tensor *x = signal(4, (int64_t[]){2, channels, 2, w}), *y;
    run_model(&m, &x, &y);
    const float *from = reed_tensor_data(x), *got = reed_tensor_data(y);
    for (int64_t i = 0; i < 2 * channels * 2 * w; i++) {
      const int64_t plane = 2 * w, c = i / plane % channels;
      double sum = 0;
      for (int64_t k = c - (size - 1) / 2; k <= c + size / 2; k++)
        if (k >= 0 && k < channels) sum += pow(from[i + (k - c) * plane], 2);
      ck_assert_double_eq_tol(got[i], from[i] / pow(1.5 + .5 / (double)size * sum, .6), 1e-6);
    }
    reed_tensor_close(&x);
    reed_tensor_close(&y);
  }
  model_close(&m);
}
END_TEST

static void refused(onnx_build *b, const char *text) {
  size_t n_onnx, n;
  void *bytes;
  reed_diagnosis *said;
  ck_assert_int_eq(reed_diagnosis_open(&said), REED_OK);
  const void *onnx = build_pack(b, &n_onnx);
  ck_assert_int_ne(reed_compile_bytes(onnx, n_onnx, NULL, &bytes, &n, NULL, said), REED_OK);
  ck_assert_msg(strstr(reed_diagnosis_message(said), text), "%s", reed_diagnosis_message(said));
  reed_diagnosis_close(&said);
  build_close(&b);
}

START_TEST(what_has_no_meaning_is_refused) {
  onnx_build *b = build_open(17);
  build_input(b, "x", "f32[n,9,1]");
  build_i64(b, "step", "", (int64_t[]){2});
  build_node(b, "STFT", "x,step", "y");
  build_output(b, "y", "f32");
  refused(b, "without length of frames");
  b = build_open(17);
  build_input(b, "x", "f32[n,9,1]");
  build_int(b, build_node(b, "DFT", "x", "y"), "axis", 2);
  build_output(b, "y", "f32");
  refused(b, "axis");
  b = build_open(17);
  build_input(b, "x", "f32[n,c,h]");
  build_int(b, build_node(b, "LRN", "x", "y"), "size", 0);
  build_output(b, "y", "f32");
  refused(b, "'size' is 0");
  b = build_open(17);
  build_input(b, "x", "f32[n,c,h]");
  build_node(b, "RandomUniform", "", "y");
  build_output(b, "y", "f32");
  refused(b, "has no attribute 'shape'");
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("fourier");
  tcase_add_loop_test(cases, dft_is_its_definition, 0, (int)(sizeof dft_cases / sizeof *dft_cases));
  tcase_add_loop_test(cases, inverse_of_half_the_frequencies_is_the_signal, 0, 4);
  tcase_add_loop_test(cases, stft_is_a_dft_of_frames, 0, 4);
  tcase_add_loop_test(cases, lrn_divides_by_neighbours, 0, 5);
  tcase_add_test(cases, what_has_no_meaning_is_refused);
  return run_suite(cases, "fourier");
}
