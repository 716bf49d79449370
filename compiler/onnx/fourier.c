/* DFT, STFT, the windows of signals and MelWeightMatrix -> products with a matrix of cosines and sines, and arithmetic.
 * The matrix of a length N has for place n, component c (0: real, 1: imaginary), frequency k and component d of the
 * result
 *
 *   c = 0: cos(a), -sin(a)      c = 1: sin(a), cos(a)      a = 2 pi (n k mod N) / N
 *
 * with the sines' signs changed for the inverse. Angles are f64, of a remainder that is exact. The matrix is computed
 * in the run, or folded where it is small and the length a constant. */
#include "compiler/onnx/reader.h"

#define TWO_PI 6.283185307179586476925
#define LOG_10 2.302585092994045684018
#define MEL_SCALE 2595. /* mel = 2595 log10(1 + hertz / 700) */
#define MEL_HERTZ 700.
#define NOT_FLOAT "a Fourier transform of numbers whose dtype is not known or no float"

/* x, with its rank known, with one axis more at its end, or at its begin. */
static ir_value *with_axis(const onnx_reading *z, ir_value *x, int64_t axis) {
  return onnx_binary(z->g, OP_Unsqueeze, x, onnx_vector(z->g->module, axis, 1));
}

static ir_value *joined(const onnx_reading *z, ir_value *a, ir_value *b, int64_t axis) {
  return onnx_joined(z->g, (ir_value *[]){a, b}, 2, axis);
}

/* Frequencies of a result of `length` places: all, or those up to the half. */
static ir_value *frequencies(const onnx_reading *z, ir_value *length, bool onesided) {
  if (!onesided) return length;
  ir_value *half = onnx_binary(z->g, OP_Div, length, onnx_integer(z->g, 2));
  return onnx_binary(z->g, OP_Add, half, onnx_integer(z->g, 1));
}

typedef struct transform {
  ir_value *length, *rows, *components, *n_frequencies; /* scalars of i64; rows: the first places, at most the length */
  reed_dtype dtype;
  bool inverse;
} transform;

/* The matrix [rows * components, n_frequencies * 2]. */
static ir_value *matrix(const onnx_reading *z, const transform *t) {
  ir_graph *g = z->g;
  ir_value *products = onnx_binary(g, OP_Mul, with_axis(z, onnx_range(z->g, t->rows), 1),
                                   with_axis(z, onnx_range(z->g, t->n_frequencies), 0));
  ir_value *turns = onnx_cast(g, onnx_binary(g, OP_Mod, products, t->length), REED_F64);
  ir_value *step = onnx_binary(g, OP_Div, onnx_number(z->g, t->inverse ? -TWO_PI : TWO_PI, REED_F64),
                               onnx_cast(g, t->length, REED_F64));
  ir_value *angles = onnx_binary(g, OP_Mul, turns, step);
  ir_value *cosines = with_axis(z, with_axis(z, onnx_cast(g, onnx_unary(g, OP_Cos, angles), t->dtype), 2), 1);
  ir_value *sines = with_axis(z, with_axis(z, onnx_cast(g, onnx_unary(g, OP_Sin, angles), t->dtype), 2), 1);
  if (!cosines || !sines) return NULL;
  if (t->inverse) {
    ir_value *scale = onnx_cast(g, t->length, t->dtype);
    cosines = onnx_binary(g, OP_Div, cosines, scale);
    sines = onnx_binary(g, OP_Div, sines, scale);
  }
  /* [rows, 1 component, frequencies, 2] each */
  ir_value *real = joined(z, cosines, onnx_unary(g, OP_Neg, sines), 3), *imaginary = joined(z, sines, cosines, 3);
  ir_value *both = onnx_slice(z->g, joined(z, real, imaginary, 1), onnx_vector(z->g->module, 0, 1),
                              onnx_single(z->g, t->components, 1), 1);
  ir_value *rows = onnx_single(z->g, onnx_binary(g, OP_Mul, t->rows, t->components), 1);
  ir_value *columns = onnx_single(z->g, onnx_binary(g, OP_Mul, t->n_frequencies, onnx_integer(z->g, 2)), 1);
  return onnx_shaped(g, both, joined(z, rows, columns, 0), NULL);
}

