/* The assembler and the disassembler: round trips byte for byte, expected texts, and errors that name line and column.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "bytecode/format.h"
#include "bytecode/text/text.h"
#include "loader/loader.h"
#include "reed/reed.h"
#include "tests/alloc_hook.h"
#include "tests/suite.h"

static char *read_text(const char *path) {
  FILE *f = fopen(path, "rb");
  ck_assert_msg(f != NULL, "%s", path);
  char *text = calloc(1, 1 << 20);
  ck_assert_uint_lt(fread(text, 1, (1 << 20) - 1, f), (1 << 20) - 1);
  fclose(f);
  return text;
}

static reed_diagnosis *diagnosis(void) {
  reed_diagnosis *d;
  ck_assert_int_eq(reed_diagnosis_open(&d), REED_OK);
  return d;
}

static void *assemble(const char *text, size_t *out_n) {
  reed_diagnosis *d = diagnosis();
  void *bytes = NULL;
  reed_status status = reed_module_assemble(text, NULL, &bytes, out_n, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  return bytes;
}

static char *disassemble(const void *bytes, size_t n) {
  reed_diagnosis *d = diagnosis();
  char *text = NULL;
  reed_status status = reed_module_disassemble(bytes, n, NULL, &text, d);
  ck_assert_msg(status == REED_OK, "%s", reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
  return text;
}

static const char *const sources[] = {"everything.rasm", "tree.rasm"};
static char *source(int i) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", getenv("TEST_FOLDER"), sources[i]);
  return read_text(path);
}

START_TEST(disassembled_text_assembles_to_the_same_bytes) {
  char *text = source(_i);
  size_t n, n_again;
  void *bytes = assemble(text, &n);
  char *dis = disassemble(bytes, n);
  void *again = assemble(dis, &n_again);
  ck_assert_uint_eq(n, n_again);
  ck_assert_mem_eq(bytes, again, n);
  char *dis_again = disassemble(again, n_again);
  ck_assert_str_eq(dis, dis_again);
  mem_free(bytes), mem_free(again), mem_free(dis), mem_free(dis_again), free(text);
}
END_TEST

START_TEST(a_loaded_module_is_written_as_it_was_read) {
  char *text = source(_i);
  size_t n;
  void *bytes = assemble(text, &n);
  module *m;
  module_memory again;
  reed_module_sink sink = module_memory_sink(&again);
  ck_assert_int_eq(loader_open_bytes(bytes, n, &(load_options){0}, &m, NULL), REED_OK);
  ck_assert_int_eq(module_write(m, &sink, NULL), REED_OK);
  ck_assert_uint_eq(n, again.n);
  ck_assert_mem_eq(bytes, again.bytes, n);
  module_close(&m);
  mem_free(bytes), mem_free(again.bytes), free(text);
}
END_TEST

START_TEST(disassembly_is_golden) {
  char *text = source(0), path[1024];
  snprintf(path, sizeof path, "%s/golden/everything.txt", getenv("TEST_FOLDER"));
  size_t n;
  void *bytes = assemble(text, &n);
  char *dis = disassemble(bytes, n), *golden = read_text(path);
  ck_assert_str_eq(dis, golden);
  mem_free(bytes), mem_free(dis), free(golden), free(text);
}
END_TEST

#define MAIN ".function main ()\n  return [], []\n"
START_TEST(escapes_are_the_characters_that_they_name) {
  size_t n, n_plain;
  void *bytes = assemble(".module \"\\u202e \\u0041\\u00e9\\uFFFF\\u0001\"\n" MAIN, &n),
       *plain = assemble(".module \"\xe2\x80\xae A\xc3\xa9\xef\xbf\xbf\\x01\"\n" MAIN, &n_plain);
  ck_assert_uint_eq(n, n_plain);
  ck_assert_mem_eq(bytes, plain, n);
  mem_free(bytes), mem_free(plain);
}
END_TEST

/* A terminal would obey U+009B and U+202E. */
START_TEST(characters_that_a_terminal_obeys_are_escaped) {
  size_t n, n_again;
  void *bytes = assemble(".module \"\\u202e \\u009b2J\\x1b[31m\\u2066\\u061c\\x7f\\u00e9\"\n" MAIN, &n);
  char *dis = disassemble(bytes, n);
  ck_assert_ptr_nonnull(strstr(dis, ".module \"\\u202e \\u009b2J\\x1b[31m\\u2066\\u061c\\x7f\xc3\xa9\""));
  void *again = assemble(dis, &n_again);
  ck_assert_uint_eq(n, n_again);
  ck_assert_mem_eq(bytes, again, n);
  mem_free(bytes), mem_free(again), mem_free(dis);
}
END_TEST

