/* Makes ONNX models that no exporter writes, for the tests of the command: names with escape sequences, external data,
 * a loop without end, a decoder with caches. Writes them into the given folder. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/compiler/onnx_build.h"

static void write_bytes(const char *folder, const char *name, const void *bytes, size_t n) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, n, file) != n || fclose(file)) exit(1);
}

static void write_model(const char *folder, const char *name, onnx_build *b) {
  size_t n;
  const void *bytes = build_pack(b, &n);
  write_bytes(folder, name, bytes, n);
  build_close(&b);
}

#define RED "\x1b[31m"
#define TURNED "\xe2\x80\xae" /* right-to-left override */
#define C1 "\xc2\x9b"

/* If printed as it is, every name of this model would move the cursor, begin a line or turn the text around. */
static void write_escapes(const char *folder) {
  onnx_build *b = build_open(17);
  build_input(b, "x" RED "\nvm: all is well" TURNED, "f32[n\x1b,3]");
  build_f32(b, "w\x1b", "3,1", (float[]){1, 2, 3});
  build_node(b, "MatMul", "x" RED "\nvm: all is well" TURNED ",w\x1b", "y" C1 "\x7f");
  build_output(b, "y" C1 "\x7f", "f32");
  write_model(folder, "escapes.onnx", b);

  b = build_open(17);
  build_input(b, "x", "f32[n,8]");
  build_node(b, "Relu", "x", "r");
  build_node(b, "NonZero", "r", "i");
  build_node(b, "Transpose", "i", "t");
  build_node(b, "GatherND", "r,t", "g");
  build_node(b, "Exp", "g", "e");
  build_node(b, "Add", "e,g", "y");
  build_output(b, "y", "f32");
  write_model(folder, "counted.onnx", b);

  b = build_open(17);
  build_input(b, "x", "f32[n]");
  build_node(b, "Nope" RED, "x", "y\nvm: all is well");
  build_output(b, "y\nvm: all is well", "f32");
  write_model(folder, "unsupported.onnx", b);
}

/* y = -w, where w[3] is in the file `location`. */
static void write_external(const char *folder, const char *name, char *location) {
  onnx_build *b = build_open(17);
  Onnx__TensorProto *w = build_f32(b, "w", "3", (float[]){0, 0, 0});
  Onnx__StringStringEntryProto where = ONNX__STRING_STRING_ENTRY_PROTO__INIT, *list[] = {&where};
  where.key = (char *)"location";
  where.value = location;
  w->has_raw_data = false;
  w->has_data_location = true;
  w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  w->external_data = list;
  w->n_external_data = 1;
  build_node(b, "Neg", "w", "y");
  build_output(b, "y", "f32");
  write_model(folder, name, b);
}

/* The same model alone, and as a case for `vm test`. */
static void write_endless(const char *folder) {
  onnx_build *b = build_open(17), *body = build_subgraph(b);
  build_input(b, "x", "f32[64,64]");
  build_i64(b, "m", "", (int64_t[]){(int64_t)1 << 62});
  build_input(body, "i", "i64[]");
  build_input(body, "c", "bool[]");
  build_input(body, "s", "f32[64,64]");
  build_node(body, "Identity", "c", "d");
  build_node(body, "MatMul", "s,s", "p");
  build_node(body, "Sigmoid", "p", "t");
  build_output(body, "d", "bool");
  build_output(body, "t", "f32");
  build_graph_attr(b, build_node(b, "Loop", "m,,x", "y"), "body", body);
  build_output(b, "y", "f32");
  size_t n;
  const void *bytes = build_pack(b, &n);
  write_bytes(folder, "endless.onnx", bytes, n);
  char path[1024];
  snprintf(path, sizeof path, "%s/endless", folder);
  if (mkdir(path, 0777)) exit(1);
  write_bytes(path, "model.onnx", bytes, n);
  snprintf(path, sizeof path, "%s/endless/test_data_set_0", folder);
  if (mkdir(path, 0777)) exit(1);
  static const float zeros[64 * 64];
  Onnx__TensorProto *x = build_loose_tensor(b, REED_F32, "64,64", zeros);
  unsigned char *packed = malloc(onnx__tensor_proto__get_packed_size(x));
  if (!packed) exit(1);
  n = onnx__tensor_proto__pack(x, packed);
  write_bytes(path, "input_0.pb", packed, n);
  write_bytes(path, "output_0.pb", packed, n);
  free(packed);
  build_close(&b);
}