/* x [..., places, components] times the matrix: [..., frequencies, 2]. */
static ir_value *transformed(const onnx_reading *z, const transform *t, ir_value *x) {
  ir_graph *g = z->g;
  ir_value *before = onnx_slice(z->g, onnx_unary(g, OP_Shape, x), onnx_vector(z->g->module, 0, 1),
                                onnx_vector(z->g->module, -2, 1), 0);
  ir_value *row = onnx_single(z->g, onnx_binary(g, OP_Mul, t->rows, t->components), 1);
  ir_value *flat = onnx_shaped(g, x, joined(z, before, row, 0), NULL);
  ir_value *y = onnx_binary(g, OP_MatMul, flat, matrix(z, t));
  ir_value *pairs = joined(z, onnx_single(z->g, t->n_frequencies, 1), onnx_vector(z->g->module, 2, 1), 0);
  return onnx_shaped(g, y, joined(z, before, pairs, 0), NULL);
}

/* The axis of a DFT, counted from the end; the last one has the components. It is an attribute before opset 20. */
static int64_t axis_from_end(onnx_reading *z) {
  const Onnx__AttributeProto *a = onnx_find_attribute(z->f, z->node, "axis");
  int64_t axis = a ? a->i : onnx_opset(z->f) < 20 ? 1 : -2;
  reed_desc desc;
  if (z->inputs[2]) {
    if (ir_desc(z->inputs[2], &desc) && desc_elements(&desc) == 1 && z->inputs[2]->data)
      axis = (int64_t)reed_dtype_read(desc.dtype, z->inputs[2]->data);
    else (void)onnx_refuse(z, "an axis of DFT that is no constant");
  }
  if (axis >= 0 && z->ranks[0] < 0)
    (void)onnx_refuse(z, "a DFT along an axis counted from the first of an unknown rank");
  return axis < 0 ? axis : axis - z->ranks[0];
}

/* x with the axis, counted from the end, and the last but one exchanged. */
static ir_value *exchanged(const onnx_reading *z, ir_value *x, int64_t axis) {
  int64_t perm[REED_MAX_RANK];
  const int64_t rank = z->ranks[0];
  for (int64_t i = 0; i < rank; i++) perm[i] = i;
  perm[rank + axis] = rank - 2;
  perm[rank - 2] = rank + axis;
  return onnx_transposed(z->g, x, perm, (int32_t)rank, NULL);
}

/* The real signal whose frequencies up to the half are x: those between the first one and the half count twice, for
 * their conjugates. Without a length the last frequency is the half. */
static ir_value *real_signal(const onnx_reading *z, transform *t, ir_value *x) {
  ir_graph *g = z->g;
  ir_value *two = onnx_integer(g, 2), *zero = onnx_integer(g, 0);
  if (!z->inputs[1]) t->length = onnx_binary(g, OP_Mul, onnx_binary(g, OP_Sub, t->length, onnx_integer(g, 1)), two);
  x = onnx_slice(g, x, onnx_vector(g->module, 0, 1), onnx_single(g, frequencies(z, t->length, true), 1), -2);
  t->rows = onnx_extent(g, x, -2);
  t->n_frequencies = t->length;
  ir_value *number = onnx_range(g, t->rows), *is_first = onnx_binary(g, OP_Equal, number, zero),
           *is_half = onnx_binary(g, OP_Equal, onnx_binary(g, OP_Mul, number, two), t->length);
  ir_value *single = onnx_cast(g, onnx_binary(g, OP_Or, is_first, is_half), t->dtype);
  ir_value *counts = onnx_binary(g, OP_Sub, onnx_number(g, 2, t->dtype), single);
  ir_value *y = transformed(z, t, onnx_binary(g, OP_Mul, x, with_axis(z, counts, 1)));
  return onnx_slice(g, y, onnx_vector(g->module, 0, 1), onnx_vector(g->module, 1, 1), -1);
}

static void make_dft(onnx_reading *z) {
  transform t = {.dtype = onnx_float_of_x(z, NOT_FLOAT), .inverse = onnx_int(z, "inverse", 0) != 0};
  const bool onesided = onnx_int(z, "onesided", 0) != 0;
  const int64_t axis = axis_from_end(z), rank = z->ranks[0];
  if (axis != -2 && rank < 0) (void)onnx_refuse(z, "a DFT along an axis before others of an unknown rank");
  if (z->unsupported) return;
  if (axis == -1 || (rank >= 0 && (rank < 2 || -axis > rank))) {
    z->status = diag_fail(z->r->diagnosis, REED_ERROR_FORMAT, "node '%s' (DFT): a tensor of rank %lld has no axis %lld",
                          z->name, (long long)rank, (long long)(rank + axis));
    return;
  }
  ir_value *x = axis == -2 ? z->inputs[0] : exchanged(z, z->inputs[0], axis);
  t.components = onnx_extent(z->g, x, -1);
  t.length = z->inputs[1] ? onnx_single(z->g, z->inputs[1], 0) : onnx_extent(z->g, x, -2);
  if (onesided && t.inverse) {
    ir_value *y = real_signal(z, &t, x);
    z->outputs[0] = axis == -2 ? y : exchanged(z, y, axis);
    return;
  }
  if (z->inputs[1]) x = onnx_slice(z->g, x, onnx_vector(z->g->module, 0, 1), onnx_single(z->g, z->inputs[1], 1), -2);
  t.rows = onnx_extent(z->g, x, -2);
  t.n_frequencies = frequencies(z, t.length, onesided);
  ir_value *y = transformed(z, &t, x);
  z->outputs[0] = axis == -2 ? y : exchanged(z, y, axis);
}

