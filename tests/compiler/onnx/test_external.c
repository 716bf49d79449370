/* Tensors in files beside the model: the part of a file that a tensor reads, and the files that a model may name. */
#include <sys/stat.h>
#include <unistd.h>

#include "reed/compiler.h"
#include "tests/compiler/front.h"
#include "tests/suite.h"

static Onnx__StringStringEntryProto entry(char *key, char *value) {
  Onnx__StringStringEntryProto e = ONNX__STRING_STRING_ENTRY_PROTO__INIT;
  e.key = key;
  e.value = value;
  return e;
}

/* Reads y = w where w[3] is at `location`, `offset`, `length` (NULL: not said) below a folder that has 16 bytes 1 2 3 4
 * (f32) in "w.bin". */
static void read_external(front *f, char *location, char *offset, char *length, bool give_folder) {
  char folder[] = "/tmp/reed-test-XXXXXX", path[64];
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/w.bin", folder);
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite((float[]){1, 2, 3, 4}, 4, 4, file), 4);
  fclose(file);
  onnx_build *b = build_open(13);
  Onnx__TensorProto *w = build_f32(b, "w", "3", (float[]){0, 0, 0});
  w->has_raw_data = false;
  w->has_data_location = true;
  w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
  Onnx__StringStringEntryProto entries[3] = {entry("location", location), entry("offset", offset),
                                             entry("length", length)},
                               *list[3];
  size_t n = 0;
  for (int i = 0; i < 3; i++)
    if (entries[i].value) list[n++] = &entries[i];
  w->external_data = list;
  w->n_external_data = n;
  build_node(b, "Identity", "w", "y");
  build_output(b, "y", "f32");
  size_t n_bytes;
  const void *bytes = build_pack(b, &n_bytes);
  front_read_bytes(f, bytes, n_bytes, give_folder ? folder : NULL);
  build_close(&b);
  unlink(path);
  rmdir(folder);
}

START_TEST(external_tensors_are_read_at_their_offset) {
  front f;
  read_external(&f, "w.bin", "4", "12", true);
  front_ok(&f);
  ck_assert_double_eq(front_element(front_node(&f, OP_Identity)->inputs[0], 2), 4);
  front_fini(&f);
  read_external(&f, "w.bin", NULL, NULL, true);
  front_ok(&f);
  ck_assert_double_eq(front_element(front_node(&f, OP_Identity)->inputs[0], 2), 3);
  front_fini(&f);
}
END_TEST