/* ---- a decoder ----
 * Layers of causal attention over caches [batch, heads, length, size] that grow by Concat, with weights from a
 * generator of its own. The tokens of the examples' test are onnxruntime's for this model (decoder_tokens.txt). The
 * masked one is the same with the tokens' mask and places as inputs. */

enum { WIDTH = 32, HEADS = 2, SIZE = WIDTH / HEADS, LAYERS = 2, TOKENS = 60, PLACES = 256 };

static uint32_t weight_state = 1;

/* Weights of the given range, as an initializer. */
static void weights(onnx_build *b, const char *name, int rows, int columns, float range) {
  char dims[32];
  float *elements = malloc(sizeof *elements * (size_t)(rows * columns));
  if (!elements) exit(1);
  for (int i = 0; i < rows * columns; i++) {
    weight_state = weight_state * 1664525u + 1013904223u;
    elements[i] = ((float)(weight_state >> 8) / 8388608 - 1) * range;
  }
  snprintf(dims, sizeof dims, "%d,%d", rows, columns);
  build_f32(b, name, dims, elements);
  free(elements);
}

/* The name of a layer's value, valid for some more calls. */
static const char *name_in(int layer, const char *text) {
  static char names[8][64];
  static int next;
  next = (next + 1) % 8;
  snprintf(names[next], sizeof names[next], "l%d.%s", layer, text);
  return names[next];
}
#define NAME(text) name_in(layer, text)

/* A node of a layer, whose output has the layer's number in front. */
static build_node_t *layer_node(onnx_build *b, int layer, const char *op, const char *first, const char *second,
                                const char *output) {
  char inputs[128], result[64];
  snprintf(inputs, sizeof inputs, "%s%s%s", first, *second ? "," : "", second);
  snprintf(result, sizeof result, "l%d.%s", layer, output);
  return build_node(b, op, inputs, result);
}

/* q, k or v as [batch, heads, length, size]. */
static void write_heads(onnx_build *b, int layer, const char *part) {
  char matrix[16], flat[16], split[16];
  snprintf(matrix, sizeof matrix, "w%s", part);
  snprintf(flat, sizeof flat, "%s1", part);
  snprintf(split, sizeof split, "%s2", part);
  weights(b, NAME(matrix), WIDTH, WIDTH, 0.45f);
  layer_node(b, layer, "MatMul", NAME("normed"), NAME(matrix), flat);
  layer_node(b, layer, "Reshape", NAME(flat), "split", split);
  build_ints(b, layer_node(b, layer, "Transpose", NAME(split), "", part), "perm", "0,2,1,3");
}

static void write_layer(onnx_build *b, int layer, const char *x) {
  char past[8], grown[8];
  const char *const caches[] = {"k", "v"};
  build_int(b, layer_node(b, layer, "LayerNormalization", x, "ones", "normed"), "axis", -1);
  write_heads(b, layer, "q");
  for (int i = 0; i < 2; i++) {
    write_heads(b, layer, caches[i]);
    char operands[64];
    snprintf(past, sizeof past, "p%d", 2 * layer + i);
    snprintf(grown, sizeof grown, "n%d", 2 * layer + i);
    snprintf(operands, sizeof operands, "%s,%s", past, NAME(caches[i]));
    build_int(b, build_node(b, "Concat", operands, grown), "axis", 2);
    build_input(b, past, "f32[b,2,past,16]");
    build_output(b, grown, "f32[b,2,all,16]");
  }
  snprintf(past, sizeof past, "n%d", 2 * layer);
  build_ints(b, layer_node(b, layer, "Transpose", past, "", "kt"), "perm", "0,1,3,2");
  layer_node(b, layer, "MatMul", NAME("q"), NAME("kt"), "scores");
  layer_node(b, layer, "Mul", NAME("scores"), "scale", "scaled");
  layer_node(b, layer, "Add", NAME("scaled"), "mask", "masked");
  build_int(b, layer_node(b, layer, "Softmax", NAME("masked"), "", "weights"), "axis", -1);
  layer_node(b, layer, "MatMul", NAME("weights"), grown, "values");
  build_ints(b, layer_node(b, layer, "Transpose", NAME("values"), "", "turned"), "perm", "0,2,1,3");
  layer_node(b, layer, "Reshape", NAME("turned"), "merged", "attended");
  weights(b, NAME("wo"), WIDTH, WIDTH, 0.4f);
  layer_node(b, layer, "MatMul", NAME("attended"), NAME("wo"), "mixed");
  layer_node(b, layer, "Add", x, NAME("mixed"), "between");
  build_int(b, layer_node(b, layer, "LayerNormalization", NAME("between"), "ones", "normed2"), "axis", -1);
  weights(b, NAME("w1"), WIDTH, 2 * WIDTH, 0.4f);
  weights(b, NAME("w2"), 2 * WIDTH, WIDTH, 0.4f);
  layer_node(b, layer, "MatMul", NAME("normed2"), NAME("w1"), "wide");
  layer_node(b, layer, "Relu", NAME("wide"), "", "active");
  layer_node(b, layer, "MatMul", NAME("active"), NAME("w2"), "narrow");
  layer_node(b, layer, "Add", NAME("between"), NAME("narrow"), "y");
}