static const struct {
  const char *text, *message;
} mistakes[] = {
    {".module \"m\"\n.function main ()\n  retrun [], []\n",
     "line 3, column 3: there is no instruction 'retrun'; did you mean 'return'?"},
    {".modul \"m\"\n", "line 1, column 1: there is no directive '.modul'; did you mean '.module'?"},
    {".function main ()\n  jump lop\nloop:\n  jump loop\n",
     "line 2, column 8: there is no label 'lop' in this function; did you mean 'loop'?"},
    {".function main ()\nx:\nx:\n  jump x\n", "line 3, column 1: label 'x' has been defined in line 2"},
    {".const weights = f32[1] {1}\n.function main ()\n  const r0, weigts, host\n",
     "line 3, column 13: there is no constant 'weigts'; did you mean 'weights'?"},
    {".function main ()\n  s.const s0\n", "line 2, column 13: 's.const' wants another operand, 'value'"},
    {".function main ()\n  s.const s0, 1 2\n", "line 2, column 17: '2' is too much on this line"},
    {".function main ()\n  s.const r0, 1\n", "line 2, column 11: a register is expected here: s0, s1 ..."},
    {".function main ()\n  s.const s9999999, 1\n", "line 2, column 11: a register is expected here: s0, s1 ..."},
    {".function main ()\n  s.const s0, 99999999999999999999\n", "line 2, column 15: this is no number"},
    {".const a = f32[3] {1, 2}\n", "line 1, column 19: 2 elements are given, the type has 3"},
    {".const a = i8[1] {128}\n", "line 1, column 19: an element must be between -128 and 127"},
    {".const a = f32[4] base64 {\"AAA\"}\n", "line 1, column 27: this is no base64"},
    {".const a = f31[1] {1}\n", "line 1, column 12: a dtype is expected here"},
    {".const a = f32[1] {1}\n.const a = f32[1] {2}\n", "line 2, column 8: constant 'a' has been defined in line 1"},
    {".type a = f32[1, 2, 3, 4, 5, 6, 7, 8, 9]\n", "line 1, column 39: a type has at most 8 axes"},
    {".module \"abc\n", "line 1, column 9: this string has no end"},
    {".module \"\\q\"\n", "line 1, column 9: an escape in a string"},
    {".module \"\\u0000\"\n", "line 1, column 9: an escape in a string"},
    {".module \"\\u20\"\n", "line 1, column 9: an escape in a string"},
    {".module \"\\udc00\"\n", "line 1, column 9: an escape in a string"},
    {".module \"\\U0001f600\"\n", "line 1, column 9: an escape in a string"},
    {".module \"\xff\"\n", "line 1, column 9: a string must be UTF-8"},
    {".site a = Add (2 1)\n", "line 1, column 18: '->' is expected here"},
    {"  return [], []\n", "line 1, column 3: code stands behind a .function only"},
    {".function main ()\n  call man, [], [], [], []\n",
     "line 2, column 8: there is no function 'man'; did you mean 'main'?"},
    {".function main ()\n  $\n", "line 2, column 3: a character that means nothing here (0x24)"},
    {".function main ()\n  shape.like r0, r0, hots\n",
     "line 2, column 22: host, device or a device's number is expected here"},
    {".function main ()\n  epoch.enter 0, a, [r0:valu], []\n", "line 2, column 25: what is read is expected here"},
    {"", "module builder: a module needs a main function"},
};