START_TEST(external_tensors_outside_their_file_or_folder_are_refused) {
  static const struct {
    char *location, *offset, *length;
    reed_status status;
    const char *says;
  } cases[] = {
      {"w.bin", "8", "12", REED_ERROR_FORMAT, "bytes 8..20 are wanted"},
      {"w.bin", "-4", "12", REED_ERROR_FORMAT, "is not a size"},
      {"w.bin", "9223372036854775807", "12", REED_ERROR_FORMAT, "is not a size"},
      {"w.bin", "99999999999999999999", "12", REED_ERROR_FORMAT, "is not a size"},
      {"w.bin", "0", "16", REED_ERROR_FORMAT, "has 12 bytes, its external data says 16"},
      {"../w.bin", NULL, NULL, REED_ERROR_FORMAT, "is not below the model's folder"},
      {"a/../../w.bin", NULL, NULL, REED_ERROR_FORMAT, "is not below the model's folder"},
      {"a/..", NULL, NULL, REED_ERROR_IO, "cannot be read"},
      {"/etc/passwd", NULL, NULL, REED_ERROR_FORMAT, "is not below the model's folder"},
      {NULL, NULL, NULL, REED_ERROR_FORMAT, "is not below the model's folder"},
      {".", NULL, NULL, REED_ERROR_IO, "it is not a file"},
      {"no.bin", NULL, NULL, REED_ERROR_IO, "cannot be read"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    front f;
    read_external(&f, cases[i].location, cases[i].offset, cases[i].length, true);
    front_says(&f, cases[i].status, cases[i].says);
    front_fini(&f);
  }
  front f;
  read_external(&f, "w.bin", NULL, NULL, false);
  front_says(&f, REED_ERROR_IO, "no folder for external files is given");
  front_fini(&f);
}
END_TEST

/* ---- links ---- */

/* A folder of its own with the files and links of a test. */
typedef struct tree {
  char root[32];
} tree;

static const char *in_tree(const tree *t, const char *path) {
  static char out[4][256];
  static int next;
  next = (next + 1) % 4;
  snprintf(out[next], sizeof out[next], "%s/%s", t->root, path);
  return out[next];
}

static void put_folder(const tree *t, const char *path) { ck_assert_int_eq(mkdir(in_tree(t, path), 0700), 0); }
static void put_link(const tree *t, const char *path, const char *to) {
  ck_assert_int_eq(symlink(to, in_tree(t, path)), 0);
}
static void put_bytes(const tree *t, const char *path, const void *bytes, size_t n) {
  FILE *file = fopen(in_tree(t, path), "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
  fclose(file);
}

/* A model at `path` whose n tensors w[3] are each in the file `location`. */
static void put_models(const tree *t, const char *path, const char *location, int n_tensors) {
  onnx_build *b = build_open(13);
  Onnx__StringStringEntryProto where = entry("location", (char *)location), *list[] = {&where};
  for (int i = 0; i < n_tensors; i++) {
    char name[16], result[16];
    snprintf(name, sizeof name, "w%d", i);
    snprintf(result, sizeof result, "y%d", i);
    Onnx__TensorProto *w = build_f32(b, name, "3", (float[]){0, 0, 0});
    w->has_raw_data = false;
    w->has_data_location = true;
    w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w->external_data = list;
    w->n_external_data = 1;
    build_node(b, "Neg", name, result);
    build_output(b, result, "f32");
  }
  size_t n;
  const void *bytes = build_pack(b, &n);
  put_bytes(t, path, bytes, n);
  build_close(&b);
}

static void put_model(const tree *t, const char *path, const char *location) { put_models(t, path, location, 1); }

static tree make_tree(void) {
  tree t = {"/tmp/reed-test-XXXXXX"};
  ck_assert_ptr_nonnull(mkdtemp(t.root));
  put_folder(&t, "model");
  put_folder(&t, "model/sub");
  put_folder(&t, "model2");
  put_folder(&t, "blobs");
  put_bytes(&t, "secret", (float[]){9, 9, 9}, 12);
  put_bytes(&t, "model2/w", (float[]){9, 9, 9}, 12);
  put_bytes(&t, "model/w", (float[]){1, 2, 3}, 12);
  put_bytes(&t, "model/sub/w", (float[]){1, 2, 3}, 12);
  put_bytes(&t, "blobs/5a1", (float[]){1, 2, 3}, 12);
  put_link(&t, "model/to_secret", "../secret");
  put_link(&t, "model/to_to_secret", "to_secret");
  put_link(&t, "model/to_w", "w");
  put_link(&t, "model/sub/up", "..");
  put_link(&t, "model/out", "..");
  put_bytes(&t, "few", "", 1);
  put_link(&t, "model/absolute", in_tree(&t, "few"));
  put_link(&t, "model/to_model2", "../model2/w");
  put_link(&t, "model/data", "../blobs/5a1");
  put_link(&t, "model/loop", "loop");
  ck_assert_int_eq(mkfifo(in_tree(&t, "model/fifo"), 0600), 0);
  return t;
}

static void remove_tree(const tree *t) {
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", t->root);
  ck_assert_int_eq(system(command), 0);
}

static void note_path(void *context, const char *path) { snprintf(context, 256, "%s", path); }

static reed_status compile(const char *path, bool anywhere, char read[256], reed_diagnosis *d) {
  void *bytes = NULL;
  size_t n;
  read[0] = 0;
  reed_compile_options options = {.external_anywhere = anywhere, .reading = note_path, .reading_context = read};
  reed_diagnosis_clear(d);
  reed_status status = reed_compile_file(path, &options, &bytes, &n, NULL, d);
  mem_free(bytes);
  return status;
}

START_TEST(external_files_lie_in_the_models_folder_links_followed) {
  static const struct {
    const char *location;
    reed_status status, anywhere;
  } cases[] = {
      {"w", REED_OK, REED_OK},
      {"sub/w", REED_OK, REED_OK},
      {"sub/../w", REED_OK, REED_OK},
      {"./sub//w", REED_OK, REED_OK},
      {"to_w", REED_OK, REED_OK},
      {"sub/up/w", REED_OK, REED_OK},
      {"to_secret", REED_ERROR_FORMAT, REED_OK},
      {"to_to_secret", REED_ERROR_FORMAT, REED_OK},
      {"out/secret", REED_ERROR_FORMAT, REED_OK},
      {"sub/up/../secret", REED_ERROR_FORMAT, REED_OK}, /* ".." is the parent of the link's target */
      {"to_model2", REED_ERROR_FORMAT, REED_OK}, /* a sibling folder whose name begins with the model folder's name */
      {"data", REED_ERROR_FORMAT, REED_OK},
      {"../secret", REED_ERROR_FORMAT, REED_OK},
      {"sub/../../secret", REED_ERROR_FORMAT, REED_OK},
      {"absolute", REED_ERROR_FORMAT, REED_ERROR_FORMAT}, /* with the option only the file's size is wrong */
      {"/etc/passwd", REED_ERROR_FORMAT, REED_OK},
      {"loop", REED_ERROR_IO, REED_ERROR_IO},
      {"fifo", REED_ERROR_IO, REED_ERROR_IO},
      {"sub", REED_ERROR_IO, REED_ERROR_IO},
  };
  tree t = make_tree();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    reed_diagnosis d;
    char read[256];
    put_model(&t, "model/m.onnx", cases[i].location);
    reed_status status = compile(in_tree(&t, "model/m.onnx"), false, read, &d);
    ck_assert_msg(status == cases[i].status, "%s: %s: %s", cases[i].location, reed_status_name(status), d.message);
    if (status == REED_ERROR_FORMAT) ck_assert_ptr_nonnull(strstr(d.message, "is not below the model's folder"));
    ck_assert_msg((status == REED_OK) == (read[0] != 0), "%s: '%s'", cases[i].location, read);
    status = compile(in_tree(&t, "model/m.onnx"), true, read, &d);
    ck_assert_msg(status == cases[i].anywhere, "%s: %s: %s", cases[i].location, reed_status_name(status), d.message);
  }
  remove_tree(&t);
}
END_TEST

/* As Hugging Face's cache has it: the model and its data are links into one folder of files. */
START_TEST(external_files_may_lie_where_the_models_own_links_lead) {
  tree t = make_tree();
  reed_diagnosis d;
  char read[256];
  put_model(&t, "blobs/77c", "data");
  put_link(&t, "model/m.onnx", "../blobs/77c");
  ck_assert_msg(compile(in_tree(&t, "model/m.onnx"), false, read, &d) == REED_OK, "%s", d.message);
  ck_assert_ptr_nonnull(strstr(read, "/blobs/5a1"));
  /* a link that leaves the folder of files is refused */
  put_model(&t, "blobs/77c", "to_secret");
  ck_assert_int_eq(compile(in_tree(&t, "model/m.onnx"), false, read, &d), REED_ERROR_FORMAT);
  ck_assert_ptr_nonnull(strstr(d.message, "/secret"));
  ck_assert_ptr_nonnull(strstr(d.message, "--external-anywhere"));
  remove_tree(&t);
}
END_TEST

typedef struct reader {
  int n, at, cancel; /* files opened so far; number of the file at which the compilation is cancelled */
} reader;

static void cancel_reading(void *context, const char *path) {
  reader *r = context;
  r->cancel |= ++r->n == r->at;
}

/* The file that is open is read no further, and no other one is opened. */
START_TEST(reading_external_tensors_is_cancelled) {
  tree t = make_tree();
  reed_diagnosis d;
  put_models(&t, "model/m.onnx", "w", 5);
  for (int at = 1; at <= 6; at++) {
    reader r = {.at = at};
    void *bytes = NULL;
    size_t n;
    reed_diagnosis_clear(&d);
    reed_compile_options options = {.reading = cancel_reading, .reading_context = &r, .cancel = &r.cancel};
    reed_status status = reed_compile_file(in_tree(&t, "model/m.onnx"), &options, &bytes, &n, NULL, &d);
    ck_assert_int_eq(status, at <= 5 ? REED_ERROR_CANCELLED : REED_OK);
    ck_assert_int_eq(r.n, at <= 5 ? at : 5);
    mem_free(bytes);
  }
  remove_tree(&t);
}
END_TEST

START_TEST(a_pipe_is_no_model) {
  tree t = make_tree();
  reed_diagnosis d;
  char read[256];
  ck_assert_int_eq(compile(in_tree(&t, "model/fifo"), false, read, &d), REED_ERROR_IO);
  ck_assert_ptr_nonnull(strstr(d.message, "it is not a file"));
  remove_tree(&t);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("onnx_external");
  TCase *t = tcase_create("onnx_external");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, external_tensors_are_read_at_their_offset);
  tcase_add_test(t, external_tensors_outside_their_file_or_folder_are_refused);
  tcase_add_test(t, external_files_lie_in_the_models_folder_links_followed);
  tcase_add_test(t, external_files_may_lie_where_the_models_own_links_lead);
  tcase_add_test(t, reading_external_tensors_is_cancelled);
  tcase_add_test(t, a_pipe_is_no_model);
  suite_add_tcase(suite, t);
  return suite_run(suite);
}