/* Frames of `length` places, `step` places apart, times the window. */
static void make_stft(onnx_reading *z) {
  ir_graph *g = z->g;
  ir_value *x = z->inputs[0], *window = z->inputs[2];
  transform t = {.dtype = onnx_float_of_x(z, NOT_FLOAT)};
  if (!window && !z->inputs[3]) (void)onnx_refuse(z, "an STFT without window and without length of frames");
  if (z->unsupported) return;
  ir_value *step = onnx_single(z->g, z->inputs[1], 0);
  t.length = t.rows = z->inputs[3] ? onnx_single(z->g, z->inputs[3], 0) : onnx_extent(z->g, window, 0);
  t.components = onnx_extent(z->g, x, 2);
  t.n_frequencies = frequencies(z, t.length, onnx_int(z, "onesided", 1) != 0);
  /* (a signal that is shorter than a frame has none) */
  ir_value *beyond = onnx_binary(g, OP_Add, onnx_binary(g, OP_Sub, onnx_extent(z->g, x, 1), t.length), step);
  ir_value *n_frames = onnx_binary(g, OP_Div, onnx_binary(g, OP_Max, beyond, onnx_integer(z->g, 0)), step);
  ir_value *begins = onnx_binary(g, OP_Mul, onnx_range(z->g, n_frames), step);
  ir_value *index = onnx_binary(g, OP_Add, with_axis(z, begins, 1), with_axis(z, onnx_range(z->g, t.length), 0));
  ir_value *frames = onnx_made(g, NULL, OP_Gather, (ir_value *[]){x, index}, 2, "axis", 1, NULL);
  if (window) frames = onnx_binary(g, OP_Mul, frames, with_axis(z, window, 1));
  z->outputs[0] = transformed(z, &t, frames);
}

/* a - b cos(2 pi n / N) + c cos(4 pi n / N), where N is the size, or the size less one if the window is not periodic.
 */
static void make_window(onnx_reading *z, double a, double b, double c) {
  ir_graph *g = z->g;
  const reed_dtype dtype = onnx_dtype((int32_t)onnx_int(z, "output_datatype", 1));
  if (dtype == REED_NONE) (void)onnx_refuse(z, "a window of a dtype that Reed has not");
  if (z->unsupported) return;
  ir_value *size = onnx_single(z->g, z->inputs[0], 0);
  ir_value *period = onnx_int(z, "periodic", 1) ? size : onnx_binary(g, OP_Sub, size, onnx_integer(z->g, 1));
  ir_value *step = onnx_binary(g, OP_Div, onnx_number(z->g, TWO_PI, REED_F64), onnx_cast(g, period, REED_F64));
  ir_value *angles = onnx_binary(g, OP_Mul, onnx_cast(g, onnx_range(z->g, size), REED_F64), step);
  ir_value *y = onnx_binary(g, OP_Mul, onnx_unary(g, OP_Cos, angles), onnx_number(z->g, -b, REED_F64));
  y = onnx_binary(g, OP_Add, y, onnx_number(z->g, a, REED_F64));
  if (c != 0) {
    ir_value *twice = onnx_unary(g, OP_Cos, onnx_binary(g, OP_Add, angles, angles));
    y = onnx_binary(g, OP_Add, y, onnx_binary(g, OP_Mul, twice, onnx_number(z->g, c, REED_F64)));
  }
  z->outputs[0] = onnx_cast(g, y, dtype);
}

static void make_hann(onnx_reading *z) { make_window(z, .5, .5, 0); }
static void make_hamming(onnx_reading *z) { make_window(z, 25. / 46, 21. / 46, 0); }
static void make_blackman(onnx_reading *z) { make_window(z, .42, .5, .08); }

