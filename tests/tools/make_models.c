/* Makes ONNX models for the tests of the command that no exporter writes: names with escape sequences, external data, a
 * loop without end. Writes them into the given folder. */
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

/* Every name in it would move the cursor, begin a line or turn the text around. */
static void write_escapes(const char *folder) {
  onnx_build *b = build_open(17);
  build_input(b, "x" RED "\nvm: all is well" TURNED, "f32[n\x1b,3]");
  build_f32(b, "w\x1b", "3,1", (float[]){1, 2, 3});
  build_node(b, "MatMul", "x" RED "\nvm: all is well" TURNED ",w\x1b", "y" C1 "\x7f");
  build_output(b, "y" C1 "\x7f", "f32");
  write_model(folder, "escapes.onnx", b);

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

int main(int n_arguments, char **arguments) {
  if (n_arguments != 2) return 2;
  const char *folder = arguments[1];
  write_escapes(folder);
  write_external(folder, "beside.onnx", (char *)"beside.bin");
  write_external(folder, "linked.onnx", (char *)"link.bin");
  write_external(folder, "above.onnx", (char *)"../outside.bin");
  write_bytes(folder, "beside.bin", (float[]){1, 2, 3}, 12);
  write_endless(folder);
  return 0;
}