static void write_decoder(const char *folder, const char *name, bool masked) {
  onnx_build *b = build_open(17);
  float ones[WIDTH];
  weight_state = 1;
  for (int i = 0; i < WIDTH; i++) ones[i] = 1;
  build_input(b, "ids", "i64[b,t]");
  if (masked) build_input(b, "attention_mask", "i64[b,m]"), build_input(b, "position_ids", "i64[b,t]");
  build_output(b, "logits", "f32[b,t,60]");
  build_f32(b, "ones", "32", ones);
  build_f32(b, "scale", "", (float[]){0.25f});
  build_f32(b, "hidden", "", (float[]){-1e9f});
  build_f32(b, "zero", "", (float[]){0});
  build_i64(b, "split", "4", (int64_t[]){0, 0, HEADS, SIZE});
  build_i64(b, "merged", "3", (int64_t[]){0, 0, WIDTH});
  build_i64(b, "i0", "", (int64_t[]){0});
  build_i64(b, "i1", "", (int64_t[]){1});
  build_i64(b, "i2", "", (int64_t[]){2});
  build_i64(b, "axis1", "1", (int64_t[]){1});
  weights(b, "embedding", TOKENS, WIDTH, 1);
  weights(b, "place", PLACES, WIDTH, 1);
  build_node(b, "Shape", "ids", "ids_shape");
  build_node(b, "Gather", "ids_shape,i1", "t");
  build_node(b, "Shape", "p0", "past_shape");
  build_node(b, "Gather", "past_shape,i2", "past");
  build_node(b, "Add", "past,t", "all");
  build_node(b, "Range", "past,all,i1", "queries");
  build_node(b, "Range", "i0,all,i1", "keys");
  build_node(b, "Unsqueeze", "queries,axis1", "rows");
  build_node(b, "LessOrEqual", "keys,rows", "seen");
  if (masked) {
    build_i64(b, "axes12", "2", (int64_t[]){1, 2});
    build_node(b, "Unsqueeze", "attention_mask,axes12", "numbers");
    build_int(b, build_node(b, "Cast", "numbers", "kept"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL);
    build_node(b, "And", "seen,kept", "shown");
  }
  build_node(b, "Where", masked ? "shown,zero,hidden" : "seen,zero,hidden", "mask");
  build_node(b, "Gather", "embedding,ids", "embedded");
  build_node(b, "Gather", masked ? "place,position_ids" : "place,queries", "placed");
  build_node(b, "Add", "embedded,placed", "x");
  for (int layer = 0; layer < LAYERS; layer++) write_layer(b, layer, layer ? "l0.y" : "x");
  build_int(b, build_node(b, "LayerNormalization", "l1.y,ones", "last"), "axis", -1);
  weights(b, "head", WIDTH, TOKENS, 1);
  build_node(b, "MatMul", "last,head", "logits");
  write_model(folder, name, b);
}

int main(int n_arguments, char **arguments) {
  if (n_arguments != 2) return 2;
  const char *folder = arguments[1];
  write_escapes(folder);
  write_external(folder, "beside.onnx", (char *)"beside.bin");
  write_external(folder, "linked.onnx", (char *)"link.bin");
  write_external(folder, "above.onnx", (char *)"../outside.bin");
  write_bytes(folder, "beside.bin", (float[]){1, 2, 3}, 12);
  write_endless(folder);
  write_decoder(folder, "decoder.onnx", false);
  write_decoder(folder, "masked.onnx", true);
  return 0;
}