/* The frequency of each number of the vector, which is in mel, in the bins of a transform of `length` places. */
static ir_value *bins_of_mel(const onnx_reading *z, ir_value *mel, ir_value *length, ir_value *rate) {
  ir_graph *g = z->g;
  ir_value *exponent = onnx_binary(g, OP_Mul, mel, onnx_number(g, LOG_10 / MEL_SCALE, REED_F64));
  ir_value *hertz = onnx_binary(g, OP_Sub, onnx_unary(g, OP_Exp, exponent), onnx_number(g, 1, REED_F64));
  hertz = onnx_binary(g, OP_Mul, hertz, onnx_number(g, MEL_HERTZ, REED_F64));
  ir_value *places = onnx_cast(g, onnx_binary(g, OP_Add, length, onnx_integer(g, 1)), REED_F64);
  return onnx_unary(g, OP_Floor, onnx_binary(g, OP_Div, onnx_binary(g, OP_Mul, places, hertz), rate));
}

/* The mel of operand i, a frequency in hertz. */
static ir_value *mel_of(const onnx_reading *z, int32_t i) {
  ir_graph *g = z->g;
  ir_value *hertz = onnx_cast(g, z->inputs[i], REED_F64);
  ir_value *ratio = onnx_binary(g, OP_Div, hertz, onnx_number(g, MEL_HERTZ, REED_F64));
  ratio = onnx_unary(g, OP_Log, onnx_binary(g, OP_Add, ratio, onnx_number(g, 1, REED_F64)));
  return onnx_binary(g, OP_Mul, ratio, onnx_number(g, MEL_SCALE / LOG_10, REED_F64));
}

/* bands, length of the transform, sample rate, lowest and highest frequency: for each frequency and band the height of
 * the band's triangle, whose corners are bins at equal distances in mel. */
static void make_mel_weights(onnx_reading *z) {
  ir_graph *g = z->g;
  const reed_dtype dtype = onnx_dtype((int32_t)onnx_int(z, "output_datatype", 1));
  if (dtype == REED_NONE) (void)onnx_refuse(z, "a MelWeightMatrix of a dtype that Reed has not");
  if (z->unsupported) return;
  ir_value *bands = onnx_single(g, z->inputs[0], 0), *length = onnx_single(g, z->inputs[1], 0),
           *rate = onnx_cast(g, z->inputs[2], REED_F64), *one = onnx_number(g, 1, REED_F64);
  ir_value *corners = onnx_binary(g, OP_Add, bands, onnx_integer(g, 2)), *low = mel_of(z, 3);
  ir_value *step = onnx_binary(g, OP_Div, onnx_binary(g, OP_Sub, mel_of(z, 4), low), onnx_cast(g, corners, REED_F64));
  ir_value *mel = onnx_binary(g, OP_Mul, onnx_cast(g, onnx_range(g, corners), REED_F64), step);
  ir_value *bins = bins_of_mel(z, onnx_binary(g, OP_Add, mel, low), length, rate);
  ir_value *left = onnx_part(g, bins, 0, -2), *middle = onnx_part(g, bins, 1, -1),
           *right = onnx_part(g, bins, 2, INT64_MAX);
  ir_value *bin = with_axis(z, onnx_cast(g, onnx_range(g, frequencies(z, length, true)), REED_F64), 1);
  /* distances from the middle, as parts of the triangle's side, which is one bin or longer */
  ir_value *rising = onnx_binary(g, OP_Max, onnx_binary(g, OP_Sub, middle, left), one),
           *falling = onnx_binary(g, OP_Max, onnx_binary(g, OP_Sub, right, middle), one);
  rising = onnx_binary(g, OP_Div, onnx_binary(g, OP_Sub, middle, bin), rising);
  falling = onnx_binary(g, OP_Div, onnx_binary(g, OP_Sub, bin, middle), falling);
  ir_value *height = onnx_binary(g, OP_Sub, one, onnx_binary(g, OP_Max, rising, falling));
  z->outputs[0] = onnx_cast(g, onnx_binary(g, OP_Max, height, onnx_number(g, 0, REED_F64)), dtype);
}

const onnx_maker onnx_fourier_makers[] = {
    {"DFT", 1, 3, 1, make_dft},
    {"STFT", 2, 4, 1, make_stft},
    {"HannWindow", 1, 1, 1, make_hann},
    {"HammingWindow", 1, 1, 1, make_hamming},
    {"BlackmanWindow", 1, 1, 1, make_blackman},
    {"MelWeightMatrix", 5, 5, 1, make_mel_weights},
    {0},
};