START_TEST(a_mistake_is_named_with_its_line_and_column) {
  reed_diagnosis *d = diagnosis();
  void *bytes;
  size_t n;
  ck_assert_int_lt(reed_module_assemble(mistakes[_i].text, NULL, &bytes, &n, d), 0);
  ck_assert_msg(strncmp(reed_diagnosis_message(d), mistakes[_i].message, strlen(mistakes[_i].message)) == 0,
                "wanted: %s\ngot:    %s", mistakes[_i].message, reed_diagnosis_message(d));
  reed_diagnosis_close(&d);
}
END_TEST

START_TEST(floats_read_back_bit_for_bit) {
  uint64_t seed = 1;
  for (int i = 0; i < 20000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double f64, back;
    char text[NUMBER_BYTES];
    uint64_t bits = seed ^ seed >> 29;
    memcpy(&f64, &bits, 8);
    ck_assert_ptr_nonnull(number_read(number_text(f64, 17, text), &back));
    ck_assert_msg(memcmp(&f64, &back, 8) == 0, "%s", text);
    float f32, f32_back;
    memcpy(&f32, &bits, 4);
    if (f32 != f32) continue;
    ck_assert_ptr_nonnull(number_read(number_text(f32, 9, text), &back));
    f32_back = (float)back;
    ck_assert_msg(memcmp(&f32, &f32_back, 4) == 0, "%s", text);
  }
}
END_TEST

START_TEST(every_allocation_of_the_assembler_and_the_disassembler_may_fail) {
  char *text = source(0);
  size_t n;
  void *bytes = assemble(text, &n);
  reed_diagnosis *d = diagnosis();
  for (int64_t k = 1, more = 1; more; k++) {
    alloc_hook_begin();
    alloc_hook_fail_at(k);
    void *again = NULL;
    char *dis = NULL;
    size_t n_again;
    reed_status status = reed_module_assemble(text, NULL, &again, &n_again, d);
    if (status == REED_OK) status = reed_module_disassemble(again, n_again, NULL, &dis, d);
    mem_free(again), mem_free(dis);
    more = alloc_hook_failed();
    ck_assert_int_eq(alloc_hook_end(), 0);
    ck_assert_msg(status == (more ? REED_ERROR_MEMORY : REED_OK), "request %ld: %s", (long)k,
                  reed_diagnosis_message(d));
  }
  reed_diagnosis_close(&d);
  mem_free(bytes), free(text);
}
END_TEST

START_TEST(damaged_text_never_crashes) {
  char *text = source(0);
  size_t n_text = strlen(text);
  char *copy = malloc(n_text + 1);
  uint64_t seed = 7;
  for (int i = 0; i < 4000; i++) {
    memcpy(copy, text, n_text + 1);
    for (int k = 0; k < 3; k++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      static const char letters[] = "[]{}():,@#\"\n .;-+0919rsxe_\\";
      size_t at = (seed >> 33) % n_text;
      if (seed >> 63) copy[at] = letters[(seed >> 20) % (sizeof letters - 1)];
      else
        memmove(copy + at, copy + at + (seed >> 25) % 8 % (n_text - at),
                n_text - at - (seed >> 25) % 8 % (n_text - at) + 1);
    }
    void *bytes = NULL;
    size_t n;
    if (reed_module_assemble(copy, NULL, &bytes, &n, NULL) == REED_OK) mem_free(bytes);
  }
  free(copy), free(text);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("text");
  TCase *c = tcase_create("text");
  tcase_set_timeout(c, 120);
  suite_add_tcase(suite, c);
  tcase_add_loop_test(c, disassembled_text_assembles_to_the_same_bytes, 0, 2);
  tcase_add_loop_test(c, a_loaded_module_is_written_as_it_was_read, 0, 2);
  tcase_add_test(c, disassembly_is_golden);
  tcase_add_test(c, escapes_are_the_characters_that_they_name);
  tcase_add_test(c, characters_that_a_terminal_obeys_are_escaped);
  tcase_add_loop_test(c, a_mistake_is_named_with_its_line_and_column, 0, (int)(sizeof mistakes / sizeof *mistakes));
  tcase_add_test(c, floats_read_back_bit_for_bit);
  tcase_add_test(c, every_allocation_of_the_assembler_and_the_disassembler_may_fail);
  tcase_add_test(c, damaged_text_never_crashes);
  return suite_run(suite);
}
